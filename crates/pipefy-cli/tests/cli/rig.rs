//! A sandbox, a home of its own, and the program run in it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Everything a command line needs, and nothing of the machine's own settings.
pub(crate) struct Rig {
    pub(crate) home: TempDir,
    sandbox: Option<(Sandbox, Runtime)>,
    token: &'static str,
    variables: Vec<(&'static str, String)>,
}

/// What a run left behind.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    hidden: Vec<(String, &'static str)>,
}

impl Rig {
    /// With a sandbox, as its administrator.
    pub(crate) fn new() -> Self {
        // Another thread serves while the test waits for the program.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sandbox = runtime.block_on(Sandbox::start(SandboxOptions::default())).unwrap();
        let variables = vec![("PIPEFY_AUTH_URL", sandbox.issuer_url())];
        Self { home: TempDir::new().unwrap(), sandbox: Some((sandbox, runtime)), token: DEFAULT_TOKEN, variables }
    }

    /// Without a sandbox and without any credential.
    pub(crate) fn bare() -> Self {
        Self { home: TempDir::new().unwrap(), sandbox: None, token: "", variables: Vec::new() }
    }

    /// As another person.
    pub(crate) fn with_token(mut self, token: &'static str) -> Self {
        self.token = token;
        self
    }

    /// With this variable for every run.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.into()));
        self
    }

    /// Runs something beside the sandbox.
    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.sandbox.as_ref().unwrap().1.block_on(work)
    }

    pub(crate) fn url(&self) -> &str {
        self.sandbox.as_ref().map(|(sandbox, _)| sandbox.url()).unwrap_or_default()
    }

    /// The program with these arguments, ready to be run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipefy"));
        command.args(args).current_dir(self.home.path()).env_clear();
        command.env("HOME", self.home.path()).env("PIPEFY_KEYCHAIN_BACKEND", "file");
        if !self.url().is_empty() {
            command.env("PIPEFY_BASE_URL", self.url()).env("PIPEFY_ALLOW_INSECURE_URLS", "true");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if !self.token.is_empty() {
            command.env("PIPEFY_TOKEN", self.token);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.finished(self.command(args).output().unwrap())
    }

    /// With text on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.finished(child.wait_with_output().unwrap())
    }

    pub(crate) fn finished(&self, output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let mut hidden = vec![(self.home.path().display().to_string(), "[HOME]")];
        if !self.url().is_empty() {
            hidden.push((self.url().to_owned(), "[SANDBOX]"));
        }
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), hidden }
    }

    /// The JSON that a command prints.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}\n{run}");
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}\n{run}"))
    }

    /// The id of the seeded pipe of this name.
    pub(crate) fn pipe(&self, name: &str) -> String {
        let found = self.json(&["graphql", "exec", "-q", "{ organizations { pipes { id name } } }", "--json"]);
        let organizations = found["organizations"].as_array().unwrap();
        let mut pipes = organizations.iter().flat_map(|o| o["pipes"].as_array().unwrap());
        pipes.find(|pipe| pipe["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    }
}

impl Run {
    /// A text without the paths and addresses of this run.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, (secret, name)| text.replace(secret.as_str(), name))
    }
}

/// The transcript that snapshots show.
impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let masked = |text: &str| self.masked(text);
        let code = self.code.map_or("signal".to_owned(), |code| code.to_string());
        write!(f, "exit code: {code}\n----- stdout\n{}----- stderr\n{}", masked(&self.stdout), masked(&self.stderr))
    }
}

/// Snapshots exit code, stdout and stderr of a run. Times, and what the run hides (paths, addresses), are masked.
#[macro_export]
macro_rules! transcript {
    ($run:expr, @$expected:literal) => {
        insta::with_settings!({ filters => vec![
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", "[TIME]"),
            (r"127\.0\.0\.1:\d+", "[ADDRESS]"),
            (r"Authorization URL: \S+", "Authorization URL: [URL]"),
            (r"in \d+[dh] \d+[hm]", "in [TIME]"),
        ]}, { insta::assert_snapshot!($run.to_string(), @$expected) })
    };
}
