//! Signing in: browser (authorization code + PKCE) and device.

use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oauth2::{
    AuthUrl, AuthorizationCode, CsrfToken, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, Scope, StandardDeviceAuthorizationResponse,
};
use pipefy::settings::AuthSettings;
use pipefy::url_policy::{UrlPolicy, validate_url};
use secrecy::{ExposeSecret, SecretString};

use crate::callback::{Callback, CallbackListener};
use crate::discovery::Issuer;
use crate::error::AuthError;
use crate::grant::{self, Carrier, Client, Expect, GrantError, TokenAnswer};
use crate::http::{AuthHttp, clean};
use crate::id_token;
use crate::session::{StoredSession, now};

const SCOPES: [&str; 4] = ["openid", "profile", "email", "offline_access"];

/// The least time between two polls, whatever interval an issuer gives.
const SHORTEST_POLL: Duration = Duration::from_millis(200);

/// How long a browser login waits by default.
pub const CALLBACK_LIMIT: Duration = Duration::from_secs(180);

/// A browser login in progress: the listener is bound, the URL is ready. Dropping it releases the socket and forgets
/// everything.
pub struct BrowserLogin {
    http: AuthHttp,
    issuer: Issuer,
    client_id: String,
    client: Client<EndpointSet>,
    listener: CallbackListener,
    verifier: PkceCodeVerifier,
    nonce: String,
    url: String,
}

impl BrowserLogin {
    /// Discovers the issuer, binds the loopback listener and prepares the authorization URL.
    ///
    /// # Errors
    /// [`AuthError::StoredSessionDisabled`] (before any I/O); [`AuthError::Login`] when discovery or the bind fails.
    pub async fn start(settings: &AuthSettings, http: AuthHttp) -> Result<BrowserLogin, AuthError> {
        let (issuer, client_id) = begin(settings, &http).await?;
        let auth_url = AuthUrl::new(issuer.authorization_endpoint.clone())
            .map_err(|_| AuthError::login("the authorization endpoint is not a URL"))?;
        let client = grant::client(&client_id, &issuer.token_endpoint).map_err(|error| failed(&error))?;
        let client = client.set_auth_uri(auth_url);

        let state = CsrfToken::new(random(24)?);
        let nonce = random(24)?;
        let listener = CallbackListener::bind(SecretString::from(state.secret().as_str())).await.map_err(|error| {
            AuthError::login(format!(
                "no port on 127.0.0.1 could be opened for the browser to return to ({}); try `pipefy auth login --device`",
                error.kind()
            ))
        })?;
        let redirect = RedirectUrl::new(format!("http://127.0.0.1:{}/callback", listener.port()))
            .map_err(|_| AuthError::login("the redirect is not a URL"))?;
        let client = client.set_redirect_uri(redirect);

        // 48 random bytes are a verifier of 64 characters.
        let (challenge, verifier) = {
            let verifier = PkceCodeVerifier::new(random(48)?);
            (PkceCodeChallenge::from_code_verifier_sha256(&verifier), verifier)
        };
        let (url, _) = client
            .authorize_url(|| state)
            .add_scopes(SCOPES.map(|scope| Scope::new(scope.to_owned())))
            .set_pkce_challenge(challenge)
            .add_extra_param("nonce", nonce.clone())
            .url();
        Ok(BrowserLogin { http, issuer, client_id, client, listener, verifier, nonce, url: url.into() })
    }

    /// Where the user signs in. Not a secret to keep long, but good for this login only.
    pub fn authorization_url(&self) -> &str {
        &self.url
    }

    /// The issuer, as it names itself.
    pub fn issuer(&self) -> &str {
        &self.issuer.issuer
    }

    /// The port on `127.0.0.1` that the browser returns to.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for the browser, exchanges the code and verifies the ID token. The caller stores the session.
    ///
    /// # Errors
    /// [`AuthError::LoginTimeout`] when the browser does not come back within `limit`; [`AuthError::Login`] when the
    /// user denies, the code is refused or the answer is wrong.
    pub async fn finish(self, limit: Duration) -> Result<StoredSession, AuthError> {
        let waiting_at = format!("127.0.0.1:{}", self.listener.port());
        let code = match self.listener.wait(limit).await {
            None => return Err(AuthError::LoginTimeout { waiting_at, limit }),
            Some(Callback::Refused { error, description }) => {
                let description = description.map(|text| format!(": {}", clean(&text))).unwrap_or_default();
                return Err(AuthError::login(format!("{}{description}. {}", clean(&error), next_step(&error))));
            }
            Some(Callback::NoCode) => return Err(AuthError::login("the auth server returned no code; try again")),
            Some(Callback::Code(code)) => code,
        };
        let carrier = Carrier { http: &self.http, expect: Expect::Tokens };
        let asked = now();
        let answer = self
            .client
            .exchange_code(AuthorizationCode::new(code.expose_secret().to_owned()))
            .set_pkce_verifier(self.verifier)
            .request_async(&carrier)
            .await
            .map_err(|error| failed(&error.into()))?;
        complete(&self.http, &self.issuer, &self.client_id, Some(&self.nonce), answer, asked).await
    }
}

impl std::fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserLogin").field("issuer", &self.issuer.issuer).finish_non_exhaustive()
    }
}

/// A device login in progress: the user code is there, nobody has entered it yet.
pub struct DeviceLogin {
    http: AuthHttp,
    issuer: Issuer,
    client_id: String,
    client: Client<EndpointNotSet, EndpointSet>,
    details: StandardDeviceAuthorizationResponse,
}

impl DeviceLogin {
    /// Discovers the issuer and asks for a code.
    ///
    /// # Errors
    /// [`AuthError::StoredSessionDisabled`] (before any I/O); [`AuthError::Login`] when the issuer has no device flow,
    /// refuses this client, or answers wrongly.
    pub async fn start(settings: &AuthSettings, http: AuthHttp) -> Result<DeviceLogin, AuthError> {
        let (issuer, client_id) = begin(settings, &http).await?;
        let Some(endpoint) = issuer.device_authorization_endpoint.clone() else {
            return Err(AuthError::login(
                "this auth server offers no device login; run `pipefy auth login` on a machine with a browser, or use PIPEFY_TOKEN",
            ));
        };
        let endpoint = DeviceAuthorizationUrl::new(endpoint)
            .map_err(|_| AuthError::login("the device authorization endpoint is not a URL"))?;
        let client = grant::client(&client_id, &issuer.token_endpoint).map_err(|error| failed(&error))?;
        let client = client.set_device_authorization_url(endpoint);
        let carrier = Carrier { http: &http, expect: Expect::DeviceCode };
        let details: StandardDeviceAuthorizationResponse = client
            .exchange_device_code()
            .add_scopes(SCOPES.map(|scope| Scope::new(scope.to_owned())))
            .request_async(&carrier)
            .await
            .map_err(|error| failed(&error.into()))?;
        // The user is sent there, so it must not be a place that the policy refuses.
        let policy = settings.url_policy();
        let shown = [
            Some(details.verification_uri().as_str()),
            details.verification_uri_complete().map(|uri| uri.secret().as_str()),
        ];
        for uri in shown.into_iter().flatten() {
            check_shown(uri, policy)?;
        }
        Ok(DeviceLogin { http, issuer, client_id, client, details })
    }

    /// What the user types in.
    pub fn user_code(&self) -> &str {
        self.details.user_code().secret()
    }

    /// Where the user types it.
    pub fn verification_uri(&self) -> &str {
        self.details.verification_uri().as_str()
    }

    /// The same with the code filled in, where the issuer offers it.
    pub fn verification_uri_complete(&self) -> Option<&str> {
        self.details.verification_uri_complete().map(|uri| uri.secret().as_str())
    }

    /// How long the code is good.
    pub fn expires_in(&self) -> Duration {
        self.details.expires_in()
    }

    /// The issuer, as it names itself.
    pub fn issuer(&self) -> &str {
        &self.issuer.issuer
    }

    /// Polls at the issuer's pace until the user has answered or the code has expired, then verifies the ID token. The
    /// caller stores the session.
    ///
    /// # Errors
    /// [`AuthError::CodeExpired`] when the code expires; [`AuthError::Login`] when the user denies or the answer is
    /// wrong.
    pub async fn finish(self) -> Result<StoredSession, AuthError> {
        let carrier = Carrier { http: &self.http, expect: Expect::Tokens };
        let asked = now();
        let limit = self.expires_in();
        let expired = || AuthError::CodeExpired { uri: self.verification_uri().to_owned(), limit };
        let pause = |interval: Duration| tokio::time::sleep(interval.max(SHORTEST_POLL));
        let polling = self.client.exchange_device_access_token(&self.details).request_async(&carrier, pause, None);
        // The library watches the wall clock, which may be set back.
        let answer = match tokio::time::timeout(limit, polling).await {
            Err(_) => return Err(expired()),
            Ok(answer) => answer.map_err(GrantError::from),
        };
        match answer {
            Err(GrantError::OAuth { code, .. }) if code == "expired_token" => Err(expired()),
            Err(GrantError::OAuth { ref code, .. }) if code == "access_denied" => Err(AuthError::login(format!(
                "access_denied: the request was denied in the browser. {}",
                next_step(code)
            ))),
            Err(error) => Err(failed(&error)),
            Ok(answer) => {
                // Granted somewhere between start and now; the lifetime counts from the answer.
                let granted = now().max(asked);
                complete(&self.http, &self.issuer, &self.client_id, None, answer, granted).await
            }
        }
    }
}

impl std::fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceLogin").field("issuer", &self.issuer.issuer).finish_non_exhaustive()
    }
}

async fn begin(settings: &AuthSettings, http: &AuthHttp) -> Result<(Issuer, String), AuthError> {
    if settings.disable_stored_session {
        return Err(AuthError::StoredSessionDisabled);
    }
    let issuer = Issuer::discover(http, &settings.auth_url, settings.url_policy())
        .await
        .map_err(|error| AuthError::login(error.to_string()))?;
    Ok((issuer, settings.auth_client_id.trim().to_owned()))
}

async fn complete(
    http: &AuthHttp,
    issuer: &Issuer,
    client_id: &str,
    nonce: Option<&str>,
    answer: TokenAnswer,
    obtained_at: i64,
) -> Result<StoredSession, AuthError> {
    let tokens = answer.into_tokens().complete().map_err(|wrong| {
        AuthError::login(format!(
            "the token endpoint's answer is invalid ({wrong}); does this client have the offline_access scope?"
        ))
    })?;
    if let Some(token) = &tokens.id_token {
        id_token::verify(http, issuer, client_id, nonce, token.expose_secret()).await.map_err(AuthError::login)?;
    }
    Ok(StoredSession { issuer: issuer.issuer.clone(), client_id: client_id.to_owned(), obtained_at, tokens })
}

fn failed(error: &GrantError) -> AuthError {
    AuthError::login(match error {
        GrantError::Network(cause) => {
            format!("the auth server did not answer ({cause}); check the network and try again")
        }
        GrantError::OAuth { code, .. } => format!("Token exchange failed: {error}. {}", next_step(code)),
        GrantError::Status(500..) => format!("{error}. The auth server has a problem; try again later."),
        GrantError::Status(_) => format!("{error}. Check PIPEFY_AUTH_URL and PIPEFY_AUTH_CLIENT_ID."),
        GrantError::Invalid(_) => format!("{error}. Check PIPEFY_AUTH_URL."),
    })
}

/// What to do about an OAuth error (RFC 6749 sections 4.1.2.1 and 5.2), as a sentence.
fn next_step(code: &str) -> &'static str {
    match code {
        "access_denied" => "Run `pipefy auth login` again, or ask your administrator whether you may sign in.",
        "invalid_client" | "unauthorized_client" => "Check PIPEFY_AUTH_CLIENT_ID.",
        "invalid_scope" => {
            "The auth server does not let this client ask for offline_access; check PIPEFY_AUTH_CLIENT_ID."
        }
        "server_error" | "temporarily_unavailable" => "The auth server has a problem; try again later.",
        _ => "Run `pipefy auth login` again.",
    }
}

fn check_shown(uri: &str, policy: UrlPolicy) -> Result<(), AuthError> {
    match validate_url("verification_uri", uri, policy) {
        Ok(_) => Ok(()),
        Err(error) => Err(AuthError::login(format!("the auth server's {error}"))),
    }
}

/// `bytes` random bytes as base64url text.
fn random(bytes: usize) -> Result<String, AuthError> {
    let mut buffer = vec![0; bytes];
    rand::fill(&mut buffer).map_err(|_| AuthError::login("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(buffer))
}
