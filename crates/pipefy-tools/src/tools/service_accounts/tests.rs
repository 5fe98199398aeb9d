#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

const ORGANIZATION: &str = "11111111-2222-4333-8444-555555555555";

fn account(secret: Value) -> Value {
    json!({"success": true, "serviceAccount": {
        "id": "1", "uuid": "22222222-3333-4444-8555-666666666666", "email": "sa@example.com", "client": {"id": "c", "secret": secret}
    }})
}

fn arguments() -> Value {
    json!({"organization_uuid": ORGANIZATION, "name": " sa ", "role": "normal"})
}

fn with(changes: Value) -> Value {
    let mut arguments = arguments();
    for (key, value) in changes.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    arguments
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("create_service_account", arguments()).write("createServiceAccount", account(json!("s3cr3t"))),
        WriteRules::new(
            "delete_service_account",
            json!({"organization_uuid": ORGANIZATION, "service_account_uuid": " u "}),
        )
        .write("deleteServiceAccount", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn a_new_account_joins_pipes_one_after_the_other_and_failures_are_told() {
    let members = json!({"members": [{"user": {"email": "SA@example.com"}}]});
    let mock = Mock::new()
        .on("createServiceAccount", account(json!("s3cr3t")))
        .on("inviteMembers", json!({"users": [{"id": "1"}], "errors": []}))
        .error("inviteMembers", "Permission denied", "PERMISSION_DENIED")
        .on("pipe", members)
        .on("pipe", json!({"members": []}));
    let reply = mock
        .reply(
            "create_service_account",
            with(json!({
                "pipe_ids": [" 1 ", "2"], "expiration_unit": "days", "expiration_value": 2, "description": "d"
            })),
        )
        .await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({
            "organizationUuid": ORGANIZATION, "name": "sa", "role": "normal", "description": "d",
            "expirationTime": {"unit": "days", "value": 2}
        })
    );
    assert_eq!(
        mock.writes()[1].variables["input"],
        json!({"pipe_id": "1", "emails": [{"email": "sa@example.com", "role_name": "admin"}]})
    );
    assert_eq!(
        reply["data"]["pipe_memberships"],
        json!([
            {"pipe_id": "1", "invited": true, "member": true},
            {"pipe_id": "2", "invited": false, "error": "Permission denied", "member": false}
        ])
    );
    assert_eq!(reply["data"]["serviceAccount"]["client"]["secret"], "s3cr3t");
    assert!(reply["message"].as_str().unwrap().contains("once"));
}

#[tokio::test]
async fn no_failure_shows_the_secret_or_invites_anybody() {
    let mut refused = account(json!("s3cr3t"));
    refused["success"] = json!(false);
    for (payload, uuid) in [
        (refused, None),
        (account(json!("")), Some("22222222-3333-4444-8555-666666666666")),
        (account(Value::Null), Some("22222222-3333-4444-8555-666666666666")),
        (json!({"success": true, "serviceAccount": null}), None),
        (Value::Null, None),
    ] {
        let mock = Mock::new().on("createServiceAccount", payload.clone());
        let arguments = with(json!({"pipe_ids": ["1"]}));
        let error = mock.call("create_service_account", arguments.clone()).await.unwrap_err();
        assert!(!format!("{error:?} {error}").contains("s3cr3t"));
        assert_eq!(error.details.get("service_account_uuid").and_then(Value::as_str), uuid, "{payload}");
        assert!(!error.message.contains("once"));
        assert_eq!(mock.writes().len(), 1);
    }
}

#[tokio::test]
async fn bad_arguments_are_refused_and_named() {
    for (changes, needle) in [
        (json!({"organization_uuid": " "}), "organization_uuid"),
        (json!({"name": " "}), "name"),
        (json!({"name": "x".repeat(21)}), "20 characters"),
        (json!({"role": ""}), "role"),
        (json!({"expiration_value": 2}), "expiration_unit"),
        (json!({"expiration_unit": "days"}), "expiration_value"),
        (json!({"expiration_unit": "weeks", "expiration_value": 2}), "expiration_unit"),
        (json!({"expiration_unit": "days", "expiration_value": 0}), "expiration_value"),
        (json!({"pipe_ids": ["1", " "]}), "pipe_ids"),
        (json!({"pipe_ids": [1]}), "pipe_ids"),
        (json!({"pipe_ids": ["1"], "pipe_role": " "}), "pipe_role"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("create_service_account", with(changes)).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{needle}: {reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn a_token_confirms_one_account_of_one_organization() {
    let mock = Mock::new().on("deleteServiceAccount", json!({"success": true}));
    let preview =
        mock.reply("delete_service_account", json!({"organization_uuid": "o", "service_account_uuid": "a"})).await;
    assert_eq!(preview["resource"], "service account a");
    let token = &preview["confirmation_token"];
    let other =
        json!({"organization_uuid": "p", "service_account_uuid": "a", "confirm": true, "confirmation_token": token});
    assert_eq!(mock.reply("delete_service_account", other).await["requires_confirmation"], true);
    let same =
        json!({"organization_uuid": " o", "service_account_uuid": "a ", "confirm": true, "confirmation_token": token});
    assert_eq!(mock.reply("delete_service_account", same).await["data"], json!({"success": true}));
}
