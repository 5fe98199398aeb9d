use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::definitions;
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the fields of a phase with all their ids: id (slug), internal_id (for field conditions) and uuid.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPhaseFields {
    phase_id: CheckedId,
    #[serde(default)]
    required_only: bool,
}

impl Read for GetPhaseFields {
    const OP: Op = Op::read("get_phase_fields", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .no_output_schema()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let phase = definitions::phase_form(call, &self.phase_id, "return phase fields").await?;
        let shown = definitions::shown(&phase.fields, self.required_only);
        let message = shown.is_empty().then_some(if self.required_only {
            "The phase has no required fields."
        } else {
            "The phase has no fields configured."
        });
        Ok(Outcome::new(json!({ "phase_id": phase.id, "phase_name": phase.name, "fields": shown }))
            .extra_opt("message", message))
    }
}
