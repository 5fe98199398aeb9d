use pipefy::{documents, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::shared::{list_at, text_of};
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, dig};

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
        let data = match call.query(tables::get_tables(&ids)).await {
            Ok(data) => data,
            Err(error) => {
                let failure = Explain::doing("load tables").kind("table").map(call, error);
                return Err(blamed(call, failure, &ids).await);
            }
        };
        let value = data.value();
        let missing: Vec<&str> = match list_at(&value, "tables") {
            // An id that names nothing may also just be left out.
            found if found.len() < ids.len() || found.iter().any(Value::is_null) => {
                let shown = |id: &&str| found.iter().any(|table| names(table, id));
                ids.iter().copied().filter(|id| !shown(id)).collect()
            }
            _ => Vec::new(),
        };
        let message = match missing.as_slice() {
            [] => "Tables loaded.".to_owned(),
            missing => format!(
                "Tables loaded, but not {}: they do not exist or cannot be seen. Find the right ones with `search_tables`.",
                missing.join(", ")
            ),
        };
        Ok(Outcome::new(data).message(message).extra("pagination", Value::Null))
    }
}

/// Ids that are looked at one by one at most, to say which of them made Pipefy refuse the whole.
const BLAMED: usize = 20;

/// Says which ids Pipefy does not take, where it refuses all for one.
async fn blamed(call: &Call<'_>, failure: ToolError, ids: &[&str]) -> ToolError {
    let refused = matches!(failure.source.as_deref(), Some(pipefy::Error::Graphql { .. }));
    if !refused || ids.len() > BLAMED {
        return failure;
    }
    let looked = futures_util::future::join_all(ids.iter().map(|id| is_readable(call, id))).await;
    let wrong: Vec<&str> = ids.iter().zip(looked).filter(|(_, readable)| !readable).map(|(id, _)| *id).collect();
    if wrong.is_empty() {
        return failure;
    }
    let message = format!("{} It is about {} of {}: {}.", failure.message, wrong.len(), ids.len(), wrong.join(", "));
    failure.message(message).detail("wrong_ids", wrong)
}

async fn is_readable(call: &Call<'_>, id: &str) -> bool {
    call.query(tables::get_table(id)).await.is_ok_and(|data| dig(&data.value(), "table.id").is_some())
}

/// Whether this is the table that the id names.
fn names(table: &Value, id: &str) -> bool {
    ["id", "internal_id", "uuid"].iter().any(|key| text_of(table.get(*key)).as_deref() == Some(id))
}
