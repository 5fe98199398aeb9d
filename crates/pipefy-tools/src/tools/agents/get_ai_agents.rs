use pipefy::{agents, documents};
use schemars::JsonSchema;
use serde::Deserialize;

use super::agent::not_blank;
use super::failure;
use crate::tools::portals::listing;
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
        .touches(&[IdArg::new("repo_uuid", IdKind::Repo)])
        .narrows(&documents::agents::GET_AI_AGENTS, "aiAgents.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let repo_uuid = not_blank("repo_uuid", &self.repo_uuid)?;
        let query = |after: Option<&str>| agents::get_ai_agents(repo_uuid, after);
        let found = listing::nodes(call, "aiAgents", query).await.map_err(failure::plain)?;
        Ok(found.outcome("agents"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::{Value, json};

    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn every_page_is_read_and_a_cursor_that_repeats_ends_it() {
        let page = |name: &str, more: bool, cursor: &str| json!({"edges": [{"node": {"name": name}}, {"node": null}], "pageInfo": {"hasNextPage": more, "endCursor": cursor}});
        let mock = Mock::new().on("aiAgents", page("a", true, "1")).on("aiAgents", page("b", false, "2"));
        let reply = mock.reply("get_ai_agents", json!({"repo_uuid": "r"})).await;
        assert_eq!(reply["data"]["agents"], json!([{"name": "a"}, {"name": "b"}]));
        let sent: Vec<Value> = mock.sent().iter().map(|sent| sent.variables["after"].clone()).collect();
        assert_eq!(sent, [json!(null), json!("1")]);
        let mock = Mock::new().on("aiAgents", page("a", true, "1"));
        let reply = mock.reply("get_ai_agents", json!({"repo_uuid": "r"})).await;
        assert_eq!((mock.sent().len(), &reply["complete"]), (2, &json!(false)), "{reply}");
    }
}
