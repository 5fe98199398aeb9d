//! Creating, filling, moving, commenting, deleting cards.

use crate::{CREATE_CARD, Rig, purchase};
use serde_json::{Value, json};

const MOVE: &str =
    "mutation($input: MoveCardToPhaseInput!) { moveCardToPhase(input: $input) { clientMutationId card { id } } }";
const VALUES: &str = "mutation($input: UpdateFieldsValuesInput!) { updateFieldsValues(input: $input) {
    success userErrors { field message } updatedNode { ... on Card { id fields { name value } } } } }";
const CARD: &str =
    "query($id: ID!) { card(id: $id) { id uuid title late done due_date finished_at started_current_phase_at
    current_phase { id name } fields { name value array_value field { id } } labels { id } assignees { id }
    comments { id text author { name } } comments_count
    phases_history { phase { name } firstTimeIn lastTimeIn lastTimeOut duration } } }";

async fn card(rig: &Rig, id: &str) -> Value {
    rig.ok(CARD, json!({ "id": id })).await["card"].clone()
}

async fn fill(rig: &Rig, id: &str, values: Value) -> Value {
    rig.ok(VALUES, json!({ "input": { "nodeId": id, "values": values } })).await["updateFieldsValues"].clone()
}

#[tokio::test]
async fn a_required_start_form_field_is_enforced_and_text_comes_back_unchanged() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let error = rig.error(CREATE_CARD, json!({ "input": { "pipe_id": pipe["id"], "title": "Only a title" } })).await;
    assert_eq!(error["message"], "Field \"What do you need?\" is required");
    assert_eq!(error["extensions"]["code"], "RECORD_NOT_SAVED");
    let id = rig.card().await;
    let card = card(&rig, &id).await;
    assert_eq!(card["title"], "Teclado \"sem fio\" \\ {x} ✓");
    assert_eq!(card["current_phase"]["name"], "Triage");
    assert_eq!(card["fields"][1]["value"], "2");
}

#[tokio::test]
async fn a_rejected_create_stores_nothing() {
    let rig = Rig::new().await;
    let before = rig.ok("{ organizations { pipes { cards_count } } }", json!({})).await;
    let pipe = rig.pipe("Purchase Requests").await;
    let mut values = purchase();
    values.as_array_mut().unwrap().push(json!({ "field_id": "no_such_field", "field_value": "x" }));
    let error =
        rig.error(CREATE_CARD, json!({ "input": { "pipe_id": pipe["id"], "fields_attributes": values } })).await;
    assert_eq!(error["extensions"]["code"], "RESOURCE_NOT_FOUND");
    assert_eq!(rig.ok("{ organizations { pipes { cards_count } } }", json!({})).await, before);
}

#[tokio::test]
async fn moves_follow_the_allowed_targets_and_the_required_fields() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let order = rig.phase("Purchase Requests", "Order").await;
    let body = rig
        .raw(
            "/graphql",
            pipefy_sandbox::DEFAULT_TOKEN,
            MOVE,
            json!({ "input": { "card_id": id, "destination_phase_id": order } }),
        )
        .await;
    let error = &body["errors"][0];
    assert_eq!(error["message"], format!("Card could not be moved to phase id: {order}"));
    assert!(error.get("extensions").is_none(), "{error:#}");
    assert_eq!(body["data"]["moveCardToPhase"], Value::Null);

    let approval = rig.phase("Purchase Requests", "Approval").await;
    let to_approval = json!({ "input": { "card_id": id, "destination_phase_id": approval, "clientMutationId": "m1" } });
    let error = rig.error(MOVE, to_approval.clone()).await;
    assert_eq!(error["message"], "Field \"Category\" is required");
    fill(&rig, &id, json!([{ "fieldId": "category", "value": "Hardware" }])).await;
    assert_eq!(rig.ok(MOVE, to_approval).await["moveCardToPhase"]["clientMutationId"], "m1");

    let card = card(&rig, &id).await;
    assert_eq!(card["current_phase"]["name"], "Approval");
    let history = card["phases_history"].as_array().unwrap();
    assert_eq!(history[0]["phase"]["name"], "Triage");
    assert!(history[0]["lastTimeOut"].is_string());
    assert_eq!(history[1]["phase"]["name"], "Approval");
    assert!(history[1]["lastTimeOut"].is_null());
}

#[tokio::test]
async fn a_done_phase_finishes_the_card() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    fill(&rig, &id, json!([{ "fieldId": "category", "value": "Office" }])).await;
    let rejected = rig.phase("Purchase Requests", "Rejected").await;
    rig.ok(MOVE, json!({ "input": { "card_id": id, "destination_phase_id": rejected } })).await;
    let card = card(&rig, &id).await;
    assert_eq!(card["done"], true);
    assert!(card["finished_at"].is_string());
}

#[tokio::test]
async fn thirty_values_pass_and_thirty_one_fail_without_errors() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let values = |count: usize| json!(vec![json!({ "fieldId": "justification", "value": "x" }); count]);
    assert_eq!(fill(&rig, &id, values(30)).await["success"], true);
    let refused = fill(&rig, &id, values(31)).await;
    assert_eq!(refused["success"], false);
    assert!(refused["userErrors"][0]["message"].as_str().unwrap().contains("30"));
}

#[tokio::test]
async fn an_unknown_field_is_a_user_error_and_keeps_the_rest_unwritten() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let answer =
        fill(&rig, &id, json!([{ "fieldId": "justification", "value": "new" }, { "fieldId": "nope", "value": 1 }]))
            .await;
    assert_eq!(answer["success"], false);
    assert_eq!(answer["userErrors"][0]["field"][0], "nope");
    let fields = card(&rig, &id).await["fields"].to_string();
    assert!(!fields.contains("new"), "{fields}");
}

#[tokio::test]
async fn assignee_and_connector_fields_want_ids() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let named = fill(&rig, &id, json!([{ "fieldId": "approver", "value": ["Bruno Lima"] }])).await;
    assert!(named["userErrors"][0]["message"].as_str().unwrap().contains("ids of members"), "{named:#}");
    let titled = fill(&rig, &id, json!([{ "fieldId": "supplier", "value": ["Papelaria Três Irmãos"] }])).await;
    assert!(titled["userErrors"][0]["message"].as_str().unwrap().contains("ids of cards or records"), "{titled:#}");

    let pipe = rig.pipe("Purchase Requests").await;
    let user = pipe["members"][1]["user"]["id"].as_str().unwrap();
    let tables = rig.ok("{ organizations { tables(first: 5) { nodes { id name } } } }", json!({})).await;
    let table = tables["organizations"][0]["tables"]["nodes"][0]["id"].clone();
    let records = rig
        .ok(
            "query($t: ID!) { table_records(table_id: $t, first: 3) { edges { node { id title } } } }",
            json!({ "t": table }),
        )
        .await;
    let ids: Vec<&str> = (0..3).map(|i| records["table_records"]["edges"][i]["node"]["id"].as_str().unwrap()).collect();
    let set =
        |operation: &str, value: Value| json!([{ "fieldId": "supplier", "value": value, "operation": operation }]);
    fill(&rig, &id, json!([{ "fieldId": "approver", "value": [user] }])).await;
    fill(&rig, &id, set("REPLACE", json!([ids[0], ids[1]]))).await;
    fill(&rig, &id, set("ADD", json!([ids[2]]))).await;
    fill(&rig, &id, set("REMOVE", json!([ids[0]]))).await;
    let card = card(&rig, &id).await;
    let supplier = card["fields"].as_array().unwrap().iter().find(|f| f["name"] == "Supplier").unwrap();
    assert_eq!(supplier["array_value"], json!([ids[1], ids[2]]));
    assert!(
        supplier["value"]
            .as_str()
            .unwrap()
            .contains(records["table_records"]["edges"][2]["node"]["title"].as_str().unwrap())
    );
    assert_eq!(card["assignees"][0]["id"], user);
}

#[tokio::test]
async fn values_are_checked_by_type() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    for (field, value) in [
        ("quantity", json!("two")),
        ("urgency", json!("Someday")),
        ("approval_date", json!("31/12/2024")),
        ("requester_e_mail", json!("nobody")),
        ("supplier_cnpj", json!("123")),
        ("quotes", json!("asdf")),
    ] {
        let answer = fill(&rig, &id, json!([{ "fieldId": field, "value": value }])).await;
        assert_eq!(answer["success"], false, "{field}");
    }
}

#[tokio::test]
async fn attributes_replace_whole_lists_and_an_empty_list_clears() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let update = "mutation($input: UpdateCardInput!) { updateCard(input: $input) { card { title due_date labels { id } assignees { id } } } }";
    let (label, user) = (&pipe["labels"][0]["id"], &pipe["members"][0]["user"]["id"]);
    let input = json!({ "id": id, "title": "Novo título", "label_ids": [label], "assignee_ids": [user], "due_date": "2027-01-31" });
    let card = rig.ok(update, json!({ "input": input })).await["updateCard"]["card"].clone();
    assert_eq!(card["due_date"], "2027-01-31T00:00:00Z");
    assert_eq!((&card["labels"][0]["id"], &card["assignees"][0]["id"]), (label, user));
    let card = rig.ok(update, json!({ "input": { "id": id, "label_ids": [] } })).await["updateCard"]["card"].clone();
    assert_eq!(card["labels"], json!([]));
    assert_eq!(card["assignees"].as_array().unwrap().len(), 1);
    assert_eq!(card["title"], "Novo título");
}

#[tokio::test]
async fn comments_are_written_changed_and_removed() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let create = "mutation($input: CreateCommentInput!) { createComment(input: $input) { comment { id } } }";
    let made = rig.ok(create, json!({ "input": { "card_id": id, "text": "Olá" } })).await;
    let comment = made["createComment"]["comment"]["id"].clone();
    rig.ok(
        "mutation($input: UpdateCommentInput!) { updateComment(input: $input) { comment { id } } }",
        json!({ "input": { "id": comment, "text": "Tchau" } }),
    )
    .await;
    let read = card(&rig, &id).await;
    assert_eq!((read["comments_count"].as_i64(), &read["comments"][0]["text"]), (Some(1), &json!("Tchau")));
    let delete = "mutation($input: DeleteCommentInput!) { deleteComment(input: $input) { success } }";
    assert_eq!(rig.ok(delete, json!({ "input": { "id": comment } })).await["deleteComment"]["success"], true);
    assert_eq!(
        rig.error(delete, json!({ "input": { "id": comment } })).await["extensions"]["code"],
        "RESOURCE_NOT_FOUND"
    );
    let long = "x".repeat(1_001);
    assert!(
        rig.error(create, json!({ "input": { "card_id": id, "text": long } })).await["message"]
            .as_str()
            .unwrap()
            .contains("1000")
    );
}

#[tokio::test]
async fn a_deleted_card_answers_as_a_denied_one() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let delete = "mutation($input: DeleteCardInput!) { deleteCard(input: $input) { success } }";
    assert_eq!(rig.ok(delete, json!({ "input": { "id": id } })).await["deleteCard"]["success"], true);
    assert_eq!(rig.error(CARD, json!({ "id": id })).await["extensions"]["code"], "PERMISSION_DENIED");
    assert_eq!(rig.error(CARD, json!({ "id": "99" })).await["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn the_seed_uses_every_field_type_and_has_late_and_done_cards() {
    let rig = Rig::new().await;
    let data = rig
        .ok("{ organizations { pipes { id cards_count start_form_fields { type } phases { lateCardsCount done cards_count fields { type } } } } }", json!({}))
        .await;
    let text = data.to_string();
    for kind in [
        "assignee_select",
        "attachment",
        "checklist_horizontal",
        "checklist_vertical",
        "connector",
        "cpf",
        "currency",
        "date",
        "datetime",
        "due_date",
        "dynamic_content",
        "email",
        "id",
        "label_select",
        "long_text",
        "number",
        "phone",
        "radio_horizontal",
        "radio_vertical",
        "select",
        "short_text",
        "statement",
        "time",
        "cnpj",
    ] {
        assert!(text.contains(&format!("\"type\":\"{kind}\"")), "{kind}");
    }
    let pipes: Vec<&Value> =
        data["organizations"].as_array().unwrap().iter().flat_map(|o| o["pipes"].as_array().unwrap()).collect();
    let cards: i64 = pipes.iter().map(|p| p["cards_count"].as_i64().unwrap()).sum();
    assert!((290..=330).contains(&cards), "{cards}");
    let phases = || pipes.iter().flat_map(|p| p["phases"].as_array().unwrap());
    assert!(phases().any(|p| p["lateCardsCount"].as_i64().unwrap() > 0));
    assert!(phases().any(|p| p["done"] == true && p["cards_count"].as_i64().unwrap() > 0));
}

#[tokio::test]
async fn the_records_query_filters_orders_and_keeps_its_oddities() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let query = "query($repo: ID!, $where: FilterSet, $order: [OrderBy!], $term: String, $after: String, $first: Int) {
        records(repoId: $repo, where: $where, orderBy: $order, searchTerm: $term, after: $after, first: $first) {
            totalCount pageInfo { hasNextPage endCursor } edges { node { id title labels { id } currentPhase { id done } } } } }";
    let all = rig.ok(query, json!({ "repo": pipe["id"], "first": 500 })).await["records"].clone();
    assert_eq!((all["totalCount"].as_i64(), all["edges"].as_array().unwrap().len()), (Some(94), 50));
    let label = &pipe["labels"][0]["id"];
    let filter =
        json!({ "and": [{ "attribute": "LABELS", "in": [label] }, { "attribute": "TITLE", "ilike": "LOG in" }] });
    let order = json!([{ "attribute": "TITLE", "direction": "DESC" }]);
    let found = rig.ok(query, json!({ "repo": pipe["id"], "where": filter, "order": order })).await["records"].clone();
    let titles: Vec<&str> =
        found["edges"].as_array().unwrap().iter().map(|e| e["node"]["title"].as_str().unwrap()).collect();
    assert!(!titles.is_empty() && titles.iter().all(|t| t.starts_with("Cannot log in")), "{titles:?}");
    let mut sorted = titles.clone();
    sorted.sort_unstable();
    sorted.reverse();
    assert_eq!(titles, sorted);
    let field = &pipe["start_form_fields"][3];
    let by_field =
        rig.ok(query, json!({ "repo": pipe["id"], "where": { "field": field["uuid"], "eq": "Chat" } })).await;
    let total = by_field["records"]["totalCount"].as_i64().unwrap();
    assert!(total > 0 && total < 94, "{total}");
    let empty = rig.ok(query, json!({ "repo": pipe["id"], "after": "" })).await["records"].clone();
    assert_eq!((empty["edges"].as_array().unwrap().len(), &empty["pageInfo"]["hasNextPage"]), (0, &json!(false)));
    rig.error(query, json!({ "repo": pipe["id"], "where": {} })).await;
}
