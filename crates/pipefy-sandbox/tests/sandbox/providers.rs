//! LLM providers: secrets stay inside, defaults and dependencies hold.

use crate::{MEMBER, Rig};
use serde_json::{Value, json};

const LIST: &str = "query($org: String!, $active: Boolean) { allLlmProvidersByOrganization(organizationUuid: $org, onlyActiveProviders: $active, first: 50) {
    edges { node { __typename ... on LlmProvider { id name active organizationDefault configuration type } ... on SystemLlmProvider { id name aiCredits systemDefault organizationDefault configuration type } } } } }";
const DEFAULT: &str = "query($id: String!) { defaultLlmProvider(ownerId: $id, ownerType: organization) { id name type organizationDefault } }";
const SET: &str = "mutation($input: SetActiveLlmProviderInput!) { setActiveLlmProvider(input: $input) { activeLlmProvider { id llmProviderId systemLlmProviderId ownerType } } }";
const DELETE: &str = "mutation($input: DeleteLlmProviderInput!) { deleteLlmProvider(input: $input) { success } }";

#[tokio::test]
async fn a_provider_lives_and_is_the_default() {
    let rig = Rig::new().await;
    let org = rig.ok("{ organizations { id uuid } }", json!({})).await["organizations"][0].clone();
    let create = "mutation($input: CreateLlmProviderInput!) { createLlmProvider(input: $input) { llmProvider { id name active type organizationDefault } } }";
    let input = json!({ "organizationUuid": org["uuid"], "name": "Ours", "configuration": { "provider": "amazon-bedrock", "region": "sa-east-1",
        "credentials": { "secretAccessKey": "hush", "accessKeyId": "id" } } });
    let denied = rig.error_as(MEMBER, create, json!({ "input": input })).await;
    assert_eq!(denied["extensions"]["code"], "PERMISSION_DENIED");
    let id = rig.ok(create, json!({ "input": input })).await["createLlmProvider"]["llmProvider"]["id"].clone();
    let node = async |id: &Value| {
        let all = rig.ok(LIST, json!({ "org": org["uuid"] })).await;
        let edges = all["allLlmProvidersByOrganization"]["edges"].as_array().unwrap().clone();
        edges.into_iter().map(|e| e["node"].clone()).find(|n| n["id"] == *id).unwrap_or_default()
    };
    let read = node(&id).await;
    assert!(!read.to_string().contains("hush") && read["configuration"]["region"] == "sa-east-1", "{read}");
    let update =
        "mutation($input: UpdateLlmProviderInput!) { updateLlmProvider(input: $input) { llmProvider { id name } } }";
    let mut configuration = read["configuration"].clone();
    configuration["region"] = json!("us-east-1");
    rig.ok(update, json!({ "input": { "id": id, "organizationUuid": org["uuid"], "configuration": configuration } }))
        .await;
    assert_eq!(node(&id).await["configuration"]["region"], "us-east-1");

    assert_eq!(rig.ok(DEFAULT, json!({ "id": org["id"] })).await["defaultLlmProvider"], Value::Null);
    let choose = |key: &str, provider: &Value| {
        let mut input = json!({ "ownerId": org["id"], "ownerType": "organization" });
        input[key] = provider.clone();
        json!({ "input": input })
    };
    let set = rig.ok(SET, choose("providerId", &id)).await["setActiveLlmProvider"]["activeLlmProvider"].clone();
    assert_eq!(set["llmProviderId"], id);
    let default = rig.ok(DEFAULT, json!({ "id": org["id"] })).await["defaultLlmProvider"].clone();
    assert_eq!((&default["id"], &default["organizationDefault"]), (&id, &json!(true)));
    let who = "query($id: ID!, $org: String!) { providerDependencies(providerId: $id, organizationUuid: $org, first: 5) { totalCount edges { node { ownerId ownerType } } } }";
    let used = rig.ok(who, json!({ "id": id, "org": org["uuid"] })).await["providerDependencies"].clone();
    assert_eq!((&used["totalCount"], &used["edges"][0]["node"]["ownerType"]), (&json!(1), &json!("organization")));
    let remove = json!({ "input": { "id": id, "organizationUuid": org["uuid"] } });
    assert_eq!(rig.error(DELETE, remove.clone()).await["extensions"]["code"], "RECORD_NOT_DESTROYED");
    let state =
        "mutation($input: SetLlmProviderActiveStatusInput!) { setLlmProviderActiveStatus(input: $input) { success } }";
    let off = json!({ "input": { "providerId": id, "active": false } });
    assert_eq!(rig.error(state, off.clone()).await["extensions"]["code"], "RECORD_NOT_SAVED");
    rig.ok(SET, choose("systemProviderId", &json!("902"))).await;
    assert_eq!(rig.ok(DEFAULT, json!({ "id": org["id"] })).await["defaultLlmProvider"]["type"], "system");
    rig.ok(state, off).await;
    let active = rig.ok(LIST, json!({ "org": org["uuid"], "active": true })).await;
    assert!(!active.to_string().contains("Ours"), "{active}");
    let reset = "mutation($input: ResetLlmProviderOwnerInput!) { resetLlmProviderOwner(input: $input) { success } }";
    rig.ok(reset, json!({ "input": { "ownerId": org["id"], "ownerType": "organization" } })).await;
    assert_eq!(rig.ok(DEFAULT, json!({ "id": org["id"] })).await["defaultLlmProvider"], Value::Null);
    rig.ok(DELETE, remove).await;
    assert_eq!(node(&id).await, Value::Null);
    let models = rig.ok("{ availableAiModels(providerName: anthropic) }", json!({})).await;
    assert!(!models["availableAiModels"].as_array().unwrap().is_empty());
}
