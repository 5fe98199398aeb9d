//! `pipefy mcp`: registrations in recorded settings files of clients.

use std::path::PathBuf;

use crate::rig::{Rig, Run};

/// Files as clients write them, with what people put in.
const RECORDED: &[(&str, &str, &str)] = &[
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 42,\n  \"mcpServers\": {\n    \"github\": {\n      \"type\": \"http\",\n      \"url\": \"https://api.githubcopilot.com/mcp/\"\n    }\n  },\n  \"projects\": {\n    \"/home/ana/work\": { \"allowedTools\": [], \"mcpServers\": {} }\n  },\n  \"tip\": \"S\u{e3}o Paulo \\u00e9\"\n}\n",
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\n\t\"globalShortcut\": \"Ctrl+Space\",\n\t\"mcpServers\": {\n\t\t\"files\": { \"command\": \"npx\", \"args\": [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/tmp\"] }\n\t}\n}",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\"mcpServers\":{\"one\":{\"url\":\"https://one.test/mcp\",\"headers\":{\"Authorization\":\"Bearer keep-me\"}}}}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "model = \"o4\"   # the big one\n\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [ \"-y\",\n  \"docs-server\" ]\n\n[mcp_servers.docs.env]\nKEY = 'keep me'\n\n[profiles.fast]\nmodel = \"mini\"\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\r\n  // servers of mine\r\n  \"servers\": {\r\n    \"play\": { \"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"playwright\"] }, // keep\r\n  },\r\n  \"inputs\": []\r\n}\r\n",
    ),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "{\n    \"mcpServers\": {}\n}\n"),
    // As programs write what no person reads.
    ("claude-code", ".claude.json", "{\"mcpServers\":{}}"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "{ \"mcpServers\": { \"a\": {\"command\": \"x\"} }, \"b\": 1 }"),
    // With comments, and nothing of ours in sight.
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n\t\"servers\": {\n\t\t\"a\": { \"command\": \"\u{4f5c}\" },\n\t\t// none yet\n\t},\n\t\"inputs\": []\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers]\ndocs = { command = \"x\" } # in one line\n\n[tui] # last\ntheme = \"\u{e9}\"\n",
    ),
];

fn put(rig: &Rig, file: &str, text: &str) -> PathBuf {
    let path = rig.home.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn install(rig: &Rig, client: &str, more: &[&str]) -> Run {
    let mut line = vec!["mcp", "install", "--client", client, "--server", "/opt/pipefy/pipefy-mcp-server"];
    line.extend(more);
    rig.run(&line)
}

/// Whether `new` is `old` with something put in at one place: every byte of `old` is still there, in order.
fn only_adds(old: &str, new: &str) -> bool {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    before + after >= old.len()
}

/// Without white space.
fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn registering_changes_one_entry_and_nothing_else() {
    for (client, file, text) in RECORDED {
        let rig = Rig::bare();
        let path = put(&rig, file, text);
        let read = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(rig.run(&["mcp", "scan"]).code, Some(0), "{client}: nothing of ours yet");

        let run = install(&rig, client, &["--read-only"]);
        assert_eq!(run.code, Some(0), "{client}\n{run}");
        let installed = read();
        assert!(only_adds(text, &installed), "{client}\n{text}\n{installed}");
        assert!(
            installed.contains("/opt/pipefy/pipefy-mcp-server") && installed.contains("--read-only"),
            "{installed}"
        );

        // The same again changes no byte.
        let run = install(&rig, client, &["--read-only"]);
        assert!(run.code == Some(0) && run.stdout.contains("already"), "{run}");
        assert_eq!(read(), installed, "{client}");

        let scan = rig.run(&["mcp", "scan", "--json"]);
        assert_eq!(scan.code, Some(1), "{client}\n{scan}");
        let found: serde_json::Value = serde_json::from_str(&scan.stdout).unwrap();
        assert_eq!(found.as_array().unwrap().len(), 1, "{scan}");
        assert_eq!(
            [&found[0]["client"], &found[0]["name"], &found[0]["starts"]],
            [client, "pipefy", "/opt/pipefy/pipefy-mcp-server"]
        );

        let run = rig.run(&["mcp", "uninstall", "--client", client]);
        assert_eq!(run.code, Some(0), "{client}\n{run}");
        assert_eq!(&read(), text, "{client}: the file is what it was");
        assert_eq!(rig.run(&["mcp", "scan"]).code, Some(0), "{client}");
        let run = rig.run(&["mcp", "uninstall", "--client", client]);
        assert!(run.code == Some(0) && run.stdout.contains("Nothing to remove"), "{run}");
    }
}

#[test]
fn a_missing_file_is_made_and_is_private() {
    for (client, file, _) in RECORDED {
        let rig = Rig::bare();
        let run = install(&rig, client, &["--env", "PIPEFY_TOKEN=secret"]);
        assert_eq!(run.code, Some(0), "{client}\n{run}");
        assert!(run.stderr.contains("secret in the clear") && !run.stdout.contains("=secret"), "{run}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(rig.home.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{client}");
        }
        assert_eq!(rig.run(&["mcp", "scan"]).code, Some(1), "{client}");
        assert!(!rig.run(&["mcp", "scan"]).stdout.contains("secret"));
    }
}

#[test]
fn an_older_entry_is_set_right_and_keeps_its_variables() {
    let rig = Rig::bare();
    let path = put(
        &rig,
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"pipefy\": {\n      \"command\": \"uvx\",\n      \"args\": [\"pipefy-mcp-server\"],\n      \"env\": { \"PIPEFY_ORG_ID\": \"1\" }\n    }\n  }\n}\n",
    );
    assert_eq!(rig.run(&["mcp", "scan"]).code, Some(1), "a runner counts");
    assert_eq!(install(&rig, "cursor", &[]).code, Some(0));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("PIPEFY_ORG_ID") && text.contains("/opt/pipefy") && !text.contains("uvx"), "{text}");
}

#[test]
fn what_is_not_ours_or_cannot_be_read_is_left_alone() {
    let rig = Rig::bare();
    let foreign = "{\"mcpServers\": {\"pipefy\": {\"command\": \"other\"}}}";
    let path = put(&rig, ".cursor/mcp.json", foreign);
    let run = install(&rig, "cursor", &[]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--name"), "{run}");
    assert_eq!(install(&rig, "cursor", &["--name", "pipefy-rust"]).code, Some(0));
    let run = rig.run(&["mcp", "uninstall", "--client", "cursor"]);
    assert!(run.stdout.contains("Removed pipefy-rust"), "{run}");
    assert_eq!(bare(&std::fs::read_to_string(&path).unwrap()), bare(foreign));

    for (client, file, text) in [
        ("cursor", ".cursor/mcp.json", "{\"a\": canary"),
        ("codex", ".codex/config.toml", "a = canary"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "[]"),
    ] {
        let path = put(&rig, file, text);
        let run = install(&rig, client, &[]);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("set it right") && !run.stderr.contains("canary"), "{run}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let scan = rig.run(&["mcp", "scan"]);
        assert_eq!(scan.code, Some(2), "{scan}");
    }
}

#[test]
fn two_registrations_of_one_client_are_named() {
    let rig = Rig::bare();
    let entry = "{\"mcpServers\": {\"pipefy\": {\"type\": \"http\", \"url\": \"https://mcp.pipefy.com/mcp\"}}}";
    put(&rig, ".claude.json", entry);
    // The project of the working folder, which is not the home folder here.
    let work = rig.home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(".mcp.json"), "{\"mcpServers\": {\"pipefy\": {\"command\": \"pipefy-mcp-server\"}}}")
        .unwrap();
    let run = rig.finished(rig.command(&["mcp", "scan"]).current_dir(&work).output().unwrap());
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("claude-code has 2 registrations"), "{run}");
    assert!(run.stdout.contains("project") && run.stdout.contains("user"), "{run}");
}
