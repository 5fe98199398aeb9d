//! Webhooks of pipes. Root fields `pipe.webhooks`, `createWebhook`, `updateWebhook`, `deleteWebhook` of the public endpoint.
//!
//! The API's `Json` scalar takes text: headers are encoded with [`json_text`], digits and UTF-8 as they are (field report B04).

use serde_json::{Map, Value};

use crate::document::documents::webhooks as documents;
use crate::operation::{Mutation, Query};

/// The webhooks of a pipe; `pipe` is null when there is none of that id.
pub fn get_webhooks(pipe_id: &str) -> Query {
    Query::new(&documents::GET_WEBHOOKS).var("pipeId", pipe_id)
}

/// Registers a webhook; `input` takes the keys of `CreateWebhookInput`: `pipe_id`, `name`, `url`, `actions` and more.
pub fn create_webhook(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_WEBHOOK).input(input)
}

/// Changes a webhook; `input` takes the keys of `UpdateWebhookInput`, of which `id` is required. The stored headers are
/// replaced: without `headers` they are deleted.
pub fn update_webhook(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_WEBHOOK).input(input)
}

/// Deletes a webhook for good.
pub fn delete_webhook(webhook_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_WEBHOOK).id(webhook_id)
}

/// An object or list as the JSON text that the scalar takes; anything else as it is.
pub fn json_text(value: Value) -> Value {
    match value {
        Value::Object(_) | Value::Array(_) => Value::String(value.to_string()),
        other => other,
    }
}
