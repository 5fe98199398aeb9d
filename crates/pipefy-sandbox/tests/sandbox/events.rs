//! What follows from events: automations, agents, webhooks, lateness, e-mails.

use crate::{CREATE_CARD, Rig};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const RULE: &str = "mutation($input: CreateAutomationInput!) { createAutomation(input: $input) { automation { id } error_details { messages } } }";
const LOGS: &str = "query($id: ID!) { automationLogs(automationId: $id, first: 10) { nodes { status cardId } } }";
const CARD: &str =
    "query($id: ID!) { card(id: $id) { title current_phase { id name } fields { name value } comments { id }
    inbox_emails { subject type sent_via_automation to } child_relations { cards { id title } } } }";
const SET: &str = "mutation($input: UpdateCardFieldInput!) { updateCardField(input: $input) { success } }";

pub(crate) fn value(card: &Value, name: &str) -> Value {
    let fields = card["fields"].as_array().unwrap();
    fields.iter().find(|f| f["name"] == name).map_or(Value::Null, |f| f["value"].clone())
}

pub(crate) fn field(pipe: &Value, label: &str) -> Value {
    let phases = pipe["phases"].as_array().unwrap().iter().flat_map(|p| p["fields"].as_array().unwrap());
    let form = pipe["start_form_fields"].as_array().unwrap();
    form.iter().chain(phases).find(|f| f["label"] == label).unwrap()["internal_id"].clone()
}

pub(crate) async fn rule(rig: &Rig, pipe: &Value, name: &str, rest: Value) -> Value {
    let mut input = json!({ "name": name, "event_repo_id": pipe["id"], "action_repo_id": pipe["id"], "active": true });
    for (key, value) in rest.as_object().unwrap() {
        input[key] = value.clone();
    }
    let made = rig.ok(RULE, json!({ "input": input })).await["createAutomation"].clone();
    assert_eq!(made["error_details"], json!([]));
    made["automation"]["id"].clone()
}

pub(crate) async fn ticket(rig: &Rig, channel: &str) -> Value {
    let pipe = rig.pipe("Customer Support").await;
    let input = json!({ "pipe_id": pipe["id"], "fields_attributes": [
        { "field_id": "subject", "field_value": "P2: cannot log in" }, { "field_id": "description", "field_value": "Since today" },
        { "field_id": "channel", "field_value": channel } ] });
    rig.ok(CREATE_CARD, json!({ "input": input })).await["createCard"]["card"]["id"].clone()
}

#[tokio::test]
async fn rules_run_on_their_events_and_log_it() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let approval = pipe["phases"][1]["id"].clone();
    let urgency = field(&pipe, "Urgency");
    let on_create = rule(&rig, &pipe, "Justify", json!({
        "event_id": "card_created", "action_id": "update_card_field",
        "action_params": { "field_map": [
            { "fieldId": field(&pipe, "Justification"), "inputMode": "fixed_value", "value": format!("Needs %{{{}}}", field(&pipe, "Quantity").as_str().unwrap()) },
            { "fieldId": field(&pipe, "Category"), "inputMode": "fixed_value", "value": "Hardware" } ] } })).await;
    let on_field = rule(&rig, &pipe, "On to approval", json!({
        "event_id": "field_updated", "event_params": { "triggerFieldIds": [urgency] }, "action_id": "move_single_card",
        "action_params": { "to_phase_id": approval },
        "condition": { "expressions": [{ "structure_id": 0, "field_address": urgency, "operation": "equals", "value": "Low" }], "expressions_structure": [[0]] } })).await;
    let on_move = rule(
        &rig,
        &pipe,
        "Second",
        json!({
        "event_id": "card_moved", "event_params": { "to_phase_id": approval }, "action_id": "move_single_card",
        "action_params": { "to_phase_id": pipe["phases"][4]["id"] } }),
    )
    .await;

    let id = rig.card().await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!((value(&card, "Justification"), value(&card, "Category")), (json!("Needs 2"), json!("Hardware")));
    assert_eq!(
        rig.ok(LOGS, json!({ "id": on_create })).await["automationLogs"]["nodes"],
        json!([{ "status": "success", "cardId": id }])
    );

    rig.ok(SET, json!({ "input": { "card_id": id, "field_id": "urgency", "new_value": "Normal" } })).await;
    assert_eq!(rig.ok(LOGS, json!({ "id": on_field })).await["automationLogs"]["nodes"], json!([]));
    rig.ok(SET, json!({ "input": { "card_id": id, "field_id": "urgency", "new_value": "Low" } })).await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(card["current_phase"]["name"], "Approval");
    assert_eq!(rig.ok(LOGS, json!({ "id": on_field })).await["automationLogs"]["nodes"][0]["status"], "success");
    // The chain went on, but its move has no connection: it failed without undoing anything.
    assert_eq!(rig.ok(LOGS, json!({ "id": on_move })).await["automationLogs"]["nodes"][0]["status"], "failed");
}

#[tokio::test]
async fn rules_that_feed_each_other_end() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let phases = pipe["phases"].as_array().unwrap();
    for (from, to) in [(1, 2), (2, 1)] {
        rule(&rig, &pipe, "Ping-pong", json!({
            "event_id": "card_moved", "event_params": { "to_phase_id": phases[from]["id"] }, "action_id": "move_single_card",
            "action_params": { "to_phase_id": phases[to]["id"] } })).await;
    }
    let id = ticket(&rig, "Telefone").await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(value(&card, "Priority"), "P1", "the seeded rule for calls");
    let go = "mutation($input: MoveCardToPhaseInput!) { moveCardToPhase(input: $input) { card { id } } }";
    rig.ok(go, json!({ "input": { "card_id": id, "destination_phase_id": phases[1]["id"] } })).await;
    let logs =
        "query($id: ID!) { automationLogsByRepo(repoId: $id, first: 50, searchTerm: \"Ping-pong\") { totalCount } }";
    assert_eq!(rig.ok(logs, json!({ "id": pipe["id"] })).await["automationLogsByRepo"]["totalCount"], 5);
}

#[tokio::test]
async fn ai_runs_are_answered_by_the_stand_in_and_cost_credits() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let org = rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0].clone();
    let credits = "query($org: ID!) { aiCreditUsageStats(organizationUuid: $org, period: current_month) { usage aiAutomation { usage } assistants { usage } } }";
    let before = rig.ok(credits, json!({ "org": org["uuid"] })).await["aiCreditUsageStats"].clone();
    // The seeded agent sets the priority of tickets from the portal.
    let id = ticket(&rig, "Portal").await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(value(&card, "Priority"), "P2");
    let logs =
        "query($repo: ID!) { aiAgentLogsByRepo(repoUuid: $repo, first: 1) { nodes { uuid status cardId agentName } } }";
    let log = rig.ok(logs, json!({ "repo": pipe["uuid"] })).await["aiAgentLogsByRepo"]["nodes"][0].clone();
    assert_eq!((&log["status"], &log["cardId"], &log["agentName"]), (&json!("success"), &id, &json!("Ticket triage")));
    let detail = "query($uuid: ID!) { aiAgentLogDetails(uuid: $uuid) { tracingNodes { nodeName message } llmConfigInfo { provider } } }";
    let detail = rig.ok(detail, json!({ "uuid": log["uuid"] })).await["aiAgentLogDetails"].clone();
    assert_eq!(
        (&detail["tracingNodes"][0]["nodeName"], &detail["llmConfigInfo"]["provider"]),
        (&json!("Sandbox stand-in"), &json!("sandbox"))
    );

    let prompt = format!("Summarize %{{{}}}", field(&pipe, "Subject").as_str().unwrap());
    let ai = json!({ "aiParams": { "value": prompt, "fieldIds": [field(&pipe, "Root cause")], "skillsIds": [] } });
    rule(&rig, &pipe, "Summary", json!({ "event_id": "card_created", "action_id": "generate_with_ai", "action_params": ai,
        "condition": { "expressions": [{ "structure_id": 0, "field_address": "", "operation": "", "value": "" }], "expressions_structure": [[0]] } })).await;
    let id = ticket(&rig, "Chat").await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(value(&card, "Root cause"), "[Sandbox stand-in, no language model] Summarize P2: cannot log in");
    let after = rig.ok(credits, json!({ "org": org["uuid"] })).await["aiCreditUsageStats"].clone();
    let grew = |key: &str| after[key]["usage"].as_f64().unwrap() - before[key]["usage"].as_f64().unwrap();
    assert_eq!((grew("assistants"), grew("aiAutomation")), (1.0, 1.0));

    let simulate = "mutation($input: CreateAutomationSimulationInput!) { createAutomationSimulation(input: $input) { simulationId } }";
    let input = json!({ "action_id": "generate_with_ai", "sampleCardId": id, "event_repo_id": pipe["id"], "action_params": ai });
    let simulation =
        rig.ok(simulate, json!({ "input": input })).await["createAutomationSimulation"]["simulationId"].clone();
    let look = "query($id: ID!) { automationSimulation(simulationId: $id) { status simulationResult details { errorType message } } }";
    let result = rig.ok(look, json!({ "id": simulation })).await["automationSimulation"].clone();
    assert_eq!(result["status"], "success");
    assert!(
        result["simulationResult"][field(&pipe, "Root cause").as_str().unwrap()].as_str().unwrap().contains("stand-in")
    );
    let other = json!({ "action_id": "move_single_card", "sampleCardId": id });
    assert_eq!(rig.error(simulate, json!({ "input": other })).await["extensions"]["code"], "INVALID_INPUT");
}

/// Answers one call after another with a status and hands the requests over.
async fn listener(statuses: Vec<u16>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?x=1", socket.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut requests = Vec::new();
        for status in statuses {
            let (mut stream, _) = socket.accept().await.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0_u8; 4096];
            while !String::from_utf8_lossy(&request).trim_end().ends_with('}') {
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0);
                request.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.unwrap();
            requests.push(String::from_utf8(request).unwrap());
        }
        requests
    });
    (url, task)
}

#[tokio::test]
async fn webhooks_are_sent_over_tls_but_to_this_machine() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await["id"].clone();
    let create = "mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id } } }";
    let input = |url: &str| json!({ "input": { "pipe_id": pipe, "name": "n", "actions": ["card.move"], "url": url } });
    for url in [
        "http://example.com/h",
        "http://127.0.0.1.example.com/h",
        "http://10.0.0.1/h",
        "ftp://example.com/h",
        "example.com",
    ] {
        let error = rig.error(create, input(url)).await;
        assert!(error["message"].as_str().unwrap().contains("https"), "{url}: {error}");
    }
    for url in ["https://example.com/h", "http://127.0.0.1:9/h", "http://localhost:9/h", "http://[::1]:9/h"] {
        rig.ok(create, input(url)).await;
    }
    let odd =
        json!({ "input": { "pipe_id": pipe, "name": "n", "actions": ["card.fly"], "url": "https://example.com" } });
    assert!(rig.error(create, odd).await["message"].as_str().unwrap().contains("card.create, card.field_update"));
}

#[tokio::test]
async fn webhooks_call_a_listener_on_this_machine_and_nobody_else() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let (url, calls) = listener(vec![503, 200, 200]).await;
    let create = "mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id } } }";
    let input = json!({ "pipe_id": pipe["id"], "name": "Here", "url": url, "actions": ["card.create", "card.comment_create"],
        "headers": "{\"X-Origin\":\"test\"}" });
    rig.ok(create, json!({ "input": input })).await;
    let id = rig.card().await;
    let comment = "mutation($input: CreateCommentInput!) { createComment(input: $input) { comment { id } } }";
    rig.ok(comment, json!({ "input": { "card_id": id, "text": "Olá" } })).await;
    let requests = tokio::time::timeout(Duration::from_secs(90), calls).await.unwrap().unwrap();
    assert_eq!(requests[0], requests[1], "tried again after a 503");
    let (head, body) = requests[1].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1") && head.contains("x-origin: test"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["data"]["action"], &body["data"]["card"]["id"]), (&json!("card.create"), &json!(id)));
    assert!(requests[2].contains("card.comment_create") && requests[2].contains("Ol\u{e1}"), "{}", requests[2]);

    // The seeded webhook of the move leads elsewhere: it is recorded, not called.
    rig.ok(SET, json!({ "input": { "card_id": id, "field_id": "category", "new_value": "Office" } })).await;
    let go = "mutation($input: MoveCardToPhaseInput!) { moveCardToPhase(input: $input) { card { id } } }";
    rig.ok(go, json!({ "input": { "card_id": id, "destination_phase_id": pipe["phases"][1]["id"] } })).await;
    for _ in 0..1_800 {
        let url = format!("{}/_sandbox/deliveries", rig.sandbox.url());
        let list: Value = rig.http.get(url).send().await.unwrap().json().await.unwrap();
        let found = list["deliveries"].as_array().unwrap().iter().find(|d| d["action"] == "card.move").cloned();
        if let Some(found) = found.filter(|d| d["state"] != "waiting") {
            assert_eq!(found["state"], "skipped", "{found}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the move was never recorded");
}

#[tokio::test]
async fn a_card_that_becomes_late_is_told_once_and_mail_comes_in() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let phase = pipe["phases"][0]["id"].clone();
    let late = rule(&rig, &pipe, "Late mail", json!({
        "event_id": "sla_based", "event_params": { "kindOfSla": "late", "inPhaseId": phase }, "action_id": "send_a_task",
        "action_params": { "taskParams": { "title": "Answer it", "recipients": "a@b.example" } } })).await;
    let slow = "mutation($input: UpdatePhaseInput!) { updatePhase(input: $input) { phase { id } } }";
    rig.ok(slow, json!({ "input": { "id": phase, "name": "New", "lateness_time": 1 } })).await;
    let id = ticket(&rig, "Chat").await;
    let mut logs = Value::Null;
    for _ in 0..900 {
        logs = rig
            .ok(
                "query($id: ID!) { automationLogs(automationId: $id, first: 50) { nodes { cardId } } }",
                json!({ "id": late }),
            )
            .await;
        if logs.to_string().contains(id.as_str().unwrap()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let told: Vec<&Value> =
        logs["automationLogs"]["nodes"].as_array().unwrap().iter().filter(|n| n["cardId"] == id).collect();
    assert_eq!(told.len(), 1, "{logs}");

    let mail = json!({ "card_id": id, "from": "client@x.example", "subject": "Re: help", "text": "It works" });
    let url = format!("{}/_sandbox/mail", rig.sandbox.url());
    assert_eq!(rig.http.post(&url).json(&mail).send().await.unwrap().status(), 200);
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(
        (&card["inbox_emails"][0]["subject"], &card["inbox_emails"][0]["type"]),
        (&json!("Re: help"), &json!("received"))
    );
    let list: Value = rig.http.get(&url).send().await.unwrap().json().await.unwrap();
    assert!(list["mail"].as_array().unwrap().iter().any(|m| m["subject"] == "Answer it"), "{list}");
}
