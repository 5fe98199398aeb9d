//! Acting on behalf of a caller: OAuth token exchange (RFC 8693).
//!
//! A hosted server that is trusted by the issuer trades its caller's bearer for one that is meant for Pipefy and names the
//! same person. Pipefy never sees the bearer that came in.
//!
//! Exchanged tokens are kept in memory per person: issuer, subject, client and granted scopes together. A bearer without a
//! subject does not say who it stands for, so what it was exchanged for is kept for that very bearer only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use moka::Expiry;
use moka::future::Cache;
use pipefy::settings::{ClientAuth, ExchangeSettings};
use pipefy::url_policy::{UrlPolicy, UrlPolicyError, UrlShape, configured_url};
use pipefy::{Bearer, BearerSource, Credential, CredentialError};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::discovery::Issuer;
use crate::http::{Answer, AuthHttp};
use crate::service_account::{jwt_claims, jwt_lifetime, number};
use crate::session::now;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// How long one exchange may take.
const LIMIT: Duration = Duration::from_secs(15);

/// A kept token is not handed out in its last minute, so that a call which begins with it can end with it.
const MARGIN: Duration = Duration::from_secs(60);

/// How many tokens are kept; the least used go first.
const KEPT_COUNT: u64 = 10_000;

/// Settings with which nothing can be exchanged. Found before anything is sent.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The token endpoint breaks the URL rules.
    #[error("{0}")]
    Url(#[from] UrlPolicyError),
    /// The client's id and secret do not fit a header.
    #[error("PIPEFY_EXCHANGE_CLIENT_ID or PIPEFY_EXCHANGE_CLIENT_SECRET holds characters that a header cannot carry")]
    Client,
}

/// Whose bearer is exchanged: what its validation has found out, and the bearer.
#[derive(Clone, Debug)]
pub struct OnBehalfOf {
    /// The bearer's issuer.
    pub issuer: Option<String>,
    /// The person. Without it, nothing is shared with other bearers.
    pub subject: Option<String>,
    /// The OAuth client that got the bearer.
    pub client_id: String,
    /// What the bearer was granted, in any order.
    pub scopes: Vec<String>,
    /// When the bearer expires, in Unix seconds. What it is exchanged for is not kept any longer.
    pub expires_at: i64,
    /// The bearer. `Debug` does not show it.
    pub bearer: SecretString,
}

impl OnBehalfOf {
    fn fingerprint(&self) -> Key {
        sha256(digest::digest(&digest::SHA256, self.bearer.expose_secret().as_bytes()))
    }

    /// What the exchanged token is kept under.
    fn key(&self) -> Key {
        let mut context = digest::Context::new(&digest::SHA256);
        // Length-prefixed, and "absent" is not "empty": no two people have the same bytes.
        let mut part = |text: Option<&str>| match text {
            None => context.update(&[0]),
            Some(text) => {
                context.update(&[1]);
                context.update(&(text.len() as u64).to_be_bytes());
                context.update(text.as_bytes());
            }
        };
        part(self.issuer.as_deref());
        part(self.subject.as_deref());
        part(Some(&self.client_id));
        let mut scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        scopes.sort_unstable();
        scopes.dedup();
        for scope in scopes {
            part(Some(scope));
        }
        part(None);
        if self.subject.is_none() {
            part(Some(self.bearer.expose_secret()));
        }
        sha256(context.finish())
    }
}

fn sha256(digest: digest::Digest) -> Key {
    let mut key = [0; 32];
    key.copy_from_slice(digest.as_ref());
    key
}

type Key = [u8; 32];

/// An exchange that failed, and for which bearer.
struct Failed {
    error: CredentialError,
    bearer: Key,
}

/// A token for Pipefy.
#[derive(Clone)]
struct Kept {
    bearer: Bearer,
    /// Until when it is handed out to further calls.
    until: Instant,
    /// Until when a call that has it goes on with it.
    expires: Instant,
}

/// Ends each kept token at its own time.
struct Lifetimes;

impl Expiry<Key, Kept> for Lifetimes {
    fn expire_after_create(&self, _: &Key, kept: &Kept, created: Instant) -> Option<Duration> {
        Some(kept.until.saturating_duration_since(created))
    }

    /// A token that takes the place of another has its own time, not what is left of the other's.
    fn expire_after_update(&self, _: &Key, kept: &Kept, updated: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.until.saturating_duration_since(updated))
    }
}

/// Where tokens are exchanged.
enum Endpoint {
    Given(String),
    /// Where the issuer's discovery document says; asked for once.
    Discovered {
        issuer: String,
        policy: UrlPolicy,
        found: OnceCell<String>,
    },
}

/// Exchanges bearers. Cheap to share behind an `Arc`; nothing is sent before the first bearer comes.
pub struct TokenExchange {
    endpoint: Endpoint,
    /// Fields of every request: what to ask for, and the client where it goes into the form.
    fields: Vec<(&'static str, SecretString)>,
    authorization: Option<HeaderValue>,
    http: AuthHttp,
    kept: Cache<Key, Kept>,
}

impl TokenExchange {
    /// As configured; the token endpoint is the configured one or that of `issuer`. No network I/O.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn new(settings: &ExchangeSettings, issuer: &str) -> Result<TokenExchange, ExchangeError> {
        let policy = settings.url_policy();
        let endpoint = match &settings.token_url {
            Some(url) => Endpoint::Given(configured_url("PIPEFY_EXCHANGE_TOKEN_URL", url, UrlShape::NoQuery, policy)?),
            None => Endpoint::Discovered { issuer: issuer.to_owned(), policy, found: OnceCell::new() },
        };
        let plain = |text: &str| SecretString::from(text);
        let mut fields = vec![
            ("grant_type", plain(GRANT_TYPE)),
            ("subject_token_type", plain(ACCESS_TOKEN)),
            ("requested_token_type", plain(ACCESS_TOKEN)),
        ];
        fields.extend(settings.audience.as_deref().map(|audience| ("audience", plain(audience))));
        fields.extend(settings.resource.as_deref().map(|resource| ("resource", plain(resource))));
        if !settings.scopes.is_empty() {
            fields.push(("scope", settings.scopes.join(" ").into()));
        }
        let authorization = match settings.client_auth {
            ClientAuth::Basic => Some(basic(&settings.client_id, &settings.client_secret)?),
            ClientAuth::Post => {
                fields.push(("client_id", plain(&settings.client_id)));
                fields.push(("client_secret", settings.client_secret.clone()));
                None
            }
        };
        let kept = Cache::builder().max_capacity(KEPT_COUNT).expire_after(Lifetimes).build();
        Ok(TokenExchange { endpoint, fields, authorization, http: AuthHttp::new(), kept })
    }

    /// The credential with which Pipefy is called for `caller`. It was exchanged already, so a refusal shows here; it renews
    /// itself while the caller's bearer is good.
    ///
    /// # Errors
    /// [`CredentialError::Refused`] when the issuer does not exchange this bearer, [`CredentialError::Unavailable`] when it
    /// does not answer. Neither holds anything of a token.
    pub async fn credential(self: &Arc<Self>, caller: OnBehalfOf) -> Result<Credential, CredentialError> {
        let key = caller.key();
        let token = Mutex::new(self.get(&key, &caller).await?);
        Ok(Credential::from_source(Arc::new(Exchanged { exchange: self.clone(), key, caller, token })))
    }

    /// The kept token, else a new one; any number of concurrent callers with the same key cause one exchange. Whoever waited
    /// for the exchange of another bearer of the same person does not share its failure.
    async fn get(&self, key: &Key, caller: &OnBehalfOf) -> Result<Kept, CredentialError> {
        let own = caller.fingerprint();
        let mut rounds = 3;
        loop {
            if let Some(kept) = self.kept.get(key).await
                && Instant::now() < kept.until
            {
                return Ok(kept);
            }
            let exchange = async { self.exchange(caller).await.map_err(|error| Failed { error, bearer: own }) };
            match self.kept.try_get_with(*key, exchange).await {
                Ok(kept) => return Ok(kept),
                Err(failed) => {
                    rounds -= 1;
                    if failed.bearer == own || rounds == 0 {
                        return Err(failed.error.clone());
                    }
                }
            }
        }
    }

    async fn exchange(&self, caller: &OnBehalfOf) -> Result<Kept, CredentialError> {
        let asked = Instant::now();
        let left = u64::try_from(caller.expires_at.saturating_sub(now())).unwrap_or(0);
        if left == 0 {
            return Err(refused("your bearer has expired", SIGN_IN));
        }
        let url = self.token_url().await?;
        let client = self.http.client().map_err(|error| unavailable(&error.to_string()))?;
        let subject_token = ("subject_token", caller.bearer.expose_secret());
        let form: Vec<(&str, &str)> = self
            .fields
            .iter()
            .map(|(name, value)| (*name, value.expose_secret()))
            .chain(std::iter::once(subject_token))
            .collect();
        let mut request = client.post(url).form(&form);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let answer = self.http.send(request, LIMIT).await.map_err(|error| {
            tracing::error!("the token endpoint could not be reached for an exchange: {error}");
            unavailable(&error.to_string())
        })?;
        let (bearer, lifetime) = read(&answer, caller).inspect_err(|error| {
            tracing::warn!(status = answer.status, "a bearer was not exchanged: {error}");
        })?;
        let left = Duration::from_secs(left);
        // A token that does not say how long it lives is good for the call it was made for.
        let life = if lifetime.is_zero() { left } else { lifetime.min(left) };
        Ok(Kept { bearer, until: asked + lifetime.saturating_sub(MARGIN).min(left), expires: asked + life })
    }

    async fn token_url(&self) -> Result<&str, CredentialError> {
        let (issuer, policy, found) = match &self.endpoint {
            Endpoint::Given(url) => return Ok(url),
            Endpoint::Discovered { issuer, policy, found } => (issuer, *policy, found),
        };
        let url = found.get_or_try_init(|| async {
            let found = Issuer::discover(&self.http, issuer, policy).await;
            found.map(|found| found.token_endpoint).map_err(|error| {
                tracing::error!("the token endpoint for exchanges could not be found: {error}");
                unavailable("the issuer's discovery document cannot be had")
            })
        });
        Ok(url.await?)
    }
}

impl std::fmt::Debug for TokenExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenExchange").field("kept", &self.kept.entry_count()).finish_non_exhaustive()
    }
}

/// One caller's credential, for one call.
struct Exchanged {
    exchange: Arc<TokenExchange>,
    key: Key,
    caller: OnBehalfOf,
    /// What the call goes on with while it is good.
    token: Mutex<Kept>,
}

impl Exchanged {
    fn token(&self) -> MutexGuard<'_, Kept> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn another(&self) -> Result<Bearer, CredentialError> {
        let kept = self.exchange.get(&self.key, &self.caller).await?;
        *self.token() = kept.clone();
        Ok(kept.bearer)
    }
}

impl BearerSource for Exchanged {
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
        let good = Some(self.token().clone()).filter(|kept| Instant::now() < kept.expires);
        Box::pin(async move {
            match good {
                Some(kept) => Ok(kept.bearer),
                None => self.another().await,
            }
        })
    }

    fn renew<'a>(&'a self, rejected: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
        Box::pin(async move {
            // Somebody else may have replaced it already.
            if self.exchange.kept.get(&self.key).await.is_some_and(|kept| kept.bearer == *rejected) {
                self.exchange.kept.invalidate(&self.key).await;
            }
            let bearer = self.another().await?;
            Ok((bearer != *rejected).then_some(bearer))
        })
    }
}

/// Both parts are form-encoded first (RFC 6749 section 2.3.1).
fn basic(client_id: &str, secret: &SecretString) -> Result<HeaderValue, ExchangeError> {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret.expose_secret()));
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).map_err(|_| ExchangeError::Client)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token of an answer and how long it lives.
fn read(answer: &Answer, caller: &OnBehalfOf) -> Result<(Bearer, Duration), CredentialError> {
    let fields = answer.json();
    if answer.status != 200 {
        return Err(refusal(answer.status, fields.as_ref()));
    }
    let unusable = |what: &str| refused(what, OPERATOR);
    let fields = fields.ok_or_else(|| unusable("the token endpoint's answer is not a JSON object"))?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unusable("the token endpoint gave a token that is no bearer"));
    }
    if text("issued_token_type").is_some_and(|kind| !matches!(kind, ACCESS_TOKEN | JWT)) {
        return Err(unusable("the token endpoint gave a token that is no access token"));
    }
    let token = text("access_token").filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| unusable("the token endpoint's answer holds no access token"))?;
    if token == caller.bearer.expose_secret() {
        return Err(unusable("the token endpoint gave the same bearer back, which must not reach Pipefy"));
    }
    if !fits(token, caller) {
        tracing::error!("the token endpoint exchanged a bearer for one of another subject; it was thrown away");
        return Err(unusable("the token endpoint gave a token of somebody else"));
    }
    let bearer = Bearer::new(&token.into()).map_err(|_| unusable("the token cannot be sent in a header"))?;
    let seconds = fields.get("expires_in").and_then(number).or_else(|| jwt_lifetime(token)).unwrap_or(0.0);
    Ok((bearer, Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default()))
}

/// Whether a token that can be looked into names the caller. The issuer's word decides who somebody is; this only catches an
/// answer that went to the wrong request.
fn fits(token: &str, caller: &OnBehalfOf) -> bool {
    let (Some(claims), Some(subject)) = (jwt_claims(token), &caller.subject) else { return true };
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    // Another issuer may know the person under another name.
    text("iss") != caller.issuer.as_deref() || text("sub").is_none_or(|sub| sub == subject)
}

const SIGN_IN: &str = "sign in again";
const OPERATOR: &str = "tell the operator of this server to check PIPEFY_EXCHANGE_* and the issuer's log";

fn refused(what: &str, next: &str) -> CredentialError {
    CredentialError::Refused { message: format!("Pipefy cannot be called on your behalf: {what}; {next}.") }
}

fn unavailable(what: &str) -> CredentialError {
    CredentialError::Unavailable {
        message: format!("Pipefy cannot be called on your behalf now: {what}; nothing was sent, try again later."),
    }
}

/// A refusal in OAuth's words. Only the code is repeated: a description may hold anything, the bearer included.
fn refusal(status: u16, fields: Option<&Map<String, Value>>) -> CredentialError {
    let code = fields.and_then(|fields| fields.get("error")).and_then(Value::as_str);
    let plain = |code: &&str| code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let code = code.filter(plain);
    if status >= 500 || status == 429 || status == 408 {
        return unavailable(&format!("the token endpoint answered HTTP {status}"));
    }
    let what = match code {
        Some(code) => format!("the issuer refused the exchange ({code})"),
        None => format!("the issuer refused the exchange (HTTP {status})"),
    };
    refused(&what, if matches!(code, Some("invalid_grant" | "invalid_token")) { SIGN_IN } else { OPERATOR })
}

#[cfg(test)]
mod tests;
