//! From Pipefy's answers to things.

use std::collections::{HashMap, HashSet};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use pipefy::scope::Lookup;
use pipefy::{automations, emails, pipes, tables};
use pipefy_tools::IdKind;
use serde_json::{Map, Value, json};

use super::refs::{Book, Dictionary, Way, text};
use super::settings;
use super::text::connection_key;
use super::things::{Kind, START_FORM, Thing, push};
use crate::failure::Failure;
use crate::flow::Flow;

/// Automations on a page, and how many are read at a time.
const PAGE: i64 = 50;
const AT_ONCE: usize = 8;

/// Most templates of a pipe.
const TEMPLATES: i64 = 500;

/// A pipe as it is.
pub(super) struct Live {
    pub(super) id: String,
    pub(super) uuid: String,
    pub(super) organization: String,
    pub(super) things: Vec<Thing>,
    /// What Pipefy says about each thing, by kind and name.
    pub(super) rows: HashMap<(Kind, String), Value>,
    /// What the things do not tell.
    pub(super) not_covered: Vec<String>,
}

impl Live {
    /// What Pipefy says about a thing under this key.
    pub(super) fn said(&self, kind: Kind, name: &str, key: &str) -> String {
        self.rows.get(&(kind, name.to_owned())).and_then(|row| row.get(key)).map(text).unwrap_or_default()
    }

    /// From names to ids.
    pub(super) fn ids(&self) -> Book {
        let of = |kind: Kind, key: &str| {
            let rows = self.rows.iter().filter(|((known, _), _)| *known == kind);
            rows.filter_map(|((_, name), row)| Some((name.clone(), text(row.get(key)?)))).collect()
        };
        Book { fields: of(Kind::Field, "internal_id"), phases: of(Kind::Phase, "id") }
    }

    fn keep(&mut self, thing: Thing, row: &Value) -> String {
        push(&mut self.things, thing);
        let name = self.things.last().map(|thing| (thing.kind, thing.name()));
        let key = self.things.last().map(|thing| thing.key.clone()).unwrap_or_default();
        self.rows.extend(name.map(|name| (name, row.clone())));
        key
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A list that was asked for. What is not in it is added again, so that no answer must not pass for none.
///
/// # Errors
/// There is no list under this key.
fn asked<'v>(value: &'v Value, key: &str) -> Result<Vec<&'v Value>, Failure> {
    let list = value.get(key).and_then(Value::as_array).ok_or_else(|| unanswered(key))?;
    Ok(list.iter().collect())
}

/// A list of things, each with its id.
///
/// # Errors
/// There is no such list under this key.
pub(super) fn things_of<'v>(value: &'v Value, key: &str) -> Result<Vec<&'v Value>, Failure> {
    let things = asked(value, key)?;
    match things.iter().all(|thing| has_id(thing)) {
        true => Ok(things),
        false => Err(unanswered(key)),
    }
}

fn has_id(thing: &Value) -> bool {
    match thing.get("id") {
        Some(Value::String(id)) => !id.is_empty(),
        id => id.is_some_and(Value::is_number),
    }
}

pub(super) fn unanswered(what: &str) -> Failure {
    Failure::failed(format!(
        "Pipefy did not answer what was asked for (`{what}`), so that nothing can be compared. Run the command again later."
    ))
}

fn told(row: &Value, key: &str) -> String {
    row.get(key).map(text).unwrap_or_default()
}

/// `pipe` or `table`, and its name; the pipe itself is `self`.
fn end(row: &Value, own: &str) -> Option<(String, Value)> {
    let id = told(row, "id");
    if id.is_empty() {
        return None;
    }
    let kind = if told(row, "__typename").ends_with("Table") { "table" } else { "pipe" };
    let name = if id == own { "self".to_owned() } else { told(row, "name") };
    Some((kind.to_owned(), name.into()))
}

/// Reads a pipe.
///
/// # Errors
/// What Pipefy says, that it does not answer, or that there is no such pipe; what the scope says.
pub(super) async fn read(flow: &Flow<'_>, pipe_id: &str) -> Result<Live, Failure> {
    flow.admit("get_pipe", Map::from_iter([("pipe_id".to_owned(), pipe_id.into())])).await?;
    let data = flow.read(&pipes::get_pipe_configuration(pipe_id)).await?;
    let pipe = data
        .get("pipe")
        .filter(|pipe| pipe.is_object())
        .ok_or_else(|| Failure::failed(format!("There is no pipe with the id {pipe_id} that you can see.")))?;
    let mut live = Live {
        id: told(pipe, "id"),
        uuid: told(pipe, "uuid"),
        organization: told(pipe, "organizationId"),
        things: Vec::new(),
        rows: HashMap::new(),
        not_covered: Vec::new(),
    };
    let thing = |kind: Kind, place: &str, key: &str, body: Map<String, Value>| Thing {
        kind,
        place: place.to_owned(),
        key: key.to_owned(),
        was: None,
        body,
    };
    live.keep(thing(Kind::Pipe, "", "pipe", settings::read(Kind::Pipe, pipe)), pipe);
    if !has_id(pipe) {
        return Err(unanswered("pipe.id"));
    }
    for label in things_of(pipe, "labels")? {
        live.keep(thing(Kind::Label, "", &told(label, "name"), settings::read(Kind::Label, label)), label);
    }
    // Where fields and conditions are, and what holds them.
    let mut places = vec![(START_FORM.to_owned(), pipe, "start_form_fields", "startFormFieldConditions")];
    let start = json!({ "id": told(pipe, "startFormPhaseId"), "index": -1 });
    live.rows.insert((Kind::Phase, START_FORM.to_owned()), start);
    let mut phases = things_of(pipe, "phases")?;
    phases.sort_by(|a, b| number(a, "index").total_cmp(&number(b, "index")));
    for phase in phases {
        let body = settings::read(Kind::Phase, phase);
        // A phase of the name of the start form is told apart from it.
        let name = told(phase, "name");
        let name = if name == START_FORM { format!("{START_FORM} #2") } else { name };
        let key = live.keep(thing(Kind::Phase, "", &name, body), phase);
        places.push((key, phase, "fields", "fieldConditions"));
    }
    for (place, row, fields, _) in &places {
        let mut fields = things_of(row, fields)?;
        fields.sort_by(|a, b| number(a, "index").total_cmp(&number(b, "index")));
        for field in fields {
            let mut body = Map::from_iter([("type".to_owned(), field.get("type").cloned().unwrap_or_default())]);
            if let Some((kind, name)) = field.get("connectedRepo").and_then(|row| end(row, &live.id)) {
                body.insert("connects".to_owned(), json!({ kind: name }));
            }
            body.extend(settings::read(Kind::Field, field));
            live.keep(thing(Kind::Field, place, &told(field, "label"), body), field);
        }
    }
    let mut names = Dictionary { way: Way::ToNames, own: inverted(&live), ..Dictionary::default() };
    for (place, row, _, conditions) in &places {
        for rule in things_of(row, conditions)? {
            let mut body = Map::new();
            let groups = names.groups(rule.get("condition").unwrap_or(&Value::Null)).map_err(unreadable)?;
            if !groups.is_null() {
                body.insert("when".to_owned(), groups);
            }
            let actions = names.rule_actions(rule.get("actions").unwrap_or(&Value::Null), place).map_err(unreadable)?;
            body.insert("actions".to_owned(), actions);
            live.keep(thing(Kind::Condition, place, &told(rule, "name"), body), rule);
        }
    }
    for (side, key, other) in [("parents", "parentsRelations", "parent"), ("children", "childrenRelations", "child")] {
        for relation in things_of(pipe, key)? {
            let Some((kind, name)) = relation.get(other).and_then(|row| end(row, &live.id)) else {
                live.not_covered.push(format!("connection {}: its other end cannot be seen", told(relation, "name")));
                continue;
            };
            // A pipe that is connected with itself is shown once.
            if side == "parents" && name == "self" {
                continue;
            }
            let mut body = Map::from_iter([(kind.clone(), name.clone())]);
            body.extend(settings::read(Kind::Connection, relation));
            if list(relation, "ownFieldMaps").next().is_some() {
                let id = relation.get(other).map(|row| told(row, "id")).unwrap_or_default();
                names.other = inverted_book(&book(flow, &kind, &id).await?);
                let rows = relation.get("ownFieldMaps").unwrap_or(&Value::Null);
                body.insert("fields".to_owned(), names.mapped(rows).map_err(unreadable)?);
            }
            let key = connection_key(&told(relation, "name"), &body).unwrap_or_default();
            live.keep(thing(Kind::Connection, side, &key, body), relation);
        }
    }
    rules(flow, &mut live, names).await?;
    Ok(live)
}

fn number(row: &Value, key: &str) -> f64 {
    row.get(key).and_then(Value::as_f64).unwrap_or_default()
}

fn unreadable(what: String) -> Failure {
    Failure::failed(format!("Pipefy's answer cannot be read: {what}"))
}

/// From ids to names. Fields are also known by slug and uuid.
fn inverted(live: &Live) -> Book {
    let mut book = Book::default();
    for ((kind, name), row) in &live.rows {
        match kind {
            Kind::Field => {
                // Slugs of other fields must not win over ids.
                for key in ["id", "uuid", "internal_id"] {
                    book.fields.insert(told(row, key), name.clone());
                }
            }
            Kind::Phase => {
                book.phases.insert(told(row, "id"), name.clone());
            }
            _ => {}
        }
    }
    book
}

fn inverted_book(book: &Book) -> Book {
    let turned = |map: &HashMap<String, String>| map.iter().map(|(name, id)| (id.clone(), name.clone())).collect();
    Book { fields: turned(&book.fields), phases: turned(&book.phases) }
}

/// Names of fields and phases of another pipe or table, with their ids; none of what the scope does not hold.
pub(super) async fn book(flow: &Flow<'_>, kind: &str, id: &str) -> Result<Book, Failure> {
    let mut book = Book::default();
    if !flow.holds(if kind == "table" { IdKind::Table } else { IdKind::Pipe }, id).await? {
        return Ok(book);
    }
    let mut things: Vec<Thing> = Vec::new();
    let mut put = |book: &mut Book, place: &str, label: &str, id: String| {
        push(
            &mut things,
            Thing { kind: Kind::Field, place: place.to_owned(), key: label.to_owned(), was: None, body: Map::new() },
        );
        book.fields.extend(things.last().map(|thing| (thing.name(), id)));
    };
    let nothing = Value::Null;
    if kind == "table" {
        let data = flow.read(&tables::get_table(id)).await?;
        let ids = flow.read(&Lookup::TableContents.of(id)).await?;
        let fields = things_of(ids.get("table").unwrap_or(&nothing), "table_fields")?;
        let by_slug: HashMap<String, String> =
            fields.into_iter().map(|field| (told(field, "id"), told(field, "internal_id"))).collect();
        for field in things_of(data.get("table").unwrap_or(&nothing), "table_fields")? {
            let id = by_slug.get(&told(field, "id")).cloned().unwrap_or_default();
            put(&mut book, "", &told(field, "label"), id);
        }
        return Ok(book);
    }
    let data = flow.read(&automations::pipe_with_preferences(id)).await?;
    let pipe = data.get("pipe").unwrap_or(&nothing);
    for field in asked(pipe, "start_form_fields")? {
        put(&mut book, START_FORM, &told(field, "label"), told(field, "internal_id"));
    }
    for phase in things_of(pipe, "phases")? {
        let name = told(phase, "name");
        book.phases.entry(name.clone()).or_insert_with(|| told(phase, "id"));
        for field in asked(phase, "fields")? {
            put(&mut book, &name, &told(field, "label"), told(field, "internal_id"));
        }
    }
    Ok(book)
}

/// E-mail templates of a pipe: name and id.
pub(super) async fn templates(flow: &Flow<'_>, pipe_id: &str) -> Result<HashMap<String, String>, Failure> {
    let data = flow.read(&emails::get_email_templates(pipe_id, None, TEMPLATES)).await?;
    let mut found = HashMap::new();
    for edge in asked(data.get("emailTemplates").unwrap_or(&Value::Null), "edges")? {
        let node = edge.get("node").filter(|node| has_id(node)).ok_or_else(|| unanswered("node"))?;
        found.entry(told(node, "name")).or_insert_with(|| told(node, "id"));
    }
    Ok(found)
}

/// What cannot be seen is nothing; any other failure is one.
pub(super) fn seen<T: Default>(read: Result<T, Failure>) -> Result<T, Failure> {
    match read {
        Err(Failure::Tool(error)) if error.kind == pipefy_tools::Kind::Api => Ok(T::default()),
        read => read,
    }
}

/// Names of the templates that automations send, by id.
async fn template_names(flow: &Flow<'_>, live: &Live, rules: &[Value]) -> Result<HashMap<String, String>, Failure> {
    let used = rules.iter().filter_map(|rule| rule.pointer("/action_params/email_template_id")).map(text);
    let used: Vec<String> = used.filter(|id| !id.is_empty()).collect();
    if used.is_empty() {
        return Ok(HashMap::new());
    }
    let mut names: HashMap<String, String> =
        templates(flow, &live.id).await?.into_iter().map(|(name, id)| (id, name)).collect();
    for id in used {
        // Templates of other pipes are not listed. One that cannot be read keeps its id.
        if !names.contains_key(&id) && flow.holds(IdKind::EmailTemplate, &id).await? {
            let data = seen(flow.read(&emails::get_parsed_email_template(&id, None)).await)?;
            let name = data.pointer("/parsedEmailTemplate/name").and_then(Value::as_str).map(str::to_owned);
            names.extend(name.map(|name| (id, name)));
        }
    }
    Ok(names)
}

/// Reads the automations that the pipe starts.
async fn rules(flow: &Flow<'_>, live: &mut Live, mut names: Dictionary) -> Result<(), Failure> {
    let mut ids = Vec::new();
    let mut after: Option<String> = None;
    let mut read = HashSet::new();
    loop {
        let query = automations::get_automations_of_repo(&live.organization, &live.id, Some(PAGE), after.as_deref());
        let data = flow.read(&query).await?;
        let page = data.get("automations").unwrap_or(&Value::Null);
        ids.extend(things_of(page, "nodes")?.into_iter().map(|node| told(node, "id")));
        match page.pointer("/pageInfo/hasNextPage").and_then(Value::as_bool) {
            Some(false) => break,
            Some(true) => {
                let next = page.pointer("/pageInfo/endCursor").and_then(Value::as_str).map(str::to_owned);
                // A cursor that was followed before leads in a circle.
                let next = next.filter(|next| !next.is_empty() && read.insert(next.clone()));
                after = Some(next.ok_or_else(|| unanswered("automations.pageInfo"))?);
            }
            None => return Err(unanswered("automations.pageInfo")),
        }
    }
    let reads = ids.into_iter().map(|id| -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            let data = flow.read(&automations::get_automation(&id)).await?;
            let rule = data.get("automation").filter(|rule| told(rule, "id") == id);
            rule.cloned().ok_or_else(|| unanswered("automation"))
        })
    });
    let reads: Vec<BoxFuture<'_, Result<Value, Failure>>> = reads.collect();
    let rules: Vec<Value> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    let rules = rules.into_iter();
    let own = rules.filter(|rule| rule.pointer("/event_repo/id").map(text).as_deref() == Some(&live.id));
    let (agents, mut rules): (Vec<Value>, Vec<Value>) = own.partition(|rule| told(rule, "action_id") == "ai_behavior");
    // They run by their events, not in an order: names keep the file steady.
    rules.sort_by_key(|rule| told(rule, "name"));
    live.not_covered.extend(agents.iter().map(|rule| format!("behavior of an AI agent: {}", told(rule, "name"))));
    names.automations = rules.iter().map(|rule| (told(rule, "id"), told(rule, "name"))).collect();
    names.templates = template_names(flow, live, &rules).await?;
    let mut books: HashMap<String, Book> = HashMap::new();
    for rule in &rules {
        let name = told(rule, "name");
        let mut body = settings::read(Kind::Automation, rule);
        names.other = Book::default();
        let repo = rule.get("action_repo_v2").unwrap_or(&Value::Null);
        let id = told(repo, "id");
        if !id.is_empty() && id != live.id {
            // The answer does not say which of the two it is.
            let kind = if told(rule, "action_id").contains("table_record") { "table" } else { "pipe" };
            if !books.contains_key(&id) {
                // What cannot be seen keeps its ids.
                books.insert(id.clone(), inverted_book(&seen(book(flow, kind, &id).await)?));
            }
            names.other = books.get(&id).cloned().unwrap_or_default();
            body.insert("in".to_owned(), json!({ kind: told(repo, "name") }));
        }
        let mut action = rule.get("action_params").cloned().unwrap_or_default();
        if let Value::Object(action) = &mut action {
            if action.shift_remove("hasAuthenticationValue") == Some(true.into()) {
                live.not_covered.push(format!("the secret of the automation {name}"));
            }
            if action.shift_remove("oauth2ClientData").is_some_and(|data| !data.is_null()) {
                live.not_covered.push(format!("the OAuth client of the automation {name}"));
            }
            action.shift_remove("phase");
            action.shift_remove("aiBehaviorParams");
        }
        let mut event = rule.get("event_params").cloned().unwrap_or_default();
        if let Value::Object(event) = &mut event {
            event.shift_remove("phase");
        }
        let nothing = Value::Null;
        let parts = [
            ("event_params", names.event(&event)),
            ("when", names.groups(rule.get("condition").unwrap_or(&nothing))),
            ("search", names.search(rule.get("searchFor").unwrap_or(&nothing))),
            ("action_params", names.action(&action)),
        ];
        for (key, part) in parts {
            let part = part.map_err(unreadable)?;
            let empty = part.as_object().is_some_and(Map::is_empty) || part.as_array().is_some_and(Vec::is_empty);
            if !part.is_null() && !empty {
                body.insert(key.to_owned(), part);
            }
        }
        let thing = Thing { kind: Kind::Automation, place: String::new(), key: name, was: None, body };
        live.keep(thing, rule);
    }
    Ok(())
}
