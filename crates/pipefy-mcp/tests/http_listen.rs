//! The real binary on HTTP: both signals end it well although a stream is open, and its log is one JSON object a request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/child.rs"]
mod child;
mod http;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use http::*;
use serde_json::{Value, json};

struct Process {
    child: Child,
    lines: Receiver<String>,
    address: std::net::SocketAddr,
    _home: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Process {
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (mut command, home) = child::command(arguments, variables);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _gone = send.send(line);
            }
        });
        let address = loop {
            let line = lines.recv_timeout(LIMIT).expect("the line that says where it listens");
            if let Some((_, rest)) = line.split_once("Listening on http://") {
                break rest.strip_suffix("/mcp").expect("the endpoint's URL").parse().unwrap();
            }
        };
        Self { child, lines, address, _home: home }
    }

    /// The line that holds this.
    fn line(&self, part: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no line with {part}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the process does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn ends_well() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for signal in ["-TERM", "-INT"] {
        let mut process =
            Process::start(&["--transport", "http", "--port", "0", "--sandbox", "--sandbox-data", ":memory:"], &[]);
        let stream = runtime.block_on(async {
            let mut wire = Wire::connect(process.address).await;
            let opened = wire.exchange(&post(&initialize("2025-06-18"), &[])).await;
            let session = opened.header("mcp-session-id").unwrap().to_owned();
            let headers = [("Mcp-Session-Id", session.as_str()), ("X-Request-Id", "it")];
            let answer = wire.exchange(&post(&call(1, "list_organizations", json!({})), &headers)).await;
            assert_eq!(answer.json()["result"]["isError"], false, "{answer:?}");
            let mut stream = Wire::connect(process.address).await;
            stream.send(&get(&session, &[])).await;
            assert_eq!(stream.head().await.status, 200);
            stream
        });
        process.signal(signal);
        assert_eq!(process.ended(), Some(0), "{signal}");
        drop(stream);
        let lines: Vec<Value> = process.lines.iter().filter_map(|line| serde_json::from_str(&line).ok()).collect();
        assert_eq!(lines.iter().filter(|line| line["event"] == "http_request").count(), 3, "{lines:?}");
        assert!(lines.iter().any(|line| line["request_id"] == "it"));
    }
}

#[test]
fn a_hangup_reloads_limits_and_reopens_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let (config, audit) = (folder.path().join("config.toml"), folder.path().join("audit.log"));
    std::fs::write(&config, "session_cap = 5").unwrap();
    let variables = [
        ("PIPEFY_CONFIG_FILE", config.to_str().unwrap()),
        ("PIPEFY_MCP_AUDIT_LOG", audit.to_str().unwrap()),
        ("PIPEFY_MCP_METRICS_ADDRESS", "127.0.0.1:0"),
    ];
    let process =
        Process::start(&["--transport", "http", "--port", "0", "--sandbox", "--sandbox-data", ":memory:"], &variables);
    let metrics = process.line("Metrics on http://");
    let metrics = metrics.split_once("http://").unwrap().1.strip_suffix("/metrics").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sessions = |cap: usize| {
        runtime.block_on(async {
            let mut wire = Wire::connect(process.address).await;
            for _ in 0..cap + 3 {
                assert_eq!(wire.exchange(&post(&initialize("2025-06-18"), &[])).await.status, 200);
            }
            let page = Wire::connect(metrics).await;
            let page = { page }.exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.body;
            let open =
                page.lines().find_map(|line| line.strip_prefix("pipefy_mcp_sessions ")).unwrap().parse::<usize>();
            open.unwrap()
        })
    };
    // One person on this machine: at the cap the longest unused session goes.
    assert_eq!(sessions(5), 5);
    std::fs::write(&config, "session_cap = 8").unwrap();
    process.signal("-HUP");
    process.line("reloaded");
    assert_eq!(sessions(8), 8);
    std::fs::write(&config, "session_cap = \"lots\"").unwrap();
    process.signal("-HUP");
    let refused = process.line("reload refused");
    assert!(refused.contains("session_cap"), "{refused}");
    assert_eq!(sessions(8), 8);

    let moved = folder.path().join("audit.log.1");
    std::fs::rename(&audit, &moved).unwrap();
    process.signal("-HUP");
    process.line("reload refused");
    runtime.block_on(async {
        let mut wire = Wire::connect(process.address).await;
        let opened = wire.exchange(&post(&initialize("2025-06-18"), &[])).await;
        let session = opened.header("mcp-session-id").unwrap();
        wire.exchange(&post(&call(1, "list_organizations", json!({})), &[("Mcp-Session-Id", session)])).await;
    });
    let line: Value = serde_json::from_str(std::fs::read_to_string(&audit).unwrap().trim()).unwrap();
    assert_eq!((&line["tool"], &line["outcome"]), (&json!("list_organizations"), &json!("ok")));
    assert_eq!(std::fs::read_to_string(&moved).unwrap(), "");
}

#[test]
fn an_audit_log_that_cannot_be_opened_stops_the_start() {
    let (mut command, _home) = child::command(
        &["--transport", "http", "--port", "0"],
        &[("PIPEFY_MCP_AUDIT_LOG", "/nowhere/audit.log"), ("PIPEFY_TOKEN", "t")],
    );
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("PIPEFY_MCP_AUDIT_LOG"), "{error}");
}
