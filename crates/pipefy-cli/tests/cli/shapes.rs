//! The shape of results: what scripts read.

use serde_json::Value;

use crate::rig::Rig;

/// The value at a dotted path; numbers index lists.
fn dig<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| match key.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(key),
    })
}

fn text(value: &Value, path: &str) -> String {
    dig(value, path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {value:#}")).to_owned()
}

/// Runs a command with `--json` and expects these paths in its result.
fn expect(rig: &Rig, line: &[&str], paths: &[&str]) -> Value {
    let line: Vec<&str> = line.iter().copied().chain(["--json"]).collect();
    let value = rig.json(&line);
    for path in paths {
        assert!(dig(&value, path).is_some(), "{line:?} lacks {path}:\n{value:#}");
    }
    value
}

#[test]
fn cards_phases_and_comments_print_what_pipefy_answers() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let found = expect(&rig, &["pipe", "get", &pipe], &["pipe.phases.0.id", "pipe.labels", "pipe.start_form_fields"]);
    let phase = text(&found, "pipe.phases.0.id");
    let listed = expect(&rig, &["card", "list", "--pipe", &pipe], &["cards.edges.0.node.title", "cards.pageInfo"]);
    let card = text(&listed, "cards.edges.0.node.id");
    expect(&rig, &["pipe", "list", "--name", "support"], &["organizations.0.pipes.0.match_score"]);
    expect(&rig, &["pipe", "start-form", &pipe], &["start_form_fields.0.type"]);
    expect(&rig, &["phase", "get", &phase], &["phase_id", "phase_name", "fields"]);
    expect(&rig, &["phase", "targets", &phase], &["phase.cards_can_be_moved_to_phases.0.id"]);
    expect(&rig, &["phase", "count", &phase], &["cards_count"]);
    expect(&rig, &["card", "update", &card, "--title", "New"], &["updateCard.card.id"]);
    expect(&rig, &["relation", "card", "list", &card], &["card.child_relations", "card.parent_relations"]);
    expect(&rig, &["label", "list", "--pipe", &pipe], &["success", "message", "labels.0.id"]);
    let made = expect(&rig, &["card", "comment", "add", &card, "hello"], &[]);
    let comment = text(&made, "createComment.comment.id");
    expect(&rig, &["card", "comment", "update", &comment, "hi"], &["updateComment.comment.id"]);
    expect(&rig, &["card", "comment", "delete", &comment, "-y"], &["deleteComment.success"]);
    let made = expect(&rig, &["label", "create", "--pipe", &pipe, "--name", "L", "--color", "#abc"], &[]);
    assert_eq!(text(&made, "createLabel.label.color"), "#AABBCC");
    expect(&rig, &["card", "delete", &card, "-y"], &["deleteCard.success"]);
}

#[test]
fn what_a_command_did_otherwise_is_said() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let phase = text(&rig.json(&["pipe", "get", &pipe, "-j"]), "pipe.phases.0.id");
    let run = rig.run(&["phase", "update", &phase, "--description", "d", "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("pipefy phase targets"), "{run}");
    for (line, wanted) in [
        (
            &["label", "create", "--pipe", "1", "--name", "L", "--color", "red"][..],
            "expected #RGB or #RRGGBB hex color, received red",
        ),
        (&["pipe", "update", "1", "--preferences", "{}"], "at least one of"),
        (&["record", "find", "--table", "1", "--filter", "{\"field_id\": \"x\"}"], "both field_id and field_value"),
        (&["record", "update", "1", "--value", "1"], "--field-id"),
        (
            &["attachment", "upload", "--file", "no.txt", "--card", "1", "--org", "1", "--field", "f"],
            "no.txt cannot be read",
        ),
        (
            &["attachment", "upload", "--file", "no.txt", "--org", "1", "--field", "f"],
            "exactly one of --card and --record",
        ),
        (&["automation", "logs"], "exactly one of --automation and --repo"),
    ] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(2), "{line:?}\n{run}");
        assert!(run.stderr.contains(wanted), "{line:?}\n{run}");
    }
}

#[test]
fn automations_are_a_page_for_programs_and_a_table_for_people() {
    let rig = Rig::new();
    let pipe = rig.pipe("Purchase Requests");
    let page = expect(&rig, &["automation", "list", "--pipe", &pipe], &["totalCount", "pageInfo.hasNextPage"]);
    let id = text(&page, "nodes.0.id");
    let run = rig.run(&["automation", "list", "--pipe", &pipe]);
    assert!(run.stdout.starts_with("id\tname\tactive\taction_id\tactionEnabled\tdisabledReason\tevent_id\n"), "{run}");
    let last = format!("totalCount={} hasNextPage=False endCursor=", page["totalCount"]);
    assert!(run.stdout.lines().last().unwrap().starts_with(&last), "{run}");
    expect(&rig, &["automation", "get", &id], &["success", "message", "data.action_id"]);
    expect(&rig, &["automation", "update", &id, "--extra", "{\"name\": \"N\"}"], &["updateAutomation.automation.name"]);
    expect(&rig, &["ai-automation", "list", "--pipe", &pipe], &["success", "data", "message", "pagination.page_size"]);
    let run = rig.run(&["automation", "delete", &id, "-y", "--json"]);
    assert_eq!(run.stdout, "{\n  \"success\": true\n}\n", "{run}");
}

#[test]
fn behaviors_are_checked_before_an_agent_is_made() {
    let rig = Rig::new();
    let pipe = rig.pipe("Purchase Requests");
    let uuid = text(&rig.json(&["pipe", "get", &pipe, "-j"]), "pipe.uuid");
    let behaviors = "[{\"name\": \"x\"}, \"dropped\"]";
    let run =
        rig.run(&["agent", "validate-behaviors", "--pipe", &pipe, "--behaviors", "[{\"name\": \"x\"}]", "--json"]);
    assert_eq!(run.code, Some(1), "{run}");
    let checked: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(checked["problems"].is_array(), "{checked:#}");
    assert_eq!(checked["valid"], Value::Bool(false));
    let line =
        ["agent", "create", "--repo-uuid", &uuid, "--name", "A", "--instruction", "I", "--pipe", &pipe, "--behaviors"];
    let create = |behaviors: &str| {
        let line: Vec<&str> = line.iter().copied().chain([behaviors]).collect();
        rig.run(&line)
    };
    let run = create(behaviors);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("validate-behaviors failed") && run.stderr.contains("\n- behaviors.0"), "{run}");
    let run = create("[1]");
    assert!(run.code == Some(2) && run.stderr.contains("at least one object"), "{run}");
    assert_eq!(rig.json(&["agent", "list", "--repo", &uuid, "--json"])["agents"].as_array().unwrap().len(), 0);
}

#[test]
fn a_secret_is_printed_once_and_members_are_counted() {
    let rig = Rig::new();
    let organization = text(&rig.json(&["org", "list", "--json"]), "0.uuid");
    let made = expect(
        &rig,
        &["service-account", "create", "--org", &organization, "--name", "bot"],
        &["createServiceAccount.serviceAccount.client.secret"],
    );
    let uuid = text(&made, "createServiceAccount.serviceAccount.uuid");
    let run = rig.run(&["service-account", "delete", "--org", &organization, "--id", &uuid]);
    assert!(run.code == Some(2) && run.stderr.contains(&format!("permanently delete service account {uuid}")), "{run}");
    expect(
        &rig,
        &["service-account", "delete", "--org", &organization, "--id", &uuid, "-y"],
        &["success", "deleteServiceAccount.success"],
    );
    let run = rig.run(&["member", "remove", "--pipe", "7", "--user-ids", "1, 2 3"]);
    assert!(run.stderr.contains("permanently remove 3 members from pipe 7"), "{run}");
}

#[test]
fn who_is_signed_in_is_said_by_the_api() {
    let rig = Rig::new();
    let status = expect(&rig, &["auth", "status"], &["detected_sources", "masking_env_vars"]);
    assert_eq!(text(&status, "identity.email"), "ana.souza@aurora.example");
    assert_eq!(text(&status, "auth_source"), "env-token");
    let run = rig.run(&["auth", "status"]);
    assert!(run.stdout.contains("Identity:      ana.souza@aurora.example (Ana Souza)"), "{run}");
    let stranger = Rig::new().with_token("no such token");
    let run = stranger.run(&["auth", "status", "--json"]);
    assert_eq!(run.code, Some(1), "{run}");
    let status: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&status["token_rejected"], &status["identity"]), (&Value::Bool(true), &Value::Null));
    let run = Rig::bare().run(&["auth", "status"]);
    assert!(run.code == Some(2) && run.stdout.starts_with("Not signed in."), "{run}");
    let run = Rig::bare().run(&["auth", "logout"]);
    assert!(run.code == Some(0) && run.stdout == "Not signed in. Nothing to do.\n", "{run}");
}
