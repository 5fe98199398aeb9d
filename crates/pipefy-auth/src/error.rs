//! What can go wrong, in words that say what to do next.

/// Why there is no credential, or why signing in or out did not work. Never holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No method has its inputs.
    #[error(
        "Missing Pipefy authentication. Set PIPEFY_TOKEN, or PIPEFY_SERVICE_ACCOUNT_CLIENT_ID and \
         PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET (PIPEFY_SERVICE_ACCOUNT_*), or sign in with `{login}`."
    )]
    NoCredentials {
        /// The command that signs in.
        login: &'static str,
    },
    /// The static token cannot be sent.
    #[error("The static token (from {origin}) holds characters that a header cannot carry; set it again without them.")]
    UnusableToken {
        /// Where it came from.
        origin: String,
    },
}

impl AuthError {
    /// The process exit code of this failure: 2 for something to set up, 1 for something that failed on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            AuthError::NoCredentials { .. } | AuthError::UnusableToken { .. } => 2,
        }
    }
}
