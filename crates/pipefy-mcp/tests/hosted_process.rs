//! The real hosted server with the sandbox behind it: people sign in at its issuer, each sees what they may, and nothing that
//! is secret is logged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/child.rs"]
mod child;
#[path = "support/issuer.rs"]
mod issuer;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use child::{call, command, initialize, run};
use issuer::{Issuer, claims, http};
use pipefy_sandbox::{MCP_SERVER_CLIENT_ID, MCP_SERVER_CLIENT_SECRET, people};
use serde_json::{Value, json};

const REMOTE: [&str; 7] = ["--sandbox", "--sandbox-data", ":memory:", "--profile", "remote", "--port", "0"];

/// A hosted server with a sandbox of its own, on a free port.
struct Server {
    child: Child,
    /// Of the endpoint.
    url: String,
    log: Arc<Mutex<String>>,
    http: reqwest::Client,
    _home: tempfile::TempDir,
}

/// An answer of the endpoint.
struct Answer {
    status: u16,
    session: Option<String>,
    challenge: String,
    text: String,
}

impl Answer {
    /// The message, whether it came as JSON or as an event.
    fn json(&self) -> Value {
        let line = self.text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        line.filter_map(|line| serde_json::from_str(line).ok()).find(Value::is_object).unwrap_or_default()
    }

    /// What the tool answered.
    fn result(&self) -> Value {
        self.json()["result"]["structuredContent"].clone()
    }
}

impl Server {
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let all: Vec<&str> = REMOTE.iter().chain(arguments).copied().collect();
        let (mut command, home) = command(&all, variables);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut begun = String::new();
        let url = lines.find_map(|line| {
            begun.push_str(&line);
            begun.push('\n');
            line.strip_prefix("Listening on ").map(str::to_owned)
        });
        let url = url.unwrap_or_else(|| panic!("the server says where it listens: {begun}"));
        let log = Arc::new(Mutex::new(begun));
        let rest = log.clone();
        // The rest is read, so that the server never waits for its reader.
        std::thread::spawn(move || {
            for line in lines {
                let mut log = rest.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { child, url, log, http: http(), _home: home }
    }

    async fn send(&self, request: reqwest::RequestBuilder, bearer: Option<&str>, session: Option<&str>) -> Answer {
        let mut request = request.header("Accept", "application/json, text/event-stream");
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        if let Some(session) = session {
            request = request.header("Mcp-Session-Id", session);
        }
        let answer = request.send().await.unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (status, session) = (answer.status().as_u16(), header("mcp-session-id"));
        let challenge = header("www-authenticate").unwrap_or_default();
        Answer { status, session, challenge, text: answer.text().await.unwrap() }
    }

    async fn post(&self, bearer: Option<&str>, session: Option<&str>, body: &Value) -> Answer {
        self.send(self.http.post(&self.url).json(body), bearer, session).await
    }

    /// The session of a client that shows no forms.
    async fn open(&self, bearer: &str) -> String {
        let answer = self.post(Some(bearer), None, &initialize(json!(0), "2025-06-18", json!({}))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.session.expect("a session id")
    }

    /// From nothing to the issuer, as a client finds its way: challenge, resource metadata, discovery document.
    async fn discover(&self) -> (Value, Issuer, Value) {
        let refused = self.post(None, None, &initialize(json!(0), "2025-06-18", json!({}))).await;
        assert_eq!(refused.status, 401);
        let metadata = refused.challenge.split_once("resource_metadata=\"").unwrap().1.split('"').next().unwrap();
        let resource: Value = self.http.get(metadata).send().await.unwrap().json().await.unwrap();
        let issuer = resource["authorization_servers"][0].as_str().unwrap();
        let document = format!("{issuer}/.well-known/openid-configuration");
        let document: Value = self.http.get(document).send().await.unwrap().json().await.unwrap();
        assert_eq!(document["issuer"], issuer);
        let issuer = Issuer::new(issuer.strip_suffix("/realms/pipefy").unwrap());
        (resource, issuer, document)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn access(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap()
}

fn pipes(found: &Value) -> BTreeSet<String> {
    let rows = found["organizations"].as_array().unwrap_or_else(|| panic!("{found}"));
    let pipes = rows.iter().flat_map(|row| row["pipes"].as_array().unwrap());
    pipes.map(|pipe| pipe["id"].as_str().unwrap().to_owned()).collect()
}

/// Three people through one server at the same time, one session each; then each other's ids and sessions.
async fn each_sees_only_what_they_may(server: &Server) {
    let (resource, issuer, document) = server.discover().await;
    assert_eq!(resource["resource"], server.url.as_str());
    let [ana, bruno, carla] = people().map(|person| person.email);
    let ana = issuer.sign_in(&document, ana, &server.url).await;
    let bruno = issuer.sign_in(&document, bruno, &server.url).await;
    let carla = issuer.sign_in_on_a_device(&document, carla, &server.url).await;
    let bearers = [access(&ana), access(&bruno), access(&carla)];
    let mut sessions = Vec::new();
    for bearer in bearers {
        assert!(claims(bearer)["aud"].as_array().unwrap().contains(&json!(server.url)));
        sessions.push(server.open(bearer).await);
    }

    // What each may see is what Pipefy says to their own bearer; asked for all at once.
    let find = call(json!(1), "search_pipes", json!({}));
    let ask = |index: usize| server.post(Some(bearers[index]), Some(&sessions[index]), &find);
    let (one, two, three) = tokio::join!(ask(0), ask(1), ask(2));
    let seen = [&one, &two, &three].map(|answer| pipes(&answer.result()));
    assert!(!seen[1].is_empty() && seen[1].is_subset(&seen[0]) && seen[1].len() < seen[0].len(), "{seen:?}");
    assert!(!seen[2].is_subset(&seen[1]) || seen[2].len() < seen[0].len(), "{seen:?}");
    let hidden = seen[0].difference(&seen[1]).next().unwrap();
    let get = |id: u64| call(json!(id), "get_pipe", json!({"pipe_id": hidden}));
    let shown = server.post(Some(bearers[0]), Some(&sessions[0]), &get(2)).await.result();
    assert!(shown.to_string().contains(hidden.as_str()) && shown.get("error").is_none(), "{shown}");
    let refused = server.post(Some(bearers[1]), Some(&sessions[1]), &get(3)).await.result();
    assert_eq!(refused["success"], false, "{refused}");

    // A session id is of no use to anybody else, on any verb.
    for (bearer, session) in [(bearers[1], &sessions[0]), (bearers[0], &sessions[1]), (bearers[2], &sessions[0])] {
        for request in
            [server.http.post(&server.url).json(&get(4)), server.http.get(&server.url), server.http.delete(&server.url)]
        {
            let answer = server.send(request, Some(bearer), Some(session)).await;
            assert_eq!((answer.status, answer.json()["error"]["message"].as_str()), (404, Some("Session not found")));
        }
    }

    // A refreshed bearer goes on with the session, as the same person.
    let renewed = issuer.refresh(&document, &ana).await;
    assert_ne!(access(&renewed), access(&ana));
    let answer = server.post(Some(access(&renewed)), Some(&sessions[0]), &find).await;
    assert_eq!((answer.status, pipes(&answer.result())), (200, seen[0].clone()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_sign_in_and_each_sees_only_what_they_may() {
    each_sees_only_what_they_may(&Server::start(&[], &[])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_behalf_of_people_each_sees_only_what_they_may() {
    let exchange = [
        ("PIPEFY_EXCHANGE_CLIENT_ID", MCP_SERVER_CLIENT_ID),
        ("PIPEFY_EXCHANGE_CLIENT_SECRET", MCP_SERVER_CLIENT_SECRET),
        ("PIPEFY_EXCHANGE_AUDIENCE", pipefy_sandbox::API_AUDIENCE),
        // Nothing of these is asked: the sandbox wins over every address.
        ("PIPEFY_EXCHANGE_TOKEN_URL", "https://signin.example.com/token"),
        ("PIPEFY_JWT_ISSUER_URL", "https://signin.example.com"),
        ("PIPEFY_JWT_JWKS_URI", "https://signin.example.com/keys"),
    ];
    each_sees_only_what_they_may(&Server::start(&[], &exchange)).await;
}

#[tokio::test]
async fn the_metadata_is_public_at_both_places() {
    let server = Server::start(&[], &[("PIPEFY_MCP_RS_REQUIRED_SCOPES", "email,admin:all")]);
    let root = server.url.strip_suffix("/mcp").unwrap();
    let mut documents = Vec::new();
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let answer = server.http.get(format!("{root}{path}")).header("Host", "anything.example").send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers()["cache-control"], "public, max-age=3600");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        documents.push(answer.text().await.unwrap());
    }
    assert_eq!(documents[0], documents[1]);
    let document: Value = serde_json::from_str(&documents[0]).unwrap();
    assert_eq!(document["resource"], server.url.as_str());
    assert_eq!(document["scopes_supported"], json!(["email", "admin:all"]));
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));

    let issuer = document["authorization_servers"][0].as_str().unwrap();
    let issuer = Issuer::new(issuer.strip_suffix("/realms/pipefy").unwrap());
    let hello = initialize(json!(0), "2025-06-18", json!({}));
    let token = issuer.mint(json!({"scope": "openid email"})).await;
    let poor = server.post(Some(&token), None, &hello).await;
    assert_eq!((poor.status, &poor.json()["error"]), (403, &json!("insufficient_scope")));
    assert_eq!(poor.json()["error_description"], "Required scope: admin:all");
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", error_description=\"Required scope: admin:all\", \
         resource_metadata=\"{root}/.well-known/oauth-protected-resource/mcp\", scope=\"email admin:all\""
    );
    assert_eq!(poor.challenge, challenge);
    let token = issuer.mint(json!({"scope": "admin:all openid email"})).await;
    assert_eq!(server.post(Some(&token), None, &hello).await.status, 200);
}

/// Bearers, bad bearers, a wrong client secret, refusals of every kind, all logged at the most talkative level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_line_and_no_answer_holds_a_secret() {
    for secret in [MCP_SERVER_CLIENT_SECRET, "canary-wrong-secret"] {
        let server = Server::start(
            &[],
            &[
                ("PIPEFY_MCP_LOG_LEVEL", "DEBUG"),
                ("PIPEFY_EXCHANGE_CLIENT_ID", MCP_SERVER_CLIENT_ID),
                ("PIPEFY_EXCHANGE_CLIENT_SECRET", secret),
                ("PIPEFY_TOKEN", "canary-of-the-machine"),
                ("PIPEFY_MCP_SESSION_KEY", "canary-session-key-0123456789abcdef"),
                ("PIPEFY_MCP_CONFIRMATION_SECRET", "canary-confirmation-0123456789abcdef"),
            ],
        );
        let (_, issuer, document) = server.discover().await;
        let tokens = issuer.sign_in(&document, people()[1].email, &server.url).await;
        let bearer = access(&tokens);
        let session = server.open(bearer).await;
        let mut bodies = String::new();
        let find = call(json!(1), "search_pipes", json!({}));
        let mut planted: Vec<String> = vec![bearer.to_owned(), secret.to_owned()];
        let answer = server.post(Some(bearer), Some(&session), &find).await;
        let refused = answer.json()["result"]["isError"] == true;
        assert_eq!(refused, secret != MCP_SERVER_CLIENT_SECRET, "{}", answer.text);
        if refused {
            assert!(answer.text.contains("Pipefy cannot be called on your behalf"), "{}", answer.text);
            assert!(answer.text.contains("invalid_client"), "{}", answer.text);
        }
        bodies.push_str(&answer.text);
        for wish in [
            json!({"expires_in": -5}),
            json!({"claims": {"iss": "https://canary-issuer.example"}}),
            json!({"claims": {"sub": " "}}),
            json!({"person": people()[0].email}),
        ] {
            let token = issuer.mint(wish).await;
            bodies.push_str(&server.post(Some(&token), Some(&session), &find).await.text);
            planted.push(token);
        }
        let garbage = format!("canary-garbage-{}", "x".repeat(30_000));
        bodies.push_str(&server.post(Some(&garbage), Some(&session), &find).await.text);
        bodies.push_str(&server.post(Some("canary-short"), Some("some-session"), &find).await.text);
        let basic = server.http.post(&server.url).basic_auth("canary-user", Some("canary-password")).json(&find);
        bodies.push_str(&server.send(basic, None, None).await.text);
        // The last request has been logged.
        let end = Instant::now() + Duration::from_secs(90);
        let requests = |log: &str| log.matches("\"event\":\"http_request\"").count();
        while requests(&server.log.lock().unwrap()) < 11 {
            assert!(Instant::now() < end, "{}", server.log.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let log = server.log.lock().unwrap().clone();
        assert!(log.contains("a bearer was refused") && log.contains("it has expired"), "{log}");
        for text in [&log, &bodies] {
            assert!(!text.contains("canary"), "{text}");
            for token in &planted {
                assert!(!text.contains(token.as_str()), "{text}");
                // Neither the claims nor the signature alone.
                assert!(token.split('.').skip(1).all(|part| part.len() < 40 || !text.contains(part)), "{text}");
            }
        }
    }
}

#[test]
fn what_is_missing_stops_the_start_with_a_message() {
    let remote = ("PIPEFY_MCP_PROFILE", "remote");
    let url = ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "https://mcp.example.com/mcp");
    let issuer = ("PIPEFY_JWT_ISSUER_URL", "https://idp.example.com");
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Variables<'_>, i32, &str); 9] = [
        (&[remote], 1, "requires a resource server: set PIPEFY_MCP_RS_RESOURCE_SERVER_URL"),
        (&[remote, issuer], 1, "requires a resource server"),
        (&[remote, url], 1, "requires an inbound issuer: set PIPEFY_JWT_ISSUER_URL"),
        (&[remote, url, issuer, ("PIPEFY_JWT_VERIFY_AUDIENCE", "true")], 2, "PIPEFY_JWT_AUDIENCE"),
        (&[remote, url, issuer, ("PIPEFY_JWT_JWKS_URI", "http://idp.example.com/keys")], 2, "HTTPS"),
        (&[remote, url, issuer, ("PIPEFY_EXCHANGE_CLIENT_ID", "x")], 2, "PIPEFY_EXCHANGE_CLIENT_SECRET"),
        (&[remote, url, issuer, ("PIPEFY_EXCHANGE_CLIENT_SECRET", "canary")], 2, "PIPEFY_EXCHANGE_CLIENT_ID"),
        (&[remote, url, issuer, ("PIPEFY_EXCHANGE_AUDIENCE", "x")], 2, "means nothing alone"),
        (&[remote, url, issuer, ("PIPEFY_EXCHANGE_CLIENTID", "x")], 2, "PIPEFY_EXCHANGE_CLIENT_ID"),
    ];
    for (variables, code, expected) in cases {
        let (output, _) = run(&[], variables, b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{variables:?}: {errors}");
        assert!(errors.contains(expected) && !errors.contains("canary"), "{variables:?}: {errors}");
    }
}

#[test]
fn an_unchecked_audience_is_said_aloud() {
    let server = Server::start(&[], &[]);
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("warning: bearers minted for any client of the issuer are accepted"), "{log}");
    let checked = [("PIPEFY_JWT_VERIFY_AUDIENCE", "true"), ("PIPEFY_JWT_AUDIENCE", "https://mcp.example.com/mcp")];
    let server = Server::start(&[], &checked);
    let log = server.log.lock().unwrap().clone();
    assert!(!log.contains("bearers minted for any client"), "{log}");
}
