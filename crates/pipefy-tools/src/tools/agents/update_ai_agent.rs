use pipefy::agents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{self, invalid_behaviors, not_blank, read_back};
use super::behaviors::{self, Behavior};
use super::references::{self, Origin};
use super::{failure, tokens};
use crate::tools::shared::text_of;
use crate::{
    Act, Call, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Replaces an AI agent's whole configuration: a behavior left out is deleted. Start from get_ai_agent; a refused update is
/// not rolled back.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAiAgent {
    uuid: String,
    name: String,
    /// Uuid of the pipe.
    repo_uuid: String,
    instruction: String,
    /// All behaviors, 1 to 5, as get_ai_agent shows them.
    behaviors: Vec<Map<String, Value>>,
    /// Knowledge base ids; null keeps them, [] detaches all.
    #[serde(default)]
    data_source_ids: Option<Vec<String>>,
    /// Null keeps the agent enabled or disabled as it is.
    #[serde(default)]
    disabled_at: Option<String>,
}

pub(crate) struct Updated {
    uuid: String,
    name: String,
    behaviors: Vec<Behavior>,
}

impl Write for UpdateAiAgent {
    const OP: Op = Op::write("update_ai_agent", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Builder])
        .no_output_schema()
        .touches(&[
            IdArg::new("uuid", IdKind::Agent),
            IdArg::new("repo_uuid", IdKind::Repo),
            IdArg::new("data_source_ids", IdKind::KnowledgeBase),
        ]);
    type Keep = Updated;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Updated>, ToolError> {
        let uuid = not_blank("uuid", &self.uuid)?;
        let name = not_blank("name", &self.name)?;
        let repo_uuid = not_blank("repo_uuid", &self.repo_uuid)?;
        let given = self.disabled_at.as_deref().map(|at| not_blank("disabled_at", at)).transpose()?;
        let mut behaviors = behaviors::prepare(&self.behaviors).map_err(invalid_behaviors)?;
        references::resolve(call, &mut behaviors).await?;
        for behavior in &mut behaviors {
            behaviors::settle(behavior);
            references::tie_actions(behavior, Origin::Existing);
        }
        let mut before = None;
        if given.is_none() || call.options.dry_run {
            let data = match call.query(agents::get_ai_agent(uuid)).await {
                Ok(data) => data,
                Err(error) => return Err(failure::not_configured(call, error, &behaviors).await),
            };
            let agent = data.value().get("aiAgent").filter(|a| a.is_object()).cloned();
            before = Some(agent.ok_or_else(|| Explain::doing("load the agent").about("ai_agent", uuid).missing())?);
        }
        let disabled_at = match given {
            Some(at) => Some(at.to_owned()),
            // An update without it would enable a disabled agent.
            None => before.as_ref().and_then(|agent| text_of(agent.get("disabledAt"))),
        };
        let mut configuration = Map::new();
        configuration.insert("name".to_owned(), name.into());
        configuration.insert("repoUuid".to_owned(), repo_uuid.into());
        configuration.insert("instruction".to_owned(), tokens::normalise(&self.instruction).into());
        configuration.insert("behaviors".to_owned(), behaviors.clone().into());
        if let Some(ids) = self.data_source_ids {
            configuration.insert("dataSourceIds".to_owned(), ids.into());
        }
        if let Some(at) = disabled_at {
            configuration.insert("disabledAt".to_owned(), at.into());
        }
        let mut plan = Plan::new(Updated { uuid: uuid.to_owned(), name: name.to_owned(), behaviors })
            .then(agents::update_ai_agent(uuid, configuration));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<Updated>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Updated { uuid, behaviors, .. } = &plan.keep;
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        match act.send(mutation).await {
            Ok(data) => Ok(Outcome::new(agent::state(&data.value(), "updateAiAgent", uuid))
                .message(format!("AI agent updated (UUID: {uuid})."))),
            Err(error) => Err(failure::not_configured(act, error, behaviors).await),
        }
    }

    async fn verify(plan: &Plan<Updated>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(read_back(call, &plan.keep.uuid, &plan.keep.name, plan.keep.behaviors.len()).await)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    /// As `get_ai_agent` answers it, with every kind of metadata.
    fn read() -> Value {
        let reference = "11111111-2222-4333-8444-555555555555";
        let other = "11111111-2222-4333-8444-666666666666";
        let actions = json!([
            {"id": "a1", "name": "T", "actionType": "mcp_tool", "referenceId": reference, "metadata": {"mcpServerId": "1", "toolName": "t",
                "toolInputs": [{"fieldId": "1", "name": "n", "source": "s", "value": "v"}], "emails": null, "title": null, "pipeId": null}},
            {"id": "a2", "name": "H", "actionType": "human_validation", "referenceId": other, "metadata": {"emails": ["x@example.com"], "title": "t"}}
        ]);
        let event = json!({"fromPhaseId": null, "inPhaseId": "3", "kindOfSla": null, "to_phase_id": null, "triggerFieldIds": ["1"], "triggerAutomationId": null});
        let condition = json!({"expressions_structure": [["0"]], "expressions": [{"id": "e", "field_address": "1", "operation": "equals", "value": "x", "structure_id": "0"}]});
        let params = json!({"instruction": format!("Do it\n%{{action:{reference}}}\n%{{action:{other}}}"), "dataSourceIds": [], "referencedFieldIds": [], "providerId": null,
            "systemProviderId": "s", "capabilitiesAttributes": [{"capabilityType": "web_search", "enabled": true}], "actionsAttributes": actions});
        json!({"uuid": "a", "name": "A", "instruction": "Do", "repoUuid": "r", "dataSourceIds": ["k"], "disabledAt": "2026-01-01T00:00:00Z",
            "needReview": false, "behaviors": [{
                "id": "b1", "name": "b", "active": true, "eventId": "card_created", "actionId": "ai_behavior",
                "eventParams": event, "condition": condition,
                "actionParams": {"card_id": null, "to_phase_id": null, "field_map": null, "aiBehaviorParams": params}}]})
    }

    fn arguments(agent: &Value) -> Value {
        json!({"uuid": "a", "name": agent["name"], "repo_uuid": agent["repoUuid"], "instruction": agent["instruction"], "behaviors": agent["behaviors"]})
    }

    #[tokio::test]
    async fn it_writes_once_and_keeps_a_disabled_agent_disabled() {
        let sent = WriteRules::new("update_ai_agent", arguments(&read()))
            .read("aiAgent", read())
            .write("updateAiAgent", json!({"agent": {"uuid": "a", "disabledAt": "2026-01-01T00:00:00Z"}}))
            .check()
            .await;
        assert_eq!(sent[0].variables["agent"]["disabledAt"], "2026-01-01T00:00:00Z");
        assert!(sent[0].variables["agent"].get("dataSourceIds").is_none());
    }

    #[tokio::test]
    async fn what_was_read_is_written_back_unchanged_twice() {
        let mut agent = read();
        let mut writes = Vec::new();
        for _ in 0..2 {
            let mock = Mock::new()
                .on("aiAgent", agent.clone())
                .on("updateAiAgent", json!({"agent": {"uuid": "a", "disabledAt": null}}));
            mock.reply("update_ai_agent", arguments(&agent)).await;
            let sent = mock.writes()[0].variables["agent"]["behaviors"].clone();
            agent["behaviors"] = sent.clone();
            writes.push(sent);
        }
        assert_eq!(writes[0], writes[1]);
        fn without_nulls(value: &Value) -> Value {
            match value {
                Value::Object(map) => {
                    map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
                }
                Value::Array(list) => list.iter().map(without_nulls).collect(),
                other => other.clone(),
            }
        }
        assert_eq!(without_nulls(&writes[0]), without_nulls(&read()["behaviors"]));
    }

    /// The same slug stands for another field in another pipe, and for none of them in a table.
    #[tokio::test]
    async fn slugs_are_those_of_their_own_pipe() {
        let pipe = |number: &str| json!({"id": "p", "phases": [], "start_form_fields": [{"id": "amount", "internal_id": number, "label": "Amount"}]});
        let mock = Mock::new()
            .on("pipe", pipe("11"))
            .on("pipe", pipe("22"))
            .on("aiAgent", read())
            .on("updateAiAgent", json!({"agent": {"uuid": "a", "disabledAt": null}}));
        let fields = json!([{"fieldId": "amount", "inputMode": "fill_with_ai"}]);
        let action = |kind: &str, key: &str, repo: &str| json!({"name": "n", "actionType": kind, "metadata": {key: repo, "fieldsAttributes": fields}});
        let actions = json!([
            action("update_card", "pipeId", "1"),
            action("create_card", "pipeId", "2"),
            action("create_table_record", "tableId", "1")
        ]);
        let mut arguments = arguments(&read());
        arguments["behaviors"] = json!([{"name": "b", "eventId": "card_created",
            "actionParams": {"aiBehaviorParams": {"instruction": "Look at %{field:amount}", "actionsAttributes": actions}}}]);
        mock.reply("update_ai_agent", arguments).await;
        let params = mock.writes()[0].variables["agent"]["behaviors"][0]["actionParams"]["aiBehaviorParams"].clone();
        let sent: Vec<&Value> = params["actionsAttributes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|action| &action["metadata"]["fieldsAttributes"][0]["fieldId"])
            .collect();
        assert_eq!(sent, ["11", "22", "amount"]);
        assert!(params["instruction"].as_str().unwrap().starts_with("Look at %{field:11}"), "{params}");
        assert_eq!(params["referencedFieldIds"], json!(["11"]));
    }

    /// A slug that two forms of its pipe use is refused with the candidates, in an action as in an instruction.
    #[tokio::test]
    async fn a_slug_that_stands_for_two_fields_is_refused() {
        let field = |number: &str, label: &str| json!({"id": "amount", "internal_id": number, "label": label});
        let pipe = json!({"id": "1", "start_form_fields": [field("11", "Amount"), field("11", "Amount")],
            "phases": [{"id": "5", "fields": [field("12", "Amount paid")]}]});
        for (slug, instruction) in [("amount", "Write it"), ("11", "Look at %{field:amount}")] {
            let mock = Mock::new().on("pipe", pipe.clone()).on("aiAgent", read());
            let mut arguments = arguments(&read());
            arguments["behaviors"] = json!([{"name": "b", "eventId": "card_created", "actionParams": {"aiBehaviorParams": {
                "instruction": instruction, "actionsAttributes": [{"name": "n", "actionType": "update_card",
                    "metadata": {"pipeId": "1", "fieldsAttributes": [{"fieldId": slug, "inputMode": "fill_with_ai"}]}}]}}}]);
            let reply = mock.reply("update_ai_agent", arguments).await;
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.contains("behaviors.0") && message.contains("11 (Amount), 12 (Amount paid)"), "{message}");
            assert!(mock.writes().is_empty());
        }
    }

    #[tokio::test]
    async fn a_missing_agent_and_bad_input_write_nothing() {
        let mock = Mock::new().on("aiAgent", json!(null));
        assert_eq!(mock.reply("update_ai_agent", arguments(&read())).await["error"]["code"], "NOT_FOUND");
        assert!(mock.writes().is_empty());
        for (key, value) in [("uuid", json!(" ")), ("disabled_at", json!(" ")), ("behaviors", json!([]))] {
            let mock = Mock::new();
            let mut arguments = arguments(&read());
            arguments[key] = value;
            assert_eq!(mock.reply("update_ai_agent", arguments).await["success"], false);
            assert!(mock.sent().is_empty());
        }
    }
}
