use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::prompt::Problems;
use crate::tools::automations::{rules, update};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes an AI automation. What is not given stays. Find it with get_ai_automations.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAiAutomation {
    automation_id: CheckedId,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    active: Option<bool>,
    /// Fields to read as %{internal_id}, at least one.
    #[serde(default)]
    prompt: Option<String>,
    /// internal_ids of the fields to write.
    #[serde(default)]
    field_ids: Option<Vec<String>>,
    #[serde(default)]
    skills_ids: Option<Vec<String>>,
    /// As in create_ai_automation.
    #[serde(default)]
    event_params: Option<Map<String, Value>>,
    /// As in create_automation; replaces the whole condition.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
}

pub(crate) struct Updated {
    id: String,
    note: String,
}

impl Write for UpdateAiAutomation {
    const OP: Op = Op::write("update_ai_automation", Domain::Automation, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .debug()
        .no_output_schema()
        .touches(&[
            IdArg::new("automation_id", IdKind::Automation),
            IdArg::within("field_ids", IdKind::PhaseField),
            IdArg::new("skills_ids", IdKind::Other),
        ]);
    type Keep = Updated;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Updated>, ToolError> {
        let id = self.automation_id.as_str();
        let mut problems = Problems::default();
        let mut params = Map::new();
        if let Some(prompt) = &self.prompt {
            params.insert("value".to_owned(), problems.prompt(prompt).into());
        }
        if let Some(ids) = self.field_ids {
            problems.field_ids(&ids);
            params.insert("fieldIds".to_owned(), ids.into());
        }
        if let Some(ids) = self.skills_ids {
            params.insert("skillsIds".to_owned(), ids.into());
        }
        let changes = [
            ("name", self.name.map(|name| problems.text("name", &name).into())),
            ("active", self.active.map(Value::from)),
            ("action_params", (!params.is_empty()).then(|| json!({ "aiParams": params }))),
            ("event_params", problems.event_params(self.event_params)),
            ("condition", problems.condition(self.condition)),
        ];
        problems.into_result()?;
        let changes: Map<String, Value> = changes.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect();
        if changes.is_empty() {
            return Err(ToolError::refused_value("There is nothing to update: give at least one value beside the id."));
        }
        let mut input = Map::new();
        input.insert("id".to_owned(), id.into());
        input.extend(changes);
        // The API changes any rule by this id, so say when it is no AI automation; a failed look is no reason to stop.
        let before = rules::read(call, id).await.ok().flatten();
        let note = rules::other_action(before.as_ref());
        let mut plan = Plan::new(Updated { id: id.to_owned(), note }).then(automations::update_automation(input));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<Updated>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Updated { id, note } = &plan.keep;
        let explain = Explain::doing("update the AI automation").about("ai_automation", id);
        update(plan, act).await.map_err(|refused| refused.map(act, &explain))?;
        let message = format!("AI automation updated (ID: {id}).{note}{}", rules::remark(plan));
        Ok(Outcome::new(json!({ "automation_id": id })).message(message))
    }

    async fn verify(plan: &Plan<Updated>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(rules::found(call, &plan.keep.id).await.matches(plan, &[]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn it_changes_once() {
        let sent =
            WriteRules::new("update_ai_automation", json!({"automation_id": 7, "skills_ids": [], "active": false}))
                .read("automation", json!({"id": "7", "action_id": "generate_with_ai"}))
                .write("updateAutomation", json!({"automation": {"id": "7"}, "error_details": []}))
                .check()
                .await;
        assert_eq!(
            sent[0].variables["input"],
            json!({"id": "7", "active": false, "action_params": {"aiParams": {"skillsIds": []}}})
        );
    }

    #[tokio::test]
    async fn nothing_to_change_is_refused() {
        for arguments in [
            json!({"automation_id": 7}),
            json!({"automation_id": 7, "field_ids": []}),
            json!({"automation_id": 7, "name": " "}),
        ] {
            let mock = Mock::new();
            assert_eq!(mock.reply("update_ai_automation", arguments).await["success"], false);
            assert!(mock.sent().is_empty());
        }
    }
}
