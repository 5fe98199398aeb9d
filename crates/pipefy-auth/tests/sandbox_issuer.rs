//! Signing in, and judging who comes in, at the sandbox's own issuer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use pipefy::settings::{AuthSettings, JwtValidationSettings, KeychainBackend};
use pipefy_auth::inbound::{JwtValidator, Rejection};
use pipefy_auth::{AuthHttp, BrowserLogin, DeviceLogin, Logout, Revocation, SessionKeeper, resolve_credential};
use pipefy_sandbox::{MCP_CLIENT_ID, Sandbox, SandboxOptions, people};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

struct Rig {
    sandbox: Sandbox,
    home: tempfile::TempDir,
    browser: reqwest::Client,
}

impl Rig {
    async fn new() -> Rig {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
        let browser = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        Rig { sandbox, home: tempfile::tempdir().unwrap(), browser }
    }

    fn settings(&self) -> AuthSettings {
        AuthSettings {
            auth_url: self.sandbox.issuer_url(),
            base_url: self.sandbox.url().to_owned(),
            allow_insecure_urls: true,
            keychain_backend: KeychainBackend::File,
            config_dir: Some(self.home.path().join("config/pipefy")),
            data_dir: Some(self.home.path().join("data")),
            ..AuthSettings::default()
        }
    }

    fn keeper(&self) -> SessionKeeper {
        SessionKeeper::open(&self.settings(), AuthHttp::new()).unwrap()
    }

    /// What the API answers to a bearer: an e-mail address, or nothing.
    async fn me(&self, bearer: &str) -> Option<String> {
        let request = self.browser.post(format!("{}/graphql", self.sandbox.url())).bearer_auth(bearer);
        let answer: Value =
            request.json(&json!({"query": "{ me { email } }"})).send().await.unwrap().json().await.unwrap();
        answer["data"]["me"]["email"].as_str().map(str::to_owned)
    }

    async fn mint(&self, wish: Value) -> String {
        let request = self.browser.post(format!("{}/_sandbox/oidc/tokens", self.sandbox.url()));
        let answer: Value = request.json(&wish).send().await.unwrap().json().await.unwrap();
        answer["access_token"].as_str().unwrap().to_owned()
    }

    async fn control(&self, path: &str, body: Value) {
        let request = self.browser.post(format!("{}{path}", self.sandbox.url()));
        assert!(request.json(&body).send().await.unwrap().status().is_success());
    }

    async fn requests_to(&self, path: &str) -> usize {
        let url = format!("{}/_sandbox/requests", self.sandbox.url());
        let answer: Value = self.browser.get(url).send().await.unwrap().json().await.unwrap();
        answer["requests"].as_array().unwrap().iter().filter(|entry| entry["path"] == path).count()
    }
}

/// A person answers the page at `url`.
async fn answer(browser: &reqwest::Client, url: &str, field: (&str, &str)) -> (u16, String) {
    let page = browser.get(url).send().await.unwrap().text().await.unwrap();
    let cut = |from: &str| page.split_once(from).map(|(_, rest)| rest.split('"').next().unwrap().to_owned());
    let action = reqwest::Url::parse(url).unwrap().join(&cut("action=\"").expect("a form")).unwrap();
    let mut form = vec![(field.0.to_owned(), field.1.to_owned())];
    form.extend(cut("name=\"ticket\" value=\"").map(|ticket| ("ticket".to_owned(), ticket)));
    form.extend(cut("name=\"user_code\" value=\"").map(|code| ("user_code".to_owned(), code)));
    let answer = browser.post(action).form(&form).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn browser_login_refresh_and_logout() {
    let rig = Rig::new().await;
    let login = BrowserLogin::start(&rig.settings(), AuthHttp::new()).await.unwrap();
    let (url, browser) = (login.authorization_url().to_owned(), rig.browser.clone());
    let person = tokio::spawn(async move { answer(&browser, &url, ("person", people()[1].email)).await });
    let session = login.finish(Duration::from_secs(30)).await.unwrap();
    let (status, page) = person.await.unwrap();
    assert!(status == 200 && page.contains("Signed in"), "{status} {page}");
    assert!(session.tokens.id_token.is_some(), "and it was verified, with its nonce");
    rig.keeper().keep(&session).await.unwrap();

    let credential = resolve_credential(&rig.settings(), None).unwrap().credential();
    let old = credential.bearer().await.unwrap();
    assert_eq!(rig.me(session.tokens.access_token.expose_secret()).await.as_deref(), Some(people()[1].email));
    let new = credential.renew(&old).await.unwrap().expect("another token");
    assert_ne!(new, old);
    let stored = rig.keeper().keychain().load().await.unwrap().unwrap();
    assert_ne!(stored.tokens.refresh_token.expose_secret(), session.tokens.refresh_token.expose_secret());
    assert_eq!(rig.me(stored.tokens.access_token.expose_secret()).await.as_deref(), Some(people()[1].email));

    let Logout::SignedOut { revocation, .. } = rig.keeper().log_out().await else { panic!() };
    assert_eq!(revocation, Revocation::Revoked);
    assert_eq!(rig.me(stored.tokens.access_token.expose_secret()).await, None);
    rig.keeper().keep(&stored).await.unwrap();
    let rejected = pipefy::Bearer::new(&stored.tokens.access_token).unwrap();
    let error = rig.keeper().fresh(Some(&rejected)).await.unwrap_err();
    assert_eq!(error.error_code.as_deref(), Some("invalid_grant"), "{error}");
}

#[tokio::test]
async fn a_person_who_refuses_in_the_browser_or_on_a_device() {
    let rig = Rig::new().await;
    let login = BrowserLogin::start(&rig.settings(), AuthHttp::new()).await.unwrap();
    let (url, browser) = (login.authorization_url().to_owned(), rig.browser.clone());
    let person = tokio::spawn(async move { answer(&browser, &url, ("deny", "yes")).await });
    let error = login.finish(Duration::from_secs(30)).await.unwrap_err();
    assert!(error.to_string().starts_with("Login failed: access_denied: The person refused. Run "), "{error}");
    assert_eq!(person.await.unwrap().0, 400);

    let login = DeviceLogin::start(&rig.settings(), AuthHttp::new()).await.unwrap();
    let url = login.verification_uri_complete().unwrap().to_owned();
    assert_eq!(answer(&rig.browser, &url, ("deny", "yes")).await.0, 200);
    assert!(login.finish().await.unwrap_err().to_string().contains("denied in the browser"));
}

#[tokio::test]
async fn device_login() {
    let rig = Rig::new().await;
    let login = DeviceLogin::start(&rig.settings(), AuthHttp::new()).await.unwrap();
    assert!(login.verification_uri().ends_with("/realms/pipefy/device"));
    let (url, browser) = (login.verification_uri_complete().unwrap().to_owned(), rig.browser.clone());
    let person = tokio::spawn(async move {
        // Polling has begun before the person arrives.
        tokio::time::sleep(Duration::from_millis(300)).await;
        answer(&browser, &url, ("person", people()[2].email)).await
    });
    let session = login.finish().await.unwrap();
    assert_eq!(person.await.unwrap().0, 200);
    rig.keeper().keep(&session).await.unwrap();
    assert_eq!(rig.me(session.tokens.access_token.expose_secret()).await.as_deref(), Some(people()[2].email));
}

#[tokio::test]
async fn inbound_bearers_of_the_sandboxs_people() {
    let rig = Rig::new().await;
    let settings = JwtValidationSettings {
        allow_insecure_urls: true,
        verify_audience: true,
        audience: Some("https://mcp.example/mcp".into()),
        ..JwtValidationSettings::default()
    };
    let issuer = rig.sandbox.issuer_url();
    let validator = JwtValidator::new(&settings, issuer.clone(), "https://mcp.example/mcp").unwrap();
    let aud = json!(["pipefy", "https://mcp.example/mcp"]);
    let mut subjects = std::collections::HashSet::new();
    for person in people() {
        let token = rig.mint(json!({ "person": person.email, "aud": aud })).await;
        let claims = validator.validate(&token).await.unwrap();
        assert_eq!((claims.client_id.as_str(), &*claims.issuer), (MCP_CLIENT_ID, issuer.as_str()));
        assert_eq!(claims.scopes, ["openid", "profile", "email"]);
        assert!(subjects.insert(claims.subject.clone().unwrap()));
        // What the validator accepts opens the API as the same person.
        assert_eq!(rig.me(&token).await.as_deref(), Some(person.email));
    }
    let certs = "/realms/pipefy/protocol/openid-connect/certs";
    assert_eq!(rig.requests_to(certs).await, 1);
    for wish in [
        json!({}),
        json!({ "aud": aud, "expires_in": 0 }),
        json!({ "aud": aud, "without": ["exp"] }),
        json!({ "aud": aud, "claims": { "sub": 7 } }),
        json!({ "aud": aud, "claims": { "sub": null } }),
        json!({ "aud": aud, "claims": { "sub": " " } }),
        json!({ "aud": aud, "claims": { "iss": format!("{issuer}/") } }),
    ] {
        let refused = validator.validate(&rig.mint(wish.clone()).await).await;
        assert!(matches!(refused, Err(Rejection::Invalid(_))), "{wish} {refused:?}");
    }

    // Rotated: the new key is found at once, what the withdrawn one has signed is void.
    let old = rig.mint(json!({ "aud": aud })).await;
    validator.validate(&old).await.unwrap();
    rig.control("/_sandbox/oidc/keys?drop_old=true", json!({})).await;
    let new = rig.mint(json!({ "aud": aud })).await;
    validator.validate(&new).await.unwrap();
    assert!(matches!(validator.validate(&old).await, Err(Rejection::Invalid(_))));
    assert_eq!(rig.requests_to(certs).await, 2);

    // The issuer fails: known keys serve, a newcomer cannot judge.
    rig.control("/_sandbox/faults", json!({ "rules": [{ "endpoint": "jwks", "status": 503 }] })).await;
    validator.validate(&rig.mint(json!({ "aud": aud })).await).await.unwrap();
    let newcomer = JwtValidator::new(&settings, issuer, "https://mcp.example/mcp").unwrap();
    assert!(matches!(newcomer.validate(&new).await, Err(Rejection::Unavailable { .. })));
}
