//! Pipes as code: pulled, applied elsewhere, pulled again.

use serde_json::{Value, json};

use crate::rig::{Rig, Run};

const SEEDED: [&str; 5] =
    ["Purchase Requests", "Employee Onboarding", "Customer Support", "Vendas B2B - S\u{e3}o Paulo", "Contract Review"];

fn pull(rig: &Rig, pipe: &str) -> String {
    let run = rig.run(&["pipe", "pull", pipe]);
    assert_eq!(run.code, Some(0), "{run}");
    run.stdout
}

fn write(rig: &Rig, text: &str) {
    std::fs::write(rig.home.path().join("pipe.yaml"), text).unwrap();
}

fn body(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run}"))
}

/// Mutations that the sandbox has received so far.
fn mutations(rig: &Rig) -> Vec<String> {
    let url = format!("{}/_sandbox/requests", rig.url());
    let log: Value = rig.block_on(async { reqwest::get(url).await.unwrap().json().await.unwrap() });
    let entries = log.as_array().cloned().unwrap_or_else(|| log["requests"].as_array().unwrap().clone());
    let sent = entries.iter().filter(|entry| entry["operation"] == "mutation");
    sent.map(|entry| entry["root_fields"][0].as_str().unwrap().to_owned()).collect()
}

fn faults(rig: &Rig, rules: Value) {
    let url = format!("{}/_sandbox/faults", rig.url());
    let plan = json!({ "rules": rules });
    let answer = rig.block_on(async { reqwest::Client::new().post(url).json(&plan).send().await.unwrap() });
    assert!(answer.status().is_success());
}

fn organization(rig: &Rig, pipe: &str) -> String {
    let query = format!("{{ pipe(id: {pipe}) {{ organizationId }} }}");
    rig.json(&["graphql", "exec", "-q", &query, "--json"])["pipe"]["organizationId"].as_str().unwrap().to_owned()
}

/// A copy's code under the name of the original.
fn renamed(text: &str, from: &str, to: &str) -> String {
    text.replacen(&format!("  name: {from}\n"), &format!("  name: {to}\n"), 1)
}

/// Without the lines that name secrets: a copy has none, since they cannot be read.
fn without_secrets(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("  - the secret of the automation")).collect()
}

#[test]
fn every_seeded_pipe_is_the_same_after_pull_apply_pull() {
    let rig = Rig::new();
    let pulled: Vec<(&str, String, String)> = SEEDED
        .into_iter()
        .map(|name| {
            let id = rig.pipe(name);
            (name, pull(&rig, &id), organization(&rig, &id))
        })
        .collect();
    for (name, text, organization) in pulled {
        write(&rig, &text);
        let line = ["pipe", "apply", "pipe.yaml", "--name", "Copy", "--org", &organization, "--json"];
        let run = rig.run(&line);
        assert_eq!(run.code, Some(0), "{name}\n{run}");
        let copy = body(&run)["pipe_id"].as_str().unwrap().to_owned();
        let again = pull(&rig, &copy);
        assert_eq!(renamed(&without_secrets(&again), "Copy", name), without_secrets(&text), "{name}");

        // What is equal is told so, and applying it sends nothing.
        let before = mutations(&rig).len();
        let run = rig.run(&["pipe", "diff", "pipe.yaml", &copy, "--name", "Copy", "--json"]);
        assert_eq!((run.code, body(&run)["changes"].clone()), (Some(0), json!([])), "{run}");
        let run = rig.run(&line);
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(mutations(&rig).len(), before, "{name}\n{run}");
        let run = rig.run(&["pipe", "delete", &copy, "--yes"]);
        assert_eq!(run.code, Some(0), "{run}");
    }
}

/// A list that is not answered is none that is empty: whatever is in it would be made again.
#[test]
fn what_is_not_answered_is_a_failure() {
    let rig = Rig::new();
    let id = rig.pipe("Purchase Requests");
    write(&rig, &pull(&rig, &id));
    let org = organization(&rig, &id);
    let query = include_str!("../../../pipefy/graphql/pipes/get_pipe_configuration.graphql");
    let whole = rig.block_on(async {
        let request = reqwest::Client::new().post(format!("{}/graphql", rig.url()));
        let request = request.bearer_auth(pipefy_sandbox::DEFAULT_TOKEN);
        let request = request.json(&json!({ "query": query, "variables": { "pipe_id": id } }));
        request.send().await.unwrap().json::<Value>().await.unwrap()
    });
    let mut bad: Vec<(&str, Value)> = Vec::new();
    let lists = ["labels", "start_form_fields", "startFormFieldConditions", "phases", "parentsRelations"];
    let lists = lists.iter().map(|list| format!("/data/pipe/{list}"));
    let lists = lists.chain(
        ["childrenRelations", "phases/0/fields", "phases/0/fieldConditions", "id"]
            .map(|list| format!("/data/pipe/{list}")),
    );
    for list in lists {
        for answer in [Value::Null, json!({})] {
            let mut body = whole.clone();
            *body.pointer_mut(&list).unwrap_or_else(|| panic!("{list}")) = answer;
            bad.push(("pipe", body));
        }
    }
    let mut nameless = whole.clone();
    nameless["data"]["pipe"]["labels"][0]["id"] = Value::Null;
    bad.push(("pipe", nameless));
    let end = json!({"hasNextPage": false, "endCursor": null});
    for answer in [
        Value::Null,
        json!({}),
        json!([]),
        json!(7),
        json!({"nodes": null, "pageInfo": end}),
        json!({"nodes": [null], "pageInfo": end}),
        json!({"nodes": [{}], "pageInfo": end}),
        json!({"nodes": []}),
        json!({"nodes": [], "pageInfo": {"hasNextPage": true, "endCursor": null}}),
        json!({"nodes": [], "pageInfo": {"hasNextPage": true, "endCursor": "x"}}),
    ] {
        bad.push(("automations", json!({ "data": { "automations": answer } })));
    }
    for answer in [Value::Null, json!({}), json!({"id": "1"})] {
        bad.push(("automation", json!({ "data": { "automation": answer } })));
    }
    for (root, body) in bad {
        faults(&rig, json!([{ "root_field": root, "body": body.to_string() }]));
        for line in [
            &["pipe", "pull", &id][..],
            &["pipe", "diff", "pipe.yaml", &id],
            &["pipe", "apply", "pipe.yaml", &id, "--yes"],
        ] {
            let run = rig.run(line);
            assert!(run.code == Some(1) && run.stdout.is_empty(), "{root} {line:?} {body}\n{run}");
            assert!(run.stderr.contains("did not answer"), "{root} {line:?}\n{run}");
        }
        assert_eq!(mutations(&rig), Vec::<String>::new(), "{root}");
    }
    // Whether there is such a pipe already is known only from the list.
    for answer in [Value::Null, json!({}), json!([{}]), json!([{"id": org, "name": "O", "pipes": null}])] {
        let body = json!({ "data": { "organizations": answer } }).to_string();
        faults(&rig, json!([{ "root_field": "organizations", "body": body }]));
        for more in [&["--org", &org][..], &[]] {
            let run = rig.run(&[&["pipe", "apply", "pipe.yaml", "--name", "Another"], more].concat());
            assert!(run.code == Some(1) && run.stderr.contains("did not answer"), "{answer}\n{run}");
        }
        assert_eq!(mutations(&rig), Vec::<String>::new(), "{answer}");
    }
}

/// What Pipefy's schema does not take is said all at once, before anything is sent; what is there already passes.
#[test]
fn what_pipefy_does_not_take_is_named_before_anything_is_sent() {
    let rig = Rig::new();
    let id = rig.pipe("Contract Review");
    let org = organization(&rig, &id);
    let file = "form: 1\npipe: {name: New, color: mauve}\nlabels: [{name: L, color: reddish}]\n\
        start_form:\n  fields: [{label: F, type: shorttext}]\n  conditions: [{name: C, actions: []}, {name: D}]\n\
        phases: [{name: One, color: ultra}]\n";
    write(&rig, file);
    faults(&rig, json!([]));
    for line in [
        &["pipe", "apply", "pipe.yaml", "--org", &org][..],
        &["pipe", "apply", "pipe.yaml", "--org", &org, "--dry-run"],
        &["pipe", "apply", "pipe.yaml", &id, "--yes"],
        &["pipe", "apply", "pipe.yaml", &id, "--dry-run"],
    ] {
        let run = rig.run(line);
        assert!(run.code == Some(2) && run.stdout.is_empty(), "{line:?}\n{run}");
        for wanted in [
            "the color mauve is none of",
            "label L: the color reddish",
            "field Start form / F: the type shorttext",
            "condition Start form / C: it needs",
            "condition Start form / D: it needs",
            "phase One: the color ultra",
        ] {
            assert!(run.stderr.contains(wanted), "{wanted} {line:?}\n{run}");
        }
        assert_eq!(mutations(&rig), Vec::<String>::new(), "{line:?}");
    }
}

/// However deeply a file is nested, it is refused and nothing breaks.
#[test]
fn a_file_that_is_too_deep_is_refused() {
    let rig = Rig::bare();
    for text in ["- ".repeat(20_000), "? ".repeat(30_000), "[".repeat(30_000)] {
        write(&rig, &text);
        let run = rig.run(&["--sandbox", "pipe", "diff", "pipe.yaml", "name:Contract Review"]);
        // Brackets are counted by the scanner itself.
        let told = run.stderr.contains("nested in more than") || run.stderr.contains("recursion limit exceeded");
        assert!(run.code == Some(2) && told, "{run}");
    }
}

#[test]
fn each_kind_of_difference_is_found_and_made() {
    let rig = Rig::new();
    let id = rig.pipe("Purchase Requests");
    let edits: [(&str, &str, &str); 23] = [
        ("  icon: cart\n  color: blue\n", "  icon: cart\n  color: green\n", "change pipe pipe color: blue -> green"),
        ("    color: \"#2E90FA\"", "    color: \"#000000\"", "change label IT"),
        ("  - name: Recurring\n    color: \"#12B76A\"\n", "", "remove label Recurring"),
        ("  - name: IT\n", "  - name: New\n    color: \"#111111\"\n  - name: IT\n", "add label New"),
        ("  - name: IT\n", "  - name: Tech\n    was: IT\n", "rename label Tech from IT"),
        (
            "      required: true\n      help: \"In BRL, with taxes\"\n",
            "      required: true\n",
            "change field Start form / Estimated cost help",
        ),
        (
            "    - label: Justification\n      type: long_text\n",
            "    - label: Justification\n      type: long_text\n      description: Why\n",
            "change field Start form / Justification description",
        ),
        ("        - Normal\n", "        - Normal\n        - Very high\n", "change field Start form / Urgency options"),
        (
            "    - label: Needed until\n",
            "    - label: Wanted until\n      was: Needed until\n",
            "rename field Start form / Wanted until",
        ),
        (
            "    - label: How buying works\n",
            "    - label: Extra\n      type: number\n    - label: How buying works\n",
            "add field Start form / Extra",
        ),
        (
            "    - label: Extra\n      type: number\n",
            "    - label: Extra\n      type: currency\n",
            "replace field Start form / Extra",
        ),
        (
            "    - label: Requester e-mail\n      type: email\n    - label: Extra\n      type: currency\n",
            "    - label: Extra\n      type: currency\n    - label: Requester e-mail\n      type: email\n",
            "reorder field Start form",
        ),
        ("    - label: Extra\n      type: currency\n", "", "remove field Start form / Extra"),
        (
            "            operation: equals\n            value: Low\n",
            "            operation: not_equals\n            value: High\n",
            "change condition Start form / No justification",
        ),
        ("  - name: Approval\n", "  - name: Review\n    was: Approval\n", "rename phase Review from Approval"),
        ("    late_after_seconds: 172800\n", "", "change phase Triage late_after_seconds: 172800 -> none"),
        (
            "    takes_new_cards: true\n",
            "    takes_new_cards: true\n    description: First look\n",
            "change phase Triage description",
        ),
        ("  - name: Order\n", "  - name: Between\n  - name: Order\n", "add phase Between"),
        (
            "  - name: Rejected\n    done: true\n    color: blue\n    takes_new_cards: false\n",
            "",
            "remove phase Rejected",
        ),
        (
            "    - name: Delivery problems\n      pipe: Customer Support\n",
            "    - name: Delivery problems\n      pipe: Customer Support\n      can_create_new: false\n",
            "change connection children / Delivery problems",
        ),
        (
            "    event: field_updated\n",
            "    active: false\n    event: field_updated\n",
            "change automation Move approved",
        ),
        (
            "    event: card_moved\n    action: send_email_template\n    event_params:\n      to_phase: Delivered\n",
            "    event: card_created\n    action: send_email_template\n",
            "change automation Tell the requester",
        ),
        ("          value: Approved\n", "          value: Needs information\n", "change automation Move approved"),
    ];
    let mut text = pull(&rig, &id);
    for (from, to, wanted) in edits {
        let from = from.replace("Approval / ", if text.contains("name: Review") { "Review / " } else { "Approval / " });
        assert!(text.contains(&from), "{from}\n{text}");
        let mut edited = text.replacen(&from, to, 1);
        if wanted.starts_with("rename phase") {
            edited = edited.replace("Approval / ", "Review / ");
        }
        write(&rig, &edited);
        let run = rig.run(&["pipe", "diff", "pipe.yaml", &id, "--json"]);
        assert_eq!(run.code, Some(2), "{wanted}\n{run}");
        let changes = body(&run)["changes"].as_array().unwrap().clone();
        let line = |row: &Value| {
            ["change", "what", "name", "detail"].map(|key| row[key].as_str().unwrap().to_owned()).join(" ")
        };
        assert!(changes.len() == 1 && line(&changes[0]).starts_with(wanted), "{wanted}\n{run}");
        let run = rig.run(&["pipe", "apply", "pipe.yaml", &id, "--yes"]);
        assert_eq!(run.code, Some(0), "{wanted}\n{run}");
        text = pull(&rig, &id);
        write(&rig, &text);
        assert!(!text.contains("was:"), "{text}");
    }
    // Whole things go too.
    for (from, until, wanted) in [
        ("  conditions:\n", "phases:\n", "remove condition"),
        ("connections:\n", "automations:\n", "remove connection"),
        ("automations:\n", "not_covered:\n", "remove automation"),
    ] {
        let (before, rest) = text.split_once(from).unwrap();
        let (_, after) = rest.split_once(until).unwrap();
        let edited = format!("{before}{until}{after}");
        write(&rig, &edited);
        let run = rig.run(&["pipe", "diff", "pipe.yaml", &id]);
        assert!(run.code == Some(2) && run.stdout.contains(wanted.split_once(' ').unwrap().1), "{wanted}\n{run}");
        assert_eq!(rig.run(&["pipe", "apply", "pipe.yaml", &id, "--yes"]).code, Some(0));
        text = pull(&rig, &id);
        assert_eq!(text, edited);
    }
}

#[test]
fn an_apply_that_broke_off_is_run_again() {
    let rig = Rig::new();
    let id = rig.pipe("Purchase Requests");
    let organization = organization(&rig, &id);
    write(&rig, &pull(&rig, &id));
    let line = ["pipe", "apply", "pipe.yaml", "--name", "Copy", "--org", &organization, "--json"];
    // Each time something is made and its answer is lost, or is not made.
    for (root, nth, after) in [
        ("createPipe", 1, true),
        ("createPhase", 3, true),
        ("createPhaseField", 4, true),
        ("createPhaseField", 2, false),
        ("createFieldCondition", 1, true),
        ("createAutomation", 1, true),
        ("deletePhase", 1, true),
    ] {
        faults(&rig, json!([{"root_field": root, "nth": nth, "drop": true, "after": after}]));
        let run = rig.run(&line);
        assert_eq!(run.code, Some(1), "{root}\n{run}");
    }
    faults(&rig, json!([]));
    let run = rig.run(&line);
    assert_eq!(run.code, Some(0), "{run}");
    let copy = body(&run)["pipe_id"].as_str().unwrap().to_owned();
    assert_eq!(renamed(&pull(&rig, &copy), "Copy", "Purchase Requests"), pull(&rig, &id));
}

#[test]
fn nothing_is_lost_unasked() {
    let rig = Rig::new();
    let id = rig.pipe("Purchase Requests");
    let text = pull(&rig, &id);
    write(&rig, &text.replacen("    - label: Justification\n      type: long_text\n", "", 1).replacen(
        "  conditions:\n    - name: No justification for small things\n      when:\n        - - field: Start form / Urgency\n            operation: equals\n            value: Low\n      actions:\n        - action: hide\n          field: Start form / Justification\n",
        "",
        1,
    ));
    let before = mutations(&rig).len();
    let run = rig.run(&["pipe", "apply", "pipe.yaml", &id]);
    assert!(run.code == Some(2) && run.stderr.contains("field Start form / Justification"), "{run}");
    assert!(run.stderr.contains("--yes"), "{run}");
    let run = rig.run(&["pipe", "apply", "pipe.yaml", &id, "--dry-run"]);
    assert!(
        run.code == Some(0) && run.stdout.contains("Justification") && run.stderr.contains("nothing was sent"),
        "{run}"
    );
    let run = rig.run(&["--read-only", "pipe", "apply", "pipe.yaml", &id, "--yes"]);
    assert!(run.code != Some(0), "{run}");
    assert_eq!(mutations(&rig).len(), before);
    assert_eq!(pull(&rig, &id), text);
}

#[test]
fn another_organization_has_what_the_file_names_or_nothing_is_made() {
    let rig = Rig::new();
    let (support, contracts) = (rig.pipe("Customer Support"), rig.pipe("Contract Review"));
    let (main, labs) = (organization(&rig, &support), organization(&rig, &contracts));
    write(&rig, &pull(&rig, &support));
    let before = mutations(&rig).len();
    let run = rig.run(&["pipe", "apply", "pipe.yaml", "--org", &labs]);
    assert!(run.code == Some(2) && run.stderr.contains("no table called Customers"), "{run}");
    assert_eq!(mutations(&rig).len(), before);
    let text = pull(&rig, &contracts);
    write(&rig, &text);
    let run = rig.run(&["pipe", "apply", "pipe.yaml", "--org", &main, "--json"]);
    assert_eq!(run.code, Some(0), "{run}");
    let copy = body(&run)["pipe_id"].as_str().unwrap().to_owned();
    assert_eq!((pull(&rig, &copy), organization(&rig, &copy)), (text, main));
    // Of two pipes of one name none is meant.
    let run = rig.run(&["pipe", "diff", "pipe.yaml"]);
    assert!(run.code == Some(2) && run.stderr.contains("2 pipes are called Contract Review"), "{run}");
}

#[test]
fn a_file_that_cannot_be_meant_is_refused() {
    let rig = Rig::new();
    let id = rig.pipe("Contract Review");
    let text = pull(&rig, &id);
    for (from, to, wanted) in [
        ("form: 1", "form: 7", "form 7"),
        ("type: currency", "kind: currency", "nothing called kind"),
        (
            "  - name: Signed\n",
            "  - name: Signed\n    conditions:\n      - name: C\n        when:\n          - - field: Nowhere\n              operation: present\n        actions: []\n",
            "condition Signed / C: there is no field \"Nowhere\"",
        ),
    ] {
        write(&rig, &text.replacen(from, to, 1));
        let run = rig.run(&["pipe", "apply", "pipe.yaml", &id, "--yes"]);
        assert!(run.code == Some(2) && run.stderr.contains(wanted), "{wanted}\n{run}");
    }
    let run = rig.run(&["pipe", "diff", "nosuch.yaml", &id]);
    assert!(run.code == Some(2) && run.stderr.contains("nosuch.yaml cannot be read"), "{run}");
    // A pipe goes through a pipe of the shell.
    let run = rig.run_with(&["pipe", "diff", "-", &id], &text);
    assert_eq!(run.code, Some(0), "{run}");
}
