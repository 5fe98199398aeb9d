//! Plain texts.

use pipefy::Id;
use pipefy::knowledge_bases::Knowledge;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;

use super::item::{self, Deletes, Ids};
use crate::tools::shared::required_text;
use crate::{Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write};

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
const ITEM: IdArg = IdArg::new("plain_text_id", IdKind::KnowledgeBase);

impl Write for CreateAiKnowledgeBasePlainText {
    const OP: Op = Op::write("create_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[PIPE]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let pipe = required_text("pipe_uuid", &self.pipe_uuid)?;
        let mut input = Map::new();
        input.insert("pipeUuid".to_owned(), pipe.into());
        item::texts(&mut input, Some(&self.name), Some(&self.content), Some(&self.description))?;
        Ok(Plan::new(pipe.to_owned()).then(KIND.create(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        item::save(plan, act, KIND, "createAiKnowledgeBasePlainText", "created").await
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        item::read_back(outcome, call, KIND, &plan.keep).await
    }
}

impl Write for UpdateAiKnowledgeBasePlainText {
    const OP: Op = Op::write("update_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);
    type Keep = Ids;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Ids>, ToolError> {
        let ids = Ids::new(&self.plain_text_id, &self.pipe_uuid)?;
        if self.name.is_none() && self.content.is_none() && self.description.is_none() {
            return Err(ToolError::invalid("Give at least one of name, content, description."));
        }
        let mut input = Map::new();
        input.insert("pipeUuid".to_owned(), ids.pipe_uuid.clone().into());
        input.insert(KIND.id_key().to_owned(), ids.id.clone().into());
        item::texts(&mut input, self.name.as_deref(), self.content.as_deref(), self.description.as_deref())?;
        let mutation = KIND.update(input);
        Ok(item::plan_change(call, KIND, ids, mutation).await)
    }

    async fn act(plan: &Plan<Ids>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        item::save(plan, act, KIND, "updateAiKnowledgeBasePlainText", "updated").await
    }

    async fn verify(plan: &Plan<Ids>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        item::read_back(outcome, call, KIND, &plan.keep.pipe_uuid).await
    }
}

impl Deletes for DeleteAiKnowledgeBasePlainText {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::destructive("delete_ai_knowledge_base_plain_text", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn ids(&self) -> Result<Ids, ToolError> {
        Ids::new(&self.plain_text_id, &self.pipe_uuid)
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
