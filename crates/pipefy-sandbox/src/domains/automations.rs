//! Automations: listing with filters, and run metrics that are denied rule by rule.

use crate::access;
use crate::ctx::{Answer, Args, Ctx, parse_time};
use crate::error::GqlError;
use crate::json::{flag, link, links, text, texts_at};
use crate::object::{Property, Root};
use crate::page;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("automation", |ctx, args| {
        let id = args.need("id")?;
        let automation = ctx.get("automation", &id)?.ok_or_else(|| GqlError::not_found("Automation", &id))?;
        access::pipe(ctx, text(&automation, "event_repo_id"))?;
        Ok(link("automation", &id))
    }),
    Root::public("automations", list),
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
];

fn list(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = access::organization(ctx, &args.need("organizationId")?)?;
    let repo = match args.text("repoId") {
        Some(id) => Some(text(&access::pipe(ctx, &id)?.0, "id").to_owned()),
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
        if kept && access::pipe(ctx, event_repo).is_ok() {
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
        return Err(GqlError::denied());
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
    let share = |part: f64| if total == 0 { Value::Null } else { json!((part / total as f64 * 1000.0).round() / 1000.0) };
    Ok(json!({
        "totalRuns": total, "lastRun": runs.iter().map(|log| text(log, "datetime")).max(),
        "failureRate": share(failed), "successRate": share(total as f64 - failed), "averageDuration": share(time),
    }))
}
