use pipefy::{documents, members};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the members of a pipe with their roles and user ids.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeMembers {
    pipe_id: CheckedId,
}

impl Read for GetPipeMembers {
    const OP: Op = Op::read("get_pipe_members", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .selects(&documents::members::GET_PIPE_MEMBERS, "pipe.members");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(members::get_pipe_members(&self.pipe_id))
            .await
            .map_err(|e| Explain::doing("load pipe members").about("pipe", &self.pipe_id).map(call, e))?;
        Ok(Outcome::new(data))
    }
}
