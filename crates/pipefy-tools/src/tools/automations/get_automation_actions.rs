use pipefy::{automations, documents};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::shared::list_at;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the actions a pipe's automations can take. An empty triggerEvents means any trigger; only eventsBlacklist rules
/// triggers out.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationActions {
    pipe_id: CheckedId,
}

impl Read for GetAutomationActions {
    const OP: Op = Op::read("get_automation_actions", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder])
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .narrows(&documents::automations::GET_AUTOMATION_ACTIONS, "automationActions");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(automations::get_automation_actions(&self.pipe_id))
            .await
            .map_err(|e| Explain::doing("load the actions").about("pipe", &self.pipe_id).map(call, e))?;
        let value = data.value();
        let rows = list_at(&value, "automationActions").to_vec();
        let message = format!("{} actions.", rows.len());
        Ok(Outcome::new(serde_json::Value::Array(rows)).message(message))
    }
}
