//! `name:<name>` where an id is taken, and what an id that leads nowhere may have meant.
//!
//! A name is looked up before the question, so that the question is about one thing. Names are compared without case and
//! must fit exactly; two things of one name are an error that lists both.

use std::collections::HashSet;

use futures_util::future::join_all;
use pipefy::{
    Query, agents, automations, cards, emails, interfaces, knowledge_bases, members, organizations, pipes, portals,
    providers, relations, reports, tables, webhooks,
};
use pipefy_tools::{IdArg, IdKind, Tool, ToolError};
use serde_json::{Map, Value};

use crate::command::{Command, Route};
use crate::commands::catalogue;
use crate::failure::Failure;
use crate::flow::Flow;

const PREFIX: &str = "name:";

/// Most tables of an organization that are looked through.
const MANY: i64 = 500;

/// Most things of a page, and most pages, that are looked through.
const PAGE: i64 = 50;
const PAGES: usize = 40;

/// Ids of a failed call that are looked up as something else.
const LOOKED_UP: usize = 4;

/// Arguments of commands that no capability has by this name.
const OWN: [IdArg; 3] = [
    IdArg::new("organization_id", IdKind::Organization),
    IdArg::new("pipe", IdKind::Pipe),
    IdArg::new("action_repo_id", IdKind::Repo),
];

/// The one id that may be blank, which is then none (`spec/cli.md`, portal).
const BLANK_IS_NONE: (&str, &str) = ("portal element create", "element_id");

/// The ids that a command takes, those of its capability first.
pub(crate) fn ids_of(command: &Command, tool: &'static str) -> Vec<IdArg> {
    let others = matches!(command.route, Route::Flow(_)).then_some(command.also).into_iter().flatten().copied();
    let tools = std::iter::once(tool).chain(others).filter_map(|tool| catalogue().get(tool));
    let mut ids: Vec<IdArg> = Vec::new();
    for id in tools.flat_map(|tool| tool.op().touches).chain(&OWN) {
        if !ids.iter().any(|known| known.arg == id.arg) {
            ids.push(*id);
        }
    }
    ids
}

/// The ids that a capability takes.
pub(crate) fn ids_of_tool(tool: &Tool) -> Vec<IdArg> {
    tool.op().touches.to_vec()
}

/// Something with a name.
#[derive(Clone, Debug)]
struct Thing {
    id: String,
    name: String,
    /// What it is in, to tell two of one name apart.
    place: String,
    /// Ids that it has besides and that are not wanted here.
    others: Vec<String>,
}

/// What things of a kind are in, so that a name means one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// Nothing that has to be named.
    Anywhere,
    Pipe,
    Table,
    Portal,
}

/// What messages call a kind, where its things are, and the command that shows them; `None` where things have no names.
fn kind_of(id: &IdArg) -> Option<(&'static str, Home, &'static str)> {
    Some(match (id.kind, id.arg) {
        (IdKind::Organization, _) => ("organization", Home::Anywhere, "org list"),
        (IdKind::Pipe | IdKind::PipeUuid, _) => ("pipe", Home::Anywhere, "pipe list"),
        (IdKind::Table, _) => ("table", Home::Anywhere, "table list"),
        (IdKind::Repo, _) => ("pipe or table", Home::Anywhere, "pipe list"),
        (IdKind::OrganizationReport, _) => ("report", Home::Anywhere, "report-org list"),
        (IdKind::Provider, _) => ("LLM provider", Home::Anywhere, "ai-provider list"),
        (IdKind::Interface, "portal_uuid" | "main_portal_uuid") => ("portal", Home::Anywhere, "portal list"),
        (IdKind::Interface, "interface_uuid") => ("interface", Home::Anywhere, "portal html-interface list"),
        (IdKind::Interface, "page_id" | "page_ids") => ("page", Home::Portal, "portal get"),
        (IdKind::Interface, "sub_portal_uuid") => ("sub-portal", Home::Portal, "portal get"),
        (IdKind::Phase, _) => ("phase", Home::Pipe, "pipe get"),
        (IdKind::Label, _) => ("label", Home::Pipe, "label list"),
        (IdKind::Card, _) => ("card", Home::Pipe, "card list"),
        (IdKind::PhaseField, _) => ("field", Home::Pipe, "pipe get"),
        (IdKind::FieldCondition, _) => ("field condition", Home::Pipe, "field-condition list"),
        (IdKind::Relation, _) => ("connection", Home::Pipe, "relation pipe list"),
        (IdKind::Automation, _) => ("automation", Home::Pipe, "automation list"),
        (IdKind::Agent, _) => ("AI agent", Home::Pipe, "agent list"),
        (IdKind::Report, _) => ("report", Home::Pipe, "report-pipe list"),
        (IdKind::EmailTemplate, _) => ("e-mail template", Home::Pipe, "email template list"),
        (IdKind::Webhook, _) => ("webhook", Home::Pipe, "webhook list"),
        (IdKind::KnowledgeBase, _) => ("knowledge base", Home::Pipe, "kb list"),
        (IdKind::Member, name) if !name.ends_with("uuid") => ("member", Home::Pipe, "member list"),
        (IdKind::TableField, _) => ("field", Home::Table, "table get"),
        (IdKind::TableRecord, _) => ("record", Home::Table, "record find"),
        _ => return None,
    })
}

/// Refuses blank ids, such as a variable of the shell that is not set.
///
/// # Errors
/// Which one is blank (exit code 2).
pub(crate) fn refuse_blank(command: &Command, ids: &[IdArg], args: &Map<String, Value>) -> Result<(), Failure> {
    let blank = |arg: &str| args.get(arg).and_then(Value::as_str).is_some_and(|text| text.trim().is_empty());
    let mut params = command.params.iter().filter(|param| ids.iter().any(|id| id.arg == param.name));
    match params.find(|param| blank(param.name) && (command.path, param.name) != BLANK_IS_NONE) {
        Some(param) => Err(Failure::usage(format!("{} must not be blank", param.flag()))),
        None => Ok(()),
    }
}

/// Whether an argument holds a name.
pub(crate) fn any(ids: &[IdArg], args: &Map<String, Value>) -> bool {
    named(ids, args).next().is_some()
}

fn named<'a>(ids: &'a [IdArg], args: &'a Map<String, Value>) -> impl Iterator<Item = &'a IdArg> + 'a {
    let is_name = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(PREFIX));
    ids.iter().filter(move |id| {
        let value = args.get(id.arg);
        value.is_some_and(|value| is_name(value) || value.as_array().is_some_and(|items| items.iter().any(is_name)))
    })
}

/// The arguments with ids in the place of names.
///
/// # Errors
/// A kind that has no names, no such thing, several such things (exit code 2), or a failed look-up.
pub(crate) async fn resolve(
    flow: &Flow<'_>,
    ids: &[IdArg],
    mut args: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let mut wanted: Vec<IdArg> = named(ids, &args).copied().collect();
    // What others are in comes first.
    wanted.sort_by_key(|id| match kind_of(id) {
        Some((_, Home::Anywhere, _)) if id.kind == IdKind::Interface => 1,
        Some((_, Home::Anywhere, _)) => 0,
        _ => 2,
    });
    for id in wanted {
        let of = |text: &str| text.strip_prefix(PREFIX).map(|name| name.trim().to_owned());
        let found = match args.get(id.arg) {
            Some(Value::Array(items)) => {
                let mut found = Vec::with_capacity(items.len());
                for item in items {
                    found.push(match item.as_str().and_then(of) {
                        Some(name) => find(flow, &id, &name, ids, &args).await?.into(),
                        None => item.clone(),
                    });
                }
                Value::Array(found)
            }
            Some(Value::String(text)) => match of(text) {
                Some(name) => find(flow, &id, &name, ids, &args).await?.into(),
                None => continue,
            },
            _ => continue,
        };
        args.insert(id.arg.to_owned(), found);
    }
    Ok(args)
}

/// The id of the thing that a name names.
async fn find(
    flow: &Flow<'_>,
    id: &IdArg,
    name: &str,
    ids: &[IdArg],
    args: &Map<String, Value>,
) -> Result<String, Failure> {
    let Some((what, home, command)) = kind_of(id) else {
        return Err(Failure::usage("name:... stands for things that have a name in Pipefy; here an id is needed"));
    };
    let (place, name) = match (home, around(home, id, ids, args), name.split_once('/')) {
        (Home::Anywhere, ..) => (String::new(), name),
        (_, Some(place), _) => (place, name),
        (_, None, Some((place, rest))) => (home_named(flow, home, place.trim()).await?, rest.trim()),
        (_, None, None) => {
            let home = match home {
                Home::Table => "table",
                Home::Portal => "portal",
                _ => "pipe",
            };
            return Err(Failure::usage(format!("say which {home} the {what} is in: name:<{home}>/<{what}>")));
        }
    };
    let kind = match home {
        Home::Anywhere => Some(id.kind),
        Home::Pipe => within(flow, IdKind::Repo, &place).await?,
        Home::Table => within(flow, IdKind::Table, &place).await?,
        Home::Portal => within(flow, IdKind::Interface, &place).await?,
    };
    let organization = given(IdKind::Organization, id, ids, args);
    one(flow, kind, (what, command), name, things(flow, id, &place, name, organization.as_deref()).await?).await
}

/// Refuses to look into what is outside of the scope. What is in something else needs no look of its own.
async fn within(flow: &Flow<'_>, kind: IdKind, place: &str) -> Result<Option<IdKind>, Failure> {
    match flow.holds(kind, place).await? {
        true => Ok(None),
        false => {
            let text =
                format!("{place} is outside of the scope, or cannot be traced to it. Nothing in it was looked up.");
            Err(ToolError::new(pipefy_tools::Kind::Refused, text).code("OUT_OF_SCOPE").into())
        }
    }
}

/// The value of another argument of this kind.
fn given(kind: IdKind, id: &IdArg, ids: &[IdArg], args: &Map<String, Value>) -> Option<String> {
    let others = ids.iter().filter(|other| other.kind == kind && other.arg != id.arg);
    others.filter_map(|other| args.get(other.arg)?.as_str()).map(str::to_owned).next()
}

/// What another argument of the same call says the thing is in.
fn around(home: Home, id: &IdArg, ids: &[IdArg], args: &Map<String, Value>) -> Option<String> {
    let kinds: &[IdKind] = match home {
        Home::Anywhere => &[],
        Home::Pipe => &[IdKind::Pipe, IdKind::PipeUuid, IdKind::Repo],
        Home::Table => &[IdKind::Table],
        Home::Portal => {
            let portals = ["portal_uuid", "main_portal_uuid"].into_iter().filter(|arg| *arg != id.arg);
            return portals.filter_map(|arg| args.get(arg)?.as_str()).map(str::to_owned).next();
        }
    };
    kinds.iter().find_map(|kind| given(*kind, id, ids, args))
}

/// The pipe, table or portal of this name; its id is as good.
async fn home_named(flow: &Flow<'_>, home: Home, name: &str) -> Result<String, Failure> {
    let (kind, said, things) = match home {
        Home::Table => (IdKind::Table, ("table", "table list"), tables_of(flow).await?),
        Home::Portal => {
            (IdKind::Interface, ("portal", "portal list"), in_organizations(flow, None, Listing::Portals).await?)
        }
        _ => (IdKind::Pipe, ("pipe", "pipe list"), pipes_of(flow).await?),
    };
    match things.iter().find(|thing| thing.id == name) {
        Some(thing) => Ok(thing.id.clone()),
        None => one(flow, Some(kind), said, name, things).await,
    }
}

/// The one thing of this name. `kind` is given where the scope has to hold each thing: what it does not hold is not named either.
async fn one(
    flow: &Flow<'_>,
    kind: Option<IdKind>,
    (what, command): (&str, &str),
    name: &str,
    things: Vec<Thing>,
) -> Result<String, Failure> {
    let folded = name.to_lowercase();
    let (named, mut others): (Vec<Thing>, Vec<Thing>) =
        things.into_iter().partition(|thing| thing.name.trim().to_lowercase() == folded);
    let mut seen = HashSet::new();
    let mut same = Vec::new();
    for thing in named {
        if seen.insert(thing.id.clone()) && holds(flow, kind, &thing).await? {
            same.push(thing);
        }
    }
    match same.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => {
            let likeness = |thing: &Thing| strsim::jaro_winkler(&thing.name.to_lowercase(), &folded);
            others.retain(|thing| likeness(thing) > 0.8);
            others.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
            let mut nearest = None;
            for thing in &others {
                if holds(flow, kind, thing).await? {
                    nearest = Some(thing);
                    break;
                }
            }
            let meant = nearest.map(|thing| format!("; did you mean {} ({})?", thing.name, thing.id));
            let failure = Failure::refused(format!(
                "There is no {what} of the name {name} that you can see{}",
                meant.as_deref().unwrap_or(".")
            ));
            Err(failure.with_hint(Some(format!("`pipefy {command}` shows what there is"))))
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

async fn holds(flow: &Flow<'_>, kind: Option<IdKind>, thing: &Thing) -> Result<bool, Failure> {
    match kind {
        Some(kind) => flow.holds(kind, &thing.id).await,
        None => Ok(true),
    }
}

/// Everything that a name could name: in `place`, or in the organization, or wherever the caller can see.
async fn things(
    flow: &Flow<'_>,
    id: &IdArg,
    place: &str,
    name: &str,
    organization: Option<&str>,
) -> Result<Vec<Thing>, Failure> {
    let wants_uuid = id.arg.ends_with("uuid");
    Ok(match id.kind {
        IdKind::Organization => {
            let key = if wants_uuid { "uuid" } else { "id" };
            let all = flow.read(&organizations::list_organizations()).await?;
            rows(&all, "/organizations").filter_map(|row| thing(row, "name", key, "")).collect()
        }
        IdKind::Pipe => pipes_of(flow).await?,
        IdKind::PipeUuid => with_uuids(flow, pipes_of(flow).await?, name).await?,
        IdKind::Table => tables_of(flow).await?,
        IdKind::Repo => {
            let mut both = pipes_of(flow).await?;
            if wants_uuid {
                // Only pipes have agents.
                both = with_uuids(flow, both, name).await?;
            } else {
                both.extend(tables_of(flow).await?);
            }
            both
        }
        IdKind::OrganizationReport => in_organizations(flow, organization, Listing::Reports).await?,
        IdKind::Provider => in_organizations(flow, organization, Listing::Providers).await?,
        IdKind::Interface => match id.arg {
            "portal_uuid" | "main_portal_uuid" => in_organizations(flow, organization, Listing::Portals).await?,
            "interface_uuid" => in_organizations(flow, organization, Listing::Interfaces).await?,
            "sub_portal_uuid" => listed(&flow.read(&portals::get_portal(place)).await?, "/portalInterface/subPortals"),
            _ => {
                let portal = flow.read(&portals::get_portal(place)).await?;
                rows(&portal, "/portalInterface/pages").filter_map(|row| thing(row, "title", "id", "")).collect()
            }
        },
        IdKind::Phase => listed(&flow.read(&pipes::get_pipe(place)).await?, "/pipe/phases"),
        IdKind::Label => listed(&flow.read(&pipes::get_pipe(place)).await?, "/pipe/labels"),
        IdKind::Card => {
            let search = Map::from_iter([("title".to_owned(), name.into())]);
            let page = |after: Option<&str>| cards::get_cards(place, &search, false, Some(PAGE), after);
            let phase = |card: &Value| text(card.pointer("/current_phase/name"));
            let cards = pages(flow, page, "cards").await?;
            cards.iter().filter_map(|card| thing(card, "title", "id", &phase(card))).collect()
        }
        IdKind::PhaseField => {
            // Slugs are not unique across pipes; where nothing else says which pipe is meant, the uuid does.
            let key = match (id.within, id.arg) {
                (_, "field_ids") => "internal_id",
                (true, _) => "id",
                (false, _) => "uuid",
            };
            let pipe = flow.read(&pipes::get_pipe_configuration(place)).await?;
            parts(&pipe, "start_form_fields", "fields").filter_map(|(row, phase)| field(row, key, phase)).collect()
        }
        IdKind::FieldCondition => {
            let pipe = flow.read(&pipes::get_pipe_configuration(place)).await?;
            let all = parts(&pipe, "startFormFieldConditions", "fieldConditions");
            all.filter_map(|(row, phase)| thing(row, "name", "id", phase)).collect()
        }
        IdKind::Relation => {
            let pipe = flow.read(&relations::get_pipe_relations(place)).await?;
            let mut both = listed(&pipe, "/pipe/childrenRelations");
            both.extend(listed(&pipe, "/pipe/parentsRelations"));
            both
        }
        IdKind::Automation => {
            let pipe = flow.read(&automations::pipe_organization_id(place)).await?;
            let organization = text(pipe.pointer("/pipe/organizationId"));
            let page =
                |after: Option<&str>| automations::get_automations_of_repo(&organization, place, Some(PAGE), after);
            let rules = pages(flow, page, "automations").await?;
            rules.iter().filter_map(|row| thing(row, "name", "id", "")).collect()
        }
        IdKind::Agent => {
            let uuid = uuid_of(flow, place).await?;
            let agents = pages(flow, |after| agents::get_ai_agents(&uuid, after), "aiAgents").await?;
            agents.iter().filter_map(|row| thing(row, "name", "uuid", "")).collect()
        }
        IdKind::Report => listed(&flow.read(&reports::get_reports_of_pipe(place)).await?, "/pipe/reports"),
        IdKind::EmailTemplate => {
            let found = flow.read(&emails::get_email_templates(place, None, MANY)).await?;
            rows(&found, "/emailTemplates/edges")
                .filter_map(|edge| thing(edge.get("node")?, "name", "id", ""))
                .collect()
        }
        IdKind::Webhook => listed(&flow.read(&webhooks::get_webhooks(place)).await?, "/pipe/webhooks"),
        IdKind::KnowledgeBase => {
            let uuid = uuid_of(flow, place).await?;
            listed(&flow.read(&knowledge_bases::get_ai_knowledge_bases(&uuid)).await?, "/aiKnowledgeBases")
        }
        IdKind::Member => {
            // A person is known by the address too.
            let found = flow.read(&members::get_pipe_members(place)).await?;
            let people: Vec<&Value> = rows(&found, "/pipe/members").filter_map(|row| row.get("user")).collect();
            let by = |key: &'static str| people.iter().filter_map(move |user| thing(user, key, "id", ""));
            by("name").chain(by("email")).collect()
        }
        IdKind::TableField => {
            let table = flow.read(&tables::get_table(place)).await?;
            rows(&table, "/table/table_fields").filter_map(|row| field(row, "id", "")).collect()
        }
        IdKind::TableRecord => records_of(flow, place, name).await?,
        _ => Vec::new(),
    })
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn thing(value: &Value, name: &str, id: &str, place: &str) -> Option<Thing> {
    let (id, name) = (text(value.get(id)), text(value.get(name)));
    (!id.is_empty() && !name.is_empty()).then(|| Thing { id, name, place: place.to_owned(), others: Vec::new() })
}

/// A field by its label, with the other ids that it has.
fn field(value: &Value, key: &str, place: &str) -> Option<Thing> {
    let mut field = thing(value, "label", key, place)?;
    let others = ["id", "internal_id", "uuid"].into_iter().filter(|other| *other != key);
    field.others = others.map(|other| text(value.get(other))).filter(|id| !id.is_empty()).collect();
    Some(field)
}

fn rows<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn listed(data: &Value, path: &str) -> Vec<Thing> {
    rows(data, path).filter_map(|row| thing(row, "name", "id", "")).collect()
}

/// Parts of the start form and of the phases of a pipe, with the name of what they are in.
fn parts<'a>(data: &'a Value, of_form: &'a str, of_phase: &'a str) -> impl Iterator<Item = (&'a Value, &'a str)> {
    let pipe = data.get("pipe").unwrap_or(&Value::Null);
    let in_form = pipe.get(of_form).and_then(Value::as_array).into_iter().flatten().map(|row| (row, "the start form"));
    let in_phases = rows(pipe, "/phases").flat_map(move |phase| {
        let name = phase.get("name").and_then(Value::as_str).unwrap_or_default();
        phase.get(of_phase).and_then(Value::as_array).into_iter().flatten().map(move |row| (row, name))
    });
    in_form.chain(in_phases)
}

/// All nodes of a listing, page by page.
async fn pages(
    flow: &Flow<'_>,
    query: impl Fn(Option<&str>) -> Query + Send + Sync,
    root: &str,
) -> Result<Vec<Value>, Failure> {
    let mut nodes = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..PAGES {
        let data = flow.read(&query(after.as_deref())).await?;
        let connection = data.get(root).unwrap_or(&Value::Null);
        nodes.extend(rows(connection, "/edges").filter_map(|edge| edge.get("node").cloned()));
        nodes.extend(rows(connection, "/nodes").cloned());
        let next = connection.pointer("/pageInfo/endCursor").and_then(Value::as_str).map(str::to_owned);
        if connection.pointer("/pageInfo/hasNextPage") != Some(&true.into()) || next.is_none() || next == after {
            break;
        }
        after = next;
    }
    Ok(nodes)
}

/// What an organization has, page by page.
#[derive(Clone, Copy)]
enum Listing {
    Reports,
    Providers,
    Portals,
    Interfaces,
}

impl Listing {
    fn page(self, id: &str, uuid: &str, after: Option<&str>) -> Query {
        match self {
            Self::Reports => reports::get_organization_reports(id, PAGE, after),
            Self::Providers => providers::get_llm_providers(uuid, false, Some(PAGE), after),
            Self::Portals => portals::list_portals(uuid, None, after),
            Self::Interfaces => interfaces::list_interfaces(uuid, None, after),
        }
    }

    fn root(self) -> &'static str {
        match self {
            Self::Reports => "organizationReports",
            Self::Providers => "allLlmProvidersByOrganization",
            Self::Portals | Self::Interfaces => "interfaces",
        }
    }
}

/// Things of the organization that is named, else of every one that answers.
async fn in_organizations(flow: &Flow<'_>, named: Option<&str>, what: Listing) -> Result<Vec<Thing>, Failure> {
    let all = flow.read(&organizations::list_organizations()).await?;
    let (mut found, mut failed, mut answered) = (Vec::new(), None, false);
    for row in rows(&all, "/organizations") {
        let (id, uuid, name) = (text(row.get("id")), text(row.get("uuid")), text(row.get("name")));
        if named.is_some_and(|named| named != id && named != uuid) {
            continue;
        }
        match pages(flow, |after| what.page(&id, &uuid, after), what.root()).await {
            Ok(rows) => {
                answered = true;
                found.extend(rows.iter().filter_map(|row| thing(row, "name", "id", &name)));
            }
            // What one organization does not let the caller see, another may.
            Err(failure) => failed = Some(failure),
        }
    }
    match failed.filter(|_| !answered) {
        Some(failure) => Err(failure),
        None => Ok(found),
    }
}

/// Things that the list of organizations shows, at `path` in each.
fn of_organizations(data: &Value, path: &str) -> Vec<Thing> {
    let organizations = rows(data, "/organizations");
    let things = organizations.flat_map(|organization| {
        let place = text(organization.get("name"));
        rows(organization, path).filter_map(move |value| thing(value, "name", "id", &place))
    });
    things.collect()
}

async fn pipes_of(flow: &Flow<'_>) -> Result<Vec<Thing>, Failure> {
    Ok(of_organizations(&flow.read(&pipes::search_pipes(None)).await?, "/pipes"))
}

async fn tables_of(flow: &Flow<'_>) -> Result<Vec<Thing>, Failure> {
    Ok(of_organizations(&flow.read(&tables::search_tables(MANY)).await?, "/tables/nodes"))
}

/// The uuid of a pipe.
async fn uuid_of(flow: &Flow<'_>, pipe: &str) -> Result<String, Failure> {
    Ok(text(flow.read(&pipes::get_pipe(pipe)).await?.pointer("/pipe/uuid")))
}

/// Pipes with their uuids in the place of ids, as far as they have this name.
async fn with_uuids(flow: &Flow<'_>, pipes: Vec<Thing>, name: &str) -> Result<Vec<Thing>, Failure> {
    let mut found = Vec::with_capacity(pipes.len());
    for mut pipe in pipes {
        if pipe.name.trim().to_lowercase() == name.to_lowercase() {
            pipe.id = uuid_of(flow, &pipe.id).await?;
        }
        found.push(pipe);
    }
    Ok(found)
}

/// Records with this title: by the field that titles are made of, else among all.
async fn records_of(flow: &Flow<'_>, table: &str, title: &str) -> Result<Vec<Thing>, Failure> {
    let about = flow.read(&tables::get_table(table)).await?;
    let field = text(about.pointer("/table/title_field/id"));
    let records = match field.is_empty() {
        false => {
            pages(flow, |after| tables::find_records(table, &field, title, Some(PAGE), after), "findRecords").await?
        }
        true => pages(flow, |after| tables::get_table_records(table, Some(PAGE), after), "table_records").await?,
    };
    Ok(records.iter().filter_map(|record| thing(record, "title", "id", "")).collect())
}

/// A failure that led nowhere, with what may help: what an id is instead, else where ids of its kind are listed.
pub(crate) async fn explained(flow: &Flow<'_>, failure: Failure, ids: &[IdArg], args: &Map<String, Value>) -> Failure {
    // What an id is elsewhere is not for a scope to tell.
    let mut hint = match flow.policy.scope {
        Some(_) => None,
        None => other_kind(flow, ids, args).await,
    };
    if hint.is_none() && !failure.names_a_command() {
        let given = ids.iter().filter(|id| args.contains_key(id.arg));
        hint = given.filter_map(kind_of).next().map(|(.., command)| format!("`pipefy {command}` shows what there is"));
    }
    failure.with_hint(hint)
}

/// What one of the ids of a call that led nowhere is instead: an id of another kind, a name, or another of the thing's ids.
async fn other_kind(flow: &Flow<'_>, ids: &[IdArg], args: &Map<String, Value>) -> Option<String> {
    let given = ids.iter().filter_map(|id| Some((id, args.get(id.arg)?.as_str()?)));
    let given: Vec<(&IdArg, &str)> = given.take(LOOKED_UP).collect();
    for (id, text) in given {
        let hint = match elsewhere(flow, id, text).await {
            Looked::Right => None,
            Looked::Other(hint) => Some(hint),
            Looked::Nothing => by_name(flow, id, text, ids, args).await,
        };
        if hint.is_some() {
            return hint;
        }
    }
    None
}

/// What an id turned out to be.
enum Looked {
    /// What is wanted.
    Right,
    /// Something else, as a sentence.
    Other(String),
    Nothing,
}

async fn elsewhere(flow: &Flow<'_>, wanted: &IdArg, id: &str) -> Looked {
    let looks = [
        (IdKind::Pipe, pipes::get_pipe(id), "/pipe", "pipe", "pipe get"),
        (IdKind::Table, tables::get_table(id), "/table", "table", "table get"),
        (IdKind::Card, cards::get_card(id, false), "/card", "card", "card get"),
        (IdKind::Phase, pipes::get_phase_fields(id), "/phase", "phase", "phase get"),
        (IdKind::TableRecord, tables::get_table_record(id), "/table_record", "record", "record get"),
        (IdKind::Organization, organizations::get_organization(id), "/organization", "organization", "org get"),
    ];
    let found = join_all(looks.map(|(kind, query, path, what, command)| async move {
        let data = flow.read(&query).await.ok()?;
        let found = data.pointer(path)?;
        let name = [found.get("name"), found.get("title")].into_iter().flatten().find_map(Value::as_str)?.to_owned();
        Some((kind, name, text(found.get("uuid")), what, command))
    }));
    let found: Vec<_> = found.await.into_iter().flatten().collect();
    let fits = |kind: IdKind| match wanted.kind {
        IdKind::PipeUuid => kind == IdKind::Pipe,
        IdKind::Repo => matches!(kind, IdKind::Pipe | IdKind::Table),
        wanted => kind == wanted,
    };
    let wants_uuid = wanted.arg.ends_with("uuid");
    match (found.iter().find(|(kind, ..)| fits(*kind)), found.first()) {
        (Some((_, name, uuid, what, _)), _) if wants_uuid && !uuid.is_empty() && uuid != id => {
            Looked::Other(format!("{id} is the id of the {what} {name}; here its uuid is needed: {uuid}"))
        }
        (Some(_), _) => Looked::Right,
        (None, Some((_, name, _, what, command))) => {
            let article = if what.starts_with('o') { "an" } else { "a" };
            Looked::Other(format!("{id} is {article} {what} ({name}); `pipefy {command} {id}` shows it"))
        }
        (None, None) => Looked::Nothing,
    }
}

/// Whether the text is a name, or another id of what is meant.
async fn by_name(flow: &Flow<'_>, id: &IdArg, given: &str, ids: &[IdArg], args: &Map<String, Value>) -> Option<String> {
    let (what, home, _) = kind_of(id)?;
    let place = match home {
        Home::Anywhere => String::new(),
        home => around(home, id, ids, args)?,
    };
    let things = things(flow, id, &place, given, None).await.ok()?;
    let folded = given.to_lowercase();
    if let Some(thing) = things.iter().find(|thing| thing.name.to_lowercase() == folded) {
        return Some(format!("{given} is the name of the {what} {}; say name:{given}, or its id", thing.id));
    }
    let thing = things.iter().find(|thing| thing.others.iter().any(|other| other == given))?;
    Some(format!("{given} is another id of the {what} {}; here it is {}", thing.name, thing.id))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::command::Kind;
    use crate::commands;

    /// Arguments that are called ids and name no thing of somebody's: words of Pipefy's own, and what comes and goes.
    const WORDS: [&str; 7] =
        ["event_id", "action_id", "action_ids", "trigger_id", "skills_ids", "owner_id", "idempotency_key"];

    /// Kinds whose things have no name in Pipefy.
    fn is_nameless(id: &IdArg) -> bool {
        matches!(
            (id.kind, id.arg),
            (IdKind::Comment | IdKind::AgentLog | IdKind::TableRelation, _)
                | (IdKind::ReportExport | IdKind::OrganizationReportExport | IdKind::Other, _)
                | (IdKind::Interface, "element_id")
                | (IdKind::Member, "service_account_uuid")
        )
    }

    #[test]
    fn every_id_of_every_command_may_be_a_name() {
        let mut seen = HashSet::new();
        let mut wrong = Vec::new();
        for command in commands::all() {
            let tools: Vec<&'static str> = command.needs().collect();
            let known: Vec<IdArg> = match &command.route {
                Route::OneOf(_) => tools.iter().flat_map(|tool| ids_of(command, tool)).collect(),
                _ => ids_of(command, command.tool),
            };
            for param in command.params {
                let is_id = matches!(param.kind, Kind::Id)
                    || ["_id", "_ids", "uuid", "uuids"].iter().any(|end| param.name.ends_with(end))
                    || param.help.contains(" id")
                        && !matches!(param.kind, Kind::Json(_) | Kind::Flag)
                        && !param.help.contains("columns");
                if !is_id || WORDS.contains(&param.name) || !command.needs().any(|_| true) {
                    continue;
                }
                match known.iter().find(|id| id.arg == param.name) {
                    None => wrong.push(format!("{}: {} is no id that is looked up", command.path, param.name)),
                    Some(id) if kind_of(id).is_none() != is_nameless(id) => {
                        wrong.push(format!("{}: {} ({:?})", command.path, param.name, id.kind));
                    }
                    Some(id) => _ = seen.insert(format!("{:?}", id.kind)),
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        assert!(seen.len() > 20, "{seen:?}");
    }
}
