//! Three people and a service account see and may do different things.

use crate::{CREATE_CARD, GUEST, MEMBER, Rig, purchase};
use pipefy_sandbox::{DEFAULT_TOKEN, SERVICE_ACCOUNT_EMAIL, SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET, people};
use serde_json::{Value, json};

#[tokio::test]
async fn listings_show_what_the_person_may_see() {
    let rig = Rig::new().await;
    let query = "{ me { email } organizations { name pipesCount pipes { name } tables(first: 9) { nodes { name } } } }";
    let mut seen = Vec::new();
    for person in people() {
        let data = rig.raw("/graphql", person.token, query, json!({})).await["data"].clone();
        assert_eq!(data["me"]["email"], person.email);
        let organizations = data["organizations"].as_array().unwrap().clone();
        let names = |list: &Value| {
            list.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let pipes: Vec<String> = organizations.iter().flat_map(|o| names(&o["pipes"])).collect();
        let tables: Vec<String> = organizations.iter().flat_map(|o| names(&o["tables"]["nodes"])).collect();
        seen.push((organizations.len(), pipes, tables, organizations[0]["pipesCount"].as_i64().unwrap()));
    }
    assert_eq!((seen[0].0, seen[0].1.len(), seen[0].2.len()), (2, 5, 3));
    assert_eq!(
        (seen[1].0, seen[1].1.clone()),
        (1, vec!["Purchase Requests".to_owned(), "Customer Support".to_owned()])
    );
    assert_eq!(seen[1].2, ["Fornecedores"]);
    assert_eq!(seen[1].3, 4, "the count is of all pipes, the list of the visible ones");
    assert_eq!((seen[2].0, seen[2].1.len(), seen[2].2.len()), (1, 2, 0));
}

#[tokio::test]
async fn a_stranger_to_a_pipe_is_denied_with_a_null_root_field() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Employee Onboarding").await;
    let body =
        rig.raw("/graphql", MEMBER, "query($id: ID!) { pipe(id: $id) { id } }", json!({ "id": pipe["id"] })).await;
    assert_eq!(body["errors"][0]["extensions"]["code"], "PERMISSION_DENIED");
    assert!(body["errors"][0]["extensions"]["correlation_id"].is_string());
    assert_eq!(body["data"]["pipe"], Value::Null);
}

#[tokio::test]
async fn a_member_works_with_cards_but_manages_nothing() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let input = json!({ "input": { "pipe_id": pipe["id"], "fields_attributes": purchase() } });
    let made = rig.raw("/graphql", MEMBER, CREATE_CARD, input).await;
    assert!(made["data"]["createCard"]["card"]["id"].is_string(), "{made:#}");
    for (query, input) in [
        (
            "mutation($input: CreatePhaseInput!) { createPhase(input: $input) { phase { id } } }",
            json!({ "pipe_id": pipe["id"], "name": "X" }),
        ),
        ("mutation($input: DeletePipeInput!) { deletePipe(input: $input) { success } }", json!({ "id": pipe["id"] })),
        (
            "mutation($input: CreateLabelInput!) { createLabel(input: $input) { label { id } } }",
            json!({ "pipe_id": pipe["id"], "name": "X", "color": "#fff" }),
        ),
    ] {
        let error = rig.error_as(MEMBER, query, json!({ "input": input })).await;
        assert_eq!(error["extensions"]["code"], "PERMISSION_DENIED", "{query}");
    }
}

#[tokio::test]
async fn a_guest_uses_the_start_form_and_reads_one_pipe() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let list = "query($id: ID!) { cards(pipe_id: $id) { totalCount edges { node { id } } } }";
    let before = rig.raw("/graphql", GUEST, list, json!({ "id": pipe["id"] })).await;
    assert_eq!(before["data"]["cards"]["totalCount"], 0);
    let input = json!({ "input": { "pipe_id": pipe["id"], "fields_attributes": purchase() } });
    let made = rig.raw("/graphql", GUEST, CREATE_CARD, input).await;
    let own = made["data"]["createCard"]["card"]["id"].clone();
    let after = rig.raw("/graphql", GUEST, list, json!({ "id": pipe["id"] })).await;
    assert_eq!(after["data"]["cards"]["edges"][0]["node"]["id"], own);
    let other = rig.card().await;
    let error = rig.error_as(GUEST, "query($id: ID!) { card(id: $id) { id } }", json!({ "id": other })).await;
    assert_eq!(error["extensions"]["code"], "PERMISSION_DENIED");
    let support = rig.pipe("Customer Support").await;
    let read = rig.raw("/graphql", GUEST, list, json!({ "id": support["id"] })).await;
    assert_eq!(read["data"]["cards"]["totalCount"], 94);
    let card = read["data"]["cards"]["edges"][0]["node"]["id"].clone();
    let update = "mutation($input: UpdateCardInput!) { updateCard(input: $input) { card { id } } }";
    let error = rig.error_as(GUEST, update, json!({ "input": { "id": card, "title": "Mine" } })).await;
    assert_eq!(error["extensions"]["code"], "PERMISSION_DENIED");
}

/// Rules, agents and what is known to them belong to those who read the pipe.
#[tokio::test]
async fn a_start_form_shows_nothing_of_what_runs_behind_it() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone();
    let (form, read) = (rig.pipe("Purchase Requests").await, rig.pipe("Customer Support").await);
    let rules = "query($org: ID!, $repo: ID) { automations(organizationId: $org, repoId: $repo) { nodes { id event_repo { id } } } }";
    let all = rig.raw("/graphql", GUEST, rules, json!({ "org": org })).await;
    let nodes = all["data"]["automations"]["nodes"].as_array().unwrap();
    assert!(!nodes.is_empty() && nodes.iter().all(|rule| rule["event_repo"]["id"] == read["id"]), "{all}");
    let own = rig.ok(rules, json!({ "org": org, "repo": form["id"] })).await["automations"]["nodes"][0]["id"].clone();
    for (query, variables) in [
        (rules, json!({ "org": org, "repo": form["id"] })),
        ("query($id: ID!) { automation(id: $id) { id } }", json!({ "id": own })),
        ("query($id: ID!) { automationActions(repoId: $id) { id } }", json!({ "id": form["id"] })),
        ("query($id: ID!) { automationLogsByRepo(repoId: $id) { totalCount } }", json!({ "id": form["id"] })),
        ("query($id: ID!) { aiAgents(repoUuid: $id) { nodes { uuid } } }", json!({ "id": form["uuid"] })),
        ("query($id: ID!) { aiKnowledgeBases(pipeUuid: $id) { id } }", json!({ "id": form["uuid"] })),
    ] {
        assert_eq!(rig.error_as(GUEST, query, variables).await["extensions"]["code"], "PERMISSION_DENIED", "{query}");
    }
}

#[tokio::test]
async fn metrics_are_denied_rule_by_rule_and_the_rest_survives() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone();
    let query = "query($id: ID!, $period: AutomationExecutionMetricsPeriod) { automations(organizationId: $id, first: 50) {
        pageInfo { hasNextPage } edges { node { id name executionMetrics(period: $period) { totalRuns successRate lastRun } } } } }";
    let variables = json!({ "id": org, "period": "TWENTY_FOUR_HOURS" });
    let all = rig.ok(query, variables.clone()).await["automations"]["edges"].as_array().unwrap().clone();
    assert_eq!(all.len(), 14);
    assert!(all.iter().any(|e| e["node"]["executionMetrics"]["totalRuns"].as_i64().unwrap() > 0));
    let body = rig.raw("/graphql", MEMBER, query, variables).await;
    let edges = body["data"]["automations"]["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 4);
    let hidden: Vec<&Value> = edges.iter().filter(|e| e["node"]["executionMetrics"].is_null()).collect();
    assert_eq!((hidden.len(), body["errors"].as_array().unwrap().len()), (1, 1));
    assert_eq!(body["errors"][0]["extensions"]["code"], "PERMISSION_DENIED");
    assert_eq!(body["errors"][0]["extensions"]["automation_id"], hidden[0]["node"]["id"]);
}

#[tokio::test]
async fn an_unknown_bearer_is_unauthorized_without_a_message() {
    let rig = Rig::new().await;
    for token in [None, Some("nope")] {
        let mut request =
            rig.http.post(format!("{}/graphql", rig.sandbox.url())).json(&json!({ "query": "{ me { id } }" }));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 401);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["errors"][0]["title"], "Unauthorized");
        assert!(body["errors"][0].get("message").is_none());
    }
}

async fn token(rig: &Rig, id: &str, secret: &str, grant: &str) -> (u16, Value) {
    let request = rig.http.post(format!("{}/oauth/token", rig.sandbox.url())).basic_auth(id, Some(secret));
    let response = request.form(&[("grant_type", grant)]).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_service_account_gets_a_token_that_works() {
    let rig = Rig::new().await;
    let (status, body) = token(&rig, SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET, "client_credentials").await;
    assert_eq!((status, body["expires_in"].as_i64()), (200, Some(300)));
    let bearer = body["access_token"].as_str().unwrap();
    let me = rig.raw("/graphql", bearer, "{ me { email } organizations { pipes { name role } } }", json!({})).await;
    assert_eq!(me["data"]["me"]["email"], SERVICE_ACCOUNT_EMAIL);
    assert_eq!(me["data"]["organizations"][0]["pipes"].as_array().unwrap().len(), 4);
    assert_eq!(token(&rig, SERVICE_ACCOUNT_ID, "wrong", "client_credentials").await.0, 401);
    let (status, body) = token(&rig, SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET, "password").await;
    assert_eq!((status, &body["error"]), (400, &json!("unsupported_grant_type")));
}

#[tokio::test]
async fn a_new_service_account_shows_its_secret_once_and_ends_with_its_tokens() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0]["uuid"].clone();
    let create = "mutation($input: CreateServiceAccountInput!) { createServiceAccount(input: $input) {
        success serviceAccount { id uuid email name role { name } client { id secret } token { endpoint } } } }";
    let input = json!({ "organizationUuid": org, "name": "Nightly sync", "role": "normal", "expirationTime": { "unit": "hours", "value": 2 } });
    let made = rig.ok(create, json!({ "input": input })).await["createServiceAccount"]["serviceAccount"].clone();
    let (id, secret) = (made["client"]["id"].as_str().unwrap(), made["client"]["secret"].as_str().unwrap());
    assert_eq!(made["token"]["endpoint"], format!("{}/oauth/token", rig.sandbox.url()));
    let (_, body) = token(&rig, id, secret, "client_credentials").await;
    assert_eq!(body["expires_in"], 7200);
    let bearer = body["access_token"].as_str().unwrap().to_owned();
    let invite = "mutation($input: InviteMembersInput!) { inviteMembers(input: $input) { users { id email } errors { index message } } }";
    let pipe = rig.pipe("Purchase Requests").await;
    let emails = json!([{ "email": made["email"], "role_name": "admin" }, { "email": "bad", "role_name": "admin" }]);
    let invited =
        rig.ok(invite, json!({ "input": { "pipe_id": pipe["id"], "emails": emails } })).await["inviteMembers"].clone();
    assert_eq!((&invited["users"][0]["email"], &invited["errors"][0]["index"]), (&made["email"], &json!(1)));
    let read =
        rig.raw("/graphql", &bearer, "query($id: ID!) { pipe(id: $id) { role } }", json!({ "id": pipe["id"] })).await;
    assert_eq!(read["data"]["pipe"]["role"], "admin");
    let delete = "mutation($input: DeleteServiceAccountInput!) { deleteServiceAccount(input: $input) { success } }";
    rig.ok(delete, json!({ "input": { "organizationUuid": org, "serviceAccountUuid": made["uuid"] } })).await;
    let gone = rig.raw("/graphql", &bearer, "{ me { id } }", json!({})).await;
    assert_eq!(gone["errors"][0]["title"], "Unauthorized");
    assert_eq!(token(&rig, id, secret, "client_credentials").await.0, 401);
    assert_eq!(
        rig.error_as(MEMBER, create, json!({ "input": input_again(&org) })).await["extensions"]["code"],
        "PERMISSION_DENIED"
    );
    assert!(!DEFAULT_TOKEN.is_empty());
}

fn input_again(org: &Value) -> Value {
    json!({ "organizationUuid": org, "name": "Another", "role": "normal" })
}
