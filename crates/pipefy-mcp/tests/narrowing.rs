//! Headers that narrow one request, in every mode of the edge: what is listed is what can be called, and nothing more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod support;

use std::time::Duration;

use http::*;
use pipefy_mcp::http::Inbound;
use serde_json::{Value, json};
use support::Backend;

/// How requests reach the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Stateful,
    Stateless,
    /// Without sessions, JSON, the short way.
    Direct,
    /// The revision without handshake.
    Exchange,
}

const MODES: [Mode; 4] = [Mode::Stateful, Mode::Stateless, Mode::Direct, Mode::Exchange];

struct Client {
    server: Server,
    mode: Mode,
    session: String,
}

impl Client {
    async fn start(mode: Mode, more: &[(&str, &str)]) -> (Self, Backend) {
        let backend = Backend::start(Duration::ZERO).await;
        let mut options = options();
        options.stateless = matches!(mode, Mode::Stateless | Mode::Direct);
        options.json_response = mode == Mode::Direct;
        options.fast_path = mode == Mode::Direct;
        let runtime = support::local(&backend.url, "startup", more);
        let server = Server::start(runtime, Inbound::Open, options).await;
        let session = if mode == Mode::Stateful { server.open(&[]).await } else { String::new() };
        (Self { server, mode, session }, backend)
    }

    async fn ask(&self, method: &str, mut params: Value, headers: &[(&str, &str)]) -> Answer {
        let mut all = headers.to_vec();
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        match self.mode {
            Mode::Stateful => all.push(("Mcp-Session-Id", &self.session)),
            Mode::Stateless | Mode::Direct => all.push(("MCP-Protocol-Version", "2025-06-18")),
            Mode::Exchange => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                all.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", &name)]);
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.server.post(&body, &all).await
    }

    /// Every message of an answer to a call that asks for a log level in its own way.
    async fn told(&self, level: &str) -> Vec<Value> {
        let mut params = json!({"name": "get_card", "arguments": {"card_id": 5}});
        let mut headers = Vec::new();
        match self.mode {
            Mode::Exchange => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/logLevel": level,
                });
                headers.extend([
                    ("MCP-Protocol-Version", "2026-07-28"),
                    ("Mcp-Method", "tools/call"),
                    ("Mcp-Name", "get_card"),
                ]);
            }
            _ => {
                let set = self.ask("logging/setLevel", json!({"level": level}), &[]).await;
                assert_eq!(set.json()["result"], json!({}), "{set:?}");
                match self.mode {
                    Mode::Stateful => headers.push(("Mcp-Session-Id", self.session.as_str())),
                    _ => headers.push(("MCP-Protocol-Version", "2025-06-18")),
                }
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        self.server.post(&body, &headers).await.messages()
    }

    async fn listed(&self, headers: &[(&str, &str)]) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}), headers).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let result = answer.json()["result"]["tools"].clone();
        result.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value, headers: &[(&str, &str)]) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}), headers).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["result"].clone()
    }
}

fn unknown(tool: &str) -> (Value, Value) {
    (json!(true), json!(format!("Unknown tool: {tool}")))
}

fn verdict(result: &Value) -> (Value, Value) {
    (result["isError"].clone(), result["content"][0]["text"].clone())
}

#[tokio::test]
async fn what_is_listed_is_what_can_be_called() {
    for mode in MODES {
        let (client, backend) = Client::start(mode, &[]).await;
        let all = client.listed(&[]).await;
        assert!(all.len() >= 196, "{mode:?}");

        let only = [("X-MCP-Tools", "get_card, get_pipe")];
        assert_eq!(client.listed(&only).await, ["get_card", "get_pipe"], "{mode:?}");
        assert_eq!(client.call("get_card", json!({"card_id": 5}), &only).await["isError"], false, "{mode:?}");
        // Hidden is as good as not there: the same words for both.
        assert_eq!(verdict(&client.call("get_cards", json!({"pipe_id": 5}), &only).await), unknown("get_cards"));
        assert_eq!(verdict(&client.call("no_such_tool", json!({}), &only).await), unknown("no_such_tool"));

        let without = [("X-MCP-Exclude-Tools", "get_card")];
        assert_eq!(client.listed(&without).await.len(), all.len() - 1, "{mode:?}");
        assert_eq!(verdict(&client.call("get_card", json!({"card_id": 5}), &without).await), unknown("get_card"));

        let database = [("X-MCP-Toolsets", "database"), ("X-MCP-Readonly", "true")];
        let listed = client.listed(&database).await;
        assert!(listed.contains(&"get_table".to_owned()) && !listed.contains(&"delete_table".to_owned()), "{mode:?}");
        assert_eq!(
            verdict(&client.call("delete_table", json!({"table_id": "5"}), &database).await),
            unknown("delete_table")
        );

        // The next request without headers has everything again.
        assert_eq!(client.listed(&[]).await, all, "{mode:?}");
        assert_eq!(backend.seen().len(), 1, "{mode:?}");
    }
}

#[tokio::test]
async fn the_power_profile_finds_and_runs_what_is_left() {
    for mode in MODES {
        let (client, backend) = Client::start(mode, &[("PIPEFY_MCP_TOOLSETS", "power")]).await;
        let narrow = [("X-MCP-Toolsets", "workflow"), ("X-MCP-Readonly", "1")];
        let listed = client.listed(&narrow).await;
        assert_eq!(listed, ["get_tool_categories", "search_tools", "describe_tool", "execute_tool"], "{mode:?}");

        let categories = client.call("get_tool_categories", json!({}), &narrow).await["structuredContent"].clone();
        let categories = categories["data"]["categories"].as_array().unwrap().clone();
        assert_eq!(categories.len(), 1, "{mode:?}");
        for gone in ["get_table", "delete_card", "no_such_tool"] {
            let found = client.call("search_tools", json!({"keyword": gone}), &narrow).await;
            let found = found["structuredContent"]["data"]["tools"].as_array().unwrap().clone();
            assert!(found.iter().all(|tool| tool["name"] != gone), "{mode:?} {gone}");
            for (tool, arguments) in [
                ("describe_tool", json!({"name": gone})),
                ("execute_tool", json!({"name": gone, "arguments": {"card_id": "5"}})),
            ] {
                let answer =
                    client.call(tool, arguments, &narrow).await["content"][0]["text"].as_str().unwrap().to_owned();
                let answer: Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(answer["error"]["code"], "TOOL_NOT_FOUND", "{mode:?} {tool} {gone}");
                let text = format!("There is no tool '{gone}' here. Find its name with search_tools.");
                assert_eq!(answer["error"]["message"], text, "{mode:?} {tool}");
            }
        }
        assert!(backend.seen().is_empty(), "{mode:?}");
        let run = json!({"name": "get_card", "arguments": {"card_id": "5"}});
        assert_eq!(client.call("execute_tool", run, &narrow).await["isError"], false, "{mode:?}");
        assert_eq!(backend.seen().len(), 1, "{mode:?}");
    }
}

#[tokio::test]
async fn a_header_that_is_not_understood_refuses_the_request() {
    for mode in MODES {
        let (client, backend) = Client::start(mode, &[]).await;
        for (header, value, known) in [
            ("X-MCP-Readonly", "maybe-canary", "must be true or false"),
            ("X-MCP-Toolsets", "workflow,canary", "known toolsets: admin, all,"),
            ("X-MCP-Tools", "canary", "known tools: add_card_comment,"),
            ("X-MCP-Exclude-Tools", "get_card,canary", "entry 2"),
            ("X-MCP-Exclude-Tools", ",", "names nothing"),
        ] {
            for (method, params) in
                [("tools/list", json!({})), ("tools/call", json!({"name": "get_card", "arguments": {"card_id": 5}}))]
            {
                let answer = client.ask(method, params, &[(header, value)]).await;
                assert_eq!((answer.status, answer.error_code()), (400, json!(-32602)), "{mode:?} {header} {method}");
                assert!(answer.body.contains(known), "{mode:?}: {}", answer.body);
                assert!(!answer.body.contains("canary"), "{mode:?}: {}", answer.body);
            }
        }
        assert!(backend.seen().is_empty(), "{mode:?}");
    }
}

#[tokio::test]
async fn nothing_a_request_says_widens_the_server() {
    for mode in MODES {
        let start = [("PIPEFY_MCP_TOOLSETS", "requester"), ("PIPEFY_MCP_READ_ONLY", "true")];
        let (client, backend) = Client::start(mode, &start).await;
        let own = client.listed(&[]).await;
        for header in [
            ("X-MCP-Readonly", "false"),
            ("X-MCP-Toolsets", "all"),
            ("X-MCP-Toolsets", "requester,admin,workflow"),
            ("X-MCP-Tools", "delete_pipe,create_card,get_organization,execute_graphql"),
        ] {
            let listed = client.listed(&[header]).await;
            assert!(listed.iter().all(|tool| own.contains(tool)), "{mode:?} {header:?}");
            for tool in ["create_card", "execute_graphql", "delete_pipe"] {
                assert_eq!(
                    verdict(&client.call(tool, json!({}), &[header]).await),
                    unknown(tool),
                    "{mode:?} {header:?}"
                );
            }
        }
        assert!(backend.seen().is_empty(), "{mode:?}");
    }
}

/// A level is kept by a session, or comes with the request of the revision without handshake; elsewhere nobody remembers it.
#[tokio::test]
async fn calls_are_told_where_a_level_can_be_known() {
    for mode in MODES {
        for fast_path in [false, true] {
            let backend = Backend::start(Duration::ZERO).await;
            let mut options = options();
            options.stateless = matches!(mode, Mode::Stateless | Mode::Direct);
            options.json_response = mode == Mode::Direct;
            options.fast_path = fast_path;
            let runtime = support::local(&backend.url, "startup", &[]);
            let server = Server::start(runtime, Inbound::Open, options).await;
            let session = if mode == Mode::Stateful { server.open(&[]).await } else { String::new() };
            let client = Client { server, mode, session };
            for level in ["debug", "info"] {
                let messages = client.told(level).await;
                let (answer, before) = messages.split_last().unwrap();
                assert_eq!(answer["id"], 1, "{mode:?}: {answer}");
                let told = level == "debug" && matches!(mode, Mode::Stateful | Mode::Exchange);
                assert_eq!(before.len(), usize::from(told), "{mode:?} {fast_path} {level}: {before:?}");
                for message in before {
                    assert_eq!(message["method"], "notifications/message");
                    assert_eq!(message["params"], json!({"level": "debug", "data": "get_card: card_id=5"}));
                }
            }
        }
    }
}
