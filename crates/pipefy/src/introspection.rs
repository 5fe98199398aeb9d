//! Introspection: queries about the schema of the public endpoint, and an introspection answer as SDL, so that one parser
//! serves for files and for live schemas.

use std::fmt::Write as _;

use apollo_compiler::ast;
use serde_json::Value;

use crate::document::documents::introspection as documents;
use crate::operation::Query;

/// Type references nest at most this deep in `graphql/introspection/schema.graphql`, with room to spare.
const WRAPPERS: usize = 16;

const BUILT_IN_SCALARS: [&str; 5] = ["Int", "Float", "String", "Boolean", "ID"];

const BUILT_IN_DIRECTIVES: [&str; 5] = ["skip", "include", "deprecated", "specifiedBy", "oneOf"];

/// A type with its fields, input fields or enum values; null when there is none of that name.
pub fn introspect_type(type_name: &str) -> Query {
    Query::new(&documents::INTROSPECT_TYPE).var("typeName", type_name)
}

/// The names of a type's fields; used for the roots `Query` and `Mutation`.
pub fn root_fields(type_name: &str) -> Query {
    Query::new(&documents::ROOT_FIELDS).var("typeName", type_name)
}

/// Every field of the root `Query` with its arguments.
pub fn introspect_query() -> Query {
    Query::new(&documents::INTROSPECT_QUERY)
}

/// Every field of the root `Mutation` with its arguments.
pub fn introspect_mutation() -> Query {
    Query::new(&documents::INTROSPECT_MUTATION)
}

/// Name, kind and description of every type.
pub fn schema_types() -> Query {
    Query::new(&documents::SCHEMA_TYPES)
}

/// The SDL of the answer to `graphql/introspection/schema.graphql` (the `data` object, or its `__schema`). Built-in scalars
/// and directives and introspection's own types are left out. `None` when it is no introspection answer.
///
/// Descriptions are dropped. Names that are no GraphQL names and types of an unknown kind are dropped too; a default value
/// that is no GraphQL literal is dropped, and an argument that had one stays optional.
pub(crate) fn to_sdl(data: &Value) -> Option<String> {
    let schema = data.get("__schema").unwrap_or(data);
    let types = schema.get("types")?.as_array()?;
    let mut sdl = String::with_capacity(types.len() * 256);
    write_roots(&mut sdl, schema)?;
    for directive in list(schema, "directives") {
        write_directive(&mut sdl, directive);
    }
    for definition in types {
        write_type(&mut sdl, definition);
    }
    Some(sdl)
}

fn write_roots(sdl: &mut String, schema: &Value) -> Option<()> {
    let root = |key: &str| schema.get(key).and_then(name);
    let query = root("queryType")?;
    let _ = write!(sdl, "schema {{\n  query: {query}\n");
    for (operation, key) in [("mutation", "mutationType"), ("subscription", "subscriptionType")] {
        if let Some(root) = root(key) {
            let _ = writeln!(sdl, "  {operation}: {root}");
        }
    }
    sdl.push_str("}\n");
    Some(())
}

fn write_directive(sdl: &mut String, directive: &Value) {
    let Some(name) = name(directive).filter(|name| !BUILT_IN_DIRECTIVES.contains(name)) else {
        return;
    };
    let locations: Vec<&str> = list(directive, "locations")
        .iter()
        .filter_map(Value::as_str)
        .filter(|location| location.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .collect();
    if locations.is_empty() {
        return;
    }
    let _ = write!(sdl, "directive @{name}");
    write_arguments(sdl, directive);
    let repeatable = directive.get("isRepeatable").and_then(Value::as_bool) == Some(true);
    let _ = writeln!(sdl, "{} on {}", if repeatable { " repeatable" } else { "" }, locations.join(" | "));
}

fn write_type(sdl: &mut String, definition: &Value) {
    let Some(name) = name(definition).filter(|name| !name.starts_with("__")) else {
        return;
    };
    match definition.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "SCALAR" if !BUILT_IN_SCALARS.contains(&name) => {
            let _ = writeln!(sdl, "scalar {name}");
        }
        kind @ ("OBJECT" | "INTERFACE") => {
            let keyword = if kind == "OBJECT" { "type" } else { "interface" };
            let _ = write!(sdl, "{keyword} {name}");
            let interfaces = names(definition, "interfaces");
            if !interfaces.is_empty() {
                let _ = write!(sdl, " implements {}", interfaces.join(" & "));
            }
            sdl.push_str(" {\n");
            for field in list(definition, "fields") {
                write_field(sdl, field);
            }
            sdl.push_str("}\n");
        }
        "UNION" => {
            let _ = writeln!(sdl, "union {name} = {}", names(definition, "possibleTypes").join(" | "));
        }
        "ENUM" => {
            let _ = writeln!(sdl, "enum {name} {{");
            for value in list(definition, "enumValues") {
                if let Some(name) = self::name(value) {
                    let _ = write!(sdl, "  {name}");
                    write_deprecation(sdl, value);
                    sdl.push('\n');
                }
            }
            sdl.push_str("}\n");
        }
        "INPUT_OBJECT" => {
            let _ = writeln!(sdl, "input {name} {{");
            for field in list(definition, "inputFields") {
                if let Some(field) = input_value(field) {
                    let _ = writeln!(sdl, "  {field}");
                }
            }
            sdl.push_str("}\n");
        }
        _ => {}
    }
}

fn write_field(sdl: &mut String, field: &Value) {
    let (Some(name), Some(of)) = (name(field), field.get("type").and_then(type_text)) else {
        return;
    };
    let _ = write!(sdl, "  {name}");
    write_arguments(sdl, field);
    let _ = write!(sdl, ": {of}");
    write_deprecation(sdl, field);
    sdl.push('\n');
}

fn write_arguments(sdl: &mut String, owner: &Value) {
    let arguments: Vec<String> = list(owner, "args").iter().filter_map(input_value).collect();
    if !arguments.is_empty() {
        let _ = write!(sdl, "({})", arguments.join(", "));
    }
}

fn write_deprecation(sdl: &mut String, item: &Value) {
    if item.get("isDeprecated").and_then(Value::as_bool) != Some(true) {
        return;
    }
    sdl.push_str(" @deprecated");
    if let Some(reason @ Value::String(_)) = item.get("deprecationReason") {
        // JSON's escapes are a subset of GraphQL's.
        let _ = write!(sdl, "(reason: {reason})");
    }
}

/// `name: Type = default`
fn input_value(value: &Value) -> Option<String> {
    let name = name(value)?;
    let of = type_text(value.get("type")?)?;
    let mut text = match value.get("defaultValue").and_then(Value::as_str).map(literal) {
        None => format!("{name}: {of}"),
        Some(Some(literal)) => format!("{name}: {of} = {literal}"),
        Some(None) => format!("{name}: {}", of.trim_end_matches('!')),
    };
    write_deprecation(&mut text, value);
    Some(text)
}

/// `text` printed anew when it is exactly one constant GraphQL value, so that it cannot close what it stands in.
fn literal(text: &str) -> Option<String> {
    if text.len() > 10_000 || text.bytes().filter(|b| matches!(b, b'[' | b'{')).count() > 200 {
        return None;
    }
    let document = ast::Document::parse(format!("query($v: T = {text}\n) {{f}}"), "default.graphql").ok()?;
    let [ast::Definition::OperationDefinition(operation)] = document.definitions.as_slice() else {
        return None;
    };
    let ([variable], [ast::Selection::Field(_)]) = (operation.variables.as_slice(), operation.selection_set.as_slice())
    else {
        return None;
    };
    if !variable.directives.is_empty() {
        return None;
    }
    variable.default_value.as_ref().map(|value| value.serialize().no_indent().to_string())
}

/// `[Type!]!`
fn type_text(mut of: &Value) -> Option<String> {
    let (mut front, mut back) = (String::new(), Vec::new());
    for _ in 0..WRAPPERS {
        match of.get("kind").and_then(Value::as_str)? {
            "NON_NULL" if back.last() != Some(&'!') => back.push('!'),
            "NON_NULL" => return None,
            "LIST" => {
                front.push('[');
                back.push(']');
            }
            _ => {
                front.push_str(name(of)?);
                front.extend(back.into_iter().rev());
                return Some(front);
            }
        }
        of = of.get("ofType")?;
    }
    None
}

fn list<'a>(owner: &'a Value, key: &str) -> &'a [Value] {
    owner.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn names<'a>(owner: &'a Value, key: &str) -> Vec<&'a str> {
    list(owner, key).iter().filter_map(name).collect()
}

fn name(item: &Value) -> Option<&str> {
    let name = item.get("name")?.as_str()?;
    apollo_compiler::Name::is_valid_syntax(name).then_some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::document::{EndpointKind, documents};
    use apollo_compiler::validation::Valid;
    use apollo_compiler::{ExecutableDocument, Schema, introspection, request};
    use serde_json::json;

    const PUBLIC: &str = include_str!("../graphql/schema/public.graphql");
    const INTERFACES: &str = include_str!("../graphql/schema/interfaces.graphql");
    const INTERNAL: &str = include_str!("../graphql/schema/internal.graphql");

    /// What a service with this schema answers to our introspection document.
    fn introspect(schema: &Valid<Schema>) -> Value {
        let text = documents::introspection::SCHEMA.text();
        let document = ExecutableDocument::parse_and_validate(schema, text, "schema.graphql").unwrap();
        let operation = document.operations.get(None).unwrap();
        let variables = request::coerce_variable_values(schema, operation, &Default::default()).unwrap();
        let answer =
            introspection::partial_execute(schema, &schema.implementers_map(), &document, operation, &variables)
                .unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        assert!(answer.get("errors").is_none_or(|e| e.as_array().is_some_and(Vec::is_empty)), "{}", answer["errors"]);
        answer["data"].clone()
    }

    fn round_trip(sdl: &str) -> (Valid<Schema>, String) {
        let schema = Schema::parse_and_validate(sdl, "in.graphql").unwrap();
        let sdl = to_sdl(&introspect(&schema)).unwrap();
        match Schema::parse_and_validate(&sdl, "out.graphql") {
            Ok(again) => (again, sdl),
            Err(invalid) => panic!("{}\n{sdl}", invalid.errors),
        }
    }

    #[test]
    fn every_document_fits_what_its_endpoint_says_of_itself() {
        for (kind, sdl) in
            [(EndpointKind::Public, PUBLIC), (EndpointKind::Interfaces, INTERFACES), (EndpointKind::Internal, INTERNAL)]
        {
            let (schema, again) = round_trip(sdl);
            for document in documents::ALL.iter().filter(|d| d.endpoint() == kind) {
                if let Err(invalid) = ExecutableDocument::parse_and_validate(&schema, document.text(), document.name())
                {
                    panic!("{}: {}", document.name(), invalid.errors);
                }
            }
            // Nothing is lost: the same answer comes out of what went in.
            assert_eq!(to_sdl(&introspect(&schema)).unwrap(), again);
        }
    }

    #[test]
    fn every_kind_of_definition_survives() {
        let (schema, sdl) = round_trip(
            r#"
            schema { query: Root mutation: Change }
            directive @hot(level: Int = 1, tags: [String!]) on FIELD | QUERY
            scalar When
            enum Color { RED GREEN @deprecated(reason: "use \"RED\"\nplease") }
            interface Node { id: ID! }
            interface Named implements Node { id: ID! name: String }
            type A implements Node & Named { id: ID! name: String at: When }
            type B implements Node { id: ID! all: [[Int!]!]! }
            union AB = A | B
            input Deep { c: Color = RED, list: [Int!] = [1, 2], inner: Deep, text: String = "q\"{}#\\" }
            input Box { deep: Deep! = {c: GREEN, list: []}, must: Boolean! }
            type Root { ab(box: Box, n: Int! = 3, f: Float = -1.5e3, none: Int = null): AB old: Int @deprecated }
            type Change { go: Boolean }
            "#,
        );
        for part in [
            "directive @hot(level: Int = 1, tags: [String!]) on FIELD | QUERY",
            "scalar When",
            r#"GREEN @deprecated(reason: "use \"RED\"\nplease")"#,
            "interface Named implements Node",
            "type A implements Node & Named",
            "all: [[Int!]!]!",
            "union AB = A | B",
            r#"text: String = "q\"{}#\\""#,
            "deep: Deep! = {c: GREEN, list: []}",
            "must: Boolean!",
            "n: Int! = 3",
            "none: Int = null",
            "old: Int @deprecated",
            "mutation: Change",
        ] {
            assert!(sdl.contains(part), "{part}\n{sdl}");
        }
        for built_in in ["scalar Int", "scalar ID", "__Type", "directive @skip", "directive @deprecated"] {
            assert!(!sdl.contains(built_in), "{built_in}\n{sdl}");
        }
        let valid = |text: &str| ExecutableDocument::parse_and_validate(&schema, text, "q.graphql").is_ok();
        assert!(valid("{ab(box: {must: true}) {... on A {at}}}"));
        assert!(!valid("{ab(box: {}) {... on A {at}}}"));
        assert!(!valid("{nothing}"));
    }

    #[test]
    fn what_is_no_introspection_answer_is_none() {
        for answer in [
            json!(null),
            json!({}),
            json!({"__schema": null}),
            json!({"__schema": {"types": []}}),
            json!({"__schema": {"types": {}, "queryType": {"name": "Query"}}}),
            json!({"__schema": {"types": [], "queryType": {"name": "not a name"}}}),
        ] {
            assert_eq!(to_sdl(&answer), None, "{answer}");
        }
    }

    #[test]
    fn hostile_parts_cannot_change_the_rest() {
        let answer = |default: &str, name: &str| {
            json!({"__schema": {
                "queryType": {"name": "Query"},
                "directives": [{"name": "d", "locations": ["FIELD", "x on y"], "args": null}],
                "types": [
                    {"kind": "OBJECT", "name": "Query", "fields": [
                        {"name": "ok", "args": [{"name": "a", "defaultValue": default,
                            "type": {"kind": "NON_NULL", "ofType": {"kind": "SCALAR", "name": "Int"}}}],
                         "type": {"kind": "SCALAR", "name": "Int"}},
                        {"name": name, "args": [], "type": {"kind": "SCALAR", "name": "Int"}},
                        {"name": "odd", "args": [], "type": {"kind": "NON_NULL", "ofType": {"kind": "NON_NULL", "ofType": null}}},
                    ]},
                    {"kind": "SOMETHING", "name": "Else"},
                    {"kind": "SCALAR", "name": "Odd }"},
                    null, 7
                ]
            }})
        };
        for default in ["1) evil(b: Int = 2", "", "}", "1 # x", "$v", "1) {a}", "{", "[[[[", "@x", "1 @d"] {
            let sdl = to_sdl(&answer(default, "x: Int } type Evil { y")).unwrap();
            let schema = Schema::parse_and_validate(&sdl, "s.graphql")
                .unwrap_or_else(|e| panic!("{default}: {}\n{sdl}", e.errors));
            assert!(!sdl.contains("evil") && !sdl.contains("Evil"), "{sdl}");
            // An argument whose default cannot be read is still not required.
            assert!(ExecutableDocument::parse_and_validate(&schema, "{ok}", "q.graphql").is_ok(), "{default}\n{sdl}");
        }
    }
}
