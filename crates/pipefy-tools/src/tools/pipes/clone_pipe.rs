use std::time::Duration;

use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::{list_at, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Reach, Shape, ToolError,
    Verification, Write, dig,
};

/// Copies a pipe. The copy is built after the answer: until get_pipe shows its phases it is not ready. Its fields keep the
/// template's slugs but get new ids, so use ids read from the copy. verify waits (up to 30 s) and shows old next to new ids.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ClonePipe {
    pipe_template_id: CheckedId,
    /// Default: the template's.
    #[serde(default)]
    organization_id: Option<CheckedId>,
}

impl Write for ClonePipe {
    const OP: Op = Op::write("clone_pipe", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_template_id", IdKind::Pipe), IdArg::new("organization_id", IdKind::Organization)])
        .reaches(Reach::Organization);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let template = self.pipe_template_id.to_string();
        let mutation = pipes::clone_pipe(&template, self.organization_id.as_deref());
        Ok(Plan::new(template).then(mutation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("clone pipe").about("pipe", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let value = data.value();
        let ready = list_at(&value, "clonePipes.pipes").iter().all(|pipe| !list_at(pipe, "phases").is_empty());
        let message = if ready {
            "Pipe cloned."
        } else {
            "Pipe cloned; when it was answered, its phases were still being copied. `verification` says whether they are there \
             now; without `verify`, read `get_pipe` until they are. Use the copy's own ids."
        };
        Ok(Outcome::new(data).message(message))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let value = outcome.body.value();
        let copy = text_of(list_at(&value, "clonePipes.pipes").first()?.get("id"))?;
        let template = match call.query(pipes::get_pipe(&plan.keep)).await {
            Ok(data) => data.value(),
            Err(error) => return Some(Verification::unknown(error.to_string())),
        };
        if dig(&template, "pipe.id").is_none() {
            return Some(Verification::unknown("the template could not be read back"));
        }
        let wanted = list_at(&template, "pipe.phases").len();
        let mut seen = None;
        for pause in [0, 1, 2, 4, 8, 15] {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            if call.budget.is_over() {
                break;
            }
            let Ok(data) = call.query(pipes::get_pipe(&copy)).await else { continue };
            let cloned = data.value();
            if dig(&cloned, "pipe.id").is_none() {
                continue;
            }
            let phases = list_at(&cloned, "pipe.phases").len();
            seen = Some(phases);
            if phases >= wanted {
                let note =
                    format!("ready: all {wanted} phases of the template are there; `ids` has old next to new ids");
                return Some(Verification::of(true, note).fact("ids", pairs(&template, &cloned)));
            }
        }
        Some(match seen {
            Some(seen) => Verification::of(
                false,
                format!("not ready: {seen} of {wanted} phases are there; read `get_pipe` later"),
            ),
            None => Verification::unknown("the copy could not be read back"),
        })
    }
}

/// Pipe, phases, fields and labels of the template next to those of the copy, in their order: `{from, to}` ids of each.
fn pairs(template: &Value, copy: &Value) -> Value {
    let both = |path: &str| list_at(template, path).iter().zip(list_at(copy, path));
    let ids = |old: &Value, new: &Value, key: &str| json!({ "from": old.get(key), "to": new.get(key) });
    let fields = |old: &[Value], new: &[Value]| -> Value {
        let field = |(old, new): (&Value, &Value)| json!({ "slug": new.get("id"), "internal_id": ids(old, new, "internal_id") });
        old.iter().zip(new).map(field).collect()
    };
    let phases = both("pipe.phases").map(|(old, new)| {
        let fields = fields(list_at(old, "fields"), list_at(new, "fields"));
        json!({ "name": new.get("name"), "id": ids(old, new, "id"), "fields": fields })
    });
    let labels = both("pipe.labels").map(|(old, new)| json!({ "name": new.get("name"), "id": ids(old, new, "id") }));
    let (old, new) = (dig(template, "pipe").unwrap_or(template), dig(copy, "pipe").unwrap_or(copy));
    json!({
        "pipe": ids(old, new, "id"),
        "start_form_phase": ids(old, new, "startFormPhaseId"),
        "start_form_fields": fields(list_at(old, "start_form_fields"), list_at(new, "start_form_fields")),
        "phases": phases.collect::<Vec<_>>(),
        "labels": labels.collect::<Vec<_>>(),
    })
}
