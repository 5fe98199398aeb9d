//! Token requests: `oauth2` shapes them, this module carries them and judges the answers.
//!
//! An answer is judged before the library sees it, so that a failure keeps its HTTP status, and says which field was
//! wrong without repeating a body.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    AccessToken, AsyncHttpClient, ClientId, EndpointNotSet, EndpointSet, ErrorResponse, HttpRequest, HttpResponse,
    RefreshToken, RequestTokenError, Scope, StandardRevocableToken, TokenResponse, TokenUrl,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::http::{Answer, AuthHttp, clean};
use crate::session::GrantedTokens;

/// How long one token request may take.
pub(crate) const GRANT_LIMIT: Duration = Duration::from_secs(30);

/// The library's client over our answer type.
pub(crate) type Client<Auth = EndpointNotSet, Device = EndpointNotSet> = oauth2::Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    Auth,
    Device,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// A public client of a token endpoint.
pub(crate) fn client(client_id: &str, token_endpoint: &str) -> Result<Client, GrantError> {
    let token_url = TokenUrl::new(token_endpoint.to_owned())
        .map_err(|_| GrantError::Invalid("the token endpoint is not a URL".to_owned()))?;
    Ok(oauth2::Client::new(ClientId::new(client_id.to_owned())).set_token_uri(token_url))
}

/// Why a token request gave no tokens.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GrantError {
    /// No answer.
    #[error("{0}")]
    Network(String),
    /// The issuer said no, in OAuth's words.
    #[error("{}", oauth_text(code, description.as_deref()))]
    OAuth { code: String, description: Option<String> },
    /// The issuer said no in other words.
    #[error("Token endpoint returned HTTP {0}")]
    Status(u16),
    /// The issuer said yes, but not in a form that can be used.
    #[error("{0}")]
    Invalid(String),
}

fn oauth_text(code: &str, description: Option<&str>) -> String {
    match description {
        Some(description) => format!("{code}: {description}"),
        None => code.to_owned(),
    }
}

impl<E: ErrorResponse + 'static> From<RequestTokenError<GrantError, E>> for GrantError {
    fn from(error: RequestTokenError<GrantError, E>) -> GrantError {
        match error {
            RequestTokenError::Request(error) => error,
            RequestTokenError::ServerResponse(response) => match serde_json::to_value(&response) {
                Ok(Value::Object(fields)) => match oauth_error(&fields) {
                    Some(GrantError::OAuth { code, description: Some(status) }) if code == STATUS => {
                        GrantError::Status(status.parse().unwrap_or(400))
                    }
                    Some(GrantError::OAuth { code, description: Some(wrong) }) if code == INVALID => {
                        GrantError::Invalid(wrong)
                    }
                    error => error.unwrap_or(GrantError::Status(400)),
                },
                _ => GrantError::Status(400),
            },
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                GrantError::Invalid("the token endpoint's answer cannot be read".to_owned())
            }
        }
    }
}

/// `error` and `error_description` of an OAuth error body, trimmed; nothing without the former.
pub(crate) fn oauth_error(fields: &Map<String, Value>) -> Option<GrantError> {
    let text = |key: &str| {
        let text = fields.get(key).and_then(Value::as_str).map(clean);
        text.filter(|text| !text.is_empty())
    };
    Some(GrantError::OAuth { code: text("error")?, description: text("error_description") })
}

/// What a 200 must hold.
#[derive(Clone, Copy)]
pub(crate) enum Expect {
    Tokens,
    DeviceCode,
}

/// Carries the library's requests.
pub(crate) struct Carrier<'a> {
    pub(crate) http: &'a AuthHttp,
    pub(crate) expect: Expect,
}

impl<'c> AsyncHttpClient<'c> for Carrier<'_> {
    type Error = GrantError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, GrantError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let network = |error: crate::http::HttpFailure| GrantError::Network(error.to_string());
            let client = self.http.client().map_err(network)?;
            let (parts, body) = request.into_parts();
            let request = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            let answer = self.http.send(request, GRANT_LIMIT).await.map_err(network)?;
            self.judge(&answer)
        })
    }
}

impl Carrier<'_> {
    fn judge(&self, answer: &Answer) -> Result<HttpResponse, GrantError> {
        match self.read(answer) {
            Ok(fields) => respond(200, &Value::Object(fields)),
            Err(GrantError::OAuth { code, description }) => {
                respond(400, &json!({ "error": code, "error_description": description }))
            }
            // To the library every error of a carrier is a weak network, which a device login polls through.
            Err(error @ (GrantError::Network(_) | GrantError::Status(500..))) => Err(error),
            Err(GrantError::Status(status)) => {
                respond(400, &json!({ "error": STATUS, "error_description": status.to_string() }))
            }
            Err(GrantError::Invalid(wrong)) => respond(400, &json!({ "error": INVALID, "error_description": wrong })),
        }
    }

    fn read(&self, answer: &Answer) -> Result<Map<String, Value>, GrantError> {
        let fields = answer.json();
        if answer.status != 200 {
            return Err(fields.as_ref().and_then(oauth_error).unwrap_or(GrantError::Status(answer.status)));
        }
        let Some(fields) = fields else {
            return Err(GrantError::Invalid("the token endpoint's answer is not a JSON object".to_owned()));
        };
        match self.expect {
            Expect::Tokens => {
                GrantedTokens::read(&fields).map_err(|wrong| {
                    GrantError::Invalid(format!("the token endpoint's answer is invalid ({wrong})"))
                })?;
            }
            Expect::DeviceCode => {
                let missing: Vec<&str> = ["device_code", "user_code", "verification_uri", "expires_in"]
                    .into_iter()
                    .filter(|field| fields.get(*field).is_none_or(Value::is_null))
                    .collect();
                if !missing.is_empty() {
                    let missing = missing.join(", ");
                    return Err(GrantError::Invalid(format!("the device endpoint's answer is missing {missing}")));
                }
            }
        }
        Ok(fields)
    }
}

/// How our own judgements travel through the library; no issuer's code holds a space.
const STATUS: &str = "http status";
const INVALID: &str = "invalid answer";

fn respond(status: u16, body: &Value) -> Result<HttpResponse, GrantError> {
    http::Response::builder().status(status).body(body.to_string().into_bytes()).map_err(|_| GrantError::Status(status))
}

/// A token answer in the library's terms.
#[derive(Clone, Debug)]
pub(crate) struct TokenAnswer {
    access_token: AccessToken,
    refresh_token: Option<RefreshToken>,
    granted: GrantedTokens,
}

impl TokenAnswer {
    pub(crate) fn into_tokens(self) -> GrantedTokens {
        self.granted
    }
}

impl<'de> Deserialize<'de> for TokenAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenAnswer, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let granted = GrantedTokens::read(&fields).map_err(serde::de::Error::custom)?;
        let own = |secret: &SecretString| secret.expose_secret().to_owned();
        Ok(TokenAnswer {
            access_token: AccessToken::new(own(&granted.access_token)),
            refresh_token: granted.refresh_token.as_ref().map(|token| RefreshToken::new(own(token))),
            granted,
        })
    }
}

/// The library asks for this; tokens are never written out this way.
impl Serialize for TokenAnswer {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("tokens are not serialised"))
    }
}

impl TokenResponse for TokenAnswer {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &BasicTokenType {
        &BasicTokenType::Bearer
    }

    fn expires_in(&self) -> Option<Duration> {
        self.granted.expires_in.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        self.refresh_token.as_ref()
    }

    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}
