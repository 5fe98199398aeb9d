//! Cards or records become rows, page by page: in the result, in a file, or straight to standard output.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::keys::follow;
use super::rows::{cell, csv_line};
use super::{Ids, Kind, PAGE, Page, fields_of, is_late, list_in};
use crate::call::Out;
use crate::paging::Cursors;
use crate::tools::local_file;
use crate::tools::shared::non_blank;
use crate::{Call, Explain, Kind as ErrorKind, Outcome, ToolError, dig, fit};

/// Bytes that a result needs beside its rows.
const ENVELOPE: usize = 2_000;

/// Name of the file that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// What is exported, and where to.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Ways {
    /// File on this server's machine to write, which must not be there yet; without it the rows are in the result.
    #[serde(default)]
    file: Option<String>,
    /// Of the file; as its name ends when not given.
    #[serde(default)]
    format: Option<Form>,
    /// Go on behind this cursor (next_cursor); a file is then continued.
    #[serde(default)]
    after: Option<String>,
    /// Only these columns: id, title, phase, or field labels or ids.
    #[serde(default)]
    fields: Option<Vec<String>>,
    #[serde(default)]
    max_items: Option<u64>,
    #[serde(default)]
    max_seconds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Form {
    Ndjson,
    Csv,
}

/// A column of an export.
#[derive(Debug)]
struct Column {
    name: String,
    /// The field it shows; `None` for what every row has.
    field: Option<Field>,
}

#[derive(Debug)]
struct Field {
    ids: Ids,
    label: String,
}

/// Reads them all, or as many as are wanted or fit.
///
/// # Errors
/// Pipefy's; unknown columns; a file that is there or cannot be written. What breaks off says how to go on.
pub(super) async fn read(kind: Kind, place: &str, ways: Ways, call: &Call<'_>) -> Result<Outcome, ToolError> {
    let limit = ways.max_items.unwrap_or(u64::MAX);
    let end = ways.max_seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let columns = chosen(columns(kind, place, call).await?, ways.fields.as_deref())?;
    let with_fields = columns.iter().any(|column| column.field.is_some());
    let after = non_blank(ways.after.as_deref());
    let mut sink = Sink::open(&ways, call)?;
    if after.is_none() {
        sink.head(&columns)?;
    }
    let mut cursors = Cursors::from(after);
    let mut count = 0;
    let complete = loop {
        // One page at least, so that calls that go on come to an end.
        if count >= limit || call.budget.is_over() || (count > 0 && is_late(end, call)) {
            break false;
        }
        let (query, root) = kind.page(place, with_fields, PAGE.min(limit - count), cursors.now());
        let answer = match call.query(query).await {
            Ok(data) => data.value(),
            Err(error) => {
                let error = Explain::doing("export").about(kind.owner(), place).map(call, error);
                return Err(sink.broken(error, count, cursors.now()));
            }
        };
        let page = match Page::of(&answer, root) {
            Ok(page) => page,
            Err(error) => return Err(sink.broken(error, count, cursors.now())),
        };
        let rows: Vec<Vec<Value>> = page.nodes.iter().map(|node| row(node, &columns)).collect();
        let read = rows.len() as u64;
        if count > 0 && !sink.has_room(&rows, call.room) {
            break false;
        }
        if !sink.put(&columns, rows)? {
            // Whoever read has gone.
            break true;
        }
        count += read;
        call.budget.advance(read, None, &format!("{count} {} read", kind.noun()));
        if page.next.is_none() {
            break true;
        }
        if let Err(error) = follow(&mut cursors, page.next, root) {
            return Err(sink.broken(error, count, None));
        }
    };
    let mut shown = sink.shown(&columns)?;
    shown.insert("count".to_owned(), count.into());
    shown.insert("complete".to_owned(), complete.into());
    let mut message = format!("{count} {} exported.", kind.noun());
    if let (false, Some(next)) = (complete, cursors.now()) {
        shown.insert("next_cursor".to_owned(), next.into());
        message.push_str(" There are more: go on with `after` = next_cursor.");
    }
    Ok(Outcome::new(shown).message(message))
}

/// The columns: those of every row, then all fields by their labels. A field whose label is taken also has its id in its name.
async fn columns(kind: Kind, place: &str, call: &Call<'_>) -> Result<Vec<Column>, ToolError> {
    let explain = Explain::doing("load the fields").about(kind.owner(), place);
    let (query, lists) = kind.layout(place);
    let data = call.query(query).await.map_err(|error| explain.map(call, error))?.value();
    if data.get(kind.owner()).is_none_or(Value::is_null) {
        return Err(explain.missing());
    }
    let own: &[&str] = if kind == Kind::Cards { &["id", "title", "phase"] } else { &["id", "title"] };
    let mut columns: Vec<Column> = own.iter().map(|name| Column { name: (*name).to_owned(), field: None }).collect();
    for list in lists {
        for entry in list_in(&data, list)? {
            // An entry is a field, or a phase that has some.
            if !list.ends_with("phases") {
                columns.extend(column(&columns, entry));
                continue;
            }
            for field in list_in(entry, "fields")? {
                columns.extend(column(&columns, field));
            }
        }
    }
    Ok(columns)
}

/// The column of a field, beside others.
fn column(others: &[Column], field: &Value) -> Option<Column> {
    let label = field.get("label").and_then(Value::as_str).unwrap_or_default().to_owned();
    let ids = Ids::of(field);
    let [uuid, internal_id, id] = &ids.0;
    let numbered = |id: &String| if id.is_empty() { String::new() } else { format!("{label} ({id})") };
    let names = [label.clone(), numbered(id), numbered(internal_id), numbered(uuid)];
    let free = |name: &String| !name.trim().is_empty() && !others.iter().any(|column| column.name == *name);
    let name = names.into_iter().find(free)?;
    Some(Column { name, field: Some(Field { ids, label }) })
}

/// The columns that were asked for, in that order.
fn chosen(columns: Vec<Column>, wanted: Option<&[String]>) -> Result<Vec<Column>, ToolError> {
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return Ok(columns) };
    let mut columns: Vec<Option<Column>> = columns.into_iter().map(Some).collect();
    let mut kept = Vec::new();
    for name in wanted {
        let folded = name.trim().to_lowercase();
        let by_name = |column: &Column| column.name.to_lowercase() == folded;
        let by_id = |column: &Column| column.field.as_ref().is_some_and(|field| field.ids.has(name.trim()));
        let exact = |column: &Column| column.name == name.trim();
        let at = |fits: &dyn Fn(&Column) -> bool| columns.iter().position(|column| column.as_ref().is_some_and(fits));
        let at = at(&exact).or_else(|| at(&by_name)).or_else(|| at(&by_id));
        match at.and_then(|at| columns.get_mut(at)).and_then(Option::take) {
            Some(column) => kept.push(column),
            None => {
                let known: Vec<&str> = columns.iter().flatten().map(|column| column.name.as_str()).collect();
                return Err(ToolError::invalid(format!(
                    "There is no column {name}, or it is named twice. There are: {}.",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(kept)
}

fn row(node: &Value, columns: &[Column]) -> Vec<Value> {
    let value = |column: &Column| match (&column.field, column.name.as_str()) {
        (None, "phase") => dig(node, "current_phase.name").cloned(),
        (None, name) => node.get(name).cloned(),
        (Some(field), _) => fields_of(node)
            .find(|shown| {
                let same = Ids::of(shown.get("field").unwrap_or(&Value::Null)).same(&field.ids);
                // An answer that does not say which field it is about has its label at least.
                same.unwrap_or_else(|| shown.get("name").and_then(Value::as_str) == Some(&field.label))
            })
            .and_then(|field| field.get("value").cloned()),
    };
    columns.iter().map(|column| value(column).unwrap_or_default()).collect()
}

/// Where rows go.
enum Sink {
    /// Into the result, with the bytes that they have so far.
    Result(Vec<Value>, usize),
    File(BufWriter<File>, String, Form),
    /// Out at once.
    Out(Arc<dyn Out>, Form),
}

impl Sink {
    fn open(ways: &Ways, call: &Call<'_>) -> Result<Self, ToolError> {
        let Some(given) = non_blank(ways.file.as_deref()) else { return Ok(Self::Result(Vec::new(), 0)) };
        let local = call.local("Leave out `file`: the rows are then in the result.")?;
        if let (STANDARD_OUTPUT, Some(out)) = (given, &local.out) {
            return Ok(Self::Out(out.clone(), ways.format.unwrap_or(Form::Ndjson)));
        }
        if call.policy.read_only {
            let text = "Files are written only where more than reads is allowed (read_only). Leave out `file`.";
            return Err(ToolError::new(ErrorKind::Refused, text).code("READ_ONLY"));
        }
        let by_name = if given.to_lowercase().ends_with(".csv") { Form::Csv } else { Form::Ndjson };
        let failed = |why: String| ToolError::invalid(format!("{given} cannot be written: {why}"));
        let path = local_file::expand(given, local).map_err(&failed)?;
        let mut options = OpenOptions::new();
        match non_blank(ways.after.as_deref()) {
            Some(_) => options.append(true),
            // What is there is not written over.
            None => options.write(true).create_new(true),
        };
        let file = options.open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                failed("it is there already; choose another name, or continue it with `after`".to_owned())
            }
            _ => failed(error.to_string()),
        })?;
        Ok(Self::File(BufWriter::new(file), path.display().to_string(), ways.format.unwrap_or(by_name)))
    }

    fn head(&mut self, columns: &[Column]) -> Result<bool, ToolError> {
        match self {
            Self::File(.., Form::Csv) | Self::Out(_, Form::Csv) => {
                self.write(&csv_line(columns.iter().map(|column| column.name.as_str())))
            }
            _ => Ok(true),
        }
    }

    fn has_room(&self, rows: &[Vec<Value>], room: Option<usize>) -> bool {
        match self {
            Self::Result(_, bytes) => room.is_none_or(|room| bytes + size(rows) + ENVELOPE <= room),
            _ => true,
        }
    }

    /// Takes rows; false when nobody reads any more.
    fn put(&mut self, columns: &[Column], rows: Vec<Vec<Value>>) -> Result<bool, ToolError> {
        let form = match self {
            Self::Result(kept, bytes) => {
                *bytes += size(&rows);
                kept.extend(rows.into_iter().map(Value::from));
                return Ok(true);
            }
            Self::File(.., form) | Self::Out(_, form) => *form,
        };
        for row in rows {
            let line = match form {
                Form::Csv => {
                    let cells: Vec<String> = row.iter().map(cell).collect();
                    csv_line(cells.iter().map(String::as_str))
                }
                Form::Ndjson => {
                    let names = columns.iter().map(|column| column.name.clone());
                    format!("{}\n", Value::from(names.zip(row).collect::<Map<_, _>>()))
                }
            };
            if !self.write(&line)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(&mut self, text: &str) -> Result<bool, ToolError> {
        match self {
            Self::Result(..) => Ok(true),
            Self::File(file, path, _) => match file.write_all(text.as_bytes()) {
                Ok(()) => Ok(true),
                Err(error) => Err(ToolError::refused_value(format!("{path} cannot be written: {error}"))),
            },
            Self::Out(out, _) => out
                .put(text.as_bytes())
                .map_err(|error| ToolError::new(ErrorKind::Internal, format!("The rows cannot be written: {error}"))),
        }
    }

    /// A failure between pages: what is written stays, and can be continued.
    fn broken(mut self, error: ToolError, count: u64, cursor: Option<&str>) -> ToolError {
        if let Self::File(file, ..) = &mut self {
            // The first failure says more than a second one.
            let _ = file.flush();
        }
        match (&self, cursor) {
            (Self::File(..) | Self::Out(..), Some(cursor)) => {
                error.detail("rows_written", count).detail("next_cursor", cursor)
            }
            _ => error,
        }
    }

    /// What the result says of the rows.
    fn shown(self, columns: &[Column]) -> Result<Map<String, Value>, ToolError> {
        let mut shown = Map::new();
        match self {
            Self::Result(rows, _) => {
                shown.insert("columns".to_owned(), columns.iter().map(|column| json!(column.name)).collect());
                shown.insert("rows".to_owned(), rows.into());
            }
            Self::File(mut file, path, _) => {
                let written = file.flush();
                written.map_err(|error| ToolError::refused_value(format!("{path} cannot be written: {error}")))?;
                shown.insert("file".to_owned(), path.into());
            }
            Self::Out(..) => {}
        }
        Ok(shown)
    }
}

/// Bytes of rows as JSON.
fn size(rows: &[Vec<Value>]) -> usize {
    rows.iter().map(|row| row.iter().map(|value| fit::size(value) + 1).sum::<usize>() + 3).sum()
}
