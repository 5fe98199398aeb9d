use pipefy::{documents, relations};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the relations of a pipe to parent and child pipes or tables, with their rules.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPipeRelations {
    pipe_id: CheckedId,
}

impl Read for GetPipeRelations {
    const OP: Op = Op::read("get_pipe_relations", Domain::Workflow, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .selects(&documents::relations::GET_PIPE_RELATIONS, "pipe");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load pipe relations").about("pipe", &self.pipe_id);
        let data = call.query(relations::get_pipe_relations(&self.pipe_id)).await.map_err(|e| explain.map(call, e))?;
        Ok(Outcome::new(data).message("Pipe relations loaded."))
    }
}
