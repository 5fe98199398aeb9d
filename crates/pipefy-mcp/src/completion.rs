//! What may be meant: values for the arguments of prompts and for the variables of addresses, while somebody types.
//!
//! Pipes, phases, tables and organizations come from the caller's own listing, read with the tool that lists them. Who types a
//! name gets ids, since those are what the arguments take. Nothing here fails for want of an answer: no list is an empty one.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};
use serde_json::{Map, Value, json};

use crate::catalogue::{Exposure, catalogue};
use crate::dispatch::Invocation;
use crate::prompts;
use crate::resources::{self, Kind};
use crate::runtime::McpRuntime;

/// Values given at most; the protocol allows 100.
const VALUES: usize = 50;

/// How long somebody who types is kept waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Types,
    Tools,
    Pipes,
    Phases,
    Tables,
    Organizations,
    /// Free text, or ids that no listing gives.
    Nowhere,
}

impl Source {
    /// Of a prompt's argument: ids are named after what they name, and so is a tool.
    fn of_argument(name: &str) -> Self {
        let ends = |end: &str| name == end || name.strip_suffix(end).is_some_and(|rest| rest.ends_with('_'));
        match name {
            _ if ends("pipe_id") => Self::Pipes,
            _ if ends("phase_id") => Self::Phases,
            _ if ends("table_id") => Self::Tables,
            _ if ends("organization_id") => Self::Organizations,
            "tool" => Self::Tools,
            _ => Self::Nowhere,
        }
    }
}

/// What was filled in already: phases are those of this pipe, or of the pipe of this card.
struct Within {
    pipe: Option<String>,
    card: Option<String>,
}

/// Something that can be meant: what is put in, and what people call it.
struct Candidate {
    value: String,
    label: String,
}

/// Values for what was typed so far. `call` is the message that asked.
///
/// # Errors
/// -32602: there is no such prompt, address or argument here.
pub(crate) async fn complete(
    runtime: &McpRuntime,
    exposure: &Exposure,
    params: &CompleteRequestParams,
    call: Invocation<'_>,
) -> Result<CompletionInfo, ErrorData> {
    let argument = params.argument.name.as_str();
    let source = match &params.r#ref {
        Reference::Prompt(prompt) => {
            let playbook = prompts::find(exposure, &prompt.name)?;
            if !playbook.arguments.iter().any(|known| known.name == argument) {
                return Err(unknown_argument(argument));
            }
            Source::of_argument(argument)
        }
        Reference::Resource(resource) => {
            let kind = Kind::ALL
                .into_iter()
                .find(|kind| kind.template() == resource.uri && kind.is_offered(exposure))
                .ok_or_else(|| {
                    ErrorData::invalid_params("Unknown resource template", Some(json!({ "uri": resource.uri })))
                })?;
            if kind.variable() != argument {
                return Err(unknown_argument(argument));
            }
            match kind {
                Kind::Schema => Source::Types,
                Kind::Tools => Source::Tools,
                Kind::Pipes => Source::Pipes,
                Kind::Cards => Source::Nowhere,
            }
        }
        // A kind of reference that came with a later library: nothing here has values for it.
        _ => Source::Nowhere,
    };
    let given = |name: &str| params.context.as_ref().and_then(|context| context.get_argument(name)).cloned();
    let within = Within { pipe: given("pipe_id"), card: given("card_id") };
    let cancel = call.cancel.clone();
    let candidates = tokio::select! {
        candidates = candidates(runtime, exposure, source, within, call) => candidates,
        () = tokio::time::sleep(PATIENCE) => Vec::new(),
        () = cancel.cancelled() => Vec::new(),
    };
    Ok(matching(candidates, &params.argument.value))
}

fn unknown_argument(name: &str) -> ErrorData {
    ErrorData::invalid_params("Unknown argument", Some(json!({ "argument": name })))
}

/// Everything of a source, for this caller.
async fn candidates(
    runtime: &McpRuntime,
    exposure: &Exposure,
    source: Source,
    within: Within,
    call: Invocation<'_>,
) -> Vec<Candidate> {
    let names = |names: Vec<&str>| {
        names.into_iter().map(|name| Candidate { value: name.to_owned(), label: name.to_owned() }).collect()
    };
    let (tool, arguments) = match source {
        Source::Nowhere => return Vec::new(),
        Source::Types => return names(pipefy::sdl::types().keys().map(String::as_str).collect()),
        Source::Tools => {
            let shown = catalogue().tools().iter().map(|tool| tool.name());
            return names(shown.filter(|name| exposure.way_to(name).is_some()).collect());
        }
        Source::Pipes => ("search_pipes", json!({})),
        Source::Tables => ("search_tables", json!({})),
        Source::Organizations => ("list_organizations", json!({})),
        Source::Phases => match within {
            Within { pipe: Some(pipe), .. } => ("get_pipe", json!({ "pipe_id": pipe })),
            Within { card: Some(card), .. } => {
                let first = Invocation { arguments: Map::new(), progress: None, cancel: call.cancel.clone(), ..call };
                let card =
                    read(runtime, exposure, "get_card", json!({ "card_id": card, "fields": ["pipe"] }), first).await;
                match card.pointer("/card/pipe/id") {
                    Some(pipe) => ("get_pipe", json!({ "pipe_id": pipe })),
                    None => return Vec::new(),
                }
            }
            Within { .. } => return Vec::new(),
        },
    };
    let data = read(runtime, exposure, tool, arguments, call).await;
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let organizations = list(data.get("organizations"));
    let rows: Vec<Value> = match source {
        Source::Organizations => organizations,
        Source::Pipes => organizations.iter().flat_map(|one| list(one.get("pipes"))).collect(),
        Source::Tables => organizations.iter().flat_map(|one| list(one.get("tables"))).collect(),
        Source::Phases => list(data.get("pipe").and_then(|pipe| pipe.get("phases"))),
        Source::Types | Source::Tools | Source::Nowhere => Vec::new(),
    };
    rows.iter().filter_map(row).collect()
}

/// The data that a tool gives; null when it gives none.
async fn read(runtime: &McpRuntime, exposure: &Exposure, tool: &str, arguments: Value, call: Invocation<'_>) -> Value {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    let Some(reply) = resources::run(runtime, exposure, tool, arguments, call).await else { return Value::Null };
    if reply.is_error || reply.success() == Some(false) {
        return Value::Null;
    }
    let value = reply.structured().unwrap_or_default();
    match value.get("result").and_then(Value::as_str) {
        // Some tools give their result as JSON text.
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        // Enveloped or not, by the server's settings.
        None => value.get("data").unwrap_or(&value).clone(),
    }
}

fn row(row: &Value) -> Option<Candidate> {
    let value = match row.get("id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let label = row.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Candidate { value, label })
}

/// Those that what was typed may mean, at most [`VALUES`]: first what is it, then what begins with it, then what holds it.
fn matching(mut candidates: Vec<Candidate>, typed: &str) -> CompletionInfo {
    let typed = typed.trim().to_lowercase();
    let rank = |candidate: &Candidate| {
        let (value, label) = (candidate.value.to_lowercase(), candidate.label.to_lowercase());
        if value == typed || label == typed {
            Some(0)
        } else if value.starts_with(&typed) || label.starts_with(&typed) {
            Some(1)
        } else {
            label.contains(&typed).then_some(2)
        }
    };
    candidates.retain(|candidate| rank(candidate).is_some());
    candidates.sort_by_cached_key(rank);
    let total = candidates.len();
    let values: Vec<String> = candidates.into_iter().take(VALUES).map(|candidate| candidate.value).collect();
    let has_more = values.len() < total;
    CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn pipes(names: &[(&str, &str)]) -> Vec<Candidate> {
        names
            .iter()
            .map(|(value, label)| Candidate { value: (*value).to_owned(), label: (*label).to_owned() })
            .collect()
    }

    #[test]
    fn a_name_gives_ids_and_what_begins_so_comes_first() {
        let some = || pipes(&[("301", "Old purchases"), ("302", "Purchases"), ("77", "Hiring")]);
        assert_eq!(matching(some(), " PURCH ").values, ["302", "301"]);
        assert_eq!(matching(some(), "30").values, ["301", "302"]);
        assert_eq!(matching(some(), "").values, ["301", "302", "77"]);
        let nothing = matching(some(), "zzz");
        assert_eq!((nothing.values.len(), nothing.total, nothing.has_more), (0, Some(0), Some(false)));
    }

    #[test]
    fn there_are_never_more_than_fifty() {
        let many: Vec<(String, String)> = (0..120).map(|n| (n.to_string(), format!("Pipe {n}"))).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
        let info = matching(pipes(&many), "pipe");
        assert_eq!((info.values.len(), info.total, info.has_more), (VALUES, Some(120), Some(true)));
    }

    #[test]
    fn ids_are_named_after_what_they_name() {
        for (name, source) in [
            ("pipe_id", Source::Pipes),
            ("target_pipe_id", Source::Pipes),
            ("phase_id", Source::Phases),
            ("table_id", Source::Tables),
            ("organization_id", Source::Organizations),
            ("card_id", Source::Nowhere),
            ("stripe_id", Source::Nowhere),
            ("goal", Source::Nowhere),
            ("tool", Source::Tools),
        ] {
            assert_eq!(Source::of_argument(name), source, "{name}");
        }
        // Nothing lists the cards of all pipes.
        for argument in pipefy_tools::playbooks::playbooks().iter().flat_map(|playbook| &playbook.arguments) {
            let known = Source::of_argument(argument.name) != Source::Nowhere;
            assert_eq!(known, argument.name.ends_with("_id") && argument.name != "card_id" || argument.name == "tool");
        }
    }
}
