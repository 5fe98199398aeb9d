use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::create_automation::{create, read_back};
use super::rules;
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Creates an automation that sends a task to people. Not for the scheduler trigger.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateSendTaskAutomation {
    pipe_id: CheckedId,
    name: String,
    /// Trigger, see get_automation_events.
    event_id: String,
    task_title: String,
    /// E-mail addresses, comma separated.
    recipients: String,
    #[serde(default = "yes")]
    active: bool,
    #[serde(default)]
    event_params: Option<Map<String, Value>>,
    /// Sent as it is.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
}

fn yes() -> bool {
    true
}

impl Write for CreateSendTaskAutomation {
    const OP: Op = Op::write("create_send_task_automation", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Builder])
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let mut problems = Vec::new();
        let mut text = |name: &str, text: &str| {
            let text = text.trim().to_owned();
            if text.is_empty() {
                problems.push(format!("{name}: must be non-empty"));
            }
            text
        };
        let name = text("name", &self.name);
        let event = text("event_id", &self.event_id);
        let title = text("task_title", &self.task_title);
        let recipients = text("recipients", &self.recipients);
        if event.eq_ignore_ascii_case("scheduler") {
            problems.push("event_id: the action send_a_task cannot be triggered by the scheduler".to_owned());
        }
        if !problems.is_empty() {
            return Err(ToolError::refused_value(problems.join("; ")));
        }
        let pipe = self.pipe_id.as_str();
        let mut input = Map::new();
        for (key, value) in [
            ("name", json!(name)),
            ("event_id", json!(event)),
            ("action_id", json!("send_a_task")),
            ("event_repo_id", json!(pipe)),
            ("action_repo_id", json!(pipe)),
            ("action_params", json!({ "taskParams": { "title": title, "recipients": recipients } })),
            ("active", json!(self.active)),
        ] {
            input.insert(key.to_owned(), value);
        }
        if let Some(params) = self.event_params {
            input.insert("event_params".to_owned(), params.into());
        }
        if let Some(condition) = self.condition {
            // Sent as it is, once its types are right.
            rules::condition(condition.clone()).map_err(rules::invalid)?;
            input.insert("condition".to_owned(), condition.into());
        }
        Ok(Plan::new(pipe.to_owned()).then(automations::create_automation(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        create(plan, act, None, &plan.keep).await
    }

    async fn verify(_: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        read_back(outcome, call).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn arguments() -> Value {
        json!({"pipe_id": "7", "name": " A ", "event_id": "card_created", "task_title": " t ", "recipients": " a@example.com ", "condition": {"expressions": []}})
    }

    #[tokio::test]
    async fn it_creates_once() {
        let sent = WriteRules::new("create_send_task_automation", arguments())
            .write("createAutomation", json!({"automation": {"id": "9"}, "error_details": null}))
            .check()
            .await;
        let input = &sent[0].variables["input"];
        assert_eq!(input["action_params"], json!({"taskParams": {"title": "t", "recipients": "a@example.com"}}));
        assert_eq!(input["condition"], json!({"expressions": []}));
    }

    #[tokio::test]
    async fn every_problem_is_reported_and_nothing_is_sent() {
        let mock = Mock::new();
        let reply = mock
            .reply(
                "create_send_task_automation",
                json!({"pipe_id": 7, "name": "", "event_id": "Scheduler", "task_title": " ", "recipients": "r"}),
            )
            .await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("name") && message.contains("task_title") && message.contains("send_a_task"),
            "{message}"
        );
        for (key, value, part) in [
            ("event_id", json!(" "), "event_id"),
            ("condition", json!({"expressions": {}}), "must be a list"),
            ("condition", json!({"expressions": [{"value": 5}]}), "must be text"),
            ("condition", json!([1]), "condition"),
        ] {
            let mut arguments = arguments();
            arguments[key] = value;
            let reply = mock.reply("create_send_task_automation", arguments).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
        }
        assert!(mock.sent().is_empty());
    }
}
