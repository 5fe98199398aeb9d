use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::field;
use crate::tools::shared::{not_done, send};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError,
    Verification, Write,
};

/// Deletes a field of a database table, with its values, for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteTableField {
    field_id: CheckedId,
    table_id: CheckedId,
}

pub(crate) struct Keep {
    field_id: String,
    table_id: String,
}

impl Write for DeleteTableField {
    const OP: Op = Op::destructive("delete_table_field", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::within("field_id", IdKind::TableField), IdArg::new("table_id", IdKind::Table)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let keep = Keep { field_id: self.field_id.to_string(), table_id: self.table_id.to_string() };
        let mutation = tables::delete_table_field(&keep.field_id, &keep.table_id);
        let identity = json!({ "field_id": keep.field_id, "table_id": keep.table_id });
        let confirmation = Confirmation::delete(format!("table field (ID: {})", keep.field_id), identity);
        Ok(Plan::new(keep).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete table field").about("table_field", &plan.keep.field_id);
        let data = send(plan, act).await.map_err(|e| not_done(act, explain, e))?;
        Ok(Outcome::new(data).message("Table field deleted."))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(field(call, &plan.keep.table_id, &plan.keep.field_id).await.gone("field"))
    }
}
