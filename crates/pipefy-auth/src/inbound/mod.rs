//! Bearers that come in: who sent this request?
//!
//! For a server that many people call. [`JwtValidator`] judges a JWT against the keys of one issuer and says who it stands
//! for. It knows HTTP only as a client: nothing of a web framework or of MCP is in here, and it holds no caller's identity
//! beyond a bounded cache of judgements.

mod claims;
mod clock;
mod keys;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use moka::future::Cache;
use pipefy::settings::JwtValidationSettings;
use pipefy::url_policy::{UrlPolicyError, UrlShape, configured_url};
use serde_json::{Map, Value};

pub use claims::Claims;
use claims::Rules;
use clock::Clock;
use keys::{Found, KeyRing, Source};

use crate::http::AuthHttp;

/// Longest token that is looked at, in bytes. Tokens with many roles have a few KiB.
const TOKEN_LIMIT: usize = 16 * 1024;

/// How long a judgement is kept at most.
const KEPT: Duration = Duration::from_secs(300);

/// How many judgements are kept; the least used go first.
const KEPT_COUNT: u64 = 10_000;

/// Why a bearer was not accepted. Neither variant holds anything of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It was judged and is not good (401). The reason is for logs; the client learns no detail.
    #[error("the bearer is not valid: {0}")]
    Invalid(&'static str),
    /// It could not be judged, because the issuer's keys cannot be had (503).
    #[error("the bearer cannot be checked now: the issuer's keys are not available; try again in {retry_after_s} s")]
    Unavailable {
        /// Seconds after which trying again makes sense.
        retry_after_s: u32,
    },
}

/// Settings with which no bearer can be judged. Found before anything is fetched.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboundError {
    /// The issuer or the address of its keys breaks the URL rules.
    #[error("{0}")]
    Url(#[from] UrlPolicyError),
    /// The audience is to be checked, and there is none.
    #[error("PIPEFY_JWT_VERIFY_AUDIENCE needs an audience to compare with: set PIPEFY_JWT_AUDIENCE")]
    NoAudience,
}

/// Judges bearers of one issuer: RS256 JWTs, verified with the issuer's published keys.
///
/// Cheap to share behind an `Arc`. Nothing is fetched before the first bearer comes. Judgements are kept until the token
/// expires, 300 s at most, under a hash of the token, and are all forgotten when the issuer's keys change.
pub struct JwtValidator {
    rules: Rules,
    validation: Validation,
    keys: KeyRing,
    clock: Arc<Clock>,
    judged: Cache<[u8; 32], Arc<Judgement>>,
}

/// A token that was good, and under which keys.
struct Judgement {
    claims: Arc<Claims>,
    kid: String,
    generation: u64,
    at: Instant,
}

impl JwtValidator {
    /// A validator for `issuer` (byte for byte what tokens must carry in `iss`), which finds the keys at
    /// `settings.jwks_uri` or else through the issuer's discovery document. `resource` is this server's public URL, which
    /// goes into every [`Claims`] verbatim. No network I/O.
    ///
    /// # Errors
    /// [`InboundError`].
    pub fn new(
        settings: &JwtValidationSettings,
        issuer: String,
        resource: impl Into<Arc<str>>,
    ) -> Result<JwtValidator, InboundError> {
        JwtValidator::with_clock(settings, issuer, resource.into(), Arc::new(Clock::default()))
    }

    fn with_clock(
        settings: &JwtValidationSettings,
        issuer: String,
        resource: Arc<str>,
        clock: Arc<Clock>,
    ) -> Result<JwtValidator, InboundError> {
        let policy = settings.url_policy();
        configured_url("PIPEFY_JWT_ISSUER_URL", &issuer, UrlShape::NoQuery, policy)?;
        let source = match &settings.jwks_uri {
            Some(uri) => Source::Given(configured_url("PIPEFY_JWT_JWKS_URI", uri, UrlShape::NoQuery, policy)?),
            None => Source::Discovered { issuer: issuer.clone(), policy },
        };
        let audience = match (settings.verify_audience, &settings.audience) {
            (false, _) => None,
            (true, Some(audience)) if !audience.trim().is_empty() => Some(audience.clone()),
            (true, _) => return Err(InboundError::NoAudience),
        };
        // The library verifies the signature; the claims are judged here, because their rules are more lenient in form
        // (an `exp` as text) and stricter in substance (a claim that is absent) than the library's.
        let mut validation = Validation::new(Algorithm::RS256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Ok(JwtValidator {
            rules: Rules { issuer: issuer.into(), audience, resource },
            validation,
            keys: KeyRing::new(AuthHttp::new(), source, clock.clone()),
            clock,
            judged: Cache::builder().max_capacity(KEPT_COUNT).time_to_live(KEPT).build(),
        })
    }

    /// The issuer whose tokens are accepted, as configured.
    pub fn issuer(&self) -> &str {
        &self.rules.issuer
    }

    /// Whether a token must be meant for this server. Without it any token of the issuer is accepted, whichever client it
    /// was made for; a hosted server says so when it starts.
    pub fn verifies_audience(&self) -> bool {
        self.rules.audience.is_some()
    }

    /// Who `token` (without the `Bearer` scheme, exactly as sent) stands for. Runs inside a Tokio runtime; waits for the
    /// network only while the needed key is not known.
    ///
    /// # Errors
    /// [`Rejection`].
    pub async fn validate(&self, token: &str) -> Result<Arc<Claims>, Rejection> {
        if token.len() > TOKEN_LIMIT {
            return Err(Rejection::Invalid("it is too long"));
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        if let Some(judgement) = self.judged.get(&hash).await {
            let found = self.keys.find(&judgement.kid).await?;
            self.forget_older(&found);
            let kept = self.clock.now().saturating_duration_since(judgement.at) < KEPT;
            if kept && found.generation == judgement.generation {
                self.rules.check_expiry(judgement.claims.expires_at, self.clock.unix())?;
                return Ok(judgement.claims.clone());
            }
        }
        let kid = key_id(token)?;
        let found = self.keys.find(&kid).await?;
        self.forget_older(&found);
        let verified =
            decode::<Map<String, Value>>(token, &found.key, &self.validation).map_err(|error| explain(&error))?;
        let claims = Arc::new(self.rules.judge(&verified.claims, self.clock.unix())?);
        let judgement = Judgement { claims: claims.clone(), kid, generation: found.generation, at: self.clock.now() };
        self.judged.insert(hash, Arc::new(judgement)).await;
        Ok(claims)
    }

    /// A judgement under keys that have changed is not consulted again; this gives its memory back.
    fn forget_older(&self, found: &Found) {
        if found.changed {
            self.judged.invalidate_all();
        }
    }
}

impl std::fmt::Debug for JwtValidator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtValidator").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The name of the key that signed the token. Everything that can be refused without the issuer is refused here, so that
/// nobody can make this server call the issuer with tokens of another kind.
fn key_id(token: &str) -> Result<String, Rejection> {
    let invalid = |reason| Err(Rejection::Invalid(reason));
    // Base64url without padding, three parts: what a JWT consists of. The library is more lenient about some of it.
    let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if !plain || token.bytes().filter(|byte| *byte == b'.').count() != 2 {
        return invalid("it is not a signed JWT");
    }
    let Ok(header) = decode_header(token) else {
        return invalid("its header cannot be read or its algorithm is unknown");
    };
    if header.alg != Algorithm::RS256 {
        return invalid("it is not signed with RS256");
    }
    if header.crit.is_some() {
        return invalid("its header demands extensions that are not supported");
    }
    match header.kid {
        Some(kid) if !kid.is_empty() => Ok(kid),
        _ => invalid("its header names no key (kid)"),
    }
}

fn explain(error: &jsonwebtoken::errors::Error) -> Rejection {
    use jsonwebtoken::errors::ErrorKind;
    Rejection::Invalid(match error.kind() {
        ErrorKind::InvalidSignature | ErrorKind::Base64(_) => "its signature is wrong",
        ErrorKind::Json(_) | ErrorKind::Utf8(_) => "its claims are not a JSON object",
        _ => "it cannot be verified",
    })
}
