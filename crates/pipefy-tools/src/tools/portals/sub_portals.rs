use pipefy::portals;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Doing, asked_text, optional_text, plan, thing, whole};
use crate::readback::{self, Found};
use crate::tools::shared::{given, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write,
};

const ELEMENT: &[IdArg] = &[IdArg::new("portal_uuid", IdKind::Interface), IdArg::new("element_id", IdKind::Interface)];
const LINK: &[IdArg] = &[
    IdArg::new("portal_uuid", IdKind::Interface),
    IdArg::new("element_id", IdKind::Interface),
    IdArg::new("sub_portal_uuid", IdKind::Interface),
];

/// Creates a sub-portal under a main portal.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateSubPortal {
    main_portal_uuid: CheckedId,
    #[serde(default)]
    name: Option<String>,
}

impl Write for CreateSubPortal {
    const OP: Op = Op::write("create_sub_portal", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("main_portal_uuid", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let input = given([
            ("mainPortalUuid", Some(self.main_portal_uuid.as_str().into())),
            ("name", optional_text("name", self.name.as_deref())?.map(Value::from)),
        ]);
        Ok(plan("create the sub-portal", portals::create_sub_portal(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "createSubPortal", "subPortal").await
    }

    async fn verify(plan: &Plan<Doing>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(outcome.body.value().get("id"))?;
        let read = call.query(portals::get_portal(&asked_text(plan, "mainPortalUuid")?)).await;
        let found = readback::item(read, "portalInterface.subPortals", &["id"], &id);
        Some(found.matches(plan, &[("mainPortalUuid", "")]))
    }
}

/// Links an element of a main portal, usually a forms slot, to a sub-portal.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateSubPortalElement {
    portal_uuid: CheckedId,
    element_id: CheckedId,
    sub_portal_uuid: CheckedId,
}

impl Write for UpdateSubPortalElement {
    const OP: Op = Op::write("update_sub_portal_element", Domain::Interfaces, Shape::Text).touches(LINK);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        Ok(link("attach", &self.portal_uuid, &self.element_id, &self.sub_portal_uuid))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        linked(plan, call).await
    }
}

/// Publishes a sub-portal by linking it to an element of a main portal.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PublishSubPortal {
    portal_uuid: CheckedId,
    element_id: CheckedId,
    sub_portal_uuid: CheckedId,
}

impl Write for PublishSubPortal {
    const OP: Op = Op::write("publish_sub_portal", Domain::Interfaces, Shape::Text).touches(LINK);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        Ok(link("publish", &self.portal_uuid, &self.element_id, &self.sub_portal_uuid))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        linked(plan, call).await
    }
}

const NO_LINKS: &str = "reads show which sub-portals a portal has and whether they are published, not on which element";

/// Whether the sub-portal that was linked is shown as published.
async fn linked(plan: &Plan<Doing>, call: &Call<'_>) -> Option<Verification> {
    let (portal, sub_portal) = (asked_text(plan, "portalUuid")?, asked_text(plan, "subPortalUuid")?);
    let read = call.query(portals::get_portal(&portal)).await;
    Some(match readback::item(read, "portalInterface.subPortals", &["id"], &sub_portal) {
        Found::Thing(shown) if shown.get("published") == Some(&Value::Bool(true)) => {
            Verification::of(true, "the sub-portal is published")
        }
        Found::Unread(why) => Verification::unknown(why),
        Found::Thing(_) | Found::Nothing => Verification::unknown(NO_LINKS),
    })
}

fn link(verb: &str, portal: &str, element: &str, sub_portal: &str) -> Plan<Doing> {
    let input = given([
        ("portalUuid", Some(portal.into())),
        ("elementId", Some(element.into())),
        ("subPortalUuid", Some(sub_portal.into())),
    ]);
    let doing = format!("{verb} sub-portal {sub_portal} on element {element}");
    plan(doing, portals::update_sub_portal_element(input))
}

/// Takes a sub-portal off an element of a main portal; the sub-portal stays.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UnpublishSubPortal {
    portal_uuid: CheckedId,
    element_id: CheckedId,
}

impl Write for UnpublishSubPortal {
    const OP: Op = Op::write("unpublish_sub_portal", Domain::Interfaces, Shape::Text).touches(ELEMENT);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let input = given([
            ("portalUuid", Some(self.portal_uuid.as_str().into())),
            ("elementId", Some(self.element_id.as_str().into())),
            // The null is what takes it off; a missing key would change nothing.
            ("subPortalUuid", Some(Value::Null)),
        ]);
        let doing = format!("unpublish the sub-portal on element {}", self.element_id);
        Ok(plan(doing, portals::update_sub_portal_element(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(NO_LINKS))
    }
}

/// Removes the link between an element of a main portal and its sub-portal for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteSubPortalElement {
    portal_uuid: CheckedId,
    element_id: CheckedId,
}

impl Write for DeleteSubPortalElement {
    const OP: Op = Op::destructive("delete_sub_portal_element", Domain::Interfaces, Shape::Text).touches(ELEMENT);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let (portal, element) = (self.portal_uuid.as_str(), self.element_id.as_str());
        let resource = format!("sub-portal element link (element UUID: {element}) in portal (UUID: {portal})");
        let input = given([("portalUuid", Some(portal.into())), ("elementId", Some(element.into()))]);
        let confirmation =
            Confirmation::delete(resource.clone(), json!({ "element_id": element, "portal_uuid": portal }));
        Ok(plan(format!("delete {resource}"), portals::delete_sub_portal_element(input)).confirm(confirmation))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(NO_LINKS))
    }
}

/// Deletes a sub-portal for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteSubPortal {
    sub_portal_uuid: CheckedId,
}

impl Write for DeleteSubPortal {
    const OP: Op = Op::destructive("delete_sub_portal", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("sub_portal_uuid", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let uuid = self.sub_portal_uuid.as_str();
        let resource = format!("sub-portal (UUID: {uuid})");
        let mutation = portals::delete_sub_portal(given([("uuid", Some(uuid.into()))]));
        let confirmation = Confirmation::delete(resource.clone(), json!({ "sub_portal_uuid": uuid }));
        Ok(plan(format!("delete {resource}"), mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(
            "sub-portals are read by their main portal, and this call names none; read get_portal",
        ))
    }
}
