//! Which method authenticates, decided once.

use std::fmt;
use std::sync::Arc;

use pipefy::Credential;
use pipefy::settings::{AuthSettings, Source};
use secrecy::{ExposeSecret, SecretString};

use crate::error::AuthError;
use crate::http::AuthHttp;
use crate::refresh::{SessionKeeper, SessionSource};
use crate::service_account::{ServiceAccount, SharedServiceAccount};
use crate::store::{Entry, StoreError};

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
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum ResolvedAuth {
    /// A token that is sent as it is; no refresh.
    StaticToken(StaticTokenAuth),
    /// Tokens by client credentials.
    ServiceAccount(ServiceAccountAuth),
    /// The session that `pipefy auth login` stored; renewed as needed.
    StoredSession(StoredSessionAuth),
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

/// A stored session; it existed when it was looked for.
#[derive(Clone, Debug)]
pub struct StoredSessionAuth {
    /// The configured issuer.
    pub issuer_url: String,
    /// The configured OIDC client.
    pub client_id: String,
    /// Which of several logins, when it has a name.
    pub account: Option<String>,
    /// The means to look at it and renew it.
    pub keeper: SessionKeeper,
    shared: Arc<SessionSource>,
}

impl ResolvedAuth {
    /// Which method this is.
    pub fn source(&self) -> AuthSource {
        match self {
            ResolvedAuth::StaticToken(token) if matches!(token.origin, Source::Explicit(_)) => AuthSource::FlagToken,
            ResolvedAuth::StaticToken(_) => AuthSource::EnvToken,
            ResolvedAuth::ServiceAccount(_) => AuthSource::ServiceAccount,
            ResolvedAuth::StoredSession(_) => AuthSource::StoredSession,
        }
    }

    /// The method in words, saying where a token came from.
    pub fn label(&self) -> String {
        match self {
            ResolvedAuth::StaticToken(token) => format!("static token from {}", token.origin),
            ResolvedAuth::ServiceAccount(account) => format!("service account {}", account.client_id),
            ResolvedAuth::StoredSession(session) => match &session.account {
                Some(account) => format!("stored session {account} of {}", session.issuer_url),
                None => format!("stored session of {}", session.issuer_url),
            },
        }
    }

    /// What the SDK's sessions are bound to. No I/O; every call gives the same identity, and tokens are fetched once for
    /// all of them.
    pub fn credential(&self) -> Credential {
        match self {
            ResolvedAuth::StaticToken(token) => token.credential.clone(),
            ResolvedAuth::ServiceAccount(account) => Credential::from_source(account.shared.clone()),
            ResolvedAuth::StoredSession(session) => Credential::from_source(session.shared.clone()),
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
    let (session, note) = match keeper(settings) {
        Ok(Some(keeper)) => stored_session(settings, &keeper, keeper.keychain().read_blocking()),
        Ok(None) => (None, None),
        Err(note) => (None, Some(note)),
    };
    session.map(ResolvedAuth::StoredSession).ok_or(AuthError::NoCredentials { login: LOGIN, note })
}

/// The command that signs in.
pub(crate) const LOGIN: &str = "pipefy auth login";

/// Every method that has its inputs, in order of precedence; the first is what [`resolve_credential`] gives. For
/// diagnostics: this always looks into the keychain (unless stored sessions are disabled).
#[derive(Clone, Debug)]
pub struct Detected {
    /// The methods.
    pub methods: Vec<ResolvedAuth>,
    /// What stands in the way of the stored session, in a sentence, when something does.
    pub note: Option<String>,
}

/// Looks for every method.
///
/// # Errors
/// [`AuthError::UnusableToken`] when a token cannot be sent.
pub async fn detect(settings: &AuthSettings, explicit_token: Option<SecretString>) -> Result<Detected, AuthError> {
    let mut methods = Vec::new();
    methods.extend(static_token(settings, explicit_token)?.map(ResolvedAuth::StaticToken));
    methods.extend(service_account(settings).map(ResolvedAuth::ServiceAccount));
    let (session, note) = match keeper(settings) {
        Ok(Some(keeper)) => stored_session(settings, &keeper, keeper.keychain().read().await),
        Ok(None) => (None, None),
        Err(note) => (None, Some(note)),
    };
    methods.extend(session.map(ResolvedAuth::StoredSession));
    Ok(Detected { methods, note })
}

/// The keeper of stored sessions; nothing when they are disabled.
fn keeper(settings: &AuthSettings) -> Result<Option<SessionKeeper>, String> {
    match SessionKeeper::open(settings, AuthHttp::new()) {
        Err(AuthError::StoredSessionDisabled) => Ok(None),
        opened => opened.map(Some).map_err(|error| error.to_string()),
    }
}

/// A usable session, or why what is stored is none.
fn stored_session(
    settings: &AuthSettings,
    keeper: &SessionKeeper,
    entry: Result<Entry, StoreError>,
) -> (Option<StoredSessionAuth>, Option<String>) {
    match entry {
        Ok(Entry::Session(_)) => {
            let auth = StoredSessionAuth {
                issuer_url: settings.auth_url.trim().to_owned(),
                client_id: settings.auth_client_id.trim().to_owned(),
                account: settings.account.clone(),
                keeper: keeper.clone(),
                shared: SessionSource::new(keeper.clone()),
            };
            (Some(auth), None)
        }
        Ok(Entry::Unreadable) => {
            (None, Some("An unreadable session is stored; `pipefy auth logout` removes it.".to_owned()))
        }
        Ok(Entry::Foreign(session)) => (
            None,
            Some(format!(
                "The stored session is one of {} (client {}), not of the configured issuer.",
                session.issuer, session.client_id
            )),
        ),
        Ok(Entry::Absent) => (None, None),
        Err(error) => (None, Some(format!("The keychain could not be read: {error}."))),
    }
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
