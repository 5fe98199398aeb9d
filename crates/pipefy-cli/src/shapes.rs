//! Results in the shape that scripts know: what the reference's commands print where our capabilities say it otherwise.

use pipefy_tools::{Outcome, dig};
use serde_json::{Map, Value, json};

/// `success: true`, the sentence, and the keys of the value.
pub(crate) fn with_success(message: Option<String>, value: Value) -> Value {
    let mut map = Map::new();
    map.insert("success".to_owned(), true.into());
    if let Some(message) = message {
        map.insert("message".to_owned(), message.into());
    }
    match value {
        Value::Object(keys) => map.extend(keys),
        Value::Null => {}
        other => {
            map.insert("data".to_owned(), other);
        }
    }
    map.into()
}

/// `success: true` alone.
pub(crate) fn success(_: Outcome) -> Value {
    json!({ "success": true })
}

/// `{success, message, data}`; nothing found is a soft failure.
pub(crate) fn retrieved(outcome: Outcome) -> Value {
    let message = outcome.message.clone();
    match outcome.body.into_value() {
        Value::Null => json!({ "success": false, "message": message }),
        data => json!({ "success": true, "message": message, "data": data }),
    }
}

/// The page beside the data.
pub(crate) fn listed(outcome: Outcome) -> Value {
    let (message, page) = (outcome.message.clone(), outcome.page.clone());
    let data = outcome.body.into_value();
    json!({ "success": true, "data": data, "message": message, "pagination": page.unwrap_or_default().block() })
}

/// `success: true`, the keys of the result, and `page_info`.
pub(crate) fn paged(outcome: Outcome) -> Value {
    let page = outcome.page.clone();
    let mut value = with_success(None, outcome.body.into_value());
    if let (Value::Object(map), Some(page)) = (&mut value, page) {
        map.entry("page_info").or_insert(json!({ "hasNextPage": page.has_more, "endCursor": page.end_cursor }));
    }
    value
}

/// A listing without what is around it.
pub(crate) fn bare_list(outcome: Outcome) -> Value {
    match outcome.body.into_value() {
        Value::Object(map) if map.values().filter(|value| value.is_array()).count() == 1 => {
            map.into_iter().map(|(_, value)| value).find(Value::is_array).unwrap_or_default()
        }
        other => other,
    }
}

/// `createComment` and `updateComment`, as Pipefy answers them.
pub(crate) fn comment_added(outcome: Outcome) -> Value {
    json!({ "createComment": { "comment": { "id": part(&outcome, "comment_id") } } })
}

/// See [`comment_added`].
pub(crate) fn comment_updated(outcome: Outcome) -> Value {
    json!({ "updateComment": { "comment": { "id": part(&outcome, "comment_id") } } })
}

/// The phase and where its cards can go, as Pipefy answers it.
pub(crate) fn targets(outcome: Outcome) -> Value {
    json!({ "phase": {
        "id": part(&outcome, "phase_id"),
        "name": part(&outcome, "phase_name"),
        "cards_can_be_moved_to_phases": part(&outcome, "allowed_phases"),
    } })
}

/// `createFieldCondition`, as Pipefy answers it.
pub(crate) fn condition_created(outcome: Outcome) -> Value {
    json!({ "createFieldCondition": { "fieldCondition": { "id": part(&outcome, "condition_id") } } })
}

/// `updateFieldCondition`, as Pipefy answers it.
pub(crate) fn condition_updated(outcome: Outcome) -> Value {
    json!({ "updateFieldCondition": { "fieldCondition": { "id": part(&outcome, "condition_id") } } })
}

/// `createAutomation`, as Pipefy answers it.
pub(crate) fn automation_created(outcome: Outcome) -> Value {
    json!({ "createAutomation": { "automation": part(&outcome, "automation"), "error_details": [] } })
}

/// `updateAutomation`, as Pipefy answers it.
pub(crate) fn automation_updated(outcome: Outcome) -> Value {
    json!({ "updateAutomation": { "automation": part(&outcome, "automation"), "error_details": [] } })
}

/// The answer, and who is a member all the same.
pub(crate) fn members_removed(outcome: Outcome) -> Value {
    let warning = outcome.extra.get("warning").cloned();
    json!({ "data": outcome.body.into_value(), "warning": warning })
}

/// The account with its secret, and the pipes it joined.
pub(crate) fn service_account(outcome: Outcome) -> Value {
    let mut payload = match outcome.body.into_value() {
        Value::Object(payload) => payload,
        other => return other,
    };
    let memberships = payload.shift_remove("pipe_memberships");
    let mut shown = json!({ "success": true, "createServiceAccount": payload });
    if let (Value::Object(shown), Some(memberships)) = (&mut shown, memberships) {
        shown.insert("pipe_memberships".to_owned(), memberships);
    }
    shown
}

/// `deleteServiceAccount`, as Pipefy answers it.
pub(crate) fn service_account_deleted(_: Outcome) -> Value {
    json!({ "success": true, "deleteServiceAccount": { "success": true } })
}

/// A knowledge base that is gone.
pub(crate) fn knowledge_deleted(_: Outcome) -> Value {
    json!({ "success": true, "errors": [] })
}

/// A file that was uploaded, with a sentence.
pub(crate) fn uploaded(outcome: Outcome) -> Value {
    let message = outcome.message.clone().unwrap_or_else(|| "The file was uploaded.".to_owned());
    with_success(Some(message), outcome.body.into_value())
}

/// A URL to upload to, with a sentence.
pub(crate) fn presigned(outcome: Outcome) -> Value {
    let message = outcome.message.clone().unwrap_or_else(|| {
        "Send the file to upload_url with PUT, then store [storage_path] as the value of the field.".to_owned()
    });
    with_success(Some(message), outcome.body.into_value())
}

fn part(outcome: &Outcome, name: &str) -> Value {
    dig(&outcome.body.value(), name).cloned().unwrap_or_default()
}
