//! Reports of pipes and organisations, their exports, and the audit log export. Root fields `pipeReports`,
//! `pipeReportColumns`, `pipeReportFilterableFields`, `pipeReportExport`, `organizationReport`, `organizationReports`,
//! `organizationReportExport`, their mutations, and `exportPipeAuditLogsReport` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::reports as documents;
use crate::operation::{Mutation, Query};

/// What [`get_pipe_reports`] narrows its listing by.
#[derive(Clone, Debug, Default)]
pub struct ReportsQuery<'a> {
    /// Page size.
    pub first: i64,
    /// The end cursor of the page before.
    pub after: Option<&'a str>,
    /// Text of the name.
    pub search: Option<&'a str>,
    /// Only this report.
    pub report_id: Option<&'a str>,
    /// `{field, direction}`.
    pub order: Option<Value>,
}

/// Reports of a pipe, one page.
pub fn get_pipe_reports(pipe_uuid: &str, query: ReportsQuery<'_>) -> Query {
    Query::new(&documents::GET_PIPE_REPORTS)
        .var("pipeUuid", pipe_uuid)
        .var("first", query.first)
        .var_opt("after", query.after)
        .var_opt("search", query.search)
        .var_opt("reportId", query.report_id)
        .var_opt("order", query.order)
}

/// The reports of a pipe by the pipe's id, as they were written.
pub fn get_reports_of_pipe(pipe_id: &str) -> Query {
    Query::new(&documents::REPORTS_OF_PIPE).var("id", pipe_id)
}

/// Names of the columns a report of this pipe can show.
pub fn get_pipe_report_columns(pipe_uuid: &str) -> Query {
    Query::new(&documents::GET_PIPE_REPORT_COLUMNS).var("pipeUuid", pipe_uuid)
}

/// Names of the fields a report of this pipe can filter by.
pub fn get_pipe_report_filterable_fields(pipe_uuid: &str) -> Query {
    Query::new(&documents::GET_PIPE_REPORT_FILTERABLE_FIELDS).var("pipeUuid", pipe_uuid)
}

/// One report of an organisation; null when there is none of that id.
pub fn get_organization_report(report_id: &str) -> Query {
    Query::new(&documents::GET_ORGANIZATION_REPORT).var("id", report_id)
}

/// Reports of an organisation, one page.
pub fn get_organization_reports(organization_id: &str, first: i64, after: Option<&str>) -> Query {
    Query::new(&documents::GET_ORGANIZATION_REPORTS)
        .var("organizationId", organization_id)
        .var("first", first)
        .var_opt("after", after)
}

/// State of a pipe report's export: `processing`, then `done` with `fileURL`, or `failed`.
pub fn get_pipe_report_export(export_id: &str) -> Query {
    Query::new(&documents::GET_PIPE_REPORT_EXPORT).var("id", export_id)
}

/// State of an organisation report's export.
pub fn get_organization_report_export(export_id: &str) -> Query {
    Query::new(&documents::GET_ORGANIZATION_REPORT_EXPORT).var("id", export_id)
}

/// Creates a pipe report; `input` takes the keys of `CreatePipeReportInput`.
pub fn create_pipe_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_PIPE_REPORT).input(input)
}

/// Changes a pipe report; `input` takes the keys of `UpdatePipeReportInput`.
pub fn update_pipe_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PIPE_REPORT).input(input)
}

/// Deletes a pipe report for good.
pub fn delete_pipe_report(report_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_PIPE_REPORT).id(report_id)
}

/// Creates a report over several pipes; `input` takes the keys of `CreateOrganizationReportInput`.
pub fn create_organization_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_ORGANIZATION_REPORT).input(input)
}

/// Changes an organisation report; `input` takes the keys of `UpdateOrganizationReportInput`.
pub fn update_organization_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_ORGANIZATION_REPORT).input(input)
}

/// Deletes an organisation report for good.
pub fn delete_organization_report(report_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_ORGANIZATION_REPORT).id(report_id)
}

/// Starts the export of a pipe report; `input` takes the keys of `ExportPipeReportInput`.
pub fn export_pipe_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::EXPORT_PIPE_REPORT).input(input)
}

/// Starts the export of an organisation report; ids in `input` are whole numbers here.
pub fn export_organization_report(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::EXPORT_ORGANIZATION_REPORT).input(input)
}

/// Queues the export of a pipe's audit log; Pipefy delivers the file to who asked.
pub fn export_pipe_audit_logs(pipe_uuid: &str, search_term: Option<&str>) -> Mutation {
    let mut input = Map::new();
    input.insert("pipeUuid".to_owned(), pipe_uuid.into());
    if let Some(term) = search_term {
        input.insert("searchTerm".to_owned(), term.into());
    }
    Mutation::new(&documents::EXPORT_PIPE_AUDIT_LOGS).input(input)
}
