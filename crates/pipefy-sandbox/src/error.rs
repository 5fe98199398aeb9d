//! What can go wrong: starting the sandbox, and answering one GraphQL field.

use serde_json::{Value, json};
use std::path::PathBuf;

/// Why a sandbox could not be started or attached to.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The address could not be bound.
    #[error("cannot listen on {addr}: {source}. Choose another port, or 0 for any free one")]
    Bind {
        /// The address that was asked for.
        addr: std::net::SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The data file or its folder cannot be used.
    #[error("cannot use {path}: {source}. Choose another data file or fix its permissions")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The data file is not usable as a sandbox database.
    #[error("the sandbox database failed: {0}. If the file is damaged, remove it to start from a fresh seed")]
    Database(#[from] rusqlite::Error),
    /// The data file was written by another version of the sandbox.
    #[error(
        "the data file has schema version {found}, this version needs {wanted}. Remove the file to start from a fresh seed"
    )]
    Version {
        /// What the file says.
        found: i64,
        /// What this version reads and writes.
        wanted: i64,
    },
    /// The text of a fault plan could not be read.
    #[error("the fault plan is neither valid JSON nor TOML of the documented shape: {0}")]
    Faults(String),
    /// The starting process ended before it was done.
    #[error("the sandbox stopped while starting: {0}")]
    Start(String),
}

/// One GraphQL error as Pipefy words it: a message and, mostly, `extensions.code`.
#[derive(Debug, Clone)]
pub(crate) struct GqlError {
    pub(crate) message: String,
    /// `None` gives an error without `extensions`, like the real move rejection.
    pub(crate) code: Option<&'static str>,
    /// Further entries of `extensions`; null for none.
    pub(crate) more: Value,
}

/// Marks a message that carries an encoded [`GqlError`] through the GraphQL executor, which only keeps text.
const MARK: char = '\u{1}';

impl GqlError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), code: Some(code), more: Value::Null }
    }

    /// An error that has a message only.
    pub(crate) fn codeless(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, more: Value::Null }
    }

    /// The same error with further entries in its `extensions`.
    pub(crate) fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    pub(crate) fn denied() -> Self {
        Self::new("PERMISSION_DENIED", "Permission denied")
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new("RESOURCE_NOT_FOUND", format!("{what} not found with id: {id}"))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new("INVALID_INPUT", message)
    }

    pub(crate) fn not_saved(message: impl Into<String>) -> Self {
        Self::new("RECORD_NOT_SAVED", message)
    }

    /// The form in which the error travels through the executor.
    pub(crate) fn encode(&self) -> String {
        format!("{MARK}{}", json!({ "message": self.message, "code": self.code, "more": self.more }))
    }

    /// Reads an executor's message back: `(message, code, more)` of an encoded error, `None` of any other.
    pub(crate) fn decode(text: &str) -> Option<(String, Option<String>, Value)> {
        let (_, encoded) = text.split_once(MARK)?;
        // Other text may follow.
        let value: Value = serde_json::Deserializer::from_str(encoded).into_iter().next()?.ok()?;
        let message = value.get("message")?.as_str()?.to_owned();
        let code = value.get("code").and_then(Value::as_str).map(str::to_owned);
        Some((message, code, value.get("more").cloned().unwrap_or_default()))
    }

    /// A list item or property that answers with this error instead of a value, so that its neighbours survive.
    pub(crate) fn as_value(&self) -> Value {
        json!({ "$error": { "message": self.message, "code": self.code, "more": self.more } })
    }
}

impl From<rusqlite::Error> for GqlError {
    fn from(error: rusqlite::Error) -> Self {
        tracing::error!(%error, "sandbox store");
        Self::new("INTERNAL_SERVER_ERROR", "Something went wrong")
    }
}
