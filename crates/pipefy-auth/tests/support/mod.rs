//! A small OIDC issuer on loopback, with every fault a test may ask for.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pipefy::settings::{AuthSettings, KeychainBackend};
use serde_json::{Map, Value, json};

pub fn unix() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// What the issuer does; tests change it while it runs.
pub struct Plan {
    /// Merged into the discovery document; null removes a field.
    pub discovery: Value,
    pub discovery_status: u16,
    /// Merged into every token answer; null removes a field.
    pub tokens: Value,
    /// Status and body instead of tokens.
    pub refuse: Option<(u16, &'static str, String)>,
    pub delay: Duration,
    /// Merged into the ID token's claims; null removes one.
    pub claims: Value,
    pub tamper: bool,
    /// Answers to device polls before the tokens.
    pub device: Vec<&'static str>,
    pub rotate: bool,
    /// Status of the logout and revocation endpoints.
    pub logout_status: u16,
}

#[derive(Default)]
pub struct Seen {
    pub grants: Vec<HashMap<String, String>>,
    pub headers: Vec<HeaderMap>,
    pub bodies: Vec<String>,
    pub logouts: Vec<(String, HashMap<String, String>)>,
    pub polls: Vec<std::time::Instant>,
}

pub struct Issuer {
    pub url: String,
    pub plan: Mutex<Plan>,
    pub seen: Mutex<Seen>,
    key: EcdsaKeyPair,
    nonce: Mutex<Option<String>>,
    serial: Mutex<u32>,
}

impl Issuer {
    pub async fn start() -> Arc<Issuer> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realms/test", listener.local_addr().unwrap());
        let rng = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap();
        let issuer = Arc::new(Issuer {
            url,
            plan: Mutex::new(Plan {
                discovery: json!({}),
                discovery_status: 200,
                tokens: json!({}),
                refuse: None,
                delay: Duration::ZERO,
                claims: json!({}),
                tamper: false,
                device: Vec::new(),
                rotate: true,
                logout_status: 204,
            }),
            seen: Mutex::default(),
            key,
            nonce: Mutex::default(),
            serial: Mutex::default(),
        });
        let app = Router::new()
            .route("/realms/test/.well-known/openid-configuration", get(discovery))
            .route("/realms/test/keys", get(keys))
            .route("/realms/test/authorize", get(authorize))
            .route("/realms/test/token", post(token))
            .route("/oauth/token", post(token))
            .route("/realms/test/device", post(device))
            .route("/realms/test/logout", post(logout))
            .route("/realms/test/revoke", post(logout))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        issuer
    }

    pub fn plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock().unwrap());
    }

    pub fn grants(&self) -> usize {
        self.seen.lock().unwrap().grants.len()
    }

    pub fn last_grant(&self) -> HashMap<String, String> {
        self.seen.lock().unwrap().grants.last().unwrap().clone()
    }

    /// Settings that sign in here and keep files under `home`.
    pub fn settings(&self, home: &Path) -> AuthSettings {
        AuthSettings {
            auth_url: self.url.clone(),
            base_url: self.url.trim_end_matches("/realms/test").to_owned(),
            allow_insecure_urls: true,
            keychain_backend: KeychainBackend::File,
            config_dir: Some(home.join("config/pipefy")),
            data_dir: Some(home.join("data")),
            ..AuthSettings::default()
        }
    }

    fn id_token(&self, client_id: &str) -> String {
        let plan = self.plan.lock().unwrap();
        let nonce = self.nonce.lock().unwrap().clone();
        let mut claims = json!({
            "iss": self.url, "aud": client_id, "sub": "u1", "exp": unix() + 300, "iat": unix(), "nonce": nonce,
        });
        merge(claims.as_object_mut().unwrap(), &plan.claims);
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "ES256", "typ": "JWT", "kid": "k1"})), part(&claims));
        let mut signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec();
        if plan.tamper {
            signature[0] ^= 1;
        }
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn merge(into: &mut Map<String, Value>, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        if value.is_null() {
            into.shift_remove(key);
        } else {
            into.insert(key.clone(), value.clone());
        }
    }
}

fn form(body: &[u8]) -> HashMap<String, String> {
    url::form_urlencoded::parse(body).into_owned().collect()
}

fn answer(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn discovery(State(issuer): State<Arc<Issuer>>) -> Response {
    let at = |path: &str| format!("{}/{path}", issuer.url);
    let mut document = json!({
        "issuer": issuer.url,
        "authorization_endpoint": at("authorize"),
        "token_endpoint": at("token"),
        "jwks_uri": at("keys"),
        "end_session_endpoint": at("logout"),
        "device_authorization_endpoint": at("device"),
    });
    let plan = issuer.plan.lock().unwrap();
    if let Value::String(text) = &plan.discovery {
        return answer(plan.discovery_status, text.clone());
    }
    merge(document.as_object_mut().unwrap(), &plan.discovery);
    answer(plan.discovery_status, document.to_string())
}

async fn keys(State(issuer): State<Arc<Issuer>>) -> Response {
    let point = issuer.key.public_key().as_ref();
    let key = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..65])});
    let odd = json!({"kty": "future", "kid": "k0"});
    answer(200, json!({"keys": [odd, key]}).to_string())
}

/// The user agrees at once: sends the browser back.
async fn authorize(State(issuer): State<Arc<Issuer>>, request: Request) -> Response {
    let asked = form(request.uri().query().unwrap().as_bytes());
    assert_eq!(asked["response_type"], "code");
    assert_eq!(asked["scope"], "openid profile email offline_access");
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["code_challenge"].len(), 43);
    assert_eq!(asked["state"].len(), 32);
    *issuer.nonce.lock().unwrap() = Some(asked["nonce"].clone());
    let back = format!("{}?code=c1&state={}", asked["redirect_uri"], asked["state"]);
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

async fn token(State(issuer): State<Arc<Issuer>>, headers: HeaderMap, body: Bytes) -> Response {
    let asked = form(&body);
    let delay = issuer.plan.lock().unwrap().delay;
    tokio::time::sleep(delay).await;
    {
        let mut seen = issuer.seen.lock().unwrap();
        seen.headers.push(headers);
        seen.bodies.push(String::from_utf8_lossy(&body).into_owned());
        seen.grants.push(asked.clone());
        if asked["grant_type"].ends_with("device_code") {
            seen.polls.push(std::time::Instant::now());
        }
    }
    let client_id = asked.get("client_id").cloned().unwrap_or_default();
    let id_token = issuer.id_token(&client_id);
    let mut plan = issuer.plan.lock().unwrap();
    if let Some((status, content_type, body)) = &plan.refuse {
        let status = StatusCode::from_u16(*status).unwrap();
        return (status, [(header::CONTENT_TYPE, *content_type)], body.clone()).into_response();
    }
    if asked["grant_type"].ends_with("device_code") && !plan.device.is_empty() {
        let next = plan.device.remove(0);
        return answer(400, json!({"error": next, "error_description": null}).to_string());
    }
    let mut serial = issuer.serial.lock().unwrap();
    *serial += 1;
    let mut tokens = json!({
        "access_token": format!("at-{}", *serial), "token_type": "Bearer", "expires_in": 300,
        "refresh_token": format!("rt-{}", *serial), "refresh_expires_in": 1800, "scope": "openid", "id_token": id_token,
    });
    if asked["grant_type"] == "refresh_token" && !plan.rotate {
        tokens.as_object_mut().unwrap().shift_remove("refresh_token");
    }
    merge(tokens.as_object_mut().unwrap(), &plan.tokens);
    answer(200, tokens.to_string())
}

async fn device(State(issuer): State<Arc<Issuer>>, body: Bytes) -> Response {
    assert_eq!(form(&body)["client_id"], "pipefy-cli");
    let uri = format!("{}/activate", issuer.url);
    answer(
        200,
        json!({"device_code": "d1", "user_code": "ABCD-EFGH", "verification_uri": uri,
            "verification_uri_complete": format!("{uri}?user_code=ABCD-EFGH"), "expires_in": 3, "interval": 0})
        .to_string(),
    )
}

async fn logout(State(issuer): State<Arc<Issuer>>, request: Request) -> Response {
    let path = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 10_000).await.unwrap();
    issuer.seen.lock().unwrap().logouts.push((path, form(&body)));
    let status = issuer.plan.lock().unwrap().logout_status;
    answer(status, if status < 300 { String::new() } else { json!({"error": "oops", "x": "canary"}).to_string() })
}
