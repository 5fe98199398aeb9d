use pipefy::portals;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::elements::ElementType;
use super::{by_portal, element_in, failure, json_text, sources};
use crate::tools::shared::{given, list_at, send, text_of};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Replaces the metadata of an element as a whole, and its data sources. Give data_sources ([] unbinds all), or portal_uuid
/// to keep those it has.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePortalElement {
    element_id: CheckedId,
    page_id: CheckedId,
    /// Its type, to check metadata; it cannot be changed.
    r#type: ElementType,
    /// As in create_portal_element.
    metadata: Map<String, Value>,
    /// As in set_interface_sources.
    #[serde(default)]
    data_sources: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    portal_uuid: Option<CheckedId>,
    /// Pipefy needs it when a source lists fieldKeys.
    #[serde(default)]
    editable: Option<bool>,
}

pub(crate) struct Keep {
    doing: String,
    portal: Option<String>,
    /// The element as it is after the change.
    shown: Value,
}

impl Write for UpdatePortalElement {
    const OP: Op = Op::write("update_portal_element", Domain::Interfaces, Shape::Text).touches(&[
        IdArg::new("element_id", IdKind::Interface),
        IdArg::new("page_id", IdKind::Interface),
        IdArg::new("portal_uuid", IdKind::Interface),
    ]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let (element_id, page_id) = (self.element_id.as_str(), self.page_id.as_str());
        self.r#type.check(&self.metadata)?;
        let mut editable = self.editable.map(Value::from);
        let bound = match (self.data_sources, &self.portal_uuid) {
            (Some(given), _) => sources::of_element(given)?,
            (None, Some(portal)) => {
                let element = stored(call, portal, page_id, element_id).await?;
                if editable.is_none() {
                    editable = element.get("editable").filter(|value| !value.is_null()).cloned();
                }
                let list = list_at(&element, "dataSources").iter().filter_map(Value::as_object).cloned().collect();
                sources::of_element(list)?
            }
            (None, None) => {
                return Err(ToolError::invalid(
                    "Give `data_sources` ([] unbinds all) or `portal_uuid`, from which those of the element are kept.",
                ));
            }
        };
        let shown = json!({
            "id": element_id, "type": self.r#type.value(), "metadata": self.metadata, "uuid": element_id,
        });
        let input = given([
            ("element_id", Some(element_id.into())),
            ("page_id", Some(page_id.into())),
            ("metadata", Some(json_text(&self.metadata))),
            ("data_sources", Some(bound)),
            ("editable", editable),
        ]);
        let doing = format!("update element {element_id} of page {page_id}: updateElement did not succeed");
        Ok(Plan::new(Keep { doing, portal: self.portal_uuid.map(|uuid| uuid.to_string()), shown })
            .then(portals::update_element(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act).await.map_err(|error| failure::of_write(error, &plan.keep.doing, None))?;
        Ok(Outcome::new(plan.keep.shown.clone()).parsed(true))
    }

    async fn verify(plan: &Plan<Keep>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Some(portal) = &plan.keep.portal else { return by_portal() };
        let element = text_of(outcome.body.value().get("id"))?;
        let read = call.query(portals::get_portal(portal)).await;
        let renamed = [("element_id", ""), ("page_id", ""), ("data_sources", "dataSources")];
        Some(element_in(read, "portalInterface", &element).matches(plan, &renamed))
    }
}

async fn stored(call: &Call<'_>, portal: &str, page_id: &str, element_id: &str) -> Result<Value, ToolError> {
    let data = call.query(portals::get_portal(portal)).await.map_err(|e| failure::of_read(e, None))?;
    let portal_value = data.value().get_mut("portalInterface").map(Value::take).unwrap_or_default();
    if portal_value.is_null() {
        return Err(ToolError::not_found(format!("Portal not found (UUID: {portal}). Find it with list_portals.")));
    }
    let advice = "Check `portal_uuid` and `element_id`, or give `data_sources`.";
    sources::element_on_page(&portal_value, page_id, element_id, "portal", advice).cloned()
}
