//! Two-step confirmation: signed tokens bound to a tool and the things it would touch (`spec/mcp-server.md` section 14), each
//! good for one act of a process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Seconds a token is valid.
pub const TTL: i64 = 300;

/// The key tokens are signed with. Prints nothing of itself.
#[derive(Clone)]
pub struct ConfirmationKey(hmac::Key);

impl std::fmt::Debug for ConfirmationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConfirmationKey(***)")
    }
}

impl ConfirmationKey {
    /// A key from bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The SHA-256 of a bearer: any replica can check it, another caller cannot use it.
    pub fn from_bearer(bearer: &str) -> Self {
        Self::from_bytes(digest::digest(&digest::SHA256, bearer.as_bytes()).as_ref())
    }

    /// Bound to a person by an operator's secret: survives a token refresh and holds on every replica.
    pub fn from_secret(secret: &[u8], client_id: &str, issuer: &str, subject: &str) -> Self {
        let mut message = Vec::new();
        for part in [client_id, issuer, subject] {
            message.extend_from_slice(&(part.len() as u64).to_be_bytes());
            message.extend_from_slice(part.as_bytes());
        }
        Self::from_bytes(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &message).as_ref())
    }

    /// Random: tokens die with the process.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 32];
        // The system's own source: the crypto library's takes tens of milliseconds to set up, and every start would wait.
        getrandom::fill(&mut bytes)?;
        Ok(Self::from_bytes(&bytes))
    }
}

/// Why a token does not confirm; only the wording depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// None was given.
    Missing,
    /// Damaged, forged or too old.
    InvalidOrExpired,
    /// Made for another tool or other things.
    Mismatch,
    /// It has approved an act already.
    Spent,
}

/// The tokens that have approved an act of this process, until they expire. Holds digests, so it knows no token and nobody.
#[derive(Debug, Default)]
pub struct Spent(Mutex<HashMap<String, i64>>);

impl Spent {
    /// Takes a token for one act; `false` when it was taken before.
    pub(crate) fn take(&self, token: &str, now: i64) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, expiry| *expiry > now);
        taken.insert(digest_of_text(token), now + TTL).is_none()
    }

    /// Gives a token back whose act never reached Pipefy.
    pub(crate) fn give_back(&self, token: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest_of_text(token));
    }
}

/// Makes a token as [`mint`] does that is like no other: each preview has its own, so that two equal ones approve two acts. What
/// makes it so is a further key of the payload, which whoever checks a token passes over.
pub(crate) fn mint_one(key: &ConfirmationKey, tool: &str, identity: &Map<String, Value>, now: i64) -> String {
    let mut nonce = [0u8; 9];
    // Without random bytes it is a token like others of its second, which still approves one act.
    let nonce = getrandom::fill(&mut nonce).ok().map(|()| URL_SAFE_NO_PAD.encode(nonce));
    minted(key, tool, identity, nonce, now)
}

/// Makes a token that confirms `tool` on `identity` until `now + TTL` (Unix seconds).
pub fn mint(key: &ConfirmationKey, tool: &str, identity: &Map<String, Value>, now: i64) -> String {
    minted(key, tool, identity, None, now)
}

fn minted(key: &ConfirmationKey, tool: &str, identity: &Map<String, Value>, nonce: Option<String>, now: i64) -> String {
    let mut payload = Map::new();
    payload.insert("exp".to_owned(), (now + TTL).into());
    payload.insert("identity".to_owned(), canonical(&Value::Object(identity.clone())));
    payload.extend(nonce.map(|nonce| ("nonce".to_owned(), nonce.into())));
    payload.insert("tool".to_owned(), tool.into());
    let payload = ascii_json(&Value::Object(payload));
    let mac = hmac::sign(&key.0, format!("v1.{payload}").as_bytes());
    format!("v1.{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(mac.as_ref()))
}

/// Checks a token.
///
/// # Errors
/// [`Refusal`]
pub fn verify(
    key: &ConfirmationKey,
    tool: &str,
    identity: &Map<String, Value>,
    token: Option<&str>,
    now: i64,
) -> Result<(), Refusal> {
    let token = token.filter(|t| !t.is_empty()).ok_or(Refusal::Missing)?;
    let bad = Refusal::InvalidOrExpired;
    let mut parts = token.split('.');
    let (Some("v1"), Some(payload), Some(mac), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(bad);
    };
    // The decoder is strict: no padding, no other alphabet, no white space.
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| bad)?;
    let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| bad)?;
    let mut signed = b"v1.".to_vec();
    signed.extend_from_slice(&payload);
    hmac::verify(&key.0, &signed, &mac).map_err(|_| bad)?;
    let payload: Value = serde_json::from_slice(&payload).map_err(|_| bad)?;
    let exp = payload.get("exp").and_then(Value::as_i64).ok_or(bad)?;
    let same_tool = payload.get("tool").and_then(Value::as_str) == Some(tool);
    if !same_tool || payload.get("identity") != Some(&canonical(&Value::Object(identity.clone()))) {
        return Err(Refusal::Mismatch);
    }
    if exp > now { Ok(()) } else { Err(bad) }
}

/// Objects by key, lists sorted by their text, numbers as text; booleans, null and text as they are.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), canonical(v))).collect())
        }
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(canonical).collect();
            list.sort_by_cached_key(ascii_json);
            Value::Array(list)
        }
        Value::Number(number) => Value::String(number.to_string()),
        other => other.clone(),
    }
}

/// SHA-256, in hex, of a value's compact JSON with sorted keys and ASCII escapes.
pub fn digest_of(value: &Value) -> String {
    hex(digest::digest(&digest::SHA256, ascii_json(&sorted(value)).as_bytes()).as_ref())
}

/// SHA-256, in hex, of a text.
pub fn digest_of_text(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Compact JSON with every non-ASCII character as `\uXXXX` (surrogate pairs beyond the BMP).
fn ascii_json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    let mut units = [0u16; 2];
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const NOW: i64 = 1_700_000_000;
    const V1: &str = "v1.eyJleHAiOjE3MDAwMDAzMDAsImlkZW50aXR5Ijp7ImNhcmRfaWQiOiI0MiJ9LCJ0b29sIjoiZGVsZXRlX2NhcmQifQ\
                      .DxxmZdTBH783BrSN88rcQp6oIamOTPagYgVskLwyVQ8";
    const V2: &str = "v1.eyJleHAiOjE3MDAwMDAzMDAsImlkZW50aXR5Ijp7ImZpZWxkX2lkIjoiNyIsInRhYmxlX2lkIjoiXHUwMGU3XHUwMGUzIn0\
                      sInRvb2wiOiJkZWxldGVfdGFibGVfZmllbGQifQ.nFzJMvStqpY089AyIaiJwVIFk1ZkzdEAjja_ywvpId0";

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_specs_vectors_are_met() {
        let key = ConfirmationKey::from_bytes(&[1; 32]);
        assert_eq!(mint(&key, "delete_card", &object(json!({"card_id": "42"})), NOW), V1);
        let key = ConfirmationKey::from_bearer("bearer-1");
        let identity = object(json!({"table_id": "çã", "field_id": 7}));
        assert_eq!(mint(&key, "delete_table_field", &identity, NOW), V2);
        assert_eq!(
            digest_of(&json!({"b":1,"a":["x",null,true,1.5,"é"]})),
            "9b045a2ee2e358a0c225069ed9f7bc6b6fbb8892902b6ffc6bfaa3704d986dfb"
        );
    }

    #[test]
    fn a_token_confirms_only_its_own_tool_things_key_and_time() {
        let key = ConfirmationKey::from_bytes(&[1; 32]);
        let identity = object(json!({"card_id": 42}));
        let check = |key: &ConfirmationKey, tool: &str, identity: &Map<String, Value>, token: Option<&str>, now| {
            verify(key, tool, identity, token, now)
        };
        assert_eq!(check(&key, "delete_card", &identity, Some(V1), NOW), Ok(()));
        assert_eq!(check(&key, "delete_card", &identity, Some(V1), NOW + 299), Ok(()));
        assert_eq!(check(&key, "delete_card", &identity, Some(V1), NOW + 300), Err(Refusal::InvalidOrExpired));
        assert_eq!(check(&key, "delete_card", &identity, None, NOW), Err(Refusal::Missing));
        assert_eq!(check(&key, "delete_card", &identity, Some(""), NOW), Err(Refusal::Missing));
        assert_eq!(check(&key, "delete_pipe", &identity, Some(V1), NOW), Err(Refusal::Mismatch));
        for other in [json!({"card_id": "43"}), json!({}), json!({"card_id": "42", "x": null})] {
            assert_eq!(check(&key, "delete_card", &object(other), Some(V1), NOW), Err(Refusal::Mismatch));
        }
        let other = ConfirmationKey::from_bearer("other");
        assert_eq!(check(&other, "delete_card", &identity, Some(V1), NOW), Err(Refusal::InvalidOrExpired));
        for forged in [
            format!("{V1}="),
            format!(" {V1}"),
            V1.replacen("v1.", "v2.", 1),
            V1.replace('_', "/"),
            format!("{V1}.x"),
            V1[..V1.len() - 1].to_owned(),
        ] {
            if forged != V1 {
                assert_eq!(
                    check(&key, "delete_card", &identity, Some(&forged), NOW),
                    Err(Refusal::InvalidOrExpired),
                    "{forged}"
                );
            }
        }
    }

    #[test]
    fn a_token_is_taken_once_and_the_next_one_is_another() {
        let (key, spent, identity) = (ConfirmationKey::from_bytes(&[1; 32]), Spent::default(), Map::new());
        let first = mint_one(&key, "t", &identity, NOW);
        let second = mint_one(&key, "t", &identity, NOW);
        assert_ne!(second, first);
        for token in [&first, &second] {
            assert_eq!(verify(&key, "t", &identity, Some(token), NOW), Ok(()));
            assert_eq!(verify(&key, "other", &identity, Some(token), NOW), Err(Refusal::Mismatch));
            assert_eq!(verify(&key, "t", &identity, Some(token), NOW + TTL), Err(Refusal::InvalidOrExpired));
        }
        let payload = URL_SAFE_NO_PAD.decode(first.split('.').nth(1).unwrap()).unwrap();
        let keys: Vec<String> =
            serde_json::from_slice::<Map<String, Value>>(&payload).unwrap().keys().cloned().collect();
        assert_eq!(keys, ["exp", "identity", "nonce", "tool"]);
        assert!(spent.take(&first, NOW) && !spent.take(&first, NOW + 1));
        assert!(spent.take(&second, NOW));
        spent.give_back(&second);
        assert!(spent.take(&second, NOW));
        // What has expired is forgotten: it is refused for its age.
        assert!(spent.take(&mint(&key, "other", &identity, NOW), NOW + TTL + 1));
        assert_eq!(spent.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_mac_over_the_payload_alone_is_refused() {
        let key = ConfirmationKey::from_bytes(&[1; 32]);
        let payload = r#"{"exp":1700000300,"identity":{"card_id":"42"},"tool":"delete_card"}"#;
        let mac = hmac::sign(&key.0, payload.as_bytes());
        let token = format!("v1.{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(mac.as_ref()));
        let identity = object(json!({"card_id": "42"}));
        assert_eq!(verify(&key, "delete_card", &identity, Some(&token), NOW), Err(Refusal::InvalidOrExpired));
    }

    #[test]
    fn order_of_lists_and_kind_of_numbers_do_not_matter() {
        let key = ConfirmationKey::from_bytes(&[2; 32]);
        let token = mint(&key, "t", &object(json!({"user_ids": [2, "1"], "p": 1.5})), NOW);
        let same = object(json!({"p": "1.5", "user_ids": ["1", "2"]}));
        assert_eq!(verify(&key, "t", &same, Some(&token), NOW), Ok(()));
    }

    proptest! {
        #[test]
        fn no_text_is_a_token_or_a_panic(text in "\\PC{0,200}") {
            let key = ConfirmationKey::from_bytes(&[3; 32]);
            prop_assert!(verify(&key, "t", &Map::new(), Some(&text), NOW).is_err());
        }

        /// Only the token itself, for what it was made for, by who made it, in its time.
        #[test]
        fn a_changed_token_confirms_nothing(
            card in "[1-3]{1,2}", other in "[1-3]{1,2}", late in 0..2 * TTL,
            at in any::<prop::sample::Index>(), by in prop_oneof!["[A-Za-z0-9_.=-]", "\\PC"],
        ) {
            let key = ConfirmationKey::from_bytes(&[4; 32]);
            let about = |card: &str| object(json!({ "card_id": card }));
            let token = mint(&key, "delete_card", &about(&card), NOW);
            let at = at.index(token.len());
            let changed = format!("{}{by}{}", &token[..at], &token[at + 1..]);
            let good = |key: &ConfirmationKey, tool: &str, card: &str, token: &str, now: i64| {
                verify(key, tool, &about(card), Some(token), now).is_ok()
            };
            prop_assert_eq!(good(&key, "delete_card", &card, &changed, NOW), changed == token, "{} {}", token, changed);
            prop_assert_eq!(good(&key, "delete_card", &other, &token, NOW), other == card);
            prop_assert_eq!(good(&key, "delete_card", &card, &token, NOW + late), late < TTL);
            prop_assert!(!good(&key, "delete_pipe", &card, &token, NOW));
            prop_assert!(!good(&ConfirmationKey::from_bytes(&[5; 32]), "delete_card", &card, &token, NOW));
        }
    }
}
