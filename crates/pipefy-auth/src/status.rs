//! Who is signed in, how, and for how long.

use jiff::Timestamp;
use pipefy::settings::AuthSettings;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::error::{AuthError, RefreshError};
use crate::resolve::{AuthSource, Detected, ResolvedAuth, StoredSessionAuth, detect};

/// Everything about the caller that can be said without the API.
#[derive(Clone, Debug)]
pub struct AuthStatus {
    /// The method in use; none when nobody is signed in.
    pub active: Option<ResolvedAuth>,
    /// All methods that have their inputs, in order of precedence.
    pub detected: Vec<AuthSource>,
    /// About the stored session, when it is the method in use.
    pub session: Option<SessionStatus>,
    /// Settings that beat a stored session, when one is there.
    pub masking: Vec<String>,
    /// What stands in the way of the stored session, in a sentence.
    pub note: Option<String>,
}

/// The stored session, renewed if that was due.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The configured issuer.
    pub issuer: String,
    /// Whether it can be used.
    pub state: SessionState,
    /// When the access token expires, in Unix seconds.
    pub access_expires_at: Option<i64>,
    /// When the refresh token expires, in Unix seconds; none when it does not, or nobody said.
    pub refresh_expires_at: Option<i64>,
    /// The issuer said that the refresh token does not expire.
    pub refresh_never_expires: bool,
    /// Name of the store it is kept in.
    pub keychain_backend: String,
    /// Why it could not be renewed.
    pub error: Option<RefreshError>,
}

/// Whether a stored session can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Yes.
    Active,
    /// No: the issuer has ended it.
    RefreshExpired,
    /// No, for another reason.
    NeedsLogin,
}

impl SessionState {
    /// `active`, `refresh-expired` or `needs-login`.
    pub fn wire_name(self) -> &'static str {
        match self {
            SessionState::Active => "active",
            SessionState::RefreshExpired => "refresh-expired",
            SessionState::NeedsLogin => "needs-login",
        }
    }
}

/// What the API says about the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The account's address.
    pub email: Option<String>,
    /// The account's name.
    pub name: Option<String>,
}

/// Detects all methods and, when the stored session is the one in use, renews it if due. Never prompts.
///
/// # Errors
/// [`AuthError::UnusableToken`] when a token cannot be sent. Nobody signed in is a status, not an error.
pub async fn status(settings: &AuthSettings, explicit_token: Option<SecretString>) -> Result<AuthStatus, AuthError> {
    let Detected { mut methods, note } = detect(settings, explicit_token).await?;
    let mut detected: Vec<AuthSource> = methods.iter().map(ResolvedAuth::source).collect();
    let stored = detected.contains(&AuthSource::StoredSession);
    let masking = if stored { settings.masking.clone() } else { Vec::new() };
    let mut active = (!methods.is_empty()).then(|| methods.swap_remove(0));
    let mut session = None;
    if let Some(ResolvedAuth::StoredSession(auth)) = &active {
        session = session_status(auth).await;
        if session.is_none() {
            // It went away between the two looks.
            active = None;
            detected.clear();
        }
    }
    Ok(AuthStatus { active, detected, session, masking, note })
}

async fn session_status(auth: &StoredSessionAuth) -> Option<SessionStatus> {
    let old = auth.keeper.keychain().load().await.ok().flatten();
    let (session, error) = match auth.keeper.fresh(None).await {
        Ok(session) => (session?, None),
        Err(error) => (old?, Some(error)),
    };
    let state = match error.as_ref().map(|error| error.error_code.as_deref()) {
        None => SessionState::Active,
        Some(Some("invalid_grant")) => SessionState::RefreshExpired,
        Some(_) => SessionState::NeedsLogin,
    };
    Some(SessionStatus {
        issuer: auth.issuer_url.clone(),
        state,
        access_expires_at: session.access_expires_at(),
        refresh_expires_at: session.refresh_expires_at(),
        refresh_never_expires: session.tokens.refresh_expires_in == Some(0),
        keychain_backend: auth.keeper.keychain().name(),
        error,
    })
}

impl AuthStatus {
    /// 2 when nobody is signed in or the session could not be renewed, else 0. (A failed identity query makes it 1.)
    pub fn exit_code(&self) -> u8 {
        let broken = self.session.as_ref().is_some_and(|session| session.error.is_some());
        if self.active.is_none() || broken { 2 } else { 0 }
    }

    /// The wire name of the method in use, `none` without one.
    pub fn auth_source(&self) -> &'static str {
        self.active.as_ref().map_or("none", |active| active.source().wire_name())
    }

    /// The machine-readable report: always the same keys in the same order.
    pub fn json(&self, identity: Option<&Identity>, token_rejected: bool) -> Value {
        let session = self.session.as_ref();
        let time = |at: Option<i64>| at.and_then(|at| Timestamp::from_second(at).ok()).map(|at| at.to_string());
        json!({
            "signed_in": self.active.is_some(),
            "identity": identity.map(|identity| json!({ "email": identity.email, "name": identity.name })),
            "auth_source": self.auth_source(),
            "detected_sources": self.detected.iter().map(|source| source.wire_name()).collect::<Vec<_>>(),
            "issuer": session.map(|session| session.issuer.as_str()),
            "state": session.map_or("n/a", |session| session.state.wire_name()),
            "access_expires_at": session.and_then(|session| time(session.access_expires_at)),
            "refresh_expires_at": session.and_then(|session| time(session.refresh_expires_at)),
            "token_rejected": token_rejected,
            "keychain_backend": session.map(|session| session.keychain_backend.as_str()),
            "masking_env_vars": self.masking,
        })
    }
}
