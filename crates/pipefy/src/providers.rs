//! LLM providers. Root fields `allLlmProvidersByOrganization`, `availableAiModels`, `defaultLlmProvider`,
//! `providerDependencies`, `createLlmProvider`, `updateLlmProvider`, `deleteLlmProvider`, `setLlmProviderActiveStatus`,
//! `setActiveLlmProvider`, `resetLlmProviderOwner` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::providers as documents;
use crate::operation::{Mutation, Query};

/// Providers of an organisation, own and Pipefy's, one page.
pub fn get_llm_providers(organization_uuid: &str, only_active: bool, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_LLM_PROVIDERS)
        .var("organizationUuid", organization_uuid)
        .var("onlyActiveProviders", only_active)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Model names of a vendor (`amazon_bedrock`, ...).
pub fn get_available_ai_models(provider_name: &str) -> Query {
    Query::new(&documents::GET_AVAILABLE_AI_MODELS).var("providerName", provider_name)
}

/// The provider that an owner uses without choosing one; `owner_type` is `organization`, `assistant` or `behavior`.
pub fn get_default_llm_provider(owner_type: &str, owner_id: &str) -> Query {
    Query::new(&documents::GET_DEFAULT_LLM_PROVIDER).var("ownerType", owner_type).var("ownerId", owner_id)
}

/// Who uses a provider, one page.
pub fn get_llm_provider_dependencies(
    provider_id: &str,
    organization_uuid: &str,
    first: Option<i64>,
    after: Option<&str>,
) -> Query {
    Query::new(&documents::GET_LLM_PROVIDER_DEPENDENCIES)
        .var("providerId", provider_id)
        .var("organizationUuid", organization_uuid)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Creates a provider of the organisation's own; `input` takes keys of `CreateLlmProviderInput`.
pub fn create_llm_provider(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_LLM_PROVIDER).input(input)
}

/// Replaces a provider's configuration; `input` takes keys of `UpdateLlmProviderInput`.
pub fn update_llm_provider(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_LLM_PROVIDER).input(input)
}

/// Deletes a provider for good.
pub fn delete_llm_provider(provider_id: &str, organization_uuid: &str) -> Mutation {
    Mutation::new(&documents::DELETE_LLM_PROVIDER)
        .input(object([("id", provider_id.into()), ("organizationUuid", organization_uuid.into())]))
}

/// Switches a provider on or off.
pub fn set_llm_provider_active_status(provider_id: &str, active: bool) -> Mutation {
    Mutation::new(&documents::SET_LLM_PROVIDER_ACTIVE_STATUS)
        .input(object([("providerId", provider_id.into()), ("active", active.into())]))
}

/// Sets an organisation's default provider: one of its own, or (`system`) one of Pipefy's.
pub fn set_default_llm_provider(organization_id: &str, provider_id: &str, system: bool) -> Mutation {
    let key = if system { "systemProviderId" } else { "providerId" };
    Mutation::new(&documents::SET_DEFAULT_LLM_PROVIDER).input(object([
        ("ownerId", organization_id.into()),
        ("ownerType", "organization".into()),
        (key, provider_id.into()),
    ]))
}

/// Clears an organisation's default provider.
pub fn reset_default_llm_provider(organization_id: &str) -> Mutation {
    Mutation::new(&documents::RESET_DEFAULT_LLM_PROVIDER)
        .input(object([("ownerId", organization_id.into()), ("ownerType", "organization".into())]))
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
