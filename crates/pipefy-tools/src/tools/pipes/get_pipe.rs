use pipefy::{documents, pipes};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one pipe: phases with card counts and field ids, labels, start form fields, start form phase.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipe {
    pipe_id: CheckedId,
}

impl Read for GetPipe {
    const OP: Op = Op::read("get_pipe", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .selects(&documents::pipes::GET_PIPE, "pipe");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(pipes::get_pipe(&self.pipe_id))
            .await
            .map_err(|e| Explain::doing("load pipe").about("pipe", &self.pipe_id).map(call, e))?;
        Ok(Outcome::new(data))
    }
}
