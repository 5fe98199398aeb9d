//! The filter of reports, checked before anything is sent: Pipefy answers a wrong one with an error that explains nothing
//! (field report B10; rules in `spec/tools-data-portals.md`, "ReportCardsFilter preflight").

use serde_json::{Map, Value};

use crate::ToolError;

const SHAPE: &str = r#"Expected {"operator": "and", "queries": [{"field": "current_phase", "operator": "eq", "type": "select", "value": "123"}], "groups": [more of the same]}; `get_pipe_report_filterable_fields` lists the field names."#;

const MISPLACED: [&str; 5] = ["current_phase", "current_phase_id", "phase_id", "phase_ids", "phases_ids"];
const GROUP_KEYS: [&str; 5] = ["groups", "id", "lastId", "operator", "queries"];
const QUERY_KEYS: [&str; 6] = ["field", "id", "label", "operator", "type", "value"];
const JOINS: [&str; 2] = ["and", "or"];
const OPERATORS: [&str; 12] =
    ["contains", "eq", "exists", "gt", "gte", "lt", "lte", "not_contains", "not_eq", "not_exists", "period", "unknown"];
const TYPES: [&str; 7] = ["boolean", "date", "email", "group_select", "number", "select", "string"];

/// The filter as it is sent: whole numbers as text, everything else as it was.
///
/// # Errors
/// `INVALID_ARGUMENTS` with the first problem, where it is, and the expected shape.
pub(super) fn checked(filter: Option<Map<String, Value>>) -> Result<Option<Value>, ToolError> {
    let Some(mut filter) = filter else { return Ok(None) };
    spell_numbers(&mut filter);
    root(&filter).map_err(|problem| ToolError::invalid(format!("{problem}. {SHAPE}")))?;
    Ok(Some(Value::Object(filter)))
}

fn spell_numbers(group: &mut Map<String, Value>) {
    if let Some(Value::Array(queries)) = group.get_mut("queries") {
        for value in queries.iter_mut().filter_map(|query| query.get_mut("value")) {
            if let Some(number) = value.as_number().filter(|n| n.is_i64() || n.is_u64()) {
                *value = number.to_string().into();
            }
        }
    }
    if let Some(Value::Array(groups)) = group.get_mut("groups") {
        groups.iter_mut().filter_map(Value::as_object_mut).for_each(spell_numbers);
    }
}

fn root(filter: &Map<String, Value>) -> Result<(), String> {
    if let Some(key) = MISPLACED.iter().find(|key| filter.contains_key(**key)) {
        return Err(format!("filter: '{key}' is not a top-level key; use `operator` and `queries`"));
    }
    group(filter, "filter")
}

fn group(group: &Map<String, Value>, path: &str) -> Result<(), String> {
    known_keys(group, &GROUP_KEYS, path)?;
    one_of(group.get("operator"), &JOINS, &format!("{path}.operator"), "operator")?;
    for (index, query) in list(group, "queries", path)?.iter().enumerate() {
        check_query(query, &format!("{path}.queries[{index}]"))?;
    }
    for (index, inner) in list(group, "groups", path)?.iter().enumerate() {
        let path = format!("{path}.groups[{index}]");
        match inner {
            Value::Object(inner) => self::group(inner, &path)?,
            _ => return Err(format!("{path}: groups[{index}] must be an object")),
        }
    }
    Ok(())
}

fn check_query(query: &Value, path: &str) -> Result<(), String> {
    let Value::Object(query) = query else { return Err(format!("{path} must be an object")) };
    known_keys(query, &QUERY_KEYS, path)?;
    match query.get("field") {
        None | Some(Value::Null) => return Err(format!("{path}.field: field is required")),
        Some(Value::String(field)) if !field.trim().is_empty() => {}
        Some(_) => return Err(format!("{path}.field: field must be a non-empty string")),
    }
    one_of(query.get("operator"), &OPERATORS, &format!("{path}.operator"), "operator")?;
    if !matches!(query.get("value"), None | Some(Value::Null | Value::String(_))) {
        return Err(format!("{path}.value: value must be a string"));
    }
    match query.get("type") {
        None | Some(Value::Null) => Ok(()),
        given => one_of(given, &TYPES, &format!("{path}.type"), "type"),
    }
}

fn known_keys(object: &Map<String, Value>, known: &[&str], path: &str) -> Result<(), String> {
    let mut unknown: Vec<&str> = object.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    Err(format!("{path}: unknown key(s) {}; allowed: {}", unknown.join(", "), known.join(", ")))
}

fn one_of(given: Option<&Value>, allowed: &[&str], path: &str, name: &str) -> Result<(), String> {
    match given {
        None | Some(Value::Null) => Err(format!("{path}: {name} is required")),
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(format!("{path}: {name} must be a non-empty string"))
        }
        Some(Value::String(text)) if allowed.contains(&text.as_str()) => Ok(()),
        Some(Value::String(text)) => Err(format!("{path}: {name} must be one of {}, not '{text}'", allowed.join(", "))),
        Some(_) => Err(format!("{path}: {name} must be a non-empty string")),
    }
}

fn list<'m>(object: &'m Map<String, Value>, key: &str, path: &str) -> Result<&'m [Value], String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{path}.{key}: {key} must be a list")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn check(filter: Value) -> Result<Option<Value>, ToolError> {
        checked(filter.as_object().cloned())
    }

    #[test]
    fn whole_numbers_become_text_at_any_depth_and_nothing_else_changes() {
        let query = |value: Value| json!({"field": "f", "operator": "eq", "label": 5, "value": value});
        let filter = |value: Value| {
            json!({"operator": "and", "queries": [query(value.clone())],
            "groups": [{"operator": "or", "queries": [query(value)], "groups": null}]})
        };
        let sent = check(filter(json!(9_007_199_254_740_993u64))).unwrap().unwrap();
        assert_eq!(sent, filter(json!("9007199254740993")));
        assert_eq!(check(json!({"operator": "or"})).unwrap().unwrap(), json!({"operator": "or"}));
        assert!(checked(None).unwrap().is_none());
    }

    #[test]
    fn the_first_problem_is_named_with_its_place_and_the_expected_shape() {
        let query = |query: Value| json!({"operator": "and", "queries": [query]});
        for (filter, words) in [
            (json!({"current_phase": 1}), "not a top-level key"),
            (json!({}), "filter.operator: operator is required"),
            (json!({"operator": "AND"}), "operator must be one of and, or"),
            (json!({"operator": 1}), "operator must be a non-empty string"),
            (json!({"operator": "and", "b": 1, "a": 1}), "unknown key(s) a, b"),
            (json!({"operator": "and", "queries": {}}), "queries must be a list"),
            (json!({"operator": "and", "groups": {}}), "groups must be a list"),
            (json!({"operator": "and", "groups": [1]}), "groups[0] must be an object"),
            (
                json!({"operator": "and", "groups": [{"operator": "and", "phase_id": 1}]}),
                "filter.groups[0]: unknown key(s) phase_id",
            ),
            (query(json!(1)), "filter.queries[0] must be an object"),
            (query(json!({"operator": "eq"})), "field is required"),
            (query(json!({"field": " ", "operator": "eq"})), "field must be a non-empty string"),
            (query(json!({"field": "f"})), "operator is required"),
            (query(json!({"field": "f", "operator": "is"})), "operator must be one of"),
            (query(json!({"field": "f", "operator": "eq", "value": 1.5})), "value must be a string"),
            (query(json!({"field": "f", "operator": "eq", "value": true})), "value must be a string"),
            (query(json!({"field": "f", "operator": "eq", "type": " "})), "type must be a non-empty string"),
            (query(json!({"field": "f", "operator": "eq", "type": "x"})), "type must be one of"),
        ] {
            let error = check(filter.clone()).unwrap_err();
            assert!(error.message.contains(words), "{filter}: {}", error.message);
            assert!(error.message.contains("Expected {\"operator\": \"and\""), "{}", error.message);
            assert_eq!(error.code.as_deref(), Some("INVALID_ARGUMENTS"));
        }
    }
}
