//! List, get, create, move and delete over a real socket.

use serde_json::json;

use crate::rig::Rig;
use crate::transcript;

/// A pipe with its phases, and a card made there.
struct Desk {
    rig: Rig,
    pipe: String,
    phases: Vec<String>,
    card: String,
}

fn desk() -> Desk {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let shown = rig.json(&["pipe", "get", &pipe, "--json"]);
    let phases = shown["pipe"]["phases"].as_array().unwrap();
    let phases = phases.iter().map(|phase| phase["id"].as_str().unwrap().to_owned()).collect();
    let listed = rig.json(&["card", "list", "--pipe", &pipe, "--first", "1", "--json"]);
    let card = listed["cards"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
    Desk { rig, pipe, phases, card }
}

#[test]
fn organizations_are_a_list_for_programs_and_a_table_for_people() {
    let rig = Rig::new();
    let organizations = rig.json(&["org", "list", "--json"]);
    assert!(organizations.as_array().is_some_and(|list| list.len() == 2), "{organizations}");
    let run = rig.run(&["org", "list", "--json"]);
    assert!(run.stdout.is_ascii() && run.stdout.contains("Ind\\u00fastria"), "{run}");
    let run = rig.run(&["org", "list"]);
    let header = run.stdout.lines().next().unwrap();
    assert!(header.starts_with("id\tuuid\tname\t"), "{run}");
    assert!(run.stdout.contains("Ind\u{fa}stria"), "{run}");
}

#[test]
fn a_card_is_found_moved_and_deleted() {
    let Desk { rig, pipe, phases, card } = desk();
    let shown = rig.json(&["card", "get", &card, "--include-fields", "-j"]);
    assert_eq!(shown["card"]["id"], json!(card));
    let from = shown["card"]["current_phase"]["id"].as_str().unwrap().to_owned();
    let targets = rig.json(&[
        "graphql",
        "exec",
        "-q",
        "query($id: ID!) { phase(id: $id) { cards_can_be_moved_to_phases { id } } }",
        "--vars",
        &json!({ "id": from }).to_string(),
        "-j",
    ]);
    let to = targets["phase"]["cards_can_be_moved_to_phases"][0]["id"].as_str().unwrap().to_owned();
    assert!(phases.contains(&to));
    let run = rig.run(&["card", "move", &card, "--phase", &to, "--verify", "--json"]);
    if run.code == Some(0) {
        assert!(run.stderr.starts_with("verified: "), "{run}");
        let shown = rig.json(&["card", "get", &card, "--json"]);
        assert_eq!(shown["card"]["current_phase"]["id"], json!(to));
    } else {
        // A required field of the phase is empty: the refusal says which.
        assert!(run.stderr.contains("required"), "{run}");
    }

    let plan = rig.json(&["card", "delete", &card, "--dry-run", "--json"]);
    assert_eq!((&plan["dry_run"], &plan["success"]), (&json!(true), &json!(true)));
    let run = rig.run(&["card", "delete", &card]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stdout.is_empty() && run.stderr.contains("--yes"), "{run}");
    assert_eq!(rig.json(&["card", "get", &card, "--json"])["card"]["id"], json!(card));

    let run = rig.run(&["card", "delete", &card, "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let run = rig.run(&["card", "get", &card]);
    assert_eq!(run.code, Some(1), "{run}");
    let listed = rig.json(&["card", "list", "--pipe", &pipe, "--all", "--fields", "id", "--json"]);
    assert!(!listed.to_string().contains(&format!("\"{card}\"")), "{listed}");
}

#[test]
fn a_list_is_read_to_its_end_with_all() {
    let Desk { rig, pipe, .. } = desk();
    let one = rig.json(&["card", "list", "--pipe", &pipe, "--first", "2", "--json"]);
    assert_eq!(one["cards"]["edges"].as_array().unwrap().len(), 2);
    let run = rig.run(&["card", "list", "--pipe", &pipe, "--first", "2", "--all", "--max-items", "3", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("3 items read, and there are more") && run.stderr.contains("--after"), "{run}");
    let all = rig.json(&["card", "list", "--pipe", &pipe, "--first", "2", "--all", "--json"]);
    assert!(all["cards"]["edges"].as_array().unwrap().len() > 4);
}

#[test]
fn a_card_that_is_not_there_is_a_failure_with_advice() {
    let rig = Rig::new();
    transcript!(rig.run(&["card", "get", "999999999"]), @"
    exit code: 1
    ----- stdout
    ----- stderr
    Card not found (ID: 999999999). Find the right one with `pipefy card find` or `pipefy card list`.
    Pipefy said: Card not found with id: 999999999 (RESOURCE_NOT_FOUND)
    ");
}

#[test]
fn any_capability_can_be_called_by_name() {
    let Desk { rig, card, .. } = desk();
    let arguments = json!({ "card_id": card }).to_string();
    let shown = rig.json(&["tools", "call", "get_card", "--args", &arguments, "--json"]);
    assert_eq!(shown["card"]["id"], json!(card));
    let run = rig.run(&["tools", "call", "delete_card", "--args", &arguments]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--yes"), "{run}");
    let run = rig.run(&["tools", "call", "delete_card", "--args", &arguments, "-y", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let run = rig.run(&["tools", "call", "get_card", "--args", "{}"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("missing required argument 'card_id'"), "{run}");
}

#[test]
fn written_mutations_need_a_yes() {
    let Desk { rig, card, .. } = desk();
    let mutation = format!("mutation {{ deleteCard(input: {{ id: \"{card}\" }}) {{ success }} }}");
    let run = rig.run(&["graphql", "exec", "-q", &mutation]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--yes"), "{run}");
    let done = rig.json(&["graphql", "exec", "-q", &mutation, "--yes", "--json"]);
    assert_eq!(done["deleteCard"]["success"], json!(true));
    let run = rig.run(&["graphql", "exec", "-q", "{ card(id: \"999999999\") { id } }", "--json"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("\"errors\""), "{run}");
}
