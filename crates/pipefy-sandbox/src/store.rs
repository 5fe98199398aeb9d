//! State in SQLite: one table of JSON entities, one of stored objects (uploads), one of counters.

use crate::error::{GqlError, SandboxError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use std::path::PathBuf;

/// Where the state lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Data {
    /// Gone when the sandbox stops.
    #[default]
    Memory,
    /// A SQLite file that survives restarts; its folder is created when missing.
    File(PathBuf),
}

/// Raised when the tables or the stored shapes change in a way that older files do not have.
const SCHEMA_VERSION: i64 = 2;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entities (
  kind TEXT NOT NULL, id TEXT NOT NULL, uuid TEXT, parent TEXT, grp TEXT,
  pos REAL NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_parent ON entities (kind, parent, pos);
CREATE INDEX IF NOT EXISTS by_group ON entities (kind, grp, pos);
CREATE INDEX IF NOT EXISTS by_uuid ON entities (kind, uuid);
CREATE TABLE IF NOT EXISTS objects (path TEXT PRIMARY KEY, content_type TEXT NOT NULL, bytes BLOB NOT NULL);
";

/// How an entity is found besides its id.
#[derive(Debug, Default, Clone)]
pub(crate) struct Links {
    pub(crate) uuid: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) group: Option<String>,
    /// Order among siblings; `None` = after all that exist.
    pub(crate) pos: Option<f64>,
}

impl Links {
    pub(crate) fn parent(parent: &str) -> Self {
        Self { parent: Some(parent.to_owned()), ..Self::default() }
    }

    pub(crate) fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    pub(crate) fn uuid(mut self, uuid: &str) -> Self {
        self.uuid = Some(uuid.to_owned());
        self
    }

    pub(crate) fn pos(mut self, pos: f64) -> Self {
        self.pos = Some(pos);
        self
    }
}

/// Which sibling list to read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Parent,
    Group,
}

/// The open database. Used by one request at a time.
pub(crate) struct Store {
    conn: Connection,
}

impl Store {
    /// Opens the data and says whether it is new (needs a seed).
    pub(crate) fn open(data: &Data, seed: u64) -> Result<(Self, bool), SandboxError> {
        let conn = match data {
            Data::Memory => Connection::open_in_memory()?,
            Data::File(path) => {
                if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
                    std::fs::create_dir_all(folder)
                        .map_err(|source| SandboxError::File { path: folder.to_owned(), source })?;
                }
                let conn = Connection::open(path)?;
                conn.execute_batch(
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000;",
                )?;
                conn
            }
        };
        conn.set_prepared_statement_cache_capacity(64);
        conn.execute_batch(TABLES)?;
        let store = Self { conn };
        let found = store.counter("schema_version")?;
        match found {
            None => {
                store.set_counter("schema_version", SCHEMA_VERSION)?;
                store.set_counter("seed", i64::from_ne_bytes(seed.to_ne_bytes()))?;
                store.renew_keys()?;
                Ok((store, true))
            }
            Some(version) if version == SCHEMA_VERSION => Ok((store, false)),
            Some(found) => Err(SandboxError::Version { found, wanted: SCHEMA_VERSION }),
        }
    }

    /// Takes over everything from another store, except what must differ between two stores.
    pub(crate) fn copy_from(&mut self, other: &Self) -> rusqlite::Result<()> {
        let backup = rusqlite::backup::Backup::new(&other.conn, &mut self.conn)?;
        backup.run_to_completion(i32::MAX, std::time::Duration::from_millis(1), None)?;
        drop(backup);
        self.renew_keys()
    }

    fn renew_keys(&self) -> rusqlite::Result<()> {
        // Tells two data files apart when a process wants to attach to the one that serves its file.
        self.set_counter("store_key", i64::from_ne_bytes(entropy().to_ne_bytes()))?;
        self.set_counter("signing_key", i64::from_ne_bytes(entropy().to_ne_bytes()))
    }

    pub(crate) fn counter(&self, key: &str) -> rusqlite::Result<Option<i64>> {
        self.conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()
    }

    pub(crate) fn set_counter(&self, key: &str, value: i64) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![key, value])?;
        Ok(())
    }

    /// Identifies this data among all sandboxes.
    pub(crate) fn key(&self) -> rusqlite::Result<String> {
        Ok(format!("{:016x}", self.counter("store_key")?.unwrap_or_default()))
    }

    /// The secret behind storage signatures; never leaves the data file.
    pub(crate) fn signing_key(&self) -> rusqlite::Result<[u8; 8]> {
        Ok(self.counter("signing_key")?.unwrap_or_default().to_be_bytes())
    }

    fn seed(&self) -> rusqlite::Result<u64> {
        Ok(u64::from_ne_bytes(self.counter("seed")?.unwrap_or(1).to_ne_bytes()))
    }

    /// The next number id of a kind: rising, with small gaps, the same for the same seed.
    pub(crate) fn next_id(&self, kind: &str) -> rusqlite::Result<String> {
        let key = format!("next:{kind}");
        let seed = self.seed()?;
        let last = match self.counter(&key)? {
            Some(last) => last,
            None => base_of(kind) + (mix(seed ^ hash(kind)) % 40_000) as i64,
        };
        let next = last + 1 + (mix(seed ^ last as u64) % 7) as i64;
        self.set_counter(&key, next)?;
        Ok(next.to_string())
    }

    fn draw(&self) -> rusqlite::Result<u64> {
        let count = self.counter("draws")?.unwrap_or_default() + 1;
        self.set_counter("draws", count)?;
        Ok(mix(self.seed()?.wrapping_mul(0x9E37_79B9).wrapping_add(count as u64)))
    }

    /// A version 4 shaped uuid, the same sequence for the same seed.
    pub(crate) fn next_uuid(&self) -> rusqlite::Result<String> {
        let (high, low) = (self.draw()?, self.draw()?);
        let high = (high & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
        let low = (low & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
        Ok(format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xFFFF,
            high & 0xFFFF,
            low >> 48,
            low & 0xFFFF_FFFF_FFFF
        ))
    }

    /// A short alphanumeric id as tables and suids have: eight characters, the first a letter.
    pub(crate) fn next_alnum(&self) -> rusqlite::Result<String> {
        const LETTERS: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ";
        const ALL: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789_-";
        let mut bits = self.draw()?;
        let mut text = String::with_capacity(8);
        for place in 0..8 {
            let set = if place == 0 || place == 7 { LETTERS } else { ALL };
            let index = (bits % set.len() as u64) as usize;
            bits /= set.len() as u64;
            text.push(set.get(index).copied().map_or('x', char::from));
        }
        Ok(text)
    }

    pub(crate) fn get(&self, kind: &str, id: &str) -> rusqlite::Result<Option<Value>> {
        self.conn
            .prepare_cached("SELECT body FROM entities WHERE kind = ?1 AND id = ?2")?
            .query_row([kind, id], |row| row.get::<_, String>(0))
            .optional()
            .map(|text| text.and_then(|t| serde_json::from_str(&t).ok()))
    }

    /// The id of the entity that has this uuid.
    pub(crate) fn id_of_uuid(&self, kind: &str, uuid: &str) -> rusqlite::Result<Option<String>> {
        self.conn
            .prepare_cached("SELECT id FROM entities WHERE kind = ?1 AND uuid = ?2")?
            .query_row([kind, uuid], |row| row.get(0))
            .optional()
    }

    /// `(id, body)` of all siblings, in order.
    pub(crate) fn list(&self, kind: &str, by: By, key: &str) -> rusqlite::Result<Vec<(String, Value)>> {
        let sql = match by {
            By::Parent => "SELECT id, body FROM entities WHERE kind = ?1 AND parent = ?2 ORDER BY pos, id",
            By::Group => "SELECT id, body FROM entities WHERE kind = ?1 AND grp = ?2 ORDER BY pos, id",
        };
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([kind, key], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        rows.map(|row| row.map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_default()))).collect()
    }

    /// The ids of all siblings, in order.
    pub(crate) fn ids(&self, kind: &str, parent: &str) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT id FROM entities WHERE kind = ?1 AND parent = ?2 ORDER BY pos, id";
        let mut statement = self.conn.prepare_cached(sql)?;
        statement.query_map([kind, parent], |row| row.get(0))?.collect()
    }

    /// `(id, body)` of the siblings whose JSON text holds this text, in order.
    pub(crate) fn containing(&self, kind: &str, parent: &str, text: &str) -> rusqlite::Result<Vec<(String, Value)>> {
        let sql =
            "SELECT id, body FROM entities WHERE kind = ?1 AND parent = ?2 AND instr(body, ?3) > 0 ORDER BY pos, id";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([kind, parent, text], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        rows.map(|row| row.map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_default()))).collect()
    }

    /// How many siblings there are.
    pub(crate) fn count(&self, kind: &str, by: By, key: &str) -> rusqlite::Result<i64> {
        let sql = match by {
            By::Parent => "SELECT count(*) FROM entities WHERE kind = ?1 AND parent = ?2",
            By::Group => "SELECT count(*) FROM entities WHERE kind = ?1 AND grp = ?2",
        };
        self.conn.prepare_cached(sql)?.query_row([kind, key], |row| row.get(0))
    }

    /// Every entity of a kind.
    pub(crate) fn all(&self, kind: &str) -> rusqlite::Result<Vec<(String, Value)>> {
        let mut statement =
            self.conn.prepare_cached("SELECT id, body FROM entities WHERE kind = ?1 ORDER BY pos, id")?;
        let rows = statement.query_map([kind], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        rows.map(|row| row.map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_default()))).collect()
    }

    /// Open cards that are longer in their phase than it allows (true) or past their due date (false), and were not
    /// marked as told for this stay or date.
    pub(crate) fn newly_late(&self, now: jiff::Timestamp) -> rusqlite::Result<Vec<(String, bool)>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT c.id, 1 FROM entities c JOIN entities p ON p.kind = 'phase' AND p.id = c.grp
             WHERE c.kind = 'card' AND c.body ->> 'finished_at' IS NULL AND p.body ->> 'lateness_time' > 0
               AND unixepoch(c.body ->> 'started_current_phase_at') + (p.body ->> 'lateness_time') < ?1
               AND c.body ->> 'late_told' IS NOT c.body ->> 'started_current_phase_at'
             UNION ALL
             SELECT c.id, 0 FROM entities c
             WHERE c.kind = 'card' AND c.body ->> 'finished_at' IS NULL AND unixepoch(c.body ->> 'due_date') < ?1
               AND c.body ->> 'overdue_told' IS NOT c.body ->> 'due_date'",
        )?;
        let rows = statement.query_map([now.as_second()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Scheduled rules whose time has come.
    pub(crate) fn due_rules(&self, now: jiff::Timestamp) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT id FROM entities WHERE kind = 'automation' AND unixepoch(body ->> 'next_run_at') <= ?1 ORDER BY pos, id",
        )?;
        let rows = statement.query_map([now.as_second()], |row| row.get(0))?;
        rows.collect()
    }

    /// Writes a new entity or replaces one together with its links.
    pub(crate) fn put(&self, kind: &str, id: &str, links: &Links, body: &Value) -> rusqlite::Result<()> {
        let pos = match links.pos {
            Some(pos) => pos,
            None => {
                let last = self.counter("last_pos")?.unwrap_or_default() + 1;
                self.set_counter("last_pos", last)?;
                last as f64
            }
        };
        self.conn
            .prepare_cached(
                "INSERT INTO entities (kind, id, uuid, parent, grp, pos, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (kind, id) DO UPDATE SET uuid = excluded.uuid, parent = excluded.parent,
                 grp = excluded.grp, pos = excluded.pos, body = excluded.body",
            )?
            .execute(params![kind, id, links.uuid, links.parent, links.group, pos, body.to_string()])?;
        Ok(())
    }

    /// Replaces the body and leaves the links.
    pub(crate) fn update(&self, kind: &str, id: &str, body: &Value) -> rusqlite::Result<()> {
        self.conn.prepare_cached("UPDATE entities SET body = ?3 WHERE kind = ?1 AND id = ?2")?.execute(params![
            kind,
            id,
            body.to_string()
        ])?;
        Ok(())
    }

    /// Moves an entity to another group (a card to another phase).
    pub(crate) fn regroup(&self, kind: &str, id: &str, group: &str) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("UPDATE entities SET grp = ?3 WHERE kind = ?1 AND id = ?2")?
            .execute([kind, id, group])?;
        Ok(())
    }

    /// Whether there was something to delete.
    pub(crate) fn delete(&self, kind: &str, id: &str) -> rusqlite::Result<bool> {
        let changed =
            self.conn.prepare_cached("DELETE FROM entities WHERE kind = ?1 AND id = ?2")?.execute([kind, id])?;
        Ok(changed > 0)
    }

    pub(crate) fn put_object(&self, path: &str, content_type: &str, bytes: &[u8]) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO objects (path, content_type, bytes) VALUES (?1, ?2, ?3)")?
            .execute(params![path, content_type, bytes])?;
        Ok(())
    }

    /// `(content type, bytes)`.
    pub(crate) fn object(&self, path: &str) -> rusqlite::Result<Option<(String, Vec<u8>)>> {
        self.conn
            .prepare_cached("SELECT content_type, bytes FROM objects WHERE path = ?1")?
            .query_row([path], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    /// Ends a unit of work that broke off in the middle, so that it does not swallow later ones.
    pub(crate) fn recover(&self) {
        if !self.conn.is_autocommit() {
            tracing::error!("a unit of work was left open and is rolled back");
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }

    /// Runs `work` as one unit: all of its writes stay, or none.
    pub(crate) fn atomic<T, E: From<rusqlite::Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.conn.execute_batch("SAVEPOINT unit")?;
        match work() {
            Ok(value) => {
                self.conn.execute_batch("RELEASE unit")?;
                Ok(value)
            }
            Err(error) => {
                self.conn.execute_batch("ROLLBACK TO unit; RELEASE unit")?;
                Err(error)
            }
        }
    }
}

/// Where a kind's number ids start, in the ranges that Pipefy's own ids have.
fn base_of(kind: &str) -> i64 {
    match kind {
        "organization" => 300_500_000,
        "pipe" => 301_000_000,
        "user" => 302_000_000,
        "label" => 310_000_000,
        "phase" => 330_000_000,
        "table" => 303_000_000,
        "field" => 420_000_000,
        "table_record" => 560_000_000,
        "card" => 1_100_000_000,
        "comment" => 70_000_000,
        _ => 900_000,
    }
}

/// SplitMix64: turns any number into an evenly spread one.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// FNV-1a of a text.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |acc, byte| (acc ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// A number that nobody outside can guess; the clock is the fallback when the system has no randomness.
pub(crate) fn entropy() -> u64 {
    let mut bytes = [0_u8; 8];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => mix(jiff::Timestamp::now().as_nanosecond() as u64),
    }
}

impl From<SandboxError> for GqlError {
    fn from(error: SandboxError) -> Self {
        tracing::error!(%error, "sandbox");
        Self::new("INTERNAL_SERVER_ERROR", "Something went wrong")
    }
}
