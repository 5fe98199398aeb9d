//! From differences to calls of capabilities, which make them.

use std::collections::HashMap;

use pipefy::{pipes, tables};
use pipefy_tools::{DYNAMIC_TYPE, FIELD_TYPES, IdKind, dig};
use serde_json::{Map, Value, json};

use super::read::{self, Live};
use super::refs::{Book, Dictionary, Way, text};
use super::settings;
use super::text::connection_name;
use super::things::{Change, How, Kind, START_FORM, Thing};
use crate::failure::Failure;
use crate::flow::Flow;

/// The capabilities that may be called.
pub(crate) const CALLS: &[&str] = &[
    "create_pipe",
    "create_label",
    "update_label",
    "delete_label",
    "create_phase",
    "update_phase",
    "delete_phase",
    "create_phase_field",
    "update_phase_field",
    "delete_phase_field",
    "create_field_condition",
    "update_field_condition",
    "delete_field_condition",
    "create_pipe_relation",
    "update_pipe_relation",
    "delete_pipe_relation",
    "create_automation",
    "update_automation",
    "delete_automation",
];

/// The colors of pipes and phases (`Colors` of the schema).
const COLORS: [&str; 12] =
    ["blue", "cyan", "gray", "green", "indigo", "lime", "orange", "pink", "purple", "red", "sky", "yellow"];

/// Most tables of an organization that are looked through.
const TABLES: i64 = 500;

type Args = Map<String, Value>;

/// The differences that can be made now, in the order in which they can be made. What the API cannot do is left out.
pub(super) fn steps(changes: &[Change]) -> Vec<&Change> {
    // A thing that is made anew goes first, and alone: others may name it.
    let replaced: Vec<&Change> = changes.iter().filter(|change| matches!(change.how, How::Replace(_))).collect();
    if !replaced.is_empty() {
        return replaced;
    }
    let phases_gone: Vec<&str> = changes
        .iter()
        .filter(|change| change.thing.kind == Kind::Phase && change.how == How::Remove)
        .map(|change| change.thing.key.as_str())
        .collect();
    let mut steps: Vec<&Change> = changes
        .iter()
        // What is in a phase goes with it.
        .filter(|change| change.how != How::Remove || !phases_gone.contains(&change.thing.place.as_str()))
        .filter(|change| is_possible(change))
        .collect();
    steps.sort_by_key(|change| (rank(change), depth(change, changes)));
    steps
}

/// Whether Pipefy's API has a way.
pub(super) fn is_possible(change: &Change) -> bool {
    !(change.thing.kind == Kind::Phase && matches!(change.how, How::Order(_)))
}

fn rank(change: &Change) -> usize {
    const MADE: [Kind; 7] =
        [Kind::Pipe, Kind::Label, Kind::Phase, Kind::Field, Kind::Condition, Kind::Connection, Kind::Automation];
    let at = MADE.iter().position(|kind| *kind == change.thing.kind).unwrap_or_default();
    match change.how {
        How::Remove => 2 * MADE.len() - at,
        _ => at,
    }
}

/// How many new automations an automation waits for.
fn depth(change: &Change, changes: &[Change]) -> usize {
    let mut depth = 0;
    let mut thing = &change.thing;
    while let Some(trigger) = thing.body.get("event_params").and_then(|params| params.get("automation")?.as_str()) {
        let new = |other: &&Change| other.thing.kind == Kind::Automation && other.thing.key == trigger;
        match changes.iter().find(new) {
            Some(other) if depth < changes.len() => thing = &other.thing,
            _ => break,
        }
        depth += 1;
    }
    depth
}

/// Whether something is lost that cannot be had back.
pub(super) fn loses(change: &Change, live: &Live) -> bool {
    let thing = &change.thing;
    match change.how {
        How::Replace(_) => true,
        How::Remove if thing.kind == Kind::Phase => {
            let empty = live.said(Kind::Phase, &thing.name(), "cards_count") == "0";
            !empty || live.things.iter().any(|other| other.place == thing.key)
        }
        How::Remove => true,
        _ => false,
    }
}

/// Checks that everything a file names is in it.
///
/// # Errors
/// The first name that is not.
pub(super) fn check(want: &[Thing]) -> Result<(), String> {
    let of = |kind: Kind| -> HashMap<String, String> {
        let things = want.iter().filter(|thing| thing.kind == kind);
        things.map(|thing| (thing.name(), String::from("?"))).collect()
    };
    let mut phases = of(Kind::Phase);
    phases.insert(START_FORM.to_owned(), String::from("?"));
    let mut names = Dictionary {
        way: Way::ToIds,
        own: Book { fields: of(Kind::Field), phases },
        automations: of(Kind::Automation),
        ..Dictionary::default()
    };
    for thing in want {
        let at = |error: String| format!("{} {}: {error}", thing.kind.word(), thing.name());
        let nothing = Value::Null;
        let part = |key: &str| thing.body.get(key).unwrap_or(&nothing);
        names.condition(thing.body.get("when")).map_err(at)?;
        match thing.kind {
            Kind::Condition => drop(names.rule_actions(part("actions"), &thing.place).map_err(at)?),
            Kind::Automation => {
                names.event(part("event_params")).map_err(at)?;
                let template = part("action_params").get("email_template").and_then(Value::as_str);
                names.templates = template.into_iter().map(|name| (name.to_owned(), String::new())).collect();
                // Names of what is elsewhere are looked up there.
                if !thing.body.contains_key("in") {
                    names.action(part("action_params")).map_err(at)?;
                    names.search(part("search")).map_err(at)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that what is to be made is something that Pipefy's schema takes. What is there already is left to Pipefy.
///
/// # Errors
/// Everything that is not.
pub(super) fn sound(changes: &[Change]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for change in changes {
        let (thing, body) = (&change.thing, &change.thing.body);
        let sent = |key: &str| match &change.how {
            How::Add | How::Replace(_) => body.contains_key(key),
            How::Set(settings) => settings.iter().any(|(set, ..)| set == key) && body.contains_key(key),
            How::Rename(_) | How::Order(_) | How::Remove => false,
        };
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        let what = match thing.kind {
            Kind::Pipe | Kind::Phase if sent("color") && !COLORS.contains(&text("color")) => {
                format!("the color {} is none of {}", text("color"), COLORS.join(", "))
            }
            Kind::Label if sent("color") && !is_hex(text("color")) => {
                format!("the color {} is not like #2E90FA", text("color"))
            }
            Kind::Field if sent("type") && !FIELD_TYPES.contains(&text("type")) && text("type") != DYNAMIC_TYPE => {
                format!("the type {} is none of {}, {DYNAMIC_TYPE}", text("type"), FIELD_TYPES.join(", "))
            }
            Kind::Condition
                if matches!(change.how, How::Add | How::Set(_))
                    && body.get("actions").and_then(Value::as_array).is_none_or(Vec::is_empty) =>
            {
                "it needs at least one action".to_owned()
            }
            _ => continue,
        };
        wrong.push(format!("{} {}: {what}", thing.kind.word(), thing.name()));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure::refused(format!("Pipefy does not take this. Nothing was sent.\n- {}", wrong.join("\n- "))))
        }
    }
}

fn is_hex(color: &str) -> bool {
    let digits = color.strip_prefix('#').unwrap_or_default();
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Makes differences.
pub(super) struct Sender<'a> {
    flow: &'a Flow<'a>,
    live: &'a Live,
    want: &'a [Thing],
    ids: Dictionary,
    /// Pipes and tables of the organization by kind and name.
    places: HashMap<(String, String), Vec<String>>,
    /// Sort keys of phases and fields.
    index: HashMap<(Kind, String), f64>,
    books: HashMap<String, Book>,
}

impl<'a> Sender<'a> {
    /// Looks up what the file names outside of the pipe; `origin` is the pipe that the file came from.
    ///
    /// # Errors
    /// A failed read, or names that lead nowhere or to several things.
    pub(super) async fn new(
        flow: &'a Flow<'a>,
        live: &'a Live,
        want: &'a [Thing],
        origin: &str,
    ) -> Result<Self, Failure> {
        let automations = live.rows.iter().filter(|((kind, _), _)| *kind == Kind::Automation);
        let automations = automations.filter_map(|((_, name), row)| Some((name.clone(), text(row.get("id")?))));
        let index = live.rows.iter().filter(|((kind, _), _)| matches!(kind, Kind::Phase | Kind::Field));
        let index = index.filter_map(|((kind, name), row)| Some(((*kind, name.clone()), row.get("index")?.as_f64()?)));
        let mut sender = Self {
            flow,
            live,
            want,
            ids: Dictionary {
                way: Way::ToIds,
                own: live.ids(),
                automations: automations.collect(),
                ..Dictionary::default()
            },
            places: HashMap::new(),
            index: index.collect(),
            books: HashMap::new(),
        };
        sender.look_around(origin).await?;
        Ok(sender)
    }

    async fn look_around(&mut self, origin: &str) -> Result<(), Failure> {
        let ends: Vec<(String, String)> = self.want.iter().filter_map(end).filter(|(_, name)| name != "self").collect();
        if !ends.is_empty() {
            let places = places(self.flow, &self.live.organization).await?;
            let mut wrong = Vec::new();
            for (kind, name) in &ends {
                match places.get(&(kind.clone(), name.clone())).map_or(0, Vec::len) {
                    1 => {}
                    0 => wrong.push(format!("there is no {kind} called {name}")),
                    _ => wrong.push(format!("several things are the {kind} {name}")),
                }
            }
            wrong.sort();
            wrong.dedup();
            if !wrong.is_empty() {
                return Err(Failure::refused(format!(
                    "The file names what organization {} does not have so: {}. Nothing was changed.",
                    self.live.organization,
                    wrong.join("; ")
                ))
                .with_hint(Some("make it first, or change the name in the file".to_owned())));
            }
            self.places = places;
        }
        let sends = |thing: &Thing| thing.body.get("action_params").is_some_and(|p| p.get("email_template").is_some());
        if !self.want.iter().any(sends) || self.live.id.is_empty() {
            return Ok(());
        }
        self.ids.templates = read::templates(self.flow, &self.live.id).await?;
        // A copy has no templates yet: those of the pipe that the file came from serve as well.
        if self.places.is_empty() {
            self.places = places(self.flow, &self.live.organization).await?;
        }
        for id in self.places.get(&("pipe".to_owned(), origin.to_owned())).into_iter().flatten() {
            if *id != self.live.id && self.flow.holds(IdKind::Pipe, id).await? {
                for (name, id) in read::seen(read::templates(self.flow, id).await)? {
                    self.ids.templates.entry(name).or_insert(id);
                }
            }
        }
        Ok(())
    }

    fn place(&self, kind: &str, name: &str) -> Result<String, Failure> {
        if name == "self" {
            return Ok(self.live.id.clone());
        }
        let found = self.places.get(&(kind.to_owned(), name.to_owned())).and_then(|ids| ids.first());
        found.cloned().ok_or_else(|| Failure::failed(format!("There is no {kind} called {name}.")))
    }

    /// The sort key that puts a new thing where the file has it.
    fn index_of(&self, thing: &Thing) -> f64 {
        let siblings: Vec<&Thing> =
            self.want.iter().filter(|other| other.kind == thing.kind && other.place == thing.place).collect();
        let at = siblings.iter().position(|other| other.key == thing.key).unwrap_or(siblings.len());
        let known = |other: &&Thing| self.index.get(&(other.kind, other.name())).copied();
        let before = siblings.iter().take(at).rev().find_map(known).unwrap_or(0.0);
        let after = siblings.iter().skip(at + 1).find_map(known).filter(|after| *after > before);
        match after {
            Some(after) => f64::midpoint(before, after),
            None => {
                let prefix = if thing.place.is_empty() { String::new() } else { format!("{} / ", thing.place) };
                let all =
                    self.index.iter().filter(|((kind, name), _)| *kind == thing.kind && name.starts_with(&prefix));
                all.map(|(_, index)| *index).fold(0.0, f64::max).floor() + 1.0
            }
        }
    }

    /// Makes one difference.
    ///
    /// # Errors
    /// What the capability says.
    pub(super) async fn make(&mut self, change: &Change) -> Result<(), Failure> {
        let thing = &change.thing;
        let name = thing.name();
        match (&change.how, thing.kind) {
            (How::Add, Kind::Label) => self.call("create_label", self.label(thing)).await.map(drop),
            (How::Add, Kind::Phase) => self.add_phase(thing).await,
            (How::Add, Kind::Field) => self.add_field(thing).await,
            (How::Add, Kind::Condition) => {
                let mut args = self.rule(thing)?;
                args.insert("phase_id".to_owned(), self.phase(&thing.place)?.into());
                args.insert("name".to_owned(), thing.label().into());
                self.call("create_field_condition", args).await.map(drop)
            }
            (How::Add, Kind::Connection) => {
                let (kind, other) = end(thing).ok_or_else(|| Failure::failed(format!("{name} connects nothing")))?;
                let other = self.place(&kind, &other)?;
                let own = self.live.id.clone();
                let (parent, child) = if thing.place == "parents" { (other, own) } else { (own, other) };
                let mut args = self.connection(thing).await?;
                args.insert("parent_id".to_owned(), parent.into());
                args.insert("child_id".to_owned(), child.into());
                self.call("create_pipe_relation", args).await.map(drop)
            }
            (How::Add, Kind::Automation) => self.add_automation(thing).await,
            (How::Rename(from), Kind::Label) => {
                let mut args = self.label(thing);
                args.insert("label_id".to_owned(), self.live.said(Kind::Label, from, "id").into());
                self.call("update_label", args).await.map(drop)
            }
            (How::Rename(from), Kind::Phase) => {
                let args = json!({ "phase_id": self.phase(from)?, "name": thing.label() });
                self.call("update_phase", args).await.map(drop)
            }
            (How::Rename(from), Kind::Field) => {
                let old = Thing { key: from.clone(), ..thing.clone() };
                let mut args = self.field(&old);
                args.insert("label".to_owned(), thing.label().into());
                self.call("update_phase_field", args).await.map(drop)
            }
            (How::Set(settings), kind) => {
                let keys: Vec<&str> = settings.iter().map(|(key, ..)| key.as_str()).collect();
                self.set(thing, kind, &keys).await
            }
            (How::Order(keys), Kind::Field) => {
                for (at, key) in keys.iter().enumerate() {
                    let field = Thing { key: key.clone(), ..thing.clone() };
                    let mut args = self.field(&field);
                    args.insert("extra_input".to_owned(), json!({ "index": at + 1 }));
                    self.call("update_phase_field", args).await?;
                }
                Ok(())
            }
            (How::Remove | How::Replace(_), kind) => self.remove(thing, kind).await,
            // Nothing else comes of a comparison.
            (How::Add | How::Rename(_) | How::Order(_), _) => Ok(()),
        }
    }

    async fn call(&self, tool: &str, args: impl Into<Value>) -> Result<Value, Failure> {
        let Value::Object(args) = args.into() else { return Ok(Value::Null) };
        Ok(self.flow.call(tool, args).await?.body.into_value())
    }

    fn phase(&self, key: &str) -> Result<String, Failure> {
        let found = self.ids.own.phases.get(key).cloned();
        found.ok_or_else(|| Failure::failed(format!("There is no phase {key}.")))
    }

    fn label(&self, thing: &Thing) -> Args {
        let mut args = settings::write(Kind::Label, &thing.body, None);
        args.insert("name".to_owned(), thing.label().into());
        args.insert("pipe_id".to_owned(), self.live.id.as_str().into());
        args
    }

    /// What says which field is meant.
    fn field(&self, thing: &Thing) -> Args {
        let said = |key: &str| Value::from(self.live.said(Kind::Field, &thing.name(), key));
        Map::from_iter([
            ("field_id".to_owned(), said("id")),
            ("uuid".to_owned(), said("uuid")),
            ("label".to_owned(), thing.label().into()),
        ])
    }

    async fn add_phase(&mut self, thing: &Thing) -> Result<(), Failure> {
        let index = self.index_of(thing);
        let mut args = settings::write(Kind::Phase, &thing.body, Some(&["done", "description"]));
        args.insert("pipe_id".to_owned(), self.live.id.as_str().into());
        args.insert("name".to_owned(), thing.label().into());
        args.insert("index".to_owned(), index.into());
        let made = self.call("create_phase", args).await?;
        let id = id_in(&made, "createPhase.phase.id")?;
        self.index.insert((Kind::Phase, thing.key.clone()), index);
        self.ids.own.phases.insert(thing.key.clone(), id.clone());
        let rest: Vec<&str> =
            thing.body.keys().map(String::as_str).filter(|k| !["done", "description"].contains(k)).collect();
        if rest.is_empty() {
            return Ok(());
        }
        let mut args = settings::write(Kind::Phase, &thing.body, Some(&rest));
        args.insert("phase_id".to_owned(), id.into());
        args.insert("name".to_owned(), thing.label().into());
        self.call("update_phase", args).await.map(drop)
    }

    async fn add_field(&mut self, thing: &Thing) -> Result<(), Failure> {
        const OWN: [&str; 3] = ["options", "description", "required"];
        let index = self.index_of(thing);
        let mut extra = settings::write(Kind::Field, &thing.body, None);
        let mut args = Map::new();
        for key in OWN {
            args.extend(extra.shift_remove(key).map(|value| (key.to_owned(), value)));
        }
        extra.insert("index".to_owned(), index.into());
        if let Some((kind, name)) = end(thing) {
            extra.insert("connectedRepoId".to_owned(), self.place(&kind, &name)?.into());
        }
        args.insert("phase_id".to_owned(), self.phase(&thing.place)?.into());
        args.insert("label".to_owned(), thing.label().into());
        args.insert("field_type".to_owned(), thing.body.get("type").cloned().unwrap_or_default());
        args.insert("extra_input".to_owned(), extra.into());
        let made = self.call("create_phase_field", args).await?;
        let id = id_in(&made, "createPhaseField.phase_field.internal_id")?;
        self.index.insert((Kind::Field, thing.name()), index);
        self.ids.own.fields.insert(thing.name(), id);
        Ok(())
    }

    /// Condition and actions of a field condition.
    fn rule(&self, thing: &Thing) -> Result<Args, Failure> {
        let at = |error: String| Failure::failed(format!("{} {}: {error}", thing.kind.word(), thing.name()));
        let actions = thing.body.get("actions").unwrap_or(&Value::Null);
        Ok(Map::from_iter([
            ("condition".to_owned(), self.ids.condition(thing.body.get("when")).map_err(at)?),
            ("actions".to_owned(), self.ids.rule_actions(actions, &thing.place).map_err(at)?),
        ]))
    }

    async fn connection(&mut self, thing: &Thing) -> Result<Args, Failure> {
        // Pipefy wants all of them each time.
        let all: Vec<&str> = settings::of(Kind::Connection).iter().map(|setting| setting.key).collect();
        let mut extra = settings::write(Kind::Connection, &thing.body, Some(&all));
        if let Some((kind, name)) = end(thing)
            && let Some(rows) = thing.body.get("fields")
        {
            let id = self.place(&kind, &name)?;
            self.other(&kind, &id).await?;
            extra.insert("ownFieldMaps".to_owned(), self.ids.mapped(rows).map_err(Failure::failed)?);
        }
        Ok(Map::from_iter([
            ("name".to_owned(), connection_name(thing).into()),
            ("extra_input".to_owned(), extra.into()),
        ]))
    }

    /// Makes another pipe's or table's names known.
    async fn other(&mut self, kind: &str, id: &str) -> Result<(), Failure> {
        if !self.books.contains_key(id) {
            self.books.insert(id.to_owned(), read::book(self.flow, kind, id).await?);
        }
        self.ids.other = self.books.get(id).cloned().unwrap_or_default();
        Ok(())
    }

    /// What an automation is, as further arguments.
    async fn automation(&mut self, thing: &Thing) -> Result<(Option<String>, Args), Failure> {
        let at = |error: String| Failure::failed(format!("automation {}: {error}", thing.name()));
        let repo = match thing.body.get("in").and_then(|_| end(thing)) {
            Some((kind, name)) => {
                let id = self.place(&kind, &name)?;
                self.other(&kind, &id).await?;
                Some(id)
            }
            None => {
                self.ids.other = Book::default();
                None
            }
        };
        let mut extra = settings::write(Kind::Automation, &thing.body, None);
        let nothing = Value::Null;
        let part = |key: &str| thing.body.get(key).unwrap_or(&nothing);
        let parts = [
            ("event_params", self.ids.event(part("event_params")).map_err(at)?),
            ("action_params", self.ids.action(part("action_params")).map_err(at)?),
            ("searchFor", self.ids.search(part("search")).map_err(at)?),
        ];
        extra.extend(
            parts.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)),
        );
        Ok((repo, extra))
    }

    async fn add_automation(&mut self, thing: &Thing) -> Result<(), Failure> {
        let (repo, mut extra) = self.automation(thing).await?;
        let mut args = Map::from_iter([
            ("pipe_id".to_owned(), Value::from(self.live.id.as_str())),
            ("name".to_owned(), thing.label().into()),
            ("trigger_id".to_owned(), extra.shift_remove("event_id").unwrap_or_default()),
            ("action_id".to_owned(), extra.shift_remove("action_id").unwrap_or_default()),
            ("active".to_owned(), extra.shift_remove("active").unwrap_or(Value::Bool(true))),
        ]);
        args.extend(repo.map(|id| ("action_repo_id".to_owned(), id.into())));
        if let Some(groups) = thing.body.get("when") {
            args.insert("condition".to_owned(), self.ids.condition(Some(groups)).map_err(Failure::failed)?);
        }
        args.insert("extra_input".to_owned(), extra.into());
        let made = self.call("create_automation", args).await?;
        let id = dig(&made, "automation.id").map(text).unwrap_or_default();
        self.ids.automations.insert(thing.key.clone(), id);
        Ok(())
    }

    async fn set(&mut self, thing: &Thing, kind: Kind, keys: &[&str]) -> Result<(), Failure> {
        let name = thing.name();
        let id = || Value::from(self.live.said(kind, &name, "id"));
        match kind {
            Kind::Pipe => {
                let mut args = settings::write(kind, &thing.body, Some(keys));
                args.insert("pipe_id".to_owned(), self.live.id.as_str().into());
                self.call("update_pipe", args).await.map(drop)
            }
            Kind::Label => {
                let mut args = self.label(thing);
                args.shift_remove("pipe_id");
                args.insert("label_id".to_owned(), id());
                self.call("update_label", args).await.map(drop)
            }
            Kind::Phase => {
                let mut args = settings::write(kind, &thing.body, Some(keys));
                args.insert("phase_id".to_owned(), id());
                args.insert("name".to_owned(), thing.label().into());
                self.call("update_phase", args).await.map(drop)
            }
            Kind::Field => {
                let mut args = self.field(thing);
                args.insert("extra_input".to_owned(), settings::write(kind, &thing.body, Some(keys)).into());
                self.call("update_phase_field", args).await.map(drop)
            }
            Kind::Condition => {
                let mut args = self.rule(thing)?;
                args.insert("condition_id".to_owned(), id());
                self.call("update_field_condition", args).await.map(drop)
            }
            Kind::Connection => {
                let id = id();
                let mut args = self.connection(thing).await?;
                args.insert("relation_id".to_owned(), id);
                self.call("update_pipe_relation", args).await.map(drop)
            }
            Kind::Automation => {
                let id = id();
                let (repo, mut extra) = self.automation(thing).await?;
                // What is gone must be said.
                for (key, sent) in [("event_params", "event_params"), ("action_params", "action_params")] {
                    if keys.contains(&key) {
                        extra.entry(sent).or_insert_with(|| Map::new().into());
                    }
                }
                if keys.contains(&"search") {
                    extra.entry("searchFor").or_insert_with(|| Vec::<Value>::new().into());
                }
                if keys.contains(&"in") {
                    extra.insert("action_repo_id".to_owned(), repo.unwrap_or_else(|| self.live.id.clone()).into());
                }
                extra.extend(settings::write(kind, &thing.body, Some(keys)));
                if keys.contains(&"when") {
                    extra.insert(
                        "condition".to_owned(),
                        self.ids.condition(thing.body.get("when")).map_err(Failure::failed)?,
                    );
                }
                self.call("update_automation", json!({ "automation_id": id, "extra_input": extra })).await.map(drop)
            }
        }
    }

    async fn remove(&self, thing: &Thing, kind: Kind) -> Result<(), Failure> {
        let name = thing.name();
        let said = |key: &str| self.live.said(kind, &name, key);
        let (tool, args) = match kind {
            Kind::Pipe => return Ok(()),
            Kind::Label => ("delete_label", json!({ "label_id": said("id") })),
            Kind::Phase => ("delete_phase", json!({ "phase_id": said("id") })),
            Kind::Field => (
                "delete_phase_field",
                json!({ "field_id": said("uuid"), "pipe_uuid": self.live.uuid, "pipe_id": self.live.id }),
            ),
            Kind::Condition => ("delete_field_condition", json!({ "condition_id": said("id") })),
            Kind::Connection => ("delete_pipe_relation", json!({ "relation_id": said("id") })),
            Kind::Automation => ("delete_automation", json!({ "automation_id": said("id") })),
        };
        self.call(tool, args).await.map(drop)
    }
}

/// The pipe or table that a thing is connected with: kind and name.
fn end(thing: &Thing) -> Option<(String, String)> {
    let map = match thing.kind {
        Kind::Field => thing.body.get("connects")?.as_object()?,
        Kind::Automation => thing.body.get("in")?.as_object()?,
        Kind::Connection => &thing.body,
        _ => return None,
    };
    ["pipe", "table"].iter().find_map(|kind| Some(((*kind).to_owned(), map.get(*kind)?.as_str()?.to_owned())))
}

fn id_in(made: &Value, path: &str) -> Result<String, Failure> {
    let id = dig(made, path).map(text).filter(|id| !id.is_empty());
    id.ok_or_else(|| Failure::failed(format!("Pipefy's answer has no {path}; run the command again to go on.")))
}

/// Pipes and tables of an organization by kind and name.
pub(super) async fn places(
    flow: &Flow<'_>,
    organization: &str,
) -> Result<HashMap<(String, String), Vec<String>>, Failure> {
    let mut places: HashMap<(String, String), Vec<String>> = HashMap::new();
    for (kind, query, path) in
        [("pipe", pipes::search_pipes(None), "/pipes"), ("table", tables::search_tables(TABLES), "/tables/nodes")]
    {
        let data = flow.read(&query).await?;
        for found in read::things_of(&data, "organizations")? {
            if found.get("id").map(text).as_deref() != Some(organization) {
                continue;
            }
            let rows = found.pointer(path).and_then(Value::as_array).ok_or_else(|| read::unanswered(path))?;
            for row in rows {
                let (id, name) = (row.get("id").map(text), row.get("name").and_then(Value::as_str));
                let (Some(id), Some(name)) = (id, name) else { continue };
                places.entry((kind.to_owned(), name.to_owned())).or_default().push(id);
            }
        }
    }
    Ok(places)
}
