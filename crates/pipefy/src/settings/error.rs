//! What can be wrong with settings, said without repeating a value.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from. `Display` reads well inside a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Given explicitly, under this name (a command-line flag, say).
    Explicit(String),
    /// The process environment variable of this name.
    Environment(String),
    /// This name in the `.env` file of the working directory.
    Dotenv(String),
    /// This key of the configuration file.
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// The key in it.
        key: String,
    },
    /// Nobody set it.
    Default,
}

impl Source {
    /// The name a person would look for: flag, variable or key. Empty for the default.
    pub fn name(&self) -> &str {
        match self {
            Source::Explicit(name) | Source::Environment(name) | Source::Dotenv(name) => name,
            Source::ConfigFile { key, .. } => key,
            Source::Default => "",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Explicit(name) => f.write_str(name),
            Source::Environment(name) => write!(f, "{name} (environment)"),
            Source::Dotenv(name) => write!(f, "{name} (.env)"),
            Source::ConfigFile { path, key } => write!(f, "{key} ({})", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A value breaks its rule.
    Value {
        /// The setting.
        key: &'static str,
        /// Where the value came from.
        source: Source,
        /// What the value must be.
        rule: String,
    },
    /// A name that looks like a misspelt safety setting.
    Misspelt {
        /// What was written, and where.
        source: Source,
        /// The name that is probably meant.
        meant: &'static str,
    },
    /// A settings file cannot be used at all.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Value { source, rule, .. } => write!(f, "{source}: {rule}"),
            Problem::Misspelt { source, meant } => write!(
                f,
                "{source}: there is no setting of this name; did you mean {meant}? Rename or remove it: a safety setting that is \
                 not understood is not taken for off"
            ),
            Problem::File { path, reason } => write!(f, "{}: {reason}", path.display()),
        }
    }
}

/// Settings that cannot be used: every problem found, not only the first. Exit code 2. Holds names and rules, never
/// a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [only] => write!(f, "invalid setting: {only}"),
            many => {
                write!(f, "invalid settings:")?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}
