use pipefy::{cards, documents};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::shared::list_at;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError};

/// Finds cards whose custom field equals a value, page by page. Titles are found with get_cards.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindCards {
    pipe_id: CheckedId,
    /// Slug.
    field_id: String,
    field_value: String,
    /// Also give names and values of fields.
    #[serde(default)]
    include_fields: bool,
    #[serde(default)]
    first: Option<i64>,
    /// Cursor: the endCursor of the page before.
    #[serde(default)]
    after: Option<String>,
}

impl Read for FindCards {
    const OP: Op = Op::read("find_cards", Domain::Workflow, Shape::Raw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::within("field_id", IdKind::PhaseField)])
        .paging("findCards.edges", "findCards.pageInfo", 50)
        .selects(&documents::cards::FIND_CARDS, "findCards.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        let query =
            cards::find_cards(&self.pipe_id, &self.field_id, &self.field_value, self.include_fields, self.first, after);
        let data =
            call.query(query).await.map_err(|e| Explain::doing("find cards").kind("phase_field").map(call, e))?;
        let none = list_at(&data.value(), "findCards.edges").is_empty();
        Ok(Outcome::new(data).extra_opt("message", none.then_some("No cards were found for this field and value.")))
    }
}
