//! The pattern language of the recorded cases.
//!
//! `"*"` any non-blank text; `"$any"` anything; `"$token"` a confirmation token; `"$not:x"` anything but x;
//! `{"$one_of": [..]}`; `{"$json_text": p}` a text holding JSON; `"key?"` may be absent; `"..."` opens an object or
//! makes a list of any length. Texts may hold `$now`, `$uuid<n>`, `$code_verifier` and `$code_challenge`; a numbered
//! uuid is the same one wherever it appears. Numbers and the same numbers as text are equal.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values that placeholders took so far.
pub(crate) type Bindings = BTreeMap<String, String>;

/// How absence is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// A null is a value.
    Strict,
    /// A null equals an absent key, and a text of JSON any text of the same JSON: arguments of a request.
    Null,
}

/// Every place where `value` does not fit `pattern`, as `path: expected .., got ..`.
pub(crate) fn mismatches(pattern: &Value, value: &Value, absence: Absence, bindings: &mut Bindings) -> Vec<String> {
    let mut found = Vec::new();
    compare("$", pattern, value, absence, bindings, &mut found);
    found
}

/// Whether `value` fits; placeholders are bound only when it does.
pub(crate) fn fits(pattern: &Value, value: &Value, absence: Absence, bindings: &mut Bindings) -> bool {
    let mut trial = bindings.clone();
    let fits = mismatches(pattern, value, absence, &mut trial).is_empty();
    if fits {
        *bindings = trial;
    }
    fits
}

fn compare(
    path: &str,
    pattern: &Value,
    value: &Value,
    absence: Absence,
    bindings: &mut Bindings,
    found: &mut Vec<String>,
) {
    let mut wrong = |expected: &str| found.push(format!("{path}: expected {expected}, got {}", short(value)));
    match pattern {
        Value::String(text) => match text.as_str() {
            "$any" => {}
            "*" => {
                if value.as_str().is_none_or(|text| text.trim().is_empty()) {
                    wrong("non-blank text");
                }
            }
            "$token" => match value.as_str() {
                Some(token) if !token.trim().is_empty() => {
                    bindings.insert("token".to_owned(), token.to_owned());
                }
                _ => wrong("a confirmation token"),
            },
            _ => {
                if let Some(other) = text.strip_prefix("$not:") {
                    if value.as_str() == Some(other) {
                        wrong(&format!("anything but {other:?}"));
                    }
                } else if let Some(template) = Template::of(text) {
                    if !value.as_str().is_some_and(|value| template.fits(value, bindings)) {
                        wrong(&format!("text like {text:?}"));
                    }
                } else if !(same_scalar(pattern, value) || absence == Absence::Null && same_json_text(text, value)) {
                    wrong(&short(pattern));
                }
            }
        },
        Value::Array(items) => {
            let Some(values) = value.as_array() else {
                return wrong("a list");
            };
            if items.first().and_then(Value::as_str) == Some("...") {
                let Some(each) = items.get(1) else { return };
                for (index, item) in values.iter().enumerate() {
                    compare(&format!("{path}[{index}]"), each, item, absence, bindings, found);
                }
            } else if items.len() != values.len() {
                wrong(&format!("{} items: {}", items.len(), short(pattern)));
            } else {
                for (index, (item, value)) in items.iter().zip(values).enumerate() {
                    compare(&format!("{path}[{index}]"), item, value, absence, bindings, found);
                }
            }
        }
        Value::Object(keys) => {
            if let Some(choices) = keys.get("$one_of").and_then(Value::as_array) {
                if !choices.iter().any(|choice| fits(choice, value, absence, bindings)) {
                    wrong(&format!("one of {}", short(pattern)));
                }
                return;
            }
            if let Some(inner) = keys.get("$json_text") {
                match value.as_str().map(serde_json::from_str::<Value>) {
                    Some(Ok(parsed)) => compare(&format!("{path}<json>"), inner, &parsed, absence, bindings, found),
                    _ => wrong("a text that holds JSON"),
                }
                return;
            }
            let Some(values) = value.as_object() else {
                return wrong(&short(pattern));
            };
            for (key, expected) in keys {
                if key == "..." {
                    continue;
                }
                let (name, optional) = match key.strip_suffix('?') {
                    Some(name) => (name, true),
                    None => (key.as_str(), false),
                };
                let below = format!("{path}.{name}");
                match values.get(name) {
                    Some(value) => {
                        let nulls = absence == Absence::Null && expected.is_null() && value.is_null();
                        if !nulls {
                            compare(&below, expected, value, absence, bindings, found);
                        }
                    }
                    None if optional || absence == Absence::Null && expected.is_null() => {}
                    None => found.push(format!("{below}: expected {}, absent", short(expected))),
                }
            }
            for (key, value) in values {
                if keys.contains_key(key) || keys.contains_key(&format!("{key}?")) {
                    continue;
                }
                let below = format!("{path}.{key}");
                match keys.get("...") {
                    Some(rest) => compare(&below, rest, value, absence, bindings, found),
                    None if absence == Absence::Null && value.is_null() => {}
                    None => found.push(format!("{below}: not expected, got {}", short(value))),
                }
            }
        }
        _ => {
            if !same_scalar(pattern, value) {
                wrong(&short(pattern));
            }
        }
    }
}

/// Equality of two scalars where a number equals the same number as text.
fn same_scalar(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_))
        | (Value::Number(_), Value::String(_))
        | (Value::String(_), Value::Number(_)) => match (number(left), number(right)) {
            (Some(left), Some(right)) => left == right,
            _ => false,
        },
        _ => left == right,
    }
}

/// Two texts that hold the same JSON object: the order of keys in a text was not recorded.
fn same_json_text(text: &str, value: &Value) -> bool {
    let object = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    match (object(text), value.as_str().and_then(object)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// A number as integer where it is one, so that long ids keep every digit.
#[derive(PartialEq)]
enum Number {
    Whole(i128),
    Real(f64),
}

fn number(value: &Value) -> Option<Number> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    if let Ok(whole) = text.parse::<i128>() {
        return Some(Number::Whole(whole));
    }
    let real: f64 = text.parse().ok().filter(|real: &f64| real.is_finite())?;
    if real.fract() == 0.0 && real.abs() < 1e15 { Some(Number::Whole(real as i128)) } else { Some(Number::Real(real)) }
}

/// A text with placeholders in it.
struct Template<'a> {
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Literal(&'a str),
    Hole(&'a str),
}

const HOLES: [&str; 4] = ["$uuid", "$now", "$code_verifier", "$code_challenge"];

impl<'a> Template<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((at, name)) =
            HOLES.iter().filter_map(|hole| rest.find(hole).map(|at| (at, *hole))).min_by_key(|(at, _)| *at)
        {
            let mut end = at + name.len();
            while rest.as_bytes().get(end).is_some_and(u8::is_ascii_digit) {
                end += 1;
            }
            if at > 0 {
                parts.push(Part::Literal(&rest[..at]));
            }
            parts.push(Part::Hole(&rest[at..end]));
            rest = &rest[end..];
        }
        if parts.is_empty() {
            return None;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest));
        }
        Some(Self { parts })
    }

    fn fits(&self, value: &str, bindings: &mut Bindings) -> bool {
        let mut trial = bindings.clone();
        let mut rest = value;
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Literal(text) => match rest.strip_prefix(text) {
                    Some(after) => rest = after,
                    None => return false,
                },
                Part::Hole(name) => {
                    let end = match self.parts.get(index + 1) {
                        _ if name.starts_with("$uuid") => 36,
                        Some(Part::Literal(next)) => match rest.find(next) {
                            Some(at) => at,
                            None => return false,
                        },
                        _ => rest.len(),
                    };
                    let Some(text) = rest.get(..end) else {
                        return false;
                    };
                    if !hole_fits(name, text) {
                        return false;
                    }
                    if name.ends_with(|last: char| last.is_ascii_digit()) {
                        let bound = trial.entry((*name).to_owned()).or_insert_with(|| text.to_owned());
                        if bound != text {
                            return false;
                        }
                    }
                    rest = &rest[end..];
                }
            }
        }
        if rest.is_empty() {
            *bindings = trial;
        }
        rest.is_empty()
    }
}

fn hole_fits(name: &str, text: &str) -> bool {
    let url_safe = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    if name.starts_with("$uuid") {
        return text.len() == 36
            && text.char_indices().all(|(at, character)| match at {
                8 | 13 | 18 | 23 => character == '-',
                _ => character.is_ascii_hexdigit(),
            });
    }
    match name {
        "$now" => text.parse::<jiff::Timestamp>().is_ok(),
        "$code_challenge" => text.len() == 43 && url_safe(text),
        _ => (43..=128).contains(&text.len()) && url_safe(text),
    }
}

/// Compact JSON, cut at a readable length.
pub(crate) fn short(value: &Value) -> String {
    cut(&value.to_string(), 240)
}

/// At most `most` characters of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strict(pattern: Value, value: Value) -> bool {
        fits(&pattern, &value, Absence::Strict, &mut Bindings::new())
    }

    fn lenient(pattern: Value, value: Value) -> bool {
        fits(&pattern, &value, Absence::Null, &mut Bindings::new())
    }

    #[test]
    fn words_of_the_language() {
        assert!(strict(json!("*"), json!("x")));
        assert!(!strict(json!("*"), json!(" ")));
        assert!(!strict(json!("*"), json!(1)));
        assert!(strict(json!("$any"), json!(null)));
        assert!(strict(json!("$not:A"), json!("B")));
        assert!(!strict(json!("$not:A"), json!("A")));
        assert!(strict(json!({"$one_of": [1, 2]}), json!(2)));
        assert!(!strict(json!({"$one_of": [1, 2]}), json!(3)));
        assert!(strict(json!({"$json_text": {"a": 1}}), json!("{\"a\": 1}")));
        assert!(!strict(json!({"$json_text": {"a": 1}}), json!("{\"a\": 2}")));
        assert!(!strict(json!({"$json_text": {"a": 1}}), json!({"a": 1})));
    }

    #[test]
    fn objects_are_closed_unless_opened() {
        assert!(strict(json!({"a?": 1}), json!({})));
        assert!(!strict(json!({"a?": 1}), json!({"a": 2})));
        assert!(!strict(json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(strict(json!({"a": 1, "...": "$any"}), json!({"a": 1, "b": 2})));
        assert!(!strict(json!({"a": null}), json!({})));
    }

    #[test]
    fn lists() {
        assert!(!strict(json!([1]), json!([1, 2])));
        assert!(strict(json!(["...", "*"]), json!([])));
        assert!(strict(json!(["...", "*"]), json!(["a", "b"])));
        assert!(!strict(json!(["...", "*"]), json!(["a", 1])));
    }

    #[test]
    fn numbers_equal_their_text() {
        assert!(strict(json!(5), json!("5")));
        assert!(strict(json!("5"), json!(5)));
        assert!(strict(json!(5.0), json!(5)));
        assert!(strict(json!(9007199254740993_i64), json!("9007199254740993")));
        assert!(!strict(json!(9007199254740993_i64), json!("9007199254740992")));
        assert!(!strict(json!(true), json!("true")));
        assert!(!strict(json!("005"), json!("5")));
    }

    #[test]
    fn a_null_argument_equals_an_absent_one() {
        assert!(lenient(json!({"a": null}), json!({})));
        assert!(lenient(json!({"a": {}}), json!({"a": {"b": null}, "c": null})));
        assert!(lenient(json!({"x": 1}), json!({"x": 1, "y": null})));
        assert!(lenient(json!("{\"a\":1,\"b\":2}"), json!("{\"b\":2,\"a\":1}")));
        assert!(!lenient(json!("{\"a\":1}"), json!("{\"a\":2}")));
        assert!(!lenient(json!({"x": 1}), json!({"x": null})));
    }

    #[test]
    fn placeholders_in_text() {
        let one = "33333333-4444-4555-8666-777777777777";
        let two = "44444444-4444-4555-8666-777777777777";
        assert!(strict(json!(["$uuid1", "x %{action:$uuid1}"]), json!([one, format!("x %{{action:{one}}}")])));
        assert!(!strict(json!(["$uuid1", "x %{action:$uuid1}"]), json!([one, format!("x %{{action:{two}}}")])));
        assert!(strict(json!("$now"), json!("2026-01-01T00:00:00.123Z")));
        assert!(!strict(json!("$now"), json!("yesterday")));
    }
}
