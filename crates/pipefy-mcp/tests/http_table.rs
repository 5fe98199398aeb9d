//! The status table: raw requests, one row each, and exactly what they get. Both eras, with and without sessions, and without
//! sessions once with and once without the short way (which must make no difference).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod support;

use std::time::Duration;

use http::*;
use pipefy_mcp::http::{HttpOptions, Inbound};
use serde_json::{Value, json};
use support::Backend;

/// What a row expects besides its status.
#[derive(Clone, Debug)]
enum Body {
    /// A JSON-RPC error with this code and id.
    Error(i64, Value),
    /// An OAuth error.
    Oauth(&'static str),
    /// A result, of which this pointer has this value.
    Result(&'static str, Value),
    /// No body.
    Empty,
    /// A JSON value whose pointer has this value.
    Json(&'static str, Value),
}
use Body::*;

struct Row {
    name: &'static str,
    request: Vec<u8>,
    status: u16,
    body: Body,
    /// Header names with the value they must have; `None`: must be absent.
    headers: Vec<(&'static str, Option<String>)>,
}

fn row(name: &'static str, request: Vec<u8>, status: u16, body: Body) -> Row {
    Row { name, request, status, body, headers: Vec::new() }
}

impl Row {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, Some(value.into())));
        self
    }
    fn without(mut self, name: &'static str) -> Self {
        self.headers.push((name, None));
        self
    }
}

async fn check(server: &Server, rows: Vec<Row>) {
    for Row { name, request, status, body, headers } in rows {
        let answer = server.raw(&request).await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        match &body {
            Error(code, id) => {
                let error = answer.json();
                assert_eq!(
                    (&error["jsonrpc"], &error["id"], &error["error"]["code"]),
                    (&json!("2.0"), id, &json!(code)),
                    "{name}"
                );
                let message = error["error"]["message"].as_str().unwrap();
                assert!(!message.trim().is_empty() && message.is_ascii(), "{name}");
                assert!(!answer.body.contains("canary"), "{name} repeats its input: {}", answer.body);
            }
            Oauth(error) => assert_eq!(answer.json()["error"], *error, "{name}"),
            Result(pointer, value) => {
                assert_eq!(answer.json()["result"].pointer(pointer), Some(value), "{name}: {answer:?}")
            }
            Json(pointer, value) => {
                let json = answer.json();
                assert_eq!(json.pointer(pointer).unwrap_or(&Value::Null), value, "{name}: {answer:?}");
            }
            Empty => assert_eq!(answer.body, "", "{name}"),
        }
        for (header, value) in headers {
            assert_eq!(answer.header(header), value.as_deref(), "{name}: {header}");
        }
    }
    // Every request has its line, and no line has a secret or a query.
    let lines = server.lines.lock().unwrap();
    for line in lines.iter() {
        let keys: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "event",
                "timestamp",
                "method",
                "path",
                "status",
                "duration_ms",
                "client_ip",
                "session_id",
                "request_id",
                "sub",
                "client_id"
            ]
        );
        assert!(!line.to_string().contains("canary"), "{line}");
    }
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn start(inbound: Inbound, change: impl FnOnce(&mut HttpOptions)) -> (Server, Backend) {
    let backend = Backend::start(Duration::ZERO).await;
    let mut options = options();
    change(&mut options);
    (Server::start(support::local(&backend.url, "startup", &[]), inbound, options).await, backend)
}

fn get_card() -> String {
    call(7, "get_card", json!({"card_id": "5"}))
}

/// The same with a byte in place of the last question mark that no text has.
fn not_utf8(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = bytes.iter().rposition(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    bytes
}

/// Rows that do not depend on sessions. `own`: headers that make a request acceptable otherwise.
fn refusals(own: &[(&'static str, &str)], session: Option<&str>) -> Vec<Row> {
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
        more.iter().copied().chain(own.iter().copied()).collect()
    };
    let kept = |row: Row| match session {
        Some(session) => row.with("mcp-session-id", session),
        None => row.without("mcp-session-id"),
    };
    let json_type = |row: Row| row.with("content-type", "application/json");
    vec![
        kept(json_type(row("no JSON", post("{\"canary\":", &with(&[])), 400, Error(-32700, Value::Null)))),
        kept(row("empty body", post("", &with(&[])), 400, Error(-32700, Value::Null))),
        kept(row("not UTF-8", not_utf8(post("{\"canary\":\"?\"}", &with(&[]))), 400, Error(-32700, Value::Null))),
        kept(row("a batch", post(&format!("[{PING}]"), &with(&[])), 400, Error(-32602, Value::Null))),
        kept(row("an empty batch", post("[]", &with(&[])), 400, Error(-32602, Value::Null))),
        kept(row("no message", post("{\"canary\":1}", &with(&[])), 400, Error(-32602, Value::Null))),
        kept(row("JSON-RPC 1", post(&PING.replace("2.0", "1.0"), &with(&[])), 400, Error(-32602, Value::Null))),
        kept(row(
            "params are a list",
            post(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, &with(&[])),
            400,
            Error(-32602, Value::Null),
        )),
        kept(row(
            "an id beyond 64 bits",
            post(r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, &with(&[])),
            400,
            Error(-32602, Value::Null),
        )),
        kept(row(
            "Accept has neither",
            post(PING, &with(&[("Accept", "text/html, image/*")])),
            406,
            Error(-32600, Value::Null),
        )),
        kept(row("no Accept", post(PING, &with(&[("Accept", "")])), 406, Error(-32600, Value::Null))),
        kept(row("no Content-Type", post(PING, &with(&[("Content-Type", "")])), 400, Error(-32600, Value::Null))),
        kept(row(
            "another Content-Type",
            post(PING, &with(&[("Content-Type", "text/plain")])),
            400,
            Error(-32600, Value::Null),
        )),
        kept(row(
            "nearly JSON",
            post(PING, &with(&[("Content-Type", "application/jsonx")])),
            415,
            Error(-32600, Value::Null),
        )),
        row("a foreign Host", post(PING, &with(&[("Host", "evil.test:8000")])), 421, Error(-32600, Value::Null))
            .without("mcp-session-id"),
        row(
            "a Host with a false port",
            post(PING, &with(&[("Host", "localhost:x:y")])),
            421,
            Error(-32600, Value::Null),
        ),
        row("a foreign Origin", post(PING, &with(&[("Origin", "http://evil.test")])), 403, Error(-32600, Value::Null))
            .without("mcp-session-id"),
        row("a null Origin", post(PING, &with(&[("Origin", "null")])), 403, Error(-32600, Value::Null)),
    ]
}

/// A notification of so many bytes.
fn filled(size: usize) -> String {
    let start = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"x":""#;
    format!("{start}{}\"}}}}", "x".repeat(size - start.len() - 3))
}

/// Rows about the body cap, which comes before nearly everything.
fn body_rows() -> Vec<Row> {
    let limit = 4 * 1024 * 1024;
    let chunked = |size: usize| {
        let mut bytes = post("", &[("Transfer-Encoding", "chunked"), ("Host", "evil.test")]);
        let text = String::from_utf8(bytes.clone()).unwrap().replace("Content-Length: 0\r\n", "");
        bytes = text.into_bytes();
        for _ in 0..size / 65536 {
            bytes.extend_from_slice(b"10000\r\n");
            bytes.extend_from_slice(&vec![b'x'; 65536]);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    };
    vec![
        row("4 MiB and one byte", post(&filled(limit + 1), &[]), 413, Error(-32600, Value::Null)),
        row(
            "5 MiB and a foreign Host",
            post(&filled(5 << 20), &[("Host", "evil.test")]),
            413,
            Error(-32600, Value::Null),
        ),
        row("5 MiB in chunks", chunked(5 << 20), 413, Error(-32600, Value::Null)),
        row("1 MiB in chunks, a foreign Host", chunked(1 << 20), 421, Error(-32600, Value::Null)),
    ]
}

/// Calls and lists that every mode answers alike.
fn answers(own: &[(&'static str, &str)]) -> Vec<Row> {
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
        more.iter().copied().chain(own.iter().copied()).collect()
    };
    let send = |body: &str| post(body, &with(&[]));
    let plain = |body: Value| post(&body.to_string(), &with(&[]));
    let call_with = |params: Value| plain(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    vec![
        row("ping", send(PING), 200, Json("/result", json!({}))),
        row("an id that is a text", send(&PING.replace(":1,", ":\"a b\",")), 200, Json("/id", json!("a b"))),
        row(
            "JSON with charset",
            post(PING, &with(&[("Content-Type", "application/json; charset=utf-8")])),
            200,
            Json("/result", json!({})),
        ),
        row("Accept JSON only", post(PING, &with(&[("Accept", "application/json")])), 200, Json("/result", json!({})))
            .with("content-type", "application/json"),
        row("Accept anything", post(PING, &with(&[("Accept", "*/*")])), 200, Json("/result", json!({}))),
        row(
            "Accept with parameters",
            post(PING, &with(&[("Accept", "application/*;q=0.1, text/*;q=0")])),
            200,
            Json("/result", json!({})),
        ),
        row("upper-case Host", post(PING, &with(&[("Host", "LOCALHOST:8000")])), 200, Json("/result", json!({}))),
        row(
            "an Origin of this machine",
            post(PING, &with(&[("Origin", "http://localhost:3000")])),
            200,
            Json("/result", json!({})),
        ),
        row(
            "a call that reaches Pipefy",
            send(&get_card()),
            200,
            Result("/structuredContent/card/title", json!("startup")),
        ),
        row(
            "a call with null arguments",
            call_with(json!({"name": "get_card", "arguments": null})),
            200,
            Result("/structuredContent/error/code", json!("INVALID_ARGUMENTS")),
        ),
        row("an unknown tool", send(&call(1, "nothing", json!({}))), 200, Result("/isError", json!(true))),
        row(
            "arguments of a wrong shape",
            call_with(json!({"name": "get_card", "arguments": []})),
            200,
            Error(-32602, json!(1)),
        ),
        row(
            "arguments that are a text",
            call_with(json!({"name": "get_card", "arguments": "canary"})),
            200,
            Error(-32602, json!(1)),
        ),
        row("a call without a name", call_with(json!({"arguments": {}})), 200, Error(-32602, json!(1))),
        row(
            "a call without params",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#),
            200,
            Error(-32602, json!(1)),
        ),
        row(
            "a call with a request state",
            call_with(json!({"name": "get_card", "arguments": {}, "requestState": "canary"})),
            200,
            Error(-32602, json!(1)),
        ),
        row(
            "a list",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
            200,
            Result("/tools/0/inputSchema/type", json!("object")),
        ),
        row(
            "a list with params",
            plain(
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x", "_meta": {"progressToken": 1}}}),
            ),
            200,
            Result("/tools/0/inputSchema/type", json!("object")),
        ),
        row(
            "a list with a false cursor",
            plain(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 5}})),
            200,
            Result("/tools/0/inputSchema/type", json!("object")),
        ),
        row(
            "prompts",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#),
            200,
            Result("/prompts/0/name", json!("audit-permissions")),
        ),
        row(
            "an unknown prompt",
            plain(json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "x"}})),
            200,
            Error(-32602, json!(1)),
        ),
        row(
            "an unknown method",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"nothing/here"}"#),
            200,
            Error(-32601, json!(1)),
        ),
        row(
            "a second initialize",
            send(&initialize("2025-03-26")),
            200,
            Result("/protocolVersion", json!("2025-03-26")),
        ),
        row(
            "initialize, version unknown",
            send(&initialize("1999-01-01")),
            200,
            Result("/protocolVersion", json!("2025-11-25")),
        ),
        row(
            "initialize, later version",
            send(&initialize("2026-07-28")),
            200,
            Result("/protocolVersion", json!("2025-11-25")),
        ),
        row(
            "initialize without params",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#),
            200,
            Error(-32602, json!(1)),
        ),
        row(
            "initialize of a wrong shape",
            send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}"#),
            200,
            Error(-32602, json!(1)),
        ),
        row("a notification", send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), 202, Empty)
            .with("content-type", "application/json"),
        row("a null id", send(&PING.replace(":1,", ":null,")), 202, Empty),
        row("a fractional id", send(&PING.replace(":1,", ":1.5,")), 202, Empty),
        row("an answer", send(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#), 202, Empty),
        row(
            "another version in the header",
            post(PING, &with(&[("MCP-Protocol-Version", "2024-11-05")])),
            200,
            Json("/result", json!({})),
        ),
    ]
}

#[tokio::test]
async fn handshake_era_with_sessions() {
    let (server, backend) = start(Inbound::Open, |_| {}).await;
    let opened = server.post(&initialize("2025-06-18"), &[]).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    for (header, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("connection", "keep-alive"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(opened.header(header), Some(value));
    }
    let (id, mac) = session.split_once('.').unwrap();
    assert!(
        id.len() == 32
            && mac.len() == 32
            && session.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'.')
    );
    assert_eq!(opened.json()["result"]["serverInfo"]["name"], "pipefy");
    let own = [("Mcp-Session-Id", session.as_str())];
    check(&server, answers(&own)).await;
    check(&server, refusals(&own, Some(&session))).await;
    check(&server, body_rows()).await;
    let sse = ("Accept", "text/event-stream");
    let none = Value::Null;
    check(
        &server,
        vec![
            row("no session id", post(PING, &[]), 400, Error(-32600, none.clone())).without("mcp-session-id"),
            row(
                "no session id, a notification",
                post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, &[]),
                400,
                Error(-32600, none.clone()),
            ),
            row("no session id, GET", request("GET", &[sse], ""), 400, Error(-32600, none.clone())),
            row("no session id, DELETE", request("DELETE", &[], ""), 400, Error(-32600, none.clone())),
            row("an unknown session", post(PING, &[("Mcp-Session-Id", "x")]), 404, Error(-32600, none.clone()))
                .without("mcp-session-id"),
            row(
                "an unknown session, no JSON",
                post("canary", &[("Mcp-Session-Id", "x")]),
                404,
                Error(-32600, none.clone()),
            ),
            row(
                "an unknown session, GET",
                request("GET", &[sse, ("Mcp-Session-Id", "x")], ""),
                404,
                Error(-32600, none.clone()),
            ),
            row(
                "an unknown session, DELETE",
                request("DELETE", &[("Mcp-Session-Id", "x")], ""),
                404,
                Error(-32600, none.clone()),
            ),
            row(
                "a foreign Host and an unknown session",
                post(PING, &[("Mcp-Session-Id", "x"), ("Host", "evil.test")]),
                421,
                Error(-32600, none.clone()),
            ),
            row("GET without Accept", request("GET", &own, ""), 406, Error(-32600, none.clone()))
                .with("mcp-session-id", &session),
            row(
                "GET for JSON",
                request("GET", &[own[0], ("Accept", "application/json")], ""),
                406,
                Error(-32600, none.clone()),
            ),
            row("PUT", request("PUT", &[], PING), 405, Error(-32600, none.clone())).with("allow", "GET, POST, DELETE"),
            row("PUT in a session", request("PUT", &own, PING), 405, Error(-32600, none.clone()))
                .with("allow", "GET, POST, DELETE"),
            row("OPTIONS", request("OPTIONS", &[], ""), 405, Error(-32600, none.clone()))
                .without("access-control-allow-origin"),
            row("HEAD", request("HEAD", &[], ""), 405, Empty),
            row("an odd method", request("BREW", &[], ""), 405, Error(-32600, none.clone())),
            row("exactly 4 MiB", post(&filled(4 << 20), &own), 202, Empty),
            row("events only", post(PING, &[own[0], sse]), 200, Json("/result", json!({})))
                .with("content-type", "text/event-stream"),
        ],
    )
    .await;
    assert_eq!(server.app.sessions(), 1, "only the one that was opened");
    drop(backend);
}

#[tokio::test]
async fn handshake_era_without_sessions() {
    for (json_response, fast_path) in [(true, true), (true, false), (false, true)] {
        let (server, _backend) = start(Inbound::Open, |options| {
            options.stateless = true;
            options.json_response = json_response;
            options.fast_path = fast_path;
        })
        .await;
        let version = [("MCP-Protocol-Version", "2025-06-18")];
        check(&server, answers(&version).into_iter().map(|row| row.without("mcp-session-id")).collect()).await;
        check(&server, refusals(&[], None)).await;
        check(&server, body_rows()).await;
        let none = Value::Null;
        check(
            &server,
            vec![
                row(
                    "a session id is not looked at",
                    post(PING, &[("Mcp-Session-Id", "x")]),
                    200,
                    Json("/result", json!({})),
                )
                .without("mcp-session-id"),
                row("GET", request("GET", &[("Accept", "text/event-stream")], ""), 405, Error(-32600, none.clone()))
                    .with("allow", "POST"),
                row("DELETE", request("DELETE", &[("Mcp-Session-Id", "x")], ""), 405, Error(-32600, none.clone()))
                    .with("allow", "POST"),
                row(
                    "structured since 2025-06-18",
                    post(&get_card(), &version),
                    200,
                    Result("/structuredContent/card/id", json!("5")),
                ),
                row("not before", post(&get_card(), &[]), 200, Json("/result/structuredContent", Value::Null)),
            ]
            .into_iter()
            .map(
                |row| {
                    if json_response && row.status == 200 { row.with("content-type", "application/json") } else { row }
                },
            )
            .collect(),
        )
        .await;
        if json_response {
            check(
                &server,
                vec![row("events only", post(PING, &[("Accept", "text/event-stream")]), 406, Error(-32600, none))],
            )
            .await;
        }
        assert_eq!(server.app.sessions(), 0);
    }
}

/// The short way and the long way give the same status, headers and JSON.
#[tokio::test]
async fn the_short_way_makes_no_difference() {
    let stateless = |fast_path: bool| {
        move |options: &mut HttpOptions| {
            options.stateless = true;
            options.json_response = true;
            options.fast_path = fast_path;
        }
    };
    let (fast, _one) = start(Inbound::Open, stateless(true)).await;
    let (slow, _two) = start(Inbound::Open, stateless(false)).await;
    let versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    for version in versions {
        let rows = answers(&[("MCP-Protocol-Version", version)]);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": version});
        let odd = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_card", "arguments": {"card_id": 5}, "_meta": meta}});
        let text = call("\u{e9}\"", "get_card", json!({"card_id": "\u{1f600}\"\n"}));
        let more = [post(&odd.to_string(), &[("MCP-Protocol-Version", version)]), post(&text, &[])];
        for request in rows.into_iter().map(|row| row.request).chain(more) {
            let (a, b) = (fast.raw(&request).await, slow.raw(&request).await);
            assert_eq!(a.status, b.status, "{}", String::from_utf8_lossy(&request));
            let headers = |answer: &Answer| -> Vec<(String, String)> {
                let mut headers = answer.headers.clone();
                headers.retain(|(name, _)| name != "date" && name != "content-length");
                headers.sort();
                headers
            };
            assert_eq!(headers(&a), headers(&b));
            if a.body.is_empty() || b.body.is_empty() {
                assert_eq!(a.body, b.body);
            } else {
                assert_eq!(a.json(), b.json(), "{}", String::from_utf8_lossy(&request));
            }
        }
    }
}

/// The same for the revision without handshake.
#[tokio::test]
async fn the_short_way_makes_no_difference_without_handshake() {
    let ways = |fast_path: bool| move |options: &mut HttpOptions| options.fast_path = fast_path;
    let (fast, _one) = start(Inbound::Open, ways(true)).await;
    let (slow, _two) = start(Inbound::Open, ways(false)).await;
    for params in [
        json!({"name": "get_card", "arguments": {"card_id": 5}}),
        json!({"name": "get_card", "arguments": {"card_id": "nonsense \u{1f600}\""}}),
        json!({"name": "get_card"}),
        json!({"name": "no_such_tool", "arguments": {}}),
        json!({"name": "get_card", "arguments": []}),
        json!({"name": "get_card", "arguments": {"card_id": 5}, "requestState": "x"}),
    ] {
        let request = enveloped("tools/call", params.clone(), &[]);
        let (a, b) = (fast.raw(&request).await, slow.raw(&request).await);
        assert_eq!(
            (a.status, a.header("content-type"), a.json()),
            (b.status, b.header("content-type"), b.json()),
            "{params}"
        );
    }
}

/// A 2026-07-28 request whose headers fit its body.
fn enveloped(method: &str, params: Value, change: &[(&'static str, &'static str)]) -> Vec<u8> {
    let mut params = params;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    params.as_object_mut().unwrap().entry("_meta").or_insert(meta);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let mut headers: Vec<(&str, &str)> = change.to_vec();
    for (header, value) in [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name.as_str())]
    {
        if !change.iter().any(|(given, _)| *given == header) {
            headers.push((header, value));
        }
    }
    post(&body, &headers)
}

#[tokio::test]
async fn the_era_without_handshake() {
    for (stateless, json_response) in [(false, false), (false, true), (true, true)] {
        let (server, _backend) = start(Inbound::Open, |options| {
            options.stateless = stateless;
            options.json_response = json_response;
        })
        .await;
        let card = || json!({"name": "get_card", "arguments": {"card_id": "5"}});
        let version = ("MCP-Protocol-Version", "2026-07-28");
        let one = json!(1);
        let none = Value::Null;
        let meta = |version: Value, capabilities: Value| {
            let mut params = card();
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": capabilities});
            params
        };
        let mut only_version = card();
        only_version["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let mut no_meta = card();
        no_meta["_meta"] = json!("canary");
        let info = "/_meta/io.modelcontextprotocol~1serverInfo/name";
        let mut rows = vec![
            row(
                "a call",
                enveloped("tools/call", card(), &[]),
                200,
                Result("/structuredContent/card/title", json!("startup")),
            )
            .with("content-type", "application/json"),
            row("a call says who answered", enveloped("tools/call", card(), &[]), 200, Result(info, json!("pipefy"))),
            row(
                "a call is complete",
                enveloped("tools/call", card(), &[]),
                200,
                Result("/resultType", json!("complete")),
            ),
            row("a list", enveloped("tools/list", json!({}), &[]), 200, Result("/cacheScope", json!("private"))),
            row(
                "discovery",
                enveloped("server/discover", json!({}), &[]),
                200,
                Result("/resultType", json!("complete")),
            ),
            row(
                "a session id is not looked at",
                enveloped("tools/list", json!({}), &[("Mcp-Session-Id", "x")]),
                200,
                Result("/resultType", json!("complete")),
            )
            .without("mcp-session-id"),
            row(
                "a wrapped name",
                enveloped("tools/call", card(), &[("Mcp-Name", "=?base64?Z2V0X2NhcmQ=?=")]),
                200,
                Result("/isError", json!(false)),
            ),
            row(
                "Accept JSON only",
                enveloped("tools/list", json!({}), &[("Accept", "application/json")]),
                200,
                Result("/resultType", json!("complete")),
            ),
            row(
                "a repeated header",
                enveloped("tools/call", card(), &[version, version]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "a repeated method header",
                enveloped("tools/call", card(), &[("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/call")]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "no _meta",
                post(
                    &call(1, "get_card", json!({})),
                    &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "get_card")],
                ),
                400,
                Error(-32602, one.clone()),
            ),
            row("_meta is a text", enveloped("tools/call", no_meta, &[]), 400, Error(-32602, one.clone())),
            row("no capabilities", enveloped("tools/call", only_version, &[]), 400, Error(-32602, one.clone())),
            row(
                "the version is a number",
                enveloped("tools/call", meta(json!(5), json!({})), &[]),
                400,
                Error(-32602, one.clone()),
            ),
            row(
                "header and _meta differ",
                enveloped("tools/call", meta(json!("2025-06-18"), json!({})), &[]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "the method header differs",
                enveloped("tools/call", card(), &[("Mcp-Method", "tools/list")]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "no method header",
                enveloped("tools/call", card(), &[("Mcp-Method", "")]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "the name header differs",
                enveloped("tools/call", card(), &[("Mcp-Name", "delete_card")]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "no name header",
                enveloped("tools/call", card(), &[("Mcp-Name", "")]),
                400,
                Error(-32020, one.clone()),
            ),
            row(
                "a version that is not served",
                enveloped(
                    "tools/call",
                    meta(json!("2027-01-01"), json!({})),
                    &[("MCP-Protocol-Version", "2027-01-01")],
                ),
                400,
                Error(-32022, one.clone()),
            ),
            row(
                "what is served",
                enveloped("tools/call", meta(json!("x"), json!({})), &[("MCP-Protocol-Version", "x")]),
                400,
                Json("/error/data", json!({"supported": ["2026-07-28"], "requested": "x"})),
            ),
            row("initialize is gone", enveloped("initialize", json!({}), &[]), 404, Error(-32601, one.clone())),
            row("ping is gone", enveloped("ping", json!({}), &[]), 404, Error(-32601, one.clone())),
            row(
                "levels are gone",
                enveloped("logging/setLevel", json!({"level": "debug"}), &[]),
                404,
                Error(-32601, one.clone()),
            ),
            row("an unknown method", enveloped("nothing/here", json!({}), &[]), 404, Error(-32601, one.clone())),
            row(
                "arguments of a wrong shape",
                enveloped("tools/call", json!({"name": "get_card", "arguments": []}), &[]),
                400,
                Error(-32602, one.clone()),
            ),
            row(
                "a request state",
                enveloped("tools/call", json!({"name": "get_card", "requestState": "canary"}), &[]),
                400,
                Error(-32602, one.clone()),
            ),
            row(
                "a notification",
                post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, &[version]),
                400,
                Error(-32600, none.clone()),
            ),
            row(
                "GET",
                request("GET", &[version, ("Accept", "text/event-stream")], ""),
                405,
                Error(-32600, none.clone()),
            )
            .with("allow", "POST"),
            row("DELETE", request("DELETE", &[version], ""), 405, Error(-32600, none.clone())).with("allow", "POST"),
        ];
        // What does not depend on the envelope; a batch has another code here.
        rows.extend(refusals(&[version], None).into_iter().map(|mut row| {
            if matches!(row.body, Error(-32602, _)) {
                row.body = Error(-32600, Value::Null);
            }
            row
        }));
        check(&server, rows).await;
        assert_eq!(server.app.sessions(), 0);
    }
}

#[tokio::test]
async fn a_subscription_is_a_stream_that_does_not_hold_up_a_stop() {
    let (server, _backend) = start(Inbound::Open, |_| {}).await;
    let mut wire = Wire::connect(server.address).await;
    wire.send(&enveloped("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}), &[])).await;
    let head = wire.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let first = frames(&wire.chunk().await.unwrap()).pop().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    server.stop.cancel();
    let begun = std::time::Instant::now();
    while tokio::time::timeout(LIMIT, wire.chunk()).await.unwrap().is_some() {}
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn with_bearers() {
    let backend = Backend::start(Duration::ZERO).await;
    let runtime = support::runtime(&backend.url, std::sync::Arc::new(pipefy_mcp::identity::RequestScopedIdentity), &[]);
    let server = Server::start(runtime, bearers(), options()).await;
    let challenge = "Bearer error=\"invalid_token\", error_description=\"Authentication required\", \
                     resource_metadata=\"https://mcp.test/.well-known/oauth-protected-resource/mcp\"";
    let denied = |name, request| {
        row(name, request, 401, Oauth("invalid_token"))
            .with("www-authenticate", challenge)
            .with("content-type", "application/json")
            .without("mcp-session-id")
    };
    let session = server.open(&[("Authorization", "bEaReR ana.1")]).await;
    let own = ("Mcp-Session-Id", session.as_str());
    check(
        &server,
        vec![
            denied("no bearer", post(PING, &[])),
            denied("no bearer, a session", post(PING, &[own])),
            denied("a bad bearer", post(PING, &[("Authorization", "Bearer bad.canary")])),
            denied("no scheme", post(PING, &[("Authorization", "canary")])),
            denied("another scheme", post(PING, &[("Authorization", "Basic canary")])),
            denied("an empty bearer", post(PING, &[("Authorization", "Bearer ")])),
            denied("a foreign Host does not matter yet", post(PING, &[("Host", "evil.test")])),
            denied("nor does a large body", post(&"x".repeat(5 << 20), &[])),
            denied("nor the method", request("OPTIONS", &[], "")),
            denied("nor the era", enveloped("tools/list", json!({}), &[])),
            row("HEAD", request("HEAD", &[], ""), 401, Empty),
            row(
                "a bearer without the scope",
                post(PING, &[("Authorization", "Bearer poor.canary")]),
                403,
                Oauth("insufficient_scope"),
            )
            .with(
                "www-authenticate",
                "Bearer error=\"insufficient_scope\", error_description=\"Required scope: mcp\", \
             resource_metadata=\"https://mcp.test/.well-known/oauth-protected-resource/mcp\", scope=\"mcp\"",
            ),
            row(
                "keys that cannot be had",
                post(PING, &[("Authorization", "Bearer unsure.canary")]),
                503,
                Error(-32000, Value::Null),
            )
            .with("retry-after", "7"),
            row(
                "in",
                post(&get_card(), &[("Authorization", "Bearer ana.2"), own]),
                200,
                Result("/structuredContent/card/title", json!("ana.2")),
            ),
            row(
                "health needs none",
                b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
                200,
                Json("/status", json!("ok")),
            ),
        ],
    )
    .await;
    assert_eq!(backend.seen(), ["ana.2"]);
}

#[tokio::test]
async fn other_paths() {
    let (server, _backend) = start(Inbound::Open, |_| {}).await;
    let path = |method: &str, path: &str, host: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    };
    let none = Value::Null;
    check(
        &server,
        vec![
            row("a slash too many", path("POST", "/mcp/?canary=1", "localhost:1"), 307, Empty)
                .with("location", "http://localhost:1/mcp?canary=1"),
            row("a slash too many, GET", path("GET", "/mcp/", "localhost"), 307, Empty)
                .with("location", "http://localhost/mcp"),
            row("a foreign Host is not repeated", path("GET", "/mcp/", "evil.test"), 307, Empty)
                .with("location", "/mcp"),
            row("below the endpoint", path("POST", "/mcp/more", "localhost"), 404, Error(-32600, none.clone())),
            row("the root", path("GET", "/", "localhost"), 404, Error(-32600, none.clone())),
            row("upper case", path("GET", "/MCP", "localhost"), 404, Error(-32600, none.clone())),
            row(
                "no metadata without bearers",
                path("GET", "/.well-known/oauth-protected-resource/mcp", "localhost"),
                404,
                Error(-32600, none),
            ),
            row("healthy", path("GET", "/healthz", "whatever"), 200, Json("/status", json!("ok"))),
            row("ready", path("GET", "/readyz", "whatever"), 200, Json("/status", json!("ready"))),
            row(
                "no Host at all",
                b"POST /mcp HTTP/1.0\r\nContent-Length: 0\r\n\r\n".to_vec(),
                421,
                Error(-32600, Value::Null),
            ),
        ],
    )
    .await;
    let lines = server.lines.lock().unwrap();
    assert!(lines.iter().any(|line| line["path"] == "/mcp/"), "the path is logged without its query");
}

#[tokio::test]
async fn each_request_has_one_line_with_its_id() {
    let (server, _backend) = start(Inbound::Open, |_| {}).await;
    let proxied =
        [("X-Request-Id", " id-1 "), ("X-Forwarded-For", "6.6.6.6, 9.9.9.9"), ("Mcp-Session-Id", "unknown.seal")];
    server.post(PING, &proxied).await;
    server
        .post(
            PING,
            &[("X-Request-Id", &"x".repeat(200)), ("X-Correlation-Id", "id-2"), ("Mcp-Session-Id", &"y".repeat(500))],
        )
        .await;
    let opened = server.open(&[]).await;
    // A client that goes before its body is there, and one that goes before the answer is read.
    let mut wire = Wire::connect(server.address).await;
    wire.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc").await;
    drop(wire);
    let end = std::time::Instant::now() + LIMIT;
    while server.lines.lock().unwrap().len() < 4 {
        assert!(std::time::Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let lines = server.lines.lock().unwrap().clone();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(
        (&lines[0]["request_id"], &lines[0]["client_ip"], &lines[0]["session_id"]),
        (&json!("id-1"), &json!("9.9.9.9"), &json!("unknown"))
    );
    assert_eq!(
        (&lines[0]["event"], &lines[0]["status"], &lines[0]["sub"]),
        (&json!("http_request"), &json!(404), &Value::Null)
    );
    assert!(lines[0]["timestamp"].as_str().unwrap().ends_with("+00:00"));
    assert!(lines[0]["duration_ms"].is_number());
    assert_eq!((&lines[1]["request_id"], &lines[1]["session_id"]), (&json!("id-2"), &Value::Null));
    assert_eq!(lines[2]["session_id"], opened.split('.').next().unwrap());
    assert_eq!(lines[2]["client_ip"], "127.0.0.1");
    assert_ne!(lines[2]["request_id"], lines[3]["request_id"]);
}

/// HTTP/2 has no `Host`; what stands in its place counts.
#[tokio::test]
async fn the_authority_of_http_2_counts_as_host() {
    use hyper::client::conn::http2;
    let (server, _backend) = start(Inbound::Open, |options| options.stateless = true).await;
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    for (authority, status) in [("localhost:8000", 200), ("evil.test", 421)] {
        let request = ::http::Request::post(format!("http://{authority}/mcp"))
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from(PING)))
            .unwrap();
        let response = tokio::time::timeout(LIMIT, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (::http::Version::HTTP_2, status), "{authority}");
    }
}
