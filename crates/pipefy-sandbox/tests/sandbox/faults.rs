//! Faults on demand and the request log.

use crate::Rig;
use pipefy_sandbox::{DEFAULT_TOKEN, Faults, SandboxOptions};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn plan(rig: &Rig, plan: Value) {
    let response =
        rig.http.post(format!("{}/_sandbox/faults", rig.sandbox.url())).body(plan.to_string()).send().await.unwrap();
    assert_eq!(response.status(), 204);
}

async fn me(rig: &Rig) -> reqwest::Result<reqwest::Response> {
    let request = rig.http.post(format!("{}/graphql", rig.sandbox.url())).bearer_auth(DEFAULT_TOKEN);
    request.json(&json!({ "query": "query Me { me { id } }" })).send().await
}

#[tokio::test]
async fn each_kind_of_fault_strikes_once() {
    let rig = Rig::new().await;
    plan(&rig, json!({ "rules": [{ "root_field": "me", "times": 1, "status": 429, "retry_after": "2" }] })).await;
    let response = me(&rig).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "2"));
    assert_eq!(me(&rig).await.unwrap().status(), 200);

    plan(
        &rig,
        json!({ "rules": [{ "endpoint": "graphql", "nth": 1, "status": 502, "body": "<html>Bad Gateway</html>" }] }),
    )
    .await;
    let response = me(&rig).await.unwrap();
    assert_eq!(response.status(), 502);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/html"));

    plan(&rig, json!({ "rules": [{ "times": 1, "drop": true }] })).await;
    assert!(me(&rig).await.is_err(), "the connection is closed without an answer");
    assert_eq!(me(&rig).await.unwrap().status(), 200);

    plan(&rig, json!({ "rules": [{ "times": 1, "graphql_error": "Slow down", "code": "USAGE_LIMIT_EXCEEDED" }] }))
        .await;
    let body: Value = me(&rig).await.unwrap().json().await.unwrap();
    assert_eq!(body["errors"][0]["extensions"]["code"], "USAGE_LIMIT_EXCEEDED");

    plan(&rig, json!({ "latency_ms": 120 })).await;
    let start = Instant::now();
    me(&rig).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn a_write_can_happen_although_its_answer_is_lost() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    plan(&rig, json!({ "rules": [{ "root_field": "createLabel", "drop": true, "after": true }] })).await;
    let query = "mutation($input: CreateLabelInput!) { createLabel(input: $input) { label { id } } }";
    let body =
        json!({ "query": query, "variables": { "input": { "pipe_id": pipe["id"], "name": "Lost", "color": "#000" } } });
    let request = rig.http.post(format!("{}/graphql", rig.sandbox.url())).bearer_auth(DEFAULT_TOKEN).json(&body);
    assert!(request.send().await.is_err());
    assert!(rig.pipe("Purchase Requests").await["labels"].to_string().contains("Lost"));
}

#[tokio::test]
async fn faults_can_be_set_from_the_start_and_bad_plans_are_refused() {
    let faults = Faults::parse("[[rules]]\nendpoint = \"token\"\nstatus = 500\n").unwrap();
    let rig = Rig::with(SandboxOptions { faults, ..SandboxOptions::default() }).await;
    let response =
        rig.http.post(format!("{}/oauth/token", rig.sandbox.url())).form(&[("grant_type", "x")]).send().await.unwrap();
    assert_eq!(response.status(), 500);
    let bad =
        rig.http.post(format!("{}/_sandbox/faults", rig.sandbox.url())).body("{\"rule\": []}").send().await.unwrap();
    assert_eq!(bad.status(), 400);
}

#[tokio::test]
async fn the_log_says_what_was_sent_without_secrets() {
    let rig = Rig::new().await;
    me(&rig).await.unwrap();
    rig.raw("/graphql", "wrong-secret-token", "{ me { id } }", json!({})).await;
    rig.error(
        "mutation($input: CreateLlmProviderInput!) { createLlmProvider(input: $input) { llmProvider { id } } }",
        json!({ "input": { "organizationUuid": "x", "name": "n", "configuration": { "apiKey": "sk-canary" } } }),
    )
    .await;
    let log: Value =
        rig.http.get(format!("{}/_sandbox/requests", rig.sandbox.url())).send().await.unwrap().json().await.unwrap();
    let requests = log["requests"].as_array().unwrap();
    assert_eq!(requests[0]["root_fields"], json!(["me"]));
    assert_eq!((&requests[0]["operation"], &requests[0]["operation_name"]), (&json!("query"), &json!("Me")));
    assert_eq!(requests[0]["identity"], "ana.souza@aurora.example");
    assert_eq!((&requests[0]["status"], &requests[1]["status"]), (&json!(200), &json!(401)));
    assert!(requests[1]["identity"].as_str().unwrap().starts_with("unknown:"));
    let text = log.to_string();
    assert!(
        !text.contains("sk-canary") && !text.contains("wrong-secret-token") && !text.contains(DEFAULT_TOKEN),
        "{text}"
    );
}
