//! The audit log: one JSON line per tool call that says who did what to which things and how it ended. It holds ids, and no
//! other value of an argument or result, and no token.
//!
//! With a required sink, a call that may change something is put down before anything is sent (`"phase":"begun"`), and is
//! refused when that fails. The line of its end follows as for every other call.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use pipefy::settings::{AuditSink, OperationsSettings};
use pipefy_tools::{Class, Op};
use serde_json::{Map, Value, json};

use crate::http::CorrelationId;
use crate::identity::Principal;
use crate::metrics::class;

/// Ids that one line holds at most.
const IDS: usize = 64;
/// Longest text that is written as an id.
const ID_LENGTH: usize = 64;
/// Longest part of a caller's name that is written.
const NAME_LENGTH: usize = 200;

/// Where audit lines go, and whether writes depend on it.
#[derive(Debug)]
pub struct Audit {
    required: bool,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stderr,
    File { path: PathBuf, state: Mutex<FileState> },
}

#[derive(Debug, Default)]
struct FileState {
    /// None after a failure: the next line opens it again.
    open: Option<File>,
    /// The last line may have been written in part, so the next one begins on a line of its own.
    torn: bool,
}

impl Audit {
    /// The configured log; none when there is none.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(settings: &OperationsSettings) -> Result<Option<Self>, AuditError> {
        let sink = match &settings.audit_log {
            None => return Ok(None),
            Some(AuditSink::Stderr) => Sink::Stderr,
            Some(AuditSink::File(path)) => {
                let open = open(path).map_err(|source| AuditError { path: path.clone(), source })?;
                Sink::File { path: path.clone(), state: Mutex::new(FileState { open: Some(open), torn: false }) }
            }
        };
        Ok(Some(Self { required: settings.audit_required, sink }))
    }

    /// Whether a write needs its line first.
    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// Closes the file; the next line opens it by name again. For log rotation.
    pub fn reopen(&self) {
        if let Sink::File { state, .. } = &self.sink {
            *state.lock().unwrap_or_else(PoisonError::into_inner) = FileState::default();
        }
    }

    /// Appends one line in one piece.
    fn write(&self, record: &Value) -> io::Result<()> {
        let mut line = String::with_capacity(512);
        line.push_str(&record.to_string());
        line.push('\n');
        match &self.sink {
            Sink::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Sink::File { path, state } => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let mut file = match state.open.take() {
                    Some(file) => file,
                    None => open(path)?,
                };
                if state.torn {
                    line.insert(0, '\n');
                }
                state.torn = true;
                file.write_all(line.as_bytes())?;
                *state = FileState { open: Some(file), torn: false };
                Ok(())
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {path} cannot be opened for appending: {source}; change PIPEFY_MCP_AUDIT_LOG or its folder's permissions", path = path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// One call, as the audit log sees it.
#[derive(Debug)]
pub(crate) struct Record {
    log: Arc<Audit>,
    begun: Instant,
    request_id: Arc<str>,
    client_id: Option<String>,
    issuer: Option<String>,
    subject: Option<String>,
    op: Option<&'static Op>,
    via: Option<&'static str>,
    ids: Map<String, Value>,
}

impl Record {
    /// `message` is the JSON-RPC id, for calls that came without HTTP.
    pub(crate) fn begin(log: &Arc<Audit>, request: Option<&Parts>, message: &str) -> Self {
        let principal = request.and_then(Principal::of);
        let clip = |text: &String| text.chars().take(NAME_LENGTH).collect();
        let correlation = request.and_then(|parts| parts.extensions.get::<CorrelationId>());
        Self {
            log: log.clone(),
            begun: Instant::now(),
            request_id: correlation
                .map_or_else(|| message.chars().take(NAME_LENGTH).collect::<String>().into(), |id| id.0.clone()),
            client_id: principal.map(|principal| clip(&principal.client_id)),
            issuer: principal.and_then(|principal| principal.issuer.as_ref()).map(clip),
            subject: principal.and_then(|principal| principal.subject.as_ref()).map(clip),
            op: None,
            via: None,
            ids: Map::new(),
        }
    }

    /// The tool that runs. A second one runs through the first.
    pub(crate) fn tool(&mut self, op: &'static Op, arguments: &Map<String, Value>) {
        self.via = self.op.map(|op| op.name);
        self.op = Some(op);
        self.ids = ids(op, arguments);
    }

    /// Puts a write down before it begins, where the log is required.
    ///
    /// # Errors
    /// The line could not be written: nothing must be sent.
    pub(crate) fn admit(&self) -> io::Result<()> {
        let writes = self.op.is_some_and(|op| op.class != Class::Read);
        if self.log.is_required() && writes { self.log.write(&self.line("begun", None, 0)) } else { Ok(()) }
    }

    /// Puts the end down.
    ///
    /// # Errors
    /// The line could not be written.
    pub(crate) fn end(&self, outcome: &'static str, mutations: usize) -> io::Result<()> {
        self.log.write(&self.line("ended", Some(outcome), mutations))
    }

    fn line(&self, phase: &'static str, outcome: Option<&'static str>, mutations: usize) -> Value {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let mut line = json!({
            "event": "audit",
            "time": now,
            "phase": phase,
            "request_id": self.request_id,
            "client_id": self.client_id,
            "issuer": self.issuer,
            "subject": self.subject,
            "tool": self.op.map(|op| op.name),
            "class": self.op.map(|op| class(op.class)),
            "ids": self.ids,
        });
        if let Some(map) = line.as_object_mut() {
            map.extend(self.via.map(|via| ("via".to_owned(), via.into())));
            if let Some(outcome) = outcome {
                map.insert("outcome".to_owned(), outcome.into());
                map.insert("mutations".to_owned(), mutations.into());
                map.insert("duration_ms".to_owned(), millis(self.begun.elapsed()).into());
            }
        }
        line
    }
}

fn millis(took: Duration) -> f64 {
    took.as_micros() as f64 / 1e3
}

/// The ids that the arguments name, by argument. What does not look like an id is not written: it may be anything.
fn ids(op: &Op, arguments: &Map<String, Value>) -> Map<String, Value> {
    let id = |value: &Value| -> Option<Value> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        let fits = !text.is_empty()
            && text.len() <= ID_LENGTH
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte));
        Some(if fits { text.into() } else { "?".into() })
    };
    let mut left = IDS;
    let mut found = Map::new();
    for touched in op.touches {
        let values: Vec<Value> = match arguments.get(touched.arg) {
            Some(Value::Array(values)) => values.iter().filter_map(id).take(left).collect(),
            Some(value) => id(value).into_iter().take(left).collect(),
            None => continue,
        };
        left -= values.len();
        if !values.is_empty() {
            found.insert(touched.arg.to_owned(), values.into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn log(path: &Path, required: bool) -> Result<Arc<Audit>, AuditError> {
        let settings = OperationsSettings {
            audit_log: Some(AuditSink::File(path.to_owned())),
            audit_required: required,
            ..Default::default()
        };
        Ok(Arc::new(Audit::open(&settings)?.unwrap()))
    }

    fn op(tool: &str) -> &'static Op {
        crate::catalogue::catalogue().get(tool).unwrap().op()
    }

    #[test]
    fn ids_are_written_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = log(&path, false).unwrap();
        let mut record = Record::begin(&log, None, "7");
        let arguments = json!({"card_id": 5, "title": "canary", "nothing": ["x"]});
        record.tool(op("update_card"), arguments.as_object().unwrap());
        record.admit().unwrap();
        record.end("ok", 1).unwrap();
        let mut record = Record::begin(&log, None, "8");
        record.tool(op("delete_card"), json!({"card_id": "a canary value"}).as_object().unwrap());
        record.end("failed", 0).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary"), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["tool"], &lines[0]["class"]), (&json!("update_card"), &json!("write")));
        assert_eq!((&lines[0]["ids"], &lines[0]["outcome"]), (&json!({"card_id": ["5"]}), &json!("ok")));
        assert_eq!(lines[1]["ids"], json!({"card_id": ["?"]}));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = log(&path, false).unwrap();
        let record = Record::begin(&log, None, "1");
        record.end("ok", 0).unwrap();
        let moved = folder.path().join("audit.log.1");
        std::fs::rename(&path, &moved).unwrap();
        record.end("ok", 0).unwrap();
        log.reopen();
        record.end("ok", 0).unwrap();
        let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&moved), lines(&path)), (2, 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_is_not_admitted_without_its_line() {
        let full = Path::new("/dev/full");
        let mut record = Record::begin(&log(full, true).unwrap(), None, "1");
        record.tool(op("delete_card"), &Map::new());
        assert_eq!(record.admit().unwrap_err().kind(), io::ErrorKind::StorageFull);
        let mut record = Record::begin(&log(full, true).unwrap(), None, "1");
        record.tool(op("get_card"), &Map::new());
        record.admit().unwrap();
        let mut record = Record::begin(&log(full, false).unwrap(), None, "1");
        record.tool(op("delete_card"), &Map::new());
        record.admit().unwrap();
        assert!(record.end("ok", 0).is_err());

        let error = log(Path::new("/nowhere/audit.log"), true).unwrap_err().to_string();
        assert!(error.contains("/nowhere/audit.log") && error.contains("PIPEFY_MCP_AUDIT_LOG"), "{error}");
    }
}
