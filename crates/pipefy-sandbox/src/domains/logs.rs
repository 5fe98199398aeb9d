//! Runs of automations and AI agents.

use crate::access;
use crate::ctx::{Answer, Args, Body};
use crate::error::GqlError;
use crate::json::{link, text};
use crate::object::Root;
use crate::page;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("automationLogs", |ctx, args| {
        let id = args.need("automationId")?;
        let rule = ctx.get("automation", &id)?.ok_or_else(|| GqlError::not_found("Automation", &id))?;
        access::read_pipe(ctx, text(&rule, "event_repo_id"))?;
        listed("automation_log", &ctx.children("automation_log", &id)?, "datetime", args)
    }),
    Root::public("automationLogsByRepo", |ctx, args| {
        let pipe = access::read_pipe(ctx, &args.need("repoId")?)?;
        listed("automation_log", &ctx.grouped("automation_log", text(&pipe, "id"))?, "datetime", args)
    }),
    Root::public("aiAgentLogsByRepo", |ctx, args| {
        let pipe = access::read_pipe(ctx, &args.need("repoUuid")?)?;
        listed("agent_log", &ctx.children("agent_log", text(&pipe, "uuid"))?, "createdAt", args)
    }),
    Root::public("aiAgentLogDetails", |ctx, args| {
        let log = ctx.must("agent_log", "AI agent log", &args.need("uuid")?)?;
        let agent = ctx.must("agent", "AI agent", text(&log, "agentUuid"))?;
        access::read_pipe(ctx, text(&agent, "repoUuid"))?;
        Ok(link("agent_log", text(&log, "uuid")))
    }),
];

/// Newest first, narrowed by status and by words in the card's title or the name.
fn listed(kind: &str, logs: &[Body], time: &str, args: &Args) -> Answer {
    let status = args.text("status");
    let term = args.text("searchTerm").unwrap_or_default().to_lowercase();
    let mut kept: Vec<&Body> = logs
        .iter()
        .filter(|log| {
            let hay = format!("{} {} {}", text(log, "cardTitle"), text(log, "automationName"), text(log, "agentName"))
                .to_lowercase();
            status.as_deref().is_none_or(|s| s == text(log, "status")) && hay.contains(&term)
        })
        .collect();
    kept.sort_by(|a, b| text(b, time).cmp(text(a, time)));
    let rows: Vec<(String, Value)> =
        kept.iter().map(|log| (text(log, "uuid").to_owned(), link(kind, text(log, "uuid")))).collect();
    page::connection(rows, args, page::PIPE_PAGE)
}

/// What a run of an agent looked like inside.
pub(super) fn trace(log: &Value) -> Value {
    if let Some(trace) = log.get("trace") {
        return trace.clone();
    }
    let failed = text(log, "status") == "failed";
    json!([
        { "nodeName": "Read the card", "status": "success", "message": "Card loaded" },
        { "nodeName": "Decide", "status": text(log, "status"), "message": if failed { "The model gave no usable answer" } else { "Action chosen" } },
    ])
}
