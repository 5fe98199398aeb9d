//! Small pieces that several capabilities use.

use pipefy::Data;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Outcome, Page, ToolError, dig};

/// The object of a value without its null keys.
pub(crate) fn no_nulls(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => Map::new(),
    }
}

/// A listing's outcome; `pagination` only when a page size was asked for.
pub(crate) fn listing(data: Data, root: &str, first: Option<i64>, message: &str) -> Outcome {
    let page = first.map(|_| {
        let value = data.value();
        Page::from_page_info(value.get(root).and_then(|c| c.get("pageInfo")), first)
    });
    Outcome::new(data).message(message).page(page)
}

/// Text of a value: text as it is, numbers in digits.
pub(crate) fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Text that holds a JSON object, list or null is read as such, for arguments that take any value; other text stays text.
pub(crate) fn unpacked(value: Value) -> Value {
    let Value::String(text) = &value else { return value };
    match serde_json::from_str::<Value>(text) {
        Ok(parsed @ (Value::Object(_) | Value::Array(_) | Value::Null)) => parsed,
        _ => value,
    }
}

/// Trimmed text; `None` when nothing is left.
pub(crate) fn non_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Trimmed text that must not be blank.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the argument.
pub(crate) fn required_text<'t>(argument: &str, text: &'t str) -> Result<&'t str, ToolError> {
    non_blank(Some(text)).ok_or_else(|| ToolError::invalid(format!("`{argument}` must not be blank.")))
}

/// The list at a dotted path; missing or null is empty.
pub(crate) fn list_at<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    dig(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Ids of fields and values that were not sent.
pub(crate) fn strings(list: &[String]) -> Value {
    list.iter().map(|text| Value::from(text.as_str())).collect()
}
