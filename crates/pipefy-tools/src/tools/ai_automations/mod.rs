//! AI automations: automations whose action is a prompt.

mod create_ai_automation;
mod get_ai_automation;
mod get_ai_automations;
mod prompt;
mod update_ai_automation;
mod validate_ai_automation_prompt;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<validate_ai_automation_prompt::ValidateAiAutomationPrompt>(),
    Row::read::<get_ai_automation::GetAiAutomation>(),
    Row::read::<get_ai_automations::GetAiAutomations>(),
    Row::write::<create_ai_automation::CreateAiAutomation>(),
    Row::write::<update_ai_automation::UpdateAiAutomation>(),
];
