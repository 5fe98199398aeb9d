//! What can be said about transitions between phases: they are read here and set in Pipefy's UI only.

use pipefy::pipes;
use serde_json::Value;

use crate::Call;
use crate::tools::shared::{list_at, text_of};

/// Where transitions are configured.
pub(crate) const TRANSITIONS: &str = "Transitions are set in Pipefy's UI (pipe settings, phase, connections) and cannot be \
    changed through the API; `get_phase_allowed_move_targets` lists them.";

/// `Name (id)` of each target, joined by commas.
pub(crate) fn phrase(targets: &[Value]) -> String {
    if targets.is_empty() {
        return "(none configured)".to_owned();
    }
    targets
        .iter()
        .filter_map(|target| {
            let id = text_of(target.get("id"))?;
            Some(match text_of(target.get("name")).filter(|name| !name.is_empty()) {
                Some(name) => format!("{name} ({id})"),
                None => id,
            })
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Where cards of a phase may go; `None` when it cannot be read.
pub(crate) async fn targets_in_words(call: &Call<'_>, phase_id: &str) -> Option<String> {
    let data = call.query(pipes::get_phase_allowed_move_targets(phase_id)).await.ok()?;
    let value = data.value();
    value.get("phase").filter(|phase| phase.is_object())?;
    Some(phrase(list_at(&value, "phase.cards_can_be_moved_to_phases")))
}
