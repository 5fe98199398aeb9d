#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let table = json!({"id": "9", "name": "T", "table_fields": [{"id": "f", "label": "L"}]});
    for rules in [
        WriteRules::new("create_table", json!({"name": " T ", "organization_id": 1}))
            .write("createTable", json!({"table": {"id": "9", "name": "T"}})),
        WriteRules::new("update_table", json!({"table_id": 9, "name": "T2"}))
            .read("table", table.clone())
            .write("updateTable", json!({"table": {"id": "9"}})),
        WriteRules::new("delete_table", json!({"table_id": 9}))
            .read("table", table.clone())
            .write("deleteTable", json!({"success": true})),
        WriteRules::new("create_table_field", json!({"table_id": 9, "label": "L", "field_type": "short_text"}))
            .write("createTableField", json!({"table_field": {"id": "f"}})),
        WriteRules::new("update_table_field", json!({"table_id": 9, "field_id": "f", "label": "M"}))
            .read("table", table.clone())
            .write("updateTableField", json!({"table_field": {"id": "f"}})),
        WriteRules::new("delete_table_field", json!({"table_id": 9, "field_id": "f"}))
            .write("deleteTableField", json!({"success": true})),
        WriteRules::new("create_table_record", json!({"table_id": 9, "fields": {"f": "v"}}))
            .write("createTableRecord", json!({"table_record": {"id": "7"}})),
        WriteRules::new("delete_table_record", json!({"record_id": 7}))
            .read("table_record", json!({"id": "7"}))
            .write("deleteTableRecord", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

async fn sent(tool: &str, root: &str, arguments: Value) -> Value {
    let mock = Mock::new().on(root, json!({"x": {"id": "1"}}));
    let reply = mock.reply(tool, arguments).await;
    assert_eq!(reply["success"], true, "{reply}");
    mock.writes()[0].variables["input"].clone()
}

#[tokio::test]
async fn explicit_arguments_win_over_extra_keys() {
    let arguments =
        json!({"table_id": "9", "name": "T2", "extra_input": {"id": "1", "name": "x", "icon": "pipefy", "none": null}});
    assert_eq!(
        sent("update_table", "updateTable", arguments).await,
        json!({"id": "9", "name": "T2", "icon": "pipefy"})
    );
    let arguments =
        json!({"field_id": "f", "label": "L", "table_id": "9", "extra_input": {"table_id": "8", "label": "x"}});
    let expected = json!({"id": "f", "table_id": "9", "label": "L"});
    assert_eq!(sent("update_table_field", "updateTableField", arguments).await, expected);
    let arguments = json!({"field_id": "f", "required": false, "extra_input": {"table_id": 8}});
    let expected = json!({"id": "f", "table_id": "8", "required": false});
    assert_eq!(sent("update_table_field", "updateTableField", arguments).await, expected);
    let arguments = json!({"table_id": "9", "title": "mine", "fields": {"f": "v", "g": ["1"]},
        "extra_input": {"title": "theirs", "fields": {}, "label_ids": ["1"]}});
    let input = sent("create_table_record", "createTableRecord", arguments).await;
    assert_eq!((&input["title"], &input["label_ids"], input.get("fields")), (&json!("mine"), &json!(["1"]), None));
    let second = json!({"field_id": "g", "field_value": ["1"], "generated_by_ai": true});
    assert_eq!(input["fields_attributes"][1], second);
}

#[tokio::test]
async fn bad_input_sends_nothing() {
    for (tool, arguments) in [
        ("create_table", json!({"name": " ", "organization_id": 1})),
        ("create_table", json!({"name": "T", "organization_id": 0})),
        ("create_table", json!({"name": "T", "organization_id": 1, "extra_input": []})),
        ("update_table", json!({"table_id": 1})),
        ("update_table", json!({"table_id": 1, "extra_input": {"id": "2"}})),
        ("get_tables", json!({"table_ids": []})),
        ("get_tables", json!({"table_ids": ["0"]})),
        ("create_table_field", json!({"table_id": 1, "label": "", "field_type": "x"})),
        ("update_table_field", json!({"field_id": "f"})),
        ("update_table_field", json!({"field_id": "f", "label": "L"})),
        ("update_table_field", json!({"field_id": "f", "table_id": 1, "options": "a"})),
        ("create_table_record", json!({"table_id": 1, "fields": {}})),
        ("create_table_record", json!({"table_id": 1, "fields": [{"field_id": "f"}]})),
        ("create_table_record", json!({"table_id": 1, "fields": 3})),
        ("delete_table_record", json!({"record_id": "0"})),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments.clone()).await;
        assert_eq!(reply["success"], false, "{tool} {arguments}: {reply}");
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool} {arguments}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn reads_have_the_family_s_shape() {
    let mock = Mock::new().on("table", Value::Null);
    let reply = mock.reply("get_table", json!({"table_id": 9})).await;
    assert_eq!((&reply["data"], &reply["pagination"]), (&json!({"table": null}), &Value::Null));
    let mock = Mock::new().on("tables", json!([]));
    mock.reply("get_tables", json!({"table_ids": "[1, \"2\"]"})).await;
    assert_eq!(mock.sent()[0].variables, json!({"ids": ["1", "2"]}));
    let reply = Mock::new().error("table", "gone", "RECORD_NOT_FOUND").reply("get_table", json!({"table_id": 9})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("search_tables"), "{reply}");
}

#[tokio::test]
async fn a_table_s_deletion_is_explained_by_code_and_not_previewed_without_access() {
    for (code, word) in [("RESOURCE_NOT_FOUND", "not found"), ("PERMISSION_DENIED", "permission"), ("OTHER", "OTHER")] {
        let mock = Mock::new().error("table", "no", code);
        let reply = mock.reply("delete_table", json!({"table_id": 9})).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.to_lowercase().contains(&word.to_lowercase()), "{message}");
    }
    let mock = Mock::new().on("table", Value::Null);
    let reply = mock.reply("delete_table", json!({"table_id": 9})).await;
    assert_eq!(reply["resource"], "table 'Unknown' (ID: 9)");
    let mock = Mock::new().on("deleteTableField", json!({"success": false}));
    let reply = mock.confirmed("delete_table_field", json!({"table_id": 9, "field_id": "f"})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("delete table field (ID: f)"), "{reply}");
}

#[tokio::test]
async fn an_id_that_names_no_table_is_told_from_those_that_do() {
    // Pipefy refuses all for one: then each is asked for.
    let mock = Mock::new()
        .error("tables", "Table not found", "RESOURCE_NOT_FOUND")
        .on("table", json!({"id": "1"}))
        .error("table", "Table not found", "RESOURCE_NOT_FOUND");
    let reply = mock.reply("get_tables", json!({"table_ids": [1, "zzz"]})).await;
    let text = reply["error"]["message"].as_str().unwrap();
    assert!(text.contains("about 1 of 2: zzz") && text.contains("search_tables"), "{text}");
    assert_eq!(reply["error"]["details"]["wrong_ids"], json!(["zzz"]));
    // Or it leaves it out, or gives null for it.
    for tables in [json!([{"id": "1"}]), json!([{"id": "1"}, null])] {
        let reply = Mock::new().on("tables", tables).reply("get_tables", json!({"table_ids": ["1", "zzz"]})).await;
        let text = reply["message"].as_str().unwrap();
        assert!(reply["success"] == true && text.contains("but not zzz") && !text.contains('1'), "{reply}");
    }
    // A failure that no id causes is not looked into.
    let mock = Mock::new().timeout("tables", pipefy::OperationKind::Query);
    assert_eq!(mock.reply("get_tables", json!({"table_ids": [1, 2]})).await["success"], false);
    assert_eq!(mock.roots(), ["tables"]);
}

#[tokio::test]
async fn every_attribute_of_a_table_and_its_fields_that_was_written_is_read_back() {
    let field = json!({"id": "f", "label": "L", "help": "h", "unique": true, "minimal_view": false, "options": [], "type": "connector",
        "connectedRepo": {"id": "3"}});
    let table = json!({"id": "9", "name": "T", "icon": "car", "color": "red", "title_field": {"id": "f"}, "table_fields": [field]});
    let verified = async |tool: &str, root: &str, payload: Value, mut arguments: Value| {
        arguments["verify"] = true.into();
        let mock = Mock::new().on(root, payload).on("table", table.clone());
        mock.reply(tool, arguments).await["verification"].clone()
    };
    let arguments =
        json!({"table_id": 9, "name": "T", "extra_input": {"icon": "car", "color": "red", "title_field_id": "f"}});
    let block = verified("update_table", "updateTable", json!({"table": {"id": "9"}}), arguments).await;
    assert_eq!(
        (&block["verified"], block["note"].as_str().unwrap().contains("color")),
        (&json!(true), true),
        "{block}"
    );
    let arguments =
        json!({"table_id": 9, "field_id": "f", "extra_input": {"help": "h", "unique": true, "minimal_view": false}});
    let block =
        verified("update_table_field", "updateTableField", json!({"table_field": {"id": "f"}}), arguments).await;
    assert_eq!(block["verified"], true, "{block}");
    let arguments = json!({"table_id": 9, "field_id": "f", "required": true});
    let block =
        verified("update_table_field", "updateTableField", json!({"table_field": {"id": "f"}}), arguments).await;
    assert_eq!(block["verified"], Value::Null, "not shown, so not known: {block}");
    let arguments =
        json!({"table_id": 9, "label": "L", "field_type": "connector", "extra_input": {"connectedRepoId": 3}});
    let block =
        verified("create_table_field", "createTableField", json!({"table_field": {"id": "f"}}), arguments).await;
    assert_eq!(block["verified"], true, "{block}");
    let arguments = json!({"name": "T", "organization_id": 1, "extra_input": {"color": "blue"}});
    let block = verified("create_table", "createTable", json!({"table": {"id": "9"}}), arguments).await;
    assert_eq!(block["note"], "shown otherwise than asked: color");
}
