//! A sandbox for tests that run the server as a process, and what comes back over HTTP.
// Each test file uses its own part.
#![allow(dead_code, clippy::unwrap_used)]

use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::Value;

/// A sandbox, and the runtime that serves it.
pub(crate) struct Backend {
    runtime: tokio::runtime::Runtime,
    sandbox: Option<Sandbox>,
    pub(crate) url: String,
}

impl Backend {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sandbox = runtime.block_on(Sandbox::start(SandboxOptions::default())).unwrap();
        Self { url: sandbox.url().to_owned(), runtime, sandbox: Some(sandbox) }
    }

    /// The settings of a server in front of it.
    pub(crate) fn variables(&self) -> Vec<(&str, &str)> {
        vec![("PIPEFY_BASE_URL", &self.url), ("PIPEFY_ALLOW_INSECURE_URLS", "true"), ("PIPEFY_TOKEN", DEFAULT_TOKEN)]
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.runtime.block_on(sandbox.shutdown());
        }
    }
}

/// Status, session id and message of an answer read to its end; status 0 when there is none. An event stream, a chunked one, or
/// plain JSON: the message is the one line that is an object.
pub(crate) fn parsed(answer: &str) -> (u16, Option<String>, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let session = head
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")))
        .map(|(_, id)| id.trim().to_owned());
    let json = body
        .lines()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line))
        .find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
    (status, session, json.unwrap_or_default())
}
