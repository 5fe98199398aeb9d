//! Whose credential a call goes out with: always that of the request that carried this very message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::request::Parts;
use pipefy::Credential;
use pipefy_mcp::handler::Handler;
use pipefy_mcp::identity::{Identity, IdentityError, Principal, RequestScopedIdentity, inbound_bearer};
use pipefy_mcp::runtime::McpRuntime;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::serve_server;
use rmcp::transport::{Transport, TransportAdapterIdentity};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use support::Backend;
use tokio::sync::mpsc;

/// One long-lived session whose messages each carry their own HTTP request, as the HTTP layer gives them.
struct Session {
    to_server: mpsc::Sender<ClientJsonRpcMessage>,
    from_server: mpsc::Receiver<ServerJsonRpcMessage>,
}

struct Channel {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: mpsc::Sender<ServerJsonRpcMessage>,
}

impl Transport<RoleServer> for Channel {
    type Error = std::io::Error;
    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move { outgoing.send(message).await.map_err(|_| std::io::ErrorKind::BrokenPipe.into()) }
    }
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.incoming.recv().await
    }
    async fn close(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn parts(bearer: &str) -> Parts {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.extensions.insert(Principal {
        client_id: "client".to_owned(),
        issuer: Some("https://issuer.test".to_owned()),
        subject: Some("ana".to_owned()),
        scopes: Vec::new(),
        expires_at: i64::MAX,
        bearer: bearer.into(),
    });
    parts
}

fn message(value: Value, parts: Option<Parts>) -> ClientJsonRpcMessage {
    let mut message: ClientJsonRpcMessage = serde_json::from_value(value).unwrap();
    if let (JsonRpcMessage::Request(request), Some(parts)) = (&mut message, parts) {
        request.request.extensions_mut().insert(parts);
    }
    message
}

fn call(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "get_card", "arguments": {"card_id": id.to_string()}}})
}

impl Session {
    async fn open(runtime: Arc<McpRuntime>, opener: &str) -> Self {
        let (to_server, incoming) = mpsc::channel(64);
        let (outgoing, from_server) = mpsc::channel(64);
        tokio::spawn(async move {
            let channel = Channel { incoming, outgoing };
            let service =
                serve_server::<_, _, _, TransportAdapterIdentity>(Handler::new(runtime), channel).await.unwrap();
            service.waiting().await.unwrap();
        });
        let mut session = Self { to_server, from_server };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        session.to_server.send(message(hello, Some(parts(opener)))).await.unwrap();
        session.answer().await;
        session
    }

    async fn answer(&mut self) -> (usize, Value) {
        let answer = tokio::time::timeout(Duration::from_secs(90), self.from_server.recv()).await.unwrap().unwrap();
        let value = serde_json::to_value(&answer).unwrap();
        match answer {
            JsonRpcMessage::Response(response) => {
                let RequestId::Number(id) = response.id else { panic!() };
                (usize::try_from(id).unwrap(), value["result"].clone())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// 400 interleaved calls of two bearers in one session: each result and each outbound request shows its own.
async fn interleaved(identity: Arc<dyn Identity>, wanted: impl Fn(&str) -> String) {
    let backend = Backend::start(Duration::from_millis(1)).await;
    let mut session = Session::open(support::runtime(&backend.url, identity, &[]), "token-opener").await;
    let bearers = ["token-old", "token-new"];
    let sender = session.to_server.clone();
    let sending = tokio::spawn(async move {
        for id in 1..=400 {
            sender.send(message(call(id), Some(parts(bearers[id % 2])))).await.unwrap();
        }
    });
    let mut titles = HashMap::new();
    for _ in 0..400 {
        let (id, result) = session.answer().await;
        titles.insert(id, result["structuredContent"]["card"]["title"].as_str().unwrap().to_owned());
    }
    sending.await.unwrap();
    for id in 1..=400 {
        assert_eq!(titles[&id], wanted(bearers[id % 2]), "call {id}");
    }
    let seen = backend.seen();
    assert_eq!(seen.len(), 400);
    for bearer in bearers {
        assert_eq!(seen.iter().filter(|s| **s == wanted(bearer)).count(), 200, "{bearer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_goes_out_as_its_own_caller() {
    interleaved(Arc::new(RequestScopedIdentity), str::to_owned).await;
}

/// Exchanges the caller's bearer for another one. Everything that has to change is here.
struct Exchange;

impl Identity for Exchange {
    fn resolve<'a>(&'a self, request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(async move {
            let bearer = inbound_bearer(request)?;
            tokio::task::yield_now().await; // a token exchange waits for the network
            Ok(Credential::static_token(&format!("exchanged-{}", bearer.expose_secret()).into())?)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_way_to_act_as_callers_is_another_resolve_alone() {
    interleaved(Arc::new(Exchange), |bearer| format!("exchanged-{bearer}")).await;
}

#[tokio::test]
async fn without_a_caller_nothing_is_sent() {
    let backend = Backend::start(Duration::ZERO).await;
    let runtime = support::runtime(&backend.url, Arc::new(RequestScopedIdentity), &[]);
    let mut session = Session::open(runtime, "token-opener").await;
    let (anonymous, ()) = http::Request::new(()).into_parts();
    for carried in [None, Some(anonymous), Some(parts("")), Some(parts("  "))] {
        session.to_server.send(message(call(1), carried)).await.unwrap();
        let (_, result) = session.answer().await;
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Error executing tool get_card: "), "{text}");
    }
    assert!(backend.seen().is_empty());
}

/// Stands for a defect anywhere in a call.
struct Defect;

impl Identity for Defect {
    fn resolve<'a>(&'a self, _request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(async { panic!("canary-defect") })
    }
}

#[tokio::test]
async fn a_defect_in_a_call_is_answered_and_the_session_goes_on() {
    let runtime = support::runtime("http://127.0.0.1:1", Arc::new(Defect), &[]);
    let mut session = Session::open(runtime, "token-opener").await;
    for id in 1..=2 {
        session.to_server.send(message(call(id), Some(parts("t")))).await.unwrap();
        let (answered, result) = session.answer().await;
        assert_eq!((answered, &result["isError"]), (id, &json!(true)));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Error executing tool get_card: ") && !text.contains("canary"), "{text}");
    }
}

/// A preview by one bearer cannot be confirmed by another.
#[tokio::test]
async fn a_confirmation_belongs_to_its_bearer() {
    let backend = Backend::start(Duration::ZERO).await;
    let runtime = support::runtime(&backend.url, Arc::new(RequestScopedIdentity), &[]);
    let mut session = Session::open(runtime, "token-opener").await;
    let delete = |id: usize, token: Option<&str>| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "delete_card",
               "arguments": {"card_id": "5", "confirm": token.is_some(), "confirmation_token": token}}})
    };
    session.to_server.send(message(delete(1, None), Some(parts("token-a")))).await.unwrap();
    let (_, preview) = session.answer().await;
    let token = preview["structuredContent"]["confirmation_token"].as_str().unwrap().to_owned();
    session.to_server.send(message(delete(2, Some(&token)), Some(parts("token-b")))).await.unwrap();
    let (_, refused) = session.answer().await;
    assert_eq!(refused["structuredContent"]["requires_confirmation"], true);
    session.to_server.send(message(delete(3, Some(&token)), Some(parts("token-a")))).await.unwrap();
    let (_, done) = session.answer().await;
    assert!(done["structuredContent"].get("requires_confirmation").is_none(), "{done}");
}
