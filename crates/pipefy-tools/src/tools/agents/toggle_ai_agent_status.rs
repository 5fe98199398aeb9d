use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::not_blank;
use super::failure;
use crate::{Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig};

/// Enables or disables an AI agent and changes nothing else.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ToggleAiAgentStatus {
    uuid: String,
    active: bool,
}

impl Write for ToggleAiAgentStatus {
    const OP: Op = Op::write("toggle_ai_agent_status", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .no_output_schema()
        .touches(&[IdArg::new("uuid", IdKind::Agent)]);
    type Keep = (String, bool);

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Self::Keep>, ToolError> {
        let uuid = not_blank("uuid", &self.uuid)?.to_owned();
        let mut plan = Plan::new((uuid.clone(), self.active)).then(agents::toggle_ai_agent_status(&uuid, self.active));
        if call.options.dry_run {
            plan.before = disabled_at(call, &uuid).await.map(|at| json!({ "disabled_at": at }));
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (uuid, active) = &plan.keep;
        for mutation in plan.mutations() {
            act.send(mutation).await.map_err(failure::plain)?;
        }
        let what = if *active { "activated" } else { "deactivated" };
        Ok(Outcome::new(Value::Null).message(format!("AI agent {what} (UUID: {uuid}).")))
    }

    async fn verify(plan: &Plan<Self::Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let (uuid, active) = &plan.keep;
        Some(match disabled_at(call, uuid).await {
            Some(at) => Verification::of(at.is_null() == *active, "compared disabledAt"),
            None => Verification::unknown("the agent could not be read back"),
        })
    }
}

async fn disabled_at(call: &Call<'_>, uuid: &str) -> Option<Value> {
    let data = call.query(agents::get_ai_agent(uuid)).await.ok()?;
    dig(&data.value(), "aiAgent.disabledAt").cloned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn it_writes_once_and_says_which_way() {
        let sent = WriteRules::new("toggle_ai_agent_status", json!({"uuid": " a ", "active": false}))
            .read("aiAgent", json!({"disabledAt": null}))
            .write("updateAiAgentStatus", json!({"success": true}))
            .check()
            .await;
        assert_eq!(sent[0].variables, json!({"uuid": "a", "active": false}));
        let mock =
            Mock::new().on("updateAiAgentStatus", json!({"success": true})).on("aiAgent", json!({"disabledAt": "x"}));
        let reply = mock.reply("toggle_ai_agent_status", json!({"uuid": "a", "active": false, "verify": true})).await;
        assert!(reply["message"].as_str().unwrap().contains("deactivated") && reply.get("data").is_none());
        assert_eq!(reply["verification"]["verified"], true);
    }
}
