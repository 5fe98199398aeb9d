//! Where sessions are kept: the operating system's store, or a file when the user asked for one.
//!
//! Both keep what the reference implementation keeps, under the same names, so that either reads the other's entries.

mod file;
#[cfg(feature = "keychain")]
mod os;
#[cfg(feature = "keychain")]
mod sealed;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pipefy::settings::{AuthSettings, KeychainBackend};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::oneshot;

use crate::session::{StoredSession, account_name};

pub use file::FileStore;

/// The service name that every entry is filed under.
pub const SERVICE: &str = "pipefy";

/// A store that does not answer within this time (an unlock dialogue nobody sees, say) counts as failed.
const STORE_LIMIT: Duration = Duration::from_secs(60);

/// A credential store. Calls may block; [`Keychain`] keeps them off the async threads.
pub trait SecretStore: Send + Sync {
    /// Short name for people and for `auth status`.
    fn name(&self) -> String;

    /// The name of the place where the entry of `account` is, where a store has more than one.
    fn name_for(&self, account: &str) -> String {
        let _ = account;
        self.name()
    }

    /// Whether an entry of `account` could be written now. Writes none.
    ///
    /// # Errors
    /// [`StoreError`]: what a write would end in.
    fn check(&self, account: &str) -> Result<(), StoreError>;

    /// The entry of `account`; nothing when there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    fn get(&self, account: &str) -> Result<Option<SecretString>, StoreError>;

    /// Creates or replaces the entry of `account`.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] when the platform does not take that much; another [`StoreError`] when it refuses.
    fn set(&self, account: &str, value: &SecretString) -> Result<(), StoreError>;

    /// Removes the entry of `account`; false when there was none.
    ///
    /// # Errors
    /// [`StoreError`] when the store refuses.
    fn delete(&self, account: &str) -> Result<bool, StoreError>;
}

/// Why a store did not do its work. Holds no secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The value is longer than the platform's limit.
    #[error("the session is larger than this credential store takes")]
    TooLong,
    /// There is no store to talk to.
    #[error("{0}")]
    Unavailable(String),
    /// The store refused or failed.
    #[error("{0}")]
    Failed(String),
    /// A store file is not in its format.
    #[error("{} is damaged ({reason}); `pipefy auth login` puts it aside and starts a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, without content.
        reason: String,
    },
}

/// Whether a session is stored, readable or not.
#[derive(Clone, Debug)]
pub enum Presence {
    /// Something is there, even if it is empty or damaged.
    Present,
    /// Nothing is there.
    Absent,
    /// The store could not say.
    Unknown(StoreError),
}

/// What is stored under an account.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A usable session of this issuer and client.
    Session(Box<StoredSession>),
    /// A session of another realm on the same host, or of another client; not used, not removed.
    Foreign(Box<StoredSession>),
    /// Something that is not a session.
    Unreadable,
    /// Nothing.
    Absent,
}

/// The stored session of one issuer and client. Cheap to clone.
#[derive(Clone)]
pub struct Keychain {
    store: Arc<dyn SecretStore>,
    issuer: String,
    client_id: String,
    account: String,
}

impl Keychain {
    /// The keychain that the settings ask for. Nothing is read yet.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the issuer has no host, or the home directory is unknown.
    pub fn open(settings: &AuthSettings) -> Result<Keychain, StoreError> {
        Keychain::with_store(settings, default_store(settings)?)
    }

    /// The same over another store.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the issuer has no host.
    pub fn with_store(settings: &AuthSettings, store: Arc<dyn SecretStore>) -> Result<Keychain, StoreError> {
        let account = account_name(&settings.auth_url, &settings.auth_client_id)
            .ok_or_else(|| StoreError::Unavailable("auth_url has no host".to_owned()))?;
        // The unnamed login is where other programs look for it.
        let account = settings.account.iter().fold(account, |account, name| format!("{account}|{name}"));
        Ok(Keychain {
            store,
            issuer: settings.auth_url.trim().to_owned(),
            client_id: settings.auth_client_id.trim().to_owned(),
            account,
        })
    }

    /// Short name of the store that holds the session or would, or `unavailable (<cause>)`. Blocks while connecting.
    pub fn name(&self) -> String {
        self.store.name_for(&self.account)
    }

    /// The account that the session is filed under.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// What is stored. Blocks the calling thread, which may belong to an async runtime.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn read_blocking(&self) -> Result<Entry, StoreError> {
        let keychain = self.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let _waiting = on_thread(move || {
            let _ = sender.send(keychain.read_here());
            Ok(())
        })?;
        let unanswered = |_| StoreError::Failed("the credential store did not answer in 60 s".to_owned());
        receiver.recv_timeout(STORE_LIMIT).unwrap_or_else(|error| Err(unanswered(error)))
    }

    fn read_here(&self) -> Result<Entry, StoreError> {
        let Some(value) = self.store.get(&self.account)? else { return Ok(Entry::Absent) };
        Ok(match StoredSession::from_json(value.expose_secret()) {
            None => Entry::Unreadable,
            Some(session) if session.belongs_to(&self.issuer, &self.client_id) => Entry::Session(Box::new(session)),
            Some(session) => Entry::Foreign(Box::new(session)),
        })
    }

    /// What is stored.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn read(&self) -> Result<Entry, StoreError> {
        let keychain = self.clone();
        off_thread(move || keychain.read_here()).await
    }

    /// The usable session, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn load(&self) -> Result<Option<StoredSession>, StoreError> {
        match self.read().await? {
            Entry::Session(session) => Ok(Some(*session)),
            _ => Ok(None),
        }
    }

    /// Whether anything is stored.
    pub async fn presence(&self) -> Presence {
        let keychain = self.clone();
        match off_thread(move || keychain.store.get(&keychain.account)).await {
            Ok(Some(_)) => Presence::Present,
            Ok(None) => Presence::Absent,
            Err(error) => Presence::Unknown(error),
        }
    }

    /// Whether a session could be stored now. Asked before anything that cannot be undone is asked of the issuer: a
    /// session that is granted and then lost stays open there.
    ///
    /// # Errors
    /// [`StoreError`]: what storing would end in.
    pub async fn check(&self) -> Result<(), StoreError> {
        let keychain = self.clone();
        off_thread(move || keychain.store.check(&keychain.account)).await
    }

    /// Stores a session.
    ///
    /// # Errors
    /// [`StoreError`] when the store refuses.
    pub async fn store(&self, session: &StoredSession) -> Result<(), StoreError> {
        let (keychain, value) = (self.clone(), session.to_json());
        off_thread(move || keychain.store.set(&keychain.account, &value)).await
    }

    /// Removes what is stored; false when there was nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store refuses.
    pub async fn delete(&self) -> Result<bool, StoreError> {
        let keychain = self.clone();
        off_thread(move || keychain.store.delete(&keychain.account)).await
    }
}

impl std::fmt::Debug for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keychain").field("account", &self.account).finish_non_exhaustive()
    }
}

/// Runs blocking work on a thread of its own: some stores run an event loop inside, which must not meet ours.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("keychain".to_owned());
    let spawned = thread.spawn(move || {
        let _ = sender.send(work());
    });
    match spawned {
        Ok(_) => Ok(receiver),
        Err(error) => Err(StoreError::Failed(format!("no thread for the credential store ({})", error.kind()))),
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::time::timeout(STORE_LIMIT, on_thread(work)?).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(StoreError::Failed("the credential store failed unexpectedly".to_owned())),
        Err(_) => Err(StoreError::Failed(
            "the credential store did not answer in 60 s; is it waiting to be unlocked?".to_owned(),
        )),
    }
}

fn default_store(settings: &AuthSettings) -> Result<Arc<dyn SecretStore>, StoreError> {
    let no_home = || StoreError::Unavailable("the home directory is unknown; set HOME".to_owned());
    match settings.keychain_backend {
        KeychainBackend::File => {
            let dir = settings.config_dir.clone().ok_or_else(no_home)?;
            Ok(Arc::new(FileStore::new(dir.join("keyring.cfg"))))
        }
        KeychainBackend::Auto => platform_store(settings),
    }
}

#[cfg(feature = "keychain")]
fn platform_store(settings: &AuthSettings) -> Result<Arc<dyn SecretStore>, StoreError> {
    let fallback = settings.data_dir.as_ref().map(|dir| dir.join("python_keyring").join("keyring_pass.cfg"));
    let os = os::OsStore::new(fallback.filter(|_| cfg!(all(unix, not(target_os = "macos")))));
    Ok(match &settings.config_dir {
        Some(dir) => Arc::new(sealed::Sealing::new(os, dir.clone())),
        None => Arc::new(os),
    })
}

#[cfg(not(feature = "keychain"))]
fn platform_store(_: &AuthSettings) -> Result<Arc<dyn SecretStore>, StoreError> {
    Err(StoreError::Unavailable(
        "this build has no keychain support; set PIPEFY_KEYCHAIN_BACKEND=file or use PIPEFY_TOKEN".to_owned(),
    ))
}
