//! The backend of one case: answers from the recorded exchanges, and remembers what it was asked.
//!
//! GraphQL is answered by endpoint, kind and root field, and only with what the request selects; of several exchanges
//! that fit, the one with the closest arguments, then one that was not used yet, then the one that covers the
//! selection best. Everything else (storage, iPaaS) is answered by method and path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::response::Response;
use base64::Engine as _;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::case::{Exchange, ExchangeKind, Write};
use crate::document::{self, Operation, RootField};
use crate::pattern::{self, Absence, Bindings};

/// The bearer that the server is given, and must send.
pub(crate) const TOKEN: &str = "cases-bearer-5d1f";

/// The value that `$now` takes in an answer.
const NOW: &str = "2026-01-01T00:00:00Z";

/// A listening mock. Dropping it ends it.
pub(crate) struct Backend {
    pub(crate) base: String,
    log: Arc<Mutex<Log>>,
    task: JoinHandle<()>,
}

/// What happened during one step.
#[derive(Debug, Default)]
pub(crate) struct Log {
    exchanges: Vec<Exchange>,
    uses: Vec<u32>,
    /// The bearer that GraphQL requests must carry.
    bearer: String,
    /// Mutation fields, in the order they arrived.
    pub(crate) writes: Vec<Write>,
    /// Requests, one line each.
    pub(crate) requests: Vec<String>,
    /// Requests that no backend would want.
    pub(crate) problems: Vec<String>,
    challenge: Option<String>,
}

impl Backend {
    /// Listens on a free loopback port.
    pub(crate) fn start(runtime: &Handle) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let router = Router::new().fallback(answer).with_state(log.clone());
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).expect("a free loopback port");
        let base = format!("http://{}", listener.local_addr().expect("a bound address"));
        let task = runtime.spawn(async move {
            // Serving ends when the task is aborted; an error here shows as failing cases.
            let _ = axum::serve(listener, router).await;
        });
        Self { base, log, task }
    }

    /// Forgets the step before and answers from these exchanges.
    pub(crate) fn begin(&self, exchanges: Vec<Exchange>) {
        *lock(&self.log) = Log::of(exchanges, TOKEN);
    }

    /// What happened since [`Self::begin`].
    pub(crate) fn end(&self) -> Log {
        std::mem::take(&mut *lock(&self.log))
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Log {
    /// Answers from these exchanges those who bring this bearer.
    pub(crate) fn of(exchanges: Vec<Exchange>, bearer: &str) -> Self {
        Self { uses: vec![0; exchanges.len()], exchanges, bearer: bearer.to_owned(), ..Self::default() }
    }

    /// The mutations of the recorded run: `(write, may be left out)`.
    pub(crate) fn recorded_writes(&self) -> Vec<(Write, bool)> {
        self.exchanges
            .iter()
            .filter(|exchange| exchange.kind == ExchangeKind::Mutation)
            .flat_map(|exchange| {
                exchange.root_fields.iter().zip(&exchange.arguments).map(|(field, arguments)| {
                    let write = Write {
                        endpoint: exchange.endpoint.clone(),
                        field: field.clone(),
                        arguments: arguments.clone(),
                    };
                    (write, exchange.spare)
                })
            })
            .collect()
    }

    /// Recorded requests other than reads that were never made, by method and path.
    pub(crate) fn missing_requests(&self) -> Vec<String> {
        let mut made: BTreeMap<String, bool> = BTreeMap::new();
        for (exchange, uses) in self.exchanges.iter().zip(&self.uses) {
            let method = exchange.method.as_deref().unwrap_or_default();
            if exchange.kind != ExchangeKind::Http || method == "GET" || exchange.spare {
                continue;
            }
            let call = rpc_method(exchange.body.as_ref()).unwrap_or_default();
            let name = format!("{method} {} {call}", exchange.path.as_deref().unwrap_or_default());
            *made.entry(name).or_default() |= *uses > 0;
        }
        made.into_iter().filter(|(_, made)| !made).map(|(name, _)| name.trim_end().to_owned()).collect()
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(log): State<Arc<Mutex<Log>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 256 * 1024 * 1024).await else {
        return respond(400, None, &json!({"error": "unreadable body"}));
    };
    answer_one(&mut lock(&log), &parts, &body)
}

/// The endpoint behind a path; `None` for what is no GraphQL.
pub(crate) fn endpoint(path: &str) -> Option<&'static str> {
    match path {
        "/graphql" => Some("public"),
        "/graphql/interfaces" => Some("interfaces"),
        "/internal_api" => Some("internal"),
        _ => None,
    }
}

/// Answers one request from the log's exchanges and remembers it.
pub(crate) fn answer_one(log: &mut Log, parts: &Parts, body: &Bytes) -> Response {
    match endpoint(parts.uri.path()) {
        Some(endpoint) => graphql(log, endpoint, parts, body),
        None => plain(log, parts, body),
    }
}

/// Texts go out as they are, `{"$base64": ..}` as those bytes, everything else as JSON.
fn respond(status: u16, location: Option<&str>, body: &Value) -> Response {
    let (kind, bytes) = match body {
        Value::String(text) => ("text/plain", text.clone().into_bytes()),
        Value::Object(map) if map.contains_key("$base64") => {
            let text = body["$base64"].as_str().expect("base64");
            ("application/octet-stream", base64::engine::general_purpose::STANDARD.decode(text).expect("base64"))
        }
        _ => ("application/json", body.to_string().into_bytes()),
    };
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, kind);
    if let Some(location) = location {
        response = response.header(LOCATION, location);
    }
    response.body(Body::from(bytes)).expect("a response")
}

fn graphql(log: &mut Log, endpoint: &str, parts: &Parts, body: &Bytes) -> Response {
    let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if bearer != Some(&format!("Bearer {}", log.bearer)) {
        log.problems.push(format!("a request to the {endpoint} endpoint did not carry the caller's bearer"));
    }
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => {
            log.problems.push(format!("a body that is not JSON was sent to the {endpoint} endpoint: {error}"));
            return respond(400, None, &json!({"errors": [{"message": "not JSON"}]}));
        }
    };
    let operation = match Operation::read(&request) {
        Ok(operation) => operation,
        Err(reason) => {
            log.requests.push(format!("{endpoint} invalid document: {reason}"));
            let recorded = log.exchanges.iter().position(|exchange| exchange.kind == ExchangeKind::Invalid);
            return match recorded {
                Some(index) => whole(log, index),
                None => respond(200, None, &json!({"errors": [{"message": reason}]})),
            };
        }
    };

    let mut data = Map::new();
    let mut errors = Vec::new();
    for field in &operation.fields {
        let line = format!(
            "{endpoint} {} {} {}",
            if operation.is_mutation { "mutation" } else { "query" },
            field.name,
            field.arguments
        );
        if operation.is_mutation {
            log.writes.push(Write {
                endpoint: endpoint.to_owned(),
                field: field.name.clone(),
                arguments: field.arguments.clone(),
            });
        }
        let Some(index) = choose(log, endpoint, operation.is_mutation, field) else {
            log.requests.push(format!("{line} -> not recorded"));
            data.insert(field.key.clone(), Value::Null);
            errors.push(json!({"message": format!("No answer was recorded for {}.", field.name)}));
            continue;
        };
        log.requests.push(line);
        let exchange = &log.exchanges[index];
        let Some(recorded) = exchange.response.get("data").filter(|data| data.is_object()) else {
            return whole(log, index);
        };
        let value = recorded.get(&field.key).or_else(|| recorded.get(&field.name)).unwrap_or(&Value::Null);
        let mut value = value.clone();
        for other in log.exchanges.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other) {
            if !operation.is_mutation
                && same_place(other, endpoint, false, &field.name)
                && similarity(other, field) == 1000
                && let Some(more) = other.response.get("data").and_then(|data| data.get(&field.name))
            {
                document::fill(&mut value, more);
            }
        }
        // Introspection was recorded with types of few fields, whatever the document selected.
        let shown = match field.name.starts_with("__") {
            true => value,
            false => document::project(&value, &field.selection),
        };
        data.insert(field.key.clone(), shown);
        if let Some(recorded) = exchange.response.get("errors").and_then(Value::as_array) {
            errors.extend(recorded.iter().cloned());
        }
        log.uses[index] += 1;
    }
    let mut response = json!({"data": data});
    if !errors.is_empty() {
        response["errors"] = Value::Array(errors);
    }
    respond(200, None, &placeholders(&response))
}

/// A recorded answer as it is: an error status, or a body without data.
fn whole(log: &mut Log, index: usize) -> Response {
    log.uses[index] += 1;
    let exchange = &log.exchanges[index];
    respond(exchange.status, exchange.location.as_deref(), &placeholders(&exchange.response))
}

/// `$now` in an answer is a time.
fn placeholders(value: &Value) -> Value {
    match value {
        Value::String(text) if text == "$now" => json!(NOW),
        Value::Array(items) => items.iter().map(placeholders).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), placeholders(value))).collect())
        }
        _ => value.clone(),
    }
}

fn same_place(exchange: &Exchange, endpoint: &str, is_mutation: bool, field: &str) -> bool {
    let kind = if is_mutation { ExchangeKind::Mutation } else { ExchangeKind::Query };
    exchange.endpoint == endpoint && exchange.kind == kind && exchange.root_fields.iter().any(|name| name == field)
}

fn choose(log: &Log, endpoint: &str, is_mutation: bool, field: &RootField) -> Option<usize> {
    log.exchanges
        .iter()
        .enumerate()
        .filter(|(_, exchange)| same_place(exchange, endpoint, is_mutation, &field.name))
        .max_by_key(|(index, exchange)| {
            let fresh = log.uses[*index] == 0;
            let recorded = exchange.response.get("data").and_then(|data| data.get(&field.name));
            let covered = recorded.map_or(1000, |value| document::coverage(value, &field.selection));
            // Among used ones the latest shows the state that the backend is in by now.
            let order = if fresh { -(*index as i64) } else { *index as i64 };
            (similarity(exchange, field), fresh, covered, order)
        })
        .map(|(index, _)| index)
}

/// How much of a field's arguments agrees with the recorded ones, in thousandths.
fn similarity(exchange: &Exchange, field: &RootField) -> u32 {
    let empty = Value::Null;
    let recorded = exchange
        .root_fields
        .iter()
        .position(|name| *name == field.name)
        .and_then(|at| exchange.arguments.get(at))
        .unwrap_or(&empty);
    if pattern::fits(recorded, &field.arguments, Absence::Null, &mut Bindings::new()) {
        return 1000;
    }
    let (Some(recorded), Some(sent)) = (recorded.as_object(), field.arguments.as_object()) else {
        return 0;
    };
    let agreeing = recorded
        .iter()
        .filter(|(key, value)| {
            sent.get(*key).is_some_and(|sent| pattern::fits(value, sent, Absence::Null, &mut Bindings::new()))
        })
        .count();
    (agreeing * 2 * 999 / (recorded.len() + sent.len()).max(1)) as u32
}

/// Requests beside GraphQL: uploads, iPaaS, its MCP server.
fn plain(log: &mut Log, parts: &Parts, body: &Bytes) -> Response {
    let method = parts.method.as_str();
    let path = parts.uri.path();
    let query = pairs(parts.uri.query().unwrap_or_default());
    let sent = serde_json::from_slice::<Value>(body)
        .unwrap_or_else(|_| std::str::from_utf8(body).map(pairs).unwrap_or_default());
    log.requests.push(format!(
        "{method} {path} {} ({} bytes)",
        if query == json!({}) { json!("") } else { query.clone() },
        body.len()
    ));

    let call = rpc_method(Some(&sent));
    let chosen = log
        .exchanges
        .iter()
        .enumerate()
        .filter(|(_, exchange)| {
            exchange.kind == ExchangeKind::Http
                && exchange.method.as_deref() == Some(method)
                && exchange.path.as_deref() == Some(path)
                && rpc_method(exchange.body.as_ref()) == call
        })
        .max_by_key(|(index, exchange)| {
            let same_query = exchange.query.as_ref().is_none_or(|recorded| agrees(recorded, &query));
            let same_body = exchange.body.as_ref().is_none_or(|recorded| same_body(recorded, &sent));
            (same_query, same_body, log.uses[*index] == 0, -(*index as i64))
        })
        .map(|(index, _)| index);
    let Some(index) = chosen else {
        let closing = method == "DELETE" && path == "/mcp";
        let notification = method == "POST" && sent.get("jsonrpc").is_some() && sent.get("id").is_none();
        if notification || closing {
            return respond(202, None, &json!(""));
        }
        if method != "GET" {
            log.problems.push(format!("not recorded: {method} {path} {}", pattern::short(&sent)));
        }
        return respond(404, None, &json!({"error": "not_found"}));
    };

    let exchange = &log.exchanges[index];
    let mut problems = Vec::new();
    if method != "GET" {
        if let Some(recorded) = exchange.body.as_ref().filter(|recorded| !same_body(recorded, &sent)) {
            let found = pattern::mismatches(recorded, &sent, Absence::Null, &mut Bindings::new());
            problems.push(format!("body of {method} {path}: {}", found.join("; ")));
        }
        if let Some(recorded) = exchange.query.as_ref().filter(|recorded| !agrees(recorded, &query)) {
            problems.push(format!("query of {method} {path}: expected {recorded}, got {query}"));
        }
    }
    if exchange.size.is_some_and(|size| size != body.len()) {
        problems.push(format!("{method} {path}: {} bytes instead of {:?}", body.len(), exchange.size));
    }
    if exchange.sha256.as_ref().is_some_and(|recorded| *recorded != hex(&sha256(body))) {
        problems.push(format!("{method} {path}: other bytes than the file's"));
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if exchange.content_type.is_some() && exchange.content_type.as_deref() != kind {
        problems.push(format!("{method} {path}: content type {kind:?} instead of {:?}", exchange.content_type));
    }
    let caller = |value: &axum::http::HeaderValue| value.to_str().is_ok_and(|value| value.contains(&log.bearer));
    if parts.headers.values().any(caller) {
        problems.push(format!("{method} {path}: the caller's Pipefy bearer went to another service"));
    }
    if let Some(challenge) = query.get("code_challenge").and_then(Value::as_str) {
        log.challenge = Some(challenge.to_owned());
    }
    if let (Some(verifier), Some(challenge)) = (sent.get("code_verifier").and_then(Value::as_str), &log.challenge) {
        let derived = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes()));
        if derived != *challenge {
            problems.push("the PKCE verifier does not belong to the challenge".to_owned());
        }
    }
    log.problems.append(&mut problems);

    log.uses[index] += 1;
    let exchange = &log.exchanges[index];
    let mut response = placeholders(&exchange.response);
    if call.is_some()
        && let Some(id) = sent.get("id")
    {
        response["id"] = id.clone();
    }
    respond(exchange.status, exchange.location.as_deref(), &response)
}

fn agrees(recorded: &Value, sent: &Value) -> bool {
    pattern::fits(recorded, sent, Absence::Null, &mut Bindings::new())
}

/// Bodies agree; of a JSON-RPC request the tool and its arguments count, the rest is between the two programs.
fn same_body(recorded: &Value, sent: &Value) -> bool {
    match rpc_method(Some(recorded)) {
        None => agrees(recorded, sent),
        Some("tools/call") => match (recorded.get("params"), sent.get("params")) {
            (Some(recorded), Some(sent)) => {
                let same = |key: &str| {
                    let empty = json!({});
                    agrees(recorded.get(key).unwrap_or(&empty), sent.get(key).unwrap_or(&empty))
                };
                same("name") && same("arguments")
            }
            _ => false,
        },
        Some(_) => true,
    }
}

fn rpc_method(body: Option<&Value>) -> Option<&str> {
    let body = body.filter(|body| body.get("jsonrpc").is_some())?;
    body.get("method").and_then(Value::as_str)
}

/// Form or query pairs as an object of texts.
fn pairs(text: &str) -> Value {
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    Value::Object(pairs.map(|(key, value)| (key.into_owned(), Value::String(value.into_owned()))).collect())
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
