//! From a capability's result to what is shown: the part that the row names, and what belongs beside it.

use pipefy_tools::{Class, Outcome};
use serde_json::{Map, Value, json};

use crate::command::{Command, Show};
use crate::commands;
use crate::flow::Approved;
use crate::output::{Body, Shown, is_nothing};
use crate::shapes::with_success;

/// What the row shows of a result.
pub(crate) fn row(command: &Command, outcome: Outcome, approved: Approved) -> Shown {
    let body = |outcome: Outcome| outcome.body.into_value();
    let is_read = commands::tool_of(command).is_some_and(|tool| tool.op().class == Class::Read);
    let message = outcome.message.clone();
    let shown = dressed(outcome, approved, |outcome| match &command.show {
        Show::Body => body(outcome),
        Show::At(key) => match body(outcome) {
            Value::Object(mut map) => map.shift_remove(*key).unwrap_or(Value::Null),
            other => other,
        },
        Show::Success => with_success(None, body(outcome)),
        Show::SuccessAs(key) => json!({ "success": true, *key: part(key, body(outcome)) }),
        Show::Told => {
            let message = outcome.message.clone();
            with_success(message, body(outcome))
        }
        Show::Done(root) => json!({ *root: { "success": true } }),
        Show::Under(key) => json!({ *key: body(outcome) }),
        Show::With(of) => of(outcome),
    });
    if is_read { missing(shown, message) } else { shown }
}

/// A read that found nothing: Pipefy knows no such thing, or does not show it. That is said, and is exit code 1.
pub(crate) fn missing(mut shown: Shown, message: Option<String>) -> Shown {
    if matches!(&shown.body, Body::Value(value) if is_nothing(value)) {
        shown.notes.extend(message.map(|message| commands::with_commands(&message)));
        shown.code = shown.code.max(1);
    }
    shown
}

/// The part of this name, else the only part, else all of it.
fn part(key: &str, value: Value) -> Value {
    match value {
        Value::Object(mut map) if map.contains_key(key) => map.shift_remove(key).unwrap_or_default(),
        Value::Object(map) if map.len() == 1 => map.into_iter().map(|(_, part)| part).next().unwrap_or_default(),
        other => other,
    }
}

/// A result in the shape that `dress` gives it. Previews and dry runs keep their own; what is worth a note becomes one.
pub(crate) fn dressed(outcome: Outcome, approved: Approved, dress: impl FnOnce(Outcome) -> Value) -> Shown {
    if outcome.whole {
        let value = outcome.body.into_value();
        return match approved == Approved::Preview && value.get("requires_confirmation").is_some() {
            true => draft(value),
            false => Shown::value(value),
        };
    }
    let mut notes = notes(&outcome);
    let unverified = outcome.extra.get("verification").and_then(|v| v.get("verified")) == Some(&Value::Bool(false));
    let failed = unverified || outcome.broke_off;
    let extra = outcome.extra.clone();
    let mut shown = Shown::value(with_extra(dress(outcome), extra));
    shown.notes.append(&mut notes);
    shown.code = shown.code.max(u8::from(failed));
    shown
}

/// What a capability did otherwise than asked belongs into the data that scripts read.
fn with_extra(mut value: Value, mut extra: Map<String, Value>) -> Value {
    if let Value::Object(map) = &mut value {
        for key in ["title_warning", "skipped_field_ids"] {
            if let Some(said) = extra.shift_remove(key) {
                map.entry(key).or_insert(said);
            }
        }
    }
    value
}

/// What was not sent, for people to look at.
fn draft(value: Value) -> Shown {
    let Value::Object(mut map) = value else { return Shown::value(value).code(2) };
    for key in ["success", "requires_confirmation", "confirmation_token", "message", "resource"] {
        map.shift_remove(key);
    }
    let map = match map.shift_remove("email") {
        Some(Value::Object(draft)) => draft,
        _ => map,
    };
    Shown::value(map.into()).note("Nothing was sent. Repeat the command with --yes to send it.").code(2)
}

/// What belongs beside the data: where reading all pages ended, and what reading back showed.
fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    let text = |key: &str| outcome.extra.get(key).and_then(Value::as_str);
    if outcome.extra.get("complete") == Some(&Value::Bool(false)) {
        let returned = outcome.extra.get("returned").map(Value::to_string).unwrap_or_default();
        let why = text("stopped").map(|why| format!(" ({why})")).unwrap_or_default();
        let next = text("next_cursor").map(|cursor| format!(" Go on with --after {cursor}")).unwrap_or_default();
        notes.push(format!("note: {returned} items read, and there are more{why}.{next}"));
    }
    notes.extend(text("warning").map(|warning| format!("warning: {}", commands::with_commands(warning))));
    if let Some(verification) = outcome.extra.get("verification") {
        let note = verification.get("note").and_then(Value::as_str).unwrap_or_default();
        notes.push(match verification.get("verified") {
            Some(Value::Bool(true)) => format!("verified: {note}"),
            Some(Value::Bool(false)) => format!("not as asked: {note}"),
            _ => format!("could not be verified: {note}"),
        });
    }
    notes
}
