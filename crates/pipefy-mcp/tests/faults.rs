//! Faults that come from outside: peers that send junk, send without end, stand still or go away, a system without file
//! descriptors or disk. The real server as a process; after each fault it serves as before, and has given back what it took.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/backend.rs"]
mod backend;
#[path = "support/child.rs"]
mod child;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backend::{Backend, parsed};
use child::{call, initialize, request};
use pipefy_sandbox::DEFAULT_TOKEN;
use serde_json::{Value, json};

/// How long anything may take; a loaded machine is slow.
const LIMIT: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;

impl Backend {
    /// One request past the server.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             authorization: Bearer {DEFAULT_TOKEN}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200") || head.contains(" 204"), "{head}");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// A bearer of its issuer, good for an hour.
    fn mint(&self) -> String {
        let token = self.ask("POST", "/_sandbox/oidc/tokens", &json!({"expires_in": 3600}));
        token["access_token"].as_str().unwrap().to_owned()
    }

    fn faults(&self, plan: Value) {
        self.ask("POST", "/_sandbox/faults", &plan);
    }

    /// Some card.
    fn card(&self) -> String {
        let query = "{ organizations { pipes { phases { cards(first: 1) { edges { node { id } } } } } } }";
        let found = self.ask("POST", "/graphql", &json!({ "query": query }));
        let text = found.to_string();
        let at = text.find("\"node\":{\"id\":\"").unwrap_or_else(|| panic!("{found}"));
        text[at + 14..].split('"').next().unwrap().to_owned()
    }

    /// How many comments hold this text.
    fn comments(&self, card: &str, text: &str) -> usize {
        let query = format!("{{ card(id: {card}) {{ comments {{ text }} }} }}");
        let found = self.ask("POST", "/graphql", &json!({ "query": query }));
        let comments = found["data"]["card"]["comments"].as_array().unwrap_or_else(|| panic!("{found}")).clone();
        comments.iter().filter(|comment| comment["text"].as_str().is_some_and(|found| found.contains(text))).count()
    }
}

fn until(what: &str, mut check: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !check() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the system says about a process.
#[derive(Clone, Copy)]
struct Process(u32);

impl Process {
    /// A line of its status, in bytes: `VmRSS` is what it holds now, `VmHWM` the most it ever held.
    fn memory(self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    fn descriptors(self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.0)).unwrap().count()
    }

    /// Processor time so far.
    fn worked(self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // User and system time, in hundredths of a second.
        Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
    }

    fn signal(self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.to_string()]).status().unwrap().success());
    }
}

/// Ends a process that is still there after ten minutes, so that a test that waits for it fails instead of waiting on.
struct Watchdog(#[expect(dead_code, reason = "dropping it calls the dog off")] std::sync::mpsc::Sender<()>);

impl Watchdog {
    fn over(process: Process) -> Self {
        let (called_off, waits) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if waits.recv_timeout(Duration::from_secs(600)) == Err(RecvTimeoutError::Timeout) {
                process.signal("-KILL");
            }
        });
        Self(called_off)
    }
}

/// The server on standard streams, in bytes.
struct Local {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: Process,
    _watchdog: Watchdog,
    _home: tempfile::TempDir,
}

impl Local {
    fn start(variables: &[(&str, &str)]) -> Self {
        let mut this = Self::silent(variables);
        this.write(format!("{}\n", initialize(json!(0), "2025-06-18", json!({}))).as_bytes());
        assert!(this.receive()["result"].is_object());
        this
    }

    /// Before anything is said.
    fn silent(variables: &[(&str, &str)]) -> Self {
        // Where a test needs no Pipefy, there is none.
        let (mut command, home) = child::command(&[], &[("PIPEFY_TOKEN", DEFAULT_TOKEN)]);
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let process = Process(child.id());
        Self { process, child, input, output, _watchdog: Watchdog::over(process), _home: home }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
        self.input.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON on standard output: {line:?}"))
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.write(format!("{message}\n").as_bytes());
        self.receive()
    }

    /// It serves as ever.
    fn is_well(&mut self) {
        let pong = self.ask(&request(json!("well"), "ping", json!({})));
        assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "well", "result": {}}));
    }

    /// It ends in order.
    fn end(self) {
        // The dog watches to the end.
        let Self { mut child, input, output, _watchdog, .. } = self;
        drop(input);
        let rest: Vec<String> = output.lines().map(Result::unwrap).collect();
        assert!(rest.is_empty(), "{rest:?}");
        assert_eq!(child::ended(&mut child).code(), Some(0));
    }
}

/// 1 GiB without a line end: refused when it is too long, skipped to its end, never kept.
#[test]
fn a_line_without_end_is_not_kept() {
    let mut server = Local::start(&[]);
    server.is_well();
    let chunk = vec![b'x'; MIB as usize];
    for written in 0..1024 {
        server.write(&chunk);
        if written == 40 {
            let refused = server.receive();
            assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &Value::Null));
        }
    }
    let most = server.process.memory("VmHWM");
    assert!(most < 128 * MIB, "{most} bytes at most");
    server.write(b"\n");
    server.is_well();
    server.end();
}

/// A line of 5 MiB is read, answered and forgotten.
#[test]
fn long_lines_are_served_and_forgotten() {
    let backend = Backend::start();
    let mut server = Local::start(&backend.variables());
    let long = "x".repeat(5 * MIB as usize);
    let ask = |server: &mut Local, id: u64| {
        let answer = server.ask(&call(json!(id), "add_card_comment", json!({"card_id": "1", "text": long})));
        assert_eq!(answer["id"], id);
        assert!(answer.get("result").is_some(), "{}", &answer.to_string()[..300]);
        // Where the method does not know its parameter, and where there is no such method.
        let answer = server.ask(&request(json!(id), "tools/call", json!({"name": long})));
        assert_eq!(answer["id"], id);
        let answer = server.ask(&request(json!(id), &long, json!({})));
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)));
        server.is_well();
    };
    ask(&mut server, 1);
    ask(&mut server, 2);
    let before = server.process.memory("VmRSS");
    for id in 3..6 {
        ask(&mut server, id);
    }
    let (after, most) = (server.process.memory("VmRSS"), server.process.memory("VmHWM"));
    assert!(after < before + 48 * MIB && most < 256 * MIB, "{before} before, {after} after, {most} at most");
    server.end();
}

/// Nesting is refused before it can exhaust a stack, wherever it stands.
#[test]
fn deep_nesting_is_refused() {
    let backend = Backend::start();
    let mut server = Local::start(&backend.variables());
    for depth in [200, 5_000, 200_000] {
        for (open, close) in [("{\"a\":", "}"), ("[", "]"), ("{\"a\":[", "]}"), ("{", ""), ("[", "")] {
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            server.write(format!("{nested}\n").as_bytes());
            let code = server.receive()["error"]["code"].clone();
            assert!(code == -32700 || code == -32602, "{code}");
            for params in [
                format!("{{\"name\":\"get_card\",\"arguments\":{nested}}}"),
                format!("{{\"name\":\"get_card\",\"arguments\":{{\"card_id\":{nested}}}}}"),
                format!("{{\"name\":\"get_card\",\"_meta\":{nested}}}"),
            ] {
                let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}\n");
                server.write(line.as_bytes());
                let answer = server.receive();
                assert!(answer.get("error").is_some(), "{}", &answer.to_string()[..300.min(answer.to_string().len())]);
            }
            // Inside of a text that a tool reads as JSON, or as a document.
            for (tool, arguments) in [
                ("get_cards", json!({"pipe_id": "1", "search": nested})),
                ("execute_graphql", json!({"query": nested, "variables": nested})),
                ("execute_graphql", json!({"query": format!("query {}", "{a".repeat(depth))})),
                ("execute_graphql", json!({"query": format!("query {{ a(x: {}1) }}", "[".repeat(depth))})),
                ("execute_graphql", json!({"query": format!("query {{ a(x: {}1) }}", "{b:".repeat(depth))})),
                ("execute_graphql", json!({"query": format!("query ($x: {}Int) {{ a }}", "[".repeat(depth))})),
            ] {
                let answer = server.ask(&call(json!(2), tool, arguments));
                let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
                let failed = answer["result"]["isError"] == true || text.contains("\"success\":false");
                assert!(failed, "{tool}: {}", &answer.to_string()[..300.min(answer.to_string().len())]);
            }
            server.is_well();
        }
    }
    server.end();
}

/// 50,000 lines of junk, each answered, none remembered; also by a client that reads only afterwards.
#[test]
fn junk_is_answered_and_not_remembered() {
    let mut server = Local::start(&[]);
    let junk =
        ["{", "nonsense", "[]", "{\"jsonrpc\":\"2.0\"}", "\u{0}\u{1}", "{\"id\":1,\"method\":\"ping\"}", "\"", "1e999"];
    let lines = |from: usize, count: usize| -> String {
        (from..from + count).map(|number| format!("{}\n", junk[number % junk.len()])).collect()
    };
    for round in 0..60 {
        server.write(lines(round * 100, 100).as_bytes());
        for _ in 0..100 {
            assert!(server.receive()["error"]["code"].is_i64());
        }
    }
    let before = server.process.memory("VmRSS");
    // A thread writes; nobody reads for a while, so both pipes fill up and the writer has to wait.
    let text = lines(0, 50_000);
    let mut input = server.input;
    let writer = std::thread::spawn(move || {
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
        input
    });
    std::thread::sleep(Duration::from_millis(800));
    let waiting = server.process.memory("VmRSS");
    assert!(waiting < before + 8 * MIB, "{before} before, {waiting} while nobody reads");
    let mut line = String::new();
    for number in 0..50_000 {
        line.clear();
        assert!(server.output.read_line(&mut line).unwrap() > 0, "the answers end at {number}");
        assert!(line.contains("\"error\""), "{line}");
    }
    server.input = writer.join().unwrap();
    let after = server.process.memory("VmRSS");
    assert!(after < before + 8 * MIB, "{before} before, {after} after");
    server.is_well();
    server.end();
}

/// Good requests by a client that reads only afterwards: the server stops reading before it piles up answers, and none is lost.
#[test]
fn a_client_that_does_not_read_makes_itself_wait() {
    let mut server = Local::start(&[]);
    server.is_well();
    let before = server.process.memory("VmRSS");
    const COUNT: usize = 4_500;
    let mut input = server.input;
    let written = Arc::new(AtomicUsize::new(0));
    let seen = written.clone();
    let writer = std::thread::spawn(move || {
        for id in 0..COUNT {
            // Each answer has some 130 kB.
            writeln!(input, "{}", request(json!(id), "tools/list", json!({}))).unwrap();
            seen.fetch_add(1, Ordering::Relaxed);
        }
        input
    });
    // It comes to rest long before the last is taken: what the pipe does not hold waits at the client.
    let mut asked = 0;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = written.load(Ordering::Relaxed);
        if now > 0 && now == asked {
            break;
        }
        asked = now;
        assert!(Instant::now() < until, "{asked} asked, and still taking");
    }
    let waiting = server.process.memory("VmRSS");
    assert!(asked < COUNT, "all {asked} were taken while nobody reads");
    assert!(waiting < before + 256 * MIB, "{before} before, {waiting} while nobody reads, {asked} asked");
    let mut ids = std::collections::BTreeSet::new();
    let mut line = String::new();
    for _ in 0..COUNT {
        line.clear();
        server.output.read_line(&mut line).unwrap();
        // The list is not built again for each: the id is enough.
        let id = line.split("\"id\":").nth(1).unwrap().split([',', '}']).next().unwrap();
        ids.insert(id.parse::<usize>().unwrap());
    }
    server.input = writer.join().unwrap();
    assert_eq!(ids.len(), COUNT);
    server.is_well();
    server.end();
}

#[test]
fn malformed_utf_8_is_not_json() {
    let mut server = Local::start(&[]);
    let message =
        request(json!(1), "tools/call", json!({"name": "get_card", "arguments": {"card_id": "@"}})).to_string();
    for bad in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"] {
        let at = message.find('@').unwrap();
        let line = [&message.as_bytes()[..at], bad, &message.as_bytes()[at + 1..], b"\n"].concat();
        for line in [line, [bad, b"\n"].concat(), [bad, message.as_bytes(), b"\n"].concat()] {
            server.write(&line);
            let answer = server.receive();
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null), "{bad:?}");
        }
        server.is_well();
    }
    // Half of a surrogate pair, written as an escape, is no text either.
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\\ud800\"}}\n");
    assert!(server.receive().get("error").is_some());
    server.is_well();
    server.end();
}

/// Every method of every revision, with parameters that are missing, null or of a wrong type.
const METHODS: [&str; 21] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
    "server/discover",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/cancel",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
];
const NOTIFICATIONS: [&str; 5] = [
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/none",
];
/// As JSON texts; `None`: not given.
fn odd_params() -> Vec<Option<&'static str>> {
    vec![
        None,
        Some("null"),
        Some("[]"),
        Some("[1]"),
        Some("\"x\""),
        Some("7"),
        Some("true"),
        Some("{}"),
        Some(r#"{"name":7,"uri":7,"level":7,"cursor":7,"protocolVersion":7,"taskId":7,"requestId":{},"ref":7}"#),
        Some(r#"{"name":null,"uri":null,"level":null,"cursor":null,"protocolVersion":null,"taskId":null,"ref":null}"#),
        Some(
            r#"{"name":{},"uri":[],"level":{},"cursor":{},"arguments":7,"capabilities":7,"argument":7,"progressToken":[]}"#,
        ),
        Some(r#"{"_meta":7}"#),
        Some(r#"{"_meta":{"progressToken":{}}}"#),
        Some(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#),
    ]
}

fn message(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"{method}\"{params}}}")
}

/// What the revision without a handshake has in every message.
const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}"#;

/// The same parameters in an envelope of that revision, where they can be.
fn enveloped(params: Option<&str>) -> Option<String> {
    let Some(params) = params else { return Some(format!("{{\"_meta\":{{{ENVELOPE}}}}}")) };
    if !params.starts_with('{') || params.contains("_meta") {
        return Some(params.to_owned());
    }
    let rest = params.strip_prefix('{').unwrap();
    let comma = if rest == "}" { "" } else { "," };
    Some(format!("{{\"_meta\":{{{ENVELOPE}}}{comma}{rest}"))
}

/// An answer to a request with odd parameters: a result where they do not matter, else an error of the caller's.
fn is_fair(answer: &Value, what: &str) {
    assert_eq!(answer["jsonrpc"], "2.0", "{what}: {answer}");
    if answer.get("result").is_none() {
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        assert!([-32600, -32601, -32602, -32022].contains(&code), "{what}: {answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{what}: {answer}");
    }
}

#[test]
fn odd_parameters_are_refused_and_the_connection_lives_on() {
    let mut server = Local::start(&[]);
    for method in METHODS {
        for params in odd_params() {
            let line = message(Some(5), method, params);
            server.write(format!("{line}\n").as_bytes());
            let answer = server.receive();
            assert_eq!(answer["id"], 5, "{line}: {answer}");
            is_fair(&answer, &line);
        }
        server.is_well();
    }
    for method in NOTIFICATIONS {
        for params in odd_params() {
            server.write(format!("{}\n", message(None, method, params)).as_bytes());
        }
        // An answer to any of them would come first.
        server.is_well();
    }
    server.end();

    // A connection without a handshake, where every message says itself what it is.
    let mut server = Local::silent(&[]);
    let known = message(Some(1), "server/discover", enveloped(None).as_deref());
    let lists = |server: &mut Local| {
        server.write(format!("{known}\n").as_bytes());
        let answer = server.receive();
        assert!(answer["result"]["supportedVersions"].is_array(), "{answer}");
    };
    lists(&mut server);
    for method in METHODS {
        for params in odd_params() {
            let line = message(Some(5), method, enveloped(params).as_deref());
            server.write(format!("{line}\n").as_bytes());
            let answer = server.receive();
            assert!(answer["id"] == 5 || answer["id"].is_null(), "{line}: {answer}");
            is_fair(&answer, &line);
        }
    }
    for method in NOTIFICATIONS {
        for params in odd_params() {
            server.write(format!("{}\n", message(None, method, enveloped(params).as_deref())).as_bytes());
        }
    }
    lists(&mut server);
    server.end();
}

/// The server over HTTP, on a free port, for the person at this machine.
struct Remote {
    child: Child,
    process: Process,
    address: String,
    metrics: String,
    /// Of everybody who asks.
    bearer: Option<String>,
    log: Arc<Mutex<String>>,
    _home: tempfile::TempDir,
}

fn request_of(address: &str, session: Option<&str>, bearer: Option<&str>, body: &str, close: bool) -> String {
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let bearer = bearer.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default();
    let close = if close { "connection: close\r\n" } else { "" };
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}{bearer}{close}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Remote {
    /// `before` runs in the shell that becomes the server.
    fn start(before: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (template, home) = child::command(&[], &[]);
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{before}\nexec \"$0\" \"$@\"")])
            .arg(template.get_program())
            .args(["--transport", "http", "--port", "0"])
            .args(arguments)
            .env_clear()
            .envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PIPEFY_MCP_METRICS_ADDRESS", "127.0.0.1:0")
            .envs(variables.iter().copied())
            .current_dir(home.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut begun = String::new();
        let mut said = |what: &str| {
            let line = lines.find_map(|line| {
                begun.push_str(&line);
                begun.push('\n');
                line.split_once(what).map(|(_, rest)| rest.split('/').next().unwrap_or_default().to_owned())
            });
            line.unwrap_or_else(|| panic!("the server does not say {what}: {begun}"))
        };
        let (address, metrics) = (said("Listening on http://"), said("Metrics on http://"));
        let log = Arc::new(Mutex::new(begun));
        let rest = log.clone();
        std::thread::spawn(move || {
            for line in lines {
                let mut log = rest.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { process: Process(child.id()), child, address, metrics, bearer: None, log, _home: home }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// A POST, byte for byte.
    fn bytes(&self, session: Option<&str>, body: &str, close: bool) -> String {
        request_of(&self.address, session, self.bearer.as_deref(), body, close)
    }

    /// Status, session id and message of the answer on a connection of its own.
    fn post(&self, session: Option<&str>, body: &str) -> (u16, Option<String>, Value) {
        self.post_bytes(session, "", body.as_bytes())
    }

    /// The same for bytes of any kind, with further header lines.
    fn post_bytes(&self, session: Option<&str>, more: &str, body: &[u8]) -> (u16, Option<String>, Value) {
        let mut stream = self.connect();
        let head = self.bytes(session, "", true);
        let head = head.trim_end().replace("content-length: 0", &format!("{more}content-length: {}", body.len()));
        // A server that has seen enough need not read the rest.
        let _early = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(b"\r\n\r\n"));
        let _early = stream.write_all(body);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        parsed(&String::from_utf8_lossy(&answer))
    }

    fn open(&self) -> String {
        let (status, session, _) = self.post(None, &initialize(json!(0), "2025-06-18", json!({})).to_string());
        assert_eq!(status, 200);
        session.expect("a session id")
    }

    fn is_well(&self, session: Option<&str>) {
        let (status, _, pong) = self.post(session, &message(Some(9), "ping", None));
        assert_eq!((status, &pong["result"]), (200, &json!({})), "{pong}");
    }

    /// A number of the metrics page.
    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
    }

    /// The descriptors are back at `before`, but for a few that are kept for reuse.
    fn gives_back(&self, before: usize) {
        until("the descriptors are given back", || self.process.descriptors() <= before + 3);
    }
}

/// How a server over HTTP is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sessions,
    Stateless,
    /// For many people, each with a bearer of the sandbox's issuer.
    Hosted,
    HostedStateless,
}

impl Way {
    const ALL: [Self; 4] = [Self::Sessions, Self::Stateless, Self::Hosted, Self::HostedStateless];

    fn is_stateless(self) -> bool {
        matches!(self, Self::Stateless | Self::HostedStateless)
    }

    /// A server in front of `backend`, and the session that everything is sent in, if there are sessions.
    fn start(self, backend: &Backend, more: &[(&str, &str)]) -> (Remote, Option<String>) {
        let arguments: &[&str] = if self.is_stateless() { &["--stateless"] } else { &[] };
        let issuer = format!("{}/realms/pipefy", backend.url);
        let mut variables = backend.variables();
        let hosted = matches!(self, Self::Hosted | Self::HostedStateless);
        if hosted {
            variables.extend([
                ("PIPEFY_MCP_PROFILE", "remote"),
                ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "http://127.0.0.1/mcp"),
                ("PIPEFY_JWT_ISSUER_URL", &issuer),
                ("PIPEFY_JWT_ALLOW_INSECURE_URLS", "true"),
            ]);
        }
        variables.extend(more);
        let mut server = Remote::start("", arguments, &variables);
        server.bearer = hosted.then(|| backend.mint());
        let session = (!self.is_stateless()).then(|| server.open());
        (server, session)
    }
}

#[test]
fn odd_parameters_over_http_leave_the_session_as_it_was() {
    let backend = Backend::start();
    for way in Way::ALL {
        let (server, session) = way.start(&backend, &[]);
        let session = session.as_deref();
        for method in METHODS {
            for params in odd_params() {
                // A second `initialize` opens a session of its own: without the id, and closed again.
                let within = session.filter(|_| method != "initialize");
                let line = message(Some(5), method, params);
                let (status, opened, answer) = server.post(within, &line);
                assert!(status == 200 || (400..500).contains(&status), "{line}: {status} {answer}");
                is_fair(&answer, &line);
                assert!(answer["id"] == 5 || answer["id"].is_null(), "{line}: {answer}");
                assert!(opened.is_none() || opened.as_deref() == within, "{line} opened a session");
            }
            server.is_well(session);
        }
        for method in NOTIFICATIONS {
            for params in odd_params() {
                let line = message(None, method, params);
                let (status, _, answer) = server.post(session, &line);
                assert!(status == 202 || (400..500).contains(&status), "{line}: {status} {answer}");
            }
            server.is_well(session);
        }
        // The revision without sessions says in every message what it is; a message that does so wrongly is refused too.
        for method in METHODS.into_iter().chain(["subscriptions/listen"]) {
            for params in odd_params() {
                let line = message(Some(5), method, enveloped(params).as_deref());
                // A subscription that was understood would stay open.
                if method == "subscriptions/listen" && params.is_none_or(|params| params.starts_with('{')) {
                    continue;
                }
                for name in ["", "mcp-name: get_card\r\n"] {
                    let more = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}");
                    let (status, opened, answer) = server.post_bytes(None, &more, line.as_bytes());
                    assert!(status == 200 || (400..500).contains(&status), "{line}: {status} {answer}");
                    is_fair(&answer, &line);
                    assert_eq!(opened, None, "{line} opened a session");
                }
            }
        }
        server.is_well(session);
        assert_eq!(server.metric("pipefy_mcp_sessions"), u64::from(session.is_some()));
    }
}

/// Bodies that are no messages, or are nested without reason, or are no text at all: each is answered, and nothing of them is kept.
#[test]
fn junk_over_http_is_answered_and_not_remembered() {
    let backend = Backend::start();
    for way in Way::ALL {
        let (server, session) = way.start(&backend, &[]);
        let session = session.as_deref();
        let mut bodies: Vec<Vec<u8>> =
            ["", "{", "nonsense", "[]", "[{}]", "\u{0}\u{1}", "\"", "1e999", "{}{}", "null", "7"]
                .map(|text| text.as_bytes().to_vec())
                .to_vec();
        let call = |arguments: &str| {
            let params = format!("{{\"name\":\"get_card\",\"arguments\":{arguments}}}");
            message(Some(1), "tools/call", Some(&params)).into_bytes()
        };
        for depth in [200, 5_000, 200_000] {
            for (open, close) in [("{\"a\":", "}"), ("[", "]"), ("{\"a\":[", "]}"), ("{", ""), ("[", "")] {
                // The largest take their time.
                if depth == 200_000 && open.len() > 1 {
                    continue;
                }
                let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                bodies.push(call(&nested));
                bodies.push(call(&format!("{{\"card_id\":{nested}}}")));
                bodies.push(message(Some(1), "tools/list", Some(&format!("{{\"_meta\":{nested}}}"))).into_bytes());
                bodies.push(nested.into_bytes());
            }
        }
        for bad in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"] {
            let (before, after) = (call("{\"card_id\":\""), b"\"}}}".to_vec());
            bodies.push([&before[..before.len() - 2], bad, &after].concat());
            bodies.push([bad, &call("{}")].concat());
            bodies.push(bad.to_vec());
        }
        bodies.push(call("{\"card_id\":\"\\ud800\"}"));
        let round = || {
            for body in &bodies {
                let (status, opened, answer) = server.post_bytes(session, "", body);
                let shown = String::from_utf8_lossy(&body[..body.len().min(80)]);
                let refused = (400..500).contains(&status) || (status == 200 && answer.get("error").is_some());
                assert!(refused, "{way:?} {shown}: {status} {answer}");
                assert!(opened.is_none() || opened.as_deref() == session, "{way:?} {shown} opened a session");
            }
            server.is_well(session);
        };
        round();
        let (descriptors, memory) = (server.process.descriptors(), server.process.memory("VmRSS"));
        (0..3).for_each(|_| round());
        server.gives_back(descriptors);
        let after = server.process.memory("VmRSS");
        assert!(after < memory + 16 * MIB, "{way:?}: {memory} before, {after} after");
        assert_eq!(server.metric("pipefy_mcp_sessions"), u64::from(session.is_some()));
        assert_eq!(server.metric("pipefy_mcp_tool_calls_running"), 0);
    }
}

/// Thousands of requests that are refused, and hundreds of sessions that come and go: nothing of them stays, not even memory.
#[test]
fn what_was_refused_or_ended_leaves_no_memory() {
    let backend = Backend::start();
    for way in [Way::Sessions, Way::Hosted] {
        // One person sends more than is sent to a server that people use.
        let (server, session) = way.start(&backend, &[("PIPEFY_MCP_REQUESTS_PER_MINUTE", "0")]);
        let opening = initialize(json!(0), "2025-06-18", json!({})).to_string();
        let good = server.bytes(None, &opening, false);
        let refused = [
            good.replace("application/json, text/event-stream", "text/html"),
            good.replace(&format!("host: {}", server.address), "host: evil.example"),
            good.replace("content-type: application/json\r\n", ""),
            server.bytes(None, "{", false),
            server.bytes(None, &message(Some(1), "ping", None), false),
            server.bytes(Some("deadbeef.deadbeef"), &message(Some(1), "ping", None), false),
        ];
        let refuse = |count: usize| {
            let mut wire = Wire(BufReader::new(server.connect()));
            for request in refused.iter().cycle().take(count) {
                let (status, _) = wire.exchange(request);
                assert!((400..500).contains(&status), "{status}: {request}");
            }
        };
        let open_and_end = |count: usize| {
            let mut wire = Wire(BufReader::new(server.connect()));
            for _ in 0..count {
                let (status, session) = wire.exchange(&good);
                assert_eq!(status, 200);
                let session = session.expect("a session id");
                let end = server.bytes(Some(&session), "", false).replacen("POST", "DELETE", 1);
                assert_eq!(wire.exchange(&end).0, 200);
            }
        };
        // Everything that is set up once has been before memory is looked at.
        refuse(1_500);
        open_and_end(250);
        let (descriptors, memory) = (server.process.descriptors(), server.process.memory("VmRSS"));
        refuse(6_000);
        open_and_end(750);
        server.gives_back(descriptors);
        let after = server.process.memory("VmRSS");
        assert!(after < memory + 8 * MIB, "{way:?}: {memory} before, {after} after");
        assert_eq!(server.metric("pipefy_mcp_sessions"), 1);
        server.is_well(session.as_deref());
    }
}

/// One connection for many requests, read by the head of each answer.
struct Wire(BufReader<TcpStream>);

impl Wire {
    /// Status and session id.
    fn exchange(&mut self, request: &str) -> (u16, Option<String>) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut session, mut length) = (0, None, None);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection ended: {request}");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some((name, value)) = line.split_once(": ") {
                match name {
                    "mcp-session-id" => session = Some(value.to_owned()),
                    "content-length" => length = Some(value.parse().unwrap()),
                    _ => {}
                }
            } else if line.is_empty() {
                break;
            } else {
                status = line.split(' ').nth(1).unwrap().parse().unwrap();
            }
        }
        match length {
            Some(length) => drop(std::io::copy(&mut self.0.by_ref().take(length), &mut std::io::sink()).unwrap()),
            // In chunks, to the one that is empty.
            None => loop {
                let mut line = String::new();
                self.0.read_line(&mut line).unwrap();
                let size = u64::from_str_radix(line.trim(), 16).unwrap();
                std::io::copy(&mut self.0.by_ref().take(size + 2), &mut std::io::sink()).unwrap();
                if size == 0 {
                    break;
                }
            },
        }
        (status, session)
    }
}

/// Nobody reads the log: calls go on all the same, and what there was no room for is told when somebody reads again.
#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    let server = Remote::start("", &["--stateless"], &[("PIPEFY_TOKEN", DEFAULT_TOKEN)]);
    // Its reader waits for this lock.
    let unread = server.log.lock().unwrap();
    let mut stream = server.connect();
    let ping = server.bytes(None, &message(Some(9), "ping", None), false);
    // Over 200 bytes of log each; a mebibyte is kept.
    for _ in 0..8_000 {
        stream.write_all(ping.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.windows(12).any(|part| part == b"\"result\":{}}") {
            let mut some = [0; 4096];
            let read = stream.read(&mut some).unwrap();
            assert!(read > 0, "the connection ended");
            answer.extend_from_slice(&some[..read]);
        }
    }
    assert!(!unread.contains("lines_lost"));
    drop(unread);
    until("it says how much is lost", || server.log.lock().unwrap().contains("{\"event\":\"lines_lost\",\"count\":"));
    server.is_well(None);
}

/// A library that gives a process another time of day, where it is installed.
fn other_time() -> Option<std::path::PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
    if found.is_none() {
        eprintln!("skipped: libfaketime is not installed");
    }
    found
}

/// The clock of a hosted server is set back, then forward, then right: bearers that its clock does not allow are refused, and
/// once it is right again the session, the bearer and the approval of before are good, the approval once.
#[test]
fn a_clock_that_is_set_wrong_loses_nothing() {
    let Some(library) = other_time() else { return };
    let backend = Backend::start();
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    let set = |ahead: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, ahead).unwrap();
        std::fs::rename(new, &clock).unwrap();
    };
    set("+0");
    let faked = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let mint = || Some(backend.mint());
    let (mut server, session) = Way::Hosted.start(&backend, &faked);
    let session = session.unwrap();
    let ask = |server: &Remote, tool: &str, arguments: Value| {
        let (status, _, answer) = server.post(Some(&session), &call(json!(1), tool, arguments).to_string());
        (status, answer["result"]["structuredContent"].clone())
    };
    let lists = |server: &Remote| ask(server, "list_organizations", json!({})).0;
    let preview = |server: &Remote, card: &str| {
        let (status, preview) = ask(server, "delete_card", json!({ "card_id": card }));
        assert_eq!(status, 200, "{preview}");
        let token = preview["confirmation_token"].as_str().unwrap_or_else(|| panic!("{preview}"));
        json!({"card_id": card, "confirm": true, "confirmation_token": token})
    };
    assert_eq!(lists(&server), 200);
    let early = backend.card();
    let approved = preview(&server, &early);

    set("-1h");
    // Judged when the clock was right; an approval of this time is good at this time.
    assert_eq!(lists(&server), 200);
    let (known, late) = (server.bearer.take(), mint());
    server.bearer.clone_from(&late);
    assert_eq!(lists(&server), 401, "by the server's clock it will be issued in an hour");
    until("the log says why", || server.log.lock().unwrap().contains("clock"));

    set("+2h");
    assert_eq!(lists(&server), 401);
    server.bearer.clone_from(&known);
    assert_eq!(lists(&server), 401, "by the server's clock it has expired");

    set("+0");
    for bearer in [late, known] {
        server.bearer = bearer;
        assert_eq!(lists(&server), 200);
    }
    let (_, deleted) = ask(&server, "delete_card", approved.clone());
    assert_eq!(deleted["success"], true, "{deleted}");
    let (_, again) = ask(&server, "delete_card", approved);
    assert_eq!(again["success"], false, "{again}");
    assert_ne!(backend.card(), early);
    assert_eq!(server.metric("pipefy_mcp_sessions"), 1);
}

/// Without file descriptors the server waits for some, without spinning; what is connected goes on, and the rest comes back.
#[test]
fn without_descriptors_it_waits_and_recovers() {
    let server = Remote::start("ulimit -n 64", &["--sandbox", "--sandbox-data", ":memory:"], &[]);
    let session = server.open();
    let before = server.process.descriptors();
    let mut connected = Wire(BufReader::new(server.connect()));
    let asks = |wire: &mut Wire, message: &str| wire.exchange(&server.bytes(Some(&session), message, false)).0;
    assert_eq!(asks(&mut connected, &message(Some(1), "ping", None)), 200);
    let crowd: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    until("it says that it has none left", || server.log.lock().unwrap().contains("no connection can be accepted now"));
    let (worked, begun) = (server.process.worked(), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let share = (server.process.worked() - worked).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.3, "it works {share} of the time for nothing");
    assert_eq!(asks(&mut connected, &message(Some(2), "ping", None)), 200, "who is connected is served");
    // A call may find no descriptor for its way to Pipefy; it is answered all the same.
    let organizations = call(json!(3), "list_organizations", json!({})).to_string();
    assert_eq!(asks(&mut connected, &organizations), 200);
    let lines = server.log.lock().unwrap().matches("no connection can be accepted now").count();
    assert!(lines < 30, "{lines} lines of log");
    drop(crowd);
    drop(connected);
    server.is_well(Some(&session));
    let (status, _, answer) = server.post(Some(&session), &call(json!(3), "list_organizations", json!({})).to_string());
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(false)), "{answer}");
    server.gives_back(before);
}

/// Peers that send slowly, stop in the middle, read nothing or close one half: each costs a connection for a limited time and
/// nobody else anything.
#[test]
fn peers_that_stand_still_are_let_go() {
    let timeouts = [("PIPEFY_MCP_HEADER_TIMEOUT_SECONDS", "2"), ("PIPEFY_MCP_BODY_TIMEOUT_SECONDS", "2")];
    let server = Remote::start("", &["--sandbox", "--sandbox-data", ":memory:"], &timeouts);
    let session = server.open();
    server.is_well(Some(&session));
    let (before, memory) = (server.process.descriptors(), server.process.memory("VmRSS"));
    let mut peers = Vec::new();
    for number in 0..20 {
        // Begins a head, or a body, and says no more.
        let whole = server.bytes(Some(&session), &message(Some(1), "ping", None), false);
        let mut stopped = server.connect();
        stopped.write_all(&whole.as_bytes()[..number * whole.len() / 20]).unwrap();
        // Asks for some 25 MB and reads none of it.
        let mut deaf = server.connect();
        let list = server.bytes(Some(&session), &message(Some(1), "tools/list", None), false).repeat(200);
        deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let _full = deaf.write_all(list.as_bytes());
        // Listens on the standalone stream, or asks for one after the other, and closes its half at once.
        let mut half = server.connect();
        half.write_all(whole.as_bytes()).unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        peers.extend([stopped, deaf, half]);
        let begun = Instant::now();
        server.is_well(Some(&session));
        assert!(begun.elapsed() < Duration::from_secs(10), "others wait for {:?}", begun.elapsed());
    }
    // One byte at a time, for longer than a head may take.
    let mut slow = server.connect();
    let gone = (0..60).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        slow.write_all(b"X").is_err()
    });
    assert!(gone, "a slow head is cut off");
    // The peers still hold their ends.
    server.gives_back(before);
    server.is_well(Some(&session));
    let after = server.process.memory("VmRSS");
    assert!(after < memory + 64 * MIB, "{memory} before, {after} after");
    assert_eq!(server.metric("pipefy_mcp_sessions"), 1);
    assert_eq!(server.metric("pipefy_mcp_tool_calls_running"), 0);
    drop(peers);
}

/// The same on HTTP/2, where a peer can take nothing without the connection standing still: who is idle, and who grants no room for
/// its answers.
#[test]
fn peers_on_http_2_that_stand_still_are_let_go() {
    use hyper::client::conn::http2;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let variables = [
        ("PIPEFY_MCP_HEADER_TIMEOUT_SECONDS", "2"),
        ("PIPEFY_MCP_BODY_TIMEOUT_SECONDS", "2"),
        ("PIPEFY_TOKEN", DEFAULT_TOKEN),
    ];
    let server = Remote::start("", &["--stateless"], &variables);
    server.is_well(None);
    let before = server.process.descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let peers: Vec<_> = [65_535, 0, 1]
        .into_iter()
        .flat_map(|room| [room; 5])
        .map(|room| {
            runtime.block_on(async {
                let stream = tokio::net::TcpStream::connect(&server.address).await.unwrap();
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(room);
                let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
                let connection = tokio::spawn(connection);
                let body = bytes::Bytes::from(message(Some(1), "tools/list", None));
                let request = http::Request::post(format!("http://{}/mcp", server.address))
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream")
                    .body(http_body_util::Full::new(body))
                    .unwrap();
                let answer = sender.send_request(request).await.unwrap();
                assert_eq!(answer.status().as_u16(), 200);
                // With the usual room a part of the answer comes, and all of it is read; then nothing more is said.
                let read = match room {
                    65_535 => Err(http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes().len()),
                    _ => Ok(answer),
                };
                assert!(read.as_ref().err().is_none_or(|length| *length > 100_000));
                (sender, connection, read)
            })
        })
        .collect();
    // The peers still hold their ends, and answer every ping.
    server.gives_back(before);
    for (_sender, connection, _read) in peers {
        let _how = runtime.block_on(async { tokio::time::timeout(LIMIT, connection).await }).expect("it is closed");
    }
    server.is_well(None);
}

/// Who is stopped in the middle of work finishes it: each write that reached Pipefy was answered, and then the process ends.
#[test]
fn a_signal_under_load_loses_no_answer() {
    for way in Way::ALL {
        let backend = Backend::start();
        let card = backend.card();
        let (mut server, session) = way.start(&backend, &[]);
        let (done, unanswered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        backend.faults(json!({"latency_ms": 150}));
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let (address, bearer) = (server.address.clone(), server.bearer.clone());
                let (card, session) = (card.clone(), session.clone());
                let (done, unanswered) = (done.clone(), unanswered.clone());
                let bytes = move |number: usize| {
                    let text = format!("under-load {client} {number}");
                    let id = client * 1_000_000 + number;
                    let body = call(json!(id), "add_card_comment", json!({"card_id": card, "text": text})).to_string();
                    request_of(&address, session.as_deref(), bearer.as_deref(), &body, true)
                };
                let address = server.address.clone();
                std::thread::spawn(move || {
                    for number in 0.. {
                        let Ok(mut stream) = TcpStream::connect(&address) else { return };
                        stream.set_read_timeout(Some(LIMIT)).unwrap();
                        if stream.write_all(bytes(number).as_bytes()).is_err() {
                            return;
                        }
                        let mut answer = String::new();
                        let read = stream.read_to_string(&mut answer);
                        match parsed(&answer) {
                            (200, _, answer) if answer["result"]["isError"] == false => {
                                let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
                                assert!(text.contains("\"success\":true"), "{text}");
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            // The connection was made but never taken: nothing was read from it.
                            (0, ..) => {
                                assert!(read.is_err() || answer.is_empty());
                                unanswered.fetch_add(1, Ordering::Relaxed);
                                return;
                            }
                            (status, ..) => assert_eq!(status, 503, "{answer}"),
                        }
                    }
                })
            })
            .collect();
        until("the load is on", || done.load(Ordering::Relaxed) > 20);
        server.process.signal("-TERM");
        for client in clients {
            client.join().unwrap();
        }
        until("it ends", || server.child.try_wait().unwrap().is_some());
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        backend.faults(json!({}));
        let arrived = backend.comments(&card, "under-load");
        let (done, unanswered) = (done.load(Ordering::Relaxed), unanswered.load(Ordering::Relaxed));
        assert_eq!(arrived, done, "{way:?}: writes without an answer ({unanswered} connections were never taken)");
    }
}

/// The same on standard streams: what has reached Pipefy is answered, as done or as what may have been done.
#[test]
fn a_signal_on_standard_streams_leaves_nobody_in_the_dark() {
    let backend = Backend::start();
    let card = backend.card();
    let mut server = Local::start(&backend.variables());
    // Half of them are on their way for ever.
    let slow = json!({"root_field": "createComment", "probability": 0.5, "latency_ms": 600_000});
    backend.faults(json!({"latency_ms": 50, "rules": [slow]}));
    const COUNT: usize = 200;
    for id in 0..COUNT {
        let comment = json!({"card_id": card, "text": format!("stopped-{id}.")});
        server.write(format!("{}\n", call(json!(id), "add_card_comment", comment)).as_bytes());
    }
    let mut answers: Vec<Value> = (0..10).map(|_| server.receive()).collect();
    server.process.signal("-TERM");
    let mut rest = String::new();
    server.output.read_to_string(&mut rest).unwrap();
    answers.extend(rest.lines().map(|line| serde_json::from_str(line).unwrap()));
    assert_eq!(child::ended(&mut server.child).code(), Some(0));
    backend.faults(json!({}));
    let (mut done, mut perhaps) = (0, 0);
    for id in 0..COUNT {
        let arrived = backend.comments(&card, &format!("stopped-{id}."));
        assert!(arrived <= 1, "{id} was made {arrived} times");
        let answer =
            answers.iter().find(|answer| answer["id"] == id).map(|answer| &answer["result"]["structuredContent"]);
        match answer {
            Some(answer) if answer["success"] == true => {
                assert_eq!(arrived, 1, "{answer}");
                done += 1;
            }
            Some(answer) => {
                let told = answer["error"]["details"]["may_have_been_applied"] == true;
                assert!(arrived == 0 || told, "{id} was made, and its answer does not say so: {answer}");
                perhaps += usize::from(told);
            }
            None => assert_eq!(arrived, 0, "{id} was made, and nobody was told"),
        }
    }
    assert!(done >= 10 && perhaps > 0, "{done} done, {perhaps} perhaps, {} answers of {COUNT}", answers.len());
}

/// What happens to a write on its way to Pipefy: the fault, whether it arrives, and whether its caller is told that it may have.
fn lost_writes() -> [(Value, usize, bool); 6] {
    let rule = |more: Value| {
        let mut rule = json!({"root_field": "createComment"});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "rules": [rule] })
    };
    [
        (rule(json!({"drop": true, "after": true})), 1, true),
        (rule(json!({"drop": true})), 0, true),
        (rule(json!({"status": 502, "body": "<html>Bad gateway</html>"})), 0, true),
        (rule(json!({"status": 503, "retry_after": "0", "after": true})), 1, true),
        (rule(json!({"graphql_error": "   "})), 0, false),
        (rule(json!({"status": 429, "retry_after": "0"})), 0, false),
    ]
}

/// Whichever way a write comes in: it goes out once, and its caller is told what is known.
#[test]
fn a_write_goes_out_once_in_every_mode() {
    let backend = Backend::start();
    let card = backend.card();
    let mut local = Local::start(&backend.variables());
    let remotes = Way::ALL.map(|way| (way, way.start(&backend, &[])));
    let mut number = 0;
    for (plan, arrives, perhaps) in lost_writes() {
        for way in 0..=remotes.len() {
            number += 1;
            let text = format!("once {number}.");
            let message = call(json!(number), "add_card_comment", json!({"card_id": card, "text": text}));
            backend.faults(plan.clone());
            let answer = match remotes.get(way) {
                Some((_, (server, session))) => server.post(session.as_deref(), &message.to_string()).2,
                None => local.ask(&message),
            };
            let sent = backend.ask("GET", "/_sandbox/requests", &Value::Null)["requests"].to_string();
            backend.faults(json!({}));
            let way = remotes.get(way).map(|(way, _)| way);
            assert_eq!(sent.matches("[\"createComment\"]").count(), number, "{way:?} {plan}: {sent}");
            assert_eq!(backend.comments(&card, &text), arrives, "{way:?} {plan}: {answer}");
            let shown =
                answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{way:?} {plan}: {answer}"));
            let shown: Value = serde_json::from_str(shown).unwrap();
            let error = &shown["error"];
            assert_eq!(
                (&shown["success"], error["details"]["may_have_been_applied"] == true),
                (&json!(false), perhaps),
                "{shown}"
            );
            assert!(
                error["message"].as_str().is_some_and(|words| !words.trim().is_empty() && !words.contains('<')),
                "{shown}"
            );
            assert_eq!(error["code"] == "RATE_LIMITED", plan.to_string().contains("429"), "{shown}");
        }
    }
    local.is_well();
    local.end();
}

/// A Pipefy that does not answer holds up its own calls only, and they end when their client goes.
#[test]
fn a_pipefy_that_does_not_answer_holds_up_its_own_calls_only() {
    let backend = Backend::start();
    let card = call(json!(2), "get_card", json!({"card_id": backend.card()})).to_string();
    let server = Remote::start("", &[], &backend.variables());
    let session = server.open();
    let organizations = |id: u32| call(json!(id), "list_organizations", json!({})).to_string();
    assert_eq!(server.post(Some(&session), &organizations(1)).0, 200);
    let before = server.process.descriptors();
    backend.faults(json!({"rules": [{"root_field": "organizations", "latency_ms": 600_000}]}));
    let stuck: Vec<TcpStream> = (100..140)
        .map(|id| {
            let mut stream = server.connect();
            stream.write_all(server.bytes(Some(&session), &organizations(id), false).as_bytes()).unwrap();
            stream
        })
        .collect();
    until("they are out", || server.metric("pipefy_mcp_tool_calls_running") == 40);
    for _ in 0..20 {
        let begun = Instant::now();
        let (status, _, answer) = server.post(Some(&session), &card);
        assert_eq!((status, &answer["result"]["isError"]), (200, &json!(false)), "{answer}");
        server.is_well(Some(&session));
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
    drop(stuck);
    until("nobody's reads are given up", || server.metric("pipefy_mcp_tool_calls_running") == 0);
    server.gives_back(before);
    backend.faults(json!({}));
    assert_eq!(server.post(Some(&session), &organizations(1)).2["result"]["isError"], false);
}

/// The disk of the journal is full: no write with a key goes out without its entry, what was made is made once, and with room again
/// all is as before.
#[test]
fn with_a_full_disk_no_key_is_forgotten() {
    let backend = Backend::start();
    let card = backend.card();
    let folder = tempfile::tempdir().unwrap();
    let mut variables = backend.variables();
    variables.push(("XDG_DATA_HOME", folder.path().to_str().unwrap()));
    // The limit can be taken away again: it is the soft one.
    let server = Remote::start("trap '' XFSZ; ulimit -S -f 512", &["--stateless"], &variables);
    let write = |key: usize| {
        let comment =
            json!({"card_id": card, "text": format!("with key {key}."), "idempotency_key": format!("key-{key}")});
        let (status, _, answer) = server.post(None, &call(json!(1), "add_card_comment", comment).to_string());
        assert_eq!(status, 200);
        serde_json::from_str::<Value>(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    let made = |key: usize| backend.comments(&card, &format!("with key {key}."));
    let mut key = 0;
    let refused = loop {
        let answer = write(key);
        if answer["success"] != true {
            break answer;
        }
        key += 1;
        assert!(key < 2_000, "the disk never fills up");
    };
    assert_eq!(refused["error"]["code"], "JOURNAL_UNAVAILABLE", "{refused}");
    assert!(key > 0 && made(key) == 0, "{key}");
    // Whether or not its end could be put down, what went out is not sent again.
    let told = |answer: &Value, codes: &[&str]| {
        answer["idempotency"]["replayed"] == true || codes.iter().any(|code| answer["error"]["code"] == *code)
    };
    let again = write(key - 1);
    assert!(told(&again, &["OUTCOME_UNKNOWN", "JOURNAL_UNAVAILABLE"]) && made(key - 1) == 1, "{again}");
    // Without a key there is nothing to put down.
    let plain = json!({"card_id": card, "text": "without a key"});
    let (_, _, answer) = server.post(None, &call(json!(1), "add_card_comment", plain).to_string());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // Room again.
    let pid = server.process.0.to_string();
    assert!(Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status().unwrap().success());
    let answer = write(key);
    assert_eq!((&answer["success"], made(key)), (&json!(true), 1), "{answer}");
    for old in [0, key / 2, key - 1] {
        let answer = write(old);
        assert!(told(&answer, &["OUTCOME_UNKNOWN"]) && made(old) == 1, "{answer}");
    }
    let answer = write(key);
    assert_eq!((&answer["idempotency"]["replayed"], made(key)), (&json!(true), 1), "{answer}");
}

/// The disk of the audit log is full: no write goes out without its line; reads do; with room again, writes too.
#[test]
fn with_a_full_disk_no_write_goes_out_unrecorded() {
    let backend = Backend::start();
    let card = backend.card();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut variables = backend.variables();
    variables.extend([("PIPEFY_MCP_AUDIT_LOG", log.to_str().unwrap()), ("PIPEFY_MCP_AUDIT_REQUIRED", "true")]);
    // A file of the server may have eight blocks of 512 bytes, and what goes beyond fails as on a full disk.
    let server = Remote::start("trap '' XFSZ; ulimit -f 8", &["--stateless"], &variables);
    let write = || {
        let comment = json!({"card_id": card, "text": "to be recorded"});
        let (status, _, answer) = server.post(None, &call(json!(1), "add_card_comment", comment).to_string());
        assert_eq!(status, 200);
        serde_json::from_str::<Value>(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    let mut applied = 0;
    let refused = loop {
        let answer = write();
        if answer["success"] != true {
            break answer;
        }
        applied += 1;
        assert!(applied < 100, "the disk never fills up");
    };
    assert_eq!(refused["error"]["code"], "AUDIT_UNAVAILABLE", "{refused}");
    let begun = |text: &str| {
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.filter(|line| line["phase"] == "begun").count()
    };
    assert!(applied > 0 && begun(&std::fs::read_to_string(&log).unwrap()) >= applied);
    assert_eq!(backend.comments(&card, "to be recorded"), applied);
    let read = call(json!(2), "get_card", json!({"card_id": card})).to_string();
    assert_eq!(server.post(None, &read).2["result"]["isError"], false);
    // Room again.
    std::fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
    assert_eq!(write()["success"], true);
    assert_eq!(backend.comments(&card, "to be recorded"), applied + 1);
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(begun(&text), 1, "{text}");
}
