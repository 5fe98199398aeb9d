//! Lists as tables: drawn at a terminal, tab-separated in a pipe.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::json::{Style, write};

/// A list as rows and columns.
pub(crate) struct Grid {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Objects: the union of their keys in first-seen order. Scalars: one column `value`. Anything else is no table.
    pub(crate) fn of(items: &[Value]) -> Option<Self> {
        if items.iter().all(|item| !item.is_object() && !item.is_array()) {
            let rows = items.iter().map(|item| vec![cell(Some(item))]).collect();
            return Some(Self { columns: vec!["value".to_owned()], rows });
        }
        let mut columns: Vec<String> = Vec::new();
        for item in items {
            for key in item.as_object()?.keys() {
                if !columns.contains(key) {
                    columns.push(key.clone());
                }
            }
        }
        if columns.is_empty() {
            return None;
        }
        let rows = items.iter().map(|item| columns.iter().map(|column| cell(item.get(column))).collect()).collect();
        Some(Self { columns, rows })
    }

    /// With lines around it, as wide as the terminal (`columns` when it does not say).
    pub(crate) fn drawn(&self, columns: Option<u16>) -> String {
        let mut table = self.table();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // A terminal that does not know its width says 0.
        let unknown = table.width().is_none_or(|width| width == 0);
        if let Some(columns) = columns.or(unknown.then_some(80)) {
            table.set_width(columns);
        }
        format!("{table}\n")
    }

    /// With lines around it, as wide as it gets.
    pub(crate) fn unbounded(&self) -> String {
        let mut table = self.table();
        table.set_content_arrangement(ContentArrangement::Disabled);
        format!("{table}\n")
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
        table.set_header(self.columns.clone());
        for row in &self.rows {
            table.add_row(row.clone());
        }
        table
    }

    /// Header and rows.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.columns).chain(&self.rows)
    }

    /// One line per row, cells between tabs.
    pub(crate) fn tabbed(&self) -> String {
        let line = |cells: &[String]| cells.iter().map(|text| one_line(text)).collect::<Vec<_>>().join("\t") + "\n";
        let mut text = line(&self.columns);
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

/// Text as it is; anything else as JSON; what is missing is empty.
fn cell(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect(),
        Some(value @ (Value::Array(_) | Value::Object(_))) => {
            let compact = value.to_string();
            // Control characters are escaped by JSON up to U+001F only.
            if compact.chars().any(char::is_control) { write(value, Style::PLAIN) } else { compact }
        }
        Some(scalar) => scalar.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn tabbed(value: &Value) -> Option<String> {
        Grid::of(value.as_array().unwrap()).map(|grid| grid.tabbed())
    }

    #[test]
    fn lists_become_tables_by_what_they_hold() {
        for (value, text) in [
            (json!([{"a": 1}, {"b": "x", "a": null}]), Some("a\tb\n1\t\nnull\tx\n")),
            (json!([{"a": {"k": [true]}}]), Some("a\n{\"k\":[true]}\n")),
            (json!([{"a": "[on hold] x\ty\nz"}]), Some("a\n[on hold] x y z\n")),
            (json!([1, "two", null]), Some("value\n1\ntwo\nnull\n")),
            (json!([{}, {}]), None),
            (json!([[1], [2]]), None),
            (json!([{"a": 1}, 2]), None),
        ] {
            assert_eq!(tabbed(&value).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn a_drawn_table_is_as_wide_as_asked() {
        let grid = Grid::of(&[json!({"id": "1", "title": "a long title that does not fit into the line"})]).unwrap();
        let drawn = grid.drawn(Some(30));
        assert!(drawn.lines().all(|line| line.chars().count() <= 30), "{drawn}");
    }
}
