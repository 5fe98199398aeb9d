//! `pipefy skills`: the playbooks as skill files (`<folder>/<skill>/SKILL.md`, the open Agent Skills format), put where an
//! agent looks for them.
//!
//! A file holds the digest of what was written. As long as it fits, the file is as we left it and may be renewed; otherwise
//! somebody has changed it, and it stays theirs.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use pipefy::settings::Environment;
use pipefy_tools::digest_of_text;
use pipefy_tools::playbooks::{Playbook, playbooks};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::{Body, Shown};
use crate::run::Start;
use crate::values;

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// The clients whose folder for skills is known.
pub(crate) const CLIENTS: &[&str] = &["claude-code", "codex", "cursor", "vscode", "windsurf"];

/// Begins the names of our skills, which stand among others.
const PREFIX: &str = "pipefy-";

/// Begins the line that holds the digest.
const DIGEST: &str = "  pipefy-digest: ";

fn skill_name(playbook: &Playbook) -> String {
    format!("{PREFIX}{}", playbook.name)
}

/// The file of a playbook.
fn file_of(playbook: &Playbook) -> String {
    let head = format!(
        "---\nname: {}\ndescription: {}\nmetadata:\n  pipefy-version: {}\n",
        skill_name(playbook),
        playbook.description,
        pipefy::VERSION
    );
    let rest = format!("---\n\n# {}\n\n{}", playbook.title, playbook.skill_body());
    let digest = digest_of_text(&format!("{head}{rest}"));
    format!("{head}{DIGEST}{digest}\n{rest}")
}

/// Whether a file is as we wrote it, in this version or another.
fn is_untouched(text: &str) -> bool {
    let Some(line) = text.lines().find(|line| line.starts_with(DIGEST)) else { return false };
    let bare = text.replacen(&format!("{line}\n"), "", 1);
    line.strip_prefix(DIGEST).is_some_and(|digest| digest == digest_of_text(&bare))
}

/// A playbook by its name, with or without the prefix.
fn named(name: &str) -> Result<&'static Playbook, Failure> {
    Playbook::find(name.strip_prefix(PREFIX).unwrap_or(name)).ok_or_else(|| {
        let known: Vec<&str> = playbooks().iter().map(|playbook| playbook.name).collect();
        Failure::usage(format!("There is no skill of this name. Known: {}.", known.join(", ")))
    })
}

fn text<'a>(args: &'a Args, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `skills list`
pub(crate) fn list<'a>(_: &'a Start, _: Args) -> Work<'a> {
    Box::pin(async move {
        let short = |playbook: &Playbook| json!({ "name": playbook.name, "title": playbook.title });
        let full = |playbook: &Playbook| {
            let arguments: Vec<Value> = playbook
                .arguments
                .iter()
                .map(|a| json!({ "name": a.name, "description": a.description, "required": a.required }))
                .collect();
            json!({
                "name": playbook.name,
                "skill": skill_name(playbook),
                "title": playbook.title,
                "description": playbook.description,
                "arguments": arguments,
                "tools": playbook.needed(),
            })
        };
        let all = playbooks();
        Ok(Shown {
            body: Body::Either(all.iter().map(short).collect(), all.iter().map(full).collect()),
            ..Shown::default()
        })
    })
}

/// `skills show`
pub(crate) fn show<'a>(_: &'a Start, args: Args) -> Work<'a> {
    Box::pin(async move { Ok(Shown::text(file_of(named(text(&args, "name"))?))) })
}

/// `skills install`
pub(crate) fn install<'a>(start: &'a Start, args: Args) -> Work<'a> {
    Box::pin(async move {
        let folder = folder(&start.environment, text(&args, "client"), text(&args, "dir"))?;
        let force = args.get("force") == Some(&Value::Bool(true));
        let wanted = args.get("skill").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let chosen: Vec<&Playbook> = match wanted {
            [] => playbooks().iter().collect(),
            names => names.iter().filter_map(Value::as_str).map(named).collect::<Result<_, _>>()?,
        };
        let mut lines = String::new();
        let mut kept = 0;
        for playbook in chosen {
            let path = folder.join(skill_name(playbook)).join("SKILL.md");
            let done = put(&path, &file_of(playbook), force)
                .map_err(|error| Failure::failed(format!("{} cannot be written: {error}.", path.display())))?;
            kept += u32::from(done == Put::Kept);
            lines.push_str(&format!("{:<10} {}\n", done.word(), path.display()));
        }
        let shown = Shown::text(lines);
        Ok(match kept {
            0 => shown,
            _ => shown.note(format!("note: {kept} changed by somebody and kept; --force replaces them.")),
        })
    })
}

/// Where the skills go: the folder that was given, or the one of the client.
fn folder(environment: &Environment, client: &str, dir: &str) -> Result<PathBuf, Failure> {
    match (client.is_empty(), dir.is_empty()) {
        (true, false) => return Ok(values::expand(dir)),
        (false, true) => {}
        _ => return Err(Failure::usage("Give either --client or --dir.")),
    }
    let set = |name: &str| environment.variable(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let home = |path: &str| environment.home().map(|home| home.join(path));
    let found = match client {
        "claude-code" => set("CLAUDE_CONFIG_DIR").or_else(|| home(".claude")).map(|base| base.join("skills")),
        // What the open format recommends; other agents read it as well.
        "codex" => home(".agents/skills"),
        "cursor" => home(".cursor/skills"),
        "vscode" => home(".copilot/skills"),
        _ => home(".codeium/windsurf/skills"),
    };
    found.ok_or_else(|| {
        Failure::refused("The home folder is unknown, so the client's folder cannot be found; set HOME or give --dir.")
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Installed,
    Updated,
    Unchanged,
    Kept,
}

impl Put {
    fn word(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }
}

/// Writes a file beside its place, then into it; leaves one alone that somebody has changed.
fn put(path: &Path, wanted: &str, force: bool) -> io::Result<Put> {
    let done = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Put::Installed,
        Err(error) => return Err(error),
        Ok(found) if found == wanted.as_bytes() => return Ok(Put::Unchanged),
        Ok(found) if force || std::str::from_utf8(&found).is_ok_and(is_untouched) => Put::Updated,
        Ok(_) => return Ok(Put::Kept),
    };
    // Links stay links.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let beside = folder.join(format!(".SKILL.md.{}", std::process::id()));
    std::fs::write(&beside, wanted).and_then(|()| std::fs::rename(&beside, &path)).inspect_err(|_| {
        let _gone = std::fs::remove_file(&beside);
    })?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_file_knows_whether_it_was_changed() {
        for playbook in playbooks() {
            let text = file_of(playbook);
            assert!(is_untouched(&text), "{}", playbook.name);
            // Another version's file is still ours.
            assert_eq!(text.matches(DIGEST).count(), 1);
            for changed in [
                text.replacen("## ", "## My ", 1),
                format!("{text}\nmine\n"),
                text.replacen(pipefy::VERSION, "9.9.9", 1),
                text.lines().filter(|line| !line.starts_with(DIGEST)).map(|line| format!("{line}\n")).collect(),
            ] {
                assert!(!is_untouched(&changed), "{}", playbook.name);
            }
        }
        assert!(!is_untouched("") && !is_untouched("  pipefy-digest: \n"));
    }

    /// What the format demands: https://agentskills.io/specification.
    #[test]
    fn the_head_is_what_the_format_demands() {
        for playbook in playbooks() {
            let text = file_of(playbook);
            let head = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
            let value = |key: &str| head.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
            let name = value("name: ");
            assert!(name.len() <= 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
            assert!(!name.contains("--") && !name.ends_with('-'));
            assert!((1..=1024).contains(&value("description: ").len()));
            assert!(text.len() < 20_000, "{name}");
        }
    }
}
