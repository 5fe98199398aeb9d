use pipefy::reports;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{deleted, deletion, filter, written};
use crate::readback;
use crate::tools::shared::{given, required_text, text_of};
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig,
};

const PERSONAS: &[Persona] = &[Persona::Manager];

const BY_PIPE: &str = "reports are read by pipe, and this call names none; read get_pipe_report of its pipe";

/// Creates a report of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePipeReport {
    pipe_id: CheckedId,
    name: String,
    /// Columns, see get_pipe_report_columns.
    #[serde(default)]
    fields: Option<Vec<String>>,
    /// {operator: and|or, queries: [{field, operator, type, value}], groups}; see get_pipe_report_filterable_fields.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    /// [[column, function]].
    #[serde(default)]
    formulas: Option<Vec<Vec<String>>>,
}

impl Write for CreatePipeReport {
    const OP: Op = Op::write("create_pipe_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let pipe_id = self.pipe_id.to_string();
        let input = given([
            ("pipeId", Some(pipe_id.as_str().into())),
            ("name", Some(required_text("name", &self.name)?.into())),
            ("fields", self.fields.map(Value::from)),
            ("filter", filter::checked(self.filter)?),
            ("formulas", self.formulas.map(Value::from)),
        ]);
        Ok(Plan::new(pipe_id).then(reports::create_pipe_report(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        written(plan, act, "create report", "pipe", "Report created.").await
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createPipeReport.pipeReport.id"))?;
        let read = call.query(reports::get_reports_of_pipe(&plan.keep)).await;
        Some(readback::item(read, "pipe.reports", &["id"], &id).matches(plan, &[("pipeId", "")]))
    }
}

/// Changes a report of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePipeReport {
    report_id: CheckedId,
    #[serde(default)]
    name: Option<String>,
    /// A name, e.g. blue.
    #[serde(default)]
    color: Option<String>,
    /// Columns; replaces them.
    #[serde(default)]
    fields: Option<Vec<String>>,
    /// As in create_pipe_report; replaces it.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    /// As in create_pipe_report.
    #[serde(default)]
    formulas: Option<Vec<Vec<String>>>,
    /// The column it features.
    #[serde(default)]
    featured_field: Option<String>,
}

impl Write for UpdatePipeReport {
    const OP: Op = Op::write("update_pipe_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("report_id", IdKind::Report)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let report_id = self.report_id.to_string();
        let input = given([
            ("id", Some(report_id.as_str().into())),
            ("name", self.name.map(Value::from)),
            ("color", self.color.map(Value::from)),
            ("fields", self.fields.map(Value::from)),
            ("filter", filter::checked(self.filter)?),
            ("formulas", self.formulas.map(Value::from)),
            ("featuredField", self.featured_field.map(Value::from)),
        ]);
        Ok(Plan::new(report_id).then(reports::update_pipe_report(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        written(plan, act, "update report", "pipe_report", "Report updated.").await
    }

    async fn verify(_: &Plan<String>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(BY_PIPE))
    }
}

/// Deletes a report of a pipe for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePipeReport {
    report_id: CheckedId,
}

impl Write for DeletePipeReport {
    const OP: Op = Op::destructive("delete_pipe_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("report_id", IdKind::Report)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        Ok(deletion("pipe report", &self.report_id, reports::delete_pipe_report))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        deleted(plan, act, "delete pipe report", "pipe_report").await
    }

    async fn verify(_: &Plan<String>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(BY_PIPE))
    }
}
