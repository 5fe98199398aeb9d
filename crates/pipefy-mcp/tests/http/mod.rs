//! What the HTTP tests share: a server on loopback, an HTTP client that sends exactly what it is told, test bearers.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use pipefy::settings::HostList;
use pipefy_mcp::http::{
    App, Authenticator, HttpLines, HttpOptions, Inbound, Limits, ProtectedResource, Rejection, Served, bind,
};
use pipefy_mcp::identity::Principal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// How long anything may take; a loaded machine is slow.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Defaults for tests: a free port on 127.0.0.1, lines into nothing.
pub fn options() -> HttpOptions {
    HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        hosts: HostList::derive("127.0.0.1", None, &[], None),
        stateless: false,
        json_response: false,
        // A test is one caller with many hands; those of limits set their own.
        limits: Limits { calls_per_owner: 1000, ..Limits::default() },
        session_key: None,
        trusted_proxies: Default::default(),
        header_timeout: LIMIT,
        body_timeout: LIMIT,
        drain: Duration::from_secs(5),
        disconnect_grace: Duration::from_secs(10),
        fast_path: true,
        lines: HttpLines(Arc::new(|_| {})),
        store: None,
        metrics: None,
        traces: None,
        metrics_address: None,
    }
}

/// A running server. Stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    pub app: App,
    pub lines: Arc<Mutex<Vec<Value>>>,
    pub stop: CancellationToken,
    pub ended: tokio::task::JoinHandle<()>,
    pub metrics: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    pub async fn start(served: impl Served, inbound: Inbound, mut options: HttpOptions) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = lines.clone();
        options.lines = HttpLines(Arc::new(move |line| seen.lock().unwrap().push(serde_json::from_str(line).unwrap())));
        let serving = bind(served, inbound, &options).await.unwrap();
        let address = serving.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        let app = serving.app().clone();
        let metrics = serving.metrics_url();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let ended = tokio::spawn(serving.run(async move { stopped.cancelled().await }));
        Self { address, app, lines, stop, ended, metrics }
    }

    pub async fn raw(&self, request: &[u8]) -> Answer {
        Wire::connect(self.address).await.exchange(request).await
    }

    /// A POST with the usual headers, then the given ones.
    pub async fn post(&self, body: &str, headers: &[(&str, &str)]) -> Answer {
        self.raw(&post(body, headers)).await
    }

    /// `initialize`; gives the session id.
    pub async fn open(&self, headers: &[(&str, &str)]) -> String {
        let answer = self.post(&initialize("2025-06-18"), headers).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("mcp-session-id").expect("a session id").to_owned()
    }
}

pub fn initialize(version: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version,
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "test", "version": "1"}}})
    .to_string()
}

pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}).to_string()
}

pub fn request(method: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} /mcp HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

pub fn post(body: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let usual = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let mut all: Vec<(&str, &str)> = headers.to_vec();
    for (name, value) in usual {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            all.push((name, value));
        }
    }
    // A header that is given as empty is not sent at all.
    all.retain(|(_, value)| !value.is_empty());
    request("POST", &all, body)
}

pub fn get(session: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut all = vec![("Accept", "text/event-stream"), ("Mcp-Session-Id", session)];
    all.extend_from_slice(headers);
    request("GET", &all, "")
}

/// One response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The messages in the body, whether it is JSON or an event stream.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type") == Some("text/event-stream") {
            frames(&self.body)
        } else {
            vec![serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))]
        }
    }

    /// The last message: the answer.
    pub fn json(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self:?}"))
    }

    pub fn error_code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }

    /// The text of a tool's result.
    pub fn text(&self) -> String {
        self.json()["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {self:?}")).to_owned()
    }
}

/// The messages of an event stream; every frame must have the exact form.
pub fn frames(body: &str) -> Vec<Value> {
    let whole = body.split("\r\n\r\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    whole
        .map(|frame| {
            let data = frame.strip_prefix("event: message\r\ndata: ").unwrap_or_else(|| panic!("odd frame: {frame}"));
            serde_json::from_str(data).unwrap()
        })
        .collect()
}

/// One connection, byte for byte.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // A server that refuses early may have stopped reading.
        let _refused = self.stream.write_all(bytes).await;
    }

    pub async fn exchange(&mut self, request: &[u8]) -> Answer {
        self.send(request).await;
        let head = request.starts_with(b"HEAD");
        tokio::time::timeout(LIMIT, self.answer(head)).await.expect("an answer in time")
    }

    async fn fill(&mut self) -> bool {
        let mut chunk = vec![0; 65536];
        let length = self.stream.read(&mut chunk).await.unwrap_or(0);
        self.buffer.extend_from_slice(&chunk[..length]);
        length > 0
    }

    /// Status and headers; the body is still to come.
    pub async fn head(&mut self) -> Answer {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let text = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
                let mut lines = text.split("\r\n");
                let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
                let headers = lines
                    .filter_map(|line| line.split_once(": "))
                    .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                    .collect();
                return Answer { status, headers, body: String::new() };
            }
            assert!(self.fill().await, "the connection ended before an answer");
        }
    }

    /// One chunk of a chunked body; `None` at its end, or when the connection ends.
    pub async fn chunk(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end]).unwrap(), 16).unwrap();
                if self.buffer.len() >= end + 2 + size + 2 {
                    let chunk = self.buffer[end + 2..end + 2 + size].to_vec();
                    self.buffer.drain(..end + 2 + size + 2);
                    return (size > 0).then(|| String::from_utf8(chunk).unwrap());
                }
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn answer(&mut self, head: bool) -> Answer {
        let mut answer = self.head().await;
        if head || answer.status == 204 {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                answer.body.push_str(&chunk);
            }
        } else {
            let length: usize = answer.header("content-length").unwrap_or("0").parse().unwrap();
            while self.buffer.len() < length {
                assert!(self.fill().await, "the connection ended within the body");
            }
            answer.body = String::from_utf8(self.buffer.drain(..length).collect()).unwrap();
        }
        answer
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Maps any bearer `person.rest` to that person.
pub struct Bearers;

impl Authenticator for Bearers {
    fn authenticate<'a>(&'a self, bearer: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
        let person = bearer.split('.').next().unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        let result = match person {
            "bad" => Err(Rejection::Invalid),
            "unsure" => Err(Rejection::Unavailable { retry_after: 7 }),
            _ => Ok(Principal {
                client_id: if bearer.contains("other-client") { "other" } else { "client" }.to_owned(),
                issuer: Some("https://issuer.test".to_owned()),
                subject: Some(person.to_owned()),
                scopes: if person == "poor" { Vec::new() } else { vec!["mcp".to_owned()] },
                expires_at: now + if bearer.contains("soon") { 2 } else { 600 },
                bearer: bearer.into(),
            }),
        };
        Box::pin(std::future::ready(result))
    }
}

pub fn bearers() -> Inbound {
    Inbound::Bearer {
        authenticator: Arc::new(Bearers),
        resource: ProtectedResource::new("https://mcp.test/mcp", "https://issuer.test", &["mcp".to_owned()]).unwrap(),
    }
}
