use pipefy::{automations, documents};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::shared::list_at;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists all triggers of automations. Only actionsBlacklist rules actions out.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationEvents {
    /// Any pipe; the list is the same for all.
    pipe_id: CheckedId,
}

impl Read for GetAutomationEvents {
    const OP: Op = Op::read("get_automation_events", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder])
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .narrows(&documents::automations::GET_AUTOMATION_EVENTS, "automationEvents");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(automations::get_automation_events())
            .await
            .map_err(|e| Explain::doing("load the triggers").about("pipe", &self.pipe_id).map(call, e))?;
        let value = data.value();
        let rows = list_at(&value, "automationEvents").to_vec();
        let message = format!("{} triggers.", rows.len());
        Ok(Outcome::new(serde_json::Value::Array(rows)).message(message))
    }
}
