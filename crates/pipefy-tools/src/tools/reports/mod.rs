//! Reports of pipes and organisations, their exports, and the export of audit logs.

mod audit;
mod exports;
mod filter;
mod organization_reads;
mod organization_writes;
mod pipe_reads;
mod pipe_writes;

use pipefy::Data;

use crate::capability::Row;
use crate::{Call, Outcome, Page, ToolError, dig, page_size};

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

#[cfg(test)]
mod tests;
