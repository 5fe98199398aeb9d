//! The real server over HTTP, against a sandbox on loopback: it starts, says where, reaches Pipefy, and ends in order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/backend.rs"]
mod backend;
#[path = "support/child.rs"]
mod child;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use backend::parsed;
use child::{call, command, ended, initialize};
use serde_json::{Value, json};

struct Server {
    child: Child,
    address: String,
    _home: tempfile::TempDir,
}

impl Server {
    /// With a sandbox of its own, on a free port.
    fn start(arguments: &[&str]) -> Self {
        let all: Vec<&str> = ["--sandbox", "--sandbox-data", ":memory:", "--transport", "http", "--port", "0"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let (mut command, home) = command(&all, &[]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .find_map(|line| line.split_once("http://").map(|(_, rest)| rest.split('/').next().unwrap().to_owned()))
            .expect("the server says where it listens");
        // The rest is read, so that the server never waits for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _home: home }
    }

    /// Status, session id and JSON of the answer.
    fn post(&self, session: Option<&str>, headers: &str, body: &Value) -> (u16, Option<String>, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        let body = body.to_string();
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             connection: close\r\ncontent-length: {}\r\n{session}{headers}\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        parsed(&answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Field report A04: a call that reaches Pipefy, with and without sessions, as JSON and as events.
#[test]
fn calls_reach_pipefy_in_every_mode() {
    let server = Server::start(&[]);
    let (status, session, welcome) = server.post(None, "", &initialize(json!(0), "2025-06-18", json!({})));
    assert_eq!((status, &welcome["result"]["serverInfo"]["name"]), (200, &json!("pipefy")));
    let session = session.expect("a session id");
    let (status, _, answer) = server.post(Some(&session), "", &call(json!(1), "list_organizations", json!({})));
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(false)), "{answer}");
    assert!(answer["result"]["structuredContent"]["success"].as_bool().unwrap());
    // A header narrows this request to reads.
    let (_, _, answer) = server.post(
        Some(&session),
        "x-mcp-readonly: true\r\n",
        &call(json!(2), "delete_card", json!({"card_id": "1"})),
    );
    assert_eq!(answer["result"]["content"][0]["text"], "Unknown tool: delete_card", "{answer}");
    drop(server);

    let server = Server::start(&["--stateless"]);
    let (status, session, answer) = server.post(None, "", &call(json!(1), "list_organizations", json!({})));
    assert_eq!((status, session), (200, None));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_with_0_and_a_taken_port_with_3() {
    let mut server = Server::start(&[]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let (mut taken, _home) =
        command(&["--sandbox", "--sandbox-data", ":memory:", "--transport", "http", "--port", &port], &[]);
    let output = taken.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let pid = server.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(ended(&mut server.child).code(), Some(0));
}
