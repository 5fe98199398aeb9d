//! Where a file comes from: this machine, or a URL. Neither is ever held in memory as a whole.

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::mime::content_type;
use super::upload::failed;
use crate::tools::shared::non_blank;
use crate::{Call, Kind, ToolError};

/// Bytes that a file may have.
pub(crate) const SIZE_LIMIT: u64 = 100 * 1024 * 1024;

/// Downloads up to this size need no temporary file.
const IN_MEMORY: usize = 1024 * 1024;

/// A file to upload, named but not read yet.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) content_type: String,
    place: Place,
}

enum Place {
    Local { path: PathBuf, size: u64 },
    Url(String),
}

/// An opened file, ready to be sent.
pub(crate) enum Opened {
    File(File, u64),
    Memory(Bytes),
}

impl Opened {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File(_, size) => *size,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl Source {
    /// Chooses between `file_path` and `file_url`, names the file and, when it is local, looks at it.
    ///
    /// # Errors
    /// Step `validation`: not exactly one of the two, no name, or a path on a hosted server. Step `file_read`: no such file,
    /// not a regular file, too large.
    pub(crate) async fn find(
        call: &Call<'_>,
        file_path: Option<&str>,
        file_url: Option<&str>,
        file_name: Option<&str>,
        content_type_given: Option<&str>,
    ) -> Result<Self, ToolError> {
        let (path, url) = match (non_blank(file_path), non_blank(file_url)) {
            (Some(path), None) => {
                let local = call.local("Use file_url instead of file_path.").map_err(|e| failed("validation", e))?;
                let home = local.env.get("HOME").or_else(|| local.env.get("USERPROFILE"));
                (Some(expand(path, home.and_then(|h| h.as_str()))), None)
            }
            (None, Some(url)) => (None, Some(url)),
            _ => return Err(refused("validation", "Give exactly one of file_path or file_url.")),
        };
        let from_url = |url: &str| url::Url::parse(url).ok().and_then(|url| base_name(&decoded(url.path())));
        let derived = match (&path, url) {
            (Some(Ok(path)), _) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            (Some(Err(error)), _) => return Err(error.clone()),
            (None, url) => url.and_then(from_url),
        };
        let name = match non_blank(file_name).map(str::to_owned).or(derived) {
            Some(name) => name,
            None => return Err(refused("validation", "The source has no file name; pass one as file_name.")),
        };
        let content_type = match non_blank(content_type_given) {
            Some(given) => given.to_owned(),
            None => content_type(&name),
        };
        let place = match (path, url) {
            (Some(path), _) => {
                let path = path?;
                let size = regular_file(&path).await?;
                Place::Local { path, size }
            }
            (None, url) => Place::Url(url.unwrap_or_default().to_owned()),
        };
        Ok(Self { name, content_type, place })
    }

    /// Bytes, where they are known before anything is fetched.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.place {
            Place::Local { size, .. } => Some(*size),
            Place::Url(_) => None,
        }
    }

    /// Opens the file, or fetches it completely: only a file that arrived whole is worth a place in storage.
    ///
    /// # Errors
    /// Step `file_read` or `download`.
    pub(crate) async fn open(&self, call: &Call<'_>) -> Result<Opened, ToolError> {
        match &self.place {
            Place::Local { path, .. } => {
                // Looked at again: it may have changed since.
                let size = regular_file(path).await?;
                File::open(path).await.map(|file| Opened::File(file, size)).map_err(|e| unreadable(&e))
            }
            Place::Url(url) => download(call, url).await,
        }
    }
}

async fn download(call: &Call<'_>, url: &str) -> Result<Opened, ToolError> {
    let transfer_failed = |e: pipefy::TransferError| failed("download", ToolError::new(Kind::Transport, e.to_string()));
    let keeping_failed = |e: std::io::Error| {
        refused("download", &format!("The downloaded file could not be kept for the upload ({}).", e.kind()))
    };
    let download = call.session.transfer().download(url, SIZE_LIMIT, &call.budget).await.map_err(transfer_failed)?;
    let mut stream = download.stream;
    let mut head = BytesMut::new();
    let mut spill: Option<(File, u64)> = None;
    while let Some(chunk) = stream.try_next().await.map_err(transfer_failed)? {
        match &mut spill {
            None if head.len() + chunk.len() <= IN_MEMORY => head.extend_from_slice(&chunk),
            None => {
                let file = tokio::task::spawn_blocking(tempfile::tempfile).await.map_err(std::io::Error::other);
                let mut file = File::from_std(file.flatten().map_err(keeping_failed)?);
                file.write_all(&head).await.map_err(keeping_failed)?;
                file.write_all(&chunk).await.map_err(keeping_failed)?;
                spill = Some((file, (head.len() + chunk.len()) as u64));
                head = BytesMut::new();
            }
            Some((file, size)) => {
                file.write_all(&chunk).await.map_err(keeping_failed)?;
                *size += chunk.len() as u64;
            }
        }
    }
    match spill {
        None => Ok(Opened::Memory(head.freeze())),
        Some((mut file, size)) => {
            file.flush().await.map_err(keeping_failed)?;
            file.rewind().await.map_err(keeping_failed)?;
            Ok(Opened::File(file, size))
        }
    }
}

/// `~` at the start is the home folder.
fn expand(path: &str, home: Option<&str>) -> Result<PathBuf, ToolError> {
    let Some(rest) = path.strip_prefix('~') else { return Ok(PathBuf::from(path)) };
    match (rest.strip_prefix(['/', '\\']).or(rest.is_empty().then_some("")), home) {
        (Some(rest), Some(home)) => Ok(PathBuf::from(home).join(rest)),
        _ => Err(unread("the expansion of `~` in the path failed: no such home folder")),
    }
}

async fn regular_file(path: &std::path::Path) -> Result<u64, ToolError> {
    let facts = tokio::fs::metadata(path).await.map_err(|e| unreadable(&e))?;
    if !facts.is_file() {
        return Err(unread("the file was not found, or is no regular file"));
    }
    if facts.len() > SIZE_LIMIT {
        return Err(unread(&format!("the file is too large: at most {SIZE_LIMIT} bytes (100 MiB)")));
    }
    Ok(facts.len())
}

fn unreadable(error: &std::io::Error) -> ToolError {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => unread("the file was not found"),
        std::io::ErrorKind::PermissionDenied => unread("permission denied"),
        other => unread(&format!("the file could not be read ({other})")),
    }
}

fn unread(reason: &str) -> ToolError {
    refused(
        "file_read",
        &format!(
            "Cannot read the file: {reason}. The path is read on the machine running the MCP server; use file_url for a \
             file elsewhere."
        ),
    )
}

/// A failure that happened before anything was sent.
fn refused(step: &str, message: &str) -> ToolError {
    failed(step, ToolError::new(Kind::Input, message))
}

pub(crate) fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

fn base_name(path: &str) -> Option<String> {
    path.rsplit('/').next().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}
