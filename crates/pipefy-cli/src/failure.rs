//! Why a command did not do its work: what goes to stderr and the exit code.

use pipefy_auth::AuthError;
use pipefy_tools::{Kind, NOT_FOUND_CODES, ToolError};
use serde_json::Value;

use crate::command::Command;
use crate::commands;

/// Ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line cannot be used; shown with the usage of the command.
    #[error("{0}")]
    Usage(String),
    /// One or more lines and an exit code.
    #[error("{text}")]
    Plain {
        /// Lines for stderr.
        text: String,
        /// Exit code.
        code: u8,
    },
    /// A capability failed.
    #[error("{0}")]
    Tool(Box<ToolError>),
    /// There is no credential, or none can be had.
    #[error("{0}")]
    Auth(AuthError),
    /// Another failure, and a line on what may help.
    #[error("{0}")]
    Hinted(Box<Failure>, String),
    /// The person said no, or nobody answered.
    #[error("Aborted.")]
    Aborted,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Tool(Box::new(error))
    }
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        Self::Auth(error)
    }
}

impl Failure {
    /// A mistake in the command line: exit code 2, with the usage.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Something that has to be changed before it can work: exit code 2.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Plain { text: text.into(), code: 2 }
    }

    /// Something that went wrong: exit code 1.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Plain { text: text.into(), code: 1 }
    }

    /// The exit code of a command: 2 where something has to be set right first, which in the portal group is also a missing
    /// permission and a portal that is not there.
    pub(crate) fn code_of(&self, command: &Command) -> u8 {
        match self {
            Self::Hinted(failure, _) => failure.code_of(command),
            Self::Tool(error) if command.path.starts_with("portal ") && is_portal_refusal(error) => 2,
            _ => self.code(),
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Plain { code, .. } => *code,
            Self::Tool(error) => tool_code(error),
            Self::Auth(error) => error.exit_code(),
            Self::Hinted(failure, _) => failure.code(),
            Self::Aborted => 1,
            Self::Interrupted => INTERRUPTED,
        }
    }

    /// What goes to stderr; nothing after Ctrl-C.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::Tool(error) => Some(tool_text(error)),
            Self::Hinted(failure, _) => failure.text(),
            other => Some(other.to_string()),
        }
    }

    /// A line on what may help, beside the text; `account` is the one that was named.
    pub(crate) fn hint(&self, account: Option<&str>) -> Option<String> {
        match (self, account) {
            (Self::Auth(AuthError::NoCredentials { .. }), Some(account)) => {
                Some(format!("`pipefy --account {account} auth login` signs in as this account"))
            }
            (failure, _) => failure.own_hint(),
        }
    }

    fn own_hint(&self) -> Option<String> {
        match self {
            Self::Hinted(_, hint) => Some(hint.clone()),
            Self::Auth(AuthError::NoCredentials { .. }) => Some(
                "docs/cli/auth.md explains all ways; without an account try `pipefy --sandbox org list`".to_owned(),
            ),
            Self::Tool(error) if matches!(error.source.as_deref(), Some(pipefy::Error::Transport { .. })) => {
                Some("`pipefy doctor` looks at the network, the settings and the sign-in".to_owned())
            }
            _ => None,
        }
    }

    /// The same with a hint.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => Self::Hinted(Box::new(self), hint),
            None => self,
        }
    }

    /// Whether the text names a command that leads on.
    pub(crate) fn names_a_command(&self) -> bool {
        self.text().is_some_and(|text| text.contains("`pipefy "))
    }

    /// Whether an id may be one of another kind: Pipefy knows nothing of it, or nothing that the caller may see.
    pub(crate) fn leads_nowhere(&self) -> bool {
        let Self::Tool(error) = self else { return false };
        let codes = error.source.as_deref().map(pipefy::Error::codes).unwrap_or_default();
        let is = |code: &str| NOT_FOUND_CODES.contains(&code) || code == "PERMISSION_DENIED";
        error.code.as_deref().is_some_and(is) || codes.into_iter().any(is)
    }
}

/// Whether Pipefy said that the caller may not write portals, or answered null for one.
fn is_portal_refusal(error: &ToolError) -> bool {
    match error.source.as_deref() {
        Some(source) => {
            let code = source.graphql_errors().first().and_then(|error| error.code.as_deref());
            code.is_some_and(|code| matches!(code, "PERMISSION_DENIED" | "FORBIDDEN" | "UNAUTHORIZED"))
        }
        None => error.kind == Kind::Api && error.code.as_deref() == Some("NOT_FOUND"),
    }
}

/// Local refusals are 2, what happened on the way is 1.
fn tool_code(error: &ToolError) -> u8 {
    match (error.kind, error.source.as_deref()) {
        (_, Some(pipefy::Error::Credential(pipefy::CredentialError::Unusable))) => 2,
        (Kind::Input | Kind::Refused, _) => 2,
        (Kind::Api | Kind::Transport | Kind::Declined | Kind::Cancelled | Kind::Internal, _) => 1,
    }
}

fn tool_text(error: &ToolError) -> String {
    let shown = commands::with_commands(&error.message);
    let mut text = match (error.kind, error.source.as_deref()) {
        (Kind::Transport, Some(pipefy::Error::Credential(_))) | (_, None) => shown,
        (Kind::Transport, _) => format!("Pipefy transport error: {shown}"),
        (_, Some(source)) => {
            let own: Vec<String> = source.graphql_errors().iter().map(graphql_line).collect();
            let plain: Vec<&str> = source.graphql_errors().iter().map(|e| e.message.as_str()).collect();
            // A tool's own words say more than Pipefy's; where it has none, Pipefy's lines carry the codes.
            if own.is_empty() {
                shown
            } else if error.message == plain.join("; ") || error.message == own.join("; ") {
                own.join("\n")
            } else {
                format!("{shown}\nPipefy said: {}", own.join("\n"))
            }
        }
    };
    for problem in error.extra.get("problems").and_then(Value::as_array).into_iter().flatten() {
        let line = problem.as_str().map_or_else(|| problem.to_string(), str::to_owned);
        text.push_str(&format!("\n- {line}"));
    }
    text
}

fn graphql_line(error: &pipefy::GraphqlError) -> String {
    match &error.code {
        Some(code) => format!("{} ({code})", error.message),
        None => error.message.clone(),
    }
}
