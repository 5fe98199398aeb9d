//! What became of each row, in a file beside the import: JSON lines that are only ever added to.
//!
//! A run begins with a line that says where it imports to; lines of another place or key say nothing to it, so that a rehearsal
//! on the sandbox does not keep rows from the real pipe. Before a row is sent it is noted as `sent`, afterwards as `done` or
//! `failed`. What is only `sent` when a run begins was on its way when an earlier one ended, however it did.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::{Kind, ToolError};

/// Bytes of a journal at most: many runs over the longest file of rows.
const LIMIT: u64 = 256 * 1024 * 1024;

/// How every journal begins.
const HEAD: &str = "{\"import\":";

/// What an earlier run left of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It was on its way: whether it arrived is not known.
    Sent,
    /// It was created, with this id when the answer had one.
    Done(Option<String>),
}

/// An open journal; no other process writes it meanwhile.
#[derive(Debug)]
pub(super) struct Journal {
    file: Mutex<File>,
    left: HashMap<String, Left>,
}

impl Journal {
    /// Opens or makes the file, for this process alone, and begins a run. `about` says what is imported to where.
    ///
    /// # Errors
    /// It is there and no journal, it cannot be written, or another import uses it.
    pub(super) fn open(path: &Path, about: &Value) -> Result<Self, ToolError> {
        let failed = |error: std::io::Error| unusable(path, &error.to_string());
        if let Ok(facts) = std::fs::metadata(path) {
            fits(path, &facts)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let shown = path.display();
                return Err(ToolError::new(
                    Kind::Refused,
                    format!(
                        "Another import uses the journal {shown} right now. Nothing was sent; wait until it has ended."
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let (text, left) = read(path, &file, about)?;
        if !text.starts_with(HEAD) {
            file.set_len(0).map_err(failed)?;
        }
        // A run that was killed may have left half a line.
        let gap = if !text.starts_with(HEAD) || text.ends_with('\n') { "" } else { "\n" };
        file.write_all(format!("{gap}{}\n", json!({ "import": about })).as_bytes()).map_err(failed)?;
        Ok(Self { file: Mutex::new(file), left })
    }

    /// What earlier runs left, without beginning one; nothing where there is no journal yet.
    ///
    /// # Errors
    /// It is there and no journal, or cannot be read.
    pub(super) fn look(path: &Path, about: &Value) -> Result<HashMap<String, Left>, ToolError> {
        let Ok(facts) = std::fs::metadata(path) else { return Ok(HashMap::new()) };
        fits(path, &facts)?;
        let file = File::open(path).map_err(|error| unusable(path, &error.to_string()))?;
        read(path, &file, about).map(|(_, left)| left)
    }

    /// What an earlier run left of this row.
    pub(super) fn left(&self, row: &str) -> Option<&Left> {
        self.left.get(row)
    }

    /// The row is about to be sent.
    ///
    /// # Errors
    /// The line cannot be written: then the row must not be sent.
    pub(super) fn sent(&self, row: &str) -> std::io::Result<()> {
        self.add(&json!({ "row": row, "state": "sent" }))
    }

    /// The row was created. A line that cannot be written leaves the row as sent, which is still true.
    pub(super) fn done(&self, row: &str, id: Option<&str>) {
        let _ = self.add(&json!({ "row": row, "state": "done", "id": id }));
    }

    /// The row was surely not created.
    pub(super) fn failed(&self, row: &str) {
        let _ = self.add(&json!({ "row": row, "state": "failed" }));
    }

    fn add(&self, line: &Value) -> std::io::Result<()> {
        // One write a line: a process that is killed leaves whole lines, or a last one that is cut.
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(format!("{line}\n").as_bytes())
    }
}

fn unusable(path: &Path, why: &str) -> ToolError {
    let path = path.display();
    ToolError::new(
        Kind::Input,
        format!("The journal {path} cannot be used: {why}. Name another place in `journal`, or \"\" for none."),
    )
}

/// Whether something that is there may be a journal: neither a device nor a folder, and not endless.
fn fits(path: &Path, facts: &Metadata) -> Result<(), ToolError> {
    match (facts.is_file(), facts.len()) {
        (false, _) => Err(unusable(path, "it is no regular file")),
        (true, bytes) if bytes > LIMIT => Err(unusable(path, &format!("it is larger than {} MiB", LIMIT >> 20))),
        (true, _) => Ok(()),
    }
}

/// The text of a journal, and what earlier runs left. Nothing is ever added to a file that is something else.
fn read(path: &Path, file: &File, about: &Value) -> Result<(String, HashMap<String, Left>), ToolError> {
    let mut text = String::new();
    // Some files have more in them than they say.
    file.take(LIMIT).read_to_string(&mut text).map_err(|error| unusable(path, &error.to_string()))?;
    // A run that was killed at once may have left less than a beginning.
    let begins = text.starts_with(HEAD) || HEAD.starts_with(text.as_str());
    match left(&text, about).filter(|_| begins) {
        Some(left) => Ok((text, left)),
        None => Err(unusable(path, "it is there already and is no journal of an import")),
    }
}

/// `None` when a line is no line of a journal. One that is cut says nothing.
fn left(text: &str, about: &Value) -> Option<HashMap<String, Left>> {
    let mut left = HashMap::new();
    let mut ours = false;
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Map<String, Value>>(line) else { continue };
        if let (Some(import), 1) = (line.get("import"), line.len()) {
            ours = import == about;
            continue;
        }
        let text = |key: &str| line.get(key).and_then(Value::as_str);
        let (row, state) = (text("row")?, text("state")?);
        if !ours {
            continue;
        }
        match state {
            "sent" => left.insert(row.to_owned(), Left::Sent),
            "done" => left.insert(row.to_owned(), Left::Done(text("id").map(str::to_owned))),
            _ => left.remove(row),
        };
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_run_reads_what_earlier_ones_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.journal.jsonl");
        let (here, there) = (json!({"into": "a"}), json!({"into": "b"}));
        let run = Journal::open(&path, &here).unwrap();
        assert_eq!(run.left("1"), None);
        for row in ["1", "2", "3"] {
            run.sent(row).unwrap();
        }
        run.done("1", Some("77"));
        run.failed("2");
        drop(run);
        // Killed in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"row\":\"4\",\"sta").unwrap();
        drop(file);
        let other = Journal::open(&path, &there).unwrap();
        assert_eq!(other.left("1"), None);
        other.sent("3").unwrap();
        other.failed("3");
        drop(other);
        let again = Journal::open(&path, &here).unwrap();
        assert_eq!(again.left("1"), Some(&Left::Done(Some("77".into()))));
        assert_eq!((again.left("2"), again.left("3"), again.left("4")), (None, Some(&Left::Sent), None));
        assert_eq!(Journal::look(&path, &here).unwrap().len(), 2);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count(), 1, "{text}");
    }

    #[test]
    fn two_imports_do_not_share_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let first = Journal::open(&path, &json!(1)).unwrap();
        let error = Journal::open(&path, &json!(1)).unwrap_err();
        assert!(error.kind == Kind::Refused && error.message.contains("right now"), "{error}");
        drop(first);
        Journal::open(&path, &json!(1)).unwrap();
        let error = Journal::open(folder.path(), &json!(1)).unwrap_err();
        assert!(error.message.contains("cannot be used") && error.message.contains("`journal`"), "{error}");
    }

    /// Whatever is there and is no journal stays as it is.
    #[test]
    fn nothing_is_added_to_what_is_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in [
            &b"Code,Note\na,1\n"[..],
            b"{\"Code\":\"a\"}\n",
            b"[{\"import\":1}]",
            b"\n",
            b"{\"import\"x",
            b"{\"import\":1}\n\xff\n",
            b"{\"import\":\"a\",\"Code\":\"b\"}\n",
            b"{\"import\":1}\n{\"row\":\"1\"}\n",
        ] {
            std::fs::write(&path, text).unwrap();
            for error in
                [Journal::open(&path, &json!(1)).map(drop).unwrap_err(), Journal::look(&path, &json!(1)).unwrap_err()]
            {
                assert!(error.kind == Kind::Input && error.message.contains("cannot be used"), "{error}");
            }
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
        for text in ["", "{\"imp"] {
            std::fs::write(&path, text).unwrap();
            for _ in 0..2 {
                Journal::open(&path, &json!(1)).unwrap();
            }
        }
        #[cfg(unix)]
        for device in ["/dev/zero", "/dev/full", "/dev/null"] {
            let device = Path::new(device);
            for error in
                [Journal::open(device, &json!(1)).map(drop).unwrap_err(), Journal::look(device, &json!(1)).unwrap_err()]
            {
                assert!(error.message.contains("no regular file"), "{error}");
            }
        }
        assert!(Journal::look(&folder.path().join("none"), &json!(1)).unwrap().is_empty());
        assert!(!folder.path().join("none").exists());
    }
}
