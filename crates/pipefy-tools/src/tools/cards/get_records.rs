use pipefy::cards::{self, RecordsQuery};
use pipefy::documents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::filter::{self, RecordFilter, RecordOrder};
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Page, Persona, Read, Shape, ToolError,
    dig, page_size,
};

/// Lists, counts and filters the cards of a pipe on the server. totalCount counts all matches; with where or search_term
/// paging ends at 10000.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetRecords {
    pipe_id: CheckedId,
    /// One condition {attribute | field: uuid, operator: value}, or {and | or: [conditions]}. in: any, contains: all. Dates
    /// with offset.
    #[serde(default)]
    r#where: Option<RecordFilter>,
    #[serde(default)]
    search_term: Option<String>,
    #[serde(default)]
    phase_id: Option<CheckedId>,
    #[serde(default)]
    order_by: Option<Vec<RecordOrder>>,
    /// Also return field values.
    #[serde(default)]
    include_fields: bool,
    /// Page size, 1..50.
    #[serde(default)]
    first: Option<i64>,
    #[serde(default)]
    after: Option<String>,
}

impl Read for GetRecords {
    const OP: Op = Op::read("get_records", Domain::Workflow, Shape::EnvelopeOrRaw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("phase_id", IdKind::Phase)])
        .paging("records.edges", "records.pageInfo", 50)
        .selects(&documents::cards::GET_RECORDS, "records.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let first = page_size("first", self.first, 50)?;
        let filter = filter::checked_filter(Self::OP.name, self.r#where)?;
        let order_by = filter::checked_order(self.order_by)?;
        let query = RecordsQuery {
            filter,
            search_term: self.search_term.as_deref(),
            phase_id: self.phase_id.as_deref(),
            order_by,
            include_fields: self.include_fields,
            first,
            after: self.after.as_deref().filter(|after| !after.is_empty()),
        };
        let data = call
            .query(cards::get_records(&self.pipe_id, query))
            .await
            .map_err(|e| Explain::doing("list records").about("pipe", &self.pipe_id).map(call, e))?;
        let value: Value = data.value();
        let page = first.map(|_| Page::from_page_info(dig(&value, "records.pageInfo"), first));
        Ok(Outcome::new(data).message("Records loaded.").page(page))
    }
}
