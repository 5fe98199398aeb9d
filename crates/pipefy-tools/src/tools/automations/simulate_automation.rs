use std::time::Duration;

use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError,
    Write, dig,
};

/// Tries an AI automation on a real card without saving a rule or changing the card.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SimulateAutomation {
    pipe_id: CheckedId,
    /// Pipefy simulates generate_with_ai only.
    action_id: String,
    sample_card_id: CheckedId,
    /// Trigger.
    #[serde(default)]
    event_id: Option<CheckedId>,
    /// As in create_automation.
    #[serde(default)]
    event_params: Option<Map<String, Value>>,
    /// E.g. {aiParams: {value: prompt, fieldIds, skillsIds}}.
    #[serde(default)]
    action_params: Option<Map<String, Value>>,
    /// As in create_automation.
    #[serde(default)]
    condition: Option<Map<String, Value>>,
    #[serde(default)]
    name: Option<String>,
    /// Further keys of CreateAutomationSimulationInput; they win.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

/// States that a simulation is still to leave.
const UNFINISHED: [&str; 6] = ["created", "pending", "queued", "processing", "running", "in_progress"];
/// Looks at an unfinished simulation, a second apart.
const LOOKS: usize = 8;

/// What a simulation is about.
pub(crate) struct Sample {
    pipe: String,
    card: String,
}

impl Write for SimulateAutomation {
    const OP: Op = Op::write("simulate_automation", Domain::Automation, Shape::Flat)
        .outsiders(Outsiders::Under(&["simulationResult", "message"]))
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("sample_card_id", IdKind::Card)]);
    type Keep = Sample;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Sample>, ToolError> {
        let action = self.action_id.trim();
        if action.is_empty() {
            return Err(ToolError::refused_value("'action_id' must be non-empty."));
        }
        let name = self.name.as_deref().map(str::trim);
        if name == Some("") {
            return Err(ToolError::refused_value("'name' must be non-empty when it is given."));
        }
        let pipe = self.pipe_id.as_str();
        let mut input = Map::new();
        for (key, value) in [
            ("action_id", action),
            ("sampleCardId", self.sample_card_id.as_str()),
            ("event_repo_id", pipe),
            ("action_repo_id", pipe),
        ] {
            input.insert(key.to_owned(), value.into());
        }
        let optional = [
            ("event_id", self.event_id.map(|id| Value::from(id.as_str()))),
            ("event_params", self.event_params.map(Value::Object)),
            ("action_params", self.action_params.map(Value::Object)),
            ("condition", self.condition.map(Value::Object)),
            ("name", name.map(Value::from)),
        ];
        input.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        input.extend(self.extra_input.unwrap_or_default().into_iter().filter(|(_, value)| !value.is_null()));
        let sample = Sample { pipe: pipe.to_owned(), card: self.sample_card_id.as_str().to_owned() };
        Ok(Plan::new(sample).then(automations::create_automation_simulation(input)))
    }

    async fn act(plan: &Plan<Sample>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain =
            Explain::doing("simulate the automation").about("pipe", &plan.keep.pipe).beside("card", &plan.keep.card);
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let started = act.send(mutation).await.map_err(|e| explain.map(act, e))?.value();
        let id = text_of(dig(&started, "createAutomationSimulation.simulationId")).filter(|id| !id.trim().is_empty());
        let Some(id) = id else {
            return Err(ToolError::api(
                "Pipefy started a simulation but gave no simulationId, so its result cannot be read.",
            ));
        };
        let mut look = 0;
        let simulation = loop {
            let read = act.query(automations::automation_simulation(&id)).await;
            let simulation = read.map_err(|e| explain.map(act, e).extra("simulation_id", id.as_str()))?.value();
            let Some(simulation) = simulation.get("automationSimulation").filter(|s| s.is_object()).cloned() else {
                return Err(ToolError::api(format!("Simulation {id} was started but its result cannot be read."))
                    .extra("simulation_id", id));
            };
            look += 1;
            if !is_unfinished(&simulation) || look >= LOOKS || act.budget.is_over() {
                break simulation;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let message = match text_of(simulation.get("status")) {
            Some(status) if is_unfinished(&simulation) => {
                format!("The simulation is not finished yet (status {status}); nothing is wrong so far.")
            }
            Some(status) => format!("The simulation ended with status {status}."),
            None => "The simulation gave no status.".to_owned(),
        };
        Ok(Outcome::new(json!({ "simulation_id": id, "automation_simulation": simulation })).message(message))
    }
}

fn is_unfinished(simulation: &Value) -> bool {
    simulation
        .get("status")
        .and_then(Value::as_str)
        .is_some_and(|status| UNFINISHED.contains(&status.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn arguments() -> Value {
        json!({"pipe_id": 7, "action_id": " generate_with_ai ", "sample_card_id": "5", "extra_input": {"name": "n", "x": null}})
    }

    #[tokio::test]
    async fn it_starts_one_simulation_and_shows_its_state() {
        let sent = WriteRules::new("simulate_automation", arguments())
            .read("automationSimulation", json!({"status": "failed"}))
            .write("createAutomationSimulation", json!({"simulationId": 9}))
            .check()
            .await;
        assert_eq!(
            sent[0].variables["input"],
            json!({"action_id": "generate_with_ai", "sampleCardId": "5", "event_repo_id": "7", "action_repo_id": "7", "name": "n"})
        );
        let mock = Mock::new()
            .on("createAutomationSimulation", json!({"simulationId": "9"}))
            .on("automationSimulation", json!({"status": "failed"}));
        let reply = mock.reply("simulate_automation", arguments()).await;
        assert_eq!(reply["simulation_id"], "9");
        assert!(reply["message"].as_str().unwrap().contains("failed"));
        // What is missing is named as what it is, also where Pipefy does not say which of the two it is.
        for (said, shown) in [
            ("Card not found with id: 5", "Card not found (ID: 5)"),
            ("Pipe not found with id: 7", "Pipe not found (ID: 7)"),
            ("Record not found", "Pipe (ID: 7) or card (ID: 5) not found"),
        ] {
            let mock = Mock::new().error("createAutomationSimulation", said, "RESOURCE_NOT_FOUND");
            let reply = mock.reply("simulate_automation", arguments()).await;
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(shown), "{message}");
            assert_eq!(message.contains("find_cards"), shown.to_lowercase().contains("card"), "{message}");
        }
        let mut same = arguments();
        same["sample_card_id"] = json!(7);
        let mock = Mock::new().error("createAutomationSimulation", "Card not found with id: 7", "RESOURCE_NOT_FOUND");
        let reply = mock.reply("simulate_automation", same).await;
        assert!(reply["error"]["message"].as_str().unwrap().starts_with("Card not found (ID: 7)"), "{reply}");
        let mock = Mock::new().on("createAutomationSimulation", json!({"simulationId": " "}));
        assert!(
            mock.reply("simulate_automation", arguments()).await["error"]["message"]
                .as_str()
                .unwrap()
                .contains("simulationId")
        );
    }
}
