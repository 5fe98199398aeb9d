//! Logs of AI agents and automations.

use pipefy::observability::{self, LogPage};
use pipefy::{Id, Query, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::automations::rules;
use crate::tools::shared::list_at;
use crate::{Call, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError, page_size};

/// Which runs a listing shows.
#[derive(Deserialize, JsonSchema)]
struct Runs {
    /// Page size, 1..100.
    #[serde(default = "thirty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
    /// processing, failed or success.
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    search_term: Option<String>,
}

/// Lists runs of the AI agents of a pipe, newest first.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAgentLogs {
    /// Uuid of the pipe.
    repo_uuid: String,
    #[serde(flatten)]
    runs: Runs,
}

/// Reads one run of an AI agent: trace, model, timing.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAgentLogDetails {
    /// See get_ai_agent_logs.
    log_uuid: String,
}

/// Lists runs of one automation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationLogs {
    automation_id: Id,
    #[serde(flatten)]
    runs: Runs,
}

/// Lists runs of all automations of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationLogsByRepo {
    /// Pipe id.
    repo_id: Id,
    #[serde(flatten)]
    runs: Runs,
}

fn thirty() -> i64 {
    30
}

/// Rows of a page at most.
const LARGEST: i64 = 100;

impl Runs {
    fn page(&self) -> Result<LogPage<'_>, ToolError> {
        Ok(LogPage {
            first: page_size("first", Some(self.first), LARGEST)?,
            after: self.after.as_deref(),
            status: self.status.as_deref(),
            search_term: self.search_term.as_deref(),
        })
    }
}

impl Read for GetAiAgentLogs {
    const OP: Op = Op::read("get_ai_agent_logs", Domain::Intelligence, Shape::Envelope)
        .outsiders(Outsiders::CARD_TITLES)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("repo_uuid", IdKind::Repo)])
        .paging("aiAgentLogsByRepo.nodes", "aiAgentLogsByRepo.pageInfo", LARGEST)
        .narrows(&documents::observability::GET_AI_AGENT_LOGS, "aiAgentLogsByRepo.nodes");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let repo = self.repo_uuid.trim();
        if repo.is_empty() {
            return Err(ToolError::invalid("repo_uuid must not be blank."));
        }
        let page = self.runs.page()?;
        let explain = Explain::doing("load the logs of AI agents").about("pipe", repo);
        raw(call, observability::get_ai_agent_logs(repo, &page), &explain, "AI agent logs loaded.").await
    }
}

async fn raw(call: &Call<'_>, query: Query, explain: &Explain<'_>, message: &str) -> Result<Outcome, ToolError> {
    let data = call.query(query).await.map_err(|e| explain.map(call, e))?;
    Ok(Outcome::new(data).message(message))
}

impl Read for GetAiAgentLogDetails {
    const OP: Op = Op::read("get_ai_agent_log_details", Domain::Intelligence, Shape::Envelope)
        .outsiders(Outsiders::Under(&["cardTitle", "message"]))
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("log_uuid", IdKind::AgentLog)])
        .narrows(&documents::observability::GET_AI_AGENT_LOG_DETAILS, "aiAgentLogDetails");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = self.log_uuid.trim();
        if uuid.is_empty() {
            return Err(ToolError::invalid("log_uuid must not be blank."));
        }
        let explain = Explain::doing("load the log of an AI agent").about("ai_agent_log", uuid);
        match call.query(observability::get_ai_agent_log_details(uuid)).await {
            Ok(data) => Ok(Outcome::new(data).message("AI agent log loaded.")),
            Err(error) => {
                let text = error.to_string().to_lowercase();
                // Pipefy names the record it looked for inside, which helps nobody outside.
                let inside =
                    text.contains("automationaction") && ["couldn't find", "not find"].iter().any(|m| text.contains(m));
                let failure = explain.map(call, error);
                Err(if inside {
                    failure.message(format!("AI agent log not found (UUID: {uuid}). Find it with `get_ai_agent_logs`."))
                } else {
                    failure
                })
            }
        }
    }
}

impl Read for GetAutomationLogs {
    const OP: Op = Op::read("get_automation_logs", Domain::Automation, Shape::Envelope)
        .outsiders(Outsiders::CARD_TITLES)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("automation_id", IdKind::Automation)])
        .paging("automationLogs.nodes", "automationLogs.pageInfo", LARGEST)
        .narrows(&documents::observability::GET_AUTOMATION_LOGS, "automationLogs.nodes");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = self.automation_id.as_str();
        let page = self.runs.page()?;
        let explain = Explain::doing("load the logs of the automation").about("automation", id);
        raw(call, observability::get_automation_logs(id, &page), &explain, "Automation logs loaded.").await
    }
}

impl Read for GetAutomationLogsByRepo {
    const OP: Op = Op::read("get_automation_logs_by_repo", Domain::Automation, Shape::Envelope)
        .outsiders(Outsiders::CARD_TITLES)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("repo_id", IdKind::Repo)])
        .paging("automationLogsByRepo.nodes", "automationLogsByRepo.pageInfo", LARGEST)
        .narrows(&documents::observability::GET_AUTOMATION_LOGS_BY_REPO, "automationLogsByRepo.nodes");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        const NO_RULES: &str = "The pipe has no automations, so there are no logs.";
        let id = self.repo_id.as_str();
        let page = self.runs.page()?;
        match call.query(observability::get_automation_logs_by_repo(id, &page)).await {
            Ok(data) => {
                let empty = list_at(&data.value(), "automationLogsByRepo.nodes").is_empty();
                let message = if empty && page.after.is_none() && has_no_rules(call, id).await {
                    NO_RULES
                } else {
                    "Automation logs loaded."
                };
                Ok(Outcome::new(data).message(message))
            }
            // Pipefy refuses to list the logs of a pipe that has no rules.
            Err(error) if !error.graphql_errors().is_empty() && has_no_rules(call, id).await => {
                let none =
                    json!({ "nodes": [], "pageInfo": { "hasNextPage": false, "endCursor": null }, "totalCount": 0 });
                Ok(Outcome::new(json!({ "automationLogsByRepo": none })).message(NO_RULES))
            }
            Err(error) => Err(Explain::doing("load the logs of automations").about("pipe", id).map(call, error)),
        }
    }
}

/// Whether a pipe is known to have no rules.
async fn has_no_rules(call: &Call<'_>, pipe_id: &str) -> bool {
    matches!(rules::list(call, None, Some(pipe_id), None, None).await, Ok(Some(listing)) if listing.rules.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn bad_pages_and_blank_ids_send_nothing() {
        for (tool, arguments) in [
            ("get_ai_agent_logs", json!({"repo_uuid": " "})),
            ("get_ai_agent_logs", json!({"repo_uuid": "u", "first": 0})),
            ("get_ai_agent_log_details", json!({"log_uuid": ""})),
            ("get_automation_logs", json!({"automation_id": 7, "first": 101})),
            ("get_automation_logs_by_repo", json!({"repo_id": 7, "first": 101})),
        ] {
            let mock = Mock::new();
            assert_eq!(mock.reply(tool, arguments).await["success"], false);
            assert!(mock.sent().is_empty());
        }
    }

    #[tokio::test]
    async fn a_pipe_without_rules_has_no_logs_and_no_error() {
        let mock = Mock::new()
            .error("automationLogsByRepo", "Permission denied", "PERMISSION_DENIED")
            .on("pipe", json!({"organizationId": "1"}))
            .on("automations", json!({"nodes": []}));
        let reply = mock.reply("get_automation_logs_by_repo", json!({"repo_id": 7})).await;
        assert_eq!(reply["data"]["automationLogsByRepo"]["totalCount"], 0);
        let mock = Mock::new()
            .error("automationLogsByRepo", "Permission denied", "PERMISSION_DENIED")
            .on("pipe", json!({"organizationId": "1"}))
            .on("automations", json!({"nodes": [{"id": "1"}]}));
        let reply = mock.reply("get_automation_logs_by_repo", json!({"repo_id": 7})).await;
        assert_eq!(reply["error"]["code"], "PERMISSION_DENIED");
    }

    #[tokio::test]
    async fn an_internal_name_is_not_passed_on() {
        let mock = Mock::new().error("aiAgentLogDetails", "Couldn't find AutomationAction with id 5", "");
        let message =
            mock.reply("get_ai_agent_log_details", json!({"log_uuid": "u"})).await["error"]["message"].to_string();
        assert!(message.contains("AI agent log not found") && !message.contains("AutomationAction"));
    }
}
