//! Records of database tables.

use crate::access::{self, Level};
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::events::{self, Cause};
use crate::json::{flag, link, set, text, texts, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::store::Links;
use crate::values;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("table_record", |ctx, args| {
        let (record, _, _) = access::record(ctx, &args.need("id")?)?;
        Ok(link("table_record", text(&record, "id")))
    }),
    Root::public("table_records", |ctx, args| {
        let (table, level) = access::table(ctx, &args.need("table_id")?)?;
        let search = args.get("search").filter(|search| super::cards::asks(search));
        if search.is_none() && level.reads_all() {
            return page::of_ids(
                "table_record",
                &ctx.child_ids("table_record", text(&table, "id"))?,
                args,
                page::PIPE_PAGE,
            );
        }
        page::connection(matching(ctx, &table, level, search)?, args, page::PIPE_PAGE)
    }),
    Root::public("findRecords", find),
    Root::public("createTableRecord", create),
    Root::public("updateTableRecord", update),
    Root::public("setTableRecordFieldValue", set_value),
    Root::public("deleteTableRecord", delete),
];

const RECORD: &[&str] = &["TableRecord"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(RECORD, "record_fields", |ctx, record, _| {
        Ok(json!(values::entries(ctx, record, text(record, "table_id"))?))
    }),
    Property::of(RECORD, "table", |_, record, _| Ok(link("table", text(record, "table_id")))),
    Property::of(&["TableRecord", "PublicTableRecord"], "status", |ctx, record, _| {
        let table = ctx.get("table", text(record, "table_id"))?;
        let statuses = table.and_then(|t| t.get("statuses").and_then(Value::as_array).cloned()).unwrap_or_default();
        Ok(statuses.into_iter().find(|s| text(s, "id") == text(record, "status_id")).unwrap_or_default())
    }),
];

/// The records of a table that a search finds, as rows for a page.
pub(super) fn matching(
    ctx: &Ctx<'_>,
    table: &Value,
    level: Level,
    search: Option<&Value>,
) -> Result<Vec<(String, Value)>, GqlError> {
    if !level.reads_all() {
        return Err(GqlError::denied());
    }
    let empty = Value::Null;
    let search = search.unwrap_or(&empty);
    let title = text(search, "title").to_lowercase();
    let list = |key: &str| search.get(key).filter(|v| !v.is_null()).map(texts).filter(|ids| !ids.is_empty());
    let (assignees, labels, ignored) = (list("assignee_ids"), list("label_ids"), list("ignore_ids"));
    let mut rows: Vec<_> = ctx.children("table_record", text(table, "id"))?;
    rows.retain(|r| {
        let any = |wanted: &Option<Vec<String>>, key: &str| {
            wanted.as_ref().is_none_or(|w| texts_at(r, key).iter().any(|id| w.contains(id)))
        };
        text(r, "title").to_lowercase().contains(&title)
            && any(&assignees, "assignee_ids")
            && any(&labels, "label_ids")
            && ignored.as_ref().is_none_or(|ids| !ids.iter().any(|i| i == text(r, "id")))
    });
    if text(search, "orderField") == "title" {
        rows.sort_by_key(|r| text(r, "title").to_owned());
    }
    if text(search, "orderDirection").eq_ignore_ascii_case("desc") {
        rows.reverse();
    }
    Ok(rows.iter().map(|r| (text(r, "id").to_owned(), link("table_record", text(r, "id")))).collect())
}

/// `findRecords` answers with card-shaped nodes, although they are records.
fn find(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (table, level) = access::table(ctx, &args.need("tableId")?)?;
    if !level.reads_all() {
        return Err(GqlError::denied());
    }
    let search = args.get("search").cloned().unwrap_or_default();
    let field = super::tables::field(ctx, text(&table, "id"), text(&search, "fieldId"))?;
    let mut rows = Vec::new();
    for record in
        super::cards::candidates(ctx, "table_record", text(&table, "id"), &field, text(&search, "fieldValue"))?
    {
        if super::cards::has_value(ctx, &record, &field, text(&search, "fieldValue"))? {
            rows.push((text(&record, "id").to_owned(), link("table_record", text(&record, "id"))));
        }
    }
    page::connection(rows, args, page::PIPE_PAGE)
}

/// The title follows the table's title field.
fn title(ctx: &Ctx<'_>, table: &Value, record: &Value) -> Result<Option<String>, GqlError> {
    let Some(field) = ctx.get("field", text(table, "title_field_id"))? else { return Ok(None) };
    let shown = values::display(ctx, &field, &values::stored(record, &field))?;
    Ok(Some(shown.join(", ")).filter(|t| !t.is_empty()))
}

/// A unique field holds each value once per table.
fn check_unique(ctx: &Ctx<'_>, field: &Value, value: &Value, own: &str) -> Result<(), GqlError> {
    if !flag(field, "unique") || value.is_null() {
        return Ok(());
    }
    let records = ctx.children_with("table_record", text(field, "table_id"), value)?;
    if records.iter().any(|r| text(r, "id") != own && values::stored(r, field) == *value) {
        return Err(GqlError::not_saved(format!("Field \"{}\" has already been taken", text(field, "label"))));
    }
    Ok(())
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (table, level) = access::table(ctx, &input.need("table_id")?)?;
    if !level.creates() {
        return Err(GqlError::denied());
    }
    let id = new_record(ctx, &table, &input)?;
    Ok(json!({ "table_record": link("table_record", &id) }))
}

/// Stores a new record, created by the caller, and tells the table's webhooks; its id.
pub(super) fn new_record(ctx: &Ctx<'_>, table: &Value, input: &Args) -> Result<String, GqlError> {
    let table_id = text(table, "id").to_owned();
    let (id, uuid, now) = (ctx.new_id("table_record")?, ctx.new_uuid()?, ctx.stamp());
    let status = table.get("statuses").and_then(|s| s.get(0)).map(|s| text(s, "id").to_owned());
    let mut record = json!({
        "id": id, "uuid": uuid, "title": "", "table_id": table_id, "created_at": now, "updated_at": now, "created_by": ctx.viewer,
        "due_date": Value::Null, "finished_at": Value::Null, "assignee_ids": [], "label_ids": [], "values": {}, "status_id": status,
        "is_sample": false,
    });
    for attribute in input.get("fields_attributes").and_then(Value::as_array).into_iter().flatten() {
        let key = attribute.get("field_id").and_then(crate::json::scalar).unwrap_or_default();
        let field = super::tables::field(ctx, &table_id, &key)?;
        let value = values::accept(ctx, &field, attribute.get("field_value").unwrap_or(&Value::Null))?;
        check_unique(ctx, &field, &value, &id)?;
        values::write(&mut record, &field, value, &now);
    }
    let fields = ctx.children("field", &table_id)?;
    if let Some(field) = fields.iter().find(|f| flag(f, "required") && values::stored(&record, f).is_null()) {
        return Err(GqlError::not_saved(format!("Field \"{}\" is required", text(field, "label"))));
    }
    if let Some(due) = super::cards::due_date(input)? {
        set(&mut record, "due_date", due);
    }
    super::cards::checked_people_and_labels(ctx, &super::tables::scope(table), &table_id, input, &mut record)?;
    let named = title(ctx, table, &record)?.or(input.text("title")).unwrap_or_else(|| "Untitled".to_owned());
    set(&mut record, "title", named);
    let record = ctx.put("table_record", &id, &Links::parent(&table_id).uuid(&uuid), record)?;
    tell(ctx, "card.create", table, &record)?;
    Ok(id)
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (record, table) = access::editable_record(ctx, &input.need("id")?)?;
    let mut body = (*record).clone();
    if let Some(title) = input.text("title") {
        set(&mut body, "title", title);
    }
    if let Some(due) = super::cards::due_date(&input)? {
        set(&mut body, "due_date", due);
    }
    if let Some(status) = input.text("statusId") {
        let statuses = table.get("statuses").and_then(Value::as_array).cloned().unwrap_or_default();
        if !statuses.iter().any(|s| text(s, "id") == status) {
            return Err(GqlError::not_found("Status", &status));
        }
        set(&mut body, "status_id", status);
    }
    set(&mut body, "updated_at", ctx.stamp());
    ctx.save("table_record", text(&record, "id"), body)?;
    Ok(json!({ "table_record": link("table_record", text(&record, "id")) }))
}

fn set_value(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (record, table) = access::editable_record(ctx, &input.need("table_record_id")?)?;
    let field = super::tables::field(ctx, text(&table, "id"), &input.need("field_id")?)?;
    let value = values::accept(ctx, &field, input.get("value").unwrap_or(&Value::Null))?;
    if value.is_null() && flag(&field, "required") {
        return Err(GqlError::not_saved(format!("Field \"{}\" is required", text(&field, "label"))));
    }
    check_unique(ctx, &field, &value, text(&record, "id"))?;
    let mut body = (*record).clone();
    let now = ctx.stamp();
    values::write(&mut body, &field, value, &now);
    if text(&table, "title_field_id") == text(&field, "internal_id")
        && let Some(named) = title(ctx, &table, &body)?
    {
        set(&mut body, "title", named);
    }
    set(&mut body, "updated_at", now);
    let saved = ctx.save("table_record", text(&record, "id"), body)?;
    tell(ctx, "card.field_update", &table, &saved)?;
    Ok(json!({
        "table_record": link("table_record", text(&record, "id")),
        "table_record_field": values::entry(ctx, &saved, &field)?,
    }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (record, table) = access::editable_record(ctx, &args.input().need("id")?)?;
    tell(ctx, "card.delete", &table, &record)?;
    bury(ctx, text(&record, "id"))?;
    Ok(json!({ "success": true }))
}

/// Calls the webhooks of the table; records use the names of the card events.
fn tell(ctx: &Ctx<'_>, action: &str, table: &Value, record: &Value) -> Result<(), GqlError> {
    let data = json!({
        "action": action, "by": Cause::caller(ctx)?.who,
        "card": { "id": text(record, "id"), "title": text(record, "title"), "table_id": text(table, "id") },
    });
    events::notify(ctx, &super::tables::scope(table), text(table, "organization_id"), action, &data)
}

/// Removes a record and remembers that it existed.
pub(super) fn bury(ctx: &Ctx<'_>, id: &str) -> Result<(), GqlError> {
    ctx.remove("table_record", id)?;
    ctx.put("deleted", &format!("table_record:{id}"), &Links::default(), json!({ "at": ctx.stamp() }))?;
    Ok(())
}
