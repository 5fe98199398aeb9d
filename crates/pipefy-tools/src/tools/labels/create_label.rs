use pipefy::{labels, pipes};
use schemars::JsonSchema;
use serde::Deserialize;

use super::color::hex_color;
use crate::readback;
use crate::tools::shared::{required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Adds a label to a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateLabel {
    pipe_id: CheckedId,
    name: String,
    /// Hex: #RGB or #RRGGBB.
    color: String,
}

impl Write for CreateLabel {
    const OP: Op = Op::write("create_label", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let color = hex_color(required_text("color", &self.color)?)?;
        let pipe_id = self.pipe_id.to_string();
        let mutation = labels::create_label(&pipe_id, name, &color);
        Ok(Plan::new(pipe_id).then(mutation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create label").about("pipe", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Label created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createLabel.label.id"))?;
        let read = call.query(pipes::get_pipe(&plan.keep)).await;
        Some(readback::item(read, "pipe.labels", &["id"], &id).matches(plan, &[("pipe_id", "")]))
    }
}
