//! The recorded cases of `contract/cases` through the command line, wherever a tool has a command.
//!
//! The arguments of a case become a command line by the golden tree of commands, which says what each option becomes. Checked are
//! the exit code, the changes that were sent, what standard output and standard error hold, and that every value of Pipefy's
//! that the tool shows is shown. Where a command does otherwise than its tool, `cases/exceptions.toml` says so and why.
//!
//! - `CASES=get_card` runs only the cases whose id contains the text.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

#[path = "../../pipefy-mcp/tests/cases/backend.rs"]
mod backend;
#[path = "../../pipefy-mcp/tests/cases/case.rs"]
mod case;
#[path = "../../pipefy-mcp/tests/cases/document.rs"]
mod document;
#[path = "../../pipefy-mcp/tests/cases/pattern.rs"]
mod pattern;
#[path = "../../pipefy-mcp/tests/cases/writes.rs"]
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;

use backend::{Backend, Log};
use case::{Case, Step};
use pattern::{Bindings, cut};
use writes::check_writes;

const TREE: &str =
    include_str!("../src/snapshots/pipefy__contract_tests__the_tree_of_commands_changes_on_purpose_only.snap");

/// Cases that must be playable; fewer means that commands lost options or that cases are left out in silence.
const AT_LEAST: usize = 555;

/// How many run at a time.
const AT_ONCE: usize = 8;

/// `cases/exceptions.toml`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// Commands whose cases are not played, and why.
    commands: BTreeMap<String, String>,
    /// Cases that end otherwise, and why.
    cases: BTreeMap<String, String>,
}

/// A row of the golden tree.
#[derive(Deserialize)]
struct Row {
    tools: Vec<String>,
    consent: String,
    takes: Vec<Takes>,
}

/// What a row takes.
#[derive(Deserialize)]
struct Takes {
    name: String,
    kind: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    many: bool,
    #[serde(default)]
    becomes: Option<String>,
}

impl Takes {
    fn is_positional(&self) -> bool {
        !self.name.starts_with('-')
    }

    fn flag(&self) -> &str {
        self.name.split(' ').next().unwrap()
    }

    /// The words that say `value`; `None` where a command line cannot say it.
    fn words(&self, value: &Value, folder: &Path) -> Option<Vec<String>> {
        let scalar = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) if number.is_i64() => Some(number.to_string()),
            _ => None,
        };
        let text = match (self.kind.as_str(), value) {
            (_, Value::Null) => return Some(Vec::new()),
            ("flag", Value::Bool(true)) => return Some(vec![self.flag().to_owned()]),
            ("flag", Value::Bool(false)) => return Some(Vec::new()),
            ("pair", Value::Bool(on)) => {
                let (positive, negative) = self.name.split_once(" / ").unwrap();
                let positive = positive.split(' ').next().unwrap();
                return Some(vec![if *on { positive } else { negative }.to_owned()]);
            }
            ("flag" | "pair", _) => return None,
            (kind, Value::Array(items)) if kind.starts_with("items") => {
                items.iter().map(scalar).collect::<Option<Vec<_>>>()?.join(",")
            }
            (_, Value::Array(items)) if self.many => {
                let items = items.iter().map(scalar).collect::<Option<Vec<_>>>()?;
                return Some(items.into_iter().flat_map(|item| [self.flag().to_owned(), item]).collect());
            }
            ("json value", value) => value.to_string(),
            (kind, value) if kind.starts_with("json") => match value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            },
            ("path of a text file", Value::String(text)) => {
                let path = folder.join("given.txt");
                std::fs::write(&path, text).unwrap();
                path.display().to_string()
            }
            (_, value) => scalar(value)?,
        };
        Some(if self.is_positional() { vec![text] } else { vec![self.flag().to_owned(), text] })
    }
}

fn tree() -> BTreeMap<String, Row> {
    serde_json::from_str(TREE.splitn(3, "---\n").nth(2).unwrap()).unwrap()
}

/// The command line of a call; why there is none.
fn line(path: &str, row: &Row, args: &Value, folder: &Path) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    let mut positional = Vec::new();
    let empty = serde_json::Map::new();
    let args = args.as_object().unwrap_or(&empty);
    for takes in row.takes.iter().filter(|takes| takes.is_positional()) {
        match args.get(takes.becomes.as_deref().unwrap_or_default()) {
            Some(value) => {
                let words = takes.words(value, folder).ok_or_else(|| format!("{} cannot be said", takes.name))?;
                positional.extend(words);
            }
            None => break,
        }
    }
    for (name, value) in args {
        let mut those = row.takes.iter().filter(|takes| takes.becomes.as_deref() == Some(name));
        match (those.next(), name.as_str()) {
            (Some(takes), _) if takes.is_positional() => {}
            (Some(takes), _) => {
                options.extend(takes.words(value, folder).ok_or_else(|| format!("{name} cannot be said"))?);
            }
            (None, "confirm" | "confirmation_token" | "debug") => {}
            (None, _) => return Err(format!("no option becomes {name}")),
        }
    }
    if row.takes.iter().any(|takes| takes.name == "--json -j") {
        options.push("--json".to_owned());
    }
    let words = path.split(' ').map(str::to_owned);
    Ok(words.chain(options).chain(["--".to_owned()]).chain(positional).collect())
}

/// The command of a case, and the line of each of its steps.
fn command_of<'t>(
    tree: &'t BTreeMap<String, Row>,
    case: &Case,
    folder: &Path,
) -> Result<(&'t str, &'t Row, Vec<Vec<String>>), String> {
    let mut why = "the tool has no command".to_owned();
    for (path, row) in tree.iter().filter(|(_, row)| row.tools.contains(&case.tool)) {
        // What a command needs beside the arguments of the tool, no case can give.
        let foreign = row.takes.iter().find(|takes| {
            takes.required && {
                let given = |step: &Step| step.args.get(takes.becomes.as_deref().unwrap_or_default()).is_some();
                !case.steps.iter().any(given) && case.kind != "validation"
            }
        });
        if let Some(takes) = foreign {
            why = format!("{path} needs {}", takes.name);
            continue;
        }
        match case.steps.iter().map(|step| line(path, row, &step.args, folder)).collect::<Result<Vec<_>, _>>() {
            Ok(lines) => return Ok((path, row, lines)),
            Err(reason) => why = format!("{path}: {reason}"),
        }
    }
    Err(why)
}

fn run(args: &[String], folder: &Path, backend: &Backend, more: &BTreeMap<String, String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipefy"));
    command.args(args).current_dir(folder.join("work")).env_clear();
    command.env("HOME", folder.join("home")).env("PIPEFY_KEYCHAIN_BACKEND", "file");
    command.env("PIPEFY_BASE_URL", &backend.base).env("PIPEFY_IPAAS_URL", &backend.base);
    command.env("PIPEFY_ALLOW_INSECURE_URLS", "true").env("PIPEFY_DISABLE_STORED_SESSION", "true");
    command.env("PIPEFY_TOKEN", backend::TOKEN).envs(more);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Whether the command must fail: where the tool does, and where what it answers is no success, not valid or nothing at all.
/// `None` where the recording leaves it open.
fn fails(step: &Step) -> Option<bool> {
    let Some(json) = step.result.json.as_ref() else { return Some(step.result.is_error == Some(true)) };
    if json.get("$one_of").is_some() {
        return None;
    }
    let is = |value: &Value, key: &str| value.get(key) == Some(&Value::Bool(false));
    let parts = json.as_object().into_iter().flat_map(serde_json::Map::values);
    let data = json.get("data").unwrap_or(json).as_object().cloned().unwrap_or_default();
    let mut data = data.iter().filter(|(key, _)| !["message", "success"].contains(&key.as_str())).peekable();
    let nothing = data.peek().is_some() && data.all(|(_, value)| value.is_null());
    let refused = is(json, "success") || is(json, "valid") || parts.into_iter().any(|part| is(part, "success"));
    Some(step.result.is_error == Some(true) || json.get("error").is_some() || refused || nothing)
}

/// Whether the tool asks for a confirmation.
fn asks(step: &Step) -> bool {
    step.result
        .json
        .as_ref()
        .is_some_and(|json| ["requires_confirmation", "confirmation_token"].iter().any(|key| json.get(*key).is_some()))
}

/// Every text and number in a value, as text.
fn scalars(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => _ = into.insert(text.clone()),
        Value::Number(number) => _ = into.insert(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| scalars(item, into)),
        Value::Object(map) => map.values().for_each(|item| scalars(item, into)),
        _ => {}
    }
}

/// What the tool shows of Pipefy's answers and the command does not.
fn hidden(step: &Step, shown: &Value) -> Vec<String> {
    let (mut told, mut answered, mut seen) = Default::default();
    if let Some(json) = &step.result.json {
        scalars(json, &mut told);
    }
    step.exchanges.iter().for_each(|exchange| scalars(&exchange.response, &mut answered));
    scalars(shown, &mut seen);
    let text = shown.to_string();
    told.intersection(&answered)
        .filter(|value| !seen.contains(*value) && !text.contains(value.as_str()))
        .cloned()
        .collect()
}

fn differences(step: &Step, row: &Row, log: &Log, output: &Output) -> Vec<String> {
    let (code, stdout, stderr) = (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(what);
    for secret in [backend::TOKEN, "canary-"] {
        if stdout.contains(secret) || stderr.contains(secret) {
            wrong(format!("a secret ({secret}) is shown"));
        }
    }
    if stderr.contains("panicked") {
        wrong("it panicked".to_owned());
    }
    for problem in check_writes(step, log, &mut Bindings::new()).into_iter().chain(log.problems.iter().cloned()) {
        wrong(problem);
    }
    let asked = asks(step) && row.consent != "none";
    if asked || fails(step).unwrap_or(code != 0) {
        if !(if asked { code == 2 } else { code == 1 || code == 2 }) {
            wrong(format!("exit code {code}"));
        }
        if stderr.trim().is_empty() && stdout.trim().is_empty() {
            wrong("it fails without a word".to_owned());
        }
        return found;
    }
    if code != 0 {
        wrong(format!("exit code {code}"));
        return found;
    }
    match serde_json::from_str::<Value>(&stdout) {
        Ok(shown) => {
            let hidden = hidden(step, &shown);
            if !hidden.is_empty() {
                wrong(format!("not shown: {}", cut(&hidden.join(", "), 400)));
            }
        }
        Err(error) => wrong(format!("standard output is no JSON: {error}")),
    }
    if !stdout.is_ascii() || !stdout.ends_with('\n') {
        wrong("standard output is not one ASCII document".to_owned());
    }
    found
}

/// Plays a case; what differed, or why it cannot be played.
fn play(
    text: &str,
    tree: &BTreeMap<String, Row>,
    runtime: &tokio::runtime::Handle,
    skipped: &BTreeMap<String, String>,
) -> Result<String, String> {
    let backend = Backend::start(runtime);
    let case = case::parse(text, &backend.base, &backend.base)?;
    if case.elicitation || case.steps.iter().any(|step| step.method.is_some() || step.raw || step.no_arguments) {
        return Err("it is about the protocol".to_owned());
    }
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    for (name, file) in &case.files {
        file.write(&work, name);
    }
    let (path, row, lines) = command_of(tree, &case, folder.path())?;
    if skipped.contains_key(path) {
        return Err(format!("{path} is excepted"));
    }
    let mut report = String::new();
    for (step, mut line) in case.steps.iter().zip(lines) {
        let confirmed = step.args.get("confirm") == Some(&Value::Bool(true));
        if confirmed && asks(step) {
            // A token that somebody made up has no counterpart on a command line.
            continue;
        }
        if confirmed && row.consent != "none" {
            line.insert(path.split(' ').count(), "--yes".to_owned());
        }
        backend.begin(step.exchanges.clone());
        let output = run(&line, folder.path(), &backend, &case.env);
        let log = backend.end();
        let found = differences(step, row, &log, &output);
        if !found.is_empty() {
            let _ = writeln!(report, "  $ pipefy {}", cut(&line.join(" "), 400));
            for difference in found {
                let _ = writeln!(report, "    ! {difference}");
            }
            let expected = step.result.json.as_ref().map(Value::to_string).unwrap_or_default();
            let _ = writeln!(report, "    expected {}", cut(&expected, 500));
            let _ = writeln!(report, "    stdout   {}", cut(&String::from_utf8_lossy(&output.stdout), 500));
            let _ = writeln!(report, "    stderr   {}", cut(&String::from_utf8_lossy(&output.stderr), 500));
            for request in &log.requests {
                let _ = writeln!(report, "    sent     {}", cut(request, 300));
            }
        }
    }
    Ok(report)
}

/// Whether an option or argument is an id.
fn is_id(takes: &Takes) -> bool {
    let name = takes.becomes.as_deref().unwrap_or_default();
    matches!(takes.kind.as_str(), "text" | "id") && !takes.many && (name.ends_with("_id") || name.ends_with("uuid"))
}

/// A command line that has what must be there; the id in question is `id`.
fn with_id(path: &str, row: &Row, id: &Takes, value: &str) -> Vec<String> {
    let (mut options, mut positional) = (vec!["--yes".to_owned()], Vec::new());
    if row.consent == "none" || path == "pipe apply" {
        options.clear();
    }
    for takes in row.takes.iter().filter(|takes| takes.required || takes.name == id.name) {
        let dummy = match takes.kind.as_str() {
            kind if kind.starts_with("json array") => "[{}]".to_owned(),
            kind if kind.starts_with("json") => "{\"a\": 1}".to_owned(),
            kind if kind.starts_with("one of ") => kind.split(' ').nth(2).unwrap().to_owned(),
            _ => "1".to_owned(),
        };
        let dummy = if takes.name == id.name { value.to_owned() } else { dummy };
        match takes.is_positional() {
            true => positional.push(dummy),
            false => options.extend([takes.flag().to_owned(), dummy]),
        }
    }
    let words = path.split(' ').map(str::to_owned);
    words.chain(options).chain(["--".to_owned()]).chain(positional).collect()
}

/// No blank id is ever sent: it is refused before a credential is looked for.
#[test]
fn a_blank_id_is_refused_by_every_command() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    for (path, row) in &tree {
        // The one id that may be blank, which is then none.
        let may = |id: &Takes| path == "portal element create" && id.name == "--element-id";
        for id in row.takes.iter().filter(|takes| is_id(takes) && !may(takes)) {
            lines.push((with_id(path, row, id, " "), with_id(path, row, id, "1")));
        }
    }
    let (wrong, meant): (Mutex<Vec<String>>, AtomicUsize) = Default::default();
    let next = AtomicUsize::new(0);
    let bare = |args: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipefy"));
        command.args(args).current_dir(folder.path()).env_clear().env("HOME", folder.path());
        command.env("PIPEFY_KEYCHAIN_BACKEND", "file").stdin(Stdio::null()).output().unwrap()
    };
    let wants_credential = |output: &Output| String::from_utf8_lossy(&output.stderr).contains("Missing Pipefy auth");
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((blank, full)) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let output = bare(blank);
                    if output.status.code() != Some(2) || wants_credential(&output) || !output.stdout.is_empty() {
                        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                        wrong.lock().unwrap().push(format!("{}: {stderr}", blank.join(" ")));
                    }
                    // That nothing else was wrong with the line.
                    meant.fetch_add(usize::from(wants_credential(&bare(full))), Ordering::Relaxed);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let meant = meant.into_inner();
    assert!(meant * 3 >= lines.len() * 2, "only {meant} of {} lines are right but for the id", lines.len());
}

#[test]
fn recorded_cases_through_the_command_line() {
    let exceptions: Exceptions = toml::from_str(include_str!("cases/exceptions.toml")).unwrap();
    let filter = std::env::var("CASES").unwrap_or_default();
    let tree = tree();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let lines = case::lines();
    let ids: Vec<String> = lines.iter().map(|line| case::parse(line, "", "").unwrap().id).collect();
    for id in exceptions.cases.keys() {
        assert!(ids.contains(id), "cases/exceptions.toml names the unknown case {id}");
    }
    for path in exceptions.commands.keys() {
        assert!(tree.contains_key(path), "cases/exceptions.toml names the unknown command {path}");
    }
    let chosen: Vec<usize> = (0..ids.len()).filter(|at| ids[*at].contains(&filter)).collect();
    let played: Mutex<BTreeMap<usize, Result<String, String>>> = Mutex::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(at) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = play(&lines[*at], &tree, runtime.handle(), &exceptions.commands);
                    played.lock().unwrap().insert(*at, result);
                }
            });
        }
    });
    let (mut passed, mut failed, mut idle) = (0, Vec::new(), Vec::new());
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for (at, result) in played.into_inner().unwrap() {
        let id = &ids[at];
        match (result, exceptions.cases.contains_key(id)) {
            (Err(why), _) => *left_out.entry(why).or_default() += 1,
            (Ok(report), false) if report.is_empty() => passed += 1,
            (Ok(report), false) => failed.push(format!("--- {id}\n{report}")),
            (Ok(report), true) if report.is_empty() => idle.push(id.clone()),
            (Ok(_), true) => passed += 1,
        }
    }
    println!("{}", failed.join("\n"));
    println!("{passed} cases through the command line, {} failed, not played:", failed.len());
    for (why, count) in &left_out {
        println!("  {count} {why}");
    }
    assert!(failed.is_empty(), "{} cases differ", failed.len());
    assert!(idle.is_empty(), "these pass, so take them out of cases/exceptions.toml: {idle:?}");
    assert!(!filter.is_empty() || passed >= AT_LEAST, "only {passed} cases were played");
}
