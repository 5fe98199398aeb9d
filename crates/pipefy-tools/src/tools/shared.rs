//! Small pieces that several capabilities use.

use pipefy::Data;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Outcome, Page};

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
