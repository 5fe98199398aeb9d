use pipefy::conditions;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::shared::send_shown;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Deletes a field condition for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteFieldCondition {
    condition_id: CheckedId,
}

impl Write for DeleteFieldCondition {
    const OP: Op = Op::destructive("delete_field_condition", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("condition_id", IdKind::FieldCondition)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.condition_id.to_string();
        let mutation = conditions::delete_field_condition(&id);
        let confirmation = Confirmation::delete(format!("field condition (ID: {id})"), json!({ "condition_id": id }));
        Ok(Plan::new(id).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete field condition").about("field_condition", &plan.keep);
        let data = send_shown(plan, act).await.map_err(|e| explain.map(act, e))?;
        if dig(&data.value(), "deleteFieldCondition.success").and_then(Value::as_bool) == Some(true) {
            return Ok(Outcome::new(Map::new()).message("Field condition deleted."));
        }
        // Pinned: a refusal has this shape, without an error object.
        let mut refusal = Map::new();
        refusal.insert("success".to_owned(), false.into());
        refusal
            .insert("message".to_owned(), format!("Pipefy declined to delete field condition {}.", plan.keep).into());
        Ok(Outcome::whole(refusal))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(conditions::get_field_condition(&plan.keep)).await {
            Ok(data) if data.value().get("fieldCondition").is_some_and(|rule| !rule.is_null()) => {
                Verification::of(false, "the rule can still be read")
            }
            Ok(_) => Verification::of(true, "the rule can no longer be read"),
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") => Verification::of(true, "the rule can no longer be read"),
            Err(e) => Verification::unknown(e.to_string()),
        })
    }
}
