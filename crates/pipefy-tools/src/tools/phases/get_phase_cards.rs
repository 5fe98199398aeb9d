use pipefy::{documents, phases};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Page, Persona, Read, Shape, ToolError,
    dig, page_size,
};

/// Lists the cards of a phase, page by page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPhaseCards {
    phase_id: CheckedId,
    /// Page size, 1..500; Pipefy gives at most 30.
    #[serde(default = "fifty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
    /// Also give names and values of fields.
    #[serde(default)]
    include_fields: bool,
}

fn fifty() -> i64 {
    50
}

impl Read for GetPhaseCards {
    const OP: Op = Op::read("get_phase_cards", Domain::Workflow, Shape::EnvelopeOrRaw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)])
        .paging("phase.cards.edges", "phase.cards.pageInfo", 50)
        .selects(&documents::phases::GET_PHASE_CARDS, "phase.cards.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let first = page_size("first", Some(self.first), 500)?;
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        let explain = Explain::doing("list the cards of the phase").about("phase", &self.phase_id);
        let query = phases::get_phase_cards(&self.phase_id, self.include_fields, first, after);
        let data = call.query(query).await.map_err(|e| explain.map(call, e))?;
        let value = data.value();
        if value.get("phase").is_none_or(serde_json::Value::is_null) {
            return Err(explain.missing());
        }
        let page = Page::from_page_info(dig(&value, "phase.cards.pageInfo"), first);
        Ok(Outcome::new(data).message("Cards loaded.").page(Some(page)))
    }
}
