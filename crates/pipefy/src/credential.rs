//! Credentials: one identity each, carried by value.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// One bearer token, ready to be put on a request. Prints nothing of itself.
#[derive(Clone)]
pub struct Bearer(Arc<HeaderValue>);

impl Bearer {
    /// Prepares `Authorization: Bearer <token>`.
    ///
    /// # Errors
    /// [`CredentialError::Unusable`] when the token is empty or holds characters that a header cannot carry.
    pub fn new(token: &SecretString) -> Result<Self, CredentialError> {
        let token = token.expose_secret();
        if token.is_empty() {
            return Err(CredentialError::Unusable);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| CredentialError::Unusable)?;
        value.set_sensitive(true);
        Ok(Self(Arc::new(value)))
    }

    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }

    fn token(&self) -> Option<&str> {
        std::str::from_utf8(self.0.as_bytes()).ok()?.strip_prefix("Bearer ")
    }

    /// Whether a text contains this token (used to refuse it elsewhere).
    pub fn occurs_in(&self, text: &str) -> bool {
        self.token().is_some_and(|token| text.contains(token))
    }

    /// The text with this token masked, where it contains it. A token that is as short as a word stays: it could be one.
    pub(crate) fn masked(&self, text: &str) -> Option<String> {
        let token = self.token().filter(|token| token.len() >= 8 && text.contains(token))?;
        Some(text.replace(token, "***"))
    }
}

impl PartialEq for Bearer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Bearer {}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(***)")
    }
}

/// Why no bearer could be had. Never holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    /// The token cannot be sent in a header.
    #[error(
        "the access token is empty or holds characters that a header cannot carry; set it again without line breaks"
    )]
    Unusable,
    /// The source of tokens refused; signing in again or fixing the settings is the next step.
    #[error("{message}")]
    Refused {
        /// What happened and what to do.
        message: String,
    },
    /// The source of tokens could not be reached; trying again later is the next step.
    #[error("{message}")]
    Unavailable {
        /// What happened and what to do.
        message: String,
    },
}

/// A place bearers come from: a fixed token, a service account, a stored session, a token exchange.
pub trait BearerSource: Send + Sync {
    /// The current bearer, renewed first when it is about to expire.
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>>;

    /// Told that `rejected` was answered with 401: gives another bearer, or `None` when there is no way to get one.
    fn renew<'a>(&'a self, rejected: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>>;
}

/// One identity. Cheap to clone, bound for its whole life, prints no secret.
#[derive(Clone)]
pub struct Credential(Inner);

#[derive(Clone)]
enum Inner {
    Fixed(Bearer),
    Source(Arc<dyn BearerSource>),
}

impl Credential {
    /// A fixed bearer token.
    ///
    /// # Errors
    /// [`CredentialError::Unusable`], see [`Bearer::new`].
    pub fn static_token(token: &SecretString) -> Result<Self, CredentialError> {
        Ok(Self(Inner::Fixed(Bearer::new(token)?)))
    }

    /// Bearers from a source that can renew them.
    pub fn from_source(source: Arc<dyn BearerSource>) -> Self {
        Self(Inner::Source(source))
    }

    /// The bearer to send now.
    ///
    /// # Errors
    /// Whatever the source says.
    pub async fn bearer(&self) -> Result<Bearer, CredentialError> {
        match &self.0 {
            Inner::Fixed(bearer) => Ok(bearer.clone()),
            Inner::Source(source) => source.bearer().await,
        }
    }

    /// Another bearer after a 401, if there is one.
    ///
    /// # Errors
    /// Whatever the source says.
    pub async fn renew(&self, rejected: &Bearer) -> Result<Option<Bearer>, CredentialError> {
        match &self.0 {
            Inner::Fixed(_) => Ok(None),
            Inner::Source(source) => source.renew(rejected).await,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Fixed(_) => "Credential(fixed token)",
            Inner::Source(_) => "Credential(renewable)",
        })
    }
}
