use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::automations::rules;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one AI automation: trigger, prompt, output fields, condition.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAutomation {
    automation_id: CheckedId,
}

impl Read for GetAiAutomation {
    const OP: Op = Op::read("get_ai_automation", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("automation_id", IdKind::Automation)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = &self.automation_id;
        let rule = rules::read(call, id)
            .await
            .map_err(|e| Explain::doing("load the AI automation").about("ai_automation", id).map(call, e))?;
        Ok(match rule {
            Some(rule) => {
                let note = rules::other_action(Some(&rule));
                Outcome::new(rule).message(format!("AI automation retrieved.{note}"))
            }
            None => Outcome::new(Value::Null)
                .message(format!("No automation found for ID {id}."))
                .extra("data", Value::Null),
        })
    }
}
