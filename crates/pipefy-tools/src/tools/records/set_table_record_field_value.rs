use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::update_table_record::before;
use crate::readback::{self, Sent, asked};
use crate::tools::shared::unpacked;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Plan, Shape, ToolError, Verification,
    Write,
};

/// Replaces the value of one custom field of a record.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetTableRecordFieldValue {
    record_id: CheckedId,
    /// See get_table.
    field_id: CheckedId,
    /// One value, or the whole list of a list field. Not null.
    value: Value,
}

impl Write for SetTableRecordFieldValue {
    const OP: Op = Op::write("set_table_record_field_value", Domain::Database, Shape::Result)
        .outsiders(Outsiders::CONTENTS)
        .debug()
        .touches(&[IdArg::new("record_id", IdKind::TableRecord), IdArg::within("field_id", IdKind::TableField)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let value = unpacked(self.value);
        if value.is_null() {
            return Err(ToolError::invalid("`value` must not be null; [] empties a list field."));
        }
        let record_id = self.record_id.to_string();
        let before = if call.options.dry_run { before(call, &record_id).await } else { None };
        let mutation = tables::set_table_record_field_value(&record_id, &self.field_id, value);
        let mut plan = Plan::new(record_id).then(mutation);
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let explain = Explain::doing("set table record field value")
            .about("table_record", &plan.keep)
            .hint("`get_table` lists the field ids of the table and their types.");
        let data = act.send(mutation).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Field value set."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let input = asked(plan);
        let sent = Sent { field: input.get("field_id")?.as_str()?, value: input.get("value")?, operation: "REPLACE" };
        let read = call.query(tables::get_record_values(&plan.keep)).await;
        Some(readback::values(read, "table_record.record_fields", std::iter::once(sent)))
    }
}
