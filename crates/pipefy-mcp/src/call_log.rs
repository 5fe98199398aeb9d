//! The `tool_call` line of a hosted server: one JSON object per call, whatever becomes of it (`spec/mcp-server.md` section
//! 17). It holds names and never values.

use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use serde_json::{Map, Value};

use crate::http::CorrelationId;
use crate::identity::Principal;
use crate::log_line::LogLine;
use crate::stderr::Lines;

/// Argument names that are logged at most.
const NAMES: usize = 64;
/// Characters of a name that are logged at most.
const NAME: usize = 200;

/// Writes the lines.
#[derive(Clone)]
pub struct CallLog(Lines);

impl std::fmt::Debug for CallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallLog")
    }
}

impl CallLog {
    /// A log that hands each finished line (without line end) to `lines`.
    pub fn new(lines: Lines) -> Self {
        Self(lines)
    }

    /// Begins a line; it is written when the call ends or is dropped. `message` is the JSON-RPC id.
    pub(crate) fn begin(
        &self,
        tool: Option<&str>,
        arguments: Option<&Map<String, Value>>,
        request: Option<&Parts>,
        message: &str,
    ) -> CallLine {
        let correlation = request.and_then(|parts| parts.extensions.get::<CorrelationId>());
        CallLine {
            lines: self.0.clone(),
            begun: Instant::now(),
            tool: start(tool.unwrap_or("<unnamed>")),
            dispatched: None,
            outcome: "cancelled",
            success: None,
            names: arguments.map(names).unwrap_or_default(),
            request_id: correlation.map_or_else(|| message.into(), |id| id.0.clone()),
            client_id: request.and_then(Principal::of).map(|principal| principal.client_id.clone()),
        }
    }
}

/// The line of one call.
pub(crate) struct CallLine {
    lines: Lines,
    begun: Instant,
    tool: String,
    dispatched: Option<&'static str>,
    outcome: &'static str,
    success: Option<bool>,
    names: Vec<String>,
    request_id: Arc<str>,
    client_id: Option<String>,
}

impl CallLine {
    /// The generic runner runs this tool.
    pub(crate) fn dispatched(&mut self, tool: &'static str) {
        self.dispatched = Some(tool);
    }

    /// The call ended; `success` is what the tool itself says, where it says something.
    pub(crate) fn ended(mut self, is_error: bool, success: Option<bool>) {
        self.outcome = if is_error { "error" } else { "ok" };
        self.success = success;
    }
}

impl Drop for CallLine {
    fn drop(&mut self) {
        let mut line = LogLine::new("tool_call")
            .text("tool", Some(&self.tool))
            .text("outcome", Some(self.outcome))
            .millis("duration_ms", self.begun.elapsed())
            .texts("arg_keys", &self.names)
            .text("request_id", Some(&self.request_id))
            .text("client_id", self.client_id.as_deref());
        if let Some(tool) = self.dispatched {
            line = line.text("dispatched_tool", Some(tool));
        }
        if let Some(success) = self.success {
            line = line.flag("success", success);
        }
        (self.lines)(&line.end());
    }
}

/// As much of a name as is logged.
fn start(name: &str) -> String {
    if name.len() <= NAME { name.to_owned() } else { name.chars().take(NAME).collect() }
}

fn names(arguments: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<String> = arguments.keys().map(|name| start(name)).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    if more > 0 {
        names.push(format!("...+{more} more"));
    }
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;
    use std::sync::Mutex;

    fn log() -> (CallLog, Arc<Mutex<Vec<String>>>) {
        let written = Arc::<Mutex<Vec<String>>>::default();
        let lines = written.clone();
        (CallLog::new(Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))), written)
    }

    #[test]
    fn a_line_names_and_never_shows_values() {
        let (log, written) = log();
        let arguments = json!({"title": "canary-value", "card_id": 5, "caf\u{e9}": 1});
        log.begin(Some("update_card"), arguments.as_object(), None, "7").ended(false, Some(false));
        let line = written.lock().unwrap()[0].clone();
        assert!(line.is_ascii() && !line.contains("canary-value"), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["event", "timestamp", "tool", "outcome", "duration_ms", "arg_keys", "request_id", "client_id", "success"]
        );
        assert_eq!(value["arg_keys"], json!(["caf\u{e9}", "card_id", "title"]));
        assert_eq!((&value["outcome"], &value["request_id"]), (&json!("ok"), &json!("7")));
    }

    #[test]
    fn a_dropped_call_was_cancelled_and_a_nameless_one_is_labelled() {
        let (log, written) = log();
        drop(log.begin(None, None, None, "1"));
        let value: Value = serde_json::from_str(&written.lock().unwrap()[0]).unwrap();
        assert_eq!((&value["outcome"], &value["tool"]), (&json!("cancelled"), &json!("<unnamed>")));
    }

    #[test]
    fn names_are_bounded() {
        let many: Map<String, Value> = (0..70).map(|i| (format!("{i:03}{}", "x".repeat(300)), Value::Null)).collect();
        let names = names(&many);
        assert_eq!(names.len(), NAMES + 1);
        assert_eq!(names[NAMES], "...+6 more");
        assert!(names[..NAMES].iter().all(|name| name.len() == NAME));
    }
}
