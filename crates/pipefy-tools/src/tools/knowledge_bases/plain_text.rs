//! Plain texts.

use pipefy::Id;
use pipefy::knowledge_bases::Knowledge;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;

use super::item::{self, Change, Changes, Ids};
use crate::{Domain, IdArg, IdKind, Op, Persona, Shape, ToolError};

/// Creates a knowledge base plain text.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAiKnowledgeBasePlainText {
    pipe_uuid: String,
    name: String,
    /// At most 3500 characters.
    content: String,
    /// At most 900 characters.
    description: String,
}

/// Changes a knowledge base plain text. Give at least one of name, content, description.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAiKnowledgeBasePlainText {
    plain_text_id: Id,
    pipe_uuid: String,
    #[serde(default)]
    name: Option<String>,
    /// At most 3500 characters.
    #[serde(default)]
    content: Option<String>,
    /// At most 900 characters.
    #[serde(default)]
    description: Option<String>,
}

/// Deletes a knowledge base plain text for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAiKnowledgeBasePlainText {
    plain_text_id: Id,
    pipe_uuid: String,
}

const KIND: Knowledge = Knowledge::PlainText;
const BUILDER: &[Persona] = &[Persona::Builder];
const PIPE: IdArg = IdArg::new("pipe_uuid", IdKind::PipeUuid);
const ITEM: IdArg = IdArg::within("plain_text_id", IdKind::KnowledgeBase);

impl Changes for CreateAiKnowledgeBasePlainText {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::write("create_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        let (pipe_uuid, mut input) = item::new_in(&self.pipe_uuid)?;
        item::texts(&mut input, Some(&self.name), Some(&self.content), Some(&self.description))?;
        Ok(Change::Create { pipe_uuid, input })
    }
}

impl Changes for UpdateAiKnowledgeBasePlainText {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::write("update_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        let ids = Ids::new(&self.plain_text_id, &self.pipe_uuid)?;
        if self.name.is_none() && self.content.is_none() && self.description.is_none() {
            return Err(ToolError::invalid("Give at least one of name, content, description."));
        }
        let mut input = Map::new();
        item::texts(&mut input, self.name.as_deref(), self.content.as_deref(), self.description.as_deref())?;
        Ok(Change::Update { ids, input })
    }
}

impl Changes for DeleteAiKnowledgeBasePlainText {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::destructive("delete_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        Ids::new(&self.plain_text_id, &self.pipe_uuid).map(Change::Delete)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn each_writes_once() {
        let node = json!({"knowledgeBasePlainText": {"id": "5", "name": "N"}});
        let arguments =
            json!({"pipe_uuid": " u ", "name": " N ", "content": "c", "description": "d", "plain_text_id": 5});
        let sent = WriteRules::new("create_ai_knowledge_base_plain_text", arguments.clone())
            .write("createAiKnowledgeBasePlainText", node.clone())
            .check()
            .await;
        assert_eq!(
            sent[0].variables["input"],
            json!({"pipeUuid": "u", "name": "N", "content": "c", "description": "d"})
        );
        let sent = WriteRules::new(
            "update_ai_knowledge_base_plain_text",
            json!({"pipe_uuid": "u", "plain_text_id": "5", "name": "N"}),
        )
        .read("aiKnowledgeBasePlainText", json!({"id": "5"}))
        .write("updateAiKnowledgeBasePlainText", node)
        .check()
        .await;
        assert_eq!(sent[0].variables["input"], json!({"pipeUuid": "u", "plainTextId": "5", "name": "N"}));
        WriteRules::new("delete_ai_knowledge_base_plain_text", json!({"pipe_uuid": "u", "plain_text_id": 5}))
            .read("aiKnowledgeBasePlainText", json!({"id": "5"}))
            .write("deleteAiKnowledgeBasePlainText", json!({"success": true, "errors": []}))
            .check()
            .await;
    }

    #[tokio::test]
    async fn limits_count_characters_and_nothing_is_sent_beyond_them() {
        let arguments =
            |content: String| json!({"pipe_uuid": "u", "name": "N", "content": content, "description": "d"});
        let mock = Mock::new().on("createAiKnowledgeBasePlainText", json!({"knowledgeBasePlainText": {"id": "5"}}));
        assert_eq!(
            mock.reply("create_ai_knowledge_base_plain_text", arguments("\u{e9}".repeat(3500))).await["success"],
            true
        );
        let mock = Mock::new();
        let reply = mock.reply("create_ai_knowledge_base_plain_text", arguments("\u{e9}".repeat(3501))).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.contains("content") && message.contains("3500") && message.contains("3501"), "{message}");
        assert_eq!(
            mock.reply("update_ai_knowledge_base_plain_text", json!({"pipe_uuid": "u", "plain_text_id": 5})).await["success"],
            false
        );
        assert!(mock.sent().is_empty());
        let mock = Mock::new().on("deleteAiKnowledgeBasePlainText", json!({"success": false, "errors": ["in use", 5]}));
        let reply =
            mock.confirmed("delete_ai_knowledge_base_plain_text", json!({"pipe_uuid": "u", "plain_text_id": 5})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("in use"));
    }
}
