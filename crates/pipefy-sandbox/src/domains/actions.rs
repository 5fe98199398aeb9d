//! What automations and AI agents do to cards. An error means that the whole run changes nothing.

use super::{cards, conditions, emails, relations, table_records};
use crate::access;
use crate::ctx::{Args, Body, Ctx};
use crate::error::GqlError;
use crate::events::{self, Cause};
use crate::json::{scalar, set, text, texts, texts_at};
use crate::standin::{self, Source};
use crate::values;
use serde_json::{Value, json};

/// Runs the action of an automation for the card that triggered it.
pub(crate) fn of_rule(ctx: &Ctx<'_>, cause: &Cause, rule: &Value, source: Source<'_>) -> Result<(), GqlError> {
    let card = source.card;
    let params = rule.get("action_params").cloned().unwrap_or_default();
    let map = params.get("field_map").and_then(Value::as_array).cloned().unwrap_or_default();
    let target = text(rule, "action_repo_id");
    let id = |key: &str| params.get(key).and_then(scalar).unwrap_or_default();
    match text(rule, "action_id") {
        "create_card" => create_card(ctx, cause, source, target, &map, "").map(drop),
        "create_connected_card" => {
            let made = create_card(ctx, cause, source, target, &map, "")?;
            relations::connect(ctx, card, &made, None).map(drop)
        }
        "create_table_record" => create_record(ctx, source, target, &map, ""),
        "update_card_field" => {
            for card in targets(ctx, rule, source)? {
                update_card(ctx, cause, source, &card, &map, "")?;
            }
            Ok(())
        }
        "move_single_card" => {
            for card in targets(ctx, rule, source)? {
                cards::move_by_rule(ctx, cause, &card, &id("to_phase_id"))?;
            }
            Ok(())
        }
        "move_parent_card" => {
            for row in ctx.grouped("card_relation", text(card, "id"))? {
                if let Some(parent) = ctx.get("card", text(&row, "parentId"))? {
                    cards::move_by_rule(ctx, cause, &parent, &id("to_phase_id"))?;
                }
            }
            Ok(())
        }
        "send_email_template" => emails::send_template(ctx, card, &id("email_template_id")),
        "send_a_task" => {
            let task = params.get("taskParams").cloned().unwrap_or_default();
            let to: Vec<&str> = text(&task, "recipients").split([',', ';']).map(str::trim).collect();
            emails::to_outbox(
                ctx,
                &json!(to),
                text(&task, "title"),
                &format!("Task for the card {}", text(card, "title")),
            )
        }
        "send_http_request" => {
            let headers = serde_json::from_str(text(&params, "headers")).unwrap_or_else(|_| json!({}));
            let method = Some(text(&params, "httpMethod")).filter(|m| !m.is_empty()).unwrap_or("POST").to_uppercase();
            events::request(
                ctx,
                cause,
                card,
                json!({
                    "automation_id": text(rule, "id"), "name": text(rule, "name"), "method": method, "url": text(&params, "url"),
                    "headers": headers, "body": standin::filled(ctx, source, text(&params, "body"))?, "action": "send_http_request",
                }),
            )
        }
        "generate_with_ai" => {
            let ai = params.get("aiParams").cloned().unwrap_or_default();
            let entries: Vec<Value> = texts_at(&ai, "fieldIds")
                .into_iter()
                .map(|field| json!({ "fieldId": field, "inputMode": "fill_with_ai", "value": text(&ai, "value") }))
                .collect();
            update_card(ctx, cause, source, card, &entries, text(&ai, "value"))
        }
        // Deadlines are computed when they are read; there is nothing to do at this moment.
        "apply_sla_rules" => Ok(()),
        other => Err(GqlError::invalid(format!("The sandbox cannot run the action {other:?}"))),
    }
}

/// Cards that one run of a rule with `searchFor` changes at most.
const MOST_FOUND: usize = 50;

/// The cards that a rule changes: those of its pipe that fit every row of its `searchFor`, else the one that triggered it.
fn targets(ctx: &Ctx<'_>, rule: &Value, source: Source<'_>) -> Result<Vec<Body>, GqlError> {
    let rows = rule.get("searchFor").and_then(Value::as_array).cloned().unwrap_or_default();
    if rows.is_empty() {
        return Ok(vec![ctx.must("card", "Card", text(source.card, "id"))?]);
    }
    let pipe = ctx.must("pipe", "Pipe", text(rule, "action_repo_id"))?;
    let fields = ctx.grouped("field", text(&pipe, "id"))?;
    let mut tests = Vec::new();
    for row in &rows {
        let key = text(row, "field");
        let field = field_of(&fields, key);
        if field.is_none() && key != "title" {
            return Err(GqlError::not_found("Field", key));
        }
        tests.push((field, text(row, "operator"), standin::filled(ctx, source, text(row, "value"))?));
    }
    let mut found = Vec::new();
    for card in ctx.children("card", text(&pipe, "id"))? {
        let mut fits = true;
        for (field, operator, wanted) in &tests {
            let shown = match field {
                Some(field) => values::display(ctx, field, &values::stored(&card, field))?.join(", "),
                None => text(&card, "title").to_owned(),
            };
            fits = fits && conditions::compares(ctx, operator, &shown, wanted);
        }
        if fits {
            found.push(card);
        }
    }
    match found.len() {
        0 => Err(GqlError::invalid("searchFor finds no card")),
        n if n > MOST_FOUND => {
            Err(GqlError::invalid(format!("searchFor finds {n} cards, and {MOST_FOUND} at most are changed")))
        }
        _ => Ok(found),
    }
}

fn field_of(fields: &[Body], id: &str) -> Option<Body> {
    fields.iter().find(|f| ["internal_id", "id", "uuid"].iter().any(|key| text(f, key) == id)).cloned()
}

/// Runs every action of an agent's behavior on the card that triggered it, and notes each one in the trace.
pub(crate) fn of_behavior(
    ctx: &Ctx<'_>,
    cause: &Cause,
    behavior: &Value,
    card: &Value,
    trace: &mut Vec<Value>,
) -> Result<(), GqlError> {
    let ai = behavior.pointer("/action_params/aiBehaviorParams").cloned().unwrap_or_default();
    let prompt = text(&ai, "instruction").to_owned();
    for action in ai.get("actionsAttributes").and_then(Value::as_array).into_iter().flatten() {
        // An action before may have changed the card, or moved it.
        let card = ctx.must("card", "Card", text(card, "id"))?;
        let meta = action.get("metadata").cloned().unwrap_or_default();
        let id = |key: &str| meta.get(key).and_then(scalar).unwrap_or_default();
        let map = meta.get("fieldsAttributes").and_then(Value::as_array).cloned().unwrap_or_default();
        let done = match text(action, "actionType") {
            "update_card" => {
                let pipe = ctx.must("pipe", "Pipe", &id("pipeId"))?;
                let pipe = text(&pipe, "id");
                for target in same_or_connected(ctx, &card, pipe)? {
                    update_card(ctx, cause, Source::card(&card), &target, &map, &prompt)?;
                }
                "Fields written"
            }
            "create_card" => {
                create_card(ctx, cause, Source::card(&card), &id("pipeId"), &map, &prompt)?;
                "Card created"
            }
            "create_connected_card" => {
                let made = create_card(ctx, cause, Source::card(&card), &id("pipeId"), &map, &prompt)?;
                relations::connect(ctx, &card, &made, None)?;
                "Connected card created"
            }
            "create_table_record" => {
                create_record(ctx, Source::card(&card), &id("tableId"), &map, &prompt)?;
                "Record created"
            }
            "move_card" => {
                cards::move_by_rule(ctx, cause, &card, &id("destinationPhaseId"))?;
                "Card moved"
            }
            "send_email_template" => {
                emails::send_template(ctx, &card, &id("emailTemplateId"))?;
                "E-mail stored"
            }
            "human_validation" => {
                let to = meta.get("emails").cloned().unwrap_or_else(|| json!([]));
                emails::to_outbox(ctx, &to, &id("title"), &format!("Please check the card {}", text(&card, "title")))?;
                "Validation asked for"
            }
            // A tool server is outside of the sandbox.
            "mcp_tool" => "Not called: the sandbox reaches no tool server",
            other => return Err(GqlError::invalid(format!("The sandbox cannot run the action {other:?}"))),
        };
        trace.push(json!({ "nodeName": text(action, "name"), "status": "success", "message": done }));
    }
    Ok(())
}

/// The card itself when it is in the pipe, else the cards of the pipe that are connected to it.
fn same_or_connected(ctx: &Ctx<'_>, card: &Body, pipe: &str) -> Result<Vec<Body>, GqlError> {
    if text(card, "pipe_id") == pipe {
        return Ok(vec![card.clone()]);
    }
    let mut found = Vec::new();
    for row in ctx.children("card_relation", text(card, "id"))? {
        found.extend(ctx.get("card", text(&row, "childId"))?);
    }
    for row in ctx.grouped("card_relation", text(card, "id"))? {
        found.extend(ctx.get("card", text(&row, "parentId"))?);
    }
    Ok(found.into_iter().filter(|other| text(other, "pipe_id") == pipe).collect())
}

/// The fields of a repository that a map names, with the values it gives them.
fn mapped(
    ctx: &Ctx<'_>,
    source: Source<'_>,
    repo: &str,
    map: &[Value],
    prompt: &str,
) -> Result<Vec<(Body, Value)>, GqlError> {
    let fields = ctx.grouped("field", repo)?;
    let own = ctx.grouped("field", text(source.card, "pipe_id"))?;
    let mut out = Vec::new();
    for entry in map {
        let id = entry.get("fieldId").and_then(scalar).unwrap_or_default();
        let field = field_of(&fields, &id).ok_or_else(|| GqlError::not_found("Field", &id))?;
        let given = text(entry, "value");
        let value = match text(entry, "inputMode") {
            "fill_with_ai" => standin::answer(ctx, source, &field, if given.is_empty() { prompt } else { given })?,
            "copy_from" => {
                let key = given.trim().trim_start_matches("%{").trim_end_matches('}');
                match field_of(&own, key) {
                    Some(from) => values::stored(source.card, &from),
                    // An attribute of the event, or a value of an answer.
                    None => {
                        json!(standin::value_of(ctx, source, key)?.ok_or_else(|| GqlError::not_found("Field", key))?)
                    }
                }
            }
            _ => json!(standin::filled(ctx, source, given)?),
        };
        out.push((field, value));
    }
    Ok(out)
}

fn update_card(
    ctx: &Ctx<'_>,
    cause: &Cause,
    source: Source<'_>,
    target: &Value,
    map: &[Value],
    prompt: &str,
) -> Result<(), GqlError> {
    let pipe = ctx.must("pipe", "Pipe", text(target, "pipe_id"))?;
    let mut new = Vec::new();
    for (field, value) in mapped(ctx, source, text(&pipe, "id"), map, prompt)? {
        let value = values::accept(ctx, &field, &value)?;
        new.push((field, value));
    }
    cards::save_values(ctx, cause, "card", target, &pipe, new)
}

/// The attributes of a create input.
fn attributes(rows: Vec<(Body, Value)>) -> Vec<Value> {
    rows.iter().map(|(field, value)| json!({ "field_id": text(field, "id"), "field_value": texts(value) })).collect()
}

/// A new card in the first phase of a pipe; its id.
fn create_card(
    ctx: &Ctx<'_>,
    cause: &Cause,
    source: Source<'_>,
    pipe: &str,
    map: &[Value],
    prompt: &str,
) -> Result<String, GqlError> {
    let pipe = ctx.must("pipe", "Pipe", pipe)?;
    let rows = attributes(mapped(ctx, source, text(&pipe, "id"), map, prompt)?);
    let phase = super::phases::visible(ctx, text(&pipe, "id"))?.into_iter().next();
    let phase = phase.ok_or_else(|| GqlError::not_saved("The pipe has no phase"))?;
    let mut input = json!({ "fields_attributes": rows });
    set(&mut input, "title", text(source.card, "title"));
    let id = cards::new_card(ctx, &pipe, &phase, &Args(input))?;
    events::tell(ctx, cause, &events::What::Created, &id)?;
    Ok(id)
}

fn create_record(ctx: &Ctx<'_>, source: Source<'_>, table: &str, map: &[Value], prompt: &str) -> Result<(), GqlError> {
    let table = access::any_table(ctx, table)?;
    let rows = attributes(mapped(ctx, source, text(&table, "id"), map, prompt)?);
    let input = json!({ "fields_attributes": rows, "title": text(source.card, "title") });
    table_records::new_record(ctx, &table, &Args(input)).map(drop)
}
