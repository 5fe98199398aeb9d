//! Imports that can be run again, and exports that imports read.

use serde_json::{Value, json};

use crate::rig::{Rig, Run};

const FILE: &str =
    "Subject,Description,Channel\nPrinter on fire,\"It burns, badly\",Chat\nNo coffee,Since Monday,E-mail\n";

fn import(rig: &Rig, pipe: &str, more: &[&str]) -> Run {
    let mut line = vec!["card", "import", "rows.csv", "--pipe", pipe, "--key", "Subject", "--json"];
    line.extend(more);
    rig.run(&line)
}

fn results(run: &Run) -> Vec<String> {
    let rows: Vec<Value> = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run}"));
    rows.iter().map(|row| row["result"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_import_makes_each_row_once() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    std::fs::write(rig.home.path().join("rows.csv"), FILE).unwrap();
    let run = import(&rig, &pipe, &["--dry-run"]);
    assert_eq!((run.code, results(&run)), (Some(0), vec!["planned".to_owned(), "planned".to_owned()]), "{run}");
    let run = import(&rig, &pipe, &[]);
    assert_eq!((run.code, results(&run)), (Some(0), vec!["created".to_owned(), "created".to_owned()]), "{run}");
    assert!(run.stderr.contains("2 created, 0 there already, 0 failed"), "{run}");

    // The file grows; the import is run again.
    std::fs::write(rig.home.path().join("rows.csv"), format!("{FILE}Third one,x,Portal\n")).unwrap();
    let run = import(&rig, &pipe, &[]);
    assert_eq!(results(&run), ["exists", "exists", "created"], "{run}");
    let cards = rig.json(&[
        "card",
        "find",
        "--pipe",
        &pipe,
        "--field",
        "subject",
        "--value",
        "No coffee",
        "--json",
        "--format",
        "json",
    ]);
    assert_eq!(cards["findCards"]["edges"].as_array().unwrap().len(), 1, "{cards}");

    // What is exported can be imported elsewhere, or here again.
    let run = rig.run(&["card", "export", "--pipe", &pipe, "--format", "csv"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.starts_with("id,title,phase,") && run.stdout.contains("\"It burns, badly\""), "{run}");
}

#[test]
fn one_bad_row_does_not_stop_the_others() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    faults(&rig, json!([{"root_field": "createCard", "nth": 2, "graphql_error": "Not today"}]));
    let rows = ["One", "Two", "Three"].map(|key| json!({"subject": key, "description": "a", "channel": "Chat"}));
    let lines = rows.map(|row| row.to_string()).join("\n");
    let line = ["card", "import", "-", "--pipe", &pipe, "--key", "subject", "--parallel", "1", "--json"];
    let run = rig.run_with(&line, &lines);
    assert_eq!(
        (run.code, results(&run)),
        (Some(1), vec!["created".into(), "failed".into(), "created".into()]),
        "{run}"
    );
    assert!(run.stdout.contains("Not today"), "{run}");
}

#[test]
fn bad_cells_are_named_before_anything_is_made() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let before = cards(&rig, &pipe);
    let rows = [
        json!({"subject": "One", "description": "a", "channel": "Chat"}),
        json!({"subject": "", "description": "b", "channel": "Chat"}),
        json!({"subject": "Three", "description": "", "channel": "Pigeon"}),
    ];
    let lines = rows.map(|row| row.to_string()).join("\n");
    let run = rig.run_with(&["card", "import", "-", "--pipe", &pipe, "--key", "subject", "--json"], &lines);
    assert!(run.code == Some(2) && run.stdout.is_empty(), "{run}");
    for wanted in [
        "row 2, subject: the key is blank",
        "row 3, description: the form requires",
        "row 3, channel: \"Pigeon\" is none of",
    ] {
        assert!(run.stderr.contains(wanted), "{wanted}\n{run}");
    }
    assert_eq!(cards(&rig, &pipe), before);
}

fn faults(rig: &Rig, rules: Value) {
    let url = format!("{}/_sandbox/faults", rig.url());
    let plan = json!({ "rules": rules });
    let answer = rig.block_on(async { reqwest::Client::new().post(url).json(&plan).send().await.unwrap() });
    assert!(answer.status().is_success());
}

fn cards(rig: &Rig, pipe: &str) -> u64 {
    let query = json!({ "query": format!("{{ pipe(id: {pipe}) {{ cards_count }} }}") });
    let url = format!("{}/graphql", rig.url());
    let answer: Value = rig.block_on(async {
        let request = reqwest::Client::new().post(url).bearer_auth(pipefy_sandbox::DEFAULT_TOKEN).json(&query);
        request.send().await.unwrap().json().await.unwrap()
    });
    answer["data"]["pipe"]["cards_count"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

/// Root fields of the requests that came since the faults were set.
fn asked(rig: &Rig, root: &str) -> usize {
    let url = format!("{}/_sandbox/requests", rig.url());
    let answer: Value = rig.block_on(async { reqwest::get(url).await.unwrap().json().await.unwrap() });
    let requests = answer["requests"].as_array().unwrap();
    requests.iter().filter(|request| request["root_fields"][0] == root).count()
}

/// Waits until something holds, as long as the program runs.
fn wait_until(child: &mut std::process::Child, holds: impl Fn() -> bool) {
    while !holds() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

const FOUR: &str = "Subject,Description,Channel\nOne,a,Chat\nTwo,b,Chat\nThree,c,Chat\nFour,d,Chat\n";

/// Two rows have arrived and their answers are lost when the program is killed while it looks them up.
#[test]
fn what_was_in_flight_when_it_was_killed_is_not_made_again() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let before = cards(&rig, &pipe);
    std::fs::write(rig.home.path().join("rows.csv"), FOUR).unwrap();
    let lost = json!({"root_field": "createCard", "nth": 2, "drop": true, "after": true});
    // Four look-ups come before the first row is sent.
    let slow = json!({"root_field": "findCards", "nth": 5, "latency_ms": 600_000});
    faults(&rig, json!([lost, lost, slow, slow]));
    let line = ["card", "import", "rows.csv", "--pipe", &pipe, "--key", "Subject", "--parallel", "2", "--json"];
    let mut child = rig.command(&line).spawn().unwrap();
    wait_until(&mut child, || asked(&rig, "findCards") >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(cards(&rig, &pipe), before + 3);
    let journal = std::fs::read_to_string(rig.home.path().join("rows.csv.journal.jsonl")).unwrap();
    let count = |state: &str| journal.matches(&format!("\"state\":\"{state}\"")).count();
    assert_eq!((count("sent"), count("done")), (3, 1), "{journal}");
    faults(&rig, json!([]));
    let run = rig.run(&line);
    let mut results = results(&run);
    results.sort();
    assert_eq!((run.code, results), (Some(0), ["created", "exists", "exists", "exists"].map(String::from).to_vec()));
    assert_eq!(cards(&rig, &pipe), before + 4);
}

/// Without a key the journal alone knows what was sent; what it cannot know is said.
#[test]
fn every_row_is_sent_once_whenever_it_was_killed() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let before = cards(&rig, &pipe);
    std::fs::write(rig.home.path().join("rows.csv"), FOUR).unwrap();
    faults(&rig, json!([{"root_field": "createCard", "nth": 2, "latency_ms": 600_000}]));
    let line = ["card", "import", "rows.csv", "--pipe", &pipe, "--every-row", "--parallel", "1", "--json"];
    let mut child = rig.command(&line).spawn().unwrap();
    wait_until(&mut child, || asked(&rig, "createCard") >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    faults(&rig, json!([]));
    let rehearsal = rig.run(&[&line[..], &["--dry-run"]].concat());
    assert_eq!(results(&rehearsal), ["exists", "unknown", "planned", "planned"], "{rehearsal}");
    assert!(rehearsal.stderr.contains("note: 2 would be created, 1 there already, 1 unknown"), "{rehearsal}");
    let run = rig.run(&line);
    assert_eq!(
        (run.code, results(&run)),
        (Some(1), ["exists", "unknown", "created", "created"].map(String::from).to_vec())
    );
    assert!(run.stderr.contains("2 created, 1 there already, 0 failed, 1 unknown"), "{run}");
    assert!(run.stderr.contains("rows.csv.journal.jsonl"), "{run}");
    assert_eq!(cards(&rig, &pipe), before + 3);
    // Without the journal all of them are new again.
    let run = rig.run(&[&line[..], &["--journal", ""]].concat());
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(cards(&rig, &pipe), before + 7);
}

/// A sandbox in the program has another address each time; its rows and its writes are known all the same.
#[test]
fn what_was_imported_into_an_embedded_sandbox_is_known_to_the_next_run() {
    let rig = Rig::bare();
    std::fs::write(rig.home.path().join("rows.csv"), FOUR).unwrap();
    let pipe = "name:Customer Support";
    let line = ["--sandbox", "card", "import", "rows.csv", "--pipe", pipe, "--every-row", "--json"];
    let run = rig.run(&line);
    assert_eq!((run.code, results(&run)), (Some(0), vec!["created".to_owned(); 4]), "{run}");
    let run = rig.run(&line);
    assert_eq!((run.code, results(&run)), (Some(0), vec!["exists".to_owned(); 4]), "{run}");
    // Other data is another Pipefy.
    let other = ["--sandbox", "--sandbox-data", "other.sqlite"];
    let run = rig.run(&[&other[..], &line[1..]].concat());
    assert_eq!((run.code, results(&run)), (Some(0), vec!["created".to_owned(); 4]), "{run}");
    let found = rig.json(&[
        "--sandbox",
        "pipe",
        "list",
        "--jq",
        "[.. | objects | select(.name? == \"Customer Support\") | .id]",
    ]);
    let args = json!({"pipe_id": found[0], "name": "Once", "color": "#FF0000", "idempotency_key": "k1"}).to_string();
    let line = ["--sandbox", "tools", "call", "create_label", "--args", &args, "--json"];
    let first = rig.json(&line);
    let again = rig.run(&line);
    assert_eq!(again.code, Some(0), "{again}");
    let labels = rig.json(&["--sandbox", "label", "list", "--pipe", pipe, "--json"]).to_string();
    assert_eq!(labels.matches("\"Once\"").count(), 1, "{first}\n{again}");
}

/// Two imports of one file at a time would make every row twice.
#[test]
fn a_second_import_of_the_same_file_waits_its_turn() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    std::fs::write(rig.home.path().join("rows.csv"), FOUR).unwrap();
    faults(&rig, json!([{"root_field": "createCard", "nth": 1, "latency_ms": 600_000}]));
    let line = ["card", "import", "rows.csv", "--pipe", &pipe, "--key", "Subject", "--json"];
    let mut child = rig.command(&line).spawn().unwrap();
    wait_until(&mut child, || asked(&rig, "createCard") >= 1);
    let second = rig.run(&line);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(second.code == Some(2) && second.stderr.contains("Another import uses the journal"), "{second}");
}

/// Rows of the long import. `PIPEFY_TEST_ROWS=5000` plays the whole of it, which takes minutes on a busy machine.
#[allow(clippy::disallowed_methods)] // The length of the long test, for whoever runs it by hand.
fn many() -> u64 {
    std::env::var("PIPEFY_TEST_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000)
}

#[test]
fn thousands_of_rows_arrive_once_whatever_happens_on_the_way() {
    let rig = Rig::new();
    let pipe = rig.pipe("Contract Review");
    let before = cards(&rig, &pipe);
    let rows = many();
    let file: String = (0..rows).map(|row| format!("Contract {row:05},Somebody\n")).collect();
    std::fs::write(rig.home.path().join("rows.csv"), format!("Contract,Counterparty\n{file}")).unwrap();
    faults(
        &rig,
        json!([
            {"root_field": "createCard", "probability": 0.01, "status": 429, "retry_after": "0"},
            {"root_field": "createCard", "probability": 0.005, "drop": true, "after": true},
            {"root_field": "createCard", "probability": 0.005, "drop": true},
            {"root_field": "createCard", "probability": 0.005, "status": 503},
        ]),
    );
    let line =
        ["card", "import", "rows.csv", "--pipe", &pipe, "--key", "Contract", "--parallel", "8", "--format", "csv"];
    let mut child = rig.command(&line).spawn().unwrap();
    // Early, so that a quick machine has not made them all by then.
    wait_until(&mut child, || cards(&rig, &pipe) >= before + rows / 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(cards(&rig, &pipe) < before + rows, "it was killed too late");
    // What no look-up found when its answer was lost is settled by a later run.
    let mut run = rig.run(&line);
    for _ in 0..3 {
        assert!(run.stderr.contains(", 0 failed"), "{}", run.stderr);
        if run.code == Some(0) {
            break;
        }
        assert!(run.stderr.contains(" unknown"), "{}", run.stderr);
        run = rig.run(&line);
    }
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout.lines().count() as u64, rows + 1);

    // Read back, a row a line, as it comes.
    faults(&rig, json!([]));
    assert_eq!(cards(&rig, &pipe), before + rows);
    let run = rig.run(&["card", "export", "--pipe", &pipe, "--format", "ndjson"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut keys: Vec<String> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["Contract"].as_str().unwrap_or_default().to_owned())
        .filter(|key| key.len() == 14 && key.starts_with("Contract "))
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len() as u64, rows);
}

/// A row is out before the next page is asked for: memory does not grow with the pipe.
#[test]
fn an_export_writes_each_page_as_it_is_read() {
    use std::io::{BufRead as _, BufReader};
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    faults(&rig, json!([{"root_field": "cards", "nth": 2, "latency_ms": 600_000}]));
    for format in ["csv", "ndjson"] {
        let mut child = rig.command(&["card", "export", "--pipe", &pipe, "--format", format]).spawn().unwrap();
        let head = usize::from(format == "csv");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(50 + head).map(Result::unwrap);
        assert_eq!(lines.count(), 50 + head, "{format}");
        child.kill().unwrap();
        child.wait().unwrap();
        faults(&rig, json!([{"root_field": "cards", "nth": 2, "latency_ms": 600_000}]));
    }
}

#[test]
fn an_export_goes_on_where_it_broke_off() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let whole = rig.run(&["card", "export", "--pipe", &pipe, "--format", "csv"]);
    assert_eq!(whole.code, Some(0), "{whole}");
    faults(&rig, json!([{"root_field": "cards", "nth": 2, "graphql_error": "Not now"}]));
    let first = rig.run(&["card", "export", "--pipe", &pipe, "--format", "csv"]);
    assert_eq!(first.code, Some(1), "{first}");
    assert!(first.stderr.contains("hint: 50 rows are written; go on with --after "), "{first}");
    let cursor = first.stderr.trim().rsplit_once(' ').unwrap().1.to_owned();
    let rest = rig.run(&["card", "export", "--pipe", &pipe, "--format", "csv", "--after", &cursor]);
    assert_eq!(rest.code, Some(0), "{rest}");
    // Addresses of files are signed anew each time.
    let ids = |text: &str| text.lines().map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(&(first.stdout + &rest.stdout)), ids(&whole.stdout));
    let some = rig.run(&["card", "export", "--pipe", &pipe, "--format", "ndjson", "--max-items", "50"]);
    assert!(some.stdout.lines().count() == 50 && some.stderr.contains("there are more; go on with --after"), "{some}");
}

#[test]
fn a_file_that_does_not_fit_is_refused_before_anything_is_made() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    for (file, more, wanted) in [
        ("Subject,Nonsense\nx,y\n", &["--key", "Subject"][..], "no field for Nonsense"),
        ("Subject\nx\n", &["--key", "Subject"], "requires: Description, Channel"),
        (FILE, &[], "--key"),
        (FILE, &["--key", "nosuch"], "nosuch is no column"),
        ("Subject,Description,Channel\nx,y,Chat\nx,z,Chat\n", &["--key", "Subject"], "Rows 1 and 2"),
        ("", &["--key", "Subject"], "no rows"),
        ("Subject,Description,Channel\nx,y\n", &["--key", "Subject"], "rows.csv"),
        ("{\"subject\": \n", &["--key", "subject"], "line 1"),
    ] {
        std::fs::write(rig.home.path().join("rows.csv"), file).unwrap();
        let mut line = vec!["card", "import", "rows.csv", "--pipe", &pipe];
        line.extend(more);
        let run = rig.run(&line);
        assert_eq!(run.code, Some(2), "{file:?}\n{run}");
        assert!(run.stderr.contains(wanted), "{wanted}\n{run}");
    }
    let only = rig.run(&[
        "card",
        "export",
        "--pipe",
        &pipe,
        "--fields",
        "title,Channel",
        "--max-items",
        "2",
        "--format",
        "csv",
    ]);
    assert!(only.code == Some(0) && only.stdout.starts_with("title,Channel\r\n"), "{only}");
    assert_eq!(only.stdout.lines().count(), 3, "{only}");
    let run = rig.run(&["card", "import", "nosuch.csv", "--pipe", &pipe, "--key", "x"]);
    assert!(run.code == Some(2) && run.stderr.contains("nosuch.csv cannot be read"), "{run}");
}

#[test]
fn records_go_the_same_way() {
    let rig = Rig::new();
    let table = rig.run(&["table", "list", "--jq", ".. | objects | select(.name? == \"Customers\") | .id"]).stdout;
    let table = table.trim();
    assert!(!table.is_empty());
    let fields = rig.json(&["table", "get", table, "--json"])["table"]["table_fields"].clone();
    let text = fields.as_array().unwrap().iter().find(|field| field["type"] == "short_text").unwrap();
    let mut row = serde_json::Map::new();
    for field in fields.as_array().unwrap() {
        let id = field["id"].as_str().unwrap().to_owned();
        let value = match field["type"].as_str().unwrap() {
            "short_text" | "long_text" => "Import test".to_owned(),
            "email" => "import@test.example".to_owned(),
            "select" | "radio_vertical" | "radio_horizontal" => field["options"][0].as_str().unwrap().to_owned(),
            _ if field["required"] == true => "1".to_owned(),
            _ => continue,
        };
        row.insert(id, value.into());
    }
    let key = text["id"].as_str().unwrap();
    std::fs::write(rig.home.path().join("rows.json"), Value::from(vec![Value::Object(row)]).to_string()).unwrap();
    let line = ["record", "import", "rows.json", "--table", table, "--key", key, "--json"];
    let run = rig.run(&line);
    assert_eq!((run.code, results(&run)), (Some(0), vec!["created".to_owned()]), "{run}");
    assert_eq!(results(&rig.run(&line)), ["exists"]);
    let export = rig.run(&["record", "export", "--table", table, "--format", "csv"]);
    assert!(export.code == Some(0) && export.stdout.contains("Import test"), "{export}");
}
