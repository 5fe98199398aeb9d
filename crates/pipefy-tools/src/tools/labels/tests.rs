#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("create_label", json!({"pipe_id": 1, "name": " Bug ", "color": "#f0a"}))
            .write("createLabel", json!({"label": {"id": "7"}})),
        WriteRules::new(
            "update_label",
            json!({"label_id": 7, "name": "Bug", "color": "#00ff00", "extra_input": {"id": 8, "Name": "x"}}),
        )
        .write("updateLabel", json!({"label": {"id": "7"}})),
        WriteRules::new("delete_label", json!({"label_id": 7})).write("deleteLabel", json!({"success": true})),
    ] {
        let sent = rules.check().await;
        let input = &sent[0].variables["input"];
        assert!(input.get("color").is_none_or(|c| c == "#FF00AA" || c == "#00FF00"), "{input}");
        assert!(input.get("name").is_none_or(|n| n == "Bug") && input.get("Name").is_none());
    }
}

#[tokio::test]
async fn bad_names_and_colours_are_refused() {
    for arguments in [
        json!({"pipe_id": 1, "name": " ", "color": "#fff"}),
        json!({"pipe_id": 1, "name": "a", "color": " "}),
        json!({"pipe_id": 1, "name": "a", "color": "red"}),
    ] {
        let mock = Mock::new();
        assert_eq!(mock.reply("create_label", arguments).await["error"]["code"], "INVALID_ARGUMENTS");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn a_preview_shows_some_cards_and_asks_a_lagging_index_once_more() {
    let cards = |n: usize| json!({"edges": (1..=n).map(|i| json!({"node": {"id": i}})).collect::<Vec<Value>>()});
    let mock = Mock::new().on("cards", cards(0)).on("cards", cards(6));
    let reply = mock.reply("delete_label", json!({"label_id": 7, "pipe_id": 1})).await;
    assert_eq!(
        reply["dependents"]["cards_using_label"],
        json!({"sample_card_ids": ["1", "2", "3", "4", "5"], "sample_size": 5, "sample_cap": 5, "has_more": true})
    );
    assert!(reply["dependents"]["hint"].as_str().unwrap().starts_with("More than 5 card(s)"));
    assert_eq!(mock.sent()[0].variables["search"], json!({"label_ids": ["7"]}));
    assert_eq!(mock.sent().len(), 2);
    let mock = Mock::new().on("cards", cards(2));
    let reply = mock.reply("delete_label", json!({"label_id": 7, "pipe_id": 1})).await;
    assert_eq!(reply["dependents"]["cards_using_label"]["sample_size"], 2);
}

/// The only card that uses it is on the last page; a page that fails is not taken for the last one.
#[tokio::test]
async fn a_preview_follows_pages_to_the_last_one() {
    let page = |ids: &[u8], next: Option<&str>| {
        let edges: Vec<Value> = ids.iter().map(|id| json!({"node": {"id": id}})).collect();
        json!({"edges": edges, "pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}})
    };
    let arguments = json!({"label_id": 7, "pipe_id": 1});
    let mock =
        Mock::new().on("cards", page(&[], Some("a"))).on("cards", page(&[], Some("b"))).on("cards", page(&[9], None));
    let reply = mock.reply("delete_label", arguments.clone()).await;
    let shown = &reply["dependents"]["cards_using_label"];
    assert_eq!((&shown["sample_card_ids"], &shown["has_more"]), (&json!(["9"]), &json!(false)));
    let mock = Mock::new().on("cards", page(&[8], Some("a"))).error("cards", "no", "");
    let reply = mock.reply("delete_label", arguments).await;
    assert_eq!(reply["dependents"]["cards_using_label"]["has_more"], true);
    assert!(reply["dependents"]["hint"].as_str().unwrap().starts_with("At least 1 card(s)"), "{reply}");
}

#[tokio::test]
async fn a_deletion_that_pipefy_declined_did_not_succeed() {
    for payload in [json!({"success": false}), Value::Null] {
        let mock = Mock::new().on("deleteLabel", payload);
        let reply = mock.confirmed("delete_label", json!({"label_id": 7})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("did not succeed"), "{reply}");
    }
}
