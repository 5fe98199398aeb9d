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
    let rows = [
        json!({"subject": "One", "description": "a", "channel": "Chat"}),
        json!({"subject": "", "description": "b", "channel": "Chat"}),
        json!({"subject": "Three", "description": "c", "channel": "Pigeon"}),
        json!({"subject": "Four", "description": "d", "channel": "Portal"}),
    ];
    let lines = rows.map(|row| row.to_string()).join("\n");
    let run = rig.run_with(&["card", "import", "-", "--pipe", &pipe, "--key", "subject", "--json"], &lines);
    assert_eq!(run.code, Some(1), "{run}");
    let results = results(&run);
    assert_eq!(
        (results[0].as_str(), results[1].as_str(), results[3].as_str()),
        ("created", "failed", "created"),
        "{run}"
    );
    assert!(run.stdout.contains("the key is blank"), "{run}");
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
