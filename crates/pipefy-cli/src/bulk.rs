//! `card import`, `record import`, `card export`, `record export`: many things from a file, and into one.
//!
//! A key column tells rows apart. A row whose key is in Pipefy already is left alone, so an import that broke off, in
//! whatever way, is simply run again. A creation whose answer was lost is looked up by its key before it is repeated.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use pipefy::{pipes, tables};
use pipefy_tools::dig;
use serde_json::{Map, Value, json};

use crate::command::{Param, Preset, flag, int, text};
use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::{Body, Lines, Shown};
use crate::values;

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// `--key`
pub(crate) const KEY: Param =
    text("--key", "key", "Column that tells rows apart; a row whose value is there already is left out");

/// `--every-row`
pub(crate) const EVERY_ROW: Param = flag("--every-row", "every_row", "Create every row, whatever is there already");

/// `--after`
pub(crate) const AFTER: Param = text("--after", "after", "Go on behind this cursor, without the line of column names");

/// `--map`
pub(crate) const MAP: Param = text("--map", "map", "COLUMN=FIELD where names differ, COLUMN= to leave it out").many();

/// `--parallel`
pub(crate) const PARALLEL: Param =
    int("--parallel", "parallel", "Rows that are sent at the same time").range(1, 16).or(Preset::Int(4));

/// How often a row is sent again that Pipefy had no time for, or whose answer was lost.
const TRIES: u32 = 8;

/// The first wait before a row is sent again, and the longest.
const WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// From so many rows on, the keys that are there are read all at once rather than one by one.
const MANY: usize = 50;

/// Bad cells that a refusal shows.
const SHOWN: usize = 20;

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
    kind: String,
    options: Vec<String>,
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
        cells(&rows, &targets, &fields, key.as_ref().map(|(column, _)| column.as_str()))?;
        let import = Import {
            flow,
            kind,
            args: &args,
            place: &place,
            fields: &fields,
            targets: &targets,
            key: key.as_ref(),
            dry,
        };
        let known = match &key {
            Some((column, target)) if rows.len() >= MANY => {
                let wanted: HashSet<String> = rows.iter().map(|row| shown(row.get(column))).collect();
                Some(import.known(target, &wanted).await?)
            }
            _ => None,
        };
        let parallel = args.get("parallel").and_then(Value::as_u64).map_or(1, |n| n.clamp(1, 16) as usize);
        let work = rows.iter().enumerate().map(|(at, row)| -> BoxFuture<'_, (usize, Result<Value, Failure>)> {
            let row = import.row(at, row, known.as_ref());
            Box::pin(async move { (at, row.await) })
        });
        let work: Vec<BoxFuture<'_, (usize, Result<Value, Failure>)>> = work.collect();
        let mut work = stream::iter(work).buffer_unordered(parallel);
        let bar = flow.terminal.bar();
        let total = Some(rows.len() as u64);
        let mut report: Vec<(usize, Value)> = Vec::with_capacity(rows.len());
        let (mut created, mut there, mut failed, mut in_a_row) = (0, 0, 0, 0);
        let mut stopped = false;
        while let Some((at, made)) = work.next().await {
            match made {
                Ok(line) => {
                    match line.get("result").and_then(Value::as_str) {
                        Some("exists") => there += 1,
                        _ => created += 1,
                    }
                    in_a_row = 0;
                    report.push((at, line));
                }
                // One row's trouble is not the others'; what is everybody's ends the import.
                Err(failure) => {
                    let own = matches!(failure, Failure::Tool(_) | Failure::Plain { .. });
                    if !own && report.is_empty() {
                        return Err(failure);
                    }
                    failed += 1;
                    in_a_row += 1;
                    let value = key.as_ref().and_then(|(column, _)| Some(shown(rows.get(at)?.get(column))));
                    report.push((at, line(at, value, "failed", None, failure.text())));
                    if !own || in_a_row >= FAILURES {
                        stopped = true;
                        break;
                    }
                }
            }
            bar.show(report.len() as u64, total);
        }
        drop(work);
        drop(bar);
        report.sort_by_key(|(at, _)| *at);
        let report: Vec<Value> = report.into_iter().map(|(_, line)| line).collect();
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

/// What becomes of a row.
fn line(at: usize, key: Option<String>, result: &str, id: Option<String>, error: Option<String>) -> Value {
    json!({ "row": at + 1, "key": key, "result": result, "id": id, "error": error })
}

/// An import under way.
struct Import<'a> {
    flow: &'a Flow<'a>,
    kind: &'static Kind,
    args: &'a Args,
    place: &'a str,
    fields: &'a [Field],
    targets: &'a HashMap<String, Target>,
    key: Option<&'a (String, Target)>,
    dry: bool,
}

impl Import<'_> {
    async fn row(&self, at: usize, row: &Args, known: Option<&HashMap<String, String>>) -> Result<Value, Failure> {
        let value = self.key.map(|(column, _)| shown(row.get(column)));
        if let Some(value) = &value {
            let there = match known {
                Some(known) => known.get(value).cloned(),
                None => self.existing(value).await?,
            };
            if there.is_some() {
                return Ok(line(at, Some(value.clone()), "exists", there, None));
            }
        }
        if self.dry {
            return Ok(line(at, value, "planned", None, None));
        }
        let id = self.made(row, value.as_deref()).await?;
        Ok(line(at, value, "created", id, None))
    }

    /// Creates until it is created: again when Pipefy had no time, or when the answer was lost and nothing has the key.
    async fn made(&self, row: &Args, key: Option<&str>) -> Result<Option<String>, Failure> {
        let mut wait = WAIT;
        for _ in 0..TRIES {
            let failure = match create(self.flow, self.kind, self.args, row, self.targets).await {
                Ok(id) => return Ok(id),
                Err(failure) => failure,
            };
            let (again, unclear) = hopes(&failure);
            match key {
                Some(_) if again.is_some() || unclear => {}
                None if again.is_some() && !unclear => {}
                _ => return Err(failure),
            }
            tokio::time::sleep(again.unwrap_or_default().max(wait).min(LONGEST_WAIT)).await;
            wait *= 2;
            if let Some(key) = key.filter(|_| unclear)
                && let Some(id) = self.existing(key).await?
            {
                return Ok(Some(id));
            }
        }
        create(self.flow, self.kind, self.args, row, self.targets).await
    }

    async fn existing(&self, value: &str) -> Result<Option<String>, Failure> {
        match self.key {
            Some((_, target)) => existing(self.flow, self.kind, self.place, target, value).await,
            None => Ok(None),
        }
    }

    /// Which of the wanted keys are there, and as what: one reading of all cards or records.
    async fn known(&self, target: &Target, wanted: &HashSet<String>) -> Result<HashMap<String, String>, Failure> {
        let mut known = HashMap::new();
        let mut pages = Pages::new(self.flow, self.kind, self.place, *target != Target::Title);
        while let Some(nodes) = pages.next().await? {
            for node in nodes {
                let value = match target {
                    Target::Field(id) => fields_of(&node)
                        .find(|field| field.get("name").and_then(Value::as_str) == self.label(id))
                        .map(|field| shown(field.get("value"))),
                    _ => Some(shown(node.get("title"))),
                };
                if let Some(value) = value.filter(|value| wanted.contains(value)) {
                    known.entry(value).or_insert_with(|| shown(node.get("id")));
                }
            }
        }
        Ok(known)
    }

    fn label(&self, id: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.id == id).map(|field| field.label.as_str())
    }
}

/// How long to wait where a failure passes by itself, and whether it may have been applied all the same.
fn hopes(failure: &Failure) -> (Option<Duration>, bool) {
    let Failure::Tool(error) = failure else { return (None, false) };
    match error.source.as_deref() {
        Some(pipefy::Error::RateLimited { retry_after_s, .. }) => (Some(Duration::from_secs(*retry_after_s)), false),
        Some(pipefy::Error::Transport { sent: false, .. }) => (Some(Duration::ZERO), false),
        Some(source) => (None, source.may_have_been_applied()),
        None => (None, false),
    }
}

/// All cards of a pipe or records of a table, a page at a time.
struct Pages<'a> {
    flow: &'a Flow<'a>,
    kind: &'static Kind,
    arguments: Args,
    over: bool,
}

impl<'a> Pages<'a> {
    fn new(flow: &'a Flow<'a>, kind: &'static Kind, place: &str, with_fields: bool) -> Self {
        let mut arguments = Map::from_iter([(kind.place.to_owned(), Value::from(place))]);
        arguments.insert("first".to_owned(), 50.into());
        if kind.place == "pipe_id" && with_fields {
            arguments.insert("include_fields".to_owned(), true.into());
        }
        Self { flow, kind, arguments, over: false }
    }

    async fn next(&mut self) -> Result<Option<Vec<Value>>, Failure> {
        if self.over {
            return Ok(None);
        }
        let outcome = self.flow.call(self.kind.list, self.arguments.clone()).await?;
        let answer = outcome.body.into_value();
        let connection = self.kind.found.iter().filter_map(|path| dig(&answer, path.rsplit_once('.')?.0)).next();
        let connection = connection.cloned().unwrap_or_default();
        let cursor = dig(&connection, "pageInfo.endCursor").and_then(Value::as_str).map(str::to_owned);
        let more = dig(&connection, "pageInfo.hasNextPage") == Some(&Value::Bool(true));
        let same = cursor.as_deref() == self.arguments.get("after").and_then(Value::as_str);
        self.over = !more || cursor.is_none() || same;
        self.arguments.extend(cursor.map(|cursor| ("after".to_owned(), cursor.into())));
        let edges = connection.get("edges").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(Some(edges.into_iter().filter_map(|mut edge| Some(edge.get_mut("node")?.take())).collect()))
    }
}

fn fields_of(node: &Value) -> impl Iterator<Item = &Value> {
    ["fields", "record_fields"].iter().find_map(|key| node.get(*key)?.as_array()).into_iter().flatten()
}

/// Checks every cell before anything is sent.
fn cells(rows: &[Args], targets: &HashMap<String, Target>, fields: &[Field], key: Option<&str>) -> Result<(), Failure> {
    let mut bad = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let mut say = |column: &str, what: String| bad.push(format!("row {}, {column}: {what}", at + 1));
        if let Some(column) = key.filter(|column| shown(row.get(*column)).is_empty()) {
            say(column, "the key is blank".to_owned());
        }
        for field in fields {
            let column = targets.iter().find(|(_, target)| **target == Target::Field(field.id.clone()));
            let Some((column, _)) = column else { continue };
            let value = shown(row.get(column));
            if value.is_empty() {
                if field.required && key != Some(column) {
                    say(column, "the form requires a value".to_owned());
                }
                continue;
            }
            let given: Vec<String> = match listed(&Value::from(value.clone())) {
                Value::Array(items) => items.iter().map(|item| shown(Some(item))).collect(),
                _ => vec![value.clone()],
            };
            let chosen = matches!(
                field.kind.as_str(),
                "select" | "radio_vertical" | "radio_horizontal" | "checklist_vertical" | "checklist_horizontal"
            );
            if let Some(wrong) =
                given.iter().find(|item| chosen && !field.options.is_empty() && !field.options.contains(item))
            {
                say(column, format!("{wrong:?} is none of {}", field.options.join(", ")));
            }
            if field.kind == "email" && !value.contains('@') {
                say(column, format!("{value:?} is no e-mail address"));
            }
        }
    }
    if bad.is_empty() {
        return Ok(());
    }
    let more = bad.len().saturating_sub(SHOWN);
    bad.truncate(SHOWN);
    let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
    Err(Failure::refused(format!("Nothing was sent, because of these cells:\n- {}{more}", bad.join("\n- "))))
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
        let options = field.get("options").and_then(Value::as_array).into_iter().flatten();
        let options = options.filter_map(Value::as_str).map(str::to_owned).collect();
        let (label, kind) = (text("label").unwrap_or_default(), text("type").unwrap_or_default());
        Some(Field { id: text("id")?, label, required, kind, options })
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

/// A row is written as soon as it is read where the form allows it, so that memory does not grow with the pipe.
fn export<'a>(flow: &'a Flow<'a>, args: Args, kind: &'static Kind) -> Work<'a> {
    Box::pin(async move {
        let place = given(&args, kind.place).to_owned();
        let number = |name: &str| args.get(name).and_then(Value::as_u64);
        let limit = number("max_items").unwrap_or(u64::MAX);
        let until = number("max_seconds").map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut pages = Pages::new(flow, kind, &place, true);
        for name in ["after", "fields", "debug"] {
            pages.arguments.extend(args.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        // What was selected is only known when it is read.
        let lines = flow.lines.filter(|_| !args.contains_key("fields"));
        let columns = match lines {
            Some(Lines::Csv) => columns(flow, kind, &place).await?,
            _ => Vec::new(),
        };
        let mut sink = Sink { flow, lines, columns, rows: Vec::new(), count: 0 };
        if !args.contains_key("after") && !sink.head()? {
            return Ok(Shown::default());
        }
        let bar = flow.terminal.bar();
        let mut cursor = args.get("after").and_then(Value::as_str).map(str::to_owned);
        loop {
            let over = sink.count >= limit || until.is_some_and(|until| Instant::now() >= until);
            if over && !pages.over {
                let next = cursor.map(|cursor| format!("; go on with --after {cursor}")).unwrap_or_default();
                return Ok(sink.shown().note(format!("note: there are more{next}")));
            }
            let page = match pages.next().await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(failure) => {
                    let hint = cursor.filter(|_| lines.is_some());
                    let hint =
                        hint.map(|cursor| format!("{} rows are written; go on with --after {cursor}", sink.count));
                    return Err(failure.with_hint(hint));
                }
            };
            for node in &page {
                if !sink.put(exported(node))? {
                    // Whoever read has gone.
                    return Ok(Shown::default());
                }
            }
            bar.show(sink.count, None);
            cursor = pages.arguments.get("after").and_then(Value::as_str).map(str::to_owned);
        }
        Ok(sink.shown())
    })
}

/// Where exported rows go: straight out, or into a list for the forms that need all of them.
struct Sink<'a> {
    flow: &'a Flow<'a>,
    lines: Option<Lines>,
    columns: Vec<String>,
    rows: Vec<Value>,
    count: u64,
}

impl Sink<'_> {
    fn head(&self) -> Result<bool, Failure> {
        match self.lines {
            Some(Lines::Csv) => self.write(&csv_line(self.columns.iter().map(String::as_str))),
            _ => Ok(true),
        }
    }

    /// Takes a row; false when nobody reads any more.
    fn put(&mut self, row: Value) -> Result<bool, Failure> {
        self.count += 1;
        match self.lines {
            None => {
                self.rows.push(row);
                Ok(true)
            }
            Some(Lines::Json) => self.write(&format!("{row}\n")),
            Some(Lines::Csv) => {
                let cells: Vec<String> = self.columns.iter().map(|column| shown(row.get(column))).collect();
                self.write(&csv_line(cells.iter().map(String::as_str)))
            }
        }
    }

    fn write(&self, text: &str) -> Result<bool, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("The result could not be written: {error}"));
        self.flow.terminal.put(text.as_bytes()).map_err(failed)
    }

    fn shown(self) -> Shown {
        match self.lines {
            None => Shown { body: Body::Value(self.rows.into()), ..Shown::default() },
            Some(_) => Shown::default(),
        }
    }
}

/// A line of CSV.
fn csv_line<'v>(cells: impl Iterator<Item = &'v str>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The columns of an export: those of every row, then the labels of all fields.
async fn columns(flow: &Flow<'_>, kind: &Kind, place: &str) -> Result<Vec<String>, Failure> {
    let (data, parts): (Value, &[&str]) = match kind.place {
        "pipe_id" => {
            (flow.read(&pipes::get_pipe_configuration(place)).await?, &["/pipe/start_form_fields", "/pipe/phases"])
        }
        _ => (flow.read(&tables::get_table(place)).await?, &["/table/table_fields"]),
    };
    let mut columns = vec!["id".to_owned(), "title".to_owned()];
    if kind.place == "pipe_id" {
        columns.push("phase".to_owned());
    }
    let mut put = |field: &Value| {
        let label = field.get("label").and_then(Value::as_str).unwrap_or_default();
        if !columns.iter().any(|column| column == label) {
            columns.push(label.to_owned());
        }
    };
    for part in parts {
        for row in data.pointer(part).and_then(Value::as_array).into_iter().flatten() {
            match row.get("fields").and_then(Value::as_array) {
                Some(fields) => fields.iter().for_each(&mut put),
                None => put(row),
            }
        }
    }
    Ok(columns)
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
    for field in fields_of(node) {
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
            Field {
                id: "what".into(),
                label: "What is it?".into(),
                required: true,
                kind: String::new(),
                options: Vec::new(),
            },
            Field {
                id: "id".into(),
                label: "Number".into(),
                required: false,
                kind: String::new(),
                options: Vec::new(),
            },
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
