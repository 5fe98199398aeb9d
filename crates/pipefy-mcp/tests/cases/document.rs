//! A GraphQL request as the mock sees it: root fields, their arguments after variables are filled in, and what is
//! selected below them.

use apollo_compiler::ast::{Definition, Directive, Document, OperationType, Selection, Value as Literal};
use serde_json::{Map, Value};

/// The operation that a request executes.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) is_mutation: bool,
    pub(crate) fields: Vec<RootField>,
}

/// One field at the root of an operation.
#[derive(Debug)]
pub(crate) struct RootField {
    pub(crate) name: String,
    /// Where the answer goes: the alias, else the name.
    pub(crate) key: String,
    pub(crate) arguments: Value,
    pub(crate) selection: Vec<Selected>,
}

/// A selected field; fragments are spread, conditions applied.
#[derive(Debug)]
pub(crate) struct Selected {
    name: String,
    key: String,
    below: Vec<Selected>,
}

impl Operation {
    /// Reads the body of a GraphQL request.
    pub(crate) fn read(body: &Value) -> Result<Self, String> {
        let text = body.get("query").and_then(Value::as_str).ok_or("the request has no query")?;
        let document = Document::parse(text, "request.graphql").map_err(|error| error.errors.to_string())?;
        let wanted = body.get("operationName").and_then(Value::as_str);
        let operations: Vec<_> = document
            .definitions
            .iter()
            .filter_map(|definition| match definition {
                Definition::OperationDefinition(operation) => Some(operation),
                _ => None,
            })
            .filter(|operation| wanted.is_none_or(|wanted| operation.name.as_ref().is_some_and(|name| name == wanted)))
            .collect();
        let [operation] = operations.as_slice() else {
            return Err(format!("{} operations to choose from", operations.len()));
        };

        let sent = body.get("variables").and_then(Value::as_object);
        let mut variables = Map::new();
        for declared in &operation.variables {
            let name = declared.name.as_str();
            let value = sent.and_then(|sent| sent.get(name)).cloned();
            let default = || declared.default_value.as_ref().and_then(|value| literal(value, &Map::new()));
            if let Some(value) = value.or_else(default) {
                variables.insert(name.to_owned(), value);
            }
        }

        let reader = Reader { document: &document, variables: &variables };
        let mut fields = Vec::new();
        reader.root(&operation.selection_set, &mut fields);
        Ok(Self { is_mutation: operation.operation_type == OperationType::Mutation, fields })
    }
}

struct Reader<'a> {
    document: &'a Document,
    variables: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn root(&self, selections: &[Selection], fields: &mut Vec<RootField>) {
        self.each(selections, &mut |field| {
            let arguments: Map<String, Value> = field
                .arguments
                .iter()
                .filter_map(|argument| Some((argument.name.to_string(), literal(&argument.value, self.variables)?)))
                .collect();
            fields.push(RootField {
                name: field.name.to_string(),
                key: field.response_name().to_string(),
                arguments: Value::Object(arguments),
                selection: self.below(&field.selection_set),
            });
        });
    }

    fn below(&self, selections: &[Selection]) -> Vec<Selected> {
        let mut found: Vec<Selected> = Vec::new();
        self.each(selections, &mut |field| {
            let key = field.response_name().to_string();
            let below = self.below(&field.selection_set);
            match found.iter_mut().find(|selected| selected.key == key) {
                Some(selected) => selected.below.extend(below),
                None => found.push(Selected { name: field.name.to_string(), key, below }),
            }
        });
        found
    }

    /// Every field of a selection set, through fragments. A type condition is taken as met: the mock knows no types.
    fn each(&self, selections: &[Selection], visit: &mut dyn FnMut(&apollo_compiler::ast::Field)) {
        for selection in selections {
            match selection {
                Selection::Field(field) if self.included(&field.directives) => visit(field),
                Selection::InlineFragment(inline) if self.included(&inline.directives) => {
                    self.each(&inline.selection_set, visit);
                }
                Selection::FragmentSpread(spread) if self.included(&spread.directives) => {
                    for definition in &self.document.definitions {
                        if let Definition::FragmentDefinition(fragment) = definition
                            && fragment.name == spread.fragment_name
                        {
                            self.each(&fragment.selection_set, visit);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn included(&self, directives: &[apollo_compiler::Node<Directive>]) -> bool {
        directives.iter().all(|directive| {
            let condition = || {
                let argument = directive.arguments.iter().find(|argument| argument.name == "if")?;
                literal(&argument.value, self.variables)?.as_bool()
            };
            match directive.name.as_str() {
                "include" => condition().unwrap_or(true),
                "skip" => !condition().unwrap_or(false),
                _ => true,
            }
        })
    }
}

/// A literal as JSON; nothing for a variable that was not given.
fn literal(value: &Literal, variables: &Map<String, Value>) -> Option<Value> {
    Some(match value {
        Literal::Null => Value::Null,
        Literal::Enum(name) => Value::String(name.to_string()),
        Literal::Variable(name) => return variables.get(name.as_str()).cloned(),
        Literal::String(text) => Value::String(text.clone()),
        Literal::Boolean(value) => Value::Bool(*value),
        Literal::Int(number) => serde_json::from_str(number.as_str()).unwrap_or(Value::Null),
        Literal::Float(number) => serde_json::from_str(number.as_str()).unwrap_or(Value::Null),
        Literal::List(items) => {
            items.iter().map(|item| literal(item, variables).unwrap_or(Value::Null)).collect::<Vec<_>>().into()
        }
        Literal::Object(fields) => Value::Object(
            fields.iter().filter_map(|(name, value)| Some((name.to_string(), literal(value, variables)?))).collect(),
        ),
    })
}

/// What is left of a recorded value when only `selection` was asked for, as a real server would answer. A selected
/// field that was not recorded is absent. A recorded key is looked up by alias first, then by name. A thing that has
/// none of the selected fields was written by hand to show an odd answer, and stays as it is.
pub(crate) fn project(value: &Value, selection: &[Selected]) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| project(item, selection)).collect::<Vec<_>>().into(),
        Value::Object(fields) if !selection.is_empty() => {
            let selected: Map<String, Value> = selection
                .iter()
                .filter_map(|selected| {
                    let value = fields.get(&selected.key).or_else(|| fields.get(&selected.name))?;
                    Some((selected.key.clone(), project(value, &selected.below)))
                })
                .collect();
            if selected.is_empty() { value.clone() } else { Value::Object(selected) }
        }
        _ => value.clone(),
    }
}

/// How many of the selected fields a recorded value has, in thousandths.
pub(crate) fn coverage(value: &Value, selection: &[Selected]) -> u32 {
    fn count(value: &Value, selection: &[Selected], found: &mut u32, asked: &mut u32) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| count(item, selection, found, asked)),
            Value::Object(fields) => {
                for selected in selection {
                    *asked += 1;
                    if let Some(value) = fields.get(&selected.key).or_else(|| fields.get(&selected.name)) {
                        *found += 1;
                        count(value, &selected.below, found, asked);
                    }
                }
            }
            _ => {}
        }
    }
    let (mut found, mut asked) = (0, 0);
    count(value, selection, &mut found, &mut asked);
    (found * 1000).checked_div(asked).unwrap_or(1000)
}

/// Adds to `value` what only `other` has. Lists are joined item by item when they have the same
/// length; things with different ids stay apart.
pub(crate) fn fill(value: &mut Value, other: &Value) {
    match (value, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let other_thing = fields.get("id").zip(others.get("id")).is_some_and(|(id, other)| id != other);
            if other_thing {
                return;
            }
            for (key, other) in others {
                match fields.get_mut(key) {
                    Some(value) => fill(value, other),
                    None => {
                        fields.insert(key.clone(), other.clone());
                    }
                }
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter_mut().zip(others).for_each(|(item, other)| fill(item, other));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(query: &str, variables: Value) -> Operation {
        Operation::read(&json!({"query": query, "variables": variables})).unwrap()
    }

    #[test]
    fn arguments_have_their_variables_filled_in() {
        let operation = read(
            "mutation M($i: In!, $n: Int = 3, $absent: ID) { d: drop(input: {a: $i, list: [$n, 1], kind: RED, b: $absent}) { ok } }",
            json!({"i": {"x": null}}),
        );
        assert!(operation.is_mutation);
        let field = &operation.fields[0];
        assert_eq!((field.name.as_str(), field.key.as_str()), ("drop", "d"));
        assert_eq!(field.arguments, json!({"input": {"a": {"x": null}, "list": [3, 1], "kind": "RED"}}));
    }

    #[test]
    fn answers_hold_what_was_selected() {
        let operation = read(
            "query($more: Boolean!) { card { id t: title ...F extra @include(if: $more) ... on Card { phase { name } } } }
             fragment F on Card { labels { id } }",
            json!({"more": false}),
        );
        let recorded = json!({
            "id": "5", "title": "T", "secret": 1, "extra": 2, "labels": [{"id": 1, "name": "x"}],
            "phase": {"id": 1, "name": "P"},
        });
        let selection = &operation.fields[0].selection;
        assert_eq!(
            project(&recorded, selection),
            json!({"id": "5", "t": "T", "labels": [{"id": 1}], "phase": {"name": "P"}})
        );
        assert_eq!(coverage(&recorded, selection), 1000);
        assert_eq!(coverage(&json!({"id": "5", "phase": null}), selection), 500);
    }

    #[test]
    fn an_operation_must_be_chosen_when_there_are_two() {
        let request = json!({"query": "query A { a } query B { b }"});
        assert!(Operation::read(&request).is_err());
        let request = json!({"query": "query A { a } query B { b }", "operationName": "B"});
        assert_eq!(Operation::read(&request).unwrap().fields[0].name, "b");
    }

    #[test]
    fn gaps_are_filled_from_the_same_thing_only() {
        let mut value = json!({"id": 1, "list": [{"id": 1}, {"id": 2}]});
        fill(&mut value, &json!({"id": 1, "name": "n", "list": [{"id": 1, "x": 1}, {"id": 3, "x": 3}]}));
        assert_eq!(value, json!({"id": 1, "list": [{"id": 1, "x": 1}, {"id": 2}], "name": "n"}));
    }
}
