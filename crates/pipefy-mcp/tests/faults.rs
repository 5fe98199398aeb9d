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

/// The server on standard streams, in bytes.
struct Local {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: Process,
    _home: tempfile::TempDir,
}

impl Local {
    fn start(variables: &[(&str, &str)]) -> Self {
        // Where a test needs no Pipefy, there is none.
        let (mut command, home) = child::command(&[], &[("PIPEFY_TOKEN", DEFAULT_TOKEN)]);
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut this = Self { process: Process(child.id()), child, input, output, _home: home };
        this.write(format!("{}\n", initialize(json!(0), "2025-06-18", json!({}))).as_bytes());
        assert!(this.receive()["result"].is_object());
        this
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
        let Self { mut child, input, output, .. } = self;
        drop(input);
        let rest: Vec<String> = output.lines().map(Result::unwrap).collect();
        assert!(rest.is_empty(), "{rest:?}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
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
    const COUNT: usize = 6_000;
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
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let bearer = self.bearer.as_ref().map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default();
        let close = if close { "connection: close\r\n" } else { "" };
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}{bearer}{close}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
    }

    /// Status, session id and message of the answer on a connection of its own.
    fn post(&self, session: Option<&str>, body: &str) -> (u16, Option<String>, Value) {
        let mut stream = self.connect();
        stream.write_all(self.bytes(session, body, true).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        parsed(&answer)
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

#[test]
fn odd_parameters_over_http_leave_the_session_as_it_was() {
    let backend = Backend::start();
    for arguments in [&[][..], &["--stateless"]] {
        let server = Remote::start("", arguments, &backend.variables());
        let session = arguments.is_empty().then(|| server.open());
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
        assert_eq!(server.metric("pipefy_mcp_sessions"), u64::from(session.is_some()));
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
    let issuer = format!("{}/realms/pipefy", backend.url);
    let mut variables = backend.variables();
    variables.extend([
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("PIPEFY_MCP_PROFILE", "remote"),
        ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "http://127.0.0.1/mcp"),
        ("PIPEFY_JWT_ISSUER_URL", &issuer),
        ("PIPEFY_JWT_ALLOW_INSECURE_URLS", "true"),
    ]);
    let mint = || {
        let token = backend.ask("POST", "/_sandbox/oidc/tokens", &json!({"expires_in": 3600}));
        token["access_token"].as_str().map(str::to_owned)
    };
    let mut server = Remote::start("", &[], &variables);
    server.bearer = mint();
    let session = server.open();
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
    let mut connected = server.connect();
    connected.write_all(server.bytes(Some(&session), &message(Some(1), "ping", None), false).as_bytes()).unwrap();
    let mut some = [0; 4096];
    assert!(connected.read(&mut some).unwrap() > 0);
    let crowd: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    until("it says that it has none left", || server.log.lock().unwrap().contains("no connection can be accepted now"));
    let (worked, begun) = (server.process.worked(), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let share = (server.process.worked() - worked).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.3, "it works {share} of the time for nothing");
    connected.write_all(server.bytes(Some(&session), &message(Some(2), "ping", None), false).as_bytes()).unwrap();
    assert!(connected.read(&mut some).unwrap() > 0, "who is connected is served");
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

/// Who is stopped in the middle of work finishes it: each write that reached Pipefy was answered, and then the process ends.
#[test]
fn a_signal_under_load_loses_no_answer() {
    for arguments in [&[][..], &["--stateless"]] {
        let backend = Backend::start();
        let card = backend.card();
        let mut server = Remote::start("", arguments, &backend.variables());
        let session = arguments.is_empty().then(|| server.open());
        let (done, unanswered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        backend.faults(json!({"latency_ms": 150}));
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let (address, card, session) = (server.address.clone(), card.clone(), session.clone());
                let (done, unanswered) = (done.clone(), unanswered.clone());
                let bytes = move |number: usize| {
                    let text = format!("under-load {client} {number}");
                    let id = client * 1_000_000 + number;
                    let body = call(json!(id), "add_card_comment", json!({"card_id": card, "text": text})).to_string();
                    let session = session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
                    format!(
                        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
                         accept: application/json, text/event-stream\r\n{session}connection: close\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    )
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
        assert_eq!(arrived, done, "writes without an answer ({unanswered} connections were never taken)");
    }
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
