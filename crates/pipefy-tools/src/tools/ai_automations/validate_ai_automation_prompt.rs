use std::collections::{BTreeSet, HashMap};

use pipefy::{Id, automations, observability, organizations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::agents::preflight::event_ids;
use crate::tools::agents::tokens;
use crate::tools::shared::{list_at, text_of};
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, dig};

/// Checks the prompt of an AI automation against a pipe without saving: fields, trigger, whether AI is on, credits.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ValidateAiAutomationPrompt {
    pipe_id: CheckedId,
    /// Fields to read as %{internal_id}.
    prompt: String,
    /// internal_ids of the fields to write.
    field_ids: Vec<String>,
    #[serde(default)]
    event_id: Option<Id>,
}

impl Read for ValidateAiAutomationPrompt {
    const OP: Op = Op::read("validate_ai_automation_prompt", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Auditor, Persona::Builder])
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::within("field_ids", IdKind::PhaseField)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let pipe_id = self.pipe_id.as_str();
        let event = self.event_id.as_ref().map(Id::as_str);
        // A wrong trigger is an answer of this check, not a failure of it.
        if self.event_id.as_ref().is_some_and(|id| !id.is_checked()) {
            let problem = "event_id must be the id of a trigger, not zero or a negative number.".to_owned();
            return Ok(outcome(vec![problem], Vec::new(), Map::new()));
        }
        let data = call.query(automations::pipe_with_preferences(pipe_id)).await.map_err(|error| {
            let message = format!("Pipe {pipe_id} could not be loaded: {error}");
            ToolError::from(error).message(message)
        })?;
        let value = data.value();
        let pipe = value.get("pipe").unwrap_or(&Value::Null);
        let fields = fields_of(pipe);
        let inputs = once(tokens::prompt_ids(&self.prompt).into_iter());
        let outputs = once(self.field_ids.iter().map(|id| id.trim()));

        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        let both: BTreeSet<&str> = inputs.iter().copied().filter(|id| outputs.contains(id)).collect();
        problems
            .extend(both.iter().map(|id| {
                format!("Field {id} is both read by the prompt and written; pick a different output field.")
            }));
        if inputs.is_empty() {
            problems.push("The prompt reads no field; refer to one as %{internal_id}.".to_owned());
        }
        let unknown = |id: &&str| !fields.contains_key(*id);
        problems.extend(
            inputs
                .iter()
                .copied()
                .filter(unknown)
                .map(|id| format!("The prompt reads field {id}, which pipe {pipe_id} does not have.")),
        );
        problems.extend(
            outputs
                .iter()
                .copied()
                .filter(unknown)
                .map(|id| format!("Output field {id} is not a field of pipe {pipe_id}.")),
        );
        if let Some(event) = event {
            check_event(call, event, &mut problems, &mut warnings).await;
        }
        if dig(pipe, "preferences.aiAgentsEnabled") == Some(&Value::Bool(false)) {
            problems.push(format!("AI is not enabled for pipe {pipe_id}."));
        }
        if let Some(organization) = text_of(pipe.get("organizationId")).filter(|id| !id.is_empty()) {
            credits(call, &organization, &mut problems, &mut warnings).await;
        }
        let mut field_map = Map::new();
        for id in inputs.iter().chain(&outputs) {
            if let Some(field) = fields.get(*id) {
                if !field.editable && !field_map.contains_key(*id) {
                    warnings.push(format!("Field {id} ({}) is read-only.", field.label));
                }
                field_map.insert((*id).to_owned(), field.label.clone().into());
            }
        }
        let strange: BTreeSet<&str> =
            tokens::prompt_tokens(&self.prompt).into_iter().filter(|token| !tokens::is_digits(token)).collect();
        warnings.extend(strange.iter().map(|token| {
            format!("%{{{token}}} is no internal_id: nothing here checks it, and Pipefy may leave it as it is.")
        }));
        Ok(outcome(problems, warnings, field_map))
    }
}

/// Each id once, where it comes first.
fn once<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}

fn outcome(problems: Vec<String>, warnings: Vec<String>, field_map: Map<String, Value>) -> Outcome {
    Outcome::new(json!({
        "valid": problems.is_empty(),
        "problems": problems,
        "warnings": warnings,
        "field_map": field_map,
    }))
}

struct Field {
    label: String,
    editable: bool,
}

/// Fields by numeric id, else slug; the start form's label wins.
fn fields_of(pipe: &Value) -> HashMap<String, Field> {
    let phases = list_at(pipe, "phases").iter().flat_map(|phase| list_at(phase, "fields"));
    phases
        .chain(list_at(pipe, "start_form_fields"))
        .filter_map(|field| {
            let id = text_of(field.get("internal_id")).or_else(|| text_of(field.get("id")))?;
            let label = text_of(field.get("label")).unwrap_or_default();
            let editable = field.get("editable") != Some(&Value::Bool(false));
            Some((id, Field { label, editable }))
        })
        .collect()
}

async fn check_event(call: &Call<'_>, event: &str, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    match call.query(automations::get_automation_events()).await {
        Ok(data) => {
            let known = event_ids(&data.value());
            if !known.contains(event) {
                let known: Vec<String> = known.into_iter().collect();
                problems.push(format!("Unknown event_id '{event}'. Valid: {}.", known.join(", ")));
            }
        }
        Err(error) => warnings.push(format!("Could not verify event_id '{event}': {error}")),
    }
}

/// Whether the organisation may run prompts; silent when that cannot be read.
async fn credits(call: &Call<'_>, organization: &str, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let Ok(data) = call.query(organizations::resolve_organization_uuid(organization)).await else { return };
    let Some(uuid) = text_of(dig(&data.value(), "organization.uuid")) else { return };
    let Ok(data) = call.query(observability::get_ai_credit_usage(&uuid, "current_month")).await else { return };
    let value = data.value();
    let Some(stats) = value.get("aiCreditUsageStats").filter(|s| s.is_object()) else { return };
    let off = Some(&Value::Bool(false));
    if stats.get("active") == off || dig(stats, "aiAutomation.enabled") == off {
        problems.push("AI Automations are disabled for the organization.".to_owned());
        return;
    }
    let number = |key: &str| stats.get(key).and_then(Value::as_f64);
    let addon = stats.get("hasAddon") == Some(&Value::Bool(true));
    if let (Some(limit), Some(usage)) = (number("limit"), number("usage"))
        && limit > 0.0
        && usage >= limit
        && !addon
    {
        warnings.push(format!("AI credit budget exhausted: {usage} of {limit} used this month."));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    fn mock(enabled: bool, stats: Value) -> Mock {
        Mock::new()
            .on(
                "pipe",
                json!({"organizationId": "1", "preferences": {"aiAgentsEnabled": enabled},
                "phases": [{"fields": [{"id": "a", "internal_id": "5", "label": "A", "editable": false}]}],
                "start_form_fields": [{"id": "b", "internal_id": 6, "label": "B"}]}),
            )
            .on("automationEvents", json!([{"id": "card_created"}]))
            .on("organization", json!({"uuid": "u"}))
            .on("aiCreditUsageStats", stats)
    }

    async fn run(mock: Mock, prompt: &str, fields: Value, event: Value) -> Value {
        mock.reply(
            "validate_ai_automation_prompt",
            json!({"pipe_id": 7, "prompt": prompt, "field_ids": fields, "event_id": event}),
        )
        .await
    }

    #[tokio::test]
    async fn problems_and_warnings() {
        let fine = || json!({"active": true, "aiAutomation": {"enabled": true}, "limit": 0, "usage": 5});
        let reply = run(mock(true, fine()), "Sum %{5}", json!(["6"]), json!("card_created")).await;
        assert_eq!(reply["valid"], true);
        assert_eq!(reply["field_map"], json!({"5": "A", "6": "B"}));
        assert!(reply["warnings"][0].as_str().unwrap().contains("read-only"));
        let reply = run(
            mock(false, json!({"active": false})),
            "Sum %{6} %{1} %{1} %{slug} %{slug}",
            json!(["6", "2"]),
            json!("nope"),
        )
        .await;
        let text = reply["problems"].to_string();
        assert_eq!(text.matches("reads field 1").count(), 1, "{text}");
        assert_eq!(reply["warnings"].to_string().matches("%{slug} is no internal_id").count(), 1, "{reply}");
        for part in [
            "different output field",
            "field 1",
            "field 2",
            "card_created",
            "AI is not enabled",
            "AI Automations are disabled",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let spent =
            json!({"active": true, "aiAutomation": {"enabled": true}, "limit": 10, "usage": 10, "hasAddon": false});
        let reply = run(mock(true, spent), "Sum %{6}", json!(["5"]), json!(null)).await;
        assert!(reply["warnings"].to_string().contains("AI credit budget exhausted"));
        let reply = run(Mock::new(), "x", json!([]), json!("0")).await;
        assert_eq!(reply["valid"], false);
    }
}
