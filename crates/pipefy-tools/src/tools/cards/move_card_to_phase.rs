use pipefy::{Error, cards, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::phases::transitions::{TRANSITIONS, phrase};
use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Moves a card to another phase of its pipe. Phases with unmet required fields or no connection refuse.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct MoveCardToPhase {
    card_id: CheckedId,
    /// See get_phase_allowed_move_targets.
    destination_phase_id: CheckedId,
}

pub(crate) struct Move {
    card_id: String,
    destination: String,
}

impl Write for MoveCardToPhase {
    const OP: Op = Op::write("move_card_to_phase", Domain::Workflow, Shape::Raw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Manager, Persona::Operator])
        .idempotent()
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card), IdArg::new("destination_phase_id", IdKind::Phase)]);
    type Keep = Move;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Move>, ToolError> {
        let keep = Move { card_id: self.card_id.to_string(), destination: self.destination_phase_id.to_string() };
        let mut plan = Plan::new(keep).then(cards::move_card_to_phase(&self.card_id, &self.destination_phase_id));
        if call.options.dry_run {
            plan.before = current_phase(call, &self.card_id).await.map(|phase| json!({ "current_phase": phase }));
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<Move>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        match act.send(mutation).await {
            Ok(data) => Ok(Outcome::new(data)),
            Err(error @ Error::Graphql { .. }) => Err(explain(act, &plan.keep, error).await),
            Err(error) => Err(error.into()),
        }
    }

    async fn verify(plan: &Plan<Move>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let phase = current_phase(call, &plan.keep.card_id).await;
        Some(match phase.as_ref().and_then(|p| text_of(p.get("id"))) {
            Some(id) => Verification::of(id == plan.keep.destination, format!("the card is in phase {id}")),
            None => Verification::unknown("the card could not be read back"),
        })
    }
}

async fn current_phase(call: &Call<'_>, card_id: &str) -> Option<Value> {
    let data = call.query(cards::get_card(card_id, false)).await.ok()?;
    dig(&data.value(), "card.current_phase").filter(|p| p.is_object()).cloned()
}

/// Adds what reads can tell: where the card may go, and required fields that a rule hides (field reports A08, B06).
async fn explain(call: &Call<'_>, keep: &Move, error: Error) -> ToolError {
    let text = error.to_string();
    let plain = |error: Error| Explain::doing("move card").kind("card").keep_not_found().map(call, error);
    let Some(phase) = current_phase(call, &keep.card_id).await else {
        return plain(error);
    };
    let phase_id = text_of(phase.get("id"));
    if let Some(phase_id) = &phase_id
        && let Ok(data) = call.query(pipes::get_phase_allowed_move_targets(phase_id)).await
    {
        let value = data.value();
        let targets =
            dig(&value, "phase.cards_can_be_moved_to_phases").and_then(Value::as_array).cloned().unwrap_or_default();
        let known = value.get("phase").is_some_and(|p| !p.is_null());
        if known && !targets.iter().any(|t| text_of(t.get("id")).as_deref() == Some(&keep.destination)) {
            let name =
                text_of(phase.get("name")).map_or_else(|| format!("id {phase_id}"), |n| format!("'{n}' ({phase_id})"));
            let message = format!(
                "Pipefy refused the move: {text}. From the current phase {name} the destination {} cannot be reached; \
                 allowed destinations: {}. {TRANSITIONS}",
                keep.destination,
                phrase(&targets)
            );
            let mut failure = ToolError::from(error).message(message);
            failure.extra.insert("valid_destinations".to_owned(), targets.into());
            failure.extra.insert("current_phase".to_owned(), json!({ "id": phase_id, "name": phase.get("name") }));
            return failure;
        }
    }
    if let (Some(label), Some(phase_id)) = (required_label(&text), &phase_id) {
        let hint = if is_hidden(call, phase_id, &label).await {
            format!(
                " The field may be hidden by a field condition while still required; make '{label}' optional or show it, \
                 then move again."
            )
        } else {
            " Fill it with fill_card_phase_fields, then move again.".to_owned()
        };
        return ToolError::from(error).message(format!("{}.{hint}", text.trim_end_matches('.')));
    }
    plain(error)
}

/// The label in `Field "<label>" is required`.
fn required_label(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Field \"")?;
    let (label, rest) = rest.split_once('"')?;
    rest.starts_with(" is required").then(|| label.to_owned())
}

/// Whether a condition of the phase hides the required field with this label; any failing read means "not known".
async fn is_hidden(call: &Call<'_>, phase_id: &str, label: &str) -> bool {
    let reads = futures_util::future::join(
        call.query(pipes::get_phase_fields(phase_id)),
        call.query(pipes::get_phase_conditions(phase_id)),
    );
    let (Ok(fields), Ok(conditions)) = reads.await else {
        return false;
    };
    let (fields, conditions) = (fields.value(), conditions.value());
    let list = |value: &Value, path: &str| dig(value, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let ids: Vec<String> = list(&fields, "phase.fields")
        .iter()
        .filter(|f| f.get("required").and_then(Value::as_bool) == Some(true))
        .filter(|f| f.get("label").and_then(Value::as_str) == Some(label))
        .flat_map(|f| ["internal_id", "id", "uuid"].map(|key| text_of(f.get(key))))
        .flatten()
        .collect();
    list(&conditions, "phase.fieldConditions")
        .iter()
        .flat_map(|c| c.get("actions").and_then(Value::as_array).cloned().unwrap_or_default())
        .any(|action| {
            let hides = action
                .get("actionId")
                .and_then(Value::as_str)
                .is_some_and(|a| matches!(a.trim().to_ascii_lowercase().as_str(), "hide" | "hidden"));
            hides && text_of(action.get("phaseFieldId")).is_some_and(|id| ids.contains(&id))
        })
}
