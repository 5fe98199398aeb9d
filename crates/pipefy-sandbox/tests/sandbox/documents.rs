//! Every document that clients are known to send, rebuilt from the contract, is valid here; the ones that the sandbox
//! has behaviour for execute.

use crate::Rig;
use pipefy_sandbox::DEFAULT_TOKEN;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const OPERATIONS: &str = include_str!("../../../../contract/operations.json");

/// `{"first":"$first"}` -> `first: $first`.
fn arguments(value: &Value) -> String {
    match value {
        Value::String(text) if text.starts_with('$') => text.clone(),
        Value::Object(map) => {
            let inner: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {}", arguments(v))).collect();
            format!("{{ {} }}", inner.join(", "))
        }
        other => other.to_string(),
    }
}

fn listed(value: &Value) -> String {
    let map = value.as_object().unwrap();
    if map.is_empty() {
        return String::new();
    }
    let inner: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {}", arguments(v))).collect();
    format!("({})", inner.join(", "))
}

/// Turns the contract's compact selections into GraphQL.
fn selection(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("({") {
        let end = rest[at..].find("})").map(|e| at + e + 1).unwrap();
        out.push_str(&rest[..at]);
        out.push_str(&listed(&serde_json::from_str(&rest[at + 1..end]).unwrap()));
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out.replace("...", "... on ").replace("... on  on ", "... on ")
}

fn document(operation: &Value) -> String {
    let variables: Vec<String> = operation["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| format!("${}: {}", v["name"].as_str().unwrap(), v["type"].as_str().unwrap()))
        .collect();
    let variables = if variables.is_empty() { String::new() } else { format!("({})", variables.join(", ")) };
    let mut calls = String::new();
    for call in operation["calls"].as_array().unwrap() {
        let inner = call["selection"].as_str().unwrap_or_default();
        let inner = if inner.is_empty() { String::new() } else { format!(" {{ {} }}", selection(inner)) };
        calls.push_str(&format!("{}{}{inner} ", call["field"].as_str().unwrap(), listed(&call["arguments"])));
    }
    let name = operation["operation_name"].as_str().unwrap_or_default();
    format!("{} {name}{variables} {{ {calls} }}", operation["kind"].as_str().unwrap())
}

/// Values for the variables of the queries, from the seeded organization.
async fn known_values(rig: &Rig) -> Value {
    let pipe = rig.pipe("Customer Support").await;
    let org =
        rig.ok("{ organizations { id uuid tables(first: 1) { nodes { id } } } }", json!({})).await["organizations"][0]
            .clone();
    let table = org["tables"]["nodes"][0]["id"].clone();
    let more = rig
        .ok(
            "query($pipe: ID!, $table: ID!, $repo: ID!, $org: ID!, $phase: ID!) {
                cards(pipe_id: $pipe, first: 1) { edges { node { id } } }
                table_records(table_id: $table, first: 1) { edges { node { id } } }
                aiAgents(repoUuid: $repo) { edges { node { uuid } } }
                aiAgentLogsByRepo(repoUuid: $repo) { nodes { uuid } }
                automations(organizationId: $org) { edges { node { id } } }
                phase(id: $phase) { fieldConditions { id } } }",
            json!({ "pipe": pipe["id"], "table": table, "repo": pipe["uuid"], "org": org["id"], "phase": pipe["phases"][0]["id"] }),
        )
        .await;
    json!({
        "pipe_id": pipe["id"], "pipeId": pipe["id"], "repoId": pipe["id"], "repoUuid": pipe["uuid"], "phase_id": pipe["phases"][0]["id"],
        "phaseId": pipe["phases"][0]["id"], "organizationId": org["id"], "organizationUuid": org["uuid"], "tableId": table, "ids": [table],
        "card_id": more["cards"]["edges"][0]["node"]["id"], "cardId": more["cards"]["edges"][0]["node"]["id"],
        "uuid": more["aiAgents"]["edges"][0]["node"]["uuid"], "automation": more["automations"]["edges"][0]["node"]["id"],
        "agentLog": more["aiAgentLogsByRepo"]["nodes"][0]["uuid"], "record": more["table_records"]["edges"][0]["node"]["id"], "condition": more["phase"]["fieldConditions"][0]["id"],
        "search": { "title": "log" }, "findSearch": { "fieldId": "channel", "fieldValue": "Chat" }, "fieldId": "nome",
        "fieldValue": "Gráfica Ipê", "includeFields": true, "first": 5, "typeName": "Card", "nameSearch": "support", "org": org["id"],
        "pipe": pipe["id"], "table": table,
    })
}

fn value_for<'v>(known: &'v Value, root: &str, name: &str) -> Option<&'v Value> {
    let key = match (root, name) {
        ("organization", "id") => "org",
        ("pipe", "id") => "pipe",
        ("table", "id") => "table",
        ("table_record", "id") => "record",
        ("fieldCondition", "id") => "condition",
        ("automation", "id") | ("automationLogs", "automationId") => "automation",
        ("aiAgentLogDetails", "uuid") => "agentLog",
        ("findCards", "search") => "findSearch",
        ("interface" | "portalInterface", "uuid") => return None,
        (other, "search") if other != "cards" => return None,
        (_, name) => name,
    };
    known.get(key)
}

#[tokio::test]
async fn every_known_document_is_valid_and_the_served_queries_execute() {
    let rig = Rig::new().await;
    let known = known_values(&rig).await;
    let contract: Value = serde_json::from_str(OPERATIONS).unwrap();
    let (mut valid, mut executed, mut unserved) = (0, 0, BTreeSet::new());
    for operation in contract["operations"].as_array().unwrap() {
        if operation["calls"].as_array().unwrap().is_empty() {
            continue;
        }
        let text = document(operation);
        let root = operation["calls"][0]["field"].as_str().unwrap();
        let path = operation["path"].as_str().unwrap();
        let mut variables = json!({});
        let mut complete = true;
        for variable in operation["variables"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            match value_for(&known, root, name) {
                Some(value) => variables[name] = value.clone(),
                None => complete = complete && !variable["type"].as_str().unwrap().ends_with('!'),
            }
        }
        let query = operation["kind"] == "query";
        // Mutations are only validated here: without their variables they are refused before anything is written.
        let sent = if query && complete { variables } else { json!({}) };
        let body = rig.raw(path, DEFAULT_TOKEN, &text, sent).await;
        let codes: Vec<&str> =
            body["errors"].as_array().into_iter().flatten().filter_map(|e| e["extensions"]["code"].as_str()).collect();
        assert!(
            !codes.contains(&"GRAPHQL_VALIDATION_FAILED") && !codes.contains(&"undefinedField"),
            "{text}\n{body:#}"
        );
        valid += 1;
        if codes.contains(&"NOT_IMPLEMENTED") {
            unserved.insert(root.to_owned());
        } else if query && complete && root != "table_relations" {
            assert!(body.get("errors").is_none(), "{text}\n{body:#}");
            assert!(!body["data"][root].is_null(), "{text}\n{body:#}");
            executed += 1;
        }
    }
    assert!(valid >= 178, "{valid}");
    assert!(executed >= 30, "{executed}");
    assert!(unserved.is_empty(), "{unserved:?}");
}
