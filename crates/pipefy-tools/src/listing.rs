//! What tools that list have in common: which list is meant, choosing fields where no document can be narrowed, saying
//! whether it is complete, and the shorter forms of a list.

use std::collections::HashSet;

use pipefy::{Query, SelectionError, Selections, pipes, tables};
use serde_json::{Map, Value, json};

use crate::call::{Call, Options};
use crate::error::ToolError;
use crate::op::Op;
use crate::outcome::{Body, Outcome, dig, dig_mut};

/// The form of a list in a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// As the tool gives it.
    #[default]
    Json,
    /// `{columns, rows}`: each name once, nested names joined by dots.
    Compact,
    /// CSV text (RFC 4180) with a header line; lists in cells are JSON text.
    Csv,
}

impl Format {
    /// The names, as the option takes them.
    pub(crate) const NAMES: [&'static str; 3] = ["json", "compact", "csv"];

    /// Reads the option; anything else is [`Self::Json`].
    pub(crate) fn read(option: Option<&Value>) -> Self {
        match option.and_then(Value::as_str) {
            Some("compact") => Self::Compact,
            Some("csv") => Self::Csv,
            _ => Self::Json,
        }
    }
}

/// How many keys deep [`main_list`] looks.
pub(crate) const DEEPEST: usize = 4;
/// How deep an empty list may be to be taken for it: further inside, it is one of many attributes.
const DEEPEST_EMPTY: usize = 2;

/// Dotted path of the list that a result is about: where the operation says, else the first list of objects, outer ones first and
/// those with something in them before empty ones beside them.
fn main_list(op: &Op, body: &Value) -> Option<String> {
    if let Some(paging) = op.paging
        && dig(body, paging.items).is_some_and(Value::is_array)
    {
        return Some(paging.items.to_owned());
    }
    let mut level: Vec<(String, &Value)> = vec![(String::new(), body)];
    while !level.is_empty() {
        let list = |empty: bool| {
            level.iter().find(|(path, value)| {
                matches!(value, Value::Array(list) if list.is_empty() == empty && list.iter().all(Value::is_object))
                    && (!empty || path.split('.').count() <= DEEPEST_EMPTY)
            })
        };
        if let Some((path, _)) = list(false).or_else(|| list(true)) {
            return Some(path.clone());
        }
        level = level
            .into_iter()
            .filter_map(|(path, value)| value.as_object().map(|map| (path, map)))
            .flat_map(|(path, map)| {
                map.iter().map(move |(key, value)| {
                    (if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value)
                })
            })
            .filter(|(path, _)| path.split('.').count() <= DEEPEST)
            .collect();
    }
    None
}

/// Keeps of each item only what `fields` name (dotted); of a result without a list, of the result. For tools whose request
/// cannot be narrowed.
///
/// # Errors
/// A name that no item has, with what there is.
pub(crate) fn prune(op: &Op, outcome: &mut Outcome, fields: &[String]) -> Result<(), ToolError> {
    let mut body = outcome.body.value();
    let path = main_list(op, &body);
    let items: Vec<&mut Value> = match path.and_then(|path| dig_mut(&mut body, &path)) {
        Some(Value::Array(list)) => list.iter_mut().map(inside).collect(),
        _ => vec![&mut body],
    };
    let mut known = Vec::new();
    items.iter().for_each(|item| names(item, "", &mut known));
    if let Some(unknown) = fields.iter().find(|field| !known.is_empty() && !known.contains(*field)) {
        return Err(unknown_field(unknown, known.clone()));
    }
    for item in items {
        keep(item, "", fields);
    }
    outcome.body = Body::Value(body);
    Ok(())
}

/// Fields of a form, asked for by their label or id among `fields`: the request can name only the list they are in, so they are
/// chosen from the answer.
#[derive(Debug)]
pub(crate) struct FormFields {
    /// The key of the list in each item.
    list: String,
    wanted: Vec<String>,
    /// Names of the item's own fields, which may have been meant.
    own: Vec<String>,
    /// What the form belongs to, where the call says it.
    home: Option<Home>,
    /// Only read for the sake of its home: it leaves the items again.
    added: bool,
}

/// What a form belongs to.
#[derive(Debug)]
enum Home {
    Pipe(String),
    Table(String),
}

impl Home {
    fn of(arguments: &Map<String, Value>) -> Option<Self> {
        let id = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        id("pipe_id").map(Self::Pipe).or_else(|| id("table_id").map(Self::Table))
    }

    /// Labels and ids of all fields, filled or not: an item shows only those that have a value. `None` when they cannot be read.
    async fn names(&self, call: &Call<'_>) -> Option<Vec<String>> {
        let (query, lists): (Query, &[&str]) = match self {
            Self::Pipe(id) => (pipes::get_pipe_configuration(id), &["pipe.start_form_fields", "pipe.phases"]),
            Self::Table(id) => (tables::get_table(id), &["table.table_fields"]),
        };
        let value = call.query(query).await.ok()?.value();
        let listed = |path: &&str| dig(&value, path).and_then(Value::as_array).into_iter().flatten();
        let fields =
            lists.iter().flat_map(listed).flat_map(|field| match field.get("fields").and_then(Value::as_array) {
                Some(inner) => inner.iter().collect(),
                None => vec![field],
            });
        let names =
            |field: &Value| ["label", "id"].map(|key| field.get(key).and_then(Value::as_str).map(str::to_owned));
        Some(fields.flat_map(names).flatten().collect())
    }
}

impl FormFields {
    /// Takes them out of `options.fields`, and puts their list there. `None` when there are none, or items have no such list.
    pub(crate) fn take(
        op: &Op,
        selections: &Selections,
        options: &mut Options,
        arguments: &Map<String, Value>,
    ) -> Option<Self> {
        let (selects, fields) = (op.selects?, options.fields.as_ref()?);
        let error = selections.narrow(selects.document, selects.item, fields).err()?;
        let SelectionError::Unknown { available, .. } = error else { return None };
        let has = |names: &[String]| selections.narrow(selects.document, selects.item, names).is_ok();
        let list = available
            .iter()
            .find(|name| !name.contains('.') && has(&[format!("{name}.name"), format!("{name}.value")]))?
            .clone();
        let (mut known, wanted): (Vec<String>, Vec<String>) =
            fields.iter().cloned().partition(|field| has(std::slice::from_ref(field)));
        known.push(list.clone());
        let home = Home::of(arguments);
        let names_pipe = |field: &String| field == "pipe" || field.starts_with("pipe.");
        let added = home.is_none() && has(&["pipe.id".to_owned()]) && !known.iter().any(names_pipe);
        known.extend(added.then(|| "pipe.id".to_owned()));
        options.fields = Some(known);
        let own = available.iter().filter(|name| !name.contains('.')).cloned().collect();
        Some(Self { list, wanted, own, home, added })
    }

    /// Leaves only the wanted ones in each item.
    ///
    /// # Errors
    /// One that the form does not have, with what there is. Where the form cannot be read, one that no item has.
    pub(crate) async fn choose(self, op: &Op, outcome: &mut Outcome, call: &Call<'_>) -> Result<(), ToolError> {
        let mut body = outcome.body.value();
        let item = op.selects.map_or("", |selects| selects.item);
        let items: Vec<&mut Value> = match item.strip_suffix(".node") {
            Some(edges) => dig_mut(&mut body, edges)
                .and_then(Value::as_array_mut)
                .map(|list| list.iter_mut().map(inside).collect())
                .unwrap_or_default(),
            None => match dig_mut(&mut body, item) {
                Some(Value::Array(list)) => list.iter_mut().collect(),
                Some(value) => vec![value],
                None => Vec::new(),
            },
        };
        let mut labels: Vec<String> = Vec::new();
        let mut found = vec![false; self.wanted.len()];
        let mut home = self.home;
        for item in items {
            let pipe = dig(item, "pipe.id").and_then(Value::as_str).map(|id| Home::Pipe(id.to_owned()));
            home = home.or(pipe);
            if let (true, Value::Object(map)) = (self.added, &mut *item) {
                map.shift_remove("pipe");
            }
            let Some(Value::Array(rows)) = item.get_mut(&self.list) else { continue };
            rows.retain(|row| {
                let label = row.get("name").and_then(Value::as_str).unwrap_or_default();
                let id = dig(row, "field.id").and_then(Value::as_str);
                if !labels.iter().any(|known| known == label) {
                    labels.push(label.to_owned());
                }
                let mut kept = false;
                for (wanted, found) in self.wanted.iter().zip(&mut found) {
                    let same = wanted.to_lowercase() == label.to_lowercase() || Some(wanted.as_str()) == id;
                    *found |= same;
                    kept |= same;
                }
                kept
            });
        }
        let missing: Vec<&String> =
            self.wanted.iter().zip(&found).filter(|(_, found)| !**found).map(|(wanted, _)| wanted).collect();
        if !missing.is_empty() {
            let form = match &home {
                Some(home) => home.names(call).await,
                None => None,
            };
            let known = form.unwrap_or(labels);
            let has = |name: &String| known.iter().any(|known| known.to_lowercase() == name.to_lowercase());
            if let Some(unknown) = missing.into_iter().find(|name| !has(name)).filter(|_| !known.is_empty()) {
                return Err(unknown_field(unknown, [self.own, known.clone()].concat()));
            }
        }
        outcome.body = Body::Value(body);
        Ok(())
    }
}

fn unknown_field(unknown: &str, mut known: Vec<String>) -> ToolError {
    // The label and the id of a field are often the same words.
    let mut words = HashSet::new();
    known.retain(|name| words.insert(name.to_lowercase().replace([' ', '-'], "_")));
    let near = known
        .iter()
        .map(|name| (strsim::jaro_winkler(&name.to_lowercase(), &unknown.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!(", did you mean `{name}`?"))
        .unwrap_or_default();
    let shown: String = unknown.chars().take(80).collect();
    known.truncate(60);
    ToolError::invalid(format!("fields: unknown field `{shown}`{near}; available: {}", known.join(", ")))
}

/// What an edge of a connection is about.
fn inside(item: &mut Value) -> &mut Value {
    if item.get("node").is_some_and(Value::is_object)
        && let Value::Object(map) = item
    {
        return map.entry("node").or_insert(Value::Null);
    }
    item
}

fn names(value: &Value, prefix: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = format!("{prefix}{key}");
                names(value, &format!("{name}."), into);
                if !into.contains(&name) {
                    into.push(name);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|item| names(item, prefix, into)),
        _ => {}
    }
}

fn keep(value: &mut Value, prefix: &str, fields: &[String]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let name = format!("{prefix}{key}");
                if fields.contains(&name) || (prefix.is_empty() && key == "id") {
                    return true;
                }
                let below = format!("{name}.");
                let wanted = fields.iter().any(|field| field.starts_with(&below));
                if wanted {
                    keep(value, &below, fields);
                }
                wanted
            });
        }
        Value::Array(list) => list.iter_mut().for_each(|item| keep(item, prefix, fields)),
        _ => {}
    }
}

/// Says of a listing that comes in one piece how much it is, for a call that asked for `all`; it keeps `max_items` of it. A
/// result without a list is one thing.
pub(crate) fn account(op: &Op, mut outcome: Outcome, max_items: Option<u64>) -> Outcome {
    let mut body = outcome.body.value();
    let more = outcome.page.as_ref().is_some_and(|page| page.has_more)
        || outcome.extra.get("complete") == Some(&Value::Bool(false))
        || says_more(&body);
    let one = usize::from(!body.is_null());
    let path = main_list(op, &body);
    let Some(Value::Array(list)) = path.and_then(|path| dig_mut(&mut body, &path)) else {
        return outcome.extra("complete", !more).extra("returned", one).extra_opt("total", (!more).then_some(one));
    };
    let total = list.len();
    let most = max_items.and_then(|most| usize::try_from(most.max(1)).ok()).unwrap_or(usize::MAX);
    list.truncate(most);
    let returned = list.len();
    if returned < total {
        outcome.body = Body::Value(body);
    }
    let stopped = (returned < total).then_some("max_items; the list comes in one piece, ask for more of it");
    outcome
        .extra("complete", !more && returned == total)
        .extra("returned", returned)
        .extra_opt("total", (!more).then_some(total))
        .extra_opt("stopped", stopped)
}

fn says_more(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| (key == "hasNextPage" && *value == true) || says_more(value))
        }
        Value::Array(list) => list.iter().any(says_more),
        _ => false,
    }
}

/// Puts the list of a result into another form; a result without one stays.
pub(crate) fn shape(op: &Op, body: Body, format: Format) -> Body {
    if format == Format::Json {
        return body;
    }
    let mut value = body.into_value();
    let path = main_list(op, &value);
    if let Some(place) = path.and_then(|path| dig_mut(&mut value, &path))
        && let Value::Array(list) = place
        && list.iter().all(Value::is_object)
    {
        let (columns, rows) = table(list);
        *place = match format {
            Format::Compact => json!({ "columns": columns, "rows": rows }),
            _ => csv_text(&columns, &rows).into(),
        };
    }
    Body::Value(value)
}

fn table(list: &mut [Value]) -> (Vec<String>, Vec<Vec<Value>>) {
    let flat: Vec<Map<String, Value>> = list
        .iter_mut()
        .map(|item| {
            let mut row = Map::new();
            flatten(std::mem::take(inside(item)), "", &mut row);
            row
        })
        .collect();
    let mut columns: Vec<String> = Vec::new();
    for row in &flat {
        for name in row.keys() {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
    }
    let rows = flat
        .into_iter()
        .map(|mut row| columns.iter().map(|name| row.remove(name).unwrap_or_default()).collect())
        .collect();
    (columns, rows)
}

fn flatten(value: Value, prefix: &str, row: &mut Map<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(value, &name, row);
            }
        }
        other => {
            row.insert(prefix.to_owned(), other);
        }
    }
}

/// Nothing where there are no columns: the names of an empty list's are not known.
fn csv_text(columns: &[String], rows: &[Vec<Value>]) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _header = writer.write_record(columns);
    for row in rows {
        let cells = row.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let _row = writer.write_record(cells);
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::Shape;

    const OP: Op = Op::read("list", crate::Domain::Workflow, Shape::Raw);

    fn cards() -> Value {
        json!({"cards": {"totalCount": 2, "edges": [
            {"node": {"id": "1", "title": "A, \"b\"", "phase": {"id": "7", "name": "Done"}, "labels": [{"id": "3"}]}},
            {"node": {"id": "2", "title": null, "phase": null, "due": "2026-01-01"}},
        ]}})
    }

    #[test]
    fn compact_names_each_column_once() {
        let shaped = shape(&OP, cards().into(), Format::Compact).into_value();
        assert_eq!(
            shaped["cards"]["edges"],
            json!({"columns": ["id", "title", "phase.id", "phase.name", "labels", "phase", "due"],
                   "rows": [["1", "A, \"b\"", "7", "Done", [{"id": "3"}], null, null],
                            ["2", null, null, null, null, null, "2026-01-01"]]})
        );
        assert_eq!(shaped["cards"]["totalCount"], 2);
        let whole = json!({"card": {"id": "1"}});
        assert_eq!(shape(&OP, whole.clone().into(), Format::Csv).into_value(), whole);
    }

    #[test]
    fn an_empty_list_is_no_text() {
        let csv = shape(&OP, json!({"cards": {"edges": []}}).into(), Format::Csv).into_value();
        assert_eq!(csv["cards"]["edges"], "");
        let compact = shape(&OP, json!({"cards": {"edges": []}}).into(), Format::Compact).into_value();
        assert_eq!(compact["cards"]["edges"], json!({"columns": [], "rows": []}));
    }

    #[test]
    fn csv_reads_back() {
        let shaped = shape(&OP, cards().into(), Format::Csv).into_value();
        let text = shaped["cards"]["edges"].as_str().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().len(), 7);
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!((&rows[0][1], &rows[0][4], &rows[1][6]), ("A, \"b\"", "[{\"id\":\"3\"}]", "2026-01-01"));
    }

    #[test]
    fn fields_prune_what_cannot_be_narrowed_and_unknown_ones_are_explained() {
        let mut outcome = Outcome::new(cards());
        prune(&OP, &mut outcome, &["title".to_owned(), "phase.name".to_owned()]).unwrap();
        assert_eq!(
            outcome.body.value()["cards"]["edges"][0],
            json!({"node": {"id": "1", "title": "A, \"b\"", "phase": {"name": "Done"}}})
        );
        let error = prune(&OP, &mut Outcome::new(cards()), &["titel".to_owned()]).unwrap_err();
        assert!(error.message.contains("`titel`, did you mean `title`?"), "{}", error.message);
    }

    #[test]
    fn a_listing_in_one_piece_says_that_it_is_complete() {
        let whole = account(&OP, Outcome::new(cards()), Some(2));
        assert_eq!(Value::Object(whole.extra), json!({"complete": true, "returned": 2, "total": 2}));
        let part = json!({"x": {"nodes": [{"id": 1}], "pageInfo": {"hasNextPage": true}}});
        assert_eq!(
            Value::Object(account(&OP, Outcome::new(part), None).extra),
            json!({"complete": false, "returned": 1})
        );
        // What the tool itself says of its end stands.
        let stopped = Outcome::new(cards()).extra("complete", false).extra("stopped", "s");
        assert_eq!(
            Value::Object(account(&OP, stopped, None).extra),
            json!({"complete": false, "stopped": "s", "returned": 2})
        );
        let thing = account(&OP, Outcome::new(json!({"card": {"id": "1"}})), None);
        assert_eq!(Value::Object(thing.extra), json!({"complete": true, "returned": 1, "total": 1}));
        let one = account(&OP, Outcome::new(cards()), Some(1));
        assert_eq!(one.body.value()["cards"]["edges"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&one.extra["complete"], &one.extra["returned"], &one.extra["total"]),
            (&json!(false), &json!(1), &json!(2))
        );
    }
}
