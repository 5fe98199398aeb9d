use pipefy::{documents, reports};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::filter;
use crate::tools::export::{ORGANIZATION_REPORT, PIPE_REPORT, Wait};
use crate::tools::shared::{given, send};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Read, Shape,
    ToolError, Write,
};

/// Reads the state of a pipe report's export: processing, then done with fileURL, or failed.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeReportExport {
    export_id: CheckedId,
}

impl Read for GetPipeReportExport {
    const OP: Op = Op::read("get_pipe_report_export", Domain::Analytics, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::ReportExport)])
        .selects(&documents::reports::GET_PIPE_REPORT_EXPORT, "pipeReportExport");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        PIPE_REPORT.shown(&self.export_id, call).await
    }
}

/// Reads the state of an organization report's export: processing, then done with fileURL, or failed.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetOrganizationReportExport {
    export_id: CheckedId,
}

impl Read for GetOrganizationReportExport {
    const OP: Op = Op::read("get_organization_report_export", Domain::Analytics, Shape::Envelope)
        .personas(&[Persona::Admin, Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::OrganizationReportExport)])
        .selects(&documents::reports::GET_ORGANIZATION_REPORT_EXPORT, "organizationReportExport");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        ORGANIZATION_REPORT.shown(&self.export_id, call).await
    }
}

/// Exports a pipe report; poll get_pipe_report_export, or give wait_seconds. Date columns are in the file only when named.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExportPipeReport {
    pipe_id: CheckedId,
    pipe_report_id: CheckedId,
    /// {field, direction}.
    #[serde(default)]
    sort_by: Option<Map<String, Value>>,
    /// As in create_pipe_report.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    /// See get_pipe_report_columns.
    #[serde(default)]
    columns: Option<Vec<String>>,
    /// 1..600: wait so long and give the file as CSV in `file`.
    #[serde(default)]
    wait_seconds: Option<i64>,
    /// Of CSV, 256..2000000.
    #[serde(default)]
    max_output_chars: Option<i64>,
}

/// What the act of an export needs: the id of what it is about, and whether to wait.
pub(crate) type Keep = (String, Option<Wait>);

impl Write for ExportPipeReport {
    const OP: Op = Op::write("export_pipe_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .outsiders(Outsiders::ROWS)
        .personas(&[Persona::Manager])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("pipe_report_id", IdKind::Report)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let pipe_id = self.pipe_id.to_string();
        let wait = Wait::of(self.wait_seconds, self.max_output_chars)?;
        let input = given([
            ("pipeId", Some(pipe_id.as_str().into())),
            ("pipeReportId", Some(self.pipe_report_id.as_str().into())),
            ("sortBy", self.sort_by.map(Value::Object)),
            ("filter", filter::checked(self.filter)?),
            ("columns", self.columns.map(Value::from)),
        ]);
        Ok(Plan::new((pipe_id, wait)).then(reports::export_pipe_report(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (pipe_id, wait) = &plan.keep;
        let explain = Explain::doing("start the export").about("pipe", pipe_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        PIPE_REPORT.started(data, *wait, act).await
    }
}

/// Exports an organization report; poll get_organization_report_export, or give wait_seconds.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExportOrganizationReport {
    organization_id: CheckedId,
    #[serde(default)]
    organization_report_id: Option<CheckedId>,
    #[serde(default)]
    pipe_ids: Option<Vec<CheckedId>>,
    /// {field, direction}.
    #[serde(default)]
    sort_by: Option<Map<String, Value>>,
    /// As in create_pipe_report.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    /// Names of columns.
    #[serde(default)]
    columns: Option<Vec<String>>,
    /// 1..600: wait so long and give the file as CSV in `file`.
    #[serde(default)]
    wait_seconds: Option<i64>,
    /// Of CSV, 256..2000000.
    #[serde(default)]
    max_output_chars: Option<i64>,
}

impl Write for ExportOrganizationReport {
    const OP: Op = Op::write("export_organization_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .outsiders(Outsiders::ROWS)
        .personas(&[Persona::Admin, Persona::Manager])
        .debug()
        .touches(&[
            IdArg::new("organization_id", IdKind::Organization),
            IdArg::new("organization_report_id", IdKind::OrganizationReport),
            IdArg::new("pipe_ids", IdKind::Pipe),
        ]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let wait = Wait::of(self.wait_seconds, self.max_output_chars)?;
        let report = self.organization_report_id.map(|id| number("organization_report_id", &id)).transpose()?;
        let pipes = self.pipe_ids.map(|ids| ids.iter().map(|id| number("pipe_ids", id)).collect()).transpose()?;
        let input = given([
            ("organizationId", Some(number("organization_id", &self.organization_id)?)),
            ("organizationReportId", report),
            ("pipeIds", pipes.map(Value::Array)),
            ("sortBy", self.sort_by.map(Value::Object)),
            ("filter", filter::checked(self.filter)?),
            ("columns", self.columns.map(Value::from)),
        ]);
        Ok(Plan::new((self.organization_id.to_string(), wait)).then(reports::export_organization_report(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (organization_id, wait) = &plan.keep;
        let explain = Explain::doing("start the export").about("organization", organization_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        ORGANIZATION_REPORT.started(data, *wait, act).await
    }
}

/// An id as the whole number that this mutation, unlike all others, takes.
fn number(argument: &str, id: &str) -> Result<Value, ToolError> {
    match id.parse::<i64>() {
        Ok(number) => Ok(number.into()),
        Err(_) => Err(ToolError::invalid(format!("`{argument}` must be numeric here."))),
    }
}
