//! The table of commands: one file per group, one row per command.

mod automation;
mod card;
mod email;
mod governance;
mod intelligence;
mod phase;
mod pipe;
mod portal;
mod program;
mod raw;
mod report;
mod table;

use std::sync::LazyLock;

use pipefy_tools::{Catalogue, Tool};

use crate::command::{Command, Route};

/// Every row.
static TABLE: &[&[Command]] = &[
    intelligence::AGENTS,
    intelligence::AI_AUTOMATIONS,
    intelligence::PROVIDERS,
    intelligence::KNOWLEDGE,
    email::ATTACHMENTS,
    email::EMAILS,
    automation::AUDIT,
    automation::AUTOMATIONS,
    automation::EXPORTS,
    automation::USAGES,
    card::COMMANDS,
    phase::PHASES,
    phase::FIELDS,
    phase::CONDITIONS,
    pipe::COMMANDS,
    portal::COMMANDS,
    table::TABLES,
    table::RECORDS,
    governance::LABELS,
    governance::WEBHOOKS,
    governance::RELATIONS,
    governance::MEMBERS,
    governance::SERVICE_ACCOUNTS,
    governance::ORGANIZATIONS,
    raw::COMMANDS,
    report::OF_ORGANIZATIONS,
    report::OF_PIPES,
    program::COMMANDS,
];

/// What each group is about, by its words.
static GROUPS: &[(&str, &str)] = &[
    ("agent", "AI agents"),
    ("agent logs", "Runs of AI agents"),
    ("ai-automation", "AI automations"),
    ("ai-provider", "LLM providers"),
    ("ai-provider default", "The default LLM provider"),
    ("attachment", "Files of cards and records"),
    ("audit", "Audit logs"),
    ("auth", "Signing in and out"),
    ("automation", "Automations"),
    ("automation actions", "What automations can do"),
    ("automation events", "What can start automations"),
    ("automation export", "Exports of automation runs"),
    ("automation send-task", "Automations that send tasks"),
    ("card", "Cards"),
    ("card comment", "Comments on cards"),
    ("config", "Settings"),
    ("email", "E-mail of cards"),
    ("email inbox", "E-mails of a card"),
    ("email template", "E-mail templates"),
    ("export", "Exports"),
    ("field", "Fields of phases"),
    ("field-condition", "Conditions that show, hide or require fields"),
    ("graphql", "GraphQL as written"),
    ("introspect", "Pipefy's schema"),
    ("introspect schema", "All of the schema"),
    ("kb", "Knowledge bases of AI agents"),
    ("kb data-lookup", "Lookups in pipes and tables"),
    ("kb document", "Documents"),
    ("kb plain-text", "Texts"),
    ("label", "Labels of cards"),
    ("mcp", "The MCP server in the settings of its clients"),
    ("member", "Members of pipes"),
    ("org", "Organizations"),
    ("phase", "Phases of pipes"),
    ("pipe", "Pipes"),
    ("portal", "Portals"),
    ("portal element", "Elements of pages"),
    ("portal html-interface", "Interfaces written in HTML"),
    ("portal page", "Pages of portals"),
    ("portal page layout", "Layout of a page"),
    ("portal sub-portal", "Portals inside portals"),
    ("record", "Records of database tables"),
    ("relation", "Connections between pipes, tables and cards"),
    ("relation card", "Connected cards"),
    ("relation pipe", "Connected pipes"),
    ("relation table", "Connected tables"),
    ("report-org", "Reports of organizations"),
    ("report-pipe", "Reports of pipes"),
    ("sandbox", "A Pipefy of your own on this machine, to try things out"),
    ("service-account", "Service accounts"),
    ("skills", "Playbooks for agents, as skill files"),
    ("table", "Database tables"),
    ("table field", "Fields of tables"),
    ("tools", "Every capability by its tool name, also those without a command"),
    ("usage", "What was used"),
    ("webhook", "Webhooks"),
];

/// The capabilities of this build. Knows no identity.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// All capabilities.
pub(crate) fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

/// Every row, whether its capabilities exist or not.
pub(crate) fn rows() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|rows| rows.iter())
}

/// The commands whose capabilities exist.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    rows().filter(|command| exists(command))
}

fn exists(command: &Command) -> bool {
    command.needs().all(|tool| catalogue().get(tool).is_some())
}

/// The command with these words.
pub(crate) fn find(path: &str) -> Option<&'static Command> {
    all().find(|command| command.path == path)
}

/// The capability whose shared options a command offers.
pub(crate) fn tool_of(command: &Command) -> Option<&'static Tool> {
    catalogue().get(command.tool)
}

/// What a group is about; `None` when there is no such group with a command in it.
pub(crate) fn group(path: &str) -> Option<&'static str> {
    let about = GROUPS.iter().find(|(known, _)| *known == path).map(|(_, about)| *about)?;
    all().any(|command| is_below(command.path, path)).then_some(about)
}

/// The words directly below a group (the root for ``), groups included, in alphabetical order.
pub(crate) fn children(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = all()
        .filter(|command| group.is_empty() || is_below(command.path, group))
        .filter_map(|command| {
            let rest = command.path.get(group.len()..)?.trim_start();
            Some(rest.split_once(' ').map_or(rest, |(first, _)| first))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_below(path: &str, group: &str) -> bool {
    path.strip_prefix(group).is_some_and(|rest| rest.starts_with(' '))
}

/// The command that is there for this capability, if there is one.
pub(crate) fn of_tool(tool: &str) -> Option<&'static Command> {
    let alternative = |command: &&Command| matches!(command.route, Route::OneOf(_)) && command.also.contains(&tool);
    all().find(|command| command.tool == tool).or_else(|| all().find(alternative))
}

/// A sentence with the tools it names in back-ticks replaced by their commands.
pub(crate) fn with_commands(sentence: &str) -> String {
    let mut parts = sentence.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut quoted = true;
    for part in parts {
        text.push('`');
        match of_tool(part).filter(|_| quoted) {
            Some(command) => {
                text.push_str("pipefy ");
                text.push_str(command.path);
            }
            None if quoted && catalogue().get(part).is_some() => {
                text.push_str("pipefy tools call ");
                text.push_str(part);
            }
            None => text.push_str(part),
        }
        quoted = !quoted;
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn sentences_name_commands() {
        assert_eq!(
            with_commands("Not found (ID: 5). Find the right one with `list_organizations` or `nothing_such`."),
            "Not found (ID: 5). Find the right one with `pipefy org list` or `nothing_such`."
        );
        assert_eq!(with_commands("plain"), "plain");
        assert_eq!(with_commands("one ` tick"), "one ` tick");
    }

    #[test]
    fn every_row_has_a_group_and_its_own_words() {
        let mut seen = std::collections::HashSet::new();
        for command in rows() {
            assert!(seen.insert(command.path), "{} is there twice", command.path);
            let mut group = command.path;
            while let Some((parent, _)) = group.rsplit_once(' ') {
                assert!(GROUPS.iter().any(|(path, _)| *path == parent), "{parent} has no line");
                group = parent;
            }
        }
    }
}
