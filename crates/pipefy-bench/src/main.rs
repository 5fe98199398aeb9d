//! Benchmarks of the MCP server: CPU per call, latency, memory, start-up and catalogue size, on one machine.
//!
//! ```text
//! pipefy-bench run --server target/release/pipefy-mcp-server [--reference PATH] [--pipefy PATH]
//!                  [--in-flight 32] [--seconds 3] [--rounds 5] [--delay-ms 0] [--starts 10] [--sessions 1000]
//!                  [--callers 64] [--no-stdio] [--json bench.json]
//! pipefy-bench scale --server target/release/pipefy-mcp-server [--counts 1,10,100,1000,10000] [--seconds 2] [--answer-mib 16]
//! pipefy-bench catalogue [--tools contract/tools.json]
//! ```
//!
//! `run` starts a backend that answers every GraphQL request with one fixed card, the *floor* (a bare axum and reqwest
//! proxy, the least a server of this kind can cost) and the servers, each in a process of its own, and puts the same load on
//! each in short alternating rounds. Figures are medians over the rounds, with their lowest and highest. CPU is what the
//! server's process used (user and system); the client's and the backend's are not counted. `--callers` measures the server
//! hosted as well: that many people, each with a bearer of their own that is checked, and limits per caller. `scale` holds more and more sessions,
//! lists all tools, and lets one large answer pass.

mod backend;
mod catalogue;
mod floor;
mod hosted;
mod load;
mod process;
mod report;
mod run;
mod scale;
mod stdio;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;

/// Any failure of a benchmark; it ends the program with its text.
type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str =
    "usage: pipefy-bench run --server PATH [--reference PATH] [--pipefy PATH] [--in-flight N] [--seconds S] \
[--rounds N] [--delay-ms MS] [--starts N] [--sessions N] [--callers N] [--no-stdio] [--json FILE]
       pipefy-bench scale --server PATH [--counts N,N] [--seconds S] [--answer-mib N]
       pipefy-bench catalogue [--tools FILE]";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let outcome = Options::read(words).and_then(|options| match command.as_str() {
        "run" => block_on(run::run(&options)),
        "scale" => block_on(scale::print(&options)),
        "catalogue" => catalogue::print(&options),
        // The two below are processes of a run.
        "backend" => block_on(backend::serve(options.number("delay-ms", 0)?, options.number("answer-bytes", 0)?)),
        "floor" => block_on(floor::serve(options.need("backend")?.to_owned())),
        _ => Err(USAGE.into()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::line_on_stderr(&format!("pipefy-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// Options of the command line: `--name value`, or `--no-name` alone.
struct Options(BTreeMap<String, String>);

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("{word} is not an option\n{USAGE}"))?;
            let value = if name.starts_with("no-") {
                String::new()
            } else {
                words.next().ok_or_else(|| format!("--{name} needs a value\n{USAGE}"))?
            };
            found.insert(name.to_owned(), value);
        }
        Ok(Self(found))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn need(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| format!("--{name} is missing\n{USAGE}").into())
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name}: {text} is not a number").into()),
        }
    }
}
