//! Why a tool failed, in the shape every adapter renders.

use serde_json::{Map, Value, json};

use crate::call::Call;

/// What kind of failure it is; the CLI's exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The arguments do not fit the schema, or a value was refused before anything was sent.
    Input,
    /// Pipefy answered with an error.
    Api,
    /// No usable answer: connection, time-out, throttling.
    Transport,
    /// A rule of this server refused (read-only, scope).
    Refused,
    /// The person declined.
    Declined,
    /// The caller has gone.
    Cancelled,
    /// A defect of ours.
    Internal,
}

/// A failed call: the failure envelope's content (`spec/mcp-server.md` section 11).
#[derive(Clone, Debug)]
pub struct ToolError {
    /// What happened and what to do; never blank, ASCII, no secret.
    pub message: String,
    /// A code of the spec, or Pipefy's own.
    pub code: Option<String>,
    /// Machine-readable facts; omitted when empty.
    pub details: Map<String, Value>,
    /// Keys beside `error` (`step`, `valid_destinations`, ...).
    pub extra: Map<String, Value>,
    /// What kind of failure.
    pub kind: Kind,
    /// The failure of the API call behind it.
    pub source: Option<Box<pipefy::Error>>,
}

impl ToolError {
    /// A failure with a message; a blank one is replaced.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = if message.trim().is_empty() {
            "The request failed without a reason; try again or read the state back first.".to_owned()
        } else {
            message
        };
        Self { message, code: None, details: Map::new(), extra: Map::new(), kind, source: None }
    }

    /// A value refused before anything was sent; code `INVALID_ARGUMENTS`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message).code("INVALID_ARGUMENTS")
    }

    /// A value refused before anything was sent, without a code.
    pub fn refused_value(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// Something that was asked for does not exist or cannot be seen; code `NOT_FOUND`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::Api, message).code("NOT_FOUND")
    }

    /// Pipefy's answer is not what the operation needs.
    pub fn api(message: impl Into<String>) -> Self {
        Self::new(Kind::Api, message)
    }

    /// A defect of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message).code("INTERNAL")
    }

    /// Sets the code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds to `details`.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a key beside `error`.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The failure envelope.
    pub fn envelope(&self) -> Value {
        let mut error = Map::new();
        error.insert("message".to_owned(), self.message.clone().into());
        if let Some(code) = &self.code {
            error.insert("code".to_owned(), code.clone().into());
        }
        if !self.details.is_empty() {
            error.insert("details".to_owned(), self.details.clone().into());
        }
        let mut envelope = Map::new();
        envelope.insert("success".to_owned(), false.into());
        envelope.insert("error".to_owned(), error.into());
        envelope.extend(self.extra.clone());
        envelope.into()
    }
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl From<pipefy::Error> for ToolError {
    /// The plain mapping: message, first code, retry hint. Tools that know the resource use [`Explain`].
    fn from(error: pipefy::Error) -> Self {
        use pipefy::Error as E;
        let kind = match &error {
            E::Graphql { .. } | E::Unauthorized { .. } | E::NoPayload { .. } | E::Declined { .. } => Kind::Api,
            E::Value(_) | E::Document { .. } => Kind::Input,
            E::Cancelled { .. } => Kind::Cancelled,
            _ => Kind::Transport,
        };
        let mut out = Self::new(kind, error.to_string());
        out.code = error.codes().first().map(|c| (*c).to_owned()).or_else(|| {
            match &error {
                E::Value(_) => Some("INVALID_ARGUMENTS"),
                E::RateLimited { .. } => Some("RATE_LIMITED"),
                E::Timeout { .. } => Some("TIMEOUT"),
                E::Unauthorized { .. } => Some("UNAUTHENTICATED"),
                E::Credential(_) => Some("NO_CREDENTIAL"),
                E::TooLarge { .. } => Some("ANSWER_TOO_LARGE"),
                E::Cancelled { .. } => Some("CANCELLED"),
                _ => None,
            }
            .map(str::to_owned)
        });
        if let E::RateLimited { retry_after_s, .. } = &error {
            out = out.detail("retry_after_s", *retry_after_s);
        }
        if error.may_have_been_applied() {
            out = out.detail("may_have_been_applied", true);
        }
        out.source = Some(Box::new(error));
        out
    }
}

/// What a tool knows about a failing call, for the tiers of `spec/mcp-server.md` section 12.
#[derive(Clone, Copy, Debug, Default)]
pub struct Explain<'a> {
    /// "load card": used when Pipefy gave no reason.
    pub doing: &'a str,
    /// Resource kind in snake case (`card`, `phase_field`).
    pub kind: Option<&'a str>,
    /// Its id, as the caller gave it.
    pub id: Option<&'a str>,
    /// What to check when the arguments were refused.
    pub hint: Option<&'a str>,
    /// Another resource that the call names: kind and id. What is missing may be this one.
    pub beside: Option<(&'a str, &'a str)>,
    /// Leave "not found" errors as they are.
    pub keep_not_found: bool,
}

/// Codes that mean that something does not exist (`spec/mcp-server.md` section 12 and D16).
pub const NOT_FOUND_CODES: [&str; 3] = ["NOT_FOUND", "RESOURCE_NOT_FOUND", "RECORD_NOT_FOUND"];

/// Codes of arguments that do not fit the schema.
const REFUSED_INPUT: [&str; 2] = ["INVALID_ARGUMENTS", "BAD_USER_INPUT"];
/// Codes of values that Pipefy does not take where the schema would.
const REFUSED_VALUE: [&str; 3] = ["INVALID_INPUT", "RECORD_INVALID", "RECORD_NOT_SAVED"];

impl<'a> Explain<'a> {
    /// An operation in words.
    pub const fn doing(doing: &'a str) -> Self {
        Self { doing, kind: None, id: None, hint: None, beside: None, keep_not_found: false }
    }

    /// The resource it is about.
    #[must_use]
    pub const fn about(mut self, kind: &'a str, id: &'a str) -> Self {
        self.kind = Some(kind);
        self.id = Some(id);
        self
    }

    /// The kind of resource, when no single id is meant.
    #[must_use]
    pub const fn kind(mut self, kind: &'a str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Another resource that the call names. An error that does not say which one is missing names both.
    #[must_use]
    pub const fn beside(mut self, kind: &'a str, id: &'a str) -> Self {
        self.beside = Some((kind, id));
        self
    }

    /// What to check when the arguments were refused.
    #[must_use]
    pub const fn hint(mut self, hint: &'a str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Leaves "not found" errors as they are.
    #[must_use]
    pub const fn keep_not_found(mut self) -> Self {
        self.keep_not_found = true;
        self
    }

    /// The failure in words a caller can act on.
    pub fn map(&self, call: &Call<'_>, error: pipefy::Error) -> ToolError {
        let codes: Vec<String> = error.codes().into_iter().map(str::to_owned).collect();
        let has = |set: &[&str]| codes.iter().any(|c| set.contains(&c.as_str()));
        let correlation = error.correlation_id().map(str::to_owned);
        let is_graphql = !error.graphql_errors().is_empty() && matches!(error, pipefy::Error::Graphql { .. });
        let text = error.to_string();
        let lower = text.to_lowercase();
        // With a code of its own, an error is about what the code says, whatever words it uses.
        let says_missing =
            codes.is_empty() && ["not found", "does not exist", "doesn't exist"].iter().any(|m| lower.contains(m));
        let first_code = codes.first().cloned();
        let declined = match &error {
            pipefy::Error::Declined { .. } => true,
            pipefy::Error::NoPayload { kind, .. } => *kind == pipefy::OperationKind::Mutation,
            _ => false,
        };
        let mut out = ToolError::from(error);
        if declined {
            out.message = format!("Trying to {} did not succeed: {text}", self.doing);
        }
        if is_graphql {
            match self.kind {
                Some(kind) if !self.keep_not_found && (has(&NOT_FOUND_CODES) || says_missing) => {
                    // Pipefy may miss something that was named beside the main thing, such as a label of a card.
                    let named = named_missing(&text);
                    let is_beside = |kind: &str, id: &str| self.beside == Some((kind, id));
                    let other = named
                        .as_ref()
                        .filter(|(kind, id)| self.id.is_some_and(|own| own != *id) || is_beside(kind, id));
                    out.message = match (other, self.beside.filter(|_| named.is_none())) {
                        (Some((kind, id)), _) => not_found(kind, Some(*id)),
                        (None, Some((beside, id))) => format!(
                            "{}{} or {}{} not found. {} {}",
                            title(kind),
                            in_brackets(self.id),
                            beside.replace('_', " "),
                            in_brackets(Some(id)),
                            discovery(kind),
                            discovery(beside)
                        ),
                        (None, None) => not_found(kind, self.id),
                    };
                    out.code = Some(first_code.unwrap_or_else(|| "NOT_FOUND".to_owned()));
                }
                _ if (self.kind.is_some() && has(&REFUSED_INPUT))
                    || (self.hint.is_some() && (has(&REFUSED_INPUT) || has(&REFUSED_VALUE))) =>
                {
                    let hint = self.hint.unwrap_or(
                        "compare the arguments with the tool's schema; `introspect_type` shows an input type",
                    );
                    out.message = format!("{text} Hint: {hint}");
                    out.code = Some(first_code.unwrap_or_else(|| "INVALID_ARGUMENTS".to_owned()));
                }
                Some(kind) if has(&["PERMISSION_DENIED"]) => {
                    let members =
                        if PIPE_CENTRED.contains(&kind) { " Verify membership with `get_pipe_members`." } else { "" };
                    out.message = format!(
                        "Cannot access {}{}: it may not exist, or this account may lack access. {}{members}",
                        kind.replace('_', " "),
                        in_brackets(self.id),
                        discovery(kind),
                    );
                    out.code = Some(first_code.unwrap_or_else(|| "PERMISSION_DENIED".to_owned()));
                }
                _ => {}
            }
        }
        if out.message.trim().is_empty() {
            out.message = format!("Could not {}.", self.doing);
        }
        if call.debug() {
            out.message.push_str(&debug_suffix(&codes, correlation.as_deref()));
        }
        out
    }

    /// The failure for a root field that came back null: it does not exist or cannot be seen.
    pub fn missing(&self) -> ToolError {
        let kind = self.kind.unwrap_or("resource");
        ToolError::not_found(format!(
            "{} not found{}, or this account may lack access. {}",
            title(kind),
            in_brackets(self.id),
            discovery(kind)
        ))
    }
}

/// ` (debug: codes=A,B; correlation_id=X)` with what is known, else nothing.
pub fn debug_suffix(codes: &[String], correlation: Option<&str>) -> String {
    let mut parts = Vec::new();
    if !codes.is_empty() {
        parts.push(format!("codes={}", codes.join(",")));
    }
    if let Some(id) = correlation {
        parts.push(format!("correlation_id={id}"));
    }
    if parts.is_empty() { String::new() } else { format!(" (debug: {})", parts.join("; ")) }
}

/// What Pipefy itself names as missing, as in `Label not found with id: 7`: kind in snake case and id. The id is what the caller
/// wrote and may be a label with blanks; behind a number the sentence may go on.
fn named_missing(text: &str) -> Option<(String, &str)> {
    let (kind, rest) = text.split_once(" not found with id")?;
    let kind = kind.rsplit([':', '.', ';']).next().unwrap_or_default().trim();
    let rest = rest.trim_start_matches([':', ' ']);
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = rest.split([' ', '.', ',', ';', '(']).next().filter(is_number);
    let ends = ["; ", ". ", ", ", " (", "\n"];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    let id = number.or_else(|| rest.get(..end)).unwrap_or_default().trim_end_matches([' ', '.']);
    let plain = !kind.is_empty() && kind.len() <= 40 && kind.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    (plain && !id.is_empty()).then(|| (kind.to_ascii_lowercase().replace(' ', "_"), id))
}

fn not_found(kind: &str, id: Option<&str>) -> String {
    format!("{} not found{}. {}", title(kind), in_brackets(id), discovery(kind))
}

fn in_brackets(id: Option<&str>) -> String {
    id.map(|id| format!(" (ID: {id})")).unwrap_or_default()
}

fn title(kind: &str) -> String {
    let text = kind.replace('_', " ");
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

const PIPE_CENTRED: [&str; 9] = [
    "pipe",
    "phase",
    "phase_field",
    "card",
    "label",
    "pipe_report",
    "pipe_relation",
    "field_condition",
    "start_form_field",
];

/// Which tool finds ids of this kind.
fn discovery(kind: &str) -> String {
    let tools: &[&str] = match kind {
        "pipe" => &["search_pipes", "get_organization"],
        "card" => &["find_cards", "get_cards"],
        "phase" => &["get_pipe"],
        "phase_field" => &["get_phase_fields"],
        "table" => &["search_tables"],
        "table_record" => &["find_records"],
        "table_field" => &["get_table"],
        "field_condition" => &["get_field_conditions"],
        "ai_agent" => &["get_ai_agents"],
        "ai_agent_log" => &["get_ai_agent_logs"],
        "ai_automation" => &["get_ai_automations"],
        "automation" => &["get_automations"],
        "label" => &["get_labels"],
        "webhook" => &["get_webhooks"],
        "organization" => &["get_organization"],
        "organization_report" => &["get_organization_reports"],
        "pipe_report" => &["get_pipe_reports"],
        "member" => &["get_pipe_members"],
        "comment" => &["get_card"],
        "email_template" => &["get_email_templates"],
        _ => &[],
    };
    match tools {
        [] => "Verify the ID and try again.".to_owned(),
        tools => format!(
            "Find the right one with {}.",
            tools.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(" or ")
        ),
    }
}

/// An object that says why a value is out of bounds: `{min, max, provided}`.
pub(crate) fn bounds(min: i64, max: i64, provided: &Value) -> Map<String, Value> {
    match json!({"min": min, "max": max, "provided": provided}) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn what_is_missing_is_named_as_it_was_written() {
        for (text, kind, id) in [
            ("Label not found with id: 7", "label", "7"),
            ("Label not found with id: 7 in this pipe", "label", "7"),
            ("Field not found with id: Full name", "field", "Full name"),
            ("Field not found with id: Full name; Title is required", "field", "Full name"),
            ("Field not found with id: Full name (RESOURCE_NOT_FOUND)", "field", "Full name"),
            ("Field not found with id: 2nd name", "field", "2nd name"),
            ("Pipe not found with id: x. Check it.", "pipe", "x"),
            ("Table record not found with id: aB-3_.", "table_record", "aB-3_"),
            ("It failed: Phase field not found with id S\u{e3}o Paulo", "phase_field", "S\u{e3}o Paulo"),
        ] {
            assert_eq!(named_missing(text), Some((kind.to_owned(), id)), "{text}");
        }
        for text in ["Label not found", "Label not found with id: ", "1 not found with id: 7"] {
            assert_eq!(named_missing(text), None, "{text}");
        }
    }
}
