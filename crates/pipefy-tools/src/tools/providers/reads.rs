//! What can be read of LLM providers.

use pipefy::{Id, Surface, documents, providers};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::classified::{PROVIDERS, Probe, done};
use crate::tools::shared::{list_at, required_text, text_of};
use crate::{
    Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Page, Persona, Reach, Read, Shape, ToolError, page_size,
};

/// Lists LLM providers of an organization: its own (byom) and Pipefy's. Their ids go into behaviors. Secrets are redacted.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetLlmProviders {
    organization_uuid: String,
    #[serde(default)]
    only_active: bool,
    /// Page size, 1..500.
    #[serde(default = "fifty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
}

/// Lists the model names of a vendor.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAvailableAiModels {
    /// openai, azure_openai, amazon_bedrock, google_vertex_ai, oracle_oci, anthropic or custom.
    provider_name: String,
}

/// Reads the provider an owner uses by default.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetDefaultLlmProvider {
    /// For an organization its numeric id.
    owner_id: Id,
    /// organization, assistant or behavior.
    #[serde(default = "organization")]
    owner_type: String,
}

/// Lists what uses an LLM provider; look before deleting it.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetLlmProviderDependencies {
    provider_id: CheckedId,
    organization_uuid: String,
    /// Page size, 1..500.
    #[serde(default = "fifty")]
    first: i64,
    #[serde(default)]
    after: Option<String>,
}

/// Tells whether this account can read an organization's LLM providers. A problem beside ok means part was refused.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ValidateLlmProviderAccess {
    organization_uuid: String,
}

fn fifty() -> i64 {
    50
}

fn organization() -> String {
    "organization".to_owned()
}

const PERSONAS: &[Persona] = &[Persona::Admin, Persona::Auditor];
const ORGANIZATION: IdArg = IdArg::new("organization_uuid", IdKind::Organization);

/// A listing's data; where the envelope has no pagination block, `pageInfo` goes along.
fn listed(call: &Call<'_>, mut data: Map<String, Value>, connection: &Value, first: i64, message: String) -> Outcome {
    let info = connection.get("pageInfo");
    if !call.toolbox.unified_envelope || call.toolbox.surface == Surface::Cli {
        data.insert("page_info".to_owned(), info.cloned().unwrap_or(Value::Null));
    }
    done(call, data.into(), message).page(Some(Page::from_page_info(info, Some(first))))
}

fn nodes(connection: &Value) -> Vec<Value> {
    list_at(connection, "edges").iter().filter_map(|e| e.get("node").filter(|n| n.is_object()).cloned()).collect()
}

impl Read for GetLlmProviders {
    const OP: Op = Op::read("get_llm_providers", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[ORGANIZATION])
        .paging("providers", "", 50)
        .narrows(&documents::providers::GET_LLM_PROVIDERS, "allLlmProvidersByOrganization.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let first = page_size("first", Some(self.first), 500)?.unwrap_or(50);
        let query = providers::get_llm_providers(organization, self.only_active, Some(first), self.after.as_deref());
        let value = call.query(query).await.map_err(|e| PROVIDERS.listing_failure(e))?.value();
        let connection = value.get("allLlmProvidersByOrganization").unwrap_or(&Value::Null);
        let nodes = nodes(connection);
        let message = format!("{} LLM providers.", nodes.len());
        let mut data = Map::new();
        data.insert("providers".to_owned(), nodes.into());
        Ok(listed(call, data, connection, first, message))
    }
}

impl Read for GetAvailableAiModels {
    const OP: Op = Op::read("get_available_ai_models", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Admin, Persona::Auditor, Persona::Builder])
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let vendor = required_text("provider_name", &self.provider_name)?;
        let data = call.query(providers::get_available_ai_models(vendor)).await.map_err(|e| PROVIDERS.failure(e))?;
        let value = data.value();
        let models: Vec<String> = list_at(&value, "availableAiModels")
            .iter()
            .filter(|m| !m.is_null())
            .map(|m| text_of(Some(m)).unwrap_or_else(|| m.to_string()))
            .collect();
        let message = format!("{} models of {vendor}.", models.len());
        Ok(done(call, json!({ "models": models }), message))
    }
}

impl Read for GetDefaultLlmProvider {
    const OP: Op = Op::read("get_default_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[IdArg::new("owner_id", IdKind::Other)])
        .narrows(&documents::providers::GET_DEFAULT_LLM_PROVIDER, "defaultLlmProvider");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let kind = required_text("owner_type", &self.owner_type)?;
        let query = providers::get_default_llm_provider(kind, self.owner_id.as_str());
        let value = call.query(query).await.map_err(|e| PROVIDERS.failure(e))?.value();
        let provider = value.get("defaultLlmProvider").filter(|p| p.is_object()).cloned();
        let message =
            if provider.is_some() { "Default LLM provider loaded." } else { "There is no default LLM provider." };
        Ok(done(call, json!({ "provider": provider.unwrap_or_else(|| json!({})) }), message))
    }
}

impl Read for GetLlmProviderDependencies {
    const OP: Op = Op::read("get_llm_provider_dependencies", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[ORGANIZATION, IdArg::within("provider_id", IdKind::Provider)])
        .paging("dependencies", "", 50)
        .narrows(&documents::providers::GET_LLM_PROVIDER_DEPENDENCIES, "providerDependencies.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let first = page_size("first", Some(self.first), 500)?.unwrap_or(50);
        let query = providers::get_llm_provider_dependencies(
            &self.provider_id,
            organization,
            Some(first),
            self.after.as_deref(),
        );
        let value = call.query(query).await.map_err(|e| PROVIDERS.failure(e))?.value();
        let connection = value.get("providerDependencies").unwrap_or(&Value::Null);
        let nodes = nodes(connection);
        let message = format!("{} owners use this provider.", nodes.len());
        let mut data = Map::new();
        data.insert("dependencies".to_owned(), nodes.into());
        data.insert("total_count".to_owned(), connection.get("totalCount").cloned().unwrap_or(Value::Null));
        Ok(listed(call, data, connection, first, message))
    }
}

impl Read for ValidateLlmProviderAccess {
    const OP: Op = Op::read("validate_llm_provider_access", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(PERSONAS)
        .touches(&[ORGANIZATION]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let query = providers::get_llm_providers(organization, false, Some(50), None);
        let response = call.query_partial(query).await.map_err(|e| PROVIDERS.listing_failure(e))?;
        let value = response.data.as_ref().map(pipefy::Data::value).unwrap_or_default();
        let connection = value.get("allLlmProvidersByOrganization").filter(|c| c.is_object());
        let mut note = "This proves read access only; changes need the permission manage_ai_providers.".to_owned();
        let facts = connection.map(|connection| {
            let nodes = nodes(connection);
            let sees = |kind: &str| nodes.iter().any(|n| n.get("type").and_then(Value::as_str) == Some(kind));
            if !sees("system") {
                note.push_str(" No system model is visible; they may not be enabled for this organization.");
            }
            json!({
                "system_providers_visible": sees("system"),
                "custom_providers_visible": sees("byom"),
                "provider_count": nodes.len(),
            })
        });
        Probe::of(&response, facts, &note).into_outcome(call, "LLM providers can be read.")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    fn page() -> Value {
        json!({"edges": [{"node": {"id": "1", "type": "byom"}}, {"node": null}], "pageInfo": {"hasNextPage": true, "endCursor": "c"}, "totalCount": 3})
    }

    #[tokio::test]
    async fn listings_have_pages_in_both_envelopes() {
        let arguments = json!({"organization_uuid": " o ", "provider_id": 5, "first": 1});
        for (tool, root, key) in [
            ("get_llm_providers", "allLlmProvidersByOrganization", "providers"),
            ("get_llm_provider_dependencies", "providerDependencies", "dependencies"),
        ] {
            let mock = Mock::new().on(root, page());
            let reply = mock.reply(tool, arguments.clone()).await;
            assert_eq!(reply["data"][key].as_array().unwrap().len(), 1);
            assert_eq!(reply["pagination"], json!({"has_more": true, "end_cursor": "c", "page_size": 1}));
            assert!(reply["data"].get("page_info").is_none());
            assert_eq!(mock.sent()[0].variables["organizationUuid"], "o");
            let reply = Mock::new().on(root, page()).legacy().reply(tool, arguments.clone()).await;
            assert_eq!(reply["page_info"]["endCursor"], "c");
            assert!(reply.get("message").is_none() && reply.get("pagination").is_none());
        }
    }

    #[tokio::test]
    async fn a_probe_tells_denial_from_partial_denial() {
        let arguments = json!({"organization_uuid": "o"});
        let tool = "validate_llm_provider_access";
        let reply = Mock::new().on("allLlmProvidersByOrganization", page()).reply(tool, arguments.clone()).await;
        assert_eq!(reply["data"]["ok"], true);
        assert_eq!(reply["data"]["custom_providers_visible"], true);
        let partial = json!({"data": {"allLlmProvidersByOrganization": page()}, "errors": [{"message": "no", "extensions": {"code": "FORBIDDEN"}}]});
        let reply = Mock::new().body("allLlmProvidersByOrganization", partial).reply(tool, arguments.clone()).await;
        assert_eq!(reply["data"]["problem"]["kind"], "permission_denied");
        let reply =
            Mock::new().error("allLlmProvidersByOrganization", "no", "FORBIDDEN").reply(tool, arguments.clone()).await;
        assert_eq!(reply["error"]["details"], json!({"kind": "permission_denied", "correlation_id": "corr-1"}));
        let reply = Mock::new().on("allLlmProvidersByOrganization", json!(null)).reply(tool, arguments).await;
        assert_eq!(reply["error"]["details"]["kind"], "runtime");
    }
}
