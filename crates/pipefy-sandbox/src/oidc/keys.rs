//! The issuer's RSA keys: kept with the data, made when first needed, rotated on demand. Tokens are signed and verified here.

use crate::error::GqlError;
use crate::json::text;
use crate::store::{Links, Store, entropy};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const KIND: &str = "oidc_key";

/// A key with its name. The newest signs, all verify.
struct Key {
    kid: String,
    pair: RsaKeyPair,
}

/// All keys that are published, oldest first.
pub(crate) struct Keys(Vec<Key>);

fn broken() -> GqlError {
    tracing::error!("sandbox signing key");
    GqlError::new("INTERNAL_SERVER_ERROR", "The signing key is not usable")
}

/// A new key as it is stored. Takes a moment.
pub(crate) fn generate() -> Result<Vec<u8>, GqlError> {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| broken())?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| broken())?;
    Ok(der.as_ref().to_vec())
}

impl Keys {
    /// The stored keys; `None` when there are none yet.
    pub(crate) fn load(store: &Store) -> Result<Option<Arc<Self>>, GqlError> {
        let mut keys = Vec::new();
        for (kid, body) in store.all(KIND)? {
            let der = STANDARD.decode(text(&body, "pkcs8")).map_err(|_| broken())?;
            let pair = RsaKeyPair::from_pkcs8(&der).map_err(|_| broken())?;
            keys.push(Key { kid, pair });
        }
        Ok((!keys.is_empty()).then(|| Arc::new(Self(keys))))
    }

    /// Stores a generated key, which signs from now on.
    pub(crate) fn add(store: &Store, pkcs8: &[u8]) -> Result<(), GqlError> {
        let kid = format!("sandbox-{:016x}", entropy());
        store.put(KIND, &kid, &Links::default(), &json!({ "pkcs8": STANDARD.encode(pkcs8) }))?;
        Ok(())
    }

    /// Withdraws all keys but the newest: what they have signed is void.
    pub(crate) fn drop_old(store: &Store) -> Result<(), GqlError> {
        let stored = store.all(KIND)?;
        for (kid, _) in stored.iter().rev().skip(1) {
            store.delete(KIND, kid)?;
        }
        Ok(())
    }

    /// The names, oldest first; the last one signs.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|key| key.kid.as_str()).collect()
    }

    /// The public keys (RFC 7517).
    pub(crate) fn published(&self) -> Value {
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let jwk = |key: &Key| {
            let public = key.pair.public_key();
            json!({
                "kty": "RSA", "kid": key.kid, "use": "sig", "alg": "RS256",
                "n": part(public.modulus().big_endian_without_leading_zero()),
                "e": part(public.exponent().big_endian_without_leading_zero()),
            })
        };
        json!({ "keys": self.0.iter().map(jwk).collect::<Vec<_>>() })
    }

    /// An RS256 JWT of these claims.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, GqlError> {
        let key = self.0.last().ok_or_else(broken)?;
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "typ": "JWT", "kid": key.kid })), part(claims));
        let mut signature = vec![0; key.pair.public_modulus_len()];
        key.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| broken())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a JWT that one of these keys has signed. Time and audience are not looked at.
    pub(crate) fn claims(&self, token: &str) -> Option<Map<String, Value>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if text(&header, "alg") != "RS256" {
            return None;
        }
        let key = self.0.iter().find(|key| key.kid == text(&header, "kid"))?;
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}
