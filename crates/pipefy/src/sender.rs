//! How a GraphQL request leaves this process: hyper's own client, with one pool of connections for all identities.
//!
//! Nothing follows redirects, keeps cookies or reads a netrc file, so nothing of one call can reach another. Where a proxy of
//! the environment stands before an endpoint, reqwest sends to it, which knows proxies. Without one its layers for redirects,
//! repetitions and compression would be a third of what a request costs here.

use std::error::Error;
use std::io::{self, Write};
use std::net::IpAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::future::BoxFuture;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as LegacyError};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::Service;

use crate::engine::EngineError;
use crate::response;

type BoxError = Box<dyn Error + Send + Sync>;

/// Longest wait for a connection, handshakes included.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Idle connections kept per host, and for how long.
const KEPT: usize = 256;
const KEPT_FOR: Duration = Duration::from_secs(90);
/// A peer that has gone without a word: probes on an idle connection, and the longest wait for what was sent to be acknowledged.
const PROBE: Duration = Duration::from_secs(15);
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The pools of one engine.
#[derive(Debug)]
pub(crate) struct Senders {
    direct: Client<Connector, Full<Bytes>>,
    proxies: Matcher,
}

impl Senders {
    /// Reads the proxies of the environment. No network.
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.set_keepalive(Some(PROBE));
        tcp.set_keepalive_interval(Some(PROBE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let direct = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_FOR)
            .pool_max_idle_per_host(KEPT)
            .build(Connector(HttpsConnector::from((tcp, crate::tls::client_config()))));
        Self { direct, proxies: Matcher::from_system() }
    }

    /// What sends to `uri`.
    ///
    /// # Errors
    /// A proxy that cannot be used.
    pub(crate) fn to(&self, uri: Uri) -> Result<Sender, EngineError> {
        let way = match !stays_here(uri.host().unwrap_or_default()) && self.proxies.intercept(&uri).is_some() {
            false => Way::Direct(Box::new(self.direct.clone())),
            true => Way::Proxied(proxied().map_err(|error| EngineError::Http(error.to_string()))?),
        };
        Ok(Sender { way, uri })
    }
}

/// Whether a host is this machine: what goes there goes there, whatever proxies are set. A proxy could not reach it.
pub(crate) fn stays_here(host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// reqwest reads the same variables.
fn proxied() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(crate::tls::client_config())
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(KEPT)
        .pool_idle_timeout(KEPT_FOR)
        .referer(false)
        .build()
}

/// Sends to one URL.
#[derive(Debug)]
pub(crate) struct Sender {
    way: Way,
    uri: Uri,
}

#[derive(Debug)]
enum Way {
    Direct(Box<Client<Connector, Full<Bytes>>>),
    Proxied(reqwest::Client),
}

impl Sender {
    /// One POST, up to the head of its answer. `headers` makes those of the request, once more where it has to go out again.
    pub(crate) async fn post(&self, headers: impl Fn() -> HeaderMap, body: &Bytes) -> Result<Answer, Lost> {
        match &self.way {
            Way::Direct(client) => {
                let request = || self.request(headers(), Full::new(body.clone()));
                let answer = match client.request(request()).await {
                    Err(error) if refused(&error) => client.request(request()).await,
                    answer => answer,
                };
                let sent = |error: &LegacyError| !error.is_connect() && !refused(error);
                answer.map(|answer| Answer(answer.map(Either::Left))).map_err(|error| Lost::of(&error, sent(&error)))
            }
            Way::Proxied(client) => {
                let request = reqwest::Request::try_from(self.request(headers(), body.clone()));
                let request = request.map_err(|error| Lost::of(&error, false))?;
                let answer = client.execute(request).await.map_err(|error| Lost::of(&error, !error.is_connect()))?;
                Ok(Answer(Response::from(answer).map(Either::Right)))
            }
        }
    }

    fn request<B>(&self, headers: HeaderMap, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}

/// Whether the peer has said that it did not look at the request: it closes its HTTP/2 connection, or takes no more streams
/// (RFC 9113 sections 6.8 and 8.7). Such a request may go out once more, whatever it is.
fn refused(error: &(dyn Error + 'static)) -> bool {
    let Some(error) = causes(error).find_map(|error| error.downcast_ref::<h2::Error>()) else { return false };
    let reason = error.reason();
    let leaving = error.is_go_away() && reason == Some(h2::Reason::NO_ERROR);
    let not_looked_at = error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (leaving || not_looked_at)
}

/// No answer, or not all of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The connection failed.
    Connection {
        /// Why.
        cause: String,
        /// Whether the request may have left this machine.
        sent: bool,
    },
    /// The answer is larger than allowed.
    TooLarge,
}

impl Lost {
    fn of(error: &(dyn Error + 'static), sent: bool) -> Self {
        Self::Connection { cause: cause(error), sent }
    }
}

/// An answer whose body is still to be read.
pub(crate) struct Answer(Response<Either<Incoming, reqwest::Body>>);

impl Answer {
    /// HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// As received.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The body, decompressed, if that is at most `limit` bytes.
    pub(crate) async fn read(self, limit: usize) -> Result<Bytes, Lost> {
        let (head, mut body) = self.0.into_parts();
        let expected = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let bytes = Vec::with_capacity(expected.unwrap_or(0).min(1 << 20));
        let zipped =
            head.headers.get(CONTENT_ENCODING).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let mut kept = match zipped && expected != Some(0) {
            true => Kept::Zipped(Box::new(MultiGzDecoder::new(Bounded { bytes, limit, over: false }))),
            false => Kept::Plain(Bounded { bytes, limit, over: false }),
        };
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|error| Lost::of(&*error, true))?.into_data() {
                kept.add(&data)?;
            }
        }
        kept.bytes()
    }
}

/// What is kept of a body.
enum Kept {
    Plain(Bounded),
    Zipped(Box<MultiGzDecoder<Bounded>>),
}

impl Kept {
    fn add(&mut self, data: &[u8]) -> Result<(), Lost> {
        match self {
            Self::Plain(bounded) => bounded.write_all(data).map_err(|_| Lost::TooLarge),
            Self::Zipped(zipped) => zipped.write_all(data).map_err(|error| damaged(zipped.get_ref(), &error)),
        }
    }

    fn bytes(self) -> Result<Bytes, Lost> {
        match self {
            Self::Plain(bounded) => Ok(bounded.bytes.into()),
            Self::Zipped(mut zipped) => {
                zipped.try_finish().map_err(|error| damaged(zipped.get_ref(), &error))?;
                Ok(std::mem::take(&mut zipped.get_mut().bytes).into())
            }
        }
    }
}

fn damaged(kept: &Bounded, error: &io::Error) -> Lost {
    match kept.over {
        true => Lost::TooLarge,
        false => Lost::Connection { cause: format!("its answer cannot be decompressed ({error})"), sent: true },
    }
}

/// Memory that grows up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    over: bool,
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.over = self.bytes.len() + data.len() > self.limit;
        if self.over {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// TCP, and TLS where the URL wants it, within [`CONNECT_LIMIT`].
#[derive(Clone, Debug)]
struct Connector(HttpsConnector<HttpConnector>);

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            let late = |_| BoxError::from(format!("no connection within {} s", CONNECT_LIMIT.as_secs()));
            tokio::time::timeout(CONNECT_LIMIT, connecting).await.map_err(late)?
        })
    }
}

/// An error and what caused it, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// The innermost cause of a connection failure, which says more than the outermost; never a URL.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    let text = causes(error).last().map(ToString::to_string).unwrap_or_default();
    if text.trim().is_empty() || text.contains("://") {
        "the connection failed".to_owned()
    } else {
        response::clip(&text, 200)
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
