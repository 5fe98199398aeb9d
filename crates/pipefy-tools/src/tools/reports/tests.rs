#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let pipe = json!({"pipeReport": {"id": "5"}});
    let organization = json!({"organizationReport": {"id": "5"}});
    for rules in [
        WriteRules::new("create_pipe_report", json!({"pipe_id": 1, "name": "R"}))
            .write("createPipeReport", pipe.clone()),
        WriteRules::new("update_pipe_report", json!({"report_id": 5, "color": "blue"})).write("updatePipeReport", pipe),
        WriteRules::new("delete_pipe_report", json!({"report_id": 5}))
            .write("deletePipeReport", json!({"success": true})),
        WriteRules::new("create_organization_report", json!({"organization_id": 1, "name": "R", "pipe_ids": ["1"]}))
            .write("createOrganizationReport", organization.clone()),
        WriteRules::new("update_organization_report", json!({"report_id": 5, "pipe_ids": []}))
            .write("updateOrganizationReport", organization),
        WriteRules::new("delete_organization_report", json!({"report_id": 5}))
            .write("deleteOrganizationReport", json!({"success": true})),
        WriteRules::new("export_pipe_report", json!({"pipe_id": 1, "pipe_report_id": 5}))
            .write("exportPipeReport", json!({"pipeReportExport": {"id": "3", "state": "processing"}})),
        WriteRules::new("export_organization_report", json!({"organization_id": 1}))
            .write("exportOrganizationReport", json!({"organizationReportExport": {"id": "3", "state": "processing"}})),
        WriteRules::new("export_pipe_audit_logs", json!({"pipe_uuid": "u"}))
            .write("exportPipeAuditLogsReport", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn inputs_have_the_service_s_names_and_types() {
    let mock = Mock::new().on("updatePipeReport", json!({"pipeReport": {"id": "5"}}));
    let arguments = json!({"report_id": 5, "featured_field": "x", "formulas": [["a", "avg"]],
        "filter": {"operator": "and", "queries": [{"field": "f", "operator": "eq", "value": 1}]}});
    mock.reply("update_pipe_report", arguments).await;
    let filter = json!({"operator": "and", "queries": [{"field": "f", "operator": "eq", "value": "1"}]});
    let input = json!({"id": "5", "filter": filter, "formulas": [["a", "avg"]], "featuredField": "x"});
    assert_eq!(mock.writes()[0].variables["input"], input);
    let mock = Mock::new().on("exportOrganizationReport", json!({"organizationReportExport": {"id": "3"}}));
    let arguments = json!({"organization_id": "1", "organization_report_id": 5, "pipe_ids": ["7", 8]});
    mock.reply("export_organization_report", arguments).await;
    let input = json!({"organizationId": 1, "organizationReportId": 5, "pipeIds": [7, 8]});
    assert_eq!(mock.writes()[0].variables["input"], input);
}

#[tokio::test]
async fn bad_input_sends_nothing() {
    let wrong = json!({"current_phase": 1});
    for (tool, arguments) in [
        ("create_pipe_report", json!({"pipe_id": 1, "name": " "})),
        ("create_pipe_report", json!({"pipe_id": 1, "name": "R", "filter": wrong})),
        ("update_pipe_report", json!({"report_id": 5, "filter": wrong})),
        ("create_organization_report", json!({"organization_id": 1, "name": "R", "pipe_ids": []})),
        ("create_organization_report", json!({"organization_id": 1, "name": "R", "pipe_ids": [1]})),
        ("create_organization_report", json!({"organization_id": 1, "name": "R", "pipe_ids": ["1"], "filter": wrong})),
        ("update_organization_report", json!({"report_id": 5, "filter": wrong})),
        ("export_pipe_report", json!({"pipe_id": 1, "pipe_report_id": 5, "filter": wrong})),
        ("export_organization_report", json!({"organization_id": 1, "filter": wrong})),
        ("export_organization_report", json!({"organization_id": "abc"})),
        ("export_organization_report", json!({"organization_id": 1, "pipe_ids": ["x"]})),
        ("delete_pipe_report", json!({"report_id": 0})),
        ("get_pipe_reports", json!({"pipe_uuid": " "})),
        ("get_pipe_reports", json!({"pipe_uuid": 5})),
        ("get_pipe_reports", json!({"pipe_uuid": "u", "first": 501})),
        ("get_organization_reports", json!({"organization_id": 1, "first": 0})),
        ("export_pipe_audit_logs", json!({"pipe_uuid": ""})),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments.clone()).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool} {arguments}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn listings_page_and_one_report_is_picked() {
    let page = |more: bool, cursor: &str| json!({"edges": [{"node": {"id": cursor}}], "pageInfo": {"hasNextPage": more, "endCursor": cursor}});
    let mock = Mock::new().on("pipeReports", page(true, "c1")).on("pipeReports", page(false, "c2"));
    let reply = mock.reply("get_pipe_reports", json!({"pipe_uuid": "u", "all": true})).await;
    assert_eq!(
        (&reply["complete"], reply["data"]["pipeReports"]["edges"].as_array().unwrap().len()),
        (&json!(true), 2)
    );
    assert_eq!(mock.sent()[1].variables["after"], "c1");
    let mock = Mock::new().on("pipeReports", page(false, "c"));
    let reply = mock
        .reply("get_pipe_reports", json!({"pipe_uuid": "u", "order": "{\"field\":\"name\",\"direction\":\"asc\"}"}))
        .await;
    assert_eq!(reply["pagination"], json!({"has_more": false, "end_cursor": "c", "page_size": 30}));
    assert_eq!(
        mock.sent()[0].variables,
        json!({"pipeUuid": "u", "first": 30, "order": {"field": "name", "direction": "asc"}})
    );
    let legacy = Mock::new()
        .on("pipeReports", page(false, "c"))
        .legacy()
        .reply("get_pipe_reports", json!({"pipe_uuid": "u"}))
        .await;
    assert!(legacy.get("pagination").is_none() && legacy.get("data").is_some());
    let reply = mock.reply("get_pipe_report", json!({"pipe_uuid": "u", "report_id": 5})).await;
    assert_eq!(reply["data"], json!({"pipeReport": {"id": "c"}}));
    assert_eq!(mock.sent()[1].variables, json!({"pipeUuid": "u", "first": 1, "reportId": "5"}));
    let reply = Mock::new()
        .on("pipeReports", json!({"edges": []}))
        .reply("get_pipe_report", json!({"pipe_uuid": "u", "report_id": 5}))
        .await;
    assert!(reply["error"]["message"].as_str().unwrap().contains('5'), "{reply}");
}

#[tokio::test]
async fn null_reads_are_shown_and_failures_explained() {
    for (tool, root, arguments) in [
        ("get_pipe_report_columns", "pipeReportColumns", json!({"pipe_uuid": "u"})),
        ("get_pipe_report_filterable_fields", "pipeReportFilterableFields", json!({"pipe_uuid": "u"})),
        ("get_organization_report", "organizationReport", json!({"report_id": 5})),
        ("get_pipe_report_export", "pipeReportExport", json!({"export_id": 5})),
        ("get_organization_report_export", "organizationReportExport", json!({"export_id": 5})),
    ] {
        let reply = Mock::new().on(root, Value::Null).reply(tool, arguments.clone()).await;
        assert_eq!((&reply["success"], &reply["data"]), (&json!(true), &json!({ root: null })), "{tool}");
        let reply = Mock::new().error(root, "Permission denied", "PERMISSION_DENIED").reply(tool, arguments).await;
        assert_eq!(reply["error"]["code"], "PERMISSION_DENIED", "{tool}");
    }
}

#[tokio::test]
async fn legacy_writes_keep_result() {
    let mock = Mock::new().legacy().on("createPipeReport", json!({"pipeReport": {"id": "5"}}));
    let reply = mock.reply("create_pipe_report", json!({"pipe_id": 1, "name": " R "})).await;
    assert_eq!(reply["result"], json!({"createPipeReport": {"pipeReport": {"id": "5"}}}));
    assert!(reply.get("data").is_none());
    assert_eq!(mock.writes()[0].variables["input"]["name"], "R");
}
