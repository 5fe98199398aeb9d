#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let phase = json!({"id": "9", "name": "Doing", "fields": [], "cards_can_be_moved_to_phases": []});
    for rules in [
        WriteRules::new("create_phase", json!({"pipe_id": 1, "name": " Ph ", "index": 1.5, "description": ""}))
            .read("phase", phase.clone())
            .write("createPhase", json!({"phase": {"id": "9"}})),
        WriteRules::new("update_phase", json!({"phase_id": 9, "done": true}))
            .read("phase", phase.clone())
            .write("updatePhase", json!({"phase": {"id": "9"}})),
        WriteRules::new("delete_phase", json!({"phase_id": 9})).write("deletePhase", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn a_new_phase_says_where_its_cards_may_go() {
    let targets =
        json!({"id": "9", "name": "N", "cards_can_be_moved_to_phases": [{"id": "2", "name": "Done"}, {"id": "3"}]});
    let mock = Mock::new().on("createPhase", json!({"phase": {"id": "9"}})).on("phase", targets);
    let reply = mock.reply("create_phase", json!({"pipe_id": 1, "name": "N"})).await;
    let hint = reply["connection_hint"].as_str().unwrap();
    assert!(hint.contains("Done (2), 3") && hint.contains("`get_phase_allowed_move_targets`"), "{hint}");
    assert_eq!(mock.writes()[0].variables["input"], json!({"pipe_id": "1", "name": "N", "done": false}));
}

#[tokio::test]
async fn phases_of_one_pipe_are_created_one_after_the_other() {
    let mock = Mock::new().on("createPhase", json!({"phase": {"id": "9"}})).error("phase", "no", "");
    let calls = (0..5).map(|i| mock.reply("create_phase", json!({"pipe_id": "one", "name": i.to_string()})));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(reply["success"], true, "{reply}");
    }
    assert_eq!(mock.writes().len(), 5);
}

#[tokio::test]
async fn the_name_of_a_phase_is_kept_or_missed() {
    let mock =
        Mock::new().on("phase", json!({"id": "9", "name": "Old"})).on("updatePhase", json!({"phase": {"id": "9"}}));
    mock.reply("update_phase", json!({"phase_id": 9, "done": false})).await;
    assert_eq!(mock.writes()[0].variables["input"], json!({"id": "9", "done": false, "name": "Old"}));
    let mock = Mock::new().on("phase", Value::Null);
    let reply = mock.reply("update_phase", json!({"phase_id": 9, "done": false})).await;
    assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
    let mock = Mock::new().on("updatePhase", json!({"phase": {"id": "9"}}));
    mock.reply("update_phase", json!({"phase_id": 9, "name": " "})).await;
    assert_eq!(mock.roots(), ["updatePhase"]);
}

#[tokio::test]
async fn counts_and_targets_of_a_phase_that_is_not_there_are_not_found() {
    for tool in ["get_phase_cards_count", "get_phase_allowed_move_targets", "get_phase_cards", "get_phase_fields"] {
        let reply = Mock::new().on("phase", Value::Null).reply(tool, json!({"phase_id": 9})).await;
        assert_eq!(reply["error"]["code"], "NOT_FOUND", "{tool}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains("ID: 9"), "{tool}: {reply}");
    }
    let phase =
        json!({"id": 9, "name": null, "cards_count": 0, "cards_can_be_moved_to_phases": [{"id": 2, "name": null}, {}]});
    let mock = Mock::new().on("phase", phase);
    let count = mock.reply("get_phase_cards_count", json!({"phase_id": 9})).await;
    assert_eq!(count["data"], json!({"phase_id": "9", "phase_name": "", "cards_count": 0}));
    let targets = mock.reply("get_phase_allowed_move_targets", json!({"phase_id": 9})).await;
    assert_eq!(
        targets["data"],
        json!({"phase_id": "9", "phase_name": "", "allowed_phases": [{"id": "2", "name": ""}]})
    );
}

#[tokio::test]
async fn the_cards_of_a_phase_come_in_pages() {
    let cards = json!({"edges": [{"node": {"id": "1"}}], "totalCount": 31, "pageInfo": {"hasNextPage": true, "endCursor": "n"}});
    let phase = json!({"id": "9", "cards": cards});
    let mock = Mock::new().on("phase", phase.clone());
    let reply = mock.reply("get_phase_cards", json!({"phase_id": 9, "after": ""})).await;
    assert_eq!(mock.sent()[0].variables, json!({"phase_id": "9", "includeFields": false, "first": 50}));
    assert_eq!(reply["pagination"], json!({"has_more": true, "end_cursor": "n", "page_size": 50}));
    let reply = Mock::new().on("phase", phase.clone()).legacy().reply("get_phase_cards", json!({"phase_id": 9})).await;
    assert_eq!(reply, json!({"phase": phase}));
}

fn automations(ids: &[&str], next: Option<&str>) -> Value {
    let nodes: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
    json!({"nodes": nodes, "pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}})
}

fn full_phase() -> Value {
    json!({"id": "9", "name": "P", "cards_count": 3, "fields": [{"id": "a", "type": "x"}], "fieldConditions": [{"id": "c", "name": "C"}]})
}

#[tokio::test]
async fn a_preview_counts_what_goes_with_the_phase_over_all_pages() {
    let mock = Mock::new()
        .on("phase", full_phase())
        .on("pipe", json!({"organizationId": "1"}))
        .on("automations", automations(&["7", "8"], Some("n")))
        .on("automations", automations(&["9"], None))
        .on("automation", json!({"id": "7", "name": "R", "event_params": {"to_phase_id": "9"}}))
        .on("automation", json!({"id": "8", "name": "S", "action_params": {"phase": {"id": 1}}}))
        .on("automation", json!({"id": "9", "name": "T", "action_params": {"phase": {"id": 9}}}));
    let reply = mock.reply("delete_phase", json!({"phase_id": 9, "pipe_id": 1})).await;
    let dependents = &reply["dependents"];
    assert_eq!(dependents["automations"], json!([{"id": "7", "name": "R"}, {"id": "9", "name": "T"}]));
    assert_eq!((&dependents["cards_count"], &dependents["phase_fields_count"]), (&json!(3), &json!(1)));
    let hint = dependents["hint"].as_str().unwrap();
    for part in ["3 card(s)", "1 phase field(s)", "1 field condition(s)", " and 2 automation(s)", "irreversible"] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert!(dependents.get("automations_partial").is_none() && mock.writes().is_empty());
}

#[tokio::test]
async fn a_preview_that_could_not_read_everything_says_so() {
    let mock = Mock::new()
        .on("phase", full_phase())
        .on("pipe", json!({"organizationId": "1"}))
        .on("automations", automations(&["7"], Some("n")))
        .error("automations", "no", "")
        .on("automation", Value::Null);
    let reply = mock.reply("delete_phase", json!({"phase_id": 9, "pipe_id": 1})).await;
    assert_eq!(reply["dependents"]["automations_partial"], true);
    assert!(reply["dependents"]["hint"].as_str().unwrap().contains("lower bound"));
    // The same cursor again would be read for ever.
    let mock = Mock::new()
        .on("phase", full_phase())
        .on("pipe", json!({"organizationId": "1"}))
        .on("automations", automations(&[], Some("n")));
    let reply = mock.reply("delete_phase", json!({"phase_id": 9, "pipe_id": 1})).await;
    assert_eq!(reply["dependents"]["automations_partial"], true);
    let mock = Mock::new().error("phase", "no", "").error("pipe", "no", "");
    let reply = mock.reply("delete_phase", json!({"phase_id": 9, "pipe_id": 1})).await;
    assert!(reply.get("dependents").is_none(), "{reply}");
}

#[tokio::test]
async fn nothing_is_looked_up_without_the_pipe_or_with_a_valid_token() {
    let mock = Mock::new().on("deletePhase", json!({"success": true}));
    let reply = mock.reply("delete_phase", json!({"phase_id": 9})).await;
    assert!(reply.get("dependents").is_none() && mock.sent().is_empty());
    let token = reply["confirmation_token"].clone();
    let arguments = json!({"phase_id": "9", "pipe_id": 5, "confirm": true, "confirmation_token": token});
    let reply = mock.reply("delete_phase", arguments).await;
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(mock.roots(), ["deletePhase"]);
}
