//! The gate over the whole catalogue: what the contract promises is there, and every schema is one that clients can use.
//!
//! Deliberate differences are listed with their reasons in `catalogue_exceptions.json`; one that no longer applies fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pipefy_tools::{Catalogue, Class, Persona, Tool};
use serde_json::{Value, json};

/// Bytes that a tool's description may have: every agent pays for them in every conversation.
const DESCRIPTION: usize = 400;

fn contract(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// `tool` or `tool.argument` to the reason of the difference.
fn exceptions() -> BTreeMap<String, String> {
    serde_json::from_str(include_str!("catalogue_exceptions.json")).unwrap()
}

/// Problems by the `tool` or `tool.argument` they are about.
#[derive(Default)]
struct Problems(Vec<(String, String)>);

impl Problems {
    fn expect(&mut self, holds: bool, place: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push((place.to_owned(), what()));
        }
    }

    /// Fails on what no exception covers, and on exceptions that cover nothing.
    fn finish(self, exceptions: &BTreeMap<String, String>) {
        let (covered, open): (Vec<_>, Vec<_>) = self.0.iter().partition(|(place, _)| exceptions.contains_key(place));
        let used: BTreeSet<&String> = covered.iter().map(|(place, _)| place).collect();
        let stale: Vec<&String> = exceptions.keys().filter(|place| !used.contains(place)).collect();
        let lines: String = open.iter().map(|(place, what)| format!("  {place}: {what}\n")).collect();
        assert!(open.is_empty(), "{} problems:\n{lines}", open.len());
        assert!(stale.is_empty(), "catalogue_exceptions.json covers nothing with {stale:?}");
    }
}

#[test]
fn the_contract_is_contained_in_the_catalogue() {
    let catalogue = Catalogue::new();
    let tools = contract("tools.json");
    let tools = tools.as_array().unwrap();
    let mut problems = Problems::default();
    let (built, missing): (Vec<&Value>, Vec<&Value>) =
        tools.iter().partition(|tool| catalogue.get(tool["name"].as_str().unwrap()).is_some());
    for wanted in &built {
        compare(catalogue.get(wanted["name"].as_str().unwrap()).unwrap(), wanted, &mut problems);
    }
    println!("{} of {} tools of the contract are built; {} in all", built.len(), tools.len(), catalogue.tools().len());
    let missing: Vec<&str> = missing.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    if !missing.is_empty() {
        println!("not built: {}", missing.join(" "));
    }
    problems.finish(&exceptions());
}

fn compare(tool: &Tool, wanted: &Value, problems: &mut Problems) {
    let (name, op) = (tool.name(), tool.op());
    let texts = |list: &Value| -> BTreeSet<String> {
        list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let domain = wanted["domain"].as_str().unwrap();
    problems.expect(op.domain.name() == domain, name, || format!("domain {} is not {domain}", op.domain.name()));
    let personas: BTreeSet<String> = op.personas.iter().map(|persona: &Persona| persona.name().to_owned()).collect();
    let expected = texts(&wanted["personas"]);
    problems.expect(personas == expected, name, || format!("personas {personas:?} are not {expected:?}"));
    problems.expect(Some(op.remote) == wanted["remote"].as_bool(), name, || "remote differs".to_owned());
    let hint = |key: &str| wanted["annotations"][key].as_bool().unwrap_or(false);
    for (key, ours) in [
        ("readOnlyHint", op.class == Class::Read),
        ("destructiveHint", op.class == Class::Destructive),
        ("idempotentHint", op.idempotent),
        ("openWorldHint", op.open_world),
    ] {
        // What a call does may depend on its input; the hint is then the contract's, not the class's.
        let by_input = op.class == Class::ByInput && key == "destructiveHint";
        problems.expect(by_input || ours == hint(key), name, || format!("{key} is {ours}"));
    }
    let output = wanted.get("output_schema").is_some_and(|schema| !schema.is_null());
    problems.expect(tool.output_schema().is_some() == output, name, || "has (or lacks) an output schema".to_owned());

    let (ours, theirs) = (tool.input_schema(), &wanted["input_schema"]);
    let (required, expected) = (texts(&ours["required"]), texts(&theirs["required"]));
    problems.expect(required == expected, name, || format!("required {required:?} are not {expected:?}"));
    for (argument, schema) in theirs["properties"].as_object().unwrap() {
        let place = format!("{name}.{argument}");
        let Some(property) = ours["properties"].get(argument) else {
            problems.expect(false, &place, || "is missing".to_owned());
            continue;
        };
        let (default, expected) = (property.get("default"), schema.get("default"));
        problems.expect(default == expected, &place, || format!("default {default:?} is not {expected:?}"));
        let (accepted, expected) = (types(property), types(&resolved(schema, theirs)));
        let accepts = accepted.is_empty() || (!expected.is_empty() && expected.iter().all(|t| accepted.contains(t)));
        problems.expect(accepts, &place, || format!("accepts {accepted:?}, not all of {expected:?}"));
    }
    let arguments = ours["properties"].as_object().unwrap();
    for id in op.touches {
        problems.expect(arguments.contains_key(id.arg), name, || format!("touches `{}`, which is no argument", id.arg));
    }
}

/// Follows the references of the contract's schemas.
fn resolved(schema: &Value, root: &Value) -> Value {
    match schema {
        Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap().clone(),
            None => Value::Object(map.iter().map(|(k, v)| (k.clone(), resolved(v, root))).collect()),
        },
        Value::Array(list) => list.iter().map(|v| resolved(v, root)).collect(),
        other => other.clone(),
    }
}

/// The JSON types a schema accepts; empty means any. A whole number is a number.
fn types(schema: &Value) -> BTreeSet<String> {
    if let Some(arms) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        let arms: Vec<BTreeSet<String>> = arms.iter().map(types).collect();
        return if arms.iter().any(BTreeSet::is_empty) {
            BTreeSet::new()
        } else {
            arms.into_iter().flatten().collect()
        };
    }
    let mut types: BTreeSet<String> = match schema.get("type") {
        Some(Value::String(one)) => [one.clone()].into(),
        Some(Value::Array(list)) => list.iter().map(|t| t.as_str().unwrap().to_owned()).collect(),
        _ if schema.get("enum").is_some() => ["string".to_owned()].into(),
        _ => BTreeSet::new(),
    };
    if types.contains("number") {
        types.insert("integer".to_owned());
    }
    types
}

#[test]
fn every_schema_is_one_that_clients_can_use() {
    let mut problems = Problems::default();
    for tool in Catalogue::new().tools() {
        let name = tool.name();
        let description = tool.description();
        problems.expect(!description.trim().is_empty(), name, || "has no description".to_owned());
        problems.expect(description.len() <= DESCRIPTION, name, || {
            format!("its description has {} bytes, {DESCRIPTION} are the limit", description.len())
        });
        let schema = tool.input_schema();
        problems
            .expect(description.is_ascii() && schema.to_string().is_ascii(), name, || "is not plain ASCII".to_owned());
        let snake = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        problems.expect(snake(name), name, || "is not snake case".to_owned());
        problems.expect(schema["type"] == "object", name, || "takes no object".to_owned());
        for combinator in ["anyOf", "oneOf", "allOf", "not", "if"] {
            problems.expect(schema.get(combinator).is_none(), name, || format!("has {combinator} at the top"));
        }
        visit(&schema, name, &mut problems);
    }
    problems.finish(&BTreeMap::new());
}

/// Arrays say what they hold; no schema is a mere true or false, none refers to another or to itself.
fn visit(schema: &Value, place: &str, problems: &mut Problems) {
    let Value::Object(map) = schema else {
        problems.expect(false, place, || format!("holds the schema {schema}"));
        return;
    };
    problems.expect(!map.contains_key("$ref") && !map.contains_key("$defs"), place, || "holds a reference".to_owned());
    let array = json!("array");
    let listed =
        map.get("type").is_some_and(|t| *t == array || t.as_array().is_some_and(|types| types.contains(&array)));
    if listed {
        let typed = map.get("items").is_some_and(|items| items.as_object().is_some_and(|items| !items.is_empty()));
        problems.expect(typed, place, || "is an array without typed items".to_owned());
    }
    for (key, value) in map {
        match key.as_str() {
            "properties" => {
                for (name, property) in value.as_object().unwrap() {
                    visit(property, &format!("{place}.{name}"), problems);
                }
            }
            "items" => visit(value, &format!("{place}[]"), problems),
            "additionalProperties" if !value.is_boolean() => visit(value, &format!("{place}.*"), problems),
            "anyOf" | "oneOf" | "allOf" => value.as_array().unwrap().iter().for_each(|arm| visit(arm, place, problems)),
            _ => {}
        }
    }
}

/// An object or a list of objects whose keys the schema does not tell needs words; what goes to the tool's own place by its name
/// alone is listed here.
#[test]
fn arguments_that_do_not_explain_themselves_are_described() {
    const PLAIN: [&str; 2] = ["execute_graphql.variables", "call_ipaas_tool.arguments"];
    let mut open = Vec::new();
    for tool in Catalogue::new().tools() {
        for (name, schema) in tool.input_schema()["properties"].as_object().unwrap() {
            let free = |schema: &Value| types(schema).contains("object") && schema.get("properties").is_none();
            let place = format!("{}.{name}", tool.name());
            let needs = free(schema) || schema.get("items").is_some_and(free);
            if needs && schema.get("description").is_none() && !PLAIN.contains(&place.as_str()) {
                open.push(place);
            }
        }
    }
    assert!(open.is_empty(), "not described: {open:?}");
}

/// What is no id, no switch, no choice of listed words and no shared option is described, unless its name says all there is to know:
/// a new argument is either described, or its name is put here on purpose.
#[test]
fn every_argument_that_is_not_self_explanatory_is_described() {
    const OPTIONS: [&str; 8] =
        ["after", "all", "confirmation_token", "fields", "first", "format", "max_items", "max_seconds"];
    const SAY_IT: [&str; 31] = [
        "arguments",
        "automations",
        "conditions",
        "content",
        "content_type",
        "description",
        "display_name",
        "email",
        "expiration_value",
        "field_value",
        "file_name",
        "filter_by_name",
        "html",
        "instruction",
        "label",
        "name",
        "options",
        "order_by",
        "phases",
        "pipe_name",
        "query",
        "repo_name",
        "search",
        "search_term",
        "subject",
        "table_name",
        "task_title",
        "text",
        "title",
        "to",
        "variables",
    ];
    let mut open = Vec::new();
    let mut said: BTreeSet<&str> = BTreeSet::new();
    for tool in Catalogue::new().tools() {
        for (name, schema) in tool.input_schema()["properties"].as_object().unwrap() {
            let shared = OPTIONS.contains(&name.as_str());
            let id = ["id", "uuid"].contains(&name.as_str())
                || ["_id", "_ids", "_uuid"].iter().any(|end| name.ends_with(end));
            let kinds = types(schema);
            let switch =
                kinds.contains("boolean") && kinds.iter().all(|kind| ["boolean", "null"].contains(&kind.as_str()));
            let choice = schema.get("enum").is_some();
            if schema.get("description").is_some() || shared || id || switch || choice {
                continue;
            }
            match SAY_IT.iter().find(|word| *word == name) {
                Some(word) => _ = said.insert(*word),
                None => open.push(format!("{}.{name}", tool.name())),
            }
        }
    }
    assert!(open.is_empty(), "not described: {open:?}");
    let idle: Vec<&&str> = SAY_IT.iter().filter(|word| !said.contains(**word)).collect();
    assert!(idle.is_empty(), "listed for nothing: {idle:?}");
}

/// What is listed may be left out as its default says, and an example is one that the tool takes.
#[test]
fn defaults_and_examples_are_valid() {
    for tool in Catalogue::new().tools() {
        let schema = tool.input_schema();
        let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
        for (name, property) in schema["properties"].as_object().unwrap() {
            let examples = property.get("examples").and_then(Value::as_array).into_iter().flatten();
            for value in property.get("default").into_iter().chain(examples) {
                let arguments = [(name.clone(), value.clone())].into_iter().collect();
                let details = tool.check(arguments).map_or_else(|error| error.details, |_| serde_json::Map::new());
                let errors = details.get("errors").and_then(Value::as_array).into_iter().flatten();
                let refused = errors.filter(|error| error["type"] != "missing").any(|error| error["path"][0] == **name);
                assert!(!refused, "{}.{name} does not take {value}", tool.name());
            }
            let optional = !required.contains(&&json!(name));
            assert!(optional || property.get("default").is_none(), "{}.{name} is required with a default", tool.name());
        }
    }
}

/// Every read takes the options that choose what comes back, every write those that say what is sent and what came of it,
/// whether its schema lists them or not. An argument of the tool's own that has the name of an unlisted option wins.
#[test]
fn every_tool_takes_the_shared_options() {
    for tool in Catalogue::new().tools() {
        let op = tool.op();
        let mut options = json!({"dry_run": true, "verify": true, "idempotency_key": "k"});
        if op.class == Class::Read {
            options = json!({"fields": ["id"], "format": "csv", "all": true, "max_items": 3, "max_seconds": 2,
                             "rest": {"path": "/data", "from": 1}});
        }
        let listed = tool.input_schema();
        let own = |name: &String| {
            listed["properties"].get(name).is_some()
                && listed["required"].as_array().is_some_and(|required| required.contains(&json!(name)))
        };
        let options: serde_json::Map<String, Value> =
            options.as_object().unwrap().clone().into_iter().filter(|(name, _)| !own(name)).collect();
        // A value of another type shows that the option is looked at.
        for name in options.keys() {
            let mut wrong = options.clone();
            wrong.insert(name.clone(), json!({"x": 1}).as_object().unwrap().clone().into());
            let error = tool.check(wrong).map(|_| String::new()).unwrap_or_else(|error| error.message);
            assert!(error.contains(&format!("{name}:")), "{} does not look at {name}: {error}", tool.name());
        }
        let error = tool.check(options.clone()).map(|_| String::new()).unwrap_or_else(|error| error.message);
        for name in options.keys() {
            assert!(!error.contains(&format!("{name}:")), "{}: {error}", tool.name());
        }
    }
}

/// What `describe_tool` gives names the keys of a success, for every tool, in the unified envelope and without it.
#[test]
fn every_tool_has_a_precise_output_schema() {
    for tool in Catalogue::new().tools() {
        for unified in [true, false] {
            let schema = tool.result_schema(unified);
            let success = &schema["anyOf"][0];
            let keys = success["properties"].as_object().map_or(0, serde_json::Map::len);
            assert!(schema["type"] == "object" && success["title"] == "success", "{}", tool.name());
            // Nine are there for every tool.
            assert!(keys > 9 || success.get("additionalProperties").is_none(), "{}: {success}", tool.name());
            assert!(success.get("properties").is_some(), "{}: outputs.jsonl has no row", tool.name());
        }
    }
}

#[test]
fn names_are_unique_and_listed_in_the_order_of_the_contract() {
    let catalogue = Catalogue::new();
    let names: Vec<&str> = catalogue.tools().iter().map(Tool::name).collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "two tools have one name");
    let order = contract("toolsets.json");
    let order: Vec<&str> =
        order["registration_order"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let expected: Vec<&str> = order.iter().copied().filter(|name| names.contains(name)).collect();
    let listed: Vec<&str> = names.iter().copied().filter(|name| order.contains(name)).collect();
    assert_eq!(listed, expected);
}
