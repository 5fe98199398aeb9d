use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError};

/// Reads one record of a database table. Fields without a value are left out.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetTableRecord {
    record_id: CheckedId,
}

impl Read for GetTableRecord {
    const OP: Op = Op::read("get_table_record", Domain::Database, Shape::Envelope)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("record_id", IdKind::TableRecord)])
        .selects(&documents::tables::GET_TABLE_RECORD, "table_record");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(tables::get_table_record(&self.record_id))
            .await
            .map_err(|e| Explain::doing("load table record").about("table_record", &self.record_id).map(call, e))?;
        Ok(Outcome::new(data).message("Record loaded.").extra("pagination", Value::Null))
    }
}
