//! `pipefy config show`: every setting, its value and where that came from.

use futures_util::future::BoxFuture;
use pipefy::settings::Source;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::{Body, Shown};
use crate::run::Start;

/// `config show`
pub(crate) fn show<'a>(start: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let report = start.settings()?.report;
        let all = args.get("all") == Some(&Value::Bool(true));
        let mut people = Vec::new();
        let mut programs = Vec::new();
        for found in &report.found {
            let variable = found.variable;
            let name = variable.env.first().copied().unwrap_or(variable.key);
            programs.push(json!({
                "setting": variable.key,
                "variable": name,
                "value": found.shown,
                "source": source(&found.source),
                "place": found.source.to_string(),
                "default": variable.default,
                "meaning": variable.doc,
            }));
            if all || found.source != Source::Default {
                people.push(json!({
                    "setting": variable.key,
                    "value": found.shown.as_deref().unwrap_or_default(),
                    "source": found.source.to_string(),
                }));
            }
        }
        let file = start.environment.config_file().map(|path| {
            let there = if path.is_file() { "" } else { " (not there)" };
            format!("config file: {}{there}", path.display())
        });
        let mut shown = Shown { body: Body::Either(people.into(), programs.into()), ..Shown::default() };
        let more = (!all).then_some("Everything else has its default; --all shows it too.");
        shown.after = Some([file.as_deref(), more].into_iter().flatten().collect::<Vec<_>>().join("\n"));
        Ok(shown)
    })
}

fn source(source: &Source) -> &'static str {
    match source {
        Source::Explicit(_) => "option",
        Source::Environment(_) => "environment",
        Source::Dotenv(_) => ".env",
        Source::ConfigFile { .. } => "config file",
        Source::Default => "default",
    }
}
