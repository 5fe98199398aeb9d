use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{cursor, page_of_records};
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError, page_size,
};

/// Lists the records of a database table, page by page. Fields without a value are left out.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetTableRecords {
    table_id: CheckedId,
    /// Page size, 1..200; Pipefy may give fewer.
    #[serde(default = "fifty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
}

fn fifty() -> i64 {
    50
}

impl Read for GetTableRecords {
    const OP: Op = Op::read("get_table_records", Domain::Database, Shape::Envelope)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("table_id", IdKind::Table)])
        .paging("table_records.edges", "table_records.pageInfo", 50)
        .selects(&documents::tables::GET_TABLE_RECORDS, "table_records.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        page_size("first", Some(self.first), 200)?;
        let after = cursor(self.after.as_deref())?;
        let data = call
            .query(tables::get_table_records(&self.table_id, Some(self.first), after))
            .await
            .map_err(|e| Explain::doing("list table records").about("table", &self.table_id).map(call, e))?;
        Ok(page_of_records(call, data, "table_records", self.first, "Records loaded."))
    }
}
