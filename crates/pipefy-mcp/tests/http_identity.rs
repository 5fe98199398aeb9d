//! Whose bearer reaches Pipefy, through the whole stack: socket, edge, session, runtime, backend.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod support;

use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use futures_util::future::BoxFuture;
use http::*;
use pipefy::Credential;
use pipefy_mcp::http::{HttpOptions, Inbound};
use pipefy_mcp::identity::{Identity, IdentityError, RequestScopedIdentity, inbound_bearer};
use secrecy::ExposeSecret as _;
use serde_json::json;
use support::Backend;

/// 512 calls, 64 at a time, of two bearers: each result and each outbound request shows its own.
async fn interleaved(identity: Arc<dyn Identity>, options: HttpOptions, wanted: impl Fn(&str) -> String) {
    let backend = Backend::start(Duration::from_millis(2)).await;
    let stateless = options.stateless;
    let server = Arc::new(Server::start(support::runtime(&backend.url, identity, &[]), bearers(), options).await);
    let session = if stateless { String::new() } else { server.open(&[("Authorization", "Bearer ana.opener")]).await };
    let workers: Vec<_> = (0..64_usize)
        .map(|worker| {
            let (server, session) = (server.clone(), session.clone());
            tokio::spawn(async move {
                let mut wire = Wire::connect(server.address).await;
                let mut results = Vec::new();
                for round in 0..8 {
                    let bearer = format!("ana.{}", ["old", "new"][(worker + round) % 2]);
                    let id = worker * 100 + round + 1;
                    let header = format!("Bearer {bearer}");
                    let request = post(
                        &call(id, "get_card", json!({"card_id": id.to_string()})),
                        &[
                            ("Authorization", &header),
                            ("Mcp-Session-Id", &session),
                            ("MCP-Protocol-Version", "2025-06-18"),
                        ],
                    );
                    let answer = wire.exchange(&request).await.json();
                    assert_eq!(answer["id"], id);
                    results.push((id, bearer, answer["result"]["structuredContent"]["card"].clone()));
                }
                results
            })
        })
        .collect();
    for worker in workers {
        for (id, bearer, card) in worker.await.unwrap() {
            assert_eq!(card["title"], wanted(&bearer), "call {id}");
            assert_eq!(card["id"], id.to_string());
        }
    }
    let seen = backend.seen();
    assert_eq!(seen.len(), 512);
    for bearer in ["ana.old", "ana.new"] {
        assert_eq!(seen.iter().filter(|seen| **seen == wanted(bearer)).count(), 256, "{bearer}");
    }
}

fn modes() -> [HttpOptions; 4] {
    [(false, false, true), (false, true, true), (true, true, true), (true, true, false)].map(
        |(stateless, json, fast)| {
            let mut options = options();
            (options.stateless, options.json_response, options.fast_path) = (stateless, json, fast);
            options
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_goes_out_with_the_bearer_of_its_own_message() {
    for options in modes() {
        interleaved(Arc::new(RequestScopedIdentity), options, str::to_owned).await;
    }
}

/// A third way to act as callers: each bearer becomes another one.
struct Exchange;

impl Identity for Exchange {
    fn resolve<'a>(&'a self, request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(async move {
            let bearer = inbound_bearer(request)?;
            tokio::task::yield_now().await;
            Ok(Credential::static_token(&format!("exchanged-{}", bearer.expose_secret()).into())?)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_identity_works_through_the_whole_stack() {
    for options in modes() {
        interleaved(Arc::new(Exchange), options, |bearer| format!("exchanged-{bearer}")).await;
    }
}

/// An edge that lets everybody in, before a runtime that acts as callers: nothing goes out.
#[tokio::test]
async fn without_a_caller_nothing_goes_out() {
    for options in modes() {
        let backend = Backend::start(Duration::ZERO).await;
        let runtime = support::runtime(&backend.url, Arc::new(RequestScopedIdentity), &[]);
        let stateless = options.stateless;
        let server = Server::start(runtime, Inbound::Open, options).await;
        let session = if stateless { String::new() } else { server.open(&[]).await };
        let headers = [("Mcp-Session-Id", session.as_str()), ("Authorization", "Bearer ana.unchecked")];
        let answer = server.post(&call(1, "get_card", json!({"card_id": "5"})), &headers).await.json();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(backend.seen().is_empty());
    }
}
