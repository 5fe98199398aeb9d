//! Mistakes in conditions that Pipefy accepts and that bite later (`spec/tools-pipes-cards.md`, "Field conditions").

use pipefy::conditions::CONDITION_OPERATIONS;
use pipefy::pipes;
use serde_json::{Map, Value};

use crate::tools::shared::{list_at, text_of};
use crate::{Call, ToolError};

/// Checks the actions of a condition by themselves.
///
/// # Errors
/// `INVALID_ARGUMENTS`: none at all, or a slug where an internal id is wanted.
pub(crate) fn actions(actions: &[Map<String, Value>]) -> Result<(), ToolError> {
    if actions.is_empty() {
        return Err(ToolError::invalid("`actions` must be a non-empty list of objects."));
    }
    match actions.iter().position(|action| action.get("phaseFieldId").and_then(Value::as_str).is_some_and(is_slug)) {
        Some(index) => Err(ToolError::invalid(format!(
            "actions[{index}].phaseFieldId looks like a slug; the `internal_id` from `get_phase_fields` is expected \
             (Pipefy's documentation of field conditions: https://developers.pipefy.com)."
        ))),
        None => Ok(()),
    }
}

/// Refuses operations that no expression knows: Pipefy keeps them, and the rule never holds. `stored` is the condition as it
/// is now; what it holds already stays possible.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the expression and the operations there are.
pub(crate) fn operations(condition: &Map<String, Value>, stored: Option<&Value>) -> Result<(), ToolError> {
    let operation = |expression: &Value| text_of(expression.get("operation")).unwrap_or_default();
    let kept: Vec<String> =
        stored.map(|rule| list_at(rule, "condition.expressions")).unwrap_or_default().iter().map(operation).collect();
    let Some(Value::Array(expressions)) = condition.get("expressions") else { return Ok(()) };
    for (index, expression) in expressions.iter().enumerate() {
        let given = operation(expression);
        // An expression without an operation is one that was never filled in; Pipefy shows such as well.
        if !given.is_empty() && !CONDITION_OPERATIONS.contains(&given.as_str()) && !kept.contains(&given) {
            let shown: String = given.chars().take(60).collect();
            return Err(ToolError::invalid(format!(
                "condition.expressions[{index}].operation '{}' is not known. Operations are {}.",
                shown.escape_default(),
                CONDITION_OPERATIONS.join(", ")
            )));
        }
    }
    Ok(())
}

/// Whether a condition holds an operation that [`operations`] would refuse without knowing the rule as it is.
pub(crate) fn is_odd(condition: &Map<String, Value>) -> bool {
    operations(condition, None).is_err()
}

/// Refuses to hide required fields of the phase: cards would be stuck there without saying why (field report A08). Skipped
/// when the fields cannot be read.
///
/// # Errors
/// `INVALID_ARGUMENTS` listing the ids.
pub(crate) async fn required_and_hidden(
    call: &Call<'_>,
    phase_id: &str,
    actions: &[Map<String, Value>],
) -> Result<(), ToolError> {
    let mut hidden: Vec<String> = Vec::new();
    for action in actions {
        let kind = action.get("actionId").and_then(Value::as_str).unwrap_or_default().trim().to_ascii_lowercase();
        let Some(id) = text_of(action.get("phaseFieldId")) else { continue };
        if matches!(kind.as_str(), "hide" | "hidden") && !hidden.contains(&id) {
            hidden.push(id);
        }
    }
    if hidden.is_empty() {
        return Ok(());
    }
    let Ok(data) = call.query(pipes::get_phase_fields(phase_id)).await else { return Ok(()) };
    let value = data.value();
    let required: Vec<String> = list_at(&value, "phase.fields")
        .iter()
        .filter(|field| field.get("required").and_then(Value::as_bool) == Some(true))
        .flat_map(|field| ["internal_id", "id", "uuid"].map(|key| text_of(field.get(key))))
        .flatten()
        .collect();
    hidden.retain(|id| required.contains(id));
    if hidden.is_empty() {
        return Ok(());
    }
    Err(ToolError::invalid(format!(
        "Required fields must not be hidden, cards would be stuck: {}. Clear `required` first (update_phase_field), or use \
         the action show instead.",
        hidden.join(", ")
    )))
}

/// Text with a letter that is neither a number nor a uuid.
fn is_slug(text: &str) -> bool {
    let text = text.trim();
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let uuid = parts == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    !uuid && text.chars().any(char::is_alphabetic)
}
