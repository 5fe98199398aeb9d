//! Failures of portals and interfaces (`spec/tools-data-portals.md`, 1.8): by what Pipefy says, with what to do about it.

use pipefy::{Error, GraphqlError};
use serde_json::Value;

use crate::ToolError;

const DENIED: [&str; 3] = ["PERMISSION_DENIED", "FORBIDDEN", "UNAUTHORIZED"];
const MISSING: [&str; 2] = ["RECORD_NOT_FOUND", "RESOURCE_NOT_FOUND"];

/// A failed read; `not_found` is said where the API says that something is not there.
pub(crate) fn of_read(error: Error, not_found: Option<&str>) -> ToolError {
    explain(error, not_found)
}

/// A failed write: what was not done, in words, and why.
pub(crate) fn of_write(error: Error, doing: &str, not_found: Option<&str>) -> ToolError {
    let bare = matches!(error, Error::Declined { .. } | Error::NoPayload { .. });
    let failure = explain(error, not_found);
    if !bare {
        return failure;
    }
    let reason = failure.message.trim_end_matches('.').to_owned();
    failure.message(format!("Could not {doing}: {reason}. Read its state again; if it persists ask Pipefy's support."))
}

/// A failed call that names data sources: the API refuses a repo by a bare "Permission denied" without a code.
pub(crate) fn of_sources(error: Error, doing: Option<&str>, not_found: &str) -> ToolError {
    let text = error.to_string();
    let bare = matches!(error, Error::Graphql { .. }) && error.codes().is_empty();
    if bare && text.trim().trim_end_matches('.').eq_ignore_ascii_case("permission denied") {
        return ToolError::from(error).message(
            "The repo of a data source was refused: only pipes and tables that `list_interface_repos` returns can be bound.",
        );
    }
    match doing {
        Some(doing) => of_write(error, doing, Some(not_found)),
        None => of_read(error, Some(not_found)),
    }
}

fn explain(error: Error, not_found: Option<&str>) -> ToolError {
    if !matches!(error, Error::Graphql { .. }) {
        return ToolError::from(error);
    }
    let text = error.to_string();
    let lower = text.to_lowercase();
    let has = |codes: &[&str]| error.codes().iter().any(|code| codes.contains(code));
    let message = if let Some(list) = violations(error.graphql_errors()) {
        Some(list)
    } else if let (Some(not_found), true) = (not_found, has(&MISSING) || lower.starts_with("couldn't find")) {
        Some(not_found.to_owned())
    } else if has(&DENIED) || lower.contains("permission denied") {
        Some(format!(
            "{}. Ask an admin of the organization for the permission create_portal or manage_portals.",
            text.trim_end_matches('.')
        ))
    } else {
        None
    };
    let failure = ToolError::from(error);
    match message {
        Some(message) => failure.message(message),
        None => failure,
    }
}

/// The rules that a document broke, one a line.
fn violations(errors: &[GraphqlError]) -> Option<String> {
    let first = errors.first()?;
    if !first.code.as_deref()?.trim().eq_ignore_ascii_case("HTML_VALIDATION_FAILED") {
        return None;
    }
    let list = first.raw.get("extensions")?.get("violations")?.as_array()?;
    let lines: Vec<String> = list.iter().filter_map(violation).collect();
    let count = match lines.len() {
        0 => return None,
        1 => "1 violation".to_owned(),
        more => format!("{more} violations"),
    };
    Some(format!(
        "The HTML was not saved: {count}. Fix every one, then write the whole document again.\n{}",
        lines.join("\n")
    ))
}

fn violation(entry: &Value) -> Option<String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let (code, message) = (text("code")?, text("message")?);
    let place = match (text("selector"), text("attribute")) {
        (Some(selector), Some(attribute)) => format!(" at {selector}[{attribute}]"),
        (Some(selector), None) => format!(" at {selector}"),
        (None, Some(attribute)) => format!(" at [{attribute}]"),
        (None, None) => String::new(),
    };
    Some(format!("- {code}{place}: {message}"))
}
