//! Lists as tables: drawn at a terminal, tab-separated in a pipe.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde_json::Value;

use super::json::{Style, write};

/// A list as rows and columns.
pub(crate) struct Grid {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Objects: the union of their keys in first-seen order. Scalars: one column `value`. Anything else is no table. Lists and
    /// objects in cells are JSON, for programs.
    pub(crate) fn of(items: &[Value]) -> Option<Self> {
        Self::with(items, cell)
    }

    /// The same for people: lists in cells are the names of what is in them.
    pub(crate) fn pretty(items: &[Value]) -> Option<Self> {
        Self::with(items, pretty)
    }

    /// One object for people, a key a row.
    pub(crate) fn of_one(item: &Value) -> Option<Self> {
        let map = item.as_object().filter(|map| !map.is_empty())?;
        let rows = map.iter().map(|(key, value)| vec![key.clone(), pretty(Some(value))]).collect();
        Some(Self { columns: vec!["key".to_owned(), "value".to_owned()], rows })
    }

    fn with(items: &[Value], cell: fn(Option<&Value>) -> String) -> Option<Self> {
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

    /// With lines around it, no wider than the terminal (`columns` when it does not say). Columns without any value go where room
    /// is short; where words would be torn all the same, each row becomes lines of its own.
    pub(crate) fn drawn(&self, columns: Option<u16>) -> String {
        // A terminal that does not know its width says 0.
        let known = |width: &u16| *width > 0;
        let width = columns.filter(known).or_else(|| Table::new().width().filter(known)).unwrap_or(80).max(NARROWEST);
        if self.widest() <= usize::from(width) {
            return self.arranged(width);
        }
        let kept = self.without_empty_columns();
        match kept.least() <= usize::from(width) {
            true => kept.arranged(width),
            false => kept.stacked(width),
        }
    }

    fn arranged(&self, width: u16) -> String {
        let mut table = self.table();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        for (at, _) in self.columns.iter().enumerate() {
            let least = u16::try_from(self.least_of(at)).unwrap_or(u16::MAX);
            let constraint = match self.is_id(at) {
                // An id is copied from here: it stays in one piece.
                true => ColumnConstraint::ContentWidth,
                false => ColumnConstraint::LowerBoundary(Width::Fixed(least.saturating_add(PADDING))),
            };
            if let Some(column) = table.column_mut(at).filter(|_| self.columns.len() > 1) {
                column.set_constraint(constraint);
            }
        }
        table.set_width(width);
        format!("{table}\n")
    }

    /// A line for each value, and an empty one between rows.
    fn stacked(&self, width: u16) -> String {
        let mut table = plain();
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                table.add_row(["", ""]);
            }
            let values = self.columns.iter().zip(row).filter(|(_, value)| !value.is_empty());
            values.for_each(|(name, value)| _ = table.add_row([name, value]));
        }
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
        format!("{table}\n")
    }

    fn is_id(&self, column: usize) -> bool {
        let is = |name: &String| name == "id" || name.ends_with(".id");
        let name = self.columns.get(column);
        // What has no other id goes by its uuid.
        name.is_some_and(|name| is(name) || (name == "uuid" && !self.columns.iter().any(is)))
    }

    /// The lines of all cells of a column, its name first.
    fn lines_of(&self, column: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().filter_map(move |row| row.get(column));
        self.columns.get(column).into_iter().chain(cells).flat_map(|cell| cell.lines())
    }

    /// Columns of the terminal that a column needs when nothing in it is wrapped.
    fn most_of(&self, column: usize) -> usize {
        self.lines_of(column).map(|line| line.chars().count()).max().unwrap_or_default()
    }

    /// Columns of the terminal that a column needs at least: for the longest word, or for as much of it as is legible.
    fn least_of(&self, column: usize) -> usize {
        if self.is_id(column) {
            return self.most_of(column);
        }
        let words = self.lines_of(column).flat_map(str::split_whitespace).map(|word| word.chars().count());
        words.max().unwrap_or_default().min(LEGIBLE)
    }

    fn widest(&self) -> usize {
        self.around((0..self.columns.len()).map(|column| self.most_of(column)).sum())
    }

    fn least(&self) -> usize {
        self.around((0..self.columns.len()).map(|column| self.least_of(column)).sum())
    }

    /// With padding, gaps and borders.
    fn around(&self, cells: usize) -> usize {
        cells + self.columns.len() * (usize::from(PADDING) + 1) + 1
    }

    fn without_empty_columns(&self) -> Self {
        let full = |column: &usize| self.rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<usize> = (0..self.columns.len()).filter(full).collect();
        let pick = |cells: &Vec<String>| kept.iter().filter_map(|column| cells.get(*column).cloned()).collect();
        Self { columns: pick(&self.columns), rows: self.rows.iter().map(pick).collect() }
    }

    /// With lines around it, as wide as it gets.
    pub(crate) fn unbounded(&self) -> String {
        let mut table = self.table();
        table.set_content_arrangement(ContentArrangement::Disabled);
        format!("{table}\n")
    }

    fn table(&self) -> Table {
        let mut table = plain();
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

/// Columns of a terminal at least.
const NARROWEST: u16 = 20;

/// Blanks beside the text of a cell.
const PADDING: u16 = 2;

/// So much of a word can be read before it goes on in the next line.
const LEGIBLE: usize = 10;

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table
}

/// Names in a cell at most.
const NAMES: usize = 6;

/// Lists as the names of what is in them, nothing for null, and the rest as it is.
fn pretty(value: Option<&Value>) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else { return String::new() };
    // Lists of Pipefy come as JSON text too.
    let unpacked = value.as_str().filter(|text| text.starts_with('[')).and_then(|text| serde_json::from_str(text).ok());
    let value: &Value = unpacked.as_ref().unwrap_or(value);
    let Value::Array(items) = value else { return cell(Some(value)) };
    let name = |item: &Value| match item {
        Value::Object(map) => {
            let keys = ["name", "title", "label", "email", "id", "uuid"];
            keys.iter().find_map(|key| map.get(*key).filter(|name| !name.is_null() && !name.is_object()).cloned())
        }
        Value::Array(_) => None,
        scalar => Some(scalar.clone()),
    };
    let Some(names) = items.iter().map(name).collect::<Option<Vec<Value>>>() else { return cell(Some(value)) };
    let mut text = names.iter().take(NAMES).map(|name| cell(Some(name))).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES {
        text.push_str(&format!(", and {} more", names.len() - NAMES));
    }
    text
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
    fn people_see_names_in_cells() {
        let seven: Vec<Value> = (1..=7).map(|n| json!({"id": n})).collect();
        for (value, text) in [
            (json!([{"id": 1, "name": "New"}, {"id": 2, "title": "Old"}]), "New, Old"),
            (json!(["a", 2, true]), "a, 2, true"),
            (json!("[\"Bug\",\"VIP\"]"), "Bug, VIP"),
            (json!("[on hold] x"), "[on hold] x"),
            (json!(seven), "1, 2, 3, 4, 5, 6, and 1 more"),
            (json!([]), ""),
            (Value::Null, ""),
            (json!([[1]]), "[[1]]"),
            (json!([{"a": 1}]), "[{\"a\":1}]"),
            (json!({"a": 1}), "{\"a\":1}"),
        ] {
            assert_eq!(pretty(Some(&value)), text, "{value}");
        }
        let one = Grid::of_one(&json!({"id": "1", "labels": [{"name": "x"}]})).unwrap();
        assert_eq!(one.tabbed(), "key\tvalue\nid\t1\nlabels\tx\n");
    }

    /// Wide characters take two columns, combining ones none.
    #[test]
    fn lines_end_in_one_column_whatever_the_script() {
        let items = [
            json!({"a": "S\u{e3}o Paulo"}),
            json!({"a": "\u{4f5c}\u{696d}\u{4e2d}"}),
            json!({"a": "\u{1f389} ok"}),
            json!({"a": "e\u{301}"}),
        ];
        let drawn = Grid::pretty(&items).unwrap().drawn(Some(40));
        let width = |line: &str| -> usize {
            line.chars()
                .map(|c| match c as u32 {
                    0x300..=0x36f => 0,
                    0x1100..=0x115f | 0x2e80..=0xffef | 0x1f300..=0x1faff => 2,
                    _ => 1,
                })
                .sum()
        };
        let widths: Vec<usize> = drawn.lines().map(width).collect();
        assert!(widths.iter().all(|one| *one == widths[0]), "{widths:?}\n{drawn}");
    }

    /// What does not fit loses empty columns first, then becomes lines of its own; no word is torn before that.
    #[test]
    fn what_does_not_fit_is_shown_otherwise() {
        let row = |id: &str| json!({"id": id, "membersCount": 12, "nothing": null, "uuid": "db0d2db5-5b82-49b9-95dc-07ee22b59c79", "name": "Aurora Labs"});
        let grid = Grid::pretty(&[row("300516702"), row("300516709")]).unwrap();
        let drawn = |width: u16| grid.drawn(Some(width));
        assert!(drawn(100).contains("nothing") && drawn(100).lines().count() == 6, "{}", drawn(100));
        assert!(!drawn(70).contains("nothing") && drawn(70).contains("membersCount"), "{}", drawn(70));
        let stacked = drawn(45);
        assert!(stacked.lines().all(|line| line.chars().count() <= 45), "{stacked}");
        for whole in ["| membersCount   12 ", "| id             300516709 ", "| name           Aurora Labs "] {
            assert!(stacked.contains(whole), "{stacked}");
        }
        assert!([0, u16::MAX].into_iter().all(|odd| drawn(odd).contains("300516702")));
        assert!([1, 19, 20].into_iter().all(|narrow| drawn(narrow).lines().all(|line| line.chars().count() <= 20)));
    }

    #[test]
    fn a_drawn_table_is_as_wide_as_asked() {
        let grid = Grid::of(&[json!({"id": "1", "title": "a long title that does not fit into the line"})]).unwrap();
        let drawn = grid.drawn(Some(30));
        assert!(drawn.lines().all(|line| line.chars().count() <= 30), "{drawn}");
    }
}
