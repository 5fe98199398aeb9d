//! HTTP on loopback: the real paths, bearers, storage, faults and the request log.

use crate::ctx::{Ctx, parse_time};
use crate::domains::usage;
use crate::engine::{self, Documents, Outline, Request};
use crate::error::{GqlError, SandboxError};
use crate::events;
use crate::faults::{FaultRule, FaultState, Faults};
use crate::journal::{Entry, Journal, masked};
use crate::json;
use crate::object::Endpoint;
use crate::store::{Data, Store};
use crate::{board, mail, oauth, oidc, seed, storage, worker};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Query, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::Service;

/// Largest body: the 100 MiB upload limit of the toolkit and some room.
const BODY_LIMIT: usize = 110 * 1024 * 1024;

/// How long a change of a pipe's structure takes; another one for the same pipe meanwhile is rejected.
const STRUCTURE_CHANGE: Duration = Duration::from_millis(25);

/// How to run a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Address to listen on; port 0 takes any free one. Default `127.0.0.1:0`.
    pub bind: SocketAddr,
    /// Where the state lives. Default memory.
    pub data: Data,
    /// Number that decides the ids and contents of a fresh organization; ignored when the data exists. Default 1.
    pub seed: u64,
    /// What goes wrong from the start. Default nothing.
    pub faults: Faults,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self { bind: SocketAddr::from(([127, 0, 0, 1], 0)), data: Data::Memory, seed: 1, faults: Faults::default() }
    }
}

/// A running sandbox. Dropping it stops serving.
#[derive(Debug)]
pub struct Sandbox {
    url: String,
    key: String,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Sandbox {
    /// Opens the data, seeds it when it is new, and serves it until [`Sandbox::shutdown`] or drop.
    ///
    /// # Errors
    /// When the address is taken, the data file is unusable or was written by another version.
    pub async fn start(options: SandboxOptions) -> Result<Self, SandboxError> {
        let SandboxOptions { bind, data, seed, faults } = options;
        let store = tokio::task::spawn_blocking(move || -> Result<Store, SandboxError> {
            let (mut store, fresh) = Store::open(&data, seed)?;
            if fresh {
                seed::fill(&mut store, seed)?;
            }
            Ok(store)
        })
        .await
        .map_err(|e| SandboxError::Start(e.to_string()))??;
        engine::schema(Endpoint::Public)?;
        let key = store.key()?;
        let listener = TcpListener::bind(bind).await.map_err(|source| SandboxError::Bind { addr: bind, source })?;
        let addr = listener.local_addr().map_err(|source| SandboxError::Bind { addr: bind, source })?;
        let url = format!("http://{addr}");
        let state = Arc::new(State {
            store: Mutex::new(store),
            documents: Documents::default(),
            journal: Mutex::default(),
            faults: Mutex::new(FaultState::new(faults)),
            changing: Mutex::default(),
            url: url.clone(),
            key: key.clone(),
            loopback: addr.ip().is_loopback(),
            oidc_keys: oidc::Loaded::default(),
            work: tokio::sync::Notify::new(),
            changes: watch::channel(0).0,
        });
        let (stop, stopped) = watch::channel(false);
        let beside = worker::run(state.clone(), stopped.clone());
        let task = tokio::spawn(async move {
            tokio::join!(serve(listener, router(state), stopped), beside);
        });
        Ok(Self { url, key, stop, task })
    }

    /// Base URL, for example `http://127.0.0.1:41234`, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The OpenID issuer of the people: `<url>/realms/pipefy`.
    pub fn issuer_url(&self) -> String {
        issuer_url(&self.url)
    }

    /// Identifies the data that this sandbox serves.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Stops accepting, ends open connections and waits until all is closed.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.task).await;
    }
}

/// The issuer of the sandbox at this URL.
pub(crate) fn issuer_url(url: &str) -> String {
    format!("{url}{}", oidc::REALM)
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// What all requests share. Holds no caller's identity.
pub(crate) struct State {
    store: Mutex<Store>,
    documents: Documents,
    journal: Mutex<Journal>,
    faults: Mutex<FaultState>,
    /// Repositories whose structure is being changed right now.
    changing: Mutex<HashSet<String>>,
    pub(crate) url: String,
    key: String,
    pub(crate) loopback: bool,
    /// The issuer's signing keys, once they were needed.
    pub(crate) oidc_keys: oidc::Loaded,
    /// Wakes the worker when there may be calls to make.
    pub(crate) work: tokio::sync::Notify,
    /// Counts the changes, for people who watch.
    pub(crate) changes: watch::Sender<u64>,
}

impl State {
    /// Something was written.
    pub(crate) fn changed(&self) {
        self.work.notify_one();
        self.changes.send_modify(|count| *count += 1);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) type App = Arc<State>;

fn router(state: App) -> Router {
    Router::new()
        .merge(board::routes())
        .route("/graphql", post(|s, h, b| graphql(s, Endpoint::Public, h, b)))
        .route("/graphql/interfaces", post(|s, h, b| graphql(s, Endpoint::Interfaces, h, b)))
        .route("/internal_api", post(|s, h, b| graphql(s, Endpoint::Internal, h, b)))
        .route("/oauth/token", post(token))
        .route("/orgs/{*path}", any(objects))
        .route("/storage/{*path}", any(objects))
        .merge(oidc::routes())
        .merge(crate::ipaas::routes())
        .route("/_sandbox/health", get(health))
        .route("/_sandbox/faults", get(faults).post(set_faults).delete(clear_faults))
        .route("/_sandbox/requests", get(requests).delete(clear_requests))
        .route("/_sandbox/deliveries", get(deliveries))
        .route("/_sandbox/mail", get(sent_mail).post(receive_mail))
        .route("/_sandbox/automations/{id}/run", post(run_automation))
        .route("/_sandbox/clock", post(look_at_the_clock))
        .route("/_sandbox/credits", post(limit_credits))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(axum::middleware::from_fn_with_state(state.clone(), local_host_only))
        .with_state(state)
}

/// Marks an answer that must not be sent: the connection is closed instead.
#[derive(Clone)]
struct Hangup;

async fn serve(listener: TcpListener, router: Router, mut stopped: watch::Receiver<bool>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
            _ = connections.join_next(), if !connections.is_empty() => continue,
            () = ended(&mut stopped) => break,
        };
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let mut router = router.clone();
                async move {
                    let response = match router.call(request.map(Body::new)).await {
                        Ok(response) => response,
                        Err(never) => match never {},
                    };
                    if response.extensions().get::<Hangup>().is_some() {
                        return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
                    }
                    Ok(response)
                }
            });
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "connection");
            }
        });
    }
    connections.shutdown().await;
}

/// Waits for the signal to stop, or for its sender to be gone.
pub(crate) async fn ended(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// A web page elsewhere must not drive a sandbox on loopback through a name that it points here.
async fn local_host_only(
    Shared(state): Shared<App>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).map(str::to_owned);
    let host = host.or_else(|| request.uri().authority().map(|a| a.to_string())).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
    let local = matches!(name, "localhost" | "[::1]" | "::1") || name.starts_with("127.");
    if state.loopback && !local {
        return (StatusCode::MISDIRECTED_REQUEST, "This sandbox answers to loopback hosts only.\n").into_response();
    }
    next.run(request).await
}

async fn health(Shared(state): Shared<App>) -> Response {
    axum::Json(json!({ "product": "pipefy-sandbox", "key": state.key, "pid": std::process::id() })).into_response()
}

async fn faults(Shared(state): Shared<App>) -> Response {
    axum::Json(json!(lock(&state.faults).plan())).into_response()
}

async fn set_faults(Shared(state): Shared<App>, text: String) -> Response {
    match Faults::parse(&text) {
        Ok(plan) => {
            *lock(&state.faults) = FaultState::new(plan);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, axum::Json(json!({ "error": error.to_string() }))).into_response(),
    }
}

async fn clear_faults(Shared(state): Shared<App>) -> Response {
    *lock(&state.faults) = FaultState::default();
    StatusCode::NO_CONTENT.into_response()
}

async fn requests(Shared(state): Shared<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let since = query.get("since").and_then(|n| n.parse().ok()).unwrap_or_default();
    axum::Json(json!({ "requests": lock(&state.journal).since(since) })).into_response()
}

async fn clear_requests(Shared(state): Shared<App>) -> Response {
    lock(&state.journal).clear();
    StatusCode::NO_CONTENT.into_response()
}

async fn deliveries(Shared(state): Shared<App>) -> Response {
    let listed = with_store(&state, |_, store| store.all("delivery")).await;
    match listed {
        Ok(rows) => {
            let rows: Vec<Value> = rows.unwrap_or_default().into_iter().rev().map(|(_, call)| call).collect();
            axum::Json(json!({ "deliveries": rows })).into_response()
        }
        Err(response) => response,
    }
}

/// The body of a control route that works in the sandbox as nobody in particular.
async fn control(state: &App, work: impl FnOnce(&mut Ctx<'_>) -> Result<Value, GqlError> + Send + 'static) -> Response {
    let done = with_store(state, move |state, store| {
        let schema = engine::schema(Endpoint::Public)?;
        let mut ctx = Ctx::new(store, schema, String::new(), &state.url);
        store.atomic(|| work(&mut ctx))
    })
    .await;
    match done {
        Ok(Ok(body)) => axum::Json(body).into_response(),
        Ok(Err(error)) => (StatusCode::BAD_REQUEST, axum::Json(json!({ "error": error.message }))).into_response(),
        Err(response) => response,
    }
}

async fn sent_mail(Shared(state): Shared<App>) -> Response {
    control(&state, |ctx| Ok(json!({ "mail": mail::sent(ctx)? }))).await
}

async fn receive_mail(Shared(state): Shared<App>, axum::Json(body): axum::Json<Value>) -> Response {
    let response = control(&state, move |ctx| mail::receive(ctx, &body)).await;
    state.changed();
    response
}

async fn run_automation(
    Shared(state): Shared<App>,
    axum::extract::Path(id): axum::extract::Path<String>,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    let card = body.get("card_id").and_then(json::scalar).unwrap_or_default();
    let response = control(&state, move |ctx| events::run_by_hand(ctx, &id, &card)).await;
    state.changed();
    response
}

async fn look_at_the_clock(Shared(state): Shared<App>, axum::Json(body): axum::Json<Value>) -> Response {
    let response = control(&state, move |ctx| {
        let now = parse_time(json::text(&body, "now"));
        ctx.now = now.ok_or_else(|| GqlError::invalid("now must be a time such as 2026-01-31T09:00:00Z"))?;
        Ok(json!({ "happened": events::sweep(ctx)? }))
    })
    .await;
    state.changed();
    response
}

async fn limit_credits(Shared(state): Shared<App>, axum::Json(body): axum::Json<Value>) -> Response {
    control(&state, move |ctx| usage::limit_to(ctx, body.get("limit").and_then(Value::as_f64))).await
}

/// Runs work that uses the store on a thread that may block.
pub(crate) async fn with_store<T: Send + 'static>(
    state: &App,
    work: impl FnOnce(&State, &Store) -> T + Send + 'static,
) -> Result<T, Response> {
    let state = state.clone();
    let done = tokio::task::spawn_blocking(move || {
        let store = lock(&state.store);
        store.recover();
        work(&state, &store)
    })
    .await;
    done.map_err(|error| {
        tracing::error!(%error, "sandbox request");
        failure(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong")
    })
}

fn failure(status: StatusCode, message: &str) -> Response {
    let body = json!({ "errors": [{ "message": message, "extensions": { "code": "INTERNAL_SERVER_ERROR" } }] });
    (status, axum::Json(body)).into_response()
}

fn unauthorized() -> Response {
    let body = json!({ "errors": [{
        "title": "Unauthorized",
        "detail": "The access token is missing, unknown or expired",
    }] });
    (StatusCode::UNAUTHORIZED, axum::Json(body)).into_response()
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = header(headers, &header::AUTHORIZATION).split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim().to_owned())
}

/// Headers that tests look at. `authorization` is reduced to its scheme.
fn headers_of_interest(headers: &HeaderMap) -> Value {
    const KEPT: [&str; 10] = [
        "accept",
        "accept-encoding",
        "content-type",
        "content-length",
        "user-agent",
        "x-request-id",
        "traceparent",
        "x-pipefy-client",
        "x-pipefy-client-version",
        "x-client-name",
    ];
    let mut kept = serde_json::Map::new();
    for (name, value) in headers {
        let name = name.as_str();
        if KEPT.contains(&name) || (name.starts_with("x-") && !name.contains("token") && !name.contains("key")) {
            kept.insert(name.to_owned(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()));
        }
        if name == "authorization" {
            let scheme = value.to_str().ok().and_then(|v| v.split(' ').next()).unwrap_or_default().to_owned();
            kept.insert("authorization_scheme".to_owned(), Value::from(scheme));
        }
    }
    Value::Object(kept)
}

/// One entry of the request log; its status is set when the answer is made.
fn note(
    state: &State,
    method: &str,
    path: &str,
    outline: &Outline,
    variables: Value,
    identity: Option<String>,
    headers: &HeaderMap,
) -> u64 {
    let operation = (!outline.root_fields.is_empty()).then_some(if outline.mutation { "mutation" } else { "query" });
    lock(&state.journal).add(Entry {
        number: 0,
        method: method.to_owned(),
        path: path.to_owned(),
        operation,
        operation_name: outline.operation_name.clone(),
        root_fields: outline.root_fields.clone(),
        variables: masked(&variables),
        identity,
        headers: headers_of_interest(headers),
        status: None,
    })
}

/// One entry for a request that is not GraphQL.
pub(crate) fn note_plain(state: &State, method: &str, path: &str, headers: &HeaderMap) -> u64 {
    note(state, method, path, &Outline::default(), Value::Null, None, headers)
}

/// The answer of the fault that strikes a request that is not GraphQL, after its latency.
pub(crate) async fn answer_faults(state: &State, endpoint: &str) -> Option<Response> {
    strike(state, endpoint, &[]).await.as_ref().and_then(fault_response)
}

pub(crate) fn finish(state: &State, number: u64, response: Response) -> Response {
    if response.extensions().get::<Hangup>().is_none() {
        lock(&state.journal).finish(number, response.status().as_u16());
    }
    response
}

/// The answer of a fault rule, `None` when the rule only delays.
fn fault_response(rule: &FaultRule) -> Option<Response> {
    if rule.drop {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(Hangup);
        return Some(response);
    }
    let status = rule.status.and_then(|s| StatusCode::from_u16(s).ok());
    let (status, body) = match (&rule.graphql_error, status, &rule.body) {
        (Some(message), status, _) => {
            let mut error = json!({ "message": message });
            if let Some(code) = &rule.code {
                json::set(&mut error, "extensions", json!({ "code": code, "correlation_id": "sandbox-fault" }));
            }
            (status.unwrap_or(StatusCode::OK), json!({ "errors": [error], "data": null }).to_string())
        }
        (None, Some(status), Some(body)) => (status, body.clone()),
        (None, None, Some(body)) => (StatusCode::OK, body.clone()),
        (None, Some(status), None) => {
            let reason = status.canonical_reason().unwrap_or("Error");
            (status, json!({ "errors": [{ "message": reason }] }).to_string())
        }
        (None, None, None) => return None,
    };
    let kind = if body.trim_start().starts_with('<') { "text/html; charset=utf-8" } else { "application/json" };
    let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
    if let Some(value) = rule.retry_after.as_ref().and_then(|v| HeaderValue::from_str(v).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    Some(response)
}

/// Waits out the latency; gives the rule that strikes.
async fn strike(state: &State, endpoint: &str, root_fields: &[String]) -> Option<FaultRule> {
    let (latency, rule) = lock(&state.faults).strike(endpoint, root_fields);
    let wait = latency + rule.as_ref().and_then(|r| r.latency_ms).unwrap_or_default();
    if wait > 0 {
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    rule
}

async fn graphql(Shared(state): Shared<App>, endpoint: Endpoint, headers: HeaderMap, body: Bytes) -> Response {
    let (name, path) = match endpoint {
        Endpoint::Public => ("graphql", "/graphql"),
        Endpoint::Interfaces => ("interfaces", "/graphql/interfaces"),
        Endpoint::Internal => ("internal", "/internal_api"),
    };
    let parsed: Result<Request, _> = serde_json::from_slice(&body);
    let request = match parsed {
        Ok(request) if !request.query.trim().is_empty() => Some(request),
        _ => None,
    };
    let document = match &request {
        Some(request) => match state.documents.get(endpoint, &request.query) {
            Ok(document) => Some(document),
            Err(error) => {
                tracing::error!(%error, "schema");
                return failure(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong");
            }
        },
        None => None,
    };
    let outline = match (&document, &request) {
        (Some(document), Some(request)) => engine::outline(document, request.operation_name.as_deref()),
        _ => Outline::default(),
    };
    let token = bearer(&headers);
    let caller = match &token {
        Some(token) => {
            let token = token.clone();
            match with_store(&state, move |state, store| identify(state, store, &token)).await {
                Ok(caller) => caller,
                Err(response) => return response,
            }
        }
        None => None,
    };
    let identity = match (&caller, &token) {
        (Some((_, email)), _) => Some(email.clone()),
        (None, Some(token)) => Some(format!("unknown:{}", oauth::fingerprint(token).get(..8).unwrap_or_default())),
        (None, None) => None,
    };
    let variables = request.as_ref().and_then(|r| r.variables.clone()).map_or(Value::Null, Value::Object);
    let number = note(&state, "POST", path, &outline, variables, identity, &headers);
    let rule = strike(&state, name, &outline.root_fields).await;
    if let Some(response) = rule.as_ref().filter(|r| !r.after).and_then(fault_response) {
        return finish(&state, number, response);
    }
    let Some((viewer, _)) = caller else { return finish(&state, number, unauthorized()) };
    let (Some(request), Some(document)) = (request, document) else {
        let body = json!({ "errors": [{ "message": "The body must be a JSON object with a query" }] });
        return finish(&state, number, (StatusCode::BAD_REQUEST, axum::Json(body)).into_response());
    };
    let claim = match claim_structure(&state, &outline, &document, &request).await {
        Ok(claim) => claim,
        Err(response) => return finish(&state, number, response),
    };
    let url = state.url.clone();
    let executed = with_store(&state, move |_, store| {
        store.atomic(|| engine::execute(store, endpoint, &document, &request, viewer, &url))
    })
    .await;
    drop(claim);
    if outline.mutation {
        state.changed();
    }
    if let Some(response) = rule.as_ref().filter(|r| r.after).and_then(fault_response) {
        return finish(&state, number, response);
    }
    let response = match executed {
        Ok(Ok(body)) => axum::Json(body).into_response(),
        Ok(Err(error)) => {
            tracing::error!(%error, "sandbox request");
            failure(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong")
        }
        Err(response) => response,
    };
    finish(&state, number, response)
}

/// `(user id, e-mail)` of a valid bearer.
fn identify(state: &State, store: &Store, token: &str) -> Option<(String, String)> {
    let Some(user) = oauth::user_of(store, token, Timestamp::now()).ok().flatten() else {
        return oidc::identify(state, store, token);
    };
    let body = store.get("user", &user).ok().flatten()?;
    Some((user, json::text(&body, "email").to_owned()))
}

/// Holds a pipe's structure while a phase or field is created in it.
struct Claim {
    state: App,
    key: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.state.changing).remove(&self.key);
    }
}

/// Pipefy rejects creates of phases or fields that overlap in one pipe. So that overlap can happen here too, such a
/// create takes a moment, during which another one for the same pipe is refused.
async fn claim_structure(
    state: &App,
    outline: &Outline,
    document: &engine::Document,
    request: &Request,
) -> Result<Option<Claim>, Response> {
    const CREATES: [&str; 3] = ["createPhase", "createPhaseField", "createTableField"];
    if !outline.mutation || !outline.root_fields.iter().any(|f| CREATES.contains(&f.as_str())) {
        return Ok(None);
    }
    let Ok(document) = document else { return Ok(None) };
    let Ok(operation) = document.operations.get(request.operation_name.as_deref()) else { return Ok(None) };
    let variables = request.variables.clone().unwrap_or_default();
    let inputs: Vec<Value> = operation
        .root_fields(document)
        .filter(|f| CREATES.contains(&f.name.as_str()))
        .filter_map(|f| f.arguments.iter().find(|a| a.name == "input"))
        .map(|argument| engine::literal(&argument.value, &variables))
        .collect();
    let key = with_store(state, move |_, store| {
        inputs.iter().find_map(|input| {
            let id = |key: &str| input.get(key).and_then(json::scalar);
            let of_phase = id("phase_id")
                .and_then(|phase| store.get("phase", &phase).ok().flatten())
                .map(|phase| json::text(&phase, "pipe_id").to_owned());
            id("pipe_id").or(of_phase).or_else(|| id("table_id"))
        })
    })
    .await?;
    let Some(key) = key else { return Ok(None) };
    if !lock(&state.changing).insert(key.clone()) {
        let error = json!({
            "message": "The change could not be saved: another change to the same pipe is in progress",
            "extensions": { "code": "RECORD_NOT_SAVED", "correlation_id": "overlap" },
        });
        let data: serde_json::Map<String, Value> =
            outline.root_fields.iter().map(|f| (f.clone(), Value::Null)).collect();
        return Err(axum::Json(json!({ "errors": [error], "data": data })).into_response());
    }
    let claim = Claim { state: state.clone(), key };
    tokio::time::sleep(STRUCTURE_CHANGE).await;
    Ok(Some(claim))
}

async fn token(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    let authorization = header(&headers, &header::AUTHORIZATION).to_owned();
    let number = note(&state, "POST", "/oauth/token", &Outline::default(), Value::Null, None, &headers);
    if let Some(response) = strike(&state, "token", &[]).await.as_ref().and_then(fault_response) {
        return finish(&state, number, response);
    }
    let form = form_fields(&body);
    let answered =
        with_store(&state, move |_, store| oauth::token(store, &authorization, &form, Timestamp::now())).await;
    let response = match answered {
        Ok(Ok((status, body))) => (status, [(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response(),
        Ok(Err(_)) => failure(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong"),
        Err(response) => response,
    };
    finish(&state, number, response)
}

pub(crate) fn form_fields(body: &[u8]) -> Vec<(String, String)> {
    let decode =
        |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let text = String::from_utf8_lossy(body);
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect()
}

async fn objects(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
    let number = note(&state, method.as_str(), &path, &Outline::default(), Value::Null, None, &headers);
    if let Some(response) = strike(&state, "storage", &[]).await.as_ref().and_then(fault_response) {
        return finish(&state, number, response);
    }
    let content_type = header(&headers, &header::CONTENT_TYPE).to_owned();
    let handled = with_store(&state, move |_, store| {
        let signed_method = if method == Method::PUT { "PUT" } else { "GET" };
        let key = match storage::admit(store, signed_method, &path, &query, &content_type, Timestamp::now()) {
            Ok(key) => key,
            Err(refusal) => return xml(refusal),
        };
        let broken = (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "The store failed");
        if method == Method::PUT {
            let kind = if content_type.is_empty() { "application/octet-stream" } else { &content_type };
            return match store.put_object(&key, kind, &body) {
                Ok(()) => StatusCode::OK.into_response(),
                Err(_) => xml(broken),
            };
        }
        if method != Method::GET && method != Method::HEAD {
            return xml((
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "Objects are read with GET and written with PUT",
            ));
        }
        match store.object(&key) {
            Ok(Some((kind, bytes))) => ([(header::CONTENT_TYPE, kind)], bytes).into_response(),
            Ok(None) => xml((StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")),
            Err(_) => xml(broken),
        }
    })
    .await;
    let response = handled.unwrap_or_else(|response| response);
    finish(&state, number, response)
}

fn xml((status, code, message): storage::Refusal) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    (status, [(header::CONTENT_TYPE, "application/xml")], body).into_response()
}
