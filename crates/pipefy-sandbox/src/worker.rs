//! What happens beside requests: calls of webhooks, and cards that become late as time passes.

use crate::ctx::{Ctx, stamp};
use crate::engine;
use crate::error::GqlError;
use crate::events;
use crate::json::{self, set, text};
use crate::object::Endpoint;
use crate::server::{App, ended, with_store};
use crate::store::{By, Store};
use http::{HeaderName, HeaderValue, Uri};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// How often a call is tried, and how long one try may take.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(5);

/// Works until the sandbox stops.
pub(crate) async fn run(state: App, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = state.work.notified() => {}
            () = tokio::time::sleep(TICK) => look_at_the_clock(&state).await,
            () = ended(&mut stopped) => return,
        }
        tokio::select! {
            () = deliver(&state) => {}
            () = ended(&mut stopped) => return,
        }
    }
}

async fn look_at_the_clock(state: &App) {
    let told = with_store(state, |state, store| {
        let Ok(schema) = engine::schema(Endpoint::Public) else { return 0 };
        let ctx = Ctx::new(store, schema, String::new(), &state.url);
        store.atomic(|| events::sweep(&ctx)).unwrap_or_else(|error: GqlError| {
            tracing::error!(error = error.message, "sweep");
            0
        })
    })
    .await;
    if told.unwrap_or_default() > 0 {
        state.changed();
    }
}

/// Makes the calls that wait.
async fn deliver(state: &App) {
    let Ok(waiting) = with_store(state, |_, store| store.list("delivery", By::Group, "waiting")).await else { return };
    for (id, mut call) in waiting.unwrap_or_default() {
        let (state_word, note) = match target(text(&call, "url")) {
            Err(why) => ("skipped", json!(why)),
            Ok((address, uri)) => {
                let request = request(&call, &address, &uri);
                let mut outcome = Err("no try".to_owned());
                for attempt in 1..=TRIES {
                    set(&mut call, "attempts", attempt);
                    outcome = match tokio::time::timeout(PATIENCE, post(&address, &request)).await {
                        Ok(result) => result,
                        Err(_) => Err("no answer in time".to_owned()),
                    };
                    if outcome.as_ref().is_ok_and(|status| *status < 500) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                match outcome {
                    Ok(status) if status < 400 => ("delivered", json!(status)),
                    Ok(status) => ("failed", json!(status)),
                    Err(why) => ("failed", json!(why)),
                }
            }
        };
        set(&mut call, "state", state_word);
        set(&mut call, "answer", note);
        set(&mut call, "done_at", stamp(Timestamp::now()));
        let stored = with_store(state, move |state, store: &Store| {
            store.atomic(|| -> Result<(), GqlError> {
                store.update("delivery", &id, &call)?;
                store.regroup("delivery", &id, "done")?;
                let ctx = Ctx::new(store, engine::schema(Endpoint::Public)?, String::new(), &state.url);
                events::request_ended(&ctx, &call)
            })
        });
        if !matches!(stored.await, Ok(Ok(()))) {
            tracing::error!("a webhook call could not be recorded");
            return;
        }
        state.changed();
    }
}

/// Host and port of a URL on this machine. Nothing else is ever called.
pub(crate) fn target(url: &str) -> Result<(String, Uri), String> {
    let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let local = bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        Some("http") if local => Ok((format!("{host}:{}", uri.port_u16().unwrap_or(80)), uri)),
        _ => Err("the sandbox calls http URLs on loopback only".to_owned()),
    }
}

/// The bytes of the HTTP request. Headers that are no headers, or that frame the message, are left out.
fn request(call: &Value, address: &str, uri: &Uri) -> Vec<u8> {
    let method = Some(text(call, "method")).filter(|m| m.chars().all(|c| c.is_ascii_uppercase()) && !m.is_empty());
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let body = text(call, "body");
    let mut head = format!("{} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n", method.unwrap_or("POST"));
    let mut typed = false;
    for (name, value) in call.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let Some(value) = json::scalar(value) else { continue };
        let (Ok(name), Ok(_)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else { continue };
        if matches!(name.as_str(), "host" | "connection" | "content-length" | "transfer-encoding") {
            continue;
        }
        typed = typed || name == http::header::CONTENT_TYPE;
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !typed {
        head.push_str("content-type: application/json\r\n");
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    head.into_bytes()
}

/// Sends a request and reads the status of the answer.
async fn post(address: &str, request: &[u8]) -> Result<u16, String> {
    let failed = |error: std::io::Error| error.kind().to_string();
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.write_all(request).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(1024).read_to_end(&mut answer).await.map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| "the answer is no HTTP".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn only_this_machine_is_called() {
        for url in ["http://127.0.0.1:81/x", "http://localhost/x", "http://[::1]:9/"] {
            assert!(target(url).is_ok(), "{url}");
        }
        for url in
            ["https://127.0.0.1/", "http://example.com/", "http://127.0.0.1.example.com/", "x", "http://10.0.0.1/"]
        {
            assert!(target(url).is_err(), "{url}");
        }
    }

    #[test]
    fn headers_cannot_break_the_message() {
        let call = json!({ "method": "POST", "body": "{}", "headers": { "X-A": "1", "Host": "evil", "X-B": "a\r\nc: d", "Content-Length": 9 } });
        let uri: Uri = "http://127.0.0.1:1/p?q=1".parse().unwrap();
        let text = String::from_utf8(request(&call, "127.0.0.1:1", &uri)).unwrap();
        assert_eq!(
            text,
            "POST /p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\nx-a: 1\r\ncontent-type: application/json\r\n\
             content-length: 2\r\n\r\n{}"
        );
    }
}
