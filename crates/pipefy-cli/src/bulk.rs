//! `card import`, `record import`, `card export`, `record export`: many things from a file, and into one.
//!
//! A key column tells rows apart. A row whose key is in Pipefy already is left alone, so an import that broke off, in
//! whatever way, is simply run again.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use pipefy::{pipes, tables};
use pipefy_tools::dig;
use serde_json::{Map, Value, json};

use crate::command::{Param, flag, text};
use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::{Body, Shown};
use crate::{show, values};

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// `--key`
pub(crate) const KEY: Param =
    text("--key", "key", "Column that tells rows apart; a row whose value is there already is left out");

/// `--every-row`
pub(crate) const EVERY_ROW: Param = flag("--every-row", "every_row", "Create every row, whatever is there already");

/// `--map`
pub(crate) const MAP: Param = text("--map", "map", "COLUMN=FIELD where names differ, COLUMN= to leave it out").many();

/// Most bytes of a file.
const FILE_LIMIT: u64 = 50 * 1024 * 1024;

/// So many failures without a success between them end an import.
const FAILURES: usize = 10;

/// What is imported, and with which capabilities.
struct Kind {
    /// The argument that names where it goes.
    place: &'static str,
    create: &'static str,
    find: &'static str,
    list: &'static str,
    /// Where the list is in the answer of `list` and of `find`.
    found: &'static [&'static str],
}

const CARDS: Kind = Kind {
    place: "pipe_id",
    create: "create_card",
    find: "find_cards",
    list: "get_cards",
    found: &["findCards.edges", "cards.edges"],
};

const RECORDS: Kind = Kind {
    place: "table_id",
    create: "create_table_record",
    find: "find_records",
    list: "get_table_records",
    found: &["findRecords.edges", "table_records.edges"],
};

/// `card import`
pub(crate) fn import_cards<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    import(flow, args, &CARDS)
}

/// `record import`
pub(crate) fn import_records<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    import(flow, args, &RECORDS)
}

/// `card export`
pub(crate) fn export_cards<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    export(flow, args, &CARDS)
}

/// `record export`
pub(crate) fn export_records<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    export(flow, args, &RECORDS)
}

fn given<'v>(args: &'v Args, name: &str) -> &'v str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Where a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Title,
    Field(String),
    /// Nowhere: what an export adds, or `--map COLUMN=`.
    Nowhere,
}

/// A field of the form.
struct Field {
    id: String,
    label: String,
    required: bool,
}

fn import<'a>(flow: &'a Flow<'a>, args: Args, kind: &'static Kind) -> Work<'a> {
    Box::pin(async move {
        let rows = rows(given(&args, "file"))?;
        let place = given(&args, kind.place).to_owned();
        let dry = args.get("dry_run") == Some(&Value::Bool(true));
        let fields = fields(flow, kind, &place).await?;
        let targets = targets(&rows, &fields, &args)?;
        let key = key(&args, &targets)?;
        let missing: Vec<&str> = fields
            .iter()
            .filter(|field| {
                field.required && !targets.values().any(|target| *target == Target::Field(field.id.clone()))
            })
            .map(|field| field.label.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(Failure::refused(format!("No column gives what the form requires: {}.", missing.join(", "))));
        }
        if let Some((column, _)) = &key {
            distinct(&rows, column)?;
        }
        let mut report = Vec::with_capacity(rows.len());
        let (mut created, mut there, mut failed, mut in_a_row) = (0, 0, 0, 0);
        let mut stopped = false;
        for (at, row) in rows.iter().enumerate() {
            let value = key.as_ref().map(|(column, _)| shown(row.get(column)));
            let line = |result: &str, id: Option<String>, error: Option<String>| json!({ "row": at + 1, "key": value, "result": result, "id": id, "error": error });
            let made = async {
                if let (Some((_, target)), Some(value)) = (&key, &value) {
                    if value.is_empty() {
                        return Err(Failure::failed("the key is blank"));
                    }
                    if let Some(id) = existing(flow, kind, &place, target, value).await? {
                        return Ok(line("exists", Some(id), None));
                    }
                }
                if dry {
                    return Ok(line("planned", None, None));
                }
                Ok(line("created", create(flow, kind, &args, row, &targets).await?, None))
            };
            match made.await {
                Ok(line) => {
                    match line.get("result").and_then(Value::as_str) {
                        Some("exists") => there += 1,
                        _ => created += 1,
                    }
                    in_a_row = 0;
                    report.push(line);
                }
                // One row's trouble is not the others'; what is everybody's ends the import.
                Err(failure @ (Failure::Tool(_) | Failure::Plain { .. })) => {
                    failed += 1;
                    in_a_row += 1;
                    report.push(line("failed", None, failure.text()));
                    if in_a_row >= FAILURES {
                        stopped = true;
                        break;
                    }
                }
                Err(failure) if report.is_empty() => return Err(failure),
                Err(failure) => {
                    failed += 1;
                    report.push(line("failed", None, failure.text()));
                    stopped = true;
                    break;
                }
            }
        }
        let verb = if dry { "would be created" } else { "created" };
        let mut shown = Shown { body: Body::Value(report.into()), ..Shown::default() }
            .note(format!("note: {created} {verb}, {there} there already, {failed} failed"));
        if stopped {
            let hint = if key.is_some() { "; run it again to go on" } else { "" };
            shown = shown.note(format!("warning: stopped before the end of the file{hint}"));
        }
        Ok(shown.code(u8::from(failed > 0)))
    })
}

/// The rows of a file: CSV with a header, JSON lines, or a JSON array; `-` is standard input.
fn rows(file: &str) -> Result<Vec<Args>, Failure> {
    let content = values::whole_file(file, FILE_LIMIT)?;
    let content = content.trim_start_matches('\u{feff}');
    let rows = match content.trim_start().chars().next() {
        None => Vec::new(),
        Some('[') => serde_json::from_str(content).map_err(|error| Failure::usage(format!("{file}: {error}")))?,
        Some('{') => json_lines(content).map_err(|wrong| Failure::usage(format!("{file}: {wrong}")))?,
        Some(_) => csv_rows(content).map_err(|wrong| Failure::usage(format!("{file}: {wrong}")))?,
    };
    match rows.is_empty() {
        true => Err(Failure::usage(format!("{file} holds no rows"))),
        false => Ok(rows),
    }
}

fn json_lines(content: &str) -> Result<Vec<Args>, String> {
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed =
        lines.map(|(at, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1)));
    parsed.collect()
}

/// The separator is what the header has more of: comma, semicolon or tab.
fn csv_rows(content: &str) -> Result<Vec<Args>, String> {
    let header = content.lines().next().unwrap_or_default();
    let count = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
    // Of equal counts the comma wins.
    let separator = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(content.as_bytes());
    let columns: Vec<String> =
        reader.headers().map_err(|e| e.to_string())?.iter().map(|c| c.trim().to_owned()).collect();
    for (at, column) in columns.iter().enumerate() {
        if column.is_empty() || columns.iter().take(at).any(|other| other == column) {
            return Err(format!("column {} has no name of its own", at + 1));
        }
    }
    let records = reader.records().map(|record| {
        let record = record.map_err(|error| error.to_string())?;
        Ok(columns.iter().cloned().zip(record.iter().map(Value::from)).collect())
    });
    records.collect()
}

/// The fields that the form of the pipe, or the table, has.
async fn fields(flow: &Flow<'_>, kind: &Kind, place: &str) -> Result<Vec<Field>, Failure> {
    let (data, path) = match kind.place {
        "pipe_id" => (flow.read(&pipes::get_start_form_fields(place)).await?, "/pipe/start_form_fields"),
        _ => (flow.read(&tables::get_table(place)).await?, "/table/table_fields"),
    };
    let Some(list) = data.pointer(path).and_then(Value::as_array) else {
        return Err(Failure::failed(format!("There is nothing with the id {place} that you can see.")));
    };
    let field = |field: &Value| {
        let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
        let required = field.get("required") == Some(&Value::Bool(true));
        Some(Field { id: text("id")?, label: text("label").unwrap_or_default(), required })
    };
    Ok(list.iter().filter_map(field).collect())
}

/// Where each column goes: by `--map`, by a field's id, by its label.
fn targets(rows: &[Args], fields: &[Field], args: &Args) -> Result<HashMap<String, Target>, Failure> {
    let mut mapped: HashMap<&str, &str> = HashMap::new();
    for pair in args.get("map").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let (column, target) = pair.split_once('=').ok_or_else(|| Failure::usage("--map takes COLUMN=FIELD"))?;
        mapped.insert(column.trim(), target.trim());
    }
    let mut targets = HashMap::new();
    let mut unknown: Vec<&str> = Vec::new();
    for column in rows.iter().flat_map(Args::keys) {
        if targets.contains_key(column) || unknown.contains(&column.as_str()) {
            continue;
        }
        let name = mapped.get(column.as_str()).copied().unwrap_or(column);
        match target(name, fields) {
            Some(target) => {
                targets.insert(column.clone(), target);
            }
            None => unknown.push(column),
        }
    }
    if unknown.is_empty() {
        return Ok(targets);
    }
    let known: Vec<String> = fields.iter().map(|field| format!("{} ({})", field.id, field.label)).collect();
    Err(Failure::refused(format!(
        "The form has no field for {}. Its fields: title, {}. Use --map COLUMN=FIELD, or --map COLUMN= to leave a column out.",
        unknown.join(", "),
        known.join(", ")
    )))
}

fn target(name: &str, fields: &[Field]) -> Option<Target> {
    if name.is_empty() {
        return Some(Target::Nowhere);
    }
    let folded = name.to_lowercase();
    let by_id = fields.iter().find(|field| field.id == name);
    let by_label = || fields.iter().find(|field| field.label.trim().to_lowercase() == folded);
    if let Some(field) = by_id.or_else(by_label) {
        return Some(Target::Field(field.id.clone()));
    }
    match folded.as_str() {
        "title" => Some(Target::Title),
        // What an export writes besides.
        "id" | "phase" => Some(Target::Nowhere),
        _ => None,
    }
}

/// The key's column and what it is in Pipefy; nothing with `--every-row`.
fn key(args: &Args, targets: &HashMap<String, Target>) -> Result<Option<(String, Target)>, Failure> {
    let column = given(args, "key");
    let every = args.get("every_row") == Some(&Value::Bool(true));
    if column.is_empty() {
        return match every {
            true => Ok(None),
            false => Err(Failure::usage(
                "name the column that tells rows apart with --key, so that the import can be run again; or say --every-row to \
                 create every row whatever is there",
            )),
        };
    }
    match targets.get(column) {
        Some(target) if *target != Target::Nowhere => Ok(Some((column.to_owned(), target.clone()))),
        _ => Err(Failure::usage(format!("--key {column} is no column of the file that goes to a field"))),
    }
}

fn distinct(rows: &[Args], column: &str) -> Result<(), Failure> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let value = shown(row.get(column));
        if let Some(before) = seen.insert(value.clone(), at + 1).filter(|_| !value.is_empty()) {
            return Err(Failure::refused(format!(
                "Rows {before} and {} have the same {column}; a key is unique.",
                at + 1
            )));
        }
    }
    Ok(())
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    }
}

/// The thing that has this key already.
async fn existing(
    flow: &Flow<'_>,
    kind: &Kind,
    place: &str,
    target: &Target,
    key: &str,
) -> Result<Option<String>, Failure> {
    let mut arguments = Map::from_iter([(kind.place.to_owned(), Value::from(place))]);
    let tool = match target {
        Target::Field(field) => {
            arguments.insert("field_id".to_owned(), field.as_str().into());
            arguments.insert("field_value".to_owned(), key.into());
            kind.find
        }
        _ => {
            if kind.place == "pipe_id" {
                arguments.insert("title".to_owned(), key.into());
            }
            arguments.insert("all".to_owned(), true.into());
            kind.list
        }
    };
    let by_title = *target == Target::Title;
    let answer = flow.call(tool, arguments).await?.body.into_value();
    let edges = kind.found.iter().find_map(|path| dig(&answer, path)?.as_array());
    let mut nodes = edges.into_iter().flatten().filter_map(|edge| edge.get("node"));
    let found = nodes.find(|node| !by_title || shown(node.get("title")) == key);
    Ok(found.map(|node| shown(node.get("id"))))
}

async fn create(
    flow: &Flow<'_>,
    kind: &Kind,
    args: &Args,
    row: &Args,
    targets: &HashMap<String, Target>,
) -> Result<Option<String>, Failure> {
    let passed = |name: &&str| Some(((*name).to_owned(), args.get(*name)?.clone()));
    let mut arguments: Args = [kind.place, "verify", "debug"].iter().filter_map(passed).collect();
    let mut fields = Map::new();
    for (column, value) in row {
        // An empty cell says nothing.
        if value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) {
            continue;
        }
        match targets.get(column) {
            Some(Target::Title) => {
                arguments.insert("title".to_owned(), shown(Some(value)).into());
            }
            Some(Target::Field(id)) => {
                fields.insert(id.clone(), listed(value));
            }
            Some(Target::Nowhere) | None => {}
        }
    }
    arguments.insert("fields".to_owned(), fields.into());
    let outcome = flow.call(kind.create, arguments).await?;
    let verification = outcome.extra.get("verification");
    if verification.and_then(|verification| verification.get("verified")) == Some(&Value::Bool(false)) {
        let note = shown(verification.and_then(|verification| verification.get("note")));
        return Err(Failure::failed(format!("created, but not as asked: {note}")));
    }
    let answer = outcome.body.into_value();
    let id = ["createCard.card.id", "createTableRecord.table_record.id"].iter().find_map(|path| dig(&answer, path));
    Ok(id.map(|id| shown(Some(id))))
}

/// A cell that holds a JSON list (a checklist, people, connected cards) is that list.
fn listed(value: &Value) -> Value {
    let list = value.as_str().filter(|text| text.trim_start().starts_with('['));
    let list = list.and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    list.map_or_else(|| value.clone(), Value::from)
}

fn export<'a>(flow: &'a Flow<'a>, mut args: Args, kind: &'static Kind) -> Work<'a> {
    Box::pin(async move {
        args.insert("all".to_owned(), true.into());
        if kind.place == "pipe_id" {
            args.insert("include_fields".to_owned(), true.into());
        }
        let outcome = flow.call(kind.list, args).await?;
        Ok(show::dressed(outcome, flow.approved, |outcome| {
            let answer = outcome.body.into_value();
            let edges = kind.found.iter().find_map(|path| dig(&answer, path)?.as_array());
            edges.into_iter().flatten().filter_map(|edge| edge.get("node")).map(exported).collect()
        }))
    })
}

/// One row: id, title, phase, then the fields by their labels.
fn exported(node: &Value) -> Value {
    let mut row = Map::new();
    for key in ["id", "title"] {
        row.insert(key.to_owned(), node.get(key).cloned().unwrap_or_default());
    }
    if let Some(phase) = dig(node, "current_phase.name") {
        row.insert("phase".to_owned(), phase.clone());
    }
    let fields = ["fields", "record_fields"].iter().find_map(|key| node.get(*key)?.as_array());
    for field in fields.into_iter().flatten() {
        let Some(name) = field.get("name").and_then(Value::as_str) else { continue };
        row.entry(name).or_insert_with(|| field.get("value").cloned().unwrap_or_default());
    }
    row.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn rows_of_every_kind_of_file() {
        let csv = csv_rows("a;b\n1;\"x;\ny\"\n").unwrap();
        assert_eq!(Value::from(csv), json!([{"a": "1", "b": "x;\ny"}]));
        assert!(csv_rows("a,a\n1,2\n").is_err() && csv_rows("a,b\n1\n").is_err());
        assert_eq!(json_lines("{\"a\":1}\n\n{\"a\":2}\n").unwrap().len(), 2);
        assert!(json_lines("{\"a\":1}\n[]\n").unwrap_err().starts_with("line 2"));
    }

    #[test]
    fn columns_find_their_fields() {
        let fields = [
            Field { id: "what".into(), label: "What is it?".into(), required: true },
            Field { id: "id".into(), label: "Number".into(), required: false },
        ];
        for (name, wanted) in [
            ("what", Some(Target::Field("what".into()))),
            ("WHAT IS IT?", Some(Target::Field("what".into()))),
            ("Title", Some(Target::Title)),
            ("id", Some(Target::Field("id".into()))),
            ("phase", Some(Target::Nowhere)),
            ("", Some(Target::Nowhere)),
            ("other", None),
        ] {
            assert_eq!(target(name, &fields), wanted, "{name}");
        }
        assert_eq!(listed(&json!("[\"a\"]")), json!(["a"]));
        assert_eq!(listed(&json!("[not json")), json!("[not json"));
    }

    #[test]
    fn a_key_is_named_unique_and_somewhere() {
        let targets = HashMap::from([("a".to_owned(), Target::Title), ("n".to_owned(), Target::Nowhere)]);
        let args = |value: Value| value.as_object().unwrap().clone();
        assert!(key(&args(json!({})), &targets).is_err() && key(&args(json!({"key": "n"})), &targets).is_err());
        assert_eq!(key(&args(json!({"every_row": true})), &targets).unwrap(), None);
        assert!(key(&args(json!({"key": "a"})), &targets).unwrap().is_some());
        let rows = [args(json!({"a": "x"})), args(json!({"a": " x "}))];
        assert!(distinct(&rows, "a").unwrap_err().to_string().contains("Rows 1 and 2"));
    }
}
