use pipefy::phases;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::text_of;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Counts the cards of a phase without reading them. The start form's phase may say 0 while it has cards.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPhaseCardsCount {
    phase_id: CheckedId,
}

impl Read for GetPhaseCardsCount {
    const OP: Op = Op::read("get_phase_cards_count", Domain::Workflow, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("count cards").about("phase", &self.phase_id);
        let data = call.query(phases::get_phase_cards_count(&self.phase_id)).await.map_err(|e| explain.map(call, e))?;
        let counted = counted(&data.value()).ok_or_else(|| explain.missing())?;
        Ok(Outcome::new(counted).message("Cards counted."))
    }
}

/// `{phase_id, phase_name, cards_count}`; `None` without phase, id or count.
fn counted(data: &Value) -> Option<Value> {
    let phase = data.get("phase")?;
    let count: i64 = text_of(phase.get("cards_count"))?.trim().parse().ok()?;
    let name = text_of(phase.get("name")).unwrap_or_default();
    Some(json!({ "phase_id": text_of(phase.get("id"))?, "phase_name": name, "cards_count": count }))
}
