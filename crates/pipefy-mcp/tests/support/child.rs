//! The real server as a child process, spoken to in lines.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long one answer may take; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Server {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    home: tempfile::TempDir,
}

/// A command with nothing of the machine's environment, in a folder of its own.
pub(crate) fn command(arguments: &[&str], variables: &[(&str, &str)]) -> (Command, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipefy-mcp-server"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.path())
        .env("PIPEFY_DISABLE_STORED_SESSION", "true")
        .envs(variables.iter().copied())
        .current_dir(home.path());
    (command, home)
}

/// Runs to the end with this input.
pub(crate) fn run(arguments: &[&str], variables: &[(&str, &str)], input: &[u8]) -> (Output, Duration) {
    let (mut command, _home) = command(arguments, variables);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _gone = stdin.write_all(&input);
        Instant::now()
    });
    let output = child.wait_with_output().unwrap();
    (output, writer.join().unwrap().elapsed())
}

/// Waits for the end of a process, and ends it where it does not come.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("the process does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Server {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (mut command, home) = command(arguments, variables);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines, home }
    }

    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    pub(crate) fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON on standard output: {line}"))
    }

    /// What comes within this time, if anything.
    pub(crate) fn receive_within(&mut self, time: Duration) -> Option<Value> {
        self.lines.recv_timeout(time).ok().map(|line| serde_json::from_str(&line).unwrap())
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }

    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        self.ask(&initialize(json!(0), version, json!({})))
    }

    /// Ends the input and waits; the exit code, the time it took, and what was left on standard output and error.
    pub(crate) fn end(mut self) -> (Option<i32>, Duration, Vec<String>, String) {
        self.input = None;
        let start = Instant::now();
        let status = ended(&mut self.child);
        let took = start.elapsed();
        let rest = self.lines.iter().collect();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status.code(), took, rest, errors)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

pub(crate) fn initialize(id: Value, version: &str, capabilities: Value) -> Value {
    request(
        id,
        "initialize",
        json!({"protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}}),
    )
}

pub(crate) fn request(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn call(id: Value, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}
