use pipefy::conditions;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{HINT, lint};
use crate::readback;
use crate::tools::shared::{extra_keys, non_blank, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Changes a field condition. What is given replaces that part whole; take get_field_condition as the start.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateFieldCondition {
    condition_id: CheckedId,
    /// As in create_field_condition.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
    /// As in create_field_condition.
    #[serde(default)]
    actions: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    name: Option<String>,
    /// Further keys of UpdateFieldConditionInput.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for UpdateFieldCondition {
    const OP: Op = Op::write("update_field_condition", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("condition_id", IdKind::FieldCondition)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.condition_id.to_string();
        if self.extra_input.as_ref().is_some_and(|extra| extra.contains_key("actions")) {
            return Err(ToolError::invalid("Give `actions` as a top-level argument, not inside `extra_input`."));
        }
        if let Some(actions) = &self.actions {
            lint::actions(actions)?;
        }
        let name = match self.name.as_deref() {
            Some(name) => Some(non_blank(Some(name)).ok_or_else(|| ToolError::invalid("`name` must not be blank."))?),
            None => None,
        };
        let mut changes = extra_keys(self.extra_input, &["id", "condition_id"]);
        let inner = changes.get("condition").and_then(Value::as_object).filter(|_| self.condition.is_none());
        if let Some(condition) = self.condition.as_ref().or(inner).filter(|condition| lint::is_odd(condition)) {
            let read = call.query(conditions::get_field_condition(&id)).await;
            let stored = read.ok().and_then(|data| data.value().get_mut("fieldCondition").map(Value::take));
            lint::operations(condition, stored.as_ref())?;
        }
        if let Some(Value::Object(condition)) = changes.get("condition") {
            let condition = conditions::normalized_condition(condition);
            changes.insert("condition".to_owned(), condition.into());
        }
        if let Some(condition) = &self.condition {
            changes.insert("condition".to_owned(), conditions::normalized_condition(condition).into());
        }
        changes.extend(name.map(|name| ("name".to_owned(), name.into())));
        if let Some(actions) = &self.actions {
            let list: Vec<Value> = actions.iter().cloned().map(Value::Object).collect();
            changes.insert("actions".to_owned(), conditions::normalized_actions(&list).into());
        }
        if changes.is_empty() {
            return Err(ToolError::invalid("Give at least one of condition, actions, name or extra_input."));
        }
        if let Some(actions) = &self.actions
            && let Some(phase_id) = phase_of(call, &id).await
        {
            lint::required_and_hidden(call, &phase_id, actions).await?;
        }
        let before = if call.options.dry_run {
            call.query(conditions::get_field_condition(&id)).await.ok().map(|data| data.value())
        } else {
            None
        };
        let mut input = Map::new();
        input.insert("id".to_owned(), id.clone().into());
        input.extend(changes);
        let mut plan = Plan::new(id).then(conditions::update_field_condition(input));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update field condition").about("field_condition", &plan.keep).hint(HINT);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let id = text_of(dig(&data.value(), "updateFieldCondition.fieldCondition.id")).ok_or_else(|| {
            ToolError::api("Pipefy answered without the id of the field condition; read it back before repeating.")
                .code("INVALID_ARGUMENTS")
        })?;
        let message = format!("Field condition {id} updated.");
        Ok(Outcome::new(json!({ "condition_id": id, "action": "updated" })).message(message))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = call.query(conditions::get_field_condition(&plan.keep)).await;
        Some(readback::thing(read, "fieldCondition").matches(plan, &[("phase_id", "phase.id")]))
    }
}

/// The phase of a condition; `None` when it cannot be read.
async fn phase_of(call: &Call<'_>, id: &str) -> Option<String> {
    let data = call.query(conditions::get_field_condition(id)).await.ok()?;
    text_of(dig(&data.value(), "fieldCondition.phase.id"))
}
