//! Data look-ups: searches in another pipe's cards.

use pipefy::Id;
use pipefy::knowledge_bases::Knowledge;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::item::{self, Change, Changes, Ids};
use crate::tools::agents::behaviors::{lax_bool, level};
use crate::tools::agents::tokens::is_digits;
use crate::tools::shared::required_text;
use crate::{Domain, IdArg, IdKind, Op, Persona, Shape, ToolError};

/// Creates a knowledge base data lookup: a search in a source pipe's cards.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAiKnowledgeBaseDataLookup {
    pipe_uuid: String,
    name: String,
    /// At most 900 characters.
    description: String,
    /// Numeric id of the pipe to search.
    source_repo_id: Id,
    /// 1 to 30 field ids to give back.
    output_fields: Vec<String>,
    /// Static: {field, operator, value}. Filled by AI: {field, operator, usingFillWithAi: true, inputName, inputType,
    /// inputDescription}.
    conditions: Vec<Map<String, Value>>,
    /// Text to find in the cards.
    #[serde(default)]
    search_query: Option<String>,
}

/// Replaces a knowledge base data lookup's definition; without search_query it is cleared. Name and description stay when
/// left out.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAiKnowledgeBaseDataLookup {
    data_lookup_id: Id,
    pipe_uuid: String,
    /// Numeric id of the pipe to search.
    source_repo_id: Id,
    /// 1 to 30 field ids to give back.
    output_fields: Vec<String>,
    /// As in create_ai_knowledge_base_data_lookup.
    conditions: Vec<Map<String, Value>>,
    /// As in create_ai_knowledge_base_data_lookup.
    #[serde(default)]
    search_query: Option<String>,
    #[serde(default)]
    name: Option<String>,
    /// At most 900 characters.
    #[serde(default)]
    description: Option<String>,
}

/// Deletes a knowledge base data lookup for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAiKnowledgeBaseDataLookup {
    data_lookup_id: Id,
    pipe_uuid: String,
}

const KIND: Knowledge = Knowledge::DataLookup;
const BUILDER: &[Persona] = &[Persona::Builder];
const PIPE: IdArg = IdArg::new("pipe_uuid", IdKind::PipeUuid);
const SOURCE: IdArg = IdArg::new("source_repo_id", IdKind::Repo);
const ITEM: IdArg = IdArg::within("data_lookup_id", IdKind::KnowledgeBase);
/// Fields that a look-up gives back at most.
const OUTPUTS: usize = 30;

/// Checks a definition and puts it into `input`.
fn define(
    input: &mut Map<String, Value>,
    source_repo_id: &Id,
    output_fields: &[String],
    conditions: Vec<Map<String, Value>>,
    search_query: Option<&str>,
) -> Result<(), ToolError> {
    let source = source_repo_id.as_str();
    if !is_digits(source) {
        return Err(ToolError::invalid("source_repo_id must be a numeric pipe ID."));
    }
    if output_fields.is_empty() || output_fields.len() > OUTPUTS {
        return Err(ToolError::invalid(format!(
            "output_fields must hold at least one and at most {OUTPUTS} fields, not {}.",
            output_fields.len()
        )));
    }
    let mut outputs = Vec::new();
    for (i, field) in output_fields.iter().enumerate() {
        outputs.push(Value::from(required_text(&format!("output_fields[{i}]"), field)?));
    }
    if conditions.is_empty() {
        return Err(ToolError::invalid("conditions must hold at least one condition."));
    }
    let mut checked = Vec::new();
    for (i, given) in conditions.into_iter().enumerate() {
        let problems = match condition(given) {
            Ok(condition) => {
                checked.push(Value::Object(condition));
                continue;
            }
            Err(problems) => problems,
        };
        return Err(ToolError::invalid(format!("conditions[{i}]: {}", problems.join("; "))));
    }
    input.insert("sourceRepoId".to_owned(), source.into());
    input.insert("outputFields".to_owned(), outputs.into());
    input.insert("conditions".to_owned(), checked.into());
    if let Some(query) = search_query {
        input.insert("searchQuery".to_owned(), required_text("search_query", query)?.into());
    }
    Ok(())
}

/// One condition in the API's spelling.
fn condition(given: Map<String, Value>) -> Result<Map<String, Value>, Vec<String>> {
    const ALIASES: &[(&str, &str)] = &[
        ("using_fill_with_ai", "usingFillWithAi"),
        ("input_name", "inputName"),
        ("input_type", "inputType"),
        ("input_description", "inputDescription"),
        ("field_uuid", "fieldUuid"),
    ];
    const INPUTS: [&str; 3] = ["inputName", "inputType", "inputDescription"];
    const TEXTS: [&str; 8] =
        ["field", "operator", "value", "inputName", "inputType", "inputDescription", "attribute", "fieldUuid"];
    let mut condition = level(given, ALIASES);
    let mut problems: Vec<String> = condition
        .keys()
        .filter(|key| !TEXTS.contains(&key.as_str()) && key.as_str() != "usingFillWithAi")
        .map(|key| format!("unknown argument '{key}'"))
        .collect();
    let filled = match condition.get("usingFillWithAi").map(lax_bool) {
        None => false,
        Some(Some(flag)) => flag,
        Some(None) => {
            problems.push("usingFillWithAi: must be true or false".to_owned());
            false
        }
    };
    for key in TEXTS {
        match condition.get(key) {
            None if ["field", "operator"].contains(&key) => problems.push(format!("missing required argument '{key}'")),
            None => {}
            Some(Value::String(text)) if text.trim().is_empty() => problems.push(format!("{key}: must be non-empty")),
            Some(Value::String(text)) => {
                let text = text.trim().to_owned();
                condition.insert(key.to_owned(), text.into());
            }
            Some(_) => problems.push(format!("{key}: must be text")),
        }
    }
    let has = |key: &str| condition.contains_key(key);
    if filled {
        let missing: Vec<&str> = INPUTS.into_iter().filter(|key| !has(key)).collect();
        if !missing.is_empty() {
            problems.push(format!("a condition filled by AI needs {}", missing.join(", ")));
        }
        if has("value") {
            problems.push("a condition filled by AI must not set 'value'".to_owned());
        }
    } else {
        if !has("value") {
            problems.push("a static condition needs 'value'".to_owned());
        }
        let extra: Vec<&str> = INPUTS.into_iter().filter(|key| has(key)).collect();
        if !extra.is_empty() {
            problems.push(format!("{} only apply to AI-filled conditions", extra.join(", ")));
        }
    }
    condition.insert("usingFillWithAi".to_owned(), filled.into());
    if problems.is_empty() { Ok(condition) } else { Err(problems) }
}

impl Changes for CreateAiKnowledgeBaseDataLookup {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::write("create_ai_knowledge_base_data_lookup", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[PIPE, SOURCE]);

    fn change(self) -> Result<Change, ToolError> {
        let (pipe_uuid, mut input) = item::new_in(&self.pipe_uuid)?;
        item::texts(&mut input, Some(&self.name), None, Some(&self.description))?;
        let query = self.search_query.as_deref();
        define(&mut input, &self.source_repo_id, &self.output_fields, self.conditions, query)?;
        Ok(Change::Create { pipe_uuid, input })
    }
}

impl Changes for UpdateAiKnowledgeBaseDataLookup {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::write("update_ai_knowledge_base_data_lookup", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE, SOURCE]);

    fn change(self) -> Result<Change, ToolError> {
        let ids = Ids::new(&self.data_lookup_id, &self.pipe_uuid)?;
        let mut input = Map::new();
        let query = self.search_query.as_deref();
        define(&mut input, &self.source_repo_id, &self.output_fields, self.conditions, query)?;
        item::texts(&mut input, self.name.as_deref(), None, self.description.as_deref())?;
        Ok(Change::Update { ids, input })
    }
}

impl Changes for DeleteAiKnowledgeBaseDataLookup {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::destructive("delete_ai_knowledge_base_data_lookup", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        Ids::new(&self.data_lookup_id, &self.pipe_uuid).map(Change::Delete)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn arguments() -> Value {
        json!({"pipe_uuid": "u", "data_lookup_id": 5, "name": "N", "description": "d", "source_repo_id": " 1 ", "output_fields": [" title "],
            "conditions": [{"field": " f ", "operator": "eq", "using_fill_with_ai": "yes", "input_name": "n", "inputType": "string", "inputDescription": " d ", "value": null}]})
    }

    #[tokio::test]
    async fn each_writes_once() {
        let node = json!({"knowledgeBaseDataLookup": {"id": "5"}});
        let definition = json!([{"field": "f", "operator": "eq", "usingFillWithAi": true, "inputName": "n", "inputType": "string", "inputDescription": "d"}]);
        let sent = WriteRules::new("create_ai_knowledge_base_data_lookup", arguments())
            .write("createAiKnowledgeBaseDataLookup", node.clone())
            .check()
            .await;
        assert_eq!(sent[0].variables["input"]["conditions"], definition);
        assert_eq!(sent[0].variables["input"]["outputFields"], json!(["title"]));
        let sent = WriteRules::new("update_ai_knowledge_base_data_lookup", arguments())
            .read("aiKnowledgeBaseDataLookup", json!({"id": "5"}))
            .write("updateAiKnowledgeBaseDataLookup", node)
            .check()
            .await;
        assert!(sent[0].variables["input"].get("searchQuery").is_none());
        WriteRules::new("delete_ai_knowledge_base_data_lookup", arguments())
            .read("aiKnowledgeBaseDataLookup", json!({"id": "5"}))
            .write("deleteAiKnowledgeBaseDataLookup", json!({"success": true}))
            .check()
            .await;
    }

    #[tokio::test]
    async fn definitions_are_checked_before_anything_is_sent() {
        let condition = |more: Value| {
            let mut condition = json!({"field": "f", "operator": "eq"});
            for (key, value) in more.as_object().unwrap() {
                condition[key] = value.clone();
            }
            json!([condition])
        };
        for (key, value, part) in [
            ("source_repo_id", json!("abc"), "numeric pipe ID"),
            ("output_fields", json!([]), "output_fields"),
            ("output_fields", json!(vec!["f"; 31]), "at most 30"),
            ("output_fields", json!(["a", " "]), "output_fields[1]"),
            ("conditions", json!([]), "conditions"),
            ("conditions", condition(json!({})), "static condition"),
            ("conditions", condition(json!({"value": "x", "inputName": "n"})), "only apply to AI-filled"),
            (
                "conditions",
                condition(json!({"usingFillWithAi": true, "inputName": "n"})),
                "inputType, inputDescription",
            ),
            (
                "conditions",
                condition(
                    json!({"usingFillWithAi": true, "inputName": "n", "inputType": "t", "inputDescription": "d", "value": "x"}),
                ),
                "must not set 'value'",
            ),
            ("conditions", condition(json!({"value": "x", "other": 1})), "unknown argument 'other'"),
            ("conditions", condition(json!({"value": 5})), "conditions[0]"),
            ("search_query", json!(" "), "search_query"),
            ("description", json!("d".repeat(901)), "900"),
        ] {
            for tool in ["create_ai_knowledge_base_data_lookup", "update_ai_knowledge_base_data_lookup"] {
                let mock = Mock::new();
                let mut arguments = arguments();
                arguments[key] = value.clone();
                let reply = mock.reply(tool, arguments).await;
                assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{part}: {reply}");
                assert!(mock.sent().is_empty());
            }
        }
    }
}
