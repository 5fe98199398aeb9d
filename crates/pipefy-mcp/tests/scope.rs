//! Scope pins end to end, against the sandbox: what is read to trace an id is answered by a Pipefy, not by a script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use pipefy_mcp::dispatch::{Invocation, dispatch};
use pipefy_mcp::runtime::McpRuntime;
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::{Value, json};

async fn call(runtime: &McpRuntime, tool: &str, arguments: Value) -> Value {
    let exposure = runtime.exposure(None).unwrap();
    let invocation = Invocation {
        id: "1",
        name: tool,
        arguments: arguments.as_object().unwrap().clone(),
        request: None,
        conversation: None,
        ask: None,
        progress: None,
        cancel: Default::default(),
    };
    let reply = dispatch(runtime, &exposure, invocation).await;
    assert!(!reply.is_error, "{tool}: {}", reply.text());
    serde_json::from_str(&reply.text()).unwrap()
}

fn is_foreign(reply: &Value) -> bool {
    reply["error"]["code"] == "OUT_OF_SCOPE"
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a pipe has, found without restrictions.
struct Pipe {
    id: String,
    uuid: String,
    organization: String,
    card: String,
    phase: String,
    label: String,
    field: String,
}

async fn pipe(free: &McpRuntime, id: &str) -> Pipe {
    let query = "query($id: ID!) { pipe(id: $id) { uuid organizationId labels { id } phases { id fields { id uuid } } start_form_fields { id uuid } } cards(pipe_id: $id, first: 1) { edges { node { id } } } }";
    let reply =
        call(free, "execute_graphql", json!({"query": query, "variables": {"id": id}, "include_parsed": true})).await;
    let data = &reply["data"];
    let data = if data.get("pipe").is_some() { data } else { &data["data"] };
    let pipe = &data["pipe"];
    Pipe {
        id: id.to_owned(),
        uuid: text(&pipe["uuid"]),
        organization: text(&pipe["organizationId"]),
        card: text(&data["cards"]["edges"][0]["node"]["id"]),
        phase: text(&pipe["phases"][0]["id"]),
        label: text(&pipe["labels"][0]["id"]),
        field: text(&pipe["start_form_fields"][0]["uuid"]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_hold_against_a_pipefy() {
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let free = support::local(sandbox.url(), DEFAULT_TOKEN, &[]);
    let all = call(&free, "search_pipes", json!({})).await;
    let pipes: Vec<String> =
        all["organizations"][0]["pipes"].as_array().unwrap().iter().map(|pipe| text(&pipe["id"])).collect();
    assert!(pipes.len() >= 2, "{all}");
    let (ours, theirs) = (pipe(&free, &pipes[0]).await, pipe(&free, &pipes[1]).await);
    let tables = call(&free, "search_tables", json!({})).await;
    let tables: Vec<String> = tables["data"]["organizations"][0]["tables"]
        .as_array()
        .unwrap_or_else(|| panic!("{tables}"))
        .iter()
        .map(|table| text(&table["id"]))
        .collect();
    assert!(tables.len() >= 2, "{tables:?}");
    let mut records = Vec::new();
    for table in tables.iter().take(2) {
        let found = call(&free, "get_table_records", json!({"table_id": table, "first": 1})).await;
        records.push(text(
            found
                .pointer("/table_records/edges/0/node/id")
                .or(found.pointer("/data/table_records/edges/0/node/id"))
                .unwrap_or_else(|| panic!("{found}")),
        ));
    }

    let scope = [("PIPEFY_MCP_SCOPE_PIPES", ours.id.as_str()), ("PIPEFY_MCP_SCOPE_TABLES", tables[0].as_str())];
    let pinned: Arc<McpRuntime> = support::local(sandbox.url(), DEFAULT_TOKEN, &scope);
    let check = |ours_or_theirs: &Pipe, table: &str, record: &str| {
        let p = ours_or_theirs;
        vec![
            ("get_pipe", json!({"pipe_id": p.id})),
            ("get_card", json!({"card_id": p.card})),
            ("get_phase_fields", json!({"phase_id": p.phase})),
            ("get_pipe_report_columns", json!({"pipe_uuid": p.uuid})),
            ("get_ai_agents", json!({"repo_uuid": p.uuid})),
            ("update_label", json!({"label_id": p.label, "name": "N", "color": "#FF0000", "dry_run": true})),
            ("update_phase_field", json!({"field_id": p.field, "label": "L", "uuid": p.field, "dry_run": true})),
            ("move_card_to_phase", json!({"card_id": p.card, "destination_phase_id": p.phase, "dry_run": true})),
            ("get_table", json!({"table_id": table})),
            ("get_table_record", json!({"record_id": record})),
        ]
    };
    for (tool, arguments) in check(&ours, &tables[0], &records[0]) {
        let reply = call(&pinned, tool, arguments.clone()).await;
        assert!(!is_foreign(&reply), "{tool} {arguments}: {reply}");
    }
    for (tool, arguments) in check(&theirs, &tables[1], &records[1]) {
        let reply = call(&pinned, tool, arguments.clone()).await;
        assert!(is_foreign(&reply), "{tool} {arguments}: {reply}");
    }
    // A card of ours does not go into their phase.
    let across = json!({"card_id": ours.card, "destination_phase_id": theirs.phase});
    assert!(is_foreign(&call(&pinned, "move_card_to_phase", across).await));
    assert!(is_foreign(&call(&pinned, "execute_graphql", json!({"query": "{ me { id } }"})).await));

    // An organization that is given beside a card of ours is the one that card is in.
    let upload = |organization: &str| json!({"organization_id": organization, "card_id": ours.card, "field_id": "f", "file_path": "none.txt", "dry_run": true});
    assert!(!is_foreign(&call(&pinned, "upload_attachment_to_card", upload(&ours.organization)).await));
    let other = text(&all["organizations"][1]["id"]);
    let reply = call(&pinned, "upload_attachment_to_card", upload(&other)).await;
    assert!(is_foreign(&reply) && reply["error"]["details"]["argument"] == "organization_id", "{reply}");

    let found = call(&pinned, "search_pipes", json!({})).await;
    let left: Vec<String> =
        found["organizations"][0]["pipes"].as_array().unwrap().iter().map(|pipe| text(&pipe["id"])).collect();
    assert_eq!(left, [ours.id.as_str()], "{found}");
    // The other pipes, and the organizations that are empty without them.
    let organizations = all["organizations"].as_array().unwrap();
    let every: usize = organizations.iter().map(|organization| organization["pipes"].as_array().unwrap().len()).sum();
    assert_eq!(found["scope"]["dropped"], every - 1 + organizations.len() - 1, "{found}");

    // The organization as a whole, when it is what is pinned.
    let organization = support::local(sandbox.url(), DEFAULT_TOKEN, &[("PIPEFY_MCP_SCOPE_ORG", &ours.organization)]);
    assert!(!is_foreign(&call(&organization, "get_card", json!({"card_id": theirs.card})).await));
    let elsewhere = support::local(sandbox.url(), DEFAULT_TOKEN, &[("PIPEFY_MCP_SCOPE_ORG", "999999")]);
    let reply = call(&elsewhere, "get_card", json!({"card_id": ours.card})).await;
    assert!(is_foreign(&reply), "{reply}");
}
