use pipefy::cards;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape,
    ToolError, Verification, Write, debug_suffix, dig,
};

/// Deletes a card for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteCard {
    card_id: CheckedId,
}

/// The card as it was read before.
pub(crate) struct Card {
    id: String,
    title: String,
    pipe: String,
}

impl Write for DeleteCard {
    const OP: Op = Op::destructive("delete_card", Domain::Workflow, Shape::EnvelopeOrFlat)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card)]);
    type Keep = Card;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Card>, ToolError> {
        let id = self.card_id.as_str();
        let data = call.query(cards::get_card(id, false)).await.map_err(|e| failed(call, e, id, "Unknown"))?;
        let value = data.value();
        let card = value
            .get("card")
            .filter(|c| !c.is_null())
            .ok_or_else(|| Explain::doing("load card").about("card", id).missing())?;
        let title = call.quoted(&text_of(card.get("title")).unwrap_or_else(|| "Untitled".to_owned()));
        let pipe = text_of(dig(card, "pipe.name")).unwrap_or_else(|| "Unknown Pipe".to_owned());
        let resource = format!("card '{title}' (ID: {id}) from pipe '{pipe}'");
        let before = card.clone();
        Ok(Plan::new(Card { id: id.to_owned(), title, pipe })
            .then(cards::delete_card(id))
            .before(before)
            .confirm(Confirmation::delete(resource, json!({ "card_id": id }))))
    }

    async fn act(plan: &Plan<Card>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let card = &plan.keep;
        for mutation in plan.mutations() {
            act.send(mutation).await.map_err(|e| failed(act, e, &card.id, &card.title))?;
        }
        let Card { id, title, pipe } = card;
        Ok(Outcome::new(json!({ "card_id": id, "card_title": title, "pipe_name": pipe }))
            .message(format!("Card '{title}' (ID: {id}) of pipe '{pipe}' has been permanently deleted.")))
    }

    async fn verify(plan: &Plan<Card>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(cards::get_card(&plan.keep.id, false)).await {
            Ok(data) if data.value().get("card").is_some_and(|c| !c.is_null()) => {
                Verification::of(false, "the card can still be read")
            }
            Ok(_) => Verification::of(true, "the card can no longer be read"),
            // Pipefy answers a deleted card with a denial (field report A26), which alone proves little, but after a
            // confirmed deletion by somebody who could read it a moment ago it is the expected answer.
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") || e.has_code("PERMISSION_DENIED") => {
                Verification::of(true, "the card is removed or no longer accessible")
            }
            Err(e) => Verification::unknown(e.to_string()),
        })
    }
}

/// A failure by its code; a time-out keeps its own text.
fn failed(call: &Call<'_>, error: pipefy::Error, id: &str, title: &str) -> ToolError {
    let codes: Vec<String> = error.codes().into_iter().map(str::to_owned).collect();
    let has = |code: &str| codes.iter().any(|c| c == code);
    let message = match &error {
        pipefy::Error::Graphql { .. } | pipefy::Error::Declined { .. } | pipefy::Error::NoPayload { .. } => {
            if has("RESOURCE_NOT_FOUND") {
                format!("Card {id} not found. Check that it exists and that this account can see it.")
            } else if has("PERMISSION_DENIED") {
                format!("No permission to delete card {id}. It may also have been deleted already.")
            } else if has("RECORD_NOT_DESTROYED") {
                format!("Card '{title}' (ID: {id}) could not be deleted; try again or contact Pipefy's support.")
            } else if codes.is_empty() {
                format!("Card '{title}' (ID: {id}) was not deleted: {error}")
            } else {
                format!("Card '{title}' (ID: {id}) was not deleted: {error} Codes: {}", codes.join(", "))
            }
        }
        other => other.to_string(),
    };
    let suffix = if call.debug() { debug_suffix(&codes, error.correlation_id()) } else { String::new() };
    ToolError::from(error).message(message + &suffix)
}
