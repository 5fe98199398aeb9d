use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::prompt::Problems;
use crate::tools::automations::rules::{self, AI_ACTION, Refused};
use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Creates an automation that runs a prompt on a card and writes the result to fields. Check it first with
/// validate_ai_automation_prompt.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAiAutomation {
    name: String,
    /// Trigger, see get_automation_events; not scheduler.
    event_id: CheckedId,
    pipe_id: CheckedId,
    /// Fields to read as %{internal_id}, at least one.
    prompt: String,
    /// internal_ids of the fields to write.
    field_ids: Vec<String>,
    #[serde(default)]
    skills_ids: Option<Vec<String>>,
    /// E.g. {to_phase_id, triggerFieldIds}.
    #[serde(default)]
    event_params: Option<Map<String, Value>>,
    /// As in create_automation.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
}

impl Write for CreateAiAutomation {
    const OP: Op = Op::write("create_ai_automation", Domain::Automation, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .debug()
        .no_output_schema()
        .touches(&[
            IdArg::new("pipe_id", IdKind::Pipe),
            IdArg::within("field_ids", IdKind::PhaseField),
            IdArg::new("skills_ids", IdKind::Other),
        ]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let mut problems = Problems::default();
        let name = problems.text("name", &self.name);
        problems.event(&self.event_id);
        let prompt = problems.prompt(&self.prompt);
        problems.field_ids(&self.field_ids);
        let event_params = problems.event_params(self.event_params);
        let condition = problems.condition(self.condition).unwrap_or_else(rules::default_condition);
        problems.into_result()?;
        let pipe = self.pipe_id.as_str();
        let mut input = Map::new();
        for (key, value) in [
            ("name", json!(name)),
            ("event_id", json!(self.event_id.as_str())),
            ("action_id", json!(AI_ACTION)),
            ("event_repo_id", json!(pipe)),
            ("action_repo_id", json!(pipe)),
            (
                "action_params",
                json!({ "aiParams": {
                    "value": prompt,
                    "fieldIds": self.field_ids,
                    "skillsIds": self.skills_ids.unwrap_or_default(),
                } }),
            ),
            ("condition", condition),
            ("active", json!(true)),
        ] {
            input.insert(key.to_owned(), value);
        }
        if let Some(params) = event_params {
            input.insert("event_params".to_owned(), params);
        }
        Ok(Plan::new(pipe.to_owned()).then(automations::create_automation(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create the AI automation").about("pipe", &plan.keep);
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let sent = act.send_unproven(mutation).await.map_err(Refused::Api);
        let rule = sent
            .and_then(|data| rules::saved(&data, "createAutomation"))
            .map_err(|refused| refused.map(act, &explain))?;
        let Some(id) = text_of(rule.get("id")) else {
            return Err(ToolError::api(
                "Pipefy's answer has an unexpected form: it holds no id. The automation may exist; look with get_ai_automations.",
            ));
        };
        let message = format!("AI automation created (ID: {id}).{}", rules::remark(plan));
        Ok(Outcome::new(json!({ "automation_id": id })).message(message))
    }

    async fn verify(_: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(crate::dig(&outcome.body.value(), "automation_id"))?;
        Some(match rules::read(call, &id).await {
            Ok(rule) => Verification::of(rule.is_some(), "read the automation back"),
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn arguments() -> Value {
        json!({"name": " A ", "event_id": "card_created", "pipe_id": 7, "prompt": " Sum %{5} ", "field_ids": ["6"]})
    }

    #[tokio::test]
    async fn it_creates_once_with_a_condition_that_stands_for_none() {
        let sent = WriteRules::new("create_ai_automation", arguments())
            .write("createAutomation", json!({"automation": {"id": 9}, "error_details": []}))
            .check()
            .await;
        let input = &sent[0].variables["input"];
        assert_eq!(
            input["action_params"],
            json!({"aiParams": {"value": "Sum %{5}", "fieldIds": ["6"], "skillsIds": []}})
        );
        assert_eq!(input["condition"], rules::default_condition());
    }

    #[tokio::test]
    async fn every_problem_is_reported_and_nothing_is_sent() {
        let mock = Mock::new();
        let bad = json!({"name": " ", "event_id": "SCHEDULER", "pipe_id": 7, "prompt": "no token %{}", "field_ids": [], "event_params": {"to_phase_id": 5}, "condition": {"expressions": [1]}});
        let reply = mock.reply("create_ai_automation", bad).await;
        let message = reply["error"]["message"].as_str().unwrap();
        for part in [
            "name",
            "generate_with_ai",
            "prompt must reference at least one",
            "field_ids",
            "event_params.to_phase_id",
            "condition.expressions.0",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(mock.sent().is_empty());
    }
}
