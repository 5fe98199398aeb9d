use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{self, invalid_behaviors, not_blank, read_back};
use super::behaviors::{self, Behavior};
use super::references::{self, Origin};
use super::{failure, tokens};
use crate::{
    Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig, unknown,
};

/// Creates an AI agent and configures it. Check the behaviors first with validate_ai_agent_behaviors.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAiAgent {
    name: String,
    /// Uuid of the pipe.
    repo_uuid: String,
    instruction: String,
    /// 1 to 5 of {name, eventId, eventParams?, condition?, actionParams: {aiBehaviorParams: {instruction, actionsAttributes:
    /// [{name, actionType, metadata}]}}}; snake_case works too. Instructions refer to fields as %{field:ID}. {{x}} is filled
    /// from template_params.
    behaviors: Vec<Map<String, Value>>,
    /// Knowledge base ids.
    #[serde(default)]
    data_source_ids: Option<Vec<String>>,
    #[serde(default = "yes")]
    active: bool,
}

fn yes() -> bool {
    true
}

pub(crate) struct Created {
    name: String,
    behaviors: Vec<Behavior>,
}

impl Write for CreateAiAgent {
    const OP: Op = Op::write("create_ai_agent", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .no_output_schema()
        .touches(&[IdArg::new("repo_uuid", IdKind::Repo), IdArg::new("data_source_ids", IdKind::KnowledgeBase)]);
    type Keep = Created;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Created>, ToolError> {
        let name = not_blank("name", &self.name)?;
        let repo_uuid = not_blank("repo_uuid", &self.repo_uuid)?;
        let instruction = not_blank("instruction", &self.instruction)?;
        let mut behaviors = behaviors::prepare(&self.behaviors).map_err(invalid_behaviors)?;
        references::resolve(call, &mut behaviors).await?;
        for behavior in &mut behaviors {
            behaviors::settle(behavior);
            references::tie_actions(behavior, Origin::New);
        }
        let disabled_at = (!self.active).then(agent::now);
        let mut identity = Map::new();
        identity.insert("name".to_owned(), name.into());
        identity.insert("repoUuid".to_owned(), repo_uuid.into());
        if let Some(at) = &disabled_at {
            identity.insert("disabledAt".to_owned(), at.clone().into());
        }
        // An active agent is configured without `disabledAt`: that is what clears the disabled state it is created in.
        let mut configuration = identity.clone();
        configuration.insert("instruction".to_owned(), tokens::normalise(instruction).into());
        configuration.insert("behaviors".to_owned(), behaviors.clone().into());
        configuration.insert("dataSourceIds".to_owned(), self.data_source_ids.unwrap_or_default().into());
        Ok(Plan::new(Created { name: name.to_owned(), behaviors })
            .then(agents::create_ai_agent(identity))
            .then(agents::update_ai_agent(unknown("agent uuid from createAiAgent"), configuration)))
    }

    async fn act(plan: &Plan<Created>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Created { name, behaviors } = &plan.keep;
        let mut steps = plan.mutations();
        let (Some(create), Some(configure)) = (steps.next(), steps.next()) else {
            return Err(ToolError::internal("the plan holds too few steps"));
        };
        let created = match act.send(create).await {
            Ok(data) => data.value(),
            Err(error) => return Err(failure::not_created(act, error, behaviors).await),
        };
        let disabled_at = dig(&created, "createAiAgent.agent.disabledAt").cloned().unwrap_or(Value::Null);
        let uuid = dig(&created, "createAiAgent.agent.uuid").and_then(Value::as_str).filter(|u| !u.trim().is_empty());
        let Some(uuid) = uuid else {
            return Err(ToolError::api(
                "Pipefy answered without the uuid of the new agent. It may exist all the same: look with get_ai_agents \
                 before creating it again.",
            )
            .detail("may_have_been_applied", true));
        };
        let mut configure = configure.clone();
        configure.variables_mut().insert("uuid".to_owned(), uuid.into());
        match act.send(&configure).await {
            Ok(data) => {
                let value = data.value();
                let state = agent::state(&value, "updateAiAgent", uuid);
                Ok(Outcome::new(state).message(format!("AI agent '{name}' created and configured (UUID: {uuid}).")))
            }
            Err(error) => {
                let failure = failure::not_configured(act, error, behaviors).await;
                let mut message = format!(
                    "The agent was created (UUID: {uuid}) but not configured; do not create it again, use update_ai_agent. {}",
                    failure.message
                );
                if !disabled_at.is_null() {
                    message.push_str(
                        "\nThe agent stays disabled until toggle_ai_agent_status is called after a successful update_ai_agent.",
                    );
                }
                Err(failure
                    .message(message)
                    .extra("agent_uuid", uuid)
                    .extra("active", disabled_at.is_null())
                    .extra("disabled_at", disabled_at))
            }
        }
    }

    async fn verify(plan: &Plan<Created>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let value = outcome.body.value();
        let uuid = dig(&value, "agent_uuid").and_then(Value::as_str)?;
        Some(read_back(call, uuid, &plan.keep.name, plan.keep.behaviors.len()).await)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;
    use crate::tools::testing::Mock;

    const UUID: &str = "33333333-4444-4555-8666-777777777777";

    fn arguments() -> Value {
        json!({"name": " A ", "repo_uuid": "r", "instruction": " i {5} ", "behaviors": [
            {"name": "b", "event_id": "card_created", "actionParams": {"aiBehaviorParams": {"instruction": "Use %{field:slug}",
                "actionsAttributes": [{"name": "F", "actionType": "update_card", "metadata": {"pipeId": "7",
                    "fieldsAttributes": [{"fieldId": "slug", "inputMode": "fill_with_ai", "value": ""}]}}]}}}]})
    }

    fn pipe() -> Value {
        json!({"id": "7", "uuid": "u", "phases": [], "start_form_fields": [{"id": "slug", "internal_id": "55"}]})
    }

    fn agent(disabled_at: Value) -> Value {
        json!({"agent": {"uuid": UUID, "disabledAt": disabled_at}})
    }

    fn whole() -> Mock {
        Mock::new().on("pipe", pipe()).on("createAiAgent", agent(json!(null))).on("updateAiAgent", agent(json!(null)))
    }

    #[tokio::test]
    async fn it_reads_first_then_creates_and_configures_once() {
        let mock = whole();
        let reply = mock.reply("create_ai_agent", arguments()).await;
        assert_eq!(reply["data"], json!({"agent_uuid": UUID, "active": true, "disabled_at": null}));
        assert_eq!(mock.roots(), ["pipe", "createAiAgent", "updateAiAgent"]);
        let sent = mock.writes();
        let configuration = &sent[1].variables["agent"];
        assert_eq!(sent[1].variables["uuid"], UUID);
        assert_eq!(configuration["instruction"], "i %{field:5}");
        assert!(configuration.get("disabledAt").is_none());
        let params = &configuration["behaviors"][0]["actionParams"]["aiBehaviorParams"];
        assert_eq!(params["referencedFieldIds"], json!(["55"]));
        assert_eq!(params["actionsAttributes"][0]["metadata"]["fieldsAttributes"][0]["fieldId"], "55");
        let legacy = whole().legacy().reply("create_ai_agent", arguments()).await;
        assert_eq!(legacy["agent_uuid"], UUID);
    }

    #[tokio::test]
    async fn dry_runs_and_read_only_servers_write_nothing() {
        let mock = whole();
        let mut dry = arguments();
        dry["dry_run"] = json!(true);
        let reply = mock.reply("create_ai_agent", dry).await;
        assert_eq!(reply["steps"].as_array().unwrap().len(), 2);
        assert!(reply["steps"][1]["variables"]["uuid"].get("$unknown").is_some());
        assert!(mock.writes().is_empty());
        let mock = whole().read_only();
        assert_eq!(mock.reply("create_ai_agent", arguments()).await["error"]["code"], "READ_ONLY");
        assert!(mock.sent().is_empty());
    }

    #[tokio::test]
    async fn each_mutation_is_sent_at_most_once() {
        for (root, writes) in [("createAiAgent", 1), ("updateAiAgent", 2)] {
            for failure in 0..3 {
                let mut mock = Mock::new().on("pipe", pipe());
                if root == "updateAiAgent" {
                    mock = mock.on("createAiAgent", agent(json!(null)));
                }
                mock = match failure {
                    0 => mock.on(root, json!(null)),
                    1 => mock.error(root, "Permission denied", "OTHER"),
                    _ => mock.timeout(root, pipefy::OperationKind::Mutation),
                };
                let reply = mock.reply("create_ai_agent", arguments()).await;
                assert_eq!(reply["success"], false, "{reply}");
                assert_eq!(mock.writes().len(), writes);
            }
        }
    }

    #[tokio::test]
    async fn a_refused_configuration_names_the_agent_that_exists() {
        let mock = Mock::new()
            .on("pipe", pipe())
            .on("automationEvents", json!([{"id": "card_created"}]))
            .on("createAiAgent", agent(json!("2026-01-01T00:00:00Z")))
            .error("updateAiAgent", "no", "RECORD_NOT_SAVED");
        let mut arguments = arguments();
        arguments["active"] = json!(false);
        let reply = mock.reply("create_ai_agent", arguments).await;
        assert_eq!(reply["agent_uuid"], UUID);
        assert_eq!(reply["active"], false);
        assert_eq!(reply["disabled_at"], "2026-01-01T00:00:00Z");
        assert_eq!(reply["error"]["code"], "RECORD_NOT_SAVED");
        let message = reply["error"]["message"].as_str().unwrap();
        for part in
            ["Behaviors sent (1):", "toggle_ai_agent_status", "get_ai_agent", "not rolled back", "found no problem"]
        {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(mock.writes().len(), 2);
    }

    #[tokio::test]
    async fn nothing_is_sent_for_bad_input() {
        for (key, value) in
            [("name", json!(" ")), ("repo_uuid", json!("")), ("instruction", json!(" ")), ("behaviors", json!([]))]
        {
            let mock = Mock::new();
            let mut arguments = arguments();
            arguments[key] = value;
            let reply = mock.reply("create_ai_agent", arguments).await;
            assert_eq!(reply["success"], false);
            assert!(reply["error"]["message"].as_str().unwrap().contains(key), "{reply}");
            assert!(mock.sent().is_empty());
        }
    }
}
