use pipefy::{cards, documents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tools::shared::{listing, no_nulls};
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError, page_size,
};

/// Lists cards of a pipe, page by page, by title, labels, assignees or other search keys.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetCards {
    pipe_id: CheckedId,
    /// Text the title contains; wins over search.title.
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    search: Option<CardSearch>,
    /// Also give names and values of fields.
    #[serde(default)]
    include_fields: bool,
    /// Page size, 1..500; Pipefy gives at most 50.
    #[serde(default)]
    first: Option<i64>,
    #[serde(default)]
    after: Option<String>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct CardSearch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignee_ids: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_ids: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label_ids: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inbox_emails_read: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    include_done: Option<bool>,
}

impl Read for GetCards {
    const OP: Op = Op::read("get_cards", Domain::Workflow, Shape::EnvelopeOrRaw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .paging("cards.edges", "cards.pageInfo", 50)
        .selects(&documents::cards::GET_CARDS, "cards.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let first = page_size("first", self.first, 500)?;
        let mut search: Map<String, Value> = self.search.map(|s| no_nulls(&s)).unwrap_or_default();
        if let Some(title) = self.title.filter(|t| !t.is_empty()) {
            search.insert("title".to_owned(), title.into());
        }
        let after = self.after.as_deref().filter(|a| !a.is_empty());
        let data = call
            .query(cards::get_cards(&self.pipe_id, &search, self.include_fields, first, after))
            .await
            .map_err(|e| Explain::doing("list cards").about("pipe", &self.pipe_id).map(call, e))?;
        Ok(listing(data, "cards", first, "Cards loaded."))
    }
}
