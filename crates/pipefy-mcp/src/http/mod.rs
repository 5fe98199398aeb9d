//! The HTTP edge: MCP over streamable HTTP, for one person on loopback or for many behind a proxy.
//!
//! ```text
//! listen     socket, ready line, graceful end     connections   accept, limits of time     probes   /metrics
//!  log       request id and http_request line, around everything
//!   front    /mcp   and by a router: /mcp/ -> 307   /healthz   /readyz   /.well-known/oauth-protected-resource (hosted)   else 404
//!    endpoint  bearer > body cap > Host, Origin > narrowing headers > sealed id > the caller's limits > method, Accept, content
//!              type, JSON, shape
//!     sessions, store (handshake era)   |   one request alone (stateless, and 2026-07-28: exchange_era)
//!      direct    calls and lists that need no loop   |   channel   rmcp's service loop, over our own transport
//! ```
//!
//! The protocol's types, negotiation and service loop are rmcp's. Its HTTP service is not used: nearly every row of the status
//! table, the ownership of sessions, the limits and the answer formats are this server's own, and what would be left of it is
//! the part that lets one slow reader hold up a session.
//!
//! Who asks is decided once per request, by [`Inbound`], and travels in the request's parts with that very message. Nothing
//! here, and no session, remembers it.

pub(crate) mod bearer;
mod callers;
mod channel;
mod checks;
mod connections;
mod direct;
mod endpoint;
mod exchange_era;
mod jwt;
mod listen;
mod log;
pub(crate) mod message;
mod owed;
mod probes;
mod refusal;
mod reply;
mod resource;
pub(crate) mod seal;
mod sessions;
mod store;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::routing::future::RouteFuture;
use bytes::Bytes;
use futures_util::future::Either;
use http::header::{HOST, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use pipefy::settings::{HostList, ServerSettings, TrustedProxies};
use rmcp::ServerHandler;
use rmcp::model::ProtocolVersion;
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, Service};

pub use bearer::{Authenticator, Inbound, Rejection};
pub use jwt::JwtBearers;
pub use listen::{ServeError, Serving, bind};
pub use log::CorrelationId;
pub use resource::ProtectedResource;
pub use sessions::Limits;
pub use store::{SessionStore, StoreError};

use callers::Callers;
use endpoint::{Endpoint, Mount, Rules};
use log::{Answering, Logged, RequestLog};
use refusal::Refusal;
use seal::Seal;
use sessions::Sessions;

use crate::metrics::Metrics;
use crate::stderr::{Lines, stderr_lines};
use crate::traces::Traces;

/// Names the session; given by the server, sealed.
const SESSION_ID: &str = "mcp-session-id";
/// The revision a request speaks.
const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// Largest accepted body: 4 MiB.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// What the edge puts in front of.
pub trait Served: Send + Sync + 'static {
    /// Serves one session, or one request without a session.
    type Handler: ServerHandler;

    /// A handler. Made for every session and every request without one, so it should be a clone of something shared.
    fn handler(&self) -> Self::Handler;

    /// Whether this tool only reads, so that its call may be cancelled when nobody waits for the answer any more.
    fn is_read(&self, tool: &str) -> bool;

    /// Whether this tool may ask the person behind the client something while it runs.
    fn asks(&self, tool: &str) -> bool;

    /// Whether [`Served::call`] is there. Without it every call goes through a handler.
    const CALLS: bool = false;

    /// One `tools/call` without a handler around it: the same work and the same result.
    fn call(&self, call: LoneCall<'_>) -> impl Future<Output = Called> + Send {
        let _ = call;
        std::future::ready(Called { text: String::new(), is_object: false, is_error: true })
    }

    /// Whether the headers of a message are understood; the text says what is wrong with them.
    ///
    /// # Errors
    /// The request is answered with 400 and this text.
    fn admits(&self, headers: &HeaderMap) -> Result<(), String> {
        let _ = headers;
        Ok(())
    }

    /// The result of `tools/list` for this request in this revision, as JSON; `None` to ask the handler.
    fn tools(&self, request: &Parts, version: &ProtocolVersion) -> Option<Bytes> {
        let _ = (request, version);
        None
    }
}

/// A `tools/call` that needs no service loop: nobody is asked, and nobody hears of progress.
#[derive(Debug)]
pub struct LoneCall<'a> {
    /// The message's id, as text.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// Its arguments, as sent.
    pub arguments: Map<String, Value>,
    /// The HTTP request that carried the message.
    pub request: &'a Parts,
    /// Fires when nobody waits for the answer any more.
    pub cancel: CancellationToken,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The text content.
    pub text: String,
    /// Whether the text is a JSON object, which is then the structured content as well.
    pub is_object: bool,
    /// Whether the call did not run.
    pub is_error: bool,
}

/// How the server listens and what it accepts.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Address to bind, an IPv6 literal without brackets.
    pub host: String,
    /// Port to bind; 0 takes a free one.
    pub port: u16,
    /// Accepted `Host` and `Origin` values.
    pub hosts: HostList,
    /// No sessions: every request stands alone.
    pub stateless: bool,
    /// Answer with plain JSON, never with an event stream.
    pub json_response: bool,
    /// Sessions, and what one caller may do.
    pub limits: Limits,
    /// Seals session ids; random when absent, so that sessions end with the process.
    pub session_key: Option<SecretString>,
    /// Peers whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: TrustedProxies,
    /// Longest wait for a complete request head, and for the next request on a connection.
    pub header_timeout: Duration,
    /// Longest time a body may take, and longest time in which a client takes nothing of its answer.
    pub body_timeout: Duration,
    /// How long a stop waits for running calls.
    pub drain: Duration,
    /// How long a read goes on after its client has gone.
    pub disconnect_grace: Duration,
    /// Answer lone calls without a service loop where that gives the same answer for less work.
    pub fast_path: bool,
    /// Takes the `http_request` lines.
    pub lines: HttpLines,
    /// What replicas share, where they share anything. Needs `session_key`.
    pub store: Option<SessionStore>,
    /// Counts requests.
    pub metrics: Option<Arc<Metrics>>,
    /// Makes a span of each request.
    pub traces: Option<Traces>,
    /// Serves the metrics and the probes.
    pub metrics_address: Option<SocketAddr>,
}

/// Where `http_request` lines go.
#[derive(Clone)]
pub struct HttpLines(pub Lines);

impl std::fmt::Debug for HttpLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpLines")
    }
}

impl HttpOptions {
    /// As configured; lines go to standard error. Metrics are made when an address is configured for them; traces are the
    /// process's, and added by it. Needs a runtime.
    ///
    /// # Errors
    /// The session store's URL is none.
    pub fn new(settings: &ServerSettings) -> Result<Self, StoreError> {
        let ServerSettings { mcp, operations, resource_server, .. } = settings;
        let metrics: Option<Arc<Metrics>> = operations.metrics_address.map(|_| Arc::default());
        Ok(Self {
            host: mcp.bind_host().to_owned(),
            port: mcp.port,
            hosts: mcp.host_list(resource_server),
            stateless: mcp.stateless,
            json_response: mcp.json_response,
            limits: Limits::new(mcp, operations),
            session_key: mcp.session_key.clone(),
            trusted_proxies: operations.trusted_proxies.clone(),
            header_timeout: operations.header_timeout,
            body_timeout: operations.body_timeout,
            drain: operations.drain,
            disconnect_grace: endpoint::DISCONNECT_GRACE,
            fast_path: true,
            lines: HttpLines(stderr_lines()),
            store: operations.session_store.as_ref().map(|url| SessionStore::new(url, metrics.clone())).transpose()?,
            metrics,
            traces: None,
            metrics_address: operations.metrics_address,
        })
    }
}

/// The HTTP application, not yet listening.
#[derive(Clone)]
pub struct App {
    service: Logged<Front>,
    sessions: Arc<Sessions>,
    limits: Arc<ArcSwap<Limits>>,
    drain: CancellationToken,
    stop: CancellationToken,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("sessions", &self.sessions.count()).finish_non_exhaustive()
    }
}

impl App {
    /// Puts the edge in front of `served`. Starts the task that ends idle sessions, so a runtime must be there; the task ends
    /// with the app.
    pub fn new(served: impl Served, inbound: Inbound, options: &HttpOptions) -> Self {
        let limits = Arc::new(ArcSwap::from_pointee(options.limits));
        let sessions = Sessions::new(limits.clone());
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let metadata = match &inbound {
            Inbound::Open => Router::new(),
            Inbound::Bearer { resource, .. } => resource.routes(),
        };
        tokio::spawn(Sessions::watch(Arc::downgrade(&sessions)));
        let endpoint = Endpoint {
            served,
            rules: Rules {
                inbound,
                hosts: options.hosts.clone(),
                stateless: options.stateless,
                json_response: options.json_response,
                max_body: MAX_BODY,
                body_timeout: options.body_timeout,
                fast_path: options.fast_path,
                disconnect_grace: options.disconnect_grace,
            },
            seal: Seal::new(options.session_key.as_ref()),
            sessions: sessions.clone(),
            callers: Callers::new(limits.clone()),
            store: options.store.clone(),
            opening_again: tokio::sync::Mutex::default(),
            drain: drain.clone(),
            stop: stop.clone(),
        };
        let ready = drain.clone();
        let trusted = Arc::new(options.trusted_proxies.clone());
        let redirect = Redirect { hosts: options.hosts.clone(), trusted: trusted.clone() };
        let others = Router::new()
            .route(
                "/mcp/",
                axum::routing::any(move |request: http::Request<Body>| {
                    let response = redirect.response(&request.into_parts().0);
                    async move { response }
                }),
            )
            .route("/healthz", axum::routing::get(|| std::future::ready(probes::health())))
            .route("/readyz", axum::routing::get(move || std::future::ready(probes::readiness(&ready))))
            .merge(metadata)
            .fallback(|| async { Refusal::not_found().into_response() });
        let mount = Mount(Arc::new(endpoint));
        let front = Front { mcp: Arc::new(move |request| mount.clone().call(request)), others };
        Self { service: RequestLog::new(options, trusted).layer(front), sessions, limits, drain, stop }
    }

    /// Replaces the limits. What is open or running goes on, whatever they say.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }
}

/// The endpoint, and a router for the rest: going through the router costs as much as reading a message.
#[derive(Clone)]
struct Front {
    mcp: Arc<dyn Fn(Request<Body>) -> Answering + Send + Sync>,
    others: Router,
}

impl Service<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Answering, RouteFuture<Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match request.uri().path() {
            "/mcp" => Either::Left((self.mcp)(request)),
            _ => Either::Right(Service::call(&mut self.others, request)),
        }
    }
}

/// `/mcp/` is `/mcp`, for every method.
#[derive(Clone)]
struct Redirect {
    hosts: HostList,
    trusted: Arc<TrustedProxies>,
}

impl Redirect {
    fn response(&self, parts: &Parts) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        let location = self.location(parts).and_then(|location| HeaderValue::from_str(&location).ok());
        response.headers_mut().insert(LOCATION, location.unwrap_or(HeaderValue::from_static("/mcp")));
        response
    }

    /// Absolute where the host is one of ours; a foreign one is not repeated.
    fn location(&self, parts: &Parts) -> Option<String> {
        let host = match parts.headers.get(HOST) {
            Some(host) => host.to_str().ok()?,
            None => parts.uri.authority()?.as_str(),
        };
        if !self.hosts.allows_host(Some(host)) {
            return None;
        }
        let proto = parts.headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
        let scheme = match proto.map(str::trim) {
            Some(proto @ ("http" | "https")) if log::is_trusted(&parts.extensions, &self.trusted) => proto,
            _ => "http",
        };
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        Some(format!("{scheme}://{host}/mcp{query}"))
    }
}
