use pipefy::portals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::layout::Layout;
use super::{Doing, asked_text, by_portal, element_in, json_text, optional_text, plan, sources, thing};
use crate::tools::shared::{given, text_of};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum ElementType {
    Text,
    Table,
    Field,
    EmbedLink,
    EmbedVideo,
    EmbedImage,
    Button,
    Divider,
    Link,
    Forms,
    Pages,
    SubPortal,
    AutomationButton,
    ContentBlock,
    Document,
    CustomCode,
}

impl ElementType {
    /// Its name on the wire.
    pub(super) fn value(self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Checks what the type needs in its metadata.
    ///
    /// # Errors
    /// `INVALID_ARGUMENTS` naming the type and the key.
    pub(super) fn check(self, metadata: &Map<String, Value>) -> Result<(), ToolError> {
        let (name, needed, optional) = match self {
            Self::Forms => ("forms", Some("name"), None),
            Self::Link => ("link", Some("linkName"), Some("linkUrl")),
            Self::SubPortal => ("subPortal", None, Some("subPortalUuid")),
            _ => return Ok(()),
        };
        let given = |key: &str| metadata.get(key).filter(|value| !value.is_null());
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        if let Some(key) = needed.filter(|key| !given(key).is_some_and(is_text)) {
            return Err(ToolError::invalid(format!(
                "An element of type '{name}' needs metadata.{key}, a non-blank text."
            )));
        }
        if let Some(key) = optional.filter(|key| given(key).is_some_and(|value| !is_text(value))) {
            return Err(ToolError::invalid(format!(
                "metadata.{key} of an element of type '{name}' must be a non-blank text."
            )));
        }
        Ok(())
    }
}

/// Adds an element to a page. Without layout it is in no row of the grid and so not shown.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePortalElement {
    page_id: CheckedId,
    r#type: ElementType,
    /// By type: forms needs name, link needs linkName.
    metadata: Map<String, Value>,
    /// [{repoId, fieldKeys, id, name, filters}].
    #[serde(default)]
    data_sources: Option<Vec<Map<String, Value>>>,
    /// An id of your own, needed with layout.
    #[serde(default)]
    element_id: Option<String>,
    /// Pipefy needs it when a source lists fieldKeys.
    #[serde(default)]
    editable: Option<bool>,
    /// The new grid of the page; one row must list element_id.
    #[serde(default)]
    layout: Option<Vec<Map<String, Value>>>,
}

impl Write for CreatePortalElement {
    const OP: Op = Op::write("create_portal_element", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("page_id", IdKind::Interface), IdArg::new("element_id", IdKind::Interface)]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let element_id = optional_text("element_id", self.element_id.as_deref())?;
        self.r#type.check(&self.metadata)?;
        let layout = self.layout.map(Layout::checked).transpose()?;
        if let Some(layout) = &layout {
            let Some(id) = &element_id else {
                return Err(ToolError::invalid("`layout` needs `element_id`, an id of your own that a row lists."));
            };
            if layout.row_with(id).is_none() {
                return Err(ToolError::invalid(format!("No row of `layout` lists element {id} in its children.")));
            }
        }
        let input = given([
            ("page_id", Some(self.page_id.as_str().into())),
            ("type", Some(self.r#type.value())),
            ("metadata", Some(json_text(&self.metadata))),
            // The API fails without it.
            ("data_sources", Some(sources::of_element(self.data_sources.unwrap_or_default())?)),
            ("id", element_id.map(Value::from)),
            ("editable", self.editable.map(Value::from)),
            ("layout", layout.map(|layout| layout.text())),
        ]);
        Ok(plan(format!("create an element of page {}", self.page_id), portals::create_element(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "createElement", "element").await
    }

    async fn verify(_: &Plan<Doing>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        by_portal()
    }
}

/// Copies an element on its page.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DuplicatePortalElement {
    element_id: CheckedId,
    portal_uuid: CheckedId,
    /// Where the element is.
    page_id: CheckedId,
}

impl Write for DuplicatePortalElement {
    const OP: Op = Op::write("duplicate_portal_element", Domain::Interfaces, Shape::Text).touches(&[
        IdArg::new("element_id", IdKind::Interface),
        IdArg::new("portal_uuid", IdKind::Interface),
        IdArg::new("page_id", IdKind::Interface),
    ]);
    type Keep = Doing;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Doing>, ToolError> {
        let input = given([
            ("elementUuid", Some(self.element_id.as_str().into())),
            ("interfaceUuid", Some(self.portal_uuid.as_str().into())),
            ("pageUuid", Some(self.page_id.as_str().into())),
        ]);
        Ok(plan(format!("copy element {}", self.element_id), portals::duplicate_element(input)))
    }

    async fn act(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        thing(plan, act, "duplicateElement", "element").await
    }

    async fn verify(plan: &Plan<Doing>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let element = text_of(outcome.body.value().get("id"))?;
        let read = call.query(portals::get_portal(&asked_text(plan, "interfaceUuid")?)).await;
        Some(element_in(read, "portalInterface", &element).there("element"))
    }
}
