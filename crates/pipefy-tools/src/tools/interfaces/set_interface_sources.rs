use pipefy::{interfaces, portals};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{binding, no_interface};
use crate::tools::portals::{element_in, failure, sources};
use crate::tools::shared::{given, send, text_of};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Replaces the data sources of a customCode element; what its HTML can show.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetInterfaceSources {
    interface_uuid: CheckedId,
    page_id: CheckedId,
    element_id: CheckedId,
    /// At most 10 of {id, name, repoId, fieldKeys: 1..30, filters}; id and name unique.
    data_sources: Vec<Map<String, Value>>,
}

pub(crate) struct Keep {
    interface_uuid: String,
    doing: String,
    /// The element with its sources.
    shown: Value,
}

impl Write for SetInterfaceSources {
    const OP: Op = Op::write("set_interface_sources", Domain::Interfaces, Shape::Text).touches(&[
        IdArg::new("interface_uuid", IdKind::Interface),
        IdArg::new("page_id", IdKind::Interface),
        IdArg::new("element_id", IdKind::Interface),
    ]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let (page_id, element_id) = (self.page_id.as_str(), self.element_id.as_str());
        let interface_uuid = self.interface_uuid.to_string();
        let bindings = binding::checked(self.data_sources)?;
        let doing = format!("set the data sources of element {element_id}");
        let missing = no_interface(&interface_uuid);
        let data = call
            .query(interfaces::html_interface_elements(&interface_uuid))
            .await
            .map_err(|e| failure::of_sources(e, None, &missing))?;
        let interface = data.value().get_mut("interface").map(Value::take).unwrap_or_default();
        if interface.is_null() {
            return Err(ToolError::not_found(missing));
        }
        let advice = "Check `interface_uuid` and `element_id` with get_interface_html.";
        let element = sources::element_on_page(&interface, page_id, element_id, "interface", advice)?;
        match element.get("type").and_then(Value::as_str) {
            Some("customCode") => {}
            other => {
                return Err(ToolError::invalid(format!(
                    "Element {element_id} is of type '{}'; only customCode elements have these data sources.",
                    other.unwrap_or("unknown")
                )));
            }
        }
        let metadata = match element.get("metadata") {
            None | Some(Value::Null) => Value::from("{}"),
            Some(text @ Value::String(_)) => text.clone(),
            Some(other) => other.to_string().into(),
        };
        let input = given([
            ("element_id", Some(element_id.into())),
            ("page_id", Some(page_id.into())),
            ("metadata", Some(metadata)),
            ("editable", Some(element.get("editable").cloned().unwrap_or_default())),
            ("data_sources", Some(bindings.iter().map(binding::Binding::wire).collect())),
        ]);
        let shown: Vec<Value> = bindings.iter().map(binding::Binding::shown).collect();
        let shown = json!({ "id": element_id, "dataSources": shown, "uuid": element_id });
        Ok(Plan::new(Keep { interface_uuid, doing, shown }).then(portals::update_element(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Keep { interface_uuid, doing, shown } = &plan.keep;
        send(plan, act).await.map_err(|e| failure::of_sources(e, Some(doing), &no_interface(interface_uuid)))?;
        Ok(Outcome::new(shown.clone()).parsed(true))
    }

    async fn verify(plan: &Plan<Keep>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let element = text_of(outcome.body.value().get("id"))?;
        let read = call.query(interfaces::get_html_interface(&plan.keep.interface_uuid)).await;
        let renamed = [("element_id", ""), ("page_id", ""), ("data_sources", "dataSources")];
        Some(element_in(read, "interface", &element).matches(plan, &renamed))
    }
}
