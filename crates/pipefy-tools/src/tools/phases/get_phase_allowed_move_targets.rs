use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::{list_at, text_of};
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the phases that cards of a phase may move to. Transitions are set in Pipefy's UI only.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPhaseAllowedMoveTargets {
    phase_id: CheckedId,
}

impl Read for GetPhaseAllowedMoveTargets {
    const OP: Op = Op::read("get_phase_allowed_move_targets", Domain::Workflow, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load the move targets").about("phase", &self.phase_id);
        let data = call
            .query(pipes::get_phase_allowed_move_targets(&self.phase_id))
            .await
            .map_err(|e| explain.map(call, e))?;
        let targets = targets(&data.value()).ok_or_else(|| explain.missing())?;
        Ok(Outcome::new(targets).message("Allowed move targets loaded."))
    }
}

/// `{phase_id, phase_name, allowed_phases}` of a phase read with its targets; `None` without phase or id.
pub(crate) fn targets(data: &Value) -> Option<Value> {
    let phase = data.get("phase")?;
    let id = text_of(phase.get("id"))?;
    let name = |of: &Value| text_of(of.get("name")).unwrap_or_default();
    let allowed: Vec<Value> = list_at(phase, "cards_can_be_moved_to_phases")
        .iter()
        .filter_map(|target| Some(json!({ "id": text_of(target.get("id"))?, "name": name(target) })))
        .collect();
    Some(json!({ "phase_id": id, "phase_name": name(phase), "allowed_phases": allowed }))
}
