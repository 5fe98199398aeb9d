//! Files: presigned uploads to storage, guarded downloads of URLs that somebody else supplied, downloads of exports.
//!
//! None of it carries an identity. No message and no `Debug` output holds a URL, because these URLs are signed: whoever
//! has one can use it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Client, Url};

use crate::budget::Budget;
use crate::engine::EngineError;
use crate::error::seconds;
use crate::response::clip;
use crate::sender::{cause, stays_here};
use crate::settings::PipefySettings;
use crate::url_policy::{GuardedResolver, UploadPolicy, UrlPolicy, UrlPolicyError, dns_gate, validate_url};

/// Longest upload, and longest download of a file (`spec/config.md`, "Who applies what").
pub const TRANSFER_LIMIT: Duration = Duration::from_secs(60);

/// Longest download of an export.
pub const EXPORT_LIMIT: Duration = Duration::from_secs(120);

/// Redirects followed by a download; an upload follows none.
pub const REDIRECT_LIMIT: usize = 3;

/// Characters of a storage answer kept to explain a refused upload.
const SNIPPET: usize = 500;

/// Bytes of a refusal's body that are read at all.
const REFUSAL_READ: usize = 64 * 1024;

/// Why a file did not arrive. Never holds a URL.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransferError {
    /// The URL may not be used; nothing was sent to it.
    #[error(transparent)]
    Refused(#[from] UrlPolicyError),
    /// The other side answered with another status than needed.
    #[error("{}", status_text(*status, *upload, snippet.as_deref()))]
    Status {
        /// HTTP status.
        status: u16,
        /// Whether this was an upload.
        upload: bool,
        /// The beginning of what storage said (uploads, text only, at most 500 characters, URL parts masked).
        snippet: Option<String>,
    },
    /// A redirect says not where to.
    #[error("the download was redirected (HTTP {status}) without saying where to")]
    NoLocation {
        /// HTTP status.
        status: u16,
    },
    /// Redirected too often.
    #[error("the download was redirected more than {REDIRECT_LIMIT} times")]
    TooManyRedirects,
    /// Larger than the caller allows.
    #[error("the file is larger than {}", size(*limit))]
    TooLarge {
        /// Bytes.
        limit: u64,
    },
    /// Not done in time.
    #[error("the {} did not finish within {} s", if *upload { "upload" } else { "download" }, seconds(*limit))]
    Timeout {
        /// The limit that ran out.
        limit: Duration,
        /// Whether this was an upload.
        upload: bool,
    },
    /// The caller has gone or its deadline had passed.
    #[error("the {} was cancelled", if *upload { "upload" } else { "download" })]
    Cancelled {
        /// Whether this was an upload.
        upload: bool,
    },
    /// The connection failed.
    #[error("the {} failed: {cause}", if *upload { "upload" } else { "download" })]
    Connection {
        /// Whether this was an upload.
        upload: bool,
        /// Short cause.
        cause: String,
    },
    /// No HTTP client could be made.
    #[error("the HTTP client for files could not be set up: {0}; check the proxy and certificate variables")]
    Setup(String),
}

fn status_text(status: u16, upload: bool, snippet: Option<&str>) -> String {
    let what = match (upload, status) {
        (true, 300..=399) => {
            format!("storage redirected the upload (HTTP {status}), which is not followed; nothing was stored")
        }
        (true, _) => format!("storage refused the upload (HTTP {status})"),
        (false, _) => format!("the file could not be downloaded (HTTP {status}); only status 200 is accepted"),
    };
    match snippet {
        Some(snippet) => format!("{what}: {snippet}"),
        None => what,
    }
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes >= MIB && bytes.is_multiple_of(MIB) { format!("{} MiB", bytes / MIB) } else { format!("{bytes} bytes") }
}

impl TransferError {
    /// HTTP status of the refusal, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } | Self::NoLocation { status } => Some(*status),
            _ => None,
        }
    }

    /// What storage said, for the caller's diagnosis.
    pub fn snippet(&self) -> Option<&str> {
        match self {
            Self::Status { snippet, .. } => snippet.as_deref(),
            _ => None,
        }
    }
}

/// Moves files. Cheap to clone; shared by all sessions of an engine; knows no identity.
#[derive(Clone)]
pub struct Transfer(Arc<Inner>);

struct Inner {
    uploads: UploadPolicy,
    policy: UrlPolicy,
    gate: Gate,
    plain: OnceLock<Client>,
    /// For this machine, where no proxy is asked.
    near: OnceLock<Client>,
    guarded: OnceLock<Client>,
    proxies: OnceLock<Matcher>,
}

/// Which addresses and ports a supplied URL may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Public addresses, ports 80 and 443, checked before each request and again when connecting.
    Public,
    /// Anything; only tests of this module make one.
    #[cfg(test)]
    Open,
}

/// Where a download may go.
#[derive(Clone, Copy)]
enum Source {
    Anywhere,
    Export,
}

impl Source {
    fn limit(self) -> Duration {
        match self {
            Self::Anywhere => TRANSFER_LIMIT,
            Self::Export => EXPORT_LIMIT,
        }
    }
}

/// A file on its way. Reading it is bounded by the limits given to the download.
pub struct Download {
    /// `Content-Type` as sent.
    pub content_type: Option<String>,
    /// Declared size in bytes, when known; never above the limit.
    pub length: Option<u64>,
    /// The bytes.
    pub stream: BoxStream<'static, Result<Bytes, TransferError>>,
}

impl Download {
    /// Everything at once.
    ///
    /// # Errors
    /// The first failure of the stream.
    pub async fn bytes(self) -> Result<Bytes, TransferError> {
        let known = self.length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0).min(1 << 24);
        self.stream
            .try_fold(bytes::BytesMut::with_capacity(known), |mut all, chunk| async move {
                all.extend_from_slice(&chunk);
                Ok(all)
            })
            .await
            .map(bytes::BytesMut::freeze)
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("content_type", &self.content_type)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

impl Transfer {
    /// The rules of `settings`. HTTP clients are made when first needed.
    ///
    /// # Errors
    /// None at present; kept with the engine's other parts, which can fail.
    pub fn new(settings: &PipefySettings) -> Result<Self, EngineError> {
        Ok(Self::with_gate(settings, Gate::Public))
    }

    fn with_gate(settings: &PipefySettings, gate: Gate) -> Self {
        Self(Arc::new(Inner {
            uploads: settings.upload_policy(),
            policy: settings.url_policy(),
            gate,
            plain: OnceLock::new(),
            guarded: OnceLock::new(),
            near: OnceLock::new(),
            proxies: OnceLock::new(),
        }))
    }

    /// Checks where a presigned upload would go, without sending anything.
    ///
    /// # Errors
    /// [`TransferError::Refused`], see [`UploadPolicy::check`].
    pub fn check_upload(&self, url: &str) -> Result<(), TransferError> {
        self.0.uploads.check("the upload URL", url)?;
        Ok(())
    }

    /// Sends `length` bytes to a presigned URL with PUT, once. Where it may go is decided by [`UploadPolicy`]. Redirects
    /// are not followed, only 2xx is success; 60 s at most.
    ///
    /// # Errors
    /// [`TransferError`]; after anything but [`TransferError::Refused`] it is unknown whether storage kept the bytes, but
    /// nothing refers to them.
    pub async fn upload(
        &self,
        url: &str,
        content_type: Option<&str>,
        length: u64,
        body: impl Into<reqwest::Body>,
        budget: &Budget,
    ) -> Result<(), TransferError> {
        let target = self.0.uploads.check("the upload URL", url)?;
        let client =
            if target.guarded && !self.is_proxied(&target.url) { self.guarded()? } else { self.plain(&target.url)? };
        let watch = Watch::start(budget, TRANSFER_LIMIT, true)?;
        let secret = target.url.clone();
        let mut request = client.put(target.url).header(CONTENT_LENGTH, length).body(body);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let answer = watch.wait(request.send()).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = match status.as_u16() {
            400.. => watch.read_some(answer, REFUSAL_READ).await,
            _ => Vec::new(),
        };
        Err(TransferError::Status { status: status.as_u16(), upload: true, snippet: snippet(&body, &secret) })
    }

    /// Fetches a URL that a caller supplied (`spec/tools-pipes-cards.md`, "Guarded download"). `https` only (`http` under
    /// `allow_insecure_urls`), ports 80 and 443, public addresses only: checked before every request, again when
    /// connecting, and without any proxy. At most three redirects, each checked the same way. Only status 200 has a body;
    /// more than `limit` bytes, declared or sent, is an error; 60 s at most for everything.
    ///
    /// # Errors
    /// [`TransferError`], here or from the stream.
    pub async fn download(&self, url: &str, limit: u64, budget: &Budget) -> Result<Download, TransferError> {
        self.fetch(Source::Anywhere, "file_url", url, limit, budget).await
    }

    /// Fetches an export that Pipefy prepared: `https` on a host below `.pipefy.com`, or on the configured API host; else
    /// as [`Self::download`], with 120 s.
    ///
    /// # Errors
    /// [`TransferError`], here or from the stream.
    pub async fn download_export(&self, url: &str, limit: u64, budget: &Budget) -> Result<Download, TransferError> {
        self.fetch(Source::Export, "the export URL", url, limit, budget).await
    }

    async fn fetch(
        &self,
        source: Source,
        label: &str,
        url: &str,
        limit: u64,
        budget: &Budget,
    ) -> Result<Download, TransferError> {
        let watch = Watch::start(budget, source.limit(), false)?;
        let mut hop = self.admit(source, label, url)?;
        for _ in 0..=REDIRECT_LIMIT {
            let client = self.client_for(&hop, label, &watch).await?;
            let answer = watch.wait(client.get(hop.url.clone()).send()).await?;
            let status = answer.status().as_u16();
            match status {
                200 => return watch.deliver(answer, limit),
                301 | 302 | 303 | 307 | 308 => {
                    let location = answer.headers().get(LOCATION).ok_or(TransferError::NoLocation { status })?;
                    let location = String::from_utf8_lossy(location.as_bytes());
                    let next = hop.url.join(location.trim()).map_err(|_| TransferError::NoLocation { status })?;
                    hop = self.admit(source, "the redirect", next.as_str())?;
                }
                _ => return Err(TransferError::Status { status, upload: false, snippet: None }),
            }
        }
        Err(TransferError::TooManyRedirects)
    }

    /// Scheme, host and port of one hop.
    fn admit(&self, source: Source, label: &str, url: &str) -> Result<Hop, TransferError> {
        if let Source::Export = source {
            // The hosts that uploads trust, minus the storage provider's, which any of its customers could serve.
            let target = self.0.uploads.check(label, url)?;
            let host = target.url.host_str().unwrap_or_default().trim_end_matches('.');
            if target.guarded && !host.ends_with(".pipefy.com") {
                return Err(UrlPolicyError::new(label, "is not an allowed Pipefy https URL").into());
            }
            return Ok(Hop { url: target.url, guarded: target.guarded });
        }
        let url = validate_url(label, url, self.0.policy)?;
        if self.0.gate == Gate::Public && !matches!(url.port_or_known_default(), Some(80 | 443)) {
            return Err(UrlPolicyError::new(label, "must use the default port, 80 or 443").into());
        }
        Ok(Hop { url, guarded: self.0.gate == Gate::Public })
    }

    /// Resolves the host of a guarded hop first (a literal address never reaches a resolver) and picks the client.
    async fn client_for(&self, hop: &Hop, label: &str, watch: &Watch) -> Result<&Client, TransferError> {
        if !hop.guarded {
            return self.plain(&hop.url);
        }
        let host = hop.url.host_str().unwrap_or_default();
        let port = hop.url.port_or_known_default().unwrap_or(443);
        watch.race(dns_gate(label, host, port)).await??;
        self.guarded()
    }

    /// For hosts that the operator named; through the proxy of the environment, if any.
    fn plain(&self, url: &Url) -> Result<&Client, TransferError> {
        match url.host_str().is_some_and(stays_here) {
            true => make(&self.0.near, base().no_proxy()),
            false => make(&self.0.plain, base()),
        }
    }

    /// For everybody else's hosts. Nothing is pooled, so every request resolves, and is checked, anew.
    fn guarded(&self) -> Result<&Client, TransferError> {
        make(&self.0.guarded, base().no_proxy().pool_max_idle_per_host(0).dns_resolver(GuardedResolver))
    }

    /// Behind a proxy it is the proxy that resolves names: a look-up here would check the wrong thing, or fail.
    fn is_proxied(&self, url: &Url) -> bool {
        let Ok(uri) = url.as_str().parse::<http::Uri>() else { return false };
        !url.host_str().is_some_and(stays_here)
            && self.0.proxies.get_or_init(Matcher::from_system).intercept(&uri).is_some()
    }
}

struct Hop {
    url: Url,
    guarded: bool,
}

fn base() -> reqwest::ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(crate::tls::client_config())
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .referer(false)
        .user_agent(concat!("pipefy-sdk/", env!("CARGO_PKG_VERSION")))
}

fn make(cell: &OnceLock<Client>, builder: reqwest::ClientBuilder) -> Result<&Client, TransferError> {
    if let Some(client) = cell.get() {
        return Ok(client);
    }
    let client = builder.build().map_err(|error| TransferError::Setup(cause(&error)))?;
    Ok(cell.get_or_init(|| client))
}

/// One transfer's time and cancellation.
#[derive(Clone)]
struct Watch {
    end: Instant,
    limit: Duration,
    upload: bool,
    budget: Budget,
}

impl Watch {
    fn start(budget: &Budget, limit: Duration, upload: bool) -> Result<Self, TransferError> {
        if budget.is_over() {
            return Err(TransferError::Cancelled { upload });
        }
        let limit = budget.remaining().map_or(limit, |left| left.min(limit));
        Ok(Self { end: Instant::now() + limit, limit, upload, budget: budget.clone() })
    }

    async fn race<T>(&self, work: impl Future<Output = T>) -> Result<T, TransferError> {
        tokio::select! {
            done = tokio::time::timeout_at(self.end.into(), work) => {
                done.map_err(|_| TransferError::Timeout { limit: self.limit, upload: self.upload })
            }
            () = self.budget.cancel().cancelled() => Err(TransferError::Cancelled { upload: self.upload }),
        }
    }

    async fn wait<T>(&self, work: impl Future<Output = Result<T, reqwest::Error>>) -> Result<T, TransferError> {
        self.race(work).await?.map_err(|error| TransferError::Connection { upload: self.upload, cause: cause(&error) })
    }

    /// The beginning of a body, as far as it comes.
    async fn read_some(&self, mut answer: reqwest::Response, most: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < most {
            match self.wait(answer.chunk()).await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                _ => break,
            }
        }
        body
    }

    fn deliver(self, answer: reqwest::Response, limit: u64) -> Result<Download, TransferError> {
        let length = answer.content_length();
        if length.is_some_and(|length| length > limit) {
            return Err(TransferError::TooLarge { limit });
        }
        let content_type =
            answer.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let stream = stream::try_unfold((self, answer, 0_u64), move |(watch, mut answer, before)| async move {
            let Some(chunk) = watch.wait(answer.chunk()).await? else { return Ok(None) };
            let read = before.saturating_add(chunk.len() as u64);
            if read > limit {
                return Err(TransferError::TooLarge { limit });
            }
            Ok(Some((chunk, (watch, answer, read))))
        });
        Ok(Download { content_type, length, stream: stream.boxed() })
    }
}

/// What storage said, when it is text that helps: no HTML page, no part of the signed URL.
fn snippet(body: &[u8], url: &Url) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim().trim_start_matches('\u{feff}');
    let head: String = text.chars().take(512).collect::<String>().to_ascii_lowercase();
    if text.is_empty() || head.contains("<!doctype html") || head.contains("<html") || head.contains("<body") {
        return None;
    }
    let mut text = text.replace(url.as_str(), "***");
    // Storage likes to quote the request it could not verify, signature included.
    let mut parts: Vec<String> = vec![url.path().to_owned()];
    parts.extend(url.query().map(str::to_owned));
    for (_, value) in url.query_pairs() {
        parts.push(value.clone().into_owned());
        parts.extend(value.split('/').next().map(str::to_owned));
    }
    parts.retain(|part| part.len() >= 8);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    for part in parts {
        text = text.replace(&part, "***");
    }
    Some(clip(&text, SNIPPET - 3))
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
