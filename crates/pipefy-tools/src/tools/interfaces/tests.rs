#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

const I: &str = "11111111-2222-4333-8444-555555555555";

fn interface() -> Value {
    json!({"id": I, "contentModeHtml": true, "pages": [{"id": "p1", "elements": [
        {"id": "e1", "type": "customCode", "editable": null, "metadata": {"b": 1, "a": 2},
         "dataSources": [{"id": "s", "filters": "{\"and\":[]}"}, {"id": "t", "filters": "no json"}]},
        {"id": "e2", "type": "text"}]}]})
}

fn source() -> Value {
    json!({"id": "s", "name": "S", "repoId": "r", "fieldKeys": ["title"], "repoName": "R", "filters": {"and": []}})
}

fn created() -> Value {
    json!({"success": true, "interface": {"id": I, "pages": [{"id": "p1", "elements": [{"id": "e1", "type": "customCode"}]}]}})
}

fn sources(list: Value) -> Value {
    json!({"interface_uuid": I, "page_id": "p1", "element_id": "e1", "data_sources": list})
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("set_interface_sources", sources(json!([source()])))
            .read("interface", interface())
            .write("updateElement", json!({"success": true})),
        WriteRules::new("write_interface_html", json!({"page_id": "p1", "element_id": "e1", "content": "<p>h</p>"}))
            .write("writeHtmlDocument", json!({"success": true})),
        WriteRules::new("create_html_interface", json!({"organization_uuid": I, "name": " N ", "html": "<p>h</p>"}))
            .write("createInterface", created())
            .write("writeHtmlDocument", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn sources_are_replaced_and_the_rest_of_the_element_is_sent_back() {
    let mock = Mock::new().on("interface", interface()).on("updateElement", json!({"success": true}));
    let reply = mock.reply("set_interface_sources", sources(json!([source()]))).await;
    let shown = json!({"id": "s", "name": "S", "repoId": "r", "fieldKeys": ["title"], "filters": {"and": []}});
    assert_eq!(reply["data"], json!({"id": "e1", "dataSources": [shown], "uuid": "e1"}));
    let sent = &mock.writes()[0].variables["input"];
    assert_eq!(sent["metadata"], "{\"b\":1,\"a\":2}");
    assert!(sent.as_object().unwrap()["editable"].is_null());
    let wire = json!({"id": "s", "name": "S", "repoId": "r", "fieldKeys": ["title"], "filters": "{\"and\":[]}"});
    assert_eq!(sent["data_sources"], json!([wire]));
    assert!(!mock.sent()[0].document.contains("htmlDocument"), "the documents are not needed here");
    for (page, element, word) in [("p1", "e2", "'text'"), ("p9", "e1", "page p1"), ("p1", "e9", "no page")] {
        let mut arguments = sources(json!([]));
        arguments["page_id"] = page.into();
        arguments["element_id"] = element.into();
        let mock = Mock::new().on("interface", interface());
        let reply = mock.reply("set_interface_sources", arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{reply}");
        assert!(mock.writes().is_empty());
    }
}

#[tokio::test]
async fn bad_input_sends_nothing_and_every_problem_is_named() {
    let with = |key: &str, value: Value| {
        let mut source = source();
        source[key] = value;
        sources(json!([source]))
    };
    let html = |key: &str, value: Value| {
        let mut arguments = json!({"organization_uuid": I, "name": "N", "html": "<p>h</p>"});
        arguments[key] = value;
        arguments
    };
    for (tool, arguments, word) in [
        ("set_interface_sources", with("fieldKeys", json!([])), "data_sources[0].fieldKeys"),
        ("set_interface_sources", with("fieldKeys", json!([" "])), "data_sources[0].fieldKeys"),
        ("set_interface_sources", with("filters", json!("[1]")), "data_sources[0].filters"),
        ("set_interface_sources", with("other", json!(1)), "data_sources[0].other"),
        ("set_interface_sources", with("repoId", json!(" ")), "data_sources[0].repoId"),
        ("set_interface_sources", sources(json!([source(), source()])), "repeated: s"),
        (
            "set_interface_sources",
            sources(json!([{"id": "s"}])),
            "data_sources[0].name: is required; data_sources[0].repoId",
        ),
        ("write_interface_html", json!({"page_id": "p", "element_id": "e", "content": " \n"}), "content"),
        ("write_interface_html", json!({"page_id": "0", "element_id": "e", "content": "x"}), "page_id"),
        ("create_html_interface", html("html", json!("")), "html"),
        ("create_html_interface", html("name", json!(" ")), "name"),
        ("create_html_interface", html("color", json!("black")), "color"),
        ("create_html_interface", html("data_sources", json!([{"id": "s"}])), "data_sources[0]"),
        ("list_interface_repos", json!({"organization_id": I}), "numeric"),
        ("list_interface_repos", json!({"organization_id": "1", "interface_uuid": " "}), "interface_uuid"),
        ("list_interface_repos", json!({"organization_id": "1", "repo_name": " "}), "repo_name"),
        ("get_interface_html", json!({"interface_uuid": "0"}), "interface_uuid"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments.clone()).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool} {arguments}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{tool}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}");
    }
    let many: Vec<Value> = (0..11)
        .map(|i| json!({"id": i.to_string(), "name": i.to_string(), "repo_id": "r", "field_keys": ["k"]}))
        .collect();
    let reply = Mock::new().reply("set_interface_sources", sources(many.into())).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("at most 10"));
}

#[tokio::test]
async fn an_interface_whose_html_was_refused_is_not_created_twice() {
    let violation = json!({"code": "TAG", "message": "no scripts", "selector": "script", "attribute": "src"});
    let refused = json!({"data": {"writeHtmlDocument": null}, "errors": [{"message": "bad", "extensions":
        {"code": "HTML_VALIDATION_FAILED", "violations": [violation, {"code": "", "message": "x"}]}}]});
    let mock = Mock::new().on("createInterface", created()).body("writeHtmlDocument", refused.clone());
    let reply =
        mock.reply("create_html_interface", json!({"organization_uuid": I, "name": "N", "html": "<script>"})).await;
    assert_eq!(reply["error"]["details"], json!({"uuid": I, "page_id": "p1", "element_id": "e1"}));
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("1 violation.") && message.contains("- TAG at script[src]: no scripts"), "{message}");
    assert!(message.contains("write_interface_html"));
    let reply = Mock::new()
        .body("writeHtmlDocument", refused)
        .reply("write_interface_html", json!({"page_id": "p", "element_id": "e", "content": "<script>"}))
        .await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("write the whole document again"));
    let mock = Mock::new().on("createInterface", json!({"success": true, "interface": {"id": I, "pages": []}}));
    let reply = mock.reply("create_html_interface", json!({"organization_uuid": I, "name": "N", "html": "h"})).await;
    assert_eq!(reply["error"]["details"], json!({"uuid": I}));
    assert_eq!(mock.writes().len(), 1);
}

#[tokio::test]
async fn a_refused_repo_is_told_from_a_missing_permission() {
    let arguments = || sources(json!([source()]));
    for (message, code, word) in [
        ("Permission denied", "", "list_interface_repos"),
        ("Permission denied", "PERMISSION_DENIED", "manage_portals"),
        ("Couldn't find Interface", "", "No HTML interface"),
    ] {
        let mock = Mock::new().on("interface", interface()).error("updateElement", message, code);
        let reply = mock.reply("set_interface_sources", arguments()).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{reply}");
    }
}

#[tokio::test]
async fn interfaces_are_read_with_uuids_and_decoded_filters() {
    let reply =
        Mock::new().on("interface", interface()).reply("get_interface_html", json!({"interface_uuid": I})).await;
    let element = &reply["data"]["pages"][0]["elements"][0];
    assert_eq!((&element["uuid"], &element["dataSources"][0]["filters"]), (&json!("e1"), &json!({"and": []})));
    assert_eq!(element["dataSources"][1]["filters"], "no json");
    for (answer, word) in
        [(Value::Null, "No HTML interface"), (json!({"id": I, "contentModeHtml": false}), "get_portal")]
    {
        let reply = Mock::new().on("interface", answer).reply("get_interface_html", json!({"interface_uuid": I})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{reply}");
    }
    let nodes = json!({"edges": [{"node": {"id": "a", "contentModeHtml": true}}, {"node": {"id": "b", "contentModeHtml": false}}]});
    let mock = Mock::new().on("interfaces", nodes);
    let reply = mock.reply("list_interfaces", json!({"organization_uuid": I})).await;
    assert_eq!(reply["data"], json!({"interfaces": [{"id": "a", "contentModeHtml": true, "uuid": "a"}]}));
    assert_eq!(mock.sent()[0].variables, json!({"org_uuid": I, "filterBySubType": "interface", "first": 50}));
}

#[tokio::test]
async fn repos_fields_and_guidelines() {
    let page = |id: &str, more: bool| json!({"edges": [{"node": {"id": id}}], "pageInfo": {"hasNextPage": more, "endCursor": id}});
    let mock = Mock::new().on("interfaceRepos", page("a", true)).on("interfaceRepos", page("b", false));
    let reply = mock.reply("list_interface_repos", json!({"organization_id": 1, "repo_name": " x "})).await;
    assert_eq!(reply["data"], json!({"repos": [{"id": "a"}, {"id": "b"}]}));
    assert_eq!(mock.sent()[1].variables, json!({"orgId": "1", "repoName": "x", "first": 50, "after": "a"}));
    let mock = Mock::new().on("interfacesRepoStructure", json!({"fields": [{"id": "f"}]}));
    assert_eq!(
        mock.reply("get_interface_repo_fields", json!({"repo_uuid": "r"})).await["data"],
        json!({"fields": [{"id": "f"}]})
    );
    let mock = Mock::new().on("interfacesRepoStructure", Value::Null);
    let reply = mock.reply("get_interface_repo_fields", json!({"repo_uuid": "r", "interface_uuid": "i"})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("list_interface_repos"), "{reply}");
    let mock =
        Mock::new().on("interfaceHtmlGuidelines", json!({"urlRule": "x"})).on("interfaceHtmlGuidelines", Value::Null);
    assert_eq!(mock.reply("get_interface_html_guidelines", json!({})).await["data"], json!({"urlRule": "x"}));
    assert_eq!(mock.sent()[0].variables, json!({"includeDesignSystem": false}));
    assert_eq!(mock.reply("get_interface_html_guidelines", json!({})).await["success"], false);
}
