use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::shared::text_of;
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, dig, page_size,
};

/// Shows how often automations ran, succeeded and failed in a recent period. Rules this account may not see are listed in
/// partial_errors.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationExecutionMetrics {
    /// Numeric id.
    organization_id: CheckedId,
    #[serde(default)]
    automation_ids: Option<Vec<CheckedId>>,
    /// Pipe or table that owns the rules.
    #[serde(default)]
    repo_id: Option<CheckedId>,
    #[serde(default)]
    action_ids: Option<Vec<CheckedId>>,
    /// E.g. card_moved, field_updated, card_created.
    #[serde(default)]
    event_id: Option<String>,
    #[serde(default)]
    active: Option<bool>,
    /// Text in the rule's name.
    #[serde(default)]
    search: Option<String>,
    /// created_at or name.
    #[serde(default)]
    sort_by: Option<String>,
    /// asc or desc.
    #[serde(default)]
    sort_order: Option<String>,
    /// FIFTEEN_MINUTES, SIXTY_MINUTES, TWELVE_HOURS or TWENTY_FOUR_HOURS.
    #[serde(default = "an_hour")]
    period: String,
    /// Page size, 1..50.
    #[serde(default = "fifty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
}

fn an_hour() -> String {
    "SIXTY_MINUTES".to_owned()
}

fn fifty() -> i64 {
    50
}

const PERIODS: &[&str] = &["FIFTEEN_MINUTES", "SIXTY_MINUTES", "TWELVE_HOURS", "TWENTY_FOUR_HOURS"];
const EVENTS: &[&str] = &[
    "card_moved",
    "field_updated",
    "card_created",
    "scheduler",
    "sla_based",
    "card_left_phase",
    "card_inbox_received_email",
    "all_children_in_phase",
    "http_response_received",
    "manually_triggered",
];

impl Read for GetAutomationExecutionMetrics {
    const OP: Op = Op::read("get_automation_execution_metrics", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[
            IdArg::new("organization_id", IdKind::Organization),
            IdArg::new("automation_ids", IdKind::Automation),
            IdArg::new("repo_id", IdKind::Repo),
        ])
        .paging("automations", "page_info", 50);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        if !self.organization_id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ToolError::invalid(
                "organization_id must be the numeric id of the organization (see list_organizations), not its uuid or name.",
            ));
        }
        for (name, list) in [("automation_ids", &self.automation_ids), ("action_ids", &self.action_ids)] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                return Err(ToolError::invalid(format!("{name} must contain at least one id; leave it out for all.")));
            }
        }
        one_of("period", Some(&self.period), PERIODS)?;
        one_of("event_id", self.event_id.as_ref(), EVENTS)?;
        one_of("sort_by", self.sort_by.as_ref(), &["created_at", "name"])?;
        one_of("sort_order", self.sort_order.as_ref(), &["asc", "desc"])?;
        let first = page_size("first", Some(self.first), 50)?;
        let first_page = self.after.as_deref().is_none_or(str::is_empty);
        let ids =
            |list: Option<Vec<CheckedId>>| list.map(|l| l.iter().map(|id| Value::from(id.as_str())).collect::<Value>());
        let mut sort = Map::new();
        sort.extend(self.sort_by.map(|by| ("by".to_owned(), by.into())));
        sort.extend(self.sort_order.map(|order| ("order".to_owned(), order.into())));
        let optional: [(&str, Option<Value>); 10] = [
            ("repoId", self.repo_id.map(|id| id.as_str().into())),
            ("automationIds", ids(self.automation_ids)),
            ("actionIds", ids(self.action_ids)),
            ("eventId", self.event_id.map(Value::from)),
            ("active", self.active.map(Value::from)),
            ("search", self.search.map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).map(Value::from)),
            ("sort", Some(sort).filter(|s| !s.is_empty()).map(Value::from)),
            ("period", Some(self.period.into())),
            ("first", first.map(Value::from)),
            ("after", self.after.filter(|a| !a.is_empty()).map(Value::from)),
        ];
        let asked: Vec<String> = optional
            .iter()
            .find_map(|(key, value)| value.as_ref().filter(|_| *key == "automationIds"))
            .and_then(Value::as_array)
            .map(|ids| ids.iter().filter_map(|id| text_of(Some(id))).collect())
            .unwrap_or_default();
        let filters = optional.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect();
        let explain = Explain::doing("load the execution metrics").about("organization", &self.organization_id);
        let response = call
            .query_partial(automations::get_automation_execution_metrics(&self.organization_id, filters))
            .await
            .map_err(|e| explain.map(call, e))?;
        let value = response.data.map(|d| d.value()).unwrap_or_default();
        let Some(connection) = value.get("automations").filter(|c| c.is_object()) else {
            let reason = response.errors.first().map_or("Pipefy gave no automations", |e| e.message.as_str());
            return Err(ToolError::api(format!("The execution metrics could not be loaded: {reason}")));
        };
        let nodes: Vec<Value> = connection
            .get("edges")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|edge| edge.get("node").filter(|n| n.is_object()).cloned())
            .collect();
        let denied: Vec<Value> = response
            .errors
            .iter()
            .map(|error| {
                json!({
                    "automation_id": dig(&error.raw, "extensions.automation_id")
                        .filter(|id| !id.is_null())
                        .or_else(|| rule_at(&value, error.raw.get("path")?)),
                    "code": error.code,
                    "message": error.message,
                    "correlation_id": error.correlation_id,
                })
            })
            .collect();
        let mut message = match denied.len() {
            0 => format!("Execution metrics of {} automations loaded.", nodes.len()),
            n => format!("Execution metrics of {} automations loaded; {n} could not be read.", nodes.len()),
        };
        let told = nodes.iter().map(|node| node.get("id")).chain(denied.iter().map(|d| d.get("automation_id")));
        let told: Vec<String> = told.filter_map(text_of).collect();
        let silent: Vec<&str> = asked.iter().filter(|id| !told.contains(id)).map(String::as_str).collect();
        let is_whole = first_page && dig(connection, "pageInfo.hasNextPage") != Some(&Value::Bool(true));
        if is_whole && !silent.is_empty() {
            message.push_str(&format!(" Not among them: {}.", silent.join(", ")));
        }
        Ok(Outcome::new(json!({
            "automations": nodes,
            "partial_errors": denied,
            "page_info": connection.get("pageInfo"),
        }))
        .message(message))
    }
}

/// The id of the rule in the answer that an error's path leads to.
fn rule_at<'v>(answer: &'v Value, path: &Value) -> Option<&'v Value> {
    let mut at = answer;
    for step in path.as_array()? {
        at = match step {
            Value::Number(index) => at.get(usize::try_from(index.as_u64()?).ok()?)?,
            step => at.get(step.as_str()?)?,
        };
        if step == "node" {
            return at.get("id");
        }
    }
    None
}

fn one_of(name: &str, value: Option<&String>, allowed: &[&str]) -> Result<(), ToolError> {
    match value {
        Some(value) if !allowed.contains(&value.as_str()) => {
            Err(ToolError::invalid(format!("{name} must be one of {}.", allowed.join(", "))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    fn answer(errors: Value) -> Value {
        let edge = |id: &str, metrics: Value| json!({"node": {"id": id, "executionMetrics": metrics}});
        json!({"data": {"automations": {"pageInfo": {"hasNextPage": false},
            "edges": [edge("1", json!({"totalRuns": 2})), edge("2", json!(null)), {"node": null}]}}, "errors": errors})
    }

    #[tokio::test]
    async fn what_may_be_seen_is_kept_and_what_is_denied_is_named() {
        let errors = json!([
            {"message": "no", "extensions": {"code": "PERMISSION_DENIED", "automation_id": 7, "correlation_id": "c"}},
            {"message": "no", "path": ["automations", "edges", 1, "node", "executionMetrics"]},
            {"message": "no", "path": ["automations", "edges", 2, "node"]},
            {"message": "no", "path": ["automations", "edges", "x"]},
        ]);
        let mock = Mock::new().body("automations", answer(errors));
        let arguments = json!({"organization_id": 5, "automation_ids": ["1", "2", 7, "8"]});
        let reply = mock.reply("get_automation_execution_metrics", arguments).await;
        assert_eq!(reply["data"]["automations"].as_array().unwrap().len(), 2, "{reply}");
        let denied: Vec<&Value> =
            reply["data"]["partial_errors"].as_array().unwrap().iter().map(|e| &e["automation_id"]).collect();
        assert_eq!(json!(denied), json!([7, "2", null, null]));
        assert_eq!(reply["data"]["partial_errors"][0]["correlation_id"], "c");
        let message = reply["message"].as_str().unwrap();
        assert!(message.contains("4 could not be read") && message.ends_with("Not among them: 8."), "{message}");
    }

    #[tokio::test]
    async fn all_denied_is_an_answer_and_no_connection_is_a_failure() {
        let all = json!({"data": {"automations": {"edges": []}}, "errors": [{"message": "no"}]});
        let reply = Mock::new()
            .body("automations", all)
            .reply("get_automation_execution_metrics", json!({"organization_id": 5}))
            .await;
        assert_eq!((&reply["success"], &reply["data"]["automations"]), (&json!(true), &json!([])), "{reply}");
        let none = json!({"data": {"automations": null}, "errors": [{"message": "broken"}]});
        let reply = Mock::new()
            .body("automations", none)
            .reply("get_automation_execution_metrics", json!({"organization_id": 5}))
            .await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("broken"), "{reply}");
    }

    #[tokio::test]
    async fn wrong_words_and_empty_lists_send_nothing() {
        let mock = Mock::new();
        for (key, value) in [
            ("period", json!("DAY")),
            ("event_id", json!("moved")),
            ("sort_by", json!("id")),
            ("sort_order", json!("up")),
            ("automation_ids", json!([])),
            ("action_ids", json!([])),
            ("first", json!(51)),
            ("organization_id", json!("a-uuid")),
        ] {
            let mut arguments = json!({"organization_id": 5});
            arguments[key] = value;
            let reply = mock.reply("get_automation_execution_metrics", arguments).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(key), "{reply}");
        }
        assert!(mock.sent().is_empty());
    }
}
