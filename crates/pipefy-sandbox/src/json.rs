//! Small readers for JSON bodies, and the links that stand for entities inside answers.

use serde_json::{Value, json};

/// The text under a key, `""` when it is missing or no text.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The flag under a key, false when missing.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// A scalar as text: text as it is, numbers and booleans printed, everything else `None`.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The texts of a list (or of a single scalar); nested lists are flattened.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => scalar(other).into_iter().collect(),
    }
}

/// The texts of the list under a key.
pub(crate) fn texts_at(value: &Value, key: &str) -> Vec<String> {
    value.get(key).map(texts).unwrap_or_default()
}

/// Stands for an entity; loaded only when a selection asks for it, null when it is gone.
pub(crate) fn link(kind: &str, id: &str) -> Value {
    if id.is_empty() { Value::Null } else { json!({ "$kind": kind, "$id": id }) }
}

/// Links to several entities of one kind.
pub(crate) fn links<S: AsRef<str>>(kind: &str, ids: impl IntoIterator<Item = S>) -> Value {
    Value::Array(ids.into_iter().map(|id| link(kind, id.as_ref())).collect())
}

/// Sets a key of an object body.
pub(crate) fn set(value: &mut Value, key: &str, new: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), new.into());
    }
}

/// Copies the keys that the input has (also explicit nulls) into a body.
pub(crate) fn copy(into: &mut Value, from: &Value, keys: &[&str]) {
    for key in keys {
        if let Some(value) = from.get(*key) {
            set(into, key, value.clone());
        }
    }
}

/// `createdAt` -> `created_at`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `created_at` -> `createdAt`.
pub(crate) fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else {
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    out
}
