use std::collections::HashMap;

use pipefy::introspection;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{Call, Domain, Explain, Op, Outcome, Persona, Read, Shape, ToolError};

/// Shows a GraphQL type of Pipefy's schema: fields, input fields or enum values.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct IntrospectType {
    /// E.g. Card, CreateCardInput.
    type_name: String,
    /// Levels of referenced types to put under `resolvedType`, up to 5.
    #[serde(default = "one")]
    max_depth: i64,
    /// Also return the result as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

fn one() -> i64 {
    1
}

impl Read for IntrospectType {
    const OP: Op = Op::read("introspect_type", Domain::Integration, Shape::Text)
        .personas(&[Persona::Auditor, Persona::Builder])
        .no_output_schema();

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let mut types = Types { call, known: HashMap::new() };
        let mut found = types
            .get(&self.type_name)
            .await
            .map_err(|e| Explain::doing("read the schema").map(call, e))?
            .ok_or_else(|| {
                ToolError::not_found(format!(
                    "The schema has no type '{}'. Find names with `search_schema`.",
                    self.type_name
                ))
            })?;
        types.resolve(&mut found, self.max_depth.clamp(1, DEEPEST)).await;
        Ok(Outcome::new(found).parsed(self.include_parsed))
    }
}

/// Deeper than this a result is no longer read by anybody, and the number of types explodes.
pub(crate) const DEEPEST: i64 = 5;

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

    /// Puts referenced types under `resolvedType`, level by level. A type that cannot be read is left out.
    pub(crate) async fn resolve(&mut self, shown: &mut Value, depth: i64) {
        if depth < 2 {
            return;
        }
        for list in ["fields", "inputFields", "args"] {
            let Some(entries) = shown.get_mut(list).and_then(Value::as_array_mut) else {
                continue;
            };
            for entry in entries {
                let Some(name) = entry.get("type").and_then(concrete).filter(|n| !SCALARS.contains(&n.as_str())) else {
                    continue;
                };
                if self.call.budget.is_over() {
                    return;
                }
                if let Ok(Some(mut found)) = self.get(&name).await {
                    Box::pin(self.resolve(&mut found, depth - 1)).await;
                    if let Value::Object(entry) = entry {
                        entry.insert("resolvedType".to_owned(), found);
                    }
                }
            }
        }
    }
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
