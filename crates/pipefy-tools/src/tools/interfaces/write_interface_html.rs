use pipefy::interfaces;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::portals::failure;
use crate::tools::shared::{given, send};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Writes the whole HTML of a customCode element and publishes it; read get_interface_html_guidelines first.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteInterfaceHtml {
    page_id: CheckedId,
    element_id: CheckedId,
    content: String,
}

impl Write for WriteInterfaceHtml {
    const OP: Op = Op::write("write_interface_html", Domain::Interfaces, Shape::Text)
        .touches(&[IdArg::new("page_id", IdKind::Interface), IdArg::new("element_id", IdKind::Interface)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let element_id = self.element_id.to_string();
        let input = given([
            ("page_id", Some(self.page_id.as_str().into())),
            ("element_id", Some(element_id.as_str().into())),
            ("content", Some(html("content", self.content)?)),
        ]);
        Ok(Plan::new(element_id).then(interfaces::write_html_document(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let doing = format!("write the HTML of element {}", plan.keep);
        let data = send(plan, act).await.map_err(|e| failure::of_write(e, &doing, None))?;
        Ok(Outcome::new(data).parsed(true))
    }

    async fn verify(_: &Plan<String>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown("HTML is read by interface, and this call names none; read get_interface_html"))
    }
}

/// A document, moved: it is sent as it is given, but not blank.
pub(super) fn html(argument: &str, document: String) -> Result<Value, ToolError> {
    if document.trim().is_empty() {
        return Err(ToolError::invalid(format!("`{argument}` must not be blank.")));
    }
    Ok(Value::String(document))
}
