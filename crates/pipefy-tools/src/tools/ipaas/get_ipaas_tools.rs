use pipefy::Id;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::{gateway, open};
use crate::{Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Lists the iPaaS (Advanced Automations) tools of a pipe's workspace, or shows one with its schema.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetIpaasTools {
    pipe_id: Id,
    /// Exact name, to see its schema.
    #[serde(default)]
    tool_name: Option<String>,
}

impl Read for GetIpaasTools {
    const OP: Op = Op::read("get_ipaas_tools", Domain::Integration, Shape::Text)
        .personas(&[Persona::Admin, Persona::Auditor])
        .open_world()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .reaches(Reach::Anything);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        gateway(call)?;
        let pipe_id = self.pipe_id.as_str();
        let tools = open(call, pipe_id).await?.tools().await?.list().await?;
        let name_of = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(name) = &self.tool_name {
            return match tools.iter().find(|tool| name_of(tool) == *name) {
                Some(tool) => Ok(Outcome::new(json!({ "tool": tool }))),
                None => {
                    let mut names: Vec<String> = tools.iter().map(name_of).collect();
                    names.sort();
                    Err(ToolError::not_found(format!(
                        "The workspace of pipe {pipe_id} has no tool '{name}'. Available: {}.",
                        names.join(", ")
                    )))
                }
            };
        }
        let shown: Vec<Value> = tools
            .iter()
            .map(|tool| {
                let text = tool.get("description").and_then(Value::as_str).unwrap_or_default().trim();
                json!({ "name": name_of(tool), "description": text.lines().next().unwrap_or_default() })
            })
            .collect();
        Ok(Outcome::new(json!({
            "pipe_id": pipe_id,
            "count": shown.len(),
            "tools": shown,
            "hint": "See one tool's schema with get_ipaas_tools and tool_name; run it with call_ipaas_tool.",
        })))
    }
}
