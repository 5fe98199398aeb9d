//! Page caps and cursors.

use crate::Rig;
use serde_json::{Value, json};
use std::collections::HashSet;

#[tokio::test]
async fn a_pipe_gives_fifty_and_a_phase_thirty_at_most() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let query = "query($id: ID!, $after: String) { cards(pipe_id: $id, first: 500, after: $after) {
        totalCount edges { cursor node { id } } pageInfo { hasNextPage endCursor startCursor } } }";
    let mut seen = HashSet::new();
    let mut after = Value::Null;
    let mut pages = 0;
    loop {
        let page = rig.ok(query, json!({ "id": pipe["id"], "after": after })).await["cards"].clone();
        let edges = page["edges"].as_array().unwrap();
        assert!(edges.len() <= 50);
        seen.extend(edges.iter().map(|e| e["node"]["id"].as_str().unwrap().to_owned()));
        pages += 1;
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        assert_ne!(page["pageInfo"]["endCursor"], after);
        after = page["pageInfo"]["endCursor"].clone();
    }
    assert_eq!((seen.len(), pages), (94, 2));
    let empty_cursor = rig.ok(query, json!({ "id": pipe["id"], "after": "" })).await;
    assert_eq!(empty_cursor["cards"]["edges"].as_array().unwrap().len(), 50);
    assert!(
        rig.error(query, json!({ "id": pipe["id"], "after": "garbage" })).await["message"]
            .as_str()
            .unwrap()
            .contains("cursor")
    );

    let phase = pipe["phases"].as_array().unwrap().iter().max_by_key(|p| p["cards_count"].as_i64()).unwrap();
    assert!(phase["cards_count"].as_i64().unwrap() > 30);
    let query = "query($id: ID!) { phase(id: $id) { cards(first: 500) { totalCount edges { node { id } } pageInfo { hasNextPage } } } }";
    let page = rig.ok(query, json!({ "id": phase["id"] })).await["phase"]["cards"].clone();
    assert_eq!(page["edges"].as_array().unwrap().len(), 30);
    assert_eq!((&page["pageInfo"]["hasNextPage"], &page["totalCount"]), (&json!(true), &phase["cards_count"]));
}

#[tokio::test]
async fn a_cursor_survives_the_deletion_of_its_card() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let query = "query($id: ID!, $first: Int, $after: String) { cards(pipe_id: $id, first: $first, after: $after) {
        edges { node { id } } pageInfo { endCursor } } }";
    let page = rig.ok(query, json!({ "id": pipe["id"], "first": 3 })).await["cards"].clone();
    let next = rig.ok(query, json!({ "id": pipe["id"], "first": 1, "after": page["pageInfo"]["endCursor"] })).await;
    let delete = "mutation($input: DeleteCardInput!) { deleteCard(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": page["edges"][2]["node"]["id"] } })).await;
    let again = rig.ok(query, json!({ "id": pipe["id"], "first": 1, "after": page["pageInfo"]["endCursor"] })).await;
    assert_eq!(again["cards"]["edges"], next["cards"]["edges"]);
}

/// Lists and look-ups that read no more than they must give what reading everything gives.
#[tokio::test]
async fn look_ups_find_what_is_there() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let create = "mutation($input: CreateCardInput!) { createCard(input: $input) { card { id } } }";
    let find = "query($id: ID!, $value: String!) { findCards(pipeId: $id, search: { fieldId: \"subject\", fieldValue: $value }) {
        edges { node { id } } } }";
    for subject in
        ["say \"x\", twice", "back\\slash", "S\u{e3}o \u{4f5c}\u{696d} \u{1f389}", "1.50", "\"", "it's 100%_"]
    {
        let values = json!([
            { "field_id": "subject", "field_value": subject }, { "field_id": "description", "field_value": "d" },
            { "field_id": "channel", "field_value": "Chat" },
        ]);
        let made = rig.ok(create, json!({ "input": { "pipe_id": pipe["id"], "fields_attributes": values } })).await;
        let found = rig.ok(find, json!({ "id": pipe["id"], "value": subject })).await["findCards"]["edges"].clone();
        assert_eq!(found, json!([{ "node": made["createCard"]["card"] }]), "{subject}");
    }
    let none = rig.ok(find, json!({ "id": pipe["id"], "value": "twice" })).await;
    assert_eq!(none["findCards"]["edges"], json!([]), "a part of a value is not the value");
    let list = "query($id: ID!, $search: CardSearch) { cards(pipe_id: $id, search: $search, first: 50) {
        totalCount edges { cursor node { id title } } pageInfo { endCursor hasNextPage } } }";
    let whole = rig.ok(list, json!({ "id": pipe["id"], "search": {} })).await;
    let searched = rig.ok(list, json!({ "id": pipe["id"], "search": { "title": "" } })).await;
    assert_eq!(whole, searched);
    assert_eq!(whole["cards"]["totalCount"], 100);
}
