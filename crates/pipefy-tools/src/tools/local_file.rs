//! Files of this machine that a caller names.

use std::path::PathBuf;

use crate::call::Local;

/// A path with `~` at its start expanded.
///
/// # Errors
/// There is no such home folder; in words.
pub(crate) fn expand(path: &str, local: &Local) -> Result<PathBuf, String> {
    let Some(rest) = path.strip_prefix('~') else { return Ok(PathBuf::from(path)) };
    let home = local.env.get("HOME").or_else(|| local.env.get("USERPROFILE")).and_then(|home| home.as_str());
    match (rest.strip_prefix(['/', '\\']).or(rest.is_empty().then_some("")), home) {
        (Some(rest), Some(home)) => Ok(PathBuf::from(home).join(rest)),
        _ => Err("the home folder that `~` stands for is not known; give the whole path".to_owned()),
    }
}

/// Why a file could not be read, in words.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "the file was not found".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        other => format!("the file could not be read ({other})"),
    }
}
