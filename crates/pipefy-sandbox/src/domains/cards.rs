//! Cards: reading, searching, creating, changing, moving, deleting.

use crate::access::{self, Level};
use crate::ctx::{Answer, Args, Body, Ctx, parse_time};
use crate::error::GqlError;
use crate::events::{self, Cause, What};
use crate::json::{flag, link, links, set, text, texts, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::store::{By, Links};
use crate::values;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("card", |ctx, args| {
        let (card, _, _) = access::card(ctx, &args.need("id")?)?;
        Ok(link("card", text(&card, "id")))
    }),
    Root::public("cards", |ctx, args| {
        let (pipe, level) = access::pipe(ctx, &args.need("pipe_id")?)?;
        let search = args.get("search").filter(|search| asks(search));
        if search.is_none() && level.reads_all() {
            return page::of_ids("card", &ctx.child_ids("card", text(&pipe, "id"))?, args, page::PIPE_PAGE);
        }
        page::connection(matching(ctx, &pipe, level, None, search)?, args, page::PIPE_PAGE)
    }),
    Root::public("allCards", |ctx, args| {
        let (pipe, level) = access::pipe(ctx, &args.need("pipeId")?)?;
        page::connection(matching(ctx, &pipe, level, None, None)?, args, page::PIPE_PAGE)
    }),
    Root::public("findCards", find),
    Root::public("createCard", create),
    Root::public("updateCard", update),
    Root::public("updateCardField", update_field),
    Root::public("updateFieldsValues", update_values),
    Root::public("moveCardToPhase", move_to_phase),
    Root::public("deleteCard", delete),
];

const CARD: &[&str] = &["Card"];
/// The same card under its two names.
const BOTH: &[&str] = &["Card", "Record"];
/// Everything that looks like an item of a repository.
const ITEM: &[&str] = &["Card", "PublicCard", "PublicRepoItem"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(CARD, "pipe", |_, card, _| Ok(link("pipe", text(card, "pipe_id")))),
    Property::of(CARD, "repo", |_, card, _| Ok(link("pipe", text(card, "pipe_id")))),
    Property::of(CARD, "current_phase", |_, card, _| Ok(link("phase", text(card, "phase_id")))),
    Property::of(&["Record"], "currentPhase", |_, card, _| Ok(link("phase", text(card, "phase_id")))),
    Property::of(BOTH, "fields", |ctx, card, _| Ok(json!(values::entries(ctx, card, repo_of(card))?))),
    Property::of(&["Card", "Record", "TableRecord"], "assignees", |_, card, _| {
        Ok(links("user", texts_at(card, "assignee_ids")))
    }),
    Property::of(&["Card", "Record", "TableRecord"], "labels", |_, card, _| {
        Ok(links("label", texts_at(card, "label_ids")))
    }),
    Property::of(BOTH, "createdBy", |_, card, _| Ok(link("user", text(card, "created_by")))),
    Property::of(&["Card", "TableRecord"], "created_by", |_, card, _| Ok(link("user", text(card, "created_by")))),
    Property::of(CARD, "creatorEmail", |ctx, card, _| {
        Ok(json!(ctx.get("user", text(card, "created_by"))?.map(|u| text(&u, "email").to_owned())))
    }),
    Property::of(CARD, "comments", |ctx, card, _| {
        let rows = ctx.children("comment", text(card, "id"))?;
        Ok(links("comment", rows.iter().map(|c| text(c, "id"))))
    }),
    Property::of(CARD, "comments_count", |ctx, card, _| {
        Ok(json!(ctx.store.count("comment", By::Parent, text(card, "id"))?))
    }),
    Property::of(CARD, "attachments", |ctx, card, _| Ok(json!(attachments(ctx, card)?))),
    Property::of(CARD, "attachments_count", |ctx, card, _| Ok(json!(attachments(ctx, card)?.len()))),
    Property::of(CARD, "checklist_items_count", |ctx, card, _| Ok(json!(checklist(ctx, card)?.0))),
    Property::of(CARD, "checklist_items_checked_count", |ctx, card, _| Ok(json!(checklist(ctx, card)?.1))),
    Property::of(CARD, "child_relations", |ctx, card, args| {
        super::relations::of_card(ctx, card, true, args.text("child_repo_id").as_deref())
    }),
    Property::of(CARD, "parent_relations", |ctx, card, args| {
        super::relations::of_card(ctx, card, false, args.text("parent_repo_id").as_deref())
    }),
    Property::of(CARD, "phases_history", |_, card, _| Ok(card.get("history").cloned().unwrap_or_default())),
    Property::of(&["PhaseDetail"], "phase", |_, detail, _| Ok(link("phase", text(detail, "phase_id")))),
    Property::of(CARD, "age", |ctx, card, _| Ok(json!(seconds_since(ctx, text(card, "created_at"))))),
    Property::of(CARD, "current_phase_age", |ctx, card, _| {
        Ok(json!(seconds_since(ctx, text(card, "started_current_phase_at"))))
    }),
    Property::of(&["Card", "TableRecord"], "done", |_, card, _| Ok(json!(!text(card, "finished_at").is_empty()))),
    Property::of(CARD, "late", |ctx, card, _| {
        let phase = ctx.get("phase", text(card, "phase_id"))?;
        Ok(json!(phase.is_some_and(|p| is_late(ctx, card, &p))))
    }),
    Property::of(CARD, "overdue", |ctx, card, _| Ok(json!(is_overdue(ctx, card)))),
    Property::of(CARD, "expired", |_, _, _| Ok(json!(false))),
    Property::of(CARD, "inboxEmailsRead", |_, card, _| Ok(json!(flag(card, "inbox_emails_read")))),
    Property::of(CARD, "currentLateness", lateness),
    Property::of(
        &["Card", "PublicCard", "PublicRepoItem", "TableRecord", "PublicTableRecord"],
        "url",
        |ctx, item, _| Ok(json!(format!("{}{}", ctx.base_url, path(item)))),
    ),
    Property::of(
        &["Card", "PublicCard", "PublicRepoItem", "TableRecord", "PublicTableRecord"],
        "path",
        |_, item, _| Ok(json!(path(item))),
    ),
    Property::of(ITEM, "summary", |ctx, card, _| summary(ctx, card)),
    Property::of(ITEM, "summary_fields", |ctx, card, _| summary(ctx, card)),
    Property::of(&["PublicCard", "PublicRepoItem", "PublicTableRecord"], "icon", |_, _, _| {
        Ok(json!({ "name": "pipefy", "color": "blue" }))
    }),
    Property::of(CARD, "cardAssignees", |_, card, args| {
        let only = args.text("userId");
        let rows = texts_at(card, "assignee_ids").into_iter().filter(|id| only.as_ref().is_none_or(|o| o == id));
        Ok(json!(rows.map(|id| json!({ "id": id, "assignedAt": text(card, "updated_at") })).collect::<Vec<_>>()))
    }),
];

fn repo_of(item: &Value) -> &str {
    let pipe = text(item, "pipe_id");
    if pipe.is_empty() { text(item, "table_id") } else { pipe }
}

fn path(item: &Value) -> String {
    if text(item, "pipe_id").is_empty() {
        format!("/apollo_databases/{}/records/{}", text(item, "table_id"), text(item, "id"))
    } else {
        format!("/open-cards/{}", text(item, "id"))
    }
}

/// Whole seconds that fit the API's `Int`.
fn seconds_since(ctx: &Ctx<'_>, at: &str) -> i64 {
    parse_time(at).map_or(0, |at| (ctx.now.as_second() - at.as_second()).clamp(0, i64::from(i32::MAX)))
}

/// Longer in its phase than the phase allows.
pub(crate) fn is_late(ctx: &Ctx<'_>, card: &Value, phase: &Value) -> bool {
    let limit = phase.get("lateness_time").and_then(Value::as_i64).filter(|limit| *limit > 0);
    let open = text(card, "finished_at").is_empty();
    open && limit.is_some_and(|limit| seconds_since(ctx, text(card, "started_current_phase_at")) > limit)
}

pub(crate) fn is_overdue(ctx: &Ctx<'_>, card: &Value) -> bool {
    text(card, "finished_at").is_empty() && parse_time(text(card, "due_date")).is_some_and(|due| due < ctx.now)
}

fn lateness(ctx: &Ctx<'_>, card: &Value, _: &Args) -> Answer {
    let phase = ctx.get("phase", text(card, "phase_id"))?;
    let limit = phase.as_ref().and_then(|p| p.get("lateness_time")).and_then(Value::as_i64).filter(|l| *l > 0);
    let (Some(limit), Some(start)) = (limit, parse_time(text(card, "started_current_phase_at"))) else {
        return Ok(Value::Null);
    };
    let due = start.checked_add(jiff::SignedDuration::from_secs(limit)).map(crate::ctx::stamp).unwrap_or_default();
    let late = phase.is_some_and(|p| is_late(ctx, card, &p));
    Ok(json!({
        "id": text(card, "id"), "sla": limit, "shouldBecomeLateAt": due, "becameLateAt": late.then_some(due.clone()),
    }))
}

fn attachments(ctx: &Ctx<'_>, card: &Value) -> Result<Vec<Value>, GqlError> {
    let mut out = Vec::new();
    for field in ctx.grouped("field", text(card, "pipe_id"))?.iter().filter(|f| text(f, "type") == "attachment") {
        let keys = texts(&values::stored(card, field));
        for (key, url) in keys.iter().zip(values::display(ctx, field, &json!(keys))?) {
            out.push(json!({
                "path": key, "url": url, "createdAt": text(card, "updated_at").get(..10),
                "field": link("field", text(field, "internal_id")), "phase": link("phase", text(field, "phase_id")),
                "createdBy": link("user", text(card, "created_by")),
            }));
        }
    }
    Ok(out)
}

/// Items of all checklists of the card, and how many are checked.
fn checklist(ctx: &Ctx<'_>, card: &Value) -> Result<(usize, usize), GqlError> {
    let (mut all, mut checked) = (0, 0);
    for field in
        ctx.grouped("field", text(card, "pipe_id"))?.iter().filter(|f| text(f, "type").starts_with("checklist"))
    {
        all += field.get("options").map(texts).unwrap_or_default().len();
        checked += texts(&values::stored(card, field)).len();
    }
    Ok((all, checked))
}

/// The first filled fields, as the board shows them.
fn summary(ctx: &Ctx<'_>, card: &Value) -> Answer {
    let entries = values::entries(ctx, card, repo_of(card))?;
    let rows = entries.iter().take(3).map(|e| {
        json!({ "title": text(e, "name"), "value": text(e, "value"), "raw_value": text(e, "native_value"), "type": "field" })
    });
    Ok(json!(rows.collect::<Vec<_>>()))
}

/// Whether a search asks for anything.
pub(super) fn asks(search: &Value) -> bool {
    search.as_object().is_some_and(|search| search.values().any(|value| !value.is_null()))
}

/// The cards of a pipe (or one of its phases) that a search finds, as rows for a page.
pub(super) fn matching(
    ctx: &Ctx<'_>,
    pipe: &Value,
    level: Level,
    phase: Option<&str>,
    search: Option<&Value>,
) -> Result<Vec<(String, Value)>, GqlError> {
    let cards = match phase {
        Some(phase) => ctx.grouped("card", phase)?,
        None => ctx.children("card", text(pipe, "id"))?,
    };
    let empty = Value::Null;
    let search = search.unwrap_or(&empty);
    let title = text(search, "title").to_lowercase();
    let list = |key: &str| search.get(key).filter(|v| !v.is_null()).map(texts);
    let (assignees, labels, ignored) = (list("assignee_ids"), list("label_ids"), list("ignore_ids"));
    let union = text(search, "search_strategy") == "union";
    let rows = cards.iter().filter(|card| {
        let id = text(card, "id");
        let hits = |wanted: &Option<Vec<String>>, have: Vec<String>| match wanted {
            Some(wanted) if !wanted.is_empty() => Some(wanted.iter().any(|w| have.contains(w))),
            _ => None,
        };
        let tests: Vec<bool> = [
            (!title.is_empty()).then(|| text(card, "title").to_lowercase().contains(&title)),
            hits(&assignees, texts_at(card, "assignee_ids")),
            hits(&labels, texts_at(card, "label_ids")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let found = if union { tests.is_empty() || tests.contains(&true) } else { !tests.contains(&false) };
        let read = search.get("inbox_emails_read").and_then(Value::as_bool);
        let open_only = search.get("include_done") == Some(&Value::Bool(false));
        access::sees_card(ctx, level, card)
            && found
            && ignored.as_ref().is_none_or(|ids| !ids.iter().any(|i| i == id))
            && read.is_none_or(|read| flag(card, "inbox_emails_read") == read)
            && (!open_only || text(card, "finished_at").is_empty())
    });
    Ok(rows.map(|card| (text(card, "id").to_owned(), link("card", text(card, "id")))).collect())
}

fn find(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (pipe, level) = access::pipe(ctx, &args.need("pipeId")?)?;
    let search = args.get("search").cloned().unwrap_or_default();
    let slug = text(&search, "fieldId");
    let field =
        values::field_by_slug(ctx, text(&pipe, "id"), slug)?.ok_or_else(|| GqlError::not_found("Field", slug))?;
    let mut rows = Vec::new();
    for card in candidates(ctx, "card", text(&pipe, "id"), &field, text(&search, "fieldValue"))? {
        if access::sees_card(ctx, level, &card) && has_value(ctx, &card, &field, text(&search, "fieldValue"))? {
            rows.push((text(&card, "id").to_owned(), link("card", text(&card, "id"))));
        }
    }
    page::connection(rows, args, page::PIPE_PAGE)
}

/// The cards or records in which a field may equal a value, as far as their text shows it.
pub(super) fn candidates(
    ctx: &Ctx<'_>,
    kind: &str,
    parent: &str,
    field: &Value,
    wanted: &str,
) -> Result<Vec<Body>, GqlError> {
    // What such fields show is stored elsewhere.
    if is_listed(field) {
        return ctx.children(kind, parent);
    }
    ctx.children_with(kind, parent, &Value::from(wanted))
}

fn is_listed(field: &Value) -> bool {
    matches!(text(field, "type"), "connector" | "assignee_select" | "label_select")
}

/// Whether a field of a card or record equals a value, as stored or as shown.
pub(super) fn has_value(ctx: &Ctx<'_>, item: &Value, field: &Value, wanted: &str) -> Result<bool, GqlError> {
    let value = values::stored(item, field);
    if texts(&value).iter().any(|v| v == wanted) {
        return Ok(true);
    }
    Ok(is_listed(field) && values::display(ctx, field, &value)?.iter().any(|v| v == wanted))
}

/// Checks ids of assignees and labels against the pipe or table.
pub(super) fn checked_people_and_labels(
    ctx: &Ctx<'_>,
    scope: &str,
    repo: &str,
    input: &Args,
    body: &mut Value,
) -> Result<(), GqlError> {
    if let Some(ids) = input.texts("assignee_ids") {
        let mut users = Vec::new();
        for id in ids {
            let user = ctx.must("user", "User", &id)?;
            let user = text(&user, "id").to_owned();
            if access::role(ctx, scope, &user)?.is_none() {
                return Err(GqlError::invalid(format!("Assignee {id} is not a member")));
            }
            users.push(user);
        }
        set(body, "assignee_ids", json!(users));
    }
    if let Some(ids) = input.texts("label_ids") {
        for id in &ids {
            let known =
                ctx.get("label", id)?.is_some_and(|l| text(&l, "pipe_id") == repo || text(&l, "table_id") == repo);
            if !known {
                return Err(GqlError::not_found("Label", id));
            }
        }
        set(body, "label_ids", json!(ids));
    }
    Ok(())
}

/// Reads a due date; an empty text clears it.
pub(super) fn due_date(input: &Args) -> Result<Option<Value>, GqlError> {
    match input.text("due_date") {
        None => Ok(None),
        Some(date) if date.trim().is_empty() => Ok(Some(Value::Null)),
        Some(date) => {
            let at =
                parse_time(&date).ok_or_else(|| GqlError::invalid(format!("Due date {date:?} is not a valid date")))?;
            Ok(Some(Value::from(crate::ctx::stamp(at))))
        }
    }
}

/// The first required field of a phase or form that a card leaves empty. Hidden ones count too.
fn missing(ctx: &Ctx<'_>, card: &Value, phase: &str) -> Result<Option<Body>, GqlError> {
    let fields = ctx.children("field", phase)?;
    let unwritable = |kind: &str| matches!(kind, "statement" | "id" | "dynamic_content");
    Ok(fields
        .into_iter()
        .find(|f| flag(f, "required") && !unwritable(text(f, "type")) && values::stored(card, f).is_null()))
}

fn required(field: &Value) -> GqlError {
    GqlError::not_saved(format!("Field \"{}\" is required", text(field, "label")))
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (pipe, level) = access::pipe(ctx, &input.need("pipe_id")?)?;
    let pipe_id = text(&pipe, "id").to_owned();
    if !level.creates() && !flag(&pipe, "anyone_can_create_card") {
        return Err(GqlError::denied());
    }
    let phases = super::phases::visible(ctx, &pipe_id)?;
    let phase = match input.text("phase_id") {
        Some(id) => {
            let phase = ctx.get("phase", &id)?.filter(|p| text(p, "pipe_id") == pipe_id);
            let phase = phase.ok_or_else(|| GqlError::not_found("Phase", &id))?;
            if !super::phases::takes_new_cards(&phase, level) {
                return Err(GqlError::denied());
            }
            phase
        }
        None => phases.first().cloned().ok_or_else(|| GqlError::not_saved("The pipe has no phase"))?,
    };
    let id = new_card(ctx, &pipe, &phase, &input)?;
    for parent in input.texts("parent_ids").unwrap_or_default() {
        let (parent, _, _) = access::card(ctx, &parent)?;
        super::relations::connect(ctx, &parent, &id, None)?;
    }
    events::tell(ctx, &Cause::caller(ctx)?, &What::Created, &id)?;
    Ok(json!({ "card": link("card", &id) }))
}

/// Stores a new card in a phase, created by the caller; its id. Nobody is told yet.
pub(super) fn new_card(ctx: &Ctx<'_>, pipe: &Value, phase: &Value, input: &Args) -> Result<String, GqlError> {
    let pipe_id = text(pipe, "id").to_owned();
    let (id, uuid, now) = (ctx.new_id("card")?, ctx.new_uuid()?, ctx.stamp());
    let mut card = json!({
        "id": id, "uuid": uuid, "suid": ctx.store.next_alnum()?, "title": "", "pipe_id": pipe_id, "phase_id": text(phase, "id"),
        "created_at": now, "updated_at": now, "created_by": ctx.viewer, "due_date": Value::Null, "finished_at": Value::Null,
        "started_current_phase_at": now, "assignee_ids": [], "label_ids": [], "values": {}, "history": [],
        "inbox_emails_read": true, "emailMessagingAddress": format!("card+{id}@pipes.pipefy.example"),
    });
    for attribute in input.get("fields_attributes").and_then(Value::as_array).into_iter().flatten() {
        let slug = attribute.get("field_id").and_then(crate::json::scalar).unwrap_or_default();
        let field = values::field_by_slug(ctx, &pipe_id, &slug)?.ok_or_else(|| GqlError::not_found("Field", &slug))?;
        let value = values::accept(ctx, &field, attribute.get("field_value").unwrap_or(&Value::Null))?;
        put_value(&mut card, &field, value, &now);
    }
    if let Some(field) = missing(ctx, &card, text(pipe, "startFormPhaseId"))? {
        return Err(required(&field));
    }
    if let Some(due) = due_date(input)? {
        set(&mut card, "due_date", due);
    }
    checked_people_and_labels(ctx, &super::pipes::scope(pipe), &pipe_id, input, &mut card)?;
    let title = input.text("title").filter(|t| !t.trim().is_empty());
    let titled = title_from_field(ctx, pipe, &card)?;
    set(&mut card, "title", titled.or(title).unwrap_or_else(|| "Untitled".to_owned()));
    enter(&mut card, phase, &now);
    ctx.put("card", &id, &Links::parent(&pipe_id).group(text(phase, "id")).uuid(&uuid), card)?;
    Ok(id)
}

/// The pipe's title field decides the title; null when the pipe has none or it is empty.
fn title_from_field(ctx: &Ctx<'_>, pipe: &Value, card: &Value) -> Result<Option<String>, GqlError> {
    let Some(field) = ctx.get("field", text(pipe, "title_field_id"))? else { return Ok(None) };
    let shown = values::display(ctx, &field, &values::stored(card, &field))?;
    Ok(Some(shown.join(", ")).filter(|title| !title.is_empty()))
}

/// A `due_date` field is the card's due date; a label or assignee field fills the card's own lists too.
fn put_value(card: &mut Value, field: &Value, value: Value, now: &str) {
    match text(field, "type") {
        "due_date" => set(card, "due_date", value.clone()),
        "label_select" => set(card, "label_ids", json!(texts(&value))),
        "assignee_select" => set(card, "assignee_ids", json!(texts(&value))),
        _ => {}
    }
    values::write(card, field, value, now);
}

/// Puts a card into a phase: start time, history, and whether it is finished.
pub(crate) fn enter(card: &mut Value, phase: &Value, now: &str) {
    set(card, "phase_id", text(phase, "id"));
    set(card, "started_current_phase_at", now);
    let finished = if flag(phase, "done") { Value::from(now) } else { Value::Null };
    set(card, "finished_at", finished);
    let mut history = card.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
    match history.iter_mut().find(|h| text(h, "phase_id") == text(phase, "id")) {
        Some(entry) => {
            set(entry, "lastTimeIn", now);
            set(entry, "lastTimeOut", Value::Null);
        }
        None => history.push(json!({
            "phase_id": text(phase, "id"), "created_at": now, "firstTimeIn": now, "lastTimeIn": now, "lastTimeOut": Value::Null,
            "duration": 0, "became_late": false, "draft": false,
        })),
    }
    set(card, "history", history);
}

/// Closes the history entry of the phase that a card leaves.
pub(crate) fn leave(card: &mut Value, phase: &Value, now: &str) {
    let mut history = card.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(entry) = history.iter_mut().find(|h| text(h, "phase_id") == text(phase, "id")) {
        let second = |text: &str| parse_time(text).map_or(0, |t| t.as_second());
        let stayed = (second(now) - second(text(entry, "lastTimeIn"))).max(0);
        let before = entry.get("duration").and_then(Value::as_i64).unwrap_or_default();
        let limit = phase.get("lateness_time").and_then(Value::as_i64).filter(|l| *l > 0);
        if limit.is_some_and(|limit| stayed > limit) {
            set(entry, "became_late", true);
        }
        set(entry, "duration", (before + stayed).min(i64::from(i32::MAX)));
        set(entry, "lastTimeOut", now);
    }
    set(card, "history", history);
}

fn touch(ctx: &Ctx<'_>, card: &mut Value) {
    set(card, "updated_at", ctx.stamp());
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, pipe) = access::editable_card(ctx, &input.need("id")?)?;
    let mut body = (*card).clone();
    if let Some(title) = input.text("title") {
        if title.trim().is_empty() {
            return Err(GqlError::not_saved("Title can't be blank"));
        }
        set(&mut body, "title", title);
    }
    if let Some(due) = due_date(&input)? {
        set(&mut body, "due_date", due);
    }
    checked_people_and_labels(ctx, &super::pipes::scope(&pipe), text(&pipe, "id"), &input, &mut body)?;
    touch(ctx, &mut body);
    ctx.save("card", text(&card, "id"), body)?;
    events::tell(ctx, &Cause::caller(ctx)?, &What::Changed, text(&card, "id"))?;
    Ok(json!({ "card": link("card", text(&card, "id")) }))
}

/// Stores checked values of a card (or record) and tells what changed.
pub(super) fn save_values(
    ctx: &Ctx<'_>,
    cause: &Cause,
    kind: &str,
    item: &Value,
    repo: &Value,
    new: Vec<(Body, Value)>,
) -> Result<(), GqlError> {
    let mut body = item.clone();
    let mut changed = Vec::new();
    for (field, value) in new {
        if values::stored(&body, &field) != value {
            changed.push(field.clone());
        }
        store_value(ctx, repo, &mut body, &field, value)?;
    }
    touch(ctx, &mut body);
    ctx.save(kind, text(item, "id"), body)?;
    if kind == "card" {
        for field in &changed {
            events::tell(ctx, cause, &What::FieldUpdated { field }, text(item, "id"))?;
        }
    }
    Ok(())
}

/// Stores a changed value and lets the title follow its field.
fn store_value(ctx: &Ctx<'_>, pipe: &Value, body: &mut Value, field: &Value, value: Value) -> Result<(), GqlError> {
    put_value(body, field, value, &ctx.stamp());
    if text(pipe, "title_field_id") == text(field, "internal_id")
        && let Some(title) = title_from_field(ctx, pipe, body)?
    {
        set(body, "title", title);
    }
    Ok(())
}

fn update_field(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, pipe) = access::editable_card(ctx, &input.need("card_id")?)?;
    let slug = input.need("field_id")?;
    let field =
        values::field_by_slug(ctx, text(&pipe, "id"), &slug)?.ok_or_else(|| GqlError::not_found("Field", &slug))?;
    let value = values::accept(ctx, &field, input.get("new_value").unwrap_or(&Value::Null))?;
    save_values(ctx, &Cause::caller(ctx)?, "card", &card, &pipe, vec![(field, value)])?;
    Ok(json!({ "card": link("card", text(&card, "id")), "success": true }))
}

/// Values that one `updateFieldsValues` call may carry.
const MOST_VALUES: usize = 30;

/// Failures are `userErrors` with `success: false`, and nothing is stored then.
fn update_values(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let node = input.need("nodeId")?;
    let given = input.get("values").and_then(Value::as_array).cloned().unwrap_or_default();
    let failed = |errors: Vec<Value>| Ok(json!({ "success": false, "userErrors": errors, "updatedNode": Value::Null }));
    if given.len() > MOST_VALUES {
        return failed(vec![
            json!({ "field": ["values"], "message": format!("At most {MOST_VALUES} values can be updated at once") }),
        ]);
    }
    let is_record = ctx.find("card", &node)?.is_none() && ctx.find("table_record", &node)?.is_some();
    let (kind, item, repo) = if is_record {
        let (record, table) = access::editable_record(ctx, &node)?;
        ("table_record", record, table)
    } else {
        let (card, pipe) = access::editable_card(ctx, &node)?;
        ("card", card, pipe)
    };
    let mut body = (*item).clone();
    let mut accepted = Vec::new();
    let mut errors = Vec::new();
    for value in &given {
        let slug = value.get("fieldId").and_then(crate::json::scalar).unwrap_or_default();
        let Some(field) = values::field_by_slug(ctx, text(&repo, "id"), &slug)? else {
            errors.push(json!({ "field": [slug], "message": format!("Field not found with id: {slug}") }));
            continue;
        };
        let operation = value.get("operation").and_then(Value::as_str).unwrap_or("REPLACE");
        match values::accept(ctx, &field, value.get("value").unwrap_or(&Value::Null)) {
            Ok(new) => {
                let current = values::stored(&body, &field);
                let combined = values::combine(text(&field, "type"), operation, &current, new);
                // A later entry for the same field works on the result of this one.
                values::write(&mut body, &field, combined.clone(), &ctx.stamp());
                accepted.push((field, combined));
            }
            Err(error) => errors.push(json!({ "field": [slug], "message": error.message })),
        }
    }
    if !errors.is_empty() {
        return failed(errors);
    }
    save_values(ctx, &Cause::caller(ctx)?, kind, &item, &repo, accepted)?;
    Ok(json!({ "success": true, "userErrors": [], "updatedNode": link(kind, text(&item, "id")) }))
}

/// A move is refused without a code, in one sentence for several causes; a missing required field is named.
fn move_to_phase(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, pipe) = access::editable_card(ctx, &input.need("card_id")?)?;
    let wanted = input.need("destination_phase_id")?;
    let id = text(&card, "id").to_owned();
    let refused = || GqlError::codeless(format!("Card could not be moved to phase id: {wanted}"));
    let current = ctx.must("phase", "Phase", text(&card, "phase_id"))?;
    let destination = ctx.find("phase", &wanted)?.filter(|phase| text(phase, "pipe_id") == text(&pipe, "id"));
    let destination = destination.ok_or_else(refused)?;
    if text(&destination, "id") == text(&current, "id") {
        return Ok(json!({ "card": link("card", &id) }));
    }
    let back = super::phases::index(&destination) < super::phases::index(&current);
    if back && flag(&current, "only_admin_can_move_to_previous") && access::pipe_level(ctx, &pipe)? != Level::Admin {
        return Err(refused());
    }
    go(ctx, &Cause::caller(ctx)?, &card, &current, &destination)?;
    Ok(json!({ "card": link("card", &id) }))
}

/// Moves a card along a configured connection of its phase, when the phase's required fields are filled (going back
/// needs nothing), and tells it.
fn go(ctx: &Ctx<'_>, cause: &Cause, card: &Value, current: &Value, destination: &Value) -> Result<(), GqlError> {
    let id = text(card, "id");
    let allowed = super::phases::targets(ctx, current)?;
    if !allowed.iter().any(|p| text(p, "id") == text(destination, "id")) {
        let wanted = text(destination, "id");
        return Err(GqlError::codeless(format!("Card could not be moved to phase id: {wanted}")));
    }
    let back = super::phases::index(destination) < super::phases::index(current);
    if !back && let Some(field) = missing(ctx, card, text(current, "id"))? {
        return Err(required(&field));
    }
    super::relations::check_children(ctx, card, flag(destination, "done"))?;
    let mut body = card.clone();
    let now = ctx.stamp();
    leave(&mut body, current, &now);
    enter(&mut body, destination, &now);
    touch(ctx, &mut body);
    ctx.save("card", id, body)?;
    ctx.regroup("card", id, text(destination, "id"))?;
    events::tell(ctx, cause, &What::Moved { from: current, to: destination }, id)
}

/// A move that a rule makes: bound to the connections and required fields as people are, not to their permissions. A
/// card that is there already stays.
pub(super) fn move_by_rule(ctx: &Ctx<'_>, cause: &Cause, card: &Value, phase: &str) -> Result<(), GqlError> {
    let current = ctx.must("phase", "Phase", text(card, "phase_id"))?;
    let destination = ctx.find("phase", phase)?.filter(|p| text(p, "pipe_id") == text(card, "pipe_id"));
    let destination = destination.ok_or_else(|| GqlError::not_found("Phase", phase))?;
    if text(&destination, "id") == text(&current, "id") {
        return Ok(());
    }
    go(ctx, cause, card, &current, &destination)
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (card, pipe) = access::editable_card(ctx, &args.input().need("id")?)?;
    if flag(&pipe, "only_admin_can_remove_cards") && access::pipe_level(ctx, &pipe)? != Level::Admin {
        return Err(GqlError::denied());
    }
    events::tell(ctx, &Cause::caller(ctx)?, &What::Deleted, text(&card, "id"))?;
    bury(ctx, text(&card, "id"))?;
    Ok(json!({ "success": true }))
}

/// Removes a card with its comments and connections, and remembers that it existed.
pub(super) fn bury(ctx: &Ctx<'_>, id: &str) -> Result<(), GqlError> {
    let uuid = ctx.get("card", id)?.map(|c| text(&c, "uuid").to_owned()).unwrap_or_default();
    for comment in ctx.children("comment", id)? {
        ctx.remove("comment", text(&comment, "id"))?;
    }
    for row in ctx.children("card_relation", id)?.into_iter().chain(ctx.grouped("card_relation", id)?) {
        ctx.remove("card_relation", text(&row, "id"))?;
    }
    ctx.remove("card", id)?;
    for key in [id, uuid.as_str()] {
        ctx.put("deleted", &format!("card:{key}"), &Links::default(), json!({ "at": ctx.stamp() }))?;
    }
    Ok(())
}
