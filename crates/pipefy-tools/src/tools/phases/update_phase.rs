use pipefy::{phases, pipes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::transitions::TRANSITIONS;
use crate::tools::shared::{no_nulls, non_blank, send, text_of};
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

pub(crate) struct Keep {
    phase_id: String,
    name: String,
    /// Attributes that no read shows.
    others: Vec<String>,
}

impl Write for UpdatePhase {
    const OP: Op = Op::write("update_phase", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
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
        let others = changes.keys().filter(|key| *key != "name").cloned().collect();
        changes.insert("name".to_owned(), name.clone().into());
        let mut input = Map::new();
        input.insert("id".to_owned(), phase_id.clone().into());
        input.extend(changes);
        Ok(Plan::new(Keep { phase_id, name, others }).then(phases::update_phase(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update phase").about("phase", &plan.keep.phase_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Phase updated.").extra("connection_hint", TRANSITIONS))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(pipes::get_phase_fields(&plan.keep.phase_id)).await {
            Ok(data) => {
                let name = text_of(dig(&data.value(), "phase.name"));
                let others: Vec<&str> = plan.keep.others.iter().map(String::as_str).collect();
                Verification::compared(name.as_ref() == Some(&plan.keep.name), "name", &others)
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}
