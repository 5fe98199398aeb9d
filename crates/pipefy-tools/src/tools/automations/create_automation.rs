use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rules::{self, Refused};
use crate::tools::permission::membership_lines;
use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Creates an automation: when the trigger fires in the pipe and the condition holds, the action runs. Triggers and actions:
/// get_automation_events, get_automation_actions.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAutomation {
    /// Pipe of the trigger.
    pipe_id: CheckedId,
    name: String,
    trigger_id: CheckedId,
    action_id: CheckedId,
    #[serde(default = "yes")]
    active: bool,
    /// Pipe of the action, when it is another.
    #[serde(default)]
    action_repo_id: Option<CheckedId>,
    /// {expressions: [{structure_id, field_address (internal_id), operation, value}], expressions_structure: [[id, ...]]}: AND
    /// within a group, OR between groups.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
    /// Further keys of CreateAutomationInput: event_params, action_params, schedulerCron, ...
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

fn yes() -> bool {
    true
}

/// The pipes a rule is about.
pub(crate) struct Pipes {
    pipe: String,
    other: Option<String>,
    trigger: String,
    action: String,
}

impl Write for CreateAutomation {
    const OP: Op = Op::write("create_automation", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("action_repo_id", IdKind::Repo)]);
    type Keep = Pipes;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Pipes>, ToolError> {
        let name = self.name.trim();
        if name.is_empty() {
            return Err(ToolError::refused_value("'name' must be non-empty."));
        }
        let condition = rules::real_condition(self.condition)?;
        let mut extra = rules::extra_keys(self.extra_input);
        rules::refuse_keys(&extra, &["name", "pipe_id", "trigger_id", "action_id", "action_repo_id"])?;
        rules::put_condition(&mut extra, condition)?;
        let pipe = self.pipe_id.as_str();
        let action_repo = self.action_repo_id.as_deref().unwrap_or(pipe);
        let mut input = Map::new();
        for (key, value) in [
            ("name", name),
            ("event_id", self.trigger_id.as_str()),
            ("action_id", self.action_id.as_str()),
            ("event_repo_id", pipe),
            ("action_repo_id", action_repo),
        ] {
            input.insert(key.to_owned(), value.into());
        }
        input.insert("active".to_owned(), self.active.into());
        // What is said beside the arguments wins, `active` too.
        input.extend(extra);
        rules::preflight(call, &input).await?;
        let other = (action_repo != pipe).then(|| action_repo.to_owned());
        let (trigger, action) = (self.trigger_id.as_str().to_owned(), self.action_id.as_str().to_owned());
        Ok(Plan::new(Pipes { pipe: pipe.to_owned(), other, trigger, action })
            .then(automations::create_automation(input)))
    }

    async fn act(plan: &Plan<Pipes>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        create(plan, act, plan.keep.other.as_deref(), &plan.keep.pipe).await
    }

    async fn verify(plan: &Plan<Pipes>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = read_back(outcome, call).await?;
        let Pipes { pipe, other, trigger, action } = &plan.keep;
        let never = rules::ruled_out(call, other.as_deref().unwrap_or(pipe), trigger, action).await;
        Some(never.map_or(read, |reason| Verification::of(false, reason)))
    }
}

/// Sends the creation and gives the rule.
pub(crate) async fn create<K>(
    plan: &Plan<K>,
    act: &Act<'_, '_>,
    other: Option<&str>,
    pipe: &str,
) -> Result<Outcome, ToolError> {
    let Some(mutation) = plan.mutations().next() else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    let sent = act.send_unproven(mutation).await.map_err(Refused::Api);
    let refused = match sent.and_then(|data| rules::saved(&data, "createAutomation")) {
        Ok(rule) => {
            let id = text_of(rule.get("id")).unwrap_or_default();
            return Ok(Outcome::new(json!({ "automation": rule }))
                .message(format!("Automation created (ID: {id}).{}", rules::remark(plan))));
        }
        Err(refused) => refused,
    };
    let lines = match (&refused, other) {
        (Refused::Api(error), Some(other)) => membership_lines(act, error, &[pipe, other]).await,
        _ => None,
    };
    let failure = refused.map(act, &Explain::doing("create the automation").about("pipe", pipe));
    Err(match lines {
        Some(lines) => {
            let message = format!("{lines}\n{}", failure.message);
            failure.message(message)
        }
        None => failure,
    })
}

/// Compares the rule of an outcome with what can be read.
pub(crate) async fn read_back(outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
    let value = outcome.body.value();
    let rule = value.get("automation")?;
    let id = text_of(rule.get("id"))?;
    Some(rules::found(call, &id).await.shows(&rules::comparable(rule), &[]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn arguments() -> Value {
        json!({"pipe_id": 7, "name": " A ", "trigger_id": "card_created", "action_id": "update_card_field"})
    }

    fn created() -> Value {
        json!({"automation": {"id": "9", "name": "A", "active": true}, "error_details": []})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut arguments = arguments();
        arguments[key] = value;
        arguments
    }

    #[tokio::test]
    async fn it_creates_once() {
        let arguments = with("extra_input", json!({"active": false, "eventParams": {"x": 1}, "note": null}));
        let sent = WriteRules::new("create_automation", arguments).write("createAutomation", created()).check().await;
        assert_eq!(
            sent[0].variables["input"],
            json!({"name": "A", "event_id": "card_created", "action_id": "update_card_field", "event_repo_id": "7", "action_repo_id": "7", "active": false, "event_params": {"x": 1}})
        );
    }

    #[tokio::test]
    async fn an_operation_that_nobody_knows_is_sent_and_remarked_on() {
        for (operation, remarked) in [("date_is_tomorrow", true), ("date_is_today", false)] {
            let condition = json!({"expressions": [{"field_address": "5", "operation": operation, "value": ""}]});
            let mock = Mock::new().on("createAutomation", created());
            let reply = mock.reply("create_automation", with("condition", condition.clone())).await;
            assert_eq!(mock.sent()[0].variables["input"]["condition"], condition);
            assert_eq!(reply["message"].to_string().contains("no known operation"), remarked, "{reply}");
        }
    }

    #[tokio::test]
    async fn what_pipefy_says_about_the_rule_is_the_message() {
        let details = json!({"automation": {"id": "9"}, "error_details": [{"object_name": "Field", "object_key": "1", "messages": ["not found"]}]});
        let mock = Mock::new().on("createAutomation", details);
        let reply = mock.reply("create_automation", arguments()).await;
        assert_eq!(reply["error"], json!({"message": "Field (1): not found"}));
        let mock = Mock::new().on("createAutomation", json!({"automation": null, "error_details": []}));
        assert_eq!(mock.reply("create_automation", arguments()).await["success"], false);
    }

    #[tokio::test]
    async fn verifying_looks_at_the_block_lists_alone() {
        let row = |key: &str, blocked: Value| json!([{"id": "update_card_field", "triggerEvents": [], key: blocked}]);
        for (blocked, verified) in
            [(json!(["card_created"]), false), (json!(["card_moved"]), true), (json!([]), true), (json!(null), true)]
        {
            let mock = Mock::new()
                .on("createAutomation", created())
                .on("automation", json!({"id": "9", "name": "A", "active": true}))
                .on("automationActions", row("eventsBlacklist", blocked.clone()))
                .on("automationEvents", json!([{"id": "card_created", "actionsBlacklist": []}]));
            let reply = mock.reply("create_automation", with("verify", json!(true))).await;
            assert_eq!(reply["verification"]["verified"], verified, "{blocked} {reply}");
            assert_eq!(reply["verification"].to_string().contains("eventsBlacklist"), !verified, "{reply}");
        }
    }

    #[tokio::test]
    async fn bad_input_sends_nothing() {
        for (arguments, part) in [
            (with("name", json!(" ")), "name"),
            (with("extra_input", json!({"actionId": "x"})), "action_id"),
            (with("extra_input", json!([1])), "extra_input"),
            (with("condition", json!({})), "expression"),
            (with("condition", json!({"expressions": 1})), "Invalid 'condition'"),
            (with("condition", json!({"expressions": [{"operation": "equal"}]})), "did you mean 'equals'"),
            (
                with("extra_input", json!({"condition": {"expressions": [{"operation": "Blank"}]}})),
                "did you mean 'blank'",
            ),
            (with("extra_input", json!({"condition": "x"})), "must be an object"),
            (with("extra_input", json!({"action_params": {"field_map": [{"fieldId": "slug"}]}})), "internal_id"),
        ] {
            let mock = Mock::new();
            let reply = mock.reply("create_automation", arguments).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
            assert!(mock.sent().is_empty());
        }
    }

    #[tokio::test]
    async fn a_rule_that_cannot_work_is_refused_and_one_that_cannot_be_checked_is_not() {
        let mut moving =
            with("extra_input", json!({"event_params": {"to_phase_id": "1"}, "action_params": {"to_phase_id": "2"}}));
        moving["trigger_id"] = json!("card_moved");
        moving["action_id"] = json!("move_single_card");
        let mock = Mock::new().on(
            "phase",
            json!({"id": "1", "name": "Doing", "cards_can_be_moved_to_phases": [{"id": "3", "name": "Done"}]}),
        );
        let reply = mock.reply("create_automation", moving.clone()).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("Doing")
                && message.contains("Done (3)")
                && message.contains("get_phase_allowed_move_targets"),
            "{message}"
        );
        assert!(mock.writes().is_empty());
        let mock = Mock::new().error("phase", "no", "PERMISSION_DENIED").on("createAutomation", created());
        assert_eq!(mock.reply("create_automation", moving).await["success"], true);

        let mapped = with("extra_input", json!({"action_params": {"field_map": [{"fieldId": "5"}]}}));
        let pipe = json!({"start_form_fields": [{"internal_id": "4"}], "phases": [{"fields": [{"internal_id": 5}]}]});
        let mock = Mock::new().on("pipe", pipe).on("createAutomation", created());
        assert_eq!(mock.reply("create_automation", mapped.clone()).await["success"], true);
        let mock = Mock::new().on("pipe", json!(null));
        let reply = mock.reply("create_automation", mapped).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("get_phase_fields"), "{reply}");
    }

    #[tokio::test]
    async fn a_denial_across_pipes_names_the_memberships() {
        let mock = Mock::new()
            .error("createAutomation", "Permission denied", "PERMISSION_DENIED")
            .on("pipe", json!({"name": "P", "members": []}));
        let reply = mock.reply("create_automation", with("action_repo_id", json!("8"))).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.contains("invite_members"), "{message}");
        assert_eq!(reply["error"]["code"], "PERMISSION_DENIED");
        assert_eq!(mock.writes().len(), 1);
        // With members, it matters whether the caller is one of them.
        for (me, said) in [(json!({"id": 5}), false), (json!({"id": "6"}), true), (json!(null), false)] {
            let pipe = json!({"name": "P", "members": [{"user": {"id": "5"}}]});
            let mock = Mock::new()
                .error("createAutomation", "Permission denied", "PERMISSION_DENIED")
                .body("pipe", json!({"data": {"pipe": pipe, "me": me}}));
            let reply = mock.reply("create_automation", with("action_repo_id", json!("8"))).await;
            let message = reply["error"]["message"].as_str().unwrap();
            assert_eq!(message.contains("not be a member of P (ID: 7)"), said, "{me}: {message}");
        }
    }
}
