use pipefy::{phases, pipes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::transitions::TRANSITIONS;
use crate::readback;
use crate::tools::shared::{COLORS, no_nulls, non_blank, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Changes a phase. Phases cannot be reordered or connected through the API.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePhase {
    phase_id: CheckedId,
    #[serde(flatten)]
    changes: Changes,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Changes {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    done: Option<bool>,
    /// A name, e.g. blue.
    #[serde(default)]
    color: Option<String>,
    /// Seconds after which a card is late.
    #[serde(default)]
    lateness_time: Option<i64>,
    #[serde(default)]
    can_receive_card_directly_from_draft: Option<bool>,
    #[serde(default)]
    only_admin_can_move_to_previous: Option<bool>,
}

impl Write for UpdatePhase {
    const OP: Op = Op::write("update_phase", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let mut changes = no_nulls(&self.changes);
        if changes.is_empty() {
            return Err(ToolError::invalid(
                "Give at least one of name, description, done, color, lateness_time, can_receive_card_directly_from_draft, \
                 only_admin_can_move_to_previous.",
            ));
        }
        let phase_id = self.phase_id.to_string();
        // Pipefy wants the name with every change.
        let name = match self.changes.name {
            Some(name) => name,
            None => {
                let explain = Explain::doing("load phase").about("phase", &phase_id);
                let data = call.query(pipes::get_phase_fields(&phase_id)).await.map_err(|e| explain.map(call, e))?;
                let name = text_of(dig(&data.value(), "phase.name"));
                non_blank(name.as_deref()).map(str::to_owned).ok_or_else(|| {
                    let message = format!(
                        "Pipefy gave no name for phase {phase_id}: it was not found, or has no name. Pass `name` to set one."
                    );
                    ToolError::invalid(message)
                })?
            }
        };
        changes.insert("name".to_owned(), name.into());
        let mut input = Map::new();
        input.insert("id".to_owned(), phase_id.clone().into());
        input.extend(changes);
        Ok(Plan::new(phase_id).then(phases::update_phase(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update phase").about("phase", &plan.keep).hint(COLORS);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Phase updated.").extra("connection_hint", TRANSITIONS))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = call.query(pipes::get_phase_fields(&plan.keep)).await;
        Some(readback::thing(read, "phase").matches(plan, &[]))
    }
}
