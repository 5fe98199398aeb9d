//! Reads settings one by one and collects what is wrong.

use std::path::PathBuf;

use super::environment::Environment;
use super::error::{Problem, SettingsError, Source};
use super::layers::{Layers, Overrides, Raw, of_groups};
use super::near_miss;
use super::parse::{self, Rule};
use super::registry::{Group, REGISTRY, REMOVED_WITH_WARNING, Variable};
use crate::url_policy::{UrlPolicy, UrlShape, configured_url};

/// One setting as it was found: for `config show` and the like.
#[derive(Clone, Debug)]
pub struct Found {
    /// The setting.
    pub variable: &'static Variable,
    /// Where its value came from.
    pub source: Source,
    /// The value as text; `***` for a secret, none when unset.
    pub shown: Option<String>,
}

/// How loading went: where each value came from, and what to tell the user.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every setting of the loaded groups, in registry order.
    pub found: Vec<Found>,
    /// Lines for stderr, each starting with `warning:`.
    pub warnings: Vec<String>,
}

impl Report {
    /// Where the value of `variable` came from.
    pub fn source(&self, variable: &Variable) -> &Source {
        let found = self.found.iter().find(|found| std::ptr::eq(found.variable, variable));
        found.map_or(&Source::Default, |found| &found.source)
    }
}

/// The state of one load.
pub(super) struct Loader<'a> {
    layers: Layers<'a>,
    problems: Vec<Problem>,
    config_dir: Option<PathBuf>,
    data_dir: Option<PathBuf>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(environment: &Environment, overrides: &'a Overrides) -> Loader<'a> {
        Loader {
            layers: Layers::read(environment, overrides),
            problems: Vec::new(),
            config_dir: environment.config_dir(),
            data_dir: environment.data_dir(),
        }
    }

    /// Ends the load: the report, or every problem.
    pub(super) fn finish(self, groups: &[Group]) -> Result<Report, SettingsError> {
        let variables = of_groups(groups);
        let mut problems = self.layers.problems.clone();
        problems.extend(self.layers.undecodable(&variables));
        problems.extend(near_miss::find(&self.layers, &variables));
        // Groups share values, so one bad value may have been seen more than once.
        for problem in self.problems {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if !problems.is_empty() {
            return Err(SettingsError { problems });
        }
        let found = variables.iter().map(|variable| found(&self.layers, variable)).collect();
        let mut warnings = self.layers.warnings.clone();
        warnings.extend(deprecations(&self.layers));
        Ok(Report { found, warnings })
    }

    pub(super) fn config_dir(&self) -> Option<PathBuf> {
        self.config_dir.clone()
    }

    pub(super) fn data_dir(&self) -> Option<PathBuf> {
        self.data_dir.clone()
    }

    pub(super) fn source(&self, variable: &Variable) -> Source {
        self.layers.find(variable).map_or(Source::Default, |(_, source)| source)
    }

    /// Notes that a value breaks `rule`.
    pub(super) fn refuse(&mut self, variable: &'static Variable, rule: &str) {
        self.problems.push(Problem::Value {
            key: variable.key,
            source: self.source(variable),
            rule: format!("{} {rule}", variable.key),
        });
    }

    /// Whether the value of `variable` has been refused.
    pub(super) fn failed(&self, variable: &Variable) -> bool {
        self.problems.iter().any(|problem| matches!(problem, Problem::Value { key, .. } if *key == variable.key))
    }

    /// The value that is set, if any and if usable.
    pub(super) fn optional<T>(
        &mut self,
        variable: &'static Variable,
        parse: impl Fn(&Raw) -> Result<T, Rule>,
    ) -> Option<T> {
        let (raw, _) = self.layers.find(variable)?;
        match parse(&raw) {
            Ok(value) => Some(value),
            Err(rule) => {
                self.refuse(variable, &rule);
                None
            }
        }
    }

    /// The value that is set, else the registry's default. `T::default()` only ever stands in beside a noted problem.
    pub(super) fn required<T: Default>(
        &mut self,
        variable: &'static Variable,
        parse: impl Fn(&Raw) -> Result<T, Rule>,
    ) -> T {
        let raw = self.layers.find(variable).map(|(raw, _)| raw);
        let raw = raw.or_else(|| variable.default.map(|text| Raw::Text(text.to_owned())));
        match raw.map_or_else(|| Err("has no default".to_owned()), |raw| parse(&raw)) {
            Ok(value) => value,
            Err(rule) => {
                self.refuse(variable, &rule);
                T::default()
            }
        }
    }

    /// A list that is empty when unset.
    pub(super) fn list<T>(
        &mut self,
        variable: &'static Variable,
        parse: impl Fn(Vec<String>) -> Result<Vec<T>, Rule>,
    ) -> Vec<T> {
        let read = self.optional(variable, |raw| parse(parse::list(raw)?.unwrap_or_default()));
        read.unwrap_or_default()
    }

    /// A count or size.
    pub(super) fn size(&mut self, variable: &'static Variable, range: std::ops::RangeInclusive<i64>) -> usize {
        self.required(variable, |raw| {
            let value = parse::integer(raw, range.clone())?;
            usize::try_from(value).map_err(|_| "is too large".to_owned())
        })
    }

    /// A URL with a path, or the default, or nothing.
    pub(super) fn url(&mut self, variable: &'static Variable, policy: UrlPolicy) -> Option<String> {
        self.url_of(variable, UrlShape::NoQuery, policy)
    }

    pub(super) fn url_of(&mut self, variable: &'static Variable, shape: UrlShape, policy: UrlPolicy) -> Option<String> {
        let raw = self.layers.find(variable).map(|(raw, _)| raw);
        let raw = raw.or_else(|| variable.default.map(|text| Raw::Text(text.to_owned())))?;
        let checked = parse::text(&raw)
            .and_then(|text| configured_url("", &text, shape, policy).map_err(|error| error.reason().to_owned()));
        checked.map_err(|rule| self.refuse(variable, &rule)).ok()
    }

    /// The policy that a switch asks for. While the switch itself is unusable, URLs are judged leniently, so that one
    /// mistake is reported once.
    pub(super) fn policy(&self, switch: &Variable, on: bool) -> UrlPolicy {
        UrlPolicy::from_switch(on || self.failed(switch))
    }
}

fn found(layers: &Layers<'_>, variable: &'static Variable) -> Found {
    let (shown, source) = match layers.find(variable) {
        None => (variable.default.map(str::to_owned), Source::Default),
        Some((raw, source)) => {
            let text = match raw {
                _ if variable.secret => "***".to_owned(),
                Raw::Text(text) => text,
                Raw::Toml(value) => shown_toml(&value),
            };
            (Some(text), source)
        }
    };
    Found { variable, source, shown }
}

fn shown_toml(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(on) => on.to_string(),
        toml::Value::Datetime(time) => time.to_string(),
        toml::Value::Array(items) => items.iter().map(shown_toml).collect::<Vec<_>>().join(","),
        toml::Value::Table(_) => String::new(),
    }
}

/// One line per old name that is set, whoever reads it.
fn deprecations(layers: &Layers<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for variable in REGISTRY {
        for old in variable.deprecated {
            if let (Some(source), Some(new)) = (layers.variable_source(old), variable.env.first()) {
                let place = place(&source);
                lines.push(format!(
                    "warning: {old} is deprecated; rename to {new}{place}. The old name goes away in a later beta."
                ));
            }
        }
    }
    for old in REMOVED_WITH_WARNING {
        if let Some(source) = layers.variable_source(old) {
            let place = place(&source);
            lines.push(format!(
                "warning: {old}{place} is no longer recognised and its value is ignored. There is no replacement: the token \
                 endpoint derives from PIPEFY_BASE_URL."
            ));
        }
    }
    lines
}

fn place(source: &Source) -> &'static str {
    match source {
        Source::Dotenv(_) => " in .env",
        _ => "",
    }
}
