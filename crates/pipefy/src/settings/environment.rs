//! The snapshot of the outside world that settings are made from.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Everything settings may come from, read once at start-up: process variables, the working directory, the text of
/// `.env` and of `config.toml`.
///
/// The binaries call [`Environment::capture`] once and hand the value on; nothing else in the toolkit reads process
/// variables. Tests and embedders build one by hand with [`Environment::empty`] and the `with_` methods. `Debug` shows
/// names and paths only, never a value.
#[derive(Clone, Default)]
pub struct Environment {
    variables: Vec<(String, String)>,
    undecodable: Vec<String>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    dotenv: FileText,
    config: FileText,
    config_file: Option<PathBuf>,
}

/// A settings file at most, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The text of a settings file, or why there is none.
#[derive(Clone, Default)]
pub(super) enum FileText {
    /// No such file.
    #[default]
    Absent,
    /// A folder, a device, a pipe.
    Irregular,
    TooLarge,
    Text(String),
    NotUtf8,
    Unreadable(ErrorKind),
}

/// Names the configuration file; read from the process environment only.
pub(super) const CONFIG_FILE: &str = "PIPEFY_CONFIG_FILE";

impl FileText {
    fn read(path: &Path) -> FileText {
        match std::fs::metadata(path) {
            Ok(about) if about.is_file() => {}
            Ok(_) => return FileText::Irregular,
            Err(error) => return FileText::from_error(error.kind()),
        }
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)) {
            Ok(read) if read as u64 > LARGEST => FileText::TooLarge,
            Ok(_) => String::from_utf8(bytes).map_or(FileText::NotUtf8, FileText::Text),
            Err(error) => FileText::from_error(error.kind()),
        }
    }

    fn from_error(kind: ErrorKind) -> FileText {
        match kind {
            ErrorKind::NotFound | ErrorKind::NotADirectory => FileText::Absent,
            kind => FileText::Unreadable(kind),
        }
    }
}

impl Environment {
    /// Reads the process environment, the working directory, `.env` and `config.toml`. Call it once, at start-up.
    ///
    /// Never fails: what cannot be read is reported when settings are loaded.
    // The one place of the toolkit that reads the process environment.
    #[allow(clippy::disallowed_methods)]
    pub fn capture() -> Environment {
        let mut environment = Environment {
            cwd: std::env::current_dir().unwrap_or_default(),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            ..Environment::default()
        };
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => environment.variables.push((name, value)),
                Err(_) => environment.undecodable.push(name),
            }
        }
        environment.read_files()
    }

    /// No variables, no files, an unknown home directory.
    pub fn empty() -> Environment {
        Environment::default()
    }

    /// With one process variable more.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Environment {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// With this working directory (its `.env` is not read; see [`Environment::read_files`]).
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Environment {
        self.cwd = cwd.into();
        self
    }

    /// With this home directory.
    #[must_use]
    pub fn with_home(mut self, home: impl Into<PathBuf>) -> Environment {
        self.home = Some(home.into());
        self
    }

    /// With this text as the content of `.env`.
    #[must_use]
    pub fn with_dotenv(mut self, text: impl Into<String>) -> Environment {
        self.dotenv = FileText::Text(text.into());
        self
    }

    /// With this text as the content of `config.toml`.
    #[must_use]
    pub fn with_config(mut self, text: impl Into<String>) -> Environment {
        self.config = FileText::Text(text.into());
        self.config_file = self.locate_config();
        self
    }

    /// Reads `.env` and `config.toml` where the variables, the working and the home directory say they are.
    #[must_use]
    pub fn read_files(mut self) -> Environment {
        self.dotenv = FileText::read(&self.cwd.join(".env"));
        self.config_file = self.locate_config();
        self.config = self.config_file.as_deref().map_or(FileText::Absent, FileText::read);
        self
    }

    /// The process variable of exactly this name; `.env` is not looked at.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut found = self.variables.iter().rev().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The process variables whose names start with `prefix` (exact case), in process order.
    pub fn variables_with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.variables
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The working directory at start-up; empty when it is unknown.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The toolkit's configuration directory, home of `config.toml`, `keyring.cfg` and `refresh.lock`:
    /// `$XDG_CONFIG_HOME/pipefy`, else `~/.config/pipefy`; on Windows `%APPDATA%\pipefy`. Nothing without a home.
    /// `PIPEFY_CONFIG_FILE` does not move it.
    pub fn config_dir(&self) -> Option<PathBuf> {
        let (variable, fallback): (_, &[&str]) =
            if cfg!(windows) { ("APPDATA", &["AppData", "Roaming"]) } else { ("XDG_CONFIG_HOME", &[".config"]) };
        self.directory(variable, fallback).map(|base| base.join("pipefy"))
    }

    /// The user's data directory: `$XDG_DATA_HOME`, else `~/.local/share`.
    pub fn data_dir(&self) -> Option<PathBuf> {
        self.directory("XDG_DATA_HOME", &[".local", "share"])
    }

    /// Where `config.toml` is (or would be): `PIPEFY_CONFIG_FILE`, else in [`Environment::config_dir`].
    pub fn config_file(&self) -> Option<&Path> {
        self.config_file.as_deref()
    }

    /// The file that `PIPEFY_CONFIG_FILE` names.
    fn named_config(&self) -> Option<PathBuf> {
        self.variable(CONFIG_FILE).filter(|path| !path.is_empty()).map(|path| self.cwd.join(path))
    }

    /// Whether somebody counts on the configuration file: `PIPEFY_CONFIG_FILE` names it. `/dev/null` is how to say that
    /// there is none.
    pub(super) fn is_config_named(&self) -> bool {
        self.named_config().is_some_and(|path| path != Path::new("/dev/null"))
    }

    fn locate_config(&self) -> Option<PathBuf> {
        match self.named_config() {
            Some(path) => Some(path),
            None => self.config_dir().map(|dir| dir.join("config.toml")),
        }
    }

    fn directory(&self, variable: &str, fallback: &[&str]) -> Option<PathBuf> {
        match self.variable(variable) {
            Some(path) if !path.is_empty() => Some(self.cwd.join(path)),
            _ => self.home.as_ref().map(|home| home.join(fallback.iter().collect::<PathBuf>())),
        }
    }

    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    #[cfg(test)]
    pub(super) fn set_undecodable(&mut self, name: &str) {
        self.undecodable.push(name.to_owned());
    }

    pub(super) fn undecodable(&self) -> &[String] {
        &self.undecodable
    }

    pub(super) fn dotenv_text(&self) -> &FileText {
        &self.dotenv
    }

    pub(super) fn config_text(&self) -> &FileText {
        &self.config
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("cwd", &self.cwd)
            .field("config_file", &self.config_file)
            .finish_non_exhaustive()
    }
}
