use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the labels of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetLabels {
    pipe_id: CheckedId,
}

impl Read for GetLabels {
    const OP: Op = Op::read("get_labels", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load labels").about("pipe", &self.pipe_id);
        let data = call.query(pipes::get_pipe(&self.pipe_id)).await.map_err(|e| explain.map(call, e))?;
        let value = data.value();
        let pipe = value.get("pipe").filter(|pipe| !pipe.is_null()).ok_or_else(|| {
            ToolError::not_found(format!(
                "Pipe {} not found or access denied. Find the right one with `search_pipes`.",
                self.pipe_id
            ))
        })?;
        let labels = pipe.get("labels").filter(|labels| labels.is_array()).cloned().unwrap_or(Value::Array(Vec::new()));
        Ok(Outcome::new(json!({ "labels": labels })).message("Labels loaded."))
    }
}
