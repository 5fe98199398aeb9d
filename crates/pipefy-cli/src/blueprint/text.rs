//! The file: YAML with names in the place of ids, in an order that does not change.

use serde_json::{Map, Value};

use super::settings;
use super::things::{Kind, START_FORM, Thing, push};
use crate::output::{read_yaml, yaml_text};

/// The form of files that this version reads and writes.
const FORM: i64 = 1;

/// What no file covers.
const NOT_COVERED: [&str; 7] = [
    "cards",
    "members and permissions",
    "which phases cards can move to, and who may move them back (Pipefy's API cannot set or tell it)",
    "AI agents and knowledge bases",
    "e-mail templates, webhooks, reports, portals",
    "the title field, preferences, public form and expiry of the pipe",
    "records, people, labels and files that conditions compare with (their ids are kept as they are)",
];

const HEAD: &str = "# A pipe of Pipefy as code. `pipefy pipe diff` compares it, `pipefy pipe apply` makes it so.\n";

/// The text of a file; `also` is what else it does not cover.
pub(super) fn write(things: &[Thing], also: &[String]) -> String {
    let of = |kind: Kind, place: &str| -> Vec<&Thing> {
        things.iter().filter(|thing| thing.kind == kind && thing.place == place).collect()
    };
    let items = |kind: Kind, place: &str| of(kind, place).into_iter().map(item).collect::<Vec<Value>>();
    let mut file = Map::new();
    let mut put = |key: &str, items: Vec<Value>| {
        if !items.is_empty() {
            file.insert(key.to_owned(), items.into());
        }
    };
    put("labels", items(Kind::Label, ""));
    let phases: Vec<Value> = of(Kind::Phase, "")
        .into_iter()
        .map(|phase| {
            let mut written = item(phase);
            if let Value::Object(map) = &mut written {
                map.extend(form(&items, &phase.key));
            }
            written
        })
        .collect();
    put("phases", phases);
    put("automations", items(Kind::Automation, ""));
    let sides = ["parents", "children"].map(|side| (side.to_owned(), items(Kind::Connection, side)));
    let sides: Map<String, Value> =
        sides.into_iter().filter(|(_, list)| !list.is_empty()).map(|(side, list)| (side, list.into())).collect();

    let mut whole = Map::from_iter([("form".to_owned(), FORM.into())]);
    let pipe = of(Kind::Pipe, "").first().map(|pipe| ordered(pipe)).unwrap_or_default();
    whole.insert("pipe".to_owned(), pipe.into());
    whole.extend(file.shift_remove("labels").map(|labels| ("labels".to_owned(), labels)));
    let start = form(&items, START_FORM);
    if !start.is_empty() {
        whole.insert("start_form".to_owned(), start.into());
    }
    whole.extend(file.shift_remove("phases").map(|phases| ("phases".to_owned(), phases)));
    if !sides.is_empty() {
        whole.insert("connections".to_owned(), sides.into());
    }
    whole.extend(file);
    let uncovered: Vec<Value> =
        NOT_COVERED.iter().map(|line| Value::from(*line)).chain(also.iter().map(|line| line.as_str().into())).collect();
    whole.insert("not_covered".to_owned(), uncovered.into());
    format!("{HEAD}{}", yaml_text(&whole.into()))
}

fn form(items: &impl Fn(Kind, &str) -> Vec<Value>, place: &str) -> Map<String, Value> {
    let parts = [("fields", Kind::Field), ("conditions", Kind::Condition)];
    let parts = parts.map(|(key, kind)| (key.to_owned(), items(kind, place)));
    parts.into_iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| (key, list.into())).collect()
}

fn item(thing: &Thing) -> Value {
    let mut map = Map::new();
    match thing.kind {
        Kind::Field => map.insert("label".to_owned(), thing.label().into()),
        Kind::Connection => map.insert("name".to_owned(), connection_name(thing).into()),
        _ => map.insert("name".to_owned(), thing.label().into()),
    };
    map.extend(ordered(thing));
    map.into()
}

fn ordered(thing: &Thing) -> Map<String, Value> {
    let keys = settings::keys(thing.kind).into_iter();
    keys.filter_map(|key| Some((key.to_owned(), thing.body.get(key)?.clone()))).collect()
}

/// The things of a file.
///
/// # Errors
/// One line on what is wrong and where.
pub(super) fn read(text: &str) -> Result<Vec<Thing>, String> {
    let file = read_yaml(text)?;
    let Value::Object(mut file) = file else {
        return Err("it is no pipe as code; `pipefy pipe pull` makes one".into());
    };
    let mut take = |key: &str| file.shift_remove(key).unwrap_or_default();
    match take("form") {
        Value::Null => return Err("it has no `form: 1`; `pipefy pipe pull` makes a file".to_owned()),
        form if form == FORM => {}
        form => return Err(format!("it has form {form}; this version reads form {FORM}")),
    }
    let mut things = Vec::new();
    let mut pipe = object(take("pipe"), "pipe")?;
    settings::quiet(Kind::Pipe, &mut pipe);
    known(&pipe, &settings::keys(Kind::Pipe), "pipe")?;
    if pipe.get("name").and_then(Value::as_str).is_none_or(|name| name.trim().is_empty()) {
        return Err("pipe: it needs a name".to_owned());
    }
    let key = "pipe".to_owned();
    things.push(Thing { kind: Kind::Pipe, place: String::new(), key, was: None, body: pipe });
    for (at, label) in list(take("labels"), "labels")?.into_iter().enumerate() {
        thing(&mut things, Kind::Label, "", object(label, &format!("labels[{at}]"))?, &format!("labels[{at}]"))?;
    }
    let mut start = object(take("start_form"), "start_form")?;
    parts(&mut things, &mut start, START_FORM, "start_form")?;
    known(&start, &[], "start_form")?;
    for (at, phase) in list(take("phases"), "phases")?.into_iter().enumerate() {
        let here = format!("phases[{at}]");
        let mut phase = object(phase, &here)?;
        let mut inner = Map::new();
        for key in ["fields", "conditions"] {
            inner.extend(phase.shift_remove(key).map(|list| (key.to_owned(), list)));
        }
        let key = thing(&mut things, Kind::Phase, "", phase, &here)?;
        parts(&mut things, &mut inner, &key, &here)?;
    }
    let mut sides = object(take("connections"), "connections")?;
    for side in ["parents", "children"] {
        for (at, one) in list(sides.shift_remove(side).unwrap_or_default(), side)?.into_iter().enumerate() {
            let here = format!("connections.{side}[{at}]");
            thing(&mut things, Kind::Connection, side, object(one, &here)?, &here)?;
        }
    }
    known(&sides, &[], "connections")?;
    for (at, rule) in list(take("automations"), "automations")?.into_iter().enumerate() {
        let here = format!("automations[{at}]");
        thing(&mut things, Kind::Automation, "", object(rule, &here)?, &here)?;
    }
    take("not_covered");
    known(&file, &[], "the file")?;
    Ok(things)
}

fn parts(things: &mut Vec<Thing>, from: &mut Map<String, Value>, place: &str, here: &str) -> Result<(), String> {
    for (key, kind) in [("fields", Kind::Field), ("conditions", Kind::Condition)] {
        let here = format!("{here}.{key}");
        for (at, part) in list(from.shift_remove(key).unwrap_or_default(), &here)?.into_iter().enumerate() {
            let here = format!("{here}[{at}]");
            thing(things, kind, place, object(part, &here)?, &here)?;
        }
    }
    Ok(())
}

/// Adds a thing and gives its key.
fn thing(
    things: &mut Vec<Thing>,
    kind: Kind,
    place: &str,
    mut body: Map<String, Value>,
    here: &str,
) -> Result<String, String> {
    let word = if kind == Kind::Field { "label" } else { "name" };
    let mut text = |key: &str| match body.shift_remove(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(format!("{here}: {key} must be text")),
    };
    let mut key = text(word)?.ok_or_else(|| format!("{here}: it needs a {word}"))?;
    let was = match kind {
        Kind::Label | Kind::Phase | Kind::Field => text("was")?,
        _ => None,
    };
    known(&body, &settings::keys(kind), here)?;
    settings::quiet(kind, &mut body);
    match kind {
        Kind::Field if !body.get("type").is_some_and(Value::is_string) => {
            return Err(format!("{here}: it needs a type"));
        }
        Kind::Label if !body.get("color").is_some_and(Value::is_string) => {
            return Err(format!("{here}: it needs a color"));
        }
        Kind::Automation if !["event", "action"].iter().all(|key| body.get(*key).is_some_and(Value::is_string)) => {
            return Err(format!("{here}: it needs an event and an action"));
        }
        Kind::Connection => {
            key = connection_key(&key, &body).ok_or_else(|| format!("{here}: it needs a pipe or a table"))?
        }
        _ => {}
    }
    push(things, Thing { kind, place: place.to_owned(), key, was, body });
    Ok(things.last().map(|thing| thing.key.clone()).unwrap_or_default())
}

/// The name in the key of a connection.
pub(super) fn connection_name(thing: &Thing) -> &str {
    let end = connection_key("", &thing.body).unwrap_or_default();
    thing.label().strip_suffix(&end).unwrap_or(thing.label())
}

/// `<name>: <other end>`
pub(super) fn connection_key(name: &str, body: &Map<String, Value>) -> Option<String> {
    let end = body.get("pipe").or_else(|| body.get("table"))?.as_str()?;
    Some(format!("{name}: {end}"))
}

fn object(value: Value, here: &str) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(format!("{here} must be a map")),
    }
}

fn list(value: Value, here: &str) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(format!("{here} must be a list")),
    }
}

fn known(map: &Map<String, Value>, keys: &[&str], here: &str) -> Result<(), String> {
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) if keys.is_empty() => Err(format!("{here}: there is nothing called {key}")),
        Some(key) => Err(format!("{here}: there is nothing called {key}; it may hold {}", keys.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    const FILE: &str = r##"# A pipe of Pipefy as code. `pipefy pipe diff` compares it, `pipefy pipe apply` makes it so.
form: 1
pipe:
  name: Buying
  icon: cart
labels:
  - name: Urgent
    color: "#ff0000"
start_form:
  fields:
    - label: What?
      type: short_text
      required: true
    - label: Who?
      type: connector
      connects:
        table: People
phases:
  - name: Doing
    fields:
      - label: Price
        type: currency
    conditions:
      - name: Rule
        when:
          - - field: Doing / Price
              operation: present
        actions:
          - action: show
            field: Doing / Price
  - name: Done
    done: true
connections:
  children:
    - name: Link
      pipe: Support
automations:
  - name: Move
    event: card_created
    action: move_single_card
    action_params:
      to_phase: Done
"##;

    #[test]
    fn a_file_reads_and_writes_itself() {
        let things = read(FILE).unwrap();
        let text = write(&things, &["more".to_owned()]);
        assert!(text.starts_with(FILE), "{text}");
        assert!(text.contains("not_covered:\n  - cards\n") && text.ends_with("  - more\n"), "{text}");
        assert_eq!(read(&text).unwrap(), things);
        let names: Vec<String> = things.iter().map(Thing::name).collect();
        assert!(names.contains(&"Doing / Price".to_owned()) && names.contains(&"children / Link: Support".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (file, wanted) in [
            ("x", "no pipe as code"),
            ("pipe: {name: P}\n", "form: 1"),
            ("form: 2\n", "form 2"),
            ("form: 1\npipe: {}\n", "pipe: it needs a name"),
            ("form: 1\npipe: {name: \" \"}\n", "pipe: it needs a name"),
            ("form: 1\npipe: {name: P, colour: red}\n", "nothing called colour; it may hold name, icon, color"),
            ("form: 1\npipe: {name: P}\nphases: {}\n", "phases must be a list"),
            ("form: 1\npipe: {name: P}\nphases: [{done: true}]\n", "phases[0]: it needs a name"),
            ("form: 1\npipe: {name: P}\nstart_form: {fields: [{label: A}]}\n", "start_form.fields[0]: it needs a type"),
            ("form: 1\npipe: {name: P}\nlabels: [{name: A, color: 1}]\n", "labels[0]: it needs a color"),
            ("form: 1\npipe: {name: P}\nphase: []\n", "nothing called phase"),
            ("form: 1\npipe: {name: P}\nconnections: {children: [{name: A}]}\n", "needs a pipe or a table"),
            ("form: 1\npipe: [\n", "line"),
        ] {
            let error = read(file).unwrap_err();
            assert!(error.contains(wanted), "{file}: {error}");
        }
    }
}
