use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::not_blank;
use super::failure;
use crate::tools::shared::list_at;
use crate::{Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the AI agents of a pipe: uuid, name, instruction, disabledAt.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAgents {
    /// Uuid of the pipe.
    repo_uuid: String,
}

impl Read for GetAiAgents {
    const OP: Op = Op::read("get_ai_agents", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .no_output_schema()
        .touches(&[IdArg::new("repo_uuid", IdKind::Repo)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let repo_uuid = not_blank("repo_uuid", &self.repo_uuid)?;
        let data = call.query(agents::get_ai_agents(repo_uuid)).await.map_err(failure::plain)?;
        let value = data.value();
        let nodes: Vec<&Value> =
            list_at(&value, "aiAgents.edges").iter().filter_map(|e| e.get("node")).filter(|n| n.is_object()).collect();
        Ok(Outcome::new(json!({ "agents": nodes })))
    }
}
