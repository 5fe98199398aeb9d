use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::not_blank;
use super::failure;
use crate::{
    Act, Call, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Deletes an AI agent for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAiAgent {
    uuid: String,
}

impl Write for DeleteAiAgent {
    const OP: Op = Op::destructive("delete_ai_agent", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .no_output_schema()
        .touches(&[IdArg::new("uuid", IdKind::Agent)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let uuid = not_blank("uuid", &self.uuid)?.to_owned();
        let mut plan = Plan::new(uuid.clone())
            .then(agents::delete_ai_agent(&uuid))
            .confirm(Confirmation::delete(format!("AI agent (UUID: {uuid})"), json!({ "uuid": uuid })));
        if call.options.dry_run {
            plan.before = read(call, &uuid).await.ok().flatten();
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let uuid = &plan.keep;
        for mutation in plan.mutations() {
            act.send(mutation).await.map_err(|error| {
                let declined = matches!(error, pipefy::Error::Declined { .. });
                let failure = failure::plain(error);
                if !declined {
                    return failure;
                }
                let message = format!("AI agent {uuid} was not deleted (success=false): {}", failure.message);
                failure.message(message)
            })?;
        }
        Ok(Outcome::new(Value::Null).message(format!("AI agent deleted (UUID: {uuid}).")))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match read(call, &plan.keep).await {
            Ok(agent) => Verification::of(agent.is_none(), "read the agent again"),
            Err(error) if error.has_code("RESOURCE_NOT_FOUND") || error.has_code("NOT_FOUND") => {
                Verification::of(true, "the agent can no longer be found")
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}

async fn read(call: &Call<'_>, uuid: &str) -> Result<Option<Value>, pipefy::Error> {
    let data = call.query(agents::get_ai_agent(uuid)).await?;
    Ok(data.value().get("aiAgent").filter(|a| a.is_object()).cloned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::WriteRules;

    #[tokio::test]
    async fn it_asks_first_and_deletes_once() {
        let sent = WriteRules::new("delete_ai_agent", json!({"uuid": " a "}))
            .read("aiAgent", json!({"uuid": "a"}))
            .write("deleteAiAgent", json!({"success": true}))
            .check()
            .await;
        assert_eq!(sent[0].variables, json!({"uuid": "a"}));
    }
}
