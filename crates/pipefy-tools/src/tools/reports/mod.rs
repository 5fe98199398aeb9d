//! Reports of pipes and organisations, their exports, and the export of audit logs.

mod audit;
mod exports;
mod filter;
mod organization_reads;
mod organization_writes;
mod pipe_reads;
mod pipe_writes;

use pipefy::{Data, Mutation, reports};
use serde_json::json;

use crate::capability::Row;
use crate::readback::{self, Found};
use crate::tools::shared::{not_done, send};
use crate::{Act, Call, CheckedId, Confirmation, Explain, Outcome, Page, Plan, ToolError, dig, page_size};

pub(crate) const ROWS: &[Row] = &[
    Row::read::<pipe_reads::GetPipeReports>(),
    Row::read::<pipe_reads::GetPipeReport>(),
    Row::read::<pipe_reads::GetPipeReportColumns>(),
    Row::read::<pipe_reads::GetPipeReportFilterableFields>(),
    Row::read::<organization_reads::GetOrganizationReport>(),
    Row::read::<organization_reads::GetOrganizationReports>(),
    Row::read::<exports::GetPipeReportExport>(),
    Row::read::<exports::GetOrganizationReportExport>(),
    Row::write::<pipe_writes::CreatePipeReport>(),
    Row::write::<pipe_writes::UpdatePipeReport>(),
    Row::write::<pipe_writes::DeletePipeReport>(),
    Row::write::<organization_writes::CreateOrganizationReport>(),
    Row::write::<organization_writes::UpdateOrganizationReport>(),
    Row::write::<organization_writes::DeleteOrganizationReport>(),
    Row::write::<exports::ExportPipeReport>(),
    Row::write::<exports::ExportOrganizationReport>(),
    Row::write::<audit::ExportPipeAuditLogs>(),
];

fn thirty() -> i64 {
    30
}

/// Checks a page size of a listing of reports.
fn checked_size(first: i64) -> Result<(), ToolError> {
    page_size("first", Some(first), 500).map(drop)
}

/// A page of reports. With the unified envelope off there is no `pagination` block.
fn page_of_reports(call: &Call<'_>, data: Data, root: &str, first: i64) -> Outcome {
    let value = data.value();
    let page_info = dig(&value, root).and_then(|connection| connection.get("pageInfo"));
    let page = call.toolbox.unified_envelope.then(|| Page::from_page_info(page_info, Some(first)));
    Outcome::new(data).message("Reports loaded.").page(page)
}

/// Creates or changes a report; the plan keeps the id of the `kind` of thing it is about.
async fn written(
    plan: &Plan<String>,
    act: &Act<'_, '_>,
    doing: &str,
    kind: &str,
    message: &str,
) -> Result<Outcome, ToolError> {
    let explain = Explain::doing(doing).about(kind, &plan.keep);
    let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
    Ok(Outcome::new(data).message(message))
}

/// Plans the deletion of a report; `noun` is what people call it.
fn deletion(noun: &str, id: &CheckedId, delete: fn(&str) -> Mutation) -> Plan<String> {
    let confirmation = Confirmation::delete(format!("{noun} (ID: {id})"), json!({ "report_id": id.as_str() }));
    Plan::new(id.to_string()).then(delete(id)).confirm(confirmation)
}

/// Deletes a report of this kind.
async fn deleted(plan: &Plan<String>, act: &Act<'_, '_>, doing: &str, kind: &str) -> Result<Outcome, ToolError> {
    let explain = Explain::doing(doing).about(kind, &plan.keep);
    let data = send(plan, act).await.map_err(|e| not_done(act, explain, e))?;
    Ok(Outcome::new(data).message("Report deleted."))
}

/// Where an organisation's report is read by its own id.
async fn organization_report(call: &Call<'_>, id: &str) -> Found {
    readback::thing(call.query(reports::get_organization_report(id)).await, "organizationReport")
}

/// What an organisation's report shows under another name.
const RENAMED: [(&str, &str); 2] = [("pipeIds", "repos"), ("organizationId", "")];

#[cfg(test)]
mod tests;
