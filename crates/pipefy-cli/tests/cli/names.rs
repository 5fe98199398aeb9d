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
