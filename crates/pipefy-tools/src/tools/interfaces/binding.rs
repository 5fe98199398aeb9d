//! Data sources of an HTML interface: at most ten, each a repo with the fields that are shown
//! (`spec/tools-data-portals.md`, "Interface data sources").

use serde_json::{Map, Value, json};

use crate::ToolError;
use crate::tools::portals::json_text;

const MOST: usize = 10;
const MOST_KEYS: usize = 30;
/// Keys a source may hold. The last two are shown by reads and dropped, so that a source can be given back as it was read.
const KNOWN: [&str; 9] =
    ["id", "name", "repoId", "repo_id", "fieldKeys", "field_keys", "filters", "repoName", "repoType"];

/// One checked source.
pub(super) struct Binding {
    id: String,
    name: String,
    repo_id: String,
    field_keys: Vec<String>,
    filters: Option<Map<String, Value>>,
}

impl Binding {
    /// As it is sent: filters as JSON text.
    pub(super) fn wire(&self) -> Value {
        let mut wire =
            json!({ "id": self.id, "name": self.name, "repoId": self.repo_id, "fieldKeys": self.field_keys });
        if let (Some(filters), Value::Object(wire)) = (&self.filters, &mut wire) {
            wire.insert("filters".to_owned(), json_text(filters));
        }
        wire
    }

    /// As it is shown.
    pub(super) fn shown(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "repoId": self.repo_id, "fieldKeys": self.field_keys,
            "filters": self.filters,
        })
    }
}

/// Checks the sources.
///
/// # Errors
/// `INVALID_ARGUMENTS` with one clause for each problem.
pub(super) fn checked(sources: Vec<Map<String, Value>>) -> Result<Vec<Binding>, ToolError> {
    let mut problems = Vec::new();
    if sources.len() > MOST {
        problems.push(format!("data_sources: at most {MOST} sources"));
    }
    let mut bindings = Vec::new();
    for (index, source) in sources.into_iter().enumerate() {
        let before = problems.len();
        let binding = one(source, &format!("data_sources[{index}]"), &mut problems);
        if problems.len() == before {
            bindings.push(binding);
        }
    }
    for (attribute, pick) in [("id", (|b| &b.id) as fn(&Binding) -> &String), ("name", |b| &b.name)] {
        let mut values: Vec<&str> = bindings.iter().map(|binding| pick(binding).as_str()).collect();
        values.sort_unstable();
        let mut repeated: Vec<&str> = values
            .windows(2)
            .filter_map(|pair| (pair.first() == pair.last()).then(|| pair.first().copied())?)
            .collect();
        repeated.dedup();
        if !repeated.is_empty() {
            problems.push(format!("data_sources: {attribute} must be unique; repeated: {}", repeated.join(", ")));
        }
    }
    if problems.is_empty() { Ok(bindings) } else { Err(ToolError::invalid(problems.join("; "))) }
}

fn one(mut source: Map<String, Value>, path: &str, problems: &mut Vec<String>) -> Binding {
    let mut unknown: Vec<&str> = source.keys().map(String::as_str).filter(|key| !KNOWN.contains(key)).collect();
    unknown.sort_unstable();
    for key in unknown {
        problems.push(format!("{path}.{key}: is not a known key"));
    }
    let text = |keys: [&str; 2], problems: &mut Vec<String>| {
        let value = keys.iter().find_map(|key| source.get(*key));
        match value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => {
                let reason = if value.is_none() { "is required" } else { "must be a non-blank text" };
                problems.push(format!("{path}.{}: {reason}", keys[0]));
                String::new()
            }
        }
    };
    let (id, name, repo_id) =
        (text(["id", "id"], problems), text(["name", "name"], problems), text(["repoId", "repo_id"], problems));
    let keys = source.remove("fieldKeys").or_else(|| source.remove("field_keys"));
    Binding {
        id,
        name,
        repo_id,
        field_keys: field_keys(keys, path, problems),
        filters: filters(source.remove("filters"), path, problems),
    }
}

fn field_keys(keys: Option<Value>, path: &str, problems: &mut Vec<String>) -> Vec<String> {
    let list = match keys {
        Some(Value::Array(list)) => list,
        None => {
            problems.push(format!("{path}.fieldKeys: is required"));
            return Vec::new();
        }
        Some(_) => {
            problems.push(format!("{path}.fieldKeys: must be a list"));
            return Vec::new();
        }
    };
    if list.is_empty() || list.len() > MOST_KEYS {
        problems.push(format!("{path}.fieldKeys: must hold 1 to {MOST_KEYS} field keys"));
    }
    let checked: Vec<String> =
        list.iter().filter_map(Value::as_str).map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect();
    if checked.len() != list.len() {
        problems.push(format!("{path}.fieldKeys: every key must be a non-blank text"));
    }
    checked
}

fn filters(filters: Option<Value>, path: &str, problems: &mut Vec<String>) -> Option<Map<String, Value>> {
    let given = match filters {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::Bool(false)),
        other => other.unwrap_or_default(),
    };
    match given {
        Value::Null => None,
        Value::Object(map) => Some(map),
        _ => {
            problems.push(format!("{path}.filters: must be an object or its JSON text"));
            None
        }
    }
}
