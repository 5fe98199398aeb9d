//! What automations and AI agents did and cost: logs, usage, credits, exports.

mod export;
mod logs;
pub(crate) mod organization;
mod usage;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<logs::GetAiAgentLogs>(),
    Row::read::<logs::GetAiAgentLogDetails>(),
    Row::read::<logs::GetAutomationLogs>(),
    Row::read::<logs::GetAutomationLogsByRepo>(),
    Row::read::<usage::GetAgentsUsage>(),
    Row::read::<usage::GetAutomationsUsage>(),
    Row::read::<usage::GetAiCreditUsage>(),
    Row::write::<export::ExportAutomationJobs>(),
    Row::read::<export::GetAutomationJobsExport>(),
    Row::read::<export::GetAutomationJobsExportCsv>(),
];
