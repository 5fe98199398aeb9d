//! Automations.

mod get_automation_execution_metrics;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[Row::read::<get_automation_execution_metrics::GetAutomationExecutionMetrics>()];
