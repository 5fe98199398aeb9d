use pipefy::{conditions, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one field condition with its phase.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetFieldCondition {
    field_condition_id: CheckedId,
}

impl Read for GetFieldCondition {
    const OP: Op = Op::read("get_field_condition", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("field_condition_id", IdKind::FieldCondition)])
        .selects(&documents::conditions::GET_FIELD_CONDITION, "fieldCondition");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = self.field_condition_id.as_str();
        let explain = Explain::doing("load field condition").about("field_condition", id);
        let data = call.query(conditions::get_field_condition(id)).await.map_err(|e| explain.map(call, e))?;
        let value = data.value();
        let condition = value.get("fieldCondition").filter(|condition| !condition.is_null()).ok_or_else(|| {
            ToolError::not_found(format!(
                "Field condition {id} not found or access denied. Use `get_field_conditions`."
            ))
        })?;
        Ok(Outcome::new(json!({ "field_condition": condition })).message("Field condition loaded."))
    }
}
