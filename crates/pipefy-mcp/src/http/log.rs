//! The request id and the `http_request` line: one JSON object a line, exactly one line a request, whatever becomes of it.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hyper::body::{Frame, SizeHint};
use pipefy::settings::TrustedProxies;
use tower::{Layer, Service};

use super::refusal::Refused;
use super::{HttpOptions, SESSION_ID};
use crate::log_line::LogLine;
use crate::metrics::Metrics;
use crate::stderr::Lines;
use crate::traces::{RequestSpan, Traces};

/// Longest request id, session id or path that is logged as sent.
const LONGEST: usize = 128;

/// Ties together what one HTTP request caused: on its `http_request` line, and for the handler in the parts' extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelationId(pub Arc<str>);

/// The caller, as far as it is logged. Filled in by the bearer check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(Arc<OnceLock<(Option<String>, String)>>);

impl Caller {
    pub(crate) fn set(&self, subject: Option<String>, client_id: String) {
        // Only the first can be the one.
        let _second = self.0.set((subject, client_id));
    }
}

/// Puts the log line around a service.
#[derive(Clone)]
pub(crate) struct RequestLog {
    lines: Lines,
    trusted_proxies: Arc<TrustedProxies>,
    metrics: Option<Arc<Metrics>>,
    traces: Option<Traces>,
}

impl RequestLog {
    pub(crate) fn new(options: &HttpOptions, trusted_proxies: Arc<TrustedProxies>) -> Self {
        let HttpOptions { lines, metrics, traces, .. } = options;
        Self { lines: lines.0.clone(), trusted_proxies, metrics: metrics.clone(), traces: traces.clone() }
    }
}

impl<S> Layer<S> for RequestLog {
    type Service = Logged<S>;

    fn layer(&self, inner: S) -> Logged<S> {
        Logged { inner, log: self.clone() }
    }
}

/// A response on its way.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// See [`RequestLog`].
#[derive(Clone)]
pub(crate) struct Logged<S> {
    inner: S,
    log: RequestLog,
}

impl<S> Service<Request<Body>> for Logged<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut line = Line::begin(&request, &self.log);
        if let Some(span) = &line.span {
            span.travel_with(request.extensions_mut());
        }
        request.extensions_mut().insert(CorrelationId(line.request_id.clone()));
        request.extensions_mut().insert(line.caller.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            line.status = Some(response.status().as_u16());
            line.refused = response.extensions().get::<Refused>().map(|refused| refused.0);
            if line.session_id.is_none() {
                line.session_id = response.headers().get(SESSION_ID).and_then(|value| session_id(value.to_str().ok()?));
            }
            let (parts, body) = response.into_parts();
            if hyper::body::Body::is_end_stream(&body) {
                return Ok(Response::from_parts(parts, body));
            }
            Ok(Response::from_parts(parts, Body::new(LoggedBody { body, line: Some(line) })))
        })
    }
}

/// One line, written when it is dropped: with the response's last byte, with its connection, or with a crash before either.
struct Line {
    lines: Lines,
    begun: Instant,
    method: http::Method,
    path: String,
    status: Option<u16>,
    client_ip: Option<IpAddr>,
    session_id: Option<String>,
    request_id: Arc<str>,
    caller: Caller,
    refused: Option<&'static str>,
    metrics: Option<Arc<Metrics>>,
    span: Option<RequestSpan>,
}

impl Line {
    fn begin(request: &Request<Body>, log: &RequestLog) -> Self {
        let headers = request.headers();
        if let Some(metrics) = &log.metrics {
            metrics.request_begun();
        }
        Self {
            lines: log.lines.clone(),
            begun: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            status: None,
            client_ip: client_ip(request, &log.trusted_proxies),
            session_id: headers.get(SESSION_ID).and_then(|value| session_id(value.to_str().ok()?)),
            request_id: request_id(headers),
            caller: Caller::default(),
            refused: None,
            metrics: log.metrics.clone(),
            span: log.traces.as_ref().and_then(|traces| traces.request(request)),
        }
    }

    fn text(&self) -> String {
        let caller = self.caller.0.get();
        LogLine::new("http_request")
            .text("method", Some(self.method.as_str()))
            .text("path", Some(&self.path))
            .number("status", self.status.map(u64::from))
            .millis("duration_ms", self.begun.elapsed())
            .text("client_ip", self.client_ip.map(|ip| ip.to_string()).as_deref())
            .text("session_id", self.session_id.as_deref())
            .text("request_id", Some(&self.request_id))
            .text("sub", caller.and_then(|caller| caller.0.as_deref()))
            .text("client_id", caller.map(|caller| caller.1.as_str()))
            .end()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        (self.lines)(&self.text());
        if let Some(metrics) = &self.metrics {
            metrics.request_ended(&self.method, self.status, self.refused);
        }
        if let Some(span) = &mut self.span {
            span.ended(self.status, self.refused);
        }
    }
}

struct LoggedBody {
    body: Body,
    line: Option<Line>,
}

impl hyper::body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // Written before the client can see the end, so that who has the answer finds the line.
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.line = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An id that no other request has: keyed by what the system gave this process once, so that a request costs no system call.
/// It ties lines together and is no secret.
fn new_id() -> uuid::Uuid {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = &*KEYS;
    let bits = u128::from(high.hash_one(count)) << 64 | u128::from(low.hash_one(count));
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

/// The first usable of the client's own ids, or a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let sent = ["x-request-id", "x-correlation-id"].into_iter().find_map(|name| {
        let id = headers.get(name)?.to_str().ok()?.trim();
        (!id.is_empty() && id.len() <= LONGEST).then_some(id)
    });
    match sent {
        Some(id) => id.into(),
        None => Arc::from(&*new_id().as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())),
    }
}

/// The id without its seal: it names the session and opens nothing.
fn session_id(sealed: &str) -> Option<String> {
    let id = sealed.split('.').next()?;
    (!id.is_empty() && id.len() <= LONGEST).then(|| id.to_owned())
}

/// Whether the peer is one of the trusted proxies.
pub(super) fn is_trusted(extensions: &http::Extensions, trusted: &TrustedProxies) -> bool {
    extensions.get::<ConnectInfo<SocketAddr>>().is_some_and(|peer| trusted.contains(peer.0.ip()))
}

/// The peer, or, behind trusted proxies, the last address that is none of them.
fn client_ip(request: &Request<Body>, trusted: &TrustedProxies) -> Option<IpAddr> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>()?.0.ip().to_canonical();
    if !trusted.contains(peer) {
        return Some(peer);
    }
    let forwarded = request.headers().get_all("x-forwarded-for").into_iter();
    let hops: Vec<&str> =
        forwarded.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).collect();
    let mut hops = hops.iter().rev().filter_map(|hop| hop.trim().parse::<IpAddr>().ok());
    // Where everybody is trusted, the first hop is the client's own word.
    let client = hops.clone().find(|ip| !trusted.contains(*ip)).or_else(|| hops.next_back());
    Some(client.unwrap_or(peer))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn id(pairs: &[(&'static str, &str)]) -> String {
        let headers = pairs.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        request_id(&headers.collect()).to_string()
    }

    #[test]
    fn request_ids() {
        assert_eq!(id(&[("x-request-id", " a b ")]), "a b");
        assert_eq!(id(&[("x-request-id", " "), ("x-correlation-id", "c")]), "c");
        let long = "x".repeat(129);
        assert_eq!(id(&[("x-request-id", &long), ("x-correlation-id", "c")]), "c");
        assert_eq!(id(&[("x-request-id", &"x".repeat(128))]).len(), 128);
        for none in [id(&[]), id(&[("x-request-id", &long)]), id(&[("x-request-id", "\u{e9}")])] {
            assert!(uuid::Uuid::parse_str(&none).is_ok(), "{none}");
        }
    }

    #[test]
    fn client_addresses() {
        let proxies = |list: &[&str]| {
            TrustedProxies::parse(&list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let ip_by = |trusted: &TrustedProxies, peer: &str, forwarded: &[&str]| {
            let mut request = Request::builder();
            for value in forwarded {
                request = request.header("x-forwarded-for", *value);
            }
            let mut request = request.body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
            client_ip(&request, trusted).unwrap().to_string()
        };
        assert_eq!(ip_by(&proxies(&["*"]), "1.2.3.4", &["9.9.9.9, 10.0.0.1"]), "9.9.9.9");
        assert_eq!(ip_by(&proxies(&[]), "127.0.0.1", &["9.9.9.9"]), "127.0.0.1");
        let trusted = proxies(&["127.0.0.1", "10.0.0.0/8"]);
        let ip = |peer: &str, forwarded: &[&str]| ip_by(&trusted, peer, forwarded);
        assert_eq!(ip("1.2.3.4", &["9.9.9.9"]), "1.2.3.4");
        assert_eq!(ip("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(ip("127.0.0.1", &["9.9.9.9"]), "9.9.9.9");
        assert_eq!(ip("127.0.0.1", &["6.6.6.6, 9.9.9.9", "10.0.0.1"]), "9.9.9.9");
        assert_eq!(ip("::ffff:127.0.0.1", &["9.9.9.9, nonsense"]), "9.9.9.9");
    }

    #[test]
    fn the_seal_is_not_logged() {
        assert_eq!(session_id("abc.def").unwrap(), "abc");
        assert_eq!(session_id(""), None);
        assert_eq!(session_id(&"a".repeat(129)), None);
    }
}
