//! The filter and sort keys of `get_records` (`spec/tools-pipes-cards.md`, "Record filter").

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ToolError;
use crate::tools::dates::is_reversed;

const ATTRIBUTES: [&str; 13] = [
    "ID",
    "INDEX",
    "TITLE",
    "CREATOR",
    "CREATOR_EMAIL",
    "DUE_DATE",
    "CREATED_AT",
    "UPDATED_AT",
    "FINISHED_AT",
    "CURRENT_PHASE",
    "LABELS",
    "ASSIGNEES",
    "EMAIL_READ",
];
const SCALARS: [&str; 10] = ["eq", "neq", "lt", "gt", "lte", "gte", "like", "nlike", "ilike", "nilike"];
const LISTS: [&str; 4] = ["contains", "ncontains", "in", "nin"];
const RANGES: [&str; 2] = ["between", "nbetween"];

/// A filter node. Its published schema describes one level; deeper levels are checked by [`checked_filter`].
#[derive(Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct RecordFilter(Map<String, Value>);

impl JsonSchema for RecordFilter {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "RecordFilter".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let scalar = json!({ "type": ["string", "number", "boolean", "null"] });
        let range = json!({
            "type": "object",
            "properties": { "min": scalar, "max": scalar },
            "required": ["min", "max"],
            "additionalProperties": false,
        });
        let nodes = json!({ "type": "array", "items": { "type": "object" } });
        let mut properties = Map::new();
        properties.insert("and".to_owned(), nodes.clone());
        properties.insert("or".to_owned(), nodes);
        properties.insert("attribute".to_owned(), json!({ "type": "string", "enum": ATTRIBUTES }));
        properties.insert("field".to_owned(), json!({ "type": "string" }));
        for name in SCALARS {
            properties.insert(name.to_owned(), scalar.clone());
        }
        for name in LISTS {
            properties.insert(name.to_owned(), json!({ "type": "array", "items": scalar }));
        }
        for name in RANGES {
            properties.insert(name.to_owned(), range.clone());
        }
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

/// One sort key.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordOrder {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "attribute")]
    attribute: Option<String>,
    /// Field uuid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "plain_text")]
    field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "direction")]
    direction: Option<String>,
}

fn attribute(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ATTRIBUTES })
}

fn plain_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

fn direction(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["ASC", "DESC"] })
}

/// The filter to send; an empty one is none.
///
/// # Errors
/// `INVALID_ARGUMENTS` with every problem, at any depth.
pub(crate) fn checked_filter(tool: &str, filter: Option<RecordFilter>) -> Result<Option<Value>, ToolError> {
    let Some(RecordFilter(filter)) = filter.filter(|filter| !filter.0.is_empty()) else { return Ok(None) };
    let filter = Value::Object(filter);
    let mut problems = Vec::new();
    node(&filter, &mut vec!["where".into()], &mut problems);
    if !problems.is_empty() {
        let clauses: Vec<String> = problems.iter().map(Problem::clause).collect();
        let errors: Vec<Value> = problems.iter().map(Problem::entry).collect();
        let message = format!("Tool '{tool}' received invalid arguments: {}", clauses.join("; "));
        return Err(ToolError::invalid(message).detail("errors", errors));
    }
    fields(&filter)?;
    Ok(Some(filter))
}

/// The sort keys to send.
///
/// # Errors
/// `INVALID_ARGUMENTS` for a field that is no uuid.
pub(crate) fn checked_order(order: Option<Vec<RecordOrder>>) -> Result<Option<Value>, ToolError> {
    let Some(order) = order else { return Ok(None) };
    let order = serde_json::to_value(order).unwrap_or_default();
    fields(&order)?;
    Ok(Some(order))
}

struct Problem {
    path: Vec<Value>,
    slug: &'static str,
    message: String,
}

impl Problem {
    fn clause(&self) -> String {
        let path: Vec<String> =
            self.path.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect();
        let path = path.join(".");
        match self.slug {
            "extra_forbidden" => format!("unknown argument '{path}'"),
            "missing" => format!("missing required argument '{path}'"),
            _ => format!("{path}: {}", self.message),
        }
    }

    fn entry(&self) -> Value {
        json!({ "path": self.path, "type": self.slug, "message": self.message })
    }
}

fn node(value: &Value, path: &mut Vec<Value>, problems: &mut Vec<Problem>) {
    let wrong = |problems: &mut Vec<Problem>, path: &[Value], slug: &'static str, message: &str| {
        problems.push(Problem { path: path.to_vec(), slug, message: message.to_owned() });
    };
    let Value::Object(map) = value else {
        wrong(problems, path, "dict_type", "must be an object");
        return;
    };
    for (name, value) in map {
        path.push(name.as_str().into());
        match name.as_str() {
            "and" | "or" => each(value, path, problems, &node),
            "attribute" if value.as_str().is_some_and(|a| ATTRIBUTES.contains(&a)) || value.is_null() => {}
            "attribute" => wrong(problems, path, "literal_error", &format!("must be one of {}", ATTRIBUTES.join(", "))),
            "field" if value.is_string() || value.is_null() => {}
            "field" => wrong(problems, path, "string_type", "must be text"),
            name if SCALARS.contains(&name) => scalar(value, path, problems),
            name if LISTS.contains(&name) => each(value, path, problems, &scalar),
            name if RANGES.contains(&name) => range(value, path, problems),
            _ => wrong(problems, path, "extra_forbidden", "is not a known argument"),
        }
        path.pop();
    }
}

type Check = dyn Fn(&Value, &mut Vec<Value>, &mut Vec<Problem>);

fn each(value: &Value, path: &mut Vec<Value>, problems: &mut Vec<Problem>, check: &Check) {
    let Value::Array(list) = value else {
        problems.push(Problem { path: path.clone(), slug: "list_type", message: "must be a list".to_owned() });
        return;
    };
    for (index, item) in list.iter().enumerate() {
        path.push(index.into());
        check(item, path, problems);
        path.pop();
    }
}

#[allow(clippy::ptr_arg, reason = "one signature for every check")]
fn scalar(value: &Value, path: &mut Vec<Value>, problems: &mut Vec<Problem>) {
    if value.is_object() || value.is_array() {
        let message = "must be text, a number, true, false or null".to_owned();
        problems.push(Problem { path: path.clone(), slug: "value_error", message });
    }
}

fn range(value: &Value, path: &mut Vec<Value>, problems: &mut Vec<Problem>) {
    let Value::Object(map) = value else {
        problems.push(Problem { path: path.clone(), slug: "dict_type", message: "must be an object".to_owned() });
        return;
    };
    for bound in ["min", "max"] {
        path.push(bound.into());
        match map.get(bound) {
            Some(value) => scalar(value, path, problems),
            None => problems.push(Problem { path: path.clone(), slug: "missing", message: "is required".to_owned() }),
        }
        path.pop();
    }
    if map.get("min").zip(map.get("max")).is_some_and(|(min, max)| is_upside_down(min, max)) {
        let message = "min must not be greater than max".to_owned();
        problems.push(Problem { path: path.clone(), slug: "value_error", message });
    }
    for name in map.keys().filter(|name| !matches!(name.as_str(), "min" | "max")) {
        path.push(name.as_str().into());
        let message = "is not a known argument".to_owned();
        problems.push(Problem { path: path.clone(), slug: "extra_forbidden", message });
        path.pop();
    }
}

/// Whether a range that finds nothing was surely not meant: numbers or dates in the wrong order. Other values are Pipefy's to
/// compare.
fn is_upside_down(min: &Value, max: &Value) -> bool {
    match (min, max) {
        (Value::Number(min), Value::Number(max)) => min.as_f64().zip(max.as_f64()).is_some_and(|(min, max)| min > max),
        (Value::String(min), Value::String(max)) => is_reversed(min.trim(), max.trim()),
        _ => false,
    }
}

/// Pipefy finds a field only by its uuid in one spelling: lower case with hyphens.
fn fields(value: &Value) -> Result<(), ToolError> {
    match value {
        Value::Object(map) => {
            if let Some(field) = map.get("field").and_then(Value::as_str)
                && !is_canonical_uuid(field)
            {
                let shown: String = field.chars().take(60).collect();
                return Err(ToolError::invalid(format!(
                    "`field` must be the lowercase uuid of a field (see `get_phase_fields`), not '{}'.",
                    shown.escape_default()
                )));
            }
            map.iter()
                .filter(|(name, _)| matches!(name.as_str(), "and" | "or"))
                .try_for_each(|(_, value)| fields(value))
        }
        Value::Array(list) => list.iter().try_for_each(fields),
        _ => Ok(()),
    }
}

fn is_canonical_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn check(filter: Value) -> Result<Option<Value>, ToolError> {
        checked_filter("get_records", Some(RecordFilter(filter.as_object().unwrap().clone())))
    }

    #[test]
    fn every_level_is_checked_and_every_problem_named() {
        let error = check(json!({
            "and": [{"attribute": "ID", "is": 1}, {"or": [{"in": [{}], "between": {"min": 1, "x": 2}}, 5]}], "attribute": "x"
        }))
        .unwrap_err();
        for clause in [
            "unknown argument 'where.and.0.is'",
            "where.and.1.or.0.in.0: must be text",
            "missing required argument 'where.and.1.or.0.between.max'",
            "unknown argument 'where.and.1.or.0.between.x'",
            "where.and.1.or.1: must be an object",
            "where.attribute: must be one of ID",
        ] {
            assert!(error.message.contains(clause), "{clause} / {}", error.message);
        }
        assert_eq!(error.details["errors"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn a_reversed_range_is_refused_where_the_order_is_sure() {
        for (min, max) in [(json!(5), json!(4)), (json!("2026-02-01"), json!("2026-01-31"))] {
            let error =
                check(json!({"and": [{"attribute": "CREATED_AT", "nbetween": {"min": min, "max": max}}]})).unwrap_err();
            assert!(
                error.message.contains("where.and.0.nbetween: min must not be greater than max"),
                "{}",
                error.message
            );
        }
        for (min, max) in [
            (json!(4), json!(5)),
            (json!("b"), json!("a")),
            (json!("2026-01-31"), json!("2026-02-01")),
            (json!(5), json!("4")),
        ] {
            assert!(check(json!({"attribute": "ID", "between": {"min": min, "max": max}})).is_ok());
        }
    }

    #[test]
    fn fields_are_lower_case_uuids_at_any_depth() {
        let good = "aaaaaaaa-3333-4444-8555-666666666666";
        assert!(check(json!({"or": [{"field": good, "eq": 1}]})).is_ok());
        for bad in ["AAAAAAAA-3333-4444-8555-666666666666", "aaaaaaaa333344448555666666666666", "slug"] {
            assert!(check(json!({"or": [{"field": bad}]})).unwrap_err().message.contains("lowercase uuid"));
            let order = vec![RecordOrder { attribute: None, field: Some(bad.to_owned()), direction: None }];
            assert!(checked_order(Some(order)).is_err());
        }
        assert_eq!(check(json!({})).unwrap(), None);
    }
}
