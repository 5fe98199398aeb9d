//! Portals and HTML interfaces on the interfaces endpoint.

use crate::{DEFAULT_TOKEN, GUEST, MEMBER, Rig};
use serde_json::{Value, json};

const INTERFACES: &str = "/graphql/interfaces";

async fn body(rig: &Rig, token: &str, path: &str, query: &str, variables: Value) -> Value {
    rig.raw(path, token, query, variables).await
}

async fn ok(rig: &Rig, query: &str, variables: Value) -> Value {
    let body = body(rig, DEFAULT_TOKEN, INTERFACES, query, variables).await;
    assert!(body.get("errors").is_none(), "{query}\n{body:#}");
    body["data"].clone()
}

async fn code(rig: &Rig, token: &str, query: &str, variables: Value) -> Value {
    let body = body(rig, token, INTERFACES, query, variables).await;
    assert!(body["errors"][0].is_object(), "{query}\n{body:#}");
    body["errors"][0]["extensions"]["code"].clone()
}

async fn org(rig: &Rig) -> Value {
    rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0].clone()
}

const PORTAL: &str = "query($uuid: ID!) { portalInterface(uuid: $uuid) { id name published visibility pages { id title layout
    elements { id type editable metadata dataSources { id name fieldKeys filters repoId repoName repoType } } } subPortals { id name published } } }";
const FIND: &str = "mutation($input: InterfaceCreateByTemplateMutationInput!) { findOrCreateInterfaceByTemplate(input: $input) { interface { id name subType visibility } } }";
const PAGE: &str = "mutation($input: InterfacePageCreateMutationInput!) { createPage(input: $input) { page { id title elements { id type } } } }";
const ELEMENT: &str = "mutation($input: InterfacePageElementCreateMutationInput!) { createElement(input: $input) { element { id type metadata } } }";

#[tokio::test]
async fn a_portal_is_built_page_by_page() {
    let rig = Rig::new().await;
    let (org, pipe) = (org(&rig).await, rig.pipe("Purchase Requests").await);
    let input = json!({ "input": { "orgUuid": org["uuid"], "subType": "portal" } });
    assert_eq!(code(&rig, MEMBER, FIND, input.clone()).await, "PERMISSION_DENIED");
    let portal = ok(&rig, FIND, input.clone()).await["findOrCreateInterfaceByTemplate"]["interface"].clone();
    assert_eq!(ok(&rig, FIND, input).await["findOrCreateInterfaceByTemplate"]["interface"]["id"], portal["id"]);
    let uuid = portal["id"].clone();
    let before = ok(&rig, PORTAL, json!({ "uuid": uuid })).await["portalInterface"]["pages"].as_array().unwrap().len();

    let page = |title: &str| json!({ "input": { "interface_uuid": uuid, "title": title } });
    let home = ok(&rig, PAGE, page("Home")).await["createPage"]["page"].clone();
    assert_eq!(home["elements"].as_array().unwrap().len(), if before == 0 { 2 } else { 0 });
    let more = ok(&rig, PAGE, page("More")).await["createPage"]["page"].clone();
    assert_eq!(more["elements"], json!([]));

    let key = pipe["start_form_fields"][0]["uuid"].clone();
    let source = json!({ "repoId": pipe["uuid"], "fieldKeys": [key, "title"], "filters": "{\"operator\":\"and\"}" });
    let layout = json!([{ "id": "r1", "type": "row", "children": ["el-1"] }]);
    let mut input = json!({ "page_id": more["id"], "id": "el-1", "type": "table", "metadata": "{\"a\":1}", "data_sources": [source],
        "layout": layout.to_string() });
    assert_eq!(code(&rig, DEFAULT_TOKEN, ELEMENT, json!({ "input": input })).await, "INVALID_INPUT");
    input["editable"] = json!(false);
    ok(&rig, ELEMENT, json!({ "input": input })).await;
    let as_object = json!({ "page_id": more["id"], "type": "text", "metadata": { "text": "x" }, "data_sources": [] });
    assert_eq!(code(&rig, DEFAULT_TOKEN, ELEMENT, json!({ "input": as_object })).await, "INVALID_INPUT");
    let read = ok(&rig, PORTAL, json!({ "uuid": uuid })).await["portalInterface"].clone();
    let built = read["pages"].as_array().unwrap().iter().find(|p| p["id"] == more["id"]).unwrap().clone();
    assert_eq!((&built["layout"], &built["elements"][0]["metadata"]), (&layout, &json!({ "a": 1 })));
    let source = &built["elements"][0]["dataSources"][0];
    assert_eq!(
        (&source["repoName"], &source["repoType"], &source["filters"]),
        (&pipe["name"], &json!("Pipe"), &json!("{\"operator\":\"and\"}"))
    );

    let update =
        "mutation($input: InterfacePageElementUpdateMutationInput!) { updateElement(input: $input) { success } }";
    let input = json!({ "page_id": home["id"], "element_id": "el-1", "metadata": "{}", "data_sources": [] });
    assert_eq!(code(&rig, DEFAULT_TOKEN, update, json!({ "input": input })).await, "RESOURCE_NOT_FOUND");
    let copy = "mutation($input: DuplicateInterfaceElementInput!) { duplicateElement(input: $input) { element { id type metadata } } }";
    let copied =
        ok(&rig, copy, json!({ "input": { "elementUuid": "el-1", "interfaceUuid": uuid, "pageUuid": more["id"] } }))
            .await;
    assert_ne!(copied["duplicateElement"]["element"]["id"], "el-1");
    let drop =
        "mutation($input: InterfacePageElementDeleteMutationInput!) { deleteElement(input: $input) { success } }";
    ok(&rig, drop, json!({ "input": { "page_id": more["id"], "element_id": "el-1", "layout": "[]" } })).await;

    let sort = "mutation($input: InterfacePageSortMutationInput!) { sortPages(input: $input) { success } }";
    let pages = ok(&rig, PORTAL, json!({ "uuid": uuid })).await["portalInterface"]["pages"].clone();
    let mut ids: Vec<Value> = pages.as_array().unwrap().iter().map(|p| p["id"].clone()).collect();
    ids.reverse();
    ok(&rig, sort, json!({ "input": { "interface_uuid": uuid, "page_ids": ids } })).await;
    assert_eq!(
        code(&rig, DEFAULT_TOKEN, sort, json!({ "input": { "interface_uuid": uuid, "page_ids": [ids[0]] } })).await,
        "INVALID_INPUT"
    );
    let sorted = ok(&rig, PORTAL, json!({ "uuid": uuid })).await["portalInterface"]["pages"].clone();
    assert_eq!(sorted[0]["id"], ids[0]);

    let change = "mutation($input: InterfaceUpdateMutationInput!) { updateInterface(input: $input) { interface { id name subType visibility } } }";
    assert_eq!(code(&rig, GUEST, PORTAL, json!({ "uuid": uuid })).await, "PERMISSION_DENIED");
    ok(&rig, change, json!({ "input": { "interface_uuid": uuid, "visibility": "public" } })).await;
    let seen = body(&rig, GUEST, INTERFACES, PORTAL, json!({ "uuid": uuid })).await;
    assert_eq!(seen["data"]["portalInterface"]["visibility"], "public");
    let list = "query($org: ID!) { interfaces(org_uuid: $org, filterBySubType: portal) { edges { node { id } } pageInfo { hasNextPage } } }";
    assert_eq!(ok(&rig, list, json!({ "org": org["uuid"] })).await["interfaces"]["edges"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_sub_portal_is_published_by_an_element() {
    let rig = Rig::new().await;
    let org = org(&rig).await;
    let portal = ok(&rig, FIND, json!({ "input": { "orgUuid": org["uuid"], "subType": "portal" } })).await;
    let uuid = portal["findOrCreateInterfaceByTemplate"]["interface"]["id"].clone();
    let page = ok(&rig, PAGE, json!({ "input": { "interface_uuid": uuid, "title": "Home" } })).await["createPage"]["page"]["id"].clone();
    let element = json!({ "page_id": page, "type": "forms", "metadata": "{\"name\":\"HR\"}", "data_sources": [] });
    let element = ok(&rig, ELEMENT, json!({ "input": element })).await["createElement"]["element"]["id"].clone();
    let sub = "mutation($input: CreateSubPortalInput!) { createSubPortal(input: $input) { subPortal { id name } } }";
    let sub = ok(&rig, sub, json!({ "input": { "mainPortalUuid": uuid, "name": "HR" } })).await["createSubPortal"]["subPortal"]["id"].clone();
    let published = async || {
        let read = ok(&rig, PORTAL, json!({ "uuid": uuid })).await["portalInterface"]["subPortals"].clone();
        read.as_array().unwrap().iter().find(|s| s["id"] == sub).map(|s| s["published"].clone())
    };
    let wire = "mutation($input: UpdateSubPortalElementInput!) { updateSubPortalElement(input: $input) { success } }";
    assert_eq!(published().await, Some(json!(false)));
    for (target, expected) in [(sub.clone(), true), (Value::Null, false), (sub.clone(), true)] {
        let input = json!({ "input": { "portalUuid": uuid, "elementId": element, "subPortalUuid": target } });
        let done = body(&rig, DEFAULT_TOKEN, "/internal_api", wire, input).await;
        assert_eq!(done["data"]["updateSubPortalElement"]["success"], true, "{done}");
        assert_eq!(published().await, Some(json!(expected)));
    }
    let detach = "mutation($input: DeleteSubPortalElementInput!) { deleteSubPortalElement(input: $input) { success } }";
    body(
        &rig,
        DEFAULT_TOKEN,
        "/internal_api",
        detach,
        json!({ "input": { "portalUuid": uuid, "elementId": element } }),
    )
    .await;
    assert_eq!(published().await, Some(json!(false)));
    let delete =
        "mutation($input: DeleteSubPortalInterfaceInput!) { deleteSubPortalInterface(input: $input) { success } }";
    let denied = body(&rig, MEMBER, "/internal_api", delete, json!({ "input": { "uuid": sub } })).await;
    assert_eq!(denied["errors"][0]["extensions"]["code"], "PERMISSION_DENIED");
    body(&rig, DEFAULT_TOKEN, "/internal_api", delete, json!({ "input": { "uuid": sub } })).await;
    assert_eq!(published().await, None);
    let drop = "mutation($input: InterfaceDeleteMutationInput!) { deleteInterface(input: $input) { success } }";
    ok(&rig, drop, json!({ "input": { "interface_uuid": uuid } })).await;
    assert_eq!(code(&rig, DEFAULT_TOKEN, PORTAL, json!({ "uuid": uuid })).await, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn an_html_interface_takes_clean_documents_of_up_to_a_mebibyte() {
    let rig = Rig::new().await;
    let (org, pipe) = (org(&rig).await, rig.pipe("Purchase Requests").await);
    let create = "mutation($input: InterfaceCreateMutationInput!) { createInterface(input: $input) { success interface { id contentModeHtml pages { id elements { id type } } } } }";
    let pages = json!([{ "title": "P", "layout": "[]", "elements": [{ "type": "customCode", "metadata": "{}",
        "dataSources": [{ "id": "s", "name": "S", "repoId": pipe["uuid"], "fieldKeys": ["title"] }] }] }]);
    let input =
        json!({ "org_uuid": org["uuid"], "name": "Panel", "color": "red", "contentModeHtml": true, "pages": pages });
    let made = ok(&rig, create, json!({ "input": input })).await["createInterface"]["interface"].clone();
    let (page, element) = (made["pages"][0]["id"].clone(), made["pages"][0]["elements"][0]["id"].clone());
    let write = "mutation($input: InterfacePageElementWriteHtmlDocumentInput!) { writeHtmlDocument(input: $input) { success } }";
    let input = |content: &str| json!({ "input": { "page_id": page, "element_id": element, "content": content } });
    let bad = body(&rig, DEFAULT_TOKEN, INTERFACES, write, input("<p onclick=x><script>1</script>")).await;
    let violations = bad["errors"][0]["extensions"]["violations"].as_array().unwrap().clone();
    assert_eq!((violations.len(), &violations[1]["code"]), (2, &json!("FORBIDDEN_TAG")));
    let large = format!("<h1>Olá</h1>{}", " ".repeat(1_048_576 - 13));
    ok(&rig, write, input(&large)).await;
    let get = "query($uuid: ID!) { interface(uuid: $uuid) { contentModeHtml pages { elements { type dataSources { repoName fieldKeys } htmlDocument { content contentHash createdAt } } } } }";
    let read = ok(&rig, get, json!({ "uuid": made["id"] })).await["interface"]["pages"][0]["elements"][0].clone();
    assert_eq!(
        (
            read["htmlDocument"]["content"].as_str().unwrap().len(),
            read["htmlDocument"]["contentHash"].as_str().unwrap().len()
        ),
        (1_048_576, 64)
    );
    assert_eq!(code(&rig, DEFAULT_TOKEN, write, input(&format!("{large} "))).await, "HTML_VALIDATION_FAILED");

    let repos = "query($id: ID!, $name: String) { interfaceRepos(orgId: $id, repoName: $name, first: 50) { edges { node { id uuid name type color } } pageInfo { hasNextPage } } }";
    let all = ok(&rig, repos, json!({ "id": org["id"] })).await["interfaceRepos"]["edges"].as_array().unwrap().len();
    let fewer = body(&rig, MEMBER, INTERFACES, repos, json!({ "id": org["id"] })).await;
    assert!(all == 7 && fewer["data"]["interfaceRepos"]["edges"].as_array().unwrap().len() < all, "{all} {fewer}");
    let fields =
        "query($id: ID!) { interfacesRepoStructure(repoId: $id) { fields { id uuid label type options required } } }";
    let fields = ok(&rig, fields, json!({ "id": pipe["uuid"] })).await["interfacesRepoStructure"]["fields"].clone();
    assert_eq!(fields[0]["label"], "What do you need?");
    let rules = ok(&rig, "{ interfaceHtmlGuidelines { maxContentBytes allowedTags forbiddenTags { code subject } filters { knownOperators { filterType } } } }", json!({})).await;
    assert_eq!(rules["interfaceHtmlGuidelines"]["maxContentBytes"], 1_048_576);
}
