//! `POST /oauth/token` for service accounts, and the bearer tokens that open the sandbox.

use crate::ctx::{parse_time, stamp};
use crate::error::GqlError;
use crate::json::text;
use crate::store::{By, Links, Store, entropy};
use aws_lc_rs::{constant_time, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How secrets and tokens are kept and compared.
pub(crate) fn fingerprint(secret: &str) -> String {
    digest::digest(&digest::SHA256, secret.as_bytes()).as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// An opaque secret that cannot be guessed.
pub(crate) fn new_secret() -> String {
    let bytes: Vec<u8> = (0..4).flat_map(|_| entropy().to_be_bytes()).collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Makes a bearer valid for a user; `None` = for ever.
pub(crate) fn admit(store: &Store, token: &str, user: &str, until: Option<Timestamp>) -> Result<(), GqlError> {
    let body = json!({ "user_id": user, "expires_at": until.map(stamp) });
    store.put("token", &fingerprint(token), &Links::parent(user), &body)?;
    Ok(())
}

/// The user id behind a bearer that is known and not expired.
pub(crate) fn user_of(store: &Store, token: &str, now: Timestamp) -> Result<Option<String>, GqlError> {
    let Some(body) = store.get("token", &fingerprint(token))? else { return Ok(None) };
    let expired = parse_time(text(&body, "expires_at")).is_some_and(|until| until <= now);
    Ok((!expired).then(|| text(&body, "user_id").to_owned()))
}

/// Answers a token request: `(status, body)`.
pub(crate) fn token(
    store: &Store,
    authorization: &str,
    form: &[(String, String)],
    now: Timestamp,
) -> Result<(StatusCode, Value), GqlError> {
    let field = |name: &str| form.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
    let refuse = |status: StatusCode, error: &str, description: &str| {
        Ok((status, json!({ "error": error, "error_description": description })))
    };
    if field("grant_type").as_deref() != Some("client_credentials") {
        let text = "The authorization grant type is not supported by the authorization server.";
        return refuse(StatusCode::BAD_REQUEST, "unsupported_grant_type", text);
    }
    let basic = authorization
        .strip_prefix("Basic ")
        .and_then(|encoded| STANDARD.decode(encoded.trim()).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|pair| pair.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned())));
    let given = basic.or_else(|| field("client_id").zip(field("client_secret")));
    let account = match &given {
        Some((id, _)) => store.list("service_account", By::Group, id)?.into_iter().next(),
        None => None,
    };
    let known = given.zip(account).filter(|((_, secret), (_, account))| {
        let wanted = text(account, "secret_fingerprint");
        constant_time::verify_slices_are_equal(wanted.as_bytes(), fingerprint(secret).as_bytes()).is_ok()
    });
    let Some((_, (_, account))) = known else {
        let text = "Client authentication failed due to unknown client, no client authentication included, or unsupported authentication method.";
        return refuse(StatusCode::UNAUTHORIZED, "invalid_client", text);
    };
    let life = account.get("token_life").and_then(Value::as_i64).unwrap_or(300);
    let token = new_secret();
    admit(store, &token, text(&account, "user_id"), now.checked_add(SignedDuration::from_secs(life)).ok())?;
    let body = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": life, "created_at": now.as_second(),
    });
    Ok((StatusCode::OK, body))
}
