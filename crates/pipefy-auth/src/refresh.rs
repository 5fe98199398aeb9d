//! Keeping the stored session fresh, across tasks and processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use oauth2::RefreshToken;
use pipefy::settings::AuthSettings;
use pipefy::url_policy::UrlPolicy;
use pipefy::{Bearer, BearerSource, CredentialError};
use secrecy::ExposeSecret;
use tokio::sync::Mutex;

use crate::discovery::Issuer;
use crate::error::{AuthError, RefreshError};
use crate::grant::{self, Carrier, Expect, GrantError};
use crate::http::AuthHttp;
use crate::lock::{LOCK_LIMIT, RefreshLock};
use crate::session::{LEEWAY_SECONDS, StoredSession, now};
use crate::store::{Keychain, StoreError};

/// A session read from the keychain is used this long before the keychain is asked again whether another process has
/// renewed or removed it.
const RECHECK: Duration = Duration::from_secs(15);

/// The stored session of one issuer and client, and the means to renew it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionKeeper {
    keychain: Keychain,
    http: AuthHttp,
    issuer: String,
    client_id: String,
    policy: UrlPolicy,
    lock_dir: Option<PathBuf>,
    lock_limit: Duration,
}

impl SessionKeeper {
    /// Over the keychain that the settings ask for.
    ///
    /// # Errors
    /// [`AuthError::StoredSessionDisabled`]; [`AuthError::Keychain`] when there is no keychain to open.
    pub fn open(settings: &AuthSettings, http: AuthHttp) -> Result<SessionKeeper, AuthError> {
        if settings.disable_stored_session {
            return Err(AuthError::StoredSessionDisabled);
        }
        let keychain = Keychain::open(settings).map_err(AuthError::Keychain)?;
        Ok(SessionKeeper::over(settings, keychain, http))
    }

    /// Over another keychain.
    pub fn over(settings: &AuthSettings, keychain: Keychain, http: AuthHttp) -> SessionKeeper {
        SessionKeeper {
            keychain,
            http,
            issuer: settings.auth_url.trim().to_owned(),
            client_id: settings.auth_client_id.trim().to_owned(),
            policy: settings.url_policy(),
            lock_dir: settings.config_dir.clone(),
            lock_limit: LOCK_LIMIT,
        }
    }

    /// Waits at most this long for another process's refresh (30 s by default).
    #[must_use]
    pub fn with_lock_limit(mut self, limit: Duration) -> SessionKeeper {
        self.lock_limit = limit;
        self
    }

    /// Where the session is kept.
    pub fn keychain(&self) -> &Keychain {
        &self.keychain
    }

    pub(crate) fn http(&self) -> &AuthHttp {
        &self.http
    }

    pub(crate) fn policy(&self) -> UrlPolicy {
        self.policy
    }

    /// Takes the cross-process lock.
    pub(crate) async fn lock(&self) -> Result<RefreshLock, RefreshError> {
        let Some(dir) = &self.lock_dir else {
            return Err(RefreshError::new(
                "the home directory is unknown, so there is no place for the refresh lock; set HOME",
            ));
        };
        RefreshLock::acquire(dir, self.lock_limit).await.map_err(|error| RefreshError::new(error.to_string()))
    }

    /// The session, renewed first when it is stale or its access token is `rejected`. Nothing when none is stored.
    ///
    /// Renewal happens under a lock that all processes share, and only after looking again: whoever comes second finds
    /// the first one's result and uses it.
    ///
    /// # Errors
    /// [`RefreshError`]; the stored session is kept.
    pub async fn fresh(&self, rejected: Option<&Bearer>) -> Result<Option<StoredSession>, RefreshError> {
        let Some(session) = self.load().await? else { return Ok(None) };
        if usable(&session, rejected) {
            return Ok(Some(session));
        }
        // On a task of its own: a caller that goes away must not lose a refresh token which has just been rotated.
        let (keeper, rejected) = (self.clone(), rejected.cloned());
        let renewal = tokio::spawn(async move { keeper.renew_locked(rejected.as_ref()).await });
        renewal.await.unwrap_or_else(|_| Err(RefreshError::new("the refresh was interrupted")))
    }

    async fn renew_locked(&self, rejected: Option<&Bearer>) -> Result<Option<StoredSession>, RefreshError> {
        let _lock = self.lock().await?;
        let Some(session) = self.load().await? else { return Ok(None) };
        if usable(&session, rejected) {
            return Ok(Some(session));
        }
        let unstorable = |error: StoreError| {
            RefreshError::new(format!("the renewed session could not be stored ({}): {error}", self.keychain.name()))
        };
        // A grant uses the refresh token up, so the place for the next one comes first.
        self.keychain.check().await.map_err(unstorable)?;
        let renewed = self.renew(&session).await?;
        self.keychain.store(&renewed).await.map_err(unstorable)?;
        Ok(Some(renewed))
    }

    /// Stores the session of a login. Takes the refresh lock, so that a refresh under way cannot overwrite it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn keep(&self, session: &StoredSession) -> Result<(), StoreError> {
        let _lock = match self.lock().await {
            Ok(lock) => Some(lock),
            Err(RefreshError { message, .. }) => {
                tracing::warn!("storing the session without the refresh lock: {message}");
                None
            }
        };
        self.keychain.store(session).await
    }

    async fn load(&self) -> Result<Option<StoredSession>, RefreshError> {
        let loaded = self.keychain.load().await;
        loaded.map_err(|error| RefreshError::new(format!("the keychain could not be read: {error}")))
    }

    async fn renew(&self, session: &StoredSession) -> Result<StoredSession, RefreshError> {
        let issuer = Issuer::discover(&self.http, &self.issuer, self.policy).await.map_err(|error| {
            let text = error.to_string();
            let said = if text.starts_with("OIDC discovery failed") { "" } else { "OIDC discovery failed: " };
            RefreshError::new(format!("{said}{text}"))
        })?;
        let client = grant::client(&self.client_id, &issuer.token_endpoint).map_err(|error| refused(&error))?;
        let token = RefreshToken::new(session.tokens.refresh_token.expose_secret().to_owned());
        let carrier = Carrier { http: &self.http, expect: Expect::Tokens };
        let asked = now();
        let answer = client
            .exchange_refresh_token(&token)
            .request_async(&carrier)
            .await
            .map_err(|error| refused(&error.into()))?;
        Ok(StoredSession {
            issuer: session.issuer.clone(),
            client_id: session.client_id.clone(),
            obtained_at: asked,
            tokens: answer.into_tokens().merge(&session.tokens),
        })
    }
}

fn refused(error: &GrantError) -> RefreshError {
    match error {
        GrantError::Network(cause) => RefreshError::new(format!("Refresh request failed: {cause}")),
        GrantError::OAuth { code, .. } => {
            RefreshError { message: format!("Refresh failed: {error}"), error_code: Some(code.clone()) }
        }
        GrantError::Status(status) => RefreshError::new(format!("Refresh failed (HTTP {status})")),
        GrantError::Invalid(wrong) => RefreshError::new(format!("Refresh failed: {wrong}")),
    }
}

/// Not stale, and not the token that was just refused.
fn usable(session: &StoredSession, rejected: Option<&Bearer>) -> bool {
    let refused = rejected.is_some_and(|rejected| bearer_of(session).is_ok_and(|bearer| bearer == *rejected));
    !refused && !session.is_stale(now(), LEEWAY_SECONDS)
}

fn bearer_of(session: &StoredSession) -> Result<Bearer, CredentialError> {
    Bearer::new(&session.tokens.access_token)
}

/// Bearers from the stored session. Callers of one process share one look-up and one renewal.
pub(crate) struct SessionSource {
    keeper: SessionKeeper,
    held: Mutex<Option<Held>>,
}

struct Held {
    session: StoredSession,
    bearer: Bearer,
    read_at: Instant,
}

impl SessionSource {
    pub(crate) fn new(keeper: SessionKeeper) -> Arc<SessionSource> {
        Arc::new(SessionSource { keeper, held: Mutex::default() })
    }

    async fn get(&self, rejected: Option<&Bearer>) -> Result<Option<Bearer>, RefreshError> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref()
            && held.read_at.elapsed() < RECHECK
            && Some(&held.bearer) != rejected
            && !held.session.is_stale(now(), LEEWAY_SECONDS)
        {
            return Ok(Some(held.bearer.clone()));
        }
        *held = None;
        let Some(session) = self.keeper.fresh(rejected).await? else { return Ok(None) };
        let bearer = bearer_of(&session).map_err(|error| RefreshError::new(error.to_string()))?;
        *held = Some(Held { session, bearer: bearer.clone(), read_at: Instant::now() });
        Ok(Some(bearer))
    }
}

impl BearerSource for SessionSource {
    fn bearer(&self) -> BoxFuture<'_, Result<Bearer, CredentialError>> {
        Box::pin(async move {
            match self.get(None).await {
                Ok(Some(bearer)) => Ok(bearer),
                Ok(None) => Err(CredentialError::Refused { message: AuthError::SessionGone.to_string() }),
                Err(error) if error.is_final() => {
                    Err(CredentialError::Refused { message: AuthError::Refresh(error).to_string() })
                }
                Err(error) => Err(CredentialError::Unavailable { message: AuthError::Refresh(error).to_string() }),
            }
        })
    }

    /// A failed renewal leaves the 401 to speak for itself.
    fn renew<'a>(&'a self, rejected: &'a Bearer) -> BoxFuture<'a, Result<Option<Bearer>, CredentialError>> {
        Box::pin(async move {
            match self.get(Some(rejected)).await {
                Ok(bearer) => Ok(bearer.filter(|bearer| bearer != rejected)),
                Err(error) => {
                    tracing::info!("the stored session could not be refreshed after a 401: {error}");
                    Ok(None)
                }
            }
        })
    }
}

impl std::fmt::Debug for SessionSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSource").field("issuer", &self.keeper.issuer).finish_non_exhaustive()
    }
}
