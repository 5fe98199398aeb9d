//! The recorded cases: their shape, and how they are read from `contract/cases`.
//!
//! The format is described in `contract/cases/README.md`; every key is declared here, so a key that
//! the format gains without the harness knowing it fails the load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

/// One case: a server process, some files, and calls made one after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// Why the wanted result is not what the reference answers.
    #[serde(default)]
    pub(crate) better: Option<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The client offers elicitation.
    #[serde(default)]
    pub(crate) elicitation: bool,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, File>,
    pub(crate) steps: Vec<Step>,
}

/// A file in the server's working directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum File {
    Text(String),
    Base64(String),
    ZeroBytes(u64),
}

/// One call and what is known about it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    #[serde(default)]
    pub(crate) tool: Option<String>,
    /// Arguments of the tool; with `method` or `raw`, the params of the request.
    #[serde(default)]
    pub(crate) args: Value,
    /// A protocol method other than `tools/call`.
    #[serde(default)]
    pub(crate) method: Option<String>,
    /// `args` are the whole params of `tools/call`.
    #[serde(default)]
    pub(crate) raw: bool,
    /// The call carries no `arguments` member.
    #[serde(default)]
    pub(crate) no_arguments: bool,
    /// What the client answers to elicitation, in order.
    #[serde(default)]
    pub(crate) answers: Vec<Value>,
    /// The forms it must have been shown; unchecked when absent.
    #[serde(default)]
    pub(crate) asked: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) result: Expected,
    #[serde(default)]
    pub(crate) writes: Option<Writes>,
}

/// One request of the recorded run and its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    pub(crate) endpoint: String,
    pub(crate) kind: ExchangeKind,
    #[serde(default)]
    pub(crate) root_fields: Vec<String>,
    /// The recorded document's own variables: a fact of the recording, not part of the comparison.
    #[serde(default, rename = "variables")]
    pub(crate) _variables: Value,
    #[serde(default)]
    pub(crate) arguments: Vec<Value>,
    pub(crate) status: u16,
    pub(crate) response: Value,
    /// May be asked for, need not be.
    #[serde(default)]
    pub(crate) spare: bool,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) query: Option<Value>,
    #[serde(default)]
    pub(crate) body: Option<Value>,
    #[serde(default)]
    pub(crate) size: Option<usize>,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) location: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExchangeKind {
    Query,
    Mutation,
    /// A document that cannot be executed.
    Invalid,
    Http,
}

/// What the call must answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    #[serde(default)]
    pub(crate) is_error: Option<bool>,
    #[serde(default)]
    pub(crate) json: Option<Value>,
    #[serde(default)]
    pub(crate) text: Option<Value>,
    #[serde(default)]
    pub(crate) structured: bool,
    #[serde(default)]
    pub(crate) rpc_error: Option<i64>,
    #[serde(default)]
    pub(crate) rpc_result: Option<Value>,
}

/// Replaces the recorded mutations as the ones to expect.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Writes {
    /// Only `"any"` is a word here.
    Word(String),
    These(Vec<Write>),
}

/// One mutation field as it was sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    pub(crate) endpoint: String,
    pub(crate) field: String,
    pub(crate) arguments: Value,
}

/// The folder of the recorded cases.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract/cases")
}

/// The raw lines of every case file, in file name order. They stay text until [`parse`] fills in the addresses.
pub(crate) fn lines() -> Vec<String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("contract/cases is there")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).expect("a readable case file");
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// Reads one line, with `$BASE` (the API and everything beside it) and `$UPLOADS` (the storage) filled in.
pub(crate) fn parse(line: &str, base: &str, uploads: &str) -> Result<Case, String> {
    let filled = line.replace("$BASE", base).replace("$UPLOADS", uploads);
    serde_json::from_str(&filled).map_err(|error| format!("{error} in case {}", line.get(..80).unwrap_or(line)))
}

impl File {
    /// Puts the file into `folder`, whole at once: tests that run at the same time write and read the same one.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        let part = tempfile::NamedTempFile::new_in(folder).expect("a writable temporary folder");
        match self {
            Self::Text(text) => std::fs::write(&part, text),
            Self::Base64(text) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64 in a case");
                std::fs::write(&part, bytes)
            }
            Self::ZeroBytes(size) => part.as_file().set_len(*size),
        }
        .and_then(|()| Ok(part.persist(folder.join(name)).map(drop)?))
        .expect("a writable temporary folder");
    }
}

impl Case {
    /// Every tool the case calls; empty for a case about the protocol itself.
    pub(crate) fn tools(&self) -> Vec<&str> {
        self.steps
            .iter()
            .filter(|step| step.method.is_none() && !step.raw)
            .map(|step| step.tool.as_deref().unwrap_or(&self.tool))
            .filter(|tool| *tool != "unknown_tool")
            .collect()
    }
}
