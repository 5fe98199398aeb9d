//! Callers of a hosted server: an issuer, and a bearer for each of them.

use pipefy_sandbox::{Sandbox, SandboxOptions};
use serde_json::{Value, json};

use crate::Failure;

/// Some people with bearers of one issuer. Nobody asks the issuer for anything but its keys, once.
pub(crate) struct Callers {
    issuer: Sandbox,
    /// One a person.
    pub(crate) bearers: Vec<String>,
}

impl Callers {
    /// So many people, good for an hour.
    pub(crate) async fn sign_in(count: usize) -> Result<Self, Failure> {
        let issuer = Sandbox::start(SandboxOptions::default()).await?;
        let (url, http) = (format!("{}/_sandbox/oidc/tokens", issuer.url()), reqwest::Client::new());
        let mut bearers = Vec::new();
        for number in 0..count {
            let wanted = json!({"expires_in": 3600, "claims": {"sub": format!("person-{number}")}});
            let answer: Value = http.post(&url).body(wanted.to_string()).send().await?.json().await?;
            let bearer = answer.get("access_token").and_then(Value::as_str).ok_or("the issuer gave no bearer")?;
            bearers.push(bearer.to_owned());
        }
        Ok(Self { issuer, bearers })
    }

    /// What makes a server let them in. The limits of messages are as wide as they go, so that they are checked and not reached.
    pub(crate) fn switches(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PIPEFY_MCP_PROFILE", "remote".to_owned()),
            ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "http://127.0.0.1/mcp".to_owned()),
            ("PIPEFY_JWT_ISSUER_URL", self.issuer.issuer_url()),
            ("PIPEFY_JWT_ALLOW_INSECURE_URLS", "true".to_owned()),
            ("PIPEFY_MCP_REQUESTS_PER_MINUTE", "1000000".to_owned()),
        ]
    }
}
