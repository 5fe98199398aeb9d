//! What can go wrong, in words that say what to do next.

use std::time::Duration;

use crate::store::StoreError;

/// Why there is no credential, or why signing in or out did not work. Never holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No method has its inputs.
    #[error(
        "Missing Pipefy authentication. Set PIPEFY_TOKEN, or PIPEFY_SERVICE_ACCOUNT_CLIENT_ID and \
         PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET (PIPEFY_SERVICE_ACCOUNT_*), or sign in with `{login}`.{}",
        note.as_deref().map(|note| format!(" {note}")).unwrap_or_default()
    )]
    NoCredentials {
        /// The command that signs in.
        login: &'static str,
        /// What stands in the way of the stored session, when something does.
        note: Option<String>,
    },
    /// The static token cannot be sent.
    #[error("The static token (from {origin}) holds characters that a header cannot carry; set it again without them.")]
    UnusableToken {
        /// Where it came from.
        origin: String,
    },
    /// Stored sessions are turned off, so there is nothing to sign in to or out of.
    #[error(
        "Stored sessions are disabled by PIPEFY_DISABLE_STORED_SESSION (disable_stored_session in config.toml). Unset it to use \
         them, or authenticate with PIPEFY_TOKEN or PIPEFY_SERVICE_ACCOUNT_*."
    )]
    StoredSessionDisabled,
    /// The session could not be renewed.
    #[error("The stored session could not be refreshed: {}. {}", .0, .0.advice())]
    Refresh(RefreshError),
    /// The session was there and is gone.
    #[error("The stored session is gone. Run `pipefy auth login`.")]
    SessionGone,
    /// Signing in did not work.
    #[error("Login failed: {reason}")]
    Login {
        /// What happened and what to do.
        reason: String,
    },
    /// Nobody came back from the browser, or nobody entered the code, in time.
    #[error(
        "Login timed out: the browser did not come back to {waiting_at} within {} s. Run `pipefy auth login` again; where the \
         browser is on another machine, with --device.",
        limit.as_secs()
    )]
    LoginTimeout {
        /// Where the answer was awaited.
        waiting_at: String,
        /// For how long.
        limit: Duration,
    },
    /// Nobody entered the code of a device login while it was good.
    #[error(
        "Login timed out: the code was not entered at {uri} within {} s. Run `pipefy auth login --device` again for a new one.",
        limit.as_secs()
    )]
    CodeExpired {
        /// Where the code was to be entered.
        uri: String,
        /// For how long it was good.
        limit: Duration,
    },
    /// The session of a login would have no place; nobody was asked to sign in.
    #[error(
        "Nobody was asked to sign in, because the session could not be stored in your keychain ({backend}): {cause}"
    )]
    NoPlace {
        /// Name of the store.
        backend: String,
        /// Why.
        cause: StoreError,
    },
    /// Signing in worked, keeping the session did not.
    #[error("Login succeeded, but the session could not be stored in your keychain ({backend}): {cause}")]
    NotStored {
        /// Name of the store.
        backend: String,
        /// Why.
        cause: StoreError,
    },
    /// The keychain cannot be used at all.
    #[error("The keychain cannot be used: {0}")]
    Keychain(StoreError),
}

impl AuthError {
    /// The process exit code of this failure: 2 for something to set up first, 1 for something that failed on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            AuthError::NoCredentials { .. }
            | AuthError::UnusableToken { .. }
            | AuthError::StoredSessionDisabled
            | AuthError::Refresh(_)
            | AuthError::SessionGone => 2,
            AuthError::Login { .. }
            | AuthError::LoginTimeout { .. }
            | AuthError::CodeExpired { .. }
            | AuthError::NoPlace { .. }
            | AuthError::NotStored { .. }
            | AuthError::Keychain(_) => 1,
        }
    }

    pub(crate) fn login(reason: impl Into<String>) -> AuthError {
        AuthError::Login { reason: reason.into() }
    }
}

/// Why a session could not be renewed. The session is kept as it was.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct RefreshError {
    /// What happened; no response body.
    pub message: String,
    /// The OAuth error code, when the issuer gave one (`invalid_grant`: the session is over).
    pub error_code: Option<String>,
}

impl RefreshError {
    pub(crate) fn new(message: impl Into<String>) -> RefreshError {
        RefreshError { message: message.into(), error_code: None }
    }

    /// Whether signing in again is the only way on. Everything else may pass: no answer, a failing server.
    pub fn is_final(&self) -> bool {
        self.error_code.as_deref().is_some_and(|code| !matches!(code, "server_error" | "temporarily_unavailable"))
    }

    /// What to do about it, as a sentence.
    pub fn advice(&self) -> &'static str {
        match self.is_final() {
            true => "Run `pipefy auth login`.",
            false => "Try again; if it stays, run `pipefy auth login`.",
        }
    }
}
