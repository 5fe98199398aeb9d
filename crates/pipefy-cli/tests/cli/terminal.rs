//! What a person at a terminal sees, played in one that `script` makes (util-linux).

use std::process::{Command, Stdio};

use crate::packages::there_is;
use crate::rig::Rig;

/// What appears on a terminal of this width: everything, with the marks of the terminal.
fn seen(rig: &Rig, columns: u32, args: &[&str], more: &[(&str, &str)]) -> String {
    let program = rig.command(args);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> = std::iter::once(program.get_program()).chain(program.get_args()).map(quoted).collect();
    let line = format!("stty cols {columns}; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(rig.home.path()).env_clear();
    script.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").env("TERM", "xterm");
    script.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(more.iter().copied());
    let output = script.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Without colours and line ends of the terminal.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    plain.push_str(rest);
    plain.replace('\r', "")
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    if !there_is("script") {
        return;
    }
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let line = ["pipe", "get", pipe.as_str()];
    let coloured = seen(&rig, 100, &line, &[]);
    assert!(coloured.contains("\u{1b}[") && plain(&coloured).contains("\"name\": \"Customer Support\""), "{coloured}");
    for more in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let bare = seen(&rig, 100, &line, &[more]);
        assert!(!bare.contains('\u{1b}') && bare.contains("\"name\": \"Customer Support\""), "{more:?}: {bare}");
    }
    let piped = rig.run(&line);
    assert!(!piped.stdout.contains('\u{1b}'), "{piped}");
    let forced = rig.finished(rig.command(&line).env("FORCE_COLOR", "1").output().unwrap());
    assert!(forced.stdout.contains('\u{1b}'), "{forced}");
    // Words on what is wrong are coloured alike.
    let wrong = seen(&rig, 100, &["crad", "list"], &[]);
    assert!(wrong.contains("\u{1b}[") && plain(&wrong).contains("a similar subcommand exists: 'card'"), "{wrong}");
}

#[test]
fn a_table_fits_its_terminal_and_ids_stay_whole() {
    if !there_is("script") {
        return;
    }
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    for (columns, line) in [
        (60, vec!["pipe", "list", "--format", "table"]),
        (70, vec!["card", "list", "--pipe", &pipe, "--first", "5", "--format", "table"]),
        (120, vec!["org", "list"]),
    ] {
        let table = plain(&seen(&rig, columns, &line, &[]));
        let drawn = table.lines().filter(|line| line.starts_with(['+', '|']));
        assert!(
            drawn.clone().count() > 3 && drawn.clone().all(|line| line.chars().count() <= columns as usize),
            "{columns}\n{table}"
        );
        let things: Vec<&str> = line.iter().copied().filter(|word| !["--format", "table"].contains(word)).collect();
        let ids = rig.run(&[&things[..], &["--format", "ids"]].concat());
        assert!(ids.stdout.lines().count() > 0, "{ids}");
        assert!(ids.stdout.lines().all(|id| table.contains(id)), "{ids}\n{table}");
    }
}

#[test]
fn work_that_lasts_shows_how_far_it_is_and_leaves_no_trace() {
    if !there_is("script") {
        return;
    }
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let shown = seen(&rig, 100, &["card", "list", "--pipe", &pipe, "--all", "--format", "ids"], &[]);
    assert!(shown.contains("\r\u{1b}[K50 items read"), "{shown:?}");
    let (_, last) = shown.rsplit_once("\u{1b}[K").unwrap();
    assert!(last.lines().all(|line| line.trim().bytes().all(|b| b.is_ascii_digit())), "{last}");
    std::fs::write(rig.home.path().join("rows.csv"), "Contract\nOne\nTwo\n").unwrap();
    let contracts = rig.pipe("Contract Review");
    let import = ["card", "import", "rows.csv", "--pipe", &contracts, "--key", "Contract", "--format", "ids"];
    let shown = seen(&rig, 100, &import, &[]);
    assert!(shown.contains("[........................] 0 of 2") && shown.contains("2 created"), "{shown:?}");
    // In a pipe there is no line to write over.
    let piped = rig.run(&["card", "list", "--pipe", &pipe, "--all", "--format", "ids"]);
    assert!(piped.stderr.is_empty(), "{piped}");
}

#[test]
fn every_script_comes_through() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let title = "\u{4f5c}\u{696d}\u{4e2d} \u{1f389} S\u{e3}o Jo\u{e3}o";
    let fields = serde_json::json!({"subject": title, "description": "\u{e7}", "channel": "Chat"}).to_string();
    let made = rig.run(&["card", "create", &pipe, "--fields", &fields, "--json"]);
    assert_eq!(made.code, Some(0), "{made}");
    assert!(made.stdout.is_ascii(), "{made}");
    let line = ["card", "find", "--pipe", &pipe, "--field", "subject", "--value", title];
    for format in ["table", "csv", "yaml", "ndjson"] {
        let run = rig.run(&[&line[..], &["--format", format]].concat());
        assert!(run.code == Some(0) && run.stdout.contains(title), "{format}\n{run}");
    }
    let run = rig.run(&[&line[..], &["--jq", ".findCards.edges[].node.title"]].concat());
    assert_eq!(run.stdout, format!("{title}\n"));
}
