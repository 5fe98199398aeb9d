use futures_util::future::join_all;
use pipefy::{Error, fields, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::shared::{list_at, send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Levels of a condition that are searched for the field.
const DEPTH: usize = 16;

/// Deletes a field and its values for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePhaseField {
    /// Slug or uuid.
    field_id: CheckedId,
    /// Its pipe, where the slug exists in several.
    #[serde(default)]
    pipe_uuid: Option<String>,
    /// Its pipe: explains a failure better.
    #[serde(default)]
    pipe_id: Option<CheckedId>,
    /// Its phase: the preview then lists field conditions that use it.
    #[serde(default)]
    phase_id: Option<CheckedId>,
}

pub(crate) struct Keep {
    field_id: String,
    pipe_id: Option<String>,
    phase_id: Option<String>,
}

impl Write for DeletePhaseField {
    const OP: Op = Op::destructive("delete_phase_field", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[
            IdArg::new("field_id", IdKind::PhaseField),
            IdArg::new("pipe_uuid", IdKind::PipeUuid),
            IdArg::new("pipe_id", IdKind::Pipe),
            IdArg::new("phase_id", IdKind::Phase),
        ]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let field_id = self.field_id.to_string();
        let identity = json!({ "field_id": field_id, "pipe_uuid": self.pipe_uuid });
        let mutation = fields::delete_phase_field(&field_id, self.pipe_uuid.as_deref());
        let confirmation = Confirmation::delete(format!("phase field (ID: {field_id})"), identity);
        let keep = Keep {
            field_id,
            pipe_id: self.pipe_id.map(|id| id.to_string()),
            phase_id: self.phase_id.map(|id| id.to_string()),
        };
        Ok(Plan::new(keep).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        match send(plan, act).await {
            Ok(data) => Ok(Outcome::new(data).message("Field deleted.")),
            Err(error) => Err(explain(act, &plan.keep, error).await),
        }
    }

    async fn dependents(plan: &Plan<Keep>, call: &Call<'_>) -> Option<Map<String, Value>> {
        let phase_id = plan.keep.phase_id.as_deref()?;
        let fields = call.query(pipes::get_phase_fields(phase_id)).await.ok()?.value();
        let ids = list_at(&fields, "phase.fields").iter().map(ids_of).find(|ids| ids.contains(&plan.keep.field_id))?;
        let conditions = call.query(pipes::get_phase_conditions(phase_id)).await.ok()?.value();
        let users: Vec<Value> = list_at(&conditions, "phase.fieldConditions")
            .iter()
            .filter_map(|condition| {
                let actions = list_at(condition, "actions");
                let acts = actions
                    .iter()
                    .any(|action| text_of(action.get("phaseFieldId")).is_some_and(|id| ids.contains(&id)));
                let tests = condition.get("condition").is_some_and(|tree| uses(tree, &ids, DEPTH));
                (acts || tests).then(|| {
                    json!({ "id": condition.get("id"), "name": condition.get("name"), "action_count": actions.len() })
                })
            })
            .collect();
        if users.is_empty() {
            return None;
        }
        let hint = format!(
            "{} field condition(s) use this field and would be left broken; consider `delete_field_condition` first.",
            users.len()
        );
        let mut dependents = Map::new();
        dependents.insert("field_conditions".to_owned(), users.into());
        dependents.insert("hint".to_owned(), hint.into());
        Some(dependents)
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let phase_id = plan.keep.phase_id.as_deref()?;
        Some(match call.query(pipes::get_phase_fields(phase_id)).await {
            Ok(data) => {
                let value = data.value();
                let there = list_at(&value, "phase.fields").iter().any(|f| ids_of(f).contains(&plan.keep.field_id));
                Verification::of(!there, "looked for the field in its phase")
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}

fn ids_of(field: &Value) -> Vec<String> {
    ["internal_id", "uuid", "id"].iter().filter_map(|key| text_of(field.get(*key))).collect()
}

/// Whether a condition tree names one of these ids.
fn uses(tree: &Value, ids: &[String], depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    match tree {
        Value::Object(map) => map.iter().any(|(key, value)| {
            let names = matches!(key.as_str(), "field_address" | "phaseFieldId");
            (names && text_of(Some(value)).is_some_and(|id| ids.contains(&id))) || uses(value, ids, depth - 1)
        }),
        Value::Array(list) => list.iter().any(|value| uses(value, ids, depth - 1)),
        _ => false,
    }
}

/// A vague server error often means that the field went with its phase; that can be looked up.
async fn explain(call: &Call<'_>, keep: &Keep, error: Error) -> ToolError {
    let text = format!("{} {}", error, error.codes().join(" ")).to_lowercase();
    let vague = text.contains("internal_server_error") || text.contains("something went wrong");
    if let (true, Some(pipe_id)) = (vague, keep.pipe_id.as_deref())
        && is_gone(call, pipe_id, &keep.field_id).await
    {
        return ToolError::from(error).code("NOT_FOUND").message(format!(
            "Phase field {} no longer exists in pipe {pipe_id}; it was probably cascaded away with a phase that was \
             deleted earlier. Verify with `get_phase_fields`.",
            keep.field_id
        ));
    }
    Explain::doing("delete phase field").about("phase_field", &keep.field_id).map(call, error)
}

/// Whether no phase of the pipe that can be read has the field; `false` when the pipe cannot be read.
async fn is_gone(call: &Call<'_>, pipe_id: &str, field_id: &str) -> bool {
    let Ok(data) = call.query(pipes::get_pipe(pipe_id)).await else { return false };
    let pipe = data.value();
    if pipe.get("pipe").is_none_or(Value::is_null) {
        return false;
    }
    let phases: Vec<String> =
        list_at(&pipe, "pipe.phases").iter().filter_map(|phase| text_of(phase.get("id"))).collect();
    let reads = join_all(phases.iter().map(|id| call.query(pipes::get_phase_fields(id)))).await;
    !reads.into_iter().flatten().any(|data| {
        let value = data.value();
        list_at(&value, "phase.fields").iter().any(|field| ids_of(field).iter().any(|id| id == field_id))
    })
}
