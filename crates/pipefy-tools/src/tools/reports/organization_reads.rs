use pipefy::{documents, reports};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{checked_size, page_of_reports, thirty};
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

const PERSONAS: &[Persona] = &[Persona::Admin, Persona::Auditor, Persona::Manager];

/// Reads one report of an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetOrganizationReport {
    report_id: CheckedId,
}

impl Read for GetOrganizationReport {
    const OP: Op = Op::read("get_organization_report", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("report_id", IdKind::OrganizationReport)])
        .selects(&documents::reports::GET_ORGANIZATION_REPORT, "organizationReport");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(reports::get_organization_report(&self.report_id))
            .await
            .map_err(|e| Explain::doing("load report").about("organization_report", &self.report_id).map(call, e))?;
        Ok(Outcome::new(data).message("Report loaded."))
    }
}

/// Lists the reports of an organization, page by page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetOrganizationReports {
    organization_id: CheckedId,
    /// Page size, 1..500.
    #[serde(default = "thirty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
}

impl Read for GetOrganizationReports {
    const OP: Op = Op::read("get_organization_reports", Domain::Analytics, Shape::Envelope)
        .personas(PERSONAS)
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)])
        .paging("organizationReports.edges", "organizationReports.pageInfo", 30)
        .selects(&documents::reports::GET_ORGANIZATION_REPORTS, "organizationReports.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        checked_size(self.first)?;
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        let data = call
            .query(reports::get_organization_reports(&self.organization_id, self.first, after))
            .await
            .map_err(|e| Explain::doing("list reports").about("organization", &self.organization_id).map(call, e))?;
        Ok(page_of_reports(call, data, "organizationReports", self.first))
    }
}
