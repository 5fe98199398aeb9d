//! LLM providers.

mod configuration;
mod reads;
mod state;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<reads::GetLlmProviders>(),
    Row::read::<reads::GetAvailableAiModels>(),
    Row::read::<reads::GetDefaultLlmProvider>(),
    Row::read::<reads::GetLlmProviderDependencies>(),
    Row::read::<reads::ValidateLlmProviderAccess>(),
    Row::write::<configuration::CreateLlmProvider>(),
    Row::write::<configuration::UpdateLlmProvider>(),
    Row::write::<state::DeleteLlmProvider>(),
    Row::write::<state::SetLlmProviderActiveStatus>(),
    Row::write::<state::SetDefaultLlmProvider>(),
    Row::write::<state::ResetDefaultLlmProvider>(),
];
