//! A hosted server's two halves: whom it lets in, and as whom it calls Pipefy for them. Both come from the settings, once.

use std::sync::Arc;

use pipefy::settings::ServerSettings;
use pipefy_auth::TokenExchange;
use pipefy_auth::inbound::JwtValidator;

use crate::http::{Inbound, JwtBearers, ProtectedResource};
use crate::identity::{ExchangedIdentity, Identity, RequestScopedIdentity};
use crate::runtime::StartError;

/// Bearers of the configured issuer, for this server's public URL; and the identity that acts with them. No network: keys
/// and the token endpoint are found when the first bearer comes.
///
/// # Errors
/// [`StartError::NoResourceServer`], then [`StartError::NoIssuer`], then whatever cannot be used of the rest.
pub(crate) fn halves(settings: &ServerSettings) -> Result<(Inbound, Arc<dyn Identity>), StartError> {
    let url = settings.resource_server.resource_server_url.as_deref().ok_or(StartError::NoResourceServer)?;
    let issuer = settings.jwt.effective_issuer(&settings.auth).ok_or(StartError::NoIssuer)?;
    let resource = ProtectedResource::new(url, issuer, &settings.resource_server.required_scopes)
        .map_err(|_| StartError::NoResourceServer)?;
    let validator = JwtValidator::new(&settings.jwt, issuer.to_owned(), url)?;
    let identity: Arc<dyn Identity> = match &settings.exchange {
        Some(exchange) => Arc::new(ExchangedIdentity::new(TokenExchange::new(exchange, issuer)?)),
        None => Arc::new(RequestScopedIdentity),
    };
    tracing::info!(
        issuer,
        resource = url,
        audience_checked = validator.verifies_audience(),
        on_behalf_of = settings.exchange.is_some(),
        "callers sign in"
    );
    Ok((Inbound::Bearer { authenticator: Arc::new(JwtBearers::new(validator)), resource }, identity))
}
