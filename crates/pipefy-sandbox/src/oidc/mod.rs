//! The sandbox's OpenID provider: `<sandbox url>/realms/pipefy`, with the paths and answers that Pipefy's own has.
//!
//! It signs in the three documented people: authorization code with PKCE (a page asks who you are), device code, refresh
//! with rotation, client credentials of service accounts, token exchange, revocation, end of session. Access tokens are
//! RS256 JWTs that the GraphQL endpoints accept as the person they name, when their audience includes [`API_AUDIENCE`].
//!
//! Control routes, not part of any provider: `POST /_sandbox/oidc/keys` makes a new signing key (`?drop_old=true` withdraws
//! the older ones); `POST /_sandbox/oidc/tokens` signs any claims (see [`mint`]).

pub(crate) mod clients;
mod documents;
pub(crate) mod grants;
pub(crate) mod keys;
mod pages;

use crate::error::GqlError;
use crate::json::{set, text};
use crate::server::{App, State, answer_faults, finish, form_fields, header, lock, note_plain, with_store};
use crate::store::Store;
use axum::Router;
use axum::extract::{Query, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header as names};
use jiff::Timestamp;
use keys::Keys;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use grants::{Desk, Wish};

/// Path of the issuer below the sandbox's URL.
pub(crate) const REALM: &str = "/realms/pipefy";

const PROTOCOL: &str = "/realms/pipefy/protocol/openid-connect";

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The signing keys in use, once they were needed.
pub(crate) type Loaded = Mutex<Option<Arc<Keys>>>;

/// Why a request gets no tokens.
pub(crate) enum Failure {
    /// In OAuth's words.
    OAuth { status: StatusCode, code: &'static str, why: String },
    /// The sandbox itself failed.
    Store,
}

impl Failure {
    pub(crate) fn bad(code: &'static str, why: &str) -> Self {
        Self::OAuth { status: StatusCode::BAD_REQUEST, code, why: why.to_owned() }
    }

    pub(crate) fn client(why: &str) -> Self {
        Self::OAuth { status: StatusCode::UNAUTHORIZED, code: "invalid_client", why: why.to_owned() }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        tracing::error!(%error, "sandbox store");
        Self::Store
    }
}

impl From<GqlError> for Failure {
    fn from(_: GqlError) -> Self {
        Self::Store
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, code, why) = match self {
            Self::OAuth { status, code, why } => (status, code, why),
            Self::Store => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "Something went wrong".to_owned()),
        };
        let mut response = no_store(status, &json!({ "error": code, "error_description": why }));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(names::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"pipefy\""));
        }
        response
    }
}

/// The fields of a form or a query.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    fn read(text: &[u8]) -> Self {
        Self(form_fields(text))
    }

    /// The first value that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub(crate) fn need(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::bad("invalid_request", &format!("{name} is missing")))
    }
}

fn no_store(status: StatusCode, body: &Value) -> Response {
    let headers = [
        (names::CACHE_CONTROL, "no-store"),
        // Clients in a browser send no cookies here; what they may do is in the request.
        (names::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    (status, headers, axum::Json(body)).into_response()
}

pub(crate) fn routes() -> Router<App> {
    let protocol = |path: &str| format!("{PROTOCOL}{path}");
    let mut router = Router::new();
    // OpenID Connect Discovery, and the two forms in which RFC 8414 places the same document.
    for path in [
        format!("{REALM}/.well-known/openid-configuration"),
        format!("{REALM}/.well-known/oauth-authorization-server"),
        format!("/.well-known/openid-configuration{REALM}"),
        format!("/.well-known/oauth-authorization-server{REALM}"),
    ] {
        router = router.route(&path, get(discovery).options(preflight));
    }
    router
        .route(&protocol("/certs"), get(certs).options(preflight))
        .route(&protocol("/auth"), get(authorize))
        .route(&protocol("/login"), post(login))
        .route(&protocol("/token"), post(token).options(preflight))
        .route(&protocol("/auth/device"), post(start_device).options(preflight))
        .route(&protocol("/revoke"), post(revoke).options(preflight))
        .route(&protocol("/logout"), get(signed_out).post(logout))
        .route(&format!("{REALM}/clients-registrations/openid-connect"), post(register).options(preflight))
        .route(&format!("{REALM}/device"), get(device).post(answer_device))
        .route("/_sandbox/oidc/keys", get(key_names).post(rotate))
        .route("/_sandbox/oidc/tokens", post(mint))
}

/// The keys, made when there are none yet: the first sign-in of fresh data waits for that.
async fn loaded(state: &App) -> Result<Arc<Keys>, Response> {
    if let Some(keys) = lock(&state.oidc_keys).clone() {
        return Ok(keys);
    }
    if let Some(keys) = load(state).await? {
        return Ok(keys);
    }
    let made = generated().await?;
    // Somebody else may have been faster.
    let keys = with_store(state, move |state, store| -> Result<_, GqlError> {
        if Keys::load(store)?.is_none() {
            Keys::add(store, &made)?;
        }
        keep(state, store)
    })
    .await?;
    keys.ok().flatten().ok_or_else(|| Failure::Store.into_response())
}

async fn load(state: &App) -> Result<Option<Arc<Keys>>, Response> {
    with_store(state, keep).await?.map_err(|_| Failure::Store.into_response())
}

fn keep(state: &State, store: &Store) -> Result<Option<Arc<Keys>>, GqlError> {
    let keys = Keys::load(store)?;
    lock(&state.oidc_keys).clone_from(&keys);
    Ok(keys)
}

async fn generated() -> Result<Vec<u8>, Response> {
    let made = tokio::task::spawn_blocking(keys::generate).await;
    made.ok().and_then(Result::ok).ok_or_else(|| Failure::Store.into_response())
}

/// Runs work at the desk: with the store and the keys.
async fn at_desk<T: Send + 'static>(
    state: &App,
    work: impl FnOnce(&Desk<'_>) -> T + Send + 'static,
) -> Result<T, Response> {
    let keys = loaded(state).await?;
    with_store(state, move |state, store| {
        let issuer = format!("{}{REALM}", state.url);
        work(&Desk { store, keys: &keys, issuer: &issuer, now_ms: Timestamp::now().as_millisecond() })
    })
    .await
}

/// `(user id, e-mail)` of an access token that opens the API.
pub(crate) fn identify(state: &State, store: &Store, token: &str) -> Option<(String, String)> {
    if token.bytes().filter(|byte| *byte == b'.').count() != 2 {
        return None;
    }
    let keys = lock(&state.oidc_keys).clone();
    let keys = match keys {
        Some(keys) => keys,
        None => keep(state, store).ok().flatten()?,
    };
    let issuer = format!("{}{REALM}", state.url);
    let desk = Desk { store, keys: &keys, issuer: &issuer, now_ms: Timestamp::now().as_millisecond() };
    let user = desk.api_user(token).ok().flatten()?;
    Some((text(&user, "id").to_owned(), text(&user, "email").to_owned()))
}

/// Logs the request, lets a fault strike, answers.
async fn served(
    state: &App,
    (method, path, fault): (&str, &str, &str),
    headers: &HeaderMap,
    answer: impl Future<Output = Result<Response, Response>>,
) -> Response {
    let number = note_plain(state, method, path, headers);
    if let Some(response) = answer_faults(state, fault).await {
        return finish(state, number, response);
    }
    let response = answer.await.unwrap_or_else(|response| response);
    finish(state, number, response)
}

async fn preflight() -> Response {
    let headers = [
        (names::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (names::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
        (names::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version"),
        (names::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

async fn discovery(Shared(state): Shared<App>, headers: HeaderMap) -> Response {
    let path = "/.well-known/openid-configuration";
    served(&state, ("GET", path, "discovery"), &headers, async {
        let at = |path: &str| format!("{}{PROTOCOL}{path}", state.url);
        let issuer = format!("{}{REALM}", state.url);
        let document = json!({
            "issuer": issuer,
            "authorization_endpoint": at("/auth"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/certs"),
            "end_session_endpoint": at("/logout"),
            "revocation_endpoint": at("/revoke"),
            "device_authorization_endpoint": at("/auth/device"),
            "registration_endpoint": format!("{issuer}/clients-registrations/openid-connect"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported":
                ["authorization_code", "refresh_token", "client_credentials", grants::DEVICE_CODE, grants::TOKEN_EXCHANGE],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "claims_supported": ["iss", "sub", "aud", "azp", "exp", "iat", "nonce", "email", "name"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        });
        Ok(no_store(StatusCode::OK, &document))
    })
    .await
}

async fn certs(Shared(state): Shared<App>, headers: HeaderMap) -> Response {
    served(&state, ("GET", &format!("{PROTOCOL}/certs"), "jwks"), &headers, async {
        Ok(no_store(StatusCode::OK, &loaded(&state).await?.published()))
    })
    .await
}

/// Sends the browser back to the client.
fn back(redirect_uri: &str, fields: &[(&str, &str)]) -> Response {
    let mut url = redirect_uri.to_owned();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{name}={}", utf8_percent_encode(value, UNRESERVED)));
    }
    (StatusCode::FOUND, [(names::LOCATION, url), (names::CACHE_CONTROL, "no-store".to_owned())]).into_response()
}

/// What stops a sign-in: before it is certain where to return to, a page; after that, a redirect.
async fn authorize(Shared(state): Shared<App>, headers: HeaderMap, uri: http::Uri) -> Response {
    served(&state, ("GET", &format!("{PROTOCOL}/auth"), "oidc"), &headers, async {
        let form = Form::read(uri.query().unwrap_or_default().as_bytes());
        if let Some(id) = form.get("client_id").filter(|id| documents::is_url(id)).map(str::to_owned) {
            let document = documents::fetch(&id).await.map_err(page_of)?;
            with_store(&state, move |_, store| clients::keep(store, id, &document)).await?.map_err(page_of)?;
        }
        at_desk(&state, move |desk| start_login(desk, &form).unwrap_or_else(page_of)).await
    })
    .await
}

fn start_login(desk: &Desk<'_>, form: &Form) -> Result<Response, Failure> {
    let (client_id, redirect_uri) = (form.need("client_id")?, form.need("redirect_uri")?);
    match clients::may_return(desk.store, client_id, redirect_uri)? {
        None => return Err(Failure::bad("invalid_client", "This client is not known to the sandbox")),
        Some(false) => {
            return Err(Failure::bad(
                "invalid_request",
                "This client may not return to the redirect_uri of the request",
            ));
        }
        Some(true) => {}
    }
    let state = form.get("state").unwrap_or_default();
    let refuse = |code: &str, why: &str| {
        Ok(back(redirect_uri, &[("error", code), ("error_description", why), ("state", state), ("iss", desk.issuer)]))
    };
    if form.get("response_type") != Some("code") {
        return refuse("unsupported_response_type", "Only response_type=code is supported");
    }
    let challenge = form.get("code_challenge").unwrap_or_default();
    if form.get("code_challenge_method") != Some("S256") || challenge.len() != 43 {
        return refuse("invalid_request", "PKCE is required: code_challenge with code_challenge_method=S256");
    }
    if form.get("prompt") == Some("none") {
        return refuse("login_required", "The sandbox asks at every sign-in");
    }
    let wish = match Wish::read(client_id, form) {
        Ok(wish) => wish,
        Err(Failure::OAuth { code, why, .. }) => return refuse(code, &why),
        Err(failure) => return Err(failure),
    };
    let details = json!({
        "redirect_uri": redirect_uri, "state": state, "challenge": challenge, "nonce": form.get("nonce"),
    });
    let ticket = desk.open_login(&wish, details)?;
    Ok(pages::login(&format!("{PROTOCOL}/login"), &ticket, client_id))
}

fn page_of(failure: Failure) -> Response {
    match failure {
        Failure::OAuth { status, why, .. } => pages::notice(status, "This sign-in cannot go on", &why),
        Failure::Store => {
            pages::notice(StatusCode::INTERNAL_SERVER_ERROR, "This sign-in cannot go on", "Something went wrong")
        }
    }
}

async fn login(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    served(&state, ("POST", &format!("{PROTOCOL}/login"), "oidc"), &headers, async {
        at_desk(&state, move |desk| finish_login(desk, &Form::read(&body)).unwrap_or_else(page_of)).await
    })
    .await
}

fn finish_login(desk: &Desk<'_>, form: &Form) -> Result<Response, Failure> {
    let stale =
        || Failure::bad("invalid_request", "This page was used already or is too old; start again at the client");
    let user = match form.get("person") {
        Some(email) => desk.person(email)?,
        None => None,
    };
    if user.is_none() && form.get("deny").is_none() {
        return Err(Failure::bad("invalid_request", "Choose one of the people"));
    }
    let login = desk.take_login(form.need("ticket")?)?.ok_or_else(stale)?;
    let (redirect_uri, state) = (text(&login, "redirect_uri"), text(&login, "state"));
    let Some(user) = user else {
        let fields = [
            ("error", "access_denied"),
            ("error_description", "The person refused"),
            ("state", state),
            ("iss", desk.issuer),
        ];
        return Ok(back(redirect_uri, &fields));
    };
    let code = desk.issue_code(&login, &user)?;
    Ok(back(redirect_uri, &[("code", &code), ("state", state), ("iss", desk.issuer)]))
}

async fn token(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    served(&state, ("POST", &format!("{PROTOCOL}/token"), "oidc"), &headers, async {
        let authorization = header(&headers, &names::AUTHORIZATION).to_owned();
        let granted = at_desk(&state, move |desk| {
            let form = Form::read(&body);
            let client = clients::authenticate(desk.store, &authorization, &form)?;
            desk.grant(&client, &form)
        });
        Ok(match granted.await? {
            Ok(tokens) => no_store(StatusCode::OK, &tokens),
            Err(failure) => failure.into_response(),
        })
    })
    .await
}

async fn start_device(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    served(&state, ("POST", &format!("{PROTOCOL}/auth/device"), "oidc"), &headers, async {
        let authorization = header(&headers, &names::AUTHORIZATION).to_owned();
        let started = at_desk(&state, move |desk| {
            let form = Form::read(&body);
            let client = clients::authenticate(desk.store, &authorization, &form)?;
            desk.start_device(&client, &form)
        });
        Ok(match started.await? {
            Ok(codes) => no_store(StatusCode::OK, &codes),
            Err(failure) => failure.into_response(),
        })
    })
    .await
}

async fn device(Shared(state): Shared<App>, headers: HeaderMap, uri: http::Uri) -> Response {
    served(&state, ("GET", &format!("{REALM}/device"), "oidc"), &headers, async {
        let form = Form::read(uri.query().unwrap_or_default().as_bytes());
        Ok(pages::device(&format!("{REALM}/device"), form.get("user_code").unwrap_or_default(), None))
    })
    .await
}

async fn answer_device(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    served(&state, ("POST", &format!("{REALM}/device"), "oidc"), &headers, async {
        at_desk(&state, move |desk| take_device(desk, &Form::read(&body)).unwrap_or_else(page_of)).await
    })
    .await
}

fn take_device(desk: &Desk<'_>, form: &Form) -> Result<Response, Failure> {
    let user_code = form.need("user_code")?;
    let user = match form.get("person") {
        Some(email) => desk.person(email)?,
        None => None,
    };
    let action = format!("{REALM}/device");
    if user.is_none() && form.get("deny").is_none() {
        return Ok(pages::device(&action, user_code, Some("Choose one of the people.")));
    }
    if !desk.answer_device(user_code, user.as_deref())? {
        return Ok(pages::device(
            &action,
            "",
            Some("No device waits for this code. Check it, or start again on the device."),
        ));
    }
    let title = if user.is_some() { "The device is signed in" } else { "The device was refused" };
    Ok(pages::notice(StatusCode::OK, title, "You can close this page and return to the device."))
}

async fn revoke(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    end(&state, "/revoke", &headers, body, "token", StatusCode::OK).await
}

/// Ends a session by its refresh token, as Keycloak does for clients without a browser.
async fn logout(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    end(&state, "/logout", &headers, body, "refresh_token", StatusCode::NO_CONTENT).await
}

async fn end(
    state: &App,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
    field: &'static str,
    done: StatusCode,
) -> Response {
    served(state, ("POST", &format!("{PROTOCOL}{path}"), "oidc"), headers, async {
        let authorization = header(headers, &names::AUTHORIZATION).to_owned();
        let ended = at_desk(state, move |desk| {
            let form = Form::read(&body);
            let client = clients::authenticate(desk.store, &authorization, &form)?;
            desk.revoke(&client, form.need(field)?)
        });
        Ok(match ended.await? {
            Ok(()) => (done, [(names::ACCESS_CONTROL_ALLOW_ORIGIN, "*")]).into_response(),
            Err(failure) => failure.into_response(),
        })
    })
    .await
}

/// The sandbox keeps no browser session, so there is nothing to end.
async fn signed_out() -> Response {
    pages::notice(StatusCode::OK, "Signed out", "The sandbox asks who you are at every sign-in.")
}

async fn register(Shared(state): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    let path = format!("{REALM}/clients-registrations/openid-connect");
    served(&state, ("POST", &path, "oidc"), &headers, async {
        let Ok(asked) = serde_json::from_slice::<Value>(&body) else {
            return Err(Failure::bad("invalid_client_metadata", "The body is not JSON").into_response());
        };
        let registered = with_store(&state, move |_, store| clients::register(store, &asked)).await?;
        Ok(match registered {
            Ok(client) => no_store(StatusCode::CREATED, &client),
            Err(failure) => failure.into_response(),
        })
    })
    .await
}

async fn key_names(Shared(state): Shared<App>) -> Response {
    loaded(&state)
        .await
        .map_or_else(|response| response, |keys| axum::Json(json!({ "keys": keys.names() })).into_response())
}

async fn rotate(Shared(state): Shared<App>, Query(query): Query<HashMap<String, String>>) -> Response {
    let drop_old = query.get("drop_old").is_some_and(|value| value == "true");
    let rotated = async {
        loaded(&state).await?;
        let made = generated().await?;
        let keys = with_store(&state, move |state, store| -> Result<_, GqlError> {
            Keys::add(store, &made)?;
            if drop_old {
                Keys::drop_old(store)?;
            }
            keep(state, store)
        });
        keys.await?.ok().flatten().ok_or_else(|| Failure::Store.into_response())
    };
    rotated.await.map_or_else(|response| response, |keys| axum::Json(json!({ "keys": keys.names() })).into_response())
}

/// Signs an access token without a sign-in, for tests: `{"person": "<e-mail>", "client_id", "scope", "aud": [..],
/// "expires_in", "claims": {..}, "without": [..]}`, all optional. The default is a good token of the administrator for
/// [`clients::MCP_CLIENT_ID`]; `claims` replaces claims, `without` takes some away. Answers `{"access_token", "claims"}`.
async fn mint(Shared(state): Shared<App>, body: Bytes) -> Response {
    let asked: Value = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(_) if body.is_empty() => json!({}),
        Err(error) => {
            return (StatusCode::BAD_REQUEST, axum::Json(json!({ "error": error.to_string() }))).into_response();
        }
    };
    let minted = at_desk(&state, move |desk| minted(desk, &asked)).await;
    match minted {
        Ok(Ok(answer)) => axum::Json(answer).into_response(),
        Ok(Err(failure)) => failure.into_response(),
        Err(response) => response,
    }
}

fn minted(desk: &Desk<'_>, asked: &Value) -> Result<Value, Failure> {
    let or = |key: &str, default: &str| match text(asked, key) {
        "" => default.to_owned(),
        given => given.to_owned(),
    };
    let email = or("person", crate::people::ADMIN.email);
    let user = desk.person(&email)?.and_then(|id| desk.store.get("user", &id).transpose()).transpose()?;
    let user = user.ok_or_else(|| Failure::bad("invalid_request", "There is no such person"))?;
    let audience = crate::json::texts_at(asked, "aud");
    let audience: Vec<&str> = match audience.is_empty() {
        true => vec![grants::API_AUDIENCE],
        false => audience.iter().map(String::as_str).collect(),
    };
    let life = asked.get("expires_in").and_then(Value::as_i64).unwrap_or(grants::ACCESS_LIFE);
    let replaced = asked.get("claims").cloned().unwrap_or_else(|| json!({}));
    let (client_id, scope) = (or("client_id", clients::MCP_CLIENT_ID), or("scope", "openid profile email"));
    let token = desk.access_token(&user, &client_id, &audience, &scope, life, replaced)?;
    let mut claims = desk.keys.claims(&token).unwrap_or_default();
    for name in crate::json::texts_at(asked, "without") {
        claims.shift_remove(&name);
    }
    let mut answer = json!({ "access_token": desk.keys.sign(&Value::Object(claims.clone()))? });
    set(&mut answer, "claims", Value::Object(claims));
    Ok(answer)
}
