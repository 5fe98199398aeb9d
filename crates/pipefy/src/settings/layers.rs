//! Where a setting's value is found: explicit, process environment, `.env`, `config.toml`.

use std::collections::HashMap;
use std::path::PathBuf;

use super::dotenv;
use super::environment::{CONFIG_FILE, Environment, FileText};
use super::error::{Problem, Source};
use super::registry::{
    ACCOUNT, Group, SERVICE_ACCOUNT_CLIENT_ID, SERVICE_ACCOUNT_CLIENT_SECRET, STATIC_TOKEN, Variable,
};

/// The section of the configuration file that holds a table of settings for each account.
const ACCOUNTS: &str = "accounts";

/// Values given explicitly, which replace whatever the other sources say before anything is validated. Written as they
/// would be in the environment. `Debug` shows names only.
#[derive(Clone, Default)]
pub struct Overrides(Vec<(&'static str, String, String)>);

impl Overrides {
    /// None.
    pub fn new() -> Overrides {
        Overrides::default()
    }

    /// With `value` for `variable`, known to the user as `name` (`--base-url`). Applies to every group that has the
    /// setting. The last one wins.
    #[must_use]
    pub fn with(mut self, variable: &'static Variable, name: impl Into<String>, value: impl Into<String>) -> Overrides {
        self.set(variable, name, value);
        self
    }

    /// Like [`Overrides::with`], in place.
    pub fn set(&mut self, variable: &'static Variable, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((variable.key, name.into(), value.into()));
    }
}

impl std::fmt::Debug for Overrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, name, _)| name)).finish()
    }
}

/// A value as found, before parsing.
pub(super) enum Raw {
    Text(String),
    Toml(toml::Value),
}

/// All sources, read and indexed.
pub(super) struct Layers<'a> {
    overrides: &'a Overrides,
    environment: Names,
    dotenv: Names,
    toml: toml::Table,
    /// The name of the account that is chosen.
    account: Option<String>,
    /// Whether it was named explicitly: whoever does that means its credential, and no other that happens to be set.
    is_named: bool,
    config_file: PathBuf,
    /// Problems of the files themselves.
    pub(super) problems: Vec<Problem>,
    /// Lines for stderr.
    pub(super) warnings: Vec<String>,
    undecodable: Vec<String>,
}

/// Values by upper-cased name, with the name as written.
type Names = HashMap<String, (String, String)>;

impl<'a> Layers<'a> {
    pub(super) fn read(environment: &Environment, overrides: &'a Overrides) -> Layers<'a> {
        let mut layers = Layers {
            overrides,
            environment: index(environment.variables().iter().cloned()),
            dotenv: Names::new(),
            toml: toml::Table::new(),
            account: None,
            is_named: false,
            config_file: environment.config_file().map(PathBuf::from).unwrap_or_else(|| "config.toml".into()),
            problems: Vec::new(),
            warnings: Vec::new(),
            undecodable: environment.undecodable().to_vec(),
        };
        layers.read_dotenv(environment);
        layers.read_config(environment);
        if let Some((raw, source)) = layers.find(&ACCOUNT) {
            layers.account = match raw {
                Raw::Text(name) => Some(name.trim().to_owned()),
                Raw::Toml(value) => value.as_str().map(|name| name.trim().to_owned()),
            };
            layers.is_named = matches!(source, Source::Explicit(_));
        }
        layers
    }

    fn read_dotenv(&mut self, environment: &Environment) {
        let path = environment.cwd().join(".env");
        match environment.dotenv_text() {
            // A folder of this name is somebody's Python.
            FileText::Absent | FileText::Irregular => {}
            FileText::Text(text) => {
                let found = dotenv::parse(text, |name| environment.variable(name).map(str::to_owned));
                for line in &found.ours {
                    let reason = format!(
                        "line {line} names a PIPEFY_ variable and does not set it; write NAME=value and close every quote, or \
                         remove it: a safety setting that is not understood is not taken for off"
                    );
                    self.problems.push(Problem::File { path: path.clone(), reason });
                }
                for line in found.bad_lines.iter().filter(|line| !found.ours.contains(line)) {
                    self.warnings.push(format!("warning: .env line {line} could not be read and is skipped"));
                }
                self.dotenv = index(found.entries.into_iter());
            }
            other => self.problems.extend(file_problem(path, other)),
        }
    }

    fn read_config(&mut self, environment: &Environment) {
        if environment.undecodable().iter().any(|name| name == CONFIG_FILE) {
            let reason = "must be UTF-8".to_owned();
            self.problems.push(Problem::File { path: CONFIG_FILE.into(), reason });
        }
        match environment.config_text() {
            FileText::Absent if environment.is_config_named() => self.warnings.push(format!(
                "warning: {CONFIG_FILE} names {}, which does not exist; no settings are taken from a file",
                self.config_file.display()
            )),
            FileText::Irregular if !environment.is_config_named() => {}
            FileText::Absent => {}
            FileText::Text(text) => match text.trim_start_matches('\u{feff}').parse::<toml::Table>() {
                Ok(table) => self.toml = table,
                Err(error) => self.problems.push(Problem::File {
                    path: self.config_file.clone(),
                    reason: invalid_toml(&self.config_file, text, &error),
                }),
            },
            other => self.problems.extend(file_problem(self.config_file.clone(), other)),
        }
    }

    /// The value of a setting from the highest source that has one.
    pub(super) fn find(&self, variable: &Variable) -> Option<(Raw, Source)> {
        if let Some((_, name, value)) = self.overrides.0.iter().rev().find(|(key, ..)| *key == variable.key) {
            return Some((Raw::Text(value.clone()), Source::Explicit(name.clone())));
        }
        let credentials = [&STATIC_TOKEN, &SERVICE_ACCOUNT_CLIENT_ID, &SERVICE_ACCOUNT_CLIENT_SECRET];
        if self.is_named && credentials.iter().any(|credential| credential.key == variable.key) {
            return self.own(variable);
        }
        let names = || variable.env.iter().chain(variable.deprecated);
        if let Some((name, value)) = names().find_map(|name| self.environment.get(*name)) {
            return Some((Raw::Text(value.clone()), Source::Environment(name.clone())));
        }
        if let Some((name, value)) = names().find_map(|name| self.dotenv.get(*name)) {
            return Some((Raw::Text(value.clone()), Source::Dotenv(name.clone())));
        }
        if let Some(found) = self.own(variable) {
            return Some(found);
        }
        let value = self.toml.get(variable.key).filter(|value| !is_section(value))?;
        Some(self.in_file(variable.key.to_owned(), value))
    }

    /// What the file says for the chosen account alone.
    fn own(&self, variable: &Variable) -> Option<(Raw, Source)> {
        let account = self.account.as_ref().filter(|_| variable.key != ACCOUNT.key)?;
        let value = self.toml.get(ACCOUNTS)?.get(account)?.get(variable.key).filter(|value| !is_section(value))?;
        Some(self.in_file(format!("{ACCOUNTS}.{account}.{}", variable.key), value))
    }

    fn in_file(&self, key: String, value: &toml::Value) -> (Raw, Source) {
        (Raw::Toml(value.clone()), Source::ConfigFile { path: self.config_file.clone(), key })
    }

    /// Where `name` (upper case) is set among the variables, if anywhere.
    pub(super) fn variable_source(&self, name: &str) -> Option<Source> {
        let environment = self.environment.get(name).map(|(name, _)| Source::Environment(name.clone()));
        environment.or_else(|| self.dotenv.get(name).map(|(name, _)| Source::Dotenv(name.clone())))
    }

    /// The variables of `wanted` groups that hold bytes which are not UTF-8.
    pub(super) fn undecodable(&self, wanted: &[&'static Variable]) -> Vec<Problem> {
        let owner = |name: &str| {
            wanted.iter().find(|variable| {
                let mut names = variable.env.iter().chain(variable.deprecated);
                names.any(|known| known.eq_ignore_ascii_case(name))
            })
        };
        self.undecodable
            .iter()
            .filter_map(|name| {
                owner(name).map(|variable| Problem::Value {
                    key: variable.key,
                    source: Source::Environment(name.clone()),
                    rule: format!("{} must be UTF-8", variable.key),
                })
            })
            .collect()
    }

    /// Every name that was set somewhere, for the search for misspellings: variables, then TOML keys. The keys of
    /// sections come with `true`; they are never read.
    pub(super) fn written(&self) -> Vec<(String, Source, bool)> {
        let mut names: Vec<(String, Source, bool)> = Vec::new();
        for (name, _) in self.environment.values() {
            names.push((name.clone(), Source::Environment(name.clone()), false));
        }
        for (name, _) in self.dotenv.values() {
            names.push((name.clone(), Source::Dotenv(name.clone()), false));
        }
        for (key, value) in &self.toml {
            let at = |key: &str| Source::ConfigFile { path: self.config_file.clone(), key: key.to_owned() };
            match value {
                toml::Value::Table(accounts) if key == ACCOUNTS => {
                    for (account, settings) in accounts {
                        for inner in settings.as_table().into_iter().flat_map(toml::Table::keys) {
                            names.push((inner.clone(), at(&format!("{key}.{account}.{inner}")), false));
                        }
                    }
                }
                toml::Value::Table(section) => {
                    for inner in section.keys() {
                        names.push((inner.clone(), at(&format!("{key}.{inner}")), true));
                    }
                }
                value if is_section(value) => {}
                _ => names.push((key.clone(), at(key), false)),
            }
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names
    }
}

/// Tables and arrays of tables are sections of somebody else, not values.
fn is_section(value: &toml::Value) -> bool {
    match value {
        toml::Value::Table(_) => true,
        toml::Value::Array(items) => items.iter().any(toml::Value::is_table),
        _ => false,
    }
}

/// Indexes variables by upper-cased name. A name written in upper case beats other spellings of itself; among equal
/// spellings the last wins.
fn index(entries: impl Iterator<Item = (String, String)>) -> Names {
    let mut names = Names::new();
    for (name, value) in entries {
        let upper = name.to_ascii_uppercase();
        let exact_is_there = names.get(&upper).is_some_and(|(known, _)| *known == upper);
        if name == upper || !exact_is_there {
            names.insert(upper, (name, value));
        }
    }
    names
}

fn file_problem(path: PathBuf, text: &FileText) -> Option<Problem> {
    let reason = match text {
        FileText::Absent | FileText::Text(_) => return None,
        FileText::Irregular => "is no regular file; name a TOML file".to_owned(),
        FileText::TooLarge => "is larger than 1 MiB; settings take a few lines".to_owned(),
        FileText::NotUtf8 => "is not UTF-8 text".to_owned(),
        FileText::Unreadable(kind) => format!("cannot be read ({kind}); check its permissions"),
    };
    Some(Problem::File { path, reason })
}

/// Names the line of a TOML mistake. The parser's own text would quote the line, which may hold a secret.
fn invalid_toml(path: &std::path::Path, text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
    format!("invalid TOML in {}, line {line}", path.display())
}

/// The settings of `groups`, in registry order.
pub(super) fn of_groups(groups: &[Group]) -> Vec<&'static Variable> {
    super::registry::REGISTRY.iter().copied().filter(|variable| groups.contains(&variable.group)).collect()
}
