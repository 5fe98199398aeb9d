#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let record = json!({"id": "7", "title": "x"});
    for rules in [
        WriteRules::new(
            "update_table_record",
            json!({"record_id": 7, "fields": {"title": "x", "status_id": "3", "other": 1}}),
        )
        .read("table_record", record.clone())
        .write("updateTableRecord", json!({"table_record": {"id": "7"}})),
        WriteRules::new("set_table_record_field_value", json!({"record_id": 7, "field_id": 5, "value": "v"}))
            .read("table_record", record)
            .write("setTableRecordFieldValue", json!({"table_record": {"id": "7"}})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn only_supported_attributes_of_a_record_are_sent() {
    let mock = Mock::new().on("updateTableRecord", json!({"table_record": {"id": "7"}}));
    let fields = json!({"due_date": null, "status_id": "3", "statusId": "4", "id": "9", "title": "x"});
    mock.reply("update_table_record", json!({"record_id": 7, "fields": fields})).await;
    assert_eq!(mock.writes()[0].variables["input"], json!({"id": "7", "statusId": "4", "title": "x"}));
    for fields in [json!({}), json!({"title": null}), json!({"other": 1})] {
        let mock = Mock::new();
        let reply = mock.reply("update_table_record", json!({"record_id": 7, "fields": fields})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("statusId"), "{reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn a_value_is_sent_as_a_list_and_null_is_refused() {
    for (given, sent) in [
        (json!("v"), json!(["v"])),
        (json!("[1,2]"), json!([1, 2])),
        (json!("5"), json!(["5"])),
        (json!(["a"]), json!(["a"])),
        (json!(true), json!([true])),
    ] {
        let mock = Mock::new().on("setTableRecordFieldValue", json!({"table_record": {"id": "7"}}));
        mock.reply("set_table_record_field_value", json!({"record_id": 7, "field_id": "f", "value": given})).await;
        assert_eq!(mock.writes()[0].variables["input"]["value"], sent);
    }
    for value in [Value::Null, json!("null")] {
        let mock = Mock::new();
        let reply =
            mock.reply("set_table_record_field_value", json!({"record_id": 7, "field_id": "f", "value": value})).await;
        assert_eq!(reply["success"], false);
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn listings_keep_their_two_shapes_of_pagination() {
    let page = json!({"edges": [], "pageInfo": {"hasNextPage": true, "endCursor": "n"}});
    let mock = Mock::new().on("table_records", page.clone());
    let reply = mock.reply("get_table_records", json!({"table_id": 9, "after": " c "})).await;
    assert_eq!(reply["pagination"], json!({"has_more": true, "end_cursor": "n", "page_size": 50}));
    assert_eq!(mock.sent()[0].variables, json!({"tableId": "9", "first": 50, "after": "c"}));
    let reply = Mock::new().on("findRecords", page).legacy();
    let reply = reply.reply("find_records", json!({"table_id": 9, "field_id": " f ", "field_value": ""})).await;
    assert_eq!(reply["pagination"], json!({"hasNextPage": true, "endCursor": "n"}));
    let mock = Mock::new().on("findRecords", Value::Null);
    let reply = mock.reply("find_records", json!({"table_id": 9, "field_id": " f ", "field_value": ""})).await;
    assert_eq!(reply["pagination"], json!({"has_more": false, "end_cursor": null, "page_size": 50}));
    assert_eq!(mock.sent()[0].variables, json!({"tableId": "9", "fieldId": "f", "fieldValue": ""}));
    let reply = Mock::new().on("table_record", Value::Null).reply("get_table_record", json!({"record_id": 9})).await;
    assert_eq!(reply["pagination"], Value::Null);
    assert_eq!(reply["data"], json!({"table_record": null}));
    for arguments in [
        json!({"table_id": 9, "first": 201}),
        json!({"table_id": 9, "after": " "}),
        json!({"table_id": 9, "first": null}),
    ] {
        let mock = Mock::new();
        assert_eq!(mock.reply("get_table_records", arguments).await["success"], false);
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn tables_are_found_by_name() {
    let organizations = json!([
        {"id": "1", "name": "A", "tables": {"nodes": [{"id": "1", "name": "Clients"}, {"id": "2", "name": "Cliets old"}, {"id": "3", "name": null}],
            "pageInfo": {"hasNextPage": true, "endCursor": "n"}}},
        {"id": "2", "name": "B", "tables": null}
    ]);
    let mock = Mock::new().on("organizations", organizations.clone());
    let reply = mock.reply("search_tables", json!({"table_name": "clients"})).await;
    let rows = reply["data"]["organizations"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["tables"][0]["match_score"]), (1, &json!(100.0)));
    assert_eq!((&rows[0]["tables_has_next_page"], &rows[0]["tables_page_end_cursor"]), (&json!(true), &json!("n")));
    assert_eq!(reply["data"]["search_limits"], json!({"tables_first": 100, "tables_has_next_page": true}));
    assert_eq!(reply["pagination"], json!({"has_more": false, "end_cursor": null, "page_size": 100}));
    let reply =
        Mock::new().on("organizations", organizations).legacy().reply("search_tables", json!({"table_name": ""})).await;
    assert_eq!(reply["organizations"][1], json!({"id": "2", "name": "B", "tables": []}));
}

#[tokio::test]
async fn a_title_that_was_not_applied_is_told() {
    let create = async |title: &str| {
        let mock = Mock::new().on("createTableRecord", json!({"table_record": {"id": "7", "title": "abc"}}));
        mock.reply("create_table_record", json!({"table_id": 9, "title": title, "fields": {"f": "abc"}})).await
    };
    let reply = create("mine").await;
    let warning = reply["title_warning"].as_str().unwrap();
    assert!(
        warning.contains("'mine'") && warning.contains("'abc'") && warning.contains("update_table_record"),
        "{warning}"
    );
    assert!(create("abc").await.get("title_warning").is_none());
}

#[tokio::test]
async fn the_values_of_a_record_are_read_back() {
    let shown = |value: Value, list: Value| json!({"record_fields": [{"field": {"id": "f"}, "value": value, "array_value": list}]});
    for (record, verified) in [
        (shown(json!("v"), Value::Null), json!(true)),
        (shown(json!("[\"v\"]"), json!(["v"])), json!(true)),
        (shown(json!("other"), Value::Null), json!(false)),
        (json!({"record_fields": []}), json!(false)),
        (Value::Null, Value::Null),
    ] {
        let mock = Mock::new()
            .on("setTableRecordFieldValue", json!({"table_record": {"id": "7"}}))
            .on("createTableRecord", json!({"table_record": {"id": "7"}}))
            .on("table_record", record.clone());
        for (tool, arguments) in [
            ("set_table_record_field_value", json!({"record_id": 7, "field_id": "f", "value": "v", "verify": true})),
            ("create_table_record", json!({"table_id": 9, "fields": {"f": "v"}, "verify": true})),
        ] {
            let reply = mock.reply(tool, arguments).await;
            assert_eq!(reply["verification"]["verified"], verified, "{tool} {record}: {reply}");
        }
    }
    let record = json!({"id": "7", "title": "T", "due_date": "2026-12-01T00:00:00Z", "status": {"id": "3"}});
    let mock = Mock::new().on("updateTableRecord", json!({"table_record": {"id": "7"}})).on("table_record", record);
    let fields = json!({"title": "T", "due_date": "2026-12-01", "status_id": 3});
    let reply = mock.reply("update_table_record", json!({"record_id": 7, "fields": fields, "verify": true})).await;
    assert_eq!(
        reply["verification"],
        json!({"verified": true, "note": "compared title, due_date, statusId"}),
        "{reply}"
    );
}
