//! One refresh at a time, across processes.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process waits for another one's refresh.
pub(crate) const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// An exclusive advisory lock on `refresh.lock` in the configuration directory, held until dropped; the system releases
/// it when the process dies. Shared with the reference implementation.
#[derive(Debug)]
pub(crate) struct RefreshLock(#[allow(dead_code)] File);

/// Why the lock was not had.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("the refresh lock {path} could not be acquired in {seconds} s; another pipefy process may be hung")]
    Busy { path: PathBuf, seconds: u64 },
    #[error("the refresh lock {path} cannot be used ({kind}); see that its folder is there and can be written to")]
    Unusable { path: PathBuf, kind: std::io::ErrorKind },
}

impl RefreshLock {
    /// Takes the lock in `dir`, creating both as needed, trying every 50 ms for up to `limit`.
    pub(crate) async fn acquire(dir: &Path, limit: Duration) -> Result<RefreshLock, LockError> {
        let path = dir.join("refresh.lock");
        let unusable = |error: std::io::Error| LockError::Unusable { path: path.clone(), kind: error.kind() };
        create_private_dir(dir).map_err(unusable)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(unusable)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(RefreshLock(file)),
                Err(std::fs::TryLockError::WouldBlock) if started.elapsed() < limit => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err(LockError::Busy { path, seconds: limit.as_secs() });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
    }
}

/// Creates a directory (and its parents) that only its owner may enter. Existing ones are left as they are.
pub(crate) fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[tokio::test]
    async fn the_lock_is_exclusive_private_and_stays_untouched() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("a/pipefy");
        let short = Duration::from_millis(120);
        let held = RefreshLock::acquire(&dir, short).await.unwrap();
        std::fs::write(dir.join("refresh.lock"), "kept").unwrap();
        let error = RefreshLock::acquire(&dir, short).await.unwrap_err();
        assert!(matches!(error, LockError::Busy { .. }), "{error}");
        drop(held);
        RefreshLock::acquire(&dir, short).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.join("refresh.lock")).unwrap(), "kept");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&dir.join("refresh.lock")), 0o600);
            assert_eq!(mode(&dir), 0o700);
        }
        std::fs::write(home.path().join("file"), "").unwrap();
        let error = RefreshLock::acquire(&home.path().join("file/x"), short).await.unwrap_err();
        assert!(matches!(error, LockError::Unusable { .. }), "{error}");
    }
}
