use pipefy::reports::{self, ReportsQuery};
use pipefy::{Query, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{checked_size, page_of_reports, thirty};
use crate::tools::shared::{list_at, required_text};
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

const PERSONAS: &[Persona] = &[Persona::Auditor, Persona::Manager];
const PIPE: &[IdArg] = &[IdArg::new("pipe_uuid", IdKind::PipeUuid)];

/// Lists the reports of a pipe, page by page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeReports {
    pipe_uuid: String,
    /// Page size, 1..500.
    #[serde(default = "thirty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    search: Option<String>,
    #[serde(default)]
    report_id: Option<CheckedId>,
    /// {field, direction}, e.g. {"field": "name", "direction": "asc"}.
    #[serde(default)]
    order: Option<Map<String, Value>>,
}

impl Read for GetPipeReports {
    const OP: Op = Op::read("get_pipe_reports", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("pipe_uuid", IdKind::PipeUuid), IdArg::within("report_id", IdKind::Report)])
        .paging("pipeReports.edges", "pipeReports.pageInfo", 30)
        .selects(&documents::reports::GET_PIPE_REPORTS, "pipeReports.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = required_text("pipe_uuid", &self.pipe_uuid)?;
        checked_size(self.first)?;
        let query = ReportsQuery {
            first: self.first,
            after: self.after.as_deref().filter(|after| !after.is_empty()),
            search: self.search.as_deref(),
            report_id: self.report_id.as_deref(),
            order: self.order.map(Value::Object),
        };
        let data = call
            .query(reports::get_pipe_reports(uuid, query))
            .await
            .map_err(|e| Explain::doing("list reports").about("pipe", uuid).map(call, e))?;
        Ok(page_of_reports(call, data, "pipeReports", self.first))
    }
}

/// Reads one report of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeReport {
    pipe_uuid: String,
    report_id: CheckedId,
}

impl Read for GetPipeReport {
    const OP: Op = Op::read("get_pipe_report", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("pipe_uuid", IdKind::PipeUuid), IdArg::within("report_id", IdKind::Report)])
        .selects(&documents::reports::GET_PIPE_REPORTS, "pipeReports.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = required_text("pipe_uuid", &self.pipe_uuid)?;
        let query = ReportsQuery { first: 1, report_id: Some(&self.report_id), ..ReportsQuery::default() };
        let data = call
            .query(reports::get_pipe_reports(uuid, query))
            .await
            .map_err(|e| Explain::doing("load report").about("pipe", uuid).map(call, e))?;
        let value = data.value();
        let report = list_at(&value, "pipeReports.edges").first().and_then(|edge| edge.get("node"));
        match report.filter(|report| !report.is_null()) {
            Some(report) => Ok(Outcome::new(json!({ "pipeReport": report })).message("Report loaded.")),
            None => Err(Explain::doing("load report").about("pipe_report", &self.report_id).missing()),
        }
    }
}

/// Lists the columns a report of this pipe can show: the names for `fields` and `columns`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeReportColumns {
    pipe_uuid: String,
}

impl Read for GetPipeReportColumns {
    const OP: Op = Op::read("get_pipe_report_columns", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(PIPE)
        .selects(&documents::reports::GET_PIPE_REPORT_COLUMNS, "pipeReportColumns");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        of_pipe(call, &self.pipe_uuid, reports::get_pipe_report_columns, "Columns loaded.").await
    }
}

/// Lists the fields a report filter of this pipe can name.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeReportFilterableFields {
    pipe_uuid: String,
}

impl Read for GetPipeReportFilterableFields {
    const OP: Op = Op::read("get_pipe_report_filterable_fields", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(PIPE)
        .selects(&documents::reports::GET_PIPE_REPORT_FILTERABLE_FIELDS, "pipeReportFilterableFields");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        of_pipe(call, &self.pipe_uuid, reports::get_pipe_report_filterable_fields, "Filterable fields loaded.").await
    }
}

async fn of_pipe(call: &Call<'_>, uuid: &str, query: fn(&str) -> Query, message: &str) -> Result<Outcome, ToolError> {
    let uuid = required_text("pipe_uuid", uuid)?;
    let data = call
        .query(query(uuid))
        .await
        .map_err(|e| Explain::doing("load what reports can use").about("pipe", uuid).map(call, e))?;
    Ok(Outcome::new(data).message(message))
}
