//! Requests that are wrong, and the parts around GraphQL.

use crate::Rig;
use pipefy_sandbox::DEFAULT_TOKEN;
use serde_json::{Value, json};

#[tokio::test]
async fn documents_and_variables_are_validated() {
    let rig = Rig::new().await;
    let error = rig.error("{ organizations { nam } }", json!({})).await;
    assert_eq!(error["message"], "Cannot query field 'nam' on type 'Organization'");
    assert!(error["extensions"]["correlation_id"].is_string());
    let error = rig.error("{ createCard { id } }", json!({})).await;
    assert_eq!(error["message"], "Cannot query field 'createCard' on type 'Query'");
    let error = rig.error("query($id: ID!) { pipe(id: $id) { id } }", json!({})).await;
    assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT");
    rig.error("{ pipe(", json!({})).await;
    let error = rig.error("{ pipe_templates { id } }", json!({})).await;
    assert_eq!(error["extensions"]["code"], "NOT_IMPLEMENTED");
}

#[tokio::test]
async fn a_deep_document_is_refused_and_the_sandbox_lives_on() {
    let rig = Rig::new().await;
    for depth in [40, 300, 20_000] {
        let nested = "pipes { organization { ".repeat(depth) + "id" + &" } }".repeat(depth);
        let error = rig.error(&format!("{{ organizations(ids: [1]) {{ {nested} }} }}"), json!({})).await;
        assert!(error["message"].as_str().unwrap().contains("limit"), "{error:#}");
    }
    rig.ok("{ organizations { pipes { organization { pipes { organization { id } } } } } }", json!({})).await;
}

#[tokio::test]
async fn introspection_answers() {
    let rig = Rig::new().await;
    let query = "query IntrospectType($typeName: String!) { __type(name: $typeName) { name kind fields { name type { name kind ofType { name kind } } } inputFields { name } } }";
    let card = rig.ok(query, json!({ "typeName": "Card" })).await["__type"].clone();
    assert_eq!((&card["name"], &card["kind"]), (&json!("Card"), &json!("OBJECT")));
    assert!(card["fields"].as_array().unwrap().len() > 40);
    assert_eq!(rig.ok(query, json!({ "typeName": "Nope" })).await["__type"], Value::Null);
}

#[tokio::test]
async fn a_body_without_a_query_is_refused() {
    let rig = Rig::new().await;
    for body in ["", "[]", "not json", "{}", "{\"query\": \"  \"}"] {
        let request = rig.http.post(format!("{}/graphql", rig.sandbox.url())).bearer_auth(DEFAULT_TOKEN);
        let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
        assert_eq!(response.status(), 400, "{body}");
    }
}

#[tokio::test]
async fn a_foreign_host_is_not_served() {
    let rig = Rig::new().await;
    let response = rig.http.get(rig.sandbox.url()).header("host", "evil.test").send().await.unwrap();
    assert_eq!(response.status(), 421);
    let page = rig.http.get(rig.sandbox.url()).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("Pipefy sandbox"));
}

#[tokio::test]
async fn one_failed_mutation_does_not_undo_its_neighbour() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let query = "mutation($a: CreateLabelInput!, $b: CreateLabelInput!) {
        a: createLabel(input: $a) { label { id } } b: createLabel(input: $b) { label { id } } }";
    let variables = json!({ "a": { "pipe_id": pipe["id"], "name": "Kept", "color": "#123456" }, "b": { "pipe_id": "1", "name": "Not", "color": "#123456" } });
    let body = rig.raw("/graphql", DEFAULT_TOKEN, query, variables).await;
    assert!(body["data"]["a"]["label"]["id"].is_string());
    assert_eq!((&body["data"]["b"], &body["errors"][0]["path"]), (&Value::Null, &json!(["b"])));
    assert!(rig.pipe("Purchase Requests").await["labels"].to_string().contains("Kept"));
}

#[tokio::test]
async fn many_callers_at_once_are_served_as_themselves() {
    let rig = Rig::new().await;
    let people = pipefy_sandbox::people();
    let calls = (0..60).map(|i| {
        let (rig, person) = (&rig, people[i % 3]);
        async move {
            let body = rig.raw("/graphql", person.token, "{ me { email } }", json!({})).await;
            assert_eq!(body["data"]["me"]["email"], person.email);
        }
    });
    let mut pending = Vec::new();
    for call in calls {
        pending.push(Box::pin(call));
    }
    for call in pending {
        call.await;
    }
}
