//! Bearers that are JWTs of one issuer.

use futures_util::future::BoxFuture;
use pipefy_auth::inbound::{self, JwtValidator};

use super::bearer::{Authenticator, Rejection};
use crate::identity::Principal;

/// Judges bearers with the validator of the issuer. Why one was refused is logged; the client learns nothing of it.
#[derive(Debug)]
pub struct JwtBearers(JwtValidator);

impl JwtBearers {
    /// Bearers as `validator` sees them.
    pub fn new(validator: JwtValidator) -> Self {
        Self(validator)
    }
}

impl Authenticator for JwtBearers {
    fn authenticate<'a>(&'a self, bearer: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
        Box::pin(async move {
            match self.0.validate(bearer).await {
                Ok(claims) => Ok(Principal {
                    client_id: claims.client_id.clone(),
                    issuer: Some(claims.issuer.to_string()),
                    subject: claims.subject.clone(),
                    scopes: claims.scopes.clone(),
                    expires_at: claims.expires_at,
                    bearer: bearer.into(),
                }),
                Err(inbound::Rejection::Invalid(reason)) => {
                    tracing::warn!(reason, "a bearer was refused");
                    Err(Rejection::Invalid)
                }
                Err(inbound::Rejection::Unavailable { retry_after_s }) => {
                    tracing::warn!("a bearer could not be checked: the issuer's keys are not available");
                    Err(Rejection::Unavailable { retry_after: retry_after_s })
                }
            }
        })
    }
}
