use std::time::Duration;

use pipefy::{cards, labels, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::paging::{Counted, counted};
use crate::readback;
use crate::tools::shared::{send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Cards shown in a preview.
const SAMPLE: usize = 5;
/// Pipefy's label index lags behind; an empty answer is asked for once more after this time.
const LAG: Duration = Duration::from_millis(1_500);

/// Deletes a label for good; cards lose it without notice.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteLabel {
    label_id: CheckedId,
    /// Its pipe: the preview then shows cards that use it.
    #[serde(default)]
    pipe_id: Option<CheckedId>,
}

pub(crate) struct Keep {
    label_id: String,
    pipe_id: Option<String>,
}

impl Write for DeleteLabel {
    const OP: Op = Op::destructive("delete_label", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("label_id", IdKind::Label), IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let label_id = self.label_id.to_string();
        let mutation = labels::delete_label(&label_id);
        let confirmation = Confirmation::delete(format!("label (ID: {label_id})"), json!({ "label_id": label_id }));
        let pipe_id = self.pipe_id.map(|id| id.to_string());
        Ok(Plan::new(Keep { label_id, pipe_id }).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete label").about("label", &plan.keep.label_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Label deleted."))
    }

    async fn dependents(plan: &Plan<Keep>, call: &Call<'_>) -> Option<Map<String, Value>> {
        let Keep { label_id, pipe_id } = &plan.keep;
        let pipe_id = pipe_id.as_deref()?;
        let mut using = using(call, pipe_id, label_id).await;
        if using.items.is_empty() {
            tokio::time::sleep(LAG).await;
            using = self::using(call, pipe_id, label_id).await;
        }
        if using.items.is_empty() {
            return None;
        }
        let more = using.partial || using.items.len() > SAMPLE;
        let ids = using.items.iter().filter_map(|edge| text_of(dig(edge, "node.id")).map(Value::from));
        let users: Vec<Value> = ids.take(SAMPLE).collect();
        let count = match users.len() {
            SAMPLE if more => format!("More than {SAMPLE} card(s)"),
            shown if more => format!("At least {shown} card(s)"),
            shown => format!("{shown} card(s)"),
        };
        let hint =
            format!("{count} use this label; deleting it removes it from them silently. Proceed if that is intended.");
        let sample = json!({
            "sample_size": users.len(), "sample_card_ids": users, "sample_cap": SAMPLE, "has_more": more,
        });
        let mut dependents = Map::new();
        dependents.insert("cards_using_label".to_owned(), sample);
        dependents.insert("hint".to_owned(), hint.into());
        Some(dependents)
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Some(pipe_id) = plan.keep.pipe_id.as_deref() else {
            return Some(Verification::unknown("labels are read by pipe, and this call names none; give pipe_id"));
        };
        let read = call.query(pipes::get_pipe(pipe_id)).await;
        Some(readback::item(read, "pipe.labels", &["id"], &plan.keep.label_id).gone("label"))
    }
}

/// Some cards with the label, more than are shown; none when they cannot be read.
async fn using(call: &Call<'_>, pipe_id: &str, label_id: &str) -> Counted {
    let mut search = Map::new();
    search.insert("label_ids".to_owned(), json!([label_id]));
    let more = SAMPLE as i64 + 1;
    counted(call, SAMPLE + 1, "cards.edges", "cards.pageInfo", |after| {
        cards::get_cards(pipe_id, &search, false, Some(more), after)
    })
    .await
}
