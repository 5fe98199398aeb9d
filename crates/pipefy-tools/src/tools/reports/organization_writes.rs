use pipefy::reports;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RENAMED, deleted, deletion, filter, organization_report, written};
use crate::tools::shared::{given, required_text, text_of};
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig,
};

const PERSONAS: &[Persona] = &[Persona::Admin, Persona::Manager];

/// Creates a report over several pipes of an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateOrganizationReport {
    organization_id: CheckedId,
    name: String,
    pipe_ids: Vec<String>,
    /// Columns.
    #[serde(default)]
    fields: Option<Vec<String>>,
    /// As in create_pipe_report.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
}

impl Write for CreateOrganizationReport {
    const OP: Op = Op::write("create_organization_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization), IdArg::new("pipe_ids", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        if self.pipe_ids.is_empty() {
            return Err(ToolError::invalid("`pipe_ids` needs at least one pipe."));
        }
        let organization_id = self.organization_id.to_string();
        let input = given([
            ("organizationId", Some(organization_id.as_str().into())),
            ("name", Some(name.into())),
            ("pipeIds", Some(self.pipe_ids.into())),
            ("fields", self.fields.map(Value::from)),
            ("filter", filter::checked(self.filter)?),
        ]);
        Ok(Plan::new(organization_id).then(reports::create_organization_report(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        written(plan, act, "create report", "organization", "Report created.").await
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createOrganizationReport.organizationReport.id"))?;
        Some(organization_report(call, &id).await.matches(plan, &RENAMED))
    }
}

/// Changes a report of an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateOrganizationReport {
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
    /// Replaces all pipes of the report.
    #[serde(default)]
    pipe_ids: Option<Vec<String>>,
}

impl Write for UpdateOrganizationReport {
    const OP: Op = Op::write("update_organization_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("report_id", IdKind::OrganizationReport), IdArg::new("pipe_ids", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let report_id = self.report_id.to_string();
        let input = given([
            ("id", Some(report_id.as_str().into())),
            ("name", self.name.map(Value::from)),
            ("color", self.color.map(Value::from)),
            ("fields", self.fields.map(Value::from)),
            ("filter", filter::checked(self.filter)?),
            ("pipeIds", self.pipe_ids.map(Value::from)),
        ]);
        Ok(Plan::new(report_id).then(reports::update_organization_report(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        written(plan, act, "update report", "organization_report", "Report updated.").await
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(organization_report(call, &plan.keep).await.matches(plan, &RENAMED))
    }
}

/// Deletes a report of an organization for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteOrganizationReport {
    report_id: CheckedId,
}

impl Write for DeleteOrganizationReport {
    const OP: Op = Op::destructive("delete_organization_report", Domain::Analytics, Shape::EnvelopeOrResult)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("report_id", IdKind::OrganizationReport)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        Ok(deletion("organization report", &self.report_id, reports::delete_organization_report))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        deleted(plan, act, "delete organization report", "organization_report").await
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(organization_report(call, &plan.keep).await.gone("report"))
    }
}
