//! AI agents. Root fields `aiAgent`, `aiAgents`, `createAiAgent`, `updateAiAgent`, `updateAiAgentStatus`, `deleteAiAgent`
//! of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::agents as documents;
use crate::operation::{Mutation, Query};

/// One agent with its behaviours; null when there is none of that uuid.
pub fn get_ai_agent(uuid: &str) -> Query {
    Query::new(&documents::GET_AI_AGENT).var("uuid", uuid)
}

/// One page of the agents of a pipe, without behaviours, after a cursor; the page size is the API's.
pub fn get_ai_agents(repo_uuid: &str, after: Option<&str>) -> Query {
    Query::new(&documents::GET_AI_AGENTS).var("repoUuid", repo_uuid).var_opt("after", after)
}

/// Creates an empty agent; `agent` takes keys of the schema's `AiAgentInput`.
pub fn create_ai_agent(agent: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_AI_AGENT).var("agent", agent)
}

/// Replaces an agent's configuration; `uuid` may still be unknown when the mutation is planned.
pub fn update_ai_agent(uuid: impl Into<Value>, agent: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_AI_AGENT).var("agent", agent).var("uuid", uuid.into())
}

/// Enables or disables an agent.
pub fn toggle_ai_agent_status(uuid: &str, active: bool) -> Mutation {
    Mutation::new(&documents::TOGGLE_AI_AGENT_STATUS).var("uuid", uuid).var("active", active)
}

/// Deletes an agent for good.
pub fn delete_ai_agent(uuid: &str) -> Mutation {
    Mutation::new(&documents::DELETE_AI_AGENT).var("uuid", uuid)
}

/// The ids of the pipes and tables that a pipe is connected with, in both directions.
pub fn pipe_relation_ids(pipe_id: &str) -> Query {
    Query::new(&documents::PIPE_RELATION_IDS).var("pipeId", pipe_id)
}
