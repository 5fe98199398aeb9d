//! Who is calling Pipefy: credential tiers, sign-in, stored sessions.
//!
//! Three methods, in a fixed order; the first whose inputs are present wins and there is no falling through when it is
//! rejected: a static token, a service account, the session stored by `pipefy auth login`. [`resolve_credential`]
//! decides once and gives a [`ResolvedAuth`], a value that knows where it came from; [`ResolvedAuth::credential`] turns
//! it into what the SDK's sessions are bound to.
//!
//! The functions of this crate return typed outcomes; rendering and exit codes belong to the front end
//! ([`AuthError::exit_code`] gives the class).

mod error;
mod http;
mod resolve;
mod service_account;

pub use error::AuthError;
pub use http::AuthHttp;
pub use resolve::{
    AuthSource, ResolvedAuth, ServiceAccountAuth, StaticTokenAuth, resolve_credential,
};
