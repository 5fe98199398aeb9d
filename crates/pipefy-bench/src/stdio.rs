//! The server on standard input and output: start-up time, and load with calls in flight on one pipe.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Failure;
use crate::load::{Round, initialize, is_card, tool_call};
use crate::process::{Process, Server, lines};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that has answered `initialize`.
pub(crate) struct Piped {
    pub(crate) process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
    /// From the start of the process to its answer.
    pub(crate) start_up: Duration,
    last_id: u64,
}

impl Piped {
    pub(crate) fn start(server: &Server) -> Result<Self, Failure> {
        let mut command = server.command(&[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut process = Process::start(&mut command)?;
        let mut input = process.child.stdin.take().ok_or("no standard input")?;
        let lines = lines(process.child.stdout.take().ok_or("no standard output")?);
        writeln!(input, "{}", initialize(1))?;
        input.flush()?;
        lines.recv_timeout(PATIENCE).map_err(|_| format!("{} did not answer initialize", server.path))?;
        let start_up = start.elapsed();
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(Self { process, input, lines, start_up, last_id: 1 })
    }

    /// Keeps `in_flight` calls going for `duration`.
    pub(crate) fn round(&mut self, in_flight: usize, duration: Duration) -> Result<Round, Failure> {
        let mut sent = HashMap::new();
        let mut latencies = Vec::new();
        let mut wrong = 0;
        let start = Instant::now();
        for _ in 0..in_flight {
            self.send(&mut sent)?;
        }
        while !sent.is_empty() {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|_| "a call was not answered on stdio")?;
            let message: Value = serde_json::from_str(&line)?;
            let Some(at) = message.get("id").and_then(Value::as_u64).and_then(|id| sent.remove(&id)) else {
                continue;
            };
            latencies.push(at.elapsed());
            wrong += usize::from(!is_card(line.as_bytes()));
            if start.elapsed() < duration {
                self.send(&mut sent)?;
            }
        }
        let elapsed = start.elapsed();
        latencies.sort_unstable();
        Ok(Round { elapsed, latencies, wrong })
    }

    fn send(&mut self, sent: &mut HashMap<u64, Instant>) -> Result<(), Failure> {
        self.last_id += 1;
        sent.insert(self.last_id, Instant::now());
        writeln!(self.input, "{}", tool_call(self.last_id))?;
        Ok(self.input.flush()?)
    }
}

/// How long `program --version` takes.
pub(crate) fn version_time(program: &str) -> Result<Duration, Failure> {
    let start = Instant::now();
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(format!("{program} --version failed").into());
    }
    Ok(start.elapsed())
}
