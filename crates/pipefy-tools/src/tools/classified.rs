//! Failures of LLM providers and knowledge bases, by kind (`spec/tools-automation-ai.md`, 1.9), and their access probes.

use pipefy::{Error, GraphqlError};
use serde_json::{Map, Value, json};

use crate::{Call, Outcome, ToolError};

/// A family of things with a tool that lists them.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    /// What they are called: `LLM provider`.
    pub(crate) noun: &'static str,
    /// Which tool lists them.
    pub(crate) listing: &'static str,
}

/// LLM providers.
pub(crate) const PROVIDERS: Family = Family { noun: "LLM provider", listing: "get_llm_providers" };
/// Knowledge bases.
pub(crate) const KNOWLEDGE: Family = Family { noun: "Knowledge base", listing: "get_ai_knowledge_bases" };

/// What kind of failure one error of the API is.
fn kind(error: &GraphqlError) -> &'static str {
    const KINDS: [(&str, &[&str]); 4] = [
        ("permission_denied", &["PERMISSION_DENIED", "FORBIDDEN", "UNAUTHORIZED"]),
        ("not_found", &crate::NOT_FOUND_CODES),
        (
            "invalid_arguments",
            &["INVALID_ARGUMENTS", "BAD_USER_INPUT", "RECORD_INVALID", "ARGUMENT_ERROR", "HTML_VALIDATION_FAILED"],
        ),
        ("feature_not_enabled", &["FEATURE_BLOCKED", "FEATURE_NOT_ENABLED", "FEATURE_DISABLED", "FEATURE_UNAVAILABLE"]),
    ];
    let code = error.code.as_deref().unwrap_or_default().trim().to_ascii_uppercase();
    if let Some((kind, _)) = KINDS.iter().find(|(_, codes)| codes.contains(&code.as_str())) {
        return kind;
    }
    let text = error.message.to_lowercase();
    let missing = ["not found", "does not exist", "doesn't exist", "couldn't find"].iter().any(|m| text.contains(m));
    if missing { "not_found" } else { "runtime" }
}

fn message(error: &GraphqlError) -> String {
    match error.raw.get("message").and_then(Value::as_str) {
        Some(text) if text.trim().is_empty() => "Unknown error".to_owned(),
        _ => error.message.clone(),
    }
}

impl Family {
    /// A failed call: the first error of the API with its kind; names the listing tool when something is missing.
    pub(crate) fn failure(self, error: Error) -> ToolError {
        self.explain(error, true)
    }

    /// As [`Self::failure`], for the listing tool itself.
    pub(crate) fn listing_failure(self, error: Error) -> ToolError {
        self.explain(error, false)
    }

    fn explain(self, error: Error, hint: bool) -> ToolError {
        let Error::Graphql { errors, applied_in_part, .. } = &error else { return ToolError::from(error) };
        let Some(first) = errors.first() else { return ToolError::from(error) };
        let kind = kind(first);
        let mut text = message(first);
        if *applied_in_part {
            text.push_str(" (part of the change may have been applied: read it back before repeating)");
        }
        if hint && kind == "not_found" {
            text.truncate(text.trim_end_matches('.').len());
            // What is missing may be the pipe, whose own listing would then say the same.
            let pipe =
                if text.starts_with("Pipe ") { " the pipe with `search_pipes`, its uuid with `get_pipe`," } else { "" };
            text.push_str(&format!(". Find{pipe} the right id with `{}`.", self.listing));
        }
        let (code, correlation) = (first.code.clone(), first.correlation_id.clone());
        let mut out = ToolError::from(error).message(text).detail("kind", kind);
        out.code = code;
        if let Some(id) = correlation {
            out = out.detail("correlation_id", id);
        }
        out
    }

    /// A write that came back without proof.
    pub(crate) fn unproven(self, error: Error, mutation: &str) -> ToolError {
        match &error {
            Error::NoPayload { .. } => {
                let message = format!(
                    "{mutation} answered without the {}: {error}. The write may not have persisted; look with `{}`.",
                    self.noun, self.listing
                );
                ToolError::from(error).message(message)
            }
            Error::Declined { .. } => {
                let message = format!("{mutation}: the API did not confirm the change. {error}.");
                ToolError::from(error).message(message)
            }
            _ => self.failure(error),
        }
    }
}

/// A success with the family's shape: no message in the old envelope.
pub(crate) fn done(call: &Call<'_>, data: Value, message: impl Into<String>) -> Outcome {
    let outcome = Outcome::new(data);
    if call.toolbox.unified_envelope { outcome.message(message) } else { outcome }
}

/// What an access probe saw: `{ok, problem?, ...}`.
pub(crate) struct Probe {
    facts: Map<String, Value>,
    denied: Option<ToolError>,
}

impl Probe {
    /// Reads a partial answer; `facts` are only given when there is data.
    pub(crate) fn of(response: &pipefy::GraphqlResponse, facts: Option<Value>, note: &str) -> Self {
        let problem = response.errors.first().map(|error| {
            json!({
                "kind": kind(error),
                "message": message(error),
                "code": error.code,
                "correlation_id": error.correlation_id,
            })
        });
        let Some(Value::Object(more)) = facts else {
            let first = response.errors.first();
            let mut denied = ToolError::api(first.map_or_else(
                || "Pipefy answered with no data and no errors, so access could not be proven.".to_owned(),
                message,
            ))
            .detail("kind", first.map_or("runtime", kind));
            denied.code = first.and_then(|e| e.code.clone());
            if let Some(id) = first.and_then(|e| e.correlation_id.clone()) {
                denied = denied.detail("correlation_id", id);
            }
            return Self { facts: Map::new(), denied: Some(denied) };
        };
        let mut facts = Map::new();
        facts.insert("ok".to_owned(), true.into());
        facts.extend(more);
        let mut note = note.to_owned();
        if let Some(problem) = problem {
            note.push_str(" Part of the answer was refused: see problem.");
            facts.insert("problem".to_owned(), problem);
        }
        facts.insert("note".to_owned(), note.into());
        Self { facts, denied: None }
    }

    /// The probe as a result.
    pub(crate) fn into_outcome(self, call: &Call<'_>, message: &str) -> Result<Outcome, ToolError> {
        match self.denied {
            Some(denied) => Err(denied),
            None => Ok(done(call, self.facts.into(), message)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn error(body: Value) -> Error {
        let bytes = json!({ "data": null, "errors": [body] }).to_string().into();
        let response = pipefy::GraphqlResponse::parse(200, &bytes).unwrap();
        Error::Graphql {
            endpoint: pipefy::EndpointKind::Public,
            errors: response.errors,
            status: 200,
            applied_in_part: false,
        }
    }

    #[test]
    fn errors_are_classified_by_code_then_by_words() {
        for (body, kind) in [
            (json!({"message": "x", "extensions": {"code": " forbidden "}}), "permission_denied"),
            (json!({"message": "x", "extensions": {"code": "RECORD_NOT_FOUND"}}), "not_found"),
            (json!({"message": "x", "extensions": {"code": "RECORD_INVALID"}}), "invalid_arguments"),
            (json!({"message": "x", "extensions": {"code": "FEATURE_BLOCKED"}}), "feature_not_enabled"),
            (json!({"message": "Couldn't find it"}), "not_found"),
            (json!({"message": "boom"}), "runtime"),
        ] {
            let failure = PROVIDERS.failure(error(body));
            assert_eq!(failure.details["kind"], kind);
            assert_eq!(failure.message.contains("get_llm_providers"), kind == "not_found", "{}", failure.message);
        }
        assert_eq!(PROVIDERS.failure(error(json!({"message": " "}))).message, "Unknown error");
        for (said, shown) in [
            (
                "Document not found with id: 5.",
                "Document not found with id: 5. Find the right id with `get_ai_knowledge_bases`.",
            ),
            (
                "Pipe not found with id: x",
                "Pipe not found with id: x. Find the pipe with `search_pipes`, its uuid with `get_pipe`, \
                the right id with `get_ai_knowledge_bases`.",
            ),
        ] {
            assert_eq!(KNOWLEDGE.failure(error(json!({"message": said}))).message, shown);
        }
        assert!(!KNOWLEDGE.listing_failure(error(json!({"message": "not found"}))).message.contains("get_ai"));
    }
}
