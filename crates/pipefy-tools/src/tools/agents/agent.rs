//! Small pieces of the AI agent tools.

use pipefy::agents;
use serde_json::{Value, json};

use crate::tools::shared::list_at;
use crate::{Call, ToolError, Verification, dig};

/// Trimmed text that must not be blank.
///
/// # Errors
/// A value failure naming the argument, without a code.
pub(crate) fn not_blank<'t>(argument: &str, text: &'t str) -> Result<&'t str, ToolError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ToolError::refused_value(format!("'{argument}' must be non-empty; it must not be blank.")));
    }
    Ok(text)
}

/// The failure for behaviours with problems: all of them.
pub(crate) fn invalid_behaviors(problems: Vec<String>) -> ToolError {
    ToolError::refused_value(problems.join("; ")).detail("problems", problems)
}

/// Now, as the API writes times: UTC with microseconds and offset.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Uuid and activation of an agent in a mutation's answer.
pub(crate) fn state(answer: &Value, root: &str, uuid: &str) -> Value {
    let agent = answer.get(root).and_then(|r| r.get("agent"));
    let disabled_at = agent.and_then(|a| a.get("disabledAt")).cloned().unwrap_or(Value::Null);
    let uuid = agent.and_then(|a| a.get("uuid")).and_then(Value::as_str).unwrap_or(uuid);
    json!({ "agent_uuid": uuid, "active": disabled_at.is_null(), "disabled_at": disabled_at })
}

/// Reads an agent back after a write.
pub(crate) async fn read_back(call: &Call<'_>, uuid: &str, name: &str, behaviors: usize) -> Verification {
    match call.query(agents::get_ai_agent(uuid)).await {
        Ok(data) => {
            let value = data.value();
            let found = list_at(&value, "aiAgent.behaviors").len();
            let same = dig(&value, "aiAgent.name").and_then(Value::as_str) == Some(name) && found == behaviors;
            Verification::of(same, format!("compared the name and the number of behaviors ({found} of {behaviors})"))
        }
        Err(error) => Verification::unknown(error.to_string()),
    }
}
