//! Names that are almost a safety setting.
//!
//! `PIPEFY_MCP_READONLY=true` must not mean "writes are allowed". Unknown names are ignored in general; one that is a
//! typing slip away from a setting which narrows what may happen stops start-up instead.

use super::error::{Problem, Source};
use super::layers::Layers;
use super::registry::{IPAAS_CONNECTION_PREFIX, OTHER_NAMES, REGISTRY, Variable};

/// The misspellings of guarded settings among `loaded`.
pub(super) fn find(layers: &Layers<'_>, loaded: &[&'static Variable]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for (name, source, in_section) in layers.written() {
        let from_file = matches!(source, Source::ConfigFile { .. });
        let known = if from_file { is_known_key(&name) && !in_section } else { is_known_variable(&name) };
        if known {
            continue;
        }
        let guarded = loaded.iter().filter(|variable| variable.guarded);
        let hit = guarded
            .filter_map(|variable| distance(&name, variable, from_file, in_section).map(|slips| (slips, variable)))
            .min_by_key(|(slips, _)| *slips);
        if let Some((_, variable)) = hit {
            let first = variable.env.first().copied();
            let meant = if from_file { variable.key } else { first.unwrap_or(variable.key) };
            problems.push(Problem::Misspelt { source, meant });
        }
    }
    problems
}

/// More slips than this and it is another name.
const NEAR: usize = 2;

fn is_known_key(name: &str) -> bool {
    REGISTRY.iter().any(|variable| variable.key == name)
}

fn is_known_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let mut known = REGISTRY.iter().flat_map(|variable| variable.env.iter().chain(variable.deprecated));
    upper.starts_with(IPAAS_CONNECTION_PREFIX)
        || OTHER_NAMES.contains(&upper.as_str())
        || known.any(|name| *name == upper)
}

/// How many slips lie between a written name and a setting; nothing when it is too far to be one.
fn distance(written: &str, variable: &Variable, from_file: bool, in_section: bool) -> Option<usize> {
    let upper = written.to_ascii_uppercase();
    let ours = upper.starts_with("PIPEFY_") || upper.starts_with("PIPEFY-");
    if !ours && !from_file {
        // The prefix itself may be misspelt; then the whole name decides.
        let whole = variable.env.iter().map(|name| strsim::damerau_levenshtein(&upper, name));
        return whole.min().filter(|slips| *slips <= NEAR);
    }
    let tail = squash(&upper);
    let right = squash(&variable.key.to_ascii_uppercase());
    if in_section {
        return (tail == right).then_some(0);
    }
    if variable.mistaken_for.contains(&tail.as_str()) {
        return Some(0);
    }
    let slips = strsim::damerau_levenshtein(&tail, &right);
    // Two slips in a short word make another word.
    (slips <= NEAR.min(right.len() / 4)).then_some(slips)
}

/// The name without prefix and separators.
fn squash(upper: &str) -> String {
    let mut rest = upper;
    for prefix in ["PIPEFY", "MCP", "JWT", "RS"] {
        if let Some(tail) = rest.strip_prefix(prefix)
            && let Some(tail) = tail.strip_prefix(['_', '-'])
        {
            rest = tail;
        }
    }
    rest.chars().filter(char::is_ascii_alphanumeric).collect()
}
