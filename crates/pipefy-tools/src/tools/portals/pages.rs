use pipefy::portals;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::layout::Layout;
use super::{Doing, asked_text, by_portal, index, optional_text, page_now, plan, portal_now, thing, whole};
use crate::readback::{self, Found};
use crate::tools::shared::{given, list_at, required_text, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write,
};

const PAGE: &[IdArg] = &[IdArg::new("portal_uuid", IdKind::Interface), IdArg::new("page_id", IdKind::Interface)];

/// Ids that only say where to write.
const NAMES: [(&str, &str); 2] = [("interface_uuid", ""), ("page_id", "")];

/// Adds a page to a portal. On an empty main portal Pipefy may add a page with elements of its own.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePortalPage {
    portal_uuid: CheckedId,
    title: String,
    #[serde(default)]
    description: Option<String>,
    /// Place, from 0.
    #[serde(default)]
    index: Option<i64>,
}

impl Write for CreatePortalPage {
    const OP: Op = Op::write("create_portal_page", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("portal_uuid", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let input = given([
            ("interface_uuid", Some(self.portal_uuid.as_str().into())),
            ("title", Some(required_text("title", &self.title)?.into())),
            ("description", optional_text("description", self.description.as_deref())?.map(Value::from)),
            ("index", index(self.index)?),
        ]);
        Ok(plan(format!("create a page of portal {}", self.portal_uuid), portals::create_page(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "createPage", "page").await
    }

    async fn verify(plan: &Plan<Doing>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let page = text_of(outcome.body.value().get("id"))?;
        let portal = asked_text(plan, "interface_uuid")?;
        Some(page_now(call, &portal, &page).await.matches(plan, &NAMES))
    }
}

/// Changes title, description or place of a page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePortalPage {
    portal_uuid: CheckedId,
    page_id: CheckedId,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    /// Place, from 0.
    #[serde(default)]
    index: Option<i64>,
}

impl Write for UpdatePortalPage {
    const OP: Op = Op::write("update_portal_page", Domain::Interfaces, Shape::Text).touches(PAGE);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let mut input = given([
            ("title", optional_text("title", self.title.as_deref())?.map(Value::from)),
            ("description", optional_text("description", self.description.as_deref())?.map(Value::from)),
            ("index", index(self.index)?),
        ]);
        if input.is_empty() {
            return Err(ToolError::invalid("Give at least one of `title`, `description`, `index`."));
        }
        input.insert("interface_uuid".to_owned(), self.portal_uuid.as_str().into());
        input.insert("page_id".to_owned(), self.page_id.as_str().into());
        Ok(plan(format!("update page {}", self.page_id), portals::update_page(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "updatePage", "page").await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let (portal, page) = (asked_text(plan, "interface_uuid")?, asked_text(plan, "page_id")?);
        Some(page_now(call, &portal, &page).await.matches(plan, &NAMES))
    }
}

/// Deletes a page with its elements for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePortalPage {
    portal_uuid: CheckedId,
    page_id: CheckedId,
}

impl Write for DeletePortalPage {
    const OP: Op = Op::destructive("delete_portal_page", Domain::Interfaces, Shape::Text).touches(PAGE);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let (portal, page) = (self.portal_uuid.as_str(), self.page_id.as_str());
        let resource = format!("portal page (UUID: {page}) in portal (UUID: {portal})");
        let input = given([("interface_uuid", Some(portal.into())), ("page_id", Some(page.into()))]);
        let confirmation = Confirmation::delete(resource.clone(), json!({ "page_id": page, "portal_uuid": portal }));
        Ok(plan(format!("delete {resource}"), portals::delete_page(input)).confirm(confirmation))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let (portal, page) = (asked_text(plan, "interface_uuid")?, asked_text(plan, "page_id")?);
        Some(page_now(call, &portal, &page).await.gone("page"))
    }
}

/// Puts the pages of a portal in this order.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SortPortalPages {
    portal_uuid: CheckedId,
    /// Every page, in the new order.
    page_ids: Vec<CheckedId>,
}

impl Write for SortPortalPages {
    const OP: Op = Op::write("sort_portal_pages", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("portal_uuid", IdKind::Interface), IdArg::new("page_ids", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let ids: Vec<&str> = self.page_ids.iter().map(CheckedId::as_str).collect();
        if ids.is_empty() {
            return Err(ToolError::invalid("`page_ids` needs at least one page."));
        }
        for (at, id) in ids.iter().enumerate() {
            if ids.iter().take(at).any(|earlier| earlier == id) {
                return Err(ToolError::invalid(format!("`page_ids` names page {id} twice.")));
            }
        }
        let input = given([("interface_uuid", Some(self.portal_uuid.as_str().into())), ("page_ids", Some(ids.into()))]);
        Ok(plan(format!("sort the pages of portal {}", self.portal_uuid), portals::sort_pages(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(plan: &Plan<Doing>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let portal = asked_text(plan, "interface_uuid")?;
        let wanted = readback::asked(plan).get("page_ids")?.clone();
        Some(match portal_now(call, &portal).await {
            Found::Thing(portal) => {
                let pages = list_at(&portal, "pages").iter();
                let order: Value = pages.filter_map(|page| text_of(page.get("id"))).map(Value::from).collect();
                Verification::of(order == wanted, "compared the order of the pages")
            }
            other => other.there("portal"),
        })
    }
}

/// Replaces the grid of a page. Elements in no row are not shown.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePortalPageLayout {
    page_id: CheckedId,
    /// Rows {id, type: "row", children: [element ids]}; [] empties the page.
    layout: Vec<Map<String, Value>>,
}

impl Write for UpdatePortalPageLayout {
    const OP: Op = Op::write("update_portal_page_layout", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("page_id", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let layout = Layout::checked(self.layout)?;
        let input = given([("page_id", Some(self.page_id.as_str().into())), ("layout", Some(layout.text()))]);
        Ok(plan(format!("replace the layout of page {}", self.page_id), portals::update_page_layout(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        by_portal()
    }
}
