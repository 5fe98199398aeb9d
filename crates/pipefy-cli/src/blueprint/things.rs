//! What a pipe is made of, as a flat list of things, and what differs between two such lists.
//!
//! A thing is known by its kind, its place (fields and conditions: a phase) and its name; of several of one name the
//! second is `name #2`. Its body holds settings in words: no id, only names, so that the bodies of two pipes compare.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The place that the fields of the start form have.
pub(super) const START_FORM: &str = "Start form";

/// What a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The pipe itself.
    Pipe,
    Label,
    Phase,
    /// A field of a phase or of the start form, which its place names.
    Field,
    /// A field condition of a phase or of the start form.
    Condition,
    /// A relation; its place is `parents` or `children`.
    Connection,
    Automation,
}

impl Kind {
    /// As differences name it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Label => "label",
            Self::Phase => "phase",
            Self::Field => "field",
            Self::Condition => "condition",
            Self::Connection => "connection",
            Self::Automation => "automation",
        }
    }

    /// Settings that a file may leave out to leave them as they are.
    fn loose(self) -> &'static [&'static str] {
        match self {
            Self::Pipe => &["name", "icon", "color"],
            Self::Phase => &["color", "takes_new_cards"],
            _ => &[],
        }
    }

    /// Settings that only a new thing can be given.
    fn fixed(self) -> &'static [&'static str] {
        match self {
            Self::Field => &["type", "connects"],
            _ => &[],
        }
    }
}

/// One part of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Thing {
    pub(super) kind: Kind,
    pub(super) place: String,
    /// Its name, told apart from others of that name in its place.
    pub(super) key: String,
    /// The name it had before, for a file that renames it.
    pub(super) was: Option<String>,
    pub(super) body: Map<String, Value>,
}

impl Thing {
    /// Its name within the pipe.
    pub(super) fn name(&self) -> String {
        match self.place.as_str() {
            "" => self.key.clone(),
            place => format!("{place} / {}", self.key),
        }
    }

    /// Its name as Pipefy shows it.
    pub(super) fn label(&self) -> &str {
        match self.key.rsplit_once(" #") {
            Some((label, number)) if number.parse::<usize>().is_ok_and(|n| n > 1) => label,
            _ => &self.key,
        }
    }
}

/// Puts a thing on the list under a key of its own.
pub(super) fn push(things: &mut Vec<Thing>, mut thing: Thing) {
    let taken = |key: &str, things: &[Thing]| {
        things.iter().any(|other| other.kind == thing.kind && other.place == thing.place && other.key == key)
    };
    let mut number = 1;
    let label = thing.key.clone();
    while taken(&thing.key, things) {
        number += 1;
        thing.key = format!("{label} #{number}");
    }
    things.push(thing);
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) how: How,
    /// The thing as it shall be; for [`How::Remove`] as it is.
    pub(super) thing: Thing,
}

/// How a thing differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum How {
    Add,
    Remove,
    /// It has this name now.
    Rename(String),
    /// Setting, what it is, what it shall be.
    Set(Vec<(String, Value, Value)>),
    /// It must be made anew, because of this setting.
    Replace(String),
    /// The keys in the place of the thing shall have this order.
    Order(Vec<String>),
}

impl Change {
    /// `change`, `what`, `name`, `detail`: a row for people and programs.
    pub(super) fn row(&self) -> Value {
        let (change, detail) = match &self.how {
            How::Add => ("add", String::new()),
            How::Remove => ("remove", String::new()),
            How::Rename(from) => ("rename", format!("from {from}")),
            How::Replace(setting) => ("replace", format!("{setting} cannot be changed")),
            How::Order(keys) => ("reorder", keys.join(", ")),
            How::Set(settings) => {
                let one = |(key, from, to): &(String, Value, Value)| format!("{key}: {} -> {}", said(from), said(to));
                ("change", settings.iter().map(one).collect::<Vec<_>>().join("; "))
            }
        };
        let name = match (&self.how, self.thing.kind) {
            (How::Order(_), Kind::Field) => self.thing.place.clone(),
            (How::Order(_), _) => String::new(),
            _ => self.thing.name(),
        };
        let row = [
            ("change", change.to_owned()),
            ("what", self.thing.kind.word().to_owned()),
            ("name", name),
            ("detail", detail),
        ];
        Value::Object(row.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect())
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What has to change in `have` to become `want`. Names that have to change come alone: what else differs can only be told
/// afterwards.
pub(super) fn diff(have: &[Thing], want: &[Thing]) -> Vec<Change> {
    let renames = renames(have, want);
    if !renames.is_empty() {
        return renames;
    }
    let by_name: HashMap<(Kind, &str, &str), &Thing> = have.iter().map(|thing| (id(thing), thing)).collect();
    let mut changes = Vec::new();
    for thing in want {
        let change = |how| Change { how, thing: thing.clone() };
        match by_name.get(&id(thing)) {
            None => changes.push(change(How::Add)),
            Some(there) => changes.extend(compared(there, thing).map(change)),
        }
    }
    let wanted: HashMap<(Kind, &str, &str), ()> = want.iter().map(|thing| (id(thing), ())).collect();
    let gone = have.iter().filter(|thing| !wanted.contains_key(&id(thing)));
    changes.extend(gone.map(|thing| Change { how: How::Remove, thing: thing.clone() }));
    changes.extend(orders(have, want));
    changes
}

fn id(thing: &Thing) -> (Kind, &str, &str) {
    (thing.kind, &thing.place, &thing.key)
}

/// Things that are there under the name they had.
fn renames(have: &[Thing], want: &[Thing]) -> Vec<Change> {
    let there = |kind: Kind, place: &str, key: &str| have.iter().any(|thing| id(thing) == (kind, place, key));
    let mut changes = Vec::new();
    for thing in want {
        let Some(was) = &thing.was else { continue };
        if there(thing.kind, &thing.place, was) && !there(thing.kind, &thing.place, &thing.key) {
            changes.push(Change { how: How::Rename(was.clone()), thing: thing.clone() });
        }
    }
    changes
}

fn compared(there: &Thing, thing: &Thing) -> Option<How> {
    let mut settings = Vec::new();
    let keys = thing.body.keys().chain(there.body.keys().filter(|key| !thing.body.contains_key(*key)));
    for key in keys {
        let (from, to) = (there.body.get(key), thing.body.get(key));
        if from == to || (to.is_none() && thing.kind.loose().contains(&key.as_str())) {
            continue;
        }
        if thing.kind.fixed().contains(&key.as_str()) {
            return Some(How::Replace(key.clone()));
        }
        settings.push((key.clone(), from.cloned().unwrap_or_default(), to.cloned().unwrap_or_default()));
    }
    (!settings.is_empty()).then_some(How::Set(settings))
}

/// Phases, and fields in each place, whose order differs.
fn orders(have: &[Thing], want: &[Thing]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut seen: Vec<(Kind, &str)> = Vec::new();
    for thing in want.iter().filter(|thing| matches!(thing.kind, Kind::Phase | Kind::Field)) {
        if seen.contains(&(thing.kind, &thing.place)) {
            continue;
        }
        seen.push((thing.kind, &thing.place));
        let keys = |list: &[Thing], other: &[Thing]| -> Vec<String> {
            let same = |a: &&Thing| a.kind == thing.kind && a.place == thing.place;
            let common = list.iter().filter(same).filter(|a| other.iter().any(|b| id(a) == id(b)));
            common.map(|a| a.key.clone()).collect()
        };
        let wanted = keys(want, have);
        if keys(have, want) != wanted {
            let thing = Thing { key: String::new(), was: None, body: Map::new(), ..thing.clone() };
            changes.push(Change { how: How::Order(wanted), thing });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn thing(kind: Kind, place: &str, key: &str, body: Value) -> Thing {
        let body = body.as_object().unwrap().clone();
        Thing { kind, place: place.into(), key: key.into(), was: None, body }
    }

    fn rows(have: &[Thing], want: &[Thing]) -> Vec<String> {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let changes = diff(have, want);
        let line = |row: Value| ["change", "what", "name", "detail"].map(|key| text(&row, key)).join(" ");
        changes.iter().map(|change| line(change.row()).trim_end().to_owned()).collect()
    }

    #[test]
    fn equal_lists_do_not_differ_and_each_difference_is_one_row() {
        let have = [
            thing(Kind::Pipe, "", "pipe", json!({"name": "P", "icon": "x"})),
            thing(Kind::Phase, "", "A", json!({"color": "blue"})),
            thing(Kind::Phase, "", "B", json!({"done": true})),
            thing(Kind::Field, "A", "One", json!({"type": "number"})),
            thing(Kind::Field, "A", "Two", json!({"type": "number", "required": true})),
            thing(Kind::Label, "", "L", json!({"color": "#fff"})),
        ];
        assert!(rows(&have, &have).is_empty());
        // What a file leaves out and may leave out is no difference.
        let mut want = have.clone();
        want[0].body.remove("icon");
        want[1].body.remove("color");
        assert!(rows(&have, &want).is_empty());

        want[2].body.clear();
        want[3].body["type"] = json!("currency");
        want[4].body.remove("required");
        want[5].key = "M".into();
        want.swap(1, 2);
        assert_eq!(
            rows(&have, &want),
            [
                "change phase B done: true -> none",
                "replace field A / One type cannot be changed",
                "change field A / Two required: true -> none",
                "add label M",
                "remove label L",
                "reorder phase  B, A",
            ]
        );
    }

    #[test]
    fn a_new_name_is_no_loss() {
        let have = [thing(Kind::Field, "A", "One", json!({})), thing(Kind::Field, "A", "Two", json!({}))];
        let mut want = have.clone();
        want[0].key = "Uno".into();
        want[0].was = Some("One".into());
        want[1].body.insert("required".into(), true.into());
        assert_eq!(rows(&have, &want), ["rename field A / Uno from One"]);
        // Done already.
        let mut have = want.clone();
        have[1].body.clear();
        assert_eq!(rows(&have, &want), ["change field A / Two required: none -> true"]);
    }

    #[test]
    fn things_of_one_name_are_told_apart() {
        let mut things = Vec::new();
        for _ in 0..3 {
            push(&mut things, thing(Kind::Label, "", "L", json!({})));
        }
        let keys: Vec<&str> = things.iter().map(|thing| thing.key.as_str()).collect();
        assert_eq!(keys, ["L", "L #2", "L #3"]);
        assert!(things.iter().all(|thing| thing.label() == "L"));
    }
}
