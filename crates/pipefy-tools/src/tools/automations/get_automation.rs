use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::rules;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one automation: trigger, action, condition.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomation {
    automation_id: CheckedId,
}

impl Read for GetAutomation {
    const OP: Op = Op::read("get_automation", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .touches(&[IdArg::new("automation_id", IdKind::Automation)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = &self.automation_id;
        let rule = rules::read(call, id)
            .await
            .map_err(|e| Explain::doing("load the automation").about("automation", id).map(call, e))?;
        Ok(match rule {
            Some(rule) => Outcome::new(rule).message("Automation retrieved."),
            None => Outcome::new(Value::Null)
                .message(format!("No automation found for ID {id}."))
                .extra("data", Value::Null),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn a_missing_rule_is_a_success_without_data() {
        for tool in ["get_automation", "get_ai_automation"] {
            let reply = Mock::new().on("automation", json!(null)).reply(tool, json!({"automation_id": 7})).await;
            assert_eq!(reply["success"], true);
            assert!(reply.as_object().unwrap().contains_key("data") && reply["data"].is_null());
            let reply =
                Mock::new().on("automation", json!({"id": "7"})).reply(tool, json!({"automation_id": "7"})).await;
            assert_eq!(reply["data"]["id"], "7");
            let mock = Mock::new();
            assert_eq!(mock.reply(tool, json!({"automation_id": "-1"})).await["success"], false);
            assert!(mock.sent().is_empty());
        }
    }

    /// What can be written can be read (field report A12). `authenticationValue` is a secret the API does not give back;
    /// `oauth2ClientId` comes back as `oauth2ClientData`; the repo ids come back as repos.
    #[test]
    fn every_writable_key_is_read() {
        let document = pipefy::documents::automations::GET_AUTOMATION.text().to_owned();
        for key in [
            "name",
            "action_id",
            "event_id",
            "action_repo_v2",
            "event_repo",
            "action_params",
            "event_params",
            "condition",
            "active",
            "scheduler_frequency",
            "schedulerCron",
            "searchFor",
            "responseSchema",
            "aiParams",
            "aiBehaviorParams",
            "authenticationAddTo",
            "authenticationKey",
            "authenticationType",
            "hasAuthenticationValue",
            "body",
            "card_id",
            "email_template_id",
            "field_map",
            "fields_map_order",
            "headers",
            "httpMethod",
            "oauth2ClientData",
            "slaParams",
            "strategy",
            "taskParams",
            "to_phase_id",
            "url",
            "kindOfSla",
            "fromPhaseId",
            "inPhaseId",
            "triggerAutomationId",
            "triggerFieldIds",
            "expressions",
            "expressions_structure",
            "structure_id",
            "field_address",
            "operation",
            "value",
        ] {
            let found = document.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == key);
            assert!(found, "{key}");
        }
    }
}
