//! Traces: the spans of a call reach a collector, hang together from the client to Pipefy, and hold nothing of anybody's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod support;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use http::*;
use pipefy_mcp::http::HttpOptions;
use pipefy_mcp::identity::RequestScopedIdentity;
use pipefy_mcp::traces::Traces;
use serde_json::json;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
/// Sent along in every place where a caller can put something.
const SECRET: &str = "planted-7b1f";

type Heard<T> = Arc<Mutex<Vec<T>>>;

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// Keeps what it is sent.
async fn collector() -> (String, Heard<Bytes>) {
    let batches = Heard::<Bytes>::default();
    let kept = batches.clone();
    let take = move |headers: HeaderMap, body: Bytes| async move {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        kept.lock().unwrap().push(body);
    };
    (serve(Router::new().route("/v1/traces", post(take))).await, batches)
}

/// Knows one card, and keeps the `traceparent` of whoever asks.
async fn pipefy() -> (String, Heard<String>) {
    let parents = Heard::<String>::default();
    let kept = parents.clone();
    let answer = move |headers: HeaderMap| async move {
        let parent = headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        assert!(!headers.contains_key("tracestate") && !headers.contains_key("baggage"));
        kept.lock().unwrap().extend(parent);
        axum::Json(json!({"data": {"card": {"id": "5", "title": SECRET}}}))
    };
    (serve(Router::new().route("/graphql", post(answer))).await, parents)
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).filter(|window| *window == needle).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_hang_together_and_hold_nothing_of_anybodys() {
    let (collector, batches) = collector().await;
    let (pipefy, parents) = pipefy().await;
    let settings = support::settings(&pipefy, &[("OTEL_EXPORTER_OTLP_ENDPOINT", collector.as_str())]);
    let traces = Traces::start(&settings.operations).unwrap().expect("a collector is configured");
    let runtime = support::runtime(&pipefy, Arc::new(RequestScopedIdentity), &[]);
    let runtime = Arc::new(Arc::into_inner(runtime).unwrap().with_traces(Some(traces.clone())));
    let options = HttpOptions { stateless: true, traces: Some(traces.clone()), ..options() };
    let server = Server::start(runtime, bearers(), options).await;

    let bearer = format!("Bearer {SECRET}.token");
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("traceparent", parent.as_str()),
        ("tracestate", "vendor=planted-7b1f"),
        ("baggage", "user=planted-7b1f"),
        ("X-Request-Id", SECRET),
        ("User-Agent", SECRET),
    ];
    let answer = server.post(&call(1, "get_card", json!({"card_id": "5"})), &headers).await;
    assert!(answer.text().contains(SECRET), "{answer:?}");
    server.post(&call(2, "get_card", json!({ SECRET: SECRET })), &headers).await;
    server.post(&call(3, SECRET, json!({})), &headers).await;
    let bad = [("Authorization", "Bearer bad.planted-7b1f"), ("traceparent", "planted-7b1f")];
    assert_eq!(server.post(&call(4, "get_card", json!({})), &bad).await.status, 401);
    traces.end().await;

    let spans = batches.lock().unwrap().concat();
    for name in ["POST /mcp", "tools/call get_card", "tools/call unknown", "Pipefy public", "pipefy-mcp-server"] {
        assert!(count(&spans, name.as_bytes()) > 0, "{name}");
    }
    assert_eq!(count(&spans, SECRET.as_bytes()), 0, "{}", String::from_utf8_lossy(&spans));
    // Three requests and calls, and what the first asked of Pipefy; the refused request is in a trace of its own.
    assert_eq!(count(&spans, &bytes(TRACE)), 7);
    assert_eq!(count(&spans, &bytes(SPAN)), 3);
    // Pipefy is told of the call's span, which is the parent of the span of that request.
    let parents = parents.lock().unwrap().clone();
    let [told] = parents.as_slice() else { panic!("{parents:?}") };
    let parts: Vec<&str> = told.split('-').collect();
    assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, "01"));
    assert_eq!(count(&spans, &bytes(parts[2])), 2);
}

#[tokio::test]
async fn without_a_collector_nothing_is_traced() {
    let settings = support::settings("http://127.0.0.1:1", &[]);
    assert!(Traces::start(&settings.operations).unwrap().is_none());
}
