//! The bearer seam: who a request comes from, decided before anything else is looked at.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::refusal::Refusal;
use super::resource::ProtectedResource;
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
        /// This server as clients see it: which issuer to ask, which scopes are needed.
        resource: ProtectedResource,
    },
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Inbound::Open => f.write_str("Open"),
            Inbound::Bearer { resource, .. } => {
                f.debug_struct("Bearer").field("resource", resource).finish_non_exhaustive()
            }
        }
    }
}

impl Inbound {
    /// With what is only known once the server listens.
    #[must_use]
    pub(crate) fn listening_on(self, port: u16) -> Self {
        match self {
            Inbound::Open => Inbound::Open,
            Inbound::Bearer { authenticator, resource } => {
                Inbound::Bearer { authenticator, resource: resource.listening_on(port) }
            }
        }
    }

    /// Lets the request in or refuses it. A principal is put into the parts' extensions, where it travels with the message,
    /// and the header is taken out: whoever needs the bearer later takes it from the principal.
    pub(crate) async fn admit(&self, parts: &mut Parts) -> Result<(), Refusal> {
        let Inbound::Bearer { authenticator, resource } = self else {
            if let http::header::Entry::Occupied(mut header) = parts.headers.entry(AUTHORIZATION) {
                header.iter_mut().for_each(|value| value.set_sensitive(true));
            }
            return Ok(());
        };
        let bearer = bearer(&parts.headers).ok_or_else(|| resource.unauthenticated())?;
        let principal = match authenticator.authenticate(bearer).await {
            Ok(principal) => principal,
            Err(Rejection::Invalid) => return Err(resource.unauthenticated()),
            Err(Rejection::Unavailable { retry_after }) => {
                return Err(Refusal::later(
                    StatusCode::SERVICE_UNAVAILABLE,
                    retry_after,
                    "The bearer cannot be checked now: the issuer's keys are not available; try again later",
                ));
            }
        };
        if let Some(missing) = resource.required_scopes().iter().find(|scope| !principal.scopes.contains(scope)) {
            return Err(resource.lacks(missing));
        }
        parts.headers.remove(AUTHORIZATION);
        parts.extensions.insert(principal);
        Ok(())
    }
}

/// The token of the `Authorization: Bearer` header, as sent. Of two headers nobody can say which one a proxy has looked at,
/// so two are as good as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let value = value.to_str().ok()?;
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
