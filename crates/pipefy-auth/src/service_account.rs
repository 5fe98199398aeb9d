//! Service accounts: OAuth client credentials.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use pipefy::{Bearer, BearerSource, CredentialError};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::http::{Answer, AuthHttp, clean};

/// How long a token request may take.
const LIMIT: Duration = Duration::from_secs(60);
/// A token is renewed this long before it expires; less for short-lived ones.
const AHEAD: Duration = Duration::from_secs(30);
/// How long a token is used that says nothing about its lifetime.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(300);

/// A source of bearers from client credentials.
///
/// The token lives in memory only. Any number of concurrent callers cause one request and share its outcome, success or
/// failure; after a 401 the rejected token is replaced once, by whoever comes first.
pub(crate) struct ServiceAccount {
    token_url: String,
    authorization: Option<HeaderValue>,
    secret: SecretString,
    http: AuthHttp,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    failure: Option<(Instant, CredentialError)>,
}

struct Token {
    bearer: Bearer,
    renew_at: Instant,
}

impl ServiceAccount {
    pub(crate) fn new(token_url: String, client_id: &str, secret: SecretString, http: AuthHttp) -> ServiceAccount {
        // The two parts go in as they are: the token endpoint does not expect them form-encoded.
        let pair = format!("{client_id}:{}", secret.expose_secret());
        let authorization = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        ServiceAccount { token_url, authorization, secret, http, state: Mutex::default() }
    }

    /// The cached bearer if it is still good and not `rejected`, else a new one.
    async fn get(&self, rejected: Option<&Bearer>) -> Result<Bearer, CredentialError> {
        let arrived = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(token) = &state.token
            && Some(&token.bearer) != rejected
            && Instant::now() < token.renew_at
        {
            return Ok(token.bearer.clone());
        }
        // Whoever waited for an attempt that failed shares its failure instead of knocking again.
        if let Some((at, failure)) = &state.failure
            && *at >= arrived
        {
            return Err(failure.clone());
        }
        match self.fetch().await {
            Ok(token) => {
                let bearer = token.bearer.clone();
                *state = State { token: Some(token), failure: None };
                Ok(bearer)
            }
            Err(failure) => {
                *state = State { token: None, failure: Some((Instant::now(), failure.clone())) };
                Err(failure)
            }
        }
    }

    async fn fetch(&self) -> Result<Token, CredentialError> {
        let asked = Instant::now();
        let unreachable = |cause: &dyn std::fmt::Display| CredentialError::Unavailable {
            message: format!(
                "Service account sign-in failed: the token endpoint could not be reached ({cause}). Check the network and \
                 PIPEFY_BASE_URL, then try again."
            ),
        };
        let client = self.http.client().map_err(|error| unreachable(&error))?;
        let mut request = client
            .post(&self.token_url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body("grant_type=client_credentials");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let answer = self.http.send(request, LIMIT).await.map_err(|error| unreachable(&error))?;
        let fields = fields(&answer);
        if answer.status != 200 {
            return Err(self.refusal(answer.status, fields.as_ref()));
        }
        let fields = fields.ok_or_else(|| refused("the token endpoint's answer is not JSON"))?;
        let token = match fields.get("access_token") {
            Some(Value::String(token)) if !token.is_empty() => SecretString::from(token.as_str()),
            _ => return Err(refused("the token endpoint's answer holds no access token")),
        };
        let bearer =
            Bearer::new(&token).map_err(|_| refused("the token endpoint's access token cannot be sent in a header"))?;
        let lifetime = lifetime(&fields, token.expose_secret());
        Ok(Token { bearer, renew_at: asked + lifetime.saturating_sub(AHEAD.min(lifetime / 5)) })
    }

    fn refusal(&self, status: u16, fields: Option<&Map<String, Value>>) -> CredentialError {
        let text = |key: &str| {
            let text = fields.and_then(|fields| fields.get(key)).and_then(Value::as_str).map(clean);
            // A server that repeats what it was sent must not make us repeat it.
            text.filter(|text| !text.is_empty() && !text.contains(self.secret.expose_secret()))
        };
        let what = match (text("error"), text("error_description")) {
            (Some(code), Some(description)) => format!("{code}: {description}"),
            (Some(code), None) => code,
            (None, _) => format!("the token endpoint answered HTTP {status}"),
        };
        if status >= 500 || status == 429 || status == 408 {
            return CredentialError::Unavailable {
                message: format!("Service account sign-in failed: {what} (HTTP {status}). Try again later."),
            };
        }
        refused(&what)
    }
}

fn refused(what: &str) -> CredentialError {
    CredentialError::Refused {
        message: format!(
            "Service account sign-in failed: {what}. Check PIPEFY_SERVICE_ACCOUNT_CLIENT_ID, \
             PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET and PIPEFY_BASE_URL."
        ),
    }
}

/// The fields of an answer: JSON, or a form where the server labels one as HTML.
fn fields(answer: &Answer) -> Option<Map<String, Value>> {
    answer.json().or_else(|| {
        let form = answer.content_type.eq_ignore_ascii_case("text/html; charset=utf-8");
        let pairs = url::form_urlencoded::parse(&answer.body);
        form.then(|| pairs.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect())
    })
}

/// How long the token may be used: `expires_in` (a number, or one in quotes), else what the token says of itself if it
/// is a JWT, else [`UNKNOWN_LIFETIME`].
fn lifetime(fields: &Map<String, Value>, token: &str) -> Duration {
    let seconds = fields.get("expires_in").and_then(number).or_else(|| jwt_lifetime(token));
    match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default(),
        None => UNKNOWN_LIFETIME,
    }
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

/// `exp - iat` where both are there, which needs no agreement between clocks; else `exp - now`.
pub(crate) fn jwt_lifetime(token: &str) -> Option<f64> {
    let claims = jwt_claims(token)?;
    let expires = claims.get("exp").and_then(number)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let from = claims.get("iat").and_then(number).unwrap_or(now);
    Some(expires - from).filter(|seconds| *seconds > 0.0)
}

/// The claims of a JWT, unverified: only ever used to guess a lifetime.
pub(crate) fn jwt_claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

impl BearerSource for ServiceAccount {
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
        Box::pin(self.get(None))
    }

    fn renew<'a>(&'a self, rejected: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
        Box::pin(async move {
            let bearer = self.get(Some(rejected)).await?;
            Ok((bearer != *rejected).then_some(bearer))
        })
    }
}

impl std::fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccount").field("token_url", &self.token_url).finish_non_exhaustive()
    }
}

/// Shared by every clone of the credential.
pub(crate) type SharedServiceAccount = Arc<ServiceAccount>;
