use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::update_table_record::before;
use crate::readback;
use crate::tools::shared::{not_done, send};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Plan, Shape, ToolError,
    Verification, Write,
};

/// Deletes a record of a database table for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteTableRecord {
    record_id: CheckedId,
}

impl Write for DeleteTableRecord {
    const OP: Op = Op::destructive("delete_table_record", Domain::Database, Shape::Result)
        .outsiders(Outsiders::CONTENTS)
        .debug()
        .touches(&[IdArg::new("record_id", IdKind::TableRecord)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.record_id.to_string();
        let confirmation = Confirmation::delete(format!("table record (ID: {id})"), json!({ "record_id": id }));
        let before = if call.options.dry_run { before(call, &id).await } else { None };
        let mutation = tables::delete_table_record(&id);
        let mut plan = Plan::new(id).then(mutation).confirm(confirmation);
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete table record").about("table_record", &plan.keep);
        let data = send(plan, act).await.map_err(|e| not_done(act, explain, e))?;
        Ok(Outcome::new(data).message("Record deleted."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = call.query(tables::get_table_record(&plan.keep)).await;
        Some(readback::thing(read, "table_record").gone("record"))
    }
}
