//! Sessions: whose they are, how they end, what happens to calls whose client goes. Driven over real sockets against a small
//! handler that shows who it was called by.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::*;
use pipefy_mcp::http::{Called, HttpOptions, Inbound, LoneCall, Served};
use pipefy_mcp::identity::Principal;
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// What calls of the small handler left behind.
type Seen = Arc<Mutex<Vec<String>>>;

#[derive(Clone, Default)]
struct Probe(Seen);

impl Served for Probe {
    type Handler = Probe;
    fn handler(&self) -> Probe {
        self.clone()
    }
    fn is_read(&self, tool: &str) -> bool {
        !tool.ends_with("write")
    }
    fn asks(&self, tool: &str) -> bool {
        tool.starts_with("ask")
    }
    const CALLS: bool = true;
    async fn call(&self, call: LoneCall<'_>) -> Called {
        if self.asks(call.name) {
            return Called { text: "cannot ask".to_owned(), is_object: false, is_error: false };
        }
        let text = self.work(call.name, &call.arguments, call.request, &call.cancel).await;
        Called { text: text.unwrap_or_default(), is_object: false, is_error: false }
    }
}

impl Probe {
    fn saw(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// The tools that need nobody; the same whichever way a call comes.
    async fn work(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        parts: &::http::request::Parts,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let bearer = Principal::of(parts).map(|principal| principal.bearer.expose_secret().to_owned());
        assert!(parts.extensions.get::<pipefy_mcp::http::CorrelationId>().is_some());
        let pause = Duration::from_millis(arguments.get("ms").and_then(Value::as_u64).unwrap_or(0));
        match tool {
            "whoami" => {
                tokio::time::sleep(pause).await;
                assert!(Principal::of(parts).is_none() || !parts.headers.contains_key("authorization"));
                Some(bearer.unwrap_or_default())
            }
            "slow" | "write" => {
                self.saw(format!("{tool} began"));
                tokio::select! {
                    () = tokio::time::sleep(pause) => self.saw(format!("{tool} finished")),
                    () = cancel.cancelled() => self.saw(format!("{tool} cancelled")),
                }
                Some("done".to_owned())
            }
            _ => None,
        }
    }
}

fn text(text: impl Into<String>) -> Result<CallToolResponse, ErrorData> {
    Ok(CallToolResult::success(vec![ContentBlock::text(text.into())]).into())
}

impl ServerHandler for Probe {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parts: &::http::request::Parts = context.extensions.get().unwrap();
        let arguments = request.arguments.unwrap_or_default();
        if let Some(done) = self.work(&request.name, &arguments, parts, &context.ct).await {
            return text(done);
        }
        match request.name.as_ref() {
            "ask" | "ask and write" => {
                let question =
                    json!({"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}});
                let question = ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(question)));
                if context.client_capabilities().is_none_or(|capabilities| capabilities.elicitation.is_none()) {
                    return text("cannot ask");
                }
                match context.peer.send_request(question).await {
                    Ok(answer) => {
                        let answer = serde_json::to_string(&answer).unwrap();
                        self.saw(format!("answered {answer}"));
                        text(answer)
                    }
                    Err(_) => text("could not ask"),
                }
            }
            "progress" => {
                let token = context.meta.get_progress_token().unwrap();
                for step in 0..3 {
                    let report = ProgressNotificationParam::new(token.clone(), f64::from(step));
                    context.peer.notify_progress(report).await.unwrap();
                }
                text("done")
            }
            "flood" => {
                let token = context.meta.get_progress_token().unwrap();
                for step in 0..2000 {
                    let report =
                        ProgressNotificationParam::new(token.clone(), f64::from(step)).with_message("x".repeat(10_000));
                    if context.peer.notify_progress(report).await.is_err() {
                        break;
                    }
                }
                text("done")
            }
            other => Err(ErrorData::invalid_params(other.to_owned(), None)),
        }
    }
}

async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !check() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Calls run in their POST's own task, or through the session's loop: nobody can tell.
fn both_ways() -> [HttpOptions; 2] {
    [true, false].map(|fast_path| HttpOptions { fast_path, ..options() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_acts_as_the_bearer_of_its_own_message() {
    for options in both_ways() {
        calls_act_as_their_own_bearer(options).await;
    }
}

async fn calls_act_as_their_own_bearer(options: HttpOptions) {
    let server = Arc::new(Server::start(Probe::default(), bearers(), options).await);
    let session = server.open(&[("Authorization", "Bearer ana.0")]).await;
    let workers: Vec<_> = (0..64)
        .map(|worker| {
            let (server, session) = (server.clone(), session.clone());
            tokio::spawn(async move {
                let mut wire = Wire::connect(server.address).await;
                for round in 0..10 {
                    // The same person with one of two tokens, as after a refresh.
                    let token = format!("ana.{}", (worker + round) % 2);
                    let body = call(worker * 100 + round, "whoami", json!({"ms": (worker * 7 + round * 3) % 11}));
                    let request = post(&body, &[("Authorization", &bearer(&token)), ("Mcp-Session-Id", &session)]);
                    let answer = wire.exchange(&request).await;
                    assert_eq!(answer.status, 200, "{answer:?}");
                    assert_eq!(answer.text(), token);
                    assert_eq!(answer.json()["id"], worker * 100 + round);
                    assert_eq!(answer.header("mcp-session-id"), Some(session.as_str()));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let lines = server.lines.lock().unwrap();
    assert_eq!(lines.len(), 641);
    assert!(lines.iter().all(|line| line["sub"] == "ana" && line["client_id"] == "client" && line["status"] == 200));
    let id = session.split('.').next().unwrap();
    assert!(lines.iter().all(|line| line["session_id"] == id), "the log names the session without its seal");
    assert!(!format!("{lines:?}").contains("ana.0"));
}

#[tokio::test]
async fn a_stranger_gets_what_an_unknown_session_gets() {
    let server = Server::start(Probe::default(), bearers(), options()).await;
    let ana = ("Authorization", "Bearer ana.1");
    let session = server.open(&[ana]).await;
    let id = session.split('.').next().unwrap();

    // Ana's call asks her something.
    let mut asking = Wire::connect(server.address).await;
    asking.send(&post(&call(5, "ask", json!({})), &[ana, ("Mcp-Session-Id", &session)])).await;
    assert_eq!(asking.head().await.status, 200);
    let question = frames(&asking.chunk().await.unwrap()).pop().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let reply =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"a": "ana"}}})
            .to_string();
    let forged = reply.replace("ana", "stranger");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string();

    let unknown = format!("{}.{}", "0".repeat(32), "0".repeat(32));
    let reference = server.post(&call(1, "whoami", json!({})), &[ana, ("Mcp-Session-Id", &unknown)]).await;
    assert_eq!((reference.status, reference.error_code()), (404, json!(-32600)));
    assert_eq!(reference.json()["id"], Value::Null);
    assert_eq!(reference.json()["error"]["message"], "Session not found");
    for (who, ids) in [
        ("Bearer ben.1", vec![session.as_str(), id]),
        ("Bearer ana.other-client", vec![session.as_str()]),
        ("Bearer ana.1", vec![id, &session[..session.len() - 1], ""]),
    ] {
        for session in ids {
            let headers = [("Authorization", who), ("Mcp-Session-Id", session)];
            let headers = if session.is_empty() { vec![headers[0], ("Mcp-Session-Id", ".")] } else { headers.to_vec() };
            let sse = [headers[0], ("Accept", "text/event-stream"), headers[1]];
            for bytes in [
                post(&call(1, "whoami", json!({})), &headers),
                post(&initialize("2025-06-18"), &headers),
                post(&forged, &headers),
                post(&cancel, &headers),
                request("GET", &sse, ""),
                request("DELETE", &headers, ""),
            ] {
                let answer = server.raw(&bytes).await;
                assert_eq!(
                    (answer.status, &answer.body),
                    (404, &reference.body),
                    "{who} {}",
                    String::from_utf8_lossy(&bytes)
                );
                assert_eq!(answer.header("mcp-session-id"), None);
            }
        }
    }

    // None of it reached the session: the owner's answer is the one that counts.
    let accepted = server.post(&reply, &[("Authorization", "Bearer ana.2"), ("Mcp-Session-Id", &session)]).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    let answer = frames(&asking.chunk().await.unwrap()).pop().unwrap();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("ana"), "{answer}");
    assert_eq!(server.app.sessions(), 1);
}

#[tokio::test]
async fn the_standalone_stream_is_one_and_ends_with_the_token() {
    let server = Server::start(Probe::default(), bearers(), options()).await;
    let ana = ("Authorization", "Bearer ana.1");
    let session = server.open(&[ana]).await;
    let mut first = Wire::connect(server.address).await;
    // An event id of another life is ignored.
    first.send(&get(&session, &[("Authorization", "Bearer ana.soon"), ("Last-Event-ID", "7/1")])).await;
    let head = first.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("mcp-session-id"), Some(session.as_str()));
    assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    let second = server.raw(&get(&session, &[ana])).await;
    assert_eq!((second.status, second.error_code()), (409, json!(-32600)));
    // A POST never waits for it.
    assert_eq!(server.post(&call(1, "whoami", json!({})), &[ana, ("Mcp-Session-Id", &session)]).await.text(), "ana.1");
    let begun = Instant::now();
    assert_eq!(tokio::time::timeout(LIMIT, first.chunk()).await.unwrap(), None);
    assert!(begun.elapsed() < Duration::from_secs(30));
    // Gone, it makes room for another.
    let mut third = Wire::connect(server.address).await;
    third.send(&get(&session, &[ana])).await;
    assert_eq!(third.head().await.status, 200);
    // DELETE ends it.
    let deleted = server.raw(&request("DELETE", &[ana, ("Mcp-Session-Id", &session)], "")).await;
    assert_eq!((deleted.status, deleted.body.as_str()), (200, ""));
    assert_eq!(tokio::time::timeout(LIMIT, third.chunk()).await.unwrap(), None);
    let after = server.post(&call(1, "whoami", json!({})), &[ana, ("Mcp-Session-Id", &session)]).await;
    assert_eq!((after.status, after.error_code()), (404, json!(-32600)));
    assert!(after.json()["error"]["message"].as_str().unwrap().contains("terminated"));
}

#[tokio::test]
async fn cancelled_calls_stop_and_their_streams_end() {
    for options in both_ways() {
        cancelled_calls_stop(options).await;
    }
}

async fn cancelled_calls_stop(options: HttpOptions) {
    let probe = Probe::default();
    let server = Server::start(probe.clone(), Inbound::Open, options).await;
    let session = server.open(&[]).await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    for (id, format) in [(json!(1), ""), (json!("a"), "application/json")] {
        let mut wire = Wire::connect(server.address).await;
        let accept = if format.is_empty() { "text/event-stream, application/json" } else { format };
        wire.send(&post(&call(id.clone(), "slow", json!({"ms": 60_000})), &[headers[0], ("Accept", accept)])).await;
        until("begun", || probe.0.lock().unwrap().last().is_some_and(|last| last == "slow began")).await;
        // A second request with the same id is refused, not confused with the first.
        let twin = server.post(&call(id.clone(), "whoami", json!({})), &headers).await;
        assert_eq!((twin.status, twin.error_code(), twin.json()["id"].clone()), (400, json!(-32600), id.clone()));
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "x"}});
        assert_eq!(server.post(&cancel.to_string(), &headers).await.status, 202);
        until("cancelled", || probe.0.lock().unwrap().last().is_some_and(|last| last == "slow cancelled")).await;
        let answer = wire.exchange(b"").await;
        assert_eq!((answer.status, answer.error_code(), answer.json()["id"].clone()), (200, json!(-32800), id));
    }
    // DELETE: the call stops, its stream ends without an answer.
    let mut wire = Wire::connect(server.address).await;
    wire.send(&post(&call(3, "slow", json!({"ms": 60_000})), &headers)).await;
    until("begun", || probe.0.lock().unwrap().len() == 5).await;
    assert_eq!(server.raw(&request("DELETE", &headers, "")).await.status, 200);
    let answer = wire.exchange(b"").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    until("cancelled", || probe.0.lock().unwrap().last().is_some_and(|last| last == "slow cancelled")).await;
    until("gone", || server.app.sessions() == 0).await;
}

#[tokio::test]
async fn when_the_client_goes_reads_stop_after_a_while_and_writes_do_not() {
    for options in both_ways() {
        reads_stop_and_writes_do_not(options).await;
    }
}

async fn reads_stop_and_writes_do_not(mut options: HttpOptions) {
    let probe = Probe::default();
    options.disconnect_grace = Duration::from_millis(300);
    let server = Server::start(probe.clone(), Inbound::Open, options).await;
    let session = server.open(&[]).await;
    // The read would go on for long after the test; the write ends well after the grace time.
    for (id, tool, ms) in [(1, "slow", 600_000), (2, "write", 1_500)] {
        let mut wire = Wire::connect(server.address).await;
        wire.send(&post(&call(id, tool, json!({ "ms": ms })), &[("Mcp-Session-Id", &session)])).await;
        until("begun", || probe.0.lock().unwrap().contains(&format!("{tool} began"))).await;
    }
    until("ended", || probe.0.lock().unwrap().len() == 4).await;
    let seen = probe.0.lock().unwrap().clone();
    assert!(seen.contains(&"slow cancelled".to_owned()) && seen.contains(&"write finished".to_owned()), "{seen:?}");
    until("logged", || server.lines.lock().unwrap().len() == 3).await;
    let lines = server.lines.lock().unwrap();
    assert_eq!(lines.iter().filter(|line| line["status"].is_null()).count(), 2, "{lines:?}");
}

#[tokio::test]
async fn a_call_that_takes_long_is_answered_on_an_open_stream() {
    for options in both_ways() {
        let probe = Probe::default();
        let server = Server::start(probe.clone(), Inbound::Open, options).await;
        let session = server.open(&[]).await;
        let mut wire = Wire::connect(server.address).await;
        wire.send(&post(&call(1, "slow", json!({"ms": 8_000})), &[("Mcp-Session-Id", &session)])).await;
        let head = wire.head().await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(*probe.0.lock().unwrap(), ["slow began"], "the stream opens before the answer is there");
        let answer = frames(&wire.chunk().await.unwrap()).pop().unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)), "{answer}");
        assert_eq!(wire.chunk().await, None);
    }
}

#[tokio::test]
async fn a_write_does_not_wait_for_an_answer_that_cannot_come() {
    let probe = Probe::default();
    let mut options = options();
    options.disconnect_grace = Duration::from_millis(200);
    let server = Server::start(probe.clone(), Inbound::Open, options).await;
    let session = server.open(&[]).await;
    let mut wire = Wire::connect(server.address).await;
    wire.send(&post(&call(1, "ask and write", json!({})), &[("Mcp-Session-Id", &session)])).await;
    wire.head().await;
    wire.chunk().await.unwrap();
    assert!(probe.0.lock().unwrap().is_empty());
    drop(wire);
    until("answered", || probe.0.lock().unwrap().contains(&"answered {\"action\":\"cancel\"}".to_owned())).await;
}

#[tokio::test]
async fn a_reader_that_stands_still_holds_up_nobody() {
    let server = Server::start(Probe::default(), Inbound::Open, options()).await;
    let session = server.open(&[]).await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let flood = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood", "_meta": {"progressToken": 9}}});
    let mut still = Wire::connect(server.address).await;
    still.send(&post(&flood.to_string(), &headers)).await;
    let _unread = still.head().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for id in 2..20 {
        let begun = Instant::now();
        assert_eq!(server.post(&call(id, "whoami", json!({})), &headers).await.status, 200);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    // Its call is given up when it goes, and the id can be used again.
    drop(still);
    let end = Instant::now() + LIMIT;
    while server.post(&call(1, "whoami", json!({})), &headers).await.status != 200 {
        assert!(Instant::now() < end, "the call of a reader that has gone never ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.raw(&request("DELETE", &headers, "")).await.status, 200);
    until("the session is gone", || server.app.sessions() == 0).await;
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_not_into_plain_json() {
    let server = Server::start(Probe::default(), Inbound::Open, options()).await;
    let session = server.open(&[]).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "progress", "_meta": {"progressToken": "t"}}});
    let messages = server.post(&body.to_string(), &[("Mcp-Session-Id", &session)]).await.messages();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[..3].iter().all(|message| message["params"]["progressToken"] == "t"));
    assert_eq!(messages[3]["id"], 1);
    let json = [("Mcp-Session-Id", session.as_str()), ("Accept", "application/json")];
    let plain = server.post(&body.to_string(), &json).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    assert_eq!(plain.text(), "done");
    // A question has no place in a plain answer either: the tool goes on without.
    assert_eq!(server.post(&call(2, "ask", json!({})), &json).await.text(), "could not ask");
}

#[tokio::test]
async fn in_json_mode_the_handler_is_told_that_nobody_can_be_asked() {
    let mut options = options();
    options.json_response = true;
    let server = Server::start(Probe::default(), Inbound::Open, options).await;
    let session = server.open(&[]).await;
    let answer = server.post(&call(2, "ask", json!({})), &[("Mcp-Session-Id", &session)]).await;
    assert_eq!((answer.header("content-type"), answer.text().as_str()), (Some("application/json"), "cannot ask"));
}

#[tokio::test]
async fn ten_thousand_refusals_leave_no_session() {
    let server = Server::start(Probe::default(), Inbound::Open, options()).await;
    let mut wire = Wire::connect(server.address).await;
    let init = initialize("2025-06-18");
    let bad = [
        post(&init, &[("Accept", "text/plain")]),
        post(&init, &[("Content-Type", "text/plain")]),
        post(&init, &[("Host", "evil.test")]),
        post(&init, &[("Origin", "http://evil.test")]),
        post(&init, &[("Mcp-Session-Id", "x")]),
        post(&init.replace("\"id\":0", "\"id\":[]"), &[]),
        post("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}", &[]),
        post("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &[]),
        post("nonsense", &[]),
        request("GET", &[("Accept", "text/event-stream")], ""),
        request("DELETE", &[], ""),
    ];
    for round in 0..10_000 {
        let answer = wire.exchange(&bad[round % bad.len()]).await;
        assert!(answer.status >= 400 || answer.error_code() == -32602, "{answer:?}");
    }
    assert_eq!(server.app.sessions(), 0);
}

#[tokio::test]
async fn sessions_end_when_idle_or_deleted_and_are_limited() {
    let mut limits = options();
    limits.limits.total = 5;
    limits.limits.per_owner = 2;
    let server = Server::start(Probe::default(), bearers(), limits).await;
    let ana = ("Authorization", "Bearer ana.1");
    for _ in 0..100 {
        let session = server.open(&[ana]).await;
        assert_eq!(server.raw(&request("DELETE", &[ana, ("Mcp-Session-Id", &session)], "")).await.status, 200);
    }
    assert_eq!(server.app.sessions(), 0);

    // At the caller's limit the longest unused one goes.
    let oldest = server.open(&[ana]).await;
    let kept = server.open(&[ana]).await;
    let mut listening = Wire::connect(server.address).await;
    listening.send(&get(&kept, &[ana])).await;
    listening.head().await;
    let newest = server.open(&[ana]).await;
    assert_eq!(server.app.sessions(), 2);
    let gone = server.post(&call(1, "whoami", json!({})), &[ana, ("Mcp-Session-Id", &oldest)]).await;
    assert_eq!(gone.status, 404);
    // Sessions in use are never taken away.
    let mut second = Wire::connect(server.address).await;
    second.send(&get(&newest, &[ana])).await;
    second.head().await;
    let refused = server.post(&initialize("2025-06-18"), &[ana]).await;
    assert_eq!((refused.status, refused.error_code()), (429, json!(-32000)));
    assert!(refused.header("retry-after").is_some());
    // Nor are other callers' ones, when the server is full.
    server.open(&[("Authorization", "Bearer ben.1")]).await;
    server.open(&[("Authorization", "Bearer ben.1")]).await;
    server.open(&[("Authorization", "Bearer cat.1")]).await;
    let full = server.post(&initialize("2025-06-18"), &[("Authorization", "Bearer dan.1")]).await;
    assert_eq!((full.status, full.error_code()), (503, json!(-32000)));
    drop((listening, second));

    // Silence ends sessions, but not what has a stream.
    let mut idle = options();
    idle.limits.idle = Duration::from_secs(2);
    let server = Server::start(Probe::default(), bearers(), idle).await;
    for _ in 0..3 {
        server.open(&[ana]).await;
    }
    // On a machine that stands still for longer than that, the next one will do.
    let listening = loop {
        let kept = server.open(&[ana]).await;
        let mut wire = Wire::connect(server.address).await;
        wire.send(&get(&kept, &[ana])).await;
        if wire.head().await.status == 200 {
            break wire;
        }
    };
    until("idle sessions ended", || server.app.sessions() == 1).await;
    drop(listening);
    until("all ended", || server.app.sessions() == 0).await;
}

#[tokio::test]
async fn a_stop_waits_for_calls_then_ends_everything() {
    let probe = Probe::default();
    let mut patient = options();
    patient.drain = LIMIT;
    let mut server = Server::start(probe.clone(), Inbound::Open, patient).await;
    let session = server.open(&[]).await;
    let mut stream = Wire::connect(server.address).await;
    stream.send(&get(&session, &[])).await;
    stream.head().await;
    let mut calling = Wire::connect(server.address).await;
    calling.send(&post(&call(1, "slow", json!({"ms": 6_000})), &[("Mcp-Session-Id", &session)])).await;
    until("begun", || !probe.0.lock().unwrap().is_empty()).await;
    server.stop.cancel();
    let begun = Instant::now();
    assert_eq!(tokio::time::timeout(LIMIT, stream.chunk()).await.unwrap(), None);
    assert_eq!(*probe.0.lock().unwrap(), ["slow began"], "streams end first");
    assert_eq!(calling.exchange(b"").await.text(), "done");
    tokio::time::timeout(LIMIT, &mut server.ended).await.unwrap().unwrap();
    // It ends with its last call, and does not wait for the end of the time it has.
    assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    assert_eq!(server.app.sessions(), 0);
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_stop_has_an_end() {
    let probe = Probe::default();
    let mut limits = options();
    limits.drain = Duration::from_millis(300);
    let mut server = Server::start(probe.clone(), Inbound::Open, limits).await;
    let session = server.open(&[]).await;
    let mut calling = Wire::connect(server.address).await;
    calling.send(&post(&call(1, "slow", json!({"ms": 60_000})), &[("Mcp-Session-Id", &session)])).await;
    until("begun", || !probe.0.lock().unwrap().is_empty()).await;
    server.stop.cancel();
    let begun = Instant::now();
    tokio::time::timeout(LIMIT, &mut server.ended).await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    until("cancelled", || probe.0.lock().unwrap().contains(&"slow cancelled".to_owned())).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_exit_code_3() {
    let server = Server::start(Probe::default(), Inbound::Open, options()).await;
    let mut taken = options();
    taken.port = server.address.port();
    let error = pipefy_mcp::http::bind(Probe::default(), Inbound::Open, &taken).await.unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("PIPEFY_MCP_PORT"), "{error}");
}

#[tokio::test]
async fn without_sessions_a_closed_connection_cancels() {
    for (stateless, version) in [(true, "2025-06-18"), (false, "2026-07-28")] {
        let probe = Probe::default();
        let mut options = options();
        options.stateless = stateless;
        let server = Server::start(probe.clone(), Inbound::Open, options).await;
        let meta = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}});
        let mut params = json!({"name": "write", "arguments": {"ms": 60_000}});
        if version == "2026-07-28" {
            params["_meta"] = meta;
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let headers = [("MCP-Protocol-Version", version), ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")];
        let mut wire = Wire::connect(server.address).await;
        wire.send(&post(&body, &headers)).await;
        until("begun", || !probe.0.lock().unwrap().is_empty()).await;
        drop(wire);
        until("cancelled", || probe.0.lock().unwrap().contains(&"write cancelled".to_owned())).await;
        until("logged", || !server.lines.lock().unwrap().is_empty()).await;
    }
}
