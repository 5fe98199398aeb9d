use pipefy::labels;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::color::hex_color;
use crate::tools::shared::{extra_keys, required_text, send};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes a label; Pipefy wants name and color every time.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateLabel {
    label_id: CheckedId,
    name: String,
    /// Hex: #RGB or #RRGGBB.
    color: String,
    /// Further keys of UpdateLabelInput.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for UpdateLabel {
    const OP: Op = Op::write("update_label", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("label_id", IdKind::Label)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let color = hex_color(required_text("color", &self.color)?)?;
        let label_id = self.label_id.to_string();
        let mut input = Map::new();
        input.insert("id".to_owned(), label_id.clone().into());
        input.extend(extra_keys(self.extra_input, &["id", "label_id", "name", "color"]));
        input.insert("name".to_owned(), name.into());
        input.insert("color".to_owned(), color.into());
        Ok(Plan::new(label_id).then(labels::update_label(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update label").about("label", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Label updated."))
    }

    async fn verify(_: &Plan<String>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown("labels are read by pipe, and this call names none; read get_labels of its pipe"))
    }
}
