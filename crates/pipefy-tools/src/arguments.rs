//! Arguments: schemas from types, and one validator that coerces harmless forms and reports every problem at once
//! (`spec/mcp-server.md` section 10).

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use crate::call::Options;
use crate::error::{Kind, ToolError};
use crate::fit::Rest;
use crate::listing::Format;
use crate::op::{Class, Op};

/// Schema format that marks an id (layer 1): text, trimmed, not blank, or an integer.
const ID: &str = "id";
/// Schema format that marks a checked id (layer 2): also not zero and not a hyphen followed by digits.
const CHECKED_ID: &str = "checked-id";

/// An id that is also checked (`spec/tools-pipes-cards.md`, "Ids", layer 2): no zero, no negative number.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
pub struct CheckedId(pipefy::Id);

impl CheckedId {
    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl std::ops::Deref for CheckedId {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl std::fmt::Display for CheckedId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for CheckedId {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CheckedId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": CHECKED_ID })
    }
}

/// The schema of a type: inlined, without titles; the doc comment is its description.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// Drops what callers do not need: titles, integer formats, line ends inside descriptions.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("title").is_some_and(Value::is_string) {
                map.remove("title");
            }
            if map
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|f| f.starts_with("int") || f.starts_with("uint") || f == "double")
            {
                map.remove("format");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = unwrapped(text);
            }
            for (key, value) in map.iter_mut() {
                if key == "properties" {
                    if let Value::Object(properties) = value {
                        properties.values_mut().for_each(tidy);
                    }
                } else if key != "default" && key != "enum" && key != "const" {
                    tidy(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Doc comments are wrapped for people who read code; callers get one line a paragraph.
fn unwrapped(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n")
}

/// The schema that callers see: internal marks gone, shared options added.
pub(crate) fn published(op: &Op, schema: &Value) -> Value {
    let mut schema = schema.clone();
    unmark(&mut schema);
    if let Value::Object(map) = &mut schema {
        map.remove("description");
        map.remove("additionalProperties");
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            for (name, schema, _) in shared(op).filter(|(.., listed)| *listed) {
                properties.insert(name.to_owned(), schema.clone());
            }
        }
    }
    schema
}

fn unmark(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if matches!(map.get("format").and_then(Value::as_str), Some(ID | CHECKED_ID)) {
                map.remove("format");
            }
            // What JSON Schema takes for granted.
            if map.get("additionalProperties") == Some(&Value::Bool(true)) {
                map.remove("additionalProperties");
            }
            map.values_mut().for_each(unmark);
        }
        Value::Array(list) => list.iter_mut().for_each(unmark),
        _ => {}
    }
}

/// The schemas of the options that operations share. They are explained once, in the server's instructions. Those that are
/// not in the contract are written as shortly as can be: each byte counts for every tool in every conversation. For the same
/// reason some are taken by every read and listed only where they matter most.
struct Shared {
    flag: Value,
    own_flag: Value,
    text: Value,
    own_text: Value,
    list: Value,
    number: Value,
    format: Value,
    rest: Value,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| Shared {
    flag: json!({ "type": "boolean", "default": false }),
    text: json!({ "type": ["string", "null"], "default": null }),
    own_flag: json!({ "type": "boolean" }),
    own_text: json!({ "type": "string" }),
    list: json!({ "type": "array", "items": { "type": "string" } }),
    number: json!({ "type": "integer" }),
    format: json!({ "enum": Format::NAMES }),
    rest: json!({ "type": "object" }),
});

/// The options an operation shares with others, and whether its schema lists them.
fn shared(op: &Op) -> impl Iterator<Item = (&'static str, &'static Value, bool)> {
    let Shared { flag, own_flag, text, own_text, list, number, format, rest } = &*SHARED;
    let (reads, lists) = (op.class == Class::Read, op.paging.is_some());
    [
        (op.confirms, "confirm", flag, true),
        (op.confirms, "confirmation_token", text, true),
        (op.debug, "debug", flag, true),
        (reads, "fields", list, op.selects.is_some_and(|selects| selects.listed)),
        (reads, "all", own_flag, lists),
        (reads, "max_items", number, false),
        (reads, "max_seconds", number, false),
        (reads, "format", format, lists),
        (!reads, "dry_run", own_flag, true),
        (!reads, "verify", own_flag, true),
        (!reads, "idempotency_key", own_text, false),
        (true, "rest", rest, false),
    ]
    .into_iter()
    .filter_map(|(takes, name, schema, listed)| takes.then_some((name, schema, listed)))
}

/// From here on a float does not name one integer: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// One problem with the arguments.
#[derive(Clone, Debug, PartialEq)]
struct Problem {
    path: Vec<Value>,
    slug: &'static str,
    message: String,
}

/// Where a value is in the arguments. Written out only for a problem: nearly every call has none.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Name(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn steps(&self) -> Vec<Value> {
        let (outer, step) = match self {
            Self::Root => return Vec::new(),
            Self::Name(outer, name) => (outer, Value::from(*name)),
            Self::Index(outer, index) => (outer, Value::from(*index)),
        };
        let mut steps = outer.steps();
        steps.push(step);
        steps
    }
}

/// Coerces `arguments` to `schema` and takes the shared options out.
///
/// # Errors
/// `INVALID_ARGUMENTS` with every problem; values are never echoed.
pub fn check(
    op: &Op,
    schema: &Value,
    arguments: Map<String, Value>,
) -> Result<(Map<String, Value>, Options), ToolError> {
    let mut problems = Vec::new();
    let mut options = Map::new();
    let mut rest = arguments;
    let own = |name: &str| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    // What is not listed gives way to an argument of the tool's own.
    for (name, schema, listed) in shared(op) {
        if !rest.contains_key(name) || (!listed && own(name)) {
            continue;
        }
        // Of our own options, which have no default written, null is the same as not given.
        if let Some(value) = rest.remove(name).filter(|value| !value.is_null() || schema.get("default").is_some()) {
            let path = Path::Name(&Path::Root, name);
            options.insert(name.to_owned(), coerce(value, schema, path, &mut problems));
        }
    }
    if options.get("rest").is_some_and(|rest| rest.is_object() && Rest::read(rest).is_none()) {
        problem(
            &mut problems,
            Path::Name(&Path::Root, "rest"),
            "value_error",
            "must be {path, from}, as `truncated.next` gives it",
        );
    }
    for name in ["max_items", "max_seconds"] {
        if options.get(name).and_then(Value::as_i64).is_some_and(|limit| limit < 1) {
            problem(&mut problems, Path::Name(&Path::Root, name), "greater_than_equal", "must be at least 1");
        }
    }
    // Arguments that a tool does not know are left aside, as the reference does. A guard that is misspelt must not be: it would
    // be taken for off.
    for given in rest.keys().filter(|given| !own(given)) {
        if let Some((name, ..)) = shared(op).find(|(name, ..)| plain(name) == plain(given)) {
            let message = format!("no such argument; the option is written `{name}`");
            problem(&mut problems, Path::Name(&Path::Root, given), "misspelt_option", &message);
        }
    }
    let rest = Value::Object(rest);
    inexact(&rest, Path::Root, &mut problems);
    let checked = coerce(rest, schema, Path::Root, &mut problems);
    if !problems.is_empty() {
        return Err(invalid(op.name, &problems));
    }
    let Value::Object(checked) = checked else {
        return Err(ToolError::internal("the arguments are no object"));
    };
    Ok((checked, read_options(&options)))
}

/// A name without what people write in different ways.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Refuses numbers that lost digits on the way in: integers beyond 64 bits are read as floats, and what would be written is not
/// what was given.
fn inexact(value: &Value, path: Path<'_>, problems: &mut Vec<Problem>) {
    match value {
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|n| n.abs() >= EXACT) => {
            problem(problems, path, "number_too_large", "is too large to be kept digit for digit; give it as text");
        }
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                inexact(item, Path::Index(&path, index), problems);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                inexact(item, Path::Name(&path, key), problems);
            }
        }
        _ => {}
    }
}

fn read_options(options: &Map<String, Value>) -> Options {
    let flag = |name: &str| options.get(name).and_then(Value::as_bool).unwrap_or(false);
    let number = |name: &str| options.get(name).and_then(Value::as_u64);
    let limited = number("max_items").is_some() || number("max_seconds").is_some();
    Options {
        debug: flag("debug"),
        confirm: flag("confirm"),
        confirmation_token: options.get("confirmation_token").and_then(Value::as_str).map(str::to_owned),
        fields: options
            .get("fields")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
            .filter(|list| !list.is_empty()),
        // Who says how much, wants that much.
        all: options.get("all").and_then(Value::as_bool).unwrap_or(limited),
        max_items: number("max_items"),
        max_seconds: number("max_seconds"),
        dry_run: flag("dry_run"),
        verify: flag("verify"),
        idempotency_key: options.get("idempotency_key").and_then(Value::as_str).map(str::to_owned),
        rest: options.contains_key("rest"),
    }
}

/// Reads checked arguments into their type.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the path.
pub(crate) fn parse<T: DeserializeOwned>(op: &Op, arguments: Map<String, Value>) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let segments = if path == "." { Vec::new() } else { path.split('.').map(Value::from).collect() };
        let problem = Problem {
            path: segments,
            slug: "value_error",
            // serde's own text may echo the value; the path says enough.
            message: "does not have the expected form".to_owned(),
        };
        invalid(op.name, &[problem])
    })
}

fn invalid(tool: &str, problems: &[Problem]) -> ToolError {
    let clauses: Vec<String> = problems
        .iter()
        .map(|problem| {
            let path = dotted(&problem.path);
            match (problem.slug, path.is_empty()) {
                ("missing", _) => format!("missing required argument '{path}'"),
                ("extra_forbidden", _) => format!("unknown argument '{path}'"),
                (_, true) => problem.message.clone(),
                (_, false) => format!("{path}: {}", problem.message),
            }
        })
        .collect();
    let errors: Vec<Value> =
        problems.iter().map(|p| json!({ "path": p.path, "type": p.slug, "message": p.message })).collect();
    let message = format!("Tool '{tool}' received invalid arguments: {}", clauses.join("; "));
    ToolError::new(Kind::Input, message).code("INVALID_ARGUMENTS").detail("errors", errors)
}

fn dotted(path: &[Value]) -> String {
    path.iter()
        .map(|segment| segment.as_str().map_or_else(|| segment.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(".")
}

/// The JSON types a schema accepts, by name; none means anything.
#[derive(Clone, Copy)]
struct Types<'a>(&'a [Value]);

fn types(schema: &Value) -> Types<'_> {
    match schema.get("type") {
        Some(one @ Value::String(_)) => Types(std::slice::from_ref(one)),
        Some(Value::Array(list)) => Types(list),
        _ => Types(&[]),
    }
}

impl<'a> Types<'a> {
    fn are_any(self) -> bool {
        self.0.is_empty()
    }

    fn are_several(self) -> bool {
        self.0.len() > 1
    }

    fn has(self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// The first beside `null`.
    fn first(self) -> Option<&'a str> {
        self.0.iter().filter_map(Value::as_str).find(|name| *name != "null")
    }
}

fn coerce(value: Value, schema: &Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    if let Some(arms) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        return coerce_union(value, arms, path, problems);
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        if allowed.contains(&value) {
            return value;
        }
        let names: Vec<String> = allowed.iter().filter_map(Value::as_str).map(|s| format!("'{s}'")).collect();
        problem(problems, path, "literal_error", &format!("must be one of {}", names.join(", ")));
        return value;
    }
    if let Some(only) = schema.get("const") {
        if *only != value {
            let text = only.as_str().unwrap_or("the fixed value");
            problem(problems, path, "literal_error", &format!("must be '{text}'"));
        }
        return value;
    }
    let types = types(schema);
    if types.are_any() || value.is_null() && types.has("null") {
        return value;
    }
    if types.has("string") {
        return match schema.get("format").and_then(Value::as_str) {
            Some(format @ (ID | CHECKED_ID)) => coerce_id(value, format, path, problems),
            _ if value.is_string() => value,
            // A scalar union such as string|number keeps what it accepts.
            _ if types.are_several() && accepts(&value, types) => value,
            _ => {
                problem(problems, path, "string_type", "must be text");
                value
            }
        };
    }
    let value = unpack_text(value, |name| types.has(name));
    if types.are_several() && accepts(&value, types) && !value.is_object() && !value.is_array() {
        return value;
    }
    match types.first() {
        Some("integer") => coerce_integer(value, path, problems),
        Some("number") => coerce_number(value, path, problems),
        Some("boolean") => coerce_boolean(value, path, problems),
        Some("array") => coerce_array(value, schema, path, problems),
        Some("object") => coerce_object(value, schema, path, problems),
        _ => value,
    }
}

fn accepts(value: &Value, types: Types<'_>) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() || n.is_u64() => {
            return types.has("integer") || types.has("number");
        }
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    types.has(name)
}

/// Models send objects and lists as JSON text; where text is not accepted, it is read as JSON.
fn unpack_text(value: Value, accepts: impl Fn(&str) -> bool) -> Value {
    let Value::String(text) = &value else { return value };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) if accepts("object") => Value::Object(map),
        Ok(Value::Array(list)) if accepts("array") => Value::Array(list),
        Ok(Value::Null) if accepts("null") => Value::Null,
        _ => value,
    }
}

/// Tries each arm; the first without problems wins, else the problems of the first arm that is not null.
fn coerce_union(value: Value, arms: &[Value], path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let takes_text = arms.iter().any(|arm| {
        types(arm).has("string") || arm.get("enum").is_some() || types(arm).are_any() && arm.get("anyOf").is_none()
    });
    if value.is_null() && arms.iter().any(|arm| types(arm).has("null")) {
        return value;
    }
    let value = if takes_text { value } else { unpack_text(value, |_| true) };
    if value.is_null() && arms.iter().any(|arm| types(arm).has("null")) {
        return value;
    }
    let mut first: Option<Vec<Problem>> = None;
    for arm in arms {
        if types(arm).0 == ["null"] {
            continue;
        }
        let mut own = Vec::new();
        let coerced = coerce(value.clone(), arm, path, &mut own);
        if own.is_empty() {
            return coerced;
        }
        first.get_or_insert(own);
    }
    problems.extend(first.unwrap_or_default());
    value
}

fn coerce_id(value: Value, format: &str, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let id = match &value {
        Value::String(text) => pipefy::Id::new(text).ok(),
        Value::Number(number) if number.is_i64() || number.is_u64() => pipefy::Id::new(number.to_string()).ok(),
        _ => None,
    };
    match id {
        Some(id) if format == CHECKED_ID && !id.is_checked() => {
            problem(problems, path, "value_error", "must be a positive integer or a non-empty ID");
            value
        }
        Some(id) => Value::String(id.into()),
        None => {
            problem(problems, path, "value_error", "must be a non-blank ID (text or a whole number)");
            value
        }
    }
}

fn coerce_integer(value: Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let (slug, reason) = match &value {
        Value::Number(number) if number.is_i64() || number.is_u64() => return value,
        Value::Number(number) => match number.as_f64().and_then(whole) {
            Some(whole) => return whole.into(),
            None => ("int_from_float", "must be a whole number"),
        },
        Value::String(text) => {
            let text = text.trim();
            match text
                .parse::<i64>()
                .ok()
                .or_else(|| text.strip_suffix(".0").or_else(|| text.strip_suffix('.')).and_then(|t| t.parse().ok()))
            {
                Some(number) => return number.into(),
                None => ("int_parsing", "must be a whole number"),
            }
        }
        _ => ("int_type", "must be a whole number"),
    };
    problem(problems, path, slug, reason);
    value
}

fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn coerce_number(value: Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let (slug, reason) = match &value {
        Value::Number(_) => return value,
        Value::String(text) => match text.trim().parse::<f64>().ok().filter(|f| f.is_finite()) {
            Some(number) => return number.into(),
            None => ("float_parsing", "must be a number"),
        },
        _ => ("float_type", "must be a number"),
    };
    problem(problems, path, slug, reason);
    value
}

fn coerce_boolean(value: Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let word = match &value {
        Value::Bool(_) => return value,
        Value::Number(number) => number.as_f64().map(|n| {
            if n == 1.0 {
                "1"
            } else if n == 0.0 {
                "0"
            } else {
                ""
            }
            .to_owned()
        }),
        Value::String(text) => Some(text.trim().to_ascii_lowercase()),
        _ => None,
    };
    match word.as_deref() {
        Some("1" | "true" | "t" | "yes" | "y" | "on") => true.into(),
        Some("0" | "false" | "f" | "no" | "n" | "off") => false.into(),
        Some(_) => {
            problem(problems, path, "bool_parsing", "must be true or false");
            value
        }
        None => {
            problem(problems, path, "bool_type", "must be true or false");
            value
        }
    }
}

fn coerce_array(value: Value, schema: &Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let Value::Array(list) = value else {
        problem(problems, path, "list_type", "must be a list");
        return value;
    };
    let Some(items) = schema.get("items") else {
        return Value::Array(list);
    };
    list.into_iter().enumerate().map(|(index, item)| coerce(item, items, Path::Index(&path, index), problems)).collect()
}

fn coerce_object(value: Value, schema: &Value, path: Path<'_>, problems: &mut Vec<Problem>) -> Value {
    let Value::Object(mut map) = value else {
        problem(problems, path, "dict_type", "must be an object");
        return value;
    };
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let mut out = Map::new();
    for (name, property) in properties {
        let path = Path::Name(&path, name);
        match map.remove_entry(name) {
            Some((name, value)) => {
                let value = coerce(value, property, path, problems);
                out.insert(name, value);
            }
            None if required.is_some_and(|r| r.iter().any(|n| n == name)) => {
                problem(problems, path, "missing", "is required");
            }
            None => {}
        }
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            for name in map.keys() {
                problem(problems, Path::Name(&path, name), "extra_forbidden", "is not a known argument");
            }
        }
        Some(Value::Bool(true)) => out.extend(map),
        Some(each) if each.is_object() => {
            for (name, value) in map {
                let value = coerce(value, each, Path::Name(&path, &name), problems);
                out.insert(name, value);
            }
        }
        // An object without any declared property is free-form; otherwise unknown arguments are ignored.
        _ if properties.is_empty() => out.extend(map),
        _ => {}
    }
    Value::Object(out)
}

fn problem(problems: &mut Vec<Problem>, path: Path<'_>, slug: &'static str, message: &str) {
    problems.push(Problem { path: path.steps(), slug, message: message.to_owned() });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema matters here")]
    struct Sample {
        /// An id.
        card_id: CheckedId,
        #[serde(default)]
        pipe_id: Option<pipefy::Id>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        first: Option<i64>,
        #[serde(default)]
        ids: Option<Vec<pipefy::Id>>,
        #[serde(default)]
        fields: Option<Map<String, Value>>,
        #[serde(default)]
        any: Value,
    }

    const OP: Op = Op::destructive("sample", crate::Domain::Workflow, crate::Shape::Raw).debug();

    fn run(arguments: Value) -> Result<(Map<String, Value>, Options), ToolError> {
        check(&OP, &schema_of::<Sample>(), arguments.as_object().unwrap().clone())
    }

    fn slugs(arguments: Value) -> Vec<(String, String)> {
        let error = run(arguments).unwrap_err();
        error.details["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| (dotted(e["path"].as_array().unwrap()), e["type"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn numbers_that_would_lose_digits_are_refused() {
        let key: Value = serde_json::from_str(r#"{"a": 35200612345678000190550010000012341123456789}"#).unwrap();
        assert_eq!(
            slugs(json!({"card_id": 1, "fields": key})),
            [("fields.a".to_owned(), "number_too_large".to_owned())]
        );
        assert_eq!(slugs(json!({"card_id": 1, "any": [1, -1e300]}))[0].0, "any.1");
        let kept = json!({"card_id": 1, "fields": {"a": 18446744073709551615_u64, "b": "35200612345678000190550010", "c": 0.1}});
        assert_eq!(run(kept.clone()).unwrap().0["fields"], kept["fields"]);
    }

    #[test]
    fn harmless_forms_are_coerced() {
        let (arguments, options) = run(json!({
            "card_id": 7, "pipe_id": " Yr5 ", "title": "null", "flag": "YES", "first": "10", "ids": "[1, \"2\"]",
            "fields": "{\"a\":1}", "any": "[1]", "debug": 1, "confirm": "true", "confirmation_token": "[1]", "unknown": 1,
        }))
        .unwrap();
        assert_eq!(
            Value::Object(arguments),
            json!({"card_id": "7", "pipe_id": "Yr5", "title": "null", "flag": true, "first": 10, "ids": ["1", "2"],
                   "fields": {"a": 1}, "any": "[1]"})
        );
        assert!(options.debug && options.confirm);
        assert_eq!(options.confirmation_token.as_deref(), Some("[1]"));
        for first in [json!(2.0), json!(" 2 "), json!("2.0")] {
            assert_eq!(run(json!({"card_id": "1", "first": first})).unwrap().0["first"], json!(2));
        }
    }

    #[test]
    fn every_problem_is_reported_with_path_and_kind_and_no_value() {
        let error = run(json!({
            "card_id": "0", "flag": "maybe-secret", "first": 1.5, "ids": ["1", true], "fields": [], "title": 5
        }))
        .unwrap_err();
        assert!(!error.message.contains("secret"));
        assert!(error.message.starts_with("Tool 'sample' received invalid arguments: "));
        assert_eq!(
            slugs(
                json!({"card_id": "-5", "flag": "maybe", "first": 1.5, "ids": ["1", true], "fields": [], "title": 5})
            ),
            [
                ("card_id", "value_error"),
                ("title", "string_type"),
                ("flag", "bool_parsing"),
                ("first", "int_from_float"),
                ("ids.1", "value_error"),
                ("fields", "dict_type"),
            ]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        assert_eq!(slugs(json!({})), [("card_id".to_owned(), "missing".to_owned())]);
        for (bad, slug) in [(json!("x"), "int_parsing"), (json!(true), "int_type"), (json!({}), "int_type")] {
            assert_eq!(slugs(json!({"card_id": "1", "first": bad})), [("first".to_owned(), slug.to_owned())]);
        }
        for bad in [json!(true), json!(1.5), json!(" "), json!(null), json!([]), json!({})] {
            assert_eq!(slugs(json!({"card_id": bad})), [("card_id".to_owned(), "value_error".to_owned())]);
        }
    }

    #[test]
    fn a_misspelt_option_is_not_taken_for_none() {
        const WRITE: Op = Op::write("write", crate::Domain::Workflow, crate::Shape::Raw);
        for name in ["dryRun", "dryrun", "dry-run", "Dry_Run", "idempotencyKey", "Verify", "REST"] {
            let error =
                check(&WRITE, &schema_of::<Sample>(), json!({"card_id": 1, name: true}).as_object().unwrap().clone());
            let message = error.unwrap_err().message;
            assert!(message.contains(&format!("{name}: no such argument; the option is written `")), "{message}");
        }
        // Of the tool's own, and of no option: as ever.
        for known in [json!({"card_id": 1, "Title": "x"}), json!({"card_id": 1, "other": true})] {
            assert!(check(&WRITE, &schema_of::<Sample>(), known.as_object().unwrap().clone()).is_ok(), "{known}");
        }
    }

    #[test]
    fn a_limit_alone_asks_for_everything_within_it() {
        const LIST: Op = Op::read("list", crate::Domain::Workflow, crate::Shape::Raw);
        let run = |arguments: Value| check(&LIST, &schema_of::<Sample>(), arguments.as_object().unwrap().clone());
        for (arguments, all) in [
            (json!({"card_id": 1}), false),
            (json!({"card_id": 1, "all": true}), true),
            (json!({"card_id": 1, "max_items": "3"}), true),
            (json!({"card_id": 1, "max_seconds": 3}), true),
            (json!({"card_id": 1, "max_items": 3, "all": false}), false),
        ] {
            assert_eq!(run(arguments.clone()).unwrap().1.all, all, "{arguments}");
        }
        for name in ["max_items", "max_seconds"] {
            for bad in [0, -1] {
                let error = run(json!({"card_id": 1, "all": true, name: bad})).unwrap_err();
                assert!(error.message.contains(&format!("{name}: must be at least 1")), "{}", error.message);
            }
        }
    }

    #[test]
    fn the_published_schema_has_no_marks_and_the_shared_options() {
        let schema = published(&OP, &schema_of::<Sample>());
        insta::assert_json_snapshot!(schema);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map("[a-z_]{0,8}", inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_can_be_read_and_nothing_panics(
            card in json_value(), pipe in json_value(), title in json_value(), flag in json_value(),
            first in json_value(), ids in json_value(), fields in json_value(), any in json_value(),
        ) {
            let arguments = json!({"card_id": card, "pipe_id": pipe, "title": title, "flag": flag, "first": first,
                                   "ids": ids, "fields": fields, "any": any});
            if let Ok((checked, _)) = run(arguments) {
                prop_assert!(parse::<Sample>(&OP, checked).is_ok());
            }
        }
    }
}
