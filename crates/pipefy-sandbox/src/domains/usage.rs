//! What automations and AI cost: counted from the runs that really happened.

use super::reports;
use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx, day, parse_time, stamp};
use crate::error::GqlError;
use crate::json::{flag, scalar, text, texts};
use crate::object::{Property, Root};
use crate::page;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("agentsUsageDetails", |ctx, args| details(ctx, args, "agents")),
    Root::public("automationsUsageDetails", |ctx, args| details(ctx, args, "automations")),
    Root::public("aiCreditUsageStats", credits),
];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["AgentsUsageDetails"], "agents", paged),
    Property::of(&["AutomationsUsageDetails"], "automations", paged),
];

/// AI credits per month that the plan includes, unless the organization has another limit.
const LIMIT: f64 = 1_000.0;
/// The part of them that is free of charge.
const FREE: f64 = 100.0;

/// First and last moment of a period filter: `current_month`, `last_month`, `last_3_months` (three whole months back
/// from now).
pub(super) fn span(ctx: &Ctx<'_>, period: &str) -> Result<(Timestamp, Timestamp), GqlError> {
    let today = day(ctx.now);
    let month = today.first_of_month();
    let midnight = |date: jiff::civil::Date| parse_time(&date.to_string()).unwrap_or(ctx.now);
    let back = |months: i64| midnight(month.checked_sub(months.months()).unwrap_or(month));
    Ok(match period {
        "current_month" => (midnight(month), ctx.now),
        "last_month" => (back(1), midnight(month)),
        "last_3_months" => (back(3), ctx.now),
        other => return Err(GqlError::invalid(format!("Unknown period {other:?}"))),
    })
}

/// What a run cost: its recorded credits, one when none are recorded.
fn cost(log: &Value) -> f64 {
    log.get("credits").and_then(Value::as_f64).unwrap_or(1.0)
}

fn during(logs: Vec<Body>, key: &str, (from, to): (Timestamp, Timestamp)) -> Vec<Body> {
    let inside = |log: &Body| parse_time(text(log, key)).is_some_and(|at| from <= at && at <= to);
    logs.into_iter().filter(inside).collect()
}

fn repo(ctx: &Ctx<'_>, id: &str) -> Answer {
    for kind in ["pipe", "table"] {
        if let Some(repo) = ctx.find(kind, id)? {
            return Ok(json!({ "id": text(&repo, "id"), "uuid": text(&repo, "uuid"), "name": text(&repo, "name") }));
        }
    }
    Ok(Value::Null)
}

/// One row per rule of an organization, with its runs in the span.
fn automations(ctx: &Ctx<'_>, org: &Value, span: (Timestamp, Timestamp)) -> Result<Vec<Value>, GqlError> {
    let mut rows = Vec::new();
    for rule in ctx.children("automation", text(org, "id"))? {
        let runs = during(ctx.children("automation_log", text(&rule, "id"))?, "datetime", span);
        let event_repo = repo(ctx, text(&rule, "event_repo_id"))?;
        rows.push(json!({
            "id": text(&rule, "id"), "name": text(&rule, "name"), "usage": runs.len() as f64,
            "status": if flag(&rule, "active") { "active" } else { "inactive" }, "action": text(&rule, "action_id"),
            "event": text(&rule, "event_id"), "actionRepo": repo(ctx, text(&rule, "action_repo_id"))?, "eventRepo": event_repo,
            "createdAt": text(&rule, "created_at"),
            "updatedAt": rule.get("updated_at").or_else(|| rule.get("created_at")).cloned(),
        }));
    }
    Ok(rows)
}

/// One row per agent of an organization, with its credits in the span.
fn agents(ctx: &Ctx<'_>, org: &Value, span: (Timestamp, Timestamp)) -> Result<Vec<Value>, GqlError> {
    let mut rows = Vec::new();
    for pipe in ctx.children("pipe", text(org, "id"))? {
        let here = json!({ "id": text(&pipe, "id"), "uuid": text(&pipe, "uuid"), "name": text(&pipe, "name") });
        for agent in ctx.children("agent", text(&pipe, "uuid"))? {
            let runs = during(ctx.grouped("agent_log", text(&agent, "uuid"))?, "createdAt", span);
            let behavior = agent.pointer("/behaviors/0").cloned().unwrap_or_default();
            rows.push(json!({
                "id": text(&agent, "uuid"), "name": text(&agent, "name"), "usage": runs.iter().map(|r| cost(r)).sum::<f64>(),
                "status": if text(&agent, "disabledAt").is_empty() { "active" } else { "inactive" },
                "action": "ai_behavior", "event": behavior.get("event_id"), "actionRepo": here, "eventRepo": here,
                "createdAt": text(&agent, "created_at"),
                "updatedAt": agent.get("updated_at").or_else(|| agent.get("created_at")).cloned(),
            }));
        }
    }
    Ok(rows)
}

fn details(ctx: &Ctx<'_>, args: &Args, what: &str) -> Answer {
    let org = access::managed_organization(ctx, &args.need("organizationUuid")?)?;
    let range = args.get("filterDate").cloned().unwrap_or_default();
    let moment = |key: &str| {
        parse_time(text(&range, key))
            .ok_or_else(|| GqlError::invalid(format!("filterDate.{key} is not a date: {:?}", text(&range, key))))
    };
    let (from, mut to) = (moment("from")?, moment("to")?);
    // A plain date as the end means the whole day.
    if text(&range, "to").len() <= 10 {
        to = to.checked_add(jiff::SignedDuration::from_hours(24)).unwrap_or(to);
    }
    let mut rows = match what {
        "agents" => agents(ctx, &org, (from, to))?,
        _ => automations(ctx, &org, (from, to))?,
    };
    let search = args.text("search").unwrap_or_default().to_lowercase();
    let filters = args.get("filters").cloned().unwrap_or_default();
    let wanted = |key: &str| filters.get(key).map(texts).filter(|list| !list.is_empty());
    let (actions, events, statuses, pipes) = (wanted("action"), wanted("event"), wanted("status"), wanted("pipe"));
    let hits = |list: &Option<Vec<String>>, have: &[&str]| {
        list.as_ref().is_none_or(|list| list.iter().any(|wanted| have.contains(&wanted.as_str())))
    };
    rows.retain(|row| {
        let repo = row.get("eventRepo").cloned().unwrap_or_default();
        text(row, "name").to_lowercase().contains(&search)
            && hits(&actions, &[text(row, "action")])
            && hits(&events, &[text(row, "event")])
            && hits(&statuses, &[text(row, "status")])
            && hits(&pipes, &[text(&repo, "id"), text(&repo, "uuid")])
    });
    if let Some(sort) = args.get("sort") {
        let field = text(sort, "field").to_owned();
        let key = |row: &Value| row.get(&field).and_then(scalar).unwrap_or_default();
        if !["name", "usage", "status", "action", "event", "createdAt", "updatedAt"].contains(&field.as_str()) {
            return Err(GqlError::invalid(format!("Usage cannot be sorted by {field:?}")));
        }
        rows.sort_by(|a, b| super::records::compare(&key(a), &key(b)));
        if text(sort, "direction") == "desc" {
            rows.reverse();
        }
    }
    let usage: f64 = rows.iter().filter_map(|row| row.get("usage").and_then(Value::as_f64)).sum();
    Ok(json!({ "usage": usage, "rows": rows }))
}

fn paged(_: &Ctx<'_>, details: &Value, args: &Args) -> Answer {
    let rows = details.get("rows").and_then(Value::as_array).cloned().unwrap_or_default();
    page::connection(rows.into_iter().map(|row| (text(&row, "id").to_owned(), row)).collect(), args, page::PIPE_PAGE)
}

/// Credits that agents and prompt automations of an organization used up.
fn spent(ctx: &Ctx<'_>, org: &Value, span: (Timestamp, Timestamp)) -> Result<(f64, f64), GqlError> {
    let total = |logs: Vec<Body>, key: &str| during(logs, key, span).iter().map(|log| cost(log)).sum::<f64>();
    let (mut agents, mut prompts) = (0.0, 0.0);
    for pipe in ctx.children("pipe", text(org, "id"))? {
        agents += total(ctx.children("agent_log", text(&pipe, "uuid"))?, "createdAt");
    }
    for rule in ctx.children("automation", text(org, "id"))? {
        if text(&rule, "action_id") == "generate_with_ai" {
            prompts += total(ctx.children("automation_log", text(&rule, "id"))?, "datetime");
        }
    }
    Ok((agents, prompts))
}

fn limit(org: &Value) -> f64 {
    org.get("ai_credit_limit").and_then(Value::as_f64).unwrap_or(LIMIT)
}

/// Sets the monthly credits of every organization; `None` gives back the plan's own.
pub(crate) fn limit_to(ctx: &Ctx<'_>, limit: Option<f64>) -> Answer {
    for org in ctx.all("organization")? {
        let mut body = (*org).clone();
        crate::json::set(&mut body, "ai_credit_limit", limit);
        ctx.save("organization", text(&org, "id"), body)?;
    }
    Ok(json!({ "limit": limit.unwrap_or(LIMIT) }))
}

/// Whether AI may still run in a pipe this month; the inner error says why not.
pub(crate) fn affordable(ctx: &Ctx<'_>, pipe: &str) -> Result<Result<(), GqlError>, GqlError> {
    let pipe = ctx.must("pipe", "Pipe", pipe)?;
    let org = ctx.must("organization", "Organization", text(&pipe, "organization_id"))?;
    let (agents, prompts) = spent(ctx, &org, span(ctx, "current_month")?)?;
    let (used, limit) = (agents + prompts, limit(&org));
    let message = format!("The AI credits of this month are used up ({used} of {limit})");
    Ok(if used < limit { Ok(()) } else { Err(GqlError::new("USAGE_LIMIT_EXCEEDED", message)) })
}

/// Credits of one run of a behavior: those of the system provider that it names, else one.
pub(crate) fn price(behavior: &Value) -> f64 {
    let provider = behavior.pointer("/action_params/aiBehaviorParams/systemProviderId").and_then(scalar);
    provider.and_then(|id| super::providers::credits(&id)).unwrap_or(1.0)
}

fn credits(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = reports::insider(ctx, &args.need("organizationUuid")?)?;
    let span = span(ctx, &args.need("period")?)?;
    let (agents, prompts) = spent(ctx, &org, span)?;
    let usage = agents + prompts;
    Ok(json!({
        "active": true, "usage": usage, "limit": limit(&org), "hasAddon": false, "updatedAt": ctx.stamp(),
        "aiAutomation": { "enabled": true, "usage": prompts }, "assistants": { "enabled": true, "usage": agents },
        "freeAiCredit": { "limit": FREE, "usage": usage.min(FREE) },
        "filterDate": { "from": stamp(span.0), "to": stamp(span.1) },
    }))
}
