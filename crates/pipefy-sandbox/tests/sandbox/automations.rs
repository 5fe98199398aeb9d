//! Automations with their runs, webhooks and e-mails.

use crate::{MEMBER, Rig};
use serde_json::{Value, json};

const CREATE: &str = "mutation createAutomation($input: CreateAutomationInput!) { createAutomation(input: $input) {
    automation { id name active } error_details { object_name object_key messages } } }";
const GET: &str = "query($id: ID!) { automation(id: $id) { id name active event_id action_id event_repo { id }
    event_params { to_phase_id phase { id } } action_params { to_phase_id phase { id } field_map { fieldId inputMode value } }
    condition { id expressions_structure expressions { id field_address operation value structure_id } } } }";

#[tokio::test]
async fn a_rule_reads_as_it_was_written_and_bad_ones_say_why() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let (from, to) = (&pipe["phases"][0]["id"], &pipe["phases"][1]["id"]);
    let field = &pipe["start_form_fields"][3]["internal_id"];
    let input = json!({
        "name": "Start the analysis", "event_id": "card_moved", "action_id": "move_single_card", "event_repo_id": pipe["id"],
        "action_repo_id": pipe["id"], "event_params": { "to_phase_id": from }, "action_params": { "to_phase_id": to }, "active": false,
        "condition": { "expressions": [{ "field_address": field, "operation": "equals", "value": "Chat", "structure_id": 0 }], "expressions_structure": [[0]] },
    });
    let made = rig.ok(CREATE, json!({ "input": input })).await["createAutomation"]["automation"].clone();
    assert_eq!(made["active"], false);
    let read = rig.ok(GET, json!({ "id": made["id"] })).await["automation"].clone();
    assert_eq!((&read["event_params"]["phase"]["id"], &read["action_params"]["phase"]["id"]), (from, to));
    assert_eq!(read["condition"]["expressions"][0]["value"], "Chat");
    assert_eq!(read["condition"]["expressions_structure"], json!([["0"]]));

    let mut bad = input.clone();
    bad["action_params"] = json!({ "to_phase_id": "1" });
    bad["event_id"] = json!("scheduler");
    let refused = rig.ok(CREATE, json!({ "input": bad })).await["createAutomation"].clone();
    assert_eq!(refused["automation"], Value::Null);
    let keys: Vec<&str> =
        refused["error_details"].as_array().unwrap().iter().map(|e| e["object_key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["action_id", "to_phase_id"]);

    let update = "mutation($input: UpdateAutomationInput!) { updateAutomation(input: $input) { automation { id name active } error_details { messages } } }";
    let changed = rig.ok(update, json!({ "input": { "id": made["id"], "active": true } })).await;
    assert_eq!(changed["updateAutomation"]["automation"]["active"], true);
    let delete = "mutation($input: DeleteAutomationInput!) { deleteAutomation(input: $input) { success } }";
    assert_eq!(
        rig.error_as(MEMBER, delete, json!({ "input": { "id": made["id"] } })).await["extensions"]["code"],
        "PERMISSION_DENIED"
    );
    rig.ok(delete, json!({ "input": { "id": made["id"] } })).await;
    assert_eq!(rig.error(GET, json!({ "id": made["id"] })).await["extensions"]["code"], "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_narrowed() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let query = "query($id: ID!, $status: AutomationLogStatus, $first: Int) { automationLogsByRepo(repoId: $id, status: $status, first: $first) {
        totalCount nodes { uuid automationId status datetime cardTitle } pageInfo { hasNextPage endCursor } } }";
    let all = rig.ok(query, json!({ "id": pipe["id"], "first": 5 })).await["automationLogsByRepo"].clone();
    assert_eq!((all["nodes"].as_array().unwrap().len(), &all["pageInfo"]["hasNextPage"]), (5, &json!(true)));
    let times: Vec<&str> = all["nodes"].as_array().unwrap().iter().map(|n| n["datetime"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    let failed = rig.ok(query, json!({ "id": pipe["id"], "status": "failed" })).await["automationLogsByRepo"].clone();
    assert!(failed["totalCount"].as_i64().unwrap() < all["totalCount"].as_i64().unwrap());
    let logs =
        "query($repo: ID!) { aiAgentLogsByRepo(repoUuid: $repo, first: 2) { totalCount nodes { uuid status } } }";
    let logs = rig.ok(logs, json!({ "repo": pipe["uuid"] })).await["aiAgentLogsByRepo"].clone();
    assert_eq!(logs["totalCount"], 12);
    let detail = "query($uuid: ID!) { aiAgentLogDetails(uuid: $uuid) { uuid agentName tracingNodes { nodeName status } llmConfigInfo { model } } }";
    let detail = rig.ok(detail, json!({ "uuid": logs["nodes"][0]["uuid"] })).await;
    assert_eq!(detail["aiAgentLogDetails"]["tracingNodes"].as_array().unwrap().len(), 2);
    let catalogue = rig
        .ok(
            "query($id: ID!) { automationActions(repoId: $id) { id eventsBlacklist } automationEvents { id } }",
            json!({ "id": pipe["id"] }),
        )
        .await;
    assert!(catalogue["automationActions"].as_array().unwrap().len() > 5);
    assert_eq!(catalogue["automationEvents"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn webhooks_take_headers_as_text_and_lose_what_an_update_leaves_out() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let create = "mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id url actions headers filters } } }";
    let input = |headers: Value| {
        json!({ "input": { "pipe_id": pipe["id"], "name": "n", "url": "https://example.com", "actions": ["card.move"], "headers": headers,
            "filters": { "card.move": { "ids": [9_007_199_254_740_993_i64] } } } })
    };
    let error = rig.error(create, input(json!({ "X": "1" }))).await;
    assert_eq!(error["extensions"]["code"], "INVALID_INPUT");
    let made = rig.ok(create, input(json!("{\"X\":\"ção\"}"))).await["createWebhook"]["webhook"].clone();
    assert_eq!(made["headers"], "{\"X\":\"ção\"}");
    assert_eq!(made["filters"]["card.move"]["ids"][0], 9_007_199_254_740_993_i64);
    let update =
        "mutation($input: UpdateWebhookInput!) { updateWebhook(input: $input) { webhook { name headers filters } } }";
    let changed =
        rig.ok(update, json!({ "input": { "id": made["id"], "name": "m" } })).await["updateWebhook"]["webhook"].clone();
    assert_eq!(changed, json!({ "name": "m", "headers": "{}", "filters": null }));
    let list = "query($id: ID!) { pipe(id: $id) { webhooks { id name } } }";
    let denied = rig.error_as(MEMBER, list, json!({ "id": pipe["id"] })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
    assert_eq!(rig.ok(list, json!({ "id": pipe["id"] })).await["pipe"]["webhooks"].as_array().unwrap().len(), 2);
    let delete = "mutation($input: DeleteWebhookInput!) { deleteWebhook(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": made["id"] } })).await;
    assert_eq!(
        rig.error(delete, json!({ "input": { "id": made["id"] } })).await["extensions"]["code"],
        "RESOURCE_NOT_FOUND"
    );
}

#[tokio::test]
async fn an_email_is_built_from_a_template_sent_and_listed() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let list = "query($id: ID!, $name: String) { emailTemplates(repoId: $id, filterByName: $name, first: 50) { edges { node { id name } } } }";
    let found = rig.ok(list, json!({ "id": pipe["id"], "name": "notice" })).await["emailTemplates"]["edges"].clone();
    assert_eq!(found.as_array().unwrap().len(), 1);
    let id = rig.card().await;
    let card = rig.ok("query($id: ID!) { card(id: $id) { uuid title } }", json!({ "id": id })).await["card"].clone();
    let parsed = "query($t: ID!, $c: ID) { parsedEmailTemplate(emailTemplateId: $t, cardUuid: $c) { subject body fromEmail repoId } }";
    let parsed =
        rig.ok(parsed, json!({ "t": found[0]["node"]["id"], "c": card["uuid"] })).await["parsedEmailTemplate"].clone();
    assert_eq!(parsed["body"], format!("<p>Hello, {} is in Triage.</p>", card["title"].as_str().unwrap()));
    let send = "mutation($input: CreateAndSendInboxEmailInput!) { createAndSendInboxEmail(input: $input) { emailSent errors inboxEmail { id } } }";
    let mut input = json!({ "cardId": id, "from": "a@b.com", "to": ["c@d.com"], "subject": "S", "text": "T", "repoId": pipe["id"] });
    assert_eq!(rig.ok(send, json!({ "input": input })).await["createAndSendInboxEmail"]["emailSent"], true);
    input["to"] = json!(["nobody"]);
    let refused = rig.ok(send, json!({ "input": input })).await["createAndSendInboxEmail"].clone();
    assert_eq!((&refused["emailSent"], &refused["inboxEmail"]), (&json!(false), &Value::Null));
    let inbox = "query($id: ID!) { card(id: $id) { inbox_emails { id type from subject body state to } } }";
    let inbox = rig.ok(inbox, json!({ "id": id })).await["card"]["inbox_emails"].clone();
    assert_eq!(
        (inbox.as_array().unwrap().len(), &inbox[0]["type"], &inbox[0]["body"]),
        (1, &json!("sent"), &json!("T"))
    );
}
