//! The table against the reference's commands, and against itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::command::{Command, Consent, Form, Kind, Param, Preset};
use crate::{commands, parse};

const CONTRACT: &str = include_str!("../../../contract/cli.json");
const EXCEPTIONS: &str = include_str!("../contract-exceptions.toml");

fn contract() -> Value {
    serde_json::from_str(CONTRACT).unwrap()
}

/// Differences that are meant: `path`, `what`, `reason`.
fn excused() -> Vec<(String, String)> {
    let table: toml::Table = EXCEPTIONS.parse().unwrap();
    let rows = table["exception"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            assert!(text("reason").len() > 20, "an exception needs a reason: {row:?}");
            (text("path"), text("what"))
        })
        .collect()
}

fn kind(param: &Param) -> &'static str {
    match param.kind {
        Kind::Int(..) => "int",
        Kind::Float(..) => "float",
        Kind::Flag | Kind::Pair => "bool",
        Kind::Choice(_) => "choice",
        Kind::Path | Kind::TextFile => "path",
        Kind::Text | Kind::Id | Kind::Json(_) | Kind::Commas | Kind::Words => "string",
    }
}

fn bounds(param: &Param) -> (Value, Value) {
    match param.kind {
        Kind::Int(min, max) => (
            if min == i64::MIN { Value::Null } else { min.into() },
            if max == i64::MAX { Value::Null } else { max.into() },
        ),
        Kind::Float(min, max) => (
            if min.is_finite() { min.into() } else { Value::Null },
            if max.is_finite() { max.into() } else { Value::Null },
        ),
        _ => (Value::Null, Value::Null),
    }
}

fn default(param: &Param) -> Value {
    match (param.many, param.default) {
        (true, _) => json!([]),
        (false, preset) => preset.value().unwrap_or_default(),
    }
}

fn words(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Every difference between a row and the contract that could break a command line.
fn differences(command: &Command, wanted: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: String| found.push(what);
    if command.takes_ids() != wanted["ignore_unknown_options"].as_bool().unwrap() {
        differ("hyphen ids".to_owned());
    }
    let arguments: Vec<&Param> = command.arguments().collect();
    let wanted_arguments = wanted["arguments"].as_array().unwrap();
    if arguments.len() != wanted_arguments.len() {
        differ(format!("{} arguments", arguments.len()));
    }
    for (index, (argument, wanted)) in arguments.iter().zip(wanted_arguments).enumerate() {
        if argument.required != wanted["required"].as_bool().unwrap() {
            differ(format!("required of argument {index}"));
        }
    }
    let options = parse::options(command);
    for wanted in wanted["options"].as_array().unwrap() {
        let flags = words(&wanted["flags"]);
        let name = flags.iter().find(|flag| flag.starts_with("--")).unwrap();
        let Some(option) = options.iter().find(|option| option.flags().any(|flag| flag == name)) else {
            differ(format!("{name} is missing"));
            continue;
        };
        if option.flags().map(str::to_owned).collect::<BTreeSet<_>>() != flags {
            differ(format!("flags of {name}"));
        }
        if option.negative().map(str::to_owned).into_iter().collect::<BTreeSet<_>>() != words(&wanted["negative_flags"])
        {
            differ(format!("negative of {name}"));
        }
        if kind(option) != wanted["type"].as_str().unwrap() {
            differ(format!("type of {name}"));
        }
        if option.required != wanted["required"].as_bool().unwrap() {
            differ(format!("required of {name}"));
        }
        if option.many != wanted["multiple"].as_bool().unwrap() {
            differ(format!("multiple of {name}"));
        }
        if default(option) != wanted["default"] {
            differ(format!("default of {name}"));
        }
        let (min, max) = bounds(option);
        let same = |ours: &Value, theirs: &Value| ours.as_f64() == theirs.as_f64();
        if !same(&min, &wanted["min"]) || !same(&max, &wanted["max"]) {
            differ(format!("range of {name}"));
        }
        if let (Kind::Choice(ours), Some(_)) = (option.kind, wanted.get("choices"))
            && ours.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>() != words(&wanted["choices"])
        {
            differ(format!("choices of {name}"));
        }
    }
    found
}

#[test]
fn every_command_line_of_the_reference_still_works() {
    let contract = contract();
    let excused = excused();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut missing = Vec::new();
    for wanted in contract["commands"].as_array().unwrap() {
        let path = wanted["path"].as_str().unwrap();
        let Some(command) = commands::rows().find(|command| command.path == path) else {
            missing.push(path);
            continue;
        };
        let tools = words(&wanted["mcp_tools"]);
        let needs: BTreeSet<String> = command.needs().map(str::to_owned).collect();
        if !tools.is_subset(&needs) {
            wrong.push(format!("{path}: calls {needs:?} and not {tools:?}"));
        }
        for what in differences(command, wanted) {
            match excused.iter().find(|row| **row == (path.to_owned(), what.clone())) {
                Some(row) => _ = used.insert(row.clone()),
                None => wrong.push(format!("{path}: {what}")),
            }
        }
    }
    assert!(missing.is_empty(), "no row for {missing:?}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let idle: Vec<_> = excused.iter().filter(|row| !used.contains(*row)).collect();
    assert!(idle.is_empty(), "exceptions that excuse nothing: {idle:?}");
}

#[test]
fn global_options_of_the_reference_still_work() {
    for wanted in contract()["global_options"].as_array().unwrap() {
        for flag in words(&wanted["flags"]).into_iter().chain(words(&wanted["negative_flags"])) {
            let found = parse::GLOBALS.iter().find(|(known, _)| **known == flag);
            let takes_value = !wanted["is_flag"].as_bool().unwrap();
            assert_eq!(found.map(|(_, value)| *value), Some(takes_value), "{flag}");
        }
    }
}

#[test]
fn every_confirmation_of_the_reference_is_asked_for() {
    for wanted in contract()["commands"].as_array().unwrap() {
        let path = wanted["path"].as_str().unwrap();
        let has_yes = wanted["options"].as_array().unwrap().iter().any(|option| option["name"] == "yes");
        let Some(command) = commands::rows().find(|command| command.path == path) else { continue };
        assert_eq!(!matches!(command.consent, Consent::None), has_yes, "{path}");
    }
}

/// What one row offers, for the golden tree.
fn described(command: &Command) -> Value {
    let shown = |param: &Param| {
        let mut map = serde_json::Map::new();
        let name = if param.is_positional() { param.name.to_owned() } else { param.flags.to_owned() };
        map.insert("name".to_owned(), name.into());
        map.insert("kind".to_owned(), format!("{:?}", KindName(param.kind)).into());
        if param.required {
            map.insert("required".to_owned(), true.into());
        }
        if param.many {
            map.insert("many".to_owned(), true.into());
        }
        if let Some(value) = param.default.value().filter(|value| *value != Value::Bool(false)) {
            map.insert("default".to_owned(), value);
        }
        if !param.name.starts_with('$') {
            map.insert("becomes".to_owned(), param.name.into());
        }
        Value::Object(map)
    };
    let takes = command.arguments().copied().chain(parse::options(command));
    json!({
        "about": command.about,
        "tools": command.needs().collect::<Vec<_>>(),
        "consent": match &command.consent {
            Consent::None => "none",
            Consent::Ask(verb, _) | Consent::AskWhen(verb, _, _) => verb,
            Consent::Flag => "--yes for mutations",
            Consent::Draft => "draft without --yes",
        },
        "output": match command.form {
            Form::Human => "human",
            Form::Json => "json",
            Form::Text => "text",
        },
        "takes": takes.map(|param| shown(&param)).collect::<Vec<_>>(),
    })
}

struct KindName(Kind);

impl std::fmt::Debug for KindName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bound = |number: f64| if number.abs() > 1e18 { String::new() } else { number.to_string() };
        match self.0 {
            Kind::Text => f.write_str("text"),
            Kind::Id => f.write_str("id"),
            Kind::Int(min, max) => write!(f, "int {}..{}", bound(min as f64), bound(max as f64)),
            Kind::Float(min, max) => write!(f, "number {}..{}", bound(min), bound(max)),
            Kind::Flag => f.write_str("flag"),
            Kind::Pair => f.write_str("pair"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(" ")),
            Kind::Json(shape) => write!(
                f,
                "json {}",
                match shape {
                    crate::command::Shape::Object => "object",
                    crate::command::Shape::Array => "array",
                    crate::command::Shape::ObjectOrArray => "object or array",
                    crate::command::Shape::Any => "value",
                }
            ),
            Kind::Commas => f.write_str("items between commas"),
            Kind::Words => f.write_str("items between commas or spaces"),
            Kind::Path => f.write_str("path"),
            Kind::TextFile => f.write_str("path of a text file"),
        }
    }
}

#[test]
fn the_tree_of_commands_changes_on_purpose_only() {
    let tree: serde_json::Map<String, Value> =
        commands::all().map(|command| (command.path.to_owned(), described(command))).collect();
    insta::assert_json_snapshot!(tree);
}

#[test]
fn every_row_names_arguments_that_its_capability_has() {
    let mut wrong = Vec::new();
    for command in commands::all().filter(|command| matches!(command.route, crate::command::Route::Call)) {
        let Some(tool) = commands::tool_of(command) else { continue };
        let schema = tool.input_schema();
        let properties = schema["properties"].as_object().unwrap();
        for param in command.params.iter().filter(|param| !properties.contains_key(param.name)) {
            wrong.push(format!("{}: {} has no argument {}", command.path, tool.name(), param.name));
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            match command.params.iter().find(|param| param.name == required) {
                Some(param) if param.required || !matches!(param.default, Preset::None) => {}
                _ => wrong.push(format!("{}: {} needs {required}", command.path, tool.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn help_is_plain_ascii() {
    for command in commands::rows() {
        assert!(command.about.is_ascii() && !command.about.ends_with('.'), "{}: {}", command.path, command.about);
        for param in command.params {
            assert!(
                param.help.is_ascii() && !param.help.is_empty() && !param.help.ends_with('.'),
                "{}: {}",
                command.path,
                param.help
            );
        }
    }
}

/// The words of a command line.
fn argv(words: &[&str]) -> Vec<std::ffi::OsString> {
    std::iter::once("pipefy").chain(words.iter().copied()).map(Into::into).collect()
}

/// The shortest line of a command that can be acted on, without what must be a file.
fn shortest(command: &Command) -> Vec<String> {
    let mut line: Vec<String> = command.path.split(' ').map(str::to_owned).collect();
    let value = |param: &Param| match param.kind {
        Kind::Int(min, _) => min.max(1).to_string(),
        Kind::Float(min, _) => min.max(1.0).to_string(),
        Kind::Choice(words) => words[0].to_owned(),
        Kind::Json(crate::command::Shape::Array) => "[]".to_owned(),
        Kind::Json(_) => "{}".to_owned(),
        _ => "1".to_owned(),
    };
    for param in command.options().filter(|param| param.required) {
        line.push(param.flag().to_owned());
        line.extend(param.takes_value().then(|| value(param)));
    }
    line.extend(command.arguments().filter(|param| param.required).map(value));
    line
}

/// What is wrong with a line, as it is said.
fn refusal(words: &[&str]) -> String {
    match parse::parse(&argv(words)) {
        Err(parse::Early::Misuse(error)) => error.to_string(),
        Err(_) => panic!("{words:?} is help or version"),
        Ok(_) => panic!("{words:?} is accepted"),
    }
}

#[test]
fn every_level_has_help_and_a_group_alone_is_help_with_code_2() {
    let mut groups = BTreeSet::from([String::new()]);
    for command in commands::all() {
        let words: Vec<&str> = command.path.split(' ').collect();
        groups.extend((1..words.len()).map(|end| words[..end].join(" ")));
        let Err(parse::Early::Help(text, 0)) = parse::parse(&argv(&[&words[..], &["--help"]].concat())) else {
            panic!("{} has no help", command.path)
        };
        assert!(text.to_string().contains(&format!("Usage: pipefy {}", command.path)), "{text}");
        if !command.takes_ids() {
            assert!(refusal(&[&words[..], &["-h"]].concat()).contains("-h"), "{}", command.path);
        }
    }
    for group in &groups {
        let words: Vec<&str> = group.split_whitespace().collect();
        for (more, code) in [(&[][..], 2), (&["--help"], 0)] {
            let Err(parse::Early::Help(text, found)) = parse::parse(&argv(&[&words[..], more].concat())) else {
                panic!("{group} {more:?} is no help")
            };
            assert!(found == code && text.to_string().contains(format!("Usage: pipefy {group}").trim_end()), "{text}");
        }
        assert!(refusal(&[&words[..], &["-h"]].concat()).contains("-h"), "{group}");
    }
    assert!(groups.len() > 50);
}

#[test]
fn every_command_takes_every_form_of_output() {
    for command in commands::all() {
        let line = shortest(command);
        let given = |more: &[&str]| {
            let words: Vec<&str> = line.iter().map(String::as_str).chain(more.iter().copied()).collect();
            match parse::parse(&argv(&words)) {
                Ok(line) => line.given,
                Err(parse::Early::Misuse(error)) => panic!("{words:?}\n{error}"),
                Err(_) => panic!("{words:?}"),
            }
        };
        if command.params.iter().any(|param| param.required && matches!(param.kind, Kind::TextFile)) {
            continue;
        }
        let plain = given(&[]).rendering;
        assert_eq!(plain.json, command.form == Form::Json, "{}", command.path);
        match command.form {
            Form::Text => continue,
            Form::Human => {
                assert!(given(&["-j"]).rendering.json, "{}", command.path);
                assert!(refusal_of(&line, "--jso").contains("--json"), "{}", command.path);
            }
            Form::Json => assert!(!given(&["--rich"]).rendering.json, "{}", command.path),
        }
        if !command.has_flag("--jq") {
            assert!(given(&["--jq", ".a"]).rendering.filter.is_some(), "{}", command.path);
        }
        if !command.has_flag("--format") {
            assert!(given(&["--format", "ids"]).rendering.format.is_some(), "{}", command.path);
            let format = parse::options(command).into_iter().find(|option| option.flag() == "--format").unwrap();
            let Kind::Choice(forms) = format.kind else { panic!("{}", command.path) };
            assert_eq!(forms, ["json", "ndjson", "yaml", "csv", "table", "ids"], "{}", command.path);
        }
    }
}

fn refusal_of(line: &[String], more: &str) -> String {
    let words: Vec<&str> = line.iter().map(String::as_str).chain([more]).collect();
    refusal(&words)
}

/// `-Zy1` is an id wherever an id is taken, and confirms nothing.
#[test]
fn every_id_may_start_with_a_hyphen_and_confirms_nothing() {
    let mut count = 0;
    for command in commands::all().filter(|command| command.takes_ids()) {
        let id = command.arguments().find(|param| matches!(param.kind, Kind::Id)).unwrap();
        let mut line = shortest(command);
        if !id.required {
            line.push("-Zy1".to_owned());
        } else {
            let at = line.len() - command.arguments().filter(|param| param.required).count();
            let before =
                command.arguments().filter(|param| param.required).position(|param| param.name == id.name).unwrap();
            line[at + before] = "-Zy1".to_owned();
        }
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let Ok(parsed) = parse::parse(&argv(&words)) else { panic!("{line:?} is refused") };
        assert_eq!(parsed.given.args[id.name], "-Zy1", "{line:?}");
        assert!(!parsed.given.yes, "{line:?}");
        let blank: Vec<&str> = words.iter().map(|word| if *word == "-Zy1" { " " } else { word }).collect();
        assert!(refusal(&blank).contains("blank"), "{line:?}");
        let long: Vec<&str> = words.iter().map(|word| if *word == "-Zy1" { "--zy1" } else { word }).collect();
        refusal(&long);
        count += 1;
    }
    assert!(count > 60, "{count}");
}

/// The help of every command, as people see it.
#[test]
fn every_help_changes_on_purpose_only() {
    let mut paths: Vec<&str> = crate::commands::all().map(|command| command.path).collect();
    paths.sort_unstable();
    let mut whole = String::new();
    for path in std::iter::once("").chain(paths) {
        let line = std::iter::once("pipefy").chain(path.split_whitespace()).chain(["--help"]);
        let line: Vec<std::ffi::OsString> = line.map(Into::into).collect();
        let Err(crate::parse::Early::Help(text, 0)) = crate::parse::parse(&line) else { panic!("{path} has no help") };
        whole.push_str(&format!("$ pipefy {path} --help\n{text}\n"));
    }
    insta::assert_snapshot!(whole);
}
