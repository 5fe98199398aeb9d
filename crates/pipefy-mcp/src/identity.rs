//! Who is calling, and as whom we call Pipefy for them.
//!
//! [`Identity::resolve`] is the only place that turns a caller into an outbound credential. It looks at the HTTP request
//! that carried *this* message and at nothing else: a session's task lives long, and whatever it remembered would freeze
//! the first caller's bearer.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::request::Parts;
use pipefy::{Credential, CredentialError};
use pipefy_auth::{OnBehalfOf, TokenExchange};
use secrecy::{ExposeSecret, SecretString};

/// A caller whose bearer was validated. The HTTP layer puts it into the extensions of the request that carried the bearer;
/// it travels with that message and is kept nowhere else.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The OAuth client that got the token.
    pub client_id: String,
    /// The token's issuer, as written in it.
    pub issuer: Option<String>,
    /// The person or service account; tokens without one are told apart by client and issuer only.
    pub subject: Option<String>,
    /// Granted scopes.
    pub scopes: Vec<String>,
    /// When the token expires, in Unix seconds.
    pub expires_at: i64,
    /// The bearer itself. `Debug` does not show it.
    pub bearer: SecretString,
}

impl Principal {
    /// The caller of a request, when the HTTP layer found one.
    pub fn of(request: &Parts) -> Option<&Self> {
        request.extensions.get()
    }
}

/// No outbound credential for this call. Nothing was sent. Never holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// The message did not come with an HTTP request.
    #[error("this server acts as the caller of each request, and this message came without one; connect over HTTP")]
    NoRequest,
    /// The request carries no validated caller.
    #[error("this request carries no validated caller; sign in again and send a bearer with every request")]
    NoPrincipal,
    /// The caller's bearer is empty.
    #[error("the bearer of this request is empty; sign in again")]
    EmptyBearer,
    /// The bearer cannot be used, or could not be exchanged.
    #[error(transparent)]
    Credential(#[from] CredentialError),
}

/// Turns the caller of one message into the credential that Pipefy sees.
pub trait Identity: Send + Sync {
    /// Resolves the caller of `request`: the HTTP request that carried this very message, `None` on standard streams.
    ///
    /// # Errors
    /// [`IdentityError`] when there is no credential for it. There is no fallback to another identity.
    fn resolve<'a>(&'a self, request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>>;
}

/// The credential of the process, for every call. For a server that serves the person at this machine.
#[derive(Debug)]
pub struct StartupIdentity {
    credential: Credential,
}

impl StartupIdentity {
    /// Every call acts with `credential`; a renewable one is read and renewed when it is used.
    pub fn new(credential: Credential) -> Self {
        Self { credential }
    }
}

impl Identity for StartupIdentity {
    fn resolve<'a>(&'a self, _request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(std::future::ready(Ok(self.credential.clone())))
    }
}

/// The caller's own bearer, passed on. For a server that serves many people.
#[derive(Debug)]
pub struct RequestScopedIdentity;

impl Identity for RequestScopedIdentity {
    fn resolve<'a>(&'a self, request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(std::future::ready(inbound_bearer(request).and_then(|bearer| Ok(Credential::static_token(bearer)?))))
    }
}

/// What the issuer gives for the caller's bearer (RFC 8693). For a server that serves many people and is trusted by their
/// issuer; the bearer that came in goes to the issuer and nowhere else.
#[derive(Clone, Debug)]
pub struct ExchangedIdentity {
    exchange: Arc<TokenExchange>,
}

impl ExchangedIdentity {
    /// Every call acts with what `exchange` gives for its caller.
    pub fn new(exchange: TokenExchange) -> Self {
        Self { exchange: Arc::new(exchange) }
    }
}

impl Identity for ExchangedIdentity {
    fn resolve<'a>(&'a self, request: Option<&'a Parts>) -> BoxFuture<'a, Result<Credential, IdentityError>> {
        Box::pin(async move {
            let principal = caller(request)?;
            let caller = OnBehalfOf {
                issuer: principal.issuer.clone(),
                subject: principal.subject.clone(),
                client_id: principal.client_id.clone(),
                scopes: principal.scopes.clone(),
                expires_at: principal.expires_at,
                bearer: principal.bearer.clone(),
            };
            Ok(self.exchange.credential(caller).await?)
        })
    }
}

/// The bearer that came with a message, for identities that pass it on.
///
/// # Errors
/// No request, no validated caller, or an empty bearer.
pub fn inbound_bearer(request: Option<&Parts>) -> Result<&SecretString, IdentityError> {
    Ok(&caller(request)?.bearer)
}

/// The caller of a message, with a bearer that can be used.
fn caller(request: Option<&Parts>) -> Result<&Principal, IdentityError> {
    let request = request.ok_or(IdentityError::NoRequest)?;
    let principal = Principal::of(request).ok_or(IdentityError::NoPrincipal)?;
    if principal.bearer.expose_secret().trim().is_empty() {
        return Err(IdentityError::EmptyBearer);
    }
    Ok(principal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn request(principal: Option<Principal>) -> Parts {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        if let Some(principal) = principal {
            parts.extensions.insert(principal);
        }
        parts
    }

    fn principal(bearer: &str) -> Principal {
        Principal {
            client_id: "client".to_owned(),
            issuer: None,
            subject: Some("ana".to_owned()),
            scopes: Vec::new(),
            expires_at: 0,
            bearer: bearer.into(),
        }
    }

    #[tokio::test]
    async fn a_call_without_a_caller_is_refused_aloud() {
        let identity = RequestScopedIdentity;
        assert!(matches!(identity.resolve(None).await, Err(IdentityError::NoRequest)));
        assert!(matches!(identity.resolve(Some(&request(None))).await, Err(IdentityError::NoPrincipal)));
        for empty in ["", "  "] {
            let parts = request(Some(principal(empty)));
            assert!(matches!(identity.resolve(Some(&parts)).await, Err(IdentityError::EmptyBearer)));
        }
        let parts = request(Some(principal("a\nb")));
        assert!(matches!(identity.resolve(Some(&parts)).await, Err(IdentityError::Credential(_))));
    }

    #[tokio::test]
    async fn the_caller_of_each_request_is_its_own_credential() {
        let identity = RequestScopedIdentity;
        for bearer in ["token-of-ana", "token-of-ben"] {
            let parts = request(Some(principal(bearer)));
            let credential = identity.resolve(Some(&parts)).await.unwrap();
            assert!(credential.bearer().await.unwrap().occurs_in(bearer));
        }
    }

    #[test]
    fn a_principal_shows_no_bearer() {
        assert!(!format!("{:?}", principal("canary-1")).contains("canary-1"));
    }
}
