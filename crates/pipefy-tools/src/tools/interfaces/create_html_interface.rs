use pipefy::interfaces;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::binding;
use super::write_interface_html::html;
use crate::readback::Found;
use crate::tools::observability::organization;
use crate::tools::portals::{element_in, failure, with_uuid};
use crate::tools::shared::{given, list_at, required_text, text_of};
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write, dig, unknown,
};

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Color {
    Blue,
    Cyan,
    Gray,
    Green,
    Indigo,
    Lime,
    Pink,
    Purple,
    Orange,
    Red,
    Sky,
    Yellow,
}

fn blue() -> Color {
    Color::Blue
}

/// Creates an HTML interface with one page and writes its HTML; read get_interface_html_guidelines first.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateHtmlInterface {
    /// Uuid or number.
    organization_uuid: CheckedId,
    name: String,
    html: String,
    #[serde(default = "blue")]
    color: Color,
    /// As in set_interface_sources.
    #[serde(default)]
    data_sources: Option<Vec<Map<String, Value>>>,
}

const NO_REPO: &str = "A `repoId` in data_sources was not found, or the organization was not; `list_interface_repos` lists what can be bound.";

impl Write for CreateHtmlInterface {
    const OP: Op = Op::write("create_html_interface", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)]);
    type Keep = ();

    async fn plan(self, call: &Call<'_>) -> Result<Plan, ToolError> {
        let name = required_text("name", &self.name)?;
        let html = html("html", self.html)?;
        let bindings = binding::checked(self.data_sources.unwrap_or_default())?;
        let uuid = organization::uuid_of(call, &self.organization_uuid).await?;
        let sources: Vec<Value> = bindings.iter().map(binding::Binding::wire).collect();
        let page = json!({
            "title": name, "layout": "[]",
            "elements": [{ "type": "customCode", "metadata": "{}", "dataSources": sources }],
        });
        let create = given([
            ("org_uuid", Some(uuid.into())),
            ("name", Some(name.into())),
            ("color", serde_json::to_value(self.color).ok()),
            ("contentModeHtml", Some(true.into())),
            ("pages", Some(Value::Array(vec![page]))),
        ]);
        let write = given([
            ("page_id", Some(unknown("the page that was created"))),
            ("element_id", Some(unknown("the element that was created"))),
            ("content", Some(html)),
        ]);
        Ok(Plan::new(()).then(interfaces::create_interface(create)).then(interfaces::write_html_document(write)))
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let mut steps = plan.mutations();
        let (Some(create), Some(write)) = (steps.next(), steps.next()) else {
            return Err(ToolError::internal("the plan lacks a step"));
        };
        let doing = "create the HTML interface";
        let data = act.send(create).await.map_err(|e| failure::of_sources(e, Some(doing), NO_REPO))?;
        let mut interface = data
            .value()
            .get_mut("createInterface")
            .and_then(|payload| payload.get_mut("interface"))
            .map(Value::take)
            .unwrap_or_default();
        let Some(uuid) = text_of(interface.get("id")) else {
            return Err(ToolError::api(
                "Could not create the HTML interface: createInterface gave none back. Look with list_interfaces before repeating.",
            ));
        };
        let first = |parent: &Value, key: &str| list_at(parent, key).first().cloned().unwrap_or_default();
        let page = first(&interface, "pages");
        let ids = (text_of(page.get("id")), text_of(first(&page, "elements").get("id")));
        let (Some(page_id), Some(element_id)) = ids else {
            return Err(ToolError::api(format!(
                "The interface {uuid} may exist, but Pipefy named no page or element of it. Check it with get_interface_html and \
                 do not call create_html_interface again: it would create a second one."
            ))
            .detail("uuid", uuid));
        };
        let mut write = write.clone();
        if let Some(Value::Object(input)) = write.variables_mut().get_mut("input") {
            input.insert("page_id".to_owned(), page_id.as_str().into());
            input.insert("element_id".to_owned(), element_id.as_str().into());
        }
        act.send(&write).await.map_err(|error| {
            let failed = failure::of_write(error, "write the HTML", None);
            let message = format!(
                "{}\n\nThe interface already exists, with a blank page: write it with write_interface_html and these ids. Do not \
                 create it again.",
                failed.message
            );
            failed.message(message).detail("uuid", uuid).detail("page_id", page_id).detail("element_id", element_id)
        })?;
        with_uuids(&mut interface);
        Ok(Outcome::new(interface).parsed(true))
    }

    async fn verify(plan: &Plan, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let interface = outcome.body.value();
        let page = list_at(&interface, "pages").first()?;
        let element = text_of(list_at(page, "elements").first()?.get("id"))?;
        let written = plan.mutations().nth(1)?.operation().variables.get("input")?.get("content")?;
        let read = call.query(interfaces::get_html_interface(&text_of(interface.get("uuid"))?)).await;
        Some(match element_in(read, "interface", &element) {
            Found::Thing(shown) => {
                let same = dig(&shown, "htmlDocument.content") == Some(written);
                Verification::of(same, "compared the HTML")
            }
            other => other.there("element"),
        })
    }
}

fn with_uuids(interface: &mut Value) {
    use crate::tools::portals::things;
    with_uuid(interface);
    for page in things(interface, "pages") {
        things(page, "elements");
    }
}
