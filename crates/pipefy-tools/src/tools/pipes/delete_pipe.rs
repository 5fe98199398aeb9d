use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::container::{Container, Named};
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Deletes a pipe with its phases and cards for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePipe {
    pipe_id: CheckedId,
}

const PIPE: Container =
    Container { noun: "pipe", argument: "pipe_id", get: pipes::get_pipe, delete: pipes::delete_pipe };

impl Write for DeletePipe {
    const OP: Op = Op::destructive("delete_pipe", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Named;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Named>, ToolError> {
        PIPE.plan(&self.pipe_id, call).await
    }

    async fn act(plan: &Plan<Named>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        PIPE.act(plan, act).await
    }

    async fn verify(plan: &Plan<Named>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(PIPE.verify(plan, call).await)
    }
}
