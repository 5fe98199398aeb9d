use pipefy::{phases, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::transitions::{self, TRANSITIONS};
use crate::readback;
use crate::tools::shared::{required_text, send, text_of};
use crate::tools::turns;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Adds a phase to a pipe. Its transitions are set in Pipefy's UI only.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePhase {
    pipe_id: CheckedId,
    name: String,
    /// Whether cards here are finished.
    #[serde(default)]
    done: bool,
    /// Sort key, not a position: 1.5 goes between 1 and 2. 0 hides the phase from get_pipe.
    #[serde(default)]
    index: Option<f64>,
    #[serde(default)]
    description: Option<String>,
}

impl Write for CreatePhase {
    const OP: Op = Op::write("create_phase", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let pipe_id = self.pipe_id.to_string();
        let mut input = Map::new();
        input.insert("pipe_id".to_owned(), pipe_id.clone().into());
        input.insert("name".to_owned(), name.into());
        input.insert("done".to_owned(), self.done.into());
        input.extend(self.index.map(|index| ("index".to_owned(), index.into())));
        input.extend(self.description.map(|text| ("description".to_owned(), text.into())));
        Ok(Plan::new(pipe_id).then(phases::create_phase(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create phase").about("pipe", &plan.keep);
        let turn = turns::at(&format!("pipe {}", plan.keep)).await;
        let sent = send(plan, act).await;
        drop(turn);
        let data = sent.map_err(|e| explain.map(act, e))?;
        let hint = match created(&data.value()) {
            Some(id) => match transitions::targets_in_words(act, &id).await {
                Some(targets) => format!("Cards may move from it to: {targets}. {TRANSITIONS}"),
                None => TRANSITIONS.to_owned(),
            },
            None => TRANSITIONS.to_owned(),
        };
        Ok(Outcome::new(data).message("Phase created.").extra("connection_hint", hint))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = created(&outcome.body.value())?;
        let read = call.query(pipes::get_phase_fields(&id)).await;
        Some(readback::thing(read, "phase").matches(plan, &[("pipe_id", "")]))
    }
}

fn created(value: &Value) -> Option<String> {
    text_of(dig(value, "createPhase.phase.id"))
}
