//! What can be read of knowledge bases.

use pipefy::knowledge_bases::{self, Knowledge};
use pipefy::{Id, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::item::{Ids, Shows};
use crate::tools::classified::{KNOWLEDGE, Probe, done};
use crate::tools::shared::{list_at, required_text};
use crate::{Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists a pipe's knowledge bases. Their ids go into dataSourceIds.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiKnowledgeBases {
    pipe_uuid: String,
}

/// Reads a knowledge base plain text with its content.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiKnowledgeBasePlainText {
    plain_text_id: Id,
    pipe_uuid: String,
}

/// Reads a knowledge base document's name, description and URL (content).
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiKnowledgeBaseDocument {
    document_id: Id,
    pipe_uuid: String,
}

/// Reads a knowledge base data lookup. Pipefy does not give its conditions back.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiKnowledgeBaseDataLookup {
    data_lookup_id: Id,
    pipe_uuid: String,
}

/// Tells whether this account can read a pipe's knowledge bases.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ValidateKnowledgeBaseAccess {
    pipe_uuid: String,
}

const PERSONAS: &[Persona] = &[Persona::Auditor, Persona::Builder];
const PIPE: IdArg = IdArg::new("pipe_uuid", IdKind::PipeUuid);

impl Read for GetAiKnowledgeBases {
    const OP: Op = Op::read("get_ai_knowledge_bases", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[PIPE])
        .narrows(&documents::knowledge_bases::GET_AI_KNOWLEDGE_BASES, "aiKnowledgeBases");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let pipe = required_text("pipe_uuid", &self.pipe_uuid)?;
        let query = knowledge_bases::get_ai_knowledge_bases(pipe);
        let value = call.query(query).await.map_err(|e| KNOWLEDGE.listing_failure(e))?.value();
        let list = list_at(&value, "aiKnowledgeBases");
        Ok(done(call, json!({ "knowledge_bases": list }), format!("{} knowledge bases.", list.len())))
    }
}

impl Shows for GetAiKnowledgeBasePlainText {
    const KIND: Knowledge = Knowledge::PlainText;
    const OP: Op = Op::read("get_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[IdArg::within("plain_text_id", IdKind::KnowledgeBase), PIPE])
        .narrows(&documents::knowledge_bases::GET_AI_KNOWLEDGE_BASE_PLAIN_TEXT, "aiKnowledgeBasePlainText");

    fn ids(&self) -> Result<Ids, ToolError> {
        Ids::new(&self.plain_text_id, &self.pipe_uuid)
    }
}

impl Shows for GetAiKnowledgeBaseDocument {
    const KIND: Knowledge = Knowledge::Document;
    const OP: Op = Op::read("get_ai_knowledge_base_document", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[IdArg::within("document_id", IdKind::KnowledgeBase), PIPE])
        .narrows(&documents::knowledge_bases::GET_AI_KNOWLEDGE_BASE_DOCUMENT, "aiKnowledgeBaseDocument");

    fn ids(&self) -> Result<Ids, ToolError> {
        Ids::new(&self.document_id, &self.pipe_uuid)
    }
}

impl Shows for GetAiKnowledgeBaseDataLookup {
    const KIND: Knowledge = Knowledge::DataLookup;
    const OP: Op = Op::read("get_ai_knowledge_base_data_lookup", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[IdArg::within("data_lookup_id", IdKind::KnowledgeBase), PIPE])
        .narrows(&documents::knowledge_bases::GET_AI_KNOWLEDGE_BASE_DATA_LOOKUP, "aiKnowledgeBaseDataLookup");

    fn ids(&self) -> Result<Ids, ToolError> {
        Ids::new(&self.data_lookup_id, &self.pipe_uuid)
    }
}

impl Read for ValidateKnowledgeBaseAccess {
    const OP: Op = Op::read("validate_knowledge_base_access", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[PIPE]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let pipe = required_text("pipe_uuid", &self.pipe_uuid)?;
        let query = knowledge_bases::get_ai_knowledge_bases(pipe);
        let response = call.query_partial(query).await.map_err(|e| KNOWLEDGE.listing_failure(e))?;
        let value = response.data.as_ref().map(pipefy::Data::value).unwrap_or_default();
        let list = value.get("aiKnowledgeBases").filter(|list| list.is_array());
        let facts = list.map(|list| json!({ "knowledge_base_count": list.as_array().map_or(0, Vec::len) }));
        let note = "This proves read access (read_ai_agents) only; changes need manage_ai_agents.";
        Probe::of(&response, facts, note).into_outcome(call, "Knowledge bases can be read.")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn items_by_id_and_what_is_missing() {
        for (tool, root, id, key) in [
            (
                "get_ai_knowledge_base_plain_text",
                "aiKnowledgeBasePlainText",
                "plain_text_id",
                "knowledge_base_plain_text",
            ),
            ("get_ai_knowledge_base_document", "aiKnowledgeBaseDocument", "document_id", "knowledge_base_document"),
            (
                "get_ai_knowledge_base_data_lookup",
                "aiKnowledgeBaseDataLookup",
                "data_lookup_id",
                "knowledge_base_data_lookup",
            ),
        ] {
            let arguments = json!({id: 5, "pipe_uuid": " u "});
            let mock = Mock::new().on(root, json!({"id": "5"}));
            let reply = mock.reply(tool, arguments.clone()).await;
            assert_eq!(reply["data"], json!({key: {"id": "5"}}));
            assert_eq!(mock.sent()[0].variables, json!({"id": "5", "pipeUuid": "u"}));
            let reply = Mock::new().on(root, json!(null)).reply(tool, arguments.clone()).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains("get_ai_knowledge_bases"));
            let reply = Mock::new().error(root, "no", "RECORD_NOT_FOUND").legacy().reply(tool, arguments).await;
            assert_eq!(reply["error"]["details"]["kind"], "not_found");
        }
        let reply = Mock::new()
            .on("aiKnowledgeBases", json!(null))
            .reply("get_ai_knowledge_bases", json!({"pipe_uuid": "u"}))
            .await;
        assert_eq!(reply["data"], json!({"knowledge_bases": []}));
        let reply = Mock::new()
            .on("aiKnowledgeBases", json!([{}]))
            .reply("validate_knowledge_base_access", json!({"pipe_uuid": "u"}))
            .await;
        assert_eq!(reply["data"]["knowledge_base_count"], 1);
    }
}
