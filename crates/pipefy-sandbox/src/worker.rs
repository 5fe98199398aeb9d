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
                    if outcome.as_ref().is_ok_and(|(status, _)| *status < 500) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                if let (Ok((_, body)), false) = (&outcome, text(&call, "automation_id").is_empty()) {
                    set(&mut call, "response", body.as_str());
                }
                match outcome.map(|(status, _)| status) {
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

/// Bytes of an answer that are read at all.
const ANSWER: usize = 64 * 1024;

/// Sends a request and reads the status and the body of the answer, to the end that the answer itself names or to the end
/// of the connection.
async fn post(address: &str, request: &[u8]) -> Result<(u16, String), String> {
    let failed = |error: std::io::Error| error.kind().to_string();
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.write_all(request).await.map_err(failed)?;
    let mut answer = Vec::new();
    let mut chunk = [0_u8; 4096];
    while answer.len() < ANSWER && !read(&answer).is_some_and(|(_, _, complete)| complete) {
        match stream.read(&mut chunk).await {
            Ok(0) => break,
            Ok(length) => answer.extend(chunk.iter().take(length)),
            // Some close a connection by resetting it; what they said before counts.
            Err(_) if !answer.is_empty() => break,
            Err(error) => return Err(failed(error)),
        }
    }
    let (status, body, _) = read(&answer).ok_or("the answer is no HTTP")?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Status and body of an HTTP/1.1 answer, and whether it is complete (RFC 9112, section 6.3); `None` before its head ends.
fn read(answer: &[u8]) -> Option<(u16, Vec<u8>, bool)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, rest) = answer.split_at(end);
    let body = rest.get(4..).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    let header = |wanted: &str| {
        head.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
    };
    if status == 204 || status == 304 {
        return Some((status, Vec::new(), true));
    }
    if header("transfer-encoding").is_some_and(|(_, coding)| coding.trim().eq_ignore_ascii_case("chunked")) {
        let (body, complete) = unchunked(body);
        return Some((status, body, complete));
    }
    let length = header("content-length").and_then(|(_, length)| length.trim().parse::<usize>().ok());
    let complete = length.is_some_and(|length| body.len() >= length);
    let body = body.get(..length.unwrap_or(body.len())).unwrap_or(body);
    Some((status, body.to_vec(), complete))
}

/// The chunks of a body put together (RFC 9112, section 7.1), and whether the last one is there.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let line = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
        let size = line.split(';').next().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        match size {
            // What is no size ends the body, as its last chunk does.
            None | Some(0) => return (body, true),
            Some(size) => {
                let data = rest.get(end + 2..).unwrap_or_default();
                body.extend(data.iter().take(size));
                match size.checked_add(2).and_then(|used| data.get(used..)) {
                    Some(more) => rest = more,
                    None => return (body, false),
                }
            }
        }
    }
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
    fn answers_are_read_to_their_end() {
        let body = |answer: &str| {
            let (status, body, complete) = read(answer.as_bytes())?;
            Some((status, String::from_utf8(body).unwrap(), complete))
        };
        let is = |status: u16, text: &str, complete: bool| Some((status, text.to_owned(), complete));
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Len"), None);
        assert_eq!(body("hello\r\n\r\n"), None);
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"), is(200, "ab", false));
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcdef"), is(200, "abcd", true));
        assert_eq!(body("HTTP/1.1 404 No\r\n\r\nuntil the end"), is(404, "until the end", false));
        assert_eq!(body("HTTP/1.1 204 No\r\n\r\n"), is(204, "", true));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=1\r\nabcd\r\nA\r\n0123456789\r\n";
        assert_eq!(body(chunked), is(200, "abcd0123456789", false));
        assert_eq!(body(&format!("{chunked}0\r\n\r\n")), is(200, "abcd0123456789", true));
        for broken in ["zz\r\n", "ffffffffffffffff\r\nab", "4\r\nab"] {
            let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{broken}");
            assert!(body(&answer).is_some(), "{broken}");
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
