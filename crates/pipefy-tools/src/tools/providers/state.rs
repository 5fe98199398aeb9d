//! Which providers there are and are used: delete, switch, default.

use pipefy::{Id, providers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::paging::counted;
use crate::tools::classified::{PROVIDERS, done};
use crate::tools::shared::required_text;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Write, dig,
};

/// Deletes an LLM provider of the organization's own for good. What uses it: get_llm_provider_dependencies.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteLlmProvider {
    provider_id: CheckedId,
    organization_uuid: String,
}

/// Switches an LLM provider of the organization's own on or off.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetLlmProviderActiveStatus {
    provider_id: CheckedId,
    active: bool,
}

/// Sets an organization's default LLM provider. Give exactly one of both provider ids.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetDefaultLlmProvider {
    /// Numeric id.
    organization_id: Id,
    /// One of the organization's own.
    #[serde(default)]
    provider_id: Option<LooseId>,
    /// One of Pipefy's.
    #[serde(default)]
    system_provider_id: Option<LooseId>,
}

/// Clears an organization's default LLM provider.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ResetDefaultLlmProvider {
    /// Numeric id.
    organization_id: Id,
}

/// An id that may be blank, which means none.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum LooseId {
    Text(String),
    Number(i64),
}

impl LooseId {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
            Self::Number(number) => Some(number.to_string()),
        }
    }
}

impl JsonSchema for LooseId {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LooseId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "integer"] })
    }
}

const ADMIN: &[Persona] = &[Persona::Admin];

async fn send<K>(plan: &Plan<K>, act: &Act<'_, '_>, name: &str) -> Result<Value, ToolError> {
    let Some(mutation) = plan.mutations().next() else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    Ok(act.send(mutation).await.map_err(|e| PROVIDERS.unproven(e, name))?.value())
}

impl Write for DeleteLlmProvider {
    const OP: Op =
        Op::destructive("delete_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat).personas(ADMIN).touches(&[
            IdArg::within("provider_id", IdKind::Provider),
            IdArg::new("organization_uuid", IdKind::Organization),
        ]);
    type Keep = (String, String);

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Self::Keep>, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let id = self.provider_id.as_str();
        Ok(Plan::new((id.to_owned(), organization.to_owned()))
            .then(providers::delete_llm_provider(id, organization))
            .confirm(Confirmation::delete(
                format!("LLM provider (ID: {id})"),
                json!({ "provider_id": id, "organization_uuid": organization }),
            )))
    }

    async fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act, "deleteLlmProvider").await?;
        let id = &plan.keep.0;
        Ok(done(act, json!({ "deleted_id": id }), format!("LLM provider deleted (ID: {id}).")))
    }

    async fn dependents(plan: &Plan<Self::Keep>, call: &Call<'_>) -> Option<Map<String, Value>> {
        let (id, organization) = &plan.keep;
        let owners =
            counted(call, usize::MAX, "providerDependencies.edges", "providerDependencies.pageInfo", |after| {
                providers::get_llm_provider_dependencies(id, organization, Some(50), after)
            })
            .await;
        let mut dependents = Map::new();
        if owners.items.is_empty() {
            return None;
        }
        dependents.insert("owners_using_it".to_owned(), owners.items.len().into());
        if owners.partial {
            dependents.insert("owners_partial".to_owned(), true.into());
        }
        Some(dependents)
    }
}

impl Write for SetLlmProviderActiveStatus {
    const OP: Op = Op::write("set_llm_provider_active_status", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(ADMIN)
        .touches(&[IdArg::new("provider_id", IdKind::Provider)]);
    type Keep = (String, bool);

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Self::Keep>, ToolError> {
        let id = self.provider_id.as_str();
        Ok(Plan::new((id.to_owned(), self.active)).then(providers::set_llm_provider_active_status(id, self.active)))
    }

    async fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act, "setLlmProviderActiveStatus").await?;
        let (id, active) = &plan.keep;
        let what = if *active { "activated" } else { "deactivated" };
        Ok(done(act, json!({ "provider_id": id, "active": active }), format!("LLM provider {what} (ID: {id}).")))
    }
}

impl Write for SetDefaultLlmProvider {
    const OP: Op =
        Op::write("set_default_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat).personas(ADMIN).touches(&[
            IdArg::new("organization_id", IdKind::Organization),
            IdArg::within("provider_id", IdKind::Provider),
            IdArg::within("system_provider_id", IdKind::Provider),
        ]);
    type Keep = ();

    async fn plan(self, _: &Call<'_>) -> Result<Plan<()>, ToolError> {
        let own = self.provider_id.and_then(LooseId::text);
        let system = self.system_provider_id.and_then(LooseId::text);
        let (id, is_system) = match (own, system) {
            (Some(id), None) => (id, false),
            (None, Some(id)) => (id, true),
            _ => return Err(ToolError::refused_value("Give exactly one of provider_id and system_provider_id.")),
        };
        Ok(Plan::of(providers::set_default_llm_provider(self.organization_id.as_str(), &id, is_system)))
    }

    async fn act(plan: &Plan<()>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let value = send(plan, act, "setActiveLlmProvider").await?;
        let provider = dig(&value, "setActiveLlmProvider.activeLlmProvider").cloned().unwrap_or(Value::Null);
        Ok(done(act, json!({ "active_provider": provider }), "Default LLM provider set."))
    }
}

impl Write for ResetDefaultLlmProvider {
    const OP: Op = Op::write("reset_default_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(ADMIN)
        .touches(&[IdArg::new("organization_id", IdKind::Organization)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.organization_id.as_str();
        Ok(Plan::new(id.to_owned()).then(providers::reset_default_llm_provider(id)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act, "resetLlmProviderOwner").await?;
        Ok(done(act, json!({ "organization_id": plan.keep }), "Default LLM provider cleared."))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn each_writes_once() {
        let sent = WriteRules::new("delete_llm_provider", json!({"provider_id": 5, "organization_uuid": " o "}))
            .read("providerDependencies", json!({"edges": [], "totalCount": 2}))
            .write("deleteLlmProvider", json!({"success": true}))
            .check()
            .await;
        assert_eq!(sent[0].variables["input"], json!({"id": "5", "organizationUuid": "o"}));
        WriteRules::new("set_llm_provider_active_status", json!({"provider_id": "5", "active": false}))
            .write("setLlmProviderActiveStatus", json!({"success": true}))
            .check()
            .await;
        let sent = WriteRules::new(
            "set_default_llm_provider",
            json!({"organization_id": "1", "provider_id": " ", "system_provider_id": 3}),
        )
        .write("setActiveLlmProvider", json!({"activeLlmProvider": {"id": "9"}}))
        .check()
        .await;
        assert_eq!(
            sent[0].variables["input"],
            json!({"ownerId": "1", "ownerType": "organization", "systemProviderId": "3"})
        );
        WriteRules::new("reset_default_llm_provider", json!({"organization_id": 1}))
            .write("resetLlmProviderOwner", json!({"success": true}))
            .check()
            .await;
    }

    /// What it names is on the last page only, after pages without any.
    #[tokio::test]
    async fn a_preview_counts_owners_over_all_pages() {
        let page = |owners: Value, next: Option<&str>| json!({"edges": owners, "totalCount": null, "pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}});
        let owner = json!([{"node": {"ownerId": "1", "ownerType": "pipe"}}]);
        let arguments = json!({"provider_id": 5, "organization_uuid": "a"});
        let mock = Mock::new()
            .on("providerDependencies", page(json!([]), Some("n")))
            .on("providerDependencies", page(owner.clone(), None));
        let reply = mock.reply("delete_llm_provider", arguments.clone()).await;
        assert_eq!(reply["dependents"], json!({"owners_using_it": 1}));
        let mock =
            Mock::new().on("providerDependencies", page(owner, Some("n"))).error("providerDependencies", "no", "");
        let reply = mock.reply("delete_llm_provider", arguments).await;
        assert_eq!(reply["dependents"], json!({"owners_using_it": 1, "owners_partial": true}));
    }

    #[tokio::test]
    async fn a_token_of_another_organization_does_not_confirm() {
        let mock = Mock::new().on("providerDependencies", json!(null));
        let preview = mock.reply("delete_llm_provider", json!({"provider_id": 5, "organization_uuid": "a"})).await;
        let again = json!({"provider_id": 5, "organization_uuid": "b", "confirm": true, "confirmation_token": preview["confirmation_token"]});
        assert_eq!(mock.reply("delete_llm_provider", again).await["requires_confirmation"], true);
        assert!(mock.writes().is_empty());
        let both = json!({"organization_id": "1", "provider_id": "2", "system_provider_id": "3"});
        assert!(
            mock.reply("set_default_llm_provider", both).await["error"]["message"]
                .as_str()
                .unwrap()
                .contains("exactly one")
        );
    }
}
