//! Behaviours against a pipe, by reads only (`spec/tools-automation-ai.md`, 4.6).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use futures_util::future::{join_all, join3};
use pipefy::{agents, automations, knowledge_bases, pipes};
use serde_json::Value;

use super::behaviors::{ACTION_TYPES, Behavior, actions, field_map, metadata, params, text};
use super::pipe::{self, PipeFields};
use crate::tools::shared::{list_at, text_of};
use crate::{Call, ToolError, dig};

/// Longest time for one look-up.
const LIMIT: Duration = Duration::from_secs(30);
/// Other pipes looked at for one check.
const TARGETS: usize = 100;

/// Where transitions are configured.
pub(crate) const TRANSITIONS: &str = "Transitions are set in Pipefy's UI (pipe settings, phase, connections), not through the API; \
    `get_phase_allowed_move_targets` lists them.";

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What Pipefy would refuse.
    pub(crate) problems: Vec<String>,
    /// What could not be checked, or may surprise.
    pub(crate) warnings: Vec<String>,
}

/// A pipe as behaviours see it. What could not be read is `None`, and no verdict is built on it.
pub(crate) struct Context {
    pipe_id: String,
    fields: PipeFields,
    relations: Option<HashSet<String>>,
    events: Option<BTreeSet<String>>,
}

/// Reads what behaviours are checked against.
///
/// # Errors
/// The pipe itself cannot be read.
pub(crate) async fn load(call: &Call<'_>, pipe_id: &str) -> Result<Context, ToolError> {
    let (fields, relations, events) = join3(
        within(pipe::fields(call, pipe_id)),
        within(call.query(agents::pipe_relation_ids(pipe_id))),
        within(call.query(automations::get_automation_events())),
    )
    .await;
    let fields = fields.map_err(|failure| match failure {
        Late::TimedOut => {
            ToolError::new(crate::Kind::Transport, format!("Loading pipe {pipe_id} timed out; try again."))
        }
        Late::Failed(error) => {
            let message = format!("Pipe {pipe_id} could not be loaded: {error}");
            ToolError::from(error).message(message)
        }
    })?;
    let relations =
        relations.ok().map(|data| data.value()).filter(|v| v.get("pipe").is_some_and(Value::is_object)).map(|v| {
            let side = |list: &str, end: &str| -> Vec<String> {
                list_at(&v, list).iter().filter_map(|r| text_of(dig(r, end))).collect()
            };
            side("pipe.childrenRelations", "child.id")
                .into_iter()
                .chain(side("pipe.parentsRelations", "parent.id"))
                .collect()
        });
    let events = events.ok().map(|data| data.value()).map(|v| event_ids(&v)).filter(|ids| !ids.is_empty());
    Ok(Context { pipe_id: pipe_id.to_owned(), fields, relations, events })
}

/// The ids of the triggers in an answer.
pub(crate) fn event_ids(value: &Value) -> BTreeSet<String> {
    list_at(value, "automationEvents").iter().filter_map(|e| text_of(e.get("id"))).collect()
}

enum Late {
    TimedOut,
    Failed(pipefy::Error),
}

async fn within<T>(read: impl Future<Output = Result<T, pipefy::Error>>) -> Result<T, Late> {
    match tokio::time::timeout(LIMIT, read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(pipefy::Error::Timeout { .. })) | Err(_) => Err(Late::TimedOut),
        Ok(Err(error)) => Err(Late::Failed(error)),
    }
}

/// The whole check: context, other pipes, each behaviour, transitions, data sources.
///
/// # Errors
/// The pipe cannot be read, or too many other pipes are named.
pub(crate) async fn check(
    call: &Call<'_>,
    pipe_id: &str,
    behaviors: &[Behavior],
    strict: bool,
    data_sources: &[String],
) -> Result<Verdict, ToolError> {
    let context = load(call, pipe_id).await?;
    let mut verdict = Verdict::default();
    context.incomplete(&mut verdict);
    let mut targets = HashMap::new();
    if context.relations.is_none() {
        verdict
            .warnings
            .push(format!("The relations of pipe {pipe_id} could not be read, so connected pipes were not checked."));
    } else {
        targets = load_targets(call, &context, behaviors, &mut verdict).await?;
    }
    context.check(behaviors, &targets, strict, &mut verdict);
    transitions(call, behaviors, &mut verdict).await;
    sources(call, &context, behaviors, data_sources, &mut verdict).await;
    Ok(verdict)
}

/// The check of one pipe alone, to explain a refused save; other pipes stay unchecked.
pub(crate) async fn check_one(call: &Call<'_>, pipe_id: &str, behaviors: &[Behavior]) -> Result<Verdict, ToolError> {
    let context = load(call, pipe_id).await?;
    let mut verdict = Verdict::default();
    context.check(behaviors, &HashMap::new(), true, &mut verdict);
    transitions(call, behaviors, &mut verdict).await;
    Ok(verdict)
}

async fn load_targets(
    call: &Call<'_>,
    context: &Context,
    behaviors: &[Behavior],
    verdict: &mut Verdict,
) -> Result<HashMap<String, HashSet<String>>, ToolError> {
    let ids: BTreeSet<&str> = behaviors
        .iter()
        .flat_map(actions)
        .filter_map(|a| metadata(a, "pipeId"))
        .filter(|id| *id != context.pipe_id)
        .collect();
    if ids.len() > TARGETS {
        return Err(ToolError::refused_value(format!(
            "Too many distinct cross-pipe target pipes: {} (at most {TARGETS}). Check fewer behaviors at once.",
            ids.len()
        )));
    }
    let loaded = join_all(ids.iter().map(|id| within(pipe::fields(call, id)))).await;
    let mut targets = HashMap::new();
    for (id, fields) in ids.into_iter().zip(loaded) {
        match fields {
            Ok(fields) => {
                unread(&fields, id, verdict);
                // An incomplete list cannot prove that a field is missing.
                if fields.unread.is_empty() {
                    targets.insert(id.to_owned(), fields.ids);
                }
            }
            Err(_) => {
                verdict.warnings.push(format!("Target pipe {id} could not be loaded; its fields were not checked."))
            }
        }
    }
    Ok(targets)
}

fn unread(fields: &PipeFields, pipe_id: &str, verdict: &mut Verdict) {
    if !fields.unread.is_empty() {
        verdict.warnings.push(format!(
            "The fields of these phases of pipe {pipe_id} could not be read and were not checked: {}.",
            fields.unread.join(", ")
        ));
    }
}

impl Context {
    fn incomplete(&self, verdict: &mut Verdict) {
        unread(&self.fields, &self.pipe_id, verdict);
    }

    fn check(
        &self,
        behaviors: &[Behavior],
        targets: &HashMap<String, HashSet<String>>,
        strict: bool,
        verdict: &mut Verdict,
    ) {
        for (i, behavior) in behaviors.iter().enumerate() {
            let name = behavior.get("name").and_then(Value::as_str).unwrap_or("<unnamed>");
            let at = format!("Behavior [{i}] \"{name}\"");
            if let Some(phase) = event_phase(behavior)
                && !self.fields.phases.contains(phase)
            {
                verdict
                    .problems
                    .push(format!("{at}: eventParams.to_phase_id {phase} is not a phase of pipe {}.", self.pipe_id));
            }
            self.event(behavior, &at, verdict);
            for (j, action) in actions(behavior).iter().enumerate() {
                let kind = text(action, "actionType").unwrap_or("?");
                let at = format!("{at}, action [{j}] ({kind})");
                self.action(action, kind, &at, targets, strict, verdict);
            }
        }
    }

    fn event(&self, behavior: &Behavior, at: &str, verdict: &mut Verdict) {
        let event = behavior.get("eventId").and_then(Value::as_str).unwrap_or_default();
        match &self.events {
            None => verdict
                .warnings
                .push(format!("{at}: eventId '{event}' could not be verified: the triggers could not be read.")),
            Some(events) if !events.contains(event) => {
                let known: Vec<&str> = events.iter().map(String::as_str).collect();
                verdict.problems.push(format!("{at}: unknown eventId '{event}'. Valid: {}.", known.join(", ")));
            }
            Some(_) => {}
        }
    }

    fn action(
        &self,
        action: &Value,
        kind: &str,
        at: &str,
        targets: &HashMap<String, HashSet<String>>,
        strict: bool,
        verdict: &mut Verdict,
    ) {
        let given = text(action, "actionType").is_some_and(|t| !t.is_empty());
        if given && !ACTION_TYPES.contains(&kind) {
            let line = format!("{at}: unknown actionType. Known: {}.", ACTION_TYPES.join(", "));
            if strict {
                verdict.problems.push(line);
            } else {
                verdict.warnings.push(line);
            }
        }
        if kind == "move_card"
            && let Some(phase) = metadata(action, "destinationPhaseId")
            && !self.fields.phases.contains(phase)
        {
            verdict.problems.push(format!("{at}: destinationPhaseId {phase} is not a phase of pipe {}.", self.pipe_id));
        }
        match kind {
            "create_table_record" => verdict.warnings.push(format!(
                "{at}: field ids of tables are not checked here; compare them with get_table and get_table_record."
            )),
            "send_email_template" => {}
            _ => self.fields(action, at, targets, verdict),
        }
        if kind == "create_connected_card"
            && let (Some(relations), Some(pipe)) = (&self.relations, metadata(action, "pipeId"))
            && !relations.contains(pipe)
        {
            verdict.problems.push(format!(
                "{at}: pipe {pipe} is not connected with pipe {}. See get_pipe_relations; connect them with create_pipe_relation.",
                self.pipe_id
            ));
        }
        let has_list = |key: &str| {
            dig(action, "metadata").and_then(|m| m.get(key)).and_then(Value::as_array).is_some_and(|l| !l.is_empty())
        };
        if kind == "human_validation"
            && !has_list("emails")
            && metadata(action, "emails").is_none()
            && metadata(action, "title").is_none()
        {
            verdict.problems.push(format!("{at}: needs metadata.emails or metadata.title."));
        }
        if kind == "mcp_tool" {
            let missing: Vec<&str> =
                ["mcpServerId", "toolName"].into_iter().filter(|key| metadata(action, key).is_none()).collect();
            if !missing.is_empty() {
                verdict.problems.push(format!("{at}: needs metadata.{}.", missing.join(" and metadata.")));
            }
        }
    }

    fn fields(&self, action: &Value, at: &str, targets: &HashMap<String, HashSet<String>>, verdict: &mut Verdict) {
        let (known, whose) = match metadata(action, "pipeId").filter(|id| *id != self.pipe_id) {
            // Fields that could not be read prove nothing.
            None if self.fields.unread.is_empty() => (&self.fields.ids, "pipe fields".to_owned()),
            None => return,
            Some(id) => match targets.get(id) {
                Some(ids) => (ids, format!("target pipe {id} fields")),
                None => return,
            },
        };
        for (k, field) in field_map(action).iter().enumerate() {
            if let Some(id) = text(field, "fieldId").filter(|id| !known.contains(*id)) {
                verdict.problems.push(format!("{at}: fieldsAttributes[{k}].fieldId '{id}' is not among the {whose}."));
            }
        }
    }
}

fn event_phase(behavior: &Behavior) -> Option<&str> {
    behavior.get("eventParams").and_then(|p| text(p, "to_phase_id")).filter(|t| !t.is_empty())
}

/// A card that was just moved into a phase can only be moved on to where that phase leads.
async fn transitions(call: &Call<'_>, behaviors: &[Behavior], verdict: &mut Verdict) {
    let moving = |b: &&Behavior| b.get("eventId").and_then(Value::as_str) == Some("card_moved");
    let sources: BTreeSet<&str> = behaviors.iter().filter(moving).filter_map(event_phase).collect();
    let reads = join_all(sources.iter().map(|id| call.query(pipes::get_phase_allowed_move_targets(id)))).await;
    // A phase that cannot be read says nothing about where it leads.
    let phases: BTreeMap<&str, Value> = sources
        .into_iter()
        .zip(reads)
        .filter_map(|(id, read)| Some((id, read.ok()?.value().get("phase").filter(|p| p.is_object())?.clone())))
        .collect();
    for (i, behavior) in behaviors.iter().enumerate().filter(|(_, b)| moving(b)) {
        let Some((id, phase)) = event_phase(behavior).and_then(|id| phases.get_key_value(id)) else { continue };
        let allowed = list_at(phase, "cards_can_be_moved_to_phases");
        for (j, action) in actions(behavior).iter().enumerate() {
            if text(action, "actionType") != Some("move_card") {
                continue;
            }
            let Some(to) = metadata(action, "destinationPhaseId") else { continue };
            if allowed.iter().any(|p| text_of(p.get("id")).as_deref() == Some(to)) {
                continue;
            }
            let name = text_of(phase.get("name")).filter(|n| !n.is_empty()).unwrap_or_else(|| (*id).to_owned());
            verdict.problems.push(format!(
                "Behavior [{i}], action [{j}] (move_card): cards cannot move from phase '{name}' ({id}) to {to}. Valid destinations: {}. {TRANSITIONS}",
                destinations(allowed)
            ));
        }
    }
}

/// `Name (id)`, joined; `(none configured)` when there are none.
pub(crate) fn destinations(phases: &[Value]) -> String {
    if phases.is_empty() {
        return "(none configured)".to_owned();
    }
    let one = |phase: &Value| {
        let id = text_of(phase.get("id"))?;
        Some(match text_of(phase.get("name")).filter(|n| !n.is_empty()) {
            Some(name) => format!("{name} ({id})"),
            None => id,
        })
    };
    phases.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

async fn sources(call: &Call<'_>, context: &Context, behaviors: &[Behavior], given: &[String], verdict: &mut Verdict) {
    let own = behaviors
        .iter()
        .filter_map(|b| params(b)?.get("dataSourceIds")?.as_array())
        .flatten()
        .filter_map(Value::as_str);
    let wanted: BTreeSet<&str> =
        given.iter().map(String::as_str).chain(own).map(str::trim).filter(|id| !id.is_empty()).collect();
    if wanted.is_empty() {
        return;
    }
    let pipe_id = &context.pipe_id;
    let Some(uuid) = &context.fields.uuid else {
        verdict.warnings.push(format!("Data sources were not checked: pipe {pipe_id} has no uuid."));
        return;
    };
    let known: Option<HashSet<String>> = match call.query(knowledge_bases::get_ai_knowledge_bases(uuid)).await {
        Ok(data) => data
            .value()
            .get("aiKnowledgeBases")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(|item| text_of(item.get("id"))).collect()),
        Err(_) => None,
    };
    let Some(known) = known else {
        verdict.warnings.push(format!(
            "Data sources were not checked: the knowledge base probe failed for pipe {pipe_id}. Try validate_knowledge_base_access."
        ));
        return;
    };
    for id in wanted.into_iter().filter(|id| !known.contains(*id)) {
        verdict.warnings.push(format!(
            "Data source {id} is not among the knowledge bases of pipe {pipe_id}; see get_ai_knowledge_bases."
        ));
    }
}
