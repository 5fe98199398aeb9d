//! Signing in at the sandbox's OpenID provider, over sockets, as browsers, devices and servers do.

use crate::{GUEST, MEMBER, Rig, ask, client};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pipefy_sandbox::{
    CLI_CLIENT_ID, MCP_CLIENT_ID, MCP_SERVER_CLIENT_ID, MCP_SERVER_CLIENT_SECRET, SERVICE_ACCOUNT_EMAIL,
    SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET, people,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifier";
const RETURN: &str = "http://127.0.0.1:40123/callback";

fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, VERIFIER.as_bytes()))
}

/// The claims of a token, unverified.
fn claims(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

fn header(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap()
}

/// The provider and somebody who talks to it.
struct Desk {
    rig: Rig,
    browser: reqwest::Client,
    document: Value,
}

impl Desk {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let url = format!("{}/.well-known/openid-configuration", rig.sandbox.issuer_url());
        let document = rig.http.get(url).send().await.unwrap().json().await.unwrap();
        let browser =
            reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { rig, browser, document }
    }

    fn at(&self, endpoint: &str) -> &str {
        self.document[endpoint].as_str().unwrap()
    }

    /// A browser opens the authorization URL: status, `Location`, page.
    async fn open(&self, changes: &[(&str, &str)]) -> (u16, String, String) {
        let challenge = challenge();
        let mut fields = vec![
            ("client_id", CLI_CLIENT_ID),
            ("response_type", "code"),
            ("redirect_uri", RETURN),
            ("state", "s t&te"),
            ("scope", "openid profile email offline_access"),
            ("nonce", "n1"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in changes {
            fields.retain(|(key, _)| key != name);
            fields.push((name, value));
        }
        let answer = self.browser.get(self.at("authorization_endpoint")).query(&fields).send().await.unwrap();
        seen(answer).await
    }

    async fn submit(&self, page: &str, fields: &[(&str, &str)]) -> (u16, String, String) {
        let cut = |text: &str, from: &str| text.split_once(from).unwrap().1.split('"').next().unwrap().to_owned();
        let action = format!("{}{}", self.rig.sandbox.url(), cut(page, "action=\""));
        let ticket =
            if page.contains("name=\"ticket\"") { cut(page, "name=\"ticket\" value=\"") } else { String::new() };
        let mut fields = fields.to_vec();
        fields.push(("ticket", &ticket));
        seen(self.browser.post(action).form(&fields).send().await.unwrap()).await
    }

    /// The code that the browser of a person brings back.
    async fn code(&self, email: &str, changes: &[(&str, &str)]) -> String {
        let (status, _, page) = self.open(changes).await;
        assert_eq!(status, 200, "{page}");
        let (status, location, page) = self.submit(&page, &[("person", email)]).await;
        assert_eq!(status, 302, "{page}");
        parameter(&location, "code")
    }

    async fn post(&self, endpoint: &str, form: &[(&str, &str)]) -> (u16, Value) {
        let answer = self.rig.http.post(self.at(endpoint)).form(form).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> (u16, Value) {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", CLI_CLIENT_ID),
            ("code", code),
            ("redirect_uri", RETURN),
            ("code_verifier", VERIFIER),
        ];
        for (name, value) in changes {
            form.retain(|(key, _)| key != name);
            form.push((name, value));
        }
        self.post("token_endpoint", &form).await
    }

    async fn tokens(&self, email: &str) -> Value {
        let (status, tokens) = self.redeem(&self.code(email, &[]).await, &[]).await;
        assert_eq!(status, 200, "{tokens}");
        tokens
    }

    async fn refresh(&self, token: &str) -> (u16, Value) {
        let form = [("grant_type", "refresh_token"), ("client_id", CLI_CLIENT_ID), ("refresh_token", token)];
        self.post("token_endpoint", &form).await
    }

    async fn exchange(&self, secret: &str, more: &[(&str, &str)]) -> (u16, Value) {
        let mut form = vec![("grant_type", EXCHANGE), ("subject_token_type", ACCESS_TOKEN)];
        form.extend(more);
        let request = self.rig.http.post(self.at("token_endpoint")).basic_auth(MCP_SERVER_CLIENT_ID, Some(secret));
        let answer = request.form(&form).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn mint(&self, wish: Value) -> String {
        let url = format!("{}/_sandbox/oidc/tokens", self.rig.sandbox.url());
        let answer: Value = self.rig.http.post(url).json(&wish).send().await.unwrap().json().await.unwrap();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn rotate(&self, query: &str) -> Value {
        let url = format!("{}/_sandbox/oidc/keys{query}", self.rig.sandbox.url());
        self.rig.http.post(url).send().await.unwrap().json().await.unwrap()
    }

    /// Who the API says the bearer is; none when it is refused.
    async fn me(&self, token: &str) -> Option<String> {
        let answer =
            ask(&self.rig.http, self.rig.sandbox.url(), "/graphql", token, "{ me { email } }", json!({})).await;
        answer["data"]["me"]["email"].as_str().map(str::to_owned)
    }
}

async fn seen(answer: reqwest::Response) -> (u16, String, String) {
    let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    (answer.status().as_u16(), location, answer.text().await.unwrap())
}

fn parameter(location: &str, name: &str) -> String {
    let url = reqwest::Url::parse(location).unwrap_or_else(|_| panic!("{location}"));
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[tokio::test]
async fn the_document_is_where_clients_look() {
    let desk = Desk::new().await;
    let (url, issuer) = (desk.rig.sandbox.url(), desk.rig.sandbox.issuer_url());
    assert_eq!(issuer, format!("{url}/realms/pipefy"));
    assert_eq!(desk.document["issuer"], issuer);
    for path in [
        "/realms/pipefy/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/realms/pipefy",
        "/.well-known/oauth-authorization-server/realms/pipefy",
    ] {
        let answer = desk.rig.http.get(format!("{url}{path}")).send().await.unwrap();
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        assert_eq!(answer.json::<Value>().await.unwrap(), desk.document, "{path}");
    }
    let keys: Value = desk.rig.http.get(desk.at("jwks_uri")).send().await.unwrap().json().await.unwrap();
    let key = &keys["keys"][0];
    assert_eq!(
        (key["kty"].as_str(), key["alg"].as_str(), key["use"].as_str()),
        (Some("RSA"), Some("RS256"), Some("sig"))
    );
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    let preflight = desk.rig.http.request(reqwest::Method::OPTIONS, desk.at("token_endpoint")).send().await.unwrap();
    assert_eq!(preflight.status(), 204);
}

#[tokio::test]
async fn people_sign_in_through_a_page_and_open_the_api_as_themselves() {
    let desk = Desk::new().await;
    let (status, _, page) = desk.open(&[]).await;
    assert_eq!(status, 200);
    for person in people() {
        assert!(page.contains(person.email) && page.contains(person.name));
        let tokens = desk.tokens(person.email).await;
        assert_eq!(desk.me(text(&tokens, "access_token")).await.as_deref(), Some(person.email));
        let access = claims(text(&tokens, "access_token"));
        assert_eq!((text(&access, "azp"), text(&access, "aud")), (CLI_CLIENT_ID, "pipefy"));
        assert_eq!(text(&access, "iss"), desk.rig.sandbox.issuer_url());
        assert_eq!(access["exp"].as_i64().unwrap() - access["iat"].as_i64().unwrap(), 300);
        assert!(access["sub"].as_str().is_some_and(|sub| sub.len() == 36));
        let id = claims(text(&tokens, "id_token"));
        assert_eq!((text(&id, "aud"), text(&id, "nonce"), text(&id, "email")), (CLI_CLIENT_ID, "n1", person.email));
        assert_eq!(id["sub"], access["sub"]);
        assert_eq!((tokens["expires_in"].as_i64(), tokens["token_type"].as_str()), (Some(300), Some("Bearer")));
        assert_eq!(desk.me(text(&tokens, "id_token")).await, None, "an ID token opens nothing");
    }
    // Static tokens go on.
    assert_eq!(desk.me(MEMBER).await.as_deref(), Some(people()[1].email));
}

#[tokio::test]
async fn the_browser_is_sent_back_with_what_it_brought() {
    let desk = Desk::new().await;
    let (_, _, page) = desk.open(&[]).await;
    let (status, location, _) = desk.submit(&page, &[("person", people()[1].email)]).await;
    assert_eq!(status, 302);
    assert!(location.starts_with(&format!("{RETURN}?code=")), "{location}");
    assert_eq!(
        (parameter(&location, "state"), parameter(&location, "iss")),
        ("s t&te".to_owned(), desk.rig.sandbox.issuer_url())
    );
    // The page is good for one answer.
    assert_eq!(desk.submit(&page, &[("person", people()[0].email)]).await.0, 400);
    let (_, _, page) = desk.open(&[]).await;
    let (_, location, _) = desk.submit(&page, &[("deny", "yes")]).await;
    assert_eq!(
        (parameter(&location, "error"), parameter(&location, "state")),
        ("access_denied".to_owned(), "s t&te".to_owned())
    );
    // Nobody else can be chosen.
    let (_, _, page) = desk.open(&[]).await;
    assert_eq!(desk.submit(&page, &[("person", SERVICE_ACCOUNT_EMAIL)]).await.0, 400);
    // What goes wrong before it is certain where to return to stays on a page.
    for changes in [
        [("client_id", "nobody")],
        [("client_id", "<script>alert(1)</script>")],
        [("redirect_uri", "https://evil.example/callback")],
        [("redirect_uri", "http://127.0.0.1:40123/other")],
        [("redirect_uri", "http://127.0.0.1:40123/callback?x=1")],
        [("redirect_uri", "http://127.0.0.1.evil.example:40123/callback")],
    ] {
        let (status, location, page) = desk.open(&changes).await;
        assert_eq!((status, location.as_str()), (400, ""), "{changes:?}");
        assert!(!page.contains("<script>"));
    }
    for (changes, error) in [
        ([("response_type", "token")], "unsupported_response_type"),
        ([("code_challenge_method", "plain")], "invalid_request"),
        ([("code_challenge", "short")], "invalid_request"),
        ([("prompt", "none")], "login_required"),
        ([("resource", "no uri")], "invalid_target"),
    ] {
        let (status, location, _) = desk.open(&changes).await;
        assert_eq!((status, parameter(&location, "error")), (302, error.to_owned()), "{changes:?}");
    }
    // Any loopback port, by any of its names.
    assert_eq!(desk.open(&[("redirect_uri", "http://localhost:1/callback")]).await.0, 200);
    assert_eq!(
        desk.open(&[("client_id", MCP_CLIENT_ID), ("redirect_uri", "http://[::1]:9/oauth/callback")]).await.0,
        200
    );
}

#[tokio::test]
async fn codes_are_redeemed_once_by_whom_they_were_made_for() {
    let desk = Desk::new().await;
    let member = people()[1].email;
    for changes in [
        [("client_id", MCP_CLIENT_ID)],
        [("redirect_uri", "http://127.0.0.1:40124/callback")],
        [("code_verifier", "another-verifier-another-verifier-another-ve")],
        [("code_verifier", "short")],
    ] {
        let (status, answer) = desk.redeem(&desk.code(member, &[]).await, &changes).await;
        assert_eq!((status, text(&answer, "error")), (400, "invalid_grant"), "{changes:?}");
    }
    let (status, answer) = desk.redeem("invented", &[]).await;
    assert_eq!((status, text(&answer, "error")), (400, "invalid_grant"));
    let (status, answer) = desk.redeem("", &[]).await;
    assert_eq!((status, text(&answer, "error")), (400, "invalid_request"));
    let (status, answer) = desk.redeem("x", &[("client_id", "nobody")]).await;
    assert_eq!((status, text(&answer, "error")), (401, "invalid_client"));

    let code = desk.code(member, &[]).await;
    let (_, tokens) = desk.redeem(&code, &[]).await;
    assert!(desk.me(text(&tokens, "access_token")).await.is_some());
    // The second use ends what the first has given.
    assert_eq!(desk.redeem(&code, &[]).await.0, 400);
    assert_eq!(desk.me(text(&tokens, "access_token")).await, None);
    assert_eq!(desk.refresh(text(&tokens, "refresh_token")).await.0, 400);
}

#[tokio::test]
async fn refresh_tokens_rotate_and_a_second_use_ends_the_session() {
    let desk = Desk::new().await;
    let first = desk.tokens(people()[2].email).await;
    let (status, second) = desk.refresh(text(&first, "refresh_token")).await;
    assert_eq!(status, 200, "{second}");
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_ne!(first["access_token"], second["access_token"]);
    assert_eq!(claims(text(&first, "access_token"))["sub"], claims(text(&second, "access_token"))["sub"]);
    assert_eq!(desk.me(text(&second, "access_token")).await.as_deref(), Some(people()[2].email));
    let foreign = [
        ("grant_type", "refresh_token"),
        ("client_id", MCP_CLIENT_ID),
        ("refresh_token", text(&second, "refresh_token")),
    ];
    assert_eq!(desk.post("token_endpoint", &foreign).await.0, 400);
    let wider = [
        ("grant_type", "refresh_token"),
        ("client_id", CLI_CLIENT_ID),
        ("scope", "openid admin"),
        ("refresh_token", text(&second, "refresh_token")),
    ];
    assert_eq!(text(&desk.post("token_endpoint", &wider).await.1, "error"), "invalid_scope");
    let (status, answer) = desk.refresh(text(&first, "refresh_token")).await;
    assert_eq!((status, text(&answer, "error")), (400, "invalid_grant"));
    assert_eq!(desk.refresh(text(&second, "refresh_token")).await.0, 400, "the thief's token too");
    assert_eq!(desk.me(text(&second, "access_token")).await, None);
}

#[tokio::test]
async fn devices_sign_in_with_a_code() {
    let desk = Desk::new().await;
    let start = async || {
        let form = [("client_id", CLI_CLIENT_ID), ("scope", "openid offline_access")];
        let (status, codes) = desk.post("device_authorization_endpoint", &form).await;
        assert_eq!(status, 200, "{codes}");
        codes
    };
    let poll = async |codes: &Value| {
        let form = [("grant_type", DEVICE), ("client_id", CLI_CLIENT_ID), ("device_code", text(codes, "device_code"))];
        desk.post("token_endpoint", &form).await
    };
    let codes = start().await;
    assert_eq!(text(&poll(&codes).await.1, "error"), "authorization_pending");
    assert_eq!(text(&poll(&codes).await.1, "error"), "slow_down");
    let (status, _, page) =
        seen(desk.browser.get(text(&codes, "verification_uri_complete")).send().await.unwrap()).await;
    assert!(status == 200 && page.contains(text(&codes, "user_code")));
    // Typed by a person: small letters, no hyphen.
    let typed = text(&codes, "user_code").replace('-', " ").to_lowercase();
    assert_eq!(desk.submit(&page, &[("user_code", "BBBB-BBBB"), ("person", people()[0].email)]).await.0, 400);
    assert_eq!(desk.submit(&page, &[("user_code", &typed)]).await.0, 400);
    assert_eq!(desk.submit(&page, &[("user_code", &typed), ("person", people()[2].email)]).await.0, 200);
    assert_eq!(
        desk.submit(&page, &[("user_code", &typed), ("person", people()[0].email)]).await.0,
        400,
        "answered already"
    );
    let (status, tokens) = poll(&codes).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(desk.me(text(&tokens, "access_token")).await.as_deref(), Some(people()[2].email));
    assert_eq!(text(&poll(&codes).await.1, "error"), "invalid_grant");

    let codes = start().await;
    assert_eq!(desk.submit(&page, &[("user_code", text(&codes, "user_code")), ("deny", "yes")]).await.0, 200);
    assert_eq!(text(&poll(&codes).await.1, "error"), "access_denied");
}

#[tokio::test]
async fn service_accounts_act_as_themselves() {
    let desk = Desk::new().await;
    let url = desk.at("token_endpoint");
    let form = [("grant_type", "client_credentials")];
    let request = desk.rig.http.post(url).basic_auth(SERVICE_ACCOUNT_ID, Some(SERVICE_ACCOUNT_SECRET));
    let tokens: Value = request.form(&form).send().await.unwrap().json().await.unwrap();
    assert_eq!(desk.me(text(&tokens, "access_token")).await.as_deref(), Some(SERVICE_ACCOUNT_EMAIL));
    assert!(tokens.get("refresh_token").is_none());
    let wrong = desk.rig.http.post(url).basic_auth(SERVICE_ACCOUNT_ID, Some("wrong")).form(&form).send().await.unwrap();
    assert_eq!((wrong.status().as_u16(), wrong.headers().contains_key("www-authenticate")), (401, true));
    let public = [("grant_type", "client_credentials"), ("client_id", CLI_CLIENT_ID)];
    assert_eq!(text(&desk.post("token_endpoint", &public).await.1, "error"), "unauthorized_client");
    let unknown = [("grant_type", "password"), ("client_id", CLI_CLIENT_ID)];
    assert_eq!(text(&desk.post("token_endpoint", &unknown).await.1, "error"), "unsupported_grant_type");
}

#[tokio::test]
async fn a_server_exchanges_the_tokens_of_its_callers() {
    let desk = Desk::new().await;
    let resource = "https://mcp.example/mcp";
    let ask_for = [("client_id", MCP_CLIENT_ID), ("resource", resource)];
    let code = desk.code(people()[1].email, &ask_for).await;
    let (_, tokens) = desk.redeem(&code, &ask_for).await;
    let inbound = text(&tokens, "access_token");
    assert_eq!(claims(inbound)["aud"], json!(["pipefy", resource]));
    let (status, exchanged) = desk.exchange(MCP_SERVER_CLIENT_SECRET, &[("subject_token", inbound)]).await;
    assert_eq!(status, 200, "{exchanged}");
    assert_eq!(text(&exchanged, "issued_token_type"), ACCESS_TOKEN);
    let outbound = text(&exchanged, "access_token");
    let (before, after) = (claims(inbound), claims(outbound));
    assert_eq!((text(&after, "azp"), text(&after, "aud")), (MCP_SERVER_CLIENT_ID, "pipefy"));
    assert_eq!((&after["sub"], &after["act"]["sub"]), (&before["sub"], &json!(MCP_SERVER_CLIENT_ID)));
    assert!(after["exp"].as_i64() <= before["exp"].as_i64());
    assert_eq!(desk.me(outbound).await.as_deref(), Some(people()[1].email));
    // A token for somebody else does not open the API.
    let other = [("subject_token", inbound), ("audience", "elsewhere"), ("scope", "openid")];
    let (_, elsewhere) = desk.exchange(MCP_SERVER_CLIENT_SECRET, &other).await;
    assert_eq!((text(&elsewhere, "scope"), desk.me(text(&elsewhere, "access_token")).await), ("openid", None));
    // What is refused.
    let expired = desk.mint(json!({ "expires_in": -1 })).await;
    let id_token = text(&tokens, "id_token");
    for (subject, error) in [
        ("garbage", "invalid_grant"),
        (GUEST, "invalid_grant"),
        (&expired, "invalid_grant"),
        (id_token, "invalid_grant"),
    ] {
        let (status, answer) = desk.exchange(MCP_SERVER_CLIENT_SECRET, &[("subject_token", subject)]).await;
        assert_eq!((status, text(&answer, "error")), (400, error));
    }
    let wider = [("subject_token", inbound), ("scope", "admin")];
    assert_eq!(text(&desk.exchange(MCP_SERVER_CLIENT_SECRET, &wider).await.1, "error"), "invalid_scope");
    assert_eq!(desk.exchange("wrong", &[("subject_token", inbound)]).await.0, 401);
    let public = [
        ("grant_type", EXCHANGE),
        ("client_id", MCP_CLIENT_ID),
        ("subject_token", inbound),
        ("subject_token_type", ACCESS_TOKEN),
    ];
    assert_eq!(text(&desk.post("token_endpoint", &public).await.1, "error"), "unauthorized_client");
}

#[tokio::test]
async fn tokens_can_be_revoked_and_sessions_ended() {
    let desk = Desk::new().await;
    let tokens = desk.tokens(people()[1].email).await;
    let (access, refresh) = (text(&tokens, "access_token"), text(&tokens, "refresh_token"));
    let foreign = [("client_id", MCP_CLIENT_ID), ("token", refresh)];
    assert_eq!(desk.post("revocation_endpoint", &foreign).await.0, 200);
    assert!(desk.me(access).await.is_some(), "not this client's");
    assert_eq!(desk.post("revocation_endpoint", &[("client_id", CLI_CLIENT_ID), ("token", access)]).await.0, 200);
    assert_eq!(desk.me(access).await, None);
    let (status, next) = desk.refresh(refresh).await;
    assert_eq!(status, 200);
    let token =
        [("client_id", CLI_CLIENT_ID), ("token", text(&next, "refresh_token")), ("token_type_hint", "refresh_token")];
    assert_eq!(desk.post("revocation_endpoint", &token).await.0, 200);
    assert_eq!(desk.me(text(&next, "access_token")).await, None);
    assert_eq!(desk.refresh(text(&next, "refresh_token")).await.0, 400);
    assert_eq!(desk.post("revocation_endpoint", &[("client_id", CLI_CLIENT_ID), ("token", "unknown")]).await.0, 200);

    let tokens = desk.tokens(people()[1].email).await;
    let form = [("client_id", CLI_CLIENT_ID), ("refresh_token", text(&tokens, "refresh_token"))];
    assert_eq!(desk.post("end_session_endpoint", &form).await.0, 204);
    assert_eq!(desk.refresh(text(&tokens, "refresh_token")).await.0, 400);
    assert_eq!(desk.rig.http.get(desk.at("end_session_endpoint")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn keys_rotate_on_demand() {
    let desk = Desk::new().await;
    let old = desk.mint(json!({})).await;
    let names = desk.rotate("").await;
    assert_eq!(names["keys"].as_array().unwrap().len(), 2);
    let new = desk.mint(json!({})).await;
    assert_ne!(header(&old)["kid"], header(&new)["kid"]);
    assert_eq!(header(&new)["kid"], names["keys"][1]);
    assert!(desk.me(&old).await.is_some() && desk.me(&new).await.is_some());
    let names = desk.rotate("?drop_old=true").await;
    let keys: Value = desk.rig.http.get(desk.at("jwks_uri")).send().await.unwrap().json().await.unwrap();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert_eq!(keys["keys"][0]["kid"], names["keys"][0]);
    assert_eq!((desk.me(&old).await, desk.me(&new).await), (None, None));
    assert!(desk.me(&desk.mint(json!({})).await).await.is_some());
}

#[tokio::test]
async fn tests_can_sign_what_they_need() {
    let desk = Desk::new().await;
    assert_eq!(desk.me(&desk.mint(json!({})).await).await.as_deref(), Some(people()[0].email));
    let wish = json!({ "person": people()[2].email, "client_id": "x", "aud": ["pipefy", "y"], "scope": "a b", "claims": { "extra": 1 } });
    let token = desk.mint(wish).await;
    assert_eq!(desk.me(&token).await.as_deref(), Some(people()[2].email));
    let found = claims(&token);
    assert_eq!((text(&found, "azp"), text(&found, "scope"), found["extra"].as_i64()), ("x", "a b", Some(1)));
    for wish in [
        json!({ "expires_in": 0 }),
        json!({ "without": ["exp"] }),
        json!({ "without": ["aud"] }),
        json!({ "aud": ["elsewhere"] }),
        json!({ "claims": { "iss": "http://elsewhere" } }),
        json!({ "claims": { "sub": "nobody" } }),
        json!({ "claims": { "nbf": 99_999_999_999_i64 } }),
    ] {
        assert_eq!(desk.me(&desk.mint(wish.clone()).await).await, None, "{wish}");
    }
    let mut forged = token.clone();
    forged.replace_range(
        token.len() - 10..token.len() - 9,
        if token[token.len() - 10..].starts_with('A') { "B" } else { "A" },
    );
    assert_eq!(desk.me(&forged).await, None);
}

#[tokio::test]
async fn clients_register_themselves() {
    let desk = Desk::new().await;
    let register = async |body: Value| {
        let answer = desk.rig.http.post(desk.at("registration_endpoint")).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, made) =
        register(json!({ "client_name": "Editor", "redirect_uris": ["editor://signed-in", "http://localhost/cb"] }))
            .await;
    assert_eq!(status, 201, "{made}");
    let id = text(&made, "client_id");
    for (uri, good) in [
        ("editor://signed-in", 200),
        ("http://localhost:77/cb", 200),
        ("http://localhost:77/other", 400),
        ("editor://x", 400),
    ] {
        assert_eq!(desk.open(&[("client_id", id), ("redirect_uri", uri)]).await.0, good, "{uri}");
    }
    let changes = [("client_id", id), ("redirect_uri", "editor://signed-in")];
    let (status, tokens) = desk.redeem(&desk.code(people()[1].email, &changes).await, &changes).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(text(&claims(text(&tokens, "access_token")), "azp"), id);
    for uris in [json!([]), json!(["http://evil.example/cb"]), json!(["javascript://x"]), json!(["https://x/#y"])] {
        assert_eq!(register(json!({ "redirect_uris": uris })).await.0, 400);
    }
    assert_eq!(
        register(json!({ "redirect_uris": ["https://x/cb"], "token_endpoint_auth_method": "client_secret_basic" }))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn many_first_requests_make_one_key() {
    let rig = Rig::new().await;
    let url = format!("{}/protocol/openid-connect/certs", rig.sandbox.issuer_url());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (http, url) = (client(), url.clone());
            tokio::spawn(async move { http.get(url).send().await.unwrap().text().await.unwrap() })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        seen.insert(task.await.unwrap());
    }
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn keys_and_sessions_survive_a_restart() {
    use pipefy_sandbox::{Data, Sandbox, SandboxOptions};
    let folder = tempfile::tempdir().unwrap();
    let options = SandboxOptions { data: Data::File(folder.path().join("sandbox.db")), ..SandboxOptions::default() };
    let http = client();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let sandbox = Sandbox::start(options.clone()).await.unwrap();
        let url = format!("{}/protocol/openid-connect/certs", sandbox.issuer_url());
        seen.push(http.get(url).send().await.unwrap().text().await.unwrap());
        tokio::time::timeout(Duration::from_secs(90), sandbox.shutdown()).await.unwrap();
    }
    assert_eq!(seen[0], seen[1]);
}

/// Serves a client's document about itself: the URL that is its id.
async fn client_document(changes: Value) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/client.json", listener.local_addr().unwrap());
    let mut document = json!({"client_id": url, "client_name": "Documented", "redirect_uris": [RETURN]});
    for (name, value) in changes.as_object().unwrap() {
        document[name] = value.clone();
    }
    let answer = move || {
        let document = document.clone();
        async move { axum::Json(document) }
    };
    let router = axum::Router::new().route("/client.json", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn a_client_can_be_the_document_at_its_id() {
    let desk = Desk::new().await;
    assert_eq!(desk.document["client_id_metadata_document_supported"], true);
    let id = client_document(json!({})).await;
    let code = desk.code(people()[1].email, &[("client_id", &id)]).await;
    let (status, tokens) = desk.redeem(&code, &[("client_id", &id)]).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(claims(tokens["access_token"].as_str().unwrap())["azp"], id.as_str());

    // Where it may return to is what the document says.
    let elsewhere = [("client_id", id.as_str()), ("redirect_uri", "http://127.0.0.1:40123/elsewhere")];
    assert_eq!(desk.open(&elsewhere).await.0, 400);
    for changes in [
        json!({"client_id": "http://127.0.0.1:1/other.json"}),
        json!({"client_secret": "s"}),
        json!({"token_endpoint_auth_method": "client_secret_basic"}),
        json!({"redirect_uris": []}),
    ] {
        let id = client_document(changes.clone()).await;
        let (status, location, page) = desk.open(&[("client_id", &id)]).await;
        assert_eq!((status, location.as_str()), (400, ""), "{changes}: {page}");
    }
    // Nobody outside of this machine is asked, and who does not answer is no client.
    for id in ["https://client.example/client.json", "http://10.255.255.1/client.json", "http://127.0.0.1:1/none.json"]
    {
        assert_eq!(desk.open(&[("client_id", id)]).await.0, 400, "{id}");
    }
}
