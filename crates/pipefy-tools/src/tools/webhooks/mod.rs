//! Webhooks of pipes. Their headers may hold secrets of the receiver, so listings mask the values (field report B19).

mod create_webhook;
mod delete_webhook;
mod get_webhooks;
mod update_webhook;

use pipefy::url_policy::{self, UrlPolicy};
use serde_json::{Map, Value};

use crate::capability::Row;
use crate::tools::shared::required_text;
use crate::{Call, ToolError};

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_webhooks::GetWebhooks>(),
    Row::write::<create_webhook::CreateWebhook>(),
    Row::write::<update_webhook::UpdateWebhook>(),
    Row::write::<delete_webhook::DeleteWebhook>(),
];

/// The events that a webhook may listen to, for hints: others may exist.
const EVENTS: &str = "actions are card.create, card.move, card.done, card.field_update, card.late, card.expired, card.overdue, \
                      card.delete, card.comment_create, card.email_received; url is https.";

/// A receiver's URL, trimmed, that Pipefy may be told to call.
fn receiver(call: &Call<'_>, url: &str) -> Result<String, ToolError> {
    let url = required_text("url", url)?;
    let policy = UrlPolicy::from_switch(call.toolbox.allow_insecure_urls);
    url_policy::validate_url("url", url, policy).map_err(|e| ToolError::invalid(e.to_string()))?;
    Ok(url.to_owned())
}

/// The events, trimmed; at least one and none blank.
fn events(actions: &[String]) -> Result<Value, ToolError> {
    if actions.is_empty() {
        return Err(ToolError::invalid("`actions` needs at least one event, e.g. card.create."));
    }
    actions.iter().map(|action| required_text("actions", action).map(Value::from)).collect()
}

/// Refuses an input that holds the credential this call acts with: whoever lists the webhooks could read it, and the
/// receiver would get it.
async fn without_our_credential(call: &Call<'_>, input: &Map<String, Value>) -> Result<(), ToolError> {
    let text = Value::Object(input.clone()).to_string();
    let found = call.session.credential_occurs_in(&text).await.map_err(ToolError::from)?;
    if found {
        return Err(ToolError::invalid(
            "The webhook holds the credential of this session; anybody who can list webhooks could read it. Use a secret of \
             the receiver's own instead. Nothing was sent.",
        ));
    }
    Ok(())
}

/// Headers as a listing shows them: the names, each value masked. Pipefy gives an object or its JSON text.
fn masked(headers: Value) -> Value {
    const MASK: &str = "***";
    match headers {
        Value::Null => Value::Null,
        Value::Object(map) => map.into_iter().map(|(name, _)| (name, Value::from(MASK))).collect(),
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(parsed @ (Value::Object(_) | Value::Null)) => masked(parsed).to_string().into(),
            Ok(Value::String(inner)) => masked(Value::String(inner)),
            _ if text.trim().is_empty() => Value::String(text),
            _ => MASK.into(),
        },
        _ => MASK.into(),
    }
}

#[cfg(test)]
mod tests;
