//! OIDC discovery: what an issuer says about itself.

use std::time::Duration;

use pipefy::url_policy::{UrlPolicy, validate_url};
use serde_json::{Map, Value};

use crate::http::AuthHttp;

/// How long discovery may take.
pub(crate) const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

/// An issuer's endpoints, checked against the URL policy.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The issuer as it names itself (a trailing slash is kept).
    pub issuer: String,
    /// Where users sign in.
    pub authorization_endpoint: String,
    /// Where tokens are granted.
    pub token_endpoint: String,
    /// Where sessions are ended.
    pub end_session_endpoint: Option<String>,
    /// Where tokens are revoked (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// Where device logins start (RFC 8628).
    pub device_authorization_endpoint: Option<String>,
    /// Where the signing keys are.
    pub jwks_uri: Option<String>,
}

/// Why discovery failed, without the answer's body.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// No answer.
    #[error("the auth server at {url} is unreachable ({cause}); check the network and PIPEFY_AUTH_URL")]
    Unreachable {
        /// The discovery URL.
        url: String,
        /// Why.
        cause: String,
    },
    /// An answer other than 200.
    #[error("OIDC discovery failed with HTTP {status} at {url}; check PIPEFY_AUTH_URL")]
    Status {
        /// The discovery URL.
        url: String,
        /// The status.
        status: u16,
    },
    /// Not a JSON object.
    #[error("OIDC discovery returned non-JSON at {url}; check PIPEFY_AUTH_URL")]
    NotJson {
        /// The discovery URL.
        url: String,
    },
    /// The document lacks what a login needs.
    #[error("the OIDC discovery document at {url} is missing required fields: {}; check PIPEFY_AUTH_URL", fields.join(", "))]
    Missing {
        /// The discovery URL.
        url: String,
        /// Their names.
        fields: Vec<&'static str>,
    },
    /// The document speaks for somebody else.
    #[error(
        "OIDC issuer mismatch: asked {asked}, the document names {named}; set PIPEFY_AUTH_URL to the issuer's own name"
    )]
    IssuerMismatch {
        /// As configured.
        asked: String,
        /// As claimed.
        named: String,
    },
    /// An endpoint breaks the URL policy.
    #[error(
        "the OIDC discovery document has an invalid {field}: {reason}; check PIPEFY_AUTH_URL, or tell whoever runs the auth server"
    )]
    Endpoint {
        /// Which.
        field: &'static str,
        /// Why.
        reason: String,
    },
}

impl Issuer {
    /// Fetches `<issuer>/.well-known/openid-configuration`. One request, no cache.
    ///
    /// # Errors
    /// [`DiscoveryError`].
    pub async fn discover(http: &AuthHttp, issuer: &str, policy: UrlPolicy) -> Result<Issuer, DiscoveryError> {
        let asked = issuer.trim().trim_end_matches('/');
        let url = format!("{asked}/.well-known/openid-configuration");
        let unreachable = |cause: String| DiscoveryError::Unreachable { url: url.clone(), cause };
        let client = http.client().map_err(|error| unreachable(error.to_string()))?;
        let answer = http.send(client.get(&url), DISCOVERY_LIMIT).await;
        let answer = answer.map_err(|error| unreachable(error.to_string()))?;
        if answer.status != 200 {
            return Err(DiscoveryError::Status { url, status: answer.status });
        }
        let document = answer.json().ok_or(DiscoveryError::NotJson { url: url.clone() })?;
        Issuer::read(&document, asked, url, policy)
    }

    fn read(
        document: &Map<String, Value>,
        asked: &str,
        url: String,
        policy: UrlPolicy,
    ) -> Result<Issuer, DiscoveryError> {
        let text = |field: &str| {
            let text = document.get(field).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let mut missing = Vec::new();
        let mut required = |field: &'static str| {
            text(field).unwrap_or_else(|| {
                missing.push(field);
                String::new()
            })
        };
        let issuer = required("issuer");
        let authorization_endpoint = required("authorization_endpoint");
        let token_endpoint = required("token_endpoint");
        if !missing.is_empty() {
            return Err(DiscoveryError::Missing { url, fields: missing });
        }
        if issuer.trim_end_matches('/') != asked {
            let named = crate::http::clean(&issuer);
            return Err(DiscoveryError::IssuerMismatch { asked: asked.to_owned(), named });
        }
        let checked = |field: &'static str, value: String| match validate_url(field, &value, policy) {
            Ok(_) => Ok(value),
            Err(error) => Err(DiscoveryError::Endpoint { field, reason: error.reason().to_owned() }),
        };
        let optional = |field: &'static str| text(field).map(|value| checked(field, value)).transpose();
        Ok(Issuer {
            issuer,
            authorization_endpoint: checked("authorization_endpoint", authorization_endpoint)?,
            token_endpoint: checked("token_endpoint", token_endpoint)?,
            end_session_endpoint: optional("end_session_endpoint")?,
            revocation_endpoint: optional("revocation_endpoint")?,
            device_authorization_endpoint: optional("device_authorization_endpoint")?,
            jwks_uri: optional("jwks_uri")?,
        })
    }
}
