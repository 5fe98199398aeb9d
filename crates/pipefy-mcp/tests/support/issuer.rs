//! The sandbox as issuer and as Pipefy, and people who sign in at it as real clients do.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pipefy_sandbox::MCP_CLIENT_ID;
use serde_json::{Value, json};

/// Where the tests' clients are sent back to; nothing listens there.
const RETURN: &str = "http://127.0.0.1:1/callback";
const VERIFIER: &str = "a-verifier-that-is-long-enough-to-be-a-verifier";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Somebody who talks HTTP to a sandbox.
pub(crate) struct Issuer {
    pub(crate) http: reqwest::Client,
    /// Of the sandbox.
    pub(crate) base: String,
}

/// The claims of a token, unverified.
pub(crate) fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// A client that follows no redirects.
pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

impl Issuer {
    pub(crate) fn new(base: &str) -> Self {
        Self { http: http(), base: base.to_owned() }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/realms/pipefy", self.base)
    }

    async fn control(&self, path: &str, body: &Value) -> Value {
        let answer = self.http.post(format!("{}/_sandbox/{path}", self.base)).json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap_or_default()
    }

    /// A token without a sign-in, see docs/sandbox-issuer.md.
    pub(crate) async fn mint(&self, wish: Value) -> String {
        self.control("oidc/tokens", &wish).await["access_token"].as_str().unwrap().to_owned()
    }

    /// A new signing key, the older ones withdrawn.
    pub(crate) async fn rotate(&self) {
        self.control("oidc/keys?drop_old=true", &json!({})).await;
    }

    pub(crate) async fn faults(&self, plan: Value) {
        self.control("faults", &plan).await;
    }

    /// What the API calls a person; none when it refuses the bearer.
    pub(crate) async fn me(&self, bearer: &str) -> Option<String> {
        let request = self.http.post(format!("{}/graphql", self.base)).bearer_auth(bearer);
        let answer = request.json(&json!({"query": "{ me { email } }"})).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap_or_default();
        answer["data"]["me"]["email"].as_str().map(str::to_owned)
    }

    async fn form(&self, url: &str, form: &[(&str, &str)]) -> Value {
        let answer = self.http.post(url).form(form).send().await.unwrap();
        let status = answer.status().as_u16();
        let mut answer: Value = answer.json().await.unwrap();
        answer["status"] = status.into();
        answer
    }

    /// Authorization code with PKCE, in a browser, for the resource of the MCP server.
    pub(crate) async fn sign_in(&self, document: &Value, email: &str, resource: &str) -> Value {
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, VERIFIER.as_bytes()));
        let query = [
            ("client_id", MCP_CLIENT_ID),
            ("response_type", "code"),
            ("redirect_uri", RETURN),
            ("state", "s1"),
            ("scope", "openid profile email offline_access"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", resource),
        ];
        let page = self.http.get(at(document, "authorization_endpoint")).query(&query).send().await.unwrap();
        let page = page.text().await.unwrap();
        let cut = |from: &str| page.split_once(from).unwrap_or_else(|| panic!("{page}")).1.split('"').next().unwrap();
        let (action, ticket) = (cut("action=\""), cut("name=\"ticket\" value=\""));
        let form = [("ticket", ticket), ("person", email)];
        let back = self.http.post(format!("{}{action}", self.base)).form(&form).send().await.unwrap();
        let location = back.headers()["location"].to_str().unwrap();
        let location = reqwest::Url::parse(location).unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let tokens = self
            .form(
                at(document, "token_endpoint"),
                &[
                    ("grant_type", "authorization_code"),
                    ("client_id", MCP_CLIENT_ID),
                    ("code", &code),
                    ("redirect_uri", RETURN),
                    ("code_verifier", VERIFIER),
                    ("resource", resource),
                ],
            )
            .await;
        assert_eq!(tokens["status"], 200, "{tokens}");
        tokens
    }

    /// Device code: the person answers on another screen.
    pub(crate) async fn sign_in_on_a_device(&self, document: &Value, email: &str, resource: &str) -> Value {
        let started = [("client_id", MCP_CLIENT_ID), ("scope", "openid"), ("resource", resource)];
        let started = self.form(at(document, "device_authorization_endpoint"), &started).await;
        let form = [("user_code", started["user_code"].as_str().unwrap()), ("person", email)];
        let page = self.http.post(started["verification_uri"].as_str().unwrap()).form(&form).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 200);
        let poll = [
            ("grant_type", DEVICE),
            ("client_id", MCP_CLIENT_ID),
            ("device_code", started["device_code"].as_str().unwrap()),
        ];
        let tokens = self.form(at(document, "token_endpoint"), &poll).await;
        assert_eq!(tokens["status"], 200, "{tokens}");
        tokens
    }

    /// New tokens for a refresh token.
    pub(crate) async fn refresh(&self, document: &Value, tokens: &Value) -> Value {
        let token = tokens["refresh_token"].as_str().unwrap();
        let form = [("grant_type", "refresh_token"), ("client_id", MCP_CLIENT_ID), ("refresh_token", token)];
        let tokens = self.form(at(document, "token_endpoint"), &form).await;
        assert_eq!(tokens["status"], 200, "{tokens}");
        tokens
    }
}

fn at<'d>(document: &'d Value, endpoint: &str) -> &'d str {
    document[endpoint].as_str().unwrap_or_else(|| panic!("{endpoint} in {document}"))
}
