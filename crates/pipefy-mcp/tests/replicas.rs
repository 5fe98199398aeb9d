//! More than one replica with a shared store: a real `redis-server`, and two servers that know nothing of each other.
//! Skipped, with a line that says so, where `redis-server` is not installed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/child.rs"]
mod child;
mod http;
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::*;
use pipefy_mcp::http::SessionStore;
use pipefy_mcp::identity::RequestScopedIdentity;
use serde_json::{Value, json};
use support::Backend;

const SESSION_KEY: &str = "a session key for tests, of 32 characters";
const SECRET: &str = "a signing secret for tests, of 32 characters";

/// A Redis of its own, in memory, on loopback.
struct Redis {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Redis {
    fn start() -> Option<Self> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: redis-server is not installed");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Some(Self::on(free))
    }

    fn on(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut redis = Self { child: server(port, folder.path()), port, folder };
        let end = Instant::now() + LIMIT;
        while says(port, "PING") != "+PONG" {
            assert!(Instant::now() < end, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(20));
            // Somebody else had the port for a moment.
            if redis.child.try_wait().unwrap().is_some() {
                redis.child = server(port, redis.folder.path());
            }
        }
        redis
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

fn server(port: u16, folder: &std::path::Path) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
    command.arg(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What a Redis on this port answers in its first line; nothing when there is none.
fn says(port: u16, command: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut line = String::new();
    if write!(stream, "{command}\r\n").is_ok() {
        BufReader::new(stream).read_line(&mut line).ok();
    }
    line.trim().to_owned()
}

/// A replica in this process, for many callers.
async fn replica(backend: &Backend, redis: &Redis, messages_per_minute: Option<u32>) -> Server {
    let mut options = options();
    options.session_key = Some(SESSION_KEY.into());
    options.limits.messages_per_minute = messages_per_minute;
    options.store = Some(SessionStore::new(&redis.url().into(), None).unwrap());
    let runtime = support::runtime(&backend.url, Arc::new(RequestScopedIdentity), &[]);
    let runtime = Arc::into_inner(runtime).unwrap().with_store(options.store.clone());
    Server::start(Arc::new(runtime), bearers(), options).await
}

fn card(id: u32) -> String {
    call(id, "get_card", json!({"card_id": "5"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_at_any_replica_and_only_for_its_owner() {
    let Some(redis) = Redis::start() else { return };
    let backend = Backend::start(Duration::from_millis(5)).await;
    let (one, two) = (replica(&backend, &redis, None).await, replica(&backend, &redis, None).await);
    let ana = ("Authorization", "Bearer ana.1");
    let id = one.open(&[ana]).await;
    let session = ("Mcp-Session-Id", id.as_str());

    // Many messages at once open it once, and each acts as its own bearer.
    let calls = (1..=32).map(|number| {
        let bearer = format!("Bearer ana.{number}");
        let two = &two;
        let id = &id;
        async move {
            let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", id.as_str())];
            two.post(&card(number), &headers).await
        }
    });
    for (number, answer) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, Some(id.as_str())), "{answer:?}");
        let shown = answer.json()["result"]["structuredContent"]["card"]["title"].clone();
        assert_eq!(shown, format!("ana.{}", number + 1));
    }
    assert_eq!(two.app.sessions(), 1);

    // Somebody else, or the same person through another client, sees nothing of it.
    for stranger in ["Bearer ben.1", "Bearer ana.other-client"] {
        for server in [&one, &two] {
            let answer = server.post(&card(1), &[("Authorization", stranger), session]).await;
            assert_eq!((answer.status, answer.error_code()), (404, json!(-32600)));
        }
    }

    // What ends here ends everywhere, and for good.
    assert_eq!(two.raw(&request("DELETE", &[ana, session], "")).await.status, 200);
    for server in [&one, &two, &one] {
        assert_eq!(server.post(&card(1), &[ana, session]).await.status, 404);
    }
    assert_eq!((one.app.sessions(), two.app.sessions()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_may_send_is_counted_over_all_replicas() {
    let Some(redis) = Redis::start() else { return };
    let backend = Backend::start(Duration::ZERO).await;
    // Two at once, then one every five seconds.
    let (one, two) = (replica(&backend, &redis, Some(12)).await, replica(&backend, &redis, Some(12)).await);
    let ana = [("Authorization", "Bearer ana.1")];
    let id = one.open(&ana).await;
    let session = [ana[0], ("Mcp-Session-Id", id.as_str())];
    assert_eq!(two.post(&card(1), &session).await.status, 200);
    for server in [&one, &two] {
        let refused = server.post(&card(2), &session).await;
        assert_eq!((refused.status, refused.error_code()), (429, json!(-32000)), "{refused:?}");
        let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=6).contains(&wait), "{wait}");
    }
    two.open(&[("Authorization", "Bearer ben.1")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_each_replica_goes_on_with_what_it_has() {
    let Some(redis) = Redis::start() else { return };
    let port = redis.port;
    let backend = Backend::start(Duration::ZERO).await;
    let (one, two) = (replica(&backend, &redis, Some(6000)).await, replica(&backend, &redis, Some(6000)).await);
    let ana = ("Authorization", "Bearer ana.1");
    let here = one.open(&[ana]).await;
    let there = two.open(&[ana]).await;
    drop(redis);

    assert_eq!(one.post(&card(1), &[ana, ("Mcp-Session-Id", &here)]).await.status, 200);
    let unsure = one.post(&card(1), &[ana, ("Mcp-Session-Id", &there)]).await;
    assert_eq!((unsure.status, unsure.error_code()), (503, json!(-32000)), "{unsure:?}");
    assert!(unsure.header("retry-after").is_some());
    let alone = one.open(&[ana]).await;
    assert_eq!(one.post(&card(1), &[ana, ("Mcp-Session-Id", &alone)]).await.status, 200);
    let cannot = one.raw(&request("DELETE", &[ana, ("Mcp-Session-Id", &alone)], "")).await;
    assert_eq!(cannot.status, 503);

    // It comes back, and has lost everything: what is still in use is known again.
    let _redis = Redis::on(port);
    let end = Instant::now() + LIMIT;
    loop {
        assert_eq!(one.post(&card(2), &[ana, ("Mcp-Session-Id", &here)]).await.status, 200);
        if two.post(&card(3), &[ana, ("Mcp-Session-Id", &here)]).await.status == 200 {
            break;
        }
        assert!(Instant::now() < end, "the session is not stored again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A write that began at one replica is known at the other, for its caller alone; without the store nothing is promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_a_key_is_sent_by_one_replica() {
    let Some(redis) = Redis::start() else { return };
    let backend = Backend::start(Duration::ZERO).await;
    let (one, two) = (replica(&backend, &redis, None).await, replica(&backend, &redis, None).await);
    let write = async |server: &Server, bearer: &str, key: &str| {
        let bearer = ("Authorization", bearer);
        let id = server.open(&[bearer]).await;
        let arguments = json!({"card_id": "5", "text": "secret words", "idempotency_key": key});
        let answer = server.post(&call(1, "add_card_comment", arguments), &[bearer, ("Mcp-Session-Id", &id)]).await;
        answer.json()["result"]["structuredContent"]["error"].clone()
    };
    // This backend proves no change, so the outcome is not known. What may not be kept in the clear has a letter that base64 does
    // not have: what is sealed may spell any short word by chance.
    let first = write(&one, "Bearer ana.1", "key-1").await;
    assert_eq!(first["details"]["may_have_been_applied"], true, "{first}");
    for bearer in ["Bearer ana.1", "Bearer ana.2"] {
        let again = write(&two, bearer, "key-1").await;
        assert_eq!(again["code"], "OUTCOME_UNKNOWN", "{again}");
    }
    assert_eq!(backend.seen().len(), 1);
    write(&two, "Bearer ben.1", "key-1").await;
    assert_eq!(backend.seen().len(), 2);
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "EVAL \"local o='' for _,k in ipairs(redis.call('KEYS','pipefy-mcp:write:*')) do o=o..k..redis.call('GET',k)..redis.call('TTL',k) end return o\" 0\r\n").unwrap();
    let (mut size, mut kept) = (String::new(), String::new());
    let mut reader = BufReader::new(stream);
    reader.read_line(&mut size).unwrap();
    reader.read_line(&mut kept).unwrap();
    assert!(kept.matches("pipefy-mcp:write:").count() == 2 && kept.contains("\"state\":\"unknown\""), "{kept}");
    for secret in ["secret words", "ana.", "\"ana", "key-1"] {
        assert!(!kept.contains(secret), "{secret}: {kept}");
    }
    drop(redis);
    let refused = write(&one, "Bearer ana.1", "key-3").await;
    assert_eq!(refused["code"], "JOURNAL_UNAVAILABLE", "{refused}");
    assert_eq!(backend.seen().len(), 2);
}

/// A store that takes connections and says nothing: each question ends by itself, and meanwhile it is mostly left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_hangs_holds_up_nobody_for_long() {
    let Some(redis) = Redis::start() else { return };
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &redis.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    let backend = Backend::start(Duration::ZERO).await;
    let (one, two) = (replica(&backend, &redis, Some(6000)).await, replica(&backend, &redis, Some(6000)).await);
    let ana = ("Authorization", "Bearer ana.1");
    let here = one.open(&[ana]).await;
    let there = two.open(&[ana]).await;
    signal("-STOP");
    let begun = Instant::now();
    for id in 0..100 {
        assert_eq!(one.post(&card(id), &[ana, ("Mcp-Session-Id", &here)]).await.status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?} for a hundred calls", begun.elapsed());
    assert_eq!(one.post(&card(1), &[ana, ("Mcp-Session-Id", &there)]).await.status, 503);
    signal("-CONT");
    let end = Instant::now() + LIMIT;
    while one.post(&card(2), &[ana, ("Mcp-Session-Id", &there)]).await.status != 200 {
        assert!(Instant::now() < end, "the store is not asked again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A replica as a process.
struct Process {
    child: Child,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Process {
    fn start(pipefy: &str, redis: &Redis) -> Self {
        let variables = [
            ("PIPEFY_BASE_URL", pipefy),
            ("PIPEFY_ALLOW_INSECURE_URLS", "true"),
            ("PIPEFY_TOKEN", pipefy_sandbox::DEFAULT_TOKEN),
            ("PIPEFY_MCP_SESSION_STORE_URL", &redis.url()),
            ("PIPEFY_MCP_SESSION_KEY", SESSION_KEY),
            ("PIPEFY_MCP_CONFIRMATION_SECRET", SECRET),
        ];
        let (mut command, home) = child::command(&["--transport", "http", "--port", "0"], &variables);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .find_map(|line| line.split_once("Listening on http://").map(|(_, rest)| rest.to_owned()))
            .and_then(|rest| rest.strip_suffix("/mcp")?.parse().ok())
            .expect("the replica says where it listens");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _home: home }
    }
}

/// A client that goes to one replica after the other, as behind a proxy without affinity.
struct Client<'a> {
    replicas: Vec<&'a Process>,
    turn: usize,
    session: Option<String>,
}

impl Client<'_> {
    async fn send(&mut self, body: &str) -> Answer {
        self.turn += 1;
        let replica = self.replicas[self.turn % self.replicas.len()];
        let session = self.session.clone().unwrap_or_default();
        let answer = Wire::connect(replica.address).await.exchange(&post(body, &[("Mcp-Session-Id", &session)])).await;
        assert!(answer.status < 300, "{answer:?}");
        answer
    }

    async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.send(&call(7, name, arguments)).await.json();
        answer["result"]["structuredContent"].clone()
    }
}

/// Ids of the sandbox's pipes.
async fn pipes(sandbox: &str) -> Vec<Value> {
    let address = sandbox.strip_prefix("http://").unwrap().parse().unwrap();
    let body = json!({"query": "{ organizations { pipes { id } } }"}).to_string();
    let request = format!(
        "POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        pipefy_sandbox::DEFAULT_TOKEN,
        body.len()
    );
    let found: Value = Wire::connect(address).await.exchange(request.as_bytes()).await.json();
    let organizations = found["data"]["organizations"].as_array().cloned().unwrap();
    organizations
        .iter()
        .flat_map(|one| one["pipes"].as_array().unwrap().clone())
        .map(|pipe| pipe["id"].clone())
        .collect()
}

#[test]
fn a_client_does_not_notice_that_replicas_take_turns_and_die() {
    let Some(redis) = Redis::start() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sandbox = runtime.block_on(pipefy_sandbox::Sandbox::start(Default::default())).unwrap();
    let (one, mut two) = (Process::start(sandbox.url(), &redis), Process::start(sandbox.url(), &redis));
    runtime.block_on(async {
        let mut client = Client { replicas: vec![&one, &two], turn: 0, session: None };
        let opened = client.send(&initialize("2025-06-18")).await;
        client.session = Some(opened.header("mcp-session-id").unwrap().to_owned());
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let list = client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.json();
        assert!(list["result"]["tools"].as_array().unwrap().len() > 100);

        let mut cards = Vec::new();
        for pipe in pipes(sandbox.url()).await {
            let listed = client.tool("get_cards", json!({"pipe_id": pipe})).await;
            let edges = listed.pointer("/data/cards/edges").and_then(Value::as_array).cloned().unwrap_or_default();
            cards.extend(edges.iter().map(|edge| edge["node"]["id"].clone()));
        }
        assert!(cards.len() >= 2, "the sandbox has cards");
        // Previewed at one replica, confirmed at the other.
        let preview = client.tool("delete_card", json!({"card_id": cards[0]})).await;
        let token = preview["confirmation_token"].as_str().unwrap_or_else(|| panic!("{preview}")).to_owned();
        let arguments = json!({"card_id": cards[0], "confirm": true, "confirmation_token": token});
        let deleted = client.tool("delete_card", arguments).await;
        assert_eq!(deleted["success"], true, "{deleted}");

        // Previewed at a replica that is then killed.
        client.turn = 0;
        let preview = client.tool("delete_card", json!({"card_id": cards[1]})).await;
        let token = preview["confirmation_token"].as_str().unwrap().to_owned();
        let session = client.session.clone();
        two.child.kill().unwrap();
        two.child.wait().unwrap();
        let mut client = Client { replicas: vec![&one], turn: 0, session };
        let arguments = json!({"card_id": cards[1], "confirm": true, "confirmation_token": token});
        let deleted = client.tool("delete_card", arguments).await;
        assert_eq!(deleted["success"], true, "{deleted}");
        assert_eq!(client.tool("list_organizations", json!({})).await["success"], true);
    });
    runtime.block_on(sandbox.shutdown());
}

/// The sealed state of a form is good for one answer, whichever replica takes it.
#[test]
fn an_answer_to_a_form_counts_once_over_all_replicas() {
    let Some(redis) = Redis::start() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sandbox = runtime.block_on(pipefy_sandbox::Sandbox::start(Default::default())).unwrap();
    let (one, two) = (Process::start(sandbox.url(), &redis), Process::start(sandbox.url(), &redis));
    runtime.block_on(async {
        let round = async |replica: &Process, pipe: &Value, more: Value| {
            let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
            let mut params = json!({"name": "create_card", "arguments": {"pipe_id": pipe}, "_meta": meta});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
            let headers =
                [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "create_card")];
            Wire::connect(replica.address).await.exchange(&post(&body, &headers)).await.messages().pop().unwrap()
        };
        let mut asked = None;
        for pipe in pipes(sandbox.url()).await {
            let answer = round(&one, &pipe, json!({})).await;
            if answer["result"]["resultType"] == "input_required" {
                asked = Some((pipe, answer["result"]["requestState"].clone()));
                break;
            }
        }
        let (pipe, state) = asked.expect("a pipe with a form");
        let answer = json!({"requestState": state, "inputResponses": {"form": {"action": "decline"}}});
        let first = round(&two, &pipe, answer.clone()).await;
        assert!(first["result"].to_string().contains("cancelled by the user"), "{first}");
        for replica in [&one, &two] {
            let again = round(replica, &pipe, answer.clone()).await;
            assert_eq!(again["error"]["data"], json!({"reason": "invalid_request_state"}), "{again}");
        }
    });
    runtime.block_on(sandbox.shutdown());
}
