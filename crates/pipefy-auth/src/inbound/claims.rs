//! What a verified token says, and whether that is acceptable.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Rejection;

/// Seconds by which the issuer's clock may be ahead in `nbf` and `iat`. `exp` has no leeway.
const LEEWAY: i64 = 60;

/// The last second of the year 9999. Later expiries are brought down to it, so that whoever computes with one can.
const LATEST: i64 = 253_402_300_799;

/// Who a bearer stands for. Nothing else of the token is kept: no e-mail address, no groups, not the token itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The OAuth client that got the token: the first of `azp`, `client_id`, `sub` that is there. Never blank.
    pub client_id: String,
    /// The issuer, as configured and as written in the token.
    pub issuer: Arc<str>,
    /// The person or service account: `sub` verbatim, never blank. Tokens may do without.
    pub subject: Option<String>,
    /// Granted scopes, from `scope`, else from `scp`.
    pub scopes: Vec<String>,
    /// When the token expires, in Unix seconds.
    pub expires_at: i64,
    /// This server's public URL, verbatim.
    pub resource: Arc<str>,
}

/// What every token is held against.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) issuer: Arc<str>,
    /// `None`: not checked.
    pub(super) audience: Option<String>,
    pub(super) resource: Arc<str>,
}

impl Rules {
    pub(super) fn judge(&self, token: &Map<String, Value>, now: i64) -> Result<Claims, Rejection> {
        let expires_at = self.times(token, now)?;
        if token.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return refuse("its issuer (iss) is not the configured one, byte for byte");
        }
        if token.get("jti").is_some_and(|jti| !jti.is_string()) {
            return refuse("its jti is not text");
        }
        let subject = match token.get("sub") {
            None => None,
            Some(Value::String(sub)) if !sub.trim().is_empty() => Some(sub.clone()),
            Some(Value::String(_)) => return refuse("its subject (sub) is blank"),
            Some(_) => return refuse("its subject (sub) is not text"),
        };
        if let Some(audience) = &self.audience {
            audience_fits(token.get("aud"), audience)?;
        }
        Ok(Claims {
            client_id: client_id(token, subject.as_deref())?,
            issuer: self.issuer.clone(),
            subject,
            scopes: scopes(token),
            expires_at,
            resource: self.resource.clone(),
        })
    }

    /// Gives the expiry, which is in the future.
    fn times(&self, token: &Map<String, Value>, now: i64) -> Result<i64, Rejection> {
        let Some(exp) = token.get("exp") else { return refuse("it has no expiry (exp)") };
        let Some(expires_at) = seconds(exp) else { return refuse("its expiry (exp) is not a number") };
        self.check_expiry(expires_at, now)?;
        for claim in ["nbf", "iat"] {
            let Some(value) = token.get(claim) else { continue };
            let Some(from) = seconds(value) else { return refuse("its nbf or iat is not a number") };
            if from > now.saturating_add(LEEWAY) {
                return refuse("it is not valid yet (nbf or iat); check the clocks");
            }
        }
        Ok(expires_at)
    }

    pub(super) fn check_expiry(&self, expires_at: i64, now: i64) -> Result<(), Rejection> {
        if expires_at <= now { refuse("it has expired") } else { Ok(()) }
    }
}

fn refuse<T>(reason: &'static str) -> Result<T, Rejection> {
    Err(Rejection::Invalid(reason))
}

/// A time as issuers write it: a number, or the number as text; fractions are cut off.
fn seconds(value: &Value) -> Option<i64> {
    // Float to integer saturates; the ends of the range are not times that matter.
    let of_text = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if number { text.parse::<f64>().ok().map(|seconds| seconds as i64) } else { None }
    };
    let found = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64)),
        Value::String(text) => text.trim().parse().ok().or_else(|| of_text(text.trim())),
        _ => None,
    };
    found.map(|seconds| seconds.min(LATEST))
}

fn audience_fits(aud: Option<&Value>, audience: &str) -> Result<(), Rejection> {
    let fits = match aud {
        None => return refuse("it has no audience (aud)"),
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) if several.iter().all(Value::is_string) => {
            several.iter().any(|one| one.as_str() == Some(audience))
        }
        Some(_) => return refuse("its audience (aud) is neither text nor a list of texts"),
    };
    if fits { Ok(()) } else { refuse("it is meant for another audience (aud)") }
}

fn client_id(token: &Map<String, Value>, subject: Option<&str>) -> Result<String, Rejection> {
    for claim in ["azp", "client_id"] {
        match token.get(claim) {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) if id.is_empty() => {}
            Some(Value::String(id)) if !id.trim().is_empty() => return Ok(id.clone()),
            Some(_) => return refuse("its client (azp or client_id) is not text, or blank"),
        }
    }
    match subject {
        Some(subject) => Ok(subject.to_owned()),
        None => refuse("it names neither a client nor a subject"),
    }
}

fn scopes(token: &Map<String, Value>) -> Vec<String> {
    let read = |claim: &str| match token.get(claim) {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|item| match item {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let found: Vec<String> = read("scope");
    if found.is_empty() { read("scp") } else { found }
}
