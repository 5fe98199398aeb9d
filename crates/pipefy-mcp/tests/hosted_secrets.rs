//! What a hosted server writes about itself at the most talkative level, its own lines and those of every library: no bearer,
//! no secret. Alone in its process, because the log is the process's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/hosted.rs"]
mod hosted;
mod http;
#[path = "support/issuer.rs"]
mod issuer;
mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};

use hosted::{PUBLIC, Rig, call_alone};
use http::*;
use pipefy_mcp::http::Authenticator as _;
use pipefy_mcp::http::JwtBearers;
use pipefy_sandbox::{MCP_SERVER_CLIENT_ID, MCP_SERVER_CLIENT_SECRET};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_written_holds_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    tracing_subscriber::registry().with(lines).with(LevelFilter::TRACE).init();

    let rig = Rig::start().await;
    let mut planted = vec![MCP_SERVER_CLIENT_SECRET.to_owned()];
    let mut written = String::new();
    for secret in ["", MCP_SERVER_CLIENT_SECRET, "canary-wrong-secret"] {
        let exchange = [("PIPEFY_EXCHANGE_CLIENT_ID", MCP_SERVER_CLIENT_ID), ("PIPEFY_EXCHANGE_CLIENT_SECRET", secret)];
        let more: &[(&str, &str)] = if secret.is_empty() { &[] } else { &exchange };
        let settings = support::settings(rig.sandbox.url(), more);
        let runtime = rig.runtime(rig.sandbox.url(), more);
        written.push_str(&format!("{settings:?} {runtime:?} {:?}\n", runtime.inbound()));
        let server = rig.server(rig.sandbox.url(), more, options()).await;
        for wish in [
            json!({}),
            json!({"expires_in": -5}),
            json!({"claims": {"sub": "nobody"}}),
            json!({"claims": {"sub": ""}}),
            json!({"aud": ["other"]}),
        ] {
            let token = rig.mint(wish).await;
            let bearer = format!("Bearer {token}");
            let opened = server.post(&initialize("2025-06-18"), &[("Authorization", &bearer)]).await;
            let session = opened.header("mcp-session-id").unwrap_or("some-session").to_owned();
            written.push_str(&opened.body);
            let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
            written.push_str(&server.post(&call(1, "search_pipes", json!({})), &headers).await.body);
            let (body, [one, two, three]) = call_alone(2, "search_pipes", json!({}));
            written.push_str(&server.post(&body, &[headers[0], one, two, three]).await.body);
            written.push_str(&server.raw(&request("DELETE", &headers, "")).await.body);
            planted.push(token);
        }
        for bad in ["canary-garbage", "canary.canary.canary", &"canary".repeat(6000)] {
            written.push_str(
                &server.post(&initialize("2025-06-18"), &[("Authorization", &format!("Bearer {bad}"))]).await.body,
            );
        }
        written.push_str(&format!("{:?}", server.lines.lock().unwrap()));
    }
    // The issuer's keys cannot be had.
    rig.issuer.faults(json!({"rules": [{"endpoint": "jwks", "drop": true}, {"endpoint": "oidc", "drop": true}]})).await;
    let settings = pipefy::settings::JwtValidationSettings {
        issuer_url: None,
        audience: None,
        verify_audience: false,
        jwks_uri: None,
        allow_insecure_urls: true,
    };
    let validator = pipefy_auth::inbound::JwtValidator::new(&settings, rig.sandbox.issuer_url(), PUBLIC).unwrap();
    let bearers = JwtBearers::new(validator);
    let rejection = bearers.authenticate(&planted[1]).await.unwrap_err();
    written.push_str(&format!("{bearers:?} {rejection:?}"));

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        log.contains(" TRACE ") && log.contains("a bearer was refused") && log.contains("was not exchanged"),
        "{log}"
    );
    written.push_str(&log);
    for line in written.lines() {
        assert!(!line.contains("canary"), "{line}");
        for token in &planted {
            assert!(!line.contains(token.as_str()), "{line}");
            let parts = token.split('.').skip(1).filter(|part| part.len() >= 40);
            assert!(parts.into_iter().all(|part| !line.contains(part)), "{line}");
        }
    }
}
