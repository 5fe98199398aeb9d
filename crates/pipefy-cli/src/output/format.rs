//! `--format`: one result in several forms.

use std::borrow::Cow;

use serde_json::Value;

use super::json::{Style, write as json_text};
use super::table::Grid;
use super::things::{flat, id_of, is_single, things};
use super::yaml;

/// A form that was asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// What `--json` gives.
    Json,
    /// The things, one a line.
    Ndjson,
    Yaml,
    /// RFC 4180 with a header; objects inside become columns.
    Csv,
    /// Drawn also in a pipe.
    Table,
    /// The ids of the things, one a line.
    Ids,
}

impl Format {
    /// The words on the command line.
    pub(crate) const NAMES: &[&str] = &["json", "ndjson", "yaml", "csv", "table", "ids"];

    /// The form of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Self::Json,
            "ndjson" => Self::Ndjson,
            "yaml" => Self::Yaml,
            "csv" => Self::Csv,
            "table" => Self::Table,
            "ids" => Self::Ids,
            _ => return None,
        })
    }

    /// Whether it shows the things of a result without what is around them.
    pub(crate) fn is_about_things(self) -> bool {
        matches!(self, Self::Ndjson | Self::Csv | Self::Table | Self::Ids)
    }

    /// The value in this form; `nouns` are what it may be about, `draw` knows the terminal.
    ///
    /// # Errors
    /// The result has no such form.
    pub(crate) fn write(
        self,
        value: &Value,
        nouns: &[String],
        draw: &dyn Fn(&Grid) -> String,
    ) -> Result<String, String> {
        Ok(match self {
            Self::Json => json_text(value, Style::MACHINE),
            Self::Ndjson => things(value, nouns).into_iter().map(|thing| format!("{thing}\n")).collect(),
            Self::Yaml => yaml::write(value),
            Self::Csv => csv(&rows(value, nouns)),
            Self::Table => {
                let rows = rows(value, nouns);
                let grid = match rows.as_slice() {
                    [one] if is_single(value, nouns) => Grid::of_one(one),
                    rows => Grid::pretty(rows),
                };
                match grid {
                    Some(grid) if !rows.is_empty() => draw(&grid),
                    _ => "(empty list)\n".to_owned(),
                }
            }
            Self::Ids => {
                let mut text = String::new();
                for thing in things(value, nouns) {
                    let id = match &*thing {
                        Value::String(id) => Some(id.clone()),
                        thing => id_of(thing),
                    };
                    let id = id.ok_or("The result has no ids; choose another --format.")?;
                    text.push_str(&id);
                    text.push('\n');
                }
                text
            }
        })
    }
}

fn rows(value: &Value, nouns: &[String]) -> Vec<Value> {
    things(value, nouns).iter().map(Cow::as_ref).map(flat).collect()
}

fn csv(rows: &[Value]) -> String {
    let rows: Vec<Value> = rows.iter().map(without_nulls).collect();
    let Some(grid) = Grid::of(&rows).filter(|_| !rows.is_empty()) else { return String::new() };
    let mut text = String::new();
    for line in grid.lines() {
        let cells: Vec<String> = line.iter().map(|cell| quoted(cell)).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// Null is an empty cell.
fn without_nulls(row: &Value) -> Value {
    let cells = row.as_object().into_iter().flatten();
    let cells = cells.map(|(key, value)| (key.clone(), if value.is_null() { "".into() } else { value.clone() }));
    Value::Object(cells.collect())
}

fn quoted(cell: &str) -> String {
    match cell.contains(['"', ',', '\n', '\r']) || cell.starts_with(' ') || cell.ends_with(' ') {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_of_a_list() {
        let draw = |grid: &Grid| grid.drawn(Some(60));
        let value = json!({"cards": {"edges": [
            {"node": {"id": "1", "title": "a, \"b\"", "phase": {"name": "New"}, "labels": []}},
            {"node": {"id": "2", "title": null, "due": "2026"}},
        ]}});
        assert_eq!(
            Format::Csv.write(&value, &[], &draw).unwrap(),
            "id,title,phase.name,labels,due\r\n1,\"a, \"\"b\"\"\",New,[],\r\n2,,,,2026\r\n"
        );
        assert_eq!(Format::Ids.write(&value, &[], &draw).unwrap(), "1\n2\n");
        let lines = Format::Ndjson.write(&value, &[], &draw).unwrap();
        assert!(
            lines.lines().count() == 2 && lines.ends_with("{\"id\":\"2\",\"title\":null,\"due\":\"2026\"}\n"),
            "{lines}"
        );
        let table = Format::Table.write(&value, &[], &draw).unwrap();
        assert!(table.contains("phase.name") && table.lines().all(|line| line.chars().count() <= 60), "{table}");
        assert!(Format::Yaml.write(&value, &[], &draw).unwrap().starts_with("cards:\n  edges:\n    - node:\n"));
        assert_eq!(Format::Csv.write(&json!([]), &[], &draw).unwrap(), "");
        assert_eq!(Format::Csv.write(&json!({"success": true}), &[], &draw).unwrap(), "success\r\ntrue\r\n");
        assert!(Format::Ids.write(&json!({"success": true}), &[], &draw).is_err());
        assert_eq!(Format::Ids.write(&json!(["a", "b"]), &[], &draw).unwrap(), "a\nb\n");
        for name in Format::NAMES {
            assert!(Format::named(name).is_some());
        }
    }
}
