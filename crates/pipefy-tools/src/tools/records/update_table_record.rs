use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::readback;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes title, due_date or status_id of a record; custom fields go through set_table_record_field_value.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateTableRecord {
    record_id: CheckedId,
    /// {title, due_date, status_id}.
    fields: Map<String, Value>,
}

/// What values that Pipefy refuses may be.
const HINT: &str =
    "due_date takes YYYY-MM-DD or a date-time with offset; status_id is the id of a status of the table.";

impl Write for UpdateTableRecord {
    const OP: Op = Op::write("update_table_record", Domain::Database, Shape::Result)
        .outsiders(Outsiders::CONTENTS)
        .debug()
        .touches(&[IdArg::new("record_id", IdKind::TableRecord)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let mut input = Map::new();
        input.insert("id".to_owned(), self.record_id.as_str().into());
        for (name, value) in self.fields.into_iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "title" | "due_date" | "statusId" => input.insert(name, value),
                // Pipefy's spelling; given twice, the later one counts.
                "status_id" => input.insert("statusId".to_owned(), value),
                _ => None,
            };
        }
        if input.len() == 1 {
            return Err(ToolError::invalid("`fields` needs at least one of title, due_date, status_id (or statusId)."));
        }
        let record_id = self.record_id.to_string();
        let before = if call.options.dry_run { before(call, &record_id).await } else { None };
        let mut plan = Plan::new(record_id).then(tables::update_table_record(input));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let explain = Explain::doing("update table record").about("table_record", &plan.keep).hint(HINT);
        let data = act.send(mutation).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Record updated."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = call.query(tables::get_table_record(&plan.keep)).await;
        Some(readback::thing(read, "table_record").matches(plan, &[("statusId", "status.id")]))
    }
}

/// The record as it is; `None` when it cannot be read.
pub(crate) async fn before(call: &Call<'_>, record_id: &str) -> Option<Value> {
    call.query(tables::get_table_record(record_id)).await.ok().map(|data| data.value())
}
