//! `name:<name>` where an id is taken, and what an id that leads nowhere may have meant.
//!
//! A name is looked up before the question, so that the question is about one thing. Names are compared without case and
//! must fit exactly; two things of one name are an error that lists both.

use futures_util::future::join_all;
use pipefy::{cards, organizations, pipes, tables};
use pipefy_tools::{IdKind, Tool};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::flow::Flow;

const PREFIX: &str = "name:";

/// Most tables of an organization that are looked through.
const MANY: i64 = 500;

/// Something with a name.
#[derive(Clone, Debug)]
struct Thing {
    id: String,
    name: String,
    /// What it is in, to tell two of one name apart.
    place: String,
}

/// Whether an id argument of the capability holds a name.
pub(crate) fn any(tool: &Tool, args: &Map<String, Value>) -> bool {
    named(tool, args).next().is_some()
}

fn named<'a>(tool: &'a Tool, args: &'a Map<String, Value>) -> impl Iterator<Item = (&'static str, IdKind)> + 'a {
    let is_name = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(PREFIX));
    tool.op().touches.iter().filter_map(move |id| {
        let value = args.get(id.arg)?;
        let holds = is_name(value) || value.as_array().is_some_and(|items| items.iter().any(is_name));
        holds.then_some((id.arg, id.kind))
    })
}

/// The arguments with ids in the place of names.
///
/// # Errors
/// A kind that has no names, no such thing, several such things (exit code 2), or a failed look-up.
pub(crate) async fn resolve(
    flow: &Flow<'_>,
    tool: &Tool,
    mut args: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let mut wanted: Vec<(&str, IdKind)> = named(tool, &args).collect();
    // Phases and labels are looked for in the pipe of the same call, whose name comes first.
    wanted.sort_by_key(|(_, kind)| u8::from(!matches!(kind, IdKind::Pipe | IdKind::PipeUuid | IdKind::Repo)));
    for (arg, kind) in wanted {
        let pipe = tool.op().touches.iter().find(|id| matches!(id.kind, IdKind::Pipe | IdKind::Repo) && id.arg != arg);
        let pipe = pipe.and_then(|id| args.get(id.arg)?.as_str()).map(str::to_owned);
        let id = match args.get(arg) {
            Some(Value::Array(items)) => {
                let mut ids = Vec::with_capacity(items.len());
                for item in items {
                    ids.push(match item.as_str().and_then(|text| text.strip_prefix(PREFIX)) {
                        Some(name) => find(flow, kind, name.trim(), pipe.as_deref()).await?.into(),
                        None => item.clone(),
                    });
                }
                Value::Array(ids)
            }
            Some(Value::String(text)) => match text.strip_prefix(PREFIX) {
                Some(name) => find(flow, kind, name.trim(), pipe.as_deref()).await?.into(),
                None => continue,
            },
            _ => continue,
        };
        args.insert(arg.to_owned(), id);
    }
    Ok(args)
}

async fn find(flow: &Flow<'_>, kind: IdKind, name: &str, pipe: Option<&str>) -> Result<String, Failure> {
    let (what, things, name) = match kind {
        IdKind::Organization => ("organization", organizations_of(flow).await?, name),
        IdKind::Pipe => ("pipe", pipes_of(flow).await?, name),
        IdKind::Table => ("table", tables_of(flow).await?, name),
        IdKind::Repo => {
            let mut both = pipes_of(flow).await?;
            both.extend(tables_of(flow).await?);
            ("pipe or table", both, name)
        }
        IdKind::Phase | IdKind::Label | IdKind::Card => {
            let what = match kind {
                IdKind::Phase => "phase",
                IdKind::Label => "label",
                _ => "card",
            };
            let (pipe, name) = within(flow, what, name, pipe).await?;
            let things = match kind {
                IdKind::Card => cards_of(flow, &pipe, name).await?,
                _ => parts_of(flow, &pipe, if kind == IdKind::Phase { "phases" } else { "labels" }).await?,
            };
            (what, things, name)
        }
        _ => {
            return Err(Failure::usage(
                "name:... stands for a pipe, table, phase, label, card or organization; here an id is needed",
            ));
        }
    };
    one(what, name, things)
}

/// The pipe that `<pipe>/<name>` or another argument names, and the rest of the name.
async fn within<'n>(
    flow: &Flow<'_>,
    what: &str,
    name: &'n str,
    pipe: Option<&str>,
) -> Result<(String, &'n str), Failure> {
    match (pipe, name.split_once('/')) {
        (Some(pipe), _) => Ok((pipe.to_owned(), name)),
        (None, Some((pipe, rest))) => Ok((one("pipe", pipe.trim(), pipes_of(flow).await?)?, rest.trim())),
        (None, None) => Err(Failure::usage(format!("say which pipe the {what} is in: name:<pipe>/<{what}>"))),
    }
}

fn one(what: &str, name: &str, things: Vec<Thing>) -> Result<String, Failure> {
    let folded = name.to_lowercase();
    let (same, others): (Vec<Thing>, Vec<Thing>) =
        things.into_iter().partition(|thing| thing.name.trim().to_lowercase() == folded);
    match same.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => {
            let likeness = |thing: &Thing| strsim::jaro_winkler(&thing.name.to_lowercase(), &folded);
            let nearest = others.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            let nearest = nearest.filter(|thing| likeness(thing) > 0.8);
            let meant = nearest.map(|thing| format!("; did you mean {} ({})?", thing.name, thing.id));
            Err(Failure::refused(format!(
                "There is no {what} of the name {name} that you can see{}",
                meant.as_deref().unwrap_or(".")
            )))
        }
        several => {
            let list: Vec<String> = several
                .iter()
                .map(|thing| match thing.place.is_empty() {
                    true => thing.id.clone(),
                    false => format!("{} in {}", thing.id, thing.place),
                })
                .collect();
            Err(Failure::refused(format!(
                "{} things are the {what} {name}: {}. Give the id.",
                several.len(),
                list.join(", ")
            )))
        }
    }
}

fn thing(value: &Value, name: &str, place: &str) -> Option<Thing> {
    let text = |key: &str| match value.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    Some(Thing { id: text("id")?, name: text(name)?, place: place.to_owned() })
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Things of every organization, at `path` in each.
fn in_organizations(data: &Value, path: &str) -> Vec<Thing> {
    let organizations = list(data, "/organizations");
    let things = organizations.flat_map(|organization| {
        let place = organization.get("name").and_then(Value::as_str).unwrap_or_default();
        list(organization, path).filter_map(move |value| thing(value, "name", place))
    });
    things.collect()
}

async fn organizations_of(flow: &Flow<'_>) -> Result<Vec<Thing>, Failure> {
    let data = flow.read(&organizations::list_organizations()).await?;
    Ok(list(&data, "/organizations").filter_map(|value| thing(value, "name", "")).collect())
}

async fn pipes_of(flow: &Flow<'_>) -> Result<Vec<Thing>, Failure> {
    Ok(in_organizations(&flow.read(&pipes::search_pipes(None)).await?, "/pipes"))
}

async fn tables_of(flow: &Flow<'_>) -> Result<Vec<Thing>, Failure> {
    Ok(in_organizations(&flow.read(&tables::search_tables(MANY)).await?, "/tables/nodes"))
}

async fn parts_of(flow: &Flow<'_>, pipe: &str, part: &str) -> Result<Vec<Thing>, Failure> {
    let data = flow.read(&pipes::get_pipe(pipe)).await?;
    let parts = list(&data, &format!("/pipe/{part}")).filter_map(|value| thing(value, "name", ""));
    Ok(parts.collect())
}

async fn cards_of(flow: &Flow<'_>, pipe: &str, title: &str) -> Result<Vec<Thing>, Failure> {
    let search = Map::from_iter([("title".to_owned(), title.into())]);
    let data = flow.read(&cards::get_cards(pipe, &search, false, Some(50), None)).await?;
    let cards = list(&data, "/cards/edges").filter_map(|edge| {
        let card = edge.get("node")?;
        let phase = card.pointer("/current_phase/name").and_then(Value::as_str).unwrap_or_default();
        thing(card, "title", phase)
    });
    Ok(cards.collect())
}

/// What the ids of a call that led nowhere are instead, as far as one is an id of another kind.
pub(crate) async fn other_kind(flow: &Flow<'_>, tool: &Tool, args: &Map<String, Value>) -> Option<String> {
    let (id, kind) = tool.op().touches.iter().find_map(|id| Some((args.get(id.arg)?.as_str()?.to_owned(), id.kind)))?;
    let looks = [
        (IdKind::Pipe, pipes::get_pipe(&id), "/pipe/name", "pipe", "pipe get"),
        (IdKind::Table, tables::get_table(&id), "/table/name", "table", "table get"),
        (IdKind::Card, cards::get_card(&id, false), "/card/title", "card", "card get"),
        (IdKind::Phase, pipes::get_phase_fields(&id), "/phase/name", "phase", "phase get"),
        (IdKind::TableRecord, tables::get_table_record(&id), "/table_record/title", "record", "record get"),
        (IdKind::Organization, organizations::get_organization(&id), "/organization/name", "organization", "org get"),
    ];
    let looks = looks.into_iter().filter(|(other, ..)| *other != kind);
    let found = join_all(looks.map(|(_, query, path, what, command)| {
        let id = id.clone();
        async move {
            let data = flow.read(&query).await.ok()?;
            let name = data.pointer(path)?.as_str()?;
            let article = if what.starts_with('o') { "an" } else { "a" };
            Some(format!("{id} is {article} {what} ({name}); `pipefy {command} {id}` shows it"))
        }
    }));
    found.await.into_iter().flatten().next()
}
