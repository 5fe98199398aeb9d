use pipefy::pipes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::readback;
use crate::tools::shared::{COLORS, no_nulls, send};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes name, icon, color or preferences of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePipe {
    pipe_id: CheckedId,
    #[serde(flatten)]
    changes: Changes,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Changes {
    #[serde(default)]
    name: Option<String>,
    /// Pipefy's name of it, e.g. car.
    #[serde(default)]
    icon: Option<String>,
    /// A name, e.g. blue.
    #[serde(default)]
    color: Option<String>,
    /// Keys of RepoPreferenceInput.
    #[serde(default)]
    preferences: Option<Map<String, Value>>,
}

impl Write for UpdatePipe {
    const OP: Op = Op::write("update_pipe", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let changes = no_nulls(&self.changes);
        if changes.is_empty() {
            return Err(ToolError::invalid("Give at least one of name, icon, color, preferences."));
        }
        let pipe_id = self.pipe_id.to_string();
        let before = if call.options.dry_run {
            call.query(pipes::get_pipe(&pipe_id)).await.ok().map(|data| data.value())
        } else {
            None
        };
        let mut input = Map::new();
        input.insert("id".to_owned(), pipe_id.clone().into());
        input.extend(changes);
        let mut plan = Plan::new(pipe_id).then(pipes::update_pipe(input));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let hint = format!("{COLORS}; preferences takes findable, inboxEmailEnabled and mainTabViews (a list).");
        let explain = Explain::doing("update pipe").about("pipe", &plan.keep).hint(&hint);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Pipe updated."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let read = call.query(pipes::get_pipe(&plan.keep)).await;
        Some(readback::thing(read, "pipe").matches(plan, &[]))
    }
}
