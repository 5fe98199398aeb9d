//! Child processes of a run, and what the kernel says about them. Linux only: the figures come from `/proc`.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::Failure;

/// Kernel ticks per second of the CPU figures in `/proc`: 100 on every Linux port in use.
const TICKS: f64 = 100.0;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// A child that is killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{program} does not start: {error}"))?;
        Ok(Self { child })
    }

    /// CPU seconds used so far, user and system, all threads.
    pub(crate) fn cpu(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is the program's name in parentheses and may hold anything.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).ok_or("an odd /proc stat line")?;
        let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / TICKS)
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> Result<u64, Failure> {
        self.memory("VmRSS:")
    }

    /// Most resident memory so far, in KiB.
    pub(crate) fn peak(&self) -> Result<u64, Failure> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc status")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a helper of this program and reads the address it prints.
pub(crate) fn helper(words: &[&str]) -> Result<(Process, String), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(&mut command)?;
    let output = process.child.stdout.take().ok_or("no standard output")?;
    let address = address(lines(output))?;
    Ok((process, address))
}

/// A server's executable and environment.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) path: String,
    pub(crate) backend: String,
}

impl Server {
    /// A command with nothing of this process's environment.
    pub(crate) fn command(&self, switches: &[(&str, &str)]) -> Command {
        let home = std::env::temp_dir();
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &home)
            .env("PIPEFY_CONFIG_FILE", home.join("absent-config.toml"))
            .env("PIPEFY_BASE_URL", &self.backend)
            .env("PIPEFY_ALLOW_INSECURE_URLS", "true")
            .env("PIPEFY_DISABLE_STORED_SESSION", "true")
            .env("PIPEFY_TOKEN", "bench")
            .envs(switches.iter().copied());
        command
    }

    /// Starts it on a free loopback port; the address of its MCP endpoint is read from its standard error.
    pub(crate) fn http(&self, switches: &[(&str, &str)]) -> Result<(Process, String), Failure> {
        let mut command = self.command(switches);
        command
            .args(["--transport", "http", "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let errors = process.child.stderr.take().ok_or("no standard error")?;
        let mut address = address(lines(errors))?;
        if !address.ends_with("/mcp") {
            address.push_str("/mcp");
        }
        Ok((process, address))
    }
}

/// Lines of a stream, read by a thread that goes on reading so that the writer never blocks.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

/// The loopback address that something listens on, as the first line that says so has it; a log line may name others.
fn address(lines: Receiver<String>) -> Result<String, Failure> {
    let deadline = Instant::now() + START;
    let mut seen = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        let said = line.split_once(" on ").map_or(&*line, |(_, said)| said);
        if said.starts_with("http://127.0.0.1:") {
            let end = |character: char| !(character.is_ascii_alphanumeric() || "/:.".contains(character));
            return Ok(said.split(end).next().unwrap_or_default().trim_end_matches(['/', '.']).to_owned());
        }
        seen.push(line);
    }
    Err(format!("no address was printed; it said: {}", seen.join(" | ")).into())
}
