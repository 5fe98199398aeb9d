//! Members and roles.

use crate::Rig;
use serde_json::{Value, json};

async fn members(rig: &Rig, pipe: &Value) -> Vec<Value> {
    let data = rig
        .ok(
            "query($id: ID!) { pipe(id: $id) { members { role_name user { id uuid email } } } }",
            json!({ "id": pipe["id"] }),
        )
        .await;
    data["pipe"]["members"].as_array().unwrap().clone()
}

#[tokio::test]
async fn people_are_invited_given_a_role_and_removed() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let invite = "mutation($input: InviteMembersInput!) { inviteMembers(input: $input) { users { id uuid email } errors { index message } } }";
    let emails = json!([{ "email": "Nova.Pessoa@example.com", "role_name": "member" }, { "email": "x@example.com", "role_name": "king" }]);
    let answer =
        rig.ok(invite, json!({ "input": { "pipe_id": pipe["id"], "emails": emails } })).await["inviteMembers"].clone();
    assert_eq!(answer["errors"][0]["index"], 1);
    let user = answer["users"][0].clone();
    assert_eq!(user["email"], "nova.pessoa@example.com");
    let role = "mutation($input: SetRoleInput!) { setRole(input: $input) { member { role_name user { id email } } } }";
    let changed = rig
        .ok(
            role,
            json!({ "input": { "pipe_id": pipe["id"], "member": { "user_id": user["id"], "role_name": "admin" } } }),
        )
        .await;
    assert_eq!(changed["setRole"]["member"]["role_name"], "admin");
    assert!(members(&rig, &pipe).await.iter().any(|m| m["user"]["id"] == user["id"] && m["role_name"] == "admin"));
    let remove = "mutation($input: RemoveMembersFromPipeInput!) { removeMembersFromPipe(input: $input) { success removedUsersUuids errors } }";
    let by_number =
        rig.error(remove, json!({ "input": { "pipeUuid": pipe["id"], "usersUuids": [user["uuid"]] } })).await;
    assert_eq!(by_number["extensions"]["code"], "RESOURCE_NOT_FOUND");
    let removed = rig.ok(remove, json!({ "input": { "pipeUuid": pipe["uuid"], "usersUuids": [user["uuid"]] } })).await;
    assert_eq!(removed["removeMembersFromPipe"]["removedUsersUuids"], json!([user["uuid"]]));
    assert!(!members(&rig, &pipe).await.iter().any(|m| m["user"]["id"] == user["id"]));
}
