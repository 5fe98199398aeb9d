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

/// A program of the server's name.
fn server(rig: &Rig) -> String {
    let path = put(rig, "opt/pipefy/pipefy-mcp-server", "#!/bin/sh\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

fn install(rig: &Rig, client: &str, more: &[&str]) -> Run {
    let server = server(rig);
    let mut line = vec!["mcp", "install", "--client", client, "--server", &server];
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
        assert_eq!([&found[0]["client"], &found[0]["name"], &found[0]["starts"]], [client, "pipefy", &server(&rig)]);

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

/// Whatever kind of entry was there: one of a program is left, with what belongs to it, and doing it again changes nothing.
#[test]
fn a_remote_entry_becomes_one_of_a_program() {
    let json = |map: &str, entry: &str| format!("{{\n  \"{map}\": {{\n    \"pipefy\": {entry}\n  }}\n}}\n");
    let remote = r#""url": "https://mcp.pipefy.com/mcp", "headers": {"Authorization": "Bearer canary"}"#;
    for (client, file, text) in [
        ("cursor", ".cursor/mcp.json", json("mcpServers", &format!("{{ {remote}, \"disabled\": false }}"))),
        ("cursor", ".cursor/mcp.json", json("mcpServers", &format!("{{\n \"disabled\": false,\n \"type\": \"http\",\n {remote}\n}}"))),
        ("cursor", ".cursor/mcp.json", format!("{{\"mcpServers\":{{\"pipefy\":{{{remote},\"disabled\":false}}}}}}")),
        // What an earlier version made of one.
        ("cursor", ".cursor/mcp.json", json("mcpServers", &format!("{{ {remote}, \"command\": \"x\", \"args\": [], \"disabled\": false }}"))),
        ("windsurf", ".codeium/windsurf/mcp_config.json", json("mcpServers", r#"{"serverUrl": "https://mcp.pipefy.com/mcp", "disabled": false}"#)),
        ("claude-code", ".claude.json", json("mcpServers", &format!("{{ \"type\": \"http\", {remote}, \"disabled\": false }}"))),
        ("vscode", ".config/Code/User/mcp.json", json("servers", &format!("{{ \"type\": \"sse\", {remote}, \"disabled\": false }}"))),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.pipefy]\nurl = \"https://mcp.pipefy.com/mcp\"\nbearer_token_env_var = \"T\"\ndisabled = false\n[mcp_servers.pipefy.http_headers]\nX = \"canary\"\n".to_owned(),
        ),
    ] {
        let rig = Rig::bare();
        let path = put(&rig, file, &text);
        let run = install(&rig, client, &[]);
        assert_eq!(run.code, Some(0), "{client}\n{text}\n{run}");
        let made = std::fs::read_to_string(&path).unwrap();
        let entry: serde_json::Value = match client {
            "codex" => serde_json::to_value(toml::from_str::<toml::Table>(&made).unwrap()["mcp_servers"]["pipefy"].clone()).unwrap(),
            _ => {
                let whole: serde_json::Value = serde_json::from_str(&made).unwrap_or_else(|error| panic!("{error}\n{made}"));
                whole.as_object().unwrap().values().next().unwrap()["pipefy"].clone()
            }
        };
        let mut wanted = serde_json::json!({"disabled": false, "command": server(&rig), "args": []});
        if ["claude-code", "vscode"].contains(&client) {
            wanted["type"] = "stdio".into();
        }
        assert_eq!(entry, wanted, "{client}\n{made}");
        assert!(install(&rig, client, &[]).stdout.contains("already"), "{client}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), made, "{client}");
    }
}

#[test]
fn a_file_that_sets_something_twice_is_left_alone() {
    for (text, name) in [
        ("{\"mcpServers\": {}, \"mcpServers\": {\"a\": {\"command\": \"canary\"}}}", "mcpServers"),
        ("{\"mcpServers\": {\"pipefy\": {}, \"pipefy\": {\"command\": \"canary\"}}}", "pipefy"),
        ("{\"mcpServers\": {\"pipefy\": {\"command\": \"pipefy-mcp-server\", \"command\": \"canary\"}}}", "command"),
        ("{\n \"mcpServers\": {},\n \"mcpServer\\u0073\": {}\n}", "mcpServers"),
    ] {
        let rig = Rig::bare();
        let path = put(&rig, ".cursor/mcp.json", text);
        for line in [&["mcp", "install", "--client", "cursor"][..], &["mcp", "uninstall", "--client", "cursor"]] {
            let run = rig.run(line);
            assert_eq!(run.code, Some(1), "{text}\n{run}");
            assert!(run.stderr.contains(&format!("has {name} twice")) && !run.stderr.contains("canary"), "{run}");
        }
        assert_eq!(rig.run(&["mcp", "scan"]).code, Some(2), "{text}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let rig = Rig::bare();
    put(&rig, ".cursor/mcp.json", "{\"a\": 1, \"a\": 2, \"mcpServers\": {}}");
    assert_eq!(install(&rig, "cursor", &[]).code, Some(0), "what is not about servers is the client's own");
}

/// What no client could use is refused before the file is touched.
#[test]
fn what_cannot_be_started_is_not_registered() {
    let rig = Rig::bare();
    server(&rig);
    put(&rig, "plain", "text");
    let lines: &[&[&str]] = &[
        &["--name", ""],
        &["--name", " "],
        &["--name", "a b"],
        &["--name", "a\u{1b}b"],
        &["--name", "a\nb"],
        &["--env", "BAD NAME=1"],
        &["--env", "=1"],
        &["--env", "NAME"],
        &["--env", "1A=1"],
        &["--env", " A=1"],
        &["--env", "A-B=1"],
        &["--server", "/nonexist/x"],
        &["--server", "./nonexist"],
        &["--server", "opt/pipefy"],
        &["--server", "~/nonexist"],
        #[cfg(unix)]
        &["--server", "./plain"],
    ];
    for more in lines {
        let mut line = vec!["mcp", "install", "--client", "cursor"];
        line.extend(*more);
        let run = rig.run(&line);
        assert_eq!(run.code, Some(2), "{more:?}\n{run}");
        assert!(run.stderr.contains(more[0]), "{more:?}\n{run}");
        assert!(!rig.home.path().join(".cursor/mcp.json").exists(), "{more:?}");
    }
    let rig = Rig::bare();
    let path = server(&rig);
    for (given, started, note) in [
        ("pipefy-mcp-server", "pipefy-mcp-server", "PATH"),
        ("./opt/pipefy/pipefy-mcp-server", path.as_str(), ""),
        ("~/opt/pipefy/pipefy-mcp-server", path.as_str(), ""),
        (path.as_str(), path.as_str(), ""),
    ] {
        let run = rig.run(&["mcp", "install", "--client", "cursor", "--server", given, "--env", "_A1=x y"]);
        assert_eq!((run.code, run.stderr.contains("PATH")), (Some(0), !note.is_empty()), "{given}\n{run}");
        let written: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(rig.home.path().join(".cursor/mcp.json")).unwrap()).unwrap();
        assert_eq!(written["mcpServers"]["pipefy"]["command"], started, "{given}");
    }
}
