//! What the tests of this crate share: a backend on loopback and a runtime that talks to it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use pipefy::settings::{Environment, Overrides, ServerSettings, load_server};
use pipefy_mcp::catalogue::Selection;
use pipefy_mcp::identity::{Identity, StartupIdentity};
use pipefy_mcp::runtime::McpRuntime;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A backend that answers every GraphQL request with one card, and remembers the bearers.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) url: String,
    pub(crate) bearers: Arc<Mutex<Vec<String>>>,
    held: watch::Sender<Option<String>>,
}

#[derive(Clone)]
struct Answer {
    bearers: Arc<Mutex<Vec<String>>>,
    delay: Duration,
    held: watch::Sender<Option<String>>,
}

impl Backend {
    pub(crate) async fn start(delay: Duration) -> Self {
        let bearers = Arc::<Mutex<Vec<String>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let held = watch::Sender::new(None);
        let state = Answer { bearers: bearers.clone(), delay, held: held.clone() };
        let app = Router::new().route("/graphql", post(answer)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, bearers, held }
    }

    /// From now on this bearer waits for its answers, however slow the machine is, until [`Self::release`].
    pub(crate) fn hold(&self, bearer: &str) {
        self.held.send_replace(Some(bearer.to_owned()));
    }

    pub(crate) fn release(&self) {
        self.held.send_replace(None);
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.bearers.lock().unwrap().clone()
    }
}

async fn answer(State(state): State<Answer>, headers: HeaderMap, body: String) -> axum::Json<Value> {
    let bearer = headers.get("authorization").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let bearer = bearer.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    state.bearers.lock().unwrap().push(bearer.clone());
    tokio::time::sleep(state.delay).await;
    let mut held = state.held.subscribe();
    let _free = held.wait_for(|held| held.as_ref() != Some(&bearer)).await.is_ok();
    let request: Value = serde_json::from_str(&body).unwrap();
    let id = request["variables"]["card_id"].clone();
    // The answer says who asked, so that a mixed-up call shows in its result.
    axum::Json(json!({ "data": { "card": { "id": id, "title": bearer } } }))
}

/// Settings of a server against `base`.
pub(crate) fn settings(base: &str, more: &[(&str, &str)]) -> ServerSettings {
    let mut environment = Environment::empty();
    for (name, value) in [
        ("PIPEFY_BASE_URL", base),
        ("PIPEFY_ALLOW_INSECURE_URLS", "true"),
        ("PIPEFY_DISABLE_STORED_SESSION", "true"),
        ("PIPEFY_TOKEN", pipefy_sandbox::DEFAULT_TOKEN),
    ]
    .iter()
    .chain(more)
    {
        environment = environment.with_variable(*name, *value);
    }
    load_server(&environment, &Overrides::new()).unwrap()
}

/// A runtime against `base` with this identity.
pub(crate) fn runtime(base: &str, identity: Arc<dyn Identity>, more: &[(&str, &str)]) -> Arc<McpRuntime> {
    let settings = settings(base, more);
    let selection = Selection::parse(settings.mcp.toolsets.as_deref()).unwrap();
    Arc::new(McpRuntime::with_identity(&settings, &Environment::empty(), identity, &selection).unwrap())
}

/// A runtime against `base` with a fixed credential.
pub(crate) fn local(base: &str, token: &str, more: &[(&str, &str)]) -> Arc<McpRuntime> {
    let credential = pipefy::Credential::static_token(&token.into()).unwrap();
    runtime(base, Arc::new(StartupIdentity::new(credential)), more)
}
