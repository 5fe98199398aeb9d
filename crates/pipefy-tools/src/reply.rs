//! Results as MCP shows them: the operation's shape, the failure envelope, the result budget.

use serde_json::{Map, Value, json};

use crate::call::Toolbox;
use crate::error::ToolError;
use crate::fit::{self, Cut, Rest};
use crate::listing::{self, Format};
use crate::op::{Op, Shape};
use crate::outcome::{Body, Outcome};
use crate::trust;

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
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            // Nothing says that a call which failed fails in the same way again.
            let of = Whole { again: Again::Never(FAILED), marked: false };
            let (payload, _) = fit(op, Payload::Value(error.envelope()), arguments, limit, of);
            return Reply { payload, failed: true };
        }
    };
    // What was changed is not to be changed again for the sake of the rest; the gate refuses it too.
    let again = if outcome.wrote { Again::Never(CHANGED) } else { Again::Same };
    let marked = outcome.marked;
    let payload = dress(op, toolbox.unified_envelope, Format::read(arguments.get("format")), outcome);
    let (payload, failed) = fit(op, payload, arguments, limit, Whole { again, marked });
    Reply { payload, failed }
}

fn dress(op: &Op, unified: bool, format: Format, outcome: Outcome) -> Payload {
    let shape = op.shape;
    let Outcome { body, message, page, extra, whole, parsed, .. } = outcome;
    let body = if whole { body } else { listing::shape(op, body, format) };
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
const NOTE: usize = 600;
/// Arguments longer than this are not repeated in the note.
const ARGUMENTS: usize = 1_000;

/// What is said where the same call does not give the rest.
const CHANGED: &str = "the change was made; do not repeat it. Read what is missing with a tool that reads.";
const FAILED: &str = "the call failed; what is left out names more of the same. Correct what is named first.";

/// Whether the same call gives the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// It does.
    Same,
    /// It must not be made for that; this is said instead.
    Never(&'static str),
}

/// What a result may have that is cut.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// How the rest is had.
    again: Again,
    /// Text of outsiders in it is marked.
    marked: bool,
}

/// Cuts a payload to `limit` bytes of text, and to the part that the call asks for: valid JSON, with what was dropped and the
/// call that gives it.
fn fit(op: &Op, payload: Payload, arguments: &Map<String, Value>, limit: usize, of: Whole) -> (Payload, bool) {
    let again = of.again;
    let rest = arguments.get("rest").and_then(wanted_rest).filter(|_| again == Again::Same);
    let small = match &payload {
        Payload::Data(data) => data.len() <= limit,
        Payload::Value(_) => false,
    };
    if rest.is_none() && (limit == 0 || small || payload.text().len() <= limit) {
        return (payload, false);
    }
    let whole = payload.value();
    let mut room = if limit == 0 { usize::MAX } else { limit.saturating_sub(NOTE).max(limit / 2) };
    let mut shown = Value::Null;
    // What is said about the cuts needs room too; how much is known only afterwards.
    for _ in 0..8 {
        let (value, cuts) = match &rest {
            None => fit::within(whole.clone(), room),
            Some(rest) => match rest.of(&whole, room) {
                Some((part, cuts)) => (json!({ "success": true, "rest": part }), cuts),
                None => return (Payload::Value(gone(rest).envelope()), true),
            },
        };
        shown = value;
        if of.marked {
            trust::mend(&mut shown, &whole, rest.as_ref());
        }
        if let (Value::Object(map), Some(first)) = (&mut shown, cuts.first()) {
            if let Some(complete) = map.get_mut("complete") {
                *complete = false.into();
            }
            map.insert("truncated".to_owned(), note(op, arguments, limit, &cuts, first, again));
        }
        let size = fit::size(&shown);
        if limit == 0 || size <= limit {
            break;
        }
        room = room.saturating_sub(size - limit).max(limit / 4);
    }
    (Payload::Value(shown), false)
}

/// The option may come as JSON text.
fn wanted_rest(option: &Value) -> Option<Rest> {
    match option {
        Value::String(text) => Rest::read(&serde_json::from_str(text).ok()?),
        option => Rest::read(option),
    }
}

fn gone(rest: &Rest) -> ToolError {
    ToolError::invalid(format!(
        "rest: the result has nothing at {} from {} on. It may have changed; make the call again without rest.",
        rest.path, rest.from
    ))
}

fn note(op: &Op, arguments: &Map<String, Value>, limit: usize, cuts: &[Cut], first: &Cut, again: Again) -> Value {
    let dropped: Vec<Value> = cuts.iter().map(Cut::shown).collect();
    if let Again::Never(then) = again {
        return json!({ "limit_bytes": limit, "dropped": dropped, "next": { "then": then } });
    }
    let mut arguments = if fit::size(&json!(arguments)) <= ARGUMENTS { arguments.clone() } else { Map::new() };
    let partly = arguments.is_empty();
    arguments.insert("rest".to_owned(), json!({ "path": first.path, "from": first.kept }));
    let mut then = if partly { "with the other arguments of this call".to_owned() } else { String::new() };
    if cuts.len() > 1 {
        then.push_str(if partly { "; " } else { "" });
        then.push_str("for each of `dropped`: rest = {path, from: its kept}");
    }
    let mut next = json!({ "tool": op.name, "arguments": arguments });
    if let (Value::Object(next), false) = (&mut next, then.is_empty()) {
        next.insert("then".to_owned(), then.into());
    }
    json!({ "limit_bytes": limit, "dropped": dropped, "next": next })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::fit::tests::{any_value, put_together};
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

    fn cut(value: Value, arguments: &Map<String, Value>, limit: usize) -> Value {
        fit(&LIST, Payload::Value(value), arguments, limit, Whole { again: Again::Same, marked: false }).0.value()
    }

    #[test]
    fn a_listing_over_budget_says_what_is_missing_and_how_to_get_it() {
        let edges: Vec<Value> = (0..50).map(|i| json!({"node": {"id": i, "title": "x".repeat(100)}})).collect();
        let value = json!({"cards": {"edges": edges, "pageInfo": {"hasNextPage": false, "endCursor": "abc"}}});
        let first = cut(value.clone(), &arguments(), 4_000);
        assert!(first.to_string().len() <= 4_000);
        let kept = first["cards"]["edges"].as_array().unwrap().len();
        assert!(kept > 20, "{kept}");
        assert_eq!(first["truncated"]["dropped"][0], json!({"path": "/cards/edges", "kept": kept, "total": 50}));
        let next = first["truncated"]["next"]["arguments"].as_object().unwrap();
        assert_eq!(
            Value::Object(next.clone()),
            json!({"pipe_id": "1", "first": 50, "rest": {"path": "/cards/edges", "from": kept}})
        );
        assert_eq!(first["cards"]["pageInfo"], value["cards"]["pageInfo"]);
        let second = cut(value.clone(), next, 8_000);
        assert_eq!(second["rest"]["items"].as_array().unwrap().len(), 50 - kept);
        assert!(second.get("truncated").is_none());
        let nowhere = json!({"rest": {"path": "/no", "from": 0}});
        assert_eq!(cut(value, nowhere.as_object().unwrap(), 0)["error"]["code"], "INVALID_ARGUMENTS");
    }

    #[test]
    fn a_change_is_never_repeated_for_its_rest() {
        let value = json!({"success": true, "text": "x".repeat(9_000)});
        let (payload, _) = fit(
            &LIST,
            Payload::Value(value),
            &arguments(),
            3_000,
            Whole { again: Again::Never(CHANGED), marked: false },
        );
        let next = &payload.value()["truncated"]["next"];
        assert!(next.get("arguments").is_none() && next["then"].as_str().unwrap().contains("do not repeat"), "{next}");
    }

    /// What was only planned or shown can be had again; a failure is cut too, and says so.
    #[test]
    fn plans_previews_and_failures_have_a_budget_too() {
        let write = Op::write("write", crate::Domain::Workflow, Shape::Result);
        let toolbox = crate::tools::testing::Mock::new().toolbox;
        let long = json!({"success": true, "dry_run": true, "steps": [{"document": "x".repeat(9_000)}]});
        let long = long.as_object().unwrap().clone();
        let dry = json!({"text": "x", "dry_run": true});
        let dry = dry.as_object().unwrap();
        let shown = render(&write, &toolbox, Ok(Outcome::whole(long.clone())), dry, 3_000).payload.value();
        assert!(shown.to_string().len() <= 3_000);
        let next = &shown["truncated"]["next"];
        assert_eq!((&next["tool"], &next["arguments"]["dry_run"]), (&json!("write"), &json!(true)), "{shown}");
        let rest =
            render(&write, &toolbox, Ok(Outcome::whole(long.clone())), next["arguments"].as_object().unwrap(), 20_000);
        let part = rest.payload.value()["rest"]["text"].as_str().unwrap().len();
        assert_eq!(part + shown["steps"][0]["document"].as_str().unwrap().len(), 9_000);

        let mut done = Outcome::whole(long);
        done.wrote = true;
        let shown = render(&write, &toolbox, Ok(done), dry, 3_000).payload.value();
        assert!(shown["truncated"]["next"]["then"].as_str().unwrap().contains("do not repeat"), "{shown}");

        let errors: Vec<String> = (0..900).map(|i| format!("problem {i}")).collect();
        let failure = ToolError::invalid("m".repeat(5_000)).detail("errors", errors);
        let reply = render(&LIST, &toolbox, Err(failure), &arguments(), 3_000);
        let (failed, shown) = (reply.failed, reply.payload.value());
        assert!(failed && shown.to_string().len() <= 3_000, "{}", shown.to_string().len());
        assert_eq!((&shown["success"], &shown["error"]["code"]), (&json!(false), &json!("INVALID_ARGUMENTS")));
        assert!(shown["truncated"]["next"]["then"].as_str().unwrap().contains("failed"), "{shown}");
    }

    proptest! {
        #[test]
        fn compact_text_parses_to_the_same(text in "\\PC{0,40}", number in any::<i64>()) {
            let value = json!({"k": [text, number, null, {"x": true}]});
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), value.to_string());
        }

        /// What a caller has who follows `truncated` to its end is the whole; every part is within the budget.
        #[test]
        fn parts_of_results_put_together_are_the_whole(data in any_value(), limit in 3_000usize..6_000) {
            let whole = json!({"success": true, "data": data, "list": vec!["y".repeat(500); 12]});
            let cuts = |shown: &Value| -> Vec<Cut> {
                let dropped = shown["truncated"]["dropped"].as_array().into_iter().flatten();
                let place = |cut: &Value, key: &str| usize::try_from(cut[key].as_u64().unwrap()).unwrap();
                dropped.map(|cut| Cut {
                    path: cut["path"].as_str().unwrap().to_owned(), kept: place(cut, "kept"), total: place(cut, "total"),
                }).collect()
            };
            let mut largest = 0;
            let mut ask = |arguments: &Map<String, Value>| {
                let shown = cut(whole.clone(), arguments, limit);
                largest = largest.max(shown.to_string().len());
                shown
            };
            let mut first = ask(&arguments());
            prop_assert!(first.to_string().len() == whole.to_string().len() || first.get("truncated").is_some());
            let open = cuts(&first);
            first.as_object_mut().unwrap().shift_remove("truncated");
            let again = put_together(first, open, &mut |rest| {
                let mut arguments = arguments();
                arguments.insert("rest".to_owned(), json!({"path": rest.path, "from": rest.from}));
                let shown = ask(&arguments);
                (shown["rest"].clone(), cuts(&shown))
            });
            prop_assert_eq!(again, whole);
            prop_assert!(largest <= limit, "{} > {}", largest, limit);
        }
    }
}
