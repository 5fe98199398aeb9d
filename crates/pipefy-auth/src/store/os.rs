//! The operating system's credential store.
//!
//! macOS: login Keychain, service `pipefy`, account as given. Windows: Credential Manager, target `pipefy` (or
//! `<account>@pipefy` while that target holds somebody else's entry). Linux and other systems: Secret Service, default
//! collection, attributes `service` and `username`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use keyring_core::{CredentialStore, Entry, Error};
use secrecy::{ExposeSecret, SecretString};

use super::file::FileStore;
use super::{SERVICE, SecretStore, StoreError};

/// The platform's store, connected on first use.
pub(super) struct OsStore {
    store: OnceLock<Result<Arc<CredentialStore>, StoreError>>,
    /// Where the reference implementation keeps sessions on a host without a store. What is already there is used and
    /// kept up to date; a new session is never put there.
    fallback: Option<FileStore>,
}

impl OsStore {
    pub(super) fn new(fallback: Option<PathBuf>) -> OsStore {
        OsStore { store: OnceLock::new(), fallback: fallback.map(FileStore::new) }
    }

    fn store(&self) -> Result<&Arc<CredentialStore>, StoreError> {
        self.store.get_or_init(connect).as_ref().map_err(Clone::clone)
    }

    /// The older plain-text file, when there is no store and the file has an entry of `account`.
    fn older(&self, account: &str) -> Option<&FileStore> {
        if self.store().is_ok() {
            return None;
        }
        let fallback = self.fallback.as_ref()?;
        matches!(fallback.get(account), Ok(Some(_))).then_some(fallback)
    }
}

impl Drop for OsStore {
    /// Hanging up drives the connection's event loop once more, so it happens on a thread of its own as well.
    fn drop(&mut self) {
        if let Some(Ok(store)) = self.store.take() {
            let _ = std::thread::Builder::new().name("keychain".to_owned()).spawn(move || drop(store));
        }
    }
}

impl SecretStore for OsStore {
    fn name(&self) -> String {
        match self.store() {
            Ok(_) => NAME.to_owned(),
            Err(error) => format!("unavailable ({error})"),
        }
    }

    fn name_for(&self, account: &str) -> String {
        self.older(account).map_or_else(|| self.name(), FileStore::name)
    }

    /// Connects, and asks for the entry, which a locked store has to be opened for.
    fn check(&self, account: &str) -> Result<(), StoreError> {
        match self.older(account) {
            Some(older) => older.check(account),
            None => first(self.store()?, account).map(|_| ()),
        }
    }

    fn get(&self, account: &str) -> Result<Option<SecretString>, StoreError> {
        if let Some(older) = self.older(account) {
            return older.get(account);
        }
        match first(self.store()?, account)?.map(|entry| platform::read(&entry)) {
            None | Some(Err(Error::NoEntry)) => Ok(None),
            Some(Ok(value)) => Ok(Some(value.into())),
            // Present, but not text: an unreadable entry.
            Some(Err(Error::BadEncoding(_) | Error::BadDataFormat(..))) => Ok(Some(SecretString::default())),
            Some(Err(error)) => Err(failed(&error)),
        }
    }

    fn set(&self, account: &str, value: &SecretString) -> Result<(), StoreError> {
        if let Some(older) = self.older(account) {
            return older.set(account, value);
        }
        let store = self.store()?;
        let existing = first(store, account)?;
        let entry = match existing {
            Some(entry) => entry,
            None => platform::entry(store, account).map_err(|error| failed(&error))?,
        };
        match platform::write(&entry, value.expose_secret()) {
            Ok(()) => {
                platform::describe(&entry, account);
                Ok(())
            }
            Err(Error::TooLong(..)) => Err(StoreError::TooLong),
            Err(error) => Err(failed(&error)),
        }
    }

    fn delete(&self, account: &str) -> Result<bool, StoreError> {
        if let Some(older) = self.older(account) {
            return older.delete(account);
        }
        let store = self.store()?;
        let mut removed = false;
        // More than one item can match on the Secret Service; none may stay behind.
        for _ in 0..100 {
            let Some(entry) = first(store, account)? else { break };
            match entry.delete_credential() {
                Ok(()) => removed = true,
                Err(Error::NoEntry) => break,
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(removed)
    }
}

/// The existing entry of `account`, the first when several match.
fn first(store: &Arc<CredentialStore>, account: &str) -> Result<Option<Entry>, StoreError> {
    let entry = platform::entry(store, account).map_err(|error| failed(&error))?;
    match entry.get_credential() {
        Ok(_) => Ok(Some(entry)),
        Err(Error::NoEntry) => Ok(None),
        Err(Error::Ambiguous(mut entries)) if !entries.is_empty() => Ok(Some(entries.swap_remove(0))),
        Err(error) => Err(failed(&error)),
    }
}

/// Connects on a thread of its own: the caller may be an async one, and the connection drives an event loop.
fn connect() -> Result<Arc<CredentialStore>, StoreError> {
    let connected = std::thread::scope(|scope| scope.spawn(platform::connect).join());
    match connected {
        Ok(connected) => connected.map_err(|error| StoreError::Unavailable(text(&error))),
        Err(_) => Err(StoreError::Unavailable("the credential store could not be connected".to_owned())),
    }
}

fn failed(error: &Error) -> StoreError {
    StoreError::Failed(text(error))
}

/// The error without the data that some variants carry.
fn text(error: &Error) -> String {
    let text = match error {
        Error::BadEncoding(_) | Error::BadDataFormat(..) => "the entry is not text".to_owned(),
        Error::Ambiguous(entries) => format!("{} entries match", entries.len()),
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        other => other.to_string(),
    };
    crate::http::clean(&text)
}

#[cfg(all(unix, not(target_os = "macos")))]
const NAME: &str = "Keyring";

#[cfg(all(unix, not(target_os = "macos")))]
mod platform {
    use super::*;

    pub(super) fn connect() -> keyring_core::Result<Arc<CredentialStore>> {
        Ok(zbus_secret_service_keyring_store::Store::new()?)
    }

    pub(super) fn entry(store: &Arc<CredentialStore>, account: &str) -> keyring_core::Result<Entry> {
        let label = format!("Password for '{account}' on '{SERVICE}'");
        store.build(SERVICE, account, Some(&HashMap::from([("label", label.as_str())])))
    }

    pub(super) fn read(entry: &Entry) -> keyring_core::Result<String> {
        entry.get_password()
    }

    pub(super) fn write(entry: &Entry, value: &str) -> keyring_core::Result<()> {
        entry.set_password(value)
    }

    /// The reference's third attribute; look-ups do not use it, so failing to set it does no harm.
    pub(super) fn describe(entry: &Entry, _account: &str) {
        let _ = entry.update_attributes(&HashMap::from([("application", "Python keyring library")]));
    }
}

#[cfg(target_os = "macos")]
const NAME: &str = "Keyring";

#[cfg(target_os = "macos")]
mod platform {
    use super::*;

    pub(super) fn connect() -> keyring_core::Result<Arc<CredentialStore>> {
        Ok(apple_native_keyring_store::keychain::Store::new()?)
    }

    pub(super) fn entry(store: &Arc<CredentialStore>, account: &str) -> keyring_core::Result<Entry> {
        store.build(SERVICE, account, None)
    }

    pub(super) fn read(entry: &Entry) -> keyring_core::Result<String> {
        entry.get_password()
    }

    /// Changes an existing item in place, which keeps the applications the user has allowed.
    pub(super) fn write(entry: &Entry, value: &str) -> keyring_core::Result<()> {
        entry.set_password(value)
    }

    pub(super) fn describe(_entry: &Entry, _account: &str) {}
}

#[cfg(windows)]
const NAME: &str = "WinVaultKeyring";

#[cfg(windows)]
mod platform {
    use super::*;

    pub(super) fn connect() -> keyring_core::Result<Arc<CredentialStore>> {
        Ok(windows_native_keyring_store::Store::new()?)
    }

    /// Target `pipefy` if it is free or ours, else `<account>@pipefy`; the reference looks in both.
    pub(super) fn entry(store: &Arc<CredentialStore>, account: &str) -> keyring_core::Result<Entry> {
        let own = format!("{account}@{SERVICE}");
        let at = |target: &str| store.build(SERVICE, account, Some(&HashMap::from([("target", target)])));
        if at(&own)?.get_attributes().is_ok() {
            return at(&own);
        }
        let shared = at(SERVICE)?;
        match shared.get_attributes() {
            Ok(found) if found.get("username").map(String::as_str) != Some(account) => at(&own),
            _ => Ok(shared),
        }
    }

    pub(super) fn read(entry: &Entry) -> keyring_core::Result<String> {
        entry.get_password()
    }

    /// As UTF-16, like the reference.
    pub(super) fn write(entry: &Entry, value: &str) -> keyring_core::Result<()> {
        entry.set_password(value)
    }

    pub(super) fn describe(entry: &Entry, account: &str) {
        let _ = entry.update_attributes(&HashMap::from([("username", account)]));
    }
}
