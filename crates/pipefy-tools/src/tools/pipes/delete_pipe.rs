use pipefy::{Error, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::shared::{send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, debug_suffix, dig,
};

/// Deletes a pipe with its phases and cards for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePipe {
    pipe_id: CheckedId,
}

pub(crate) struct Pipe {
    id: String,
    name: String,
}

impl Write for DeletePipe {
    const OP: Op = Op::destructive("delete_pipe", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Pipe;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Pipe>, ToolError> {
        let id = self.pipe_id.to_string();
        let data = call.query(pipes::get_pipe(&id)).await.map_err(|e| failed(call, e, &id, "Unknown"))?;
        let value = data.value();
        let name = text_of(dig(&value, "pipe.name")).unwrap_or_else(|| "Unknown".to_owned());
        let confirmation = Confirmation::delete(format!("pipe '{name}' (ID: {id})"), json!({ "pipe_id": id }));
        let mutation = pipes::delete_pipe(&id);
        Ok(Plan::new(Pipe { id, name }).then(mutation).before(value).confirm(confirmation))
    }

    async fn act(plan: &Plan<Pipe>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Pipe { id, name } = &plan.keep;
        send(plan, act).await.map_err(|e| failed(act, e, id, name))?;
        Ok(Outcome::new(json!({ "pipe_id": id }))
            .message(format!("Pipe '{name}' (ID: {id}) has been permanently deleted.")))
    }

    async fn verify(plan: &Plan<Pipe>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(pipes::get_pipe(&plan.keep.id)).await {
            Ok(data) if data.value().get("pipe").is_some_and(|pipe| !pipe.is_null()) => {
                Verification::of(false, "the pipe can still be read")
            }
            Ok(_) => Verification::of(true, "the pipe can no longer be read"),
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") || e.has_code("PERMISSION_DENIED") => {
                Verification::of(true, "the pipe is removed or no longer accessible")
            }
            Err(e) => Verification::unknown(e.to_string()),
        })
    }
}

/// A failure by the first code that is known; a time-out keeps its own text.
fn failed(call: &Call<'_>, error: Error, id: &str, name: &str) -> ToolError {
    let codes: Vec<String> = error.codes().into_iter().map(str::to_owned).collect();
    let message = match &error {
        Error::Graphql { .. } | Error::Declined { .. } | Error::NoPayload { .. } => {
            let known = codes.iter().find_map(|code| match code.as_str() {
                "RESOURCE_NOT_FOUND" => {
                    Some(format!("Pipe {id} not found. Check that it exists and that this account has access."))
                }
                "PERMISSION_DENIED" => Some(format!("No permission to delete pipe {id}.")),
                "RECORD_NOT_DESTROYED" => Some(format!(
                    "Pipe '{name}' (ID: {id}) could not be deleted; try again or contact Pipefy's support."
                )),
                _ => None,
            });
            known.unwrap_or_else(|| {
                let codes = if codes.is_empty() { String::new() } else { format!(" Codes: {}", codes.join(", ")) };
                format!("Pipe '{name}' (ID: {id}) was not deleted: {error}{codes}")
            })
        }
        other => other.to_string(),
    };
    let suffix = if call.debug() { debug_suffix(&codes, error.correlation_id()) } else { String::new() };
    ToolError::from(error).message(message + &suffix)
}
