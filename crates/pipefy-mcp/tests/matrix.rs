//! Proofs over every tool of the catalogue. Each is one test that takes its calls from `matrix/samples.rs`, so a new tool is
//! covered by having a recorded case or a row in `matrix/samples.jsonl`.
//!
//! Tools that differ with reason are listed in `matrix/exceptions.toml`; a line that is not needed any more fails.
//! `MATRIX=get_card` plays only the tools whose name contains the text (exceptions are then not checked).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

#[allow(dead_code)]
#[path = "cases/backend.rs"]
mod backend;
#[allow(dead_code)]
#[path = "cases/case.rs"]
mod case;
#[path = "cases/document.rs"]
mod document;
#[path = "../../pipefy/tests/mock/mod.rs"]
mod mock;
#[path = "matrix/outputs.rs"]
mod outputs;
#[allow(dead_code)]
#[path = "cases/pattern.rs"]
mod pattern;
#[path = "matrix/plans.rs"]
mod plans;
#[path = "matrix/reading.rs"]
mod reading;
#[path = "matrix/samples.rs"]
mod samples;
#[path = "matrix/sandbox.rs"]
mod sandbox;
#[path = "matrix/stage.rs"]
mod stage;
#[path = "matrix/values.rs"]
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{LazyLock, Mutex, OnceLock};

use futures_util::{StreamExt as _, stream};
use pipefy_tools::{Catalogue, Class};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use samples::{CANARY, MARK, Sample, User};
use stage::{At, Fault, Play, Played, Stage};

/// Plays at a time.
const AT_A_TIME: usize = 48;

/// A sample for each tool, made once.
static SAMPLES: LazyLock<BTreeMap<String, Sample>> = LazyLock::new(|| samples::all(folder()));

/// Files that samples upload.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder")).path()
}

/// The samples to play.
fn chosen() -> Vec<&'static Sample> {
    let filter = std::env::var("MATRIX").unwrap_or_default();
    SAMPLES.values().filter(|sample| sample.tool.contains(&filter) && is_a_tool(&sample.tool)).collect()
}

/// `matrix/exceptions.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// How many tools may still need something that the sandbox does not serve. Lower it as the sandbox grows.
    not_served_at_most: usize,
    exception: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    proof: String,
    tool: String,
    /// Covers only problems whose text contains this.
    #[serde(default)]
    only: String,
    reason: String,
}

fn exceptions() -> Exceptions {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/exceptions.toml");
    toml::from_str(&std::fs::read_to_string(path).expect("exceptions.toml")).expect("a valid exceptions.toml")
}

/// What does not hold, by tool.
struct Problems {
    proof: &'static str,
    found: Vec<(String, String)>,
}

impl Problems {
    fn of(proof: &'static str) -> Self {
        Self { proof, found: Vec::new() }
    }

    fn add(&mut self, tool: &str, what: impl Into<String>) {
        self.found.push((tool.to_owned(), what.into()));
    }

    fn expect(&mut self, holds: bool, tool: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(tool, what());
        }
    }

    /// Fails on what no exception covers, and on exceptions that cover nothing.
    fn finish(self) {
        if let Some(verdict) = self.verdict() {
            panic!("{verdict}");
        }
    }

    /// What `finish` would fail with.
    fn verdict(self) -> Option<String> {
        let all = exceptions();
        let rows: Vec<&Exception> = all.exception.iter().filter(|row| row.proof == self.proof).collect();
        for row in &rows {
            assert!(row.reason.len() > 20, "an exception needs a reason: {}", row.tool);
        }
        let covers = |row: &Exception, tool: &str, what: &str| row.tool == tool && what.contains(&row.only);
        let open: Vec<String> = self
            .found
            .iter()
            .filter(|(tool, what)| !rows.iter().any(|row| covers(row, tool, what)))
            .map(|(tool, what)| format!("  {tool}: {}", pattern::cut(what, 700)))
            .collect();
        if !open.is_empty() {
            return Some(format!("{}: {} problems:\n{}", self.proof, open.len(), open.join("\n")));
        }
        let idle = |row: &&&Exception| !self.found.iter().any(|(tool, what)| covers(row, tool, what));
        let stale: Vec<&str> = rows.iter().filter(idle).map(|row| row.tool.as_str()).collect();
        let whole = std::env::var("MATRIX").is_err();
        (whole && !stale.is_empty())
            .then(|| format!("exceptions.toml excuses {stale:?} from {} for nothing", self.proof))
    }
}

/// Log lines of the whole process: nothing secret may ever be in them.
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a stage whose log lines are kept.
async fn open() -> Stage {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false).with_writer(|| Lines).init();
    });
    Stage::open().await
}

/// The lines of the log that hold a secret.
fn leaks() -> Vec<String> {
    let lines = LINES.lock().unwrap();
    String::from_utf8_lossy(&lines).lines().filter(|line| line.contains(CANARY)).take(5).map(str::to_owned).collect()
}

/// Plays all of them, some at a time, and gives the results in order.
async fn play_all<'a>(stage: &Stage, plays: Vec<Play<'a>>) -> Vec<(Play<'a>, Played)> {
    let running = plays.into_iter().map(|play| async {
        let played = stage.play(play.clone()).await;
        (play, played)
    });
    stream::iter(running).buffered(AT_A_TIME).collect().await
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// Whether it is a capability; the tools that only find others are not.
fn is_a_tool(name: &str) -> bool {
    CATALOGUE.get(name).is_some()
}

fn class(tool: &str) -> Class {
    CATALOGUE.get(tool).unwrap_or_else(|| panic!("no tool {tool}")).op().class
}

#[test]
fn every_tool_has_a_sample() {
    let mut problems = Problems::of("sample");
    for tool in Catalogue::new().tools() {
        problems.expect(SAMPLES.contains_key(tool.name()), tool.name(), || "has no sample".to_owned());
    }
    problems.finish();
}

/// The sample does what it should; text and structured content agree, results are objects, nothing secret shows
/// anywhere; what each tool asks of Pipefy is what `matrix/requests.json` says, from which its documentation is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_succeed_and_say_what_they_ask() {
    let stage = open().await;
    let mut problems = Problems::of("success");
    let mut asked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut shapes: BTreeMap<String, Value> = BTreeMap::new();
    for (play, played) in play_all(&stage, chosen().into_iter().map(Play::of).collect()).await {
        let tool = &play.sample.tool;
        problems.expect(played.succeeded(), tool, || played.reply.to_string());
        played.problems.iter().for_each(|problem| problems.add(tool, problem));
        asked.entry(tool.clone()).or_default().extend(played.sent.iter().map(stage::Sent::place));
        shapes.insert(tool.clone(), outline(&played.reply, 0));
    }
    for line in leaks() {
        problems.add("the log", line);
    }
    problems.finish();
    if std::env::var("MATRIX").is_ok() {
        return;
    }
    let recorded = samples::recorded(folder());
    let known: Vec<Play<'_>> = recorded
        .iter()
        .map(|(sample, _)| sample)
        .filter(|sample| stage.catalogue.get(&sample.tool).is_some())
        .map(Play::of)
        .collect();
    for (play, played) in play_all(&stage, known).await {
        asked.entry(play.sample.tool.clone()).or_default().extend(played.sent.iter().map(stage::Sent::place));
    }
    // Raw GraphQL asks what its caller writes; the samples' requests are examples.
    let page: Map<String, Value> = asked
        .into_iter()
        .map(|(tool, places)| {
            let shape = shapes.remove(&tool);
            (tool, json!({"asks": places, "result": shape}))
        })
        .collect();
    let lines: Vec<String> = page.iter().map(|(tool, facts)| format!("{}: {facts}", json!(tool))).collect();
    let page = format!("{{\n{}\n}}\n", lines.join(",\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/requests.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "requests.json is out of date: UPDATE_DOCS=1 cargo test -p pipefy-mcp --test matrix samples"
    );
}

/// `docs/tools/meta.md`: the tools of the power profile, made from what the server lists.
#[test]
fn the_page_of_the_discovery_tools_is_current() {
    let selection = pipefy_mcp::catalogue::Selection::parse(Some("power")).unwrap();
    let exposure = pipefy_mcp::catalogue::Exposure::new(&selection, false, false);
    let mut page = "# Tools that find and run tools\n\n<!-- Made from the definitions; do not edit. UPDATE_DOCS=1 cargo test -p \
                    pipefy-mcp --test matrix discovery rewrites it. -->\n\nWith the toolset `power` a server lists raw GraphQL \
                    and these four instead of every tool.\n"
        .to_owned();
    for tool in exposure.listed().iter().rev().take(4).rev() {
        page.push_str(&format!("\n## `{}`\n\n{}\n", tool.name, tool.description.as_deref().unwrap_or_default()));
        for (name, schema) in tool.input_schema["properties"].as_object().unwrap() {
            let required = tool.input_schema.get("required").and_then(Value::as_array);
            let required = required.is_some_and(|list| list.iter().any(|wanted| wanted == name));
            let kind = schema["type"].as_str().unwrap_or("object");
            page.push_str(&format!("\n- `{name}`: {kind}{}\n", if required { ", required" } else { "" }));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools/meta.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "meta.md is out of date: UPDATE_DOCS=1 cargo test -p pipefy-mcp --test matrix discovery");
}

/// Every client pays for the whole list in every conversation.
#[test]
fn the_list_of_tools_stays_small() {
    let exposure = pipefy_mcp::catalogue::Exposure::new(&Default::default(), false, false);
    let size = serde_json::to_vec(&json!({ "tools": &exposure.listed()[..] })).unwrap().len();
    println!("{size} bytes");
    for tool in exposure.listed().iter() {
        let size = serde_json::to_vec(tool).unwrap().len();
        assert!(size <= 4_000, "{} has {size} bytes, 4,000 are the limit of one tool", tool.name);
    }
    assert!(size <= 127_500, "the list of tools has {size} bytes, 127,500 are the limit");
}

/// Keys and types of a result, three levels deep.
fn outline(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(map) if depth < 4 => {
            map.iter().map(|(key, value)| (key.clone(), outline(value, depth + 1))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => match list.first() {
            Some(first) if depth < 4 => json!([outline(first, depth + 1)]),
            _ => json!([]),
        },
        Value::Object(_) => json!({}),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("true or false"),
        Value::Null => json!("null"),
    }
}

/// Two people use one process at the same time: each request carries the bearer of its own call, answers do not mix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_at_a_time_do_not_mix() {
    let stage = open().await;
    let mut problems = Problems::of("two people");
    let mut marked = 0;
    for sample in chosen() {
        if sample.uses_ipaas() {
            problems.add(&sample.tool, "its second system does not say whose request it gets");
            continue;
        }
        let toolbox = stage.toolbox();
        let alone = stage.play(Play::of(sample)).await;
        let ben_alone = stage.play(Play::of(sample).by(User::Ben)).await;
        marked += usize::from(alone.reply != ben_alone.reply);
        for _ in 0..3 {
            let (ana, ben) = tokio::join!(
                stage.play_in(&toolbox, Play::of(sample)),
                stage.play_in(&toolbox, Play::of(sample).by(User::Ben)),
            );
            for (who, together, alone) in [("Ana", &ana, &alone), ("Ben", &ben, &ben_alone)] {
                let (seen, expected) = (whole(together), whole(alone));
                if seen != expected {
                    problems.add(&sample.tool, format!("{who} sees {seen}\n    alone {expected}"));
                }
                together.problems.iter().for_each(|problem| problems.add(&sample.tool, problem));
            }
            if ana.reply.to_string().contains(MARK) {
                problems.add(&sample.tool, format!("Ana sees what is Ben's: {}", ana.reply));
            }
        }
    }
    println!("{marked} tools show who asked in their result");
    assert!(std::env::var("MATRIX").is_ok() || marked > 80, "only {marked} results show whose they are");
    problems.finish();
}

/// A play as text, without what differs from one to the next: its number, its time, ids made for it.
fn whole(played: &Played) -> String {
    let mut sent: Vec<String> = played.sent.iter().map(|sent| format!("{} {}", sent.place(), sent.variables)).collect();
    sent.sort();
    plain(&format!("{} {}", played.reply, sent.join(" ")))
}

/// Numbers of plays, times and fresh ids replaced.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['p', '2']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("play-") {
            out.push_str("play");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        } else if rest.starts_with("20")
            && rest.as_bytes().get(4) == Some(&b'-')
            && rest.as_bytes().get(10) == Some(&b'T')
        {
            out.push_str("(time)");
            rest = rest[10..].trim_start_matches(|c: char| c.is_ascii_digit() || "T:.Z".contains(c));
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// What an answer to a mutation lets the caller know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It may have happened: read back first.
    Perhaps,
    /// It did not happen.
    No,
    /// Pipefy refused or gave no result.
    Failed,
}

const HTML: &str = "<html><body><h1>Bad gateway canary-page</h1></body></html>";

/// Faults of a mutation: what happens, what is known then, the code.
const FAULTS: [(&str, Fault, Known, Option<&str>); 19] = [
    ("no answer in time", Fault::Silence, Known::Perhaps, Some("TIMEOUT")),
    ("a reset connection", Fault::Reset, Known::Perhaps, None),
    ("502 with HTML", Fault::Text(502, HTML), Known::Perhaps, None),
    ("503 with nothing", Fault::Text(503, ""), Known::Perhaps, None),
    ("504 with JSON", Fault::Text(504, "{\"message\":\"upstream timed out\"}"), Known::Perhaps, None),
    (
        "500 with a reason",
        Fault::Text(500, "{\"data\":null,\"errors\":[{\"message\":\"Something broke\"}]}"),
        Known::Perhaps,
        None,
    ),
    ("429", Fault::Text(429, "{\"errors\":[{\"message\":\"slow down\"}]}"), Known::No, Some("RATE_LIMITED")),
    ("200 with HTML", Fault::Text(200, HTML), Known::Perhaps, None),
    ("200 with nothing", Fault::Text(200, ""), Known::Perhaps, None),
    ("a blank error", Fault::Text(200, "{\"errors\":[{\"message\":\"   \"}]}"), Known::Failed, None),
    ("errors that are text", Fault::Text(200, "{\"errors\":\"broken\"}"), Known::Failed, None),
    (
        "an error beside errors",
        Fault::Text(200, "{\"error\":{\"message\":\"no\",\"details\":{\"code\":\"X_CODE\",\"correlation_id\":\"c\"}}}"),
        Known::Failed,
        Some("X_CODE"),
    ),
    (
        "200 that says unauthorized",
        Fault::Text(200, "{\"errors\":[{\"title\":\"Unauthorized\",\"detail\":\"token expired\"}]}"),
        Known::No,
        Some("UNAUTHENTICATED"),
    ),
    (
        "401",
        Fault::Text(401, "{\"errors\":[{\"title\":\"Unauthorized\",\"detail\":\"token expired\"}]}"),
        Known::No,
        Some("UNAUTHENTICATED"),
    ),
    ("no data", Fault::Text(200, "{\"data\":null}"), Known::Perhaps, None),
    ("empty data", Fault::Text(200, "{\"data\":{}}"), Known::Perhaps, None),
    ("a null root field", Fault::Root("null"), Known::Perhaps, None),
    ("success: false", Fault::Root("{\"success\":false}"), Known::Failed, None),
    (
        "success: false with reasons",
        Fault::Root("{\"success\":false,\"userErrors\":[{\"field\":\"x\",\"message\":\"bad\"}],\"errors\":[\"bad\"]}"),
        Known::Failed,
        None,
    ),
];

/// Whatever goes wrong with a mutation: it is sent once, what comes after it is not sent, it is not reported as done, and
/// the answer says what is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutation_is_sent_once_and_its_failure_is_told() {
    let stage = open().await;
    let mut problems = Problems::of("write once");
    let writes: Vec<&Sample> = chosen().into_iter().filter(|sample| class(&sample.tool) != Class::Read).collect();
    let mut plays = Vec::new();
    let mut told = Vec::new();
    let clean = play_all(&stage, writes.iter().map(|sample| Play::of(sample)).collect()).await;
    // By fault and not by tool: plays of one tool may have to wait for each other.
    for fault in FAULTS {
        for (play, played) in &clean {
            for at in 0..played.mutations().len() {
                plays.push(Play::of(play.sample).failing(At::Mutation(at), fault.1));
                told.push((at, fault));
            }
        }
    }
    println!("{} plays of {} tools", plays.len(), writes.len());
    for ((play, played), (at, (what, _, known, code))) in play_all(&stage, plays).await.into_iter().zip(told) {
        let tool = &play.sample.tool;
        let mutations = played.mutations();
        let place = mutations.get(at).map_or_else(String::new, |sent| sent.place());
        let mut wrong = |problem: String| problems.add(tool, format!("{what} at {place}: {problem}"));
        if mutations.len() != at + 1 {
            let sent: Vec<String> = mutations.iter().map(|sent| sent.place()).collect();
            wrong(format!("{} mutations were sent: {}", sent.len(), sent.join(", ")));
        }
        played.problems.iter().for_each(|problem| wrong(problem.clone()));
        let reply = &played.reply;
        let error = &reply["error"];
        let message = error["message"].as_str().unwrap_or_default();
        if reply["success"] != false || message.trim().is_empty() {
            wrong(format!("is not told: {reply}"));
            continue;
        }
        if !message.is_ascii() || message.contains('<') {
            wrong(format!("is told in other than plain words: {message}"));
        }
        let perhaps = error["details"]["may_have_been_applied"] == true;
        let words = message.contains("read it back") || message.contains("read the state back");
        let as_known = match known {
            Known::Perhaps => perhaps && words,
            Known::No => !perhaps,
            Known::Failed => true,
        };
        if !as_known {
            wrong(format!("does not say {known:?}: {reply}"));
        }
        if code.is_some_and(|code| error["code"] != code) {
            wrong(format!("has not the code {code:?}: {reply}"));
        }
    }
    for line in leaks() {
        problems.add("the log", line);
    }
    problems.finish();
}

/// Whatever goes wrong with the reads of a tool: one that only reads says so, and nobody shows a page of HTML or a blank
/// reason. A write may go on without a read that only advises it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_fails_is_told_in_words() {
    let stage = open().await;
    let mut problems = Problems::of("failing reads");
    let mut plays = Vec::new();
    let mut told = Vec::new();
    for (play, played) in play_all(&stage, chosen().into_iter().map(Play::of).collect()).await {
        if played.queries().is_empty() {
            continue;
        }
        for (what, fault, _, code) in FAULTS {
            // Repeated reads would only make the test slow, and the SDK tests them; no query answers `success`.
            let repeated = matches!(fault, Fault::Silence | Fault::Reset | Fault::Text(429 | 502 | 503 | 504, _));
            if repeated || matches!(fault, Fault::Root(payload) if payload != "null") {
                continue;
            }
            plays.push(Play::of(play.sample).failing(At::Queries, fault));
            told.push((what, code));
        }
    }
    println!("{} plays", plays.len());
    for ((play, played), (what, code)) in play_all(&stage, plays).await.into_iter().zip(told) {
        let tool = &play.sample.tool;
        let mut wrong = |problem: String| problems.add(tool, format!("{what}: {problem}"));
        played.problems.iter().for_each(|problem| wrong(problem.clone()));
        let error = &played.reply["error"];
        let message = error["message"].as_str().unwrap_or_default();
        if class(tool) != Class::Read && played.succeeded() {
            continue;
        }
        // The contract counts a null root field as a success with nothing in it; its sentence says so.
        if what == "a null root field" && played.succeeded() {
            let sentence = played.reply["message"].as_str().unwrap_or_default();
            if !sentence.contains("answered nothing") || !sentence.contains("Check") {
                wrong(format!("is not told: {}", played.reply));
            }
            continue;
        }
        if played.reply["success"] != false || message.trim().is_empty() {
            wrong(format!("is not told: {}", played.reply));
        } else if !message.is_ascii() || message.contains('<') {
            wrong(format!("is told in other than plain words: {message}"));
        } else if played.mutations().is_empty() && code.is_some_and(|code| error["code"] != code) {
            wrong(format!("has not the code {code:?}: {}", played.reply));
        }
    }
    problems.finish();
}

/// What Pipefy says about a refused write.
const SAID: &str = "Amount must be less than 7, its limit was not found";

/// Answers that give reasons: in GraphQL errors, and in each form that payloads have. With it, the word of a document that
/// reads the form (blank: all), and what the caller must be shown.
const REASONS: [(&str, Fault, &str, &[&str]); 4] = [
    (
        "an error",
        Fault::Text(
            200,
            "{\"data\":null,\"errors\":[{\"message\":\"Amount must be less than 7, its limit was not found\",\
             \"extensions\":{\"code\":\"RECORD_NOT_SAVED\"}}]}",
        ),
        "",
        &[SAID],
    ),
    (
        "error_details",
        Fault::Root(
            "{\"automation\":null,\"error_details\":[{\"object_name\":\"Field\",\"object_key\":\"42\",\
             \"messages\":[\"Amount must be less than 7, its limit was not found\"]}]}",
        ),
        "error_details",
        &["Field (42): Amount must be less than 7, its limit was not found"],
    ),
    (
        "userErrors",
        Fault::Root(
            "{\"success\":false,\"userErrors\":[{\"field\":\"amount_42\",\
             \"message\":\"Amount must be less than 7, its limit was not found\"}]}",
        ),
        "userErrors",
        &[SAID, "amount_42"],
    ),
    (
        "errors",
        Fault::Root("{\"success\":false,\"errors\":[\"Amount must be less than 7, its limit was not found\"]}"),
        "errors",
        &[SAID],
    ),
];

/// The server's own reasons reach the caller word for word, with the object and key that they are about, whatever the
/// write, and are not taken for something else because of a word in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_own_reasons_reach_the_caller() {
    let stage = open().await;
    let mut problems = Problems::of("own reasons");
    let writes: Vec<&Sample> = chosen().into_iter().filter(|sample| class(&sample.tool) != Class::Read).collect();
    let (mut plays, mut told) = (Vec::new(), Vec::new());
    for (play, played) in play_all(&stage, writes.iter().map(|sample| Play::of(sample)).collect()).await {
        for (at, sent) in played.mutations().iter().enumerate() {
            let words: Vec<&str> = sent.document.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            for (what, fault, word, wanted) in REASONS {
                if word.is_empty() || words.contains(&word) {
                    plays.push(Play::of(play.sample).failing(At::Mutation(at), fault));
                    told.push((what, sent.place(), wanted));
                }
            }
        }
    }
    let mut forms: BTreeMap<&str, usize> = BTreeMap::new();
    for ((play, played), (what, place, wanted)) in play_all(&stage, plays).await.into_iter().zip(told) {
        *forms.entry(what).or_default() += 1;
        let shown = played.reply.to_string();
        for part in wanted {
            problems.expect(shown.contains(part), &play.sample.tool, || format!("{what} at {place}: {shown}"));
        }
        let code = &played.reply["error"]["code"];
        problems.expect(code != "NOT_FOUND", &play.sample.tool, || format!("{what} at {place} is not found: {shown}"));
    }
    println!("{forms:?}");
    problems.finish();
    assert!(std::env::var("MATRIX").is_ok() || forms.len() == REASONS.len(), "{forms:?}");
}

/// Every read: `fields` gives less, asks for less where it can, and explains unknown names; `compact` and `csv` hold what the list
/// holds. Every such result fits the tool's schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_takes_fields_and_forms() {
    let stage = open().await;
    let mut problems = Problems::of("reading");
    let (mut lists, mut narrowed) = (0, 0);
    let reads = chosen().into_iter().filter(|sample| class(&sample.tool) == Class::Read).map(Play::of).collect();
    for (play, before) in play_all(&stage, reads).await {
        reading::fields(&stage, &play, &before, &mut problems).await;
        lists += usize::from(reading::forms(&stage, &play, &before, &mut problems).await);
        narrowed += usize::from(CATALOGUE.get(&play.sample.tool).unwrap().op().selects.is_some());
    }
    println!("{lists} reads have a list, {narrowed} ask Pipefy for less");
    problems.finish();
    assert!(std::env::var("MATRIX").is_ok() || lists > 30, "only {lists} results have a list");
}

/// Every read: `all` says how much there is, `max_items` keeps to its number, and what is larger than the budget comes in parts
/// that are the whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_accounts_for_its_amount() {
    let filter = std::env::var("MATRIX").unwrap_or_default();
    let world = sandbox::World::fresh(&sandbox::files(folder())).await;
    let known = world.names(&CATALOGUE).await;
    let mut problems = Problems::of("amounts");
    let mut cut = 0;
    // What exports whole lists to files has limits of its own.
    let exports = |tool: &str| CATALOGUE.get(tool).is_some_and(|tool| tool.op().saves);
    let reads = |tool: &str| class(tool) == Class::Read && !exports(tool);
    for row in sandbox::rows().iter().filter(|row| row.tool.contains(&filter) && reads(&row.tool)) {
        match sandbox::ready(row, &CATALOGUE, &world, &known).await {
            Some(args) => {
                let tool = CATALOGUE.get(&row.tool).unwrap();
                cut += usize::from(reading::amounts(&world, &args, tool, &mut problems).await);
            }
            None => problems.add(&row.tool, "its arguments cannot be had"),
        }
    }
    for misfit in world.close().await {
        problems.add("schema", misfit);
    }
    println!("{cut} results came in parts");
    problems.finish();
    assert!(!filter.is_empty() || cut > 15, "only {cut} results were larger than the budget");
}

/// Text of outsiders: no mark unless it is asked for; then everything that a tool declares. Marked texts that come back in a write
/// are sent as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_outsiders_is_marked_by_every_tool_and_never_stored() {
    let stage = open().await;
    let mut problems = Problems::of("outsiders");
    let (mut marked, mut written) = (0, 0);
    for (play, before) in play_all(&stage, chosen().into_iter().map(Play::of).collect()).await {
        marked += usize::from(reading::marks(&stage, &play, &before, &mut problems).await);
        if class(&play.sample.tool) != Class::Read {
            written += usize::from(reading::unmarked(&stage, &play, &before, &mut problems).await);
        }
    }
    println!("{marked} results have marks, {written} writes were given marked texts");
    problems.finish();
    assert!(std::env::var("MATRIX").is_ok() || (marked > 15 && written > 10), "{marked} {written}");
}

/// A dry run sends no mutation and lists those that the act sends; reading back sends nothing more than the act.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_lists_what_the_act_sends() {
    let stage = open().await;
    let mut problems = Problems::of("dry run");
    let (dry, back) = ([("dry_run", json!(true))], [("verify", json!(true))]);
    for sample in chosen().into_iter().filter(|sample| class(&sample.tool) != Class::Read) {
        let tool = &sample.tool;
        let (acted, dry, verified) = tokio::join!(
            stage.play(Play::of(sample)),
            stage.play(Play::of(sample).with(&dry)),
            stage.play(Play::of(sample).with(&back)),
        );
        problems.expect(dry.reply["dry_run"] == true, tool, || format!("no dry run: {}", dry.reply));
        problems.expect(dry.mutations().is_empty(), tool, || "a dry run sent a mutation".to_owned());
        let steps: Vec<&Value> =
            dry.reply["steps"].as_array().into_iter().flatten().filter(|step| step.get("document").is_some()).collect();
        let same = steps.len() == acted.mutations().len()
            && steps.iter().zip(acted.mutations()).all(|(step, sent)| {
                step["endpoint"].as_str().is_some_and(|endpoint| endpoint.starts_with(sent.endpoint))
                    && step["document"] == *sent.document
                    && same_but_unknown(&without_play(&step["variables"]), &without_play(&sent.variables))
            });
        problems.expect(same, tool, || {
            let sent: Vec<String> =
                acted.mutations().iter().map(|sent| format!("{} {}", sent.place(), sent.variables)).collect();
            format!("lists {}\n    sends {}", dry.reply["steps"], sent.join(", "))
        });
        problems.expect(acted.mutations().len() == verified.mutations().len(), tool, || {
            "reading back changed what was sent".to_owned()
        });
        let block = &verified.reply["verification"];
        let noted = block["note"].as_str().is_some_and(|note| !note.trim().is_empty());
        problems.expect(acted.mutations().is_empty() || (block.is_object() && noted), tool, || {
            format!("says nothing about reading back: {}", verified.reply)
        });
        for played in [&dry, &verified] {
            played.problems.iter().for_each(|problem| problems.add(tool, problem));
        }
    }
    problems.finish();
}

/// Writes that nothing is read back for, and why: `matrix/no_read_back.toml`, shown in `docs/reading-back.md`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoReadBack {
    group: Vec<NoReadBackGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoReadBackGroup {
    reason: String,
    tools: Vec<String>,
}

fn no_read_back() -> NoReadBack {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/no_read_back.toml");
    toml::from_str(&std::fs::read_to_string(path).expect("no_read_back.toml")).expect("a valid no_read_back.toml")
}

/// Queries after the last mutation.
fn read_afterwards(played: &Played) -> usize {
    played.sent.iter().rev().take_while(|sent| !sent.is_mutation).count()
}

/// `verify` says only what it read: yes or no only after reading again, never yes when the answer does not show the change, and
/// "not known" when there is no answer. Writes that cannot be read back are listed with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_back_says_only_what_was_read() {
    let stage = open().await;
    let mut problems = Problems::of("read back");
    let back = [("verify", json!(true))];
    let excused: BTreeSet<String> = no_read_back().group.into_iter().flat_map(|group| group.tools).collect();
    let mut without = BTreeSet::new();
    let (mut yes, mut told) = (0, 0);
    for sample in chosen().into_iter().filter(|sample| class(&sample.tool) != Class::Read) {
        let tool = &sample.tool;
        let (acted, verified) = tokio::join!(stage.play(Play::of(sample)), stage.play(Play::of(sample).with(&back)));
        let mutations = acted.mutations().len();
        let verdict = |played: &Played| played.reply["verification"]["verified"].clone();
        let note = |played: &Played| played.reply["verification"]["note"].as_str().unwrap_or_default().to_owned();
        if mutations == 0 && verified.reply.get("verification").is_none() {
            continue;
        }
        told += 1;
        // Some acts read for themselves after the change; that counts where reading back says something.
        let more = read_afterwards(&verified) > read_afterwards(&acted) || !verdict(&verified).is_null();
        let read = if more { read_afterwards(&verified) } else { 0 };
        if read == 0 {
            without.insert(tool.clone());
            problems.expect(verdict(&verified).is_null() && !note(&verified).is_empty(), tool, || {
                format!("read nothing and says {}", verified.reply["verification"])
            });
            continue;
        }
        yes += usize::from(verdict(&verified) == true);
        for (what, fault) in [
            ("an error", Fault::Text(200, "{\"data\":null,\"errors\":[{\"message\":\"Something went wrong\"}]}")),
            ("a page", Fault::Text(200, HTML)),
            ("nothing", Fault::Root("null")),
            ("other values", Fault::Altered),
        ] {
            let played = stage.play(Play::of(sample).with(&back).failing(At::After(mutations), fault)).await;
            let (verdict, note) = (verdict(&played), note(&played));
            let gone = class(tool) == Class::Destructive && matches!(what, "nothing" | "other values");
            let honest = match what {
                "an error" | "a page" => verdict.is_null(),
                _ => gone || verdict != true,
            };
            // Some acts read for themselves after the change, and may fail by it.
            let failed = played.reply["success"] == false;
            problems.expect(failed || (honest && !note.trim().is_empty()), tool, || {
                format!("{what} on reading back gave {}", played.reply)
            });
        }
    }
    println!("{told} writes: {yes} verified, {} without reading back: {without:?}", without.len());
    problems.finish();
    if std::env::var("MATRIX").is_ok() {
        return;
    }
    assert_eq!(without, excused, "no_read_back.toml lists other tools");
    assert!(told - without.len() > 40, "only {} writes were read back", told - without.len());
}

/// `docs/reading-back.md`, made from `matrix/no_read_back.toml`.
#[test]
fn the_page_of_what_is_not_read_back_is_current() {
    let all = no_read_back();
    let count: usize = all.group.iter().map(|group| group.tools.len()).sum();
    let mut page = format!(
        "# Reading back\n\n<!-- Made from crates/pipefy-mcp/tests/matrix/no_read_back.toml; do not edit. UPDATE_DOCS=1 cargo test \
         -p pipefy-mcp --test matrix page rewrites it. -->\n\n\
         With `verify` a write reads its change back and says what it saw under `verification`: `verified` is true or false only \
         when the answer showed it, and null when nothing could be compared, or only a part; `note` says what was compared. That \
         holds for every write (`reading_back_says_only_what_was_read` in `pipefy-mcp/tests/matrix.rs` lets the reads fail, come \
         back empty and come back with other values).\n\n\
         {count} writes are not read back, or only with what the last row names; `verified` is null there:\n\n| Tools | Why |\n|---|---|\n"
    );
    for group in &all.group {
        assert!(group.reason.len() > 20, "a reason is needed for {:?}", group.tools);
        let tools: Vec<String> = group.tools.iter().map(|tool| format!("`{tool}`")).collect();
        page.push_str(&format!("| {} | {} |\n", tools.join(", "), group.reason));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reading-back.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "reading-back.md is out of date: UPDATE_DOCS=1 cargo test -p pipefy-mcp --test matrix page"
    );
}

fn without_play(value: &Value) -> Value {
    serde_json::from_str(&plain(&value.to_string())).unwrap()
}

/// What was planned is what was sent, but for values that only an earlier answer gives.
fn same_but_unknown(planned: &Value, sent: &Value) -> bool {
    match (planned, sent) {
        (Value::Object(planned), _) if planned.contains_key("$unknown") => true,
        (Value::Object(planned), Value::Object(sent)) => {
            planned.len() == sent.len()
                && planned.iter().all(|(key, value)| sent.get(key).is_some_and(|sent| same_but_unknown(value, sent)))
        }
        (Value::Array(planned), Value::Array(sent)) => {
            planned.len() == sent.len()
                && planned.iter().zip(sent).all(|(planned, sent)| same_but_unknown(planned, sent))
        }
        _ => planned == sent,
    }
}

/// Every tool on the sandbox: it succeeds, refuses bad input, says that something does not exist, and refuses who may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tool_runs_on_the_sandbox() {
    let filter = std::env::var("MATRIX").unwrap_or_default();
    let catalogue = Catalogue::new();
    let world = sandbox::World::fresh(&sandbox::files(folder())).await;
    let known = world.names(&catalogue).await;
    println!("names that are missing: {:#?}", known.1);
    let rows = sandbox::rows();
    for tool in catalogue.tools() {
        assert!(rows.iter().any(|row| row.tool == tool.name()), "sandbox.jsonl has no row for {}", tool.name());
    }
    let (all, near, known) = (&catalogue, &world, &known);
    let playing = rows
        .iter()
        .filter(|row| row.tool.contains(&filter))
        .map(|row| async move { (row, sandbox::play(row, all, near, known).await) });
    let played: Vec<_> = stream::iter(playing).buffered(8).collect().await;
    let mut proofs: BTreeMap<&str, Problems> =
        ["sandbox success", "sandbox bad input", "sandbox unknown id", "sandbox guest"]
            .into_iter()
            .map(|proof| (proof, Problems::of(proof)))
            .collect();
    let not_served: Vec<&str> =
        played.iter().filter(|(_, seen)| seen.not_served).map(|(row, _)| row.tool.as_str()).collect();
    for (row, seen) in &played {
        for (proof, what) in &seen.problems {
            proofs.get_mut(proof).unwrap().add(&row.tool, what);
        }
    }
    println!(
        "{} of {} tools need what the sandbox does not serve: {}",
        not_served.len(),
        rows.len(),
        not_served.join(" ")
    );
    let mut wrong: Vec<String> = proofs.into_values().filter_map(Problems::verdict).collect();
    drop(played);
    wrong.extend(world.close().await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(not_served.len() <= exceptions().not_served_at_most, "{} tools are not served any more", not_served.len());
}

/// What was read and written back unchanged reads the same again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_back_unchanged_stays() {
    let filter = std::env::var("MATRIX").unwrap_or_default();
    let files = sandbox::files(folder());
    let world = sandbox::World::fresh(&files).await;
    let (names, _) = world.names(&CATALOGUE).await;
    let mut problems = Problems::of("round trip");
    let mut seen = String::new();
    for (trip, names) in sandbox::round_trips(&world, &CATALOGUE, &names).await {
        if !trip.write.contains(&filter) {
            continue;
        }
        match sandbox::round_trip(&trip, &CATALOGUE, &files, &names).await {
            Ok(read) => seen.push_str(&read.to_string()),
            Err(difference) => problems.add(&trip.write, difference),
        }
    }
    problems.finish();
    if filter.is_empty() {
        let missing: Vec<String> =
            world.kinds_of_rules(&CATALOGUE, &names).await.into_iter().filter(|kind| !seen.contains(kind)).collect();
        assert!(missing.is_empty(), "no trip has {missing:?}");
    }
}

/// A plan in which `validate_plan` finds nothing is built with its own values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_plan_builds() {
    let files = sandbox::files(folder());
    let world = sandbox::World::fresh(&files).await;
    let (names, _) = world.names(&CATALOGUE).await;
    plans::sound_plan_builds(&files, &CATALOGUE, &names).await;
}

/// Whatever `validate_plan` finds is so: that part is not built, or does not work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_found_in_a_plan_is_so() {
    let files = sandbox::files(folder());
    let world = sandbox::World::fresh(&files).await;
    let (names, _) = world.names(&CATALOGUE).await;
    let shown: BTreeSet<&str> = plans::findings_are_right(&files, &CATALOGUE, &names).await.into_iter().collect();
    let classes = "blank blocked_pair contradiction disabled_action duplicate hidden_required missing_options \
                   missing_target no_action no_expression no_move no_work unconnected unknown_field unknown_id \
                   unknown_phase unknown_target unknown_type unreachable unused_options";
    assert_eq!(shown, classes.split_whitespace().collect::<BTreeSet<_>>());
}

/// The value of every field of the seed, start form and phases and tables, goes back as it was shown and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_value_that_is_shown_can_be_written_back() {
    let world = sandbox::World::fresh(&sandbox::files(folder())).await;
    let shown = values::written_back(&world, &CATALOGUE).await;
    world.close().await;
    println!("kept: {:?}\nrefused, and nothing changed: {:?}", shown.kept, shown.refused);
    let mut problems = Problems::of("values");
    for (tool, what) in shown.problems {
        problems.add(&tool, what);
    }
    problems.finish();
    assert!(shown.kept.len() >= 18, "only {} types were written back: {:?}", shown.kept.len(), shown.kept);
}

/// A document of the largest size goes through the tools and comes back as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_of_a_mebibyte_is_written_and_read() {
    let world = sandbox::World::fresh(&sandbox::files(folder())).await;
    let (names, _) = world.names(&CATALOGUE).await;
    let call = async |tool: &str, args: Value| {
        world.call(CATALOGUE.get(tool).unwrap(), pipefy_sandbox::DEFAULT_TOKEN, args.as_object().unwrap().clone()).await
    };
    let document = |size: usize| format!("<p>{}</p>", "a".repeat(size - 7));
    let made = json!({"organization_uuid": names["org_uuid"], "name": "Large", "html": document(1 << 20)});
    let made = call("create_html_interface", made).await;
    assert_eq!(made["success"], true, "{}", pattern::cut(&made.to_string(), 400));
    let uuid = &made["data"]["uuid"];
    let read = async || call("get_interface_html", json!({"interface_uuid": uuid})).await["data"].clone();
    let (page, element) = (read().await["pages"][0].clone(), read().await["pages"][0]["elements"][0].clone());
    assert_eq!(element["htmlDocument"]["content"].as_str().map(str::len), Some(1 << 20));
    let write = async |content: String| {
        let args = json!({"page_id": page["id"], "element_id": element["id"], "content": content});
        call("write_interface_html", args).await
    };
    let other = document(1 << 20).replace('a', "b");
    assert_eq!(write(other.clone()).await["success"], true);
    assert_eq!(read().await["pages"][0]["elements"][0]["htmlDocument"]["content"], other.as_str());
    // One byte more is refused in words, and nothing changes.
    let refused = write(document((1 << 20) + 1)).await;
    assert_eq!(refused["success"], false);
    assert!(refused.to_string().len() < 4_000, "the refusal repeats the document");
    assert_eq!(read().await["pages"][0]["elements"][0]["htmlDocument"]["content"], other.as_str());
    world.close().await;
}
