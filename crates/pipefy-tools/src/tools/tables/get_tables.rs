use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads several database tables with their fields in one call.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetTables {
    table_ids: Vec<CheckedId>,
}

impl Read for GetTables {
    const OP: Op = Op::read("get_tables", Domain::Database, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("table_ids", IdKind::Table)])
        .selects(&documents::tables::GET_TABLES, "tables");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        if self.table_ids.is_empty() {
            return Err(ToolError::invalid("`table_ids` needs at least one id."));
        }
        let ids: Vec<&str> = self.table_ids.iter().map(CheckedId::as_str).collect();
        let data = call
            .query(tables::get_tables(&ids))
            .await
            .map_err(|e| Explain::doing("load tables").kind("table").map(call, e))?;
        Ok(Outcome::new(data).message("Tables loaded.").extra("pagination", Value::Null))
    }
}
