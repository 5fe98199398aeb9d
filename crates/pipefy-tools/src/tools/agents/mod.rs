//! AI agents.

mod agent;
pub(crate) mod behaviors;
mod create_ai_agent;
mod delete_ai_agent;
mod failure;
mod get_ai_agent;
mod get_ai_agents;
mod pipe;
pub(crate) mod preflight;
mod references;
mod toggle_ai_agent_status;
pub(crate) mod tokens;
mod update_ai_agent;
mod validate_ai_agent_behaviors;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_ai_agent::CreateAiAgent>(),
    Row::write::<update_ai_agent::UpdateAiAgent>(),
    Row::write::<toggle_ai_agent_status::ToggleAiAgentStatus>(),
    Row::read::<get_ai_agent::GetAiAgent>(),
    Row::read::<get_ai_agents::GetAiAgents>(),
    Row::write::<delete_ai_agent::DeleteAiAgent>(),
    Row::read::<validate_ai_agent_behaviors::ValidateAiAgentBehaviors>(),
];
