use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{cursor, page_of_records};
use crate::tools::shared::required_text;
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError, page_size,
};

/// Finds records of a database table whose field equals a value, page by page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindRecords {
    table_id: CheckedId,
    /// See get_table.
    field_id: String,
    field_value: String,
    /// Page size, 1..200.
    #[serde(default)]
    first: Option<i64>,
    #[serde(default)]
    after: Option<String>,
}

impl Read for FindRecords {
    const OP: Op = Op::read("find_records", Domain::Database, Shape::Envelope)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("table_id", IdKind::Table), IdArg::within("field_id", IdKind::TableField)])
        .paging("findRecords.edges", "findRecords.pageInfo", 50)
        .selects(&documents::tables::FIND_RECORDS, "findRecords.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let field_id = required_text("field_id", &self.field_id)?;
        let first = page_size("first", self.first, 200)?;
        let after = cursor(self.after.as_deref())?;
        let data = call
            .query(tables::find_records(&self.table_id, field_id, &self.field_value, first, after))
            .await
            .map_err(|e| Explain::doing("find records").about("table", &self.table_id).map(call, e))?;
        Ok(page_of_records(call, data, "findRecords", first.unwrap_or(50), "Records loaded."))
    }
}
