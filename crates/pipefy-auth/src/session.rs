//! The stored session: what is kept between runs, and its form in the keychain.

use std::time::{SystemTime, UNIX_EPOCH};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::Url;

use crate::service_account::jwt_claims;

/// A session is renewed this many seconds before its access token expires.
pub const LEEWAY_SECONDS: i64 = 60;

/// The tokens of one grant. `Debug` shows no token.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Sent to the API.
    pub access_token: SecretString,
    /// Buys the next access token.
    pub refresh_token: SecretString,
    /// `Bearer`, as the issuer spells it.
    pub token_type: String,
    /// Lifetime of the access token in seconds from the grant.
    pub expires_in: Option<i64>,
    /// Lifetime of the refresh token in seconds from the grant; 0 means that it does not expire.
    pub refresh_expires_in: Option<i64>,
    /// Granted scopes, space separated.
    pub scope: Option<String>,
    /// Kept as received, never sent.
    pub id_token: Option<SecretString>,
}

/// A signed-in user, as stored.
#[derive(Clone, Debug)]
pub struct StoredSession {
    /// The issuer, as it names itself.
    pub issuer: String,
    /// The OIDC client that the tokens belong to.
    pub client_id: String,
    /// When the tokens were granted, in Unix seconds.
    pub obtained_at: i64,
    /// The tokens.
    pub tokens: Tokens,
}

/// Unix seconds now; 0 for a clock before 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl StoredSession {
    /// When the access token expires, in Unix seconds: from `expires_in`, else from the token itself when it is a JWT;
    /// nothing when neither says.
    pub fn access_expires_at(&self) -> Option<i64> {
        match self.tokens.expires_in {
            Some(seconds) if seconds > 0 => Some(self.obtained_at.saturating_add(seconds)),
            _ => {
                let claims = jwt_claims(self.tokens.access_token.expose_secret())?;
                claims.get("exp").and_then(Value::as_f64).map(|exp| exp as i64)
            }
        }
    }

    /// When the refresh token expires; nothing when it does not (or nobody said).
    pub fn refresh_expires_at(&self) -> Option<i64> {
        let seconds = self.tokens.refresh_expires_in.filter(|seconds| *seconds > 0)?;
        Some(self.obtained_at.saturating_add(seconds))
    }

    /// Whether the access token should be renewed at `now`, `leeway` seconds ahead of its expiry (half of its life for
    /// short-lived ones). A session from the future has a clock problem and is renewed too.
    pub fn is_stale(&self, now: i64, leeway: i64) -> bool {
        if self.obtained_at > now.saturating_add(LEEWAY_SECONDS) {
            return true;
        }
        // A token that says nothing of its lifetime is used for five minutes.
        let expires = self.access_expires_at().unwrap_or(self.obtained_at.saturating_add(300 + leeway));
        let life = expires.saturating_sub(self.obtained_at).max(0);
        now >= expires.saturating_sub(leeway.min(life / 2))
    }

    /// Whether this session belongs to `issuer` (trailing slashes aside) and `client_id`: entries are filed under the
    /// issuer's host alone, so two realms share one.
    pub fn belongs_to(&self, issuer: &str, client_id: &str) -> bool {
        self.issuer.trim_end_matches('/') == issuer.trim().trim_end_matches('/') && self.client_id == client_id.trim()
    }

    /// The stored form: one compact JSON object with fixed key order, nulls written.
    pub fn to_json(&self) -> SecretString {
        let tokens = &self.tokens;
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        put("issuer", self.issuer.clone().into());
        put("client_id", self.client_id.clone().into());
        put("obtained_at", self.obtained_at.into());
        put("access_token", tokens.access_token.expose_secret().into());
        put("refresh_token", tokens.refresh_token.expose_secret().into());
        put("token_type", tokens.token_type.clone().into());
        put("expires_in", tokens.expires_in.into());
        put("refresh_expires_in", tokens.refresh_expires_in.into());
        put("scope", tokens.scope.clone().into());
        put("id_token", tokens.id_token.as_ref().map(|token| token.expose_secret()).into());
        Value::Object(fields).to_string().into()
    }

    /// Reads the stored form: the flat one, or the older one with the tokens under `token`. Nothing when it is damaged.
    pub fn from_json(text: &str) -> Option<StoredSession> {
        let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let issuer = text(fields.remove("issuer"))?;
        let client_id = text(fields.remove("client_id"))?;
        let obtained_at = whole(&fields.remove("obtained_at")?)?;
        let tokens = match fields.remove("token") {
            Some(Value::Object(nested)) if fields.is_empty() => nested,
            Some(_) => return None,
            None if fields.keys().all(|key| TOKEN_FIELDS.contains(&key.as_str())) => fields,
            None => return None,
        };
        let tokens = GrantedTokens::read(&tokens).ok()?.complete().ok()?;
        Some(StoredSession { issuer, client_id, obtained_at, tokens })
    }
}

const TOKEN_FIELDS: [&str; 7] =
    ["access_token", "refresh_token", "token_type", "expires_in", "refresh_expires_in", "scope", "id_token"];

/// The tokens of an answer, of which a refresh may leave out most.
#[derive(Clone, Debug)]
pub(crate) struct GrantedTokens {
    pub(crate) access_token: SecretString,
    pub(crate) refresh_token: Option<SecretString>,
    pub(crate) token_type: String,
    pub(crate) expires_in: Option<i64>,
    pub(crate) refresh_expires_in: Option<i64>,
    pub(crate) scope: Option<String>,
    pub(crate) id_token: Option<SecretString>,
}

impl GrantedTokens {
    /// Reads a token answer. The error lists `field: reason`, without values.
    pub(crate) fn read(fields: &Map<String, Value>) -> Result<GrantedTokens, String> {
        let mut wrong = Vec::new();
        let access_token = match fields.get("access_token") {
            Some(Value::String(token)) if !token.is_empty() => token.clone(),
            _ => {
                wrong.push("access_token: must be a non-empty string");
                String::new()
            }
        };
        let refresh_token = match fields.get("refresh_token") {
            None | Some(Value::Null) => None,
            Some(Value::String(token)) if !token.is_empty() => Some(SecretString::from(token.as_str())),
            Some(_) => {
                wrong.push("refresh_token: must be a non-empty string");
                None
            }
        };
        let token_type = match fields.get("token_type") {
            None | Some(Value::Null) => "Bearer".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                wrong.push("token_type: must be a string");
                String::new()
            }
        };
        let mut lifetime = |key: &str, rule: &'static str| match fields.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => whole(value).or_else(|| {
                wrong.push(rule);
                None
            }),
        };
        let expires_in = lifetime("expires_in", "expires_in: must be an integer");
        let refresh_expires_in = lifetime("refresh_expires_in", "refresh_expires_in: must be an integer");
        let optional = |key: &str| {
            let text = fields.get(key).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        Ok(GrantedTokens {
            access_token: access_token.into(),
            refresh_token,
            token_type,
            expires_in,
            refresh_expires_in,
            scope: optional("scope"),
            id_token: optional("id_token").map(SecretString::from),
        })
    }

    /// The tokens of a first grant, which must hold a refresh token.
    pub(crate) fn complete(self) -> Result<Tokens, String> {
        let Some(refresh_token) = self.refresh_token else {
            return Err("refresh_token: must be a non-empty string".to_owned());
        };
        Ok(Tokens {
            access_token: self.access_token,
            refresh_token,
            token_type: self.token_type,
            expires_in: self.expires_in,
            refresh_expires_in: self.refresh_expires_in,
            scope: self.scope,
            id_token: self.id_token,
        })
    }

    /// The tokens of a refresh: what the answer leaves out (or gives as null) stays as it was.
    pub(crate) fn merge(self, old: &Tokens) -> Tokens {
        Tokens {
            access_token: self.access_token,
            refresh_token: self.refresh_token.unwrap_or_else(|| old.refresh_token.clone()),
            token_type: self.token_type,
            expires_in: self.expires_in.or(old.expires_in),
            refresh_expires_in: self.refresh_expires_in.or(old.refresh_expires_in),
            scope: self.scope.or_else(|| old.scope.clone()),
            id_token: self.id_token.or_else(|| old.id_token.clone()),
        }
    }
}

/// An integer, also when written as `3600.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
    })
}

/// The account name that the session of an issuer and client is filed under: `<host, lower case>|<client id>`.
///
/// Nothing when the issuer has no host.
pub fn account_name(issuer: &str, client_id: &str) -> Option<String> {
    let url = Url::parse(issuer.trim()).ok()?;
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    Some(format!("{host}|{}", client_id.trim()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    /// Written by the reference.
    const FLAT: &str = r#"{"issuer":"https://signin.pipefy.com/realms/pipefy","client_id":"pipefy-cli","obtained_at":1700000000,"access_token":"at","refresh_token":"rt","token_type":"Bearer","expires_in":300,"refresh_expires_in":1800,"scope":"openid","id_token":null}"#;

    #[test]
    fn the_stored_form_round_trips_byte_for_byte() {
        let session = StoredSession::from_json(FLAT).unwrap();
        assert_eq!(session.to_json().expose_secret(), FLAT);
        assert!(session.belongs_to("https://signin.pipefy.com/realms/pipefy/", " pipefy-cli "));
        assert!(!session.belongs_to("https://signin.pipefy.com/realms/other", "pipefy-cli"));
        assert!(!session.belongs_to("https://signin.pipefy.com/realms/pipefy", "other"));
        let shown = format!("{session:?}");
        assert!(!shown.contains("\"at\"") && !shown.contains("\"rt\""), "{shown}");
    }

    #[test]
    fn the_nested_form_is_read_and_damage_is_not() {
        let nested = json!({"issuer": "i", "client_id": "c", "obtained_at": 1,
            "token": {"access_token": "a", "refresh_token": "r", "extra": 1, "scope": " ", "id_token": 3}});
        let session = StoredSession::from_json(&nested.to_string()).unwrap();
        assert_eq!(session.tokens.token_type, "Bearer");
        assert!(session.tokens.scope.is_none() && session.tokens.id_token.is_none());
        let flat = |change: &dyn Fn(&mut Map<String, Value>)| {
            let mut fields: Map<String, Value> = serde_json::from_str(FLAT).unwrap();
            change(&mut fields);
            StoredSession::from_json(&Value::Object(fields).to_string())
        };
        assert!(flat(&|_| ()).is_some());
        assert!(flat(&|f| drop(f.insert("expires_in".into(), json!(300.0)))).is_some());
        for (key, value) in [
            ("extra", json!(1)),
            ("issuer", json!("")),
            ("client_id", json!(null)),
            ("obtained_at", json!(true)),
            ("obtained_at", json!("1")),
            ("access_token", json!("")),
            ("refresh_token", json!(null)),
            ("expires_in", json!("300")),
            ("expires_in", json!(true)),
            ("refresh_expires_in", json!(1.5)),
            ("token_type", json!(1)),
            ("token", json!({})),
        ] {
            assert!(flat(&|f| drop(f.insert(key.into(), value.clone()))).is_none(), "{key}={value}");
        }
        for text in ["", "not json", "[]", "null", "{}", "\"x\""] {
            assert!(StoredSession::from_json(text).is_none(), "{text}");
        }
    }

    fn session(obtained_at: i64, expires_in: Option<i64>) -> StoredSession {
        let mut session = StoredSession::from_json(FLAT).unwrap();
        session.obtained_at = obtained_at;
        session.tokens.expires_in = expires_in;
        session
    }

    #[test]
    fn staleness() {
        let now = 1_700_000_000;
        for (obtained, expires, stale) in [
            (now, Some(3600), false),
            (now - 3539, Some(3600), false),
            (now - 3540, Some(3600), true),
            (now - 4000, Some(3600), true),
            (now, Some(60), false),
            (now - 30, Some(60), true),
            (now, Some(2), false),
            (now - 1, Some(2), true),
            (now, None, false),
            (now - 299, None, false),
            (now - 300, None, true),
            (now, Some(0), false),
            (now + 30, Some(3600), false),
            (now + 3600, Some(3600), true),
            (i64::MAX, Some(i64::MAX), true),
            (i64::MIN, Some(i64::MIN), true),
        ] {
            assert_eq!(session(obtained, expires).is_stale(now, 60), stale, "{obtained} {expires:?}");
        }
        assert_eq!(session(1, Some(5)).access_expires_at(), Some(6));
        let mut forever = session(1, Some(5));
        forever.tokens.refresh_expires_in = Some(0);
        assert_eq!(forever.refresh_expires_at(), None, "0 means that it does not expire");
    }

    #[test]
    fn a_refresh_keeps_what_it_leaves_out() {
        let old = StoredSession::from_json(FLAT).unwrap().tokens;
        let read = |value: Value| GrantedTokens::read(value.as_object().unwrap());
        let merged = read(json!({"access_token": "new", "expires_in": null})).unwrap().merge(&old);
        assert_eq!(merged.access_token.expose_secret(), "new");
        assert_eq!(merged.refresh_token.expose_secret(), "rt");
        assert_eq!((merged.expires_in, merged.refresh_expires_in), (Some(300), Some(1800)));
        let rotated =
            read(json!({"access_token": "new", "refresh_token": "rt2", "expires_in": 9})).unwrap().merge(&old);
        assert_eq!(rotated.refresh_token.expose_secret(), "rt2");
        assert_eq!(rotated.expires_in, Some(9));
        let error = read(json!({"access_token": 1, "expires_in": "canary"})).unwrap_err();
        assert_eq!(error, "access_token: must be a non-empty string; expires_in: must be an integer");
        assert!(read(json!({"access_token": "a"})).unwrap().complete().unwrap_err().contains("refresh_token"));
    }

    #[test]
    fn account_names() {
        assert_eq!(
            account_name("https://Signin.Pipefy.com:8443/x", "pipefy-cli").unwrap(),
            "signin.pipefy.com|pipefy-cli"
        );
        assert_eq!(account_name(" http://[::1]:1/ ", " c ").unwrap(), "::1|c");
        assert!(account_name("not a url", "c").is_none());
        assert!(account_name("file:///x", "c").is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_stored_text_panics(text in ".{0,200}") {
            let _ = StoredSession::from_json(&text);
        }
    }
}
