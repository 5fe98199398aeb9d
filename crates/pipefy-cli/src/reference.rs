//! The reference pages, made from the definitions: `docs/tools/` from the catalogue, `docs/commands/` from the table.
//!
//! This is a test: it fails when a page is not what the definitions say. `UPDATE_DOCS=1 cargo test -p pipefy-cli reference`
//! rewrites the pages. What each tool asks of Pipefy and the form of its result come from
//! `crates/pipefy-mcp/tests/matrix/requests.json`, which the test `matrix` of `pipefy-mcp` keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use pipefy_tools::{Class, Domain, Op, Shape, Tool};
use serde_json::{Map, Value, json};

use crate::command::{Command, Consent, Form, Kind, Param};
use crate::{commands, parse};

const HOW: &str =
    "<!-- Made from the definitions; do not edit. UPDATE_DOCS=1 cargo test -p pipefy-cli reference rewrites it. -->";

/// Options that many tools share: what they mean is said once.
const SHARED: [(&str, &str); 12] = [
    ("fields", "only these fields of each item, e.g. `[\"id\", \"title\"]`"),
    ("format", "the form of a list: `json`, `compact` (columns and rows) or `csv`"),
    ("all", "follow the pages"),
    ("max_items", "with `all`, or alone in its place: at most this many items (5000)"),
    ("max_seconds", "with `all`, or alone in its place: stop after this many seconds (60)"),
    (
        "rest",
        "on every tool, not listed: a part of a cut result, see [what agents get](../agents.md#results-over-the-budget)",
    ),
    ("dry_run", "list what would be sent and send nothing"),
    ("verify", "read the change back and say whether it took effect, see [reading back](../reading-back.md)"),
    (
        "idempotency_key",
        "on every write, not listed: the same call with the same key changes something once, see [safety](../safety.md#once)",
    ),
    ("confirm", "second step of a confirmation"),
    ("confirmation_token", "the token that the preview gave, valid for 5 minutes"),
    ("debug", "show codes and the correlation id in failures"),
];

/// Longest outline of a result that is shown, in bytes.
const OUTLINE: usize = 360;

#[test]
fn reference_pages_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for (folder, pages) in [("tools", tool_pages()), ("commands", command_pages())] {
        let folder = docs.join(folder);
        if update {
            std::fs::create_dir_all(&folder).unwrap();
        }
        for (name, page) in &pages {
            assert!(page.is_ascii(), "{name} is not plain ASCII");
            let path = folder.join(name);
            if update {
                std::fs::write(&path, page).unwrap();
            }
            if std::fs::read_to_string(&path).unwrap_or_default() != *page {
                stale.push(name.clone());
            }
        }
        // `meta.md` is made by the server's tests, which know the tools it describes.
        let there = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let strays = there.filter_map(|entry| entry.file_name().into_string().ok());
        stale.extend(strays.filter(|name| !pages.contains_key(name) && name != "meta.md"));
    }
    assert!(stale.is_empty(), "out of date: {stale:?}; UPDATE_DOCS=1 cargo test -p pipefy-cli reference rewrites them");
}

/// What each tool asks of Pipefy, and an outline of its result.
fn requests() -> Map<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipefy-mcp/tests/matrix/requests.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn tool_pages() -> BTreeMap<String, String> {
    let requests = requests();
    let mut tools: Vec<&Tool> = commands::catalogue().tools().iter().collect();
    tools.sort_by_key(|tool| tool.name());
    let mut pages: BTreeMap<String, String> = Domain::ALL
        .into_iter()
        .map(|domain| {
            let own: Vec<&&Tool> = tools.iter().filter(|tool| tool.op().domain == domain).collect();
            let mut page = format!(
                "# Tools: {}\n\n{HOW}\n\n{} tools. Options that many share are explained [here](README.md).\n",
                domain.name(),
                own.len()
            );
            for tool in own {
                page.push_str(&tool_section(tool, requests.get(tool.name())));
            }
            (format!("{}.md", domain.name()), page)
        })
        .collect();
    pages.insert("README.md".to_owned(), tool_index(&tools));
    pages
}

fn tool_index(tools: &[&Tool]) -> String {
    let mut page = format!(
        "# Tools\n\n{HOW}\n\n{} tools, and [four more](meta.md) to find and run them in the `power` toolset. A page a domain:\n",
        tools.len()
    );
    for domain in Domain::ALL {
        let count = tools.iter().filter(|tool| tool.op().domain == domain).count();
        let _ = writeln!(page, "- [{0}]({0}.md): {count}", domain.name());
    }
    page.push_str("\n## Options that many tools share\n\n| Option | Meaning |\n|---|---|\n");
    for (name, meaning) in SHARED {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page.push_str("\n## All tools\n\n| Tool | Does | Command |\n|---|---|---|\n");
    for tool in tools {
        let op = tool.op();
        let command = commands::of_tool(tool.name()).map_or_else(|| "`pipefy tools call`".to_owned(), command_link);
        let _ = writeln!(page, "| [`{0}`]({1}.md#{0}) | {2} | {command} |", tool.name(), op.domain.name(), class(op));
    }
    page
}

fn class(op: &Op) -> &'static str {
    match op.class {
        Class::Read => "reads",
        Class::Write => "writes",
        Class::Destructive => "destroys, after confirmation",
        Class::ByInput => "depends on its input",
    }
}

fn tool_section(tool: &Tool, facts: Option<&Value>) -> String {
    let op = tool.op();
    let mut text = format!("\n## `{}`\n\n{}\n\n", tool.name(), tool.description());
    let personas: Vec<&str> = op.personas.iter().map(|persona| persona.name()).collect();
    let _ = write!(text, "Class: {}. ", class(op));
    if !personas.is_empty() {
        let _ = write!(text, "Toolsets: {}. ", personas.join(", "));
    }
    if !op.remote {
        text.push_str("Not on a hosted server. ");
    }
    let command =
        commands::of_tool(tool.name()).map_or_else(|| format!("`pipefy tools call {}`", tool.name()), command_link);
    let _ = writeln!(text, "Command: {command}.\n");

    let schema = tool.input_schema();
    let required: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let is_shared = |name: &str, property: &Value| {
        property.get("description").is_none() && SHARED.iter().any(|(shared, _)| *shared == name)
    };
    let (shared, own): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, property)| is_shared(name, property));
    if own.is_empty() {
        text.push_str("No arguments of its own.\n");
    } else {
        text.push_str("| Argument | Type | Default | Meaning |\n|---|---|---|---|\n");
        for (name, property) in own {
            let default = match property.get("default") {
                _ if required.contains(name.as_str()) => "required".to_owned(),
                None | Some(Value::Null) => String::new(),
                Some(value) => format!("`{value}`"),
            };
            let meaning = property["description"].as_str().unwrap_or_default();
            let _ = writeln!(text, "| `{name}` | {} | {} | {} |", cell(&kind(property)), cell(&default), cell(meaning));
        }
    }
    if !shared.is_empty() {
        let names: Vec<String> = shared.iter().map(|(name, _)| format!("`{name}`")).collect();
        let _ = writeln!(text, "\nAlso: {}.", names.join(", "));
    }
    if op.class == Class::Read {
        text.push_str(match op.selects {
            Some(_) => "\n`fields` asks Pipefy for less.\n",
            None => "\n`fields` chooses from Pipefy's answer.\n",
        });
    }
    if let Some(facts) = facts {
        let asks: Vec<String> = facts["asks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter_map(|place| place.split_once(' '))
            .map(|(endpoint, rest)| match (endpoint, rest.split_once(' ')) {
                ("public", Some((kind, root))) => format!("{kind} `{root}`"),
                (_, Some((kind, root))) => format!("{kind} `{root}` ({endpoint})"),
                _ => rest.to_owned(),
            })
            .collect();
        if !asks.is_empty() {
            let _ = writeln!(text, "\nAsks Pipefy: {}.", asks.join(", "));
        }
        let _ = writeln!(text, "\nResult{}: `{}`", shape(op), outline(&facts["result"]));
    }
    text
}

fn shape(op: &Op) -> &'static str {
    match op.shape {
        Shape::Raw => ", as Pipefy answers",
        Shape::EnvelopeOrRaw => " (without the unified envelope: `data` alone)",
        Shape::EnvelopeOrFlat => " (without the unified envelope: the keys of `data` at the top)",
        Shape::EnvelopeOrResult => " (without the unified envelope: under `result`)",
        Shape::Text => ", `result` being JSON as text",
        Shape::Envelope | Shape::Flat | Shape::Result => "",
    }
}

/// As much of an outline as fits, the deepest levels left out first.
fn outline(value: &Value) -> String {
    for depth in (1..=4).rev() {
        let text = cut(value, depth).to_string().replace('`', "'");
        if text.len() <= OUTLINE || depth == 1 {
            return text;
        }
    }
    String::new()
}

fn cut(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(_) if depth == 0 => json!("..."),
        Value::Array(_) if depth == 0 => json!(["..."]),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), cut(value, depth - 1))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(|value| cut(value, depth)).collect::<Vec<_>>().into(),
        value => value.clone(),
    }
}

/// The type of an argument in words.
fn kind(schema: &Value) -> String {
    if let Some(arms) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        let mut kinds: Vec<String> = arms.iter().map(kind).filter(|kind| kind != "null").collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if let Some(only) = schema.get("const") {
        return format!("`{}`", only.as_str().map_or_else(|| only.to_string(), str::to_owned));
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
        _ => return "any".to_owned(),
    };
    let named: Vec<String> = types
        .into_iter()
        .map(|name| match name {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => format!("list of {}", kind(&schema["items"])),
            "object" => match schema.get("properties").and_then(Value::as_object) {
                Some(properties) if !properties.is_empty() => {
                    let keys: Vec<String> = properties.keys().map(|key| format!("`{key}`")).collect();
                    format!("object ({})", keys.join(", "))
                }
                _ => "object".to_owned(),
            },
            other => other.to_owned(),
        })
        .collect();
    named.join(" or ")
}

fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn command_link(command: &Command) -> String {
    format!("[`pipefy {}`](../commands/{}.md#pipefy-{})", command.path, group(command), command.path.replace(' ', "-"))
}

/// The page of a command: its first word, where that is a group.
fn group(command: &Command) -> &'static str {
    let first = command.path.split_once(' ').map_or(command.path, |(first, _)| first);
    if commands::group(first).is_some() { first } else { "program" }
}

fn command_pages() -> BTreeMap<String, String> {
    let mut by_group: BTreeMap<&str, Vec<&Command>> = BTreeMap::new();
    for command in commands::all() {
        by_group.entry(group(command)).or_default().push(command);
    }
    let mut index = format!(
        "# Commands\n\n{HOW}\n\n{} commands. Options of the program itself (`--base-url`, `--token`, `--sandbox`, ...) stand before \
         the first word of a command; `pipefy --help` lists them.\n\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n\
         | 0 | done |\n\
         | 1 | Pipefy refused or failed, gave no usable answer, or somebody said no |\n\
         | 2 | the command line, a setting or a value cannot be used; nothing was sent |\n\
         | {} | ended by Ctrl-C |\n\n## All commands\n\n| Command | About |\n|---|---|\n",
        commands::all().count(),
        crate::failure::INTERRUPTED
    );
    let mut pages = BTreeMap::new();
    for (name, mut commands) in by_group {
        commands.sort_by_key(|command| command.path);
        let about = commands::group(name).unwrap_or("This program");
        let mut page = format!("# Commands: {name}\n\n{HOW}\n\n{about}. Exit codes are explained [here](README.md).\n");
        for command in commands {
            page.push_str(&command_section(command));
            let _ = writeln!(
                index,
                "| [`{0}`]({name}.md#pipefy-{1}) | {2} |",
                command.path,
                command.path.replace(' ', "-"),
                cell(command.about)
            );
        }
        pages.insert(format!("{name}.md"), page);
    }
    pages.insert("README.md".to_owned(), index);
    pages
}

fn command_section(command: &Command) -> String {
    let mut text = format!("\n## `pipefy {}`\n\n{}.", command.path, command.about);
    match &command.consent {
        Consent::None => {}
        Consent::Ask(..) => text.push_str(" Asks first; `--yes` answers."),
        Consent::AskWhen(..) => text.push_str(" May ask first; `--yes` answers."),
        Consent::Flag => text.push_str(" What changes something needs `--yes`."),
        Consent::Draft => text.push_str(" Shows a draft and sends nothing without `--yes`."),
    }
    match command.form {
        Form::Human => {}
        Form::Json => text.push_str(" Prints JSON, with `--rich` for people."),
        Form::Text => text.push_str(" Prints text."),
    }
    let tools: Vec<String> = command
        .needs()
        .filter_map(|name| commands::catalogue().get(name))
        .map(|tool| format!("[`{0}`](../tools/{1}.md#{0})", tool.name(), tool.op().domain.name()))
        .collect();
    if !tools.is_empty() {
        let _ = write!(text, " Tool: {}.", tools.join(", "));
    }
    let mut usage = format!("pipefy {}", command.path);
    for param in command.arguments() {
        let name = param.name.to_uppercase();
        let _ = if param.required { write!(usage, " {name}") } else { write!(usage, " [{name}]") };
    }
    let options = parse::options(command);
    for option in options.iter().filter(|option| option.required) {
        let _ = write!(usage, " {} {}", option.flag(), placeholder(option));
    }
    if options.iter().any(|option| !option.required) {
        usage.push_str(" [OPTIONS]");
    }
    let _ = writeln!(text, "\n\n```text\n{usage}\n```");
    let takes: Vec<Param> = command.arguments().copied().chain(options).collect();
    if !takes.is_empty() {
        text.push_str("\n| Takes | Value | Default | Meaning |\n|---|---|---|---|\n");
        for param in &takes {
            let name = if param.is_positional() { param.name.to_uppercase() } else { param.flags.to_owned() };
            let default = match param.default.value().filter(|value| *value != Value::Bool(false)) {
                _ if param.required => "required".to_owned(),
                None => String::new(),
                Some(value) => format!("`{value}`"),
            };
            let many = if param.many { ", may be repeated" } else { "" };
            let _ = writeln!(text, "| `{name}` | {}{many} | {default} | {} |", value(param), cell(param.help));
        }
    }
    text
}

/// What stands for the value in a usage line.
fn placeholder(param: &Param) -> &'static str {
    match param.kind {
        Kind::Int(..) => "N",
        Kind::Float(..) => "NUMBER",
        Kind::Choice(_) => "WORD",
        Kind::Json(_) => "JSON",
        Kind::Commas | Kind::Words => "LIST",
        Kind::Path | Kind::TextFile => "FILE",
        Kind::Text | Kind::Id => "TEXT",
        Kind::Flag | Kind::Pair => "",
    }
}

fn value(param: &Param) -> String {
    let bound = |number: i64| number != i64::MIN && number != i64::MAX;
    match param.kind {
        Kind::Text => "text".to_owned(),
        Kind::Id => "id".to_owned(),
        Kind::Int(min, max) => match (bound(min), bound(max)) {
            (true, true) => format!("{min} to {max}"),
            (true, false) => format!("from {min}"),
            (false, true) => format!("up to {max}"),
            (false, false) => "whole number".to_owned(),
        },
        Kind::Float(min, max) => match (min.is_finite(), max.is_finite()) {
            (true, true) => format!("{min} to {max}"),
            (true, false) => format!("from {min}"),
            _ => "number".to_owned(),
        },
        Kind::Flag | Kind::Pair => String::new(),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Json(shape) => format!(
            "JSON {}",
            match shape {
                crate::command::Shape::Object => "object",
                crate::command::Shape::Array => "array",
                crate::command::Shape::ObjectOrArray => "object or array",
                crate::command::Shape::Any => "value",
            }
        ),
        Kind::Commas => "items between commas".to_owned(),
        Kind::Words => "items between commas or spaces".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::TextFile => "path of a text file".to_owned(),
    }
}
