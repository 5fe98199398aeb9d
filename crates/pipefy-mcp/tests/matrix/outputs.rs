//! Schemas of results: learned from what plays show, and held against every result.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use pipefy_tools::{Catalogue, Tool};
use serde_json::{Map, Value, json};

/// An object with more keys than this, or with keys that are no names, is a map: its keys are data.
const KEYS: usize = 60;

/// Where the successes are written down.
fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../pipefy-tools/src/outputs.jsonl")
}

/// What is written down, and what was learned since.
static KNOWN: LazyLock<Mutex<BTreeMap<String, Value>>> = LazyLock::new(|| {
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let rows = std::fs::read_to_string(page()).unwrap_or_default();
    Mutex::new(
        rows.lines().map(read).map(|row| (row["tool"].as_str().unwrap().to_owned(), row["result"].clone())).collect(),
    )
});

static SCHEMAS: LazyLock<BTreeMap<&'static str, Value>> =
    LazyLock::new(|| Catalogue::new().tools().iter().map(|tool| (tool.name(), tool.result_schema(true))).collect());

fn learning() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// What is wrong with a result; `None` when it fits the schema of its tool. `plain`: of a call without options, of which something
/// can be learned.
pub(crate) fn misfit(tool: &Tool, result: &Value, plain: bool) -> Option<String> {
    if learning() {
        if plain {
            learn(tool.name(), result);
        }
        return None;
    }
    let schema = &SCHEMAS[tool.name()];
    let mut misfits = Vec::new();
    check(schema, result, "", &mut misfits);
    if misfits.is_empty() {
        return None;
    }
    // Of the cases, the one that is meant says most.
    let mut misfits = Vec::new();
    check(&schema["anyOf"][usize::from(result["success"] == false)], result, "", &mut misfits);
    misfits.truncate(3);
    Some(misfits.join("; "))
}

/// The part of JSON Schema that results are described in.
fn check(schema: &Value, value: &Value, path: &str, misfits: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else { return };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "type" => {
                let types: Vec<&str> = match rule {
                    Value::String(one) => vec![one],
                    rule => rule.as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect(),
                };
                let fits = types.iter().any(|kind| match *kind {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("the type {other}"),
                });
                if !fits {
                    misfits.push(format!(
                        "{path} is no {}: {}",
                        types.join(" or "),
                        crate::pattern::cut(&value.to_string(), 80)
                    ));
                }
            }
            "const" if rule != value => misfits.push(format!("{path} is not {rule}")),
            "minLength" => {
                let short = value.as_str().is_some_and(|text| (text.chars().count() as u64) < rule.as_u64().unwrap());
                if short {
                    misfits.push(format!("{path} is too short"));
                }
            }
            "required" => {
                for key in rule.as_array().unwrap() {
                    if value.is_object() && value.get(key.as_str().unwrap()).is_none() {
                        misfits.push(format!("{path} lacks {key}"));
                    }
                }
            }
            "properties" => {
                for (key, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        check(schema, value, &format!("{path}/{key}"), misfits);
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(*rule, false);
                for key in value.as_object().into_iter().flat_map(Map::keys) {
                    if schema["properties"].get(key).is_none() {
                        misfits.push(format!("{path} has {key}, which is not described"));
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{path}/{index}"), misfits);
                }
            }
            "anyOf" => {
                let fits = rule.as_array().unwrap().iter().any(|case| {
                    let mut misfits = Vec::new();
                    check(case, value, path, &mut misfits);
                    misfits.is_empty()
                });
                if !fits {
                    misfits.push(format!("{path} fits no case"));
                }
            }
            "title" | "const" => {}
            other => panic!("the keyword {other} is not checked"),
        }
    }
}

/// Widens what is written down by a result.
fn learn(tool: &str, result: &Value) {
    if !is_success(result) {
        return;
    }
    let seen = infer(result);
    let mut known = KNOWN.lock().unwrap();
    let widened = known.get(tool).map_or_else(|| seen.clone(), |known| merge(known, &seen));
    known.insert(tool.to_owned(), widened);
}

/// With `UPDATE_DOCS`, writes down what was learned.
pub(crate) fn write() {
    if !learning() {
        return;
    }
    let known = KNOWN.lock().unwrap();
    let lines: Vec<String> =
        known.iter().map(|(tool, result)| json!({"tool": tool, "result": sorted(result)}).to_string()).collect();
    std::fs::write(page(), lines.join("\n") + "\n").unwrap();
}

fn is_success(result: &Value) -> bool {
    result.get("error").is_none()
        && result.get("dry_run").is_none()
        && result.get("requires_confirmation").is_none()
        && result.get("success").is_none_or(|success| *success == true)
}

fn infer(value: &Value) -> Value {
    match value {
        Value::Null => json!({"type": ["null"]}),
        Value::Bool(_) => json!({"type": ["boolean", "null"]}),
        Value::Number(number) if number.is_f64() => json!({"type": ["number", "null"]}),
        Value::Number(_) => json!({"type": ["integer", "null"]}),
        Value::String(_) => json!({"type": ["string", "null"]}),
        Value::Array(list) => {
            let items = list.iter().map(infer).reduce(|a, b| merge(&a, &b));
            let mut schema = json!({"type": ["array", "null"]});
            if let Some(items) = items {
                schema["items"] = items;
            }
            schema
        }
        Value::Object(map) if is_map(map) => json!({"type": ["object", "null"]}),
        Value::Object(map) => {
            let properties: Map<String, Value> = map.iter().map(|(key, value)| (key.clone(), infer(value))).collect();
            json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
        }
    }
}

fn is_map(map: &Map<String, Value>) -> bool {
    let name = |key: &String| {
        key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !key.starts_with(|c: char| c.is_ascii_digit())
    };
    map.is_empty() || map.len() > KEYS || !map.keys().all(name)
}

fn merge(a: &Value, b: &Value) -> Value {
    let types = |schema: &Value| -> Vec<String> {
        schema["type"].as_array().into_iter().flatten().map(|t| t.as_str().unwrap().to_owned()).collect()
    };
    let mut all = types(a);
    all.extend(types(b));
    all.sort();
    all.dedup();
    if all.contains(&"number".to_owned()) {
        all.retain(|t| t != "integer");
    }
    let mut merged = json!({"type": all});
    let object = |schema: &Value| types(schema).contains(&"object".to_owned());
    let open = |schema: &Value| object(schema) && schema.get("additionalProperties").is_none();
    // An empty object says nothing; one whose keys are data stays open.
    let properties: Vec<&Map<String, Value>> = [a, b].iter().filter_map(|s| s.get("properties")?.as_object()).collect();
    if !(properties.is_empty() || open(a) || open(b)) {
        let mut joined = Map::new();
        for (key, schema) in properties.into_iter().flatten() {
            let schema = joined.get(key).map_or_else(|| schema.clone(), |known| merge(known, schema));
            joined.insert(key.clone(), schema);
        }
        merged["properties"] = joined.into();
        merged["additionalProperties"] = false.into();
    }
    match (a.get("items"), b.get("items")) {
        (Some(a), Some(b)) => merged["items"] = merge(a, b),
        (Some(one), None) | (None, Some(one)) => merged["items"] = one.clone(),
        (None, None) => {}
    }
    merged
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
