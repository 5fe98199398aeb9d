//! Invitations, and whether somebody is a member of a pipe in the end.

use pipefy::members;
use serde_json::{Map, Value, json};

use super::email::address;
use crate::tools::shared::{list_at, text_of};
use crate::{Call, ToolError};

/// One row of an invitation.
///
/// # Errors
/// `INVALID_ARGUMENTS` on one line, naming row and key.
pub(crate) fn row(index: usize, member: &Map<String, Value>) -> Result<Value, ToolError> {
    let wrong = |key: &str, reason: &str| ToolError::invalid(format!("Invalid members[{index}].{key}: {reason}"));
    let text = |key: &str| match member.get(key) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(wrong(key, "must be text")),
        None => Err(wrong(key, "Field required")),
    };
    let email = address(text("email")?).map_err(|reason| wrong("email", reason))?;
    let role = text("role_name")?.trim();
    if role.is_empty() {
        return Err(wrong("role_name", "must not be blank"));
    }
    match member.keys().find(|key| !matches!(key.as_str(), "email" | "role_name")) {
        Some(key) => Err(wrong(&key.escape_default().to_string(), "Extra inputs are not permitted")),
        None => Ok(json!({ "email": email, "role_name": role })),
    }
}

/// The roles of a pipe, for hints: others may exist.
pub(crate) const ROLES: &str =
    "Roles of a pipe are admin, member, creator (start form only), my_cards_only and read_and_comment";

/// The reasons that an invitation's answer gives by row.
pub(crate) fn row_errors(data: &Value) -> Vec<String> {
    list_at(data, "inviteMembers.errors")
        .iter()
        .filter_map(|error| {
            let reason = text_of(error.get("message")).or_else(|| text_of(Some(error)))?;
            Some(match text_of(error.get("index")) {
                Some(index) => format!("row {index}: {reason}"),
                None => reason,
            })
        })
        .collect()
}

/// Whether a pipe has a member with this address; `None` when it cannot be known.
pub(crate) async fn is_member(call: &Call<'_>, pipe_id: &str, email: &str) -> Option<bool> {
    if !is_number(pipe_id) {
        return None;
    }
    let data = call.query(members::get_pipe_members(pipe_id)).await.ok()?;
    let value = data.value();
    let email = email.trim().to_lowercase();
    let mut members = list_at(&value, "pipe.members").iter();
    Some(members.any(|member| {
        member
            .get("user")
            .and_then(|user| text_of(user.get("email")))
            .is_some_and(|found| found.to_lowercase() == email)
    }))
}

pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
