use pipefy::{agents, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::not_blank;
use super::failure;
use crate::{Call, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads an AI agent with all its behaviors, in the form that update_ai_agent takes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAgent {
    uuid: String,
}

impl Read for GetAiAgent {
    const OP: Op = Op::read("get_ai_agent", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .no_output_schema()
        .touches(&[IdArg::new("uuid", IdKind::Agent)])
        .narrows(&documents::agents::GET_AI_AGENT, "aiAgent");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = not_blank("uuid", &self.uuid)?;
        let data = call.query(agents::get_ai_agent(uuid)).await.map_err(failure::plain)?;
        match data.value().get("aiAgent") {
            Some(agent @ Value::Object(_)) => Ok(Outcome::new(json!({ "agent": agent }))),
            _ => Err(Explain::doing("load the agent").about("ai_agent", uuid).missing()),
        }
    }
}
