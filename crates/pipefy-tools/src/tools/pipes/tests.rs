#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

fn pipe() -> Value {
    json!({
        "id": "1", "uuid": "u", "name": "Sales", "labels": null, "startFormPhaseId": "10",
        "phases": [{"id": "11", "name": "A", "fields": [{"id": "f", "internal_id": "1"}]}]
    })
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("create_pipe", json!({"name": " P ", "organization_id": 1}))
            .write("createPipe", json!({"pipe": {"id": "1"}})),
        WriteRules::new("update_pipe", json!({"pipe_id": 1, "name": " ", "preferences": {}}))
            .read("pipe", pipe())
            .write("updatePipe", json!({"pipe": {"id": "1"}})),
        WriteRules::new("delete_pipe", json!({"pipe_id": 1}))
            .read("pipe", pipe())
            .write("deletePipe", json!({"success": true})),
        WriteRules::new("clone_pipe", json!({"pipe_template_id": 1}))
            .write("clonePipes", json!({"pipes": [{"id": "2", "phases": [{"id": "3"}]}]})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn pipes_are_found_by_name_with_scores_and_limits() {
    let organizations = json!([
        {"id": "1", "name": "Acme", "pipesCount": 4, "pipes": [
            {"id": "1", "name": "Customer Support"}, {"id": "2", "name": "Sales [EU]"}, {"id": "3", "name": null}
        ]},
        {"id": "2", "name": "Empty", "pipesCount": null, "pipes": null}
    ]);
    let mock = Mock::new().on("organizations", organizations.clone());
    let reply = mock.reply("search_pipes", json!({"pipe_name": " custoemr suport "})).await;
    assert_eq!(
        reply,
        json!({
            "organizations": [{"id": "1", "name": "Acme", "pipes": [
                {"id": "1", "name": "Customer Support", "match_score": 77.4}
            ]}],
            "search_limits": {"max_pipes_per_org": 500, "graphql_name_search": true, "pipes_truncated": false}
        })
    );
    assert_eq!(mock.sent()[0].variables, json!({"nameSearch": "custoemr suport"}));
    let mock = Mock::new().on("organizations", organizations);
    let reply = mock.reply("search_pipes", json!({"pipe_name": "  "})).await;
    assert_eq!(mock.sent()[0].variables, json!({"nameSearch": null}));
    assert_eq!(reply["organizations"][0]["pipes_truncated"], true);
    assert_eq!(reply["organizations"][1], json!({"id": "2", "name": "Empty", "pipes": []}));
    let mock = Mock::new().on("organizations", Value::Null);
    let reply = mock.reply("search_pipes", json!({"pipe_name": "a", "max_pipes_per_org": 0})).await;
    assert_eq!((&reply["organizations"], &reply["search_limits"]["max_pipes_per_org"]), (&json!([]), &json!(1)));
}

#[tokio::test]
async fn a_missing_pipe_is_said_to_be_missing() {
    for tool in ["get_labels", "get_start_form_fields"] {
        let reply = Mock::new().on("pipe", Value::Null).reply(tool, json!({"pipe_id": 1})).await;
        assert_eq!(reply["error"]["code"], "NOT_FOUND", "{tool}: {reply}");
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains('1') && text.contains("access"), "{text}");
    }
    let reply = Mock::new().on("pipe", pipe()).reply("get_labels", json!({"pipe_id": 1})).await;
    assert_eq!(reply, json!({"success": true, "message": "Labels loaded.", "labels": []}));
}

#[tokio::test]
async fn a_pipe_deletion_is_explained_by_its_code() {
    for (code, needle) in [
        ("RESOURCE_NOT_FOUND", "not found"),
        ("PERMISSION_DENIED", "No permission"),
        ("RECORD_NOT_DESTROYED", "try again or contact"),
        ("ODD_CODE", "Codes: ODD_CODE"),
        ("", "did not succeed: no reason"),
    ] {
        let mock = Mock::new().on("pipe", pipe()).error("deletePipe", "no reason", code);
        let reply = mock.confirmed("delete_pipe", json!({"pipe_id": 1, "debug": true})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains(needle), "{text}");
        assert_eq!(text.contains("(debug: codes="), !code.is_empty(), "{text}");
    }
    let reply = Mock::new().on("pipe", Value::Null).reply("delete_pipe", json!({"pipe_id": 1})).await;
    assert_eq!(reply["resource"], "pipe 'Unknown' (ID: 1)");
}

#[tokio::test]
async fn a_clone_that_is_not_ready_says_so_and_a_wait_pairs_old_with_new_ids() {
    let clone = json!({"pipes": [{"id": "2", "name": "C", "phases": []}]});
    let reply = Mock::new().on("clonePipes", clone.clone()).reply("clone_pipe", json!({"pipe_template_id": 1})).await;
    assert!(reply["message"].as_str().unwrap().contains("still being copied"));
    let copy = json!({
        "id": "2", "startFormPhaseId": "20", "labels": [], "start_form_fields": [{"id": "s", "internal_id": "8"}],
        "phases": [{"id": "21", "name": "A", "fields": [{"id": "f", "internal_id": "9"}]}]
    });
    let mut template = pipe();
    template["start_form_fields"] = json!([{"id": "s", "internal_id": "0"}]);
    let mock = Mock::new()
        .on("clonePipes", clone)
        .on("pipe", template)
        .on("pipe", json!({"id": "2", "phases": []}))
        .on("pipe", copy);
    let reply = mock.reply("clone_pipe", json!({"pipe_template_id": 1, "verify": true})).await;
    assert_eq!(reply["verification"]["verified"], true, "{reply}");
    let field = |slug: &str, from: &str, to: &str| json!({"slug": slug, "internal_id": {"from": from, "to": to}});
    assert_eq!(
        reply["verification"]["ids"],
        json!({
            "pipe": {"from": "1", "to": "2"},
            "start_form_phase": {"from": "10", "to": "20"},
            "start_form_fields": [field("s", "0", "8")],
            "phases": [{"name": "A", "id": {"from": "11", "to": "21"}, "fields": [field("f", "1", "9")]}],
            "labels": []
        })
    );
    assert!(!reply["verification"]["note"].as_str().unwrap().contains('{'), "{reply}");
}

#[tokio::test]
async fn every_attribute_of_a_pipe_that_was_changed_is_read_back() {
    let shown = json!({"id": "1", "name": "P", "icon": "car", "color": "red", "preferences": {"inboxEmailEnabled": true, "mainTabViews": ["a"]}});
    let verified = async |arguments: Value| {
        let mock = Mock::new().on("updatePipe", json!({"pipe": {"id": "1"}})).on("pipe", shown.clone());
        mock.reply("update_pipe", arguments).await["verification"].clone()
    };
    let all =
        json!({"pipe_id": 1, "icon": "car", "color": "red", "preferences": {"mainTabViews": ["a"]}, "verify": true});
    assert_eq!(verified(all).await, json!({"verified": true, "note": "compared icon, color, preferences"}));
    let other = verified(json!({"pipe_id": 1, "name": "P", "color": "blue", "verify": true})).await;
    assert_eq!(other, json!({"verified": false, "note": "shown otherwise than asked: color"}));
    // `findable` cannot be read.
    let partly = verified(json!({"pipe_id": 1, "name": "P", "preferences": {"findable": true}, "verify": true})).await;
    assert_eq!(partly["verified"], Value::Null, "{partly}");
    let mock = Mock::new().error("updatePipe", "could not coerce", "BAD_USER_INPUT");
    let reply = mock.reply("update_pipe", json!({"pipe_id": 1, "color": "mauve"})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("sky, yellow"), "{reply}");
}
