//! Playbooks: how somebody who knows Pipefy does a job with these tools, one text each in `playbooks/`.
//!
//! A text begins with front matter (`name`, `title`, `description`, `arguments`), so that it is a skill file as it is kept.
//! In it `` `tool(argument=value)` `` is a call, `{{argument}}` a value the user gives, `<words>` one that is found out on the
//! way. A test holds every call against the catalogue. Sections whose heading begins with "If" or "When" are advice for
//! later; what is called everywhere else has to be there for the playbook to be of use.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The texts, in the order in which they are listed.
const TEXTS: [&str; 16] = [
    include_str!("../playbooks/audit-permissions.md"),
    include_str!("../playbooks/build-ai-agent.md"),
    include_str!("../playbooks/build-intake-form.md"),
    include_str!("../playbooks/bulk-edit-fields.md"),
    include_str!("../playbooks/connect-two-processes.md"),
    include_str!("../playbooks/copy-pipe.md"),
    include_str!("../playbooks/design-automations.md"),
    include_str!("../playbooks/investigate-automation.md"),
    include_str!("../playbooks/investigate-stuck-card.md"),
    include_str!("../playbooks/migrate-spreadsheet.md"),
    include_str!("../playbooks/publish-portal.md"),
    include_str!("../playbooks/recover-failed-write.md"),
    include_str!("../playbooks/report-month.md"),
    include_str!("../playbooks/seed-cards.md"),
    include_str!("../playbooks/set-up-pipe.md"),
    include_str!("../playbooks/triage-backlog.md"),
];

/// Longest value of an argument, in characters.
pub const VALUE_LIMIT: usize = 2_000;

/// One playbook.
#[derive(Debug)]
pub struct Playbook {
    /// Lower case with hyphens, unique, e.g. `set-up-pipe`.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What it does and when to take it, one sentence or two.
    pub description: &'static str,
    /// What the user can give.
    pub arguments: Vec<PlaybookArgument>,
    body: &'static str,
    needed: Vec<&'static str>,
    advised: Vec<&'static str>,
}

/// What the user can give to a playbook: a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlaybookArgument {
    /// Name, snake case. Ids are named after what they name: `pipe_id`.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Whether the playbook cannot begin without it.
    pub required: bool,
}

/// The values do not fit the playbook's arguments. Names them, and never repeats a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadValues {
    /// Arguments that it does not have, and those that it has.
    Unknown(Vec<String>, Vec<&'static str>),
    /// Required, and missing or blank.
    Missing(Vec<&'static str>),
    /// Not a text.
    NotText(&'static str),
    /// Longer than [`VALUE_LIMIT`] characters.
    TooLong(&'static str),
}

impl std::fmt::Display for BadValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(names, known) if known.is_empty() => {
                write!(f, "Unknown argument: {}; this playbook takes none", names.join(", "))
            }
            Self::Unknown(names, known) => {
                write!(f, "Unknown argument: {}; this playbook takes {}", names.join(", "), known.join(", "))
            }
            Self::Missing(names) => write!(f, "Missing argument: {}", names.join(", ")),
            Self::NotText(name) => write!(f, "Argument {name} must be a text"),
            Self::TooLong(name) => write!(f, "Argument {name} is longer than {VALUE_LIMIT} characters"),
        }
    }
}

impl std::error::Error for BadValues {}

/// All playbooks, by name.
pub fn playbooks() -> &'static [Playbook] {
    static PLAYBOOKS: LazyLock<Vec<Playbook>> =
        LazyLock::new(|| TEXTS.iter().filter_map(|text| Playbook::parse(text)).collect());
    &PLAYBOOKS
}

impl Playbook {
    /// One by name.
    pub fn find(name: &str) -> Option<&'static Self> {
        playbooks().iter().find(|playbook| playbook.name == name)
    }

    /// Tools without which it is of no use, in the order of their first call.
    pub fn needed(&self) -> &[&'static str] {
        &self.needed
    }

    /// Further tools, for what may come up.
    pub fn advised(&self) -> &[&'static str] {
        &self.advised
    }

    /// The text for one job: `values` in place of the arguments, and at the end what was not given.
    ///
    /// # Errors
    /// [`BadValues`]; a number or a truth value counts as its text.
    pub fn filled(&self, values: &Map<String, Value>) -> Result<String, BadValues> {
        let known = || self.arguments.iter().map(|argument| argument.name).collect::<Vec<_>>();
        let unknown: Vec<String> = values
            .keys()
            .filter(|name| !known().contains(&name.as_str()))
            .map(|name| name.chars().filter(|c| !c.is_control()).take(60).collect())
            .collect();
        if !unknown.is_empty() {
            return Err(BadValues::Unknown(unknown, known()));
        }
        let mut given: Vec<(&str, String)> = Vec::new();
        for argument in &self.arguments {
            let text = match values.get(argument.name) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text.trim().to_owned(),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
                Some(_) => return Err(BadValues::NotText(argument.name)),
            };
            if text.chars().count() > VALUE_LIMIT {
                return Err(BadValues::TooLong(argument.name));
            }
            if !text.is_empty() {
                given.push((argument.name, text));
            }
        }
        let value_of = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let absent: Vec<&PlaybookArgument> =
            self.arguments.iter().filter(|argument| value_of(argument.name).is_none()).collect();
        let missing: Vec<&str> = absent.iter().filter(|argument| argument.required).map(|a| a.name).collect();
        if !missing.is_empty() {
            return Err(BadValues::Missing(missing));
        }
        let mut text = substitute(self.body, value_of);
        if !absent.is_empty() {
            text.push_str("\n## Not given\n\nFind these out or ask the user, when a step needs them:\n\n");
            text.extend(absent.iter().map(|argument| format!("- <{}>: {}\n", argument.name, argument.description)));
        }
        Ok(text)
    }

    /// The text for any job, as a skill file has it: arguments stand as `<name>` and are explained first.
    pub fn skill_body(&self) -> String {
        let mut text = substitute(self.body, |_| None);
        if !self.arguments.is_empty() {
            let explained: String = self
                .arguments
                .iter()
                .map(|argument| {
                    let when = if argument.required { "" } else { " (optional)" };
                    format!("- <{}>{when}: {}\n", argument.name, argument.description)
                })
                .collect();
            let inputs = format!("\n## What the user gives\n\n{explained}");
            // After the introduction, before the first section.
            let place = text.find("\n## ").unwrap_or(text.len());
            text.insert_str(place, &inputs);
        }
        text
    }

    fn parse(text: &'static str) -> Option<Self> {
        let (head, body) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
        let mut playbook = Self {
            name: "",
            title: "",
            description: "",
            arguments: Vec::new(),
            body: body.trim_start_matches('\n'),
            needed: Vec::new(),
            advised: Vec::new(),
        };
        for line in head.lines() {
            let (key, value) = line.split_once(':')?;
            let value = value.trim();
            match key {
                "name" => playbook.name = value,
                "title" => playbook.title = value,
                "description" => playbook.description = value,
                "arguments" => {}
                "  - name" => playbook.arguments.push(PlaybookArgument { name: value, ..Default::default() }),
                "    description" => playbook.arguments.last_mut()?.description = value,
                "    required" => playbook.arguments.last_mut()?.required = value == "true",
                _ => return None,
            }
        }
        let mut later = false;
        for line in body.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                later = heading.starts_with("If ") || heading.starts_with("When ");
            }
            for (tool, _) in calls(line) {
                let list = if later { &mut playbook.advised } else { &mut playbook.needed };
                if !list.contains(&tool) {
                    list.push(tool);
                }
            }
        }
        playbook.advised.retain(|tool| !playbook.needed.contains(tool));
        Some(playbook)
    }
}

/// The calls of a line: what is between back ticks and looks like `name(...)`, as name and arguments.
fn calls(line: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    line.split('`').skip(1).step_by(2).filter_map(|span| {
        let (name, arguments) = span.strip_suffix(')')?.split_once('(')?;
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        is_name.then_some((name, arguments))
    })
}

/// Puts values in; what has none becomes `<name>`. A value is never read again.
fn substitute<'v>(body: &str, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        match value_of(name) {
            Some(value) => out.push_str(value),
            None => {
                out.push('<');
                out.push_str(name);
                out.push('>');
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
