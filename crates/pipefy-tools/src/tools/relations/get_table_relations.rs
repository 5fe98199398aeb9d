use pipefy::{documents, relations};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads table relations by their own ids (not table ids).
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetTableRelations {
    relation_ids: Vec<CheckedId>,
}

impl Read for GetTableRelations {
    const OP: Op = Op::read("get_table_relations", Domain::Database, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("relation_ids", IdKind::TableRelation)])
        .selects(&documents::relations::GET_TABLE_RELATIONS, "table_relations");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        if self.relation_ids.is_empty() {
            return Err(ToolError::invalid("`relation_ids` must not be empty."));
        }
        let ids: Vec<String> = self.relation_ids.iter().map(ToString::to_string).collect();
        let explain = Explain::doing("load table relations").kind("table");
        let data = call.query(relations::get_table_relations(&ids)).await.map_err(|e| explain.map(call, e))?;
        Ok(Outcome::new(data).message("Table relations loaded."))
    }
}
