//! The ID token of a login, verified before the session is stored.

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

use crate::discovery::{DISCOVERY_LIMIT, Issuer};
use crate::http::AuthHttp;

/// Seconds by which clocks may differ.
const SKEW: u64 = 60;

/// Signatures that only the issuer can make.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    nonce: Option<String>,
    #[serde(default)]
    azp: Option<Value>,
    aud: Value,
}

/// Checks signature, issuer, audience (the client id), expiry and, when one was sent, the nonce.
///
/// The error is a reason that fits after "Login failed: ".
pub(crate) async fn verify(
    http: &AuthHttp,
    issuer: &Issuer,
    client_id: &str,
    nonce: Option<&str>,
    token: &str,
) -> Result<(), String> {
    let header = decode_header(token).map_err(|_| "the ID token is not a JWT; check PIPEFY_AUTH_URL".to_owned())?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(format!(
            "the ID token is signed with {:?}, which is not accepted; check PIPEFY_AUTH_URL",
            header.alg
        ));
    }
    let keys = keys(http, issuer).await?;
    let mut validation = Validation::new(header.alg);
    validation.leeway = SKEW;
    validation.validate_nbf = true;
    validation.set_audience(&[client_id]);
    validation.set_issuer(&[&issuer.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    let fits = |kid: Option<&String>| header.kid.is_none() || kid == header.kid.as_ref();
    let mut reason = "its signing key is not among the issuer's keys; try again".to_owned();
    for key in keys.keys.iter().filter(|key| fits(key.common.key_id.as_ref())) {
        let Ok(key) = DecodingKey::from_jwk(key) else { continue };
        match decode::<Claims>(token, &key, &validation) {
            Ok(found) => return check(&found.claims, client_id, nonce),
            Err(error) => reason = explain(error.kind()),
        }
    }
    Err(format!("the ID token was refused: {reason}"))
}

fn check(claims: &Claims, client_id: &str, nonce: Option<&str>) -> Result<(), String> {
    if nonce.is_some() && claims.nonce.as_deref() != nonce {
        return Err("the ID token was refused: its nonce is not the one that was sent; run `pipefy auth login` again"
            .to_owned());
    }
    let several = claims.aud.as_array().is_some_and(|list| list.len() > 1);
    match &claims.azp {
        Some(azp) if azp.as_str() != Some(client_id) => {
            Err("the ID token was refused: it was issued to another client; check PIPEFY_AUTH_CLIENT_ID".to_owned())
        }
        None if several => {
            Err("the ID token was refused: it does not say which client it was issued to; check PIPEFY_AUTH_CLIENT_ID"
                .to_owned())
        }
        _ => Ok(()),
    }
}

fn explain(kind: &jsonwebtoken::errors::ErrorKind) -> String {
    use jsonwebtoken::errors::ErrorKind;
    match kind {
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => {
            "it is outside its time of validity; check this machine's clock".to_owned()
        }
        ErrorKind::InvalidAudience => "it is meant for another client; check PIPEFY_AUTH_CLIENT_ID".to_owned(),
        ErrorKind::InvalidIssuer => "it names another issuer; check PIPEFY_AUTH_URL".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("it lacks {claim}; check PIPEFY_AUTH_URL"),
        ErrorKind::InvalidSignature => "its signature is wrong; check PIPEFY_AUTH_URL".to_owned(),
        _ => "it cannot be verified; check PIPEFY_AUTH_URL".to_owned(),
    }
}

async fn keys(http: &AuthHttp, issuer: &Issuer) -> Result<JwkSet, String> {
    let Some(uri) = &issuer.jwks_uri else {
        return Err("the issuer sent an ID token but publishes no keys (jwks_uri) to verify it; check PIPEFY_AUTH_URL"
            .to_owned());
    };
    let unreachable =
        |cause: &dyn std::fmt::Display| format!("the issuer's keys could not be fetched ({cause}); try again");
    let client = http.client().map_err(|error| unreachable(&error))?;
    let answer = http.send(client.get(uri), DISCOVERY_LIMIT).await.map_err(|error| unreachable(&error))?;
    if answer.status != 200 {
        return Err(unreachable(&format_args!("HTTP {}", answer.status)));
    }
    // Keys of kinds this library does not know must not spoil the others.
    let fields = answer.json().ok_or_else(|| unreachable(&"not JSON"))?;
    let listed = fields.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let usable = listed.into_iter().filter(|key| key.get("use").is_none_or(|purpose| purpose == "sig"));
    Ok(JwkSet { keys: usable.filter_map(|key| serde_json::from_value(key).ok()).collect() })
}
