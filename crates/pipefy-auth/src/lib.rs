//! Who is calling Pipefy: credential tiers, sign-in, stored sessions.
//!
//! Three methods, in a fixed order; the first whose inputs are present wins and there is no falling through when it is
//! rejected: a static token, a service account, the session stored by `pipefy auth login`. [`resolve_credential`]
//! decides once and gives a [`ResolvedAuth`], a value that knows where it came from; [`ResolvedAuth::credential`] turns
//! it into what the SDK's sessions are bound to.
//!
//! The functions of this crate return typed outcomes; rendering and exit codes belong to the front end
//! ([`AuthError::exit_code`] gives the class).

mod callback;
mod discovery;
mod error;
mod exchange;
mod grant;
mod hints;
mod http;
mod id_token;
pub mod inbound;
mod lock;
mod login;
mod logout;
mod refresh;
mod resolve;
mod service_account;
mod session;
mod status;
mod store;

pub use discovery::{DiscoveryError, Issuer};
pub use error::{AuthError, RefreshError};
pub use exchange::{ExchangeError, OnBehalfOf, TokenExchange};
pub use hints::{Platform, keychain_hint};
pub use http::{AuthHttp, Probe};
pub use login::{BrowserLogin, CALLBACK_LIMIT, DeviceLogin};
pub use logout::{Logout, Revocation};
pub use refresh::SessionKeeper;
pub use resolve::{
    AuthSource, Detected, ResolvedAuth, ServiceAccountAuth, StaticTokenAuth, StoredSessionAuth, detect,
    resolve_credential,
};
pub use session::{LEEWAY_SECONDS, StoredSession, Tokens, account_name};
pub use status::{AuthStatus, Identity, SessionState, SessionStatus, status};
pub use store::{Entry, FileStore, Keychain, Presence, SERVICE, SecretStore, StoreError};
