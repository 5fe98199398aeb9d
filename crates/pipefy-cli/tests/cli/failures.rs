//! One case per class of exit code, and what goes where.

use crate::rig::Rig;
use crate::transcript;

#[test]
fn without_a_credential_the_arguments_are_judged_first() {
    let rig = Rig::bare();
    transcript!(rig.run(&["org", "list"]), @"
    exit code: 2
    ----- stdout
    ----- stderr
    Missing Pipefy authentication. Set PIPEFY_TOKEN, or PIPEFY_SERVICE_ACCOUNT_CLIENT_ID and PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET (PIPEFY_SERVICE_ACCOUNT_*), or sign in with `pipefy auth login`.
    hint: docs/cli/auth.md explains all ways; without an account try `pipefy --sandbox org list`
    ");
    let run = rig.run(&["card", "list", "--pipe", "1", "--search", "[]"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--search must be a JSON object"), "{run}");
    let run = rig.run(&["card", "get", "0"]);
    assert_eq!(run.code, Some(2));
    assert!(!run.stderr.contains("PIPEFY_TOKEN"), "{run}");
}

#[test]
fn a_refused_token_is_a_failure() {
    let rig = Rig::new().with_token("no such token");
    let run = rig.run(&["org", "list"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("pipefy auth status") && !run.stderr.contains("no such token"), "{run}");
    // The token of the command line wins over the one of the environment.
    assert_eq!(rig.run(&["--token", "sandbox-token-guest", "org", "list"]).code, Some(0));
}

#[test]
fn a_dead_host_is_a_transport_error() {
    let rig = Rig::bare().with_token("token");
    let run = rig.run(&["--base-url", "http://127.0.0.1:9", "--allow-insecure-urls", "org", "list"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.starts_with("Pipefy transport error: "), "{run}");
    assert!(run.stdout.is_empty());
}

#[test]
fn broken_settings_stop_commands_but_neither_help_nor_usage() {
    let rig = Rig::bare();
    let run = |args: &[&str]| {
        let mut command = rig.command(args);
        command.env("PIPEFY_BASE_URL", "nonsense").env("PIPEFY_ORG_ID", "twelve");
        rig.finished(command.output().unwrap())
    };
    transcript!(run(&["org", "list"]), @r"
    exit code: 2
    ----- stdout
    ----- stderr
    invalid settings:
      PIPEFY_BASE_URL (environment): base_url must include a scheme, as in https://host; it should match pattern ^https?://\S+$
      PIPEFY_ORG_ID (environment): org_id must be ASCII digits only
    ");
    for line in [&["--help"][..], &["card", "--help"], &["card", "get", "--help"], &["--version"], &["tools", "list"]] {
        let run = run(line);
        assert_eq!(run.code, Some(0), "{line:?}\n{run}");
        assert!(run.stderr.is_empty(), "{run}");
    }
    let group = run(&["card"]);
    assert_eq!(group.code, Some(2));
    assert!(group.stdout.contains("Usage: pipefy card") && group.stderr.is_empty(), "{group}");
    let typo = run(&["card", "lst"]);
    assert_eq!(typo.code, Some(2));
    assert!(typo.stderr.contains("'list'"), "{typo}");
}

#[test]
fn a_tool_is_found_by_what_is_wanted() {
    let rig = Rig::bare();
    let run = rig.run(&["tools", "search", "quem tem acesso a este pipe?", "--limit", "3", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 3, "{run}");
    assert_eq!(found[0]["name"], "get_pipe_members", "{run}");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let rig = Rig::bare();
    let mut command = rig.command(&["tools", "list", "--json"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_question_without_a_terminal_is_refused_before_anything_is_sent() {
    // No credential is set: the refusal comes first.
    let rig = Rig::bare();
    transcript!(rig.run_with(&["card", "delete", "5"], "y\n"), @"
    exit code: 2
    ----- stdout
    ----- stderr
    This would permanently delete card 5, and nobody can be asked: standard input is no terminal. Nothing was sent. Repeat the command with --yes to confirm.
    ");
}

#[test]
fn a_guest_is_told_what_it_lacks() {
    let administrator = Rig::new();
    let pipe = administrator.pipe("Vendas B2B - S\u{e3}o Paulo");
    let rig = administrator.with_token("sandbox-token-guest");
    let run = rig.run(&["pipe", "get", &pipe]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("PERMISSION_DENIED") || run.stderr.contains("may lack access"), "{run}");
}

/// A script learns from the exit code what a check found, and still reads the findings.
#[test]
fn a_check_that_finds_something_exits_with_one() {
    let rig = Rig::new();
    let pipe = rig.pipe("Purchase Requests");
    let check = |prompt: &str, fields: &str| {
        let check = ["ai-automation", "validate-prompt", "--pipe", &pipe, "--json", "--prompt", prompt];
        let line: Vec<&str> = check.into_iter().chain(["--field-ids", fields]).collect();
        rig.run(&line)
    };
    let bad = check("Sum %{1}", "[\"2\"]");
    assert_eq!(bad.code, Some(1), "{bad}");
    let found: serde_json::Value = serde_json::from_str(&bad.stdout).unwrap();
    assert_eq!((&found["success"], &found["valid"]), (&true.into(), &false.into()), "{bad}");
    let fields = rig.json(&["pipe", "start-form", &pipe, "--json"]);
    let id = |n: usize| fields["start_form_fields"][n]["internal_id"].as_str().unwrap().to_owned();
    let good = check(&format!("Sum %{{{}}}", id(0)), &format!("[\"{}\"]", id(1)));
    assert_eq!(good.code, Some(0), "{good}");
    let none = rig.run(&["agent", "validate-behaviors", "--pipe", &pipe, "--behaviors", "[]", "--json"]);
    assert_eq!(none.code, Some(1), "{none}");
}

/// A Pipefy that gives each page of `cards` in turn, the last one for ever.
async fn pages(answers: Vec<serde_json::Value>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let answer = move || async move {
        let at = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        axum::Json(answers[at.min(answers.len() - 1)].clone())
    };
    let app = axum::Router::new().route("/graphql", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// What was read before a failure is shown, and the exit code says that it is not all; a limit that was set is no failure.
/// Control characters of Pipefy's words stay words.
#[test]
fn a_listing_that_breaks_off_is_a_failure() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let page = |id: &str, next: Option<&str>| {
        let edges = serde_json::json!([{"node": {"id": id, "title": "t"}}]);
        let info = serde_json::json!({"hasNextPage": next.is_some(), "endCursor": next});
        serde_json::json!({"data": {"cards": {"edges": edges, "pageInfo": info}}})
    };
    let broken =
        serde_json::json!({"errors": [{"message": "\u{1b}[31mout of\r\n\u{1b}]0;title\u{7}order\u{9b}2J\rend"}]});
    let list = |answers: &[serde_json::Value], more: &[&str]| {
        let url = runtime.block_on(pages(answers.to_vec()));
        let rig =
            Rig::bare().with_token("token").with("PIPEFY_BASE_URL", url).with("PIPEFY_ALLOW_INSECURE_URLS", "true");
        let mut line = vec!["card", "list", "--pipe", "1", "--all"];
        line.extend(more);
        rig.run(&line)
    };
    let first = page("11", Some("c1"));
    for format in ["csv", "json", "ndjson", "yaml", "table", "ids"] {
        let run = list(&[first.clone(), broken.clone()], &["--format", format]);
        assert_eq!(run.code, Some(1), "{format}\n{run}");
        assert!(run.stdout.contains("11") && run.stderr.contains("--after c1"), "{format}\n{run}");
        let circle = list(&[first.clone(), first.clone()], &["--format", format]);
        assert_eq!(circle.code, Some(1), "{format}\n{circle}");
    }
    assert_eq!(list(&[first.clone(), broken.clone()], &["--jq", "length"]).code, Some(1));
    let limited = list(&[first.clone(), broken.clone()], &["--max-items", "1", "--format", "ids"]);
    assert_eq!((limited.code, limited.stdout.as_str()), (Some(0), "11\n"), "{limited}");
    let whole = list(&[first.clone(), page("12", None)], &["--format", "ids"]);
    assert_eq!((whole.code, whole.stdout.as_str(), whole.stderr.as_str()), (Some(0), "11\n12\n", ""), "{whole}");

    for answers in [vec![broken.clone()], vec![first, broken]] {
        let run = list(&answers, &["--json"]);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr.contains("\\u001b[31mout of\n") && run.stderr.contains("\\u0007order\\u009b2J\\rend"),
            "{run}"
        );
        assert!(!run.stderr.contains(|c: char| c.is_control() && c != '\n'), "{run}");
    }
}

/// A usage error repeats what was typed, which a script may have from elsewhere.
#[test]
fn a_usage_error_sends_no_control_characters() {
    let rig = Rig::bare();
    for line in [
        &["\u{1b}[2Jx"][..],
        &["card", "get", "1", "--\u{9b}2Jx"],
        &["card", "list", "--pipe", "1", "--search", "{\u{7}"],
    ] {
        for colours in ["", "1"] {
            let mut command = rig.command(line);
            command.env("FORCE_COLOR", colours);
            let run = rig.finished(command.output().unwrap());
            assert_eq!(run.code, Some(2), "{run}");
            let text = run.stderr.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "").replace("\u{1b}[4m", "");
            assert!(!text.contains(['\u{7}', '\u{9b}']) && !text.contains("\u{1b}[2J"), "{line:?} {text:?}");
        }
    }
}

/// A filter ends with one of the documented exit codes.
#[test]
fn a_filter_that_fails_is_a_failure_like_any_other() {
    let rig = Rig::new();
    for (filter, code, stdout) in [
        ("\"gone\" | halt_error", 1, ""),
        ("halt(7)", 1, ""),
        ("1, halt", 0, "1\n"),
        ("[nan, 1]", 0, "[null,1]\n"),
        ("reduce range(2000) as $i (0; [.])", 1, ""),
    ] {
        let run = rig.run(&["org", "list", "--jq", filter]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(code), stdout), "{filter}\n{run}");
    }
    let run = rig.run(&["org", "list", "--jq", &"(".repeat(50_000)]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("64 brackets"), "{run}");
}
