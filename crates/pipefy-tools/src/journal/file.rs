//! The journal of the person at this machine, in a SQLite file that a server and commands share. Made when it is first needed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{AGE, Entries, Unusable};

/// Entries at most; the oldest make room.
const MOST: i64 = 10_000;
/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(2);

/// A journal in a file.
#[derive(Clone)]
pub struct FileJournal {
    path: PathBuf,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl std::fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileJournal").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileJournal {
    /// In this file; nothing is opened or made yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, connection: Arc::default() }
    }

    /// `pipefy/journal.sqlite` in the user's data directory.
    pub fn in_directory(data: &Path) -> Self {
        Self::new(data.join("pipefy").join("journal.sqlite"))
    }

    /// Does `work` where it may block.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Unusable>> {
        let this = self.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                let mut place = this.connection.lock().unwrap_or_else(PoisonError::into_inner);
                let connection = match place.take() {
                    Some(connection) => connection,
                    None => open(&this.path)?,
                };
                let done = work(&connection).map_err(|error| failed(&error));
                // After a failure the next call opens it again.
                if done.is_ok() {
                    *place = Some(connection);
                }
                done
            });
            done.await.unwrap_or_else(|_| Err(Unusable("its task ended".to_owned())))
        })
    }
}

impl Entries for FileJournal {
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<String>, Unusable>> {
        let id = id.to_owned();
        self.with(move |connection| {
            connection
                .query_row("SELECT entry FROM entries WHERE id = ?1 AND at > ?2", params![id, now() - AGE], |row| {
                    row.get(0)
                })
                .optional()
        })
    }

    fn begin<'a>(&'a self, id: &'a str, entry: &'a str) -> BoxFuture<'a, Result<bool, Unusable>> {
        let (id, entry) = (id.to_owned(), entry.to_owned());
        self.with(move |connection| {
            connection.execute("DELETE FROM entries WHERE at <= ?1", params![now() - AGE])?;
            connection.execute(
                "DELETE FROM entries WHERE id IN (SELECT id FROM entries ORDER BY at DESC LIMIT -1 OFFSET ?1)",
                params![MOST - 1],
            )?;
            let made = connection.execute(
                "INSERT OR IGNORE INTO entries (id, at, entry) VALUES (?1, ?2, ?3)",
                params![id, now(), entry],
            )?;
            Ok(made == 1)
        })
    }

    fn end<'a>(&'a self, id: &'a str, entry: Option<&'a str>) -> BoxFuture<'a, Result<(), Unusable>> {
        let (id, entry) = (id.to_owned(), entry.map(str::to_owned));
        self.with(move |connection| {
            match entry {
                Some(entry) => connection.execute("UPDATE entries SET entry = ?2 WHERE id = ?1", params![id, entry])?,
                None => connection.execute("DELETE FROM entries WHERE id = ?1", params![id])?,
            };
            Ok(())
        })
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn open(path: &Path) -> Result<Connection, Unusable> {
    let unmade = |error: std::io::Error| Unusable(format!("its file cannot be made ({})", error.kind()));
    if let Some(folder) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(unmade)?;
    }
    // Made here, because SQLite would let others read it; its further files take the mode of this one.
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(unmade)?;
    let connection = Connection::open(path).map_err(|error| failed(&error))?;
    let prepare = |connection: &Connection| {
        connection.busy_timeout(PATIENCE)?;
        // What is begun must outlast a crash: the change may already be on its way.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS entries (id TEXT PRIMARY KEY, at INTEGER NOT NULL, entry TEXT NOT NULL) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS by_age ON entries (at);",
        )
    };
    prepare(&connection).map_err(|error| failed(&error))?;
    Ok(connection)
}

/// The kind says what is wrong; the text may hold a path.
fn failed(error: &rusqlite::Error) -> Unusable {
    Unusable(match error.sqlite_error_code() {
        Some(code) => format!("SQLite says {code:?}"),
        None => "SQLite failed".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[tokio::test]
    async fn entries_last_are_private_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let first = FileJournal::in_directory(folder.path());
        let path = folder.path().join("pipefy").join("journal.sqlite");
        assert!(!path.exists());
        assert!(first.begin("a", "1").await.unwrap());
        assert!(!first.begin("a", "2").await.unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // Another process sees it.
        let second = FileJournal::in_directory(folder.path());
        assert_eq!(second.read("a").await.unwrap().as_deref(), Some("1"));
        second.end("a", Some("3")).await.unwrap();
        assert_eq!(first.read("a").await.unwrap().as_deref(), Some("3"));
        first.end("a", None).await.unwrap();
        assert_eq!(second.read("a").await.unwrap(), None);
        // Old ones are as good as gone, and too many make room from the oldest on.
        let connection = Connection::open(&path).unwrap();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
                    INSERT INTO entries SELECT 'n' || i, ?1 + i, 'x' FROM n";
        connection.execute(fill, params![now() - 50_000]).unwrap();
        connection.execute("INSERT INTO entries VALUES ('old', ?1, 'x')", params![now() - AGE]).unwrap();
        assert_eq!(first.read("old").await.unwrap(), None);
        assert!(first.begin("new", "x").await.unwrap());
        let count: i64 = connection.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
        assert_eq!(count, MOST);
        assert_eq!(first.read("n0").await.unwrap(), None);
        assert!(first.read("n12000").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_journal_that_cannot_be_used_says_so_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("pipefy");
        std::fs::write(&blocked, "a file where the folder should be").unwrap();
        let journal = FileJournal::in_directory(folder.path());
        for error in [journal.begin("a", "1").await.unwrap_err(), journal.read("a").await.unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("cannot be") && !text.contains(folder.path().to_str().unwrap()), "{text}");
        }
        std::fs::remove_file(&blocked).unwrap();
        assert!(journal.begin("a", "1").await.unwrap());
    }
}
