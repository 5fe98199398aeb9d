//! Portals with their pages, elements and sub-portals.

mod delete_portal_element;
mod elements;
pub(crate) mod failure;
mod layout;
pub(crate) mod listing;
mod pages;
mod portal;
pub(crate) mod sources;
mod sub_portals;
mod update_portal_element;

use pipefy::{Data, Mutation, portals};
use serde_json::{Map, Value};

use crate::capability::Row;
use crate::readback::{self, Found};
use crate::tools::shared::{list_at, non_blank, text_of};
use crate::{Act, Call, Outcome, Plan, ToolError, Verification};

pub(crate) const ROWS: &[Row] = &[
    Row::read::<portal::ListPortals>(),
    Row::read::<portal::GetPortal>(),
    Row::write::<portal::CreatePortal>(),
    Row::write::<portal::UpdatePortal>(),
    Row::write::<portal::DeletePortal>(),
    Row::write::<pages::CreatePortalPage>(),
    Row::write::<pages::UpdatePortalPage>(),
    Row::write::<pages::DeletePortalPage>(),
    Row::write::<pages::SortPortalPages>(),
    Row::write::<pages::UpdatePortalPageLayout>(),
    Row::write::<elements::CreatePortalElement>(),
    Row::write::<update_portal_element::UpdatePortalElement>(),
    Row::write::<delete_portal_element::DeletePortalElement>(),
    Row::write::<elements::DuplicatePortalElement>(),
    Row::write::<sub_portals::CreateSubPortal>(),
    Row::write::<sub_portals::UpdateSubPortalElement>(),
    Row::write::<sub_portals::PublishSubPortal>(),
    Row::write::<sub_portals::UnpublishSubPortal>(),
    Row::write::<sub_portals::DeleteSubPortalElement>(),
    Row::write::<sub_portals::DeleteSubPortal>(),
];

/// What a write does, for its failures: `delete portal (UUID: x)`.
type Doing = String;

fn plan(doing: impl Into<Doing>, mutation: Mutation) -> Plan<Doing> {
    Plan::new(doing.into()).then(mutation)
}

/// Sends the only mutation; the answer is shown as it came.
async fn whole(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
    Ok(Outcome::new(send(plan, act).await?).parsed(true))
}

/// Sends the only mutation; the thing at `root` and `key` of the answer is shown with its `uuid`.
async fn thing(plan: &Plan<Doing>, act: &Act<'_, '_>, root: &str, key: &str) -> Result<Outcome, ToolError> {
    let mut value = send(plan, act).await?.value();
    let mut thing = value.get_mut(root).and_then(|payload| payload.get_mut(key)).map(Value::take).unwrap_or_default();
    if thing.is_null() {
        let message =
            format!("Could not {}: {root} gave no {key} back. Read the portal again before repeating.", plan.keep);
        return Err(ToolError::api(message));
    }
    with_uuid(&mut thing);
    if key == "page" {
        things(&mut thing, "elements");
    }
    Ok(Outcome::new(thing).parsed(true))
}

async fn send(plan: &Plan<Doing>, act: &Act<'_, '_>) -> Result<Data, ToolError> {
    crate::tools::shared::send(plan, act).await.map_err(|error| failure::of_write(error, &plan.keep, None))
}

/// The portal as it is now.
async fn portal_now(call: &Call<'_>, uuid: &str) -> Found {
    readback::thing(call.query(portals::get_portal(uuid)).await, "portalInterface")
}

/// A page of a portal as it is now.
async fn page_now(call: &Call<'_>, portal: &str, page: &str) -> Found {
    readback::item(call.query(portals::get_portal(portal)).await, "portalInterface.pages", &["id"], page)
}

/// The element of a portal or interface, at a dotted path of an answer, on whichever page it is.
pub(crate) fn element_in(answer: Result<Data, pipefy::Error>, path: &str, element: &str) -> Found {
    match readback::thing(answer, path) {
        Found::Thing(whole) => {
            let mut elements = list_at(&whole, "pages").iter().flat_map(|page| list_at(page, "elements"));
            let found = elements.find(|one| text_of(one.get("id")).as_deref() == Some(element));
            found.cloned().map_or(Found::Nothing, Found::Thing)
        }
        Found::Nothing => Found::Unread(format!("the {path} could not be read")),
        unread => unread,
    }
}

/// The text that the input of the plan's mutation has under a key.
fn asked_text(plan: &Plan<Doing>, key: &str) -> Option<String> {
    text_of(readback::asked(plan).get(key))
}

/// What a call that names no portal can say about reading back.
fn by_portal() -> Option<Verification> {
    Some(Verification::unknown("pages and elements are read by portal, and this call names none; read get_portal"))
}

/// Adds `uuid`, which equals `id` here.
pub(crate) fn with_uuid(thing: &mut Value) {
    if let Value::Object(map) = thing
        && !map.contains_key("uuid")
        && let Some(id) = map.get("id").filter(|id| !id.is_null()).cloned()
    {
        map.insert("uuid".to_owned(), id);
    }
}

/// The things below `key`, each with its `uuid`; null is an empty list.
pub(crate) fn things<'v>(parent: &'v mut Value, key: &str) -> &'v mut [Value] {
    let Value::Object(map) = parent else { return &mut [] };
    let list = map.entry(key).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return &mut [] };
    list.iter_mut().for_each(with_uuid);
    list
}

/// Text that may be left out but not be blank, trimmed.
pub(crate) fn optional_text(argument: &str, text: Option<&str>) -> Result<Option<String>, ToolError> {
    match (text, non_blank(text)) {
        (None, _) => Ok(None),
        (Some(_), Some(text)) => Ok(Some(text.to_owned())),
        (Some(_), None) => Err(ToolError::invalid(format!("Invalid '{argument}': it must not be blank when given."))),
    }
}

/// A place in an order, from 0.
fn index(index: Option<i64>) -> Result<Option<Value>, ToolError> {
    match index {
        Some(index) if index < 0 => Err(ToolError::invalid(format!("index must be 0 or more, not {index}."))),
        other => Ok(other.map(Value::from)),
    }
}

/// An object as the JSON text the API keeps.
pub(crate) fn json_text(map: &Map<String, Value>) -> Value {
    serde_json::to_string(map).unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
