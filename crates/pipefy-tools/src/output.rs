//! The precise schema of each tool's result: what `describe_tool` and the documentation give. Too long for `tools/list`, where
//! every byte is paid for in each conversation.
//!
//! What a success holds is in `outputs.jsonl`, one line a tool: its keys and types, at every depth, as the plays of the
//! server's test matrix show them. Those tests hold every result against it. Any value that comes from Pipefy may be null
//! and any key be left out by `fields`; an object lists all of its keys, or is open where Pipefy or the user names them.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::listing;
use crate::op::{Class, Op, Shape};

static SUCCESSES: LazyLock<HashMap<String, Value>> = LazyLock::new(|| {
    include_str!("outputs.jsonl")
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|row| Some((row.get("tool")?.as_str()?.to_owned(), row.get("result")?.clone())))
        .collect()
});

/// The JSON schema (2020-12) of what a tool gives as structured content. `unified`: as `PIPEFY_MCP_UNIFIED_ENVELOPE` is set.
pub(crate) fn schema(op: &Op, unified: bool) -> Value {
    let mut cases = vec![success(op, unified), failure()];
    if op.confirms {
        cases.push(preview());
    }
    if op.class != Class::Read {
        cases.push(dry_run());
    }
    cases.push(rest());
    json!({ "type": "object", "anyOf": cases })
}

/// What is known of a success in the unified envelope; anything where nothing is.
pub(crate) fn known(tool: &str) -> Option<&'static Value> {
    SUCCESSES.get(tool)
}

fn success(op: &Op, unified: bool) -> Value {
    let Some(known) = known(op.name) else { return json!({ "title": "success", "type": "object" }) };
    let mut properties = known.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.values_mut().for_each(open_where_nothing_was_seen);
    if op.class == Class::Read {
        formed(op.shape, &mut properties);
    }
    if !unified {
        properties = flattened(op.shape, properties);
    }
    if properties.contains_key("success") {
        properties.insert("success".to_owned(), json!({ "const": true }));
    }
    for (name, schema) in [
        ("complete", json!({ "type": "boolean" })),
        ("returned", json!({ "type": "integer" })),
        ("total", json!({ "type": ["integer", "null"] })),
        ("next_cursor", json!({ "type": "string" })),
        ("stopped", json!({ "type": "string" })),
        ("message", json!({ "type": "string" })),
        ("scope", json!({ "type": "object" })),
        ("untrusted", json!({ "type": "object" })),
        ("truncated", truncated()),
    ] {
        properties.entry(name).or_insert(schema);
    }
    if op.class != Class::Read {
        properties.entry("idempotency").or_insert(json!({
            "type": "object",
            "properties": { "replayed": { "const": true }, "first_call": { "type": "string" } },
            "required": ["replayed", "first_call"],
        }));
        // What was seen in plays is only a part of what reading back can say.
        let verification = json!({
            "type": "object",
            "properties": { "verified": { "type": ["boolean", "null"] }, "note": { "type": "string" } },
            "required": ["verified", "note"],
        });
        properties.insert("verification".to_owned(), verification);
    }
    let open = known.get("additionalProperties").is_none();
    let mut schema = json!({ "title": "success", "type": "object", "properties": properties });
    if let (Value::Object(map), false) = (&mut schema, open) {
        map.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// What was only ever seen as null may be anything.
fn open_where_nothing_was_seen(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.get("type") == Some(&json!(["null"])) {
        map.clear();
        return;
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(open_where_nothing_was_seen);
    }
    map.get_mut("items").into_iter().for_each(open_where_nothing_was_seen);
}

/// Lists that `format` may put into another form take these as well: `{columns, rows}` and CSV text.
fn formed(shape: Shape, properties: &mut Map<String, Value>) {
    let key = match shape {
        Shape::Raw | Shape::Flat => None,
        Shape::Result => Some("result"),
        _ => Some("data"),
    };
    match key {
        None => properties.values_mut().for_each(|property| form_lists(property, 1)),
        Some(key) => properties.get_mut(key).into_iter().for_each(|body| form_lists(body, 0)),
    }
}

fn form_lists(schema: &mut Value, depth: usize) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::Array(types)) = map.get_mut("type")
        && types.iter().any(|kind| kind == "array")
    {
        types.extend(["object".into(), "string".into()]);
        let list = json!({ "type": "array" });
        map.insert("properties".to_owned(), json!({ "columns": list, "rows": list }));
        map.insert("required".to_owned(), json!(["columns", "rows"]));
    } else if depth < listing::DEEPEST
        && let Some(Value::Object(properties)) = map.get_mut("properties")
    {
        properties.values_mut().for_each(|property| form_lists(property, depth + 1));
    }
}

/// The same facts without the unified envelope (`spec/mcp-server.md` section 11).
fn flattened(shape: Shape, mut properties: Map<String, Value>) -> Map<String, Value> {
    let inside = |data: Option<Value>| match data.as_ref().and_then(|data| data.get("properties")) {
        Some(Value::Object(inside)) => inside.clone(),
        _ => Map::new(),
    };
    match shape {
        Shape::EnvelopeOrFlat => {
            properties.shift_remove("pagination");
            let data = properties.shift_remove("data");
            properties.extend(inside(data));
            properties
        }
        Shape::EnvelopeOrRaw => {
            let data = properties.shift_remove("data");
            for gone in ["success", "message", "pagination"] {
                properties.shift_remove(gone);
            }
            properties.extend(inside(data));
            properties
        }
        Shape::EnvelopeOrResult => {
            properties.shift_remove("pagination");
            if let Some(data) = properties.shift_remove("data") {
                properties.insert("result".to_owned(), data);
            }
            properties
        }
        _ => properties,
    }
}

fn failure() -> Value {
    json!({
        "title": "failure",
        "type": "object",
        "properties": {
            "success": { "const": false },
            "error": {
                "type": "object",
                "properties": {
                    "message": { "type": "string", "minLength": 1 },
                    "code": { "type": "string" },
                    "details": { "type": "object" },
                },
                "required": ["message"],
                "additionalProperties": false,
            },
        },
        "required": ["success", "error"],
    })
}

fn preview() -> Value {
    json!({
        "title": "preview",
        "type": "object",
        "properties": {
            "success": { "const": false },
            "requires_confirmation": { "const": true },
            "resource": { "type": "string" },
            "confirmation_token": { "type": "string" },
            "message": { "type": "string" },
            "dependents": { "type": "object" },
        },
        "required": ["success", "requires_confirmation", "confirmation_token", "message"],
    })
}

fn dry_run() -> Value {
    json!({
        "title": "dry run",
        "type": "object",
        "properties": {
            "success": { "const": true },
            "dry_run": { "const": true },
            "message": { "type": "string" },
            "steps": { "type": "array", "items": { "type": "object" } },
            "before": true,
            "needs_confirmation": { "const": true },
            "resource": { "type": "string" },
        },
        "required": ["success", "dry_run", "message", "steps"],
    })
}

fn rest() -> Value {
    json!({
        "title": "rest of a truncated result",
        "type": "object",
        "properties": {
            "success": { "const": true },
            "rest": {
                "type": "object",
                "properties": {
                    "path": { "type": "string" },
                    "from": { "type": "integer" },
                    "total": { "type": "integer" },
                    "items": { "type": "array" },
                    "text": { "type": "string" },
                    "keys": { "type": "object" },
                },
                "required": ["path", "from", "total"],
                "additionalProperties": false,
            },
            "truncated": truncated(),
        },
        "required": ["success", "rest"],
        "additionalProperties": false,
    })
}

fn truncated() -> Value {
    json!({
        "type": "object",
        "properties": {
            "limit_bytes": { "type": "integer" },
            "dropped": { "type": "array", "items": { "type": "object" } },
            "next": { "type": "object" },
        },
        "required": ["dropped", "next"],
    })
}
