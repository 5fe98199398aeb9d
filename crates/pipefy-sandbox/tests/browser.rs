//! The board in a real browser: what people, agents and automations do shows up in the open page by itself.
//!
//! Needs Chromium (Debian's package `chromium`); without it the test says that it is skipped. It is driven over the pipes of
//! `--remote-debugging-pipe`: JSON messages that end with a zero byte. `BOARD_SHOTS=folder` keeps screenshots.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr
)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::{Value, json};

/// Limit of anything that is waited for.
const SOON: Duration = Duration::from_secs(30);

/// A headless browser with one page; it ends with this value.
struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    next: u64,
    session: String,
}

impl Browser {
    fn start(program: &str, folder: &Path) -> Self {
        let pipes = [folder.join("to"), folder.join("from")];
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        // The shell puts the pipes where the browser looks for them, and becomes the browser.
        let child = Command::new("sh")
            .args(["-c", "to=$1 from=$2; shift 2; exec \"$0\" \"$@\" 3<\"$to\" 4>\"$from\"", program])
            .args(&pipes)
            .args(["--remote-debugging-pipe", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--window-size=1440,900"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (opened, open) = channel();
        let ends = pipes.clone();
        // Each end of such a pipe opens when the other one does; a browser that does not start must not hold the test.
        std::thread::spawn(move || {
            let to = File::options().write(true).open(&ends[0]).unwrap();
            _ = opened.send((to, File::open(&ends[1]).unwrap()));
        });
        let (to, from) = open.recv_timeout(SOON).expect("the browser starts");
        let (told, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0) {
                let Ok(message) = message else { return };
                if told.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, to, from: messages, next: 0, session: String::new() };
        let page = browser.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// One command and its result; events are left aside.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let until = Instant::now() + SOON;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.from.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.next {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of a JavaScript expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let result = self.ask("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true.
    fn until(&mut self, expression: &str) {
        let end = Instant::now() + SOON;
        while self.value(expression) != true {
            assert!(Instant::now() < end, "never true: {expression}\n{}", self.value("document.body?.innerText"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.until("document.readyState === 'complete' && !document.querySelector('#pulse')?.hidden");
        // A mark that a reload would lose.
        self.value("window.untouched = true");
    }

    /// Keeps a picture of the page where somebody wants to look at it.
    fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("BOARD_SHOTS") else { return };
        let shot = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The administrator's answer of the API.
async fn api(http: &reqwest::Client, sandbox: &Sandbox, query: &str, variables: Value) -> Value {
    let answer = http
        .post(format!("{}/graphql", sandbox.url()))
        .bearer_auth(DEFAULT_TOKEN)
        .header("content-type", "application/json")
        .body(json!({"query": query, "variables": variables}).to_string())
        .send()
        .await
        .unwrap();
    let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    assert!(answer.get("errors").is_none(), "{answer:#}");
    answer["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_shows_what_happens_without_a_reload() {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|program| {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    let Some(program) = found else {
        eprintln!("skipped: there is no Chromium here (Debian package chromium)");
        return;
    };
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let http = reqwest::Client::new();
    let folder = tempfile::tempdir().unwrap();
    let mut page = Browser::start(program, folder.path());

    let pipes = api(
        &http,
        &sandbox,
        "{ organizations { pipes { id name phases { id name cards(first: 1) { edges { node { id title } } } } } } }",
        json!({}),
    )
    .await;
    let pipe = pipes["organizations"][0]["pipes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["name"] == "Vendas B2B - São Paulo")
        .unwrap();
    let phases = pipe["phases"].as_array().unwrap();
    let (from, to) = (&phases[0], &phases[1]);
    let card = from["cards"]["edges"][0]["node"]["id"].as_str().unwrap();

    // The root: every organization and pipe, and a board that fits the window.
    page.open(sandbox.url());
    page.until(
        "document.querySelectorAll('.side li a').length >= 7 && document.querySelectorAll('.column').length > 2",
    );
    page.until("document.documentElement.scrollWidth <= window.innerWidth");
    page.picture("root");

    // A card that is moved through the API moves on the open board, lights up, and the move is in the activity list.
    page.open(&format!("{}/?pipe={}", sandbox.url(), pipe["id"].as_str().unwrap()));
    let column = |name: &Value| {
        format!(
            "[...document.querySelectorAll('.column')].find(c => c.querySelector('h2').innerText.startsWith({name}))\
             ?.querySelector('[data-card=\"{card}\"]')"
        )
    };
    page.until(&format!("!!{} && !{}", column(&from["name"]), column(&to["name"])));
    let moving = "mutation($c: ID!, $p: ID!) { moveCardToPhase(input: {card_id: $c, destination_phase_id: $p}) { card { id } } }";
    api(&http, &sandbox, moving, json!({"c": card, "p": to["id"]})).await;
    page.until(&format!("!{} && !!{}", column(&from["name"]), column(&to["name"])));
    page.until(&format!("{}.classList.contains('fresh')", column(&to["name"])));
    page.until("document.querySelector('.activity li').innerText.includes('Ana Souza')");
    page.picture("board");

    // A comment shows on the open card; markup in it is text.
    page.open(&format!("{}/open-cards/{card}", sandbox.url()));
    let commenting =
        "mutation($c: ID!, $t: String!) { createComment(input: {card_id: $c, text: $t}) { comment { id } } }";
    let text = "<b>Called back</b><script>document.title = 'taken'</script>";
    api(&http, &sandbox, commenting, json!({"c": card, "t": text})).await;
    page.until("[...document.querySelectorAll('.comment')].some(c => c.innerText.includes('<b>Called back</b>'))");
    page.until(&format!("document.querySelector('.steps .here').innerText === {}", to["name"]));
    page.picture("card");

    assert_eq!(page.value("window.untouched"), true, "the page was loaded again");
    assert_ne!(page.value("document.title"), "taken");

    // When the sandbox goes away, the page says that it is not live any more.
    sandbox.shutdown().await;
    page.until("document.querySelector('#pulse').hidden");
}
