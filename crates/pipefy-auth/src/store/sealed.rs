//! Sessions that are too large for the platform's store (2,560 bytes on Windows): sealed in a file, the key in the
//! store.

use std::path::PathBuf;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::file::write_private;
use super::{SecretStore, StoreError};

/// Wraps a store: a value that it takes is stored as it is. One that is too long loses its ID token (which nothing
/// reads); if it is still too long it goes, AES-256-GCM sealed, into a file of the configuration directory, and the
/// store keeps the key. Later writes reuse the key, so the store's item is not touched by every refresh.
pub(super) struct Sealing<S> {
    inner: S,
    dir: PathBuf,
}

impl<S: SecretStore> Sealing<S> {
    pub(super) fn new(inner: S, dir: PathBuf) -> Sealing<S> {
        Sealing { inner, dir }
    }

    fn path(&self, account: &str) -> PathBuf {
        let hash = digest(&SHA256, account.as_bytes());
        let short = hash.as_ref().get(..12).unwrap_or_default();
        self.dir.join(format!("session-{}.sealed", URL_SAFE_NO_PAD.encode(short)))
    }

    fn seal(&self, account: &str, value: &str, key: &Key) -> Result<(), StoreError> {
        let failed = || StoreError::Failed("the session could not be sealed".to_owned());
        let mut content = value.as_bytes().to_vec();
        let aead = RandomizedNonceKey::new(&AES_256_GCM, &key.0).map_err(|_| failed())?;
        let nonce = aead.seal_in_place_append_tag(Aad::from(account), &mut content).map_err(|_| failed())?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut content);
        write_private(&self.path(account), STANDARD.encode(sealed).as_bytes()).map_err(|error| {
            StoreError::Failed(format!("{} could not be written ({})", self.path(account).display(), error.kind()))
        })
    }

    /// The value sealed for `account`; nothing when the file is gone, damaged or sealed with another key.
    fn open(&self, account: &str, key: &Key) -> Option<SecretString> {
        let sealed = STANDARD.decode(std::fs::read(self.path(account)).ok()?).ok()?;
        let (nonce, content) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = content.to_vec();
        let aead = RandomizedNonceKey::new(&AES_256_GCM, &key.0).ok()?;
        let plain = aead.open_in_place(nonce, Aad::from(account), &mut content).ok()?;
        let text = std::str::from_utf8(plain).ok().map(SecretString::from);
        content.zeroize();
        text
    }
}

struct Key([u8; 32]);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Key {
    fn random() -> Option<Key> {
        let mut key = Key([0; 32]);
        rand::fill(&mut key.0).ok()?;
        Some(key)
    }

    /// The entry that says "sealed in a file, with this key".
    fn from_entry(entry: &str) -> Option<Key> {
        let fields: serde_json::Map<String, Value> = serde_json::from_str(entry).ok()?;
        let key = STANDARD.decode(fields.get("sealed_with")?.as_str()?).ok()?;
        Some(Key(key.try_into().ok()?))
    }

    fn to_entry(&self) -> SecretString {
        json!({ "sealed_with": STANDARD.encode(self.0) }).to_string().into()
    }
}

impl<S: SecretStore> SecretStore for Sealing<S> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn name_for(&self, account: &str) -> String {
        self.inner.name_for(account)
    }

    fn check(&self, account: &str) -> Result<(), StoreError> {
        self.inner.check(account)
    }

    fn get(&self, account: &str) -> Result<Option<SecretString>, StoreError> {
        let Some(entry) = self.inner.get(account)? else { return Ok(None) };
        match Key::from_entry(entry.expose_secret()) {
            // A key without its file is an entry that cannot be read, not an absent one.
            Some(key) => Ok(Some(self.open(account, &key).unwrap_or_default())),
            None => Ok(Some(entry)),
        }
    }

    fn set(&self, account: &str, value: &SecretString) -> Result<(), StoreError> {
        let current = self.inner.get(account).ok().flatten();
        if let Some(key) = current.and_then(|entry| Key::from_entry(entry.expose_secret())) {
            return self.seal(account, value.expose_secret(), &key);
        }
        match self.inner.set(account, value) {
            Err(StoreError::TooLong) => {}
            done => return done,
        }
        if let Some(smaller) = without_id_token(value) {
            match self.inner.set(account, &smaller) {
                Err(StoreError::TooLong) => {}
                done => return done,
            }
        }
        let key = Key::random().ok_or_else(|| StoreError::Failed("no random numbers".to_owned()))?;
        self.seal(account, value.expose_secret(), &key)?;
        self.inner.set(account, &key.to_entry())
    }

    fn delete(&self, account: &str) -> Result<bool, StoreError> {
        let removed = self.inner.delete(account)?;
        // Without its key the file says nothing any more.
        let _ = std::fs::remove_file(self.path(account));
        Ok(removed)
    }
}

fn without_id_token(value: &SecretString) -> Option<SecretString> {
    let mut fields: serde_json::Map<String, Value> = serde_json::from_str(value.expose_secret()).ok()?;
    let token = fields.get_mut("id_token")?;
    *token = Value::Null;
    Some(Value::Object(fields).to_string().into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    /// A store that takes 2,560 bytes of UTF-16, like the one of Windows, and counts its writes.
    #[derive(Default)]
    struct Small {
        entries: Mutex<HashMap<String, String>>,
        writes: Mutex<usize>,
    }

    impl SecretStore for Small {
        fn name(&self) -> String {
            "Small".to_owned()
        }

        fn check(&self, _: &str) -> Result<(), StoreError> {
            Ok(())
        }

        fn get(&self, account: &str) -> Result<Option<SecretString>, StoreError> {
            Ok(self.entries.lock().unwrap().get(account).cloned().map(SecretString::from))
        }

        fn set(&self, account: &str, value: &SecretString) -> Result<(), StoreError> {
            if value.expose_secret().encode_utf16().count() * 2 > 2560 {
                return Err(StoreError::TooLong);
            }
            *self.writes.lock().unwrap() += 1;
            self.entries.lock().unwrap().insert(account.to_owned(), value.expose_secret().to_owned());
            Ok(())
        }

        fn delete(&self, account: &str) -> Result<bool, StoreError> {
            Ok(self.entries.lock().unwrap().remove(account).is_some())
        }
    }

    fn session(access: usize, id: usize) -> SecretString {
        json!({"access_token": "a".repeat(access), "id_token": "i".repeat(id)}).to_string().into()
    }

    fn files(dir: &tempfile::TempDir) -> Vec<PathBuf> {
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn what_fits_is_stored_as_it_is_and_the_id_token_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sealing::new(Small::default(), dir.path().to_owned());
        store.set("a", &session(100, 100)).unwrap();
        assert_eq!(store.get("a").unwrap().unwrap().expose_secret(), session(100, 100).expose_secret());
        store.set("a", &session(1000, 1000)).unwrap();
        let kept = store.get("a").unwrap().unwrap();
        assert!(kept.expose_secret().ends_with("\"id_token\":null}"), "{}", kept.expose_secret());
        assert!(files(&dir).is_empty());
    }

    #[test]
    fn six_kilobytes_are_sealed_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sealing::new(Small::default(), dir.path().to_owned());
        store.set("a", &session(6000, 10)).unwrap();
        assert_eq!(store.get("a").unwrap().unwrap().expose_secret(), session(6000, 10).expose_secret());
        let path = files(&dir).pop().unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("aaaa"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A refresh does not write the store's item again, also when the session has become small.
        let writes = *store.inner.writes.lock().unwrap();
        store.set("a", &session(7000, 10)).unwrap();
        store.set("a", &session(10, 10)).unwrap();
        assert_eq!(*store.inner.writes.lock().unwrap(), writes);
        assert_eq!(store.get("a").unwrap().unwrap().expose_secret(), session(10, 10).expose_secret());
        assert!(store.delete("a").unwrap());
        assert!(files(&dir).is_empty() && store.get("a").unwrap().is_none());
    }

    #[test]
    fn a_missing_or_tampered_file_is_an_unreadable_entry() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sealing::new(Small::default(), dir.path().to_owned());
        store.set("a", &session(6000, 10)).unwrap();
        let path = files(&dir).pop().unwrap();
        let good = std::fs::read(&path).unwrap();
        let mut bad = STANDARD.decode(&good).unwrap();
        bad[40] ^= 1;
        for content in [STANDARD.encode(bad).into_bytes(), b"".to_vec(), b"AAAA".to_vec(), b"***".to_vec()] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(store.get("a").unwrap().unwrap().expose_secret(), "");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(store.get("a").unwrap().unwrap().expose_secret(), "");
        assert!(store.delete("a").unwrap());
    }
}
