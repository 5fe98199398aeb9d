//! The grid of a page: rows, each listing the elements it shows. Kept by the API as one JSON text.

use serde_json::{Map, Value};

use crate::ToolError;

/// Checked rows, keys in the order `id`, `type`, `children`, then further ones.
pub(super) struct Layout(Vec<Value>);

impl Layout {
    /// Checks rows; an empty list is an empty page.
    ///
    /// # Errors
    /// `INVALID_ARGUMENTS` naming the row.
    pub(super) fn checked(rows: Vec<Map<String, Value>>) -> Result<Self, ToolError> {
        rows.into_iter().enumerate().map(|(index, row)| checked_row(row, index)).collect::<Result<_, _>>().map(Self)
    }

    /// The JSON text that is sent.
    pub(super) fn text(&self) -> Value {
        serde_json::to_string(&self.0).unwrap_or_default().into()
    }

    /// The rows, to digest.
    pub(super) fn value(&self) -> Value {
        Value::Array(self.0.clone())
    }

    /// How many rows, in words.
    pub(super) fn rows(&self) -> String {
        if self.0.len() == 1 { "1 row".to_owned() } else { format!("{} rows", self.0.len()) }
    }

    /// The first row that lists an element.
    pub(super) fn row_with(&self, element: &str) -> Option<usize> {
        self.0.iter().position(|row| {
            row.get("children").and_then(Value::as_array).is_some_and(|list| list.iter().any(|child| child == element))
        })
    }
}

fn checked_row(mut row: Map<String, Value>, index: usize) -> Result<Value, ToolError> {
    let text = |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(Value::from);
    let id = row.get("id").and_then(text);
    let is_row = row.get("type").and_then(Value::as_str) == Some("row");
    let children = row
        .get("children")
        .and_then(Value::as_array)
        .and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>());
    let (Some(id), true, Some(children)) = (id, is_row, children) else {
        return Err(ToolError::invalid(format!(
            "layout[{index}] needs a non-blank `id`, `type` \"row\" and `children`, a list of element ids; it is {}.",
            Value::Object(row)
        )));
    };
    let mut checked = Map::new();
    checked.insert("id".to_owned(), id);
    checked.insert("type".to_owned(), "row".into());
    checked.insert("children".to_owned(), children.into());
    row.retain(|key, _| !checked.contains_key(key));
    checked.extend(row);
    Ok(checked.into())
}
