use pipefy::cards;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::values::card_before;
use crate::readback::{self, Sent, asked};
use crate::tools::shared::{send_shown, unpacked};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Replaces the whole value of one field, lists included; to add or remove items of a list use update_card with ADD or REMOVE.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateCardField {
    card_id: CheckedId,
    /// Slug.
    field_id: String,
    /// Connectors take card ids, attachments storage paths; null empties.
    new_value: Value,
}

impl Write for UpdateCardField {
    const OP: Op = Op::write("update_card_field", Domain::Workflow, Shape::Raw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card), IdArg::within("field_id", IdKind::PhaseField)]);
    type Keep = ();

    async fn plan(self, call: &Call<'_>) -> Result<Plan, ToolError> {
        let before = if call.options.dry_run { card_before(call, &self.card_id).await } else { None };
        let mut plan = Plan::of(cards::update_card_field(&self.card_id, &self.field_id, unpacked(self.new_value)));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update card field").kind("phase_field");
        Ok(Outcome::new(send_shown(plan, act).await.map_err(|e| explain.map(act, e))?))
    }

    async fn verify(plan: &Plan, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let input = asked(plan);
        let field = input.get("field_id")?.as_str()?;
        let sent = Sent { field, value: input.get("new_value")?, operation: "REPLACE" };
        let read = call.query(cards::get_card_values(input.get("card_id")?.as_str()?)).await;
        Some(readback::values(read, "card.fields", std::iter::once(sent)))
    }
}
