//! `--sandbox` and `pipefy sandbox serve`.

use std::io::{BufRead, BufReader};

use crate::rig::Rig;

#[test]
fn a_sandbox_wins_over_every_setting() {
    let rig = Rig::bare();
    let data = rig.home.path().join("data.sqlite");
    let mut command = rig.command(&["--sandbox", "--sandbox-data", data.to_str().unwrap(), "org", "list", "--json"]);
    command.env("PIPEFY_BASE_URL", "https://pipefy.invalid").env("PIPEFY_TOKEN", "not the sandbox's");
    let run = rig.finished(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("Aurora Labs"), "{run}");
    assert!(data.exists());
    let run = rig.run(&["--sandbox", "--sandbox-data", ":memory:", "org", "list", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let run = rig.run(&["--sandbox", "auth", "status"]);
    assert_eq!(run.code, Some(2), "{run}");
}

#[test]
fn what_is_written_stays_in_the_file() {
    let rig = Rig::bare();
    let on_file = |args: &[&str]| {
        let line: Vec<&str> =
            ["--sandbox", "--sandbox-data", "data.sqlite"].into_iter().chain(args.iter().copied()).collect();
        rig.json(&line)
    };
    let pipes = on_file(&["graphql", "exec", "-q", "{ organizations { pipes { id } } }", "--json"]);
    let pipe = pipes["organizations"][0]["pipes"][0]["id"].as_str().unwrap().to_owned();
    let listed = on_file(&["card", "list", "--pipe", &pipe, "--first", "1", "--json"]);
    let card = listed["cards"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
    on_file(&["card", "delete", &card, "-y", "--json"]);
    let run = rig.run(&["--sandbox", "--sandbox-data", "data.sqlite", "card", "get", &card]);
    assert_eq!(run.code, Some(1), "{run}");
}

#[test]
fn serve_says_where_and_ends_on_request() {
    let rig = Rig::bare();
    let mut child = rig.command(&["sandbox", "serve", "--data", ":memory:"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let mut command = rig.command(&["org", "list", "--json"]);
    command
        .env("PIPEFY_BASE_URL", &url)
        .env("PIPEFY_ALLOW_INSECURE_URLS", "true")
        .env("PIPEFY_TOKEN", "sandbox-token-admin");
    let run = rig.finished(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    let ended = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(ended.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8(output.stderr).unwrap();
    assert!(help.contains(&format!("PIPEFY_BASE_URL={url}")) && help.contains("sandbox-token-guest"), "{help}");
}
