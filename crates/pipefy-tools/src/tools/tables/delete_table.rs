use pipefy::{Error, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::shared::{send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification,
    Write, debug_suffix, dig,
};

/// Deletes a database table with its records for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteTable {
    table_id: CheckedId,
}

pub(crate) struct Table {
    id: String,
    name: String,
}

impl Write for DeleteTable {
    const OP: Op = Op::destructive("delete_table", Domain::Database, Shape::Flat)
        .debug()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = Table;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Table>, ToolError> {
        let id = self.table_id.to_string();
        let data = call.query(tables::get_table(&id)).await.map_err(|e| failed(call, e, &id, "Unknown"))?;
        let value = data.value();
        let name = text_of(dig(&value, "table.name")).unwrap_or_else(|| "Unknown".to_owned());
        let confirmation = Confirmation::delete(format!("table '{name}' (ID: {id})"), json!({ "table_id": id }));
        let mutation = tables::delete_table(&id);
        Ok(Plan::new(Table { id, name }).then(mutation).before(value).confirm(confirmation))
    }

    async fn act(plan: &Plan<Table>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Table { id, name } = &plan.keep;
        send(plan, act).await.map_err(|e| failed(act, e, id, name))?;
        Ok(Outcome::new(json!({ "table_id": id }))
            .message(format!("Table '{name}' (ID: {id}) has been permanently deleted.")))
    }

    async fn verify(plan: &Plan<Table>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(tables::get_table(&plan.keep.id)).await {
            Ok(data) if data.value().get("table").is_some_and(|table| !table.is_null()) => {
                Verification::of(false, "the table can still be read")
            }
            Ok(_) => Verification::of(true, "the table can no longer be read"),
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") || e.has_code("PERMISSION_DENIED") => {
                Verification::of(true, "the table is removed or no longer accessible")
            }
            Err(e) => Verification::unknown(e.to_string()),
        })
    }
}

/// A failure by the first code that is known; a time-out keeps its own text.
fn failed(call: &Call<'_>, error: Error, id: &str, name: &str) -> ToolError {
    let codes: Vec<String> = error.codes().into_iter().map(str::to_owned).collect();
    let message = match &error {
        Error::Graphql { .. } | Error::Declined { .. } | Error::NoPayload { .. } => {
            let known = codes.iter().find_map(|code| match code.as_str() {
                "RESOURCE_NOT_FOUND" | "RECORD_NOT_FOUND" => {
                    Some(format!("Table {id} not found. Check that it exists and that this account has access."))
                }
                "PERMISSION_DENIED" => Some(format!("No permission to delete table {id}.")),
                "RECORD_NOT_DESTROYED" => Some(format!(
                    "Table '{name}' (ID: {id}) could not be deleted; try again or contact Pipefy's support."
                )),
                _ => None,
            });
            known.unwrap_or_else(|| {
                let codes = if codes.is_empty() { String::new() } else { format!(" Codes: {}", codes.join(", ")) };
                format!("Table '{name}' (ID: {id}) was not deleted: {error}{codes}")
            })
        }
        other => other.to_string(),
    };
    let suffix = if call.debug() { debug_suffix(&codes, error.correlation_id()) } else { String::new() };
    ToolError::from(error).message(message + &suffix)
}
