#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use pipefy::EndpointKind;
use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

const P: &str = "11111111-2222-4333-8444-555555555555";

fn portal() -> Value {
    json!({"id": P, "pages": [{"id": "p1", "elements": [{"id": "e1", "type": "forms", "editable": true,
        "dataSources": [{"id": "s", "name": "S", "repoId": "r", "repoName": "R", "fieldKeys": ["t"], "filters": "{\"and\":[]}"}]}]}],
        "subPortals": null})
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let interface = json!({"interface": {"id": P}});
    let page = json!({"page": {"id": "p1", "elements": null}});
    let element = json!({"element": {"id": "e1"}});
    let success = json!({"success": true});
    let row = json!([{"id": "r", "type": "row", "children": ["e1"]}]);
    for (endpoint, rules) in [
        (
            EndpointKind::Interfaces,
            WriteRules::new("create_portal", json!({"organization_uuid": P}))
                .write("findOrCreateInterfaceByTemplate", interface.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("update_portal", json!({"portal_uuid": P, "visibility": "public"}))
                .write("updateInterface", interface),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("delete_portal", json!({"portal_uuid": P})).write("deleteInterface", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("create_portal_page", json!({"portal_uuid": P, "title": "T"}))
                .write("createPage", page.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("update_portal_page", json!({"portal_uuid": P, "page_id": "p1", "index": 0}))
                .write("updatePage", page),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("delete_portal_page", json!({"portal_uuid": P, "page_id": "p1"}))
                .write("deletePage", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("sort_portal_pages", json!({"portal_uuid": P, "page_ids": ["p1", "p2"]}))
                .write("sortPages", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("update_portal_page_layout", json!({"page_id": "p1", "layout": row}))
                .write("updatePageLayout", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new(
                "create_portal_element",
                json!({"page_id": "p1", "type": "text", "metadata": {}, "element_id": "e1", "layout": row}),
            )
            .write("createElement", element.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new(
                "update_portal_element",
                json!({"element_id": "e1", "page_id": "p1", "type": "text", "metadata": {}, "portal_uuid": P}),
            )
            .read("portalInterface", portal())
            .write("updateElement", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("delete_portal_element", json!({"element_id": "e1", "page_id": "p1", "layout": []}))
                .write("deleteElement", success.clone()),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("duplicate_portal_element", json!({"element_id": "e1", "portal_uuid": P, "page_id": "p1"}))
                .write("duplicateElement", element),
        ),
        (
            EndpointKind::Interfaces,
            WriteRules::new("create_sub_portal", json!({"main_portal_uuid": P}))
                .write("createSubPortal", json!({"subPortal": {"id": "s"}})),
        ),
        (
            EndpointKind::Internal,
            WriteRules::new(
                "update_sub_portal_element",
                json!({"portal_uuid": P, "element_id": "e1", "sub_portal_uuid": "s"}),
            )
            .write("updateSubPortalElement", success.clone()),
        ),
        (
            EndpointKind::Internal,
            WriteRules::new(
                "publish_sub_portal",
                json!({"portal_uuid": P, "element_id": "e1", "sub_portal_uuid": "s"}),
            )
            .write("updateSubPortalElement", success.clone()),
        ),
        (
            EndpointKind::Internal,
            WriteRules::new("unpublish_sub_portal", json!({"portal_uuid": P, "element_id": "e1"}))
                .write("updateSubPortalElement", success.clone()),
        ),
        (
            EndpointKind::Internal,
            WriteRules::new("delete_sub_portal_element", json!({"portal_uuid": P, "element_id": "e1"}))
                .write("deleteSubPortalElement", success.clone()),
        ),
        (
            EndpointKind::Internal,
            WriteRules::new("delete_sub_portal", json!({"sub_portal_uuid": "s"}))
                .write("deleteSubPortalInterface", success),
        ),
    ] {
        let sent = rules.check().await;
        assert_eq!(sent[0].endpoint, endpoint, "{}", sent[0].root);
    }
}

async fn input(tool: &str, root: &str, payload: Value, arguments: Value) -> Value {
    let mock = Mock::new().on(root, payload);
    let reply = mock.reply(tool, arguments).await;
    assert_eq!(reply["success"], true, "{reply}");
    mock.writes()[0].variables["input"].clone()
}

#[tokio::test]
async fn layouts_and_metadata_travel_as_compact_text() {
    let layout = json!([{"height": 2, "children": [" e1 "], "type": "row", "id": " r "}]);
    let sent = input(
        "update_portal_page_layout",
        "updatePageLayout",
        json!({"success": true}),
        json!({"page_id": "p", "layout": layout}),
    )
    .await;
    assert_eq!(sent["layout"], r#"[{"id":"r","type":"row","children":["e1"],"height":2}]"#);
    let arguments = json!({"page_id": "p", "type": "forms", "metadata": {"name": "F\u{e9}"},
        "data_sources": [{"repoId": " r ", "repoName": "R", "field_keys": ["t"], "filters": {"and": []}}]});
    let sent = input("create_portal_element", "createElement", json!({"element": {"id": "e"}}), arguments).await;
    assert_eq!(sent["metadata"], "{\"name\":\"F\u{e9}\"}");
    assert_eq!(sent["data_sources"], json!([{"filters": "{\"and\":[]}", "repoId": "r", "fieldKeys": ["t"]}]));
    let sent = input(
        "unpublish_sub_portal",
        "updateSubPortalElement",
        json!({"success": true}),
        json!({"portal_uuid": P, "element_id": "e"}),
    )
    .await;
    assert!(sent.as_object().unwrap()["subPortalUuid"].is_null());
}

#[tokio::test]
async fn stored_sources_are_kept_when_only_metadata_changes() {
    let mock = Mock::new().on("portalInterface", portal()).on("updateElement", json!({"success": true}));
    let arguments =
        json!({"element_id": "e1", "page_id": "p1", "type": "forms", "metadata": {"name": "N"}, "portal_uuid": P});
    let reply = mock.reply("update_portal_element", arguments).await;
    assert_eq!(reply["data"], json!({"id": "e1", "type": "forms", "metadata": {"name": "N"}, "uuid": "e1"}));
    let sent = &mock.writes()[0].variables["input"];
    assert_eq!(
        sent["data_sources"],
        json!([{"id": "s", "name": "S", "filters": "{\"and\":[]}", "repoId": "r", "fieldKeys": ["t"]}])
    );
    assert_eq!(sent["editable"], true);
    for (page, element, word) in [("p2", "e1", "page p1"), ("p1", "e9", "no page")] {
        let mock = Mock::new().on("portalInterface", portal());
        let arguments =
            json!({"element_id": element, "page_id": page, "type": "text", "metadata": {}, "portal_uuid": P});
        let reply = mock.reply("update_portal_element", arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{reply}");
        assert!(mock.writes().is_empty());
    }
}

#[tokio::test]
async fn bad_input_sends_nothing() {
    let element = |key: &str, value: Value| {
        let mut arguments = json!({"page_id": "p", "type": "text", "metadata": {}});
        arguments[key] = value;
        arguments
    };
    for (tool, arguments) in [
        ("get_portal", json!({"portal_uuid": "0"})),
        ("create_portal", json!({"organization_uuid": "my-org"})),
        ("update_portal", json!({"portal_uuid": P})),
        ("update_portal", json!({"portal_uuid": P, "name": " "})),
        ("update_portal", json!({"portal_uuid": P, "visibility": "open"})),
        ("create_portal_page", json!({"portal_uuid": P, "title": " "})),
        ("create_portal_page", json!({"portal_uuid": P, "title": "T", "index": -1})),
        ("update_portal_page", json!({"portal_uuid": P, "page_id": "p"})),
        ("sort_portal_pages", json!({"portal_uuid": P, "page_ids": []})),
        ("sort_portal_pages", json!({"portal_uuid": P, "page_ids": ["a", " a "]})),
        ("update_portal_page_layout", json!({"page_id": "p", "layout": [{"id": "r", "type": "col", "children": []}]})),
        (
            "update_portal_page_layout",
            json!({"page_id": "p", "layout": [{"id": "r", "type": "row", "children": [" "]}]}),
        ),
        ("create_portal_element", element("type", json!("forms"))),
        ("create_portal_element", element("type", json!("link"))),
        ("create_portal_element", element("element_id", json!(" "))),
        ("create_portal_element", element("layout", json!([]))),
        ("create_portal_element", element("data_sources", json!([{"repo_id": "r"}]))),
        ("create_portal_element", element("data_sources", json!([{"repoId": "r", "filters": 1}]))),
        (
            "create_portal_element",
            json!({"page_id": "p", "type": "text", "metadata": {}, "element_id": "e", "layout": []}),
        ),
        (
            "create_portal_element",
            json!({"page_id": "p", "type": "link", "metadata": {"linkName": "L", "linkUrl": " "}}),
        ),
        ("create_portal_element", json!({"page_id": "p", "type": "subPortal", "metadata": {"subPortalUuid": 1}})),
        ("update_portal_element", json!({"element_id": "e", "page_id": "p", "type": "text", "metadata": {}})),
        (
            "delete_portal_element",
            json!({"element_id": "e", "page_id": "p", "layout": [{"id": "r", "type": "row", "children": ["e"]}]}),
        ),
        ("create_sub_portal", json!({"main_portal_uuid": P, "name": ""})),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments.clone()).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool} {arguments}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn a_layout_is_part_of_what_is_approved() {
    let rows = json!([{"id": "r", "type": "row", "children": []}]);
    let mock = Mock::new().on("deleteElement", json!({"success": true}));
    let preview = mock.reply("delete_portal_element", json!({"element_id": "e", "page_id": "p", "layout": rows})).await;
    assert!(preview["resource"].as_str().unwrap().contains("1 row sent"), "{preview}");
    let token = preview["confirmation_token"].clone();
    let second = |layout: Value| json!({"element_id": "e", "page_id": "p", "layout": layout, "confirm": true, "confirmation_token": token});
    for other in [Value::Null, json!([])] {
        assert_eq!(mock.reply("delete_portal_element", second(other)).await["requires_confirmation"], true);
    }
    let equivalent = json!([{"children": [], "type": "row", "id": " r "}]);
    assert_eq!(mock.reply("delete_portal_element", second(equivalent)).await["success"], true);
}

#[tokio::test]
async fn portals_are_shown_with_uuids_and_lists() {
    let mock = Mock::new().on("portalInterface", portal());
    let reply = mock.reply("get_portal", json!({"portal_uuid": P})).await;
    let data = &reply["data"];
    assert_eq!((&data["uuid"], &data["subPortals"], &data["pages"][0]["uuid"]), (&json!(P), &json!([]), &json!("p1")));
    assert_eq!(data["pages"][0]["elements"][0]["uuid"], "e1");
    assert_eq!(data["pages"][0]["elements"][0]["dataSources"][0]["filters"], "{\"and\":[]}");
    let reply = Mock::new().on("portalInterface", Value::Null).reply("get_portal", json!({"portal_uuid": P})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains(P));
}

#[tokio::test]
async fn every_page_of_a_listing_is_read_and_a_stuck_cursor_is_said() {
    let page = |id: &str, more: bool, cursor: &str| json!({"edges": [{"node": {"id": id}}, {"node": null}], "pageInfo": {"hasNextPage": more, "endCursor": cursor}});
    let mock = Mock::new()
        .on("organization", json!({"uuid": P}))
        .on("interfaces", page("a", true, "c1"))
        .on("interfaces", page("b", false, "c2"));
    let reply = mock.reply("list_portals", json!({"organization_uuid": 12, "search_term": " "})).await;
    assert_eq!(reply["data"], json!({"portals": [{"id": "a", "uuid": "a"}, {"id": "b", "uuid": "b"}]}));
    assert!(reply.get("complete").is_none());
    let sent = mock.sent();
    assert_eq!(sent[1].variables, json!({"org_uuid": P, "filterBySubType": "portal", "searchTerm": " "}));
    assert_eq!(sent[2].variables["after"], "c1");
    let mock = Mock::new().on("interfaces", page("a", true, "c1"));
    let reply = mock.reply("list_portals", json!({"organization_uuid": P})).await;
    assert_eq!((&reply["complete"], mock.sent().len()), (&json!(false), 2));
    let reply = Mock::new().on("interfaces", Value::Null).reply("list_portals", json!({"organization_uuid": P})).await;
    assert_eq!(reply["data"], json!({"portals": []}));
}

#[tokio::test]
async fn denials_say_whom_to_ask() {
    for (message, code) in [("Permission denied", "PERMISSION_DENIED"), ("no", "FORBIDDEN"), ("Permission denied", "")]
    {
        let mock = Mock::new().error("updateInterface", message, code);
        let reply = mock.reply("update_portal", json!({"portal_uuid": P, "icon": "x"})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("manage_portals"), "{reply}");
    }
    let mock = Mock::new().on("updateSubPortalElement", json!({"success": false}));
    let reply =
        mock.reply("publish_sub_portal", json!({"portal_uuid": P, "element_id": "e", "sub_portal_uuid": "s"})).await;
    assert!(
        reply["error"]["message"].as_str().unwrap().starts_with("Could not publish sub-portal s on element e"),
        "{reply}"
    );
}
