use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{behaviors, preflight};
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Checks AI agent behaviors against a pipe without saving: structure, phases, fields, relations, triggers, transitions.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ValidateAiAgentBehaviors {
    /// Pipe the agent belongs to.
    pipe_id: CheckedId,
    /// As in create_ai_agent.
    behaviors: Vec<Map<String, Value>>,
    /// Unknown action types are problems, not warnings.
    #[serde(default = "yes")]
    strict_unknown_action_types: bool,
    /// Knowledge base ids of the agent.
    #[serde(default)]
    data_source_ids: Option<Vec<String>>,
}

fn yes() -> bool {
    true
}

impl Read for ValidateAiAgentBehaviors {
    const OP: Op = Op::read("validate_ai_agent_behaviors", Domain::Intelligence, Shape::Flat)
        .personas(&[Persona::Auditor, Persona::Builder])
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("data_source_ids", IdKind::KnowledgeBase)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let verdict = match behaviors::prepare(&self.behaviors) {
            Err(problems) => preflight::Verdict { problems, warnings: Vec::new() },
            Ok(behaviors) => {
                let sources = self.data_source_ids.unwrap_or_default();
                preflight::check(call, &self.pipe_id, &behaviors, self.strict_unknown_action_types, &sources).await?
            }
        };
        let preflight::Verdict { problems, warnings } = verdict;
        let message = match (problems.len(), warnings.len()) {
            (0, 0) => "All checks passed.".to_owned(),
            (0, n) => format!("No problem found; {n} warning(s)."),
            (n, _) => format!("{n} problem(s) found; fix them before saving."),
        };
        Ok(Outcome::new(json!({ "valid": problems.is_empty(), "problems": problems, "warnings": warnings }))
            .message(message))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    fn mock() -> Mock {
        Mock::new()
            .on("automationEvents", json!([{"id": "card_created"}, {"id": "card_moved"}]))
            .on("pipe", json!({"id": "7", "uuid": "u", "name": "P",
                "phases": [{"id": "1", "name": "One", "fields": [{"id": "slug", "internal_id": "55"}]}, {"id": "2", "name": "Two", "fields": []}],
                "start_form_fields": [], "childrenRelations": [{"child": {"id": "8"}}], "parentsRelations": []}))
    }

    fn behavior(event: Value, action: Value) -> Value {
        let mut behavior = json!({"name": "b", "actionParams": {"aiBehaviorParams": {"instruction": "x", "actionsAttributes": [action]}}});
        for (key, value) in event.as_object().unwrap() {
            behavior[key] = value.clone();
        }
        behavior
    }

    async fn run(mock: Mock, behaviors: Value) -> (Value, Mock) {
        let reply = mock.reply("validate_ai_agent_behaviors", json!({"pipe_id": 7, "behaviors": behaviors})).await;
        (reply, mock)
    }

    #[tokio::test]
    async fn each_rule_finds_its_problem() {
        let created = || json!({"eventId": "card_created"});
        let cases = [
            (
                json!({"eventId": "nope"}),
                json!({"actionType": "move_card", "metadata": {"destinationPhaseId": "1"}}),
                "card_created, card_moved",
            ),
            (
                json!({"eventId": "card_moved", "eventParams": {"to_phase_id": "9"}}),
                json!({"actionType": "human_validation", "metadata": {"title": "t"}}),
                "to_phase_id 9",
            ),
            (
                created(),
                json!({"actionType": "move_card", "metadata": {"destinationPhaseId": "9"}}),
                "destinationPhaseId 9",
            ),
            (created(), json!({"actionType": "dance"}), "unknown actionType"),
            (created(), json!({"actionType": "human_validation", "metadata": {}}), "metadata.emails or metadata.title"),
            (created(), json!({"actionType": "mcp_tool", "metadata": {"toolName": "t"}}), "metadata.mcpServerId"),
            (
                created(),
                json!({"actionType": "update_card", "metadata": {"pipeId": "7", "fieldsAttributes": [{"fieldId": "x", "inputMode": "copy_from"}]}}),
                "pipe fields",
            ),
            (
                created(),
                json!({"actionType": "create_connected_card", "metadata": {"pipeId": "99", "fieldsAttributes": [{"fieldId": "55", "inputMode": "copy_from"}]}}),
                "get_pipe_relations",
            ),
        ];
        for (event, action, part) in cases {
            let mock = mock().on("phase", json!({"id": "9", "cards_can_be_moved_to_phases": []}));
            let (reply, _) = run(mock, json!([behavior(event, action)])).await;
            assert_eq!(reply["valid"], false, "{part}: {reply}");
            let problems = reply["problems"].as_array().unwrap();
            assert_eq!(problems.len(), 1, "{part}: {reply}");
            assert!(problems[0].as_str().unwrap().contains(part), "{part}: {reply}");
        }
    }

    #[tokio::test]
    async fn a_transition_that_is_not_configured_is_a_problem_and_an_unreadable_phase_is_not() {
        let moved = || {
            behavior(
                json!({"eventId": "card_moved", "eventParams": {"to_phase_id": "1"}}),
                json!({"actionType": "move_card", "metadata": {"destinationPhaseId": "2"}}),
            )
        };
        let (reply, _) = run(
            mock().on(
                "phase",
                json!({"id": "1", "name": "One", "cards_can_be_moved_to_phases": [{"id": "3", "name": "Three"}]}),
            ),
            json!([moved()]),
        )
        .await;
        assert!(reply["problems"][0].as_str().unwrap().contains("Three (3)"), "{reply}");
        let (reply, _) = run(mock().error("phase", "Permission denied", "PERMISSION_DENIED"), json!([moved()])).await;
        assert_eq!(reply["valid"], true, "{reply}");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_a_warning_or_a_failure_but_never_a_problem() {
        let one = || {
            json!([behavior(
                json!({"eventId": "x"}),
                json!({"actionType": "move_card", "metadata": {"destinationPhaseId": "1"}})
            )])
        };
        let events = Mock::new().error("automationEvents", "no", "").on("pipe", json!({"id": "7", "uuid": "u", "phases": [{"id": "1", "fields": []}], "start_form_fields": [], "childrenRelations": [], "parentsRelations": []}));
        let (reply, _) = run(events, one()).await;
        assert_eq!(reply["valid"], true, "{reply}");
        assert!(reply["warnings"][0].as_str().unwrap().contains("could not be verified"));
        let (reply, mock) = run(mock_denied(), one()).await;
        assert_eq!(reply["success"], false);
        assert!(mock.writes().is_empty());
    }

    fn mock_denied() -> Mock {
        Mock::new().on("automationEvents", json!([])).error("pipe", "Permission denied", "PERMISSION_DENIED")
    }

    #[tokio::test]
    async fn bad_behaviors_are_all_reported_without_a_request() {
        let mock = Mock::new();
        let reply = mock
            .reply("validate_ai_agent_behaviors", json!({"pipe_id": 7, "behaviors": [{"eventId": "x"}, {"name": "n"}]}))
            .await;
        assert_eq!(reply["problems"].as_array().unwrap().len(), 2, "{reply}");
        assert!(mock.sent().is_empty());
    }
}
