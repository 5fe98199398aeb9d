//! The load generator: N connections, one request in flight on each, for a while.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{Failure, backend};

/// The revision spoken.
const REVISION: &str = "2025-06-18";

/// How a server is talked to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A GraphQL body, no protocol.
    Plain,
    /// One JSON-RPC request, no session.
    Stateless,
    /// A session per connection.
    Stateful,
}

/// What the calls of a round over held sessions are.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// `get_card`.
    Card,
    /// `tools/list`.
    List,
}

/// What a round measured on the client's side.
pub(crate) struct Round {
    pub(crate) elapsed: Duration,
    /// Latency of each call, sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Calls whose answer was not the card.
    pub(crate) wrong: usize,
}

impl Round {
    /// The latency that a share of the calls stays below, in microseconds.
    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        let index = (self.latencies.len().saturating_sub(1) as f64 * share).round() as usize;
        self.latencies.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    }
}

/// Connections, each with its share of the sessions.
pub(crate) struct Held(Vec<(Connection, Vec<Option<HeaderValue>>)>);

/// Opens `count` sessions on as many connections, 32 at most.
pub(crate) async fn held(address: &str, count: usize) -> Result<Held, Failure> {
    let connections = count.clamp(1, 32);
    let mut all = Vec::new();
    for index in 0..connections {
        let mut connection = Connection::open(address).await?;
        let mut sessions = Vec::new();
        for _ in (index..count).step_by(connections) {
            connection.session = None;
            connection.start_session().await?;
            sessions.push(connection.session.clone());
        }
        all.push((connection, sessions));
    }
    Ok(Held(all))
}

impl Held {
    /// 32 connections without a session.
    pub(crate) async fn without_sessions(address: &str) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for _ in 0..32 {
            all.push((Connection::open(address).await?, vec![None]));
        }
        Ok(Self(all))
    }

    /// Calls of this kind, one in flight on each connection, in its sessions one after the other.
    pub(crate) async fn round(&mut self, work: Work, duration: Duration) -> Result<Round, Failure> {
        match work {
            Work::Card => self.play(&tool_call(1), is_card, duration).await,
            Work::List => {
                let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
                self.play(&list, |body| body.len() > 50_000, duration).await
            }
        }
    }

    /// The same message over and over, one in flight on each connection.
    async fn play(&mut self, message: &Value, right: fn(&[u8]) -> bool, duration: Duration) -> Result<Round, Failure> {
        let message = Bytes::from(message.to_string());
        let start = Instant::now();
        let deadline = start + duration;
        let workers: Vec<_> = std::mem::take(&mut self.0)
            .into_iter()
            .map(|(mut connection, sessions)| {
                let message = message.clone();
                tokio::spawn(async move {
                    let (mut latencies, mut wrong) = (Vec::new(), 0);
                    for session in sessions.iter().cycle() {
                        if Instant::now() >= deadline {
                            break;
                        }
                        connection.session.clone_from(session);
                        let sent = Instant::now();
                        let (status, body) = connection.post(message.clone()).await?;
                        latencies.push(sent.elapsed());
                        wrong += usize::from(status != 200 || !right(&body));
                    }
                    Ok::<_, Failure>((latencies, wrong, (connection, sessions)))
                })
            })
            .collect();
        let (mut latencies, mut wrong) = (Vec::new(), 0);
        for worker in workers {
            let (some, bad, back) = worker.await??;
            latencies.extend(some);
            wrong += bad;
            self.0.push(back);
        }
        let elapsed = start.elapsed();
        latencies.sort_unstable();
        Ok(Round { elapsed, latencies, wrong })
    }
}

/// Bytes of the answer to one message of a revision, without a session.
pub(crate) async fn answer_size(address: &str, revision: &'static str, message: &Value) -> Result<usize, Failure> {
    let mut connection = Connection::open(address).await?;
    connection.revision = revision;
    let (status, body) = connection.post(Bytes::from(message.to_string())).await?;
    if status != 200 || !is_card(&body) {
        return Err(format!("the large answer did not come through: {status}").into());
    }
    Ok(body.len())
}

/// Keeps `in_flight` calls going for `duration`, on connections of these bearers in turn, where there are any.
pub(crate) async fn round(
    address: &str,
    mode: Mode,
    bearers: &[String],
    in_flight: usize,
    duration: Duration,
) -> Result<Round, Failure> {
    let mut connections = Held(Vec::new());
    for number in 0..in_flight {
        let mut connection = Connection::open(address).await?;
        if let Some(bearer) = bearers.get(number % bearers.len().max(1)) {
            connection.bearer = Some(HeaderValue::from_str(&format!("Bearer {bearer}"))?);
        }
        if mode == Mode::Stateful {
            connection.start_session().await?;
        }
        let sessions = vec![connection.session.clone()];
        connections.0.push((connection, sessions));
    }
    let call = match mode {
        Mode::Plain => json!({
            "query": "query GetCard($id: ID!) { card(id: $id) { id title uuid current_phase { id name } pipe { id name } } }",
            "variables": {"id": "5"},
        }),
        _ => tool_call(1),
    };
    let round = connections.play(&call, is_card, duration).await?;
    for (connection, _) in &mut connections.0 {
        connection.end_session().await?;
    }
    Ok(round)
}

/// A `tools/call` for the card.
pub(crate) fn tool_call(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "get_card", "arguments": {"card_id": "5"}}})
}

/// The handshake's first message.
pub(crate) fn initialize(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "pipefy-bench", "version": "1"},
    }})
}

/// Whether an answer holds the card and no error.
pub(crate) fn is_card(body: &[u8]) -> bool {
    let holds = |needle: &[u8]| body.windows(needle.len()).any(|window| window == needle);
    holds(backend::TITLE.as_bytes()) && !holds(b"\"isError\":true")
}

/// Opens `count` sessions and leaves them idle: initialised, no open stream. They live as long as the server keeps them.
pub(crate) async fn idle_sessions(address: &str, count: usize) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    for _ in 0..count {
        connection.session = None;
        connection.start_session().await?;
    }
    Ok(())
}

/// The `tools/list` answer of a server in a session.
pub(crate) async fn tools_list(address: &str) -> Result<Value, Failure> {
    let mut connection = Connection::open(address).await?;
    connection.start_session().await?;
    let request = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let (_, body) = connection.post(Bytes::from(request.to_string())).await?;
    // An event stream carries the message in its data lines; a JSON answer is the message.
    let text = String::from_utf8_lossy(&body);
    let found = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let messages = found.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let answer = messages.into_iter().find(|message| message.get("id") == Some(&json!(2)));
    Ok(answer.ok_or("tools/list was not answered")?)
}

/// One HTTP/1.1 connection.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    path: Uri,
    session: Option<HeaderValue>,
    bearer: Option<HeaderValue>,
    revision: &'static str,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let uri: Uri = address.parse()?;
        let host = uri.authority().ok_or("an address without host")?.as_str().to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // A connection that breaks shows as a failing call.
            let _ = connection.await;
        });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
        Ok(Self { sender, host: HeaderValue::from_str(&host)?, path, session: None, bearer: None, revision: REVISION })
    }

    fn request(&self, method: Method, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.path.clone())
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.revision);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        Ok(request.body(Full::new(body))?)
    }

    async fn send(&mut self, method: Method, body: Bytes) -> Result<(hyper::http::response::Parts, Bytes), Failure> {
        self.sender.ready().await?;
        let request = self.request(method, body)?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok((parts, body.collect().await?.to_bytes()))
    }

    async fn post(&mut self, body: Bytes) -> Result<(u16, Bytes), Failure> {
        let (parts, body) = self.send(Method::POST, body).await?;
        Ok((parts.status.as_u16(), body))
    }

    async fn start_session(&mut self) -> Result<(), Failure> {
        let (parts, body) = self.send(Method::POST, Bytes::from(initialize(1).to_string())).await?;
        if !parts.status.is_success() {
            return Err(format!("initialize: {} {}", parts.status, String::from_utf8_lossy(&body)).into());
        }
        self.session = parts.headers.get("mcp-session-id").cloned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let (status, body) = self.post(Bytes::from(ready.to_string())).await?;
        if status != 202 {
            return Err(format!("notifications/initialized: {status} {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(())
    }

    async fn end_session(&mut self) -> Result<(), Failure> {
        if self.session.is_some() {
            self.send(Method::DELETE, Bytes::new()).await?;
        }
        Ok(())
    }
}
