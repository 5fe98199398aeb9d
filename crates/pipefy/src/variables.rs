//! Variables of a caller's own document against a fetched schema (GraphQL specification, October 2021, 6.1.2): what does not fit
//! is told with its path and the nearest name, before anything is sent.

use apollo_compiler::ast::{Type, VariableDefinition};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::Value;

use crate::operation::Variables;

/// Problems told at most.
const MOST: usize = 20;

/// One line per value that does not fit its type: wrong kind, unknown or missing field, unknown enum value. Variables that no
/// operation declares are left alone, as servers do.
pub(crate) fn problems(schema: &Schema, document: &ExecutableDocument, variables: &Variables) -> Vec<String> {
    let mut check = Check { schema, found: Vec::new() };
    for operation in document.operations.iter() {
        for declared in &operation.variables {
            check.variable(declared, variables);
        }
    }
    check.found.truncate(MOST);
    check.found
}

struct Check<'s> {
    schema: &'s Schema,
    found: Vec<String>,
}

impl Check<'_> {
    fn variable(&mut self, declared: &VariableDefinition, variables: &Variables) {
        let name = declared.name.as_str();
        match variables.get(name) {
            Some(value) => self.value(&declared.ty, value, &format!("${name}")),
            None if declared.ty.is_non_null() && declared.default_value.is_none() => {
                let near = nearest(name, variables.keys().map(String::as_str));
                self.found.push(format!("${name} needs a value ({}){near}", declared.ty));
            }
            None => {}
        }
    }

    fn value(&mut self, ty: &Type, value: &Value, path: &str) {
        if value.is_null() {
            if ty.is_non_null() {
                self.found.push(format!("{path} must not be null ({ty})"));
            }
            return;
        }
        match (ty, value) {
            (Type::List(item) | Type::NonNullList(item), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.value(item, value, &format!("{path}[{index}]"));
                }
            }
            // One value stands for a list of one.
            (Type::List(item) | Type::NonNullList(item), value) => self.value(item, value, path),
            (Type::Named(name) | Type::NonNullNamed(name), value) => match self.schema.types.get(name) {
                Some(ExtendedType::InputObject(object)) => self.object(&object.clone(), value, path),
                Some(ExtendedType::Enum(choices)) => {
                    let known = value.as_str().is_some_and(|text| choices.values.contains_key(text));
                    if !known {
                        let names = choices.values.keys().map(|name| name.as_str());
                        let near = nearest(value.as_str().unwrap_or_default(), names);
                        self.found.push(format!("{path} is no value of {name}{near}"));
                    }
                }
                Some(ExtendedType::Scalar(_)) if !fits(name, value) => {
                    self.found.push(format!("{path} must be {name}, not {}", kind(value)));
                }
                _ => {}
            },
        }
    }

    fn object(&mut self, ty: &InputObjectType, value: &Value, path: &str) {
        let Some(given) = value.as_object() else {
            self.found.push(format!("{path} must be an object ({}), not {}", ty.name, kind(value)));
            return;
        };
        for (key, value) in given {
            match ty.fields.get(key.as_str()) {
                Some(field) => self.value(&field.ty, value, &format!("{path}.{key}")),
                None => {
                    let near = nearest(key, ty.fields.keys().map(|name| name.as_str()));
                    self.found.push(format!("{path}.{key} is no field of {}{near}", ty.name));
                }
            }
        }
        for (name, field) in &ty.fields {
            if field.is_required() && !given.contains_key(name.as_str()) {
                self.found.push(format!("{path}.{name} is missing ({})", field.ty));
            }
        }
    }
}

/// Whether a value can stand for a built-in scalar; whatever a service calls its own scalar takes anything.
fn fits(scalar: &str, value: &Value) -> bool {
    match scalar {
        "Int" => value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= 2_147_483_648.0),
        "Float" => value.is_number(),
        "String" => value.is_string(),
        "Boolean" => value.is_boolean(),
        "ID" => value.is_string() || value.is_i64() || value.is_u64(),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// `; did you mean X?` for the name that is nearest, however its words are joined; without one, the first few there are.
fn nearest<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> String {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let given = plain(given);
    let mut scored: Vec<(f64, &str)> = names.map(|name| (strsim::jaro_winkler(&given, &plain(name)), name)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    match scored.first() {
        Some((score, name)) if *score >= 0.85 => format!("; did you mean {name}?"),
        Some(_) => {
            let some: Vec<&str> = scored.iter().take(8).map(|(_, name)| *name).collect();
            format!("; there is {}", some.join(", "))
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    const SCHEMA: &str = "type Query { f(i: In, n: Int, ids: [ID!], c: Color): Int }
        input In { pipe_id: ID! title: String count: Int = 3 inner: [In!] extra: JSON }
        enum Color { RED BLUE } scalar JSON";

    #[test]
    fn what_does_not_fit_is_told_with_its_path_and_the_nearest_name() {
        let schema = Schema::parse_and_validate(SCHEMA, "s.graphql").unwrap();
        let text = "query($i: In!, $n: Int = 1, $ids: [ID!], $c: Color) { f(i: $i, n: $n, ids: $ids, c: $c) }";
        let document = ExecutableDocument::parse_and_validate(&schema, text, "d.graphql").unwrap();
        let told = |variables: Value| problems(&schema, &document, variables.as_object().unwrap()).join(" | ");
        for fits in [
            json!({"i": {"pipe_id": 7}, "other": 1}),
            json!({"i": {"pipe_id": "7", "title": null, "extra": [{"any": 1}]}, "n": 2.0, "ids": "5", "c": "RED"}),
            json!({"i": {"pipe_id": "7", "inner": {"pipe_id": "8"}}, "ids": ["a", 2], "n": null}),
        ] {
            assert_eq!(told(fits.clone()), "", "{fits}");
        }
        for (variables, parts) in [
            (json!({}), vec!["$i needs a value (In!)"]),
            (json!({"I": {}}), vec!["$i needs a value", "did you mean I?"]),
            (json!({"i": null}), vec!["$i must not be null"]),
            (
                json!({"i": {"pipeId": 1}}),
                vec!["$i.pipeId is no field of In; did you mean pipe_id?", "$i.pipe_id is missing"],
            ),
            (json!({"i": {"pipe_id": 1, "zzz": 1}}), vec!["$i.zzz is no field of In; there is "]),
            (json!({"i": {"pipe_id": true}}), vec!["$i.pipe_id must be ID, not true or false"]),
            (json!({"i": {"pipe_id": 1, "title": 5}}), vec!["$i.title must be String, not a number"]),
            (
                json!({"i": {"pipe_id": 1, "inner": [{"pipe_id": 1}, {"count": "3"}]}}),
                vec!["$i.inner[1].count must be Int, not text"],
            ),
            (json!({"i": [1]}), vec!["$i must be an object (In), not a list"]),
            (json!({"i": {"pipe_id": 1}, "n": 1.5}), vec!["$n must be Int"]),
            (json!({"i": {"pipe_id": 1}, "ids": ["a", null]}), vec!["$ids[1] must not be null"]),
            (json!({"i": {"pipe_id": 1}, "c": "blue"}), vec!["$c is no value of Color; did you mean BLUE?"]),
        ] {
            let told = told(variables.clone());
            for part in parts {
                assert!(told.contains(part), "{variables}: {told}");
            }
        }
    }
}
