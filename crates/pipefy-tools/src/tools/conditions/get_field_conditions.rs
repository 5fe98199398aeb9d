use pipefy::{documents, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::shared::list_at;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the field conditions of a phase.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetFieldConditions {
    phase_id: CheckedId,
}

impl Read for GetFieldConditions {
    const OP: Op = Op::read("get_field_conditions", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)])
        .selects(&documents::phases::GET_PHASE_CONDITIONS, "phase.fieldConditions");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load field conditions").about("phase", &self.phase_id);
        let data = call.query(pipes::get_phase_conditions(&self.phase_id)).await.map_err(|e| explain.map(call, e))?;
        let value = data.value();
        let phase = value.get("phase").filter(|phase| !phase.is_null()).ok_or_else(|| {
            ToolError::not_found(format!(
                "Phase {} not found or access denied. `get_pipe` lists phases.",
                self.phase_id
            ))
        })?;
        let conditions = list_at(phase, "fieldConditions");
        Ok(Outcome::new(json!({ "field_conditions": conditions })).message("Field conditions loaded."))
    }
}
