#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

fn arguments() -> Value {
    json!({
        "phase_id": 9, "name": " C ",
        "condition": {"expressions": [{"structure_id": "0", "field_address": "1", "operation": "equals", "value": "x"}],
                      "expressions_structure": [["0"]]},
        "actions": [{"phaseFieldId": "1002", "actionId": "show"}]
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut arguments = arguments();
    arguments[key] = value;
    arguments
}

fn required_field() -> Value {
    json!({"id": "amount", "internal_id": "1002", "uuid": "11111111-2222-4333-8444-555555555555", "type": "number", "required": true})
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let rule = json!({"id": "77", "phase": {"id": "9"}});
    for rules in [
        WriteRules::new("create_field_condition", arguments())
            .read("fieldCondition", rule.clone())
            .read("phase", json!({"fields": [], "fieldConditions": []}))
            .write("createFieldCondition", json!({"fieldCondition": {"id": "77"}})),
        WriteRules::new(
            "update_field_condition",
            json!({"condition_id": 77, "name": "N", "actions": [{"actionId": "hide", "phaseFieldId": 5}]}),
        )
        .read("fieldCondition", rule)
        .read("phase", json!({"fields": []}))
        .write("updateFieldCondition", json!({"fieldCondition": {"id": "77"}})),
        WriteRules::new("delete_field_condition", json!({"condition_id": 77}))
            .write("deleteFieldCondition", json!({"success": true}))
            .judged_by_reader(),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn a_new_rule_is_normalised_sent_and_read_back() {
    let mock = Mock::new()
        .on("createFieldCondition", json!({"fieldCondition": {"id": 77}}))
        .on("fieldCondition", json!({"id": "77", "phase": {"id": 9}}));
    let mut arguments =
        with("extra_input", json!({"phaseId": "1", "phase_id": "2", "index": 1, "name": "other", "x": null}));
    arguments["actions"] = json!([{"phaseFieldId": "1002", "actionId": "show"}]);
    let reply = mock.reply("create_field_condition", arguments).await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({
            "phaseId": "9", "name": "C", "index": 1,
            "condition": {"expressions": [{"structure_id": 0, "field_address": "1", "operation": "equals", "value": "x"}],
                          "expressions_structure": [[0]]},
            "actions": [{"phaseFieldId": "1002", "actionId": "show"}]
        })
    );
    assert_eq!(
        reply,
        json!({
            "success": true, "message": "Field condition 77 created and read back.", "condition_id": "77",
            "action": "created", "verified": true
        })
    );
    assert_eq!(mock.roots(), ["createFieldCondition", "fieldCondition"]);
}

#[tokio::test]
async fn a_rule_that_went_elsewhere_or_nowhere_is_a_failure_and_one_that_cannot_be_read_a_warning() {
    let mock = || Mock::new().on("createFieldCondition", json!({"fieldCondition": {"id": "77"}}));
    let elsewhere = mock().on("fieldCondition", json!({"phase": {"id": "8"}}));
    let reply = elsewhere.reply("create_field_condition", arguments()).await;
    assert_eq!(reply["error"]["code"], "FIELD_CONDITION_WRONG_PHASE");
    assert_eq!(reply["error"]["details"], json!({"condition_id": "77", "phase_id": "9", "actual_phase_id": "8"}));
    let nowhere = mock().on("fieldCondition", Value::Null).on("phase", json!({"fieldConditions": [{"id": "5"}]}));
    let reply = nowhere.reply("create_field_condition", arguments()).await;
    assert_eq!(reply["error"]["code"], "FIELD_CONDITION_NOT_PERSISTED");
    let text = reply["error"]["message"].as_str().unwrap();
    for part in ["did not persist", "77", "`delete_field_condition`", "confirm=true", "do not retry create"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let listed = mock().error("fieldCondition", "no", "").on("phase", json!({"fieldConditions": [{"id": 77}]}));
    assert_eq!(listed.reply("create_field_condition", arguments()).await["verified"], true);
    let unreadable = mock().error("fieldCondition", "no", "").error("phase", "no", "");
    let reply = unreadable.reply("create_field_condition", arguments()).await;
    assert!(
        reply["warning"].as_str().unwrap().contains("could not verify") && reply.get("verified").is_none(),
        "{reply}"
    );
    assert_eq!(reply["success"], true);
}

#[tokio::test]
async fn mistakes_are_refused_before_anything_is_written() {
    for (arguments, needle) in [
        (with("condition", json!({})), "non-empty"),
        (with("actions", json!([])), "non-empty"),
        (with("actions", json!([{"phaseFieldId": "amount"}])), "actions[0]"),
        (with("name", json!(" ")), "name"),
        (with("name", Value::Null), "extra_input.name"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("create_field_condition", arguments).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{needle}: {reply}");
        assert!(mock.sent().is_empty());
    }
    for (arguments, needle) in [
        (json!({"condition_id": 1, "extra_input": {"actions": []}}), "top-level"),
        (json!({"condition_id": 1}), "at least one"),
        (json!({"condition_id": 1, "actions": []}), "non-empty"),
        (json!({"condition_id": 1, "name": " "}), "name"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("update_field_condition", arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{needle}: {reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn hiding_a_required_field_is_refused_in_every_spelling() {
    let field = required_field();
    for action in ["hide", " Hide ", "HIDDEN"] {
        for id in ["1002", field["uuid"].as_str().unwrap()] {
            let actions = json!([{"phaseFieldId": id, "actionId": action}]);
            let mock = Mock::new().on("phase", json!({"fields": [field]}));
            let reply = mock.reply("create_field_condition", with("actions", actions.clone())).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(id), "{reply}");
            assert!(mock.writes().is_empty());
            let mock =
                Mock::new().on("fieldCondition", json!({"phase": {"id": "9"}})).on("phase", json!({"fields": [field]}));
            let reply = mock.reply("update_field_condition", json!({"condition_id": 1, "actions": actions})).await;
            assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
            assert!(mock.writes().is_empty());
        }
    }
}

#[tokio::test]
async fn reading_a_rule_and_writing_it_back_changes_nothing() {
    let condition = json!({
        "expressions_structure": [[0, 1], [2]],
        "expressions": [
            {"structure_id": 0, "field_address": "1", "operation": "equals", "value": "a"},
            {"structure_id": 1, "field_address": "2", "operation": "present", "value": null},
            {"structure_id": 2, "field_address": "3", "operation": "blank", "value": ""}
        ]
    });
    let rule = json!({"id": "77", "name": "R", "condition": condition, "actions": [{"actionId": "show", "phaseFieldId": "4"}]});
    let mock =
        Mock::new().on("fieldCondition", rule).on("updateFieldCondition", json!({"fieldCondition": {"id": "77"}}));
    let read = mock.reply("get_field_condition", json!({"field_condition_id": 77})).await;
    let read = &read["field_condition"];
    let arguments = json!({"condition_id": 77, "condition": read["condition"], "actions": read["actions"]});
    mock.reply("update_field_condition", arguments).await;
    let sent = &mock.writes()[0].variables["input"];
    assert_eq!((&sent["condition"], &sent["actions"]), (&condition, &read["actions"]));
    let text = pipefy::documents::conditions::GET_FIELD_CONDITION.text();
    for key in ["expressions_structure", "structure_id", "actionId", "phaseFieldId", "whenEvaluator"] {
        assert!(text.contains(key) && pipefy::documents::phases::GET_PHASE_CONDITIONS.text().contains(key), "{key}");
    }
}

#[tokio::test]
async fn a_refused_deletion_has_its_own_shape() {
    let mock = Mock::new().on("deleteFieldCondition", json!({"success": false}));
    let reply = mock.confirmed("delete_field_condition", json!({"condition_id": 77})).await;
    assert_eq!(reply, json!({"success": false, "message": "Pipefy declined to delete field condition 77."}));
    for (tool, root, arguments) in [
        ("get_field_conditions", "phase", json!({"phase_id": 9})),
        ("get_field_condition", "fieldCondition", json!({"field_condition_id": 9})),
    ] {
        let reply = Mock::new().on(root, Value::Null).reply(tool, arguments).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("access denied"), "{reply}");
    }
}

#[tokio::test]
async fn operations_are_those_that_conditions_know() {
    let condition = |operation: &str| json!({"expressions": [{"structure_id": 0, "field_address": "1", "operation": operation, "value": "x"}], "expressions_structure": [[0]]});
    let mock = Mock::new();
    let reply = mock.reply("create_field_condition", with("condition", condition("similar_to"))).await;
    let text = reply["error"]["message"].as_str().unwrap();
    assert_eq!((&reply["error"]["code"], mock.sent().len()), (&json!("INVALID_ARGUMENTS"), 0));
    for part in ["expressions[0].operation", "similar_to", "string_not_contains", "date_in_last_year"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for known in pipefy::conditions::CONDITION_OPERATIONS.into_iter().chain([""]) {
        let mock = Mock::new()
            .on("createFieldCondition", json!({"fieldCondition": {"id": 77}}))
            .on("fieldCondition", json!({"id": "77", "phase": {"id": 9}}));
        assert_eq!(
            mock.reply("create_field_condition", with("condition", condition(known))).await["success"],
            true,
            "{known}"
        );
    }
    // What a rule holds already can be written back, whatever it is; nothing else new.
    let stored = || Mock::new().on("fieldCondition", json!({"id": "1", "condition": condition("odd")}));
    let mock = stored().on("updateFieldCondition", json!({"fieldCondition": {"id": "1"}}));
    let reply = mock
        .reply("update_field_condition", json!({"condition_id": 1, "condition": condition("odd"), "verify": true}))
        .await;
    assert_eq!((&reply["success"], &reply["verification"]["verified"]), (&json!(true), &json!(true)), "{reply}");
    for arguments in
        [json!({"condition": condition("odder")}), json!({"extra_input": {"condition": condition("odder")}})]
    {
        let mut arguments = arguments;
        arguments["condition_id"] = 1.into();
        let mock = stored();
        assert!(
            mock.reply("update_field_condition", arguments).await["error"]["message"]
                .as_str()
                .unwrap()
                .contains("odder")
        );
        assert!(mock.writes().is_empty());
    }
}

#[tokio::test]
async fn an_answer_without_an_id_is_pipefy_s_oddity_and_no_mistake_of_the_caller() {
    for (tool, root, arguments) in [
        ("create_field_condition", "createFieldCondition", arguments()),
        ("update_field_condition", "updateFieldCondition", json!({"condition_id": 1, "name": "N"})),
    ] {
        let mock = Mock::new().on(root, json!({"fieldCondition": {"id": null, "name": "N"}}));
        let reply = mock.reply(tool, arguments).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains("Pipefy answered without the id") && text.contains("before repeating"), "{tool}: {text}");
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
    }
}
