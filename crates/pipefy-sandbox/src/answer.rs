//! Answers to the HTTP requests of rules: what a rule's `responseSchema` (JSON Schema: `type`, `properties`, `required`,
//! `items`) declares of one can be written by the rules that wait for it, as `%{response.PATH}`.

use serde_json::{Map, Value};

/// The schema of a rule, given as an object or as the text of one. `None` without one.
///
/// # Errors
/// What is wrong with it, in words that follow its name.
pub(crate) fn schema(rule: &Value) -> Option<Result<Value, &'static str>> {
    const WRONG: &str = "must be a JSON Schema object";
    let schema = match rule.get("responseSchema")? {
        Value::Null => return None,
        Value::String(text) if text.trim().is_empty() => return None,
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    Some(if schema.is_object() { Ok(schema) } else { Err(WRONG) })
}

/// What the schema declares of an answer's body.
///
/// # Errors
/// The body is no JSON, or does not fit; in words.
pub(crate) fn read(schema: &Value, body: &str) -> Result<Value, String> {
    let value = serde_json::from_str(body).map_err(|_| "The answer is not JSON, as responseSchema asks".to_owned())?;
    fit(schema, value, "").map_err(|why| format!("The answer does not fit responseSchema: {why}"))
}

fn fit(schema: &Value, value: Value, place: &str) -> Result<Value, String> {
    let allowed = schema.get("type").map(crate::json::texts).unwrap_or_default();
    if !allowed.is_empty() && !allowed.iter().any(|name| is(&value, name)) {
        let place = if place.is_empty() { "the whole" } else { place };
        return Err(format!("{place} is no {}", allowed.join(" or ")));
    }
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match value {
        Value::Object(mut map) => {
            for key in schema.get("required").map(crate::json::texts).unwrap_or_default() {
                if !map.contains_key(&key) {
                    return Err(format!("{} is missing", below(&key)));
                }
            }
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return Ok(Value::Object(map));
            };
            let mut kept = Map::new();
            for (key, schema) in properties {
                if let Some(value) = map.remove(key) {
                    kept.insert(key.clone(), fit(schema, value, &below(key))?);
                }
            }
            Ok(kept.into())
        }
        Value::Array(list) => {
            let Some(items) = schema.get("items") else { return Ok(Value::Array(list)) };
            let fitted = list.into_iter().enumerate().map(|(i, value)| fit(items, value, &below(&i.to_string())));
            fitted.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        other => Ok(other),
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// The value at `response.PATH` as text, steps separated by dots, lists by number; `None` when the token names none.
pub(crate) fn at(answer: &Value, token: &str) -> Option<String> {
    let path = token.strip_prefix("response.")?;
    let found = path.split('.').try_fold(answer, |value, step| match value {
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })?;
    Some(match found {
        Value::Null => String::new(),
        value => crate::json::scalar(value).unwrap_or_else(|| value.to_string()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_declared_is_kept_and_found() {
        let schema = json!({ "type": "object", "required": ["desk"], "properties": {
            "desk": { "type": "string" }, "rooms": { "type": "array", "items": { "properties": { "no": { "type": "integer" } } } } } });
        let body = r#"{"desk": "4º B", "rooms": [{"no": 7, "key": "x"}], "secret": 1}"#;
        let answer = read(&schema, body).unwrap();
        assert_eq!(answer, json!({ "desk": "4º B", "rooms": [{ "no": 7 }] }));
        for (token, value) in [
            ("response.desk", Some("4º B")),
            ("response.rooms.0.no", Some("7")),
            ("response.rooms", Some("[{\"no\":7}]")),
            ("response.rooms.1.no", None),
            ("response.secret", None),
            ("desk", None),
        ] {
            assert_eq!(at(&answer, token).as_deref(), value, "{token}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = json!({ "type": "object", "required": ["desk"], "properties": {
            "desk": { "type": ["string", "null"] }, "rooms": { "type": "array", "items": { "type": "number" } } } });
        for (body, why) in [
            ("", "not JSON"),
            ("[]", "the whole is no object"),
            ("{}", "desk is missing"),
            (r#"{"desk": 5}"#, "desk is no string or null"),
            (r#"{"desk": null, "rooms": [1, "x"]}"#, "rooms.1 is no number"),
        ] {
            let error = read(&schema, body).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(super::schema(&json!({ "responseSchema": [1] })).unwrap().is_err());
        assert!(super::schema(&json!({ "responseSchema": "no" })).unwrap().is_err());
        assert!(super::schema(&json!({ "responseSchema": "{}" })).unwrap().is_ok());
        assert!(super::schema(&json!({ "responseSchema": null })).is_none());
    }
}
