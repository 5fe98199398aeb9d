use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rules::{self, Refused};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes an automation: condition, or any key of UpdateAutomationInput. What is not given stays.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAutomation {
    automation_id: CheckedId,
    /// As in create_automation; replaces the whole condition, {expressions: []} removes it.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
    /// E.g. {name, active, event_params, action_params}.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for UpdateAutomation {
    const OP: Op = Op::write("update_automation", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("automation_id", IdKind::Automation)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.automation_id.as_str();
        let condition = rules::changed_condition(self.condition)?;
        let mut extra = rules::extra_keys(self.extra_input);
        rules::refuse_keys(&extra, &["id", "automation_id"])?;
        rules::put_condition(&mut extra, condition)?;
        if extra.is_empty() {
            return Err(ToolError::refused_value(
                "There is nothing to update: give a condition, or extra_input with keys that are not null.",
            ));
        }
        let mut input = Map::new();
        input.insert("id".to_owned(), id.into());
        input.extend(extra);
        let mut plan = Plan::new(id.to_owned()).then(automations::update_automation(input));
        if call.options.dry_run {
            plan.before = rules::read(call, id).await.ok().flatten();
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update the automation").about("automation", &plan.keep);
        let rule = update(plan, act).await.map_err(|refused| refused.map(act, &explain))?;
        let message = format!("Automation updated (ID: {}).{}", plan.keep, rules::remark(plan));
        Ok(Outcome::new(json!({ "automation": rule })).message(message))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(rules::found(call, &plan.keep).await.matches(plan, &[]))
    }
}

/// Sends the change and gives the rule.
pub(crate) async fn update<K>(plan: &Plan<K>, act: &Act<'_, '_>) -> Result<Value, Refused> {
    let Some(mutation) = plan.mutations().next() else {
        return Err(Refused::Details("the plan holds no step".to_owned()));
    };
    let data = act.send_unproven(mutation).await.map_err(Refused::Api)?;
    rules::saved(&data, "updateAutomation")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn it_changes_once() {
        let arguments = json!({"automation_id": 7, "extra_input": {"name": "N", "x": null}});
        let sent = WriteRules::new("update_automation", arguments)
            .read("automation", json!({"id": "7"}))
            .write("updateAutomation", json!({"automation": {"id": "7"}, "error_details": []}))
            .check()
            .await;
        assert_eq!(sent[0].variables["input"], json!({"id": "7", "name": "N"}));
    }

    #[tokio::test]
    async fn an_empty_list_of_expressions_removes_the_condition() {
        let mock = Mock::new().on("updateAutomation", json!({"automation": {"id": "7"}, "error_details": []}));
        let read = json!({"id": "3", "expressions": [], "expressions_structure": []});
        let reply = mock.reply("update_automation", json!({"automation_id": 7, "condition": read})).await;
        assert_eq!(reply["success"], true, "{reply}");
        let sent = &mock.sent()[0].variables["input"];
        assert_eq!(*sent, json!({"id": "7", "condition": {"expressions": [], "expressions_structure": []}}));
        let reply = mock.reply("update_automation", json!({"automation_id": 7, "condition": {}})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("expression"), "{reply}");
    }

    #[tokio::test]
    async fn nothing_to_change_and_another_rule_are_refused() {
        for extra in [json!({}), json!({"name": null}), json!({"id": "8"}), json!({"automation_id": "8"})] {
            let mock = Mock::new();
            let reply = mock.reply("update_automation", json!({"automation_id": 7, "extra_input": extra})).await;
            assert_eq!(reply["success"], false);
            assert!(mock.sent().is_empty());
        }
    }
}
