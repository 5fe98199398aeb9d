use std::collections::HashMap;

use pipefy::introspection;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Call, Domain, Explain, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Shows a GraphQL type of Pipefy's schema: fields, input fields or enum values.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct IntrospectType {
    /// E.g. Card, CreateCardInput.
    type_name: String,
    /// Levels of referenced types to put under `resolvedType`, up to 5.
    #[serde(default = "one")]
    max_depth: i64,
    /// Also give it as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

fn one() -> i64 {
    1
}

impl Read for IntrospectType {
    const OP: Op = Op::read("introspect_type", Domain::Integration, Shape::Text)
        .personas(&[Persona::Auditor, Persona::Builder])
        .no_output_schema()
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let mut types = Types { call, known: HashMap::new() };
        let mut found =
            types.get(&self.type_name).await.map_err(|e| Explain::doing("read the schema").map(call, e))?.ok_or_else(
                || {
                    ToolError::not_found(format!(
                        "The schema has no type '{}'. Find names with `search_schema`.",
                        self.type_name
                    ))
                },
            )?;
        types.resolve(&mut found, self.max_depth.clamp(1, DEEPEST)).await;
        Ok(Outcome::new(found).parsed(self.include_parsed))
    }
}

/// Deeper than this a result is no longer read by anybody, and the number of types explodes.
pub(crate) const DEEPEST: i64 = 5;

/// Types shown below one; more are no help to anybody.
const MOST: usize = 200;

const SCALARS: [&str; 6] = ["ID", "String", "Int", "Float", "Boolean", "DateTime"];

/// Types by name; each is asked for once per call.
pub(crate) struct Types<'c, 'a> {
    pub(crate) call: &'c Call<'a>,
    pub(crate) known: HashMap<String, Option<Value>>,
}

impl Types<'_, '_> {
    /// One type, or `None` when the schema has no such name.
    pub(crate) async fn get(&mut self, name: &str) -> Result<Option<Value>, pipefy::Error> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let data = self.call.query(introspection::introspect_type(name)).await?;
        let found = data.value().get("__type").filter(|t| !t.is_null()).cloned();
        self.known.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// Puts referenced types under `resolvedType`, level by level. A type that cannot be read, that is being shown further
    /// up, or that would be one too many is left out.
    pub(crate) async fn resolve(&mut self, shown: &mut Value, depth: i64) {
        let mut path: Vec<String> = shown.get("name").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
        let mut left = MOST;
        self.descend(shown, depth, &mut path, &mut left).await;
    }

    /// Puts the type that a value's `type` refers to under its `resolvedType`.
    pub(crate) async fn resolve_own(&mut self, shown: &mut Value, depth: i64) {
        let Some(name) = referenced(shown).filter(|_| depth >= 2) else { return };
        if let Ok(Some(mut found)) = self.get(&name).await {
            self.resolve(&mut found, depth - 1).await;
            if let Value::Object(shown) = shown {
                shown.insert("resolvedType".to_owned(), found);
            }
        }
    }

    async fn descend(&mut self, shown: &mut Value, depth: i64, path: &mut Vec<String>, left: &mut usize) {
        if depth < 2 {
            return;
        }
        for list in ["fields", "inputFields", "args"] {
            let Some(entries) = shown.get_mut(list).and_then(Value::as_array_mut) else {
                continue;
            };
            for entry in entries {
                let Some(name) = referenced(entry).filter(|name| !path.contains(name)) else {
                    continue;
                };
                if *left == 0 || self.call.budget.is_over() {
                    return;
                }
                if let Ok(Some(mut found)) = self.get(&name).await {
                    *left -= 1;
                    path.push(name);
                    Box::pin(self.descend(&mut found, depth - 1, path, left)).await;
                    path.pop();
                    if let Value::Object(entry) = entry {
                        entry.insert("resolvedType".to_owned(), found);
                    }
                }
            }
        }
    }
}

/// The name of the type that an entry refers to, unless there is nothing to see in it.
fn referenced(entry: &Value) -> Option<String> {
    entry.get("type").and_then(concrete).filter(|name| !SCALARS.contains(&name.as_str()))
}

/// The first name going down `ofType`.
fn concrete(reference: &Value) -> Option<String> {
    let mut reference = Some(reference);
    while let Some(one) = reference.filter(|r| r.is_object()) {
        if let Some(name) = one.get("name").and_then(Value::as_str) {
            return Some(name.to_owned());
        }
        reference = one.get("ofType");
    }
    None
}
