use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::not_blank;
use super::failure;
use crate::tools::shared::list_at;
use crate::{Call, Domain, IdArg, IdKind, Op, Outcome, Page, Persona, Read, Shape, ToolError, dig};

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
        let mut nodes: Vec<Value> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let query = agents::get_ai_agents(repo_uuid, after.as_deref());
            let value = call.query(query).await.map_err(failure::plain)?.value();
            let edges = list_at(&value, "aiAgents.edges").iter();
            nodes.extend(edges.filter_map(|edge| edge.get("node")).filter(|node| node.is_object()).cloned());
            let page = Page::from_page_info(dig(&value, "aiAgents.pageInfo"), None);
            let next = page.end_cursor.filter(|cursor| page.has_more && !cursor.is_empty());
            // A cursor that comes again leads nowhere.
            if next.is_none() || next == after {
                break;
            }
            after = next;
        }
        Ok(Outcome::new(json!({ "agents": nodes })))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
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
        mock.reply("get_ai_agents", json!({"repo_uuid": "r"})).await;
        assert_eq!(mock.sent().len(), 2);
    }
}
