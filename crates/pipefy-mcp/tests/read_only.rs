//! Read-only mode has no side door: every recorded call of the contract, valid arguments and recorded answers included, is
//! made again where only reads are allowed, and the backend counts what reaches it. Over standard streams, through the power
//! profile's `execute_tool`, over HTTP with the header, and by the library with every tool in reach, so that the gate itself
//! must refuse. That the same calls do write otherwise is what `cases.rs` shows.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[path = "cases/backend.rs"]
mod backend;
#[path = "cases/case.rs"]
mod case;
#[path = "cases/client.rs"]
mod client;
#[path = "cases/document.rs"]
mod document;
mod http;
#[path = "cases/pattern.rs"]
mod pattern;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipefy::settings::{Environment, Overrides, load_server};
use pipefy_mcp::catalogue::{Entry, Exposure, Selection, catalogue};
use pipefy_mcp::dispatch::{Invocation, dispatch};
use pipefy_mcp::http::Inbound;
use pipefy_mcp::identity::StartupIdentity;
use pipefy_mcp::runtime::McpRuntime;
use pipefy_tools::Class;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use backend::Backend;
use case::{Case, ExchangeKind};
use client::Client;

/// Writes that no recorded case makes with a mutation, and arguments that fit their schemas. Those of the iPaaS send none:
/// they post to another service.
const UNRECORDED: [(&str, &str); 14] = [
    ("bulk_import_cards", r#"{"pipe_id": "7", "rows": [{"Amount": "3"}], "every_row": true}"#),
    ("bulk_import_records", r#"{"table_id": "7", "rows": [{"Amount": "3"}], "every_row": true}"#),
    ("call_ipaas_tool", r#"{"pipe_id": "7", "tool_name": "run_flow", "arguments": {}}"#),
    ("clone_pipe", r#"{"pipe_template_id": "7"}"#),
    (
        "create_ipaas_connection",
        r#"{"pipe_id": "7", "piece_name": "slack", "connection_type": "SECRET_TEXT", "value": {"secret_text": "x"}}"#,
    ),
    ("create_label", r##"{"pipe_id": "7", "name": "Late", "color": "#FF0000"}"##),
    ("create_phase", r#"{"pipe_id": "7", "name": "Doing"}"#),
    ("create_portal", r#"{"organization_uuid": "11111111-2222-4333-8444-555555555555"}"#),
    ("export_organization_report", r#"{"organization_id": "7", "organization_report_id": "8"}"#),
    ("get_ipaas_connection_auth_url", r#"{"pipe_id": "7", "piece_name": "slack"}"#),
    (
        "update_ai_agent",
        r#"{"uuid": "11111111-2222-4333-8444-555555555555", "name": "A", "repo_uuid": "11111111-2222-4333-8444-555555555556",
            "instruction": "Do", "behaviors": [{"name": "b", "event_id": "card_created"}]}"#,
    ),
    (
        "update_ai_knowledge_base_plain_text",
        r#"{"plain_text_id": "8", "pipe_uuid": "11111111-2222-4333-8444-555555555555", "name": "A"}"#,
    ),
    ("update_webhook", r#"{"webhook_id": "7", "name": "A"}"#),
    (
        "upload_attachment_to_table_record",
        r#"{"organization_id": "7", "table_record_id": "8", "field_id": "file", "file_url": "http://127.0.0.1:9/a.txt"}"#,
    ),
];

/// A call that writes when it may.
struct Written {
    case: String,
    tool: String,
    arguments: Value,
    /// Whether the recorded run sent a mutation or moved bytes.
    wrote: bool,
    step: case::Step,
}

/// Every call of a tool that may write, in the order of the cases.
fn writing_calls(cases: &[Case]) -> Vec<Written> {
    let mut calls = Vec::new();
    for case in cases {
        for step in &case.steps {
            let tool = step.tool.as_ref().unwrap_or(&case.tool);
            let Some(op) = catalogue().get(tool).map(|tool| tool.op()) else { continue };
            if op.class == Class::Read || step.method.is_some() || step.raw || step.no_arguments {
                continue;
            }
            let wrote = step.exchanges.iter().any(|exchange| {
                let moved = exchange.kind == ExchangeKind::Http && exchange.method.as_deref() == Some("PUT");
                exchange.kind == ExchangeKind::Mutation || moved
            });
            let mut arguments = step.args.clone();
            // A token that cannot be right must not be what keeps the call from writing.
            if let Some(arguments) = arguments.as_object_mut() {
                arguments.retain(|_, value| *value != "$token");
            }
            calls.push(Written { case: case.id.clone(), tool: tool.clone(), arguments, wrote, step: step.clone() });
        }
    }
    calls
}

fn environment(folder: &Path, base: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("HOME", text(folder.join("home"))),
        ("PIPEFY_CONFIG_FILE", text(folder.join("home/absent.toml"))),
        ("PIPEFY_BASE_URL", base.to_owned()),
        ("PIPEFY_IPAAS_URL", base.to_owned()),
        ("PIPEFY_ALLOW_INSECURE_URLS", "true".to_owned()),
        ("PIPEFY_DISABLE_STORED_SESSION", "true".to_owned()),
        ("PIPEFY_TOKEN", backend::TOKEN.to_owned()),
        ("PIPEFY_IPAAS_CONNECTION_TEST_KEY", "recorded".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    .collect()
}

/// One way in. Gives the text of the result.
enum Way {
    /// A process over standard streams.
    Stdio(Client),
    /// The same, through `execute_tool`.
    Power(Client),
    /// A server that may write, asked to narrow itself for this request.
    Http(http::Server),
    /// The dispatch, with every tool in reach.
    Library(Arc<McpRuntime>, Exposure),
}

impl Way {
    fn call(&mut self, runtime: &Runtime, tool: &str, arguments: &Value) -> String {
        let plain = json!({"name": tool, "arguments": arguments});
        let answer = match self {
            Self::Stdio(client) => client.request("tools/call", Some(plain)).unwrap(),
            Self::Power(client) => {
                let run = json!({"name": "execute_tool", "arguments": plain});
                let run =
                    if catalogue().get(tool).is_some_and(|t| t.name() == "execute_graphql") { plain } else { run };
                client.request("tools/call", Some(run)).unwrap()
            }
            Self::Http(server) => {
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": plain}).to_string();
                runtime.block_on(server.post(&body, &[("X-MCP-Readonly", "true")])).json()
            }
            Self::Library(mcp, exposure) => {
                let invocation = Invocation {
                    id: "1",
                    name: tool,
                    arguments: arguments.as_object().cloned().unwrap_or_default(),
                    request: None,
                    conversation: None,
                    ask: None,
                    progress: None,
                    cancel: Default::default(),
                };
                return runtime.block_on(dispatch(mcp, exposure, invocation)).text();
            }
        };
        let text = answer.pointer("/result/content/0/text").and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
    }
}

fn mcp(environment: &[(String, String)]) -> Arc<McpRuntime> {
    let given = environment
        .iter()
        .fold(Environment::empty(), |given, (name, value)| given.with_variable(name.clone(), value.clone()));
    let settings = load_server(&given, &Overrides::new()).unwrap();
    let credential = pipefy::Credential::static_token(&backend::TOKEN.into()).unwrap();
    let identity = Arc::new(StartupIdentity::new(credential));
    Arc::new(McpRuntime::with_identity(&settings, &given, identity, &Selection::Everything).unwrap())
}

#[test]
fn no_recorded_write_reaches_pipefy() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let backend = Backend::start(&runtime.handle().clone());
    let cases: Vec<Case> =
        case::lines().iter().map(|line| case::parse(line, &backend.base, &backend.base).unwrap()).collect();
    let calls = writing_calls(&cases);

    let covered: BTreeSet<&str> = calls.iter().filter(|call| call.wrote).map(|call| call.tool.as_str()).collect();
    let uncovered: BTreeSet<&str> = catalogue()
        .tools()
        .iter()
        .filter(|tool| tool.op().class != Class::Read && !covered.contains(tool.name()))
        .map(|tool| tool.name())
        .collect();
    let known: BTreeSet<&str> = UNRECORDED.iter().map(|(tool, _)| *tool).collect();
    assert_eq!(uncovered, known, "tools that write and have no recorded write");

    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(folder.path().join("home")).unwrap();
    for case in &cases {
        for (name, file) in &case.files {
            file.write(&work, name);
        }
    }
    let program = PathBuf::from(env!("CARGO_BIN_EXE_pipefy-mcp-server"));
    let start = |more: &[(&str, &str)]| {
        Client::start(&program, &work, &environment(folder.path(), &backend.base, more), true).unwrap()
    };
    let read_only = ("PIPEFY_MCP_READ_ONLY", "true");
    let open = environment(folder.path(), &backend.base, &[]);
    let mut options = http::options();
    (options.stateless, options.json_response) = (true, true);
    let ways = [
        Way::Stdio(start(&[read_only])),
        Way::Power(start(&[read_only, ("PIPEFY_MCP_TOOLSETS", "power")])),
        Way::Http(runtime.block_on(http::Server::start(mcp(&open), Inbound::Open, options))),
        Way::Library(
            mcp(&environment(folder.path(), &backend.base, &[read_only])),
            Exposure::new(&Selection::parse(Some("all,bulk")).unwrap(), false, false),
        ),
    ];
    let mut problems = Vec::new();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, mut way) in ["stdio", "power", "http", "library"].into_iter().zip(ways) {
        for (tool, arguments) in UNRECORDED {
            backend.begin(Vec::new());
            let answer = way.call(&runtime, tool, &serde_json::from_str(arguments).unwrap());
            let log = backend.end();
            let always = catalogue().get(tool).unwrap().op().class != Class::ByInput;
            if !log.writes.is_empty() || (always && !log.requests.is_empty()) {
                problems.push(format!("{name} {tool}: sent {:?}", log.requests));
            }
            if always && name == "library" && !answer.contains("READ_ONLY") {
                problems.push(format!("{name} {tool}: answered {}", pattern::cut(&answer, 300)));
            }
        }
        for call in &calls {
            backend.begin(call.step.exchanges.clone());
            let answer = way.call(&runtime, &call.tool, &call.arguments);
            let log = backend.end();
            let place = format!("{name} {} {}", call.case, call.tool);
            if !log.writes.is_empty() {
                problems.push(format!("{place}: sent {:?}", log.writes));
            }
            if let Some(sent) = log.requests.iter().find(|request| request.starts_with("PUT ")) {
                problems.push(format!("{place}: moved bytes: {sent}"));
            }
            let always = catalogue().get(&call.tool).unwrap().op().class != Class::ByInput;
            let said = match name {
                "library" => "READ_ONLY",
                "power" if always => "TOOL_NOT_FOUND",
                _ if always => "Unknown tool: ",
                _ => "READ_ONLY",
            };
            if call.wrote && !answer.contains(said) {
                // Arguments come before the gate; some recordings let through what is refused here.
                let harmless = answer.contains("INVALID_ARGUMENTS");
                if !harmless {
                    problems.push(format!("{place}: answered {}", pattern::cut(&answer, 300)));
                }
            } else if call.wrote {
                *refused.entry(name).or_default() += 1;
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    println!("{refused:?} of {} calls refused", calls.len());
    assert!(refused.values().all(|count| *count > 100) && refused.len() == 4, "{refused:?}");
}

/// Narrowing leaves nothing callable that always writes.
#[test]
fn what_is_left_in_reach_can_be_free_of_writes() {
    for selection in [Selection::Everything, Selection::Power] {
        let exposure = Exposure::new(&selection, false, true);
        for (name, entry) in exposure.entries() {
            let Entry::Tool(tool) = entry else { continue };
            assert!(matches!(tool.op().class, Class::Read | Class::ByInput), "{name}");
        }
    }
}
