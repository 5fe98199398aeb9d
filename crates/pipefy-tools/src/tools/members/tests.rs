#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

fn members(ids: &[(&str, &str)]) -> Value {
    let list: Vec<Value> = ids
        .iter()
        .map(|(id, uuid)| json!({"role_name": "admin", "user": {"id": id, "uuid": uuid, "email": "Sa@Example.com"}}))
        .collect();
    json!({"id": "1", "uuid": "pipe-uuid", "members": list})
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let row = json!([{"email": "A@Example.com", "role_name": " member "}]);
    for rules in [
        WriteRules::new("invite_members", json!({"pipe_id": 1, "members": row}))
            .write("inviteMembers", json!({"users": [{"id": "1"}], "errors": []})),
        WriteRules::new("remove_member_from_pipe", json!({"pipe_id": 1, "user_ids": [5]}))
            .read("pipe", members(&[]))
            .write("removeMembersFromPipe", json!({"success": true})),
        WriteRules::new("set_role", json!({"pipe_id": 1, "member_id": 9, "role_name": " admin "}))
            .read("pipe", members(&[("9", "u")]))
            .write("setRole", json!({"member": {"role_name": "admin"}})),
        WriteRules::new("add_service_account_to_pipe", json!({"pipe_id": "abc", "email": "sa@example.com"}))
            .write("inviteMembers", json!({"users": [{"id": "1"}], "errors": []})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn every_row_is_checked_before_anybody_is_invited() {
    for (rows, needles) in [
        (json!([]), vec!["email", "role_name"]),
        (
            json!([{"email": "a@example.com", "role_name": "x"}, {"email": "a@example.com"}]),
            vec!["members[1]", "role_name"],
        ),
        (json!([{"email": "a@host", "role_name": "x"}]), vec!["members[0].email"]),
        (json!([{"email": 5, "role_name": "x"}]), vec!["members[0].email"]),
        (json!([{"email": "a@example.com", "role_name": "  "}]), vec!["members[0].role_name"]),
        (json!([{"email": "a@example.com", "role_name": "x", "foo": 1}]), vec!["members[0].foo", "Extra inputs"]),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("invite_members", json!({"pipe_id": 1, "members": rows})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(needles.iter().all(|needle| text.contains(needle)) && !text.contains('\n'), "{text}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn rows_that_pipefy_refused_are_named() {
    let payload = json!({"users": [], "errors": [{"index": 0, "message": "bad"}]});
    let mock = Mock::new().on("inviteMembers", payload);
    let reply = mock
        .reply("invite_members", json!({"pipe_id": 1, "members": [{"email": "a@example.com", "role_name": "x"}]}))
        .await;
    assert_eq!(reply["success"], false, "nobody was invited: {reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("row 0: bad"));
    let payload = json!({"users": [{"id": "7"}], "errors": [{"index": 1, "message": "bad"}]});
    let members = json!([{"email": "a@example.com", "role_name": "x"}, {"email": "b@example.com", "role_name": "x"}]);
    let mock = Mock::new().on("inviteMembers", payload.clone());
    let reply = mock.reply("invite_members", json!({"pipe_id": 1, "members": members})).await;
    assert_eq!((&reply["success"], &reply["result"]["inviteMembers"]), (&json!(true), &payload));
    assert!(reply["message"].as_str().unwrap().contains("row 1: bad"));
}

#[tokio::test]
async fn membership_decides_whether_a_service_account_was_added() {
    let arguments = json!({"pipe_id": 1, "email": " SA@example.com "});
    let done = json!({"users": [{"id": "1"}], "errors": []});
    let there = members(&[("1", "u")]);
    for (payload, pipe, success, code) in [
        (done.clone(), there.clone(), true, None),
        (Value::Null, there.clone(), true, None),
        (done.clone(), members(&[]), false, None),
        (
            json!({"users": [], "errors": [{"index": 0, "message": "unknown user"}]}),
            members(&[]),
            false,
            Some("INVALID_ARGUMENTS"),
        ),
    ] {
        let mock = Mock::new().on("inviteMembers", payload.clone()).on("pipe", pipe);
        let reply = mock.reply("add_service_account_to_pipe", arguments.clone()).await;
        assert_eq!(reply["success"], success, "{reply}");
        assert_eq!(reply["error"]["code"].as_str(), code, "{reply}");
        if !success {
            let text = reply["error"]["message"].as_str().unwrap();
            assert!(
                text.contains("sa@example.com") && text.contains("pipe 1") && text.contains("Confirm the e-mail"),
                "{text}"
            );
        }
    }
    let unreadable = |payload: Value| Mock::new().on("inviteMembers", payload).error("pipe", "no", "");
    assert_eq!(unreadable(done).reply("add_service_account_to_pipe", arguments.clone()).await["success"], true);
    assert_eq!(unreadable(Value::Null).reply("add_service_account_to_pipe", arguments).await["success"], false);
}

#[tokio::test]
async fn removal_maps_ids_to_uuids_and_reads_back() {
    let before = members(&[("5", "user-5"), ("6", "user-6")]);
    let mock = Mock::new()
        .on("pipe", before.clone())
        .on("pipe", before.clone())
        .on("pipe", members(&[("6", "user-6")]))
        .on("removeMembersFromPipe", json!({"success": true}));
    let arguments = json!({"pipe_id": 1, "user_ids": [5, "99", "user-6"]});
    let preview = Mock::new().reply("remove_member_from_pipe", arguments.clone()).await;
    let text = preview["message"].as_str().unwrap();
    assert!(text.contains("Removing") && !text.contains("Deleting") && text.contains("5, 99, user-6"), "{text}");
    assert_eq!(preview["resource"], "3 member(s) from pipe 1");
    let reply = mock.confirmed("remove_member_from_pipe", arguments).await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({"pipeUuid": "pipe-uuid", "usersUuids": ["user-5", "99", "user-6"]})
    );
    let warning = reply["warning"].as_str().unwrap();
    assert!(warning.contains("user-6") && warning.contains("org-level"), "{warning}");
    // Without a number among the ids, the members need not be read first.
    let mock = Mock::new().on("pipe", members(&[])).on("removeMembersFromPipe", json!({"success": true}));
    let reply = mock.confirmed("remove_member_from_pipe", json!({"pipe_id": 1, "user_ids": ["user-6"]})).await;
    assert_eq!(mock.roots(), ["pipe", "removeMembersFromPipe", "pipe"]);
    assert!(reply.get("warning").is_none());
}

#[tokio::test]
async fn removal_wants_a_number_for_the_pipe_and_somebody_to_remove() {
    for (arguments, needle) in [
        (json!({"pipe_id": "11111111-2222-4333-8444-555555555555", "user_ids": [5]}), "numeric pipe ID"),
        (json!({"pipe_id": 1, "user_ids": []}), "user_ids"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("remove_member_from_pipe", arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{reply}");
        assert!(mock.sent().is_empty());
    }
}
