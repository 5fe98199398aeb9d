use pipefy::Id;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::workspace::{gateway, open};
use crate::ipaas::{Signed, masked};
use crate::{
    Act, Call, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Plan, Reach, Shape, ToolError, Write, digest_of,
};

/// Runs one iPaaS (Advanced Automations) tool in a pipe's workspace. Names and schemas: get_ipaas_tools. What may destroy
/// something needs confirmation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CallIpaasTool {
    pipe_id: Id,
    /// Exact name.
    tool_name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

/// Words that mark what destroys.
const NEEDLES: [&str; 6] = ["delete", "remove", "destroy", "drop", "uninstall", "revoke"];

/// What is known of a tool beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Destructive,
    Harmless,
    /// Says of itself that it changes nothing.
    ReadOnly,
    /// Not in the catalogue.
    Unknown,
}

pub(crate) struct Run {
    pipe_id: String,
    tool: String,
    arguments: Map<String, Value>,
    /// The sign-in with which the catalogue was read.
    signed: Signed,
}

impl Write for CallIpaasTool {
    const OP: Op = Op::by_input("call_ipaas_tool", Domain::Integration, Shape::Text)
        .open_world()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .reaches(Reach::Anything);
    type Keep = Run;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Run>, ToolError> {
        gateway(call)?;
        let pipe_id = self.pipe_id.as_str().to_owned();
        let tool = self.tool_name;
        let arguments = self.arguments.unwrap_or_default();
        let tools = open(call, &pipe_id).await?.tools().await?;
        let catalogue = tools.list().await?;
        let entry = catalogue.iter().find(|t| t.get("name").and_then(Value::as_str) == Some(&tool));
        let nature = nature(entry, &tool, &arguments);
        let has_token = call.options.confirmation_token.as_deref().is_some_and(|token| !token.is_empty());
        let confirmation = confirmation(&pipe_id, &tool, &arguments, nature);
        let shown = shown(&arguments);
        let mut plan =
            Plan::new(Run { pipe_id: pipe_id.clone(), tool: tool.clone(), arguments, signed: tools.signed() });
        if nature != Nature::ReadOnly {
            plan = plan.transfer(format!("run the iPaaS tool '{tool}' of pipe {pipe_id}{shown}"));
        }
        let gated = matches!(nature, Nature::Destructive | Nature::Unknown) || has_token;
        Ok(if gated { plan.confirm(confirmation) } else { plan })
    }

    async fn act(plan: &Plan<Run>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Run { pipe_id, tool, arguments, signed } = &plan.keep;
        let result = gateway(act)?.tools(signed, &act.budget).call(tool, arguments).await?;
        let content = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_text = |item: &&Value| item.get("type").and_then(Value::as_str) == Some("text");
        let output: Vec<&str> =
            content.iter().filter(is_text).filter_map(|item| item.get("text").and_then(Value::as_str)).collect();
        let output = output.join("\n");
        if result.get("isError").and_then(Value::as_bool) == Some(true) {
            return Err(ToolError::api(if output.trim().is_empty() {
                format!("The iPaaS tool '{tool}' reported an error without saying which.")
            } else {
                output
            }));
        }
        let others: Vec<&Value> = content.iter().filter(|item| !is_text(item)).collect();
        let mut shown = json!({ "pipe_id": pipe_id, "tool_name": tool, "output": output });
        if let (Value::Object(shown), false) = (&mut shown, others.is_empty()) {
            shown.insert("content".to_owned(), others.into_iter().cloned().collect::<Vec<_>>().into());
        }
        Ok(Outcome::new(shown))
    }
}

/// What a tool does, by its annotations, then by the operation asked for, then by its name.
fn nature(entry: Option<&Value>, tool: &str, arguments: &Map<String, Value>) -> Nature {
    let Some(entry) = entry else { return Nature::Unknown };
    let hint = |name: &str| entry.get("annotations").and_then(|a| a.get(name)).and_then(Value::as_bool);
    let operation = operation(arguments);
    let name = tool.to_lowercase();
    let destroys = match hint("destructiveHint") {
        Some(true) => true,
        _ if operation.as_deref().is_some_and(|op| NEEDLES.contains(&op)) => true,
        Some(false) => false,
        None => NEEDLES.iter().any(|needle| name.contains(needle)),
    };
    match (destroys, hint("readOnlyHint")) {
        (true, _) => Nature::Destructive,
        (false, Some(true)) => Nature::ReadOnly,
        (false, _) => Nature::Harmless,
    }
}

fn operation(arguments: &Map<String, Value>) -> Option<String> {
    arguments.get("operation").and_then(Value::as_str).map(|op| op.trim().to_lowercase())
}

fn confirmation(pipe_id: &str, tool: &str, arguments: &Map<String, Value>, nature: Nature) -> Confirmation {
    let mut bound = arguments.clone();
    let operation = operation(arguments);
    if let Some(operation) = &operation {
        bound.insert("operation".to_owned(), operation.clone().into());
    }
    let mut identity = json!({
        "pipe_id": pipe_id,
        "tool_name": tool,
        "arguments": digest_of(&Value::Object(bound)),
    });
    if let (Value::Object(identity), Some(operation)) = (&mut identity, operation) {
        identity.insert("operation".to_owned(), operation.into());
    }
    let resource = format!("iPaaS tool '{tool}' in pipe {pipe_id}{}", shown(arguments));
    let sentence = match nature {
        Nature::Destructive => format!("\u{26a0}\u{fe0f} Running {resource} is permanent and cannot be undone."),
        Nature::Unknown => format!(
            "{resource} could not be classified: it is not in the workspace's catalogue. It needs approval before it runs."
        ),
        Nature::Harmless | Nature::ReadOnly => {
            format!("{resource} is not classified as destructive; the supplied confirmation_token is being re-checked.")
        }
    };
    Confirmation::delete(resource, identity).verb("run").sentence(sentence)
}

/// The arguments as sorted JSON in brackets, secrets masked; nothing when there are none.
fn shown(arguments: &Map<String, Value>) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    format!(" ({})", sorted(&masked(&Value::Object(arguments.clone()))))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_destroys_is_recognised() {
        for (entry, tool, arguments, expected) in [
            (json!({"annotations": {"destructiveHint": true}}), "list", json!({}), Nature::Destructive),
            (json!({"annotations": {"destructiveHint": false}}), "drop_down", json!({}), Nature::Harmless),
            (
                json!({"annotations": {"destructiveHint": false}}),
                "manage",
                json!({"operation": " DELETE "}),
                Nature::Destructive,
            ),
            (json!({}), "manage", json!({"operation": "UNDELETE"}), Nature::Harmless),
            (json!({}), "Remove_flow", json!({}), Nature::Destructive),
            (json!({"annotations": {"readOnlyHint": true}}), "list_flows", json!({}), Nature::ReadOnly),
        ] {
            assert_eq!(nature(Some(&entry), tool, &object(arguments)), expected, "{entry}");
        }
        assert_eq!(nature(None, "list", &Map::new()), Nature::Unknown);
    }

    #[test]
    fn an_approval_is_bound_to_the_arguments_and_shows_no_secret() {
        let one = confirmation("7", "t", &object(json!({"a": 1, "operation": " Delete"})), Nature::Destructive);
        let same = confirmation("7", "t", &object(json!({"operation": "delete", "a": 1})), Nature::Unknown);
        assert_eq!(one.identity, same.identity);
        assert_eq!(one.identity["operation"], "delete");
        let other = confirmation("7", "t", &object(json!({"operation": "delete", "a": 2})), Nature::Destructive);
        assert_ne!(one.identity, other.identity);
        let secret = confirmation("7", "t", &object(json!({"b": {"api_key": "canary"}, "a": 1})), Nature::Destructive);
        assert!(secret.resource.ends_with(r#"({"a":1,"b":{"api_key":"***"}})"#), "{}", secret.resource);
        assert!(secret.sentence.unwrap().contains("permanent"));
        assert!(same.sentence.unwrap().contains("could not be classified"));
    }
}
