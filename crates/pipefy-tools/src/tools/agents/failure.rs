//! Failures of AI agent tools, with what a caller needs to repair the request (`spec/tools-automation-ai.md`, 1.8, 4.7).

use pipefy::Error;
use serde_json::Value;

use super::behaviors::{Behavior, actions, text};
use super::{preflight, references};
use crate::tools::permission::membership_lines;
use crate::{Call, ToolError};

/// A failed call, with code and correlation id for whoever asks Pipefy's support.
pub(crate) fn plain(error: Error) -> ToolError {
    let correlation = error.correlation_id().map(str::to_owned);
    let mut out = ToolError::from(error);
    if let Some(id) = correlation {
        out = out.detail("correlation_id", id);
    }
    out
}

/// A failed creation, with what membership tells.
pub(crate) async fn not_created(call: &Call<'_>, error: Error, behaviors: &[Behavior]) -> ToolError {
    let members = members(call, &error, behaviors).await;
    let failure = plain(error);
    let message = format!("{members}{}", failure.message);
    failure.message(message)
}

/// A refused configuration: what was sent, and what a check of the pipe finds.
pub(crate) async fn not_configured(call: &Call<'_>, error: Error, behaviors: &[Behavior]) -> ToolError {
    let reason = if error
        .graphql_errors()
        .iter()
        .all(|e| e.raw.get("message").and_then(Value::as_str).is_some_and(|m| m.trim().is_empty()))
        && !error.graphql_errors().is_empty()
    {
        "The AI behavior request failed without a reason.".to_owned()
    } else {
        error.to_string()
    };
    let mut message = members(call, &error, behaviors).await;
    message.push_str(&reason);
    message.push_str(&format!("\nBehaviors sent ({}):", behaviors.len()));
    for (i, behavior) in behaviors.iter().enumerate() {
        let name = behavior.get("name").and_then(Value::as_str).unwrap_or("<unnamed>");
        let event = behavior.get("eventId").and_then(Value::as_str).unwrap_or("?");
        let kinds: Vec<&str> = actions(behavior).iter().map(|a| text(a, "actionType").unwrap_or("?")).collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { format!("[{}]", kinds.join(", ")) };
        message.push_str(&format!("\n  [{i}] \"{name}\" (event={event}, actions={kinds})"));
    }
    let not_saved = reason.contains("RECORD_NOT_SAVED") || error.has_code("RECORD_NOT_SAVED");
    if not_saved {
        message.push_str("\nHint: every action needs the metadata of its type; check that it is complete.");
    }
    if reason.contains("must contain at least 1 action") {
        message.push_str("\nHint: give every behavior at least one entry in actionsAttributes.");
    }
    let pipe = behaviors.iter().flat_map(references::pipe_ids).next();
    if let (true, Some(pipe)) = (not_saved, pipe)
        && let Ok(verdict) = preflight::check_one(call, &pipe, behaviors).await
    {
        if verdict.problems.is_empty() {
            message.push_str(
                "\nA check of the pipe found no problem with fields, phases, relations or action types. The error does not name its \
                 cause: look for an unknown eventId, human_validation without emails and title, or other invalid values.",
            );
        } else {
            message.push_str("\nValidation found problems:");
            for problem in &verdict.problems {
                message.push_str(&format!("\n  - {problem}"));
            }
        }
        message.push_str(ROLLBACK);
    }
    plain(error).message(message)
}

const ROLLBACK: &str = "\nA rejected update is not rolled back: read the agent with get_ai_agent, fix it, and send the full list of \
    behaviors again.";

async fn members(call: &Call<'_>, error: &Error, behaviors: &[Behavior]) -> String {
    let pipes: Vec<String> = behaviors.iter().flat_map(references::pipe_ids).collect();
    let pipes: Vec<&str> = pipes.iter().map(String::as_str).collect();
    match membership_lines(call, error, &pipes).await {
        Some(lines) => format!("{lines}\n"),
        None => String::new(),
    }
}
