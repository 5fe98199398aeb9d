use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one database table with its fields.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetTable {
    table_id: CheckedId,
}

impl Read for GetTable {
    const OP: Op = Op::read("get_table", Domain::Database, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("table_id", IdKind::Table)])
        .selects(&documents::tables::GET_TABLE, "table");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(tables::get_table(&self.table_id))
            .await
            .map_err(|e| Explain::doing("load table").about("table", &self.table_id).map(call, e))?;
        Ok(Outcome::new(data).message("Table loaded.").extra("pagination", Value::Null))
    }
}
