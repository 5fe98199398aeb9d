//! The command line (`spec/mcp-server.md` section 1). Read before anything else; help and version need no settings.

use pipefy::settings::{self, Overrides};

/// Name in usage and errors.
pub const PROGRAM: &str = "pipefy-mcp-server";

const USAGE: &str = "usage: pipefy-mcp-server [-h] [--version] [--profile {local,remote}] [--transport {stdio,http}] [--host HOST] \
[--port PORT] [--toolsets NAMES] [--read-only] [--scope KEY=IDS] [--stateless] [--sandbox] [--sandbox-data PATH]";

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print this and end.
    Print(String),
    /// Serve.
    Serve(Serve),
}

/// How to serve, as far as the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serve {
    profile: Option<String>,
    transport: Option<String>,
    host: Option<String>,
    port: Option<String>,
    toolsets: Option<String>,
    read_only: bool,
    scope: Vec<String>,
    stateless: bool,
    /// Serve the embedded Pipefy instead of a real one.
    pub sandbox: Option<SandboxData>,
    /// Arguments that mean nothing here; client wrappers inject some.
    pub ignored: Vec<String>,
}

/// Where the sandbox keeps its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxData {
    /// In the user's state folder.
    Default,
    /// In memory: gone with the process.
    Memory,
    /// In this file.
    File(std::path::PathBuf),
}

/// The command line cannot be used; exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// How the usage line and an error are shown.
pub fn usage_text(message: &str) -> String {
    format!("{USAGE}\n{PROGRAM}: error: {message}\n")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Help,
    Version,
    Profile,
    Transport,
    Host,
    Port,
    Toolsets,
    ReadOnly,
    Scope,
    Stateless,
    Sandbox,
    SandboxData,
}

const FLAGS: [(&str, Flag); 13] = [
    ("--help", Flag::Help),
    ("--version", Flag::Version),
    ("--profile", Flag::Profile),
    ("--transport", Flag::Transport),
    ("--host", Flag::Host),
    ("--port", Flag::Port),
    ("--toolsets", Flag::Toolsets),
    ("--tools", Flag::Toolsets),
    ("--read-only", Flag::ReadOnly),
    ("--scope", Flag::Scope),
    ("--stateless", Flag::Stateless),
    ("--sandbox", Flag::Sandbox),
    ("--sandbox-data", Flag::SandboxData),
];

impl Flag {
    fn takes_value(self) -> bool {
        !matches!(self, Self::Help | Self::Version | Self::ReadOnly | Self::Stateless | Self::Sandbox)
    }
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// [`UsageError`]: a bad value, a missing one, or a flag that is nearly a known one.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut serve = Serve::default();
    let mut data = None;
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            serve.ignored.extend(rest);
            break;
        }
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        let known = FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, flag)| *flag);
        let Some(flag) = known.or((name == "-h").then_some(Flag::Help)) else {
            if let Some(meant) = near_miss(name) {
                return Err(UsageError(format!("unknown flag {name}; did you mean {meant}?")));
            }
            serve.ignored.push(name.to_owned());
            continue;
        };
        let value = match (flag.takes_value(), attached) {
            (true, Some(value)) => value,
            (true, None) => rest
                .next_if(|next| is_value(next))
                .ok_or_else(|| UsageError(format!("argument {name}: expected one argument")))?,
            (false, None) => String::new(),
            (false, Some(_)) => return Err(UsageError(format!("argument {name}: takes no value"))),
        };
        match flag {
            Flag::Help => return Ok(Command::Print(help())),
            Flag::Version => return Ok(Command::Print(format!("{}\n", pipefy::VERSION))),
            Flag::Profile => serve.profile = Some(one_of(name, value, &["local", "remote"])?),
            Flag::Transport => serve.transport = Some(one_of(name, value, &["stdio", "http"])?),
            Flag::Host if value.trim().is_empty() => {
                return Err(UsageError(format!("argument {name}: must not be blank")));
            }
            Flag::Host => serve.host = Some(value),
            Flag::Port => serve.port = Some(port(name, value)?),
            Flag::Toolsets => serve.toolsets = Some(value),
            Flag::ReadOnly => serve.read_only = true,
            Flag::Scope => {
                serve.scope.push(value);
                let given = serve.scope.iter().map(String::as_str);
                settings::scope_flags(given, &mut Overrides::new()).map_err(|text| UsageError(text.to_owned()))?;
            }
            Flag::Stateless => serve.stateless = true,
            Flag::Sandbox => serve.sandbox = Some(SandboxData::Default),
            Flag::SandboxData => {
                data = Some(match value.as_str() {
                    "" => return Err(UsageError(format!("argument {name}: must be a path or :memory:"))),
                    ":memory:" => SandboxData::Memory,
                    path => SandboxData::File(path.into()),
                });
            }
        }
    }
    match (data, &serve.sandbox) {
        (Some(_), None) => return Err(UsageError("argument --sandbox-data: needs --sandbox".to_owned())),
        (Some(data), Some(_)) => serve.sandbox = Some(data),
        (None, _) => {}
    }
    Ok(Command::Serve(serve))
}

impl Serve {
    /// One line about what was ignored. Flags are named; other words may hold anything and are only counted.
    pub fn warning(&self) -> Option<String> {
        let (flags, others): (Vec<&String>, Vec<&String>) = self.ignored.iter().partition(|word| word.starts_with('-'));
        let mut parts: Vec<String> = flags.into_iter().cloned().collect();
        match others.len() {
            0 => {}
            1 => parts.push("1 other word".to_owned()),
            more => parts.push(format!("{more} other words")),
        }
        (!parts.is_empty()).then(|| format!("ignored on the command line: {}", parts.join(", ")))
    }

    /// The flags as settings; they win over every other source.
    pub fn overrides(&self) -> Overrides {
        let mut overrides = Overrides::new();
        for (variable, flag, value) in [
            (&settings::PROFILE, "--profile", &self.profile),
            (&settings::TRANSPORT, "--transport", &self.transport),
            (&settings::HOST, "--host", &self.host),
            (&settings::PORT, "--port", &self.port),
            (&settings::TOOLSETS, "--toolsets", &self.toolsets),
        ] {
            if let Some(value) = value {
                overrides.set(variable, flag, value.clone());
            }
        }
        // They were understood when they were read.
        let _understood = settings::scope_flags(self.scope.iter().map(String::as_str), &mut overrides);
        for (variable, flag, on) in [
            (&settings::READ_ONLY, "--read-only", self.read_only),
            (&settings::STATELESS, "--stateless", self.stateless),
        ] {
            if on {
                overrides.set(variable, flag, "true");
            }
        }
        overrides
    }
}

/// A negative number is a value, other words with a hyphen are flags.
fn is_value(word: &str) -> bool {
    match word.strip_prefix('-') {
        None | Some("") => true,
        Some(rest) => rest.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn one_of(flag: &str, value: String, choices: &[&str]) -> Result<String, UsageError> {
    if choices.contains(&value.as_str()) {
        return Ok(value);
    }
    Err(UsageError(format!("argument {flag}: must be one of {}", choices.join(", "))))
}

fn port(flag: &str, value: String) -> Result<String, UsageError> {
    match value.trim().parse::<u16>() {
        Ok(port) => Ok(port.to_string()),
        Err(_) => Err(UsageError(format!("argument {flag}: must be a whole number from 0 to 65535"))),
    }
}

/// A known flag that was probably meant. Wrappers may inject flags of their own, but a slip in a flag that protects
/// something must not pass for one.
fn near_miss(name: &str) -> Option<&'static str> {
    if !name.starts_with('-') {
        return None;
    }
    let plain = |flag: &str| flag.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
    let name = plain(name);
    // One slip in a short word, two in a longer one.
    let slips = if name.len() <= 5 { 1 } else { 2 };
    FLAGS
        .iter()
        .map(|(flag, _)| (strsim::osa_distance(&name, &plain(flag)), *flag))
        .filter(|(distance, flag)| name.len() > 1 && *distance <= slips.min(flag.len() / 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, flag)| flag)
}

fn help() -> String {
    format!(
        "{USAGE}

The MCP server for Pipefy, for one person over standard input and output or for many over HTTP.

  -h, --help            print this and end
  --version             print the version and end
  --profile NAME        local: act as the credential of this machine; remote: as each caller (default local)
                        PIPEFY_MCP_PROFILE
  --transport NAME      stdio or http (default: stdio for local, http for remote)
                        PIPEFY_MCP_TRANSPORT
  --host HOST           address to listen on with http (default 127.0.0.1)
                        PIPEFY_MCP_HOST
  --port PORT           port to listen on with http; 0 takes a free one (default 8000)
                        PIPEFY_MCP_PORT
  --toolsets NAMES, --tools NAMES
                        show only these tools: a comma list of domains and personas; power: a few tools that find and run
                        all others (default: all)
                        PIPEFY_MCP_TOOLSETS
  --read-only           change nothing
                        PIPEFY_MCP_READ_ONLY
  --scope KEY=IDS       touch only these: pipes=ID,..., tables=ID,... or org=ID; may be repeated
                        PIPEFY_MCP_SCOPE_PIPES, PIPEFY_MCP_SCOPE_TABLES, PIPEFY_MCP_SCOPE_ORG
  --stateless           serve http without sessions
                        PIPEFY_MCP_STATELESS
  --sandbox             serve an embedded Pipefy with sample data; no account, no network
  --sandbox-data PATH   keep the sandbox's data in this file, or :memory: for none

Stands in for pipefy-mcp-server {} of Pipefy's Python toolkit.
",
        pipefy::COMPATIBLE_WITH
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').filter(|w| !w.is_empty()).map(|w| w.replace("''", "")).collect()
    }

    fn serve(line: &str) -> Serve {
        match parse(words(line)) {
            Ok(Command::Serve(serve)) => serve,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn both_spellings_work_and_the_last_one_wins() {
        let given = serve("--profile remote --profile=local --port=1 --port 0 --tools a --toolsets=b --host ::1");
        assert_eq!(given.profile.as_deref(), Some("local"));
        assert_eq!(given.port.as_deref(), Some("0"));
        assert_eq!(given.toolsets.as_deref(), Some("b"));
        assert_eq!(given.host.as_deref(), Some("::1"));
        assert_eq!(serve("--tools=").toolsets.as_deref(), Some(""));
        assert!(serve("--read-only --stateless").read_only);
        assert_eq!(serve("--scope pipes=1,2 --scope=tables=3").scope, ["pipes=1,2", "tables=3"]);
    }

    #[test]
    fn help_and_version_win_over_what_follows() {
        assert_eq!(parse(words("--version")), Ok(Command::Print(format!("{}\n", pipefy::VERSION))));
        for line in ["-h", "--help", "--transport http --help --profile nonsense"] {
            let Ok(Command::Print(text)) = parse(words(line)) else { panic!("{line}") };
            assert!(text.starts_with("usage: pipefy-mcp-server") && text.contains(pipefy::COMPATIBLE_WITH));
            assert!(FLAGS.iter().all(|(flag, _)| text.contains(flag)));
            assert!(text.is_ascii());
        }
    }

    #[test]
    fn unknown_words_are_ignored_but_slips_are_not() {
        let given = serve("--prof x --foo=secret extra -x --verbose --config c --debug run -- --profile remote");
        assert_eq!(
            given.ignored,
            [
                "--prof",
                "x",
                "--foo",
                "extra",
                "-x",
                "--verbose",
                "--config",
                "c",
                "--debug",
                "run",
                "--profile",
                "remote"
            ]
        );
        assert_eq!(given.profile, None);
        for (slip, meant) in [
            ("--readonly", "--read-only"),
            ("--read_only", "--read-only"),
            ("--toolset=workflow", "--toolsets"),
            ("--scopes", "--scope"),
            ("--scpoe=pipes=1", "--scope"),
            ("--hosts", "--host"),
            ("-port", "--port"),
            ("--Profile", "--profile"),
            ("--sandbox_data", "--sandbox-data"),
            ("--transprot", "--transport"),
        ] {
            let error = parse(words(slip)).unwrap_err();
            assert!(error.0.ends_with(&format!("did you mean {meant}?")), "{slip}: {error}");
        }
    }

    #[test]
    fn bad_values_are_refused() {
        for line in [
            "--profile Local",
            "--transport=sse",
            "--port ''",
            "--port=",
            "--port 1.5",
            "--port 65536",
            "--port -1",
            "--host=",
            "--host ''",
            "--profile",
            "--profile --transport http",
            "--read-only=true",
            "--scope",
            "--scope pipe=1",
            "--scope=pipes=",
            "--scope pipes",
            "--sandbox-data x",
            "--sandbox --sandbox-data=",
        ] {
            assert!(parse(words(line)).is_err(), "{line}");
        }
        assert!(parse(["--host".to_owned(), "   ".to_owned()]).is_err());
    }

    #[test]
    fn the_sandbox_keeps_its_data_where_told() {
        assert_eq!(serve("--sandbox").sandbox, Some(SandboxData::Default));
        assert_eq!(serve("--sandbox-data :memory: --sandbox").sandbox, Some(SandboxData::Memory));
        assert_eq!(serve("--sandbox --sandbox-data=a/b").sandbox, Some(SandboxData::File("a/b".into())));
    }
}
