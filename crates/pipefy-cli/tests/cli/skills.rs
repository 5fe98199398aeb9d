//! `pipefy skills`: playbooks as files of an agent.

use std::path::PathBuf;

use serde_json::Value;

use crate::rig::Rig;

fn file(rig: &Rig, folder: &str, skill: &str) -> PathBuf {
    rig.home.path().join(folder).join(skill).join("SKILL.md")
}

fn words(stdout: &str) -> Vec<String> {
    stdout.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn all_are_listed_and_shown() {
    let rig = Rig::bare();
    let run = rig.run(&["skills", "list", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    let listed = listed.as_array().unwrap();
    assert!(listed.len() >= 12, "{run}");
    for skill in listed {
        let name = skill["name"].as_str().unwrap();
        for name in [name, skill["skill"].as_str().unwrap()] {
            let run = rig.run(&["skills", "show", name]);
            assert_eq!(run.code, Some(0), "{run}");
            assert!(run.stdout.starts_with(&format!("---\nname: {}\n", skill["skill"].as_str().unwrap())), "{run}");
        }
    }
    let run = rig.run(&["skills", "show", "no-such"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run}");
    assert!(run.stderr.contains("set-up-pipe"), "{run}");
}

#[test]
fn installing_twice_changes_nothing_and_a_changed_file_stays() {
    for (client, folder) in [
        ("claude-code", ".claude/skills"),
        ("codex", ".agents/skills"),
        ("cursor", ".cursor/skills"),
        ("vscode", ".copilot/skills"),
        ("windsurf", ".codeium/windsurf/skills"),
    ] {
        let rig = Rig::bare();
        let install = |more: &[&str]| rig.run(&[&["skills", "install", "--client", client], more].concat());
        let run = install(&[]);
        assert_eq!(run.code, Some(0), "{client}\n{run}");
        let first = words(&run.stdout);
        assert!(first.len() >= 12 && first.iter().all(|word| word == "installed"), "{client}\n{run}");
        assert!(words(&install(&[]).stdout).iter().all(|word| word == "unchanged"));

        let path = file(&rig, folder, "pipefy-set-up-pipe");
        let ours = std::fs::read_to_string(&path).unwrap();
        let mine = ours.replace("## Build", "## Build as we do");
        std::fs::write(&path, &mine).unwrap();
        let run = install(&["--skill", "set-up-pipe", "--skill", "pipefy-report-month"]);
        assert_eq!((run.code, words(&run.stdout)), (Some(0), vec!["kept".to_owned(), "unchanged".to_owned()]), "{run}");
        assert!(run.stderr.contains("--force"), "{run}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), mine);
        let run = install(&["--skill", "set-up-pipe", "--force"]);
        assert_eq!(words(&run.stdout), ["updated"], "{run}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), ours);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing beside it is left");
    }
}

/// A file of an older release that nobody has touched is renewed; one of somebody else's that has our name is not.
#[test]
fn what_an_older_release_wrote_is_renewed() {
    let rig = Rig::bare();
    let install = || rig.run(&["skills", "install", "--dir", "skills", "--skill", "report-month"]);
    let path = rig.home.path().join("skills/pipefy-report-month/SKILL.md");
    assert_eq!(words(&install().stdout), ["installed"]);
    let ours = std::fs::read_to_string(&path).unwrap();
    let bare: String = ours
        .replace("## Write", "## Say")
        .lines()
        .filter(|l| !l.contains("pipefy-digest"))
        .map(|l| format!("{l}\n"))
        .collect();
    let digest: String = {
        use aws_lc_rs::digest::{SHA256, digest};
        digest(&SHA256, bare.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let older = bare.replacen("\n---\n", &format!("\n  pipefy-digest: {digest}\n---\n"), 1);
    std::fs::write(&path, older).unwrap();
    assert_eq!(words(&install().stdout), ["updated"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), ours);
    std::fs::write(&path, b"\xff\xfe not ours").unwrap();
    assert_eq!(words(&install().stdout), ["kept"]);
}

#[test]
fn where_to_is_said_once() {
    let rig = Rig::bare();
    for line in [&["skills", "install"][..], &["skills", "install", "--client", "codex", "--dir", "x"]] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains("either --client or --dir"), "{run}");
    }
    std::fs::write(rig.home.path().join("taken"), "x").unwrap();
    let run = rig.run(&["skills", "install", "--dir", "taken"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("cannot be written"), "{run}");
}
