use pipefy::Id;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::workspace::{gateway, open};
use crate::call::Local;
use crate::ipaas::{Connection, random};
use crate::{Act, Call, Domain, IdArg, IdKind, Kind, Op, Outcome, Persona, Plan, Reach, Shape, ToolError, Write};

/// Creates an app connection in a pipe's iPaaS workspace, or renews one with its external_id. Either with connection_type and
/// value, or with oauth from get_ipaas_connection_auth_url.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateIpaasConnection {
    pipe_id: Id,
    /// E.g. @activepieces/piece-slack.
    piece_name: String,
    /// SECRET_TEXT, BASIC_AUTH or CUSTOM_AUTH.
    #[serde(default)]
    connection_type: Option<String>,
    /// E.g. {secret_text}. Keep secrets out of the chat: {"$env": "PIPEFY_IPAAS_CONNECTION_X"} stands for a variable of a local
    /// server.
    #[serde(default)]
    value: Option<Map<String, Value>>,
    /// {completion, authorization_response}.
    #[serde(default)]
    oauth: Option<Map<String, Value>>,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    external_id: Option<String>,
}

const TYPES: [&str; 3] = ["SECRET_TEXT", "BASIC_AUTH", "CUSTOM_AUTH"];
const PREFIX: &str = "PIPEFY_IPAAS_CONNECTION_";

/// What is created; the secret in it is never shown.
pub(crate) struct New {
    pipe_id: String,
    external_id: String,
    display_name: String,
    piece_name: String,
    kind: String,
    value: Map<String, Value>,
}

impl Write for CreateIpaasConnection {
    const OP: Op = Op::write("create_ipaas_connection", Domain::Integration, Shape::Text)
        .personas(&[Persona::Admin])
        .open_world()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .reaches(Reach::Anything);
    type Keep = New;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<New>, ToolError> {
        gateway(call)?;
        if self.piece_name.trim().is_empty() {
            return Err(ToolError::refused_value("'piece_name' must be non-empty."));
        }
        let (kind, value) = match (self.oauth, self.connection_type, self.value) {
            (Some(oauth), None, None) => from_consent(&oauth)?,
            (Some(_), _, _) => {
                return Err(ToolError::refused_value("Give either oauth, or connection_type and value, not both."));
            }
            (None, kind, value) => from_value(call, kind, value)?,
        };
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let external_id = match given(self.external_id) {
            Some(id) => id,
            None => {
                let digits: String = random::<6>()?.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("mcp-{digits}")
            }
        };
        let display_name = given(self.display_name).unwrap_or_else(|| external_id.clone());
        let pipe_id = self.pipe_id.as_str().to_owned();
        let piece_name = self.piece_name.trim().to_owned();
        let step = format!(
            "create the {kind} connection '{external_id}' of {piece_name} in the iPaaS workspace of pipe {pipe_id}"
        );
        Ok(Plan::new(New { pipe_id, external_id, display_name, piece_name, kind, value }).transfer(step))
    }

    async fn act(plan: &Plan<New>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let New { pipe_id, external_id, display_name, piece_name, kind, value } = &plan.keep;
        let connection = Connection {
            external_id: external_id.clone(),
            display_name: display_name.clone(),
            piece_name: piece_name.clone(),
            kind: kind.clone(),
            value: value.clone(),
        };
        let answer = open(act, pipe_id).await?.upsert(connection).await?;
        let shown: Map<String, Value> = ["id", "externalId", "displayName", "pieceName", "status", "type"]
            .into_iter()
            .map(|key| (key.to_owned(), answer.get(key).cloned().unwrap_or(Value::Null)))
            .collect();
        Ok(Outcome::new(json!({
            "pipe_id": pipe_id,
            "connection": shown,
            "hint": "Refer to this connection by its externalId.",
        })))
    }
}

/// A connection that a person consented to.
fn from_consent(oauth: &Map<String, Value>) -> Result<(String, Map<String, Value>), ToolError> {
    let refused = |text: String| Err(ToolError::refused_value(text));
    let Some(completion) = oauth.get("completion").and_then(Value::as_object) else {
        return refused(
            "oauth.completion must be the object that get_ipaas_connection_auth_url gave, verbatim.".to_owned(),
        );
    };
    let text = |key: &str| completion.get(key).and_then(Value::as_str).filter(|t| !t.trim().is_empty());
    let (kind, client_id, redirect_url) = match (text("type"), text("client_id"), text("redirect_url")) {
        (Some(kind), Some(client), Some(redirect)) => (kind, client, redirect),
        _ => {
            let missing: Vec<&str> =
                ["type", "client_id", "redirect_url"].into_iter().filter(|key| text(key).is_none()).collect();
            return refused(format!("oauth.completion lacks {}; pass it verbatim.", missing.join(", ")));
        }
    };
    let response = oauth.get("authorization_response").and_then(Value::as_str).unwrap_or_default().trim();
    if response.is_empty() {
        return refused(
            "oauth.authorization_response is empty; paste the URL the user was sent to after consenting.".to_owned(),
        );
    }
    let code = if response.contains('?') || response.contains("://") {
        match code_of(response) {
            Some(code) => code,
            None => return refused("oauth.authorization_response is a URL without a code parameter.".to_owned()),
        }
    } else {
        response.to_owned()
    };
    let mut value = Map::new();
    for (key, text) in [
        ("client_id", client_id),
        ("code", &code),
        ("scope", completion.get("scope").and_then(Value::as_str).unwrap_or_default()),
        ("redirect_url", redirect_url),
    ] {
        value.insert(key.to_owned(), text.into());
    }
    // The wire calls it a challenge; what it needs is the verifier.
    if let Some(verifier) = completion.get("code_verifier").filter(|v| !v.is_null()) {
        value.insert("code_challenge".to_owned(), verifier.clone());
    }
    Ok((kind.to_owned(), value))
}

/// The percent-decoded `code` of a URL; `+` stays.
fn code_of(url: &str) -> Option<String> {
    let at = ["?code=", "&code="].iter().filter_map(|mark| Some(url.find(mark)? + mark.len())).min()?;
    let rest = url.get(at..)?;
    let end = rest.find(|c: char| c == '&' || c == '#' || c.is_whitespace()).unwrap_or(rest.len());
    let code = percent_encoding::percent_decode_str(rest.get(..end)?).decode_utf8_lossy().into_owned();
    Some(code).filter(|code| !code.trim().is_empty())
}

/// A connection from a secret.
fn from_value(
    call: &Call<'_>,
    kind: Option<String>,
    value: Option<Map<String, Value>>,
) -> Result<(String, Map<String, Value>), ToolError> {
    let Some(kind) = kind.filter(|kind| TYPES.contains(&kind.as_str())) else {
        return Err(ToolError::refused_value(format!("connection_type must be one of {}.", TYPES.join(", "))));
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Err(ToolError::refused_value("value must be a non-empty object."));
    };
    match resolved(&Value::Object(value), call.toolbox.local.as_ref())? {
        Value::Object(value) => Ok((kind, value)),
        _ => Err(ToolError::refused_value("value must be an object of named parts, not one variable.")),
    }
}

/// The value with references to variables of this machine replaced.
fn resolved(value: &Value, local: Option<&Local>) -> Result<Value, ToolError> {
    match value {
        Value::Object(map) if map.contains_key("$env") => variable(map, local),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| Ok((key.clone(), resolved(value, local)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
        Value::Array(list) => list.iter().map(|v| resolved(v, local)).collect::<Result<_, _>>().map(Value::Array),
        other => Ok(other.clone()),
    }
}

fn variable(map: &Map<String, Value>, local: Option<&Local>) -> Result<Value, ToolError> {
    let Some(local) = local else {
        return Err(ToolError::new(
            Kind::Refused,
            "References to variables ($env) cannot be used on a hosted server; pass the value itself.",
        ));
    };
    if map.len() != 1 {
        return Err(ToolError::refused_value("An object with $env must have only that key."));
    }
    let name = map.get("$env").and_then(Value::as_str).filter(|name| name.starts_with(PREFIX));
    let Some(name) = name else {
        return Err(ToolError::refused_value(format!("$env must name a variable that starts with {PREFIX}.")));
    };
    local
        .env
        .get(name)
        .cloned()
        .ok_or_else(|| ToolError::refused_value(format!("The variable {name} is not set on the server's machine.")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn codes_come_bare_or_in_a_url() {
        for (text, code) in [
            ("https://x/redirect?code=a%2Fb+c&state=1", Some("a/b+c")),
            ("https://x/?state=1&code=z#f", Some("z")),
            ("https://x/?state=1", None),
            ("https://x/?code=", None),
        ] {
            assert_eq!(code_of(text).as_deref(), code, "{text}");
        }
        let completion = json!({"type": "PLATFORM_OAUTH2", "client_id": "c", "redirect_url": "https://x/redirect", "code_verifier": "v"});
        let (kind, value) =
            from_consent(&object(json!({"completion": completion, "authorization_response": " bare "}))).unwrap();
        assert_eq!(kind, "PLATFORM_OAUTH2");
        assert_eq!(
            Value::Object(value),
            json!({"client_id": "c", "code": "bare", "scope": "", "redirect_url": "https://x/redirect", "code_challenge": "v"})
        );
        for (oauth, part) in [
            (json!({}), "verbatim"),
            (json!({"completion": {"type": "x"}}), "client_id, redirect_url"),
            (
                json!({"completion": {"type": "x", "client_id": "c", "redirect_url": "r"}, "authorization_response": null}),
                "is empty",
            ),
        ] {
            assert!(from_consent(&object(oauth)).unwrap_err().message.contains(part));
        }
    }

    #[test]
    fn variables_are_only_those_meant_for_it() {
        let local =
            Local { env: object(json!({"PIPEFY_IPAAS_CONNECTION_A": "secret", "HOME": "x"})), ..Local::default() };
        let value = json!({"k": [{"$env": "PIPEFY_IPAAS_CONNECTION_A"}], "n": 1});
        assert_eq!(resolved(&value, Some(&local)).unwrap(), json!({"k": ["secret"], "n": 1}));
        for (value, part) in [
            (json!({"$env": "HOME"}), PREFIX),
            (json!({"$env": "PIPEFY_IPAAS_CONNECTION_B"}), "not set"),
            (json!({"$env": "PIPEFY_IPAAS_CONNECTION_A", "x": 1}), "only"),
        ] {
            assert!(resolved(&value, Some(&local)).unwrap_err().message.contains(part));
        }
        assert!(resolved(&json!({"$env": "PIPEFY_IPAAS_CONNECTION_A"}), None).unwrap_err().message.contains("hosted"));
    }
}
