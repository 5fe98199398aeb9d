//! Which method authenticates, decided once.

use std::fmt;
use std::sync::Arc;

use pipefy::Credential;
use pipefy::settings::{AuthSettings, Source};
use secrecy::{ExposeSecret, SecretString};

use crate::error::AuthError;
use crate::http::AuthHttp;
use crate::service_account::{ServiceAccount, SharedServiceAccount};

/// The method that won, by the name scripts know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthSource {
    /// A token given on the command line.
    FlagToken,
    /// A token from the settings.
    EnvToken,
    /// Client credentials.
    ServiceAccount,
    /// The session stored by `pipefy auth login`.
    StoredSession,
}

impl AuthSource {
    /// `flag-token`, `env-token`, `service-account` or `stored-session`.
    pub fn wire_name(self) -> &'static str {
        match self {
            AuthSource::FlagToken => "flag-token",
            AuthSource::EnvToken => "env-token",
            AuthSource::ServiceAccount => "service-account",
            AuthSource::StoredSession => "stored-session",
        }
    }
}

impl fmt::Display for AuthSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wire_name())
    }
}

/// How calls will authenticate. That there is a way is decided: "no credential" is [`AuthError::NoCredentials`].
#[derive(Clone, Debug)]
pub enum ResolvedAuth {
    /// A token that is sent as it is; no refresh.
    StaticToken(StaticTokenAuth),
    /// Tokens by client credentials.
    ServiceAccount(ServiceAccountAuth),
}

/// A static token.
#[derive(Clone, Debug)]
pub struct StaticTokenAuth {
    credential: Credential,
    origin: Source,
}

/// A service account.
#[derive(Clone, Debug)]
pub struct ServiceAccountAuth {
    /// Where tokens are asked for.
    pub token_url: String,
    /// The account's client id.
    pub client_id: String,
    shared: SharedServiceAccount,
}

impl ResolvedAuth {
    /// Which method this is.
    pub fn source(&self) -> AuthSource {
        match self {
            ResolvedAuth::StaticToken(token) if matches!(token.origin, Source::Explicit(_)) => AuthSource::FlagToken,
            ResolvedAuth::StaticToken(_) => AuthSource::EnvToken,
            ResolvedAuth::ServiceAccount(_) => AuthSource::ServiceAccount,
        }
    }

    /// The method in words, saying where a token came from.
    pub fn label(&self) -> String {
        match self {
            ResolvedAuth::StaticToken(token) => format!("static token from {}", token.origin),
            ResolvedAuth::ServiceAccount(account) => format!("service account {}", account.client_id),
        }
    }

    /// What the SDK's sessions are bound to. No I/O; every call gives the same identity, and tokens are fetched once for
    /// all of them.
    pub fn credential(&self) -> Credential {
        match self {
            ResolvedAuth::StaticToken(token) => token.credential.clone(),
            ResolvedAuth::ServiceAccount(account) => Credential::from_source(account.shared.clone()),
        }
    }
}

/// Decides how calls authenticate: `explicit_token` (blank counts as absent), then the settings' static token, then the
/// service account (half of one counts as absent), then the stored session.
///
/// The keychain is looked at only when neither a token nor a service account is there; that look-up may block.
///
/// # Errors
/// [`AuthError::NoCredentials`] when nothing is there, [`AuthError::UnusableToken`] when a token cannot be sent.
pub fn resolve_credential(
    settings: &AuthSettings,
    explicit_token: Option<SecretString>,
) -> Result<ResolvedAuth, AuthError> {
    if let Some(token) = static_token(settings, explicit_token)? {
        return Ok(ResolvedAuth::StaticToken(token));
    }
    if let Some(account) = service_account(settings) {
        return Ok(ResolvedAuth::ServiceAccount(account));
    }
    Err(AuthError::NoCredentials { login: "pipefy auth login" })
}

fn static_token(
    settings: &AuthSettings,
    explicit_token: Option<SecretString>,
) -> Result<Option<StaticTokenAuth>, AuthError> {
    let given = explicit_token.map(|token| (token, Source::Explicit("--token".to_owned())));
    let set = || settings.static_token.clone().map(|token| (token, settings.static_token_source.clone()));
    let usable = |(token, _): &(SecretString, Source)| !token.expose_secret().trim().is_empty();
    let Some((token, origin)) = given.filter(usable).or_else(|| set().filter(usable)) else { return Ok(None) };
    let token = SecretString::from(token.expose_secret().trim());
    match Credential::static_token(&token) {
        Ok(credential) => Ok(Some(StaticTokenAuth { credential, origin })),
        Err(_) => Err(AuthError::UnusableToken { origin: origin.to_string() }),
    }
}

fn service_account(settings: &AuthSettings) -> Option<ServiceAccountAuth> {
    let client_id = settings.service_account_client_id.clone()?;
    let secret = settings.service_account_client_secret.clone()?;
    let token_url = settings.service_account_url();
    let shared = Arc::new(ServiceAccount::new(token_url.clone(), &client_id, secret, AuthHttp::new()));
    Some(ServiceAccountAuth { token_url, client_id, shared })
}
