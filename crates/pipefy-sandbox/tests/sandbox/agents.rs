//! AI agents: create, configure, toggle, delete; knowledge bases.

use crate::{MEMBER, Rig};
use serde_json::{Value, json};

const GET: &str = "query($uuid: ID!) { aiAgent(uuid: $uuid) { uuid name instruction repoUuid dataSourceIds disabledAt behaviors {
    id name active eventId: event_id actionId: action_id eventParams: event_params { to_phase_id } condition { expressions { field_address } }
    actionParams: action_params { aiBehaviorParams { instruction actionsAttributes { id name actionType referenceId
        metadata { destinationPhaseId pipeId fieldsAttributes { fieldId inputMode value } emails title } } } } } } }";

#[tokio::test]
async fn an_agent_is_created_disabled_configured_and_read_back() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let create = "mutation createAiAgent($agent: AiAgentInput!) { createAiAgent(input: { agent: $agent }) {
        agent { uuid name repoUuid instruction dataSourceIds disabledAt } } }";
    let made = rig.ok(create, json!({ "agent": { "name": "Buyer", "repoUuid": pipe["uuid"] } })).await["createAiAgent"]
        ["agent"]
        .clone();
    assert!(made["disabledAt"].is_string());
    let behavior = json!({
        "name": "Move it", "eventId": "card_created", "active": true, "eventParams": {},
        "condition": { "expressions": [{ "field_address": "1", "operation": "present", "structure_id": 0 }], "expressions_structure": [[0]] },
        "actionParams": { "aiBehaviorParams": { "instruction": "Move the card\n%{action:x}", "actionsAttributes": [
            { "name": "Move", "actionType": "move_card", "referenceId": "r-1", "metadata": { "destinationPhaseId": pipe["phases"][1]["id"] } },
            { "name": "Ask", "actionType": "human_validation", "referenceId": "r-2", "metadata": { "emails": ["a@b.c"], "title": "Check" } },
        ] } },
    });
    let update = "mutation updateAiAgent($agent: AiAgentInput!, $uuid: ID!) { updateAiAgent(input: { agent: $agent, uuid: $uuid }) {
        agent { uuid disabledAt } } }";
    let agent = json!({ "name": "Buyer", "repoUuid": pipe["uuid"], "instruction": "Buy well", "behaviors": [behavior], "dataSourceIds": [] });
    let updated = rig.ok(update, json!({ "agent": agent, "uuid": made["uuid"] })).await;
    assert_eq!(updated["updateAiAgent"]["agent"]["disabledAt"], Value::Null);
    let read = rig.ok(GET, json!({ "uuid": made["uuid"] })).await["aiAgent"].clone();
    let actions = &read["behaviors"][0]["actionParams"]["aiBehaviorParams"]["actionsAttributes"];
    assert_eq!(actions[0]["metadata"]["destinationPhaseId"], pipe["phases"][1]["id"]);
    assert_eq!(actions[1]["metadata"]["emails"], json!(["a@b.c"]));
    assert_eq!(read["behaviors"][0]["condition"]["expressions"][0]["field_address"], "1");

    // Sent back as it was read, it stays the same.
    let mut again = agent.clone();
    again["behaviors"] = read["behaviors"].clone();
    rig.ok(update, json!({ "agent": again, "uuid": made["uuid"] })).await;
    assert_eq!(rig.ok(GET, json!({ "uuid": made["uuid"] })).await["aiAgent"], read);

    let mut bad = agent.clone();
    bad["behaviors"][0]["actionParams"]["aiBehaviorParams"]["actionsAttributes"][0]["metadata"] =
        json!({ "destinationPhaseId": "1" });
    let error = rig.error(update, json!({ "agent": bad, "uuid": made["uuid"] })).await;
    assert_eq!(error["extensions"]["code"], "RECORD_NOT_SAVED");

    let toggle = "mutation($input: UpdateAgentStatusInput!) { updateAiAgentStatus(input: $input) { success } }";
    rig.ok(toggle, json!({ "input": { "uuid": made["uuid"], "active": false } })).await;
    assert!(rig.ok(GET, json!({ "uuid": made["uuid"] })).await["aiAgent"]["disabledAt"].is_string());
    let list = "query($repo: ID!) { aiAgents(repoUuid: $repo) { edges { node { uuid name } } } }";
    assert_eq!(rig.ok(list, json!({ "repo": pipe["uuid"] })).await["aiAgents"]["edges"].as_array().unwrap().len(), 1);
    let delete = "mutation($input: DeleteAgentInput!) { deleteAiAgent(input: $input) { success } }";
    let denied = rig.error_as(MEMBER, delete, json!({ "input": { "uuid": made["uuid"] } })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
    rig.ok(delete, json!({ "input": { "uuid": made["uuid"] } })).await;
    assert_eq!(rig.error(GET, json!({ "uuid": made["uuid"] })).await["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn knowledge_is_created_changed_listed_and_deleted() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let create =
        "mutation($input: CreateKnowledgeBasePlainTextInput!) { createAiKnowledgeBasePlainText(input: $input) {
        knowledgeBasePlainText { id name content } } }";
    let input = json!({ "pipeUuid": pipe["uuid"], "name": "Horários", "content": "9 às 18", "description": "d" });
    let made =
        rig.ok(create, json!({ "input": input })).await["createAiKnowledgeBasePlainText"]["knowledgeBasePlainText"]
            .clone();
    let long = json!({ "pipeUuid": pipe["uuid"], "name": "x", "content": "x".repeat(3_501) });
    assert_eq!(rig.error(create, json!({ "input": long })).await["extensions"]["code"], "RECORD_NOT_SAVED");
    let update =
        "mutation($input: UpdateKnowledgeBasePlainTextInput!) { updateAiKnowledgeBasePlainText(input: $input) {
        knowledgeBasePlainText { id name content } } }";
    let changed = rig
        .ok(update, json!({ "input": { "pipeUuid": pipe["uuid"], "plainTextId": made["id"], "content": "8 às 17" } }))
        .await;
    let changed = &changed["updateAiKnowledgeBasePlainText"]["knowledgeBasePlainText"];
    assert_eq!((&changed["name"], &changed["content"]), (&json!("Horários"), &json!("8 às 17")));
    let list = "query($uuid: ID!) { aiKnowledgeBases(pipeUuid: $uuid) { id type name } }";
    let listed = rig.ok(list, json!({ "uuid": pipe["uuid"] })).await["aiKnowledgeBases"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[1]["type"]), (2, &json!("knowledge_base_plain_texts")));
    let get = "query($id: ID!, $uuid: ID!) { aiKnowledgeBaseDocument(id: $id, pipeUuid: $uuid) { id } }";
    let other_kind = rig.error(get, json!({ "id": made["id"], "uuid": pipe["uuid"] })).await;
    assert_eq!(other_kind["extensions"]["code"], "RESOURCE_NOT_FOUND");
    let delete = "mutation($input: DeleteKnowledgeBasePlainTextInput!) { deleteAiKnowledgeBasePlainText(input: $input) { success errors } }";
    rig.ok(delete, json!({ "input": { "pipeUuid": pipe["uuid"], "plainTextId": made["id"] } })).await;
    assert_eq!(rig.ok(list, json!({ "uuid": pipe["uuid"] })).await["aiKnowledgeBases"].as_array().unwrap().len(), 1);
}
