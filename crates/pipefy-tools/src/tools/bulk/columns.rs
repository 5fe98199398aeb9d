//! Where columns go, and what is wrong with cells, before anything is sent.

use std::collections::HashMap;

use pipefy::Surface;
use serde_json::{Map, Value, json};

use super::rows::{Row, listed};
use super::{Ids, Kind, list_in, shown};
use crate::tools::shared::list_at;
use crate::{Call, Explain, ToolError};

/// Bad cells that a refusal shows.
const SHOWN: usize = 20;

/// Where a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Title,
    Field(String),
    /// Nowhere: what an export adds, or what `map` leaves out.
    Nowhere,
}

/// A field of the form.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) ids: Ids,
    pub(super) label: String,
    pub(super) required: bool,
    pub(super) kind: String,
    pub(super) options: Vec<String>,
}

/// The fields that the form of the pipe, or the table, has.
///
/// # Errors
/// It cannot be read or seen.
pub(super) async fn form(call: &Call<'_>, kind: Kind, place: &str) -> Result<Vec<Field>, ToolError> {
    let explain = Explain::doing("load the form").about(kind.owner(), place);
    let (query, path) = kind.form(place);
    let data = call.query(query).await.map_err(|error| explain.map(call, error))?.value();
    if data.get(kind.owner()).is_none_or(Value::is_null) {
        return Err(explain.missing());
    }
    let field = |field: &Value| {
        let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
        let ids = Some(Ids::of(field)).filter(|ids| !ids.id().is_empty())?;
        let options = list_at(field, "options").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(Field {
            ids,
            label: text("label").unwrap_or_default(),
            required: field.get("required") == Some(&Value::Bool(true)),
            kind: text("type").unwrap_or_default(),
            options,
        })
    };
    Ok(list_in(&data, path)?.iter().filter_map(field).collect())
}

/// Where each column goes: by `map`, by a field's id, by its label.
#[derive(Debug)]
pub(super) struct Targets(HashMap<String, Target>);

impl Targets {
    /// `surface` decides how a hint names `map`.
    ///
    /// # Errors
    /// Columns that go nowhere, two that go to one field, or a field that the form requires and no column gives.
    pub(super) fn of(
        rows: &[Row],
        fields: &[Field],
        map: &Map<String, Value>,
        surface: Surface,
    ) -> Result<Self, ToolError> {
        let mut targets: HashMap<String, Target> = HashMap::new();
        let mut unknown: Vec<&str> = Vec::new();
        for column in rows.iter().flat_map(Row::keys) {
            if targets.contains_key(column) || unknown.contains(&column.as_str()) {
                continue;
            }
            let name = map.get(column).map_or(column.as_str(), |name| name.as_str().unwrap_or_default().trim());
            match target(name, fields) {
                Some(target) => {
                    let twin = |(_, other): &(&String, &Target)| **other == target && target != Target::Nowhere;
                    if let Some((other, _)) = targets.iter().find(twin) {
                        return Err(ToolError::invalid(format!(
                            "The columns {other} and {column} go to the same field. {}",
                            hint(surface, column)
                        )));
                    }
                    targets.insert(column.clone(), target);
                }
                None => unknown.push(column),
            }
        }
        if let Some(first) = unknown.first() {
            let own = fields.iter().map(|field| format!("{} ({})", field.ids.id(), field.label));
            let known: Vec<String> = std::iter::once("title".to_owned()).chain(own).collect();
            return Err(ToolError::invalid(format!(
                "The form has no field for {}. Its fields: {}. {}",
                unknown.join(", "),
                known.join(", "),
                hint(surface, first)
            )));
        }
        let targets = Self(targets);
        let open = |field: &&Field| field.required && targets.column(field.ids.id()).is_none();
        let missing: Vec<&str> = fields.iter().filter(open).map(|field| field.label.as_str()).collect();
        match missing.is_empty() {
            true => Ok(targets),
            false => {
                Err(ToolError::invalid(format!("No column gives what the form requires: {}.", missing.join(", "))))
            }
        }
    }

    pub(super) fn get(&self, column: &str) -> Option<&Target> {
        self.0.get(column)
    }

    /// The column that goes to a field.
    fn column(&self, field: &str) -> Option<&str> {
        let to = |target: &Target| matches!(target, Target::Field(id) if id == field);
        self.0.iter().find(|(_, target)| to(target)).map(|(column, _)| column.as_str())
    }
}

/// How to say where a column goes.
fn hint(surface: Surface, column: &str) -> String {
    match surface {
        Surface::Cli => format!("--map \"{column}=FIELD\" names its field, and --map \"{column}=\" leaves it out."),
        Surface::Mcp | Surface::Sdk => {
            format!("Name its field in `map`, or leave it out with an empty text: {}.", json!({ column: "" }))
        }
    }
}

fn target(name: &str, fields: &[Field]) -> Option<Target> {
    if name.is_empty() {
        return Some(Target::Nowhere);
    }
    let folded = name.to_lowercase();
    let by_id = fields.iter().find(|field| field.ids.id() == name);
    let by_label = || fields.iter().find(|field| field.label.trim().to_lowercase() == folded);
    // As an export names the second field of a label.
    let by_both = || fields.iter().find(|field| format!("{} ({})", field.label, field.ids.id()) == name);
    if let Some(field) = by_id.or_else(by_label).or_else(by_both) {
        return Some(Target::Field(field.ids.id().to_owned()));
    }
    match folded.as_str() {
        "title" => Some(Target::Title),
        // What an export writes besides.
        "id" | "phase" => Some(Target::Nowhere),
        _ => None,
    }
}

/// Checks the key and every cell.
///
/// # Errors
/// All bad cells, by row and column; two rows with one key.
pub(super) fn check(rows: &[Row], targets: &Targets, fields: &[Field], key: Option<&str>) -> Result<(), ToolError> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut bad: Vec<(usize, String, String)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let mut say = |column: &str, what: String| bad.push((at + 1, column.to_owned(), what));
        if let Some(column) = key {
            let value = shown(row.get(column));
            if value.is_empty() {
                say(column, "the key is blank".to_owned());
            } else if let Some(before) = seen.insert(value, at + 1) {
                return Err(ToolError::invalid(format!(
                    "Rows {before} and {} have the same {column}; a key is unique.",
                    at + 1
                )));
            }
        }
        for field in fields {
            let Some(column) = targets.column(field.ids.id()) else { continue };
            let value = row.get(column).map_or(Value::Null, listed);
            if shown(Some(&value)).is_empty() {
                if field.required && key != Some(column) {
                    say(column, "the form requires a value".to_owned());
                }
                continue;
            }
            if let Some(wrong) = wrong(field, &value) {
                say(column, wrong);
            }
        }
    }
    if bad.is_empty() {
        return Ok(());
    }
    let line = |(row, column, what): &(usize, String, String)| format!("- row {row}, {column}: {what}");
    let lines: Vec<String> = bad.iter().take(SHOWN).map(line).collect();
    let more = bad.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
    let cells =
        bad.iter().take(SHOWN).map(|(row, column, what)| json!({"row": row, "column": column, "problem": what}));
    let cells: Vec<Value> = cells.collect();
    Err(ToolError::invalid(format!("Nothing was sent, because of these cells:\n{}{more}", lines.join("\n")))
        .detail("cells", cells)
        .detail("bad_cells", bad.len()))
}

/// What is wrong with a cell, as far as it can be known beforehand.
fn wrong(field: &Field, value: &Value) -> Option<String> {
    let given: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| shown(Some(item))).collect(),
        one => vec![shown(Some(one))],
    };
    let chosen = matches!(
        field.kind.as_str(),
        "select" | "radio_vertical" | "radio_horizontal" | "checklist_vertical" | "checklist_horizontal"
    );
    if chosen && !field.options.is_empty() {
        let wrong = given.iter().find(|item| !field.options.contains(item));
        return wrong.map(|wrong| format!("{wrong:?} is none of {}", field.options.join(", ")));
    }
    let odd = |fits: fn(&str) -> bool| given.iter().find(|item| !fits(item));
    match field.kind.as_str() {
        "email" => odd(|text| text.contains('@')).map(|wrong| format!("{wrong:?} is no e-mail address")),
        _ => None,
    }
}

/// The input of a new card or record. An empty cell says nothing.
pub(super) fn input(kind: Kind, place: &str, row: &Row, targets: &Targets) -> Map<String, Value> {
    let mut input = Map::from_iter([(kind.place().to_owned(), Value::from(place))]);
    let mut fields = Map::new();
    for (column, value) in row {
        if shown(Some(value)).is_empty() {
            continue;
        }
        match targets.get(column) {
            Some(Target::Title) => {
                input.insert("title".to_owned(), shown(Some(value)).into());
            }
            Some(Target::Field(id)) => {
                fields.insert(id.clone(), listed(value));
            }
            Some(Target::Nowhere) | None => {}
        }
    }
    input.insert("fields_attributes".to_owned(), crate::tools::definitions::attributes(&fields).into());
    input
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn field(id: &str, label: &str, kind: &str, options: &[&str]) -> Field {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Field { ids: Ids::of(&json!({ "id": id })), label: label.into(), required: false, kind: kind.into(), options }
    }

    fn row(value: Value) -> Row {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn columns_find_their_fields() {
        let fields = [field("what", "What is it?", "", &[]), field("id", "Number", "", &[])];
        for (name, wanted) in [
            ("what", Some(Target::Field("what".into()))),
            ("WHAT IS IT?", Some(Target::Field("what".into()))),
            ("What is it? (what)", Some(Target::Field("what".into()))),
            ("Title", Some(Target::Title)),
            ("id", Some(Target::Field("id".into()))),
            ("phase", Some(Target::Nowhere)),
            ("", Some(Target::Nowhere)),
            ("other", None),
        ] {
            assert_eq!(target(name, &fields), wanted, "{name}");
        }
    }

    #[test]
    fn every_bad_cell_is_named() {
        let fields = [field("s", "State", "select", &["new", "old"]), field("m", "Mail", "email", &[])];
        let rows: Vec<Row> = (0..30).map(|at| row(json!({"s": "none", "m": format!("x{at}")}))).collect();
        let targets = Targets::of(&rows, &fields, &Map::new(), Surface::Mcp).unwrap();
        let error = check(&rows, &targets, &fields, Some("m")).unwrap_err();
        assert_eq!(error.details["bad_cells"], 60);
        assert!(
            error.message.contains("- row 1, s: \"none\" is none of new, old")
                && error.message.ends_with("and 40 more")
        );
        let twice = [row(json!({"m": "a@b"})), row(json!({"m": " a@b "}))];
        let error = check(&twice, &targets, &fields, Some("m")).unwrap_err();
        assert!(error.message.contains("Rows 1 and 2"), "{error}");
        let good = [row(json!({"s": "[\"old\",\"new\"]", "m": ""}))];
        check(&good, &targets, &fields, None).unwrap();
    }

    /// Which of two cells of one field is meant cannot be told: by id and label, by case, by `map`, in different rows.
    #[test]
    fn two_columns_of_one_field_are_named() {
        let fields = [field("amount", "How much", "", &[]), field("other", "Other", "", &[])];
        for (rows, map, wanted) in [
            (vec![json!({"amount": 1, "How much": 2})], json!({}), Some("amount and How much")),
            (vec![json!({"How much": 1}), json!({"HOW MUCH": 2})], json!({}), Some("How much and HOW MUCH")),
            (vec![json!({"amount": 1, "x": 2})], json!({"x": "amount"}), Some("amount and x")),
            (vec![json!({"title": 1, "Title": 2})], json!({}), Some("title and Title")),
            (vec![json!({"amount": 1, "How much": 2})], json!({"How much": ""}), None),
            (vec![json!({"id": 1, "phase": 2, "other": 3})], json!({}), None),
        ] {
            let rows: Vec<Row> = rows.into_iter().map(row).collect();
            let map = row(map);
            let result = Targets::of(&rows, &fields, &map, Surface::Cli).map(drop).map_err(|error| error.message);
            match (result, wanted) {
                (Ok(()), None) => {}
                (Err(error), Some(wanted)) => {
                    assert!(
                        error.contains(wanted) && error.contains("same field") && error.contains("--map"),
                        "{error}"
                    );
                }
                (result, wanted) => panic!("{wanted:?}: {result:?}"),
            }
        }
        let odd = [row(json!({"Decision": 1}))];
        for (surface, wanted) in [(Surface::Cli, "--map \"Decision=\""), (Surface::Mcp, "{\"Decision\":\"\"}")] {
            let error = Targets::of(&odd, &fields, &Map::new(), surface).unwrap_err();
            assert!(error.message.contains(wanted), "{error}");
        }
    }
}
