//! Reports: columns, filters that really select, aggregates, who may do what.

use crate::{DEFAULT_TOKEN, GUEST, MEMBER, Rig};
use serde_json::{Value, json};

const CREATE: &str =
    "mutation($input: CreatePipeReportInput!) { createPipeReport(input: $input) { pipeReport { id name } } }";
const LIST: &str = "query($pipe: String!, $search: String, $id: ID, $order: PipeReportsOrder) {
    pipeReports(pipeUuid: $pipe, search: $search, reportId: $id, order: $order, first: 30) { edges { node {
        id name color fields filter cardCount selectedFormulaFields { indexName sum avg min max count selectedFormula }
        sortBy { field direction } } } pageInfo { hasNextPage } } }";

fn column<'v>(columns: &'v Value, label: &str) -> &'v Value {
    columns.as_array().unwrap().iter().find(|c| c["label"] == label).unwrap_or_else(|| panic!("{label}"))
}

#[tokio::test]
async fn a_report_counts_and_sums_the_cards_that_its_filter_selects() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let columns = rig
        .ok(
            "query($pipe: String!) { pipeReportColumns(pipeUuid: $pipe) { name label type options { id name } } }",
            json!({ "pipe": pipe["uuid"] }),
        )
        .await["pipeReportColumns"]
        .clone();
    let (urgency, cost) = (column(&columns, "Urgency"), column(&columns, "Estimated cost"));
    assert_eq!((&urgency["type"], &cost["type"]), (&json!("select"), &json!("number")));
    let query = |value: &str| json!({ "field": urgency["name"], "operator": "eq", "value": value });
    let mut counts = Vec::new();
    for filter in [
        json!({ "operator": "and", "queries": [query("High")] }),
        json!({ "operator": "or", "queries": [query("High"), query("Low")] }),
        json!({ "operator": "and", "queries": [query("High")], "groups": [{ "operator": "and", "queries": [query("Low")] }] }),
        json!({ "operator": "and" }),
    ] {
        let input = json!({ "pipeId": pipe["id"], "name": "Costs", "fields": ["title", cost["name"]], "filter": filter,
            "formulas": [["sum", cost["name"]]] });
        let made = rig.ok(CREATE, json!({ "input": input })).await["createPipeReport"]["pipeReport"]["id"].clone();
        let read = rig.ok(LIST, json!({ "pipe": pipe["uuid"], "id": made })).await;
        let node = read["pipeReports"]["edges"][0]["node"].clone();
        let stored: Value = serde_json::from_str(node["filter"].as_str().unwrap()).unwrap();
        assert_eq!(stored, filter);
        let formula = &node["selectedFormulaFields"][0];
        assert!(formula["sum"].as_f64().is_none_or(|sum| sum >= formula["max"].as_f64().unwrap()), "{formula}");
        counts.push(node["cardCount"].as_i64().unwrap());
    }
    let search = "query($id: ID!) { cards(pipe_id: $id, first: 50) { totalCount: __typename edges { node { id } } } allCards: pipe(id: $id) { cards_count } }";
    let all = rig.ok(search, json!({ "id": pipe["id"] })).await["allCards"]["cards_count"].as_i64().unwrap();
    assert!(0 < counts[0] && counts[0] < counts[1] && counts[1] < all, "{counts:?} of {all}");
    assert_eq!((counts[2], counts[3]), (0, all));

    let bad = json!({ "pipeId": pipe["id"], "name": "x", "filter": { "operator": "and", "queries": [{ "field": "nope", "operator": "eq" }] } });
    assert_eq!(rig.error(CREATE, json!({ "input": bad })).await["extensions"]["code"], "INVALID_INPUT");
}

#[tokio::test]
async fn pipe_reports_are_found_changed_and_deleted_by_those_who_may() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let input = json!({ "input": { "pipeId": pipe["id"], "name": "Ágil" } });
    assert_eq!(rig.error_as(GUEST, CREATE, input.clone()).await["extensions"]["code"], "PERMISSION_DENIED");
    let body = rig.raw("/graphql", MEMBER, CREATE, input).await;
    let id = body["data"]["createPipeReport"]["pipeReport"]["id"].clone();
    let update =
        "mutation($input: UpdatePipeReportInput!) { updatePipeReport(input: $input) { pipeReport { id name } } }";
    rig.ok(update, json!({ "input": { "id": id, "name": "Zz last", "color": "red" } })).await;
    let order = json!({ "field": "name", "direction": "desc" });
    let listed = rig.ok(LIST, json!({ "pipe": pipe["uuid"], "order": order })).await["pipeReports"]["edges"].clone();
    assert_eq!((&listed[0]["node"]["name"], &listed[0]["node"]["color"]), (&json!("Zz last"), &json!("red")));
    let found = rig.ok(LIST, json!({ "pipe": pipe["uuid"], "search": "zz" })).await["pipeReports"]["edges"].clone();
    assert_eq!(found.as_array().unwrap().len(), 1);
    let delete = "mutation($input: DeletePipeReportInput!) { deletePipeReport(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": id } })).await;
    assert_eq!(rig.error(delete, json!({ "input": { "id": id } })).await["extensions"]["code"], "RESOURCE_NOT_FOUND");
    let fields = "query($pipe: String!) { pipeReportFilterableFields(pipeUuid: $pipe) { title list { label list { name label type options { id name } } } } }";
    let groups = rig.ok(fields, json!({ "pipe": pipe["uuid"] })).await["pipeReportFilterableFields"].clone();
    assert_eq!((&groups[0]["title"], &groups[1]["list"][0]["label"]), (&json!("Card"), &json!("Start form")));
}

#[tokio::test]
async fn organization_reports_cover_their_pipes() {
    let rig = Rig::new().await;
    let (buying, support) = (rig.pipe("Purchase Requests").await, rig.pipe("Customer Support").await);
    let org = rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0].clone();
    let create = "mutation($input: CreateOrganizationReportInput!) { createOrganizationReport(input: $input) { organizationReport { id } } }";
    let input = json!({ "organizationId": org["id"], "name": "Both", "pipeIds": [buying["id"], support["id"]] });
    let denied = rig.error_as(MEMBER, create, json!({ "input": input })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
    let none = json!({ "organizationId": org["id"], "name": "None", "pipeIds": [] });
    assert_eq!(rig.error(create, json!({ "input": none })).await["extensions"]["code"], "RECORD_NOT_SAVED");
    let id =
        rig.ok(create, json!({ "input": input })).await["createOrganizationReport"]["organizationReport"]["id"].clone();
    let get =
        "query($id: ID!) { organizationReport(id: $id) { name cardCount repos { id name } filter sortBy { field } } }";
    let both = rig.ok(get, json!({ "id": id })).await["organizationReport"].clone();
    assert_eq!(both["repos"].as_array().unwrap().len(), 2);
    let update = "mutation($input: UpdateOrganizationReportInput!) { updateOrganizationReport(input: $input) { organizationReport { id } } }";
    rig.ok(update, json!({ "input": { "id": id, "pipeIds": [support["id"]] } })).await;
    let one = rig.ok(get, json!({ "id": id })).await["organizationReport"].clone();
    assert!(one["cardCount"].as_i64().unwrap() < both["cardCount"].as_i64().unwrap());
    let list = "query($id: ID!) { organizationReports(organizationId: $id, first: 5) { edges { node { id name } } } }";
    let listed = rig.ok(list, json!({ "id": org["id"] })).await;
    assert!(listed["organizationReports"]["edges"].as_array().unwrap().iter().any(|e| e["node"]["id"] == id));
    assert_eq!(rig.error_as(GUEST, list, json!({ "id": org["id"] })).await["extensions"]["code"], "PERMISSION_DENIED");
    let delete =
        "mutation($input: DeleteOrganizationReportInput!) { deleteOrganizationReport(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "id": id } })).await;
    let gone = rig.raw("/graphql", DEFAULT_TOKEN, get, json!({ "id": id })).await;
    assert_eq!(gone["errors"][0]["extensions"]["code"], "RESOURCE_NOT_FOUND");
}
