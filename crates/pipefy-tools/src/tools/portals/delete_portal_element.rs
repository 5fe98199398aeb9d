use pipefy::portals;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::layout::Layout;
use super::{Doing, by_portal, plan, whole};
use crate::tools::shared::given;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification,
    Write, digest_of,
};

/// Deletes an element for good. Give layout, the grid without it, in the same call: a grid that still lists a deleted
/// element can break the page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePortalElement {
    element_id: CheckedId,
    page_id: CheckedId,
    /// As in update_portal_page_layout.
    #[serde(default)]
    layout: Option<Vec<Map<String, Value>>>,
}

impl Write for DeletePortalElement {
    const OP: Op = Op::destructive("delete_portal_element", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("element_id", IdKind::Interface), IdArg::new("page_id", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let (element, page) = (self.element_id.as_str(), self.page_id.as_str());
        let layout = self.layout.map(Layout::checked).transpose()?;
        if let Some(row) = layout.as_ref().and_then(|layout| layout.row_with(element)) {
            return Err(ToolError::invalid(format!("layout[{row}] still lists element {element}; take it out.")));
        }
        let what = format!("portal element (UUID: {element}) on page (UUID: {page})");
        let mut resource = what.clone();
        let mut identity = json!({ "element_id": element, "page_id": page });
        if let (Some(layout), Value::Object(identity)) = (&layout, &mut identity) {
            resource.push_str(&format!("; the page's layout is replaced ({} sent)", layout.rows()));
            identity.insert("layout".to_owned(), digest_of(&layout.value()).into());
        }
        let input = given([
            ("element_id", Some(element.into())),
            ("page_id", Some(page.into())),
            ("layout", layout.map(|layout| layout.text())),
        ]);
        let confirmation = Confirmation::delete(resource, identity);
        Ok(plan(format!("delete {what}"), portals::delete_element(input)).confirm(confirmation))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        whole(plan, act).await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        by_portal()
    }
}
