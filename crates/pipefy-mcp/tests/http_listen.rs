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
    fn start(arguments: &[&str]) -> Self {
        let (mut command, home) = child::command(arguments, &[]);
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
            Process::start(&["--transport", "http", "--port", "0", "--sandbox", "--sandbox-data", ":memory:"]);
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
