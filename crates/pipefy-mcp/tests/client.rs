//! The server as an off-the-shelf client sees it, in one process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::time::Duration;

use pipefy_mcp::handler::Handler;
use pipefy_mcp::stdio::serve_on;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::json;
use support::Backend;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_official_client_lists_and_calls() {
    let backend = Backend::start(Duration::ZERO).await;
    let runtime = support::local(&backend.url, "token-local", &[]);
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(ours);
    let serving = tokio::spawn(serve_on(Handler::new(runtime), input, output, CancellationToken::new()));
    let client = ().serve(theirs).await.unwrap();
    let server = client.peer_info().unwrap();
    assert_eq!(server.server_info.as_ref().unwrap().name, "pipefy");
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "get_card"));
    let arguments = json!({"card_id": 7}).as_object().unwrap().clone();
    let result = client.call_tool(CallToolRequestParams::new("get_card").with_arguments(arguments)).await.unwrap();
    assert_eq!(result.is_error, Some(false));
    assert_eq!(result.structured_content.unwrap()["card"], json!({"id": "7", "title": "token-local"}));
    assert!(client.list_all_prompts().await.unwrap().iter().any(|prompt| prompt.name == "investigate-stuck-card"));
    client.cancel().await.unwrap();
    tokio::time::timeout(Duration::from_secs(90), serving).await.unwrap().unwrap();
    assert_eq!(backend.seen(), ["token-local"]);
}

/// Calls over the limit wait and are served; none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_run_at_a_time_are_all_served() {
    let backend = Backend::start(Duration::from_millis(20)).await;
    let runtime = support::local(&backend.url, "t", &[]);
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(serve_on(Handler::new(runtime), input, output, CancellationToken::new()));
    let client = std::sync::Arc::new(().serve(theirs).await.unwrap());
    let calls: Vec<_> = (1..=2 * pipefy_mcp::runtime::CALLS_AT_A_TIME)
        .map(|id| {
            let client = client.clone();
            tokio::spawn(async move {
                let arguments = json!({"card_id": id}).as_object().unwrap().clone();
                let call = client.call_tool(CallToolRequestParams::new("get_card").with_arguments(arguments));
                (id, call.await.unwrap().structured_content.unwrap()["card"]["id"].clone())
            })
        })
        .collect();
    for call in calls {
        let (id, card) = call.await.unwrap();
        assert_eq!(card, id.to_string());
    }
}
