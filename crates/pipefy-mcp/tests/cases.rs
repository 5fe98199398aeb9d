//! Replays the recorded cases of `contract/cases` against the real server over stdio.
//!
//! Each case gets its own server process, its own working directory and its own loopback backend that answers from the
//! recording. What must hold is in `contract/cases/README.md`; where the product differs on purpose, the case is named in
//! `cases/exceptions.toml` with the reason.
//!
//! - `CASES=get_card` runs only the cases whose id contains the text.
//! - `CASES_PARALLEL=4` sets how many servers run at once (8).
//! - `PIPEFY_CASES_SERVER=/path/to/server` replays against another server, such as the reference, to check the
//!   harness itself: cases marked `better` are expected to differ there, exceptions are not enforced.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

#[path = "cases/backend.rs"]
mod backend;
#[path = "cases/case.rs"]
mod case;
#[path = "cases/client.rs"]
mod client;
#[path = "cases/document.rs"]
mod document;
#[path = "cases/pattern.rs"]
mod pattern;
#[path = "cases/writes.rs"]
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use backend::Backend;
use case::{Case, Step};
use client::Client;
use pattern::{Absence, Bindings, cut, mismatches};
use writes::check_writes;

/// `cases/exceptions.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// How many cases may still call a tool that the server does not list. Lower it as tools are added.
    not_built_at_most: usize,
    /// Case id to the reason why the product differs.
    #[serde(default)]
    exceptions: BTreeMap<String, String>,
}

/// How a case ended.
enum Verdict {
    Passed,
    NotBuilt(String),
    /// What differed, ready to print.
    Failed(String),
}

#[test]
fn recorded_cases() {
    let foreign = std::env::var_os("PIPEFY_CASES_SERVER").map(PathBuf::from);
    let server = foreign.clone().unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_pipefy-mcp-server")));
    let filter = std::env::var("CASES").unwrap_or_default();
    let parallel = std::env::var("CASES_PARALLEL").ok().and_then(|text| text.parse().ok()).unwrap_or(8_usize);
    let exceptions: Exceptions =
        toml::from_str(include_str!("cases/exceptions.toml")).expect("a valid cases/exceptions.toml");

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let lines: Vec<String> = case::lines();
    let all: Vec<Case> = lines.iter().map(|line| case::parse(line, "", "").unwrap()).collect();
    for id in exceptions.exceptions.keys() {
        assert!(all.iter().any(|case| case.id == *id), "cases/exceptions.toml names the unknown case {id}");
    }
    let chosen: Vec<usize> = (0..all.len()).filter(|index| all[*index].id.contains(&filter)).collect();
    assert!(!chosen.is_empty(), "no case id contains {filter:?}");

    let listed = listed_tools(&server, runtime.handle());
    let verdicts: Mutex<BTreeMap<usize, Verdict>> = Mutex::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..parallel.clamp(1, chosen.len()) {
            scope.spawn(|| {
                while let Some(index) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let case = &all[*index];
                    let verdict = match case.tools().iter().find(|tool| !listed.contains(**tool)) {
                        Some(tool) => Verdict::NotBuilt((*tool).to_owned()),
                        None => match replay(&lines[*index], &server, runtime.handle()) {
                            Ok(()) => Verdict::Passed,
                            Err(difference) => Verdict::Failed(difference),
                        },
                    };
                    verdicts.lock().unwrap().insert(*index, verdict);
                }
            });
        }
    });

    let mut report = Report::default();
    for (index, verdict) in verdicts.into_inner().unwrap() {
        report.add(&all[index], verdict, &exceptions.exceptions, foreign.is_some());
    }
    let whole = filter.is_empty() && foreign.is_none();
    report.finish(whole.then_some(exceptions.not_built_at_most));
}

/// Counts and texts of a run.
#[derive(Default)]
struct Report {
    passed: usize,
    passed_better: usize,
    failed: Vec<String>,
    failed_better: Vec<String>,
    excepted: Vec<String>,
    excepted_but_passes: Vec<String>,
    not_built: usize,
    missing_tools: BTreeSet<String>,
    details: String,
}

impl Report {
    fn add(&mut self, case: &Case, verdict: Verdict, exceptions: &BTreeMap<String, String>, foreign: bool) {
        match (verdict, exceptions.get(&case.id).filter(|_| !foreign)) {
            (Verdict::NotBuilt(tool), _) => {
                self.not_built += 1;
                self.missing_tools.insert(tool);
            }
            (Verdict::Passed, Some(_)) => self.excepted_but_passes.push(case.id.clone()),
            (Verdict::Passed, None) => {
                self.passed += 1;
                self.passed_better += usize::from(case.better.is_some());
            }
            (Verdict::Failed(_), Some(reason)) => self.excepted.push(format!("{}: {reason}", case.id)),
            (Verdict::Failed(difference), None) => {
                let _ = writeln!(self.details, "\n--- {} ({}, {})", case.id, case.tool, case.kind);
                for (label, text) in [("note", &case.note), ("better", &case.better)] {
                    if let Some(text) = text {
                        let _ = writeln!(self.details, "    {label}: {text}");
                    }
                }
                self.details.push_str(&difference);
                let list = if case.better.is_some() { &mut self.failed_better } else { &mut self.failed };
                list.push(case.id.clone());
            }
        }
    }

    /// Prints the run and fails the test where something is wrong.
    fn finish(self, not_built_at_most: Option<usize>) {
        println!("{}", self.details);
        println!("recorded cases: {} passed ({} of them marked better)", self.passed, self.passed_better);
        println!("                {} failed, and {} marked better failed", self.failed.len(), self.failed_better.len());
        println!("                {} differ on purpose (exceptions.toml)", self.excepted.len());
        println!("                {} not built, for want of {} tools", self.not_built, self.missing_tools.len());
        for (title, list) in
            [("failed", &self.failed), ("marked better, failed", &self.failed_better), ("on purpose", &self.excepted)]
        {
            if !list.is_empty() {
                println!("{title}:\n  {}", list.join("\n  "));
            }
        }
        if !self.missing_tools.is_empty() {
            let tools: Vec<_> = self.missing_tools.iter().map(String::as_str).collect();
            println!("tools not listed yet: {}", tools.join(" "));
        }
        assert!(
            self.excepted_but_passes.is_empty(),
            "these pass, so take them out of cases/exceptions.toml: {:?}",
            self.excepted_but_passes
        );
        assert!(
            self.failed.is_empty() && self.failed_better.is_empty(),
            "{} recorded cases failed",
            self.failed.len() + self.failed_better.len()
        );
        if let Some(most) = not_built_at_most {
            assert!(self.not_built <= most, "{} cases are not built, at most {most} may be", self.not_built);
            if self.not_built < most {
                println!("cases/exceptions.toml: lower not_built_at_most from {most} to {}", self.not_built);
            }
        }
    }
}

/// The tools that the server lists by default, and the ones it adds in its discovery mode.
fn listed_tools(server: &Path, runtime: &tokio::runtime::Handle) -> BTreeSet<String> {
    let backend = Backend::start(runtime);
    let folder = tempfile::tempdir().unwrap();
    let mut listed = BTreeSet::new();
    for toolsets in [None, Some("power")] {
        let mut environment = environment(folder.path(), &backend.base);
        environment.extend(toolsets.map(|toolsets| ("PIPEFY_MCP_TOOLSETS".to_owned(), toolsets.to_owned())));
        let mut client = Client::start(server, folder.path(), &environment, false)
            .unwrap_or_else(|error| panic!("{} does not serve: {error}", server.display()));
        let answer = client.request("tools/list", Some(json!({}))).unwrap();
        let tools = answer.pointer("/result/tools").and_then(Value::as_array);
        let tools = tools.unwrap_or_else(|| panic!("tools/list answered {answer}"));
        listed.extend(tools.iter().filter_map(|tool| tool.get("name").and_then(Value::as_str)).map(str::to_owned));
    }
    listed
}

/// The whole environment of a server: loopback addresses, one bearer, and nothing of the machine's.
fn environment(folder: &Path, base: &str) -> Vec<(String, String)> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("HOME", text(folder.join("home"))),
        ("PIPEFY_CONFIG_FILE", text(folder.join("home/absent.toml"))),
        ("PIPEFY_BASE_URL", base.to_owned()),
        ("PIPEFY_IPAAS_URL", base.to_owned()),
        ("PIPEFY_ALLOW_INSECURE_URLS", "true".to_owned()),
        ("PIPEFY_DISABLE_STORED_SESSION", "true".to_owned()),
        ("PIPEFY_TOKEN", backend::TOKEN.to_owned()),
        // What the cases about references to the environment refer to.
        ("PIPEFY_IPAAS_CONNECTION_TEST_KEY", "canary-env-90bc".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Runs one case on a server of its own; the error is what differed.
fn replay(line: &str, server: &Path, runtime: &tokio::runtime::Handle) -> Result<(), String> {
    let backend = Backend::start(runtime);
    let case = case::parse(line, &backend.base, &backend.base)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let work = folder.path().join("work");
    for needed in [&work, &folder.path().join("home")] {
        std::fs::create_dir(needed).map_err(|error| error.to_string())?;
    }
    for (name, file) in &case.files {
        file.write(&work, name);
    }
    let mut environment = environment(folder.path(), &backend.base);
    environment.extend(case.env.iter().map(|(name, value)| (name.clone(), value.clone())));

    let mut client = Client::start(server, &work, &environment, case.elicitation)?;
    let mut token = "forged-token".to_owned();
    let mut differences = String::new();
    for (index, step) in case.steps.iter().enumerate() {
        backend.begin(step.exchanges.clone());
        client.prepare(&step.answers);
        let (method, params) = request(&case, step, &token);
        let sent = params.clone().unwrap_or_default();
        let answer = match client.request(&method, params) {
            Ok(answer) => answer,
            Err(error) => {
                return Err(format!("{differences}  step {}: {error}\n{}", index + 1, cut(&client.stop(), 4000)));
            }
        };
        let log = backend.end();
        let mut bindings = Bindings::new();
        let mut found = check_answer(&step.result, &answer, &mut bindings);
        found.extend(check_writes(step, &log, &mut bindings));
        found.extend(check_forms(step, client.asked()));
        found.extend(log.problems.iter().cloned());
        if case.better.is_none() {
            found.extend(log.missing_requests().iter().map(|name| format!("never sent: {name}")));
        }
        if let Some(given) = bindings.remove("token") {
            token = given;
        }
        if !found.is_empty() {
            let _ = writeln!(differences, "  step {}: {method} {}", index + 1, cut(&sent.to_string(), 600));
            for difference in found {
                let _ = writeln!(differences, "    ! {difference}");
            }
            let _ = writeln!(differences, "    expected {}", cut(&wanted(&step.result), 1500));
            let _ = writeln!(differences, "    got      {}", cut(&seen(&answer), 1500));
            for request in &log.requests {
                let _ = writeln!(differences, "    sent     {}", cut(request, 600));
            }
        }
    }
    let errors = client.stop();
    for secret in [backend::TOKEN, "canary-"] {
        if errors.contains(secret) {
            let _ = writeln!(differences, "  a secret ({secret}) is on standard error");
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences) }
}

/// Method and params of a step. `$token` is the token given last, or a forged one.
fn request(case: &Case, step: &Step, token: &str) -> (String, Option<Value>) {
    let args = tokens(&step.args, token);
    if let Some(method) = &step.method {
        return (method.clone(), Some(args));
    }
    let mut params =
        if step.raw { args } else { json!({"name": step.tool.as_ref().unwrap_or(&case.tool), "arguments": args}) };
    if step.no_arguments
        && let Some(params) = params.as_object_mut()
    {
        params.remove("arguments");
    }
    ("tools/call".to_owned(), Some(params))
}

fn tokens(value: &Value, token: &str) -> Value {
    match value {
        Value::String(text) if text == "$token" => json!(token),
        Value::String(text) if text == "$code_verifier" => {
            json!("recorded-verifier-0123456789-0123456789-abcdef")
        }
        Value::Array(items) => items.iter().map(|item| tokens(item, token)).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), tokens(value, token))).collect())
        }
        _ => value.clone(),
    }
}

/// The text of the first content block.
fn text_of(answer: &Value) -> Option<&str> {
    answer.pointer("/result/content/0/text").and_then(Value::as_str)
}

fn check_answer(expected: &case::Expected, answer: &Value, bindings: &mut Bindings) -> Vec<String> {
    if let Some(code) = expected.rpc_error {
        let got = answer.pointer("/error/code").and_then(Value::as_i64);
        return if got == Some(code) {
            vec![]
        } else {
            vec![format!("expected the JSON-RPC error {code}, got {got:?}")]
        };
    }
    let Some(result) = answer.get("result") else {
        return vec![format!("a JSON-RPC error: {}", cut(&answer.to_string(), 600))];
    };
    if let Some(pattern) = &expected.rpc_result {
        return mismatches(pattern, result, Absence::Strict, bindings);
    }
    let mut found = Vec::new();
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    if expected.is_error.is_some_and(|expected| expected != is_error) {
        found.push(format!("isError is {is_error}"));
    }
    let Some(text) = text_of(answer) else {
        found.push("the result has no text content".to_owned());
        return found;
    };
    if let Some(pattern) = &expected.text {
        found.extend(mismatches(pattern, &json!(text), Absence::Strict, bindings));
    }
    if let Some(pattern) = &expected.json {
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            found.push("the text content is not JSON".to_owned());
            return found;
        };
        found.extend(mismatches(pattern, &value, Absence::Strict, bindings));
        match result.get("structuredContent") {
            Some(structured) if *structured != value && expected.structured => {
                found.push(format!("structuredContent differs from the text: {}", pattern::short(structured)));
            }
            None if expected.structured => found.push("no structuredContent".to_owned()),
            _ => {}
        }
    }
    found
}

/// Forms shown by elicitation. The fields, their types and choices and which are required must agree; titles and
/// descriptions are the server's own.
fn check_forms(step: &Step, shown: &[Value]) -> Vec<String> {
    let expected = step.asked.as_deref().unwrap_or_default();
    if expected.len() != shown.len() {
        return vec![format!("{} forms were shown, {} expected", shown.len(), expected.len())];
    }
    let facts = |form: &Value| {
        let schema = form.get("requestedSchema").unwrap_or(&Value::Null);
        let properties: BTreeMap<&String, Vec<Value>> = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                (name, ["type", "enum", "format"].map(|key| property.get(key).cloned().unwrap_or_default()).into())
            })
            .collect();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: BTreeSet<String> = required.map(Value::to_string).collect();
        format!("{properties:?} required {required:?}")
    };
    let mut found = Vec::new();
    for (expected, shown) in expected.iter().zip(shown) {
        if facts(expected) != facts(shown) {
            found.push(format!("the form is {}, expected {}", facts(shown), facts(expected)));
        }
        if shown.get("message").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
            found.push("the form has no message".to_owned());
        }
    }
    found
}

fn wanted(expected: &case::Expected) -> String {
    let pattern = expected.json.as_ref().or(expected.text.as_ref()).or(expected.rpc_result.as_ref());
    match (pattern, expected.rpc_error) {
        (_, Some(code)) => format!("JSON-RPC error {code}"),
        (Some(pattern), _) => pattern.to_string(),
        (None, None) => format!("isError {:?}", expected.is_error),
    }
}

fn seen(answer: &Value) -> String {
    let compact =
        |text: &str| serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| value.to_string());
    text_of(answer).map_or_else(|| answer.to_string(), compact)
}
