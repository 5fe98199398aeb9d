//! What the pages show is what happens: every `console` block of the README and of `docs/cli` is run.
//!
//! A block is a session: lines behind `$ ` are run by the shell one after the other, in a folder of their own, and what stands
//! below each is what it must print. `...` stands for any lines, `[..]` for anything within a line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::rig::Rig;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let more = std::fs::read_dir(root.join("docs/cli")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(more.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    pages.sort();
    pages
}

/// Commands with what they shall print, block by block.
fn sessions(text: &str) -> Vec<Vec<(String, String)>> {
    let mut sessions = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```console") => {
                inside = true;
                sessions.push(Vec::new());
            }
            (true, "```") => inside = false,
            (true, line) => {
                let session: &mut Vec<(String, String)> = sessions.last_mut().unwrap();
                match line.strip_prefix("$ ") {
                    Some(command) => session.push((command.to_owned(), String::new())),
                    None => {
                        let shown = &mut session.last_mut().expect("a block begins with a command").1;
                        shown.push_str(line);
                        shown.push('\n');
                    }
                }
            }
            (false, _) => {}
        }
    }
    sessions
}

fn fits(wanted: &str, found: &str) -> bool {
    let mut parts = wanted.split("[..]");
    let Some(mut rest) = found.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last == Some("")
}

fn lines_fit(wanted: &[&str], found: &[&str]) -> bool {
    match wanted.split_first() {
        None => found.is_empty(),
        Some((&"...", rest)) => (0..=found.len()).any(|from| lines_fit(rest, &found[from..])),
        Some((line, rest)) => {
            found.split_first().is_some_and(|(first, more)| fits(line, first) && lines_fit(rest, more))
        }
    }
}

#[test]
fn pages_show_what_happens() {
    let mut ran = 0;
    for page in pages() {
        for session in sessions(&std::fs::read_to_string(&page).unwrap()) {
            let rig = Rig::bare();
            let programs = Path::new(env!("CARGO_BIN_EXE_pipefy")).parent().unwrap();
            for (line, wanted) in session {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(rig.home.path()).env_clear();
                command.env("HOME", rig.home.path()).env("PIPEFY_KEYCHAIN_BACKEND", "file").env("COLUMNS", "100");
                command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
                let output = command.stdin(Stdio::null()).output().unwrap();
                let found = String::from_utf8(output.stdout).unwrap();
                let (wanted, shown): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), found.lines().collect());
                assert!(lines_fit(&wanted, &shown), "{}\n$ {line}\n{found}", page.display());
                ran += 1;
            }
        }
    }
    assert!(ran > 10, "{ran} commands were found");
}

#[test]
fn elisions_stand_for_what_they_say() {
    assert!(
        fits("a[..]c", "abbc") && fits("[..]", "") && fits("a[..]", "ab") && !fits("a[..]c", "abd") && !fits("a", "ab")
    );
    assert!(lines_fit(&["a", "...", "d"], &["a", "b", "c", "d"]) && lines_fit(&["..."], &[]));
    assert!(!lines_fit(&["a"], &["a", "b"]) && !lines_fit(&["...", "x"], &["a"]));
}
