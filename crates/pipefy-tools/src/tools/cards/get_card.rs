use pipefy::{cards, documents};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError};

/// Reads one card: title, pipe, current phase and, on request, its field values.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetCard {
    card_id: CheckedId,
    /// Also give names and values of fields.
    #[serde(default)]
    include_fields: bool,
}

impl Read for GetCard {
    const OP: Op = Op::read("get_card", Domain::Workflow, Shape::Raw)
        // The text is that of comments.
        .outsiders(Outsiders::Under(&["title", "value", "text"]))
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator, Persona::Requester])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card)])
        .selects(&documents::cards::GET_CARD, "card");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(cards::get_card(&self.card_id, self.include_fields))
            .await
            .map_err(|e| Explain::doing("load card").about("card", &self.card_id).map(call, e))?;
        Ok(Outcome::new(data))
    }
}
