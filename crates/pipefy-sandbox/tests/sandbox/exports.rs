//! Exports become ready and can be downloaded; usage follows the runs.

use crate::{GUEST, MEMBER, Rig};
use serde_json::{Value, json};
use std::time::Duration;

/// Asks until a value is there.
async fn when_ready(rig: &Rig, query: &str, variables: Value, pointer: &str) -> Value {
    for _ in 0..900 {
        let data = rig.ok(query, variables.clone()).await;
        if let Some(value) = data.pointer(pointer).filter(|v| !v.is_null()) {
            return value.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{query} never had {pointer}");
}

async fn download(rig: &Rig, url: &Value) -> Vec<u8> {
    let response = rig.http.get(url.as_str().unwrap()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.bytes().await.unwrap().to_vec()
}

#[tokio::test]
async fn a_pipe_report_becomes_a_csv_file() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let list = "query($pipe: String!) { pipeReports(pipeUuid: $pipe, first: 1) { edges { node { id } } } }";
    let report = rig.ok(list, json!({ "pipe": pipe["uuid"] })).await["pipeReports"]["edges"][0]["node"]["id"].clone();
    let start = "mutation($input: ExportPipeReportInput!) { exportPipeReport(input: $input) { pipeReportExport { id state fileURL } } }";
    let input = json!({ "pipeId": pipe["id"], "pipeReportId": report, "columns": ["title", "created_at", "current_phase"],
        "sortBy": { "field": "title", "direction": "desc" } });
    let started = rig.ok(start, json!({ "input": input })).await["exportPipeReport"]["pipeReportExport"].clone();
    assert_eq!((&started["state"], &started["fileURL"]), (&json!("processing"), &Value::Null));
    let look = "query($id: ID!) { pipeReportExport(id: $id) { state fileURL startedAt finishedAt requestedBy { name } report { id } } }";
    let url = when_ready(&rig, look, json!({ "id": started["id"] }), "/pipeReportExport/fileURL").await;
    let csv = String::from_utf8(download(&rig, &url).await).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "Title,Created at,Current phase");
    assert_eq!(lines.len(), 87);
    assert!(lines[1] >= lines[20], "{} {}", lines[1], lines[20]);
    let other = rig.error_as(MEMBER, look, json!({ "id": started["id"] })).await;
    assert_eq!(other["extensions"]["code"], "PERMISSION_DENIED");
    let wrong = json!({ "pipeId": pipe["id"], "pipeReportId": report, "columns": ["nope"] });
    assert_eq!(rig.error(start, json!({ "input": wrong })).await["extensions"]["code"], "INVALID_INPUT");

    let org = rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone();
    let org: i64 = org.as_str().unwrap().parse().unwrap();
    let of_org = "mutation($input: ExportOrganizationReportInput!) { exportOrganizationReport(input: $input) { organizationReportExport { id state } } }";
    let id: i64 = pipe["id"].as_str().unwrap().parse().unwrap();
    let input = json!({ "organizationId": org, "pipeIds": [id], "filter": { "operator": "and", "queries": [
        { "field": "current_phase", "operator": "eq", "value": "Delivered" }] } });
    let started = rig.ok(of_org, json!({ "input": input })).await;
    let id = started["exportOrganizationReport"]["organizationReportExport"]["id"].clone();
    let look = "query($id: ID!) { organizationReportExport(id: $id) { state fileURL } }";
    let url = when_ready(&rig, look, json!({ "id": id }), "/organizationReportExport/fileURL").await;
    let csv = String::from_utf8(download(&rig, &url).await).unwrap();
    assert!(csv.lines().skip(1).all(|line| line.contains("Delivered")) && csv.lines().count() > 1, "{csv}");
}

#[tokio::test]
async fn audit_logs_come_by_mail_and_name_who_did_what() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    rig.card().await;
    let export =
        "mutation($input: ExportPipeAuditLogsReportInput!) { exportPipeAuditLogsReport(input: $input) { success } }";
    let input = json!({ "input": { "pipeUuid": pipe["uuid"], "searchTerm": "teclado" } });
    assert_eq!(rig.error_as(MEMBER, export, input.clone()).await["extensions"]["code"], "PERMISSION_DENIED");
    rig.ok(export, input).await;
    let mail: Value =
        rig.http.get(format!("{}/_sandbox/mail", rig.sandbox.url())).send().await.unwrap().json().await.unwrap();
    let mail = &mail["mail"][0];
    assert_eq!(mail["to"], json!(["ana.souza@aurora.example"]));
    let csv = String::from_utf8(download(&rig, &mail["file"]).await).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(csv.contains("Ana Souza,created,"), "{csv}");
}

#[tokio::test]
async fn jobs_are_exported_as_a_workbook_and_usage_counts_them() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0].clone();
    let start = "mutation($input: CreateAutomationJobsExportInput!) { createAutomationJobsExport(input: $input) { automationJobsExport { id status fileUrl } } }";
    let input = json!({ "input": { "organizationId": org["id"], "filter": "last_3_months" } });
    assert_eq!(rig.error_as(MEMBER, start, input.clone()).await["extensions"]["code"], "PERMISSION_DENIED");
    let started = rig.ok(start, input).await["createAutomationJobsExport"]["automationJobsExport"].clone();
    assert_eq!(started["status"], "processing");
    let look = "query($id: ID!) { automationJobsExport(id: $id) { id status fileUrl } }";
    let url = when_ready(&rig, look, json!({ "id": started["id"] }), "/automationJobsExport/fileUrl").await;
    let file = download(&rig, &url).await;
    assert!(file.starts_with(b"PK"));

    let usage = "query($org: ID!, $range: DateRange!, $filters: FilterParams, $sort: SortCriteria) {
        automationsUsageDetails(organizationUuid: $org, filterDate: $range, filters: $filters, sort: $sort) { usage automations { totalCount nodes { id name usage status action event eventRepo { uuid name } } } }
        agentsUsageDetails(organizationUuid: $org, filterDate: $range) { usage agents { totalCount nodes { name usage } } } }";
    let range = json!({ "from": "2020-01-01", "to": "2100-01-01" });
    let variables = json!({ "org": org["uuid"], "range": range, "sort": { "field": "usage", "direction": "desc" } });
    let all = rig.ok(usage, variables.clone()).await;
    let nodes = all["automationsUsageDetails"]["automations"]["nodes"].as_array().unwrap().clone();
    let sum: f64 = nodes.iter().map(|n| n["usage"].as_f64().unwrap()).sum();
    assert_eq!((all["automationsUsageDetails"]["usage"].as_f64().unwrap(), nodes.len()), (sum, 14));
    assert!(nodes[0]["usage"].as_f64() >= nodes[1]["usage"].as_f64());
    let mut only = variables.clone();
    only["filters"] = json!({ "status": ["inactive"] });
    assert_eq!(rig.ok(usage, only).await["automationsUsageDetails"]["automations"]["totalCount"], 9);
    let mut never = variables;
    never["range"] = json!({ "from": "2020-01-01", "to": "2020-01-02" });
    assert_eq!(rig.ok(usage, never).await["automationsUsageDetails"]["usage"], 0.0);
    let credits = "query($org: ID!, $period: PeriodFilter!) { aiCreditUsageStats(organizationUuid: $org, period: $period) { active usage limit hasAddon aiAutomation { enabled usage } assistants { enabled usage } freeAiCredit { limit usage } filterDate { from to } } }";
    let stats =
        rig.ok(credits, json!({ "org": org["uuid"], "period": "last_3_months" })).await["aiCreditUsageStats"].clone();
    assert_eq!(stats["assistants"]["usage"], all["agentsUsageDetails"]["usage"]);
    let denied = rig.error_as(GUEST, credits, json!({ "org": org["uuid"], "period": "current_month" })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
}
