//! Relations between pipes and tables, and the cards that they connect.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{copy, flag, link, links, set, text, texts};
use crate::object::{Property, Root};
use crate::store::Links;
use crate::values;
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) const ROOTS: &[Root] = &[
    Root::public("pipe_relations", |ctx, args| by_ids(ctx, args, "relation")),
    Root::public("table_relations", |ctx, args| by_ids(ctx, args, "table_relation")),
    Root::public("createPipeRelation", |ctx, args| create(ctx, args, "relation", "pipeRelation")),
    Root::public("updatePipeRelation", |ctx, args| update(ctx, args, "relation", "pipeRelation")),
    Root::public("deletePipeRelation", |ctx, args| delete(ctx, args, "relation")),
    Root::public("createTableRelation", |ctx, args| create(ctx, args, "table_relation", "tableRelation")),
    Root::public("updateTableRelation", |ctx, args| update(ctx, args, "table_relation", "tableRelation")),
    Root::public("deleteTableRelation", |ctx, args| delete(ctx, args, "table_relation")),
    Root::public("createCardRelation", create_card_relation),
    Root::internal("deleteCardRelation", delete_card_relation),
];

const RELATION: &[&str] = &["PipeRelation", "TableRelation"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(RELATION, "parent", |_, relation, _| {
        Ok(link(text(relation, "parent_kind"), text(relation, "parent_id")))
    }),
    Property::of(RELATION, "child", |_, relation, _| {
        Ok(link(text(relation, "child_kind"), text(relation, "child_id")))
    }),
    Property::of(&["FieldMap"], "field_id", |_, map, _| Ok(map.get("fieldId").cloned().unwrap_or_default())),
];

const SETTINGS: [&str; 10] = [
    "name",
    "allChildrenMustBeDoneToFinishParent",
    "allChildrenMustBeDoneToMoveParent",
    "autoFillFieldEnabled",
    "canConnectExistingItems",
    "canConnectMultipleItems",
    "canCreateNewItems",
    "childMustExistToFinishParent",
    "childMustExistToMoveParent",
    "ownFieldMaps",
];

/// A pipe or table that the caller may see: `(kind, id, manages)`.
fn repo(ctx: &Ctx<'_>, key: &str) -> Result<(&'static str, String, bool), GqlError> {
    if ctx.find("pipe", key)?.is_some() {
        let (pipe, level) = access::pipe(ctx, key)?;
        return Ok(("pipe", text(&pipe, "id").to_owned(), level == access::Level::Admin));
    }
    let (table, level) = access::table(ctx, key)?;
    Ok(("table", text(&table, "id").to_owned(), level == access::Level::Admin))
}

fn by_ids(ctx: &Ctx<'_>, args: &Args, kind: &str) -> Answer {
    let mut rows = Vec::new();
    for id in args.texts("ids").unwrap_or_default() {
        let relation = ctx.get(kind, &id)?.ok_or_else(|| GqlError::not_found("Relation", &id))?;
        repo(ctx, text(&relation, "parent_id"))?;
        rows.push(link(kind, &id));
    }
    Ok(json!(rows))
}

fn create(ctx: &Ctx<'_>, args: &Args, kind: &str, key: &str) -> Answer {
    let input = args.input();
    let (parent_kind, parent, manages) = repo(ctx, &input.need("parentId")?)?;
    let (child_kind, child, _) = repo(ctx, &input.need("childId")?)?;
    if !manages {
        return Err(GqlError::denied());
    }
    if input.need("name")?.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let id = ctx.new_id("relation")?;
    let mut body = json!({
        "id": id, "parent_id": parent, "parent_kind": parent_kind, "child_id": child, "child_kind": child_kind, "ownFieldMaps": [],
    });
    copy(&mut body, &input.0, &SETTINGS);
    ctx.put(kind, &id, &Links::parent(&parent).group(&child), body)?;
    let mut payload = json!({});
    set(&mut payload, key, link(kind, &id));
    Ok(payload)
}

fn managed(ctx: &Ctx<'_>, kind: &str, id: &str) -> Result<crate::ctx::Body, GqlError> {
    let relation = ctx.get(kind, id)?.ok_or_else(|| GqlError::not_found("Relation", id))?;
    let (_, _, manages) = repo(ctx, text(&relation, "parent_id"))?;
    if manages { Ok(relation) } else { Err(GqlError::denied()) }
}

fn update(ctx: &Ctx<'_>, args: &Args, kind: &str, key: &str) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*managed(ctx, kind, &id)?).clone();
    copy(&mut body, &input.0, &SETTINGS);
    ctx.save(kind, &id, body)?;
    let mut payload = json!({});
    set(&mut payload, key, link(kind, &id));
    Ok(payload)
}

fn delete(ctx: &Ctx<'_>, args: &Args, kind: &str) -> Answer {
    let id = args.input().need("id")?;
    managed(ctx, kind, &id)?;
    Ok(json!({ "success": ctx.remove(kind, &id)? }))
}

/// Connects a child to a parent; without a source, through the first relation between their pipes.
pub(super) fn connect(
    ctx: &Ctx<'_>,
    parent: &Value,
    child: &str,
    source: Option<(&str, &str)>,
) -> Result<String, GqlError> {
    let child = ctx.must("card", "Card", child)?;
    let (source_id, source_type) = match source {
        Some((id, kind)) => (id.to_owned(), kind.to_owned()),
        None => {
            let relations = ctx.children("relation", text(parent, "pipe_id"))?;
            let found = relations.iter().find(|r| text(r, "child_id") == text(&child, "pipe_id"));
            let found = found.ok_or_else(|| GqlError::not_saved("The pipes of the two cards are not related"))?;
            (text(found, "id").to_owned(), "PipeRelation".to_owned())
        }
    };
    let same = |row: &Value| text(row, "childId") == text(&child, "id") && text(row, "sourceId") == source_id;
    if let Some(row) = ctx.children("card_relation", text(parent, "id"))?.iter().find(|r| same(r)) {
        return Ok(text(row, "id").to_owned());
    }
    let id = ctx.new_id("card_relation")?;
    let body = json!({
        "id": id, "parentId": text(parent, "id"), "childId": text(&child, "id"), "sourceId": source_id, "sourceType": source_type,
    });
    ctx.put("card_relation", &id, &Links::parent(text(parent, "id")).group(text(&child, "id")), body)?;
    Ok(id)
}

fn create_card_relation(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (parent, pipe) = access::editable_card(ctx, &input.need("parentId")?)?;
    let (child, child_pipe, _) = access::card(ctx, &input.need("childId")?)?;
    let (source, kind) = (input.need("sourceId")?, input.need("sourceType")?);
    match kind.as_str() {
        "PipeRelation" => {
            let relation =
                ctx.get("relation", &source)?.ok_or_else(|| GqlError::not_found("Pipe relation", &source))?;
            let fits = text(&relation, "parent_id") == text(&pipe, "id")
                && text(&relation, "child_id") == text(&child_pipe, "id");
            if !fits {
                return Err(GqlError::not_saved("The relation does not connect the pipes of the two cards"));
            }
        }
        "Field" => {
            let field = ctx.find("field", &source)?.filter(|f| text(f, "pipe_id") == text(&pipe, "id"));
            let field = field.ok_or_else(|| GqlError::not_found("Field", &source))?;
            let value = values::accept(ctx, &field, &json!([text(&child, "id")]))?;
            let mut body = (*parent).clone();
            let combined = values::combine("connector", "ADD", &values::stored(&body, &field), value);
            values::write(&mut body, &field, combined, &ctx.stamp());
            ctx.save("card", text(&parent, "id"), body)?;
        }
        other => return Err(GqlError::invalid(format!("sourceType {other:?} is neither PipeRelation nor Field"))),
    }
    let id = connect(ctx, &parent, text(&child, "id"), Some((&source, &kind)))?;
    Ok(json!({ "cardRelation": link("card_relation", &id) }))
}

fn delete_card_relation(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (parent, _) = access::editable_card(ctx, &input.need("parent_id")?)?;
    let (child, source) = (input.need("child_id")?, input.need("source_id")?);
    let rows = ctx.children("card_relation", text(&parent, "id"))?;
    let found = rows.iter().find(|r| text(r, "childId") == child && text(r, "sourceId") == source);
    match found {
        Some(row) => Ok(json!({ "success": ctx.remove("card_relation", text(row, "id"))? })),
        None => Err(GqlError::not_found("Card relation", &source)),
    }
}

/// `child_relations` / `parent_relations` of a card: one group per relation of its pipe, with the connected cards.
pub(super) fn of_card(ctx: &Ctx<'_>, card: &Value, children: bool, repo: Option<&str>) -> Answer {
    let (id, pipe) = (text(card, "id"), text(card, "pipe_id"));
    let relations = if children { ctx.children("relation", pipe)? } else { ctx.grouped("relation", pipe)? };
    let rows = if children { ctx.children("card_relation", id)? } else { ctx.grouped("card_relation", id)? };
    let (side, repo_key) = if children { ("childId", "child_id") } else { ("parentId", "parent_id") };
    let mut by_source: HashMap<&str, Vec<String>> = HashMap::new();
    for row in &rows {
        by_source.entry(text(row, "sourceId")).or_default().push(text(row, side).to_owned());
    }
    let mut groups = Vec::new();
    for relation in &relations {
        let other = text(relation, repo_key);
        if repo.is_some_and(|r| r != other) {
            continue;
        }
        let cards = by_source.get(text(relation, "id")).cloned().unwrap_or_default();
        let kind = text(relation, if children { "child_kind" } else { "parent_kind" });
        groups.push(json!({
            "id": text(relation, "id"), "name": text(relation, "name"), "source_type": "PipeRelation",
            "pipe": if kind == "pipe" { link("pipe", other) } else { Value::Null }, "repo": link(kind, other),
            "cards": links("card", cards),
        }));
    }
    if children {
        for field in ctx.grouped("field", pipe)?.iter().filter(|f| text(f, "type") == "connector") {
            let other = text(field, "connected_repo_id");
            let connected = texts(&values::stored(card, field));
            if ctx.get("pipe", other)?.is_none() || connected.is_empty() || repo.is_some_and(|r| r != other) {
                continue;
            }
            groups.push(json!({
                "id": text(field, "internal_id"), "name": text(field, "label"), "source_type": "Field",
                "pipe": link("pipe", other), "repo": link("pipe", other), "cards": links("card", connected),
            }));
        }
    }
    Ok(json!(groups))
}

/// The relation rules that a move must keep; broken ones refuse it as any other refused move.
pub(super) fn check_children(ctx: &Ctx<'_>, card: &Value, finishing: bool) -> Result<(), GqlError> {
    let rows = ctx.children("card_relation", text(card, "id"))?;
    for relation in ctx.children("relation", text(card, "pipe_id"))? {
        let mine = rows.iter().filter(|r| text(r, "sourceId") == text(&relation, "id"));
        let (mut count, mut open) = (0, 0);
        for row in mine {
            count += 1;
            let child = ctx.get("card", text(row, "childId"))?;
            open += usize::from(child.is_some_and(|c| text(&c, "finished_at").is_empty()));
        }
        let must_exist = flag(&relation, "childMustExistToMoveParent")
            || (finishing && flag(&relation, "childMustExistToFinishParent"));
        let must_end = flag(&relation, "allChildrenMustBeDoneToMoveParent")
            || (finishing && flag(&relation, "allChildrenMustBeDoneToFinishParent"));
        if (must_exist && count == 0) || (must_end && open > 0) {
            let name = text(&relation, "name");
            return Err(GqlError::not_saved(format!(
                "The connection {name:?} must have its cards, and have them done, first"
            )));
        }
    }
    Ok(())
}
