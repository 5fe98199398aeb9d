//! Providers of an organisation's own, from a configuration file on this machine. What the file holds is a secret: it is
//! sent, and never shown, not even by a dry run.

use pipefy::providers;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tools::classified::{PROVIDERS, done};
use crate::tools::local_file;
use crate::tools::shared::required_text;
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Kind, Op, Outcome, Persona, Plan, Shape, ToolError, Write, dig,
    unknown,
};

/// Creates an LLM provider of the organization's own from a configuration file.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateLlmProvider {
    organization_uuid: String,
    name: String,
    /// JSON object on the server's machine: provider (hyphenated vendor), keys, model. At most 256 KiB.
    configuration_file_path: String,
}

/// Replaces an LLM provider's whole configuration from a file. __REDACTED__ keeps a stored secret.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateLlmProvider {
    provider_id: CheckedId,
    organization_uuid: String,
    /// JSON object on the server's machine, complete. At most 256 KiB.
    configuration_file_path: String,
    #[serde(default)]
    name: Option<String>,
}

/// Bytes of a configuration file at most.
const LARGEST: u64 = 262_144;

/// The contents of a configuration file; prints nothing of itself.
pub(crate) struct Configuration(Map<String, Value>);

async fn read(call: &Call<'_>, path: &str) -> Result<Configuration, ToolError> {
    let local = call.local("Create and change LLM providers where the configuration file is.")?;
    let refused = |reason: &str| ToolError::new(Kind::Input, format!("Configuration file '{path}': {reason}."));
    let place = local_file::expand(path, local).map_err(|reason| refused(&reason))?;
    let facts = tokio::fs::metadata(&place).await.map_err(|e| refused(&local_file::reason(&e)))?;
    if !facts.is_file() {
        return Err(refused("it is no regular file"));
    }
    if facts.len() > LARGEST {
        return Err(refused(&format!("it is too large ({} bytes, at most {LARGEST})", facts.len())));
    }
    let bytes = tokio::fs::read(&place).await.map_err(|e| refused(&local_file::reason(&e)))?;
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8 text"))?;
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(map)) if !map.is_empty() => Ok(Configuration(map)),
        Ok(_) => Err(refused("it must hold a non-empty JSON object")),
        Err(error) => Err(refused(&format!("it is not JSON (line {}, column {})", error.line(), error.column()))),
    }
}

fn hidden(path: &str) -> Value {
    unknown(&format!("the contents of {path}, not shown"))
}

async fn send(plan: &Plan<Configuration>, act: &Act<'_, '_>, name: &str) -> Result<Value, ToolError> {
    let Some(mutation) = plan.mutations().next() else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    let mut mutation = mutation.clone();
    if let Some(Value::Object(input)) = mutation.variables_mut().get_mut("input") {
        input.insert("configuration".to_owned(), plan.keep.0.clone().into());
    }
    let data = act.send(&mutation).await.map_err(|e| PROVIDERS.unproven(e, name))?.value();
    Ok(dig(&data, name).and_then(|p| p.get("llmProvider")).cloned().unwrap_or(Value::Null))
}

impl Write for CreateLlmProvider {
    const OP: Op = Op::write("create_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Admin])
        .local_only()
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)]);
    type Keep = Configuration;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Configuration>, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let name = required_text("name", &self.name)?;
        let path = required_text("configuration_file_path", &self.configuration_file_path)?;
        let configuration = read(call, path).await?;
        let mut input = Map::new();
        input.insert("organizationUuid".to_owned(), organization.into());
        input.insert("name".to_owned(), name.into());
        input.insert("configuration".to_owned(), hidden(path));
        Ok(Plan::new(configuration).then(providers::create_llm_provider(input)))
    }

    async fn act(plan: &Plan<Configuration>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let provider = send(plan, act, "createLlmProvider").await?;
        Ok(done(act, json!({ "provider": provider }), "LLM provider created."))
    }
}

impl Write for UpdateLlmProvider {
    const OP: Op = Op::write("update_llm_provider", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Admin])
        .local_only()
        .touches(&[
            IdArg::within("provider_id", IdKind::Provider),
            IdArg::new("organization_uuid", IdKind::Organization),
        ]);
    type Keep = Configuration;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Configuration>, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let path = required_text("configuration_file_path", &self.configuration_file_path)?;
        let name = self.name.as_deref().map(|name| required_text("name", name)).transpose()?;
        let configuration = read(call, path).await?;
        let mut input = Map::new();
        input.insert("id".to_owned(), self.provider_id.as_str().into());
        input.insert("organizationUuid".to_owned(), organization.into());
        if let Some(name) = name {
            input.insert("name".to_owned(), name.into());
        }
        input.insert("configuration".to_owned(), hidden(path));
        Ok(Plan::new(configuration).then(providers::update_llm_provider(input)))
    }

    async fn act(plan: &Plan<Configuration>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let provider = send(plan, act, "updateLlmProvider").await?;
        Ok(done(act, json!({ "provider": provider }), "LLM provider updated."))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn arguments(path: &std::path::Path) -> Value {
        json!({"provider_id": 5, "organization_uuid": "o", "name": " L ", "configuration_file_path": path})
    }

    #[tokio::test]
    async fn the_file_is_sent_once_and_never_shown() {
        let file = file(r#"{"provider":"open-ai","apiKey":"canary"}"#);
        for (tool, root) in [("create_llm_provider", "createLlmProvider"), ("update_llm_provider", "updateLlmProvider")]
        {
            let sent = WriteRules::new(tool, arguments(file.path()))
                .write(root, json!({"llmProvider": {"id": "1"}}))
                .check()
                .await;
            assert_eq!(sent[0].variables["input"]["configuration"]["apiKey"], "canary");
            assert_eq!(sent[0].variables["input"]["name"], "L");
            let mut dry = arguments(file.path());
            dry["dry_run"] = json!(true);
            let reply = Mock::new().reply(tool, dry).await;
            assert_eq!(reply["dry_run"], true);
            assert!(!reply.to_string().contains("canary"));
            let reply = Mock::new().on(root, json!({"llmProvider": null})).reply(tool, arguments(file.path())).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains("may not have persisted"), "{reply}");
        }
    }

    #[tokio::test]
    async fn a_bad_file_is_named_and_its_contents_are_not() {
        for (text, part) in
            [("", "line"), ("[\"canary\"]", "non-empty JSON object"), ("{}", "non-empty"), ("{\"canary\": }", "column")]
        {
            let file = file(text);
            let mock = Mock::new();
            let reply = mock.reply("create_llm_provider", arguments(file.path())).await;
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(
                message.contains(part)
                    && message.contains(&*file.path().to_string_lossy())
                    && !message.contains("canary"),
                "{message}"
            );
            assert!(mock.sent().is_empty());
        }
        for path in ["/nonexistent/x.json", "~nobody/x.json", " "] {
            let mock = Mock::new();
            let reply = mock.reply("create_llm_provider", arguments(path.as_ref())).await;
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.contains(if path == " " { "configuration_file_path" } else { path }), "{message}");
            assert!(mock.sent().is_empty());
        }
        let huge = file(&" ".repeat(262_145));
        assert!(
            Mock::new().reply("create_llm_provider", arguments(huge.path())).await["error"]["message"]
                .as_str()
                .unwrap()
                .contains("262144")
        );
    }
}
