#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use super::masked;
use crate::tools::testing::{Mock, WriteRules};

const URL: &str = "https://example.com/h";

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let webhook = json!({"webhook": {"id": "1"}});
    for rules in [
        WriteRules::new("create_webhook", json!({"pipe_id": 5, "url": URL, "actions": ["card.create"]}))
            .write("createWebhook", webhook.clone()),
        WriteRules::new("update_webhook", json!({"webhook_id": 1, "name": "N"})).write("updateWebhook", webhook),
        WriteRules::new("delete_webhook", json!({"webhook_id": 1})).write("deleteWebhook", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

async fn input(tool: &str, root: &str, arguments: Value) -> Value {
    let mock = Mock::new().on(root, json!({"webhook": {"id": "1"}}));
    let reply = mock.reply(tool, arguments).await;
    assert_eq!(reply["success"], true, "{reply}");
    mock.writes()[0].variables["input"].clone()
}

#[tokio::test]
async fn digits_and_utf8_survive_and_headers_are_text() {
    let filters: Value = serde_json::from_str(r#"{"field_id": [9007199254740993]}"#).unwrap();
    let arguments = json!({"pipe_id": 5, "url": format!(" {URL} "), "actions": [" card.move "],
        "extra_input": {"headers": {"X-N": 9007199254740993u64, "X-T": "\u{e9}"}, "filters": filters, "url": "https://evil.example"}});
    let input = input("create_webhook", "createWebhook", arguments).await;
    assert_eq!(input["headers"], "{\"X-N\":9007199254740993,\"X-T\":\"\u{e9}\"}");
    assert_eq!(input["filters"].to_string(), r#"{"field_id":[9007199254740993]}"#);
    assert_eq!(
        (&input["url"], &input["actions"], &input["name"]),
        (&json!(URL), &json!(["card.move"]), &json!("Pipefy Webhook"))
    );
}

#[tokio::test]
async fn removed_headers_are_an_explicit_null_or_an_empty_set_and_said() {
    let sent = input("update_webhook", "updateWebhook", json!({"webhook_id": 1, "name": "N", "headers": null})).await;
    assert!(sent.as_object().unwrap().get("headers").unwrap().is_null());
    let sent = input("update_webhook", "updateWebhook", json!({"webhook_id": 1, "headers": {}})).await;
    assert_eq!(sent, json!({"id": "1", "headers": "{}"}));
    let sent = input("update_webhook", "updateWebhook", json!({"webhook_id": 1, "url": URL})).await;
    assert_eq!(sent, json!({"id": "1", "url": URL}));
    let mock = Mock::new().on("updateWebhook", json!({"webhook": {"id": "1"}}));
    let reply = mock.reply("update_webhook", json!({"webhook_id": 1, "name": "N"})).await;
    assert!(reply["message"].as_str().unwrap().contains("removed"), "{reply}");
}

#[tokio::test]
async fn bad_input_sends_nothing() {
    for (tool, arguments) in [
        ("create_webhook", json!({"pipe_id": 5, "url": "http://example.com", "actions": ["a"]})),
        ("create_webhook", json!({"pipe_id": 5, "url": "example.com", "actions": ["a"]})),
        ("create_webhook", json!({"pipe_id": 5, "url": "https://127.0.0.1/", "actions": ["a"]})),
        ("create_webhook", json!({"pipe_id": 5, "url": " ", "actions": ["a"]})),
        ("create_webhook", json!({"pipe_id": 5, "url": URL, "actions": []})),
        ("create_webhook", json!({"pipe_id": 5, "url": URL, "actions": [" "]})),
        ("create_webhook", json!({"pipe_id": 0, "url": URL, "actions": ["a"]})),
        ("update_webhook", json!({"webhook_id": 1})),
        ("update_webhook", json!({"webhook_id": 1, "headers": null})),
        ("update_webhook", json!({"webhook_id": 1, "name": " "})),
        ("update_webhook", json!({"webhook_id": 1, "url": "ftp://example.com"})),
        ("update_webhook", json!({"webhook_id": 1, "actions": []})),
        ("delete_webhook", json!({"webhook_id": 0})),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments.clone()).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool} {arguments}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn our_own_credential_is_never_stored_in_a_webhook() {
    for (tool, arguments) in [
        (
            "create_webhook",
            json!({"pipe_id": 5, "url": URL, "actions": ["a"], "extra_input": {"headers": {"Authorization": "Bearer secret-token"}}}),
        ),
        (
            "create_webhook",
            json!({"pipe_id": 5, "url": URL, "actions": ["a"], "extra_input": {"headers": "{\"X\": \"secret-token\"}"}}),
        ),
        ("update_webhook", json!({"webhook_id": 1, "headers": {"X": "secret-token"}})),
    ] {
        let mock = Mock::new().credential("secret-token");
        let reply = mock.reply(tool, arguments).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.contains("credential") && !message.contains("secret-token"), "{reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn listings_show_names_of_headers_only() {
    let webhook = |headers: Value| json!({"id": "1", "headers": headers});
    let mock =
        Mock::new().on("pipe", json!({"webhooks": [webhook(json!("{\"X-Key\":\"s3cret\"}")), webhook(Value::Null)]}));
    let reply = mock.reply("get_webhooks", json!({"pipe_id": 5})).await;
    assert_eq!(reply["result"]["pipe"]["webhooks"][0]["headers"], "{\"X-Key\":\"***\"}");
    assert_eq!(reply["result"]["pipe"]["webhooks"][1]["headers"], Value::Null);
    let reply = Mock::new().on("pipe", Value::Null).reply("get_webhooks", json!({"pipe_id": 5})).await;
    assert_eq!((&reply["success"], &reply["result"]), (&json!(true), &json!({"pipe": null})));
    for headers in
        [json!("not json s3cret"), json!(["s3cret"]), json!({"a": "s3cret"}), json!("\"{\\\"a\\\":\\\"s3cret\\\"}\"")]
    {
        assert!(!masked(headers.clone()).to_string().contains("s3cret"), "{headers}");
    }
}

#[tokio::test]
async fn the_service_s_own_message_is_passed_on() {
    let mock = Mock::new().error("createWebhook", "filters allow one action only", "INVALID_ARGUMENTS");
    let reply = mock.reply("create_webhook", json!({"pipe_id": 5, "url": URL, "actions": ["a", "b"]})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("one action only"));
    let reply = Mock::new()
        .on("deleteWebhook", json!({"success": false}))
        .confirmed("delete_webhook", json!({"webhook_id": 1}))
        .await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("delete webhook (ID: 1)"), "{reply}");
}
