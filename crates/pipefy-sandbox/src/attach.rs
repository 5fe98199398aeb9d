//! Several processes on one data file: the first serves, later ones attach to it.
//!
//! A lock file beside the data holds the URL of the one that serves. It is stale when nothing answers there, or
//! something else does; then the newcomer takes over. A second, never removed file is locked through the system
//! while a process decides, so that two newcomers cannot both take over.

use crate::error::SandboxError;
use crate::server::{Sandbox, SandboxOptions, issuer_url};
use crate::store::Data;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long the process in the lock file has to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// A sandbox to talk to: one that this process serves, or one that another process serves.
#[derive(Debug)]
pub enum Attached {
    /// This process serves it. Ends with [`Attached::shutdown`] or drop.
    Serving {
        /// The running server.
        sandbox: Sandbox,
        /// The lock file that announces it; `None` for data in memory.
        lock: Option<Announcement>,
    },
    /// Another process serves the same data file.
    Attached {
        /// Its base URL.
        url: String,
        /// What identifies its data.
        key: String,
    },
}

impl Attached {
    /// Base URL, without a trailing slash.
    pub fn url(&self) -> &str {
        match self {
            Self::Serving { sandbox, .. } => sandbox.url(),
            Self::Attached { url, .. } => url,
        }
    }

    /// A name that stays as long as its data does, whatever address it has: `sandbox:<key>`.
    pub fn name(&self) -> String {
        let key = match self {
            Self::Serving { sandbox, .. } => sandbox.key(),
            Self::Attached { key, .. } => key,
        };
        format!("sandbox:{key}")
    }

    /// The OpenID issuer of the people, see [`Sandbox::issuer_url`].
    pub fn issuer_url(&self) -> String {
        issuer_url(self.url())
    }

    /// Whether this process serves the data.
    pub fn serves(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }

    /// Withdraws the announcement and stops serving; nothing to do when attached.
    pub async fn shutdown(self) {
        if let Self::Serving { sandbox, lock } = self {
            drop(lock);
            sandbox.shutdown().await;
        }
    }
}

/// The lock file of a serving process; removed on drop when it still names this process's URL.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
    url: String,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if read(&self.path).is_some_and(|lock| lock.url == self.url) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

struct Lock {
    url: String,
    key: String,
}

/// `<data file>.lock`: JSON with `url`, `key` and `pid`.
fn lock_path(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn read(path: &Path) -> Option<Lock> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Lock { url: text("url")?, key: text("key")? })
}

/// Serves the data, or attaches to the process that already serves the same data file.
///
/// Data in memory is always served by this process. Of the options, only `data` matters when another process serves.
///
/// # Errors
/// As [`Sandbox::start`], and when the lock file cannot be written.
pub async fn attach_or_start(options: SandboxOptions) -> Result<Attached, SandboxError> {
    let Data::File(data) = options.data.clone() else {
        return Ok(Attached::Serving { sandbox: Sandbox::start(options).await?, lock: None });
    };
    let path = lock_path(&data);
    let guard = tokio::task::spawn_blocking({
        let path = path.clone();
        move || guard(&path)
    })
    .await
    .map_err(|e| SandboxError::Start(e.to_string()))??;
    if let Some(lock) = read(&path)
        && answers(&lock).await
    {
        return Ok(Attached::Attached { url: lock.url, key: lock.key });
    }
    // A dead or foreign announcement is overwritten: the guard makes sure that only one process gets here at a time.
    let sandbox = Sandbox::start(options).await?;
    let text = json!({ "url": sandbox.url(), "key": sandbox.key(), "pid": std::process::id() }).to_string();
    let fresh = path.with_extension("lock.new");
    let failed = |source| SandboxError::File { path: path.clone(), source };
    std::fs::write(&fresh, text).map_err(failed)?;
    std::fs::rename(&fresh, &path).map_err(failed)?;
    drop(guard);
    let lock = Announcement { path, url: sandbox.url().to_owned() };
    Ok(Attached::Serving { sandbox, lock: Some(lock) })
}

/// Waits until no other process is deciding about the same data file.
fn guard(path: &Path) -> Result<File, SandboxError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".guard");
    let path = PathBuf::from(name);
    let failed = |source| SandboxError::File { path: path.clone(), source };
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Whether a sandbox with the announced data answers at the announced URL.
async fn answers(lock: &Lock) -> bool {
    let asked = async {
        let address = lock.url.strip_prefix("http://")?;
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET /_sandbox/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.take(16 * 1024).read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: Value = serde_json::from_str(body.trim()).ok()?;
        Some(body.get("key").and_then(Value::as_str) == Some(lock.key.as_str()))
    };
    tokio::time::timeout(ANSWER, asked).await.ok().flatten().unwrap_or(false)
}

/// Where `--sandbox` keeps its data: `sandbox.sqlite` in the folder `pipefy` of the user's state folder.
///
/// The state folder is `XDG_STATE_HOME`, else `~/.local/state`; on Windows `LOCALAPPDATA`. `None` when no home folder
/// is known. The environment is looked at here only to find a folder, never for an identity.
#[expect(clippy::disallowed_methods, reason = "names a folder, not a setting or an identity")]
pub fn default_data_path() -> Option<PathBuf> {
    data_path_in(|name| std::env::var_os(name))
}

fn data_path_in(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("LOCALAPPDATA").filter(|_| cfg!(windows)))
        .or_else(|| folder("HOME").map(|home| home.join(".local").join("state")))?;
    Some(state.join("pipefy").join("sandbox.sqlite"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_data_path_follows_the_state_folder() {
        let path = data_path_in(|name| (name == "XDG_STATE_HOME").then(|| "/state".into()));
        assert_eq!(path, Some(PathBuf::from("/state/pipefy/sandbox.sqlite")));
        let path = data_path_in(|name| (name == "HOME").then(|| "/home/ana".into()));
        assert_eq!(path, Some(PathBuf::from("/home/ana/.local/state/pipefy/sandbox.sqlite")));
        assert_eq!(data_path_in(|_| None), None);
    }
}
