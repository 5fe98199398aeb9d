#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use aws_lc_rs::{digest, hmac};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pipefy::settings::JwtValidationSettings;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::clock::Clock;
use super::{Claims, InboundError, JwtValidator, Rejection};

/// Three keys for all tests; making one takes long.
fn key(number: usize) -> &'static RsaKeyPair {
    static KEYS: OnceLock<[RsaKeyPair; 3]> = OnceLock::new();
    &KEYS.get_or_init(|| [0; 3].map(|_| RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))[number]
}

fn jwk(number: usize, kid: &str) -> Value {
    let public = key(number).public_key();
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    json!({
        "kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256",
        "n": part(public.modulus().big_endian_without_leading_zero()),
        "e": part(public.exponent().big_endian_without_leading_zero()),
    })
}

/// An issuer on loopback that counts who asks.
struct Issuer {
    url: String,
    state: Mutex<Answers>,
    discoveries: AtomicUsize,
    fetches: AtomicUsize,
}

struct Answers {
    keys: Vec<Value>,
    /// Instead of the keys.
    body: Option<String>,
    status: u16,
    delay: Duration,
    discovery: Value,
    discovery_status: u16,
}

impl Issuer {
    async fn start() -> Arc<Issuer> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Arc::new(Issuer {
            url: format!("http://{}/realms/test", listener.local_addr().unwrap()),
            state: Mutex::new(Answers {
                keys: vec![jwk(0, "k0")],
                body: None,
                status: 200,
                delay: Duration::ZERO,
                discovery: json!({}),
                discovery_status: 200,
            }),
            discoveries: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
        });
        let app = Router::new()
            .route("/realms/test/.well-known/openid-configuration", get(discovery))
            .route("/realms/test/keys", get(keys))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        issuer
    }

    fn set(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.state.lock().unwrap());
    }

    /// `(discoveries, key fetches)` so far.
    fn asked(&self) -> (usize, usize) {
        (self.discoveries.load(Ordering::SeqCst), self.fetches.load(Ordering::SeqCst))
    }
}

fn answer(status: u16, body: String) -> Response {
    (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn discovery(State(issuer): State<Arc<Issuer>>) -> Response {
    issuer.discoveries.fetch_add(1, Ordering::SeqCst);
    let at = |path: &str| format!("{}/{path}", issuer.url);
    let mut document = json!({
        "issuer": issuer.url, "authorization_endpoint": at("authorize"), "token_endpoint": at("token"), "jwks_uri": at("keys"),
    });
    let state = issuer.state.lock().unwrap();
    for (name, value) in state.discovery.as_object().unwrap() {
        document[name] = value.clone();
    }
    answer(state.discovery_status, document.to_string())
}

async fn keys(State(issuer): State<Arc<Issuer>>) -> Response {
    issuer.fetches.fetch_add(1, Ordering::SeqCst);
    let (status, delay, body) = {
        let state = issuer.state.lock().unwrap();
        let body = state.body.clone().unwrap_or_else(|| json!({ "keys": state.keys }).to_string());
        (state.status, state.delay, body)
    };
    tokio::time::sleep(delay).await;
    answer(status, body)
}

struct Rig {
    issuer: Arc<Issuer>,
    clock: Arc<Clock>,
    validator: Arc<JwtValidator>,
}

impl Rig {
    async fn new() -> Rig {
        Rig::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut JwtValidationSettings)) -> Rig {
        let issuer = Issuer::start().await;
        let mut settings = JwtValidationSettings { allow_insecure_urls: true, ..JwtValidationSettings::default() };
        change(&mut settings);
        let clock = Arc::new(Clock::default());
        let name = settings.issuer_url.clone().unwrap_or_else(|| issuer.url.clone());
        let validator =
            JwtValidator::with_clock(&settings, name, "https://mcp.example/mcp/".into(), clock.clone()).unwrap();
        Rig { issuer, clock, validator: Arc::new(validator) }
    }

    /// Claims of a good token.
    fn good(&self) -> Value {
        let now = self.clock.unix();
        json!({
            "iss": self.issuer.url, "sub": "ana", "azp": "cursor", "aud": "pipefy", "exp": now + 600, "iat": now,
            "scope": "openid email", "email": "ana@example.com", "jti": "1",
        })
    }

    /// A good token with some claims changed; null takes one away.
    fn token(&self, changes: Value) -> String {
        let mut claims = self.good();
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().shift_remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        sign(&claims)
    }

    async fn accepts(&self, token: &str) -> Arc<Claims> {
        self.validator.validate(token).await.unwrap_or_else(|rejection| panic!("{rejection}"))
    }

    async fn refuses(&self, token: &str) -> &'static str {
        match self.validator.validate(token).await {
            Err(Rejection::Invalid(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    async fn cannot_judge(&self, token: &str) -> u32 {
        match self.validator.validate(token).await {
            Err(Rejection::Unavailable { retry_after_s }) => retry_after_s,
            other => panic!("{other:?}"),
        }
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn sign(claims: &Value) -> String {
    sign_with(0, &json!({"alg": "RS256", "typ": "JWT", "kid": "k0"}), claims)
}

fn sign_with(number: usize, header: &Value, claims: &Value) -> String {
    sign_as(number, &RSA_PKCS1_SHA256, header, claims)
}

fn sign_as(number: usize, encoding: &'static dyn RsaEncoding, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", part(header), part(claims));
    let key = key(number);
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(encoding, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_good_token_says_who_it_stands_for() {
    let rig = Rig::new().await;
    assert_eq!(rig.issuer.asked(), (0, 0), "nothing is fetched before the first token");
    let good = rig.good();
    let claims = rig.accepts(&sign(&good)).await;
    let expected = Claims {
        client_id: "cursor".into(),
        issuer: rig.issuer.url.as_str().into(),
        subject: Some("ana".into()),
        scopes: vec!["openid".into(), "email".into()],
        expires_at: good["exp"].as_i64().unwrap(),
        resource: "https://mcp.example/mcp/".into(),
    };
    assert_eq!(*claims, expected);
    assert!(!format!("{claims:?}").contains("example.com\""), "no e-mail address is kept");
    assert_eq!(rig.issuer.asked(), (1, 1));
}

#[tokio::test]
async fn claims_that_are_refused() {
    let rig = Rig::new().await;
    let now = rig.clock.unix();
    let null = |name: &str| {
        let mut claims = rig.good();
        claims[name] = Value::Null;
        sign(&claims)
    };
    let slash = format!("{}/", rig.issuer.url);
    let table = [
        ("expired", rig.token(json!({"exp": now - 1}))),
        ("expires now", rig.token(json!({"exp": now}))),
        ("no exp", rig.token(json!({"exp": null}))),
        ("exp is null", null("exp")),
        ("exp is a word", rig.token(json!({"exp": "soon"}))),
        ("exp is a list", rig.token(json!({"exp": [now + 600]}))),
        ("exp is a truth", rig.token(json!({"exp": true}))),
        ("exp in scientific text", rig.token(json!({"exp": "1e12"}))),
        ("future nbf", rig.token(json!({"nbf": now + 120}))),
        ("nbf is a word", rig.token(json!({"nbf": "now"}))),
        ("nbf is null", null("nbf")),
        ("future iat", rig.token(json!({"iat": now + 120}))),
        ("iat is a word", rig.token(json!({"iat": "now"}))),
        ("no iss", rig.token(json!({"iss": null}))),
        ("foreign iss", rig.token(json!({"iss": "https://other.example"}))),
        ("iss with a slash", rig.token(json!({"iss": slash}))),
        ("iss is a list", rig.token(json!({"iss": [rig.issuer.url]}))),
        ("sub is a number", rig.token(json!({"sub": 7}))),
        ("sub is null", null("sub")),
        ("sub is empty", rig.token(json!({"sub": ""}))),
        ("sub is blank", rig.token(json!({"sub": " \t"}))),
        ("sub is a list", rig.token(json!({"sub": ["ana"]}))),
        ("jti is a number", rig.token(json!({"jti": 7}))),
        ("jti is null", null("jti")),
        ("azp is a number", rig.token(json!({"azp": 7}))),
        ("azp is blank", rig.token(json!({"azp": " "}))),
        ("client_id is a list", rig.token(json!({"azp": null, "client_id": ["x"]}))),
        ("nobody", rig.token(json!({"azp": null, "sub": null}))),
        ("claims are a list", sign(&json!([1, 2]))),
        ("claims are text", sign(&json!("claims"))),
    ];
    for (name, token) in table {
        let reason = rig.refuses(&token).await;
        assert!(!reason.is_empty() && !token.contains(reason), "{name}");
        // Nothing about a refusal is remembered in the wrong way.
        rig.refuses(&token).await;
    }
    assert_eq!(rig.issuer.asked(), (1, 1));
}

#[tokio::test]
async fn claims_that_are_accepted() {
    let rig = Rig::new().await;
    let now = rig.clock.unix();
    let until = |value: Value| rig.token(json!({ "exp": value }));
    assert_eq!(rig.accepts(&until(json!(now as f64 + 600.9))).await.expires_at, now + 600);
    assert_eq!(rig.accepts(&until(json!((now + 600).to_string()))).await.expires_at, now + 600);
    assert_eq!(rig.accepts(&until(json!(format!("{}.7", now + 600)))).await.expires_at, now + 600);
    assert_eq!(rig.accepts(&until(json!(1e300))).await.expires_at, 253_402_300_799);
    // Clocks half a minute apart.
    rig.accepts(&rig.token(json!({"iat": now + 30, "nbf": (now + 30).to_string()}))).await;
    // No audience is asked for.
    rig.accepts(&rig.token(json!({"aud": null}))).await;
    rig.accepts(&rig.token(json!({"aud": 7}))).await;
    assert_eq!(rig.accepts(&rig.token(json!({"sub": " ana "}))).await.subject.as_deref(), Some(" ana "), "verbatim");
    assert_eq!(rig.accepts(&rig.token(json!({"sub": null}))).await.subject, None);

    let client = async |changes: Value| rig.accepts(&rig.token(changes)).await.client_id.clone();
    assert_eq!(client(json!({"client_id": "other"})).await, "cursor");
    assert_eq!(client(json!({"azp": null, "client_id": "other"})).await, "other");
    assert_eq!(client(json!({"azp": "", "client_id": "other"})).await, "other");
    assert_eq!(client(json!({"azp": null})).await, "ana");

    let scopes = async |changes: Value| rig.accepts(&rig.token(changes)).await.scopes.clone();
    assert_eq!(scopes(json!({"scope": " a  b\tc "})).await, ["a", "b", "c"]);
    assert_eq!(scopes(json!({"scope": ["a", "b c", 7]})).await, ["a", "b c", "7"]);
    assert_eq!(scopes(json!({"scope": null, "scp": ["a", "b"]})).await, ["a", "b"]);
    assert_eq!(scopes(json!({"scope": null, "scp": "a b"})).await, ["a", "b"]);
    assert!(scopes(json!({"scope": 7})).await.is_empty());
    assert!(scopes(json!({"scope": null})).await.is_empty());
}

#[tokio::test]
async fn the_audience_when_it_is_asked_for() {
    let rig = Rig::with(|settings| {
        settings.verify_audience = true;
        settings.audience = Some("pipefy".into());
    })
    .await;
    assert!(rig.validator.verifies_audience());
    rig.accepts(&rig.token(json!({}))).await;
    rig.accepts(&rig.token(json!({"aud": ["account", "pipefy"]}))).await;
    for aud in [
        json!(null),
        json!("account"),
        json!("pipefy "),
        json!([]),
        json!(["account"]),
        json!(["pipefy", 7]),
        json!(7),
        json!({"pipefy": 1}),
    ] {
        rig.refuses(&rig.token(json!({ "aud": aud }))).await;
    }
    let settings = JwtValidationSettings { verify_audience: true, ..JwtValidationSettings::default() };
    let refused = JwtValidator::new(&settings, "https://issuer.example".into(), "https://mcp.example/mcp");
    assert!(matches!(refused, Err(InboundError::NoAudience)));
}

#[tokio::test]
async fn signatures_that_are_refused() {
    let rig = Rig::new().await;
    let claims = rig.good();
    let header = |alg: &str| json!({"alg": alg, "kid": "k0"});
    let with_hmac = |secret: &[u8]| {
        let signed = format!("{}.{}", part(&header("HS256")), part(&claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let good = sign(&claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (head, body) = signed.split_once('.').unwrap();
    let mut foreign = claims.clone();
    foreign["sub"] = json!("ben");
    let public = jwk(0, "k0");
    let asked = rig.issuer.asked();
    // Refused before the issuer is asked.
    let early = [
        ("alg none", format!("{}.{}.", part(&header("none")), part(&claims))),
        ("alg None", format!("{}.{}.", part(&header("None")), part(&claims))),
        ("alg none with a signature", format!("{}.{}.{signature}", part(&header("none")), part(&claims))),
        ("HS256 with the modulus as text", with_hmac(public["n"].as_str().unwrap().as_bytes())),
        ("HS256 with the modulus", with_hmac(&URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap())),
        ("HS256 with the DER key", with_hmac(key(0).public_key().as_ref())),
        ("HS256 with the JWK", with_hmac(public.to_string().as_bytes())),
        ("RS512", sign_as(0, &RSA_PKCS1_SHA512, &header("RS512"), &claims)),
        ("PS256", sign_as(0, &RSA_PSS_SHA256, &header("PS256"), &claims)),
        ("no alg", sign_with(0, &json!({"kid": "k0"}), &claims)),
        ("no kid", sign_with(0, &json!({"alg": "RS256"}), &claims)),
        ("empty kid", sign_with(0, &json!({"alg": "RS256", "kid": ""}), &claims)),
        ("numeric kid", sign_with(0, &json!({"alg": "RS256", "kid": 0}), &claims)),
        ("crit", sign_with(0, &json!({"alg": "RS256", "kid": "k0", "crit": ["exp"]}), &claims)),
        ("crit b64", sign_with(0, &json!({"alg": "RS256", "kid": "k0", "crit": ["b64"], "b64": true}), &claims)),
        ("header is a list", sign_with(0, &json!(["RS256"]), &claims)),
        ("too long", sign(&json!({"iss": rig.issuer.url, "sub": "x".repeat(20_000)}))),
        ("two parts", signed.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        ("five parts, like a JWE", format!("{good}.{signature}.{signature}")),
        ("empty", String::new()),
        ("dots", "..".to_owned()),
        ("garbage", "garbage".to_owned()),
        ("more garbage", "a.b.c".to_owned()),
        ("not ASCII", "\u{e9}.\u{e9}.\u{e9}".to_owned()),
        ("megabytes", "a.".repeat(1_000_000)),
        ("a space before", format!(" {good}")),
        ("a line end after", format!("{good}\n")),
        ("padding", format!("{good}==")),
    ];
    for (name, token) in &early {
        assert!(!rig.refuses(token).await.is_empty(), "{name}");
        assert_eq!(rig.issuer.asked(), asked, "{name}");
    }
    let late = [
        ("PSS under the name RS256", sign_as(0, &RSA_PSS_SHA256, &header("RS256"), &claims)),
        ("signed by another key", sign_with(1, &header("RS256"), &claims)),
        ("its key brought along", sign_with(1, &json!({"alg": "RS256", "kid": "k0", "jwk": jwk(1, "k0")}), &claims)),
        ("other claims", format!("{head}.{}.{signature}", part(&foreign))),
        ("other header", format!("{}.{body}.{signature}", part(&json!({"kid": "k0", "alg": "RS256"})))),
        ("no signature", format!("{signed}.")),
        ("a short signature", format!("{signed}.{}", &signature[..100])),
        ("an unknown kid", sign_with(0, &json!({"alg": "RS256", "kid": "k9"}), &claims)),
    ];
    for (name, token) in &late {
        assert!(!rig.refuses(token).await.is_empty(), "{name}");
    }
    rig.accepts(&good).await;
}

#[tokio::test]
async fn keys_that_are_not_used() {
    let rig = Rig::new().await;
    let with = |field: &str, value: Value| {
        let mut key = jwk(0, &format!("{field} {value}"));
        key[field] = value;
        key
    };
    let weak = {
        let mut key = jwk(0, "weak");
        key["n"] = json!(URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA512, b"short")));
        key
    };
    let mut no_alg = jwk(0, "no alg or use");
    no_alg.as_object_mut().unwrap().shift_remove("alg");
    no_alg.as_object_mut().unwrap().shift_remove("use");
    let mut no_kid = jwk(0, "");
    no_kid.as_object_mut().unwrap().shift_remove("kid");
    rig.issuer.set(|answers| {
        answers.keys = vec![
            json!(7),
            json!({"kty": "future", "kid": "future"}),
            with("use", json!("enc")),
            with("alg", json!("RS512")),
            with("key_ops", json!(["sign"])),
            weak,
            no_kid,
            jwk(0, ""),
            no_alg,
            with("key_ops", json!(["verify"])),
        ];
    });
    let claims = rig.good();
    let signed = |kid: &str| sign_with(0, &json!({"alg": "RS256", "kid": kid}), &claims);
    rig.accepts(&signed("no alg or use")).await;
    rig.accepts(&signed("key_ops [\"verify\"]")).await;
    for kid in ["future", "use \"enc\"", "alg \"RS512\"", "key_ops [\"sign\"]", "weak"] {
        rig.refuses(&signed(kid)).await;
    }
}

#[tokio::test]
async fn many_first_tokens_cost_one_discovery_and_one_fetch() {
    let rig = Rig::new().await;
    rig.issuer.set(|answers| answers.delay = Duration::from_millis(200));
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let (validator, token) = (rig.validator.clone(), rig.token(json!({"sub": format!("user {n}")})));
            tokio::spawn(async move { validator.validate(&token).await })
        })
        .collect();
    let mut subjects = HashSet::new();
    for task in tasks {
        subjects.insert(task.await.unwrap().unwrap().subject.clone());
    }
    assert_eq!(subjects.len(), 64);
    assert_eq!(rig.issuer.asked(), (1, 1));
}

#[tokio::test]
async fn callers_that_go_away_do_not_take_the_fetch_along() {
    let rig = Rig::new().await;
    rig.issuer.set(|answers| answers.delay = Duration::from_secs(2));
    let token = rig.token(json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(50), rig.validator.validate(&token)).await.is_err());
    rig.accepts(&token).await;
    assert_eq!(rig.issuer.asked(), (1, 1));
}

#[tokio::test]
async fn an_explicit_address_needs_no_discovery() {
    let issuer = Issuer::start().await;
    let settings = JwtValidationSettings {
        allow_insecure_urls: true,
        jwks_uri: Some(format!("{}/keys", issuer.url)),
        ..JwtValidationSettings::default()
    };
    // A name that nobody could discover.
    let name = "http://issuer.invalid/realms/x";
    let validator = JwtValidator::new(&settings, name.into(), "https://mcp.example/mcp").unwrap();
    let exp = crate::session::now() + 60;
    validator.validate(&sign(&json!({"iss": name, "sub": "ana", "exp": exp}))).await.unwrap();
    assert_eq!(issuer.asked(), (0, 1));

    let strict = |jwks_uri: &str| {
        let settings = JwtValidationSettings { jwks_uri: Some(jwks_uri.into()), ..JwtValidationSettings::default() };
        JwtValidator::new(&settings, "https://issuer.example".into(), "https://mcp.example/mcp")
    };
    assert!(strict("https://issuer.example/keys").is_ok());
    for bad in [
        "http://issuer.example/keys",
        "https://10.0.0.1/keys",
        "https://localhost/keys",
        "https://issuer.example/keys?a=b",
        "keys",
        "",
    ] {
        assert!(matches!(strict(bad), Err(InboundError::Url(_))), "{bad}");
    }
}

#[tokio::test]
async fn the_issuers_name_keeps_its_slash() {
    let issuer = Issuer::start().await;
    let name = format!("{}/", issuer.url);
    issuer.set(|answers| answers.discovery = json!({"issuer": name}));
    let settings = JwtValidationSettings { allow_insecure_urls: true, ..JwtValidationSettings::default() };
    let validator = JwtValidator::new(&settings, name.clone(), "https://mcp.example/mcp").unwrap();
    assert_eq!(validator.issuer(), name);
    let exp = crate::session::now() + 60;
    let claims = validator.validate(&sign(&json!({"iss": name, "sub": "ana", "exp": exp}))).await.unwrap();
    assert_eq!(&*claims.issuer, name);
    let refused = validator.validate(&sign(&json!({"iss": issuer.url, "sub": "ana", "exp": exp}))).await;
    assert!(matches!(refused, Err(Rejection::Invalid(_))));
}

#[tokio::test]
async fn a_new_key_is_found_and_unknown_ones_are_bounded() {
    let rig = Rig::new().await;
    rig.accepts(&rig.token(json!({}))).await;
    rig.issuer.set(|answers| answers.keys = vec![jwk(0, "k0"), jwk(1, "k1")]);
    let claims = rig.good();
    let signed = |number: usize, kid: &str| sign_with(number, &json!({"alg": "RS256", "kid": kid}), &claims);
    // Rotated a moment after the first fetch.
    rig.accepts(&signed(1, "k1")).await;
    assert_eq!(rig.issuer.asked(), (1, 2));
    for n in 0..50 {
        rig.refuses(&signed(1, &format!("invented {n}"))).await;
    }
    assert_eq!(rig.issuer.asked(), (1, 2), "one fetch in 30 s");
    rig.clock.advance(31);
    let tasks: Vec<_> = (0..32)
        .map(|n| {
            let (validator, token) = (rig.validator.clone(), signed(1, &format!("more {n}")));
            tokio::spawn(async move { validator.validate(&token).await })
        })
        .collect();
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(Rejection::Invalid(_))));
    }
    assert_eq!(rig.issuer.asked(), (1, 3));
    rig.accepts(&signed(0, "k0")).await;
}

#[tokio::test]
async fn a_removed_key_dies_with_its_set_and_so_do_judgements() {
    let rig = Rig::new().await;
    let token = rig.token(json!({"exp": rig.clock.unix() + 3600}));
    rig.accepts(&token).await;
    rig.issuer.set(|answers| answers.keys = vec![jwk(1, "k1")]);
    rig.accepts(&token).await;
    // Another caller brings a new key: the set changes, and with it all judgements.
    let other = sign_with(1, &json!({"alg": "RS256", "kid": "k1"}), &rig.good());
    rig.accepts(&other).await;
    rig.refuses(&token).await;
    // Without another caller: at the age of 300 s.
    rig.issuer.set(|answers| answers.keys = vec![jwk(2, "k2")]);
    rig.clock.advance(301);
    let asked = rig.issuer.asked().1;
    rig.refuses(&sign_with(1, &json!({"alg": "RS256", "kid": "k1"}), &rig.good())).await;
    assert_eq!(rig.issuer.asked().1, asked + 1);
    // A key that comes back under the same name with another content does not save old judgements.
    let token = sign_with(2, &json!({"alg": "RS256", "kid": "k2"}), &rig.good());
    rig.accepts(&token).await;
    rig.issuer.set(|answers| answers.keys = vec![jwk(0, "k2")]);
    rig.clock.advance(301);
    rig.refuses(&token).await;
    // All keys withdrawn.
    rig.issuer.set(|answers| answers.keys.clear());
    rig.clock.advance(301);
    let token = sign_with(0, &json!({"alg": "RS256", "kid": "k2"}), &rig.good());
    rig.refuses(&token).await;
}

#[tokio::test]
async fn judgements_are_kept_but_never_beyond_the_expiry() {
    let rig = Rig::new().await;
    let token = rig.token(json!({"exp": rig.clock.unix() + 100}));
    let first = rig.accepts(&token).await;
    assert!(Arc::ptr_eq(&first, &rig.accepts(&token).await), "not judged again");
    rig.clock.advance(99);
    rig.accepts(&token).await;
    rig.clock.advance(1);
    assert_eq!(rig.refuses(&token).await, "it has expired");

    let long = rig.token(json!({"exp": rig.clock.unix() + 3600}));
    let first = rig.accepts(&long).await;
    rig.clock.advance(301);
    let again = rig.accepts(&long).await;
    assert!(!Arc::ptr_eq(&first, &again), "300 s at most");
}

#[tokio::test]
async fn an_issuer_that_is_down_is_not_the_callers_fault() {
    let rig = Rig::new().await;
    let token = rig.token(json!({"exp": rig.clock.unix() + 100_000}));
    for (discovery, keys) in [(503, 200), (200, 429), (404, 404)] {
        rig.issuer.set(|answers| (answers.discovery_status, answers.status) = (discovery, keys));
        assert!(rig.cannot_judge(&token).await > 0);
    }
    rig.issuer.set(|answers| (answers.discovery_status, answers.status, answers.body) = (200, 200, Some("[]".into())));
    rig.cannot_judge(&token).await;
    rig.issuer.set(|answers| answers.body = Some("{}".into()));
    rig.cannot_judge(&token).await;
    // A failure is not remembered: the next request tries again.
    rig.issuer.set(|answers| answers.body = None);
    rig.accepts(&token).await;
    // What needs no keys is refused in any case.
    rig.issuer.set(|answers| answers.status = 500);
    rig.refuses("a.b.c").await;

    // Known keys serve on, with a pause between the attempts; unknown ones cannot be judged.
    rig.clock.advance(301);
    let asked = rig.issuer.asked().1;
    for n in 0..20 {
        rig.accepts(&rig.token(json!({"sub": format!("user {n}")}))).await;
    }
    assert_eq!(rig.issuer.asked().1, asked + 1);
    let unknown = sign_with(1, &json!({"alg": "RS256", "kid": "k1"}), &rig.good());
    rig.cannot_judge(&unknown).await;
    let asked = rig.issuer.asked().1;
    assert!((20..=31).contains(&rig.cannot_judge(&unknown).await));
    assert_eq!(rig.issuer.asked().1, asked);
    // Not for ever.
    rig.clock.advance(3600);
    rig.cannot_judge(&token).await;
    rig.issuer.set(|answers| answers.status = 200);
    rig.accepts(&token).await;
}

#[tokio::test]
async fn a_slow_issuer_slows_nobody_whose_key_is_known() {
    let rig = Rig::new().await;
    rig.accepts(&rig.token(json!({}))).await;
    rig.issuer.set(|answers| answers.delay = Duration::from_secs(20));
    // In use: refreshed in the background before its time is over.
    rig.clock.advance(250);
    let started = Instant::now();
    for n in 0..20 {
        rig.accepts(&rig.token(json!({"sub": format!("user {n}")}))).await;
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    while rig.issuer.asked() != (1, 2) {
        assert!(started.elapsed() < Duration::from_secs(60), "the keys are not refreshed: {:?}", rig.issuer.asked());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Beyond its time: the refresh has been waited for long enough.
    rig.clock.advance(60);
    let started = Instant::now();
    rig.accepts(&rig.token(json!({"sub": "late"}))).await;
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!(rig.issuer.asked(), (1, 2));
}

#[tokio::test]
async fn an_idle_server_waits_a_moment_for_fresh_keys() {
    let rig = Rig::new().await;
    rig.accepts(&rig.token(json!({}))).await;
    rig.issuer.set(|answers| answers.delay = Duration::from_secs(20));
    rig.clock.advance(600);
    let started = Instant::now();
    rig.accepts(&rig.token(json!({}))).await;
    assert!(
        (Duration::from_millis(900)..Duration::from_secs(15)).contains(&started.elapsed()),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn nothing_shows_a_token() {
    let rig = Rig::new().await;
    let token = rig.token(json!({"sub": "canary-subject"}));
    rig.accepts(&token).await;
    let shown = format!("{:?} {:?}", rig.validator, rig.validator.validate("canary-bearer").await.unwrap_err());
    assert!(!shown.contains("canary") && !shown.contains(&token), "{shown}");
}

#[tokio::test]
async fn the_judgements_are_bounded() {
    let rig = Rig::new().await;
    assert_eq!(rig.validator.judged.policy().max_capacity(), Some(10_000));
    assert_eq!(rig.validator.judged.policy().time_to_live(), Some(Duration::from_secs(300)));
}

proptest! {
    /// No text is a bearer but the ones that the issuer has signed, and of those no other spelling.
    #[test]
    fn nothing_but_what_was_signed_is_a_bearer(
        text in prop_oneof!["\\PC{0,60}", "[A-Za-z0-9_-]{0,30}[.][A-Za-z0-9_-]{0,30}[.][A-Za-z0-9_-]{0,30}"],
        at in any::<prop::sample::Index>(), by in prop_oneof!["[A-Za-z0-9_.=-]", "\\PC"],
    ) {
        static SHARED: OnceLock<(tokio::runtime::Runtime, Rig, String)> = OnceLock::new();
        let (runtime, rig, good) = SHARED.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let rig = runtime.block_on(Rig::new());
            let good = rig.token(json!({}));
            (runtime, rig, good)
        });
        let judge = |token: &str| runtime.block_on(rig.validator.validate(token)).is_ok();
        prop_assert!(judge(good));
        prop_assert!(!judge(&text), "{}", text);
        let at = at.index(good.len());
        let changed = format!("{}{by}{}", &good[..at], &good[at + 1..]);
        prop_assert_eq!(judge(&changed), &changed == good, "{} {}", good, changed);
    }
}
