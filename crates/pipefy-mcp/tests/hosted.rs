//! The hosted server with real bearers: who a call goes out as, who may touch a session, which bearers are refused, what
//! happens when the issuer changes its keys or goes away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/hosted.rs"]
mod hosted;
mod http;
#[path = "support/issuer.rs"]
mod issuer;
mod support;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::routing::post as route_post;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hosted::{PUBLIC, Rig, call_alone};
use http::*;
use issuer::claims;
use pipefy_mcp::http::HttpOptions;
use pipefy_sandbox::{MCP_SERVER_CLIENT_ID, MCP_SERVER_CLIENT_SECRET, people};
use serde_json::{Value, json};
use support::Backend;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Stateful,
    Stateless,
    /// Without the shortcut for lone calls.
    StatelessLoop,
    /// The revision without sessions, 2026-07-28.
    Alone,
}

impl Mode {
    fn options(self) -> HttpOptions {
        let mut options = options();
        options.stateless = matches!(self, Mode::Stateless | Mode::StatelessLoop);
        options.json_response = options.stateless;
        options.fast_path = self != Mode::StatelessLoop;
        options
    }

    /// A call of `get_card`, whose answer shows the bearer that the backend saw.
    fn call(self, id: u64, bearer: &str, session: &str) -> Vec<u8> {
        let authorization = format!("Bearer {bearer}");
        let arguments = json!({"card_id": id.to_string()});
        if self == Mode::Alone {
            let (body, [version, method, name]) = call_alone(id, "get_card", arguments);
            return post(&body, &[("Authorization", &authorization), version, method, name]);
        }
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Mcp-Session-Id", session),
            ("MCP-Protocol-Version", "2025-06-18"),
        ];
        post(&call(id, "get_card", arguments), &headers)
    }

    async fn open(self, server: &Server, bearer: &str) -> String {
        match self {
            Mode::Stateful => server.open(&[("Authorization", &format!("Bearer {bearer}"))]).await,
            _ => String::new(),
        }
    }
}

/// The bearer that the backend saw, from the answer to a call with this id.
fn seen_by_backend(answer: &Answer, id: u64) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["id"], id);
    let card = &answer["result"]["structuredContent"]["card"];
    assert_eq!(card["id"], id.to_string(), "{answer}");
    card["title"].as_str().unwrap().to_owned()
}

/// A token endpoint that trades any bearer for `for:<subject>`, and remembers whose came.
async fn exchanger() -> (String, Arc<Mutex<HashMap<String, usize>>>) {
    let seen = Arc::<Mutex<HashMap<String, usize>>>::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let app = Router::new().route("/token", route_post(trade)).with_state(seen.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, seen)
}

async fn trade(State(seen): State<Arc<Mutex<HashMap<String, usize>>>>, body: String) -> axum::Json<Value> {
    let form: HashMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let subject = claims(&form["subject_token"])["sub"].as_str().unwrap().to_owned();
    *seen.lock().unwrap().entry(subject.clone()).or_default() += 1;
    tokio::time::sleep(Duration::from_millis(5)).await;
    axum::Json(json!({"access_token": format!("for:{subject}"), "token_type": "Bearer", "expires_in": 300}))
}

fn exchange_settings(token_url: &str) -> [(&str, &str); 3] {
    [
        ("PIPEFY_EXCHANGE_CLIENT_ID", MCP_SERVER_CLIENT_ID),
        ("PIPEFY_EXCHANGE_CLIENT_SECRET", MCP_SERVER_CLIENT_SECRET),
        ("PIPEFY_EXCHANGE_TOKEN_URL", token_url),
    ]
}

/// One session (where there are sessions), calls of one person with two bearers mixed: each goes out with its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_goes_out_with_the_bearer_of_its_own_message() {
    let rig = Rig::start().await;
    let bearers = Arc::new([rig.mint(json!({})).await, rig.mint(json!({})).await]);
    assert_ne!(bearers[0], bearers[1]);
    for mode in [Mode::Stateful, Mode::Stateless, Mode::StatelessLoop, Mode::Alone] {
        let backend = Backend::start(Duration::from_millis(1)).await;
        let server = Arc::new(rig.server(&backend.url, &[], mode.options()).await);
        let session = mode.open(&server, &bearers[0]).await;
        let workers: Vec<_> = (0..32_u64)
            .map(|worker| {
                let (server, session, bearers) = (server.clone(), session.clone(), bearers.clone());
                tokio::spawn(async move {
                    let mut wire = Wire::connect(server.address).await;
                    for round in 0..8 {
                        let (id, bearer) = (worker * 100 + round + 1, &bearers[((worker + round) % 2) as usize]);
                        let answer = wire.exchange(&mode.call(id, bearer, &session)).await;
                        assert_eq!(&seen_by_backend(&answer, id), bearer, "{mode:?} {id}");
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        let seen = backend.seen();
        assert_eq!(seen.len(), 256, "{mode:?}");
        for bearer in bearers.iter() {
            assert_eq!(seen.iter().filter(|seen| *seen == bearer).count(), 128, "{mode:?}");
        }
    }
}

/// How long each crowd keeps calling; `PIPEFY_TEST_SECONDS` makes it longer.
#[allow(clippy::disallowed_methods)]
fn crowd_time() -> Duration {
    let seconds = std::env::var("PIPEFY_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// 64 people with two bearers each, all calling at once for a while: every answer is the caller's own.
async fn crowd(rig: &Rig, mode: Mode, token_url: Option<&str>) {
    let backend = Backend::start(Duration::from_millis(1)).await;
    let more = token_url.map(exchange_settings).map_or_else(Vec::new, Vec::from);
    let server = Arc::new(rig.server(&backend.url, &more, mode.options()).await);
    let mut people = Vec::new();
    for person in 0..64 {
        let wish = json!({"claims": {"sub": format!("person-{person}"), "azp": format!("client-{}", person % 3)}});
        people.push([rig.mint(wish.clone()).await, rig.mint(wish).await]);
    }
    let end = Instant::now() + crowd_time();
    let exchanged = token_url.is_some();
    let callers: Vec<_> = people
        .iter()
        .cloned()
        .enumerate()
        .map(|(person, bearers)| {
            let server = server.clone();
            tokio::spawn(async move {
                let session = mode.open(&server, &bearers[0]).await;
                let mut wire = Wire::connect(server.address).await;
                let mut calls = 0_u64;
                while calls < 2 || Instant::now() < end {
                    calls += 1;
                    let bearer = &bearers[(calls % 2) as usize];
                    // Every id comes from many people at once.
                    let seen = seen_by_backend(&wire.exchange(&mode.call(calls, bearer, &session)).await, calls);
                    let own = if exchanged { format!("for:person-{person}") } else { bearer.clone() };
                    assert_eq!(seen, own, "{mode:?} person {person} call {calls}");
                }
                calls
            })
        })
        .collect();
    let mut total = 0;
    for caller in callers {
        total += caller.await.unwrap();
    }
    eprintln!("{mode:?}, exchanged {exchanged}: {total} calls of 64 people, no foreign answer");
    let seen = backend.seen();
    assert_eq!(seen.len() as u64, total);
    let own: HashSet<String> = match exchanged {
        true => (0..64).map(|person| format!("for:person-{person}")).collect(),
        false => people.iter().flatten().cloned().collect(),
    };
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_the_answer_of_another() {
    let rig = Rig::start().await;
    for mode in [Mode::Stateful, Mode::Stateless, Mode::Alone] {
        crowd(&rig, mode, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_the_answer_of_another_when_bearers_are_exchanged() {
    let rig = Rig::start().await;
    for mode in [Mode::Stateful, Mode::Stateless, Mode::Alone] {
        let (token_url, asked) = exchanger().await;
        crowd(&rig, mode, Some(&token_url)).await;
        // One exchange a person, whichever of the two bearers came first and however many calls there were.
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 64);
        assert!(asked.values().all(|count| *count == 1), "{asked:?}");
    }
}

/// The sandbox as issuer: what reaches Pipefy is another token of the same person, made for this server.
#[tokio::test]
async fn pipefy_never_sees_the_bearer_that_was_exchanged() {
    let rig = Rig::start().await;
    let backend = Backend::start(Duration::ZERO).await;
    let mut settings = exchange_settings("").to_vec();
    settings.pop();
    let server = rig.server(&backend.url, &settings, options()).await;
    for person in people() {
        let bearer = rig.mint(json!({"person": person.email, "aud": [PUBLIC]})).await;
        assert_eq!(rig.issuer.me(&bearer).await, None, "the bearer itself opens nothing");
        let session = Mode::Stateful.open(&server, &bearer).await;
        let seen = seen_by_backend(&server.raw(&Mode::Stateful.call(1, &bearer, &session)).await, 1);
        let (ours, theirs) = (claims(&bearer), claims(&seen));
        assert_eq!((&theirs["sub"], &theirs["aud"]), (&ours["sub"], &json!("pipefy")));
        assert_eq!(theirs["act"]["sub"], MCP_SERVER_CLIENT_ID);
        assert!(theirs["exp"].as_i64() <= ours["exp"].as_i64());
        assert_eq!(rig.issuer.me(&seen).await.as_deref(), Some(person.email));
        assert!(!backend.seen().contains(&bearer));
    }
    // The issuer says no: the tool fails, and nothing goes out.
    let before = backend.seen().len();
    let stranger = rig.mint(json!({"claims": {"sub": "nobody"}})).await;
    let session = Mode::Stateful.open(&server, &stranger).await;
    let answer = server.raw(&Mode::Stateful.call(1, &stranger, &session)).await.json();
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("invalid_grant") && text.contains("sign in again"), "{text}");
    // The issuer is gone: people whose token is kept go on.
    rig.issuer.faults(json!({"rules": [{"endpoint": "oidc", "status": 503}]})).await;
    let ana = rig.mint(json!({"aud": [PUBLIC]})).await;
    let session = Mode::Stateful.open(&server, &ana).await;
    seen_by_backend(&server.raw(&Mode::Stateful.call(1, &ana, &session)).await, 1);
    let new = rig.mint(json!({"client_id": "another"})).await;
    let session = Mode::Stateful.open(&server, &new).await;
    let answer = server.raw(&Mode::Stateful.call(1, &new, &session)).await.json();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("try again later"), "{text}");
    assert_eq!(backend.seen().len(), before + 1);
}

/// Everything that strangers may try on a session, the answer to a form that its owner was asked to fill in included.
#[tokio::test]
async fn a_session_is_its_owners_on_every_verb() {
    let rig = Rig::start().await;
    let server = rig.server(rig.sandbox.url(), &[], options()).await;
    let bearer = |token: &str| format!("Bearer {token}");
    let ana = bearer(&rig.mint(json!({})).await);
    let session = server.open(&[("Authorization", &ana)]).await;

    // Ana's call asks her something.
    let pipe = pipe_with_form(&rig).await;
    let mut asking = Wire::connect(server.address).await;
    let headers = [("Authorization", ana.as_str()), ("Mcp-Session-Id", session.as_str())];
    asking.send(&post(&call(5, "create_card", json!({"pipe_id": pipe})), &headers)).await;
    assert_eq!(asking.head().await.status, 200);
    let mut question = Value::Null;
    while question["method"] != "elicitation/create" {
        let chunk = tokio::time::timeout(LIMIT, asking.chunk()).await.unwrap().unwrap();
        question = frames(&chunk).pop().unwrap_or_default();
    }

    let subject = claims(ana.strip_prefix("Bearer ").unwrap())["sub"].as_str().unwrap().to_owned();
    let iss = rig.sandbox.issuer_url();
    let strangers = [
        ("another subject", 404, json!({"person": people()[1].email})),
        ("another client", 404, json!({"client_id": "another"})),
        ("padded", 404, json!({"claims": {"sub": format!(" {subject}")}})),
        ("padded behind", 404, json!({"claims": {"sub": format!("{subject}\t")}})),
        ("another case", 404, json!({"claims": {"sub": subject.to_uppercase()}})),
        ("no subject", 404, json!({"without": ["sub"]})),
        ("the client as subject", 404, json!({"without": ["azp"]})),
        ("blank", 401, json!({"claims": {"sub": "  "}})),
        ("empty", 401, json!({"claims": {"sub": ""}})),
        ("null", 401, json!({"claims": {"sub": null}})),
        ("a number", 401, json!({"claims": {"sub": 7}})),
        ("a list", 401, json!({"claims": {"sub": [subject]}})),
        ("another issuer", 401, json!({"claims": {"iss": format!("{iss}/")}})),
        ("no issuer", 401, json!({"without": ["iss"]})),
        ("a client that is no text", 401, json!({"claims": {"azp": 7}})),
    ];
    let forged = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"x": "y"}}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    let mut bodies: HashMap<u16, HashSet<String>> = HashMap::new();
    for (who, status, wish) in strangers {
        let stranger = bearer(&rig.mint(wish).await);
        for id in [session.as_str(), session.split('.').next().unwrap()] {
            let headers = [("Authorization", stranger.as_str()), ("Mcp-Session-Id", id)];
            let listening = [("Accept", "text/event-stream"), headers[0], headers[1]];
            for bytes in [
                post(&call(1, "search_pipes", json!({})), &headers),
                post(&initialize("2025-06-18"), &headers),
                post(&forged.to_string(), &headers),
                post(&cancel.to_string(), &headers),
                request("GET", &listening, ""),
                request("DELETE", &headers, ""),
            ] {
                let answer = server.raw(&bytes).await;
                assert_eq!(answer.status, status, "{who}: {answer:?}");
                assert_eq!(answer.header("mcp-session-id"), None);
                bodies.entry(status).or_default().insert(answer.body);
            }
        }
    }
    // Nobody learns from an answer why it was refused.
    assert_eq!((bodies[&404].len(), bodies[&401].len()), (1, 1), "{bodies:?}");
    assert!(bodies[&404].iter().next().unwrap().contains("\"Session not found\""));

    // None of it reached the session: Ana answers with a newer bearer, and that is the answer that counts.
    let newer = bearer(&rig.mint(json!({})).await);
    let decline = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).to_string();
    let accepted = server.post(&decline, &[("Authorization", &newer), ("Mcp-Session-Id", &session)]).await;
    assert_eq!(accepted.status, 202);
    let answer = frames(&tokio::time::timeout(LIMIT, asking.chunk()).await.unwrap().unwrap()).pop().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]["success"]), (&json!(5), &json!(false)));
    assert!(answer.to_string().contains("cancelled by the user"), "{answer}");
    assert_eq!(server.app.sessions(), 1);
}

/// The revision without handshake: a call that needs a form ends with the question, and goes on when it comes again with the
/// answer. The sealed state is for one person, tool, set of arguments and answer.
#[tokio::test]
async fn a_form_is_answered_in_a_second_round() {
    let rig = Rig::start().await;
    let secret = [("PIPEFY_MCP_CONFIRMATION_SECRET", "0123456789abcdef0123456789abcdef")];
    let (first, second) = (
        rig.server(rig.sandbox.url(), &secret, options()).await,
        rig.server(rig.sandbox.url(), &secret, Mode::Stateless.options()).await,
    );
    let pipe = pipe_with_form(&rig).await;
    let ana = rig.mint(json!({})).await;
    let ben = rig.mint(json!({"person": people()[1].email})).await;
    let arguments = json!({"pipe_id": pipe, "title": "By rounds"});
    let round = async |server: &Server, bearer: &str, tool: &'static str, arguments: &Value, more: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let authorization = format!("Bearer {bearer}");
        let headers = [
            ("Authorization", authorization.as_str()),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        server.post(&body, &headers).await.messages().pop().unwrap()
    };
    let asked = round(&first, &ana, "create_card", &arguments, json!({})).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let form = &result["inputRequests"]["form"];
    assert_eq!((&form["method"], &form["params"]["mode"]), (&json!("elicitation/create"), &json!("form")), "{asked}");
    let schema = &form["params"]["requestedSchema"];
    let content: serde_json::Map<String, Value> = schema["properties"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| schema["required"].as_array().is_some_and(|list| list.contains(&json!(name))))
        .map(|(name, field)| {
            let value = match (field["type"].as_str().unwrap(), field["format"].as_str()) {
                ("number" | "integer", _) => json!(7),
                ("boolean", _) => json!(true),
                (_, Some("date")) => json!("2026-03-05"),
                (_, Some("date-time")) => json!("2026-03-05T10:00:00Z"),
                (_, Some("email")) => json!("ana@example.com"),
                _ if name.contains("cost") => json!("12.50"),
                _ => field["enum"].get(0).cloned().unwrap_or_else(|| json!("text")),
            };
            (name.clone(), value)
        })
        .collect();
    let answer = |state: &Value, answer: Value| json!({"requestState": state, "inputResponses": {"form": answer}});
    let accept = |state: &Value| answer(state, json!({"action": "accept", "content": content}));
    let state = &result["requestState"];

    let text = state.as_str().unwrap();
    let tampered = json!(format!("{}A", &text[..text.len() - 1]));
    let other = json!({"pipe_id": pipe, "title": "Another"});
    for (what, refused) in [
        ("another person", round(&first, &ben, "create_card", &arguments, accept(state)).await),
        ("other arguments", round(&first, &ana, "create_card", &other, accept(state)).await),
        ("another tool", round(&first, &ana, "fill_card_phase_fields", &arguments, accept(state)).await),
        ("a tool that asks nobody", round(&first, &ana, "get_card", &arguments, accept(state)).await),
        ("tampered", round(&first, &ana, "create_card", &arguments, accept(&tampered)).await),
        ("nonsense", round(&first, &ana, "create_card", &arguments, accept(&json!("x"))).await),
    ] {
        assert_eq!(refused["error"]["code"], -32602, "{what}: {refused}");
        assert_eq!(refused["error"]["data"], json!({"reason": "invalid_request_state"}), "{what}");
    }
    // A state without an answer asks again; another replica with the secret takes the answer, with a newer bearer.
    let again = round(&first, &ana, "create_card", &arguments, json!({"requestState": state})).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    let newer = rig.mint(json!({})).await;
    let done = round(&second, &newer, "create_card", &arguments, accept(state)).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert!(done["result"]["structuredContent"]["createCard"]["card"]["id"].is_string(), "{done}");
    let replayed = round(&second, &newer, "create_card", &arguments, accept(state)).await;
    assert_eq!(replayed["error"]["data"], json!({"reason": "invalid_request_state"}), "{replayed}");
    let declined = round(
        &first,
        &ana,
        "create_card",
        &arguments,
        answer(&again["result"]["requestState"], json!({"action": "decline"})),
    )
    .await;
    assert!(declined["result"].to_string().contains("cancelled by the user"), "{declined}");
}

/// `confirm_after_untrusted` over HTTP: a session counts by itself; without sessions, or where replicas share them, text of
/// outsiders counts as read from the beginning.
#[tokio::test]
async fn a_person_confirms_what_destroys_by_session_and_always_without_one() {
    let rig = Rig::start().await;
    let asks = [("PIPEFY_MCP_CONFIRM_AFTER_UNTRUSTED", "true")];
    let pipe = pipe_with_form(&rig).await;
    let ana = format!("Bearer {}", rig.mint(json!({})).await);
    let json_options = || HttpOptions { json_response: true, ..options() };
    let sessions = rig.server(rig.sandbox.url(), &asks, json_options()).await;
    let headers = async || {
        let session = sessions.open(&[("Authorization", &ana)]).await;
        vec![("Authorization", ana.clone()), ("Mcp-Session-Id", session)]
    };
    let run = async |server: &Server, headers: &[(&str, String)], tool: &str, arguments: Value| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = server.post(&call(1, tool, arguments), &headers).await.json();
        // Without a session the oldest revision is meant, which has the text alone.
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str::<Value>(text).unwrap_or_else(|_| panic!("{answer}"))
    };
    let confirmed = async |server: &Server, headers: &[(&str, String)], name: &str| {
        let label = json!({"pipe_id": pipe, "name": name, "color": "#FF0000"});
        let made = run(server, headers, "create_label", label).await;
        let id = made["result"]["createLabel"]["label"]["id"].clone();
        let preview = run(server, headers, "delete_label", json!({"label_id": id})).await;
        json!({"label_id": id, "confirm": true, "confirmation_token": preview["confirmation_token"]})
    };
    let (one, two) = (headers().await, headers().await);
    assert_eq!(run(&sessions, one.as_slice(), "get_cards", json!({"pipe_id": pipe})).await["success"], true);
    for (session, code) in [(one.as_slice(), Some("PERSON_MUST_CONFIRM")), (two.as_slice(), None)] {
        let arguments = confirmed(&sessions, session, "Label").await;
        let done = run(&sessions, session, "delete_label", arguments).await;
        assert_eq!(done["error"]["code"].as_str(), code, "{done}");
    }
    let stateless = rig.server(rig.sandbox.url(), &asks, Mode::Stateless.options()).await;
    let alone = vec![("Authorization", ana.clone())];
    let alone = alone.as_slice();
    let arguments = confirmed(&stateless, alone, "Stateless").await;
    let refused = run(&stateless, alone, "delete_label", arguments.clone()).await;
    assert_eq!(refused["error"]["code"], "PERSON_MUST_CONFIRM", "{refused}");

    // The revision without sessions asks in a second round.
    let round = async |more: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let mut params = json!({"name": "delete_label", "arguments": arguments, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let headers = [
            ("Authorization", ana.as_str()),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "delete_label"),
        ];
        stateless.post(&body, &headers).await.messages().pop().unwrap()["result"].clone()
    };
    let asked = round(json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let yes = json!({"form": {"action": "accept", "content": {"confirm": true}}});
    let done = round(json!({"requestState": asked["requestState"], "inputResponses": yes})).await;
    assert_eq!(done["structuredContent"]["success"], true, "{done}");
}

async fn pipe_with_form(rig: &Rig) -> Value {
    let query = json!({"query": "{ organizations { pipes { id start_form_fields { id } } } }"});
    let request = rig.issuer.http.post(format!("{}/graphql", rig.sandbox.url()));
    let found = request.bearer_auth(pipefy_sandbox::DEFAULT_TOKEN).json(&query).send().await.unwrap();
    let found: Value = found.json().await.unwrap();
    let pipes =
        found["data"]["organizations"].as_array().unwrap().iter().flat_map(|row| row["pipes"].as_array().unwrap());
    let mut with_form = pipes.filter(|pipe| pipe["start_form_fields"].as_array().is_some_and(|all| !all.is_empty()));
    with_form.next().unwrap_or_else(|| panic!("{found}"))["id"].clone()
}

/// A standalone stream and a subscription end when the bearer that opened them does; the session goes on.
#[tokio::test]
async fn listening_ends_with_the_bearer() {
    let rig = Rig::start().await;
    let server = rig.server(rig.sandbox.url(), &[], options()).await;
    let short = format!("Bearer {}", rig.mint(json!({"expires_in": 6})).await);
    let session = server.open(&[("Authorization", &short)]).await;
    let mut stream = Wire::connect(server.address).await;
    stream.send(&get(&session, &[("Authorization", &short)])).await;
    assert_eq!(stream.head().await.status, 200);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"_meta": meta, "notifications": {"toolsListChanged": true}}});
    let headers = [
        ("Authorization", short.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "subscriptions/listen"),
    ];
    let mut subscription = Wire::connect(server.address).await;
    subscription.send(&post(&listen.to_string(), &headers)).await;
    let head = subscription.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let ended = async {
        assert_eq!(stream.chunk().await, None);
        while subscription.chunk().await.is_some() {}
    };
    tokio::time::timeout(LIMIT, ended).await.expect("both end with the bearer");
    let headers = [("Authorization", short.as_str()), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(server.post(&call(1, "search_pipes", json!({})), &headers).await.status, 401);
    let newer = format!("Bearer {}", rig.mint(json!({})).await);
    let headers = [("Authorization", newer.as_str()), ("Mcp-Session-Id", session.as_str())];
    assert_eq!(server.post(&call(2, "search_pipes", json!({})), &headers).await.json()["result"]["isError"], false);
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn bad_bearers_are_refused_alike() {
    let rig = Rig::start().await;
    let audience = [("PIPEFY_JWT_VERIFY_AUDIENCE", "true"), ("PIPEFY_JWT_AUDIENCE", PUBLIC)];
    let server = rig.server(rig.sandbox.url(), &audience, options()).await;
    let good = rig.mint(json!({"aud": ["pipefy", PUBLIC]})).await;
    let hello = initialize("2025-06-18");
    let accepted = server.post(&hello, &[("Authorization", &format!("Bearer {good}"))]).await;
    assert_eq!(accepted.status, 200, "{accepted:?}");

    let now = jiff::Timestamp::now().as_second();
    let mut bad: Vec<(String, String)> = Vec::new();
    for wish in [
        json!({"aud": ["pipefy"]}),
        json!({"aud": [format!("{PUBLIC}/")]}),
        json!({"without": ["aud"]}),
        json!({"claims": {"aud": 7}}),
        json!({"expires_in": -5}),
        json!({"expires_in": 0}),
        json!({"without": ["exp"]}),
        json!({"claims": {"exp": null}}),
        json!({"claims": {"exp": "soon"}}),
        json!({"claims": {"nbf": now + 3600}}),
        json!({"claims": {"iat": now + 3600}}),
        json!({"claims": {"nbf": "x"}}),
        json!({"claims": {"iss": format!("{}/", rig.sandbox.issuer_url())}}),
        json!({"claims": {"jti": 7}}),
        json!({"claims": {"sub": " "}}),
        json!({"without": ["azp", "sub"]}),
    ] {
        let mut whole = json!({"aud": ["pipefy", PUBLIC]});
        whole.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        bad.push((wish.to_string(), rig.mint(whole).await));
    }
    let parts: Vec<&str> = good.split('.').collect();
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[0]).unwrap()).unwrap();
    let kid = &header["kid"];
    for alg in ["none", "None", "nOnE", "", "RS512", "ES256"] {
        let header = encoded(&json!({"alg": alg, "typ": "JWT", "kid": kid}));
        bad.push((format!("alg {alg} without signature"), format!("{header}.{}.", parts[1])));
        bad.push((format!("alg {alg}"), format!("{header}.{}.{}", parts[1], parts[2])));
    }
    // The classic: the public key, which anybody has, as the secret of an HMAC.
    let keys: Value = {
        let url = format!("{}/protocol/openid-connect/certs", rig.sandbox.issuer_url());
        rig.issuer.http.get(url).send().await.unwrap().json().await.unwrap()
    };
    let key = &keys["keys"][0];
    let modulus = key["n"].as_str().unwrap();
    for secret in [modulus.as_bytes().to_vec(), URL_SAFE_NO_PAD.decode(modulus).unwrap(), key.to_string().into_bytes()]
    {
        let signed = format!("{}.{}", encoded(&json!({"alg": "HS256", "typ": "JWT", "kid": kid})), parts[1]);
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        bad.push(("HS256".to_owned(), format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac))));
    }
    let other = encoded(&json!({"sub": "someone-else", "iss": rig.sandbox.issuer_url(), "exp": now + 600, "azp": "x"}));
    for (what, token) in [
        ("another's claims", format!("{}.{other}.{}", parts[0], parts[2])),
        ("no kid", format!("{}.{}.{}", encoded(&json!({"alg": "RS256"})), parts[1], parts[2])),
        ("unknown kid", format!("{}.{}.{}", encoded(&json!({"alg": "RS256", "kid": "x"})), parts[1], parts[2])),
        (
            "own key",
            format!(
                "{}.{}.{}",
                encoded(&json!({"alg": "RS256", "kid": kid, "jwk": key, "jku": "http://127.0.0.1:1"})),
                parts[1],
                parts[2]
            ),
        ),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{good}.x")),
        ("cut", good[..good.len() - 2].to_owned()),
        ("padded", format!("{good}==")),
        ("two spaces", format!(" {good}")),
        ("trailing space and more", format!("{good} x")),
        ("two tokens", format!("{good},{good}")),
        ("oversized", format!("{good}{}", "A".repeat(20_000))),
        ("oversized garbage", "A".repeat(40_000)),
        ("garbage", "garbage".to_owned()),
        ("dots", "..".to_owned()),
        ("many dots", ".".repeat(500)),
        ("bytes", "\u{e9}.\u{e9}.\u{e9}".to_owned()),
        ("static token", pipefy_sandbox::DEFAULT_TOKEN.to_owned()),
    ] {
        bad.push((what.to_owned(), token));
    }
    let none = server.post(&hello, &[]).await;
    assert_eq!(none.status, 401);
    let challenge = "Bearer error=\"invalid_token\", error_description=\"Authentication required\", \
                     resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource/mcp\"";
    assert_eq!(none.header("www-authenticate"), Some(challenge));
    for (what, token) in &bad {
        let answer = server.post(&hello, &[("Authorization", &format!("Bearer {token}"))]).await;
        assert_eq!((answer.status, &answer.body), (401, &none.body), "{what}");
        assert_eq!(answer.header("www-authenticate"), Some(challenge), "{what}");
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    // Two headers: which of them a proxy has looked at, nobody can say.
    let (one, two) = (format!("Bearer {good}"), format!("Bearer {}", bad[0].1));
    for pair in [[&one, &two], [&two, &one], [&one, &one]] {
        let answer = server.post(&hello, &[("Authorization", pair[0]), ("Authorization", pair[1])]).await;
        assert_eq!((answer.status, &answer.body), (401, &none.body));
    }
    assert_eq!(server.app.sessions(), 1);
    assert!(server.lines.lock().unwrap().iter().filter(|line| line["status"] == 401).all(|line| line["sub"].is_null()));
}

/// What a server says to a bearer: 200, 401 or 503.
async fn status(server: &Server, token: &str) -> u16 {
    server.post(&initialize("2025-06-18"), &[("Authorization", &format!("Bearer {token}"))]).await.status
}

#[tokio::test]
async fn a_new_key_is_found_and_tokens_of_a_withdrawn_key_die() {
    let rig = Rig::start().await;
    let server = rig.server(rig.sandbox.url(), &[], options()).await;
    let (old, older) = (rig.mint(json!({})).await, rig.mint(json!({})).await);
    assert_eq!((status(&server, &old).await, status(&server, &old).await), (200, 200));
    rig.issuer.rotate().await;
    // Nobody has asked for the new keys yet.
    assert_eq!(status(&server, &old).await, 200);
    let new = rig.mint(json!({})).await;
    assert_eq!(status(&server, &new).await, 200, "the new key is asked for at once");
    assert_eq!(status(&server, &old).await, 401, "also what had been judged before");
    assert_eq!(status(&server, &older).await, 401);
    assert_eq!(status(&server, &new).await, 200);
}

#[tokio::test]
async fn trouble_with_the_issuer_is_not_the_callers_fault() {
    let rig = Rig::start().await;
    for endpoint in ["jwks", "discovery"] {
        let server = rig.server(rig.sandbox.url(), &[], options()).await;
        let token = rig.mint(json!({})).await;
        rig.issuer.faults(json!({"rules": [{"endpoint": endpoint, "status": 500}]})).await;
        let answer = server.post(&initialize("2025-06-18"), &[("Authorization", &format!("Bearer {token}"))]).await;
        assert_eq!((answer.status, answer.error_code()), (503, json!(-32000)), "{endpoint}");
        assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
        assert_eq!(answer.header("www-authenticate"), None);
        assert_eq!(status(&server, "garbage").await, 401, "what is bad without asking stays bad");
        rig.issuer.faults(json!({})).await;
        assert_eq!(status(&server, &token).await, 200, "{endpoint}");
    }

    let server = rig.server(rig.sandbox.url(), &[], options()).await;
    assert_eq!(status(&server, &rig.mint(json!({})).await).await, 200);
    for fault in [json!({"endpoint": "jwks", "drop": true}), json!({"endpoint": "jwks", "latency_ms": 20_000})] {
        rig.issuer.faults(json!({"rules": [fault]})).await;
        // Known keys go on serving, also bearers that were never seen.
        let token = rig.mint(json!({})).await;
        let begun = Instant::now();
        assert_eq!(status(&server, &token).await, 200);
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody waits for the issuer");
    }
    // An unknown key while the issuer does not answer: nobody can say.
    rig.issuer.faults(json!({"rules": [{"endpoint": "jwks", "status": 503}]})).await;
    rig.issuer.rotate().await;
    let unknown = rig.mint(json!({})).await;
    for _ in 0..2 {
        assert_eq!(status(&server, &unknown).await, 503);
    }
}
