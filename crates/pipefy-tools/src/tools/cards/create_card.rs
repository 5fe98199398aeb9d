use pipefy::{Error, cards};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::readback::{self, Sent, asked};
use crate::tools::definitions::{self, Definition};
use crate::tools::form;
use crate::tools::permission::membership_lines;
use crate::tools::shared::{list_at, non_blank, strings, text_of};
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig,
};

/// Creates a card. Repeating it creates a second one. Clients that can show forms ask the user for the start form's fields
/// first.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateCard {
    pipe_id: CheckedId,
    #[serde(default)]
    title: Option<String>,
    /// Values by field id (slug), see get_start_form_fields.
    #[serde(default)]
    fields: Option<Map<String, Value>>,
    /// The form shows only required fields.
    #[serde(default)]
    required_fields_only: bool,
    /// Send `fields` without asking the user.
    #[serde(default)]
    skip_elicitation: bool,
    /// Create it in this phase; `fields` may then name its fields too.
    #[serde(default)]
    phase_id: Option<CheckedId>,
}

pub(crate) struct NewCard {
    pipe_id: String,
    phase_id: Option<String>,
    title: Option<String>,
    skipped: Vec<String>,
    /// Explains values of a wrong kind, should Pipefy refuse them.
    hints: String,
    warning: Option<String>,
}

impl Write for CreateCard {
    const OP: Op = Op::write("create_card", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Manager, Persona::Operator, Persona::Requester])
        .no_output_schema()
        .asks()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = NewCard;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<NewCard>, ToolError> {
        let what = "build the interactive form";
        let (start, phase) = match &self.phase_id {
            None => (definitions::start_form(call, &self.pipe_id, what).await?, Vec::new()),
            Some(phase_id) => {
                let reads = futures_util::future::join(
                    definitions::phase_form(call, phase_id, what),
                    definitions::start_form(call, &self.pipe_id, what),
                );
                let (phase, start) = reads.await;
                (start?, phase?.fields)
            }
        };
        let given = self.fields.clone().unwrap_or_default();
        let fields: Vec<&Definition> =
            definitions::editable(&start).into_iter().chain(definitions::editable(&phase)).collect();
        let (mut values, mut skipped) = if start.is_empty() && phase.is_empty() {
            (given.clone(), Vec::new())
        } else {
            definitions::sift(&given, &fields)
        };
        // Names that no field has are likelier to be mistakes than fields that cannot be written.
        skipped.sort_by_key(|id| start.iter().chain(&phase).any(|field| field.id == *id));
        if let Some(entered) = self.ask(call, &start, &given).await? {
            // What the form asked for comes first, in its order; the rest of what was given follows.
            let rest = std::mem::replace(&mut values, entered);
            for (id, value) in rest {
                values.entry(id).or_insert(value);
            }
            values.retain(|_, value| !value.is_null());
        } else if self.phase_id.is_some() {
            values = first(values, |id| start.iter().any(|field| field.id == *id));
        } else if self.required_fields_only {
            values = first(values, |id| fields.iter().any(|field| field.id == *id && field.required));
        }
        let title = non_blank(self.title.as_deref()).map(str::to_owned);
        let keep = NewCard {
            pipe_id: self.pipe_id.to_string(),
            phase_id: self.phase_id.as_ref().map(ToString::to_string),
            title,
            skipped,
            hints: definitions::id_hints(&values, &fields),
            warning: definitions::date_warning(&values, &fields),
        };
        let mut input = Map::new();
        input.insert("pipe_id".to_owned(), keep.pipe_id.clone().into());
        input.insert("fields_attributes".to_owned(), definitions::attributes(&values).into());
        input.extend(keep.phase_id.clone().map(|id| ("phase_id".to_owned(), id.into())));
        input.extend(keep.title.clone().map(|title| ("title".to_owned(), title.into())));
        Ok(Plan::new(keep).then(cards::create_card(input)))
    }

    async fn act(plan: &Plan<NewCard>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let data = match act.send(mutation).await {
            Ok(data) => data,
            Err(error) => return Err(explain(act, &plan.keep, error).await),
        };
        let value = data.value();
        let card = |key: &str| text_of(dig(&value, &format!("createCard.card.{key}")));
        let link = card("id").map(|id| {
            let url = format!("{}/open-cards/{id}", act.toolbox.base_url);
            format!("[{url}]({url})")
        });
        let shown = card("title");
        let title_warning = plan.keep.title.as_ref().filter(|asked| shown.as_ref() != Some(asked)).map(|asked| {
            let shown = shown.as_deref().unwrap_or_default();
            format!(
                "The title was not applied as expected: asked for '{asked}', got '{shown}'. The pipe may build titles from \
                 fields; change it with `update_card`."
            )
        });
        let skipped = (!plan.keep.skipped.is_empty()).then(|| strings(&plan.keep.skipped));
        Ok(Outcome::new(data)
            .extra_opt("card_link", link)
            .extra_opt("title_warning", title_warning)
            .extra_opt("skipped_field_ids", skipped)
            .extra_opt("warning", plan.keep.warning.clone()))
    }

    async fn verify(plan: &Plan<NewCard>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createCard.card.id"))?;
        let value = match call.query(cards::get_card(&id, false)).await {
            Ok(data) => data.value(),
            Err(error) => return Some(Verification::unknown(error.to_string())),
        };
        let phase = text_of(dig(&value, "card.current_phase.id"));
        let there = text_of(dig(&value, "card.id")).as_deref() == Some(&id);
        let placed = plan.keep.phase_id.is_none() || plan.keep.phase_id == phase;
        let place = phase.map_or_else(|| "no phase".to_owned(), |phase| format!("phase {phase}"));
        let note = format!("read back: card {id} in {place}");
        let input = asked(plan);
        let attributes = input.get("fields_attributes").map(|list| list_at(list, "")).unwrap_or_default();
        if !(there && placed) || attributes.is_empty() {
            return Some(Verification::of(there && placed, note));
        }
        let sent = attributes.iter().filter_map(|entry| {
            Some(Sent {
                field: entry.get("field_id")?.as_str()?,
                value: entry.get("field_value")?,
                operation: "REPLACE",
            })
        });
        let values = readback::values(call.query(cards::get_card_values(&id)).await, "card.fields", sent);
        Some(Verification { note: format!("{note}; {}", values.note), ..values })
    }
}

impl CreateCard {
    async fn ask(
        &self,
        call: &Call<'_>,
        start: &[Definition],
        given: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        let mut fields = definitions::editable(start);
        fields.retain(|field| field.required || !self.required_fields_only);
        if self.skip_elicitation || call.options.dry_run || (self.phase_id.is_some() && fields.is_empty()) {
            return Ok(None);
        }
        let place = self.phase_id.as_ref().map(|phase| format!(", phase {phase}")).unwrap_or_default();
        let message = format!("Creating a card in pipe {}{place}. Fill in its start form.", self.pipe_id);
        form::ask(call, &message, "card creation", &fields, given).await
    }
}

/// The values with those that `leads` names in front.
fn first(values: Map<String, Value>, leads: impl Fn(&str) -> bool) -> Map<String, Value> {
    let (front, back): (Vec<_>, Vec<_>) = values.into_iter().partition(|(id, _)| leads(id));
    front.into_iter().chain(back).collect()
}

/// Whether this account is a member of the pipe, and what kind of value a field takes.
async fn explain(call: &Call<'_>, card: &NewCard, error: Error) -> ToolError {
    let lines = membership_lines(call, &error, &[&card.pipe_id]).await;
    let silent = matches!(&error, Error::Graphql { errors, .. } if errors.iter().all(|e| {
        e.raw.get("message").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
    }));
    let text = if silent {
        "Failed to create card. Pipefy gave no reason, so it may exist all the same: read `get_cards` or \
         `get_phase_cards_count` first and do not blind-retry."
            .to_owned()
    } else {
        error.to_string()
    };
    let refused = matches!(&error, Error::Graphql { .. } | Error::Declined { .. });
    let hints = if refused { card.hints.as_str() } else { "" };
    ToolError::from(error).message(match lines {
        Some(lines) => format!("{lines}\n{text}{hints}"),
        None => format!("{text}{hints}"),
    })
}
