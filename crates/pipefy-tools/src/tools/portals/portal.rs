use pipefy::{documents, portals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Doing, asked_text, failure, listing, optional_text, plan, portal_now, thing, things, whole, with_uuid};
use crate::tools::observability::organization;
use crate::tools::shared::{given, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Read, Shape, ToolError,
    Verification, Write,
};

const PORTAL: &[IdArg] = &[IdArg::new("portal_uuid", IdKind::Interface)];
const ORGANIZATION: &[IdArg] = &[IdArg::new("organization_uuid", IdKind::Organization)];

/// Lists the portals of an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListPortals {
    /// Uuid or number.
    organization_uuid: CheckedId,
    #[serde(default)]
    search_term: Option<String>,
}

impl Read for ListPortals {
    const OP: Op =
        Op::read("list_portals", Domain::Interfaces, Shape::Text).personas(&[Persona::Auditor]).touches(ORGANIZATION);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = organization::uuid_of(call, &self.organization_uuid).await?;
        let query = |after: Option<&str>| portals::list_portals(&uuid, self.search_term.as_deref(), after);
        let mut found =
            listing::nodes(call, "interfaces", query).await.map_err(|error| failure::of_read(error, None))?;
        found.list.iter_mut().for_each(with_uuid);
        Ok(found.outcome("portals"))
    }
}

/// Reads a portal with its pages, their elements and its sub-portals.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPortal {
    portal_uuid: CheckedId,
}

impl Read for GetPortal {
    const OP: Op = Op::read("get_portal", Domain::Interfaces, Shape::Text)
        .personas(&[Persona::Auditor])
        .touches(PORTAL)
        .selects(&documents::portals::GET_PORTAL, "portalInterface");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call.query(portals::get_portal(&self.portal_uuid)).await.map_err(|e| failure::of_read(e, None))?;
        let mut portal = data.value().get_mut("portalInterface").map(Value::take).unwrap_or_default();
        if portal.is_null() {
            let message = format!("Portal not found (UUID: {}). Find it with list_portals.", self.portal_uuid);
            return Err(ToolError::not_found(message));
        }
        with_uuid(&mut portal);
        for page in things(&mut portal, "pages") {
            things(page, "elements");
        }
        things(&mut portal, "subPortals");
        Ok(Outcome::new(portal).parsed(true))
    }
}

/// Creates the main portal of an organization, or gives the one there is.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePortal {
    /// Uuid or number.
    organization_uuid: CheckedId,
}

impl Write for CreatePortal {
    const OP: Op = Op::write("create_portal", Domain::Interfaces, Shape::Text).touches(ORGANIZATION);
    type Keep = Doing;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let uuid = organization::uuid_of(call, &self.organization_uuid).await?;
        Ok(plan("create the portal", portals::create_portal(&uuid)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "findOrCreateInterfaceByTemplate", "interface").await
    }

    async fn verify(_: &Plan<Doing>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let uuid = text_of(outcome.body.value().get("uuid"))?;
        Some(portal_now(call, &uuid).await.there("portal"))
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Visibility {
    Internal,
    Private,
    Public,
}

/// Changes name, visibility or theme of a portal. visibility public opens it to everybody.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePortal {
    portal_uuid: CheckedId,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    visibility: Option<Visibility>,
    /// A name, e.g. blue.
    #[serde(default)]
    color: Option<String>,
    /// Pipefy's name of it.
    #[serde(default)]
    icon: Option<String>,
    #[serde(default)]
    display_pipefy_header: Option<bool>,
}

impl Write for UpdatePortal {
    const OP: Op = Op::write("update_portal", Domain::Interfaces, Shape::Text).touches(PORTAL);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let mut input = given([
            ("name", optional_text("name", self.name.as_deref())?.map(Value::from)),
            ("visibility", self.visibility.and_then(|v| serde_json::to_value(v).ok())),
            ("color", optional_text("color", self.color.as_deref())?.map(Value::from)),
            ("icon", optional_text("icon", self.icon.as_deref())?.map(Value::from)),
            ("displayPipefyHeader", self.display_pipefy_header.map(Value::from)),
        ]);
        if input.is_empty() {
            return Err(ToolError::invalid(
                "Give at least one of `name`, `visibility`, `color`, `icon`, `display_pipefy_header`.",
            ));
        }
        input.insert("interface_uuid".to_owned(), self.portal_uuid.as_str().into());
        Ok(plan(format!("update portal (UUID: {})", self.portal_uuid), portals::update_portal(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "updateInterface", "interface").await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let uuid = asked_text(plan, "interface_uuid")?;
        Some(portal_now(call, &uuid).await.matches(plan, &[("interface_uuid", "")]))
    }
}

/// Deletes a portal with its pages for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePortal {
    portal_uuid: CheckedId,
}

impl Write for DeletePortal {
    const OP: Op = Op::destructive("delete_portal", Domain::Interfaces, Shape::Text).touches(PORTAL);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let uuid = self.portal_uuid.as_str();
        let resource = format!("portal (UUID: {uuid})");
        let mutation = portals::delete_portal(given([("interface_uuid", Some(uuid.into()))]));
        let confirmation = Confirmation::delete(resource.clone(), json!({ "portal_uuid": uuid }));
        Ok(plan(format!("delete {resource}"), mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let uuid = asked_text(plan, "interface_uuid")?;
        Some(portal_now(call, &uuid).await.gone("portal"))
    }
}
