//! The bearer seam: who a request comes from, decided before anything else is looked at.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::refusal::Refusal;
use crate::identity::Principal;

/// Turns a bearer into a principal. One implementation validates JWTs; tests have their own.
pub trait Authenticator: Send + Sync + 'static {
    /// Who the bearer stands for. Must not log the bearer.
    ///
    /// # Errors
    /// [`Rejection`].
    fn authenticate<'a>(&'a self, bearer: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>>;
}

/// Why a bearer was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It was judged and is not good: 401. The client learns no detail.
    Invalid,
    /// It could not be judged (the issuer's keys cannot be had): 503, try again after this many seconds.
    Unavailable {
        /// Seconds for `Retry-After`.
        retry_after: u32,
    },
}

/// What the endpoint asks of a request before it is served.
#[derive(Clone)]
pub enum Inbound {
    /// Nothing: a server for the person at this machine.
    Open,
    /// A good bearer.
    Bearer {
        /// Judges bearers.
        authenticator: Arc<dyn Authenticator>,
        /// Every one must be among the bearer's scopes.
        required_scopes: Vec<String>,
        /// Where clients learn which issuer to ask (RFC 9728); named in every challenge.
        metadata_url: String,
    },
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Inbound::Open => f.write_str("Open"),
            Inbound::Bearer { required_scopes, metadata_url, .. } => f
                .debug_struct("Bearer")
                .field("required_scopes", required_scopes)
                .field("metadata_url", metadata_url)
                .finish(),
        }
    }
}

impl Inbound {
    /// Lets the request in or refuses it. A principal is put into the parts' extensions, where it travels with the message,
    /// and the header is taken out: whoever needs the bearer later takes it from the principal.
    pub(crate) async fn admit(&self, parts: &mut Parts) -> Result<(), Refusal> {
        let Inbound::Bearer { authenticator, required_scopes, metadata_url } = self else {
            if let http::header::Entry::Occupied(mut header) = parts.headers.entry(AUTHORIZATION) {
                header.iter_mut().for_each(|value| value.set_sensitive(true));
            }
            return Ok(());
        };
        let challenge = |status, error: &str, description: &str, scope: &str| {
            let header = format!(
                "Bearer error=\"{error}\", error_description=\"{description}\", resource_metadata=\"{metadata_url}\"{scope}"
            );
            Refusal::oauth(status, error, description, &header)
        };
        let unauthenticated = || challenge(StatusCode::UNAUTHORIZED, "invalid_token", "Authentication required", "");
        let bearer = bearer(&parts.headers).ok_or_else(unauthenticated)?;
        let principal = match authenticator.authenticate(bearer).await {
            Ok(principal) => principal,
            Err(Rejection::Invalid) => return Err(unauthenticated()),
            Err(Rejection::Unavailable { retry_after }) => {
                return Err(Refusal::later(
                    StatusCode::SERVICE_UNAVAILABLE,
                    retry_after,
                    "The bearer cannot be checked now: the issuer's keys are not available; try again later",
                ));
            }
        };
        if let Some(missing) = required_scopes.iter().find(|scope| !principal.scopes.contains(scope)) {
            let description = format!("Required scope: {missing}");
            let scope = format!(", scope=\"{}\"", required_scopes.join(" "));
            return Err(challenge(StatusCode::FORBIDDEN, "insufficient_scope", &description, &scope));
        }
        parts.headers.remove(AUTHORIZATION);
        parts.extensions.insert(principal);
        Ok(())
    }
}

/// The token of the first `Authorization: Bearer` header, as sent.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case("bearer ") && !token.is_empty()).then_some(token)
}

/// Whom a session belongs to: the person through one client, not the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// Whoever reaches this machine's loopback.
    Local,
    /// An authenticated caller.
    Caller(Arc<Caller>),
}

/// The parts of a caller that outlive its token.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) client_id: String,
    pub(crate) issuer: Option<String>,
    pub(crate) subject: Option<String>,
}

impl Owner {
    /// The owner that a request's principal makes.
    pub(crate) fn of(parts: &Parts) -> Self {
        match parts.extensions.get::<Principal>() {
            None => Owner::Local,
            Some(principal) => {
                Self::caller(&principal.client_id, principal.issuer.as_deref(), principal.subject.as_deref())
            }
        }
    }

    pub(crate) fn caller(client_id: &str, issuer: Option<&str>, subject: Option<&str>) -> Self {
        Owner::Caller(Arc::new(Caller {
            client_id: client_id.to_owned(),
            issuer: issuer.map(str::to_owned),
            subject: subject.map(str::to_owned),
        }))
    }
}
