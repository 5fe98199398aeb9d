//! Phases: order, allowed moves, their cards.

use crate::access::{self, Level};
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, flag, link, links, set, text, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::store::{By, Links};
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("phase", |ctx, args| {
        let (phase, _, _) = access::phase(ctx, &args.need("id")?)?;
        Ok(link("phase", text(&phase, "id")))
    }),
    Root::public("createPhase", create),
    Root::public("updatePhase", update),
    Root::public("deletePhase", delete),
];

const PHASE: &[&str] = &["Phase"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(PHASE, "cards", |ctx, phase, args| {
        let (_, pipe, level) = access::phase(ctx, text(phase, "id"))?;
        let rows = super::cards::matching(ctx, &pipe, level, Some(text(phase, "id")), args.get("search"))?;
        page::connection(rows, args, page::PHASE_PAGE)
    }),
    Property::of(PHASE, "cards_count", |ctx, phase, args| match args.get("filter") {
        None => Ok(json!(ctx.store.count("card", By::Group, text(phase, "id"))?)),
        Some(filter) => {
            let search = json!({
                "title": filter.get("text"), "assignee_ids": filter.get("cardAssigneeIds"), "label_ids": filter.get("cardLabelIds"),
            });
            let (_, pipe, level) = access::phase(ctx, text(phase, "id"))?;
            let rows = super::cards::matching(ctx, &pipe, level, Some(text(phase, "id")), Some(&search))?;
            Ok(json!(rows.len()))
        }
    }),
    Property::of(PHASE, "lateCardsCount", |ctx, phase, _| {
        let cards = ctx.grouped("card", text(phase, "id"))?;
        Ok(json!(cards.iter().filter(|c| super::cards::is_late(ctx, c, phase)).count()))
    }),
    Property::of(PHASE, "cards_can_be_moved_to_phases", |ctx, phase, _| {
        Ok(links("phase", targets(ctx, phase)?.iter().map(|p| text(p, "id"))))
    }),
    Property::of(PHASE, "next_phase_ids", |ctx, phase, _| neighbours(ctx, phase, true)),
    Property::of(PHASE, "previous_phase_ids", |ctx, phase, _| neighbours(ctx, phase, false)),
    Property::of(PHASE, "fields", |ctx, phase, _| super::fields::links_of(ctx, text(phase, "id"))),
    Property::of(PHASE, "fieldConditions", |ctx, phase, _| {
        let rows = ctx.children("condition", text(phase, "id"))?;
        Ok(links("condition", rows.iter().map(|r| text(r, "id"))))
    }),
    Property::of(PHASE, "repo_id", |_, phase, _| Ok(json!(text(phase, "pipe_id")))),
];

pub(super) fn index(phase: &Value) -> f64 {
    phase.get("index").and_then(Value::as_f64).unwrap_or_default()
}

/// The phases of the board, in order: neither the start form nor phases with index 0.
pub(crate) fn visible(ctx: &Ctx<'_>, pipe: &str) -> Result<Vec<Body>, GqlError> {
    let phases = ctx.children("phase", pipe)?;
    Ok(phases.into_iter().filter(|p| !flag(p, "isDraft") && index(p) > 0.0).collect())
}

/// The phases to which cards of a phase may move.
pub(super) fn targets(ctx: &Ctx<'_>, phase: &Value) -> Result<Vec<Body>, GqlError> {
    let allowed = texts_at(phase, "moves");
    let phases = visible(ctx, text(phase, "pipe_id"))?;
    Ok(phases.into_iter().filter(|p| allowed.iter().any(|id| id == text(p, "id"))).collect())
}

fn neighbours(ctx: &Ctx<'_>, phase: &Value, after: bool) -> Answer {
    let phases = visible(ctx, text(phase, "pipe_id"))?;
    let kept = phases.iter().filter(|p| if after { index(p) > index(phase) } else { index(p) < index(phase) });
    Ok(json!(kept.map(|p| text(p, "id").to_owned()).collect::<Vec<_>>()))
}

/// Lets cards move from every phase of a pipe to every other one.
pub(crate) fn all_to_all(ctx: &Ctx<'_>, pipe: &str) -> Result<(), GqlError> {
    let phases = visible(ctx, pipe)?;
    for phase in &phases {
        let others: Vec<&str> = phases.iter().map(|p| text(p, "id")).filter(|id| *id != text(phase, "id")).collect();
        let mut body = (**phase).clone();
        set(&mut body, "moves", json!(others));
        ctx.save("phase", text(phase, "id"), body)?;
    }
    Ok(())
}

/// A new phase has no moves: connections are configured in the product, not through the API.
pub(crate) fn new_phase(ctx: &Ctx<'_>, pipe: &str, name: &str, index: f64, extra: &Value) -> Result<Body, GqlError> {
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let id = ctx.new_id("phase")?;
    let uuid = ctx.new_uuid()?;
    let mut body = json!({
        "id": id, "uuid": uuid, "name": name, "pipe_id": pipe, "index": index, "done": false, "isDraft": false, "color": "blue",
        "description": Value::Null, "lateness_time": Value::Null, "can_receive_card_directly_from_draft": index <= 1.0,
        "only_admin_can_move_to_previous": false, "created_at": ctx.stamp(), "moves": [], "sequentialId": id,
    });
    copy(&mut body, extra, &EDITABLE);
    ctx.put("phase", &id, &Links::parent(pipe).uuid(&uuid).pos(index), body)
}

const EDITABLE: [&str; 6] = [
    "description",
    "done",
    "color",
    "lateness_time",
    "can_receive_card_directly_from_draft",
    "only_admin_can_move_to_previous",
];

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("pipe_id")?)?;
    let last = ctx.children("phase", text(&pipe, "id"))?.iter().map(|p| index(p)).fold(0.0, f64::max);
    let at = input.get("index").and_then(Value::as_f64).unwrap_or(last + 1.0);
    let phase = new_phase(ctx, text(&pipe, "id"), &input.need("name")?, at, &input.0)?;
    Ok(json!({ "phase": link("phase", text(&phase, "id")) }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (phase, _) = access::managed_phase(ctx, &input.need("id")?)?;
    let name = input.need("name")?;
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let mut body = (*phase).clone();
    set(&mut body, "name", name);
    copy(&mut body, &input.0, &EDITABLE);
    ctx.save("phase", text(&phase, "id"), body)?;
    Ok(json!({ "phase": link("phase", text(&phase, "id")) }))
}

/// Takes the phase's cards, fields and conditions along.
fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (phase, pipe) = access::managed_phase(ctx, &args.input().need("id")?)?;
    let id = text(&phase, "id").to_owned();
    if flag(&phase, "isDraft") || visible(ctx, text(&pipe, "id"))?.len() < 2 {
        return Err(GqlError::new("RECORD_NOT_DESTROYED", "A pipe keeps its start form and at least one phase"));
    }
    for card in ctx.grouped("card", &id)? {
        super::cards::bury(ctx, text(&card, "id"))?;
    }
    for field in ctx.children("field", &id)? {
        super::fields::drop_field(ctx, &field)?;
    }
    for condition in ctx.children("condition", &id)? {
        ctx.remove("condition", text(&condition, "id"))?;
    }
    for other in ctx.children("phase", text(&pipe, "id"))? {
        let moves = texts_at(&other, "moves");
        if moves.contains(&id) {
            let mut body = (*other).clone();
            set(&mut body, "moves", json!(moves.into_iter().filter(|m| *m != id).collect::<Vec<_>>()));
            ctx.save("phase", text(&other, "id"), body)?;
        }
    }
    Ok(json!({ "success": ctx.remove("phase", &id)? }))
}

/// Whether the caller may put a card into a phase on creation.
pub(super) fn takes_new_cards(phase: &Value, level: Level) -> bool {
    !flag(phase, "isDraft") && level.edits()
}
