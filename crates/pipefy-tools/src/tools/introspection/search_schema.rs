use pipefy::introspection;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::list_at;
use crate::{Call, Domain, Explain, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Finds types of Pipefy's GraphQL schema by a word in name or description, and queries and mutations by name.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SearchSchema {
    /// Empty finds all.
    keyword: String,
    /// OBJECT, INPUT_OBJECT, ENUM, SCALAR, INTERFACE or UNION.
    #[serde(default)]
    kind: Option<String>,
    /// Also give it as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

impl Read for SearchSchema {
    const OP: Op = Op::read("search_schema", Domain::Integration, Shape::Text)
        .personas(&[Persona::Auditor, Persona::Builder])
        .no_output_schema()
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("read the schema");
        let value = call.query(introspection::schema_types()).await.map_err(|e| explain.map(call, e))?.value();
        let word = self.keyword.to_lowercase();
        let text = |one: &Value, key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let found: Vec<Value> = list_at(&value, "__schema.types")
            .iter()
            .filter(|one| !text(one, "name").starts_with("__"))
            .filter(|one| ["name", "description"].iter().any(|key| text(one, key).to_lowercase().contains(&word)))
            .filter(|one| self.kind.as_deref().is_none_or(|kind| text(one, "kind") == kind))
            .map(|one| json!({ "name": one.get("name"), "kind": one.get("kind"), "description": one.get("description") }))
            .collect();
        let mut shown = json!({ "types": found });
        // Root fields are what most searches are after; when there are none, the result is that of types alone.
        if self.kind.is_none() && !word.is_empty() {
            for (key, root) in [("queries", "Query"), ("mutations", "Mutation")] {
                let names = root_fields(call, root, &word).await;
                if let (Value::Object(shown), false) = (&mut shown, names.is_empty()) {
                    shown.insert(key.to_owned(), names.into());
                }
            }
        }
        Ok(Outcome::new(shown).parsed(self.include_parsed))
    }
}

/// Root fields whose name holds the word; none when they cannot be read.
async fn root_fields(call: &Call<'_>, root: &str, word: &str) -> Vec<Value> {
    let Ok(data) = call.query(introspection::root_fields(root)).await else { return Vec::new() };
    list_at(&data.value(), "__type.fields")
        .iter()
        .filter_map(|field| field.get("name").filter(|n| n.as_str().is_some_and(|n| n.to_lowercase().contains(word))))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn words_are_found_in_names_and_descriptions() {
        let mock = Mock::new()
            .on("__schema", json!({"types": [{"name": "Label", "kind": "OBJECT", "description": null}, {"name": "X", "kind": "ENUM", "description": "has a LABEL"},
                {"name": "__Label", "kind": "OBJECT"}]}))
            .on("__type", json!({"fields": [{"name": "createLabel"}, {"name": "other"}]}));
        let reply = mock.reply("search_schema", json!({"keyword": "label", "include_parsed": true})).await;
        assert_eq!(reply["data"]["types"].as_array().unwrap().len(), 2);
        assert_eq!(reply["data"]["mutations"], json!(["createLabel"]));
        let reply =
            mock.reply("search_schema", json!({"keyword": "label", "kind": "ENUM", "include_parsed": true})).await;
        assert_eq!(reply["data"], json!({"types": [{"name": "X", "kind": "ENUM", "description": "has a LABEL"}]}));
    }
}
