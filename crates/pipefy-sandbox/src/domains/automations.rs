//! Automations: listing with filters, and run metrics that are denied rule by rule.

use super::conditions;
use crate::access;
use crate::answer;
use crate::ctx::{Answer, Args, Body, Ctx, parse_time};
use crate::error::GqlError;
use crate::events;
use crate::json::{copy, flag, link, links, set, text, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::schedule;
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("automation", |ctx, args| {
        let id = args.need("id")?;
        let automation = ctx.get("automation", &id)?.ok_or_else(|| GqlError::not_found("Automation", &id))?;
        access::read_pipe(ctx, text(&automation, "event_repo_id"))?;
        Ok(link("automation", &id))
    }),
    Root::public("automations", list),
    Root::public("automationActions", |ctx, args| {
        let pipe = args.text("repoId").map(|id| access::read_pipe(ctx, &id)).transpose()?;
        Ok(Value::from_iter(ACTIONS.iter().map(|(id, parameters, blocked)| {
            let reason = pipe.as_ref().and_then(|pipe| disabled(pipe, id));
            json!({
                "id": id, "icon": id, "enabled": reason.is_none(), "acceptedParameters": parameters, "disabledReason": reason,
                "eventsBlacklist": blocked, "initiallyHidden": false, "triggerEvents": [],
            })
        })))
    }),
    Root::public("automationEvents", |_, _| {
        Ok(Value::from_iter(EVENTS.iter().map(|(id, parameters)| {
            json!({ "id": id, "icon": id, "acceptedParameters": parameters, "actionsBlacklist": [] })
        })))
    }),
    Root::public("automationEventAttributes", |_, _| {
        Ok(json!({ "automationEventExecutionDatetime": {
            "internalId": crate::standin::EXECUTED_AT, "label": "Execution date and time", "type": "datetime" } }))
    }),
    Root::public("createAutomation", create),
    Root::public("updateAutomation", update),
    Root::public("deleteAutomation", |ctx, args| {
        let id = args.input().need("id")?;
        managed(ctx, &id)?;
        for log in ctx.children("automation_log", &id)? {
            ctx.remove("automation_log", text(&log, "uuid"))?;
        }
        Ok(json!({ "success": ctx.remove("automation", &id)? }))
    }),
];

/// Action id, the parameters it takes, and the events with which it never runs.
const ACTIONS: [(&str, &[&str], &[&str]); 11] = [
    ("create_card", &["field_map"], &[]),
    ("create_connected_card", &["field_map"], &["scheduler"]),
    ("create_table_record", &["field_map"], &[]),
    ("update_card_field", &["field_map", "card_id"], &["scheduler"]),
    ("move_single_card", &["to_phase_id"], &["scheduler"]),
    ("move_parent_card", &["to_phase_id"], &["scheduler"]),
    ("send_email_template", &["email_template_id"], &["scheduler"]),
    ("send_a_task", &["taskParams"], &["scheduler"]),
    ("send_http_request", &["url", "httpMethod", "headers", "body"], &[]),
    ("generate_with_ai", &["aiParams"], &["scheduler"]),
    ("apply_sla_rules", &["slaParams"], &["scheduler"]),
];

/// Event id and the parameters it takes.
const EVENTS: [(&str, &[&str]); 10] = [
    ("card_created", &[]),
    ("card_moved", &["to_phase_id"]),
    ("card_left_phase", &["fromPhaseId"]),
    ("field_updated", &["triggerFieldIds"]),
    ("sla_based", &["kind_of_sla", "inPhaseId"]),
    ("all_children_in_phase", &["to_phase_id"]),
    ("card_inbox_received_email", &[]),
    ("http_response_received", &["triggerAutomationId"]),
    ("scheduler", &[]),
    ("manually_triggered", &[]),
];

const RULE: &[&str] = &["Automation"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(RULE, "event_repo", |_, rule, _| Ok(link("pipe", text(rule, "event_repo_id")))),
    Property::of(RULE, "action_repo_v2", |ctx, rule, _| {
        let id = text(rule, "action_repo_id");
        let kind = if ctx.get("table", id)?.is_some() { "table" } else { "pipe" };
        Ok(link(kind, id))
    }),
    Property::of(RULE, "related_cards", |_, rule, _| Ok(links("card", texts_at(rule, "related_card_ids")))),
    Property::of(&["AutomationEventParams", "AutomationActionParams"], "phase", |_, params, _| {
        Ok(link("phase", text(params, "to_phase_id")))
    }),
    Property::of(RULE, "executionMetrics", metrics),
    Property::of(&["AutomationActionParams"], "hasAuthenticationValue", |_, params, _| {
        Ok(json!(!text(params, "authenticationValue").is_empty()))
    }),
    Property::of(&["AiAgentLogDetails"], "tracingNodes", |_, log, _| Ok(super::logs::trace(log))),
    Property::of(&["AiAgentLogDetails"], "llmConfigInfo", |_, _, _| {
        Ok(json!({ "model": "stand-in", "name": "Sandbox stand-in", "provider": "sandbox" }))
    }),
    Property::of(&["AiAgentLogDetails"], "automation", |_, log, _| Ok(link("automation", text(log, "automationId")))),
];

/// Why an action cannot be used in a pipe.
pub(super) fn disabled(pipe: &Value, action: &str) -> Option<&'static str> {
    let off = pipe.pointer("/preferences/aiAgentsEnabled") == Some(&Value::Bool(false));
    (off && action == "generate_with_ai").then_some("AI is not enabled in this pipe")
}

/// A rule of a pipe that the caller administers.
fn managed(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let rule = ctx.get("automation", id)?.ok_or_else(|| GqlError::not_found("Automation", id))?;
    access::managed_pipe(ctx, text(&rule, "event_repo_id"))?;
    Ok(rule)
}

const SETTINGS: [&str; 11] = [
    "name",
    "action_id",
    "event_id",
    "action_params",
    "event_params",
    "condition",
    "active",
    "scheduler_frequency",
    "schedulerCron",
    "searchFor",
    "responseSchema",
];

/// What is wrong with a rule, in the payload's own form; such a rule is not stored.
fn problems(ctx: &Ctx<'_>, body: &Value) -> Result<Vec<Value>, GqlError> {
    let mut found = Vec::new();
    let mut say = |key: &str, message: &str| {
        found.push(json!({ "object_name": "automation", "object_key": key, "messages": [message] }));
    };
    if text(body, "name").trim().is_empty() {
        say("name", "can't be blank");
    }
    let (event, action) = (text(body, "event_id"), text(body, "action_id"));
    if !EVENTS.iter().any(|(id, _)| *id == event) {
        say("event_id", "is not included in the list");
    }
    match ACTIONS.iter().find(|(id, _, _)| *id == action) {
        None => say("action_id", "is not included in the list"),
        Some((_, _, blocked)) if blocked.contains(&event) => say("action_id", "cannot run on this event"),
        Some(_) => {
            let pipe = ctx.get("pipe", text(body, "event_repo_id"))?;
            if let Some(reason) = pipe.and_then(|pipe| disabled(&pipe, action)) {
                say("action_id", reason);
            }
        }
    }
    let target = body.pointer("/action_params/to_phase_id").and_then(crate::json::scalar);
    let known = match &target {
        Some(id) => ctx.get("phase", id)?.is_some(),
        None => !action.starts_with("move_"),
    };
    if !known {
        say("to_phase_id", "must exist");
    }
    if let Some(Err(why)) = schedule::of_rule(body) {
        say("schedulerCron", why);
    }
    if let Some(Err(why)) = answer::schema(body) {
        say("responseSchema", why);
    }
    let rows = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let searched = rows(body.get("searchFor"));
    let compared = rows(body.pointer("/condition/expressions"));
    let searched = searched.iter().map(|row| ("searchFor", "operator", row));
    let compared = compared.iter().map(|row| ("condition", "operation", row));
    for (key, word, row) in searched.chain(compared) {
        let operation = text(row, word);
        // The one expression that stands for no condition has no operation.
        if !(conditions::OPERATIONS.contains(&operation) || (operation.is_empty() && key == "condition")) {
            say(key, &format!("{word} {operation:?} is not included in the list"));
        }
    }
    Ok(found)
}

fn shaped(ctx: &Ctx<'_>, body: &mut Value) -> Result<(), GqlError> {
    let mut condition = body.get("condition").filter(|c| c.is_object()).cloned().unwrap_or_else(|| json!({}));
    let mut expressions = condition.get("expressions").and_then(Value::as_array).cloned().unwrap_or_default();
    for expression in expressions.iter_mut().filter(|e| e.get("id").is_none_or(Value::is_null)) {
        set(expression, "id", ctx.new_id("expression")?);
    }
    set(&mut condition, "expressions", expressions);
    events::plan_next(ctx, body);
    if condition.get("id").is_none() {
        set(&mut condition, "id", ctx.new_id("condition_expression")?);
    }
    set(body, "condition", condition);
    Ok(())
}

fn repos(ctx: &Ctx<'_>, input: &Args, body: &mut Value) -> Result<(), GqlError> {
    if let Some(id) = input.text("event_repo_id") {
        let pipe = access::managed_pipe(ctx, &id)?;
        set(body, "event_repo_id", text(&pipe, "id"));
    }
    if let Some(id) = input.text("action_repo_id") {
        let repo = match ctx.find("pipe", &id)? {
            Some(_) => access::pipe(ctx, &id)?.0,
            None => access::table(ctx, &id)?.0,
        };
        set(body, "action_repo_id", text(&repo, "id"));
    }
    Ok(())
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("event_repo_id")?)?;
    let id = ctx.new_id("automation")?;
    let mut body = json!({
        "id": id, "active": true, "actionEnabled": true, "disabledReason": null, "created_at": ctx.stamp(), "action_params": {},
        "event_params": {}, "related_card_ids": [], "private_metrics": false, "searchFor": [],
        "event_repo_id": text(&pipe, "id"), "action_repo_id": text(&pipe, "id"),
    });
    copy(&mut body, &input.0, &SETTINGS);
    repos(ctx, &input, &mut body)?;
    shaped(ctx, &mut body)?;
    let errors = problems(ctx, &body)?;
    if !errors.is_empty() {
        return Ok(json!({ "automation": null, "error_details": errors }));
    }
    ctx.put("automation", &id, &Links::parent(text(&pipe, "organization_id")).group(text(&pipe, "id")), body)?;
    Ok(json!({ "automation": link("automation", &id), "error_details": [] }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let before = managed(ctx, &id)?;
    let mut body = (*before).clone();
    copy(&mut body, &input.0, &SETTINGS);
    if let (Some(id), Some(condition)) = (before.pointer("/condition/id"), body.get_mut("condition"))
        && condition.get("id").is_none()
    {
        set(condition, "id", id.clone());
    }
    // A secret is never read, so what is written back does not hold it.
    let secret = before.pointer("/action_params/authenticationValue").filter(|value| !value.is_null());
    if let (Some(secret), Some(params)) = (secret, body.get_mut("action_params"))
        && text(params, "authenticationValue").is_empty()
        && params.get("authenticationKey") == before.pointer("/action_params/authenticationKey")
    {
        set(params, "authenticationValue", secret.clone());
    }
    repos(ctx, &input, &mut body)?;
    shaped(ctx, &mut body)?;
    set(&mut body, "updated_at", ctx.stamp());
    let errors = problems(ctx, &body)?;
    if !errors.is_empty() {
        return Ok(json!({ "automation": null, "error_details": errors }));
    }
    ctx.save("automation", &id, body)?;
    Ok(json!({ "automation": link("automation", &id), "error_details": [] }))
}

fn list(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = access::organization(ctx, &args.need("organizationId")?)?;
    let repo = match args.text("repoId") {
        Some(id) => Some(text(&*access::read_pipe(ctx, &id)?, "id").to_owned()),
        None => None,
    };
    let (ids, actions) = (args.texts("automationIds"), args.texts("actionIds"));
    let search = args.text("search").unwrap_or_default().to_lowercase();
    let event = args.text("eventId");
    let mut rules = Vec::new();
    for rule in ctx.children("automation", text(&org, "id"))? {
        let (event_repo, action_repo) = (text(&rule, "event_repo_id"), text(&rule, "action_repo_id"));
        let kept = repo.as_deref().is_none_or(|r| r == event_repo || r == action_repo)
            && ids.as_ref().is_none_or(|ids| ids.iter().any(|i| i == text(&rule, "id")))
            && actions.as_ref().is_none_or(|ids| ids.iter().any(|i| i == text(&rule, "action_id")))
            && event.as_deref().is_none_or(|e| e == text(&rule, "event_id"))
            && args.flag("active").is_none_or(|active| active == flag(&rule, "active"))
            && text(&rule, "name").to_lowercase().contains(&search);
        if kept && access::read_pipe(ctx, event_repo).is_ok() {
            rules.push(rule);
        }
    }
    if let Some(sort) = args.get("sort") {
        let key = if text(sort, "by") == "name" { "name" } else { "created_at" };
        rules.sort_by_key(|r| text(r, key).to_owned());
        if text(sort, "order") == "desc" {
            rules.reverse();
        }
    }
    let rows = rules.iter().map(|r| (text(r, "id").to_owned(), link("automation", text(r, "id"))));
    page::connection(rows.collect(), args, page::PIPE_PAGE)
}

/// Runs inside the rolling window. Some rules keep their metrics from people who do not administer the pipe.
fn metrics(ctx: &Ctx<'_>, rule: &Value, args: &Args) -> Answer {
    let (_, level) = access::pipe(ctx, text(rule, "event_repo_id"))?;
    if flag(rule, "private_metrics") && level != access::Level::Admin {
        return Err(GqlError::denied().with(json!({ "automation_id": text(rule, "id") })));
    }
    let minutes = match args.text("period").as_deref() {
        Some("FIFTEEN_MINUTES") => 15,
        Some("TWELVE_HOURS") => 12 * 60,
        Some("TWENTY_FOUR_HOURS") => 24 * 60,
        _ => 60,
    };
    let since = ctx.now.as_second() - minutes * 60;
    let logs = ctx.children("automation_log", text(rule, "id"))?;
    let at = |log: &Value| parse_time(text(log, "datetime")).map_or(0, |t| t.as_second());
    let runs: Vec<_> = logs.iter().filter(|log| at(log) >= since && text(log, "status") != "processing").collect();
    let failed = runs.iter().filter(|log| text(log, "status") == "failed").count() as f64;
    let total = runs.len();
    let time: f64 = runs.iter().filter_map(|log| log.get("duration").and_then(Value::as_f64)).sum();
    let share =
        |part: f64| if total == 0 { Value::Null } else { json!((part / total as f64 * 1000.0).round() / 1000.0) };
    Ok(json!({
        "totalRuns": total, "lastRun": runs.iter().map(|log| text(log, "datetime")).max(),
        "failureRate": share(failed), "successRate": share(total as f64 - failed), "averageDuration": share(time),
    }))
}
