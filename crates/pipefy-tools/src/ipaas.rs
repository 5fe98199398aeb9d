//! The gateway to the iPaaS (Advanced Automations) of one deployment (`spec/mcp-server.md`, section 18).
//!
//! It keeps no token, session or result between calls. What may be done is decided by the pipe-scoped token that Pipefy
//! gives the caller. Every failure names the step; no message holds a token.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pipefy::Budget;
use pipefy::settings::IpaasSettings;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::error::{Kind, ToolError};

/// Longest time of one request.
const HOP: Duration = Duration::from_secs(30);
/// Longest time of a tool.
const TOOL: Duration = Duration::from_secs(120);
/// Bytes of an answer that are read at all.
const ANSWER: usize = 16 * 1024 * 1024;
/// Characters of an answer that a message quotes.
const QUOTED: usize = 300;
/// Pages of a listing at most; a listing that goes on is broken.
const PAGES: usize = 50;

/// One deployment of the iPaaS. Shared, knows no identity.
pub struct Gateway {
    /// Made when first needed.
    client: OnceLock<Client>,
    url: String,
    client_id: String,
    client_secret: Option<SecretString>,
    redirect_uri: String,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Gateway {
    /// The gateway of the settings; `None` when its client id is blank, which turns the iPaaS tools off.
    pub fn new(settings: &IpaasSettings) -> Option<Self> {
        let client_id = settings.oauth_client_id.trim();
        (!client_id.is_empty()).then(|| Self {
            client: OnceLock::new(),
            url: settings.url.trim_end_matches('/').to_owned(),
            client_id: client_id.to_owned(),
            client_secret: settings.oauth_client_secret.clone(),
            redirect_uri: settings.oauth_redirect_uri.clone(),
        })
    }

    fn client(&self) -> Result<&Client, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .tls_backend_preconfigured(pipefy::tls::client_config())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(HOP)
            .read_timeout(TOOL)
            .referer(false)
            .user_agent(concat!("pipefy-mcp-server/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                ToolError::internal(format!("no HTTP client for the iPaaS could be made: {}", cause(&error)))
            })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Opens a session in the workspace of a pipe, from the token that Pipefy gave for it.
    pub(crate) async fn open(&self, pipe_token: &str, budget: &Budget) -> Result<Session<'_>, ToolError> {
        let mut hops = Hops { secrets: vec![pipe_token.to_owned()], budget: budget.clone() };
        const STEP: &str = "iPaaS session exchange";
        let request = self
            .client()?
            .post(format!("{}/api/v1/managed-authn/external-token", self.url))
            .json(&json!({ "externalAccessToken": pipe_token }));
        let answer = hops.object(STEP, request, &[200, 201]).await?;
        let token = text(STEP, &answer, "token")?;
        let project = text(STEP, &answer, "projectId")?;
        hops.secrets.push(token.clone());
        Ok(Session { gateway: self, token, project, hops })
    }

    /// The tools of a workspace that was signed in to before, within this budget.
    pub(crate) fn tools(&self, signed: &Signed, budget: &Budget) -> Tools<'_> {
        let hops = Hops { secrets: signed.secrets.clone(), budget: budget.clone() };
        Tools { gateway: self, access: signed.access.clone(), hops }
    }
}

/// A signed-in workspace between two steps of one call; its tokens are in no form that can be shown.
pub(crate) struct Signed {
    access: String,
    secrets: Vec<String>,
}

/// A session in one workspace; used once and dropped.
pub(crate) struct Session<'g> {
    gateway: &'g Gateway,
    token: String,
    project: String,
    hops: Hops,
}

/// What is needed to ask a person for consent, and to finish afterwards.
pub(crate) struct Consent {
    pub(crate) authorization_url: String,
    pub(crate) completion: Map<String, Value>,
}

/// A connection to create, or to renew when its external id exists.
pub(crate) struct Connection {
    pub(crate) external_id: String,
    pub(crate) display_name: String,
    pub(crate) piece_name: String,
    pub(crate) kind: String,
    pub(crate) value: Map<String, Value>,
}

impl<'g> Session<'g> {
    /// Signs in to the workspace's tools (authorisation code with PKCE, without a browser).
    pub(crate) async fn tools(mut self) -> Result<Tools<'g>, ToolError> {
        let gateway = self.gateway;
        let verifier = random::<48>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))?;
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()).as_ref());
        self.hops.secrets.push(verifier.clone());

        const ASK: &str = "iPaaS authorization request";
        let request = gateway.client()?.get(format!("{}/authorize", gateway.url)).query(&[
            ("client_id", gateway.client_id.as_str()),
            ("redirect_uri", &gateway.redirect_uri),
            ("response_type", "code"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let answer = self.hops.send(ASK, request, HOP).await?;
        if ![301, 302, 303, 307].contains(&answer.status().as_u16()) {
            return Err(self.hops.refused(ASK, answer).await);
        }
        let location = answer.headers().get(LOCATION).map(|l| String::from_utf8_lossy(l.as_bytes()).into_owned());
        let request_id = location.and_then(|l| self.query_value(&l, "authRequestId")).ok_or_else(|| {
            ToolError::api(format!(
                "{ASK}: no authRequestId came back; the OAuth client id or the redirect URI may not match the registration."
            ))
        })?;

        const APPROVE: &str = "iPaaS authorization approval";
        let request = gateway
            .client()?
            .post(format!("{}/api/v1/mcp-oauth/approve", gateway.url))
            .bearer_auth(&self.token)
            .json(&json!({ "authRequestId": request_id, "projectId": self.project }));
        let answer = self.hops.object(APPROVE, request, &[200]).await?;
        let redirect = text(APPROVE, &answer, "redirectUrl")?;
        let code = self
            .query_value(&redirect, "code")
            .ok_or_else(|| ToolError::api(format!("{APPROVE}: the answer's redirectUrl is without 'code'.")))?;
        self.hops.secrets.push(code.clone());

        const TOKEN: &str = "iPaaS token exchange";
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", &verifier),
            ("client_id", &gateway.client_id),
            ("redirect_uri", &gateway.redirect_uri),
        ];
        if let Some(secret) = &gateway.client_secret {
            form.push(("client_secret", secret.expose_secret()));
            self.hops.secrets.push(secret.expose_secret().to_owned());
        }
        let request = gateway.client()?.post(format!("{}/token", gateway.url)).form(&form);
        let answer = self.hops.object(TOKEN, request, &[200]).await?;
        let access = text(TOKEN, &answer, "access_token")?;
        self.hops.secrets.push(access.clone());
        Ok(Tools { gateway, access, hops: self.hops })
    }

    fn query_value(&self, url: &str, key: &str) -> Option<String> {
        let base = Url::parse(&self.gateway.url).ok()?;
        let url = base.join(url).ok()?;
        url.query_pairs()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.into_owned())
            .filter(|v| !v.trim().is_empty())
    }

    /// Prepares an OAuth connection of a piece. `piece` is a checked name, see [`check_piece`].
    pub(crate) async fn consent(self, piece: &str) -> Result<Consent, ToolError> {
        let gateway = self.gateway;
        const PIECE: &str = "iPaaS piece lookup";
        let request = gateway.client()?.get(format!("{}/api/v1/pieces/{piece}", gateway.url)).bearer_auth(&self.token);
        let answer = self.hops.object(PIECE, request, &[200]).await?;
        let is_oauth = |auth: &&Value| auth.get("type").and_then(Value::as_str) == Some("OAUTH2");
        let auth = match answer.get("auth") {
            Some(Value::Array(list)) => list.iter().find(is_oauth),
            one => one.filter(is_oauth),
        };
        let auth = auth.ok_or_else(|| {
            ToolError::api(format!(
                "The piece '{piece}' does not use an OAuth connection. Use create_ipaas_connection with a token type (SECRET_TEXT, BASIC_AUTH \
                 or CUSTOM_AUTH)."
            ))
        })?;
        let scope = match auth.get("scope") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        };
        let client_id = self.oauth_client(piece).await?;
        let redirect_url = format!("{}/redirect", gateway.url);
        const URL: &str = "iPaaS authorization URL";
        let request = gateway
            .client()?
            .post(format!("{}/api/v1/app-connections/oauth2/authorization-url", gateway.url))
            .bearer_auth(&self.token)
            .json(&json!({ "pieceName": piece, "clientId": client_id, "redirectUrl": redirect_url }));
        let answer = self.hops.object(URL, request, &[200]).await?;
        let authorization_url = text(URL, &answer, "authorizationUrl")?;
        let mut completion = Map::new();
        for (key, value) in [
            ("type", "PLATFORM_OAUTH2".to_owned()),
            ("client_id", client_id),
            ("redirect_url", redirect_url),
            ("scope", scope),
        ] {
            completion.insert(key.to_owned(), value.into());
        }
        if let Some(verifier) = answer.get("codeVerifier").and_then(Value::as_str) {
            completion.insert("code_verifier".to_owned(), verifier.into());
        }
        Ok(Consent { authorization_url, completion })
    }

    async fn oauth_client(&self, piece: &str) -> Result<String, ToolError> {
        const STEP: &str = "iPaaS OAuth client lookup";
        let gateway = self.gateway;
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let mut request = gateway
                .client()?
                .get(format!("{}/api/v1/oauth-apps", gateway.url))
                .bearer_auth(&self.token)
                .query(&[("limit", "100")]);
            if let Some(cursor) = &cursor {
                request = request.query(&[("cursor", cursor)]);
            }
            let answer = self.hops.object(STEP, request, &[200]).await?;
            let apps = answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if let Some(app) = apps.iter().find(|app| app.get("pieceName").and_then(Value::as_str) == Some(piece)) {
                let app = app.as_object().cloned().unwrap_or_default();
                return text(STEP, &app, "clientId");
            }
            let next = answer.get("next").and_then(Value::as_str).filter(|next| !next.is_empty()).map(str::to_owned);
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Err(ToolError::api(format!("No OAuth client is configured for the piece '{piece}' in this workspace.")))
    }

    /// Creates or renews a connection.
    pub(crate) async fn upsert(self, connection: Connection) -> Result<Map<String, Value>, ToolError> {
        let gateway = self.gateway;
        let Connection { external_id, display_name, piece_name, kind, mut value } = connection;
        value.insert("type".to_owned(), kind.clone().into());
        let mut hops = self.hops;
        hops.secrets.extend(texts_of(&Value::Object(value.clone())));
        let request =
            gateway.client()?.post(format!("{}/api/v1/app-connections", gateway.url)).bearer_auth(&self.token).json(
                &json!({
                    "externalId": external_id,
                    "displayName": display_name,
                    "pieceName": piece_name,
                    "projectId": self.project,
                    "type": kind,
                    "value": value,
                }),
            );
        hops.object("iPaaS connection upsert", request, &[200, 201]).await
    }
}

/// A piece name that may stand in a path.
///
/// # Errors
/// Other characters, or a way out of its place.
pub(crate) fn check_piece(piece: &str) -> Result<&str, ToolError> {
    let piece = piece.trim();
    let good = |c: char| c.is_ascii_alphanumeric() || "@._/-".contains(c);
    let fine =
        piece.chars().all(good) && piece.split('/').all(|part| !part.is_empty() && part != "." && !part.contains(".."));
    if fine {
        Ok(piece)
    } else {
        Err(ToolError::invalid(
            "piece_name may only hold letters, digits and @ . _ / -, such as @activepieces/piece-slack.",
        ))
    }
}

/// The tools of a workspace, signed in.
pub(crate) struct Tools<'g> {
    gateway: &'g Gateway,
    access: String,
    hops: Hops,
}

impl Tools<'_> {
    /// For the next step of the same call.
    pub(crate) fn signed(self) -> Signed {
        Signed { access: self.access, secrets: self.hops.secrets }
    }

    /// Every tool, as it came.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, ToolError> {
        self.initialize().await?;
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let result = self.request("tools/list", params, HOP).await?;
            let page = match result.get("tools") {
                Some(Value::Array(page)) => page,
                Some(_) => return Err(ToolError::api("iPaaS tools/list: 'tools' is not a list.")),
                None => return Err(ToolError::api("iPaaS tools/list: the answer is without 'tools'.")),
            };
            if let Some(index) = page.iter().position(|tool| !tool.is_object()) {
                return Err(ToolError::api(format!(
                    "iPaaS tools/list: entry {} is not an object.",
                    tools.len() + index
                )));
            }
            tools.extend(page.iter().cloned());
            let next =
                result.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty()).map(str::to_owned);
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(tools)
    }

    /// Runs a tool; a failure of the tool itself is in the result.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ToolError> {
        self.initialize().await?;
        self.request("tools/call", json!({ "name": name, "arguments": arguments }), TOOL).await
    }

    async fn initialize(&self) -> Result<(), ToolError> {
        const STEP: &str = "iPaaS initialize";
        let params = json!({
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": { "name": "pipefy-mcp-server", "version": "0" },
        });
        let answer = match self.hops.send(STEP, self.rpc(1, "initialize", params)?, HOP).await {
            Err(error) if error.code.as_deref() == Some("TIMEOUT") => {
                return Err(
                    error.message("The iPaaS handshake timed out. Nothing was executed, so it is safe to retry.")
                );
            }
            other => other?,
        };
        if answer.status().is_success() { Ok(()) } else { Err(self.hops.refused(STEP, answer).await) }
    }

    fn rpc(&self, id: u8, method: &str, params: Value) -> Result<RequestBuilder, ToolError> {
        let client = self.gateway.client()?;
        Ok(client
            .post(format!("{}/mcp", self.gateway.url))
            .bearer_auth(&self.access)
            .header(ACCEPT, "application/json, text/event-stream")
            .json(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })))
    }

    async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Map<String, Value>, ToolError> {
        let step = format!("iPaaS {method}");
        let late = |error: ToolError| {
            if error.code.as_deref() != Some("TIMEOUT") {
                return error;
            }
            let seconds = limit.as_secs();
            error.message(format!(
                "{method} timed out after {seconds}s. The tool may still be running: look at the workspace's run-listing tools instead of \
                 repeating it."
            ))
        };
        let answer = self.hops.send(&step, self.rpc(2, method, params)?, limit).await.map_err(late)?;
        if answer.status().as_u16() != 200 {
            return Err(self.hops.refused(&step, answer).await);
        }
        let is_stream = answer
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.contains("text/event-stream"));
        let body = self.hops.body(&step, answer, limit).await.map_err(late)?;
        let frame = if is_stream { last_frame(&step, &body)? } else { parse(&step, &body)? };
        if let Some(error) = frame.get("error").filter(|e| !e.is_null()) {
            let shown = self.hops.quote(&error.to_string());
            return Err(ToolError::api(format!("iPaaS {method} returned an error: {shown}")));
        }
        match frame.get("result") {
            None => Err(ToolError::api(format!("iPaaS {method} gave no result."))),
            Some(Value::Object(result)) => Ok(result.clone()),
            Some(_) => Err(ToolError::api(format!("iPaaS {method} gave a non-object result."))),
        }
    }
}

/// The answer in a stream of events: the first frame with `result` or `error`, else the last.
fn last_frame(step: &str, body: &str) -> Result<Value, ToolError> {
    let mut last = None;
    for data in body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|d| !d.is_empty()) {
        let frame = parse(step, data)?;
        if frame.get("result").is_some() || frame.get("error").is_some() {
            return Ok(frame);
        }
        last = Some(frame);
    }
    last.ok_or_else(|| ToolError::api(format!("{step}: the event stream held no data.")))
}

fn parse(step: &str, body: &str) -> Result<Value, ToolError> {
    serde_json::from_str(body).map_err(|_| ToolError::api(format!("{step}: the answer is not valid JSON.")))
}

fn text(step: &str, answer: &Map<String, Value>, key: &str) -> Result<String, ToolError> {
    answer
        .get(key)
        .and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ToolError::api(format!("{step}: the answer came without '{key}'.")))
}

/// Sends requests within a budget and keeps secrets out of messages.
struct Hops {
    secrets: Vec<String>,
    budget: Budget,
}

impl Hops {
    async fn send(&self, step: &str, request: RequestBuilder, limit: Duration) -> Result<reqwest::Response, ToolError> {
        self.within(step, limit, request.send()).await
    }

    async fn within<T>(
        &self,
        step: &str,
        limit: Duration,
        work: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ToolError> {
        let limit = self.budget.remaining().map_or(limit, |left| left.min(limit));
        let worked = tokio::select! {
            () = self.budget.cancel().cancelled() => {
                return Err(ToolError::new(Kind::Cancelled, format!("{step} was cancelled.")).code("CANCELLED"));
            }
            worked = tokio::time::timeout(limit, work) => worked,
        };
        let late =
            || ToolError::new(Kind::Transport, format!("{step} timed out after {}s.", limit.as_secs())).code("TIMEOUT");
        match worked {
            Err(_) => Err(late()),
            Ok(Err(error)) if error.is_timeout() => Err(late()),
            // The URL may hold a code.
            Ok(Err(error)) => Err(ToolError::new(
                Kind::Transport,
                format!("{step} failed: {}", self.quote(&cause(&error.without_url()))),
            )),
            Ok(Ok(value)) => Ok(value),
        }
    }

    /// The object of an answer with one of these statuses.
    async fn object(
        &self,
        step: &str,
        request: RequestBuilder,
        statuses: &[u16],
    ) -> Result<Map<String, Value>, ToolError> {
        let answer = self.send(step, request, HOP).await?;
        if !statuses.contains(&answer.status().as_u16()) {
            return Err(self.refused(step, answer).await);
        }
        let body = self.body(step, answer, HOP).await?;
        match parse(step, &body)? {
            Value::Object(map) => Ok(map),
            _ => Err(ToolError::api(format!("{step}: the answer is not an object."))),
        }
    }

    async fn refused(&self, step: &str, answer: reqwest::Response) -> ToolError {
        let status = answer.status().as_u16();
        let body = self.body(step, answer, HOP).await.unwrap_or_default();
        let shown = self.quote(&body);
        ToolError::api(format!("{step} failed (HTTP {status}): {shown}"))
    }

    async fn body(&self, step: &str, mut answer: reqwest::Response, limit: Duration) -> Result<String, ToolError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.within(step, limit, answer.chunk()).await? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER {
                return Err(ToolError::api(format!("{step}: the answer is larger than {} MiB.", ANSWER >> 20)));
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The beginning of a text from elsewhere, without what we know or guess to be secret.
    fn quote(&self, text: &str) -> String {
        let mut text = match serde_json::from_str::<Value>(text) {
            Ok(value) => masked(&value).to_string(),
            Err(_) => text.trim().to_owned(),
        };
        for secret in self.secrets.iter().filter(|s| s.len() >= 4) {
            text = text.replace(secret.as_str(), "***");
        }
        text.chars().take(QUOTED).map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' }).collect()
    }
}

/// The innermost reason of a failed request.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// A value with everything under a secret-looking key replaced.
pub(crate) fn masked(value: &Value) -> Value {
    const MARKS: [&str; 11] = [
        "secret",
        "password",
        "passwd",
        "token",
        "api_key",
        "apikey",
        "credential",
        "authorization",
        "private",
        "cookie",
        "verifier",
    ];
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let plain = key.to_ascii_lowercase().replace('-', "_");
                let secret = MARKS.iter().any(|mark| plain.contains(mark)) && !value.is_null() && !value.is_boolean();
                (key.clone(), if secret { "***".into() } else { masked(value) })
            })
            .collect(),
        Value::Array(list) => list.iter().map(masked).collect(),
        other => other.clone(),
    }
}

/// Every text below a value.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(texts_of).collect(),
        Value::Object(map) => map.iter().filter(|(key, _)| *key != "type").flat_map(|(_, v)| texts_of(v)).collect(),
        _ => Vec::new(),
    }
}

/// Random bytes.
///
/// # Errors
/// The system gives none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ToolError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| ToolError::internal("the system gives no random bytes"))?;
    Ok(bytes)
}
