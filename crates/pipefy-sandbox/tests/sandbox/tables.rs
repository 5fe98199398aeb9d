//! Tables and their records.

use crate::{MEMBER, Rig};
use serde_json::{Value, json};

async fn suppliers(rig: &Rig) -> String {
    let data = rig.ok("{ organizations { tables(first: 9) { nodes { id name } } } }", json!({})).await;
    let nodes = data["organizations"][0]["tables"]["nodes"].as_array().unwrap().clone();
    nodes.iter().find(|t| t["name"] == "Fornecedores").unwrap()["id"].as_str().unwrap().to_owned()
}

const RECORD: &str =
    "query($id: ID!) { table_record(id: $id) { id title status { name } record_fields { name value } table { id } } }";

#[tokio::test]
async fn records_are_created_changed_found_and_deleted() {
    let rig = Rig::new().await;
    let table = suppliers(&rig).await;
    let create = "mutation CreateTableRecord($input: CreateTableRecordInput!) { createTableRecord(input: $input) { table_record { id title } } }";
    let error = rig.error(create, json!({ "input": { "table_id": table, "fields_attributes": [] } })).await;
    assert_eq!(error["message"], "Field \"Nome\" is required");
    let fields =
        json!([{ "field_id": "nome", "field_value": "Loja Nova" }, { "field_id": "rating", "field_value": 4.5 }]);
    let input = json!({ "input": { "table_id": table, "fields_attributes": fields } });
    let made = rig.ok(create, input.clone()).await["createTableRecord"]["table_record"].clone();
    assert_eq!(made["title"], "Loja Nova");
    assert!(rig.error(create, input).await["message"].as_str().unwrap().contains("already been taken"));
    let set = "mutation($input: SetTableRecordFieldValueInput!) { setTableRecordFieldValue(input: $input) {
        table_record { id title } table_record_field { name value } } }";
    let answer = rig
        .ok(set, json!({ "input": { "table_record_id": made["id"], "field_id": "categoria", "value": ["Software"] } }))
        .await;
    assert_eq!(
        answer["setTableRecordFieldValue"]["table_record_field"],
        json!({ "name": "Categoria", "value": "Software" })
    );
    let update =
        "mutation($input: UpdateTableRecordInput!) { updateTableRecord(input: $input) { table_record { id title } } }";
    let renamed = rig.ok(update, json!({ "input": { "id": made["id"], "title": "Loja Velha" } })).await;
    assert_eq!(renamed["updateTableRecord"]["table_record"]["title"], "Loja Velha");
    let read = rig.ok(RECORD, json!({ "id": made["id"] })).await["table_record"].clone();
    assert_eq!(read["record_fields"].as_array().unwrap().len(), 3, "entries without value are left out: {read:#}");
    let find = "query($t: String!, $f: String!, $v: String!) { findRecords(tableId: $t, search: { fieldId: $f, fieldValue: $v }) {
        edges { node { id title fields { name value } } } pageInfo { hasNextPage } } }";
    let found =
        rig.ok(find, json!({ "t": table, "f": "nome", "v": "Loja Nova" })).await["findRecords"]["edges"].clone();
    assert_eq!((found.as_array().unwrap().len(), &found[0]["node"]["id"]), (1, &made["id"]));
    assert_eq!(found[0]["node"]["fields"][0], json!({ "name": "Nome", "value": "Loja Nova" }));
    let delete = "mutation($input: DeleteTableRecordInput!) { deleteTableRecord(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": made["id"] } })).await;
    assert_eq!(rig.error(RECORD, json!({ "id": made["id"] })).await["extensions"]["code"], "PERMISSION_DENIED");
}

#[tokio::test]
async fn tables_are_created_with_fields_and_deleted() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone();
    let create = "mutation($input: CreateTableInput!) { createTable(input: $input) { table { id internal_id name authorization } } }";
    let table = rig
        .ok(create, json!({ "input": { "organization_id": org, "name": "Contracts", "authorization": "read" } }))
        .await["createTable"]["table"]
        .clone();
    assert_eq!(table["authorization"], "read");
    let field = "mutation($input: CreateTableFieldInput!) { createTableField(input: $input) { table_field { id label type } } }";
    let made =
        rig.ok(field, json!({ "input": { "table_id": table["id"], "label": "Número", "type": "short_text" } })).await;
    assert_eq!(made["createTableField"]["table_field"]["id"], "numero");
    let read = rig
        .ok(
            "query($ids: [ID]!) { tables(ids: $ids) { id table_fields { id label } } }",
            json!({ "ids": [table["internal_id"]] }),
        )
        .await;
    assert_eq!(read["tables"][0]["table_fields"][0]["label"], "Número");
    let delete = "mutation($input: DeleteTableInput!) { deleteTable(input: $input) { success } }";
    let denied = rig.error_as(MEMBER, delete, json!({ "input": { "id": table["id"] } })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
    rig.ok(delete, json!({ "input": { "id": table["id"] } })).await;
    let gone = rig.error("query($id: ID!) { table(id: $id) { id } }", json!({ "id": table["id"] })).await;
    assert_eq!(gone["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn one_denied_table_leaves_the_others_readable() {
    let rig = Rig::new().await;
    let data = rig.ok("{ organizations { tables(first: 9) { nodes { id name } } } }", json!({})).await;
    let ids: Vec<Value> =
        data["organizations"][0]["tables"]["nodes"].as_array().unwrap().iter().map(|t| t["id"].clone()).collect();
    let body = rig
        .raw("/graphql", crate::GUEST, "query($ids: [ID]!) { tables(ids: $ids) { name } }", json!({ "ids": ids }))
        .await;
    assert_eq!(body["data"]["tables"], json!([null, null, null]));
    assert_eq!(body["errors"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_value_of_a_wrong_kind_is_refused_with_the_forms_there_are_and_wipes_nothing() {
    let rig = Rig::new().await;
    let table = suppliers(&rig).await;
    let records = "query($id: ID!) { table_records(table_id: $id, first: 1) { edges { node { id record_fields { name value } } } } }";
    let record = rig.ok(records, json!({ "id": table })).await["table_records"]["edges"][0]["node"].clone();
    let set = "mutation($input: SetTableRecordFieldValueInput!) { setTableRecordFieldValue(input: $input) { table_record { id } } }";
    for (field, value, part) in [
        ("nome", json!({ "a": 1 }), "takes text, not an object"),
        ("categoria", json!([{ "a": 1 }]), "not an object"),
        ("categoria", json!("Nonsense"), "its options are"),
        ("rating", json!("many"), "digits"),
        ("contract_until", json!("31/12/2026"), "YYYY-MM-DD"),
        ("e_mail", json!("nobody"), "name@example.com"),
    ] {
        let input = json!({ "table_record_id": record["id"], "field_id": field, "value": value });
        let error = rig.error(set, json!({ "input": input })).await;
        assert!(error["message"].as_str().unwrap().contains(part), "{field}: {error}");
    }
    assert_eq!(rig.ok(records, json!({ "id": table })).await["table_records"]["edges"][0]["node"], record);
}
