//! Fields of phases, start forms and tables.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, link, links, set, text};
use crate::object::{Property, Root};
use crate::store::Links;
use crate::values;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("createPhaseField", create),
    Root::public("updatePhaseField", update),
    Root::public("deletePhaseField", delete),
];

const ANY: &[&str] = &["PhaseField", "TableField"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["PhaseField"], "phase", |_, field, _| Ok(link("phase", text(field, "phase_id")))),
    Property::of(ANY, "connectedRepo", |ctx, field, _| connected(ctx, field)),
    Property::of(ANY, "connected_repo", |ctx, field, _| connected(ctx, field)),
    Property::of(ANY, "is_multiple", |_, field, _| Ok(json!(values::is_list(text(field, "type"))))),
];

fn connected(ctx: &Ctx<'_>, field: &Value) -> Answer {
    let id = text(field, "connected_repo_id");
    for kind in ["pipe", "table"] {
        if !id.is_empty() && ctx.get(kind, id)?.is_some() {
            return Ok(link(kind, id));
        }
    }
    Ok(Value::Null)
}

/// Links to the fields of a phase or table, in order.
pub(super) fn links_of(ctx: &Ctx<'_>, parent: &str) -> Answer {
    let fields = ctx.children("field", parent)?;
    Ok(links("field", fields.iter().map(|f| text(f, "internal_id"))))
}

const SETTINGS: [&str; 16] = [
    "allChildrenMustBeDoneToFinishParent",
    "allChildrenMustBeDoneToMoveParent",
    "canConnectExisting",
    "canConnectMultiples",
    "canCreateNewConnected",
    "childMustExistToFinishParent",
    "custom_validation",
    "description",
    "editable",
    "help",
    "index",
    "minimal_view",
    "options",
    "required",
    "unique",
    "connected_repo_id",
];

/// A new field in a phase (`owner_key` `phase_id`) or table (`table_id`).
pub(crate) fn new_field(
    ctx: &Ctx<'_>,
    owner: &Value,
    owner_key: &str,
    repo: &str,
    label: &str,
    kind: &str,
    extra: &Value,
) -> Result<Body, GqlError> {
    if label.trim().is_empty() {
        return Err(GqlError::not_saved("Label can't be blank"));
    }
    if !values::TYPES.contains(&kind) {
        return Err(GqlError::not_found("Field type", kind));
    }
    let owner_id = text(owner, "id");
    let (id, uuid) = (ctx.new_id("field")?, ctx.new_uuid()?);
    let slug = values::slug(ctx, repo, label, None)?;
    let siblings = ctx.children("field", owner_id)?;
    let last = siblings.iter().filter_map(|f| f.get("index").and_then(Value::as_f64)).fold(0.0, f64::max);
    let mut body = json!({
        "id": slug, "internal_id": id, "uuid": uuid, "label": label, "type": kind, "required": false, "editable": true,
        "description": Value::Null, "help": Value::Null, "options": [], "index": last + 1.0, "minimal_view": false,
        "custom_validation": Value::Null, "synced_with_card": false, "index_name": format!("field_{id}_{}", index_type(kind)),
    });
    set(&mut body, owner_key, owner_id);
    set(&mut body, if owner_key == "phase_id" { "pipe_id" } else { "table_id" }, repo);
    copy(&mut body, extra, &SETTINGS);
    if let Some(synced) = extra.get("sync_with_card") {
        set(&mut body, "synced_with_card", synced.clone());
    }
    if kind == "connector" {
        let repo_id = extra.get("connectedRepoId").and_then(crate::json::scalar).unwrap_or_default();
        if !repo_id.is_empty() {
            let known = match ctx.find("pipe", &repo_id)? {
                Some(pipe) => text(&pipe, "id").to_owned(),
                None => text(&access::table(ctx, &repo_id)?.0, "id").to_owned(),
            };
            set(&mut body, "connected_repo_id", known);
        } else if text(&body, "connected_repo_id").is_empty() {
            return Err(GqlError::not_saved("Connected repo can't be blank"));
        }
        for key in ["canConnectExisting", "canConnectMultiples", "canCreateNewConnected"] {
            if body.get(key).is_none() {
                set(&mut body, key, true);
            }
        }
    }
    let at = position(owner, body.get("index").and_then(Value::as_f64).unwrap_or_default());
    let links = Links::parent(owner_id).group(repo).uuid(&uuid).pos(at);
    ctx.put("field", &id, &links, body)
}

/// Fields are listed in the order of their phases, then by index.
fn position(owner: &Value, index: f64) -> f64 {
    super::phases::index(owner) * 10_000.0 + index
}

fn index_type(kind: &str) -> &'static str {
    match kind {
        "number" | "currency" => "float",
        "date" => "date",
        "datetime" | "due_date" => "datetime",
        _ => "string",
    }
}

/// The same field with new ids in another pipe; the slug stays.
pub(super) fn copy_field(ctx: &Ctx<'_>, field: &Value, phase: &Value, pipe: &str) -> Result<Body, GqlError> {
    let (id, uuid) = (ctx.new_id("field")?, ctx.new_uuid()?);
    let mut body = field.clone();
    for (key, value) in
        [("internal_id", id.as_str()), ("uuid", uuid.as_str()), ("phase_id", text(phase, "id")), ("pipe_id", pipe)]
    {
        set(&mut body, key, value);
    }
    set(&mut body, "index_name", format!("field_{id}_{}", index_type(text(field, "type"))));
    let at = position(phase, field.get("index").and_then(Value::as_f64).unwrap_or_default());
    ctx.put("field", &id, &Links::parent(text(phase, "id")).group(pipe).uuid(&uuid).pos(at), body)
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (phase, pipe) = access::managed_phase(ctx, &input.need("phase_id")?)?;
    let (label, kind) = (input.need("label")?, input.need("type")?);
    let field = new_field(ctx, &phase, "phase_id", text(&pipe, "id"), &label, &kind, &input.0)?;
    Ok(json!({ "phase_field": link("field", text(&field, "internal_id")) }))
}

/// By uuid, else by slug. Slugs repeat across pipes, and the real API takes the first that it finds; so does this.
fn managed(ctx: &Ctx<'_>, id: &str, uuid: Option<&str>, pipe: Option<&str>) -> Result<Body, GqlError> {
    let mut candidates = Vec::new();
    if let Some(field) = match uuid {
        Some(uuid) => ctx.store.id_of_uuid("field", uuid)?,
        None => ctx.store.id_of_uuid("field", id)?,
    } {
        candidates.extend(ctx.get("field", &field)?);
    } else if uuid.is_none() {
        let repo = match pipe {
            Some(key) => Some(text(&access::pipe(ctx, key)?.0, "id").to_owned()),
            None => None,
        };
        let all = ctx.all("field")?;
        candidates.extend(all.into_iter().filter(|f| {
            text(f, "id") == id
                && !text(f, "phase_id").is_empty()
                && repo.as_deref().is_none_or(|r| text(f, "pipe_id") == r)
        }));
    }
    let mut denied = false;
    for field in candidates {
        match access::managed_pipe(ctx, text(&field, "pipe_id")) {
            Ok(_) => return Ok(field),
            Err(_) => denied = true,
        }
    }
    Err(if denied { GqlError::denied() } else { GqlError::not_found("Field", id) })
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let field = managed(ctx, &input.need("id")?, input.text("uuid").as_deref(), None)?;
    let id = text(&field, "internal_id").to_owned();
    let label = input.need("label")?;
    if label.trim().is_empty() {
        return Err(GqlError::not_saved("Label can't be blank"));
    }
    let mut body = (*field).clone();
    copy(&mut body, &input.0, &SETTINGS);
    if let Some(synced) = input.get("sync_with_card") {
        set(&mut body, "synced_with_card", synced.clone());
    }
    if label != text(&field, "label") {
        // The slug follows the label, as in the real API.
        set(&mut body, "id", values::slug(ctx, text(&field, "pipe_id"), &label, Some(&id))?);
        set(&mut body, "label", label);
    }
    let phase = ctx.must("phase", "Phase", text(&field, "phase_id"))?;
    let at = position(&phase, body.get("index").and_then(Value::as_f64).unwrap_or_default());
    let links = Links::parent(text(&phase, "id")).group(text(&field, "pipe_id")).uuid(text(&field, "uuid")).pos(at);
    ctx.put("field", &id, &links, body)?;
    Ok(json!({ "phase_field": link("field", &id) }))
}

/// Removes a field with its conditions' actions; values in cards become unreachable.
pub(super) fn drop_field(ctx: &Ctx<'_>, field: &Value) -> Result<bool, GqlError> {
    let id = text(field, "internal_id");
    for condition in ctx.grouped("condition", text(field, "pipe_id"))? {
        let actions = condition.get("actions").and_then(Value::as_array).cloned().unwrap_or_default();
        let left: Vec<Value> = actions.iter().filter(|a| text(a, "phaseFieldId") != id).cloned().collect();
        if left.len() < actions.len() {
            let mut body = (*condition).clone();
            set(&mut body, "actions", left);
            ctx.save("condition", text(&condition, "id"), body)?;
        }
    }
    ctx.remove("field", id)
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let field = managed(ctx, &input.need("id")?, None, input.text("pipeUuid").as_deref())?;
    Ok(json!({ "success": drop_field(ctx, &field)? }))
}
