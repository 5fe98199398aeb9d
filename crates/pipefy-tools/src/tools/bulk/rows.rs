//! Rows as text: CSV, JSON lines, a JSON array.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A row: what is in each column.
pub(crate) type Row = Map<String, Value>;

/// Bytes that a file of rows may have.
pub const FILE_LIMIT: u64 = 50 * 1024 * 1024;

/// The rows of a text: CSV with a header (comma, semicolon or tab), JSON lines, or a JSON array of objects. A byte order mark is
/// skipped.
///
/// # Errors
/// It is none of them, or holds no rows; in words that follow its name.
pub fn rows_of_text(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let rows: Vec<Row> = match text.trim_start().chars().next() {
        None => Vec::new(),
        Some('[') => {
            let rows: Vec<Once> = serde_json::from_str(text).map_err(|error| error.to_string())?;
            rows.into_iter().map(|row| row.0).collect()
        }
        Some('{') => json_lines(text)?,
        Some(_) => csv_rows(text)?,
    };
    if rows.is_empty() { Err("there are no rows in it".to_owned()) } else { Ok(rows) }
}

fn json_lines(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |line| serde_json::from_str(line).map(|Once(row)| row);
    lines.map(|(at, line)| row(line).map_err(|error| format!("line {}: {error}", at + 1))).collect()
}

/// A row of JSON that names each column once: which of two values is meant cannot be told.
struct Once(Row);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Cells;
        impl<'de> Visitor<'de> for Cells {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row: an object of columns and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut row = Row::new();
                while let Some((column, value)) = map.next_entry::<String, Value>()? {
                    if row.contains_key(&column) {
                        return Err(A::Error::custom(format!("the column {column} is there twice")));
                    }
                    row.insert(column, value);
                }
                Ok(Once(row))
            }
        }
        deserializer.deserialize_map(Cells)
    }
}

/// The separator is what the header has more of: comma, semicolon or tab.
fn csv_rows(text: &str) -> Result<Vec<Row>, String> {
    let header = text.lines().next().unwrap_or_default();
    let count = |separator: &u8| header.bytes().filter(|byte| byte == separator).count();
    // Of equal counts the comma wins.
    let separator = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(text.as_bytes());
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

/// A line of CSV (RFC 4180).
pub(super) fn csv_line<'v>(cells: impl Iterator<Item = &'v str>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// A value as a cell.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A cell that holds a JSON list (a checklist, people, connected cards) is that list.
pub(super) fn listed(value: &Value) -> Value {
    let list = value.as_str().filter(|text| text.trim_start().starts_with('['));
    let list = list.and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    list.map_or_else(|| value.clone(), Value::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_every_kind_of_text() {
        for (text, rows) in [
            ("a;b\n1;\"x;\ny\"\n", json!([{"a": "1", "b": "x;\ny"}])),
            ("\u{feff}a\tb\r\n1\t2\r\n", json!([{"a": "1", "b": "2"}])),
            ("{\"a\":1}\n\n{\"a\":2}\n", json!([{"a": 1}, {"a": 2}])),
            (" [{\"a\":[1]}]", json!([{"a": [1]}])),
        ] {
            assert_eq!(
                Value::from(rows_of_text(text).map(|r| r.into_iter().map(Value::from).collect::<Vec<_>>()).unwrap()),
                rows
            );
        }
        for (text, why) in [
            ("", "no rows"),
            ("a,b\n", "no rows"),
            ("[]", "no rows"),
            ("a,a\n1,2\n", "column 2"),
            ("a,\n1,2\n", "column 2"),
            ("a,b\n1\n", ""),
            ("{\"a\":1}\n[]\n", "line 2"),
            ("[1]", ""),
            ("{\"a\":1,\"b\":2}\n{\"a\":1,\"a\":2}\n", "line 2: the column a is there twice"),
            ("[{\"a\":1,\"\\u0061\":2}]", "the column a is there twice"),
        ] {
            assert!(rows_of_text(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_cell_may_hold_a_list() {
        assert_eq!(listed(&json!("[\"a\"]")), json!(["a"]));
        assert_eq!(listed(&json!("[not json")), json!("[not json"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What is written as CSV is read again as it was.
        #[test]
        fn csv_comes_back(cells in prop::collection::vec("[^\r\u{0}]{0,12}", 1..5)) {
            let names: Vec<String> = (0..cells.len()).map(|at| format!("c{at}")).collect();
            let text = csv_line(names.iter().map(String::as_str)) + &csv_line(cells.iter().map(String::as_str));
            let rows = rows_of_text(&text).unwrap();
            let back: Vec<&str> = names.iter().map(|name| rows[0][name].as_str().unwrap()).collect();
            prop_assert_eq!(back, cells);
        }
    }
}
