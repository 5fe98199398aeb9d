use pipefy::{conditions, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{HINT, lint};
use crate::tools::shared::{extra_keys, list_at, non_blank, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Creates a rule that shows or hides fields of a phase, and reads it back: Pipefy may lose it or put it on another phase.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateFieldCondition {
    phase_id: CheckedId,
    /// {expressions: [{structure_id, field_address: internal_id, operation, value}], expressions_structure: [[structure_id]]};
    /// inner lists are joined by and, the outer one by or. Operations: equals, not_equals, present, blank, string_contains,
    /// number_greater_than, date_is_after and their like.
    condition: Map<String, Value>,
    /// [{phaseFieldId: internal_id, actionId: show | hide, whenEvaluator}]
    actions: Vec<Map<String, Value>>,
    /// Required, here or in extra_input.
    #[serde(default)]
    name: Option<String>,
    /// Further attributes, such as index.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for CreateFieldCondition {
    const OP: Op = Op::write("create_field_condition", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        if self.condition.is_empty() {
            return Err(ToolError::invalid("`condition` must be a non-empty object."));
        }
        lint::operations(&self.condition, None)?;
        lint::actions(&self.actions)?;
        let given = match self.name.as_deref() {
            Some(name) => Some(non_blank(Some(name)).ok_or_else(|| ToolError::invalid("`name` must not be blank."))?),
            None => None,
        };
        let elsewhere = self.extra_input.as_ref().and_then(|extra| text_of(extra.get("name")));
        let name = given
            .or_else(|| non_blank(elsewhere.as_deref()))
            .ok_or_else(|| ToolError::invalid("A `name` is required, as an argument or as extra_input.name."))?
            .to_owned();
        let phase_id = self.phase_id.to_string();
        lint::required_and_hidden(call, &phase_id, &self.actions).await?;
        let actions: Vec<Value> = self.actions.into_iter().map(Value::Object).collect();
        let mut input = Map::new();
        input.insert("phaseId".to_owned(), phase_id.clone().into());
        input.insert("condition".to_owned(), conditions::normalized_condition(&self.condition).into());
        input.insert("actions".to_owned(), conditions::normalized_actions(&actions).into());
        let taken = ["phase_id", "condition", "actions", "phase_field_id", "condition_expression", "name"];
        input.extend(extra_keys(self.extra_input, &taken));
        input.insert("name".to_owned(), name.into());
        Ok(Plan::new(phase_id).then(conditions::create_field_condition(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let phase_id = plan.keep.as_str();
        let explain = Explain::doing("create field condition").about("phase", phase_id).hint(HINT);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let id = text_of(dig(&data.value(), "createFieldCondition.fieldCondition.id")).ok_or_else(|| {
            ToolError::api(
                "Pipefy answered without the id of the new field condition, so it is not known whether it exists; read \
                 `get_field_conditions` before repeating.",
            )
            .code("INVALID_ARGUMENTS")
        })?;
        let outcome = Outcome::new(json!({ "condition_id": id, "action": "created" }));
        let stray =
            "Delete it with `delete_field_condition` (confirm=true) and do not retry create on that phase meanwhile.";
        match landed(act, phase_id, &id).await {
            Landed::Here => {
                Ok(outcome.message(format!("Field condition {id} created and read back.")).extra("verified", true))
            }
            Landed::Unknown => Ok(outcome.message(format!("Field condition {id} created.")).extra(
                "warning",
                "It could not verify that the rule is there, because reading it back failed; check `get_field_conditions`.",
            )),
            Landed::Elsewhere(actual) => Err(ToolError::api(format!(
                "Field condition {id} was created on phase {actual} instead of phase {phase_id}. {stray}"
            ))
            .code("FIELD_CONDITION_WRONG_PHASE")
            .detail("condition_id", id)
            .detail("phase_id", phase_id)
            .detail("actual_phase_id", actual)),
            Landed::Nowhere => Err(ToolError::api(format!(
                "Field condition {id} did not persist on phase {phase_id}: it cannot be read back. {stray}"
            ))
            .code("FIELD_CONDITION_NOT_PERSISTED")
            .detail("condition_id", id)
            .detail("phase_id", phase_id)),
        }
    }

    async fn verify(_: &Plan<String>, outcome: &Outcome, _: &Call<'_>) -> Option<Verification> {
        // The act itself has read it back; a wrong or missing rule is a failure there.
        Some(match outcome.extra.get("verified") {
            Some(_) => Verification::of(true, "the rule was read back on its phase"),
            None => Verification::unknown("the rule could not be read back"),
        })
    }
}

/// Where a new rule is (field report A07).
enum Landed {
    Here,
    Elsewhere(String),
    Nowhere,
    Unknown,
}

async fn landed(call: &Call<'_>, phase_id: &str, id: &str) -> Landed {
    if let Ok(data) = call.query(conditions::get_field_condition(id)).await
        && let Some(actual) = text_of(dig(&data.value(), "fieldCondition.phase.id"))
    {
        return if actual == phase_id { Landed::Here } else { Landed::Elsewhere(actual) };
    }
    match call.query(pipes::get_phase_conditions(phase_id)).await {
        Ok(data) => {
            let value = data.value();
            let mut ids = list_at(&value, "phase.fieldConditions").iter().filter_map(|rule| text_of(rule.get("id")));
            if ids.any(|found| found == id) { Landed::Here } else { Landed::Nowhere }
        }
        Err(_) => Landed::Unknown,
    }
}
