//! Results as MCP shows them: the operation's shape, the failure envelope, the result budget.

use serde_json::{Map, Value, json};

use crate::call::Toolbox;
use crate::error::ToolError;
use crate::op::{Op, Shape};
use crate::outcome::{Body, Outcome};

/// A finished MCP result.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The payload object.
    pub payload: Payload,
    /// Whether it is a failure envelope.
    pub failed: bool,
}

/// The payload: passed through as it came, or built.
#[derive(Clone, Debug)]
pub enum Payload {
    /// JSON text as Pipefy gave it.
    Data(pipefy::Data),
    /// Built by us.
    Value(Value),
}

impl Payload {
    /// Compact JSON text.
    pub fn text(&self) -> String {
        match self {
            Self::Data(data) => compact(data.text()),
            Self::Value(value) => value.to_string(),
        }
    }

    /// The parsed object.
    pub fn value(&self) -> Value {
        match self {
            Self::Data(data) => data.value(),
            Self::Value(value) => value.clone(),
        }
    }
}

/// Dresses a result. `limit` is the result budget in bytes of text, 0 for none; `arguments` are those of the call, to say
/// how to get the rest.
pub fn render(
    op: &Op,
    toolbox: &Toolbox,
    result: Result<Outcome, ToolError>,
    arguments: &Map<String, Value>,
    limit: usize,
) -> Reply {
    let (payload, failed) = match result {
        Ok(outcome) => (dress(op.shape, toolbox.unified_envelope, outcome), false),
        Err(error) => (Payload::Value(error.envelope()), true),
    };
    Reply { payload: fit(op, payload, arguments, limit), failed }
}

fn dress(shape: Shape, unified: bool, outcome: Outcome) -> Payload {
    let Outcome { body, message, page, extra, whole, parsed } = outcome;
    if whole {
        let mut value = body.into_value();
        if let Value::Object(map) = &mut value {
            map.extend(extra);
        }
        return Payload::Value(value);
    }
    let raw = shape == Shape::Raw || (shape == Shape::EnvelopeOrRaw && !unified);
    if raw {
        return match body {
            Body::Data(data) if extra.is_empty() => Payload::Data(data),
            body => {
                let mut value = body.into_value();
                if let Value::Object(map) = &mut value {
                    map.extend(extra);
                }
                Payload::Value(value)
            }
        };
    }
    let mut out = Map::new();
    out.insert("success".to_owned(), true.into());
    let flat = shape == Shape::Flat || (shape == Shape::EnvelopeOrFlat && !unified);
    match shape {
        Shape::Text => {
            let value = body.into_value();
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            out.insert("result".to_owned(), text.into());
            if parsed {
                out.insert("data".to_owned(), value);
            }
            out.extend(extra);
            return Payload::Value(out.into());
        }
        Shape::Result | Shape::EnvelopeOrResult if shape == Shape::Result || !unified => {
            out.extend(message.map(|m| ("message".to_owned(), m.into())));
            out.insert("result".to_owned(), body.into_value());
        }
        _ if flat => {
            out.extend(message.map(|m| ("message".to_owned(), m.into())));
            if let Value::Object(map) = body.into_value() {
                out.extend(map);
            }
        }
        _ => {
            let value = body.into_value();
            if !value.is_null() {
                out.insert("data".to_owned(), value);
            }
            out.extend(message.map(|m| ("message".to_owned(), m.into())));
            out.extend(page.map(|p| ("pagination".to_owned(), p.block())));
        }
    }
    out.extend(extra);
    Payload::Value(out.into())
}

/// JSON text without white space between tokens; numbers and strings stay as they are, digit for digit.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Outside strings only ASCII white space is dropped; strings are copied whole.
    while let Some(quote) = rest.find('"') {
        let (before, string) = rest.split_at(quote);
        push_without_space(&mut out, before);
        let end = end_of_string(string);
        let (string, after) = string.split_at(end);
        out.push_str(string);
        rest = after;
    }
    push_without_space(&mut out, rest);
    out
}

fn push_without_space(out: &mut String, text: &str) {
    if text.bytes().any(|b| b.is_ascii_whitespace()) {
        out.extend(text.chars().filter(|c| !c.is_ascii_whitespace()));
    } else {
        out.push_str(text);
    }
}

/// Length of the string literal that `text` starts with.
fn end_of_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut escaped = false;
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    bytes.len()
}

/// Room kept for the note about what was cut.
const NOTE: usize = 1_500;

/// Cuts a payload to `limit` bytes of text: valid JSON, with what was dropped and how to get it.
fn fit(op: &Op, payload: Payload, arguments: &Map<String, Value>, limit: usize) -> Payload {
    let small = match &payload {
        Payload::Data(data) => data.len() <= limit,
        Payload::Value(_) => false,
    };
    if limit == 0 || small || payload.text().len() <= limit {
        return payload;
    }
    let mut value = payload.value();
    let target = limit.saturating_sub(NOTE).max(limit / 2);
    let mut cuts = Vec::new();
    for _ in 0..64 {
        let size = size_of(&value);
        if size <= target {
            break;
        }
        let Some(cut) = cut_largest(&mut value, size - target) else {
            break;
        };
        cuts.push(cut);
    }
    let listing = op.paging.is_some();
    let kept = cuts.iter().find_map(|cut| cut.get("kept").and_then(Value::as_u64)).filter(|kept| *kept > 0);
    let next = if let (true, Some(kept)) = (listing, kept) {
        let mut next = arguments.clone();
        next.remove("all");
        next.remove("max_items");
        next.insert("first".to_owned(), kept.into());
        forget_cursor(&mut value);
        json!({"tool": op.name, "arguments": next, "then": "go on with `after` = the end cursor of that answer"})
    } else if op.selects.is_some() {
        json!({"tool": op.name, "arguments": arguments, "then": "add `fields` with only what you need"})
    } else {
        json!({"tool": op.name, "then": "ask for less (narrower filters or fewer items)"})
    };
    if let Value::Object(map) = &mut value {
        map.insert("truncated".to_owned(), json!({ "limit_bytes": limit, "dropped": cuts, "next": next }));
    }
    Payload::Value(value)
}

fn size_of(value: &Value) -> usize {
    value.to_string().len()
}

/// After a cut, a cursor past the dropped items would lose them.
fn forget_cursor(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "endCursor" | "end_cursor" | "next_cursor" => *value = Value::Null,
                    "hasNextPage" | "has_more" => *value = Value::Bool(true),
                    "complete" => *value = Value::Bool(false),
                    _ => forget_cursor(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(forget_cursor),
        _ => {}
    }
}

/// Shortens the array or text that takes the most room, and says what was dropped.
fn cut_largest(value: &mut Value, excess: usize) -> Option<Value> {
    let mut path = Vec::new();
    let path = largest(value, &mut path)?;
    let shown = path.iter().map(|s| s.trim_matches('"').to_owned()).collect::<Vec<_>>().join(".");
    let mut place = value;
    for step in &path {
        place = match place {
            Value::Object(map) => map.get_mut(step)?,
            Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    match place {
        Value::Array(list) => {
            let total = list.len();
            let mut freed = 0;
            let mut kept = total;
            while kept > 0 && freed < excess {
                kept -= 1;
                freed += list.get(kept).map_or(0, size_of) + 1;
            }
            list.truncate(kept);
            Some(json!({ "path": shown, "kept": kept, "total": total }))
        }
        Value::String(text) => {
            let total = text.chars().count();
            let keep = text.len().saturating_sub(excess + 16).max(64);
            let end = text.char_indices().map(|(i, _)| i).take_while(|i| *i <= keep).last().unwrap_or(0);
            text.truncate(end);
            let kept = text.chars().count();
            Some(json!({ "path": shown, "kept_characters": kept, "total_characters": total }))
        }
        _ => None,
    }
}

/// The path to the array (of two or more items) or long text that takes the most room.
fn largest(value: &Value, path: &mut Vec<String>) -> Option<Vec<String>> {
    fn visit(value: &Value, path: &mut Vec<String>, best: &mut Option<(usize, Vec<String>)>) {
        let size = match value {
            Value::Array(list) if !list.is_empty() => Some(size_of(value)),
            Value::String(text) if text.len() > 200 => Some(text.len()),
            _ => None,
        };
        // An outer array wins over what is inside it, unless it has only one item.
        let single = matches!(value, Value::Array(list) if list.len() == 1);
        if let Some(size) = size
            && !single
            && best.as_ref().is_none_or(|(b, _)| size > *b)
        {
            *best = Some((size, path.clone()));
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    path.push(key.clone());
                    visit(value, path, best);
                    path.pop();
                }
            }
            Value::Array(list) if single => {
                for (index, value) in list.iter().enumerate() {
                    path.push(index.to_string());
                    visit(value, path, best);
                    path.pop();
                }
            }
            _ => {}
        }
    }
    let mut best = None;
    visit(value, path, &mut best);
    best.map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn compacting_changes_no_digit_and_no_string() {
        assert_eq!(
            compact("{ \"a b\" : [ 1.50 , 9007199254740993 ,\n \"x \\\" y\\\\\" ] }"),
            "{\"a b\":[1.50,9007199254740993,\"x \\\" y\\\\\"]}"
        );
        assert_eq!(compact("\"unfinished \\\""), "\"unfinished \\\"");
    }

    const LIST: Op = Op::read("list", crate::Domain::Workflow, Shape::Raw).paging("cards.edges", "cards.pageInfo", 50);

    fn arguments() -> Map<String, Value> {
        json!({"pipe_id": "1", "first": 50}).as_object().unwrap().clone()
    }

    #[test]
    fn a_listing_over_budget_says_what_is_missing_and_how_to_get_it() {
        let edges: Vec<Value> = (0..50).map(|i| json!({"node": {"id": i, "title": "x".repeat(100)}})).collect();
        let value = json!({"cards": {"edges": edges, "pageInfo": {"hasNextPage": false, "endCursor": "abc"}}});
        let Payload::Value(cut) = fit(&LIST, Payload::Value(value), &arguments(), 4_000) else { panic!() };
        assert!(cut.to_string().len() <= 4_000);
        let kept = cut["cards"]["edges"].as_array().unwrap().len();
        assert!(kept > 5);
        assert_eq!(cut["truncated"]["dropped"][0], json!({"path": "cards.edges", "kept": kept, "total": 50}));
        assert_eq!(cut["truncated"]["next"]["arguments"], json!({"pipe_id": "1", "first": kept}));
        assert_eq!(cut["cards"]["pageInfo"], json!({"hasNextPage": true, "endCursor": null}));
    }

    proptest! {
        #[test]
        fn compact_text_parses_to_the_same(text in "\\PC{0,40}", number in any::<i64>()) {
            let value = json!({"k": [text, number, null, {"x": true}]});
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), value.to_string());
        }

        #[test]
        fn over_budget_is_valid_and_within_budget(
            lists in prop::collection::vec(prop::collection::vec("\\PC{0,80}", 0..60), 1..8), limit in 3_000usize..20_000,
        ) {
            let value = json!({"data": lists, "more": {"text": "y".repeat(9_000)}});
            let before = value.to_string().len();
            let payload = fit(&LIST, Payload::Value(value), &arguments(), limit);
            let text = payload.text();
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            prop_assert!(text.len() <= limit.max(NOTE * 2), "{} > {limit}", text.len());
            prop_assert_eq!(before > limit, payload.value().get("truncated").is_some());
        }
    }
}
