//! The credential, decided when the first request needs it: what can be refused without one is refused first.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use pipefy::settings::AuthSettings;
use pipefy::{Bearer, BearerSource, Credential, CredentialError};
use pipefy_auth::{AuthError, AuthSource, ResolvedAuth, resolve_credential};
use secrecy::SecretString;

/// One identity for the whole run. Looks at the keychain on first use, and only when nothing before it is there.
pub(crate) struct Lazy {
    settings: AuthSettings,
    token: Option<SecretString>,
    resolved: OnceLock<Result<ResolvedAuth, AuthError>>,
}

impl Lazy {
    /// `token` is the one of the command line.
    pub(crate) fn new(settings: AuthSettings, token: Option<SecretString>) -> Arc<Self> {
        Arc::new(Self { settings, token, resolved: OnceLock::new() })
    }

    /// Why there is no credential, once a request has asked for one.
    pub(crate) fn failure(&self) -> Option<&AuthError> {
        self.resolved.get().and_then(|resolved| resolved.as_ref().err())
    }

    /// Whether the session stored by `auth login` is what is used.
    pub(crate) fn is_stored_session(&self) -> bool {
        matches!(self.resolved.get(), Some(Ok(auth)) if auth.source() == AuthSource::StoredSession)
    }

    async fn resolve(&self) -> Result<Credential, CredentialError> {
        if self.resolved.get().is_none() {
            let (settings, token) = (self.settings.clone(), self.token.clone());
            let resolved = tokio::task::spawn_blocking(move || resolve_credential(&settings, token))
                .await
                .map_err(|error| CredentialError::Unavailable { message: error.to_string() })?;
            let _ = self.resolved.set(resolved);
        }
        match self.resolved.get() {
            Some(Ok(auth)) => Ok(auth.credential()),
            Some(Err(error)) => Err(CredentialError::Refused { message: error.to_string() }),
            None => Err(CredentialError::Unavailable { message: "no credential was found".to_owned() }),
        }
    }
}

impl BearerSource for Lazy {
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
        Box::pin(async move { self.resolve().await?.bearer().await })
    }

    fn renew<'a>(&'a self, rejected: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
        Box::pin(async move { self.resolve().await?.renew(rejected).await })
    }
}
