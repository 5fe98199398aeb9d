#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("add_card_comment", json!({"card_id": 5, "text": " hi "}))
            .write("createComment", json!({"comment": {"id": 1}})),
        WriteRules::new("update_comment", json!({"comment_id": 5, "text": "hi"}))
            .write("updateComment", json!({"comment": {"id": 1}})),
        WriteRules::new("delete_comment", json!({"comment_id": 5})).write("deleteComment", json!({"success": true})),
    ] {
        let sent = rules.check().await;
        assert!(sent[0].variables["input"].get("text").is_none_or(|text| text == "hi"));
    }
}

#[tokio::test]
async fn results_have_the_shape_of_the_envelope_setting() {
    let mock =
        || Mock::new().on("createComment", json!({"comment": {"id": 1}})).on("deleteComment", json!({"success": true}));
    let arguments = json!({"card_id": "0", "text": "hi"});
    assert_eq!(
        mock().reply("add_card_comment", arguments.clone()).await,
        json!({"success": true, "data": {"comment_id": "1"}})
    );
    assert_eq!(mock().legacy().reply("add_card_comment", arguments).await, json!({"success": true, "comment_id": "1"}));
    for mock in [mock(), mock().legacy()] {
        assert_eq!(mock.confirmed("delete_comment", json!({"comment_id": 5})).await, json!({"success": true}));
    }
    let reply = Mock::new()
        .on("createComment", json!({"comment": {"id": null}}))
        .reply("add_card_comment", json!({"card_id": 1, "text": "x"}))
        .await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("Unexpected error"), "{reply}");
}

#[tokio::test]
async fn text_is_trimmed_first_and_then_counted_in_characters() {
    let long = "\u{e9}".repeat(1_000);
    let mock = Mock::new().on("createComment", json!({"comment": {"id": 1}}));
    assert_eq!(
        mock.reply("add_card_comment", json!({"card_id": 1, "text": format!("  {long}  ")})).await["success"],
        true
    );
    let reply = Mock::new().reply("add_card_comment", json!({"card_id": 1, "text": format!("{long}x")})).await;
    let text = reply["error"]["message"].as_str().unwrap();
    assert!(text.contains("1000-character") && text.contains("got 1001"), "{text}");
    for (tool, arguments) in [
        ("add_card_comment", json!({"card_id": 1, "text": " \n "})),
        ("update_comment", json!({"comment_id": 1, "text": ""})),
        ("update_comment", json!({"comment_id": 1, "text": "x".repeat(1_001)})),
    ] {
        let mock = Mock::new();
        assert_eq!(mock.reply(tool, arguments).await["error"]["code"], "INVALID_ARGUMENTS");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn failures_are_told_by_their_words() {
    for (message, needle) in [
        ("Could not find that resource", "Comment not found"),
        ("You are not authorized", "No permission"),
        ("Text can't be blank", "Invalid input"),
        ("Something went wrong", "Unexpected error"),
    ] {
        let mock = Mock::new().error("updateComment", message, "");
        let reply = mock.reply("update_comment", json!({"comment_id": 1, "text": "secret words"})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains(needle) && !text.contains("secret words"), "{text}");
    }
    let mock = Mock::new().error("deleteComment", "must not be blank", "");
    let reply = mock.confirmed("delete_comment", json!({"comment_id": 1})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("Unexpected error"), "{reply}");
}
