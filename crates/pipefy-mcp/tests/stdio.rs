//! The real server over standard streams, against a sandbox on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/child.rs"]
mod child;

use std::time::Duration;

use child::{Server, call, initialize, request, run};
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::{Value, json};

/// A sandbox, and the runtime that serves it.
struct Backend {
    runtime: tokio::runtime::Runtime,
    sandbox: Option<Sandbox>,
    url: String,
}

impl Backend {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sandbox = runtime.block_on(Sandbox::start(SandboxOptions::default())).unwrap();
        Self { url: sandbox.url().to_owned(), runtime, sandbox: Some(sandbox) }
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        vec![
            ("PIPEFY_BASE_URL", &self.url),
            ("PIPEFY_ALLOW_INSECURE_URLS", "true"),
            ("PIPEFY_TOKEN", DEFAULT_TOKEN),
        ]
    }

    fn server(&self) -> Server {
        Server::start(&[], &self.variables())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.runtime.block_on(sandbox.shutdown());
        }
    }
}

fn text(answer: &Value) -> Value {
    serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn a_newcomer_lists_calls_and_leaves() {
    let backend = Backend::start();
    let mut server = backend.server();
    let welcome = server.initialize("2025-06-18");
    let result = &welcome["result"];
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert_eq!(result["serverInfo"]["name"], "pipefy");
    assert_eq!(result["serverInfo"]["version"], pipefy::VERSION);
    assert!(result["instructions"].as_str().unwrap().starts_with("Pipefy"));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let tools = server.ask(&request(json!(1), "tools/list", json!({"cursor": "ignored"})));
    let tools = tools["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "get_card"));
    let answer = server.ask(&call(json!(2), "list_organizations", json!({})));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(answer["result"]["structuredContent"], text(&answer));
    let (code, took, rest, errors) = server.end();
    assert_eq!((code, rest), (Some(0), Vec::new()), "{errors}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!errors.contains(DEFAULT_TOKEN));
}

/// Field report C05: each revision is echoed, anything else gets our latest handshake revision; results are those of the
/// revision.
#[test]
fn revisions_are_echoed_and_results_fit_them() {
    let backend = Backend::start();
    for (asked, given, structured) in [
        ("2024-11-05", "2024-11-05", false),
        ("2025-03-26", "2025-03-26", false),
        ("2025-06-18", "2025-06-18", true),
        ("2025-11-25", "2025-11-25", true),
        ("2026-07-28", "2025-11-25", true),
        ("1999-01-01", "2025-11-25", true),
    ] {
        let mut server = backend.server();
        assert_eq!(server.initialize(asked)["result"]["protocolVersion"], given);
        let answer = server.ask(&call(json!(1), "list_organizations", json!({})));
        assert_eq!(answer["result"].get("structuredContent").is_some(), structured, "{asked}");
        for newer in ["resultType", "ttlMs", "cacheScope"] {
            assert!(answer["result"].get(newer).is_none(), "{asked}: {newer}");
        }
        let tools = server.ask(&request(json!(2), "tools/list", json!({})));
        assert!(tools["result"].get("nextCursor").is_none() && tools["result"].get("ttlMs").is_none());
    }
}

/// Field report C04.
#[test]
fn a_handshake_in_an_unusual_order_works() {
    let backend = Backend::start();
    let mut server = backend.server();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.send(&json!({"jsonrpc": "2.0", "method": "no/such"}));
    server.send(&json!({"jsonrpc": "2.0", "id": 77, "result": {}}));
    for id in [json!(-1), json!(9_007_199_254_740_992_i64), json!("1"), json!("")] {
        assert_eq!(server.ask(&request(id.clone(), "ping", json!({}))), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    let early = server.ask(&request(json!(1), "tools/list", json!({})));
    assert_eq!(early["error"]["code"], -32602);
    let malformed = server.ask(&request(json!(1), "initialize", json!({"protocolVersion": 7})));
    assert_eq!(malformed["error"]["code"], -32602);
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(server.initialize("2025-06-18")["result"]["protocolVersion"], "2025-06-18");
    // A common editor sets the level before it says that it is initialized.
    assert_eq!(server.ask(&request(json!(2), "logging/setLevel", json!({"level": "info"})))["result"], json!({}));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for id in [json!(-1), json!(9_007_199_254_740_992_i64), json!("1")] {
        let answer = server.ask(&call(id.clone(), "list_organizations", json!({})));
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&id, &json!(false)));
    }
    let again = server.ask(&initialize(json!("again"), "2025-11-25", json!({})));
    assert_eq!(again["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(server.ask(&request(json!(3), "ping", json!({})))["result"], json!({}));
}

#[test]
fn methods_answer_as_the_contract_says() {
    let backend = Backend::start();
    let mut server = backend.server();
    server.initialize("2025-11-25");
    for (method, params, key) in [
        ("prompts/list", json!({}), "prompts"),
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resourceTemplates"),
    ] {
        assert_eq!(server.ask(&request(json!(1), method, params))["result"], json!({key: []}));
    }
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}), -32601),
        ("resources/subscribe", json!({"uri": "x://y"}), -32601),
        ("prompts/get", json!({"name": "x"}), -32602),
        ("resources/read", json!({"uri": "x://y"}), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"arguments": {}}), -32602),
        ("tools/call", json!({"name": "get_card", "arguments": []}), -32602),
        ("tools/call", json!({"name": "get_card", "arguments": "x"}), -32602),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
    ] {
        let answer = server.ask(&request(json!("id"), method, params.clone()));
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert_eq!(answer["id"], "id");
        if code == -32601 {
            assert_eq!(answer["error"], json!({"code": code, "message": "Method not found", "data": method}));
        }
    }
    let no_params = server.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}));
    assert_eq!(no_params["error"], json!({"code": -32602, "message": "Invalid request parameters", "data": ""}));
    let unknown = server.ask(&call(json!(1), "nope", json!({})));
    assert_eq!(unknown["result"], json!({"content": [{"type": "text", "text": "Unknown tool: nope"}], "isError": true}));
    let invalid = server.ask(&call(json!(1), "get_card", json!({"card_id": true})));
    assert_eq!(invalid["result"]["isError"], false);
    assert_eq!(text(&invalid)["error"]["code"], "INVALID_ARGUMENTS");
}

/// Field report C02.
#[test]
fn bad_lines_are_answered_and_change_nothing() {
    let backend = Backend::start();
    let mut server = backend.server();
    for before in [true, false] {
        for (line, code) in [("{\"jsonrpc\":", -32700), ("Content-Length: 12", -32700), ("[]", -32602), ("{\"a\":1}", -32602)] {
            server.write(line);
            let answer = server.receive();
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null), "{line}");
        }
        server.write("");
        server.write("   \r");
        // Never answered: an id that cannot be one makes a notification.
        server.write(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#);
        server.write(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#);
        server.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r");
        assert_eq!(server.receive()["result"], json!({}));
        if before {
            server.initialize("2025-06-18");
        }
    }
}

/// Field report C03: three requests, then the end; the last line has no line end.
#[test]
fn the_end_of_input_loses_no_answer() {
    let backend = Backend::start();
    let input = [
        initialize(json!(1), "2025-06-18", json!({})),
        request(json!(2), "tools/list", json!({})),
        call(json!(3), "list_organizations", json!({})),
    ]
    .map(|message| message.to_string())
    .join("\n");
    let (output, took) = run(&[], &backend.variables(), input.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut ids: Vec<i64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            assert!(answer.get("result").is_some(), "{answer}");
            answer["id"].as_i64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (output, _) = run(&[], &backend.variables(), b"");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

/// Field report A05.
#[test]
fn ten_calls_before_any_answer_is_read_all_succeed() {
    let backend = Backend::start();
    let mut server = backend.server();
    server.initialize("2025-06-18");
    for id in 1..=40 {
        server.send(&call(json!(id), "list_organizations", json!({})));
    }
    let mut seen: Vec<i64> = (1..=40)
        .map(|_| {
            let answer = server.receive();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["id"].as_i64().unwrap()
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_cancelled_call_is_dropped_and_not_answered() {
    let backend = Backend::start();
    let delay = json!({"latency_ms": 8000});
    let mut server = backend.server();
    server.initialize("2025-06-18");
    post(&backend, "/_sandbox/faults", &delay);
    server.send(&call(json!(1), "list_organizations", json!({})));
    std::thread::sleep(Duration::from_millis(300));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}}));
    assert_eq!(server.ask(&request(json!(2), "ping", json!({})))["id"], 2);
    assert_eq!(server.receive_within(Duration::from_millis(1500)), None);
    let (code, took, rest, errors) = server.end();
    assert_eq!((code, rest), (Some(0), Vec::new()), "{errors}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[cfg(unix)]
#[test]
fn signals_end_the_server_promptly() {
    let backend = Backend::start();
    for signal in ["-TERM", "-INT"] {
        let mut server = backend.server();
        server.initialize("2025-06-18");
        let start = std::time::Instant::now();
        // Its input stays open: nobody but the signal ends it.
        let pid = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(start.elapsed() < Duration::from_secs(2), "{signal}");
    }
}

#[test]
fn two_steps_delete_a_card() {
    let backend = Backend::start();
    let mut server = backend.server();
    server.initialize("2025-06-18");
    let card = first_card(&backend, &mut server);
    let preview = text(&server.ask(&call(json!(2), "delete_card", json!({"card_id": card}))));
    assert_eq!(preview["requires_confirmation"], true, "{preview}");
    let token = preview["confirmation_token"].as_str().unwrap();
    let done = text(&server.ask(&call(
        json!(3),
        "delete_card",
        json!({"card_id": card, "confirm": true, "confirmation_token": token}),
    )));
    assert_eq!(done["success"], true, "{done}");
}

/// A card of the first pipe that has one.
fn first_card(backend: &Backend, server: &mut Server) -> Value {
    let found = post(backend, "/graphql", &json!({"query": "{ organizations { pipes { id } } }"}));
    let organizations = found["data"]["organizations"].as_array().unwrap();
    for pipe in organizations.iter().flat_map(|organization| organization["pipes"].as_array().unwrap()) {
        let cards = text(&server.ask(&call(json!("cards"), "get_cards", json!({"pipe_id": pipe["id"]}))));
        if let Some(id) = cards.pointer("/data/cards/edges/0/node/id") {
            return id.clone();
        }
    }
    panic!("no pipe has a card: {found}")
}

#[test]
fn the_power_profile_finds_describes_and_runs_tools() {
    let backend = Backend::start();
    let mut server = Server::start(&["--toolsets", "power"], &backend.variables());
    server.initialize("2025-06-18");
    let found = text(&server.ask(&call(json!(1), "search_tools", json!({"keyword": "list organizations"}))));
    assert!(found["data"]["tools"].as_array().unwrap().iter().any(|t| t["name"] == "list_organizations"), "{found}");
    let described = text(&server.ask(&call(json!(2), "describe_tool", json!({"name": "list_organizations"}))));
    assert_eq!(described["data"]["input_schema"]["type"], "object");
    let hidden = server.ask(&call(json!(3), "list_organizations", json!({})));
    assert_eq!(hidden["result"]["isError"], true);
    let ran = server.ask(&call(json!(4), "execute_tool", json!({"name": "list_organizations", "arguments": "{}"})));
    assert_eq!(ran["result"]["isError"], false);
    assert_eq!(text(&ran)["success"], true, "{ran}");
    let invalid = text(&server.ask(&call(json!(5), "execute_tool", json!({"name": "get_card"}))));
    assert_eq!(invalid["error"]["code"], "INVALID_ARGUMENTS");
    assert!(invalid["error"]["message"].as_str().unwrap().starts_with("Tool 'get_card' received invalid arguments: "));
}

#[test]
fn read_only_hides_and_refuses_writes() {
    let backend = Backend::start();
    let mut server = Server::start(&["--read-only"], &backend.variables());
    server.initialize("2025-06-18");
    let answer = server.ask(&call(json!(1), "delete_card", json!({"card_id": "1"})));
    assert_eq!(answer["result"]["content"][0]["text"], "Unknown tool: delete_card");
}

#[test]
fn the_sandbox_needs_no_account_and_wins_over_every_other_setting() {
    let variables = [("PIPEFY_BASE_URL", "https://app.pipefy.com"), ("PIPEFY_TOKEN", "canary-real-token")];
    let mut server = Server::start(&["--sandbox", "--sandbox-data", ":memory:"], &variables);
    server.initialize("2025-06-18");
    let answer = server.ask(&call(json!(1), "list_organizations", json!({})));
    assert_eq!(text(&answer)["success"], true, "{answer}");
    let (code, _, _, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(!errors.contains("canary-real-token"));
}

/// The revision without handshake.
#[test]
fn a_connection_without_handshake_is_served_by_its_envelopes() {
    let backend = Backend::start();
    let mut server = backend.server();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let found = server.ask(&request(json!(1), "server/discover", json!({"_meta": meta})));
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
    assert!(found["result"]["capabilities"].get("logging").is_none());
    let tools = server.ask(&request(json!(2), "tools/list", json!({"_meta": meta})));
    assert_eq!(tools["result"]["resultType"], "complete");
    assert!(tools["result"]["ttlMs"].as_u64().unwrap() > 0);
    assert_eq!(tools["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pipefy");
    let answer = server.ask(&request(json!(3), "tools/call", json!({"name": "list_organizations", "_meta": meta})));
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["isError"], false);
    for (method, code) in [("ping", -32601), ("logging/setLevel", -32601)] {
        let answer = server.ask(&request(json!(4), method, json!({"_meta": meta, "level": "info"})));
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    let state = json!({"name": "list_organizations", "requestState": "x", "_meta": meta});
    let refused = server.ask(&request(json!(5), "tools/call", state));
    assert_eq!(refused["error"]["data"], json!({"reason": "invalid_request_state"}));
    let (code, took, ..) = server.end();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// One request to the sandbox, past the server.
fn post(backend: &Backend, path: &str, body: &Value) -> Value {
    use std::io::{Read as _, Write as _};
    let address = backend.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer {DEFAULT_TOKEN}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200") || head.contains(" 204"), "{head}");
    serde_json::from_str(body).unwrap_or_default()
}
