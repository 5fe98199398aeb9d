//! `card import`, `record import`, `card export`, `record export`: the bulk capabilities for a person and for pipes of the shell.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use pipefy_tools::{Outcome, ROWS_LIMIT, rows_of_text};
use serde_json::{Map, Value};

use crate::command::{Param, Preset, commas, flag, int, text, word};
use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::{Body, Lines, Shown};
use crate::{show, values};

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// What an import takes; `place` says where to.
pub(crate) const fn imports(place: Param) -> [Param; 7] {
    [
        word("file", "CSV with a header, JSON lines or a JSON array; - reads standard input"),
        place,
        text("--key", "key", "Column that tells rows apart; a row whose value is there already is left out"),
        flag("--every-row", "every_row", "Without a key: create every row of the file"),
        text("--map", "map", "COLUMN=FIELD where names differ, COLUMN= to leave it out").many(),
        int("--parallel", "parallel", "Rows that are sent at the same time").range(1, 16).or(Preset::Int(4)),
        text(
            "--journal",
            "journal",
            "File that notes what became of each row, instead of one beside the file; \"\" for none",
        ),
    ]
}

/// What an export takes; `place` says where from.
pub(crate) const fn exports(place: Param) -> [Param; 5] {
    [
        place,
        commas("--fields", "fields", "Only these columns: id, title, phase, field labels or ids"),
        int("--max-items", "max_items", "Stop after this many rows").range(1, i64::MAX),
        int("--max-seconds", "max_seconds", "Stop after this many seconds").range(1, i64::MAX),
        text("--after", "after", "Go on behind this cursor, without the line of column names"),
    ]
}

/// `card import`
pub(crate) fn import_cards<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(import(flow, "bulk_import_cards", args))
}

/// `record import`
pub(crate) fn import_records<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(import(flow, "bulk_import_records", args))
}

/// `card export`
pub(crate) fn export_cards<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(export(flow, "bulk_export_cards", args))
}

/// `record export`
pub(crate) fn export_records<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(export(flow, "bulk_export_records", args))
}

async fn import(flow: &Flow<'_>, tool: &str, mut args: Args) -> Result<Shown, Failure> {
    if !args.contains_key("key") && args.get("every_row") != Some(&Value::Bool(true)) {
        return Err(Failure::usage(
            "name the column that tells rows apart with --key, so that the import can be run again; or say --every-row to \
             create every row whatever is there",
        ));
    }
    if let Some(Value::Array(pairs)) = args.get("map") {
        args.insert("map".to_owned(), map(pairs)?.into());
    }
    if args.get("file").and_then(Value::as_str) == Some("-") {
        args.remove("file");
        let rows = rows_of_text(&values::whole_file("-", ROWS_LIMIT)?);
        let rows = rows.map_err(|why| Failure::usage(format!("standard input: {why}")))?;
        args.insert("rows".to_owned(), rows.into_iter().map(Value::from).collect());
    }
    args.insert("every_result".to_owned(), true.into());
    match flow.call(tool, args).await {
        Ok(outcome) if outcome.whole => Ok(rehearsed(outcome)),
        Ok(outcome) => {
            let facts = outcome.body.value();
            let shown = show::dressed(outcome, flow.approved, |_| rows(&facts));
            Ok(counted(shown, &facts))
        }
        Err(Failure::Tool(error)) if error.details.contains_key("rows") => {
            let facts = Value::from(error.details.clone());
            Ok(counted(Shown::value(rows(&facts)), &facts).code(1))
        }
        Err(failure) => Err(failure),
    }
}

/// The columns that have another name in Pipefy.
fn map(pairs: &[Value]) -> Result<Args, Failure> {
    let pair = |pair: &Value| {
        let (column, field) = pair.as_str()?.split_once('=')?;
        Some((column.trim().to_owned(), field.trim().into()))
    };
    let pairs = pairs.iter().map(|text| pair(text).ok_or_else(|| Failure::usage("--map takes COLUMN=FIELD")));
    pairs.collect()
}

fn rows(facts: &Value) -> Value {
    facts.get("rows").cloned().unwrap_or_default()
}

/// A dry run, row by row.
fn rehearsed(outcome: Outcome) -> Shown {
    let rows = pipefy_tools::dig(&outcome.body.value(), "before.rows").cloned().unwrap_or_default();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for result in rows.as_array().into_iter().flatten().filter_map(|row| row.get("result")?.as_str()) {
        *counts.entry(result).or_default() += 1;
    }
    let count = |result: &str| counts.get(result).copied().unwrap_or_default();
    let mut note = format!("note: {} would be created, {} there already", count("planned"), count("exists"));
    if count("unknown") > 0 {
        note.push_str(&format!(", {} unknown", count("unknown")));
    }
    Shown { body: Body::Value(rows.clone()), ..Shown::default() }.note(note)
}

/// With what became of the rows, in numbers.
fn counted(shown: Shown, facts: &Value) -> Shown {
    let count = |key: &str| facts.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (failed, unknown, left) = (count("failed"), count("unknown"), count("left"));
    let mut note = format!("note: {} created, {} there already, {failed} failed", count("created"), count("existing"));
    if unknown > 0 {
        note.push_str(&format!(", {unknown} unknown"));
    }
    let mut shown = shown.note(note);
    if left > 0 {
        shown = shown.note(format!("warning: stopped with {left} rows left; run it again to go on"));
    }
    let troubled = failed + unknown + left > 0;
    if let (true, Some(journal)) = (troubled, facts.get("journal").and_then(Value::as_str)) {
        shown = shown.note(format!("note: what became of each row is in {journal}"));
    }
    let code = shown.code.max(u8::from(troubled));
    shown.code(code)
}

async fn export(flow: &Flow<'_>, tool: &str, mut args: Args) -> Result<Shown, Failure> {
    if let Some(lines) = flow.lines {
        let format = match lines {
            Lines::Csv => "csv",
            Lines::Json => "ndjson",
        };
        args.insert("file".to_owned(), "-".into());
        args.insert("format".to_owned(), format.into());
    }
    let outcome = match flow.call(tool, args).await {
        Ok(outcome) => outcome,
        Err(failure) => {
            let hint = match &failure {
                Failure::Tool(error) => error.details.get("next_cursor").and_then(Value::as_str).map(|cursor| {
                    let written = error.details.get("rows_written").and_then(Value::as_u64).unwrap_or_default();
                    format!("{written} rows are written; go on with --after {cursor}")
                }),
                _ => None,
            };
            return Err(failure.with_hint(hint));
        }
    };
    let facts = outcome.body.into_value();
    let shown = match flow.lines {
        Some(_) => Shown::default(),
        None => Shown::value(objects(&facts)),
    };
    Ok(match facts.get("next_cursor").and_then(Value::as_str) {
        Some(cursor) => shown.note(format!("note: there are more; go on with --after {cursor}")),
        None => shown,
    })
}

/// Each row with the names of its columns.
fn objects(facts: &Value) -> Value {
    let list = |key: &str| facts.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let columns = list("columns");
    let object = |row: &Value| -> Value {
        let names = columns.iter().map(|column| column.as_str().unwrap_or_default().to_owned());
        names.zip(row.as_array().into_iter().flatten().cloned()).collect::<Map<_, _>>().into()
    };
    list("rows").iter().map(object).collect()
}
