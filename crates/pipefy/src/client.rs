//! A session: operations under exactly one identity.

use std::sync::Arc;

use serde_json::Value;

use crate::budget::Budget;
use crate::credential::Credential;
use crate::document::{EndpointKind, OperationKind};
use crate::engine::{EngineError, PipefyEngine};
use crate::error::Error;
use crate::executor::GraphqlExecutor;
use crate::operation::{Mutation, Operation, Query};
use crate::response::{Data, GraphqlResponse};
use crate::settings::PipefySettings;
use crate::telemetry::Surface;
use crate::transfer::Transfer;

/// A session bound to one identity for its whole life. Cheap to clone.
///
/// ```compile_fail
/// # fn f(mut client: pipefy::PipefyClient, other: pipefy::Credential) {
/// client.credential = other; // an identity cannot be changed
/// # }
/// ```
#[derive(Clone)]
pub struct PipefyClient {
    public: Arc<dyn GraphqlExecutor>,
    interfaces: Arc<dyn GraphqlExecutor>,
    internal: Arc<dyn GraphqlExecutor>,
    transfer: Transfer,
}

impl PipefyClient {
    /// A session over executors that are already bound to an identity; the one place where a session is wired.
    pub fn from_executors(
        public: Arc<dyn GraphqlExecutor>,
        interfaces: Arc<dyn GraphqlExecutor>,
        internal: Arc<dyn GraphqlExecutor>,
        transfer: Transfer,
    ) -> Self {
        Self { public, interfaces, internal, transfer }
    }

    /// An engine of its own and one session on it, for programs that act as one identity.
    ///
    /// # Errors
    /// See [`PipefyEngine::build`].
    pub fn connect(settings: &PipefySettings, credential: Credential) -> Result<Self, EngineError> {
        Ok(PipefyEngine::build(settings, Surface::Sdk, None)?.session(credential))
    }

    /// Files: storage uploads and guarded downloads. They carry no identity.
    pub fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// Whether `text` contains this session's credential, which must not be stored where others can read it (field report B19).
    ///
    /// # Errors
    /// The credential cannot be had.
    pub async fn credential_occurs_in(&self, text: &str) -> Result<bool, Error> {
        self.public.credential_occurs_in(text).await
    }

    /// Runs an operation and gives data and errors together.
    ///
    /// # Errors
    /// See [`crate::GraphqlEndpoint::execute`].
    pub async fn execute(&self, operation: &Operation, budget: &Budget) -> Result<GraphqlResponse, Error> {
        let executor = match operation.document.endpoint() {
            EndpointKind::Public => &self.public,
            EndpointKind::Interfaces => &self.interfaces,
            EndpointKind::Internal => &self.internal,
        };
        executor.execute(operation, budget).await
    }

    /// Runs an operation; any GraphQL error is a failure.
    ///
    /// # Errors
    /// As [`Self::execute`], and [`Error::Graphql`] for partial data.
    pub async fn execute_query(&self, operation: &Operation, budget: &Budget) -> Result<Data, Error> {
        let endpoint = operation.document.endpoint();
        let response = self.execute(operation, budget).await?;
        match response.data {
            Some(data) if response.errors.is_empty() => Ok(data),
            data => Err(Error::Graphql {
                applied_in_part: operation.document.kind() == OperationKind::Mutation
                    && data.is_some_and(|d| has_payload(&d)),
                endpoint,
                errors: response.errors,
                status: response.status,
            }),
        }
    }

    /// Reads. A root field that is null without an error is left to the caller.
    ///
    /// # Errors
    /// As [`Self::execute_query`], and [`Error::NoPayload`] for data without any root field.
    pub async fn query(&self, query: &Query, budget: &Budget) -> Result<Data, Error> {
        let data = self.execute_query(query.operation(), budget).await?;
        match data.unanswered() {
            Some(field) if field == "data" => Err(Error::NoPayload { field, kind: OperationKind::Query }),
            _ => Ok(data),
        }
    }

    /// Writes, once. The answer must prove the change: every root field present, none with `success: false`.
    ///
    /// # Errors
    /// As [`Self::execute_query`], [`Error::NoPayload`] and [`Error::Declined`].
    pub async fn mutate(&self, mutation: &Mutation, budget: &Budget) -> Result<Data, Error> {
        let data = self.execute_query(mutation.operation(), budget).await?;
        prove(&data)?;
        Ok(data)
    }
}

impl std::fmt::Debug for PipefyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipefyClient(one identity)")
    }
}

/// Checks that a mutation's answer proves the change (field reports A23, C26): every root field present, none with
/// `success: false`, none whose things are all null.
///
/// # Errors
/// [`Error::NoPayload`] for a null or missing root field, [`Error::Declined`] for `success: false`.
pub fn prove(data: &Data) -> Result<(), Error> {
    let kind = OperationKind::Mutation;
    let value = data.value();
    let Some(roots) = value.as_object().filter(|o| !o.is_empty()) else {
        return Err(Error::NoPayload { field: "data".to_owned(), kind });
    };
    for (field, payload) in roots {
        // Something was asked of every payload, so an empty one answers nothing.
        let empty = match payload {
            Value::Object(object) => object.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::String(text) => text.is_empty(),
            other => matches!(other, Value::Null | Value::Bool(false)),
        };
        if empty {
            return Err(Error::NoPayload { field: field.clone(), kind });
        }
        // Lenient in its type, not in what it says.
        let success = match payload.get("success") {
            Some(Value::String(text)) => Some(text == "true"),
            Some(Value::Number(number)) => Some(number.as_i64() == Some(1)),
            other => other.and_then(Value::as_bool),
        };
        if success.is_none() && holds_nothing(payload) && payload_reasons(payload).is_empty() {
            return Err(Error::NoPayload { field: field.clone(), kind });
        }
        if success == Some(false) || (success.is_none() && holds_nothing(payload)) {
            return Err(Error::Declined {
                field: field.clone(),
                messages: payload_reasons(payload),
                payload: payload.clone(),
            });
        }
    }
    Ok(())
}

/// Whether a payload names things and every one of them is nothing: `{"card": null}`, `{"card": {"id": null}}`. A payload that
/// only echoes `clientMutationId` names nothing; there, coming back without an error is the proof, unless it asked for `success`.
fn holds_nothing(payload: &Value) -> bool {
    const ABOUT: [&str; 4] = ["clientMutationId", "errors", "userErrors", "__typename"];
    let Some(payload) = payload.as_object() else { return false };
    let mut things = payload.iter().filter(|(key, _)| !ABOUT.contains(&key.as_str())).peekable();
    things.peek().is_some() && things.all(|(_, thing)| is_nothing(thing))
}

/// Null, or an object of nothing else. False and an empty list say something.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => {
            object.iter().filter(|(key, _)| *key != "__typename").all(|(_, value)| is_nothing(value))
        }
        _ => false,
    }
}

/// Whether a root field holds something.
fn has_payload(data: &Data) -> bool {
    data.value().as_object().is_some_and(|roots| roots.values().any(|payload| !payload.is_null()))
}

/// The reasons a payload gives in `errors` or `userErrors` (field report B16).
fn payload_reasons(payload: &Value) -> Vec<String> {
    ["userErrors", "errors"]
        .iter()
        .filter_map(|key| payload.get(key))
        .flat_map(|list| match list {
            Value::Array(items) => items.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        })
        .filter_map(|item| match &item {
            Value::String(text) => Some(text.clone()),
            Value::Object(object) => {
                let message = object.get("message").and_then(Value::as_str)?;
                Some(match object.get("field").and_then(Value::as_str) {
                    Some(field) => format!("{field}: {message}"),
                    None => message.to_owned(),
                })
            }
            _ => None,
        })
        .filter(|text| !text.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_answer_that_proves_the_change_counts() {
        for (answer, proven) in [
            (json!({"deleteCard": {"success": true}}), true),
            (json!({"createCard": {"card": {"id": "1"}}}), true),
            (json!({"deleteCard": null}), false),
            (json!({"deleteCard": {"success": false}}), false),
            (json!({"a": {"success": true}, "b": {"success": false}}), false),
            (json!({"a": {"success": true}, "b": null}), false),
            (json!({"createCard": {"card": null}}), false),
            (json!({"createCard": {"card": null, "clientMutationId": "x"}}), false),
            (json!({"moveCardToPhase": {"clientMutationId": null}}), true),
            (json!({"createCard": {"card": {"phase": {"id": null}, "__typename": "Card"}}}), false),
            (json!({"createCard": {"card": {"id": null, "title": null}}}), false),
            (json!({"createCard": {"card": {}}}), false),
            (json!({"deleteCard": {"success": null}}), false),
            (json!({"deleteCard": {"success": "false"}}), false),
            (json!({"deleteCard": {"success": "true"}}), true),
            (json!({"deleteCard": {"success": 0}}), false),
            (json!({"deleteCard": {}}), false),
            (json!({"deleteCard": false}), false),
            (json!({"deleteCard": ""}), false),
            (json!({"deleteCard": []}), false),
            (json!({"updateCard": {"success": null, "card": {"id": "1"}}}), true),
            (json!({"inviteMembers": {"users": []}}), true),
            (json!({"updateFieldsValues": {"success": true, "updatedNode": null}}), true),
            (json!({"inviteMembers": {"users": null, "errors": [{"message": "no"}]}}), false),
            (json!({}), false),
        ] {
            assert_eq!(prove(&Data::from_value(&answer)).is_ok(), proven, "{answer}");
        }
    }

    #[test]
    fn errors_beside_a_payload_say_that_something_may_have_changed() {
        for (answer, in_part) in [
            (json!({"createCard": {"card": null}}), true),
            (json!({"a": null, "b": {"success": true}}), true),
            (json!({"createCard": null}), false),
        ] {
            assert_eq!(has_payload(&Data::from_value(&answer)), in_part, "{answer}");
        }
    }

    #[test]
    fn the_reasons_of_a_refusal_reach_the_message() {
        let answer = json!({"updateFieldsValues": {"success": false, "userErrors": [{"field": "x", "message": "bad"}, "other"]}});
        let error = prove(&Data::from_value(&answer)).unwrap_err();
        assert_eq!(error.to_string(), "Pipefy declined `updateFieldsValues`: x: bad; other");
    }
}
