//! Why a call failed, with what a person needs to act. No variant holds a secret.

use std::time::Duration;

use serde_json::Value;

use crate::credential::CredentialError;
use crate::document::{EndpointKind, OperationKind};
use crate::response::GraphqlError;

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Pipefy answered with GraphQL errors.
    #[error("{}{}{}", join(errors), if errors.iter().any(GraphqlError::is_exhausted) { FINAL } else { "" }, if *applied_in_part { IN_PART } else { "" })]
    Graphql {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// At least one error.
        errors: Vec<GraphqlError>,
        /// HTTP status.
        status: u16,
        /// A mutation whose answer holds errors beside a payload, or came from a server that broke (HTTP 500 and above):
        /// something may have been changed.
        applied_in_part: bool,
    },
    /// The sign-in was refused and could not be renewed. Nothing was applied.
    #[error(
        "Pipefy did not accept the sign-in ({detail}). Nothing was applied, so it is safe to repeat the call after signing in again (`pipefy auth status` shows which credential is used)"
    )]
    Unauthorized {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// What Pipefy said.
        detail: String,
        /// The errors of the answer, when there were any.
        errors: Vec<GraphqlError>,
        /// Whether a new credential was obtained meanwhile, so that a repeated call can succeed at once.
        renewed: bool,
    },
    /// An HTTP answer that is not a GraphQL answer.
    #[error("the {endpoint} endpoint answered HTTP {status}: {detail}{}", applied(*kind, true))]
    Http {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// HTTP status.
        status: u16,
        /// A short reason; never the body of an HTML page.
        detail: String,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// Too many requests, after all permitted repetitions.
    #[error("Pipefy is limiting requests (HTTP {status}); try again in {retry_after_s} s{}", applied(*kind, false))]
    RateLimited {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// HTTP status.
        status: u16,
        /// Seconds to wait before trying again.
        retry_after_s: u64,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// No answer in time.
    #[error("the {endpoint} endpoint gave no answer within {} s{}", seconds(*limit), applied(*kind, true))]
    Timeout {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// The limit that ran out.
        limit: Duration,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// The connection failed.
    #[error("the {endpoint} endpoint could not be reached: {cause}{}", applied(*kind, *sent))]
    Transport {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// Short cause, without URL query.
        cause: String,
        /// Whether the request may have left this machine.
        sent: bool,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// The caller cancelled, or its deadline passed before anything was sent.
    #[error("the call was cancelled{}", applied(*kind, *sent))]
    Cancelled {
        /// Whether the request may have left this machine.
        sent: bool,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// No bearer could be had.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The answer is larger than allowed.
    #[error("the answer of the {endpoint} endpoint is larger than {limit} bytes; ask for fewer items or fields{}", applied(*kind, true))]
    TooLarge {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// Bytes.
        limit: usize,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// The answer holds null where the operation's result should be.
    #[error("Pipefy answered nothing for `{field}`{}", null_hint(*kind))]
    NoPayload {
        /// The root field that is null or missing.
        field: String,
        /// Query or mutation.
        kind: OperationKind,
    },
    /// The mutation answered `success: false`.
    #[error("Pipefy declined `{field}`{}", reasons(messages))]
    Declined {
        /// The root field.
        field: String,
        /// The reasons found in the payload (`errors`, `userErrors`).
        messages: Vec<String>,
        /// The payload.
        payload: Value,
    },
    /// A document does not fit the endpoint's schema (only with the schema cache on).
    #[error("the document does not fit the schema of the {endpoint} endpoint: {}", problems.join("; "))]
    Document {
        /// Which endpoint.
        endpoint: EndpointKind,
        /// One line per problem.
        problems: Vec<String>,
    },
    /// A value was refused before anything was sent.
    #[error("{0}")]
    Value(String),
}

const FINAL: &str = ". This is a limit of the plan, so repeating the call does not help";

const IN_PART: &str = ". Part of the change may have been applied: read it back before repeating";

/// `30`, `0.4`: whole seconds where they are, else tenths, never none.
pub(crate) fn seconds(time: Duration) -> f64 {
    ((time.as_secs_f64() * 10.0).round() / 10.0).max(0.1)
}

fn join(errors: &[GraphqlError]) -> String {
    errors.iter().map(|e| e.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn reasons(messages: &[String]) -> String {
    if messages.is_empty() { " without saying why".to_owned() } else { format!(": {}", messages.join("; ")) }
}

fn null_hint(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Query => ": it does not exist or cannot be seen with this sign-in",
        OperationKind::Mutation => ", so it is not known whether it was applied; read it back before repeating",
    }
}

fn applied(kind: OperationKind, sent: bool) -> &'static str {
    match (kind, sent) {
        (OperationKind::Query, _) => "",
        (OperationKind::Mutation, true) => {
            ". The change may have been applied all the same: read it back before repeating"
        }
        (OperationKind::Mutation, false) => ". The change was not applied",
    }
}

impl Error {
    /// The GraphQL errors, when there are any.
    pub fn graphql_errors(&self) -> &[GraphqlError] {
        match self {
            Self::Graphql { errors, .. } | Self::Unauthorized { errors, .. } => errors,
            _ => &[],
        }
    }

    /// Codes in order, without repetition.
    pub fn codes(&self) -> Vec<&str> {
        let mut codes = Vec::new();
        for code in self.graphql_errors().iter().filter_map(|e| e.code.as_deref()) {
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        codes
    }

    /// Whether one of the errors has this code.
    pub fn has_code(&self, code: &str) -> bool {
        self.codes().contains(&code)
    }

    /// Pipefy's correlation id, if it gave one.
    pub fn correlation_id(&self) -> Option<&str> {
        self.graphql_errors().iter().find_map(|e| e.correlation_id.as_deref())
    }

    /// Whether a change may have happened although the call failed.
    pub fn may_have_been_applied(&self) -> bool {
        match self {
            Self::Graphql { applied_in_part, .. } => *applied_in_part,
            Self::Http { kind, .. }
            | Self::Timeout { kind, .. }
            | Self::NoPayload { kind, .. }
            | Self::TooLarge { kind, .. } => *kind == OperationKind::Mutation,
            Self::Transport { kind, sent, .. } | Self::Cancelled { kind, sent } => {
                *sent && *kind == OperationKind::Mutation
            }
            _ => false,
        }
    }
}
