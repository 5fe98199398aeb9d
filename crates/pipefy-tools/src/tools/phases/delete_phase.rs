use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join4};
use futures_util::stream;
use pipefy::{automations, phases, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::paging::counted;
use crate::tools::shared::{list_at, send, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Rules read at the same time for a preview.
const AT_ONCE: usize = 8;
/// Rules asked for per page.
const PAGE: i64 = 50;

/// Deletes a phase with its cards and fields for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePhase {
    phase_id: CheckedId,
    /// Its pipe: the preview then counts what would go with it.
    #[serde(default)]
    pipe_id: Option<CheckedId>,
}

pub(crate) struct Keep {
    phase_id: String,
    pipe_id: Option<String>,
}

impl Write for DeletePhase {
    const OP: Op = Op::destructive("delete_phase", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase), IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let phase_id = self.phase_id.to_string();
        let mutation = phases::delete_phase(&phase_id);
        let identity = json!({ "phase_id": phase_id });
        let confirmation = Confirmation::delete(format!("phase (ID: {phase_id})"), identity);
        let pipe_id = self.pipe_id.map(|id| id.to_string());
        Ok(Plan::new(Keep { phase_id, pipe_id }).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete phase").about("phase", &plan.keep.phase_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Phase deleted."))
    }

    async fn dependents(plan: &Plan<Keep>, call: &Call<'_>) -> Option<Map<String, Value>> {
        let Keep { phase_id, pipe_id } = &plan.keep;
        let pipe_id = pipe_id.as_deref()?;
        let (conditions, rules, cards, fields) = join4(
            conditions_of(call, phase_id),
            rules_of(call, pipe_id, phase_id),
            cards_of(call, phase_id),
            fields_of(call, phase_id),
        )
        .await;
        Some(summary(conditions, rules, cards, fields))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(phases::get_phase_cards_count(&plan.keep.phase_id)).await {
            Ok(data) if data.value().get("phase").is_some_and(|phase| !phase.is_null()) => {
                Verification::of(false, "the phase can still be read")
            }
            Ok(_) => Verification::of(true, "the phase can no longer be read"),
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") || e.has_code("PERMISSION_DENIED") => {
                Verification::of(true, "the phase is removed or no longer accessible")
            }
            Err(e) => Verification::unknown(e.to_string()),
        })
    }
}

/// Automations that mention the phase, and whether some could not be looked at.
#[derive(Default)]
struct Rules {
    found: Vec<Value>,
    partial: bool,
}

async fn conditions_of(call: &Call<'_>, phase_id: &str) -> Vec<Value> {
    match call.query(pipes::get_phase_conditions(phase_id)).await {
        Ok(data) => list_at(&data.value(), "phase.fieldConditions").iter().map(id_and_name).collect(),
        Err(_) => Vec::new(),
    }
}

async fn cards_of(call: &Call<'_>, phase_id: &str) -> Option<i64> {
    let data = call.query(phases::get_phase_cards_count(phase_id)).await.ok()?;
    text_of(dig(&data.value(), "phase.cards_count"))?.trim().parse().ok()
}

async fn fields_of(call: &Call<'_>, phase_id: &str) -> Option<usize> {
    let data = call.query(pipes::get_phase_fields(phase_id)).await.ok()?;
    dig(&data.value(), "phase.fields").and_then(Value::as_array).map(Vec::len)
}

/// `None` when the organisation of the pipe is not known.
async fn rules_of(call: &Call<'_>, pipe_id: &str, phase_id: &str) -> Option<Rules> {
    let data = call.query(automations::pipe_organization_id(pipe_id)).await.ok()?;
    let organization = text_of(dig(&data.value(), "pipe.organizationId"))?;
    let rows = counted(call, usize::MAX, "automations.nodes", "automations.pageInfo", |after| {
        automations::get_automations_of_repo(&organization, pipe_id, Some(PAGE), after)
    })
    .await;
    let mut rules = Rules { found: Vec::new(), partial: rows.partial };
    let ids: Vec<String> = rows.items.iter().filter_map(|rule| text_of(rule.get("id"))).collect();
    let details: Vec<BoxFuture<'_, Option<Value>>> = ids.into_iter().map(|id| detail(call, id)).collect();
    let details: Vec<Option<Value>> = stream::iter(details).buffered(AT_ONCE).collect().await;
    for detail in details {
        match detail {
            Some(rule) if mentions(&rule, phase_id) => rules.found.push(id_and_name(&rule)),
            Some(_) => {}
            None => rules.partial = true,
        }
    }
    Some(rules)
}

fn detail<'a>(call: &'a Call<'_>, id: String) -> BoxFuture<'a, Option<Value>> {
    Box::pin(async move {
        let data = call.query(automations::get_automation(&id)).await.ok()?;
        data.value().get("automation").filter(|rule| rule.is_object()).cloned()
    })
}

fn mentions(rule: &Value, phase_id: &str) -> bool {
    const PLACES: [&str; 6] = [
        "event_params.fromPhaseId",
        "event_params.inPhaseId",
        "event_params.to_phase_id",
        "event_params.phase.id",
        "action_params.to_phase_id",
        "action_params.phase.id",
    ];
    PLACES.iter().any(|place| text_of(dig(rule, place)).as_deref() == Some(phase_id))
}

fn id_and_name(thing: &Value) -> Value {
    json!({ "id": thing.get("id"), "name": thing.get("name") })
}

fn summary(
    conditions: Vec<Value>,
    rules: Option<Rules>,
    cards: Option<i64>,
    fields: Option<usize>,
) -> Map<String, Value> {
    let rules = rules.unwrap_or_default();
    let mut parts = Vec::new();
    parts.extend(cards.map(|n| format!("{n} card(s)")));
    parts.extend(fields.map(|n| format!("{n} phase field(s)")));
    if !conditions.is_empty() {
        parts.push(format!("{} field condition(s)", conditions.len()));
    }
    if !rules.found.is_empty() {
        let at_least = if rules.partial { "at least " } else { "" };
        parts.push(format!("{at_least}{} automation(s)", rules.found.len()));
    }
    let mut summary = Map::new();
    if parts.is_empty() && !rules.partial {
        return summary;
    }
    let mut hint = match parts.as_slice() {
        [] => "Deleting the phase is irreversible.".to_owned(),
        [one] => format!("Deleting the phase removes or breaks {one}; this is irreversible."),
        [most @ .., last] => {
            format!("Deleting the phase removes or breaks {} and {last}; this is irreversible.", most.join(", "))
        }
    };
    if rules.partial {
        hint.push_str(" Not every automation could be read, so their number is a lower bound.");
    }
    if !conditions.is_empty() {
        summary.insert("field_conditions".to_owned(), conditions.into());
    }
    if !rules.found.is_empty() {
        summary.insert("automations".to_owned(), rules.found.into());
    }
    if rules.partial {
        summary.insert("automations_partial".to_owned(), true.into());
    }
    summary.extend(cards.map(|n| ("cards_count".to_owned(), n.into())));
    summary.extend(fields.map(|n| ("phase_fields_count".to_owned(), n.into())));
    summary.insert("hint".to_owned(), hint.into());
    summary
}
