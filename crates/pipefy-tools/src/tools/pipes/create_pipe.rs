use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::readback;
use crate::tools::shared::{required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Reach, Shape, ToolError,
    Verification, Write, dig,
};

/// Creates an empty pipe in an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePipe {
    name: String,
    organization_id: CheckedId,
}

impl Write for CreatePipe {
    const OP: Op = Op::write("create_pipe", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)])
        .reaches(Reach::Organization);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let organization_id = self.organization_id.to_string();
        let mutation = pipes::create_pipe(name, &organization_id);
        Ok(Plan::new(organization_id).then(mutation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create pipe").about("organization", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Pipe created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createPipe.pipe.id"))?;
        let read = call.query(pipes::get_pipe(&id)).await;
        Some(readback::thing(read, "pipe").matches(plan, &[("organization_id", "")]))
    }
}
