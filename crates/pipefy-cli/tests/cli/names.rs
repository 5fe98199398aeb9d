//! Names in the place of ids, and ids of the wrong kind.

use crate::rig::Rig;

#[test]
fn a_name_stands_for_an_id() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let by_name = rig.json(&["pipe", "get", "name:customer support", "--json"]);
    assert_eq!(by_name["pipe"]["id"], pipe.as_str());
    let called =
        rig.json(&["tools", "call", "get_pipe", "--args", "{\"pipe_id\": \"name:Customer Support\"}", "--json"]);
    assert!(called.to_string().contains(&pipe), "{called}");
    let phase = &by_name["pipe"]["phases"][0];
    let found =
        rig.json(&["phase", "get", &format!("name:Customer Support/{}", phase["name"].as_str().unwrap()), "--json"]);
    assert!(!found.is_null());
    let cards = rig.json(&["card", "list", "--pipe", "name:Customer Support", "--first", "1", "--json"]);
    let card = &cards["cards"]["edges"][0]["node"];

    // A deletion asks about the thing, not about its name.
    let title = card["title"].as_str().unwrap();
    let same = rig.json(&[
        "card",
        "list",
        "--pipe",
        &pipe,
        "--title",
        title,
        "--format",
        "json",
        "--jq",
        "[.cards.edges[].node.title]",
    ]);
    let name = format!("name:Customer Support/{title}");
    let run = rig.run(&["card", "delete", &name]);
    assert_eq!(run.code, Some(2), "{run}");
    match same.as_array().unwrap().iter().filter(|other| *other == title).count() {
        1 => assert!(run.stderr.contains(&format!("delete card {}", card["id"].as_str().unwrap())), "{run}"),
        _ => assert!(run.stderr.contains("Give the id"), "{run}"),
    }
}

#[test]
fn a_name_that_fits_nothing_or_two_things_is_an_error() {
    let rig = Rig::new();
    for (line, wanted) in [
        (&["pipe", "get", "name:Custmer Support"][..], "did you mean Customer Support ("),
        (&["pipe", "get", "name:qqqq"], "no pipe of the name qqqq"),
        (&["webhook", "list", "--pipe", "name:qqqq"], "no pipe"),
        (&["phase", "get", "name:Doing"], "name:<pipe>/<phase>"),
    ] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(2), "{line:?}\n{run}");
        assert!(run.stderr.contains(wanted), "{line:?}\n{run}");
    }
    let organization = rig.json(&["org", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    rig.json(&["pipe", "create", "Customer Support", "--org", &organization, "--json"]);
    let run = rig.run(&["pipe", "get", "name:Customer Support"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("2 things are the pipe") && run.stderr.contains("Give the id"), "{run}");
}

#[test]
fn an_id_of_another_kind_is_named() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let run = rig.run(&["card", "get", &pipe]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains(&format!("hint: {pipe} is a pipe (Customer Support); `pipefy pipe get {pipe}`")),
        "{run}"
    );
    // A number, a uuid and a short text; where nothing of the kind could be listed too.
    let organization = &rig.json(&["org", "list", "--json"])[0];
    let uuid = organization["uuid"].as_str().unwrap();
    let card = rig.run(&["card", "list", "--pipe", &pipe, "--first", "1", "--format", "ids"]).stdout.trim().to_owned();
    let table = rig.run(&["table", "list", "--format", "ids"]).stdout.lines().next().unwrap().to_owned();
    for (line, wanted) in [
        (["pipe", "get", uuid], format!("{uuid} is an organization")),
        (["agent", "get", &pipe], format!("{pipe} is a pipe (Customer Support)")),
        (["record", "get", &card], format!("{card} is a card")),
        (["card", "get", &table], format!("{table} is a table")),
    ] {
        let run = rig.run(&line);
        assert!(run.stderr.contains(&format!("hint: {wanted}")), "{line:?}\n{run}");
    }
    let run = rig.run(&["card", "get", "999999999"]);
    assert!(!run.stderr.contains("hint:"), "{run}");
}

/// Every kind of thing that has a name in Pipefy goes by it, wherever a command takes its id.
#[test]
fn every_kind_of_thing_goes_by_its_name() {
    let rig = Rig::new();
    let labs = rig.json(&["org", "get", "name:Aurora Labs", "--json"]);
    let (uuid, id) = (labs["uuid"].as_str().unwrap(), labs["id"].as_str().unwrap());
    let portal = rig.json(&["portal", "create", "--organization-uuid", "name:aurora labs", "--json"]);
    assert!(!portal.is_null(), "{portal}");
    let contract = rig.pipe("Contract Review");
    let pipes = format!("[\"{contract}\"]");
    rig.json(&["report-org", "create", "--org", id, "--name", "Weekly", "--pipe-ids", &pipes, "--json"]);
    let automation = rig.json(&["automation", "list", "--pipe", "name:Customer Support", "--json"]);
    let automation = automation["nodes"][0]["name"].as_str().unwrap().to_owned();
    let portals = rig.json(&["portal", "list", "--organization-uuid", "name:Aurora Labs", "--json"]);
    let portal = (portals[0]["name"].as_str().unwrap(), portals[0]["id"].as_str().unwrap());
    let agent = "name:Customer Support/Ticket triage";
    let lines: [(&str, Vec<&str>, &str); 26] = [
        ("organization", vec!["org", "get", "name:Aurora Labs"], uuid),
        ("organization uuid", vec!["portal", "list", "--organization-uuid", "name:Aurora Labs"], portal.0),
        ("pipe", vec!["pipe", "get", "name:Contract Review"], &contract),
        ("pipe uuid", vec!["report-pipe", "list", "--pipe", "name:Customer Support"], "First priority"),
        (
            "several pipes",
            vec![
                "report-org",
                "create",
                "--org",
                "name:Aurora Labs",
                "--name",
                "R",
                "--pipe-ids",
                "[\"name:Contract Review\"]",
                "--dry-run",
            ],
            &contract,
        ),
        ("pipe or table", vec!["email", "template", "list", "--repo", "name:Purchase Requests"], "edges"),
        ("repo uuid", vec!["agent", "list", "--repo", "name:Customer Support"], "Ticket triage"),
        ("table", vec!["table", "get", "name:Customers"], "Customers"),
        ("several tables", vec!["table", "list", "--ids", "name:Customers"], "Customers"),
        ("phase", vec!["phase", "get", "name:Customer Support/New"], "New"),
        (
            "label",
            vec!["label", "update", "name:Customer Support/Bug", "--name", "B", "--color", "#fff", "--dry-run"],
            "310015329",
        ),
        ("card", vec!["card", "get", "name:Customer Support/Cannot log in"], "Cannot log in"),
        ("field", vec!["field", "delete", "name:Customer Support/Channel", "--dry-run"], "variables"),
        (
            "field of a named pipe",
            vec![
                "card",
                "find",
                "--pipe",
                "name:Customer Support",
                "--field",
                "name:Channel",
                "--value",
                "Chat",
                "--first",
                "1",
            ],
            "title",
        ),
        (
            "field condition",
            vec!["field-condition", "get", "name:Purchase Requests/No justification for small things"],
            "No justification",
        ),
        (
            "connection",
            vec!["relation", "pipe", "delete", "name:Purchase Requests/Delivery problems", "--dry-run"],
            "922734",
        ),
        ("AI agent", vec!["agent", "get", agent], "Ticket triage"),
        (
            "report",
            vec!["report-pipe", "get", "--pipe", "name:Customer Support", "--report-id", "name:First priority"],
            "First priority",
        ),
        ("report of an organization", vec!["report-org", "get", "name:Weekly"], "Weekly"),
        ("webhook", vec!["webhook", "delete", "name:Customer Support/Chat alerts", "--dry-run"], "911619"),
        (
            "knowledge base",
            vec!["kb", "plain-text", "get", "--pipe-uuid", "name:Customer Support", "--id", "name:Return policy"],
            "Return policy",
        ),
        (
            "person",
            vec![
                "card",
                "update",
                "name:Customer Support/Cannot log in",
                "--assignee-ids",
                "name:Customer Support/Ana Souza,302035916",
                "--dry-run",
            ],
            "302035913",
        ),
        (
            "person by address",
            vec![
                "member",
                "set-role",
                "--pipe",
                "name:Customer Support",
                "--member",
                "name:bruno.lima@aurora.example",
                "--role",
                "admin",
                "--dry-run",
            ],
            "302035916",
        ),
        (
            "provider",
            vec![
                "ai-provider",
                "dependencies",
                "--org-uuid",
                "name:Aurora Ind\u{fa}stria & Servi\u{e7}os",
                "--provider-id",
                "name:Aurora OpenAI",
            ],
            "success",
        ),
        (
            "field of a table",
            vec!["table", "field", "delete", "name:Company", "--table", "name:Customers", "--dry-run"],
            "company",
        ),
        ("record", vec!["record", "get", "name:Customers/Mercado Bom Pre\u{e7}o"], "Mercado"),
    ];
    for (what, line, wanted) in lines {
        let run = rig.run(&[&line[..], &["--json"]].concat());
        assert!(run.code == Some(0) && run.stdout.contains(wanted), "{what}: {line:?} lacks {wanted}\n{run}");
    }
    let by_name = format!("name:Customer Support/{automation}");
    assert_eq!(rig.json(&["automation", "get", &by_name, "--json"])["data"]["name"], automation.as_str());
    let by_name = format!("name:{}", portal.0);
    let shown = rig.json(&["portal", "get", &by_name, "--json"]);
    assert!(shown.to_string().contains(portal.1), "{shown}");
    let made = rig.run(&["portal", "page", "create", "--portal-uuid", &by_name, "--title", "Start"]);
    assert_eq!(made.code, Some(0), "{made}");
    let run = rig.run(&["portal", "page", "update", &by_name, "name:Start", "--title", "T", "--dry-run", "--json"]);
    assert!(run.code == Some(0) && !run.stdout.contains("name:"), "{run}");
    // What has no name says so.
    for line in [&["card", "comment", "update", "name:x", "text"][..], &["agent", "logs", "get", "name:x"]] {
        let run = rig.run(line);
        assert!(run.code == Some(2) && run.stderr.contains("here an id is needed"), "{run}");
    }
}

/// One of several ids of a thing, or its name, where another is wanted.
#[test]
fn the_wrong_one_of_several_ids_is_said() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let find = |field: &str| rig.run(&["card", "find", "--pipe", &pipe, "--field", field, "--value", "x"]);
    let run = find("Subject");
    assert!(run.stderr.contains("hint: Subject is the name of the field subject; say name:Subject"), "{run}");
    let run = find("420028367");
    assert!(run.stderr.contains("hint: 420028367 is another id of the field Subject; here it is subject"), "{run}");
    let run = rig.run(&["pipe", "get", "Customer Support"]);
    assert!(run.stderr.contains(&format!("hint: Customer Support is the name of the pipe {pipe}")), "{run}");
    let run = rig.run(&["report-pipe", "get", "--pipe", &pipe, "--report-id", "99"]);
    assert!(run.stderr.contains("here its uuid is needed: "), "{run}");
    let fill = ["card", "fill", "name:Customer Support/Cannot log in", "--phase", &pipe, "--fields", "{\"a\": 1}"];
    let run = rig.run(&fill);
    assert!(run.stderr.contains(&format!("hint: {pipe} is a pipe (Customer Support)")), "{run}");
    let run = rig.run(&["portal", "get", "5"]);
    assert!(run.stderr.contains("hint: `pipefy portal list` shows what there is"), "{run}");
}
