//! An MCP client in raw JSON-RPC lines over a child process's standard streams.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long one answer may take; generous, since a slow interpreter may be the server under test.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a server may take to end after its input did.
const FAREWELL: Duration = Duration::from_secs(10);

/// A running server that has been initialized.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    last_id: u64,
    answers: VecDeque<Value>,
    asked: Vec<Value>,
}

impl Client {
    /// Starts `program` with exactly this environment and shakes hands.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        environment: &[(String, String)],
        elicitation: bool,
    ) -> Result<Self, String> {
        let mut child = Command::new(program)
            .current_dir(folder)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let output = child.stdout.take().expect("piped output");
        let mut errors = child.stderr.take().expect("piped errors");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut client = Self {
            input: child.stdin.take(),
            child,
            lines,
            errors: Some(errors),
            last_id: 0,
            answers: VecDeque::new(),
            asked: Vec::new(),
        };
        let capabilities = if elicitation { json!({"elicitation": {}}) } else { json!({}) };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "recorded-cases", "version": "1"},
        });
        let welcome = match client.request("initialize", Some(hello)) {
            Ok(answer) => answer,
            Err(error) => return Err(format!("{error}\n{}", client.stop())),
        };
        if welcome.pointer("/result/protocolVersion").and_then(Value::as_str) != Some("2025-06-18") {
            return Err(format!("initialize answered {welcome}\n{}", client.stop()));
        }
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    /// Sends a request and waits for its answer; requests of the server are served meanwhile.
    pub(crate) fn request(&mut self, method: &str, params: Option<Value>) -> Result<Value, String> {
        self.last_id += 1;
        let mut request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method});
        if let Some(params) = params {
            request["params"] = params;
        }
        self.write(&request)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("no answer to {method} in {PATIENCE:?}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the server ended before it answered {method}"));
                }
            };
            let message: Value = serde_json::from_str(&line)
                .map_err(|error| format!("not JSON on standard output ({error}): {line}"))?;
            if message.get("method").is_some() {
                self.serve(&message)?;
            } else if message.get("id") == Some(&json!(self.last_id)) {
                return Ok(message);
            } else {
                return Err(format!("an answer to nothing asked: {message}"));
            }
        }
    }

    /// What to answer to the elicitations of the next request.
    pub(crate) fn prepare(&mut self, answers: &[Value]) {
        self.answers = answers.iter().cloned().collect();
        self.asked.clear();
    }

    /// The forms shown since [`Self::prepare`].
    pub(crate) fn asked(&self) -> &[Value] {
        &self.asked
    }

    /// Ends the server by ending its input; returns what it wrote to standard error.
    pub(crate) fn stop(mut self) -> String {
        self.end()
    }

    fn end(&mut self) -> String {
        self.input = None;
        let deadline = Instant::now() + FAREWELL;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break;
                }
                _ => break,
            }
        }
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }

    fn serve(&mut self, message: &Value) -> Result<(), String> {
        let Some(id) = message.get("id") else {
            return Ok(());
        };
        let answer = match message.get("method").and_then(Value::as_str) {
            Some("elicitation/create") => {
                self.asked.push(message.get("params").cloned().unwrap_or_default());
                let answer = self.answers.pop_front().unwrap_or_else(|| json!({"action": "cancel"}));
                json!({"jsonrpc": "2.0", "id": id, "result": answer})
            }
            Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not offered"}})
            }
        };
        self.write(&answer)
    }

    fn write(&mut self, message: &Value) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the server's input is closed")?;
        writeln!(input, "{message}")
            .and_then(|()| input.flush())
            .map_err(|error| format!("the server took no input: {error}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.errors.is_some() {
            self.end();
        }
    }
}
