#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;

const SECRET: &str = "canary-secret:/ %";

/// A token endpoint that hands out `for-<bearer>-<number>`.
struct Issuer {
    url: String,
    asked: AtomicUsize,
    discoveries: AtomicUsize,
    seen: Mutex<Vec<(HashMap<String, String>, String)>>,
    expires_in: Mutex<Value>,
    /// Status and body instead.
    instead: Mutex<Option<(u16, String)>>,
    delay: Mutex<Duration>,
}

impl Issuer {
    async fn start() -> Arc<Issuer> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Arc::new(Issuer {
            url: format!("http://{}/realm", listener.local_addr().unwrap()),
            asked: AtomicUsize::new(0),
            discoveries: AtomicUsize::new(0),
            seen: Mutex::default(),
            expires_in: Mutex::new(json!(300)),
            instead: Mutex::default(),
            delay: Mutex::default(),
        });
        let app = Router::new()
            .route("/realm/.well-known/openid-configuration", get(discovery))
            .route("/realm/token", post(token))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        issuer
    }

    fn settings(&self) -> ExchangeSettings {
        ExchangeSettings {
            client_id: "mcp server".to_owned(),
            client_secret: SECRET.into(),
            client_auth: ClientAuth::Basic,
            token_url: None,
            audience: Some("pipefy".to_owned()),
            resource: None,
            scopes: Vec::new(),
            allow_insecure_urls: true,
        }
    }

    fn exchange(&self) -> Arc<TokenExchange> {
        Arc::new(TokenExchange::new(&self.settings(), &self.url).unwrap())
    }

    fn instead(&self, status: u16, body: &Value) {
        *self.instead.lock().unwrap() = Some((status, body.to_string()));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn discovery(State(issuer): State<Arc<Issuer>>) -> axum::Json<Value> {
    issuer.discoveries.fetch_add(1, Ordering::SeqCst);
    let at = |path: &str| format!("{}/{path}", issuer.url);
    axum::Json(json!({"issuer": issuer.url, "authorization_endpoint": at("auth"), "token_endpoint": at("token")}))
}

async fn token(State(issuer): State<Arc<Issuer>>, headers: HeaderMap, body: String) -> (StatusCode, String) {
    let number = issuer.asked.fetch_add(1, Ordering::SeqCst) + 1;
    let form: HashMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let bearer = form["subject_token"].clone();
    issuer.seen.lock().unwrap().push((form, authorization.unwrap_or_default()));
    let delay = *issuer.delay.lock().unwrap();
    tokio::time::sleep(delay).await;
    if let Some((status, body)) = issuer.instead.lock().unwrap().clone() {
        return (StatusCode::from_u16(status).unwrap(), body);
    }
    if bearer.contains("revoked") {
        return (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"}).to_string());
    }
    let expires_in = issuer.expires_in.lock().unwrap().clone();
    let answer = json!({"access_token": format!("for-{bearer}-{number}"), "token_type": "Bearer",
        "issued_token_type": ACCESS_TOKEN, "expires_in": expires_in});
    (StatusCode::OK, answer.to_string())
}

fn caller(subject: &str, bearer: &str) -> OnBehalfOf {
    OnBehalfOf {
        issuer: Some("https://issuer.test".to_owned()),
        subject: Some(subject.to_owned()),
        client_id: "client".to_owned(),
        scopes: vec!["a".to_owned(), "b".to_owned()],
        expires_at: now() + 600,
        bearer: bearer.into(),
    }
}

/// The token that Pipefy gets.
async fn sent(exchange: &Arc<TokenExchange>, caller: &OnBehalfOf) -> Bearer {
    exchange.credential(caller.clone()).await.unwrap().bearer().await.unwrap()
}

async fn failure(exchange: &Arc<TokenExchange>, caller: &OnBehalfOf) -> CredentialError {
    exchange.credential(caller.clone()).await.expect_err("a refusal")
}

#[tokio::test]
async fn the_request_is_what_the_standard_says() {
    let issuer = Issuer::start().await;
    let exchange = issuer.exchange();
    assert!(sent(&exchange, &caller("ana", "in-1")).await.occurs_in("for-in-1-1"));
    let mut settings = issuer.settings();
    settings.client_auth = ClientAuth::Post;
    settings.audience = None;
    settings.resource = Some("https://api.example".to_owned());
    settings.scopes = vec!["x".to_owned(), "y".to_owned()];
    settings.token_url = Some(format!("{}/token", issuer.url));
    let other = Arc::new(TokenExchange::new(&settings, "https://never.asked").unwrap());
    assert!(sent(&other, &caller("ana", "in-2")).await.occurs_in("for-in-2-2"));

    let seen = issuer.seen.lock().unwrap().clone();
    let form = |fields: &[(&str, &str)]| -> HashMap<String, String> {
        let usual = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
        ];
        usual.iter().chain(fields).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(seen[0].0, form(&[("subject_token", "in-1"), ("audience", "pipefy")]));
    let pair = STANDARD.decode(seen[0].1.strip_prefix("Basic ").unwrap()).unwrap();
    assert_eq!(String::from_utf8(pair).unwrap(), "mcp+server:canary-secret%3A%2F+%25");
    let posted = [
        ("subject_token", "in-2"),
        ("resource", "https://api.example"),
        ("scope", "x y"),
        ("client_id", "mcp server"),
        ("client_secret", SECRET),
    ];
    assert_eq!(seen[1], (form(&posted), String::new()));
    assert_eq!(issuer.discoveries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_token_is_kept_for_its_person_client_and_scopes_and_for_nobody_else() {
    let issuer = Issuer::start().await;
    let exchange = issuer.exchange();
    let ana = caller("ana", "ana-1");
    let first = sent(&exchange, &ana).await;
    // A refreshed bearer of the same person, scopes in another order: the same.
    let mut refreshed = caller("ana", "ana-2");
    refreshed.scopes = vec!["b".to_owned(), "a".to_owned(), "b".to_owned()];
    assert_eq!(sent(&exchange, &refreshed).await, first);
    assert_eq!(issuer.asked(), 1);

    let changed = |change: &dyn Fn(&mut OnBehalfOf)| {
        let mut other = caller("ana", "ana-3");
        change(&mut other);
        other
    };
    let others = [
        changed(&|other| other.subject = Some("ben".to_owned())),
        changed(&|other| other.subject = Some(" ana".to_owned())),
        changed(&|other| other.subject = Some("ana ".to_owned())),
        changed(&|other| other.issuer = Some("https://issuer.test/".to_owned())),
        changed(&|other| other.issuer = None),
        changed(&|other| other.client_id = "other".to_owned()),
        changed(&|other| other.scopes = vec!["a".to_owned()]),
        changed(&|other| other.scopes = vec!["ab".to_owned()]),
        changed(&|other| other.scopes = Vec::new()),
        changed(&|other| other.subject = None),
        changed(&|other| (other.subject, other.bearer) = (None, "ana-4".into())),
    ];
    let mut tokens = vec![first];
    for (index, other) in others.iter().enumerate() {
        let token = sent(&exchange, other).await;
        assert!(!tokens.contains(&token), "{index}: {other:?}");
        assert!(token.occurs_in(&format!("for-{}-{}", other.bearer.expose_secret(), index + 2)));
        tokens.push(token);
    }
    assert_eq!(issuer.asked(), others.len() + 1);
    // Without a subject: the very same bearer only.
    assert_eq!(sent(&exchange, &others[10]).await, tokens[11]);
    assert_eq!(issuer.asked(), others.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_cost_one_exchange_each_person() {
    let issuer = Issuer::start().await;
    *issuer.delay.lock().unwrap() = Duration::from_millis(50);
    let exchange = issuer.exchange();
    let calls: Vec<_> = (0..200)
        .map(|call| {
            let exchange = exchange.clone();
            let who = format!("person{}", call % 4);
            tokio::spawn(async move {
                let token = sent(&exchange, &caller(&who, &format!("{who}-{call}"))).await;
                // Whoever led, the token is the person's own.
                (0..200).any(|leader| (1..=4).any(|number| token.occurs_in(&format!("for-{who}-{leader}-{number}"))))
            })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(issuer.asked(), 4);
    assert_eq!(issuer.discoveries.load(Ordering::SeqCst), 1);
    for (form, _) in issuer.seen.lock().unwrap().iter() {
        assert!(form["subject_token"].starts_with("person"));
    }
}

#[tokio::test]
async fn the_failure_of_one_bearer_is_not_that_of_the_next() {
    let issuer = Issuer::start().await;
    *issuer.delay.lock().unwrap() = Duration::from_millis(100);
    let exchange = issuer.exchange();
    let (revoked, good) = (caller("ana", "revoked-1"), caller("ana", "good-1"));
    let (first, second) = tokio::join!(exchange.credential(revoked), async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        exchange.credential(good).await
    });
    assert!(matches!(first, Err(CredentialError::Refused { .. })));
    assert!(second.unwrap().bearer().await.unwrap().occurs_in("for-good-1-2"));
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test]
async fn a_token_ends_a_minute_early_and_never_outlives_the_bearer() {
    let issuer = Issuer::start().await;
    let exchange = issuer.exchange();
    for (expires_in, ends) in [(json!(63), true), (json!("300"), false)] {
        *issuer.expires_in.lock().unwrap() = expires_in;
        let ana = caller("ana", "ana-1");
        let first = sent(&exchange, &ana).await;
        assert_eq!(sent(&exchange, &ana).await, first);
        tokio::time::sleep(Duration::from_millis(3100)).await;
        assert_eq!(sent(&exchange, &ana).await != first, ends);
        exchange.kept.invalidate_all();
    }

    // Lives for a minute or does not say: used for this call, not kept.
    for expires_in in [json!(60), json!(0), json!(-5), Value::Null, json!("soon"), json!([1])] {
        *issuer.expires_in.lock().unwrap() = expires_in;
        let before = issuer.asked();
        let credential = exchange.credential(caller("ben", "ben-1")).await.unwrap();
        let bearer = credential.bearer().await.unwrap();
        assert_eq!(credential.bearer().await.unwrap(), bearer);
        assert_eq!(issuer.asked(), before + 1);
        assert_ne!(sent(&exchange, &caller("ben", "ben-1")).await, bearer);
        assert_eq!(issuer.asked(), before + 2);
    }

    *issuer.expires_in.lock().unwrap() = json!(86_400);
    let mut short = caller("cat", "cat-1");
    short.expires_at = now() + 3;
    let first = sent(&exchange, &short).await;
    assert_eq!(sent(&exchange, &short).await, first);
    tokio::time::sleep(Duration::from_millis(3100)).await;
    let before = issuer.asked();
    assert!(matches!(failure(&exchange, &short).await, CredentialError::Refused { .. }));
    assert_eq!(issuer.asked(), before, "an expired bearer is not sent anywhere");
    assert_ne!(sent(&exchange, &caller("cat", "cat-2")).await, first);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_once() {
    let issuer = Issuer::start().await;
    let exchange = issuer.exchange();
    let credential = exchange.credential(caller("ana", "ana-1")).await.unwrap();
    let other = exchange.credential(caller("ana", "ana-2")).await.unwrap();
    let rejected = credential.bearer().await.unwrap();
    let renewed = credential.renew(&rejected).await.unwrap().expect("another one");
    assert_ne!(renewed, rejected);
    assert_eq!(other.renew(&rejected).await.unwrap(), Some(renewed.clone()));
    assert_eq!(other.bearer().await.unwrap(), renewed);
    assert_eq!(credential.bearer().await.unwrap(), renewed);
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test]
async fn failures_say_what_to_do_and_hold_no_secret() {
    let issuer = Issuer::start().await;
    let exchange = issuer.exchange();
    let ana = caller("ana", "canary-bearer");
    let jwt = |claims: Value| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let echo = "canary-bearer and canary-secret:/ %";
    let good = |token: &str| json!({"access_token": token, "token_type": "Bearer", "expires_in": 300});
    let cases = [
        (400, json!({"error": "invalid_grant", "error_description": echo}), "invalid_grant); sign in again"),
        (401, json!({"error": "invalid_client", "error_description": echo}), "invalid_client); tell the operator"),
        (403, json!({"error": echo}), "HTTP 403); tell the operator"),
        (400, json!("canary-bearer"), "HTTP 400"),
        (302, json!({}), "HTTP 302"),
        (500, json!({"error": echo}), "HTTP 500; nothing was sent, try again later"),
        (503, json!({}), "try again later"),
        (429, json!({}), "try again later"),
        (200, json!([1]), "not a JSON object"),
        (200, json!({"token_type": "Bearer"}), "no access token"),
        (200, json!({"access_token": ""}), "no access token"),
        (200, json!({"access_token": 7}), "no access token"),
        (200, json!({"access_token": "x", "token_type": "DPoP"}), "no bearer"),
        (
            200,
            json!({"access_token": "x", "issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}),
            "no access token",
        ),
        (200, good("canary-bearer"), "same bearer"),
        (200, good("canary\nbearer"), "cannot be sent"),
        (200, good(&jwt(json!({"iss": "https://issuer.test", "sub": "ben"}))), "somebody else"),
    ];
    for (status, body, expected) in cases {
        issuer.instead(status, &body);
        let error = failure(&exchange, &ana).await;
        let text = error.to_string();
        assert!(text.contains(expected), "{status} {body}: {text}");
        assert!(text.starts_with("Pipefy cannot be called on your behalf"), "{text}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        let later = status >= 500 || status == 429;
        assert_eq!(matches!(error, CredentialError::Unavailable { .. }), later, "{status} {body}");
    }
    for claims in [
        json!({"iss": "https://issuer.test", "sub": "ana"}),
        json!({"iss": "https://other.test", "sub": "ben"}),
        json!({"iss": "https://issuer.test"}),
    ] {
        issuer.instead(200, &good(&jwt(claims)));
        exchange.credential(ana.clone()).await.unwrap();
        exchange.kept.invalidate_all();
    }
    // Nothing of a failure is kept.
    *issuer.instead.lock().unwrap() = None;
    exchange.credential(ana.clone()).await.unwrap();

    let mut settings = issuer.settings();
    settings.token_url = Some("http://127.0.0.1:1/token".to_owned());
    let dead = Arc::new(TokenExchange::new(&settings, &issuer.url).unwrap());
    assert!(matches!(failure(&dead, &ana).await, CredentialError::Unavailable { .. }));
    settings.token_url = None;
    let dead = Arc::new(TokenExchange::new(&settings, "http://127.0.0.1:1/realm").unwrap());
    let error = failure(&dead, &ana).await;
    assert!(error.to_string().contains("discovery"), "{error}");
    settings.token_url = Some("http://idp.example/token".to_owned());
    settings.allow_insecure_urls = false;
    let error = TokenExchange::new(&settings, &issuer.url).expect_err("http");
    assert!(error.to_string().contains("PIPEFY_EXCHANGE_TOKEN_URL"), "{error}");
    for shown in [format!("{exchange:?}"), format!("{ana:?}"), format!("{settings:?}")] {
        assert!(!shown.contains("canary"), "{shown}");
    }
}
