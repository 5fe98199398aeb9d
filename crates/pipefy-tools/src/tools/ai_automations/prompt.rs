//! What creating and changing AI automations check alike.

use serde_json::{Map, Value};

use crate::ToolError;
use crate::tools::agents::tokens;
use crate::tools::automations::rules;

/// Collects problems, so that all of them are reported at once.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    pub(crate) fn text(&mut self, name: &str, text: &str) -> String {
        let text = text.trim().to_owned();
        if text.is_empty() {
            self.0.push(format!("{name}: must be non-empty"));
        }
        text
    }

    pub(crate) fn prompt(&mut self, prompt: &str) -> String {
        let prompt = self.text("prompt", prompt);
        if !prompt.is_empty() && tokens::prompt_tokens(&prompt).is_empty() {
            self.0.push("prompt: prompt must reference at least one field as %{internal_id}".to_owned());
        }
        prompt
    }

    pub(crate) fn field_ids(&mut self, ids: &[String]) {
        if ids.is_empty() {
            self.0.push("field_ids: name at least one field to write the result to".to_owned());
        }
    }

    pub(crate) fn event(&mut self, event: &str) {
        if event.eq_ignore_ascii_case("scheduler") {
            self.0.push("event_id: the action generate_with_ai cannot be triggered by the scheduler".to_owned());
        }
    }

    pub(crate) fn event_params(&mut self, given: Option<Map<String, Value>>) -> Option<Value> {
        self.keep(rules::event_params(given?))
    }

    pub(crate) fn condition(&mut self, given: Option<Map<String, Value>>) -> Option<Value> {
        let checked = rules::condition(given?);
        self.keep(checked.map_err(|list| list.into_iter().map(|p| format!("condition.{p}")).collect()))
    }

    fn keep(&mut self, checked: Result<Map<String, Value>, Vec<String>>) -> Option<Value> {
        match checked {
            Ok(map) => Some(map.into()),
            Err(problems) => {
                self.0.extend(problems);
                None
            }
        }
    }

    /// The failure for all of them.
    pub(crate) fn into_result(self) -> Result<(), ToolError> {
        if self.0.is_empty() { Ok(()) } else { Err(ToolError::refused_value(self.0.join("; "))) }
    }
}
