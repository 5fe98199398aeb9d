//! Automations.

mod create_automation;
mod create_send_task_automation;
mod delete_automation;
mod get_automation;
mod get_automation_actions;
mod get_automation_event_attributes;
mod get_automation_events;
mod get_automation_execution_metrics;
mod get_automations;
pub(crate) mod rules;
mod simulate_automation;
mod update_automation;

pub(crate) use update_automation::update;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_automation::GetAutomation>(),
    Row::read::<get_automations::GetAutomations>(),
    Row::read::<get_automation_actions::GetAutomationActions>(),
    Row::read::<get_automation_events::GetAutomationEvents>(),
    Row::read::<get_automation_event_attributes::GetAutomationEventAttributes>(),
    Row::write::<simulate_automation::SimulateAutomation>(),
    Row::write::<create_automation::CreateAutomation>(),
    Row::write::<create_send_task_automation::CreateSendTaskAutomation>(),
    Row::write::<update_automation::UpdateAutomation>(),
    Row::write::<delete_automation::DeleteAutomation>(),
    Row::write::<delete_automation::DeleteAiAutomation>(),
    Row::read::<get_automation_execution_metrics::GetAutomationExecutionMetrics>(),
];
