//! Field values: what each field type accepts, how it is stored, how it reads.

use crate::ctx::{Ctx, parse_time, stamp};
use crate::error::GqlError;
use crate::json::{flag, link, links, set, text, texts};
use crate::storage;
use serde_json::{Map, Value, json};

/// The field types of the API.
pub(crate) const TYPES: [&str; 24] = [
    "assignee_select",
    "attachment",
    "checklist_horizontal",
    "checklist_vertical",
    "cnpj",
    "connector",
    "cpf",
    "currency",
    "date",
    "datetime",
    "due_date",
    "dynamic_content",
    "email",
    "id",
    "label_select",
    "long_text",
    "number",
    "phone",
    "radio_horizontal",
    "radio_vertical",
    "select",
    "short_text",
    "statement",
    "time",
];

/// Whether values of this type are lists.
pub(crate) fn is_list(kind: &str) -> bool {
    matches!(
        kind,
        "assignee_select" | "attachment" | "checklist_horizontal" | "checklist_vertical" | "connector" | "label_select"
    )
}

/// Checks an input and gives the form that is stored: null, text, or a list of texts. The error text names the field.
pub(crate) fn accept(ctx: &Ctx<'_>, field: &Value, input: &Value) -> Result<Value, GqlError> {
    let mut given: Vec<String> = texts(input).into_iter().filter(|v| !v.is_empty()).collect();
    let kind = text(field, "type");
    if kind == "attachment" || kind.starts_with("checklist") || kind == "connector" {
        // A list may also come as its JSON text.
        if let [only] = given.as_slice()
            && let Ok(Value::Array(items)) = serde_json::from_str::<Value>(only)
        {
            given = texts(&Value::Array(items));
        }
    }
    let label = text(field, "label");
    let wrong = |what: String| GqlError::invalid(format!("Field \"{label}\" {what}"));
    // An object is no value of any field; taken for an empty one it would wipe what is stored.
    if holds_object(input) {
        return Err(wrong(format!("takes {}, not an object", if is_list(kind) { "a list of texts" } else { "text" })));
    }
    if given.is_empty() {
        return Ok(Value::Null);
    }
    let options: Vec<String> = field.get("options").map(texts).unwrap_or_default();
    let no_option = |value: &str| wrong(format!("has no option {value:?}; its options are {}", options.join(", ")));
    if is_list(kind) {
        let mut kept = Vec::with_capacity(given.len());
        for value in given {
            let value = match kind {
                "attachment" => storage::key_of(&value)
                    .ok_or_else(|| wrong(format!("takes storage paths that start with orgs/, got {value:?}")))?,
                "assignee_select" => member_id(ctx, field, &value)?.ok_or_else(|| {
                    wrong(format!("takes ids of members, got {value:?}. See the members of the pipe"))
                })?,
                "label_select" => match ctx.get("label", &value)? {
                    Some(found) if same_repo(&found, field) => value,
                    _ => return Err(wrong(format!("takes label ids of the pipe, got {value:?}"))),
                },
                "connector" => connected_id(ctx, field, &value)?.ok_or_else(|| {
                    wrong(format!("takes ids of cards or records of the connected repository, got {value:?}"))
                })?,
                _ if options.contains(&value) => value,
                _ => return Err(no_option(&value)),
            };
            if !kept.contains(&value) {
                kept.push(value);
            }
        }
        if kind == "connector" && kept.len() > 1 && field.get("canConnectMultiples") == Some(&Value::Bool(false)) {
            return Err(wrong("connects one item only".to_owned()));
        }
        return Ok(json!(kept));
    }
    let value = given.into_iter().next().unwrap_or_default();
    let ok = match kind {
        "select" | "radio_horizontal" | "radio_vertical" => {
            if !options.contains(&value) {
                return Err(no_option(&value));
            }
            true
        }
        "number" | "currency" => value.parse::<f64>().is_ok_and(f64::is_finite),
        "date" => value.parse::<jiff::civil::Date>().is_ok(),
        "datetime" | "due_date" => parse_time(&value).is_some(),
        "time" => value.parse::<jiff::civil::Time>().is_ok(),
        "email" => value.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && domain.contains('.')),
        "cpf" => digits(&value).len() == 11,
        "cnpj" => digits(&value).len() == 14,
        "phone" => digits(&value).len() >= 8,
        "statement" | "id" | "dynamic_content" => return Err(wrong("cannot be written".to_owned())),
        _ => true,
    };
    if !ok {
        return Err(wrong(format!("does not accept {value:?} as {kind}{}", form_of(kind))));
    }
    if matches!(kind, "datetime" | "due_date") {
        return Ok(parse_time(&value).map_or(Value::Null, |at| Value::from(stamp(at))));
    }
    Ok(Value::from(value))
}

fn holds_object(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(holds_object),
        _ => false,
    }
}

/// How values of a type are written, to follow on a refusal.
fn form_of(kind: &str) -> &'static str {
    match kind {
        "number" | "currency" => "; it takes digits with a decimal point, such as 1234.56",
        "date" => "; it takes YYYY-MM-DD",
        "datetime" | "due_date" => "; it takes YYYY-MM-DD or a date-time with offset, such as 2026-01-31T10:00:00Z",
        "time" => "; it takes HH:MM",
        "email" => "; it takes an address, such as name@example.com",
        "cpf" => "; it takes 11 digits",
        "cnpj" => "; it takes 14 digits",
        "phone" => "; it takes at least 8 digits",
        _ => "",
    }
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

fn same_repo(label: &Value, field: &Value) -> bool {
    let repo = |v: &Value| [text(v, "pipe_id").to_owned(), text(v, "table_id").to_owned()];
    repo(label) == repo(field)
}

/// The user id of a member of the field's repository (or organization); accepts a user uuid.
fn member_id(ctx: &Ctx<'_>, field: &Value, value: &str) -> Result<Option<String>, GqlError> {
    let Some(user) = ctx.find("user", value)? else { return Ok(None) };
    let user = text(&user, "id").to_owned();
    let scope = if text(field, "pipe_id").is_empty() {
        format!("table:{}", text(field, "table_id"))
    } else {
        format!("pipe:{}", text(field, "pipe_id"))
    };
    let member = crate::access::role(ctx, &scope, &user)?.is_some();
    Ok(member.then_some(user))
}

fn connected_id(ctx: &Ctx<'_>, field: &Value, value: &str) -> Result<Option<String>, GqlError> {
    let repo = text(field, "connected_repo_id");
    for (kind, key) in [("card", "pipe_id"), ("table_record", "table_id")] {
        if let Some(item) = ctx.find(kind, value)?
            && (repo.is_empty() || text(&item, key) == repo)
        {
            return Ok(Some(text(&item, "id").to_owned()));
        }
    }
    Ok(None)
}

/// Adds, removes or replaces list items; for single values only the replacement counts.
pub(crate) fn combine(kind: &str, operation: &str, current: &Value, new: Value) -> Value {
    if !is_list(kind) {
        return if operation == "REMOVE" { Value::Null } else { new };
    }
    let (old, new) = (texts(current), texts(&new));
    let items: Vec<String> = match operation {
        "ADD" => old.iter().cloned().chain(new.into_iter().filter(|v| !old.contains(v))).collect(),
        "REMOVE" => old.into_iter().filter(|v| !new.contains(v)).collect(),
        _ => new,
    };
    if items.is_empty() { Value::Null } else { json!(items) }
}

/// The stored value of a field in a card or record; null when empty.
pub(crate) fn stored(item: &Value, field: &Value) -> Value {
    let slot = item.get("values").and_then(|v| v.get(text(field, "internal_id")));
    slot.and_then(|s| s.get("value")).cloned().unwrap_or_default()
}

/// Writes a stored value and its times into a card or record body.
pub(crate) fn write(item: &mut Value, field: &Value, value: Value, now: &str) {
    let key = text(field, "internal_id").to_owned();
    if item.get("values").is_none() {
        set(item, "values", Value::Object(Map::new()));
    }
    let Some(values) = item.get_mut("values").and_then(Value::as_object_mut) else { return };
    if value.is_null() {
        values.remove(&key);
        return;
    }
    let filled = values.get(&key).map(|slot| text(slot, "filled_at").to_owned()).filter(|t| !t.is_empty());
    let filled = filled.unwrap_or_else(|| now.to_owned());
    values.insert(key, json!({ "value": value, "filled_at": filled, "updated_at": now }));
}

/// The title of a card or record, empty when it is gone.
pub(crate) fn title_of(ctx: &Ctx<'_>, id: &str) -> Result<(&'static str, String), GqlError> {
    for kind in ["card", "table_record"] {
        if let Some(item) = ctx.get(kind, id)? {
            return Ok((kind, text(&item, "title").to_owned()));
        }
    }
    Ok(("", String::new()))
}

/// The value as the API prints it in `value`: plain text, or the JSON text of a list (titles, names, URLs).
pub(crate) fn display(ctx: &Ctx<'_>, field: &Value, value: &Value) -> Result<Vec<String>, GqlError> {
    let mut shown = Vec::new();
    for item in texts(value) {
        shown.push(match text(field, "type") {
            "connector" => title_of(ctx, &item)?.1,
            "assignee_select" => ctx.get("user", &item)?.map(|u| text(&u, "name").to_owned()).unwrap_or_default(),
            "label_select" => ctx.get("label", &item)?.map(|l| text(&l, "name").to_owned()).unwrap_or_default(),
            "attachment" => {
                storage::signed_url(ctx.store, ctx.base_url, "GET", &item, None, storage::DOWNLOAD_LIFE, ctx.now)?
            }
            _ => item,
        });
    }
    Ok(shown)
}

/// One entry of `fields` / `record_fields`, `None` when the field is empty.
pub(crate) fn entry(ctx: &Ctx<'_>, item: &Value, field: &Value) -> Result<Option<Value>, GqlError> {
    let value = stored(item, field);
    if value.is_null() {
        return Ok(None);
    }
    let slot = item.get("values").and_then(|v| v.get(text(field, "internal_id"))).cloned().unwrap_or_default();
    let kind = text(field, "type");
    let shown = display(ctx, field, &value)?;
    let printed = if is_list(kind) { json!(shown).to_string() } else { shown.first().cloned().unwrap_or_default() };
    let ids = texts(&value);
    let list = if kind == "attachment" { shown.clone() } else { ids.clone() };
    let number = matches!(kind, "number" | "currency").then(|| printed.parse::<f64>().ok()).flatten();
    let mut items = Vec::new();
    if kind == "connector" {
        for id in &ids {
            let (kind, _) = title_of(ctx, id)?;
            if !kind.is_empty() {
                items.push(link(kind, id));
            }
        }
    }
    let mut label_values = Vec::new();
    if kind == "label_select" {
        for id in &ids {
            label_values.extend(ctx.get("label", id)?.map(|l| (*l).clone()));
        }
    }
    let internal_id = text(field, "internal_id");
    Ok(Some(json!({
        "name": text(field, "label"),
        "value": printed,
        "report_value": printed,
        "native_value": if is_list(kind) { json!(ids).to_string() } else { printed.clone() },
        "array_value": if is_list(kind) { json!(list) } else { Value::Null },
        "float_value": number,
        "date_value": if kind == "date" { json!(printed) } else { Value::Null },
        "datetime_value": if matches!(kind, "datetime" | "due_date") { json!(printed) } else { Value::Null },
        "assignee_values": if kind == "assignee_select" { links("user", &ids) } else { Value::Null },
        "label_values": label_values,
        "connectedRepoItems": items, "connected_repo_items": items,
        "field": link("field", internal_id), "phase_field": link("field", internal_id),
        "indexName": text(field, "index_name"),
        "required": flag(field, "required"),
        "filled_at": slot.get("filled_at"), "updated_at": slot.get("updated_at"),
    })))
}

/// All filled fields of a card or record, in the order of the form.
pub(crate) fn entries(ctx: &Ctx<'_>, item: &Value, repo: &str) -> Result<Vec<Value>, GqlError> {
    let mut out = Vec::new();
    for field in ctx.grouped("field", repo)? {
        out.extend(entry(ctx, item, &field)?);
    }
    Ok(out)
}

/// The field of a repository with this slug; the id on the wire is the slug, never the uuid.
pub(crate) fn field_by_slug(ctx: &Ctx<'_>, repo: &str, slug: &str) -> Result<Option<crate::ctx::Body>, GqlError> {
    Ok(ctx.grouped("field", repo)?.into_iter().find(|f| text(f, "id") == slug))
}

/// A slug that no other field of the repository has: `Número do Pedido` -> `n_mero_do_pedido`, `..._1` when taken.
pub(crate) fn slug(ctx: &Ctx<'_>, repo: &str, label: &str, own: Option<&str>) -> Result<String, GqlError> {
    let base = slug_of(label);
    let fields = ctx.grouped("field", repo)?;
    let taken = |slug: &str| fields.iter().any(|f| text(f, "id") == slug && Some(text(f, "internal_id")) != own);
    if !taken(&base) {
        return Ok(base);
    }
    let free = (1..).map(|n| format!("{base}_{n}")).find(|slug| !taken(slug));
    Ok(free.unwrap_or(base))
}

/// Lower case, accents dropped, everything else an underscore.
pub(crate) fn slug_of(label: &str) -> String {
    let mut out = String::new();
    for c in label.trim().chars() {
        let plain = match c.to_lowercase().next().unwrap_or(c) {
            'á' | 'à' | 'â' | 'ã' | 'ä' => 'a',
            'é' | 'è' | 'ê' | 'ë' => 'e',
            'í' | 'ì' | 'î' | 'ï' => 'i',
            'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
            'ú' | 'ù' | 'û' | 'ü' => 'u',
            'ç' => 'c',
            'ñ' => 'n',
            other => other,
        };
        if plain.is_ascii_alphanumeric() {
            out.push(plain);
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    let slug = out.trim_end_matches('_').to_owned();
    if slug.is_empty() { "field".to_owned() } else { slug }
}
