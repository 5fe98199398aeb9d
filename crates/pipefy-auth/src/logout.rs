//! Signing out: the session ends at the issuer and in the keychain, and what was not done is said.

use secrecy::ExposeSecret;
use serde_json::Value;

use crate::discovery::Issuer;
use crate::grant::GRANT_LIMIT;
use crate::refresh::SessionKeeper;
use crate::session::StoredSession;
use crate::store::{Entry, StoreError};

/// What became of the refresh token at the issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It is void.
    Revoked,
    /// The auth server does not advertise a logout endpoint; only the local session was cleared.
    NotOffered,
    /// It could not be revoked and may stay valid until it expires.
    Failed {
        /// Why: a status or a network cause, never a body.
        cause: String,
    },
    /// There was no token to revoke: the entry could not be read.
    Unreadable,
}

impl Revocation {
    /// The warning for stderr; nothing when all is well.
    pub fn warning(&self) -> Option<String> {
        Some(match self {
            Revocation::Revoked => return None,
            Revocation::NotOffered => {
                "The auth server does not advertise a logout endpoint; only the local session was cleared.".to_owned()
            }
            Revocation::Failed { cause } => format!(
                "The refresh token could not be revoked at the IdP ({cause}); it may remain valid at the server until its natural expiry."
            ),
            Revocation::Unreadable => {
                "The stored entry was unreadable, so nothing was revoked; its token stays valid at the server until its natural expiry."
                    .to_owned()
            }
        })
    }
}

/// How signing out went.
#[derive(Clone, Debug)]
pub enum Logout {
    /// Nobody was signed in. Exit code 0.
    NothingStored,
    /// The entry is gone. Exit code 0; the revocation may still deserve a warning.
    SignedOut {
        /// The session's issuer; none when the entry was unreadable.
        issuer: Option<String>,
        /// What became of its token.
        revocation: Revocation,
    },
    /// The entry could not be deleted. Exit code 1; nothing is claimed.
    DeleteRefused {
        /// What became of its token.
        revocation: Revocation,
        /// Why.
        cause: StoreError,
    },
    /// The keychain could not be read and nothing was deleted; a credential may still be there. Exit code 1.
    PresenceUnknown {
        /// Why.
        cause: StoreError,
    },
}

impl Logout {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Logout::NothingStored | Logout::SignedOut { .. } => 0,
            Logout::DeleteRefused { .. } | Logout::PresenceUnknown { .. } => 1,
        }
    }
}

impl SessionKeeper {
    /// Revokes and removes the stored session, under the refresh lock so that a refresh of another process cannot bring
    /// it back. A lock that cannot be had (a hung process) does not keep anybody signed in.
    pub async fn log_out(&self) -> Logout {
        let _lock = match self.lock().await {
            Ok(lock) => Some(lock),
            Err(error) => {
                tracing::warn!("signing out without the refresh lock: {error}");
                None
            }
        };
        let entry = self.keychain().read().await;
        let (issuer, revocation) = match &entry {
            Ok(Entry::Absent) => return Logout::NothingStored,
            Ok(Entry::Session(session)) => (Some(session.issuer.clone()), self.revoke(session).await),
            // Another realm's session under the same key: its own issuer revokes it.
            Ok(Entry::Foreign(session)) => (Some(session.issuer.clone()), self.revoke(session).await),
            Ok(Entry::Unreadable) | Err(_) => (None, Revocation::Unreadable),
        };
        match (self.keychain().delete().await, entry) {
            (Ok(true), _) => Logout::SignedOut { issuer, revocation },
            (Ok(false), Err(cause)) => Logout::PresenceUnknown { cause },
            (Ok(false), Ok(_)) => Logout::NothingStored,
            (Err(cause), Err(_)) => Logout::PresenceUnknown { cause },
            (Err(cause), Ok(_)) => Logout::DeleteRefused { revocation, cause },
        }
    }

    /// Ends a session at the issuer that could not be stored, so that nobody holds what nobody can end.
    pub async fn discard(&self, session: &StoredSession) -> Revocation {
        self.revoke(session).await
    }

    /// Ends the session at the issuer the way Pipefy's does (a POST to its end-session endpoint), and by token
    /// revocation (RFC 7009) where that is advertised, which then decides: its answer is about the token.
    async fn revoke(&self, session: &StoredSession) -> Revocation {
        let issuer = match Issuer::discover(self.http(), &session.issuer, self.policy()).await {
            Ok(issuer) => issuer,
            Err(error) => return Revocation::Failed { cause: error.to_string() },
        };
        let token = session.tokens.refresh_token.expose_secret();
        let client_id = session.client_id.as_str();
        let ended = match &issuer.end_session_endpoint {
            Some(endpoint) => Some(self.post(endpoint, &[("client_id", client_id), ("refresh_token", token)]).await),
            None => None,
        };
        let outcome = match &issuer.revocation_endpoint {
            Some(endpoint) => {
                let form = [("token", token), ("token_type_hint", "refresh_token"), ("client_id", client_id)];
                Some(self.post(endpoint, &form).await)
            }
            None => ended,
        };
        match outcome {
            None => Revocation::NotOffered,
            Some(Ok(())) => Revocation::Revoked,
            Some(Err(cause)) => Revocation::Failed { cause },
        }
    }

    async fn post(&self, url: &str, form: &[(&str, &str)]) -> Result<(), String> {
        let client = self.http().client().map_err(|error| error.to_string())?;
        let answer = self.http().send(client.post(url).form(form), GRANT_LIMIT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status {
            200..=299 => Ok(()),
            status => {
                let code = answer
                    .json()
                    .and_then(|fields| fields.get("error").and_then(Value::as_str).map(crate::http::clean));
                Err(code.map_or(format!("HTTP {status}"), |code| format!("HTTP {status}, {code}")))
            }
        }
    }
}
