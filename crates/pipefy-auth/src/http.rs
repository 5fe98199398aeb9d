//! HTTP to token endpoints and issuers: own headers, no redirects, bounded answers, no body in any error.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderValue};

/// Most bytes of an answer that are read; token answers are a few KiB.
const ANSWER_LIMIT: usize = 1024 * 1024;

/// The HTTP client of this crate: `User-Agent: pipefy-auth/<version>`, `X-Client-Name: auth`, redirects refused. Cheap
/// to clone; built on first use, so that a run which never signs in does not pay for it.
#[derive(Clone, Debug, Default)]
pub struct AuthHttp(Arc<OnceLock<reqwest::Client>>);

impl AuthHttp {
    /// A client of its own.
    pub fn new() -> AuthHttp {
        AuthHttp::default()
    }

    /// Uses `client` unchanged.
    pub fn with_client(client: reqwest::Client) -> AuthHttp {
        AuthHttp(Arc::new(OnceLock::from(client)))
    }

    pub(crate) fn client(&self) -> Result<&reqwest::Client, HttpFailure> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let built = reqwest::Client::builder()
            .tls_backend_preconfigured(pipefy::tls::client_config())
            .user_agent(format!("pipefy-auth/{}", pipefy::VERSION))
            .default_headers(client_headers())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .build()
            .map_err(|error| HttpFailure::new(&error))?;
        Ok(self.0.get_or_init(|| built))
    }

    /// Asks `url` and says how that went; for diagnostics. Any answer is one.
    ///
    /// # Errors
    /// Why there was no answer within `limit`, without the URL.
    pub async fn probe(&self, url: &str, limit: Duration) -> Result<Probe, String> {
        let client = self.client().map_err(|error| error.to_string())?;
        let started = Instant::now();
        let answer = client.get(url).timeout(limit).send().await;
        let answer = answer.map_err(|error| HttpFailure::new(&error).to_string())?;
        let took = started.elapsed();
        let date = answer.headers().get(reqwest::header::DATE).and_then(|date| date.to_str().ok());
        let theirs =
            date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp().as_second());
        Ok(Probe { status: answer.status().as_u16(), ahead: theirs.map(|theirs| crate::session::now() - theirs), took })
    }

    /// Sends and reads the whole answer, whatever its status.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder, limit: Duration) -> Result<Answer, HttpFailure> {
        let mut response = request.timeout(limit).send().await.map_err(|error| HttpFailure::new(&error))?;
        let status = response.status().as_u16();
        let content_type = response.headers().get(reqwest::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| HttpFailure::new(&error))? {
            if body.len() + chunk.len() > ANSWER_LIMIT {
                return Err(HttpFailure("the answer is too large".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, content_type, body })
    }
}

fn client_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-client-name", HeaderValue::from_static("auth"));
    if let Ok(version) = HeaderValue::from_str(pipefy::VERSION) {
        headers.insert("x-client-version", version);
    }
    headers
}

/// How an address answers.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The HTTP status.
    pub status: u16,
    /// How many seconds this machine's clock is ahead of the server's; nothing when the server does not say its own.
    pub ahead: Option<i64>,
    /// How long the answer took.
    pub took: Duration,
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as a JSON object.
    pub(crate) fn json(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// No answer came: the cause, without URL or body.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HttpFailure(pub(crate) String);

impl HttpFailure {
    fn new(error: &reqwest::Error) -> HttpFailure {
        if error.is_timeout() {
            return HttpFailure("no answer in time".to_owned());
        }
        // The innermost cause says most ("connection refused"); the outer texts repeat the URL.
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause.and_then(std::error::Error::source) {
            cause = Some(inner);
        }
        let Some(cause) = cause else { return HttpFailure("the request could not be sent".to_owned()) };
        HttpFailure(clean(&cause.to_string()))
    }
}

/// Text of a server as it may be shown: printable ASCII, one line, at most 200 characters.
pub(crate) fn clean(text: &str) -> String {
    let shown: String =
        text.trim().chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(200).collect();
    shown
}
