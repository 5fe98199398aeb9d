use pipefy::{Error, cards, relations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::{list_at, send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Unlinks two cards.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteCardRelation {
    child_id: CheckedId,
    parent_id: CheckedId,
    /// Pipe relation id.
    source_id: CheckedId,
}

impl Write for DeleteCardRelation {
    const OP: Op = Op::destructive("delete_card_relation", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[
            IdArg::new("child_id", IdKind::Card),
            IdArg::new("parent_id", IdKind::Card),
            IdArg::within("source_id", IdKind::Relation),
        ]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let (child, parent, source) = (&self.child_id, &self.parent_id, &self.source_id);
        let resource = format!("card relation (child: {child}, parent: {parent}, source: {source})");
        let identity = json!({
            "child_id": child.as_str(), "parent_id": parent.as_str(), "source_id": source.as_str(),
        });
        let mutation = relations::delete_card_relation(child, parent, source);
        Ok(Plan::new(child.to_string()).then(mutation).confirm(Confirmation::delete(resource, identity)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete card relation").about("card", &plan.keep);
        let did_not = "Removing the card relation did not succeed";
        let data = send(plan, act).await.map_err(|error| match error {
            error @ (Error::Declined { .. } | Error::NoPayload { .. }) => {
                let message = format!("{did_not}: {error}.");
                ToolError::from(error).message(message)
            }
            error => explain.map(act, error),
        })?;
        // Anything but an explicit yes is no.
        if dig(&data.value(), "deleteCardRelation.success").and_then(Value::as_bool) != Some(true) {
            return Err(ToolError::api(format!("{did_not}.")));
        }
        Ok(Outcome::new(data).message("Card relation removed."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let variables = &plan.mutations().next()?.operation().variables;
        let parent = text_of(variables.get("parentId"))?;
        Some(match call.query(cards::get_card_relations(&plan.keep)).await {
            Ok(data) => {
                let value = data.value();
                let mut parents = list_at(&value, "card.parent_relations").iter().flat_map(|r| list_at(r, "cards"));
                let linked = parents.any(|card| text_of(card.get("id")).as_ref() == Some(&parent));
                // The same two cards may be linked through another relation.
                if linked {
                    Verification::unknown("the child is still linked to the parent, maybe through another relation")
                } else {
                    Verification::of(true, "the parent is not among the child's relations")
                }
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}
