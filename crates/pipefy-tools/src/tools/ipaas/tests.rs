//! The iPaaS tools against a small iPaaS on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipefy::settings::IpaasSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ipaas::Gateway;
use crate::tools::testing::Mock;

/// Path and body of a request, to status, further header lines and body.
type Answers = fn(&str, &Value) -> (u16, &'static str, String);

/// An iPaaS; it ends with the test's runtime.
struct Ipaas {
    base: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Ipaas {
    async fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = log.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(Duration::from_secs(20), answer(stream, answers, log)).await;
                });
            }
        });
        Self { base, seen }
    }

    fn mock(&self) -> Mock {
        let mut mock = Mock::new().on("advancedAutomationsToken", json!({"token": "canary-pipe-token"}));
        mock.toolbox.ipaas = Gateway::new(&IpaasSettings {
            url: self.base.clone(),
            oauth_client_id: "client".to_owned(),
            oauth_client_secret: None,
            oauth_redirect_uri: "https://localhost/callback".to_owned(),
            allow_insecure_urls: true,
        });
        mock
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(mut stream: TcpStream, answers: Answers, log: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse().unwrap())
                })
                .unwrap_or(0);
            if body.len() >= length {
                break (head.to_owned(), body.to_owned());
            }
        }
        match stream.read(&mut chunk).await {
            Ok(n) if n > 0 => request.extend_from_slice(&chunk[..n]),
            _ => return,
        }
    };
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let body: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    let rpc = body.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    log.lock().unwrap().push(format!("{} {rpc}", path.split('?').next().unwrap()).trim().to_owned());
    let (status, headers, body) = answers(&path, &body);
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Everything that goes well before a tool is reached.
fn signed_in(path: &str, body: &Value) -> (u16, &'static str, String) {
    let json = |value: Value| (200, "content-type: application/json\r\n", value.to_string());
    match path.split('?').next().unwrap() {
        "/api/v1/managed-authn/external-token" => json(json!({"token": "canary-session", "projectId": "p"})),
        "/authorize" => (302, "location: https://login.example/x?authRequestId=r\r\n", String::new()),
        "/api/v1/mcp-oauth/approve" => json(json!({"redirectUrl": "https://localhost/callback?code=canary-code"})),
        "/token" => json(json!({"access_token": "canary-access"})),
        "/mcp" if body["method"] == "initialize" => json(json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
        _ => (404, "", "{}".to_owned()),
    }
}

fn workspace(path: &str, body: &Value) -> (u16, &'static str, String) {
    let json = |value: Value| (200, "content-type: application/json\r\n", value.to_string());
    match (body["method"].as_str(), body["params"]["cursor"].as_str(), body["params"]["name"].as_str()) {
        (Some("tools/list"), None, _) => json(json!({"result": {"tools": [
            {"name": "list_flows", "description": " Lists flows.\nMore.", "annotations": {"readOnlyHint": true}}], "nextCursor": "2"}})),
        (Some("tools/list"), Some("2"), _) => json(json!({"result": {"tools": [{"name": "delete_flow"}, {"name": "run_flow"}]}})),
        (Some("tools/call"), _, Some("list_flows")) => (
            200,
            "content-type: text/event-stream\r\n",
            "event: message\ndata: {\"method\":\"progress\"}\n\ndata: {\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"b\"}]}}\n\n".to_owned(),
        ),
        (Some("tools/call"), _, Some("run_flow")) => {
            json(json!({"result": {"isError": true, "content": [{"type": "text", "text": "it broke"}]}}))
        }
        (Some("tools/call"), _, _) => json(json!({"result": {"content": []}})),
        _ => signed_in(path, body),
    }
}

fn result(reply: &Value) -> Value {
    serde_json::from_str(reply["result"].as_str().unwrap_or_else(|| panic!("{reply}"))).unwrap()
}

#[tokio::test]
async fn the_whole_catalogue_is_listed_and_one_tool_is_shown() {
    let ipaas = Ipaas::start(workspace).await;
    let listed = result(&ipaas.mock().reply("get_ipaas_tools", json!({"pipe_id": 7})).await);
    assert_eq!(listed["count"], 3);
    assert_eq!(listed["tools"][0], json!({"name": "list_flows", "description": "Lists flows."}));
    let one = ipaas.mock().reply("get_ipaas_tools", json!({"pipe_id": 7, "tool_name": "delete_flow"})).await;
    assert_eq!(result(&one), json!({"tool": {"name": "delete_flow"}}));
    let none = ipaas.mock().reply("get_ipaas_tools", json!({"pipe_id": 7, "tool_name": "x"})).await;
    assert!(none["error"]["message"].as_str().unwrap().contains("delete_flow, list_flows, run_flow"));
}

#[tokio::test]
async fn a_tool_runs_once_and_only_with_approval_when_it_destroys() {
    let ipaas = Ipaas::start(workspace).await;
    let ran = ipaas.mock().reply("call_ipaas_tool", json!({"pipe_id": 7, "tool_name": "list_flows"})).await;
    assert_eq!(
        result(&ran),
        json!({"pipe_id": "7", "tool_name": "list_flows", "output": "a\nb", "content": [{"type": "image"}]})
    );
    // The catalogue and the tool are reached with one sign-in.
    assert_eq!(ipaas.seen().iter().filter(|line| line.as_str() == "/token").count(), 1, "{:?}", ipaas.seen());
    let broke = ipaas.mock().reply("call_ipaas_tool", json!({"pipe_id": 7, "tool_name": "run_flow"})).await;
    assert_eq!(broke["error"]["message"], "it broke");
    let calls = |ipaas: &Ipaas| ipaas.seen().iter().filter(|line| line.ends_with("tools/call")).count();
    assert_eq!(calls(&ipaas), 2);

    for tool in ["delete_flow", "not_in_the_catalogue"] {
        let arguments = json!({"pipe_id": 7, "tool_name": tool, "arguments": {"id": 5}});
        let before = calls(&ipaas);
        let preview = ipaas.mock().reply("call_ipaas_tool", arguments.clone()).await;
        assert_eq!(preview["requires_confirmation"], true, "{preview}");
        assert_eq!(calls(&ipaas), before);
        let done = ipaas.mock().confirmed("call_ipaas_tool", arguments.clone()).await;
        assert_eq!(done["success"], true, "{done}");
        assert_eq!(calls(&ipaas), before + 1);
        let mut dry = arguments.clone();
        dry["dry_run"] = json!(true);
        assert_eq!(ipaas.mock().reply("call_ipaas_tool", dry).await["steps"].as_array().unwrap().len(), 1);
        let refused = ipaas.mock().read_only().reply("call_ipaas_tool", arguments).await;
        assert_eq!(refused["error"]["code"], "READ_ONLY");
        assert_eq!(calls(&ipaas), before + 1);
    }
    // A tool that says of itself that it only reads also runs on a read-only server.
    let read =
        ipaas.mock().read_only().reply("call_ipaas_tool", json!({"pipe_id": 7, "tool_name": "list_flows"})).await;
    assert_eq!(read["success"], true);
}

#[tokio::test]
async fn failures_name_their_step_and_hold_no_token() {
    fn no_session(_: &str, _: &Value) -> (u16, &'static str, String) {
        (403, "", json!({"error": "no", "token": "canary-other", "echo": "canary-pipe-token"}).to_string())
    }
    fn no_request_id(path: &str, body: &Value) -> (u16, &'static str, String) {
        if path.starts_with("/authorize") {
            (302, "location: https://x.example/\r\n", String::new())
        } else {
            signed_in(path, body)
        }
    }
    fn no_handshake(path: &str, body: &Value) -> (u16, &'static str, String) {
        if path == "/mcp" {
            (500, "", "canary-access canary-session canary-code".to_owned())
        } else {
            signed_in(path, body)
        }
    }
    fn no_list(path: &str, body: &Value) -> (u16, &'static str, String) {
        if body["method"] == "tools/list" {
            (200, "", "{\"result\":{\"tools\":{}}}".to_owned())
        } else {
            signed_in(path, body)
        }
    }
    fn bad_json(path: &str, body: &Value) -> (u16, &'static str, String) {
        if path == "/token" { (200, "", "<html>".to_owned()) } else { signed_in(path, body) }
    }
    for (answers, parts) in [
        (no_session as Answers, ["iPaaS session exchange", "HTTP 403"]),
        (no_request_id, ["authorization request", "no authRequestId"]),
        (no_handshake, ["initialize", "HTTP 500"]),
        (no_list, ["tools/list", "not a list"]),
        (bad_json, ["token exchange", "not valid JSON"]),
    ] {
        let ipaas = Ipaas::start(answers).await;
        let reply = ipaas.mock().reply("get_ipaas_tools", json!({"pipe_id": 7})).await;
        let message = reply["error"]["message"].as_str().unwrap_or_else(|| panic!("{reply}"));
        for part in parts {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(!reply.to_string().contains("canary"), "{reply}");
    }
    let off = Mock::new().reply("get_ipaas_tools", json!({"pipe_id": 7})).await;
    assert!(off["error"]["message"].as_str().unwrap().contains("disabled"));
}

#[tokio::test]
async fn consent_is_prepared_from_the_piece_and_its_oauth_client() {
    fn pieces(path: &str, body: &Value) -> (u16, &'static str, String) {
        let json = |value: Value| (200, "content-type: application/json\r\n", value.to_string());
        match path {
            "/api/v1/pieces/@s/piece-c" | "/api/v1/pieces/lost" | "/api/v1/pieces/mute" => {
                json(json!({"auth": [{"type": "SECRET_TEXT"}, {"type": "OAUTH2", "scope": ["read", "write"]}]}))
            }
            "/api/v1/pieces/plain" => json(json!({"auth": {"type": "SECRET_TEXT"}})),
            "/api/v1/oauth-apps?limit=100" => {
                json(json!({"data": [{"pieceName": "other", "clientId": "x"}], "next": "n2"}))
            }
            "/api/v1/oauth-apps?limit=100&cursor=n2" => json(json!({"data": [
                {"pieceName": "@s/piece-c", "clientId": "c-1"}, {"pieceName": "mute", "clientId": "c-2"}], "next": null})),
            "/api/v1/app-connections/oauth2/authorization-url" if body["pieceName"] == "mute" => {
                json(json!({"ok": true}))
            }
            "/api/v1/app-connections/oauth2/authorization-url" => {
                assert!(body["redirectUrl"].as_str().unwrap().ends_with("/redirect"));
                json(
                    json!({"authorizationUrl": format!("https://consent.example/{}", body["clientId"].as_str().unwrap()), "codeVerifier": "v"}),
                )
            }
            _ => signed_in(path, body),
        }
    }
    let ipaas = Ipaas::start(pieces).await;
    let ask = async |piece: &str| {
        ipaas.mock().reply("get_ipaas_connection_auth_url", json!({"pipe_id": 7, "piece_name": piece})).await
    };
    let asked = result(&ask("@s/piece-c").await);
    assert_eq!(asked["authorization_url"], "https://consent.example/c-1");
    let expected = json!({"type": "PLATFORM_OAUTH2", "client_id": "c-1", "redirect_url": format!("{}/redirect", ipaas.base),
        "scope": "read write", "code_verifier": "v"});
    assert_eq!(asked["completion"], expected);
    for (piece, part) in [
        ("plain", "does not use an OAuth connection"),
        ("lost", "No OAuth client is configured"),
        ("mute", "iPaaS authorization URL: the answer came without 'authorizationUrl'"),
        ("gone", "iPaaS piece lookup failed (HTTP 404)"),
    ] {
        let reply = ask(piece).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
    }
}

#[tokio::test]
async fn connections_are_created_without_showing_their_secret() {
    fn connections(path: &str, body: &Value) -> (u16, &'static str, String) {
        let json = |value: Value| (201, "content-type: application/json\r\n", value.to_string());
        match path {
            "/api/v1/app-connections" if body["pieceName"] == "bad" => (400, "", body.to_string()),
            "/api/v1/app-connections" => {
                assert_eq!(body["type"], body["value"]["type"]);
                json(
                    json!({"id": "1", "externalId": body["externalId"], "displayName": body["displayName"], "type": body["type"], "value": body["value"]}),
                )
            }
            _ => signed_in(path, body),
        }
    }
    let ipaas = Ipaas::start(connections).await;
    let arguments = json!({"pipe_id": 7, "piece_name": "p", "connection_type": "SECRET_TEXT", "value": {"secret_text": "canary-secret"}});
    let reply = ipaas.mock().reply("create_ipaas_connection", arguments.clone()).await;
    let connection = &result(&reply)["connection"];
    let external = connection["externalId"].as_str().unwrap();
    assert!(external.starts_with("mcp-") && external.len() == 16 && connection["displayName"] == external, "{reply}");
    assert!(!reply.to_string().contains("canary"), "{reply}");
    let mut bad = arguments.clone();
    bad["piece_name"] = json!("bad");
    let reply = ipaas.mock().reply("create_ipaas_connection", bad).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("connection upsert"), "{reply}");
    assert!(!reply.to_string().contains("canary"), "{reply}");
    let mut dry = arguments.clone();
    dry["dry_run"] = json!(true);
    let mock = ipaas.mock();
    let reply = mock.reply("create_ipaas_connection", dry).await;
    assert!(reply["dry_run"] == true && !reply.to_string().contains("canary"));
    assert!(mock.sent().is_empty());
    for (key, value, part) in [
        ("connection_type", json!("OTHER"), "connection_type must be one of"),
        ("value", json!({}), "non-empty"),
        ("value", json!({"k": {"$env": "PIPEFY_IPAAS_CONNECTION_X"}}), "not set"),
        ("oauth", json!({"completion": {}}), "not both"),
    ] {
        let mut arguments = arguments.clone();
        arguments[key] = value;
        let mock = ipaas.mock();
        let reply = mock.reply("create_ipaas_connection", arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
        assert!(mock.sent().is_empty());
    }
    for piece in ["../admin", "a?b", "a//b", "", "a b"] {
        let mock = ipaas.mock();
        let reply = mock.reply("get_ipaas_connection_auth_url", json!({"pipe_id": 7, "piece_name": piece})).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{piece}: {reply}");
        assert!(mock.sent().is_empty());
    }
}
