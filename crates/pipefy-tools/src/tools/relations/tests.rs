#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use pipefy::EndpointKind;
use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("create_pipe_relation", json!({"parent_id": 1, "child_id": 2, "name": " R "}))
            .write("createPipeRelation", json!({"pipeRelation": {"id": "3"}})),
        WriteRules::new("update_pipe_relation", json!({"relation_id": 3, "name": "R"}))
            .read("pipe_relations", json!([]))
            .write("updatePipeRelation", json!({"pipeRelation": {"id": "3"}})),
        WriteRules::new("delete_pipe_relation", json!({"relation_id": 3}))
            .write("deletePipeRelation", json!({"success": true})),
        WriteRules::new("create_card_relation", json!({"parent_id": 1, "child_id": 2, "source_id": 3}))
            .write("createCardRelation", json!({"cardRelation": {"id": "4"}})),
        WriteRules::new("delete_card_relation", json!({"parent_id": 1, "child_id": 2, "source_id": 3}))
            .write("deleteCardRelation", json!({"success": true})),
    ] {
        let tool = rules.tool;
        let sent = rules.check().await;
        let internal = sent[0].endpoint == EndpointKind::Internal;
        assert_eq!(internal, tool == "delete_card_relation");
    }
}

#[tokio::test]
async fn extra_input_adds_rules_and_retargets_nothing() {
    let mock = Mock::new().on("createPipeRelation", json!({"pipeRelation": {"id": "3"}}));
    let extra = json!({
        "parentId": "9", "child_id": "9", "name": "x", "canCreateNewItems": false, "autoFillFieldEnabled": null,
        "ownFieldMaps": []
    });
    let arguments = json!({"parent_id": 1, "child_id": 2, "name": "R", "extra_input": extra});
    mock.reply("create_pipe_relation", arguments).await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({
            "parentId": "1", "childId": "2", "name": "R", "allChildrenMustBeDoneToFinishParent": false,
            "allChildrenMustBeDoneToMoveParent": false, "autoFillFieldEnabled": false, "canConnectExistingItems": true,
            "canConnectMultipleItems": true, "canCreateNewItems": false, "childMustExistToFinishParent": false,
            "childMustExistToMoveParent": false, "ownFieldMaps": []
        })
    );
    let mock = Mock::new().on("createCardRelation", json!({"cardRelation": {"id": "4"}}));
    let arguments = json!({"parent_id": 1, "child_id": 2, "source_id": 3, "extra_input": "{\"sourceType\": \"Field\", \"sourceId\": \"9\"}"});
    mock.reply("create_card_relation", arguments).await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({"parentId": "1", "childId": "2", "sourceId": "3", "sourceType": "Field"})
    );
    for extra in [json!([1]), json!("x"), json!(3)] {
        let mock = Mock::new();
        let reply =
            mock.reply("update_pipe_relation", json!({"relation_id": 1, "name": "R", "extra_input": extra})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains("extra_input") && text.contains("dict"), "{text}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn rules_of_a_relation_are_kept_when_its_pipe_is_known_and_said_to_be_reset_when_not() {
    let relation = json!({"id": 3, "name": "R", "canCreateNewItems": false, "childMustExistToMoveParent": true});
    let pipe = json!({"id": "1", "parentsRelations": null, "childrenRelations": [relation]});
    let mock = Mock::new().on("pipe", pipe.clone()).on("updatePipeRelation", json!({"pipeRelation": {"id": "3"}}));
    let arguments =
        json!({"relation_id": 3, "name": "N", "pipe_id": 1, "extra_input": {"canConnectExistingItems": false}});
    let reply = mock.reply("update_pipe_relation", arguments).await;
    let input = &mock.writes()[0].variables["input"];
    assert_eq!(
        (&input["canCreateNewItems"], &input["childMustExistToMoveParent"], &input["canConnectExistingItems"]),
        (&json!(false), &json!(true), &json!(false))
    );
    let text = reply["message"].as_str().unwrap();
    assert!(
        text.contains("reset") && !text.contains("canCreateNewItems") && text.contains("autoFillFieldEnabled"),
        "{text}"
    );
    // Without the pipe its own read tells the rules as well.
    let own = json!([{"id": 3, "name": "R", "canCreateNewItems": false}]);
    let mock = Mock::new().on("pipe_relations", own).on("updatePipeRelation", json!({"pipeRelation": {"id": "3"}}));
    let reply = mock.reply("update_pipe_relation", json!({"relation_id": 3, "name": "N", "verify": true})).await;
    assert_eq!(mock.writes()[0].variables["input"]["canCreateNewItems"], false);
    // What it is named now is not what was asked for.
    assert_eq!(reply["verification"]["verified"], false, "{reply}");
    let mock =
        Mock::new().error("pipe_relations", "no", "").on("updatePipeRelation", json!({"pipeRelation": {"id": "3"}}));
    let reply = mock.reply("update_pipe_relation", json!({"relation_id": 3, "name": "N"})).await;
    assert_eq!(mock.writes()[0].variables["input"]["canCreateNewItems"], true);
    assert!(reply["message"].as_str().unwrap().contains("canCreateNewItems"), "{reply}");
    let mock = Mock::new().on("pipe", pipe);
    let reply = mock.reply("update_pipe_relation", json!({"relation_id": 4, "name": "N", "pipe_id": 1})).await;
    assert_eq!(reply["error"]["code"], "NOT_FOUND");
    assert!(mock.writes().is_empty());
}

#[tokio::test]
async fn relations_are_listed() {
    let card = json!({"childRelations": [{"name": "R"}], "parent_relations": null});
    let reply = Mock::new().on("card", card).reply("get_card_relations", json!({"card_id": 5})).await;
    assert_eq!((&reply["child_relations"], &reply["parent_relations"]), (&json!([{"name": "R"}]), &json!([])));
    let reply = Mock::new().on("card", Value::Null).reply("get_card_relations", json!({"card_id": 5})).await;
    assert_eq!(reply["error"]["code"], "NOT_FOUND");
    let reply = Mock::new().on("pipe", Value::Null).reply("get_pipe_relations", json!({"pipe_id": 5})).await;
    assert_eq!(reply["data"], json!({"pipe": null}));
    let mock = Mock::new().on("table_relations", json!([]));
    mock.reply("get_table_relations", json!({"relation_ids": [1, "2"]})).await;
    assert_eq!(mock.sent()[0].variables, json!({"ids": ["1", "2"]}));
    let reply = Mock::new().reply("get_table_relations", json!({"relation_ids": []})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("relation_ids"));
}

#[tokio::test]
async fn a_relation_that_was_not_removed_did_not_succeed() {
    for payload in [json!({"success": false}), json!({"success": null}), Value::Null] {
        let mock = Mock::new().on("deleteCardRelation", payload);
        let reply =
            mock.confirmed("delete_card_relation", json!({"parent_id": 1, "child_id": 2, "source_id": 3})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("did not succeed"), "{reply}");
    }
}
