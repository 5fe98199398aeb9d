//! One endpoint over real sockets: what is sent, how often, under whose bearer, and what comes of every kind of answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod mock;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use mock::{Mock, Reply, json, with};
use pipefy::settings::PipefySettings;
use pipefy::url_policy::UrlPolicy;
use pipefy::{
    Bearer, BearerSource, Budget, Credential, CredentialError, Deployment, Error, PipefyClient, PipefyEngine, Surface,
    cards, organizations,
};
use serde_json::json as value;
use tokio_util::sync::CancellationToken;

const CARD: &str = r#"{"data":{"card":{"id":"1"}}}"#;
const DELETED: &str = r#"{"data":{"deleteCard":{"success":true}}}"#;

fn engine(mock: &Mock) -> PipefyEngine {
    let settings = PipefySettings::for_base_url(&mock.url(""), UrlPolicy::Insecure).unwrap();
    PipefyEngine::build(&settings, Surface::Sdk, None).unwrap()
}

fn token(text: &str) -> Credential {
    Credential::static_token(&text.into()).unwrap()
}

fn session(mock: &Mock) -> PipefyClient {
    engine(mock).session(token("tok"))
}

async fn read(client: &PipefyClient) -> Result<pipefy::Data, Error> {
    client.query(&cards::get_card("1", true), &Budget::unlimited()).await
}

async fn write(client: &PipefyClient) -> Result<pipefy::Data, Error> {
    client.mutate(&cards::delete_card("1"), &Budget::unlimited()).await
}

fn within(ms: u64) -> Budget {
    Budget::unlimited().with_deadline(Instant::now() + Duration::from_millis(ms))
}

/// A source that hands out `t0`, `t1`, ... and counts.
#[derive(Default)]
struct Renewing {
    current: AtomicUsize,
    renewals: AtomicUsize,
    exhausted: bool,
}

impl BearerSource for Renewing {
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
        Box::pin(async { Bearer::new(&format!("t{}", self.current.load(Ordering::SeqCst)).into()) })
    }

    fn renew<'a>(&'a self, _: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
        Box::pin(async {
            self.renewals.fetch_add(1, Ordering::SeqCst);
            if self.exhausted {
                return Ok(None);
            }
            self.current.fetch_add(1, Ordering::SeqCst);
            self.bearer().await.map(Some)
        })
    }
}

#[tokio::test]
async fn a_request_is_one_post_with_document_variables_and_bearer() {
    let mock = Mock::start(|_, _| json(200, CARD)).await;
    let data = read(&session(&mock)).await.unwrap();
    assert_eq!(data.value(), value!({"card": {"id": "1"}}));
    let seen = &mock.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/graphql"));
    assert_eq!(seen.header("authorization"), Some("Bearer tok"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("cookie"), None);
    let body = seen.json();
    assert!(body["query"].as_str().unwrap().starts_with("query GetCard("));
    assert_eq!(body["variables"]["card_id"], "1");
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
}

#[tokio::test]
async fn each_endpoint_has_its_path() {
    use pipefy::{EndpointKind, Query, graphql};
    let mock = Mock::start(|_, _| json(200, r#"{"data":{"a":1}}"#)).await;
    let client = session(&mock);
    for (kind, path) in [
        (EndpointKind::Public, "/graphql"),
        (EndpointKind::Interfaces, "/graphql/interfaces"),
        (EndpointKind::Internal, "/internal_api"),
    ] {
        let query = Query::shared(graphql::read(kind, "{a}").unwrap().document, Default::default()).unwrap();
        client.query(&query, &Budget::unlimited()).await.unwrap();
        assert_eq!(mock.seen().last().unwrap().target, path);
    }
}

#[tokio::test]
async fn a_written_document_with_any_mutation_is_sent_once() {
    use pipefy::{EndpointKind, Mutation, Query, graphql};
    let mock = Mock::start(|_, _| with(503, &[], "")).await;
    let client = session(&mock);
    let written = graphql::read(EndpointKind::Public, "query A {me {id}} mutation B {deleteCard {success}}").unwrap();
    assert!(Query::shared(written.document.clone(), Default::default()).is_none());
    let mutation = Mutation::shared(written.document, Default::default());
    let error = client.execute(mutation.operation(), &Budget::unlimited()).await.unwrap_err();
    assert!(error.may_have_been_applied(), "{error}");
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn the_client_headers_name_surface_and_deployment() {
    for (surface, deployment, label, agent_end, sent) in [
        (Surface::Sdk, None, "sdk", "(sdk)", None),
        (Surface::Cli, None, "cli", "(cli)", None),
        (Surface::Mcp, Some(Deployment::Local), "mcp", "(mcp; local)", Some("local")),
        (Surface::Mcp, Some(Deployment::Hosted), "mcp", "(mcp; hosted)", Some("hosted")),
    ] {
        let mock = Mock::start(|_, _| json(200, CARD)).await;
        let settings = PipefySettings::for_base_url(&mock.url(""), UrlPolicy::Insecure).unwrap();
        let client = PipefyEngine::build(&settings, surface, deployment).unwrap().session(token("tok"));
        read(&client).await.unwrap();
        let seen = &mock.seen()[0];
        assert_eq!(seen.header("x-client-name"), Some(label));
        assert_eq!(seen.header("x-client-version"), Some(pipefy::VERSION));
        assert_eq!(seen.header("x-client-deployment"), sent);
        assert_eq!(seen.header("user-agent").unwrap(), format!("pipefy-sdk/{} {agent_end}", pipefy::VERSION));
    }
}

#[tokio::test]
async fn every_error_shape_is_a_message_and_never_a_page() {
    for (status, body, message, code) in [
        (401, r#"{"errors":[{"title":"Unauthorized","detail":"Sign in first"}]}"#, "Sign in first", None),
        (200, r#"{"errors":[{"title":"Unauthorized","detail":"Sign in first"}]}"#, "Sign in first", None),
        (200, r#"{"error":{"message":"No way","details":{"code":"X","correlation_id":"c-9"}}}"#, "No way", Some("X")),
        (200, r#"{"errors":[{"message":"   "}]}"#, "without saying why", None),
        (200, r#"{"errors":"text"}"#, "text", None),
        (422, r#"{"data":null,"errors":[{"message":"Bad","extensions":{"code":"C"}}]}"#, "Bad", Some("C")),
        (404, "<!DOCTYPE html><p>404 secret page</p>", "HTML page", None),
        (403, "<html>forbidden</html>", "HTML page", None),
        (200, "", "empty", None),
        (200, "[]", "HTTP 200", None),
        (200, "{}", "HTTP 200", None),
        (200, r#"{"data":null}"#, "neither data nor errors", None),
        (500, "plain words", "plain words", None),
        (200, "{\"data\":{\"card\"", "HTTP 200", None),
    ] {
        let mock = Mock::start(move |_, _| json(status, body)).await;
        for error in [read(&session(&mock)).await.unwrap_err(), write(&session(&mock)).await.unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains(message), "{body}: {text}");
            assert!(!text.contains("<p>") && !text.contains("<html"), "{text}");
            assert_eq!(error.codes().first().copied(), code, "{body}");
        }
        assert_eq!(mock.count(), 2, "{body}: none of these is repeated");
    }
    for (body, message) in [
        (&b"{\"data\":{\"card\":{\"id\":\"\xff\"}}}"[..], "no UTF-8 text"),
        (b"\x1f\x8b\x08", "no UTF-8 text"),
        (b"<html>S\xe3o Paulo</html>", "HTML page"),
        (b" \r\n", "empty"),
    ] {
        for status in [200, 422] {
            let mock = Mock::start(move |_, _| Reply::Answer(status, Vec::new(), body.to_vec())).await;
            let text = read(&session(&mock)).await.unwrap_err().to_string();
            assert!(text.contains(message), "{status} {body:?}: {text}");
        }
    }
    let mock = Mock::start(|_, _| json(200, r#"{"error":{"message":"m","details":{"correlation_id":"c-9"}}}"#)).await;
    assert_eq!(read(&session(&mock)).await.unwrap_err().correlation_id(), Some("c-9"));
}

#[tokio::test]
async fn partial_data_is_kept_with_its_errors() {
    let body = r#"{"data":{"card":{"id":"1","title":null}},"errors":[{"message":"title","path":["card","title"],
        "extensions":{"code":"PERMISSION_DENIED"}}]}"#;
    let mock = Mock::start(move |_, _| json(200, body)).await;
    let client = session(&mock);
    let query = cards::get_card("1", true);
    let response = client.execute(query.operation(), &Budget::unlimited()).await.unwrap();
    assert_eq!(response.data.unwrap().value()["card"]["id"], "1");
    assert_eq!(response.errors[0].path, Some(value!(["card", "title"])));
    assert!(matches!(read(&client).await.unwrap_err(), Error::Graphql { .. }));
}

#[tokio::test]
async fn a_denied_part_is_not_taken_for_a_lost_sign_in() {
    // Something was returned, so the caller is signed in, and a change may well have been made.
    let body = r#"{"data":{"card":{"id":"1"},"deleteCard":{"success":true}},
        "errors":[{"message":"no","path":["x"],"extensions":{"code":"UNAUTHORIZED"}}]}"#;
    let mock = Mock::start(move |_, _| json(200, body)).await;
    let source = Arc::new(Renewing::default());
    let client = engine(&mock).session(Credential::from_source(source.clone()));
    assert!(client.execute(cards::get_card("1", true).operation(), &Budget::unlimited()).await.is_ok());
    let error = write(&client).await.unwrap_err();
    assert!(matches!(error, Error::Graphql { .. }), "{error}");
    assert_eq!((mock.count(), source.renewals.load(Ordering::SeqCst)), (2, 0));

    let nothing = r#"{"data":{"card":null},"errors":[{"message":"no","extensions":{"code":"UNAUTHENTICATED"}}]}"#;
    let mock = Mock::start(move |_, _| json(200, nothing)).await;
    assert!(matches!(read(&session(&mock)).await.unwrap_err(), Error::Unauthorized { .. }));
}

#[tokio::test]
async fn after_a_401_a_read_is_repeated_once_and_a_write_is_not() {
    for refusal in [
        (401, ""),
        (401, "<html>"),
        (401, r#"{"errors":[{"title":"Unauthorized","detail":"x"}]}"#),
        (200, r#"{"errors":[{"title":"Unauthorized","detail":"x"}]}"#),
        (200, r#"{"errors":[{"message":"x","extensions":{"code":"UNAUTHENTICATED"}}]}"#),
    ] {
        let accept_t1 = move |_: usize, seen: &mock::Seen| match seen.header("authorization") {
            Some("Bearer t0") => json(refusal.0, refusal.1),
            _ => json(200, r#"{"data":{"card":{"id":"1"},"deleteCard":{"success":true}}}"#),
        };
        let mock = Mock::start(accept_t1).await;
        let source = Arc::new(Renewing::default());
        let client = engine(&mock).session(Credential::from_source(source.clone()));
        read(&client).await.unwrap();
        assert_eq!((mock.count(), source.renewals.load(Ordering::SeqCst)), (2, 1), "{refusal:?}");
        assert_eq!(mock.seen()[1].header("authorization"), Some("Bearer t1"));

        let mock = Mock::start(accept_t1).await;
        let source = Arc::new(Renewing::default());
        let client = engine(&mock).session(Credential::from_source(source.clone()));
        let error = write(&client).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { renewed: true, .. }), "{error}");
        assert!(error.to_string().contains("safe to repeat") && !error.may_have_been_applied());
        assert_eq!((mock.count(), source.renewals.load(Ordering::SeqCst)), (1, 1), "{refusal:?}");
        write(&client).await.unwrap();
        assert_eq!(mock.count(), 2);
    }
    // A second refusal is final, and a source that has nothing else is asked once.
    for exhausted in [false, true] {
        let mock = Mock::start(|_, _| json(401, "{}")).await;
        let source = Arc::new(Renewing { exhausted, ..Renewing::default() });
        let client = engine(&mock).session(Credential::from_source(source.clone()));
        assert!(matches!(read(&client).await.unwrap_err(), Error::Unauthorized { .. }));
        assert_eq!(mock.count(), if exhausted { 1 } else { 2 });
        assert_eq!(source.renewals.load(Ordering::SeqCst), 1);
    }
    let mock = Mock::start(|_, _| json(401, "{}")).await;
    assert!(matches!(read(&session(&mock)).await.unwrap_err(), Error::Unauthorized { renewed: false, .. }));
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn a_read_survives_passing_trouble() {
    for (name, trouble) in [
        ("429", with(429, &[], "")),
        ("502", with(502, &[], "<html>Bad gateway</html>")),
        ("503", with(503, &[], "")),
        ("504", with(504, &[], "")),
        ("reset", Reply::Reset),
        ("closed", Reply::Raw(Vec::new())),
        ("cut short", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\":".to_vec())),
        ("in a 200", json(200, r#"{"errors":[{"message":"slow down","extensions":{"code":"RATE_LIMITED"}}]}"#)),
        ("retry-after 0", with(429, &[("retry-after", "0")], "")),
        ("retry-after -1", with(429, &[("retry-after", "-1")], "")),
        ("retry-after words", with(503, &[("retry-after", "soon")], "")),
        ("retry-after past", with(503, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], "")),
        ("retry-after nothing", with(429, &[("retry-after", "")], "")),
        ("retry-after twice", with(504, &[("retry-after", "0, 0")], "")),
    ] {
        let mock = Mock::start(move |n, _| if n == 0 { trouble.clone() } else { json(200, CARD) }).await;
        let start = Instant::now();
        read(&session(&mock)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(mock.count(), 2, "{name}");
        assert!(start.elapsed() >= Duration::from_millis(150), "{name}: a pause is made");
        assert!(start.elapsed() < Duration::from_secs(15), "{name}");
    }
}

#[tokio::test]
async fn retry_after_is_honoured_and_a_long_one_ends_the_call() {
    let mock = Mock::start(|n, _| if n == 0 { with(429, &[("retry-after", "1")], "") } else { json(200, CARD) }).await;
    let start = Instant::now();
    read(&session(&mock)).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));

    // More digits than any number type has are still digits.
    let huge = "9".repeat(400);
    for (header, seconds) in [("86400", 86_400), ("99999999999999", 86_400), (huge.leak(), 86_400), ("21", 21)] {
        let mock = Mock::start(move |_, _| with(429, &[("retry-after", header)], "")).await;
        let error = read(&session(&mock)).await.unwrap_err();
        assert!(matches!(error, Error::RateLimited { retry_after_s, .. } if retry_after_s == seconds), "{error:?}");
        assert!(error.to_string().contains(&format!("{seconds} s")), "{error}");
        assert_eq!(mock.count(), 1, "{header}");
    }
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(600);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
    let mock = Mock::start(move |_, _| with(503, &[("retry-after", &date)], "")).await;
    read(&session(&mock)).await.unwrap_err();
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn repetition_is_bounded_and_stays_within_the_deadline() {
    let mock = Mock::start(|_, _| with(503, &[], "down")).await;
    let error = read(&session(&mock)).await.unwrap_err();
    assert!(matches!(error, Error::Http { status: 503, .. }), "{error}");
    assert_eq!(mock.count(), 4);

    let mock = Mock::start(|_, _| with(429, &[("retry-after", "15")], "")).await;
    let start = Instant::now();
    let error = session(&mock).query(&cards::get_card("1", true), &within(10_000)).await.unwrap_err();
    assert!(matches!(error, Error::RateLimited { retry_after_s: 15, .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(9), "no point in waiting");
    assert_eq!(mock.count(), 1);
}

/// Field report B18: a quota that is used up is no throttling. It is asked once and the words say that waiting is useless.
#[tokio::test]
async fn an_exhausted_quota_is_final() {
    for (status, code) in
        [(200, "USAGE_LIMIT_EXCEEDED"), (429, "USAGE_LIMIT_EXCEEDED"), (503, "EMAIL_SENDING_LIMIT_EXCEEDED")]
    {
        let body =
            format!(r#"{{"errors":[{{"message":"All calls used","extensions":{{"code":"{code}"}}}}],"data":null}}"#);
        let mock = Mock::start(move |_, _| json(status, &body)).await;
        let error = read(&session(&mock)).await.unwrap_err();
        assert_eq!((mock.count(), error.codes()), (1, vec![code]), "{status}");
        let text = error.to_string();
        assert!(text.starts_with("All calls used") && text.contains("repeating the call does not help"), "{text}");
    }
    // Its name alone makes a limit no quota.
    let limited = r#"{"errors":[{"message":"slow","extensions":{"code":"RATE_LIMIT_EXCEEDED"}}]}"#;
    let mock = Mock::start(move |n, _| if n == 0 { json(200, limited) } else { json(200, CARD) }).await;
    read(&session(&mock)).await.unwrap();
    assert_eq!(mock.count(), 2);
}

#[tokio::test]
async fn a_write_is_sent_exactly_once_whatever_happens() {
    for (name, reply, may_be_applied) in [
        ("429", with(429, &[("retry-after", "0")], ""), false),
        ("500", with(500, &[], "oops"), true),
        ("500 with a reason", json(500, r#"{"data":null,"errors":[{"message":"broke"}]}"#), true),
        ("422 with a reason", json(422, r#"{"data":null,"errors":[{"message":"no"}]}"#), false),
        ("502", with(502, &[], ""), true),
        ("503", with(503, &[("retry-after", "1")], ""), true),
        ("504", with(504, &[], ""), true),
        ("reset", Reply::Reset, true),
        ("closed", Reply::Raw(Vec::new()), true),
        ("garbage", Reply::Raw(b"garbage\r\n\r\n".to_vec()), true),
        ("cut short", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{".to_vec()), true),
        ("cut by reset", Reply::RawThenReset(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{".to_vec()), true),
        ("silence", Reply::Silence, true),
        ("empty", json(200, ""), true),
        ("null", json(200, r#"{"data":{"deleteCard":null}}"#), true),
        ("no payload", json(200, r#"{"data":{}}"#), true),
        ("declined", json(200, r#"{"data":{"deleteCard":{"success":false}}}"#), false),
        ("error", json(200, r#"{"data":null,"errors":[{"message":"no"}]}"#), false),
        ("throttled", json(200, r#"{"errors":[{"message":"x","extensions":{"code":"THROTTLED"}}]}"#), false),
        ("moved", with(307, &[("location", "/elsewhere")], ""), true),
    ] {
        let mock = Mock::start(move |_, _| reply.clone()).await;
        let limit = if name == "silence" { 2_000 } else { 60_000 };
        let error = session(&mock).mutate(&cards::delete_card("1"), &within(limit)).await.unwrap_err();
        assert_eq!(error.may_have_been_applied(), may_be_applied, "{name}: {error}");
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(mock.count(), 1, "{name}");
    }
    // An answer that is too large to be read is an answer: the write was there.
    let (endpoint, kind) = (pipefy::EndpointKind::Public, pipefy::OperationKind::Mutation);
    let unread = Error::TooLarge { endpoint, limit: 1, kind };
    assert!(unread.may_have_been_applied() && unread.to_string().contains("read it back"), "{unread}");
    // Nobody there: nothing was sent, and the message says so.
    let port = Mock::start(|_, _| json(200, "")).await.port;
    let base = format!("http://127.0.0.1:{port}");
    let settings = PipefySettings::for_base_url(&base, UrlPolicy::Insecure).unwrap();
    let client = PipefyClient::connect(&settings, token("tok")).unwrap();
    let error = write(&client).await.unwrap_err();
    assert!(matches!(error, Error::Transport { sent: false, .. }), "{error:?}");
    assert!(error.to_string().contains("was not applied") && !error.may_have_been_applied());
}

#[tokio::test]
async fn a_write_on_a_connection_that_died_while_idle_is_not_sent_twice() {
    // The first answer promises to keep the connection and then closes it; the write goes out on a pooled connection.
    let keep = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{CARD}", CARD.len());
    let mock = Mock::start(move |_, seen| {
        if seen.text().contains("deleteCard") { json(200, DELETED) } else { Reply::Raw(keep.clone().into_bytes()) }
    })
    .await;
    let client = session(&mock);
    for _ in 0..20 {
        read(&client).await.unwrap();
        let _ = write(&client).await;
    }
    assert_eq!(mock.seen().iter().filter(|s| s.text().contains("deleteCard")).count(), 20);
}

#[tokio::test]
async fn the_deadline_reaches_the_socket_and_is_named() {
    let mock = Mock::start(|_, _| Reply::Silence).await;
    let client = session(&mock);
    let start = Instant::now();
    let error = client.query(&cards::get_card("1", true), &within(2_000)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20));
    let Error::Timeout { limit, .. } = &error else { panic!("{error}") };
    assert!(*limit <= Duration::from_secs(2));
    assert!(error.to_string().contains("gave no answer within "), "{error}");
    assert!(mock.closed(1).await, "the server sees the connection close");
    assert_eq!(mock.count(), 1, "time that has run out is not spent again");

    // A body that never ends is cut off the same way.
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n{\"data\":";
    let slow = Mock::start(move |_, _| Reply::Begun(head.to_vec())).await;
    let error = session(&slow).mutate(&cards::delete_card("1"), &within(2_000)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }) && error.may_have_been_applied());
    assert!(slow.closed(1).await, "the server sees the connection close");

    // A deadline that has passed sends nothing.
    let error = client.query(&cards::get_card("1", true), &within(0)).await.unwrap_err();
    assert!(matches!(error, Error::Cancelled { sent: false, .. }), "{error}");
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn a_slow_source_of_bearers_is_waited_for_no_longer_than_the_budget() {
    struct Stuck(&'static str);
    impl BearerSource for Stuck {
        fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
            Box::pin(async {
                if self.0 == "bearer" {
                    std::future::pending::<()>().await;
                }
                Bearer::new(&"t".into())
            })
        }
        fn renew<'a>(&'a self, _: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
            Box::pin(async {
                if self.0 == "renew" {
                    std::future::pending::<()>().await;
                }
                Err(CredentialError::Refused { message: "the session has ended; run `pipefy auth login`".into() })
            })
        }
    }
    for (stuck, expected) in [("bearer", "cancelled"), ("renew", "sign-in"), ("", "pipefy auth login")] {
        let mock = Mock::start(|_, _| json(401, "{}")).await;
        let client = engine(&mock).session(Credential::from_source(Arc::new(Stuck(stuck))));
        let start = Instant::now();
        let error = client.query(&cards::get_card("1", true), &within(2_000)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(20), "{stuck}");
        assert!(error.to_string().contains(expected), "{stuck}: {error}");
        assert_eq!(mock.count(), usize::from(stuck != "bearer"), "{stuck}");
    }
}

#[tokio::test]
async fn cancellation_reaches_the_socket_at_once() {
    let mock = Mock::start(|_, _| Reply::Silence).await;
    let client = session(&mock);
    for (n, mutation) in [(1, false), (2, true)] {
        let cancel = CancellationToken::new();
        let budget = Budget::unlimited().with_cancel(cancel.clone());
        let call = async {
            if mutation {
                client.mutate(&cards::delete_card("1"), &budget).await
            } else {
                client.query(&cards::get_card("1", true), &budget).await
            }
        };
        let (result, at) = tokio::join!(call, async {
            while mock.count() < n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
            Instant::now()
        });
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Cancelled { sent: true, .. }));
        assert_eq!(error.may_have_been_applied(), mutation);
        assert!(at.elapsed() < Duration::from_secs(10));
        assert!(mock.closed(n).await);
        assert_eq!(mock.count(), n);
    }
    // Dropping the call does the same.
    let call = async { client.query(&cards::get_card("1", true), &Budget::unlimited()).await };
    tokio::select! {
        _ = call => panic!("no answer was given"),
        () = async { while mock.count() < 3 { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
    }
    assert!(mock.closed(3).await);

    // During the pause between two attempts.
    let busy = Mock::start(|_, _| with(429, &[("retry-after", "15")], "")).await;
    let cancel = CancellationToken::new();
    let budget = Budget::unlimited().with_cancel(cancel.clone());
    let client = session(&busy);
    let query = cards::get_card("1", true);
    let start = Instant::now();
    let (result, ()) = tokio::join!(client.query(&query, &budget), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    });
    assert!(matches!(result.unwrap_err(), Error::Cancelled { .. }));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn redirects_are_not_followed_and_cookies_not_kept() {
    let other = Mock::start(|_, _| json(200, CARD)).await;
    let location = other.url("/graphql");
    let mock = Mock::start(move |_, _| with(302, &[("location", &location), ("set-cookie", "a=b")], "")).await;
    let client = session(&mock);
    let error = read(&client).await.unwrap_err();
    assert!(error.to_string().contains("302") && error.to_string().contains("base URL"), "{error}");
    assert_eq!(other.count(), 0, "the bearer goes nowhere else");

    let mock = Mock::start(|_, _| with(200, &[("set-cookie", "session=1; Path=/")], CARD)).await;
    let client = session(&mock);
    for _ in 0..3 {
        read(&client).await.unwrap();
    }
    assert!(mock.seen().iter().all(|s| s.header("cookie").is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_identities_on_one_engine_never_mix() {
    // The answer names the bearer it was asked under.
    let mock = Mock::start(|_, seen| {
        let bearer = seen.header("authorization").unwrap_or_default().to_owned();
        json(200, value!({"data": {"card": {"id": bearer, "asked": seen.json()["variables"]["card_id"]}}}))
    })
    .await;
    let engine = engine(&mock);
    let sessions = [engine.session(token("alice-token")), engine.session(token("bob-token"))];
    let calls = (0..400).map(|n| {
        let (client, name) = if n % 2 == 0 { (&sessions[0], "alice") } else { (&sessions[1], "bob") };
        async move {
            let id = format!("{name}-{n}");
            let data = client.query(&cards::get_card(&id, true), &Budget::unlimited()).await.unwrap().value();
            assert_eq!(data["card"]["id"], format!("Bearer {name}-token"));
            assert_eq!(data["card"]["asked"], id);
        }
    });
    join_all(calls).await;
    assert_eq!(mock.count(), 400);
    for seen in mock.seen() {
        let asked = seen.json()["variables"]["card_id"].as_str().unwrap().to_owned();
        let name = asked.split('-').next().unwrap();
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {name}-token").as_str()));
    }
}

#[tokio::test]
async fn a_large_answer_is_kept_as_it_came() {
    let text = "x".repeat(3_000_000);
    let body = format!(r#"{{"data":{{"organizations":[{{"id":"1","name":"{text}","n":1.50}}]}}}}"#);
    let mock = Mock::start(move |_, _| json(200, &body)).await;
    let data = session(&mock).query(&organizations::list_organizations(), &Budget::unlimited()).await.unwrap();
    assert!(data.text().ends_with(r#""n":1.50}]}"#) && data.len() > 3_000_000);
}

#[tokio::test]
async fn a_token_that_an_answer_repeats_is_masked() {
    const TOKEN: &str = "canary-token-of-ana";
    for (status, body) in [
        (500, format!("token was Bearer {TOKEN}")),
        (400, format!(r#"{{"error":{{"message":"bad {TOKEN}","details":{{"code":"{TOKEN}"}}}}}}"#)),
        (200, format!(r#"{{"errors":[{{"message":"bad {TOKEN}","extensions":{{"code":"X","header":"{TOKEN}"}}}}]}}"#)),
        (200, format!(r#"{{"data":{{"card":null}},"errors":[{{"message":"{TOKEN}"}}]}}"#)),
        (401, format!(r#"{{"errors":[{{"message":"{TOKEN} is not known"}}]}}"#)),
        (429, format!(r#"{{"errors":[{{"message":"{TOKEN} is quick"}}]}}"#)),
    ] {
        let mock = Mock::start(move |_, _| json(status, &body)).await;
        let client = engine(&mock).session(token(TOKEN));
        let error = client.query(&cards::get_card("1", true), &within(300)).await.unwrap_err();
        assert!(!error.to_string().contains(TOKEN), "{error}");
        assert!(!format!("{error:?}").contains(TOKEN), "{error:?}");
    }
}

#[tokio::test]
async fn data_that_cannot_be_read_is_no_empty_answer() {
    for value in [r#""\ud83d""#.to_owned(), "1e400".to_owned(), format!("{}1{}", "[".repeat(200), "]".repeat(200))] {
        let mock = Mock::start(move |_, _| {
            json(200, format!(r#"{{"data":{{"deleteCard":{{"success":true,"x":{value}}}}}}}"#))
        })
        .await;
        let client = session(&mock);
        let error = read(&client).await.unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        assert!(write(&client).await.unwrap_err().may_have_been_applied());
    }
}

#[tokio::test]
async fn no_secret_is_printed_by_anything_that_knows_one() {
    const CANARY: &str = "canary-7f3a9c";
    let mock = Mock::start(|n, _| match n {
        0 => json(401, r#"{"errors":[{"title":"Unauthorized","detail":"x"}]}"#),
        1 => with(302, &[("location", "/x")], ""),
        2 => Reply::Reset,
        3 => with(500, &[], "oops"),
        _ => Reply::Silence,
    })
    .await;
    let engine = engine(&mock);
    let credential = token(CANARY);
    let bearer = Bearer::new(&CANARY.into()).unwrap();
    let client = engine.session(credential.clone());
    let mut shown = vec![
        format!("{credential:?} {bearer:?} {client:?} {engine:?} {:?}", engine.endpoints()),
        format!("{:?}", client.transfer()),
        format!("{:?}", cards::delete_card("1")),
    ];
    for n in 0..5 {
        let error = client.mutate(&cards::delete_card("1"), &within(400)).await.unwrap_err();
        shown.push(format!("{n} {error} {error:?} {:#?}", error));
    }
    let unusable = Credential::static_token(&format!("{CANARY}\n").into()).unwrap_err();
    shown.push(format!("{unusable} {unusable:?}"));
    let source = Credential::from_source(Arc::new(Leaky));
    shown.push(format!("{source:?}"));
    for text in shown {
        assert!(!text.contains(CANARY), "{text}");
    }
    assert!(mock.seen().iter().all(|s| s.header("authorization").unwrap().ends_with(CANARY)));

    struct Leaky;
    impl BearerSource for Leaky {
        fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
            Box::pin(async { Bearer::new(&CANARY.into()) })
        }
        fn renew<'a>(&'a self, _: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
            Box::pin(async { Ok(None) })
        }
    }
}

mod schema_cache {
    use super::*;
    use pipefy::{EndpointKind, Query, graphql};

    fn caching(mock: &Mock) -> PipefyEngine {
        let mut settings = PipefySettings::for_base_url(&mock.url(""), UrlPolicy::Insecure).unwrap();
        settings.gql_reuse_fetched_graphql_schema = true;
        PipefyEngine::build(&settings, Surface::Sdk, None).unwrap()
    }

    fn own(text: &str) -> Query {
        let written = graphql::read(EndpointKind::Public, text).unwrap();
        Query::shared(written.document, Default::default()).unwrap()
    }

    fn is_introspection(seen: &mock::Seen) -> bool {
        seen.text().contains("__schema")
    }

    fn schema() -> serde_json::Value {
        let named = |kind: &str, name: &str| value!({"kind": kind, "name": name, "ofType": null});
        value!({"data": {"__schema": {
            "queryType": {"name": "Query"}, "mutationType": null, "subscriptionType": null, "directives": [],
            "types": [
                {"kind": "OBJECT", "name": "Query", "fields": [
                    {"name": "me", "args": [], "type": named("OBJECT", "User"), "isDeprecated": false},
                    {"name": "user", "args": [{"name": "by", "type": named("INPUT_OBJECT", "By"), "defaultValue": null}],
                     "type": named("OBJECT", "User"), "isDeprecated": false}]},
                {"kind": "INPUT_OBJECT", "name": "By", "inputFields": [
                    {"name": "user_id", "type": named("SCALAR", "ID"), "defaultValue": null}]},
                {"kind": "OBJECT", "name": "User", "fields": [
                    {"name": "id", "args": [], "type": named("SCALAR", "ID"), "isDeprecated": false}]},
                {"kind": "SCALAR", "name": "ID"}
            ]
        }}})
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_introspection_serves_many_callers_with_different_tokens() {
        let mock = Mock::start(|_, seen| {
            if is_introspection(seen) {
                Reply::Late(Duration::from_millis(300), 200, schema().to_string().into_bytes())
            } else {
                json(200, r#"{"data":{"me":{"id":"1"}}}"#)
            }
        })
        .await;
        let engine = caching(&mock);
        let calls = (0..100).map(|n| {
            let client = engine.session(token(&format!("token-{n}")));
            async move { client.query(&own("{me {id}}"), &Budget::unlimited()).await.map(|d| d.value()) }
        });
        for result in join_all(calls).await {
            assert_eq!(result.unwrap()["me"]["id"], "1");
        }
        let seen = mock.seen();
        assert_eq!(seen.iter().filter(|s| is_introspection(s)).count(), 1);
        // Every caller's own request still went out under its own token.
        let mut bearers: Vec<_> = seen
            .iter()
            .filter(|s| !is_introspection(s))
            .map(|s| s.header("authorization").unwrap().to_owned())
            .collect();
        bearers.sort();
        bearers.dedup();
        assert_eq!(bearers.len(), 100);

        // A document that does not fit is refused here, without a request.
        let error = engine.session(token("x")).query(&own("{me {nothing}}"), &Budget::unlimited()).await.unwrap_err();
        assert!(matches!(error, Error::Document { .. }) && error.to_string().contains("nothing"), "{error}");
        assert_eq!(mock.count(), 101);
    }

    /// With the cache, variables are checked before anything is sent and the right name is told; without it they are sent.
    #[tokio::test]
    async fn variables_are_typed_from_the_schema() {
        let answer = |seen: &mock::Seen| match is_introspection(seen) {
            true => json(200, schema()),
            false => json(200, r#"{"data":{"user":{"id":"1"}}}"#),
        };
        let mock = Mock::start(move |_, seen| answer(seen)).await;
        let ask = |variables: serde_json::Value| {
            let written = graphql::read(EndpointKind::Public, "query($by: By) {user(by: $by) {id}}").unwrap();
            Query::shared(written.document, variables.as_object().unwrap().clone()).unwrap()
        };
        let typed = caching(&mock).session(token("x"));
        typed.query(&ask(value!({"by": {"user_id": 5}})), &Budget::unlimited()).await.unwrap();
        let sent = mock.count();
        for (variables, hint) in [
            (value!({"by": {"userId": 5}}), "did you mean user_id?"),
            (value!({"by": {"user_id": true}}), "$by.user_id must be ID"),
            (value!({"by": "5"}), "$by must be an object"),
        ] {
            let error = typed.query(&ask(variables), &Budget::unlimited()).await.unwrap_err();
            assert!(matches!(error, Error::Document { .. }) && error.to_string().contains(hint), "{error}");
        }
        assert_eq!(mock.count(), sent);
        let settings = PipefySettings::for_base_url(&mock.url(""), UrlPolicy::Insecure).unwrap();
        let untyped = PipefyEngine::build(&settings, Surface::Sdk, None).unwrap().session(token("x"));
        untyped.query(&ask(value!({"by": {"userId": 5}})), &Budget::unlimited()).await.unwrap();
        assert_eq!(mock.count(), sent + 1);
    }

    #[tokio::test]
    async fn a_failed_introspection_is_not_kept_and_does_not_stand_in_the_way_of_others() {
        let fail = Arc::new(AtomicUsize::new(1));
        let mock = Mock::start({
            let fail = fail.clone();
            move |_, seen| match (is_introspection(seen), fail.load(Ordering::SeqCst)) {
                (true, 1) => json(200, r#"{"data":null,"errors":[{"message":"no introspection today"}]}"#),
                (true, 2) => json(200, r#"{"data":{"__schema":null}}"#),
                (true, _) => json(200, schema()),
                _ => json(200, r#"{"data":{"me":{"id":"1"}}}"#),
            }
        })
        .await;
        let client = caching(&mock).session(token("tok"));
        for text in ["no introspection today", "cannot be used"] {
            let error = client.query(&own("{me {id}}"), &Budget::unlimited()).await.unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            fail.fetch_add(1, Ordering::SeqCst);
        }
        client.query(&own("{me {id}}"), &Budget::unlimited()).await.unwrap();
        client.query(&own("{me {id}}"), &Budget::unlimited()).await.unwrap();
        assert_eq!(mock.seen().iter().filter(|s| is_introspection(s)).count(), 3);
    }

    #[tokio::test]
    async fn a_caller_that_leaves_during_the_fetch_takes_nobody_with_it() {
        let mock = Mock::start(|_, seen| {
            if is_introspection(seen) {
                Reply::Late(Duration::from_millis(300), 200, schema().to_string().into_bytes())
            } else {
                json(200, r#"{"data":{"me":{"id":"1"}}}"#)
            }
        })
        .await;
        let engine = caching(&mock);
        let cancel = CancellationToken::new();
        let budget = Budget::unlimited().with_cancel(cancel.clone());
        let (first, second) = (engine.session(token("a")), engine.session(token("b")));
        let (left, stayed, ()) = tokio::join!(
            async { first.query(&own("{me {id}}"), &budget).await },
            async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                second.query(&own("{me {id}}"), &Budget::unlimited()).await
            },
            async {
                tokio::time::sleep(Duration::from_millis(150)).await;
                cancel.cancel();
            },
        );
        assert!(matches!(left.unwrap_err(), Error::Cancelled { .. }));
        stayed.unwrap();
    }

    #[tokio::test]
    async fn fixed_and_narrowed_documents_do_not_wait_for_a_schema() {
        let mock = Mock::start(|_, seen| if is_introspection(seen) { Reply::Silence } else { json(200, CARD) }).await;
        let client = caching(&mock).session(token("tok"));
        client.query(&cards::get_card("1", true), &within(5000)).await.unwrap();
        let narrowed = pipefy::narrow(&pipefy::documents::cards::GET_CARD, "card", &["title".to_owned()]).unwrap();
        let query = cards::get_card("1", true).with_document(narrowed);
        client.query(&query, &within(5000)).await.unwrap();
        assert_eq!(mock.count(), 2);
        let sent = mock.seen()[1].json();
        assert_eq!(sent["variables"], value!({"card_id": "1"}));
        assert!(!sent["query"].as_str().unwrap().contains("includeFields"), "{sent}");
    }
}

#[tokio::test]
async fn progress_only_rises() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<u64>>);
    impl pipefy::Progress for Heard {
        fn report(&self, done: u64, _: Option<u64>, _: &str) {
            self.0.lock().unwrap().push(done);
        }
    }
    let heard = Arc::new(Heard::default());
    let budget = Budget::unlimited().with_progress(heard.clone());
    join_all((0..5).map(|_| {
        let budget = budget.clone();
        async move { budget.advance(2, Some(10), "x") }
    }))
    .await;
    assert_eq!(*heard.0.lock().unwrap(), [2, 4, 6, 8, 10]);
}
