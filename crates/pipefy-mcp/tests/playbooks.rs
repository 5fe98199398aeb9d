//! Prompts, resources and completion, through the whole stack and in every mode: what is offered, what is read, and as whom.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod support;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post as route_post;
use http::*;
use pipefy_mcp::handler::Handler;
use pipefy_mcp::http::{HttpOptions, Inbound};
use pipefy_mcp::identity::RequestScopedIdentity;
use pipefy_mcp::runtime::McpRuntime;
use pipefy_mcp::stdio::serve_on;
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CompleteRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
    Reference,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::{ErrorData, ServiceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A Pipefy in which everybody has one pipe of their own: its id and its name are made of their bearer.
struct Pipefy {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Pipefy {
    async fn start() -> Self {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().route("/graphql", route_post(answer)).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen }
    }

    fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn pipe_of(bearer: &str) -> String {
    bearer.bytes().fold(7_u64, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte)).to_string()
}

async fn answer(
    State(seen): State<Arc<Mutex<Vec<String>>>>,
    headers: HeaderMap,
    body: String,
) -> (axum::http::StatusCode, axum::Json<Value>) {
    let bearer = headers.get("authorization").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let bearer = bearer.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    seen.lock().unwrap().push(bearer.clone());
    tokio::task::yield_now().await;
    let request: Value = serde_json::from_str(&body).unwrap();
    let query = request["query"].as_str().unwrap();
    let id = ["pipe_id", "card_id", "id"].iter().find_map(|name| request["variables"].get(*name)).cloned();
    let refused = |code: &str, message: &str| json!({"data": null, "errors": [{"message": message, "extensions": {"code": code}}]});
    let own = pipe_of(&bearer);
    let answer = if query.contains("organizations {") {
        json!({"data": {"organizations": [{"id": "1", "name": "Org", "pipesCount": 1,
            "pipes": [{"id": own, "name": format!("Pipe of {bearer}")}]}]}})
    } else if query.contains("card(") {
        json!({"data": {"card": {"id": id, "title": bearer, "fields": [{"name": "Note", "value": "n".repeat(3_000)}]}}})
    } else {
        match id.as_ref().and_then(Value::as_str) {
            Some("404") => refused("RESOURCE_NOT_FOUND", "Pipe not found"),
            Some("403") => refused("PERMISSION_DENIED", "Permission denied"),
            Some("500") => return (axum::http::StatusCode::INTERNAL_SERVER_ERROR, axum::Json(json!({}))),
            _ => {
                json!({"data": {"pipe": {"id": id, "name": bearer, "phases": [{"id": "11", "name": "Doing"}, {"id": "12", "name": "Done"}]}}})
            }
        }
    };
    (axum::http::StatusCode::OK, axum::Json(answer))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Stateful,
    StatefulJson,
    Stateless,
    /// The revision without sessions, 2026-07-28.
    Alone,
}

const MODES: [Mode; 4] = [Mode::Stateful, Mode::StatefulJson, Mode::Stateless, Mode::Alone];

impl Mode {
    fn options(self) -> HttpOptions {
        let mut options = options();
        options.stateless = self == Mode::Stateless;
        options.json_response = matches!(self, Mode::Stateless | Mode::StatefulJson);
        options
    }

    async fn open(self, server: &Server, bearer: &str) -> String {
        match self {
            Mode::Stateful | Mode::StatefulJson => server.open(&[("Authorization", &format!("Bearer {bearer}"))]).await,
            Mode::Stateless | Mode::Alone => String::new(),
        }
    }

    /// A request of this mode, with everything that the mode wants repeated in headers.
    fn request(self, id: usize, method: &str, mut params: Value, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut all = headers.to_vec();
        let name =
            params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).unwrap_or_default().to_owned();
        if self == Mode::Alone {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
            all.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name.as_str())]);
        } else {
            all.push(("MCP-Protocol-Version", "2025-06-18"));
        }
        post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(), &all)
    }
}

fn read(uri: &str) -> Value {
    json!({ "uri": uri })
}

fn completing(reference: Value, argument: &str, value: &str) -> Value {
    json!({"ref": reference, "argument": {"name": argument, "value": value}})
}

/// Ana and Ben on one server, many requests at a time: each sees their own pipe and nothing of the other's. Two bearers of one
/// person in one session: each message goes out with its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_reads_and_completes_as_themselves() {
    for mode in MODES {
        let pipefy = Pipefy::start().await;
        let runtime = support::runtime(&pipefy.url, Arc::new(RequestScopedIdentity), &[]);
        let server = Arc::new(Server::start(runtime, bearers(), mode.options()).await);
        let sessions = [mode.open(&server, "ana.opener").await, mode.open(&server, "ben.opener").await];
        let workers: Vec<_> = (0..24_usize)
            .map(|worker| {
                let (server, session) = (server.clone(), sessions[worker % 2].clone());
                tokio::spawn(async move {
                    let mut wire = Wire::connect(server.address).await;
                    for round in 0..6 {
                        let bearer =
                            format!("{}.{}", ["ana", "ben"][worker % 2], ["old", "new"][(worker / 2 + round) % 2]);
                        let header = format!("Bearer {bearer}");
                        let headers = [("Authorization", header.as_str()), ("Mcp-Session-Id", session.as_str())];
                        let id = worker * 100 + round * 3;
                        let own = pipe_of(&bearer);
                        let uri = format!("pipefy://pipes/{own}");
                        let answer =
                            wire.exchange(&mode.request(id, "resources/read", read(&uri), &headers)).await.json();
                        let content = &answer["result"]["contents"][0];
                        assert_eq!((&answer["id"], &content["uri"]), (&json!(id), &json!(uri)), "{mode:?} {answer}");
                        let pipe: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
                        assert_eq!(pipe["pipe"]["name"], bearer, "{mode:?}");
                        for (reference, argument) in [
                            (json!({"type": "ref/resource", "uri": "pipefy://pipes/{id}"}), "id"),
                            (json!({"type": "ref/prompt", "name": "triage-backlog"}), "pipe_id"),
                        ] {
                            let params = completing(reference, argument, "pipe of");
                            let answer = wire
                                .exchange(&mode.request(id + 1, "completion/complete", params, &headers))
                                .await
                                .json();
                            let completion = &answer["result"]["completion"];
                            assert_eq!(completion["values"], json!([own]), "{mode:?} {answer}");
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        let seen = pipefy.seen.lock().unwrap();
        assert_eq!(seen.len(), 24 * 6 * 3, "{mode:?}");
        for bearer in ["ana.old", "ana.new", "ben.old", "ben.new"] {
            assert_eq!(seen.iter().filter(|seen| *seen == bearer).count(), 24 * 6 * 3 / 4, "{mode:?} {bearer}");
        }
    }
}

/// A hosted runtime to which a message comes without a caller reads nothing, completes to nothing, and asks nobody.
#[tokio::test]
async fn without_a_caller_nothing_goes_out() {
    for mode in MODES {
        let pipefy = Pipefy::start().await;
        let runtime = support::runtime(&pipefy.url, Arc::new(RequestScopedIdentity), &[]);
        let server = Server::start(runtime, Inbound::Open, mode.options()).await;
        let session = match mode {
            Mode::Stateful | Mode::StatefulJson => server.open(&[]).await,
            _ => String::new(),
        };
        let headers = [("Mcp-Session-Id", session.as_str()), ("Authorization", "Bearer ana.unchecked")];
        let answer = server.raw(&mode.request(1, "resources/read", read("pipefy://pipes/1"), &headers)).await.json();
        assert_eq!(answer["error"]["code"], -32603, "{mode:?} {answer}");
        assert!(!answer.to_string().contains("unchecked"), "{answer}");
        let params = completing(json!({"type": "ref/resource", "uri": "pipefy://pipes/{id}"}), "id", "");
        let answer = server.raw(&mode.request(2, "completion/complete", params, &headers)).await.json();
        assert_eq!(answer["result"]["completion"]["values"], json!([]), "{mode:?} {answer}");
        let answer = server.raw(&mode.request(3, "prompts/list", json!({}), &headers)).await.json();
        assert!(!answer["result"]["prompts"].as_array().unwrap().is_empty(), "{mode:?} {answer}");
        assert_eq!(pipefy.asked(), 0, "{mode:?}");
    }
}

/// Headers that narrow a request narrow its prompts, templates and completions with its tools.
#[tokio::test]
async fn what_a_request_leaves_out_is_not_offered() {
    for mode in MODES {
        let pipefy = Pipefy::start().await;
        let server = Server::start(support::local(&pipefy.url, "t", &[]), Inbound::Open, mode.options()).await;
        let session = match mode {
            Mode::Stateful | Mode::StatefulJson => server.open(&[]).await,
            _ => String::new(),
        };
        let names = async |header: (&str, &str), method: &str, list: &str, key: &str| -> Vec<String> {
            let headers = [("Mcp-Session-Id", session.as_str()), header];
            let answer = server.raw(&mode.request(1, method, json!({}), &headers)).await.json();
            let rows = answer["result"][list].as_array().unwrap_or_else(|| panic!("{mode:?} {answer}")).clone();
            rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
        };
        let all = names(("X-None", "1"), "prompts/list", "prompts", "name").await;
        let reading = names(("X-MCP-Readonly", "true"), "prompts/list", "prompts", "name").await;
        assert!(reading.len() < all.len() && reading.contains(&"investigate-stuck-card".to_owned()), "{reading:?}");
        assert!(!reading.contains(&"set-up-pipe".to_owned()) && all.contains(&"set-up-pipe".to_owned()));
        let one = ("X-MCP-Tools", "get_card");
        assert!(names(one, "prompts/list", "prompts", "name").await.is_empty());
        let templates = names(one, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
        assert_eq!(templates, ["pipefy://schema/{type}", "pipefy://tools/{name}", "pipefy://cards/{id}"]);
        let headers = [("Mcp-Session-Id", session.as_str()), one];
        for (method, params, said) in [
            ("prompts/get", json!({"name": "set-up-pipe", "arguments": {"process": "p"}}), "create_pipe"),
            ("resources/read", read("pipefy://pipes/1"), "Unknown resource"),
            ("resources/read", read("pipefy://tools/get_pipe"), "Unknown resource"),
            (
                "completion/complete",
                completing(json!({"type": "ref/resource", "uri": "pipefy://pipes/{id}"}), "id", ""),
                "Unknown resource template",
            ),
        ] {
            let answer = server.raw(&mode.request(1, method, params, &headers)).await.json();
            assert_eq!(answer["error"]["code"], -32602, "{mode:?} {method} {answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{mode:?} {answer}");
        }
        assert_eq!(pipefy.asked(), 0, "{mode:?}");
    }
}

/// In 2026-07-28 every list and read says how long it is good for, and which server gave it.
#[tokio::test]
async fn the_later_revision_has_its_stamps() {
    let pipefy = Pipefy::start().await;
    let server = Server::start(support::local(&pipefy.url, "t", &[]), Inbound::Open, Mode::Alone.options()).await;
    for (method, params, ttl) in [
        ("prompts/list", json!({}), 300_000),
        ("resources/list", json!({}), 300_000),
        ("resources/templates/list", json!({}), 300_000),
        ("resources/read", read("pipefy://schema/Card"), 300_000),
        ("resources/read", read("pipefy://pipes/1"), 0),
    ] {
        let answer = server.raw(&Mode::Alone.request(1, method, params, &[])).await.json();
        let result = &answer["result"];
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(ttl), &json!("private")), "{answer}");
        assert_eq!(result["resultType"], "complete", "{answer}");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pipefy", "{answer}");
    }
    let discovered = server.raw(&Mode::Alone.request(1, "server/discover", json!({}), &[])).await.json();
    for capability in ["prompts", "resources", "completions", "tools"] {
        assert!(discovered["result"]["capabilities"][capability].is_object(), "{discovered}");
    }
}

type Client = RunningService<RoleClient, ()>;

/// An off-the-shelf client on standard streams.
async fn client(runtime: Arc<McpRuntime>) -> Client {
    let (theirs, ours) = tokio::io::duplex(256 * 1024);
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(serve_on(Handler::new(runtime), input, output, CancellationToken::new()));
    ().serve(theirs).await.unwrap()
}

async fn read_by(client: &Client, uri: &str) -> Result<Value, ErrorData> {
    let result = client.read_resource(ReadResourceRequestParams::new(uri)).await.map_err(refusal)?;
    let content = serde_json::to_value(result.contents).unwrap();
    Ok(content[0].clone())
}

fn refusal(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => panic!("{other}"),
    }
}

async fn complete_by(
    client: &Client,
    reference: Reference,
    argument: &str,
    value: &str,
    context: Value,
) -> Vec<String> {
    let argument: ArgumentInfo = serde_json::from_value(json!({"name": argument, "value": value})).unwrap();
    let mut params = CompleteRequestParams::new(reference, argument);
    params.context = serde_json::from_value(json!({ "arguments": context })).unwrap();
    client.complete(params).await.unwrap().completion.values
}

#[tokio::test]
async fn a_read_that_fails_says_why_and_is_no_content() {
    let pipefy = Pipefy::start().await;
    let client = client(support::local(&pipefy.url, "canary-token", &[])).await;
    for (uri, code, said) in [
        ("pipefy://pipes/404", -32602, "404"),
        ("pipefy://pipes/403", -32602, "403"),
        ("pipefy://pipes/500", -32603, ""),
        ("pipefy://pipes/0", -32602, "pipe_id"),
        ("pipefy://pipes/", -32602, "Unknown resource"),
        ("pipefy://nothing/1", -32602, "Unknown resource"),
        ("pipefy://schema/NoSuchType", -32602, "Unknown resource"),
        ("pipefy://tools/no_such_tool", -32602, "Unknown resource"),
        ("file:///etc/passwd", -32602, "Unknown resource"),
    ] {
        let error = read_by(&client, uri).await.unwrap_err();
        assert_eq!(error.code.0, code, "{uri}: {error:?}");
        assert!(!error.message.is_empty() && error.message.contains(said), "{uri}: {error:?}");
        assert_eq!(error.data.as_ref().unwrap()["uri"], uri);
        assert!(!format!("{error:?}").contains("canary-token"));
    }
}

/// What is too long is cut as the tool's result is: valid JSON that says so.
#[tokio::test]
async fn a_resource_keeps_to_the_result_budget() {
    let pipefy = Pipefy::start().await;
    let client = client(support::local(&pipefy.url, "t", &[("PIPEFY_MCP_RESULT_BUDGET", "1000")])).await;
    let content = read_by(&client, "pipefy://cards/5").await.unwrap();
    assert_eq!(content["mimeType"], "application/json");
    let text = content["text"].as_str().unwrap();
    let card: Value = serde_json::from_str(text).unwrap();
    assert!(text.len() < 2_000 && card.get("truncated").is_some(), "{text}");
}

#[tokio::test]
async fn the_power_profile_reads_through_its_own_tool() {
    let pipefy = Pipefy::start().await;
    let client = client(support::local(&pipefy.url, "t", &[("PIPEFY_MCP_TOOLSETS", "power")])).await;
    let content = read_by(&client, "pipefy://pipes/9").await.unwrap();
    assert!(content["text"].as_str().unwrap().contains("\"pipe\":{\"id\":\"9\""), "{content}");
    let arguments = json!({"card_id": "7"}).as_object().unwrap().clone();
    let params = GetPromptRequestParams::new("investigate-stuck-card").with_arguments(arguments);
    let prompt = serde_json::to_value(client.get_prompt(params).await.unwrap()).unwrap();
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("get_card(card_id=\"7\"") && text.contains("execute_tool(name, arguments)"), "{text}");
}

#[tokio::test]
async fn arguments_of_a_prompt_are_checked() {
    let pipefy = Pipefy::start().await;
    let client = client(support::local(&pipefy.url, "t", &[("PIPEFY_MCP_READ_ONLY", "true")])).await;
    let get = async |name: &str, arguments: Value| {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
        client.get_prompt(params).await.map_err(refusal)
    };
    let prompt = get("investigate-stuck-card", json!({"card_id": 7})).await.unwrap();
    let text = serde_json::to_value(&prompt).unwrap()["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("card 7") && text.contains("Not offered here: fill_card_phase_fields"), "{text}");
    for (name, arguments, said) in [
        ("investigate-stuck-card", json!({}), "Missing argument: card_id"),
        ("investigate-stuck-card", json!({"card_id": "7", "x": "y"}), "Unknown argument: x"),
        ("investigate-stuck-card", json!({"card_id": ["7"]}), "must be a text"),
        ("no-such-prompt", json!({}), "Unknown prompt"),
        ("set-up-pipe", json!({"process": "p"}), "create_pipe"),
    ] {
        let error = get(name, arguments).await.unwrap_err();
        assert_eq!(error.code.0, -32602, "{name}: {error:?}");
        assert!(error.message.contains(said), "{name}: {error:?}");
    }
}

/// Against the sandbox, whose answers have Pipefy's shapes.
#[tokio::test]
async fn names_become_ids_and_ids_are_read() {
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let client = client(support::local(sandbox.url(), DEFAULT_TOKEN, &[])).await;
    let pipes = || Reference::for_resource("pipefy://pipes/{id}");
    let ids = complete_by(&client, pipes(), "id", "", json!({})).await;
    assert!(ids.len() > 1, "{ids:?}");
    let text = read_by(&client, &format!("pipefy://pipes/{}", ids[0])).await.unwrap()["text"].clone();
    let pipe: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    let name = pipe["pipe"]["name"].as_str().unwrap();
    assert!(complete_by(&client, pipes(), "id", &name.to_uppercase(), json!({})).await.contains(&ids[0]));
    assert!(complete_by(&client, pipes(), "id", "no pipe is called so", json!({})).await.is_empty());

    let prompt = |name: &str| Reference::for_prompt(name);
    let phases = complete_by(&client, prompt("triage-backlog"), "phase_id", "", json!({"pipe_id": ids[0]})).await;
    assert_eq!(phases.len(), pipe["pipe"]["phases"].as_array().unwrap().len(), "{phases:?}");
    assert!(complete_by(&client, prompt("triage-backlog"), "phase_id", "", json!({})).await.is_empty());
    let cards = CallToolRequestParams::new("get_cards")
        .with_arguments(json!({"pipe_id": ids[0], "first": 1}).as_object().unwrap().clone());
    let cards = client.call_tool(cards).await.unwrap().structured_content.unwrap();
    let card = json!({"card_id": cards.pointer("/data/cards/edges/0/node/id").unwrap()});
    let stuck = complete_by(&client, prompt("investigate-stuck-card"), "destination_phase_id", "", card).await;
    assert_eq!(stuck, phases);
    let none = json!({"card_id": "1"});
    assert!(complete_by(&client, prompt("investigate-stuck-card"), "destination_phase_id", "", none).await.is_empty());
    let tool = complete_by(&client, prompt("recover-failed-write"), "tool", "update_card_f", json!({})).await;
    assert_eq!(tool, ["update_card_field"]);
    assert!(!complete_by(&client, prompt("set-up-pipe"), "organization_id", "", json!({})).await.is_empty());
    assert!(!complete_by(&client, prompt("migrate-spreadsheet"), "table_id", "", json!({})).await.is_empty());
    assert!(complete_by(&client, prompt("set-up-pipe"), "process", "x", json!({})).await.is_empty());
    let tools = Reference::for_resource("pipefy://tools/{name}");
    assert_eq!(
        complete_by(&client, tools, "name", "delete_card", json!({})).await,
        ["delete_card", "delete_card_relation"]
    );
    let types = Reference::for_resource("pipefy://schema/{type}");
    assert!(
        complete_by(&client, types, "type", "createcardinput", json!({})).await.contains(&"CreateCardInput".to_owned())
    );

    let card = read_by(&client, "pipefy://schema/Card").await.unwrap();
    assert_eq!(card["mimeType"], "application/graphql");
    assert!(card["text"].as_str().unwrap().contains("type Card "), "{card}");
    let about = read_by(&client, "pipefy://tools/get_card").await.unwrap()["text"].clone();
    let about: Value = serde_json::from_str(about.as_str().unwrap()).unwrap();
    assert_eq!((&about["name"], &about["class"]), (&json!("get_card"), &json!("reads")));
    for resource in client.list_all_resources().await.unwrap() {
        assert!(read_by(&client, &resource.uri).await.unwrap()["text"].as_str().unwrap().len() > 1_000);
    }
}

/// Scope pins hold for what is read by address and for what completes.
#[tokio::test]
async fn outside_of_the_scope_there_is_nothing() {
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let free = client(support::local(sandbox.url(), DEFAULT_TOKEN, &[])).await;
    let pipes = || Reference::for_resource("pipefy://pipes/{id}");
    let ids = complete_by(&free, pipes(), "id", "", json!({})).await;
    let pinned = client(support::local(sandbox.url(), DEFAULT_TOKEN, &[("PIPEFY_MCP_SCOPE_PIPES", &ids[0])])).await;
    assert_eq!(complete_by(&pinned, pipes(), "id", "", json!({})).await, ids[..1]);
    read_by(&pinned, &format!("pipefy://pipes/{}", ids[0])).await.unwrap();
    let error = read_by(&pinned, &format!("pipefy://pipes/{}", ids[1])).await.unwrap_err();
    assert_eq!((error.code.0, &error.data.unwrap()["code"]), (-32602, &json!("OUT_OF_SCOPE")));
}
