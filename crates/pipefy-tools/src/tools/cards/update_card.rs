use pipefy::{Id, cards};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::readback;
use crate::tools::cards::values::{self, FieldValues};
use crate::tools::definitions::is_ambiguous_date;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Changes a card: either several fields (`field_updates`, which wins) or title, assignees, labels and due date. Both lists
/// replace what was there; [] clears.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateCard {
    card_id: CheckedId,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    assignee_ids: Option<Vec<Id>>,
    #[serde(default)]
    label_ids: Option<Vec<Id>>,
    /// ISO 8601.
    #[serde(default)]
    due_date: Option<String>,
    /// [{field_id, value, operation?}]; operation ADD or REMOVE changes items of a list field (connector: card ids),
    /// REPLACE (default) the whole value.
    #[serde(default)]
    field_updates: Option<Vec<Map<String, Value>>>,
}

pub(crate) enum Change {
    Attributes { card_id: String, warning: Option<String> },
    Fields(FieldValues),
}

/// What values that Pipefy refuses may be.
const HINT: &str = "due_date takes YYYY-MM-DD or a date-time with offset, label_ids those of `get_labels`, assignee_ids user ids \
                    of `get_pipe_members`.";

impl Write for UpdateCard {
    const OP: Op = Op::write("update_card", Domain::Workflow, Shape::Raw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Manager, Persona::Operator])
        .no_output_schema()
        .touches(&[
            IdArg::new("card_id", IdKind::Card),
            IdArg::within("label_ids", IdKind::Label),
            IdArg::within("assignee_ids", IdKind::Member),
        ]);
    type Keep = Change;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Change>, ToolError> {
        let id = self.card_id.to_string();
        let before = if call.options.dry_run { values::card_before(call, &id).await } else { None };
        let mut plan = match self.field_updates.filter(|list| !list.is_empty()) {
            Some(updates) => {
                let values = FieldValues::from_updates(&id, &updates)?;
                let mutations = values.mutations();
                mutations.into_iter().fold(Plan::new(Change::Fields(values)), Plan::then)
            }
            None => {
                let mut input = Map::new();
                let warning = self.due_date.as_deref().filter(|date| is_ambiguous_date(date)).map(|_| {
                    "due_date was sent as given; day and month may be read either way, use YYYY-MM-DD.".to_owned()
                });
                input.insert("id".to_owned(), id.clone().into());
                input.extend(self.title.map(|title| ("title".to_owned(), title.into())));
                let ids = |list: Vec<Id>| list.into_iter().map(|id| Value::from(String::from(id))).collect::<Value>();
                input.extend(self.assignee_ids.map(|list| ("assignee_ids".to_owned(), ids(list))));
                input.extend(self.label_ids.map(|list| ("label_ids".to_owned(), ids(list))));
                input.extend(self.due_date.map(|date| ("due_date".to_owned(), date.into())));
                Plan::new(Change::Attributes { card_id: id, warning }).then(cards::update_card(input))
            }
        };
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<Change>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (id, warning) = match &plan.keep {
            Change::Fields(values) => return values.send(plan, act).await,
            Change::Attributes { card_id, warning, .. } => (card_id, warning.clone()),
        };
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let explain = Explain::doing("update card").about("card", id).hint(HINT);
        let data = act.send(mutation).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).extra_opt("warning", warning))
    }

    async fn verify(plan: &Plan<Change>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = match &plan.keep {
            Change::Attributes { card_id, .. } => card_id,
            Change::Fields(values) => return Some(values.verify(call).await),
        };
        let read = call.query(cards::get_card(id, false)).await;
        Some(readback::thing(read, "card").matches(plan, &[("assignee_ids", "assignees"), ("label_ids", "labels")]))
    }
}
