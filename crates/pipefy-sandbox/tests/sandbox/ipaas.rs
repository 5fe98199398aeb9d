//! The iPaaS gateway: session, headless OAuth, MCP, connections.

use crate::{DEFAULT_TOKEN, MEMBER, Rig};
use base64::Engine as _;
use serde_json::{Value, json};

/// An access token for the MCP path, and the session token.
async fn open(rig: &Rig, pipe: &Value) -> (String, String, Value) {
    let url = rig.sandbox.url();
    let query = "query($id: ID!) { advancedAutomationsToken(repoId: $id) { token } }";
    let denied = rig.raw("/internal_api", MEMBER, query, json!({ "id": pipe["id"] })).await;
    assert_eq!(denied["errors"][0]["extensions"]["code"], "PERMISSION_DENIED");
    let token = rig.raw("/internal_api", DEFAULT_TOKEN, query, json!({ "id": pipe["id"] })).await;
    let token = token["data"]["advancedAutomationsToken"]["token"].clone();
    let post = |path: &str, body: Value| rig.http.post(format!("{url}{path}")).json(&body);
    let session =
        post("/api/v1/managed-authn/external-token", json!({ "externalAccessToken": token })).send().await.unwrap();
    assert_eq!(session.status(), 201);
    let session: Value = session.json().await.unwrap();
    let verifier = "v".repeat(64);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, verifier.as_bytes());
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
    let to = "https://localhost/callback";
    let still = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let asked = still
        .get(format!("{url}/authorize?client_id=c&redirect_uri={to}&response_type=code&code_challenge={challenge}&code_challenge_method=S256"))
        .send()
        .await
        .unwrap();
    assert_eq!(asked.status(), 302);
    let location = asked.headers()["location"].to_str().unwrap();
    let request = location.split("authRequestId=").nth(1).unwrap();
    let approval = json!({ "authRequestId": request, "projectId": session["projectId"] });
    let session_token = session["token"].as_str().unwrap().to_owned();
    let approved = post("/api/v1/mcp-oauth/approve", approval).bearer_auth(&session_token).send().await.unwrap();
    let approved: Value = approved.json().await.unwrap();
    let code = approved["redirectUrl"].as_str().unwrap().split("code=").nth(1).unwrap().to_owned();
    let form = |verifier: &str| {
        [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("client_id", "c"),
            ("redirect_uri", to),
            ("code_verifier", verifier),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
    };
    let exchanged = rig.http.post(format!("{url}/token")).form(&form(&verifier)).send().await.unwrap();
    assert_eq!(exchanged.status(), 200);
    let access: Value = exchanged.json().await.unwrap();
    let again = rig.http.post(format!("{url}/token")).form(&form(&verifier)).send().await.unwrap();
    assert_eq!(again.status(), 400, "a code works once");
    (access["access_token"].as_str().unwrap().to_owned(), session_token, session["projectId"].clone())
}

#[tokio::test]
async fn a_connection_opens_the_notes() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let (access, session, project) = open(&rig, &pipe).await;
    let call = async |name: &str, arguments: Value| -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let url = format!("{}/mcp", rig.sandbox.url());
        let answer: Value =
            rig.http.post(url).bearer_auth(&access).json(&request).send().await.unwrap().json().await.unwrap();
        answer
    };
    let text = |answer: &Value| -> Value {
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    assert_eq!(call("notes_add", json!({ "text": "x" })).await["result"]["isError"], true);
    let url = format!("{}/api/v1/app-connections", rig.sandbox.url());
    let body = |value: Value| {
        json!({ "externalId": "e1", "displayName": "Mine", "pieceName": "@sandbox/piece-notes", "projectId": project,
        "type": "SECRET_TEXT", "value": value })
    };
    let made = rig
        .http
        .post(&url)
        .bearer_auth(&session)
        .json(&body(json!({ "type": "SECRET_TEXT", "secret_text": "hush" })))
        .send()
        .await
        .unwrap();
    assert_eq!(made.status(), 201);
    assert!(!made.text().await.unwrap().contains("hush"));
    let bad =
        rig.http.post(&url).bearer_auth(&session).json(&body(json!({ "type": "SECRET_TEXT" }))).send().await.unwrap();
    assert_eq!(bad.status(), 400);
    call("notes_add", json!({ "text": "Olá" })).await;
    assert_eq!(text(&call("notes_list", json!({})).await)[0]["text"], "Olá");
    assert_eq!(text(&call("list_pieces", json!({})).await).as_array().unwrap().len(), 2);
    assert_eq!(text(&call("notes_manage", json!({ "operation": "DELETE" })).await)["deleted"], 1);
    assert_eq!(call("nope", json!({})).await["error"]["code"], -32602);
    assert_eq!(text(&call("delete_connection", json!({ "externalId": "e1" })).await)["deleted"], true);
    assert_eq!(call("notes_list", json!({})).await["result"]["isError"], true);
    let stranger =
        rig.http.post(format!("{}/mcp", rig.sandbox.url())).bearer_auth("x").json(&json!({})).send().await.unwrap();
    assert_eq!(stranger.status(), 401);
}
