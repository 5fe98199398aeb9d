//! Pipes, phases, fields, labels, conditions, relations, clones.

use crate::Rig;
use pipefy_sandbox::DEFAULT_TOKEN;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CREATE_PIPE: &str =
    "mutation($input: CreatePipeInput!) { createPipe(input: $input) { pipe { id name startFormPhaseId } } }";
const CREATE_PHASE: &str =
    "mutation($input: CreatePhaseInput!) { createPhase(input: $input) { phase { id name done } } }";
const CREATE_FIELD: &str = "mutation($input: CreatePhaseFieldInput!) { createPhaseField(input: $input) {
    phase_field { id internal_id uuid label type required options } } }";
const UPDATE_FIELD: &str =
    "mutation($input: UpdatePhaseFieldInput!) { updatePhaseField(input: $input) { phase_field { id uuid label } } }";

async fn organization(rig: &Rig) -> Value {
    rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone()
}

async fn new_pipe(rig: &Rig) -> Value {
    let input = json!({ "name": "Projetos", "organization_id": organization(rig).await });
    rig.ok(CREATE_PIPE, json!({ "input": input })).await["createPipe"]["pipe"].clone()
}

async fn phases(rig: &Rig, pipe: &Value) -> Vec<Value> {
    let query = "query($id: ID!) { pipe(id: $id) { phases { id name index fields { id uuid label }
        cards_can_be_moved_to_phases { name } } } }";
    rig.ok(query, json!({ "id": pipe["id"] })).await["pipe"]["phases"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_new_pipe_has_three_connected_phases_and_a_new_phase_none() {
    let rig = Rig::new().await;
    let pipe = new_pipe(&rig).await;
    let made = phases(&rig, &pipe).await;
    assert_eq!(made.iter().map(|p| p["index"].as_f64().unwrap()).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    assert_eq!(made[0]["cards_can_be_moved_to_phases"].as_array().unwrap().len(), 2);
    rig.ok(CREATE_PHASE, json!({ "input": { "pipe_id": pipe["id"], "name": "Between", "index": 1.5 } })).await;
    rig.ok(CREATE_PHASE, json!({ "input": { "pipe_id": pipe["id"], "name": "Hidden", "index": 0 } })).await;
    let names: Vec<String> = phases(&rig, &pipe).await.iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["Inbox", "Between", "Doing", "Done"]);
    assert_eq!(phases(&rig, &pipe).await[1]["cards_can_be_moved_to_phases"], json!([]));
}

#[tokio::test]
async fn overlapping_creates_in_one_pipe_are_rejected_and_others_are_not() {
    let rig = Rig::new().await;
    let (one, two) = (new_pipe(&rig).await, new_pipe(&rig).await);
    let create = |pipe: &Value, name: &str| {
        let input = json!({ "input": { "pipe_id": pipe["id"], "name": name } });
        let rig = &rig;
        async move { rig.raw("/graphql", DEFAULT_TOKEN, CREATE_PHASE, input).await }
    };
    let answers = tokio::join!(create(&one, "A"), create(&one, "B"), create(&one, "C"), create(&two, "D"));
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let refused = answers[..3].iter().filter(|a| a["errors"][0]["extensions"]["code"] == "RECORD_NOT_SAVED").count();
    assert!(refused >= 1, "{answers:#?}");
    assert!(answers[3].get("errors").is_none());
    let before = phases(&rig, &one).await.len();
    for name in ["E", "F"] {
        assert!(create(&one, name).await.get("errors").is_none(), "one after the other they pass");
    }
    assert_eq!(phases(&rig, &one).await.len(), before + 2);
}

#[tokio::test]
async fn a_field_has_three_ids_and_its_slug_follows_the_label() {
    let rig = Rig::new().await;
    let pipe = new_pipe(&rig).await;
    let phase = &phases(&rig, &pipe).await[0]["id"];
    let field = |label: &str| json!({ "input": { "phase_id": phase, "label": label, "type": "select", "options": ["a", "b"] } });
    let first = rig.ok(CREATE_FIELD, field("Prazo é")).await["createPhaseField"]["phase_field"].clone();
    assert_eq!(first["id"], "prazo_e");
    assert_ne!(first["internal_id"], first["uuid"]);
    let second = rig.ok(CREATE_FIELD, field("Prazo é")).await["createPhaseField"]["phase_field"].clone();
    assert_eq!(second["id"], "prazo_e_1");
    let renamed =
        rig.ok(UPDATE_FIELD, json!({ "input": { "id": "x", "uuid": first["uuid"], "label": "Deadline" } })).await;
    assert_eq!(renamed["updatePhaseField"]["phase_field"]["id"], "deadline");
    let error =
        rig.error(CREATE_FIELD, json!({ "input": { "phase_id": phase, "label": "X", "type": "hologram" } })).await;
    assert_eq!(error["extensions"]["code"], "RESOURCE_NOT_FOUND");
    let error =
        rig.error(CREATE_FIELD, json!({ "input": { "phase_id": phase, "label": "X", "type": "connector" } })).await;
    assert_eq!(error["extensions"]["code"], "RECORD_NOT_SAVED");
    let delete = "mutation($input: DeletePhaseFieldInput!) { deletePhaseField(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": second["uuid"] } })).await;
    let left: Vec<Value> = phases(&rig, &pipe).await[0]["fields"].as_array().unwrap().clone();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn a_slug_alone_may_hit_the_same_field_of_another_pipe() {
    let rig = Rig::new().await;
    let (one, two) = (new_pipe(&rig).await, new_pipe(&rig).await);
    for pipe in [&one, &two] {
        let phase = phases(&rig, pipe).await[0]["id"].clone();
        rig.ok(CREATE_FIELD, json!({ "input": { "phase_id": phase, "label": "Shared slug", "type": "number" } })).await;
    }
    rig.ok(UPDATE_FIELD, json!({ "input": { "id": "shared_slug", "label": "Renamed" } })).await;
    assert_eq!(phases(&rig, &one).await[0]["fields"][0]["label"], "Renamed");
    assert_eq!(phases(&rig, &two).await[0]["fields"][0]["label"], "Shared slug");
}

#[tokio::test]
async fn pipes_and_phases_are_updated_and_deleted() {
    let rig = Rig::new().await;
    let pipe = new_pipe(&rig).await;
    let update = "mutation($input: UpdatePipeInput!) { updatePipe(input: $input) { pipe { id name icon color preferences { inboxEmailEnabled startFormTitle } } } }";
    let input =
        json!({ "id": pipe["id"], "name": "Obras", "color": "red", "preferences": { "inboxEmailEnabled": false } });
    let updated = rig.ok(update, json!({ "input": input })).await["updatePipe"]["pipe"].clone();
    assert_eq!((&updated["name"], &updated["color"]), (&json!("Obras"), &json!("red")));
    assert_eq!(updated["preferences"]["inboxEmailEnabled"], false);
    let phase = phases(&rig, &pipe).await[1].clone();
    let update = "mutation($input: UpdatePhaseInput!) { updatePhase(input: $input) { phase { id name done } } }";
    rig.error(update, json!({ "input": { "id": phase["id"] } })).await;
    let changed = rig.ok(update, json!({ "input": { "id": phase["id"], "name": "Working", "done": true } })).await;
    assert_eq!(changed["updatePhase"]["phase"]["done"], true);
    let delete = "mutation($input: DeletePhaseInput!) { deletePhase(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": phase["id"] } })).await;
    assert_eq!(phases(&rig, &pipe).await.len(), 2);
    let delete = "mutation($input: DeletePipeInput!) { deletePipe(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": pipe["id"] } })).await;
    let gone = rig.error("query($id: ID!) { pipe(id: $id) { id } }", json!({ "id": pipe["id"] })).await;
    assert_eq!(gone["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn a_clone_is_empty_at_first_and_then_has_new_ids_and_the_same_slugs() {
    let rig = Rig::new().await;
    let source = rig.pipe("Purchase Requests").await;
    let clone =
        "mutation($input: ClonePipesInput!) { clonePipes(input: $input) { pipes { id name phases { id name } } } }";
    let made = rig.ok(clone, json!({ "input": { "pipe_template_ids": [source["id"]] } })).await["clonePipes"]["pipes"]
        [0]
    .clone();
    assert_eq!(made["phases"], json!([]));
    let start = Instant::now();
    let copied = loop {
        let found = phases(&rig, &made).await;
        if !found.is_empty() {
            break found;
        }
        assert!(start.elapsed() < Duration::from_secs(90), "the clone becomes ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let original = source["phases"].as_array().unwrap();
    assert_eq!(copied.len(), original.len());
    assert_ne!(copied[0]["id"], original[0]["id"]);
    assert_eq!(copied[1]["fields"][0]["id"], original[1]["fields"][0]["id"]);
    assert_ne!(copied[1]["fields"][0]["uuid"], original[1]["fields"][0]["uuid"]);
    assert_eq!(copied[0]["cards_can_be_moved_to_phases"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn labels_are_created_changed_and_taken_off_cards_when_deleted() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let create = "mutation($input: CreateLabelInput!) { createLabel(input: $input) { label { id name color } } }";
    let error = rig.error(create, json!({ "input": { "pipe_id": pipe["id"], "name": "x", "color": "red" } })).await;
    assert_eq!(error["message"], "Color is invalid");
    let label = rig.ok(create, json!({ "input": { "pipe_id": pipe["id"], "name": "Novo", "color": "#FF0000" } })).await
        ["createLabel"]["label"]
        .clone();
    let card = rig.card().await;
    let update = "mutation($input: UpdateCardInput!) { updateCard(input: $input) { card { labels { name } } } }";
    rig.ok(update, json!({ "input": { "id": card, "label_ids": [label["id"]] } })).await;
    let search =
        "query($id: ID!, $s: CardSearch) { cards(pipe_id: $id, search: $s) { edges { node { id labels { id } } } } }";
    let found = rig.ok(search, json!({ "id": pipe["id"], "s": { "label_ids": [label["id"]] } })).await;
    assert_eq!(found["cards"]["edges"][0]["node"]["id"], json!(card));
    let delete = "mutation($input: DeleteLabelInput!) { deleteLabel(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": label["id"] } })).await;
    let read = rig.ok("query($id: ID!) { card(id: $id) { labels { id } } }", json!({ "id": card })).await;
    assert_eq!(read["card"]["labels"], json!([]));
}

#[tokio::test]
async fn a_field_condition_reads_as_it_was_written() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let phase = &pipe["phases"][1];
    let (watched, target) = (&pipe["start_form_fields"][5]["internal_id"], &phase["fields"][1]["internal_id"]);
    let create = "mutation($input: createFieldConditionInput!) { createFieldCondition(input: $input) { fieldCondition { id } } }";
    let condition = json!({
        "expressions": [
            { "field_address": watched, "operation": "equals", "value": "High", "structure_id": 0 },
            { "field_address": watched, "operation": "present", "value": "", "structure_id": 1 },
        ],
        "expressions_structure": [[0], [1]],
    });
    let input = json!({ "phaseId": phase["id"], "name": "Rule", "condition": condition, "actions": [{ "actionId": "hide", "phaseFieldId": target, "whenEvaluator": true }] });
    let id = rig.ok(create, json!({ "input": input })).await["createFieldCondition"]["fieldCondition"]["id"].clone();
    let read = "query($id: ID!, $card: ID!) { fieldCondition(id: $id) { id name phase { id name } isTrueFor(cardId: $card) actions { actionId phaseFieldId phaseField { label } }
        condition { expressions_structure expressions { field_address operation value structure_id } } } }";
    let card = rig.card().await;
    let rule = rig.ok(read, json!({ "id": id, "card": card })).await["fieldCondition"].clone();
    assert_eq!(rule["phase"]["id"], phase["id"]);
    assert_eq!(rule["condition"]["expressions_structure"], json!([["0"], ["1"]]));
    assert_eq!((&rule["actions"][0]["actionId"], &rule["actions"][0]["phaseFieldId"]), (&json!("hide"), target));
    assert_eq!(rule["isTrueFor"], true);
    let update = "mutation($input: UpdateFieldConditionInput!) { updateFieldCondition(input: $input) { fieldCondition { id name } } }";
    assert_eq!(
        rig.ok(update, json!({ "input": { "id": id, "name": "Other" } })).await["updateFieldCondition"]["fieldCondition"]
            ["name"],
        "Other"
    );
    let delete = "mutation($input: DeleteFieldConditionInput!) { deleteFieldCondition(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": id } })).await;
    assert_eq!(rig.error(read, json!({ "id": id, "card": card })).await["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn cards_are_connected_and_disconnected_through_a_relation() {
    let rig = Rig::new().await;
    let (parent_pipe, child_pipe) = (rig.pipe("Employee Onboarding").await, rig.pipe("Customer Support").await);
    let flags = json!({
        "parentId": parent_pipe["id"], "childId": child_pipe["id"], "name": "Help", "allChildrenMustBeDoneToFinishParent": false,
        "allChildrenMustBeDoneToMoveParent": false, "autoFillFieldEnabled": false, "canConnectExistingItems": true,
        "canConnectMultipleItems": true, "canCreateNewItems": true, "childMustExistToFinishParent": false, "childMustExistToMoveParent": true,
    });
    let create =
        "mutation($input: CreatePipeRelationInput!) { createPipeRelation(input: $input) { pipeRelation { id name } } }";
    let relation = rig.ok(create, json!({ "input": flags })).await["createPipeRelation"]["pipeRelation"]["id"].clone();
    let first = "query($id: ID!) { cards(pipe_id: $id, first: 1) { edges { node { id } } } }";
    let parent = rig.ok(first, json!({ "id": parent_pipe["id"] })).await["cards"]["edges"][0]["node"]["id"].clone();
    let child = rig.ok(first, json!({ "id": child_pipe["id"] })).await["cards"]["edges"][0]["node"]["id"].clone();
    let connect =
        "mutation($input: CreateCardRelationInput!) { createCardRelation(input: $input) { cardRelation { id } } }";
    rig.ok(connect, json!({ "input": { "parentId": parent, "childId": child, "sourceId": relation, "sourceType": "PipeRelation" } })).await;
    let read = "query($id: ID!) { card(id: $id) { child_relations { name pipe { id name } cards { id title } } parent_relations { name cards { id } } } }";
    let groups = rig.ok(read, json!({ "id": parent })).await["card"]["child_relations"].as_array().unwrap().clone();
    let group = groups.iter().find(|g| g["name"] == "Help").unwrap();
    assert_eq!((&group["pipe"]["id"], &group["cards"][0]["id"]), (&child_pipe["id"], &child));
    let cut = "mutation deleteCardRelation($childId: ID!, $parentId: ID!, $sourceId: ID!) {
        deleteCardRelation(input: { child_id: $childId, parent_id: $parentId, source_id: $sourceId }) { success } }";
    let variables = json!({ "childId": child, "parentId": parent, "sourceId": relation });
    let answer = rig.raw("/internal_api", DEFAULT_TOKEN, cut, variables).await;
    assert_eq!(answer["data"]["deleteCardRelation"]["success"], true, "{answer:#}");
    let groups = rig.ok(read, json!({ "id": parent })).await["card"]["child_relations"].as_array().unwrap().clone();
    assert_eq!(groups.iter().find(|g| g["name"] == "Help").unwrap()["cards"], json!([]));
}
