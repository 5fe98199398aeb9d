//! From the command line to a row of the table and what was given to it.

use clap::builder::{PossibleValuesParser, StyledStr};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use pipefy_tools::Class;
use serde_json::{Map, Value};
use std::ffi::OsString;

use crate::command::{Command, Consent, Form, Kind, Param, Preset, choice, commas, flag, int, text};
use crate::commands;
use crate::failure::Failure;
use crate::output::{self, Filter, Format, Rendering};
use crate::tokens::{self, Flags};
use crate::values;

/// The name in usage lines.
pub(crate) const PROGRAM: &str = "pipefy";

const JSON: &str = "$json";
pub(crate) const INSTALL_COMPLETION: &str = "--install-completion";
pub(crate) const SHOW_COMPLETION: &str = "--show-completion";

const FORMAT: &str = "$format";
const JQ: &str = "$jq";
const RICH: &str = "$rich";
const YES: &str = "$yes";

/// A command line that can be acted on.
pub(crate) struct Line {
    pub(crate) globals: Globals,
    pub(crate) command: &'static Command,
    pub(crate) given: Given,
}

/// Options before the first command word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globals {
    pub(crate) base_url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) allow_insecure_urls: Option<bool>,
    pub(crate) read_only: bool,
    pub(crate) scope: Vec<String>,
    pub(crate) sandbox: bool,
    pub(crate) sandbox_data: Option<String>,
}

/// What was given to a command.
#[derive(Default)]
pub(crate) struct Given {
    /// By the names that the row gives them; what was not given and has no default is absent.
    pub(crate) args: Map<String, Value>,
    /// How the result is wanted.
    pub(crate) rendering: Rendering,
    /// Whether `--yes` was given.
    pub(crate) yes: bool,
}

/// A command line that ends before any command.
pub(crate) enum Early {
    Version,
    Help(StyledStr, u8),
    Misuse(Box<clap::Error>),
}

/// Reads the command line; `argv` starts with the program.
pub(crate) fn parse(argv: &[OsString]) -> Result<Line, Early> {
    let (line, asked_version) = sorted(argv);
    if asked_version {
        return Err(Early::Version);
    }
    let matches = root().try_get_matches_from(&line).map_err(early)?;
    let globals = Globals {
        base_url: matches.get_one::<String>("--base-url").cloned(),
        token: matches.get_one::<String>("--token").cloned(),
        account: matches.get_one::<String>("--account").cloned(),
        allow_insecure_urls: switch(&matches, "--allow-insecure-urls", "--no-allow-insecure-urls"),
        read_only: matches.get_flag("--read-only"),
        scope: matches.get_many::<String>("--scope").into_iter().flatten().cloned().collect(),
        sandbox: matches.get_flag("--sandbox"),
        sandbox_data: matches.get_one::<String>("--sandbox-data").cloned(),
    };
    let mut words: Vec<String> = Vec::new();
    let mut below = &matches;
    while let Some((word, next)) = below.subcommand() {
        words.push(word.to_owned());
        below = next;
    }
    let Some(command) = commands::find(&words.join(" ")) else {
        return Err(help_of(&words));
    };
    let given = given(command, below).map_err(|text| Early::Misuse(Box::new(misuse(command, &text))))?;
    Ok(Line { globals, command, given })
}

fn early(error: clap::Error) -> Early {
    match error.kind() {
        ErrorKind::DisplayHelp => Early::Help(error.render(), 0),
        _ => Early::Misuse(Box::new(error)),
    }
}

/// A group without a command: its help, and exit code 2.
fn help_of(words: &[String]) -> Early {
    let line = std::iter::once(PROGRAM).chain(words.iter().map(String::as_str)).chain(std::iter::once("--help"));
    match root().try_get_matches_from(line) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Early::Help(error.render(), 2),
        Err(error) => Early::Misuse(Box::new(error)),
        Ok(_) => Early::Version,
    }
}

/// A usage error of a command, with its usage line.
pub(crate) fn misuse(command: &Command, text: &str) -> clap::Error {
    leaf(command).bin_name(format!("{PROGRAM} {}", command.path)).error(ErrorKind::ValueValidation, text)
}

/// Finds the command, sorts its hyphen ids, and says whether the version was asked for before it.
fn sorted(argv: &[OsString]) -> (Vec<OsString>, bool) {
    let mut line = argv.to_vec();
    let Some(tokens) = argv.iter().skip(1).map(|token| token.to_str()).collect::<Option<Vec<_>>>() else {
        return (line, false);
    };
    let mut at = 0;
    let mut asked_version = false;
    while let Some(token) = tokens.get(at).filter(|token| token.starts_with('-')) {
        let name = token.split_once('=').map_or(*token, |(name, _)| name);
        let Some(takes_value) = GLOBALS.iter().find_map(|(flag, takes_value)| (*flag == name).then_some(*takes_value))
        else {
            return (line, false);
        };
        asked_version |= *token == "--version";
        at += if takes_value && name == *token { 2 } else { 1 };
    }
    if asked_version {
        return (line, true);
    }
    let mut path = String::new();
    while let Some(word) = tokens.get(at) {
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(word);
        at += 1;
        if let Some(command) = commands::find(&path) {
            if command.takes_ids() {
                let options = options(command);
                let wanted = command.arguments().filter(|param| param.required).count();
                let rest: Vec<String> = tokens.iter().skip(at).map(|token| (*token).to_owned()).collect();
                line.truncate(at + 1);
                line.extend(tokens::sort(&rest, Flags(&options), wanted).into_iter().map(OsString::from));
            }
            break;
        }
        if commands::group(&path).is_none() {
            break;
        }
    }
    (line, false)
}

/// Global options, and whether a value follows.
pub(crate) const GLOBALS: &[(&str, bool)] = &[
    ("--base-url", true),
    ("--token", true),
    ("--account", true),
    ("--allow-insecure-urls", false),
    ("--no-allow-insecure-urls", false),
    ("--read-only", false),
    ("--scope", true),
    ("--sandbox", false),
    ("--sandbox-data", true),
    ("--version", false),
    (INSTALL_COMPLETION, false),
    (SHOW_COMPLETION, false),
    ("--help", false),
];

/// Every command.
pub(crate) fn tree() -> clap::Command {
    root().version(pipefy::VERSION)
}

fn root() -> clap::Command {
    let long = |flag: &'static str| Arg::new(flag).long(flag.trim_start_matches('-'));
    let value = |flag: &'static str, name: &'static str| {
        long(flag).value_name(name).allow_hyphen_values(true).action(ArgAction::Set)
    };
    let switch = |flag: &'static str| long(flag).action(ArgAction::SetTrue);
    let mut root = plain(PROGRAM)
        .bin_name(PROGRAM)
        .about("Pipefy on the command line: one command per capability")
        .after_help(
            "Settings come from the environment (PIPEFY_...), .env and config.toml; sign in with PIPEFY_TOKEN, a service \
             account or `pipefy auth login`. Without an account: pipefy --sandbox org list\n\n\
             Where an id is taken, name:NAME looks it up: pipefy card list --pipe name:Sales",
        )
        .args([
            value("--base-url", "URL").help("Pipefy to talk to, instead of PIPEFY_BASE_URL"),
            value("--token", "TOKEN").help(
                "Bearer token, before every other credential; other users of this machine can see it in the list of \
                 processes, so prefer PIPEFY_TOKEN",
            ),
            value("--account", "NAME")
                .conflicts_with("--token")
                .help("One of several logins, instead of PIPEFY_ACCOUNT and of every token that is set"),
            switch("--allow-insecure-urls")
                .overrides_with("--no-allow-insecure-urls")
                .help("Accept http and internal URLs, instead of PIPEFY_ALLOW_INSECURE_URLS"),
            switch("--no-allow-insecure-urls").help("Refuse them"),
            switch("--read-only").help("Change nothing"),
            value("--scope", "KEY=IDS")
                .action(ArgAction::Append)
                .help("Touch only these: pipes=ID,..., tables=ID,... or org=ID; may be repeated"),
            switch("--sandbox")
                .conflicts_with_all(["--base-url", "--token", "--account"])
                .help("Use a sandbox on this machine; no account, no keychain"),
            value("--sandbox-data", "FILE")
                .requires("--sandbox")
                .help("File that keeps the sandbox, or :memory: for a fresh one"),
            switch("--version").help("Print the version"),
            switch(INSTALL_COMPLETION).help("Install completion for the current shell"),
            switch(SHOW_COMPLETION).help("Print the completion script of the current shell"),
        ]);
    for name in commands::children("") {
        root = root.subcommand(match commands::group(name) {
            // A hundred commands are built for nothing when one of another group was asked for.
            Some(about) => plain(name).about(about).defer(|group| {
                let path = group.get_name().to_owned();
                with_children(group, &path)
            }),
            None => commands::find(name).map_or_else(|| plain(name), leaf),
        });
    }
    root
}

fn with_children(mut group: clap::Command, path: &str) -> clap::Command {
    for name in commands::children(path) {
        let path = format!("{path} {name}");
        group = group.subcommand(match (commands::find(&path), commands::group(&path)) {
            (Some(command), _) => leaf(command),
            (None, about) => with_children(plain(name).about(about.unwrap_or_default()), &path),
        });
    }
    group
}

/// A command without clap's own ideas: `--help` without `-h`, no `help` command, the last of repeated options wins.
fn plain(name: &'static str) -> clap::Command {
    clap::Command::new(name)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .arg(Arg::new("--help").long("help").action(ArgAction::Help).help("Show this help"))
}

fn leaf(command: &Command) -> clap::Command {
    let mut built = plain(command.name()).about(command.about);
    for param in command.arguments() {
        built = built.arg(positional(param));
    }
    for param in options(command) {
        built = option(built, &param);
    }
    built
}

/// The options of a row, and those that every command or every capability of its kind has.
pub(crate) fn options(command: &Command) -> Vec<Param> {
    let mut options: Vec<Param> = command.options().copied().collect();
    match command.form {
        Form::Human => options.push(flag("--json -j", JSON, "Print JSON, for programs")),
        Form::Json => options.push(flag("--rich", RICH, "Print for people instead of JSON")),
        Form::Text => {}
    }
    if command.form != Form::Text {
        let format =
            choice("--format", FORMAT, Format::NAMES, "Print in this form; csv, table and ids show only the things");
        let jq = text("--jq", JQ, "Print what this jq filter gives, text unquoted");
        options.extend([format, jq].into_iter().filter(|param| !command.has_flag(param.flag())));
    }
    match command.consent {
        Consent::None => {}
        Consent::Flag => options.push(flag("--yes", YES, "Do it without asking")),
        _ => options.push(flag("--yes -y", YES, "Do it without asking")),
    }
    let tool = commands::tool_of(command).filter(|_| command.shares);
    let Some(op) = tool.map(|tool| tool.op()) else { return options };
    let mut shared = Vec::new();
    if op.selects.is_some_and(|selects| selects.listed) {
        shared.push(commas("--fields", "fields", "Only these fields of each item, e.g. id,title,current_phase.name"));
    }
    if op.paging.is_some() {
        shared.push(flag("--all", "all", "Read all pages"));
        shared.push(int("--max-items", "max_items", "With --all: at most this many items").range(1, i64::MAX));
        shared.push(int("--max-seconds", "max_seconds", "With --all: stop after this many seconds").range(1, i64::MAX));
    }
    if op.class != Class::Read {
        shared.push(flag("--dry-run", "dry_run", "Show what would be sent and send nothing"));
        shared.push(flag("--verify", "verify", "Read the change back"));
    }
    if op.debug {
        shared.push(flag("--debug", "debug", "Show codes and the correlation id in errors"));
    }
    let free =
        |param: &Param| !command.has_flag(param.flag()) && !command.params.iter().any(|own| own.name == param.name);
    options.extend(shared.into_iter().filter(free));
    options
}

fn positional(param: &Param) -> Arg {
    let arg = Arg::new(param.name)
        .value_name(param.name.to_uppercase())
        .help(param.help)
        .required(param.required)
        .action(ArgAction::Set);
    match param.kind {
        Kind::Id => arg.value_parser(id),
        _ => arg,
    }
}

/// An id is trimmed, not blank, and no option in disguise.
fn id(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an id must not be blank".to_owned()),
        text if text.starts_with("--") => {
            Err("an id cannot start with two hyphens; this looks like an option".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

fn option(built: clap::Command, param: &Param) -> clap::Command {
    let mut arg = Arg::new(param.flag()).help(param.help);
    for flag in param.flags() {
        match flag.strip_prefix("--") {
            Some(long) if arg.get_long().is_none() => arg = arg.long(long),
            Some(long) => arg = arg.visible_alias(long),
            None => arg = flag.chars().nth(1).map_or(arg.clone(), |letter| arg.clone().short(letter)),
        }
    }
    if let Some(negative) = param.negative() {
        let group = format!("{} or {negative}", param.flag());
        let opposite = Arg::new(negative)
            .long(negative.trim_start_matches('-'))
            .action(ArgAction::SetTrue)
            .help(format!("The opposite of {}", param.flag()));
        let arg = arg.action(ArgAction::SetTrue).overrides_with(negative);
        let built = built.arg(arg).arg(opposite);
        return match param.required {
            true => built.group(ArgGroup::new(group).args([param.flag(), negative]).required(true)),
            false => built,
        };
    }
    if !param.takes_value() {
        return built.arg(arg.action(ArgAction::SetTrue));
    }
    let (name, arg) = match param.kind {
        Kind::Int(min, max) => ("N", arg.value_parser(move |text: &str| within(values::int(text)?, min, max))),
        Kind::Float(min, max) => ("NUMBER", arg.value_parser(move |text: &str| within(values::float(text)?, min, max))),
        Kind::Choice(words) => ("WORD", arg.value_parser(PossibleValuesParser::new(words))),
        Kind::Json(_) => ("JSON", arg),
        Kind::Commas | Kind::Words => ("LIST", arg),
        Kind::Path | Kind::TextFile => ("FILE", arg),
        Kind::Text | Kind::Id | Kind::Flag | Kind::Pair => ("TEXT", arg),
    };
    let arg = arg.value_name(name).allow_hyphen_values(true).required(param.required).action(if param.many {
        ArgAction::Append
    } else {
        ArgAction::Set
    });
    built.arg(match param.default {
        Preset::Int(number) => arg.default_value(number.to_string()),
        Preset::Float(number) => arg.default_value(number.to_string()),
        Preset::Text(text) => arg.default_value(text),
        Preset::None | Preset::Bool(_) => arg,
    })
}

fn within<T: PartialOrd + std::fmt::Display>(number: T, min: T, max: T) -> Result<T, String> {
    if number < min {
        Err(format!("must be at least {min}"))
    } else if number > max {
        Err(format!("must be at most {max}"))
    } else {
        Ok(number)
    }
}

/// On, off or not given; the last one counts.
fn switch(matches: &ArgMatches, on: &str, off: &str) -> Option<bool> {
    match (matches.get_flag(on), matches.get_flag(off)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn given(command: &Command, matches: &ArgMatches) -> Result<Given, String> {
    let mut given = Given::default();
    given.rendering.json = command.form == Form::Json;
    given.rendering.nouns = command.nouns();
    let options = options(command);
    let has = |flag: &str| options.iter().any(|option| option.flag() == flag);
    given.rendering.more = match (has("--all"), has("--after")) {
        (true, _) => "--all reads them",
        (false, true) => "--after goes on behind the cursor that --json shows",
        (false, false) => "--json shows where they begin",
    };
    let mut asked_json = false;
    for param in command.arguments() {
        if let Some(text) = matches.get_one::<String>(param.name) {
            given.args.insert(param.name.to_owned(), text.clone().into());
        }
    }
    for param in options {
        let value = value(&param, matches)?.or(param.default.value());
        match (param.name, value) {
            (JSON, value) => {
                asked_json = value == Some(true.into());
                given.rendering.json = asked_json;
            }
            (RICH, value) => given.rendering.json = value != Some(true.into()),
            (FORMAT, value) => given.rendering.format = value.as_ref().and_then(Value::as_str).and_then(Format::named),
            (JQ, Some(Value::String(text))) => {
                given.rendering.filter = Some(Filter::compile(&text).map_err(|wrong| format!("--jq {wrong}"))?);
            }
            (YES, value) => given.yes = value == Some(true.into()),
            // An option that nobody gave must not be sent: the capability's own default may differ by call.
            (_, Some(Value::Bool(false))) if matches!(param.kind, Kind::Flag) => {}
            (name, Some(value)) => {
                given.args.insert(name.to_owned(), value);
            }
            (_, None) => {}
        }
    }
    if asked_json && given.rendering.format.is_some_and(|format| format != Format::Json) {
        return Err("--json and --format contradict each other; leave one of them out".to_owned());
    }
    Ok(given)
}

fn value(param: &Param, matches: &ArgMatches) -> Result<Option<Value>, String> {
    let flag = param.flag();
    let wrong = |what: String| format!("{flag} {what}");
    let text = || matches.get_one::<String>(flag).map(String::as_str);
    Ok(match param.kind {
        Kind::Flag => matches.get_flag(flag).then_some(Value::Bool(true)),
        Kind::Pair => switch(matches, flag, param.negative().unwrap_or(flag)).map(Value::Bool),
        Kind::Int(..) if param.many => None,
        Kind::Int(..) => matches.get_one::<i64>(flag).copied().map(Value::from),
        Kind::Float(..) => matches.get_one::<f64>(flag).copied().map(Value::from),
        Kind::Json(shape) => match text() {
            Some(text) => values::json(text, shape).map_err(wrong)?,
            None => None,
        },
        Kind::Commas | Kind::Words => match text() {
            Some(text) => {
                let items = values::items(text, matches!(param.kind, Kind::Words));
                if items.is_empty() && param.required {
                    return Err(wrong("must name at least one".to_owned()));
                }
                (!items.is_empty()).then(|| items.into())
            }
            None => None,
        },
        Kind::TextFile => match text() {
            Some(path) => Some(values::text_file(path).map_err(wrong)?.into()),
            None => None,
        },
        Kind::Text | Kind::Id | Kind::Choice(_) | Kind::Path if param.many => {
            let all: Vec<String> = matches.get_many::<String>(flag).into_iter().flatten().cloned().collect();
            (!all.is_empty()).then(|| all.into())
        }
        Kind::Text | Kind::Id | Kind::Choice(_) | Kind::Path => text().map(Value::from),
    })
}

/// Whether completion is to be installed (or only shown), and the shell where one is named (`named_shell`).
pub(crate) fn completion(argv: &[OsString], named_shell: bool) -> Option<(bool, Option<String>)> {
    let mut tokens = argv.iter().skip(1).map_while(|token| token.to_str());
    while let Some(token) = tokens.next().filter(|token| token.starts_with('-')) {
        let (name, attached) = token.split_once('=').map_or((token, None), |(name, value)| (name, Some(value)));
        if name == INSTALL_COMPLETION || name == SHOW_COMPLETION {
            let shell = if named_shell { attached.or_else(|| tokens.next()) } else { None };
            return Some((name == INSTALL_COMPLETION, shell.map(str::to_owned)));
        }
        let (_, takes_value) = GLOBALS.iter().find(|(flag, _)| *flag == name)?;
        if *takes_value && attached.is_none() {
            tokens.next();
        }
    }
    None
}

/// A usage failure of a command as a clap error, so that all look alike.
pub(crate) fn as_misuse(command: &Command, failure: &Failure) -> Option<clap::Error> {
    match failure {
        Failure::Usage(text) => Some(misuse(command, &output::plain(text))),
        _ => None,
    }
}
