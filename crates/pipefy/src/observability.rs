//! Logs, usage and exports of automations and AI agents. Root fields `aiAgentLogsByRepo`, `aiAgentLogDetails`,
//! `automationLogs`, `automationLogsByRepo`, `agentsUsageDetails`, `automationsUsageDetails`, `aiCreditUsageStats`,
//! `createAutomationJobsExport`, `automationJobsExport` of the public endpoint.

use serde_json::{Map, Value, json};

use crate::document::documents::observability as documents;
use crate::operation::{Mutation, Query};

/// Which page of a log, and what it must hold.
#[derive(Clone, Debug, Default)]
pub struct LogPage<'a> {
    /// Page size.
    pub first: Option<i64>,
    /// Cursor of the page before.
    pub after: Option<&'a str>,
    /// A status of the log's own enum.
    pub status: Option<&'a str>,
    /// Text to find.
    pub search_term: Option<&'a str>,
}

impl LogPage<'_> {
    fn on(&self, query: Query) -> Query {
        query
            .var_opt("first", self.first)
            .var_opt("after", self.after)
            .var_opt("status", self.status)
            .var_opt("searchTerm", self.search_term)
    }
}

/// Runs of the AI agents of a pipe, one page.
pub fn get_ai_agent_logs(repo_uuid: &str, page: &LogPage<'_>) -> Query {
    page.on(Query::new(&documents::GET_AI_AGENT_LOGS).var("repoUuid", repo_uuid))
}

/// One run of an AI agent with its trace.
pub fn get_ai_agent_log_details(log_uuid: &str) -> Query {
    Query::new(&documents::GET_AI_AGENT_LOG_DETAILS).var("uuid", log_uuid)
}

/// Runs of one rule, one page.
pub fn get_automation_logs(automation_id: &str, page: &LogPage<'_>) -> Query {
    page.on(Query::new(&documents::GET_AUTOMATION_LOGS).var("automationId", automation_id))
}

/// Runs of all rules of a pipe, one page.
pub fn get_automation_logs_by_repo(repo_id: &str, page: &LogPage<'_>) -> Query {
    page.on(Query::new(&documents::GET_AUTOMATION_LOGS_BY_REPO).var("repoId", repo_id))
}

/// What usage is asked for: a range of dates (ISO 8601), and filters of the schema's own types.
#[derive(Clone, Debug, Default)]
pub struct Usage<'a> {
    /// First date.
    pub from: &'a str,
    /// Last date.
    pub to: &'a str,
    /// Keys of `FilterParams`.
    pub filters: Option<&'a Map<String, Value>>,
    /// Text to find.
    pub search: Option<&'a str>,
    /// Keys of `SortCriteria`.
    pub sort: Option<&'a Map<String, Value>>,
}

impl Usage<'_> {
    fn on(&self, query: Query, organization_uuid: &str) -> Query {
        query
            .var("organizationUuid", organization_uuid)
            .var("filterDate", json!({ "from": self.from, "to": self.to }))
            .var_opt("filters", self.filters)
            .var_opt("search", self.search)
            .var_opt("sort", self.sort)
    }
}

/// AI credits used by agents of an organisation.
pub fn get_agents_usage(organization_uuid: &str, usage: &Usage<'_>) -> Query {
    usage.on(Query::new(&documents::GET_AGENTS_USAGE), organization_uuid)
}

/// Runs of automations of an organisation.
pub fn get_automations_usage(organization_uuid: &str, usage: &Usage<'_>) -> Query {
    usage.on(Query::new(&documents::GET_AUTOMATIONS_USAGE), organization_uuid)
}

/// AI credits of an organisation; `period` is one of `current_month`, `last_month`, `last_3_months`.
pub fn get_ai_credit_usage(organization_uuid: &str, period: &str) -> Query {
    Query::new(&documents::GET_AI_CREDIT_USAGE).var("organizationUuid", organization_uuid).var("period", period)
}

/// Starts an export of the history of automation runs.
pub fn export_automation_jobs(organization_id: &str, period: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("organizationId".to_owned(), organization_id.into());
    input.insert("filter".to_owned(), period.into());
    Mutation::new(&documents::EXPORT_AUTOMATION_JOBS).input(input)
}

/// How far an export is; `fileUrl` when it is finished.
pub fn get_automation_jobs_export(export_id: &str) -> Query {
    Query::new(&documents::GET_AUTOMATION_JOBS_EXPORT).var("id", export_id)
}
