use pipefy::cards;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Reach, Read, Shape, ToolError,
};

/// Lists the child and parent cards linked to a card, by relation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetCardRelations {
    card_id: CheckedId,
}

impl Read for GetCardRelations {
    const OP: Op = Op::read("get_card_relations", Domain::Workflow, Shape::Flat)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card)])
        .reaches(Reach::Listing(&[("child_relations", IdKind::Relation), ("parent_relations", IdKind::Relation)]));

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load card relations").about("card", &self.card_id);
        let data = call.query(cards::get_card_relations(&self.card_id)).await.map_err(|e| explain.map(call, e))?;
        let value = data.value();
        let card = value.get("card").filter(|card| !card.is_null()).ok_or_else(|| {
            ToolError::not_found(format!("Card {} not found or access denied. Use `find_cards`.", self.card_id))
        })?;
        let list = |snake: &str, camel: &str| {
            [snake, camel].iter().find_map(|key| card.get(*key)?.as_array()).cloned().unwrap_or_default()
        };
        Ok(Outcome::new(json!({
            "child_relations": list("child_relations", "childRelations"),
            "parent_relations": list("parent_relations", "parentRelations"),
        }))
        .message("Card relations loaded."))
    }
}
