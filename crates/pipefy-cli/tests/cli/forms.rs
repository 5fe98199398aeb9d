//! `--format`, `--jq`, `config show`, `doctor`.

use serde_json::json;

use crate::rig::Rig;

#[test]
fn one_result_in_every_form() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let list = |more: &[&str]| {
        let mut line = vec!["card", "list", "--pipe", &pipe, "--first", "3", "--fields", "id,title,current_phase.name"];
        line.extend(more);
        let run = rig.run(&line);
        assert_eq!(run.code, Some(0), "{line:?}\n{run}");
        run
    };
    let data: serde_json::Value = serde_json::from_str(&list(&["--json"]).stdout).unwrap();
    let nodes: Vec<&serde_json::Value> =
        data["cards"]["edges"].as_array().unwrap().iter().map(|edge| &edge["node"]).collect();
    let ids: Vec<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);

    let run = list(&["--format", "ids"]);
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), ids);
    assert!(run.stderr.contains("there are more"), "{run}");
    assert_eq!(list(&["--jq", ".cards.edges[].node.id"]).stdout.lines().collect::<Vec<_>>(), ids);
    assert_eq!(list(&["--jq", ".cards.edges | length"]).stdout, "3\n");
    let first = list(&["--jq", ".cards.edges[0].node | {id}"]).stdout;
    assert_eq!(first, format!("{}\n", json!({"id": ids[0]})));
    let csv = list(&["--format", "csv"]).stdout;
    assert!(csv.starts_with("id,title,current_phase.name\r\n") && csv.lines().count() == 4, "{csv}");
    let yaml = list(&["--format", "yaml"]).stdout;
    assert!(yaml.starts_with("cards:\n"), "{yaml}");
    let table = list(&["--format", "table"]).stdout;
    assert!(table.contains("current_phase.name") && ids.iter().all(|id| table.contains(id)), "{table}");
    assert_eq!(list(&["--format", "json"]).stdout, list(&["--json"]).stdout);
    // A filter's results take a form as well.
    let csv = list(&["--jq", ".cards.edges[].node | {id}", "--format", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 4, "{csv}");
}

#[test]
fn a_filter_is_judged_before_anything_is_sent() {
    let rig = Rig::bare();
    for (line, wanted) in [
        (&["card", "get", "1", "--jq", ".a["][..], "--jq"),
        (&["card", "get", "1", "--jq", "nosuch"], "filter nosuch"),
        (&["card", "get", "1", "--format", "xml"], "csv"),
        (&["card", "get", "1", "--json", "--format", "csv"], "--json"),
    ] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(2), "{line:?}\n{run}");
        assert!(run.stderr.contains(wanted), "{line:?}\n{run}");
    }
    let rig = Rig::new();
    let run = rig.run(&["org", "list", "--jq", ".[0] | .id | keys"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run}");
    assert!(run.stderr.contains("--jq"), "{run}");
    // The exports have a --format of their own.
    let run = rig.run(&["report-pipe", "export", "--help"]);
    assert!(run.stdout.matches("--format").count() == 1, "{run}");
}

/// The page says which commands print tables, and which JSON until a table is asked for.
#[test]
fn what_prints_tables_is_what_the_page_says() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli/output.md")).unwrap();
    let (objects, tables) = page.split_once("Most listings come as").unwrap().1.split_once("Tables\nwithout").unwrap();
    let named = |text: &str| -> Vec<String> {
        let text = text.split("\n\n").next().unwrap().split("`--format table`").next().unwrap();
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (objects, tables) = (named(objects), named(tables));
    assert!(objects.len() > 4 && tables.len() > 10, "{objects:?} {tables:?}");
    let rig = Rig::new();
    let pipe = rig.pipe("Purchase Requests");
    let organization = rig.json(&["org", "list", "--json"])[0]["uuid"].as_str().unwrap().to_owned();
    let table = rig.run(&["table", "list", "--format", "ids"]).stdout.lines().next().unwrap().to_owned();
    let line = |command: &str| {
        let mut line: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let more: &[&str] = match command {
            "card list" | "label list" | "automation list" => &["--pipe", &pipe],
            "automation events list" | "automation actions list" => &["--pipe", &pipe],
            "record find" => &["--table", &table],
            "portal list" | "portal html-interface list" => &["--organization-uuid", &organization],
            "tools search" => &["card"],
            _ => &[],
        };
        line.extend(more.iter().map(|word| (*word).to_owned()));
        line
    };
    let run = |line: &[String]| rig.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    for command in &objects {
        let mut line = line(command);
        assert!(run(&line).stdout.starts_with("{\n"), "{command}\n{}", run(&line));
        line.extend(["--format".to_owned(), "table".to_owned()]);
        assert!(run(&line).stdout.starts_with('+'), "{command}\n{}", run(&line));
    }
    for command in &tables {
        let shown = run(&line(command)).stdout;
        assert!(shown.contains('\t') || shown == "(empty list)\n", "{command}\n{shown}");
    }
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let rig = Rig::bare().with("PIPEFY_ORG_ID", "42").with("PIPEFY_TOKEN", "canary-token");
    let config = rig.home.path().join(".config/pipefy");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("config.toml"),
        "service_account_client_secret = \"canary\"\nbase_url = \"https://x.test\"\n",
    )
    .unwrap();
    let run = rig.run(&["config", "show"]);
    assert_eq!(run.code, Some(0), "{run}");
    for wanted in ["org_id", "42", "PIPEFY_ORG_ID (environment)", "base_url", "config.toml", "***"] {
        assert!(run.stdout.contains(wanted), "{wanted}\n{run}");
    }
    assert!(!run.stdout.contains("canary") && !run.stdout.contains("auth_client_id"), "{run}");
    assert!(rig.run(&["config", "show", "--all"]).stdout.contains("auth_client_id"));
    let all = rig.json(&["--base-url", "https://y.test", "config", "show", "--json"]);
    let url = all.as_array().unwrap().iter().find(|setting| setting["setting"] == "base_url").unwrap();
    assert_eq!([&url["value"], &url["source"]], ["https://y.test", "option"]);
    assert!(!all.to_string().contains("canary"));
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let rig = Rig::new();
    let run = rig.run(&["doctor", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let findings: Vec<serde_json::Value> = serde_json::from_str(&run.stdout).unwrap();
    let of = |check: &str| {
        findings.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("{check}\n{run}"))
    };
    for check in ["settings", "api", "issuer", "clock", "sign-in", "schema", "mcp clients"] {
        assert_eq!(of(check)["result"], "ok", "{check}\n{run}");
    }
    assert!(of("sign-in")["finding"].as_str().unwrap().contains("ana.souza@aurora.example"), "{run}");

    // Nothing of a token needs the issuer.
    let mut command = rig.command(&["doctor", "--json"]);
    command.env("PIPEFY_AUTH_URL", "http://127.0.0.1:9/realms/x");
    let run = rig.finished(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let issuer = found.as_array().unwrap().iter().find(|finding| finding["check"] == "issuer").unwrap();
    assert_eq!(issuer["result"], "warning", "{run}");

    let run = rig.with_token("canary").run(&["doctor"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("sign-in\twrong") && !run.to_string().contains("canary"), "{run}");
    let rig = Rig::bare()
        .with("PIPEFY_BASE_URL", "http://127.0.0.1:9")
        .with("PIPEFY_ALLOW_INSECURE_URLS", "true")
        .with("PIPEFY_AUTH_URL", "http://127.0.0.1:9/realms/x");
    let run = rig.run(&["doctor"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("api\twrong") && run.stdout.contains("nobody is signed in"), "{run}");
}

/// The sandbox is looked at as its administrator; nothing that is configured for the real one goes there.
#[test]
fn the_doctor_looks_at_a_sandbox_too() {
    let rig = Rig::bare().with_token("canary-token").with("PIPEFY_BASE_URL", "https://x.invalid");
    let run = rig.run(&["--sandbox", "--sandbox-data", ":memory:", "doctor", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let of = |check: &str| found.as_array().unwrap().iter().find(|finding| finding["check"] == check).unwrap();
    for check in ["settings", "api", "sign-in", "schema"] {
        assert_eq!(of(check)["result"], "ok", "{check}\n{run}");
    }
    assert!(of("sign-in")["finding"].as_str().unwrap().contains("ana.souza@aurora.example by"), "{run}");
    assert!(!run.to_string().contains("x.invalid") && !run.to_string().contains("canary"), "{run}");
    let run = rig.run(&["--sandbox", "auth", "status"]);
    assert!(run.code == Some(2) && run.stderr.contains("pipefy --sandbox doctor"), "{run}");
}

/// A clock that is wrong, a Pipefy that no longer knows an operation, and a client with two registrations.
#[test]
fn the_doctor_sees_clocks_and_drift() {
    use axum::http::header::DATE;
    use axum::routing::{get, post};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let past = || [(DATE, "Thu, 01 Jan 2026 00:00:00 GMT")];
        let answer = move |body: String| async move {
            let field = |name: &str| json!({"name": name, "args": [], "type": {"kind": "SCALAR", "name": "ID"}});
            let kind = |name: &str, fields: &[&str]| {
                json!({"kind": "OBJECT", "name": name, "fields": fields.iter().map(|name| field(name)).collect::<Vec<_>>()})
            };
            let schema = json!({"__schema": {"queryType": {"name": "Query"}, "mutationType": {"name": "Mutation"},
                "types": [kind("Query", &["me", "card", "pipe"]), kind("Mutation", &["createCard"])]}});
            let me = json!({"me": {"email": "ana@aurora.example", "name": "Ana"}});
            (past(), axum::Json(json!({ "data": if body.contains("__schema") { schema } else { me } })))
        };
        let app = axum::Router::new().route("/graphql", post(answer).get(move || async move { (past(), "") }));
        let app = app.route("/realm/.well-known/openid-configuration", get(|| async { axum::Json(json!({})) }));
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    });
    let rig = Rig::bare().with_token("token").with("PIPEFY_BASE_URL", &url).with("PIPEFY_ALLOW_INSECURE_URLS", "true");
    let rig = rig.with("PIPEFY_AUTH_URL", format!("{url}/realm"));
    let folder = rig.home.path().join("work/.cursor");
    std::fs::create_dir_all(&folder).unwrap();
    let entry = "{\"mcpServers\": {\"pipefy\": {\"command\": \"pipefy-mcp-server\"}}}";
    std::fs::write(folder.join("mcp.json"), entry).unwrap();
    std::fs::create_dir_all(rig.home.path().join(".cursor")).unwrap();
    std::fs::write(rig.home.path().join(".cursor/mcp.json"), entry).unwrap();
    let run = rig.finished(rig.command(&["doctor"]).current_dir(rig.home.path().join("work")).output().unwrap());
    assert_eq!(run.code, Some(1), "{run}");
    for wanted in [
        "clock\twrong\tis ",
        "set it right",
        "schema\twarning\tPipefy no longer knows ",
        "sign-in\tok\tana@aurora.example",
        "mcp clients\twarning\tcursor has 2 registrations",
    ] {
        assert!(run.stdout.contains(wanted), "{wanted}\n{run}");
    }
    assert!(!run.stdout.contains(" card,") && run.stdout.contains("deleteCard"), "{run}");
}

/// A Pipefy that knows exports only: the first look finds one under way, the second finds `state`.
async fn exporter(state: &'static str) -> String {
    use axum::routing::{get, post};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = format!("{url}/file.csv");
    let looks = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let answer = move |body: String| async move {
        let data = if body.contains("exportPipeReport(") {
            json!({"exportPipeReport": {"pipeReportExport": {"id": "9", "state": "processing"}}})
        } else {
            let ready = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
            let (state, file) = if ready { (state, file.as_str()) } else { ("processing", "") };
            json!({"pipeReportExport": {"id": "9", "state": state, "fileURL": file}})
        };
        axum::Json(json!({ "data": data }))
    };
    let app = axum::Router::new()
        .route("/graphql", post(answer))
        .route("/file.csv", get(|| async { "id,title\r\n1,\"S\u{e3}o, Paulo\"\r\n" }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[test]
fn an_export_is_waited_for_and_written_as_it_is() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let export = |state: &'static str, more: &[&str]| {
        let url = runtime.block_on(exporter(state));
        let rig =
            Rig::bare().with_token("token").with("PIPEFY_BASE_URL", url).with("PIPEFY_ALLOW_INSECURE_URLS", "true");
        let mut line = vec!["report-pipe", "export", "--pipe", "1", "--report-id", "2"];
        line.extend(more);
        rig.run(&line)
    };
    let run = export("done", &["--format", "csv"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    assert_eq!(run.stdout, "id,title\r\n1,\"S\u{e3}o, Paulo\"\r\n");
    let run = export("failed", &["--format", "csv"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run}");
    assert!(run.stderr.contains("ended as failed"), "{run}");
    let run = export("done", &["--format", "csv", "--poll-timeout", "1"]);
    assert!(run.code == Some(1) && run.stderr.contains("--poll-timeout"), "{run}");
    let run = export("done", &["--json"]);
    assert!(run.code == Some(0) && run.stdout.contains("\"id\": \"9\""), "{run}");
    for (more, wanted) in [
        (&["--format", "csv", "--json"][..], "--json"),
        (&["--format", "csv", "--poll-timeout", "0"], "--poll-timeout"),
        (&["--format", "xls"], "json or csv"),
    ] {
        let run = export("done", more);
        assert!(run.code == Some(2) && run.stderr.contains(wanted), "{more:?}\n{run}");
    }
}
