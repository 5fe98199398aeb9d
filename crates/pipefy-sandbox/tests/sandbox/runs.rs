//! Rules that run by the clock, by hand and on answers; AI that stops when its credits are used up; how runs are logged.

use crate::events::{field, rule, ticket, value};
use crate::{DEFAULT_TOKEN, Rig};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CREATE: &str = "mutation($input: CreateAutomationInput!) { createAutomation(input: $input) { automation { id }
    error_details { object_name object_key messages } } }";
const UPDATE: &str =
    "mutation($input: UpdateAutomationInput!) { updateAutomation(input: $input) { automation { id } } }";
const CARD: &str = "query($id: ID!) { card(id: $id) { title fields { name value } } }";

async fn control(rig: &Rig, path: &str, body: Value) -> (u16, Value) {
    let url = format!("{}/_sandbox/{path}", rig.sandbox.url());
    let response = rig.http.post(url).json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The runs of a rule, newest first.
async fn runs(rig: &Rig, rule: &Value) -> Vec<Value> {
    let query =
        "query($id: ID!) { automationLogs(automationId: $id, first: 50) { nodes { uuid status cardId cardTitle } } }";
    rig.ok(query, json!({ "id": rule })).await["automationLogs"]["nodes"].as_array().unwrap().clone()
}

/// The runs, once none is under way and there are as many.
async fn ended_runs(rig: &Rig, rule: &Value, count: usize) -> Vec<Value> {
    for _ in 0..1_800 {
        let runs = runs(rig, rule).await;
        if runs.len() == count && runs.iter().all(|run| run["status"] != "processing") {
            return runs;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", runs(rig, rule).await);
}

/// Lines of the audit trail of a pipe that hold a text.
async fn audited(rig: &Rig, pipe: &Value, part: &str) -> usize {
    let export =
        "mutation($input: ExportPipeAuditLogsReportInput!) { exportPipeAuditLogsReport(input: $input) { success } }";
    rig.ok(export, json!({ "input": { "pipeUuid": pipe["uuid"] } })).await;
    let url = format!("{}/_sandbox/mail", rig.sandbox.url());
    let mail: Value = rig.http.get(url).send().await.unwrap().json().await.unwrap();
    let file = mail["mail"][0]["file"].as_str().unwrap();
    let text = rig.http.get(file).send().await.unwrap().text().await.unwrap();
    text.lines().filter(|line| line.contains(part)).count()
}

#[tokio::test]
async fn scheduled_rules_run_when_their_time_comes() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Employee Onboarding").await;
    let target = rig.pipe("Customer Support").await;
    let text = |label: &str, value: &str| json!({ "fieldId": field(&target, label), "inputMode": "fixed_value", "value": value });
    let weekly = json!({
        "event_id": "scheduler", "action_id": "create_card", "action_repo_id": target["id"],
        "schedulerCron": { "cron": "0 9 * * *", "timezone": "UTC" },
        "action_params": { "field_map": [text("Subject", "Weekly check"), text("Description", "Look around"), text("Channel", "Chat")] } });
    let id = rule(&rig, &pipe, "Every morning", weekly.clone()).await;
    let mut idle = weekly.clone();
    idle["active"] = json!(false);
    let idle = rule(&rig, &pipe, "Never", idle).await;
    let never = rule(
        &rig,
        &pipe,
        "No schedule",
        json!({ "event_id": "scheduler", "action_id": "send_http_request",
        "action_params": { "url": "http://127.0.0.1:1/" } }),
    )
    .await;
    let tomorrow = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_hours(24)).unwrap();
    let look = json!({ "now": tomorrow.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() });
    assert_eq!(control(&rig, "clock", look.clone()).await.0, 200);
    assert_eq!(control(&rig, "clock", look).await.0, 200, "the same time again");
    let ran = runs(&rig, &id).await;
    assert_eq!(ran.len(), 1, "{ran:?}");
    assert_eq!(
        (&ran[0]["status"], &ran[0]["cardId"], &ran[0]["cardTitle"]),
        (&json!("success"), &Value::Null, &json!("Every morning"))
    );
    let cards = "query($id: ID!) { cards(pipe_id: $id, first: 50, search: { title: \"Weekly check\" }) { edges { node { id } } } }";
    assert_eq!(rig.ok(cards, json!({ "id": target["id"] })).await["cards"]["edges"].as_array().unwrap().len(), 1);
    assert!(runs(&rig, &idle).await.is_empty() && runs(&rig, &never).await.is_empty());

    for (cron, why) in [
        (json!({ "cron": "61 9 * * *" }), "is not a valid cron expression"),
        (json!({ "cron": "0 9 * * *", "timezone": "Moon/Base" }), "has an unknown timezone"),
    ] {
        let mut input = weekly.clone();
        input["name"] = json!("Bad");
        input["event_repo_id"] = pipe["id"].clone();
        input["schedulerCron"] = cron;
        let made = rig.ok(CREATE, json!({ "input": input })).await["createAutomation"].clone();
        assert_eq!(
            made["error_details"],
            json!([{ "object_name": "automation", "object_key": "schedulerCron", "messages": [why] }])
        );
    }
    assert_eq!(control(&rig, "clock", json!({ "now": "soon" })).await.0, 400);
}

#[tokio::test]
async fn a_rule_is_triggered_by_hand() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let priority = field(&pipe, "Priority");
    let by_hand = json!({
        "event_id": "manually_triggered", "action_id": "update_card_field",
        "action_params": { "field_map": [{ "fieldId": priority, "inputMode": "fixed_value", "value": "P1" }] },
        "condition": { "expressions": [{ "structure_id": 0, "field_address": field(&pipe, "Channel"), "operation": "equals", "value": "Chat" }],
                       "expressions_structure": [[0]] } });
    let id = rule(&rig, &pipe, "Make it urgent", by_hand).await;
    let (chat, mail) = (ticket(&rig, "Chat").await, ticket(&rig, "E-mail").await);
    assert!(runs(&rig, &id).await.is_empty(), "nothing else triggers it");
    let path = format!("automations/{}/run", id.as_str().unwrap());
    let (status, log) = control(&rig, &path, json!({ "card_id": chat })).await;
    assert_eq!((status, &log["status"], &log["cardId"]), (200, &json!("success"), &chat));
    assert_eq!(value(&rig.ok(CARD, json!({ "id": chat })).await["card"], "Priority"), "P1");
    assert_eq!(
        control(&rig, &path, json!({ "card_id": mail })).await,
        (200, Value::Null),
        "its condition does not hold"
    );
    assert_eq!(runs(&rig, &id).await.len(), 1);

    let other = rig.card().await;
    assert_eq!(control(&rig, &path, json!({ "card_id": other })).await.0, 400, "a card of another pipe");
    assert_eq!(control(&rig, &path, json!({ "card_id": "1" })).await.0, 400);
    rig.ok(UPDATE, json!({ "input": { "id": id, "active": false } })).await;
    assert_eq!(control(&rig, &path, json!({ "card_id": chat })).await.0, 400, "not active");
}

/// Answers every call with a status, for as long as the test runs.
async fn answering(status: u16) -> String {
    saying(status, "").await
}

/// Answers every call with a status and a body, for as long as the test runs.
async fn saying(status: u16, body: &'static str) -> String {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", socket.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = socket.accept().await {
            let mut buffer = [0_u8; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream
                .write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
                .await;
        }
    });
    url
}

#[tokio::test]
async fn an_http_request_ends_its_run_and_its_answer_triggers_rules() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let ask = |url: &str| {
        json!({ "event_id": "manually_triggered", "action_id": "send_http_request",
        "action_params": { "url": url, "httpMethod": "POST", "body": "{}" } })
    };
    let good = rule(&rig, &pipe, "Ask the shop", ask(&answering(200).await)).await;
    let bad = rule(&rig, &pipe, "Ask the broken shop", ask(&answering(404).await)).await;
    let away = rule(&rig, &pipe, "Ask far away", ask("https://shop.example.com/")).await;
    let listening = |of: &Value| {
        json!({ "event_id": "http_response_received", "event_params": { "triggerAutomationId": of },
        "action_id": "update_card_field",
        "action_params": { "field_map": [{ "fieldId": field(&pipe, "Root cause"), "inputMode": "fixed_value", "value": "Answered" }] } })
    };
    let on_good = rule(&rig, &pipe, "The shop answered", listening(&good)).await;
    let on_away = rule(&rig, &pipe, "Far away answered", listening(&away)).await;
    let on_any = rule(
        &rig,
        &pipe,
        "Anybody answered",
        json!({ "event_id": "http_response_received", "action_id": "send_a_task",
        "action_params": { "taskParams": { "title": "Read the answer", "recipients": "a@b.example" } } }),
    )
    .await;
    let card = ticket(&rig, "Chat").await;
    for (rule, status) in [(&good, "success"), (&bad, "failed"), (&away, "failed")] {
        let path = format!("automations/{}/run", rule.as_str().unwrap());
        assert_eq!(control(&rig, &path, json!({ "card_id": card })).await.1["status"], "processing");
        assert_eq!(ended_runs(&rig, rule, 1).await[0]["status"], status);
    }
    assert_eq!(ended_runs(&rig, &on_good, 1).await[0]["cardId"], card);
    assert_eq!(value(&rig.ok(CARD, json!({ "id": card })).await["card"], "Root cause"), "Answered");
    assert_eq!(ended_runs(&rig, &on_any, 2).await.len(), 2, "a refusal is an answer too");
    assert!(runs(&rig, &on_away).await.is_empty(), "nobody was asked, so nobody answered");
}

#[tokio::test]
async fn what_an_answer_declares_is_written_by_the_rules_that_wait_for_it() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let schema = json!({ "type": "object", "required": ["cause"], "properties": {
        "cause": { "type": "string" }, "found": { "type": "array", "items": { "properties": { "by": { "type": "string" } } } } } });
    let ask = |url: &str| {
        json!({ "event_id": "manually_triggered", "action_id": "send_http_request", "responseSchema": schema,
            "action_params": { "url": url, "httpMethod": "GET" } })
    };
    let body = r#"{"cause": "Expired licença", "found": [{"by": "Ana", "pin": 7}], "secret": "s"}"#;
    let good = rule(&rig, &pipe, "Ask", ask(&saying(200, body).await)).await;
    let odd = rule(&rig, &pipe, "Ask in vain", ask(&saying(200, "{\"cause\": 5}").await)).await;
    let write = |of: &Value| {
        let tokens = "%{response.cause} by %{response.found.0.by} %{response.found.0.pin} %{response.secret}";
        let entry = json!({ "fieldId": field(&pipe, "Root cause"), "inputMode": "fixed_value", "value": tokens });
        json!({ "event_id": "http_response_received", "event_params": { "triggerAutomationId": of },
            "action_id": "update_card_field", "action_params": { "field_map": [entry] } })
    };
    let on_good = rule(&rig, &pipe, "Write it", write(&good)).await;
    let on_odd = rule(&rig, &pipe, "Write nothing", write(&odd)).await;
    let card = ticket(&rig, "Chat").await;
    for (rule, status) in [(&good, "success"), (&odd, "failed")] {
        let path = format!("automations/{}/run", rule.as_str().unwrap());
        control(&rig, &path, json!({ "card_id": card })).await;
        assert_eq!(ended_runs(&rig, rule, 1).await[0]["status"], status);
    }
    assert_eq!(ended_runs(&rig, &on_good, 1).await[0]["status"], "success");
    assert!(runs(&rig, &on_odd).await.is_empty(), "an answer that does not fit is no answer");
    let written = value(&rig.ok(CARD, json!({ "id": card })).await["card"], "Root cause");
    // What the schema does not declare stays a token.
    assert_eq!(written, "Expired licença by Ana %{response.found.0.pin} %{response.secret}");
}

#[tokio::test]
async fn a_rule_changes_the_cards_that_it_searches_for() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let phases = pipe["phases"].as_array().unwrap();
    // A call has a priority, without which it could not leave its phase.
    let (start, end) = (ticket(&rig, "Chat").await, ticket(&rig, "Telefone").await);
    let title = "mutation($input: UpdateCardInput!) { updateCard(input: $input) { card { id } } }";
    rig.ok(title, json!({ "input": { "id": end, "title": "Only this one" } })).await;
    rig.ok(title, json!({ "input": { "id": start, "title": "this one" } })).await;
    let phase = async |card: &Value| {
        let query = "query($id: ID!) { card(id: $id) { current_phase { id } } }";
        rig.ok(query, json!({ "id": card })).await["card"]["current_phase"]["id"].clone()
    };
    let first = phase(&end).await;
    let moving = |rows: Value| {
        json!({ "event_id": "manually_triggered", "action_id": "move_single_card", "searchFor": rows,
            "action_params": { "to_phase_id": phases[1]["id"] } })
    };
    let channel = field(&pipe, "Channel");
    let found = rule(
        &rig,
        &pipe,
        "Move it",
        moving(json!([
        { "field": "title", "operator": "string_contains", "value": "Only %{title}" },
        { "field": channel, "operator": "equals", "value": "Telefone" }])),
    )
    .await;
    let none = rule(
        &rig,
        &pipe,
        "Move nothing",
        moving(json!([
        { "field": "title", "operator": "equals", "value": "Nobody" }])),
    )
    .await;
    for (rule, status) in [(&none, "failed"), (&found, "success")] {
        assert_eq!(phase(&end).await, first);
        let path = format!("automations/{}/run", rule.as_str().unwrap());
        assert_eq!(control(&rig, &path, json!({ "card_id": start })).await.1["status"], status);
    }
    assert_eq!(phase(&end).await, phases[1]["id"]);
    assert_eq!(phase(&start).await, first, "the card that triggered it stays");
    assert_eq!(audited(&rig, &pipe, "searchFor finds no card").await, 1);
}

#[tokio::test]
async fn operations_and_schemas_that_nobody_knows_are_refused() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    for (key, extra, why) in [
        (
            "condition",
            json!({ "expressions": [{ "structure_id": 0, "field_address": "1", "operation": "is" }], "expressions_structure": [[0]] }),
            "operation \"is\" is not included in the list",
        ),
        (
            "searchFor",
            json!([{ "field": "title", "operator": "", "value": "a" }]),
            "operator \"\" is not included in the list",
        ),
        ("responseSchema", json!([1]), "must be a JSON Schema object"),
    ] {
        let mut input = json!({ "name": "Bad", "event_repo_id": pipe["id"], "event_id": "card_created", "action_id": "apply_sla_rules" });
        input[key] = extra;
        let made = rig.ok(CREATE, json!({ "input": input })).await["createAutomation"].clone();
        assert_eq!(made["automation"], Value::Null);
        assert_eq!(
            made["error_details"],
            json!([{ "object_name": "automation", "object_key": key, "messages": [why] }])
        );
    }
}

#[tokio::test]
async fn requests_that_answer_each_other_end() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let url = answering(200).await;
    let ask = json!({ "url": url, "httpMethod": "POST", "body": "{}" });
    let start = rule(
        &rig,
        &pipe,
        "Start",
        json!({ "event_id": "manually_triggered", "action_id": "send_http_request", "action_params": ask }),
    )
    .await;
    let again = rule(
        &rig,
        &pipe,
        "Again",
        json!({ "event_id": "http_response_received", "action_id": "send_http_request", "action_params": ask }),
    )
    .await;
    let card = ticket(&rig, "Chat").await;
    control(&rig, &format!("automations/{}/run", start.as_str().unwrap()), json!({ "card_id": card })).await;
    ended_runs(&rig, &again, 4).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(runs(&rig, &again).await.len(), 4);
}

#[tokio::test]
async fn ai_stops_when_the_credits_of_the_month_are_used_up() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let org = rig.ok("{ organizations { uuid } }", json!({})).await["organizations"][0]["uuid"].clone();
    let prompt = json!({ "aiParams": { "value": format!("Summarize %{{{}}}", field(&pipe, "Subject").as_str().unwrap()),
        "fieldIds": [field(&pipe, "Root cause")], "skillsIds": [] } });
    let id = rule(
        &rig,
        &pipe,
        "Summary",
        json!({ "event_id": "card_created", "action_id": "generate_with_ai", "action_params": prompt }),
    )
    .await;
    let credits = async || {
        let query = "query($org: ID!) { aiCreditUsageStats(organizationUuid: $org, period: current_month) { usage limit
            aiAutomation { usage } assistants { usage } } }";
        rig.ok(query, json!({ "org": org })).await["aiCreditUsageStats"].clone()
    };
    let traces = async |card: &Value| {
        let logs = "query($repo: ID!) { aiAgentLogsByRepo(repoUuid: $repo, first: 3) { nodes { uuid status cardId agentName } } }";
        let logs = rig.ok(logs, json!({ "repo": pipe["uuid"] })).await["aiAgentLogsByRepo"]["nodes"].clone();
        let log = logs.as_array().unwrap().iter().find(|log| log["cardId"] == *card).unwrap().clone();
        let detail =
            "query($uuid: ID!) { aiAgentLogDetails(uuid: $uuid) { tracingNodes { nodeName status message } } }";
        let detail = rig.ok(detail, json!({ "uuid": log["uuid"] })).await["aiAgentLogDetails"]["tracingNodes"].clone();
        (log["status"].clone(), detail)
    };
    let before = credits().await;
    assert_eq!(before["limit"], 1000.0);
    // One run of the seeded agent and one of the prompt still fit.
    let used = before["usage"].as_f64().unwrap();
    control(&rig, "credits", json!({ "limit": used + 2.0 })).await;
    let paid = ticket(&rig, "Portal").await;
    assert_eq!(value(&rig.ok(CARD, json!({ "id": paid })).await["card"], "Priority"), "P2");
    assert_eq!(traces(&paid).await.0, "success");
    let after = credits().await;
    assert_eq!((after["usage"].as_f64().unwrap(), after["limit"].as_f64().unwrap()), (used + 2.0, used + 2.0));

    let unpaid = ticket(&rig, "Portal").await;
    let card = rig.ok(CARD, json!({ "id": unpaid })).await["card"].clone();
    assert_eq!((value(&card, "Priority"), value(&card, "Root cause")), (Value::Null, Value::Null), "{card}");
    let (status, trace) = traces(&unpaid).await;
    assert_eq!(status, "failed");
    assert_eq!(
        (trace.as_array().unwrap().len(), &trace[0]["nodeName"], &trace[0]["status"]),
        (1, &json!("AI credits"), &json!("failed"))
    );
    assert!(trace[0]["message"].as_str().unwrap().contains("used up"), "{trace}");
    let ran: Vec<Value> = runs(&rig, &id).await;
    let of = |card: &Value| ran.iter().find(|run| run["cardId"] == *card).unwrap()["status"].clone();
    assert_eq!((of(&paid), of(&unpaid)), (json!("success"), json!("failed")));
    assert_eq!(audited(&rig, &pipe, "used up").await, 2, "both reasons are in the card's history");
    assert_eq!(credits().await["usage"], after["usage"], "what did not run costs nothing");

    control(&rig, "credits", json!({ "limit": null })).await;
    let again = ticket(&rig, "Portal").await;
    assert_eq!(traces(&again).await.0, "success");
    assert_eq!(credits().await["usage"].as_f64().unwrap(), used + 4.0);
}

#[tokio::test]
async fn a_behavior_costs_what_its_model_costs() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let org = rig.ok("{ organizations { uuid } }", json!({})).await["organizations"][0]["uuid"].clone();
    let create = "mutation($agent: AiAgentInput!) { createAiAgent(input: { agent: $agent }) { agent { uuid } } }";
    let update = "mutation($uuid: ID!, $agent: AiAgentInput!) { updateAiAgent(input: { uuid: $uuid, agent: $agent }) { agent { uuid } } }";
    let made = rig.ok(create, json!({ "agent": { "name": "Costly", "repoUuid": pipe["uuid"] } })).await;
    let uuid = made["createAiAgent"]["agent"]["uuid"].clone();
    let agent = json!({ "name": "Costly", "repoUuid": pipe["uuid"], "instruction": "Ask", "behaviors": [{
        "name": "Ask", "eventId": "card_created", "actionParams": { "aiBehaviorParams": { "instruction": "Ask", "systemProviderId": "903",
            "actionsAttributes": [{ "name": "Ask", "actionType": "human_validation", "metadata": { "title": "Look", "emails": ["a@b.example"] } }] } } }] });
    rig.ok(update, json!({ "uuid": uuid, "agent": agent })).await;
    rig.card().await;
    let usage = "query($org: ID!, $range: DateRange!) { agentsUsageDetails(organizationUuid: $org, filterDate: $range) { agents { nodes { name usage } } } }";
    let range = json!({ "from": "2020-01-01", "to": "2100-01-01" });
    let body = rig.raw("/graphql", DEFAULT_TOKEN, usage, json!({ "org": org, "range": range })).await;
    let nodes = body["data"]["agentsUsageDetails"]["agents"]["nodes"].as_array().unwrap().clone();
    assert_eq!(nodes.iter().find(|node| node["name"] == "Costly").unwrap()["usage"], 2.0, "{body}");
}

#[tokio::test]
async fn the_stand_in_reads_fields_and_leaves_references_to_actions_out() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let create = "mutation($agent: AiAgentInput!) { createAiAgent(input: { agent: $agent }) { agent { uuid } } }";
    let update = "mutation($uuid: ID!, $agent: AiAgentInput!) { updateAiAgent(input: { uuid: $uuid, agent: $agent }) { agent { uuid } } }";
    let made = rig.ok(create, json!({ "agent": { "name": "Writer", "repoUuid": pipe["uuid"] } })).await;
    let uuid = made["createAiAgent"]["agent"]["uuid"].clone();
    let reference = "11111111-2222-4333-8444-555555555555";
    let instruction =
        format!("Need: %{{field:{}}}\n%{{action:{reference}}}", field(&pipe, "Quantity").as_str().unwrap());
    let action = json!({ "name": "Write", "actionType": "update_card", "referenceId": reference, "metadata": { "pipeId": pipe["id"],
        "fieldsAttributes": [{ "fieldId": field(&pipe, "Justification"), "inputMode": "fill_with_ai", "value": "" }] } });
    let agent = json!({ "name": "Writer", "repoUuid": pipe["uuid"], "instruction": "Write", "behaviors": [{ "name": "Write",
        "eventId": "card_created", "actionParams": { "aiBehaviorParams": { "instruction": instruction, "actionsAttributes": [action] } } }] });
    rig.ok(update, json!({ "uuid": uuid, "agent": agent })).await;
    let id = rig.card().await;
    let card = rig.ok(CARD, json!({ "id": id })).await["card"].clone();
    assert_eq!(value(&card, "Justification"), "[Sandbox stand-in, no language model] Need: 2");
}
