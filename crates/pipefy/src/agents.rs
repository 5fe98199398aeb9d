//! AI agents. Root fields `aiAgent`, `createAiAgent`, `updateAiAgent` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::agents as documents;
use crate::operation::{Mutation, Query};

/// One agent with its behaviours.
pub fn get_ai_agent(uuid: &str) -> Query {
    Query::new(&documents::GET_AI_AGENT).var("uuid", uuid)
}

/// Creates an empty agent; `agent` takes keys of the schema's `AiAgentInput`.
pub fn create_ai_agent(agent: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_AI_AGENT).var("agent", agent)
}

/// Replaces an agent's configuration; `uuid` may still be unknown when the mutation is planned.
pub fn update_ai_agent(uuid: impl Into<Value>, agent: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_AI_AGENT).var("agent", agent).var("uuid", uuid.into())
}
