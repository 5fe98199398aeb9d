//! Fields of the roots `Query` and `Mutation`.

use std::collections::HashMap;

use pipefy::{Query, introspection};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::introspect_type::{DEEPEST, Types};
use crate::tools::shared::list_at;
use crate::{Call, Domain, Explain, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Shows a GraphQL query of Pipefy's schema: arguments and result type.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct IntrospectQuery {
    /// E.g. card, pipe.
    query_name: String,
    /// Levels of argument types to put under `resolvedType`, up to 5.
    #[serde(default = "one")]
    max_depth: i64,
    /// Also give it as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

/// Shows a GraphQL mutation of Pipefy's schema: arguments and result type.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct IntrospectMutation {
    /// E.g. createCard.
    mutation_name: String,
    /// Levels of argument types to put under `resolvedType`, up to 5.
    #[serde(default = "one")]
    max_depth: i64,
    /// Also give it as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

fn one() -> i64 {
    1
}

const PERSONAS: &[Persona] = &[Persona::Auditor, Persona::Builder];

impl Read for IntrospectQuery {
    const OP: Op = Op::read("introspect_query", Domain::Integration, Shape::Text)
        .personas(PERSONAS)
        .no_output_schema()
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let shown = field(call, introspection::introspect_query(), "Query", &self.query_name, self.max_depth).await?;
        Ok(Outcome::new(shown).parsed(self.include_parsed))
    }
}

impl Read for IntrospectMutation {
    const OP: Op = Op::read("introspect_mutation", Domain::Integration, Shape::Text)
        .personas(PERSONAS)
        .no_output_schema()
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let name = &self.mutation_name;
        let shown = field(call, introspection::introspect_mutation(), "Mutation", name, self.max_depth).await?;
        Ok(Outcome::new(shown).parsed(self.include_parsed))
    }
}

async fn field(call: &Call<'_>, query: Query, root: &str, name: &str, depth: i64) -> Result<Value, ToolError> {
    let value = call.query(query).await.map_err(|e| Explain::doing("read the schema").map(call, e))?.value();
    if value.get("__type").is_none_or(Value::is_null) {
        return Err(ToolError::not_found(format!("The schema shows no root type '{root}' to this account.")));
    }
    let field = list_at(&value, "__type.fields").iter().find(|f| f.get("name").and_then(Value::as_str) == Some(name));
    let field = field.ok_or_else(|| {
        ToolError::not_found(format!("The root type '{root}' has no field '{name}'. Find names with `search_schema`."))
    })?;
    let mut shown = json!({
        "name": field.get("name"),
        "description": field.get("description"),
        "args": field.get("args").filter(|args| args.is_array()).cloned().unwrap_or_else(|| json!([])),
        "type": field.get("type"),
    });
    let mut types = Types { call, known: HashMap::new() };
    let depth = depth.clamp(1, DEEPEST);
    types.resolve(&mut shown, depth).await;
    // Arguments are what a caller fills in; the result is shown to who asks for more.
    types.resolve_own(&mut shown, depth - 1).await;
    Ok(shown)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn a_field_with_its_arguments_resolved() {
        for (tool, argument) in [("introspect_query", "query_name"), ("introspect_mutation", "mutation_name")] {
            let root = json!({"fields": [{"name": "x", "description": null, "args": [{"name": "input", "type": {"name": null, "ofType": {"name": "In"}}}], "type": {"name": "T"}}]});
            let mock = Mock::new().on("__type", root.clone()).on("__type", json!({"name": "In"}));
            let reply = mock.reply(tool, json!({argument: "x", "max_depth": 2, "include_parsed": true})).await;
            assert_eq!(reply["data"]["args"][0]["resolvedType"]["name"], "In");
            let reply = Mock::new().on("__type", root).reply(tool, json!({argument: "nope"})).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains("nope"));
            let reply = Mock::new().on("__type", json!(null)).reply(tool, json!({argument: "x"})).await;
            assert_eq!(reply["success"], false);
        }
    }
}
