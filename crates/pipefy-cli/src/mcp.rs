//! `pipefy mcp`: telling the programs that use MCP servers where ours is.
//!
//! Each keeps its own file. One is changed only where our entry is: everything else stays as it was, byte for byte. An
//! entry is ours by what it starts, not by its name.

use std::path::{Component, Path, PathBuf};

use futures_util::future::BoxFuture;
use pipefy::settings::Environment;
use serde_json::{Map, Value, json};

use crate::client_file::{ClientFile, Dialect};
use crate::failure::Failure;
use crate::output::{Body, Shown};
use crate::run::Start;
use crate::values;

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// The program that serves MCP.
const SERVER: &str = "pipefy-mcp-server";

/// The names of the clients on the command line.
pub(crate) const CLIENTS: &[&str] = &["claude-code", "claude-desktop", "cursor", "codex", "vscode", "windsurf"];

/// Where an entry may be.
struct Place {
    client: &'static str,
    /// `user` (every project), `project` (the working folder).
    scope: &'static str,
    path: PathBuf,
    dialect: Dialect,
}

/// Every file that may name our server, on this system and in the working folder.
fn places(environment: &Environment) -> Vec<Place> {
    let folder = |name: &str| environment.variable(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let home = environment.home();
    // Where desktop programs keep their settings.
    let roaming = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support"))
    } else if cfg!(windows) {
        folder("APPDATA").or_else(|| home.map(|home| home.join("AppData/Roaming")))
    } else {
        folder("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")))
    };
    let below = |base: Option<&Path>, path: &str| base.map(|base| base.join(path));
    let claude = folder("CLAUDE_CONFIG_DIR");
    let codex = folder("CODEX_HOME").or_else(|| below(home, ".codex"));
    let user = [
        ("claude-code", below(claude.as_deref().or(home), ".claude.json"), Dialect::Typed("mcpServers")),
        (
            "claude-desktop",
            below(roaming.as_deref(), "Claude/claude_desktop_config.json"),
            Dialect::Plain("mcpServers"),
        ),
        ("cursor", below(home, ".cursor/mcp.json"), Dialect::Plain("mcpServers")),
        ("codex", below(codex.as_deref(), "config.toml"), Dialect::Toml("mcp_servers")),
        ("vscode", below(roaming.as_deref(), "Code/User/mcp.json"), Dialect::Typed("servers")),
        ("windsurf", below(home, ".codeium/windsurf/mcp_config.json"), Dialect::Plain("mcpServers")),
    ];
    let project = [
        ("claude-code", ".mcp.json", Dialect::Typed("mcpServers")),
        ("cursor", ".cursor/mcp.json", Dialect::Plain("mcpServers")),
        ("codex", ".codex/config.toml", Dialect::Toml("mcp_servers")),
        ("vscode", ".vscode/mcp.json", Dialect::Typed("servers")),
    ];
    let user = user
        .into_iter()
        .filter_map(|(client, path, dialect)| Some(Place { client, scope: "user", path: path?, dialect }));
    let project = project.into_iter().map(|(client, path, dialect)| Place {
        client,
        scope: "project",
        path: PathBuf::from(path),
        dialect,
    });
    let mut places: Vec<Place> = user.collect();
    // In the home folder both are the same file.
    let known: Vec<PathBuf> = places.iter().filter_map(|place| place.path.canonicalize().ok()).collect();
    places.extend(project.filter(|place| !place.path.canonicalize().is_ok_and(|path| known.contains(&path))));
    places
}

fn text<'a>(args: &'a Args, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The user's file of the client that was named.
fn chosen(start: &Start, args: &Args) -> Result<Place, Failure> {
    let client = text(args, "client");
    let mut places = places(&start.environment).into_iter();
    places.find(|place| place.client == client && place.scope == "user").ok_or_else(|| {
        Failure::refused("The home folder is unknown, so the client's settings cannot be found; set HOME.")
    })
}

/// `mcp install`
pub(crate) fn install<'a>(start: &'a Start, args: Args) -> Work<'a> {
    Box::pin(async move {
        let place = chosen(start, &args)?;
        let name = text(&args, "name");
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Failure::usage("--name takes a name without white space"));
        }
        let (server, found) = server(text(&args, "server"), start.environment.cwd())?;
        let mut arguments = Vec::new();
        if start.globals.sandbox {
            arguments.push("--sandbox".to_owned());
        }
        if args.get("read_only") == Some(&Value::Bool(true)) {
            arguments.push("--read-only".to_owned());
        }
        let env = variables(&args)?;
        let mut file = ClientFile::open(&place.path, place.dialect).map_err(unusable)?;
        if let Some(entry) = file.entries().into_iter().find(|entry| entry.scope.is_none() && entry.name == name)
            && !is_ours(&entry.definition)
        {
            return Err(Failure::refused(format!(
                "{} has an entry {name} of another program. Choose another name with --name, or remove that entry first.",
                place.path.display()
            )));
        }
        let changed = file.put(name, &server, &arguments, &env).map_err(unusable)?;
        if changed {
            file.save().map_err(unusable)?;
        }
        let shown = match changed {
            true => format!(
                "Registered {name} with {} ({}). Restart it to use Pipefy.\n",
                place.client,
                place.path.display()
            ),
            false => format!("{name} is registered with {} already ({}).\n", place.client, place.path.display()),
        };
        let mut shown = Shown::text(shown);
        if !found {
            shown = shown.note(match text(&args, "server") {
                "" => format!("note: {server} was not found beside this program; it has to be on the client's PATH."),
                _ => format!("note: {server} has to be on the client's PATH."),
            });
        }
        if env.iter().any(|(name, _)| name.contains("TOKEN") || name.contains("SECRET")) {
            shown = shown.note("note: the file now holds a secret in the clear; `pipefy auth login` does without.");
        }
        Ok(shown)
    })
}

/// The server's program: as given (a path is made absolute, as the client starts elsewhere), else the one beside this
/// program, else its name. And whether it is there: a bare name is looked for by the client.
///
/// # Errors
/// A path where there is no program.
fn server(given: &str, cwd: &Path) -> Result<(String, bool), Failure> {
    if !given.is_empty() {
        let path = values::expand(given);
        let mut parts = path.components();
        if let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) {
            return Ok((given.to_owned(), false));
        }
        let path: PathBuf = cwd.join(path).components().collect();
        return match is_program(&path) {
            true => Ok((path.display().to_string(), true)),
            false => Err(Failure::usage(format!(
                "--server: {} is no program that can be started; nothing was changed",
                path.display()
            ))),
        };
    }
    let file = format!("{SERVER}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(&file));
    match beside.filter(|path| path.is_file()) {
        Some(path) => Ok((path.display().to_string(), true)),
        None => Ok((SERVER.to_owned(), false)),
    }
}

fn is_program(path: &Path) -> bool {
    let Ok(about) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        about.is_file() && about.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    about.is_file()
}

fn variables(args: &Args) -> Result<Vec<(String, String)>, Failure> {
    let given = args.get("env").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    given
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if is_variable(name) => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failure::usage(
                "--env takes NAME=VALUE; a name is letters, digits and `_`, and starts with no digit",
            )),
        })
        .collect()
}

fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `mcp uninstall`
pub(crate) fn uninstall<'a>(start: &'a Start, args: Args) -> Work<'a> {
    Box::pin(async move {
        let place = chosen(start, &args)?;
        let mut file = ClientFile::open(&place.path, place.dialect).map_err(unusable)?;
        let ours: Vec<String> = file
            .entries()
            .into_iter()
            .filter(|entry| entry.scope.is_none() && starts_ours(&entry.definition))
            .map(|entry| entry.name)
            .collect();
        if ours.is_empty() {
            return Ok(Shown::text(format!("Nothing to remove from {} ({}).\n", place.client, place.path.display())));
        }
        for name in &ours {
            file.remove(name);
        }
        file.save().map_err(unusable)?;
        Ok(Shown::text(format!("Removed {} from {} ({}).\n", ours.join(", "), place.client, place.path.display())))
    })
}

/// `mcp scan`: exit code 0 when no client knows our server, 1 when one does, 2 when a file could not be read.
pub(crate) fn scan<'a>(start: &'a Start, _: Args) -> Work<'a> {
    Box::pin(async move {
        let (found, notes) = registrations(&start.environment);
        let code = if notes.iter().any(|note| note.starts_with("error:")) { 2 } else { u8::from(!found.is_empty()) };
        let mut shown = Shown { body: Body::Value(found.into()), ..Shown::default() };
        for note in notes {
            shown = shown.note(note);
        }
        Ok(shown.code(code))
    })
}

/// Every registration of ours that a client has, and what is worth a line: files that cannot be read (`error:`), clients
/// with more than one (`warning:`). Values of environment variables are not shown.
pub(crate) fn registrations(environment: &Environment) -> (Vec<Value>, Vec<String>) {
    let mut found: Vec<Value> = Vec::new();
    let mut notes = Vec::new();
    for place in places(environment) {
        let file = match ClientFile::open(&place.path, place.dialect) {
            Ok(file) => file,
            Err(error) => {
                notes.push(format!("error: {error}"));
                continue;
            }
        };
        for entry in file.entries().into_iter().filter(|entry| is_ours(&entry.definition)) {
            let definition = &entry.definition;
            found.push(json!({
                "client": place.client,
                "scope": entry.scope.as_deref().map_or(place.scope.to_owned(), |folder| format!("local: {folder}")),
                "name": entry.name,
                "starts": definition.get("command").or_else(|| definition.get("url")),
                "args": definition.get("args").cloned().unwrap_or_else(|| json!([])),
                "file": place.path.display().to_string(),
            }));
        }
    }
    for client in CLIENTS {
        let count = found.iter().filter(|entry| entry.get("client").and_then(Value::as_str) == Some(client)).count();
        if count > 1 {
            notes.push(format!(
                "warning: {client} has {count} registrations; where names are equal the narrower one hides the others."
            ));
        }
    }
    (found, notes)
}

/// A registration of ours: it starts our server, or it is Pipefy's own address.
fn is_ours(definition: &Value) -> bool {
    let host = ["url", "serverUrl"].iter().find_map(|key| definition.get(*key)?.as_str()).and_then(host);
    starts_ours(definition) || host.is_some_and(|host| host == "pipefy.com" || host.ends_with(".pipefy.com"))
}

fn host(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host.split(':').next()?.to_ascii_lowercase())
}

/// A stdio entry whose command is our server, or a runner (`uvx`, `npx`) that gets it as an argument.
fn starts_ours(definition: &Value) -> bool {
    let command = definition.get("command").and_then(Value::as_str).into_iter();
    let args = definition.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    command.chain(args).any(|word| {
        let file = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let name = file.split(['@', '=', '[']).next().unwrap_or(file);
        [".exe", ".cmd", ""].iter().any(|end| name.strip_suffix(end) == Some(SERVER))
    })
}

fn unusable(text: String) -> Failure {
    Failure::failed(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn an_entry_is_ours_by_what_it_starts() {
        for (definition, ours) in [
            (json!({"command": "pipefy-mcp-server"}), true),
            (json!({"command": "/opt/x/pipefy-mcp-server", "args": ["--read-only"]}), true),
            (json!({"command": "C:\\x\\pipefy-mcp-server.exe"}), true),
            (json!({"command": "uvx", "args": ["pipefy-mcp-server==0.5.5b1"]}), true),
            (json!({"command": "uv", "args": ["tool", "run", "--from", "x", "pipefy-mcp-server"]}), true),
            (json!({"command": "npx", "args": ["-y", "other-server"]}), false),
            (json!({"command": "pipefy-mcp-server-of-mine"}), false),
            (json!({"type": "http", "url": "https://mcp.pipefy.com/mcp"}), true),
            (json!({"url": "https://pipefy.com.evil.test/mcp"}), false),
            (json!({"url": "https://evil.test/pipefy-mcp-server"}), false),
            (json!("text"), false),
        ] {
            assert_eq!(is_ours(&definition), ours, "{definition}");
        }
    }
}
