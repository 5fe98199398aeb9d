//! What became of each row, in a file beside the import: JSON lines that are only ever added to.
//!
//! A run begins with a line that says where it imports to; lines of another place or key say nothing to it, so that a rehearsal
//! on the sandbox does not keep rows from the real pipe. Before a row is sent it is noted as `sent`, afterwards as `done` or
//! `failed`. What is only `sent` when a run begins was on its way when an earlier one ended, however it did.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::{Kind, ToolError};

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
    /// It cannot be written, or another import uses it.
    pub(super) fn open(path: &Path, about: &Value) -> Result<Self, ToolError> {
        let shown = path.display();
        let failed = |error: std::io::Error| {
            ToolError::new(
                Kind::Input,
                format!(
                    "The journal {shown} cannot be used: {error}. Name another place in `journal`, or \"\" for none."
                ),
            )
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ToolError::new(
                    Kind::Refused,
                    format!(
                        "Another import uses the journal {shown} right now. Nothing was sent; wait until it has ended."
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let left = left(&text, about);
        // A run that was killed may have left half a line.
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        file.write_all(format!("{gap}{}\n", json!({ "import": about })).as_bytes()).map_err(failed)?;
        Ok(Self { file: Mutex::new(file), left })
    }

    /// What earlier runs left, without beginning one.
    pub(super) fn look(path: &Path, about: &Value) -> HashMap<String, Left> {
        std::fs::read_to_string(path).map(|text| left(&text, about)).unwrap_or_default()
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

fn left(text: &str, about: &Value) -> HashMap<String, Left> {
    let mut left = HashMap::new();
    let mut ours = false;
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Map<String, Value>>(line) else { continue };
        if let Some(import) = line.get("import") {
            ours = import == about;
            continue;
        }
        let text = |key: &str| line.get(key).and_then(Value::as_str);
        let (Some(row), true) = (text("row"), ours) else { continue };
        match text("state") {
            Some("sent") => left.insert(row.to_owned(), Left::Sent),
            Some("done") => left.insert(row.to_owned(), Left::Done(text("id").map(str::to_owned))),
            _ => left.remove(row),
        };
    }
    left
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
        assert_eq!(Journal::look(&path, &here).len(), 2);
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
}
