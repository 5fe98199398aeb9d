//! Pipes: reading, creating, changing, cloning, deleting.

use crate::access::{self, Level};
use crate::ctx::{Answer, Args, Body, Ctx, parse_time, stamp};
use crate::error::GqlError;
use crate::json::{copy, flag, link, links, set, text, texts_at};
use crate::object::{Property, Root};
use crate::store::{By, Links};
use crate::values;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) const ROOTS: &[Root] = &[
    Root::public("pipe", |ctx, args| {
        let (pipe, _) = access::pipe(ctx, &args.need("id")?)?;
        Ok(link("pipe", text(&pipe, "id")))
    }),
    Root::public("pipes", |ctx, args| {
        let mut seen = Vec::new();
        for id in args.texts("ids").unwrap_or_default() {
            if let Ok((pipe, _)) = access::pipe(ctx, &id) {
                seen.push(text(&pipe, "id").to_owned());
            }
        }
        Ok(links("pipe", seen))
    }),
    Root::public("createPipe", create),
    Root::public("updatePipe", update),
    Root::public("deletePipe", delete),
    Root::public("clonePipes", clone),
];

const PIPE: &[&str] = &["Pipe"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(PIPE, "phases", |ctx, pipe, _| {
        if !ready(ctx, pipe) {
            return Ok(json!([]));
        }
        let phases = super::phases::visible(ctx, text(pipe, "id"))?;
        Ok(links("phase", phases.iter().map(|p| text(p, "id"))))
    }),
    Property::of(PIPE, "start_form_fields", |ctx, pipe, _| {
        if !ready(ctx, pipe) {
            return Ok(json!([]));
        }
        super::fields::links_of(ctx, text(pipe, "startFormPhaseId"))
    }),
    Property::of(&["Pipe", "Table", "ConnectedTable"], "labels", |ctx, repo, _| {
        let labels = ctx.children("label", text(repo, "id"))?;
        Ok(links("label", labels.iter().map(|l| text(l, "id"))))
    }),
    Property::of(PIPE, "members", |ctx, pipe, args| super::members::members(ctx, &scope(pipe), args)),
    Property::of(PIPE, "users", |ctx, pipe, args| super::members::users(ctx, &scope(pipe), args)),
    Property::of(PIPE, "users_count", |ctx, pipe, _| Ok(json!(ctx.store.count("member", By::Parent, &scope(pipe))?))),
    Property::of(&["Pipe", "Table", "ConnectedTable"], "organization", |_, repo, _| {
        Ok(link("organization", text(repo, "organization_id")))
    }),
    Property::of(PIPE, "cards_count", |ctx, pipe, _| {
        Ok(json!(ctx.store.count("card", By::Parent, text(pipe, "id"))?))
    }),
    Property::of(PIPE, "opened_cards_count", |ctx, pipe, _| {
        let cards = ctx.children("card", text(pipe, "id"))?;
        Ok(json!(cards.iter().filter(|c| text(c, "finished_at").is_empty()).count()))
    }),
    Property::of(PIPE, "role", |ctx, pipe, _| {
        let role = access::role(ctx, &scope(pipe), &ctx.viewer)?;
        let admin = access::is_org_admin(ctx, text(pipe, "organization_id"))?;
        Ok(json!(role.or(admin.then(|| "admin".to_owned()))))
    }),
    Property::of(PIPE, "title_field", |_, pipe, _| Ok(link("field", text(pipe, "title_field_id")))),
    Property::of(PIPE, "parentsRelations", |ctx, pipe, _| {
        let rows = ctx.grouped("relation", text(pipe, "id"))?;
        Ok(links("relation", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "childrenRelations", |ctx, pipe, args| {
        let rows = ctx.children("relation", text(pipe, "id"))?;
        let only_tables = args.flag("only_tables") == Some(true);
        let kept = rows.iter().filter(|r| !only_tables || text(r, "child_kind") == "table");
        Ok(links("relation", kept.map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "fieldConditions", |ctx, pipe, _| {
        let rows = ctx.grouped("condition", text(pipe, "id"))?;
        Ok(links("condition", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "startFormFieldConditions", |ctx, pipe, _| {
        let rows = ctx.children("condition", text(pipe, "startFormPhaseId"))?;
        Ok(links("condition", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "webhooks", |ctx, pipe, _| {
        if access::pipe_level(ctx, pipe)? != Level::Admin {
            return Err(GqlError::denied());
        }
        let rows = ctx.grouped("webhook", &scope(pipe))?;
        Ok(links("webhook", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "reports", |ctx, pipe, _| {
        let rows = ctx.children("pipe_report", text(pipe, "id"))?;
        Ok(links("pipe_report", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PIPE, "permissions", |ctx, pipe, _| Ok(permissions(access::pipe_level(ctx, pipe)?))),
    Property::of(PIPE, "last_updated_by_card", |ctx, pipe, _| {
        let cards = ctx.children("card", text(pipe, "id"))?;
        Ok(json!(cards.iter().map(|c| text(c, "updated_at")).max()))
    }),
    Property::of(PIPE, "publicForm", |ctx, pipe, _| {
        let mut form = pipe.get("publicFormSettings").filter(|v| v.is_object()).cloned().unwrap_or_else(|| json!({}));
        set(&mut form, "id", text(pipe, "startFormPhaseId"));
        set(&mut form, "active", flag(pipe, "public_form"));
        set(&mut form, "url", format!("{}/public/form/{}", ctx.base_url, text(pipe, "suid")));
        Ok(form)
    }),
    Property::of(&["PublicPipe", "PublicTable"], "createButtonLabel", |_, repo, _| {
        Ok(repo
            .get("create_card_label")
            .or_else(|| repo.get("create_record_button_label"))
            .cloned()
            .unwrap_or_default())
    }),
];

/// What a level allows, in the words of the API.
pub(super) fn permissions(level: Level) -> Value {
    let admin = level == Level::Admin;
    json!({
        "configure_repo": admin, "create_item": level.creates(), "delete_item": level.edits(), "delete_repo": admin,
        "manage_field": admin, "manage_label": admin, "show_repo": level != Level::None,
    })
}

pub(super) fn scope(pipe: &Value) -> String {
    format!("pipe:{}", text(pipe, "id"))
}

/// A clone shows no phases and fields until its copy is done.
fn ready(ctx: &Ctx<'_>, pipe: &Value) -> bool {
    parse_time(text(pipe, "ready_at")).is_none_or(|at| at <= ctx.now)
}

const COLORS: [&str; 12] =
    ["blue", "cyan", "gray", "green", "indigo", "lime", "orange", "pink", "purple", "red", "sky", "yellow"];

/// A new pipe without phases, with its hidden start form phase. The creator becomes its administrator.
pub(crate) fn new_pipe(ctx: &Ctx<'_>, org: &str, name: &str, extra: &Value) -> Result<Body, GqlError> {
    let (id, uuid, form) = (ctx.new_id("pipe")?, ctx.new_uuid()?, ctx.new_id("phase")?);
    let mut body = json!({
        "id": id, "uuid": uuid, "suid": ctx.store.next_alnum()?, "name": name, "noun": "card", "icon": "pipefy", "color": "blue",
        "organization_id": org, "startFormPhaseId": form, "created_at": ctx.stamp(), "public": false, "public_form": false,
        "anyone_can_create_card": false, "only_admin_can_remove_cards": false, "only_assignees_can_edit_cards": false,
        "create_card_label": "Create new card", "emailAddress": format!("{}@pipes.pipefy.example", id),
        "expiration_time_by_unit": Value::Null, "expiration_unit": Value::Null,
        "preferences": {
            "startFormTitle": "Create new card", "inboxEmailEnabled": true, "mainTabViews": [], "aiAgentsEnabled": true,
            "enableExternalGuests": false, "hiddenStartFormAttributes": [], "hiddenTopButtons": [],
        },
    });
    copy(&mut body, extra, &["icon", "color", "description", "noun"]);
    merge(&mut body, "preferences", extra.get("preferences"));
    let pipe = ctx.put("pipe", &id, &Links::parent(org).uuid(&uuid), body)?;
    let form_body = json!({
        "id": form, "uuid": ctx.new_uuid()?, "name": "Start form", "pipe_id": id, "index": 0.0, "done": false, "isDraft": true,
        "created_at": ctx.stamp(), "moves": [],
    });
    ctx.put("phase", &form, &Links::parent(&id).pos(-1.0), form_body)?;
    super::members::join(ctx, &format!("pipe:{id}"), &ctx.viewer, "admin")?;
    Ok(pipe)
}

fn merge(body: &mut Value, key: &str, from: Option<&Value>) {
    let Some(from) = from.and_then(Value::as_object) else { return };
    let mut merged = body.get(key).filter(|v| v.is_object()).cloned().unwrap_or_else(|| json!({}));
    for (name, value) in from {
        set(&mut merged, name, value.clone());
    }
    set(body, key, merged);
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = ctx.must("organization", "Organization", &input.need("organization_id")?)?;
    let org_id = text(&org, "id").to_owned();
    let admin = access::is_org_admin(ctx, &org_id)?;
    let normal = matches!(
        access::role(ctx, &super::organizations::scope(&org), &ctx.viewer)?.as_deref(),
        Some("normal" | "member")
    );
    if !admin && (!normal || flag(&org, "only_admin_can_create_pipes")) {
        return Err(GqlError::denied());
    }
    let name = input.need("name")?;
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let pipe = new_pipe(ctx, &org_id, &name, &input.0)?;
    let id = text(&pipe, "id").to_owned();
    let default = json!([{ "name": "Inbox" }, { "name": "Doing" }, { "name": "Done", "done": true }]);
    let phases = input.get("phases").filter(|p| p.as_array().is_some_and(|p| !p.is_empty())).unwrap_or(&default);
    for (index, phase) in phases.as_array().into_iter().flatten().enumerate() {
        super::phases::new_phase(ctx, &id, text(phase, "name"), (index + 1) as f64, phase)?;
    }
    super::phases::all_to_all(ctx, &id)?;
    for label in input.get("labels").and_then(Value::as_array).into_iter().flatten() {
        let label_id = ctx.new_id("label")?;
        let body = json!({ "id": label_id, "name": text(label, "name"), "color": text(label, "color"), "pipe_id": id });
        ctx.put("label", &label_id, &Links::parent(&id), body)?;
    }
    for member in input.get("members").and_then(Value::as_array).into_iter().flatten() {
        super::members::join(ctx, &format!("pipe:{id}"), text(member, "user_id"), text(member, "role_name"))?;
    }
    for field in input.get("start_form_fields").and_then(Value::as_array).into_iter().flatten() {
        let form = ctx.must("phase", "Phase", text(&pipe, "startFormPhaseId"))?;
        super::fields::new_field(ctx, &form, "phase_id", &id, text(field, "label"), text(field, "type_id"), field)?;
    }
    Ok(json!({ "pipe": link("pipe", &id) }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("id")?)?;
    let mut body = (*pipe).clone();
    if input.text("name").is_some_and(|name| name.trim().is_empty()) {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    if let Some(color) = input.text("color").filter(|c| !COLORS.contains(&c.as_str())) {
        return Err(GqlError::invalid(format!("Color {color:?} is not included in the list: {}", COLORS.join(", "))));
    }
    const KEYS: [&str; 10] = [
        "expiration_time_by_unit",
        "expiration_unit",
        "icon",
        "color",
        "noun",
        "only_admin_can_remove_cards",
        "only_assignees_can_edit_cards",
        "public",
        "public_form",
        "name",
    ];
    copy(&mut body, &input.0, &KEYS);
    merge(&mut body, "preferences", input.get("preferences"));
    merge(&mut body, "publicFormSettings", input.get("publicFormSettings"));
    let id = text(&pipe, "id").to_owned();
    if let Some(slug) = input.text("title_field_id") {
        let field = values::field_by_slug(ctx, &id, &slug)?.ok_or_else(|| GqlError::not_found("Field", &slug))?;
        set(&mut body, "title_field_id", text(&field, "internal_id"));
    }
    ctx.save("pipe", &id, body)?;
    Ok(json!({ "pipe": link("pipe", &id) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let pipe = access::managed_pipe(ctx, &args.input().need("id")?)?;
    let id = text(&pipe, "id").to_owned();
    for card in ctx.children("card", &id)? {
        super::cards::bury(ctx, text(&card, "id"))?;
    }
    for kind in ["field", "condition", "relation", "automation"] {
        for row in ctx.grouped(kind, &id)? {
            let key = if kind == "field" { "internal_id" } else { "id" };
            ctx.remove(kind, text(&row, key))?;
        }
    }
    for kind in ["phase", "label", "relation", "pipe_report"] {
        for row in ctx.children(kind, &id)? {
            ctx.remove(kind, text(&row, "id"))?;
        }
    }
    for member in ctx.children("member", &scope(&pipe))? {
        ctx.remove("member", &format!("{}/{}", scope(&pipe), text(&member, "user_id")))?;
    }
    ctx.remove("pipe", &id)?;
    Ok(json!({ "success": true }))
}

/// How long a clone stays empty.
const CLONE_TIME: SignedDuration = SignedDuration::from_millis(600);

fn clone(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let target = input.text("organization_id");
    let mut clones = Vec::new();
    for template in input.texts("pipe_template_ids").unwrap_or_default() {
        let (source, level) = access::pipe(ctx, &template)?;
        if !level.reads_all() {
            return Err(GqlError::denied());
        }
        let org = access::managed_organization(ctx, target.as_deref().unwrap_or(text(&source, "organization_id")))?;
        let copy = clone_pipe(ctx, &source, text(&org, "id"))?;
        clones.push(link("pipe", text(&copy, "id")));
    }
    Ok(json!({ "pipes": clones }))
}

/// Phases, fields, labels and conditions are copied with new ids and the same slugs; cards and members are not.
fn clone_pipe(ctx: &Ctx<'_>, source: &Value, org: &str) -> Result<Body, GqlError> {
    let pipe = new_pipe(ctx, org, text(source, "name"), source)?;
    let (from, to) = (text(source, "id").to_owned(), text(&pipe, "id").to_owned());
    let mut phases: HashMap<String, String> =
        HashMap::from([(text(source, "startFormPhaseId").to_owned(), text(&pipe, "startFormPhaseId").to_owned())]);
    for phase in ctx.children("phase", &from)?.iter().filter(|p| !flag(p, "isDraft")) {
        let index = phase.get("index").and_then(Value::as_f64).unwrap_or_default();
        let copy = super::phases::new_phase(ctx, &to, text(phase, "name"), index, phase)?;
        phases.insert(text(phase, "id").to_owned(), text(&copy, "id").to_owned());
    }
    for (old, new) in &phases {
        let moves = ctx.get("phase", old)?.map(|p| texts_at(&p, "moves")).unwrap_or_default();
        let moved: Vec<&String> = moves.iter().filter_map(|m| phases.get(m)).collect();
        if let Some(phase) = ctx.get("phase", new)? {
            let mut body = (*phase).clone();
            set(&mut body, "moves", json!(moved));
            ctx.save("phase", new, body)?;
        }
    }
    let mut fields: HashMap<String, String> = HashMap::new();
    for field in ctx.grouped("field", &from)? {
        let Some(phase) = phases.get(text(&field, "phase_id")) else { continue };
        let phase = ctx.must("phase", "Phase", phase)?;
        let copy = super::fields::copy_field(ctx, &field, &phase, &to)?;
        fields.insert(text(&field, "internal_id").to_owned(), text(&copy, "internal_id").to_owned());
    }
    for label in ctx.children("label", &from)? {
        let id = ctx.new_id("label")?;
        let mut body = (*label).clone();
        set(&mut body, "id", id.as_str());
        set(&mut body, "pipe_id", to.as_str());
        ctx.put("label", &id, &Links::parent(&to), body)?;
    }
    for condition in ctx.grouped("condition", &from)? {
        super::conditions::copy_condition(ctx, &condition, &phases, &fields, &to)?;
    }
    let mut body = (*ctx.must("pipe", "Pipe", &to)?).clone();
    if let Some(title) = fields.get(text(source, "title_field_id")) {
        set(&mut body, "title_field_id", title.as_str());
    }
    set(&mut body, "clone_from_id", text(source, "id"));
    let ready_at = ctx.now.checked_add(CLONE_TIME).map(|at| at.to_string()).unwrap_or_else(|_| stamp(ctx.now));
    set(&mut body, "ready_at", ready_at);
    ctx.save("pipe", &to, body)
}
