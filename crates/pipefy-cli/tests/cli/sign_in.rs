//! `pipefy auth` with the real program against the sandbox's issuer; the test plays the browser.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Output};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::rig::{Rig, Run};
use crate::transcript;

pub(crate) const ADMINISTRATOR: &str = "ana.souza@aurora.example";

/// A program that waits for somebody; ended when the test gives up.
pub(crate) struct Waiting {
    child: Option<Child>,
    out: BufReader<ChildStdout>,
    said: String,
    /// stderr is read all the while, so that a full pipe stops nobody.
    complaints: Option<JoinHandle<Vec<u8>>>,
}

impl Waiting {
    pub(crate) fn start(rig: &Rig, args: &[&str]) -> Self {
        Self::spawn(&mut rig.command(args))
    }

    pub(crate) fn spawn(command: &mut std::process::Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        let complaints = std::thread::spawn(move || {
            let mut read = Vec::new();
            err.read_to_end(&mut read).unwrap();
            read
        });
        Self { child: Some(child), out, said: String::new(), complaints: Some(complaints) }
    }

    /// What follows `start` on the first line that begins with it.
    pub(crate) fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "{start:?} never came: {}", self.said);
            self.said.push_str(&line);
            if let Some(rest) = line.trim_end().strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self, rig: &Rig) -> Run {
        self.out.read_to_string(&mut self.said).unwrap();
        let status = self.child.take().unwrap().wait().unwrap();
        let stderr = self.complaints.take().unwrap().join().unwrap();
        rig.finished(Output { status, stdout: std::mem::take(&mut self.said).into_bytes(), stderr })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn browser() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap()
}

/// A person opens `url` and answers the page: `("person", <e-mail>)` or `("deny", "yes")`.
fn answer(rig: &Rig, url: &str, field: (&str, &str)) -> (u16, String) {
    rig.block_on(async {
        let browser = browser();
        let page = browser.get(url).send().await.unwrap().text().await.unwrap();
        let cut = |from: &str| page.split_once(from).map(|(_, rest)| rest.split('"').next().unwrap().to_owned());
        let action = reqwest::Url::parse(url).unwrap().join(&cut("action=\"").expect("a form")).unwrap();
        let mut form = vec![(field.0.to_owned(), field.1.to_owned())];
        form.extend(cut("name=\"ticket\" value=\"").map(|ticket| ("ticket".to_owned(), ticket)));
        form.extend(cut("name=\"user_code\" value=\"").map(|code| ("user_code".to_owned(), code)));
        let answer = browser.post(action).form(&form).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    })
}

pub(crate) fn sign_in(rig: &Rig, person: &str) -> Run {
    let mut login = Waiting::start(rig, &["auth", "login", "--no-browser"]);
    let url = login.line("Authorization URL: ");
    assert_eq!(answer(rig, &url, ("person", person)).0, 200);
    login.end(rig)
}

fn post(rig: &Rig, path: &str, body: Value) {
    rig.block_on(async {
        let answer = browser().post(format!("{}{path}", rig.url())).json(&body).send().await.unwrap();
        assert!(answer.status().is_success());
    });
}

/// How often the sandbox was asked for this path.
fn requests(rig: &Rig, path: &str) -> usize {
    let log: Value = rig.block_on(async {
        browser().get(format!("{}/_sandbox/requests", rig.url())).send().await.unwrap().json().await.unwrap()
    });
    log["requests"].as_array().unwrap().iter().filter(|entry| entry["path"].as_str().unwrap().ends_with(path)).count()
}

/// The stored session, in the file of the file backend.
pub(crate) struct Stored(pub(crate) PathBuf);

impl Stored {
    pub(crate) fn of(rig: &Rig) -> Self {
        Self(rig.home.path().join(".config/pipefy/keyring.cfg"))
    }

    pub(crate) fn read(&self) -> Value {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let packed: String = text.split_once(" = ").unwrap().1.split_whitespace().collect();
        serde_json::from_slice(&STANDARD.decode(packed).unwrap()).unwrap()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut session = self.read();
        change(&mut session);
        let text = std::fs::read_to_string(&self.0).unwrap();
        let head = text.split_once(" = ").unwrap().0;
        std::fs::write(&self.0, format!("{head} = {}\n", STANDARD.encode(session.to_string()))).unwrap();
    }

    /// As if the access token had been granted long ago.
    pub(crate) fn expire(&self) {
        self.change(|session| session["obtained_at"] = json!(session["obtained_at"].as_i64().unwrap() - 100_000));
    }
}

#[test]
fn a_browser_login_opens_commands_until_logout() {
    let rig = Rig::new().with_token("");
    transcript!(sign_in(&rig, ADMINISTRATOR), @"
    exit code: 0
    ----- stdout
    Signing in at [SANDBOX]/realms/pipefy

    Authorization URL: [URL]

    Signed in to Pipefy ([SANDBOX]/realms/pipefy). The session is kept in PlaintextKeyring.
    ----- stderr
    ");
    let organizations = rig.json(&["org", "list", "--json"]);
    assert!(!organizations.as_array().unwrap().is_empty(), "{organizations}");
    let status = rig.json(&["auth", "status", "--json"]);
    assert_eq!(
        [&status["identity"]["email"], &status["auth_source"], &status["state"], &status["keychain_backend"]],
        [ADMINISTRATOR, "stored-session", "active", "PlaintextKeyring"]
    );
    transcript!(rig.run(&["auth", "status"]), @"
    exit code: 0
    ----- stdout
    Signed in to Pipefy ([SANDBOX]/realms/pipefy)
      Identity:      ana.souza@aurora.example (Ana Souza)
      Auth source:   stored session of [SANDBOX]/realms/pipefy
      Expires:       in [TIME]
      Refresh token: in [TIME]
      Keychain:      PlaintextKeyring
    ----- stderr
    ");

    let old = Stored::of(&rig).read();
    transcript!(rig.run(&["auth", "logout"]), @"
    exit code: 0
    ----- stdout
    Signed out of Pipefy ([SANDBOX]/realms/pipefy).
    ----- stderr
    ");
    transcript!(rig.run(&["auth", "logout"]), @"
    exit code: 0
    ----- stdout
    Not signed in. Nothing to do.
    ----- stderr
    ");
    transcript!(rig.run(&["auth", "status"]), @"
    exit code: 2
    ----- stdout
    Not signed in. Run `pipefy auth login`, or set PIPEFY_TOKEN or PIPEFY_SERVICE_ACCOUNT_*; see docs/cli/auth.md.
    ----- stderr
    ");
    assert_eq!(rig.run(&["org", "list"]).code, Some(2));
    // What the session held is void at the issuer as well.
    let token = old["access_token"].as_str().unwrap();
    assert_eq!(rig.run(&["--token", token, "org", "list"]).code, Some(1));
    assert_eq!(requests(&rig, "/revoke"), 1);
}

#[test]
fn a_new_login_replaces_the_session_and_names_what_beats_it() {
    let rig = Rig::new().with_token("");
    assert_eq!(sign_in(&rig, ADMINISTRATOR).code, Some(0));
    let rig = rig.with_token("sandbox-token-guest");
    transcript!(sign_in(&rig, "bruno.lima@aurora.example"), @"
    exit code: 0
    ----- stdout
    Signing in at [SANDBOX]/realms/pipefy

    Authorization URL: [URL]

    Signed in to Pipefy ([SANDBOX]/realms/pipefy). The session is kept in PlaintextKeyring.
    ----- stderr
    note: PIPEFY_TOKEN is set, and other pipefy commands continue to use it instead of this session.
    ");
    let status = rig.json(&["auth", "status", "--json"]);
    assert_eq!(status["auth_source"], "env-token");
    assert_eq!(status["masking_env_vars"], json!(["PIPEFY_TOKEN"]));
    let rig = rig.with_token("");
    assert_eq!(rig.json(&["auth", "status", "--json"])["identity"]["email"], "bruno.lima@aurora.example");
}

#[test]
fn several_logins_have_names() {
    let rig = Rig::new().with_token("");
    assert_eq!(sign_in(&rig, ADMINISTRATOR).code, Some(0));
    let mut login = Waiting::start(&rig, &["--account", "work", "auth", "login", "--no-browser"]);
    let url = login.line("Authorization URL: ");
    assert_eq!(answer(&rig, &url, ("person", "bruno.lima@aurora.example")).0, 200);
    assert_eq!(login.end(&rig).code, Some(0));
    let who = |rig: &Rig, line: &[&str]| rig.json(line)["identity"]["email"].as_str().unwrap().to_owned();
    let named = ["--account", "work", "auth", "status", "--json"];
    assert_eq!(who(&rig, &["auth", "status", "--json"]), ADMINISTRATOR);
    assert_eq!(who(&rig, &named), "bruno.lima@aurora.example");
    assert!(rig.run(&["--account", "work", "auth", "status"]).stdout.contains("stored session work of"));
    // A name means the login, whatever token is set; without one the token wins as ever.
    let rig = rig.with_token("sandbox-token-guest");
    assert_eq!(who(&rig, &named), "bruno.lima@aurora.example");
    assert_eq!(rig.json(&["auth", "status", "--json"])["auth_source"], "env-token");
    let rig = rig.with_token("").with("PIPEFY_ACCOUNT", "work");
    assert_eq!(who(&rig, &["auth", "status", "--json"]), "bruno.lima@aurora.example");
    assert_eq!(rig.run(&["auth", "logout"]).code, Some(0));
    assert_eq!(rig.run(&["org", "list"]).code, Some(2));
    let rig = rig.with("PIPEFY_ACCOUNT", "a b");
    assert!(rig.run(&["org", "list"]).stderr.contains("PIPEFY_ACCOUNT"));
    let run = rig.run(&["--account", "x", "--token", "y", "org", "list"]);
    assert!(run.code == Some(2) && run.stderr.contains("--account"), "{run}");
}

#[test]
fn a_device_login_waits_for_the_code() {
    let rig = Rig::new().with_token("");
    let mut login = Waiting::start(&rig, &["auth", "login", "--device"]);
    let url = login.line("or open ");
    assert_eq!(answer(&rig, &url, ("person", ADMINISTRATOR)).0, 200);
    let run = login.end(&rig);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("enter the code ") && run.stdout.contains("Signed in to Pipefy"), "{run}");
    assert_eq!(rig.json(&["auth", "status", "--json"])["identity"]["email"], ADMINISTRATOR);

    let mut login = Waiting::start(&rig, &["auth", "login", "--device"]);
    let url = login.line("or open ");
    assert_eq!(answer(&rig, &url, ("deny", "yes")).0, 200);
    let run = login.end(&rig);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("access_denied") && run.stderr.contains("ask your administrator"), "{run}");
    assert_eq!(rig.run(&["org", "list"]).code, Some(0), "the session there was is kept");
}

#[cfg(unix)]
#[test]
fn the_browser_that_is_set_is_opened() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new().with_token("");
    let script = rig.home.path().join("browser");
    let seen = rig.home.path().join("seen");
    std::fs::write(
        &script,
        format!("#!/bin/sh\nprintf '%s\\n' \"$1\" > {0}.new && /bin/mv {0}.new {0}\n", seen.display()),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let rig = rig.with("BROWSER", script.display().to_string());
    let login = Waiting::start(&rig, &["auth", "login"]);
    let url = (0..400)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::read_to_string(&seen).ok()
        })
        .expect("the browser was not opened");
    assert_eq!(answer(&rig, url.trim(), ("person", ADMINISTRATOR)).0, 200);
    let run = login.end(&rig);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stdout.contains("Authorization URL"), "the browser has it: {run}");

    // No browser at all: the URL is printed and the login goes on.
    let rig = rig.with("BROWSER", "").with("PATH", "/nonexistent");
    let mut login = Waiting::start(&rig, &["auth", "login"]);
    let url = login.line("Authorization URL: ");
    assert_eq!(answer(&rig, &url, ("person", ADMINISTRATOR)).0, 200);
    let run = login.end(&rig);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("--no-browser"), "{run}");
}

#[test]
fn five_processes_with_an_expired_token_make_one_grant() {
    let rig = Rig::new().with_token("");
    assert_eq!(sign_in(&rig, ADMINISTRATOR).code, Some(0));
    let before = requests(&rig, "/token");
    let stored = Stored::of(&rig);
    let old = stored.read();
    stored.expire();
    let running: Vec<Child> = (0..5).map(|_| rig.command(&["org", "list", "--json"]).spawn().unwrap()).collect();
    for child in running {
        let run = rig.finished(child.wait_with_output().unwrap());
        assert_eq!(run.code, Some(0), "{run}");
    }
    assert_eq!(requests(&rig, "/token") - before, 1);
    let new = stored.read();
    assert_ne!(new["refresh_token"], old["refresh_token"]);
    assert!(new["obtained_at"].as_i64().unwrap() >= old["obtained_at"].as_i64().unwrap());
    // A clock that was wrong when the session was stored does no harm either.
    stored.change(|session| session["obtained_at"] = json!(session["obtained_at"].as_i64().unwrap() + 100_000));
    assert_eq!(rig.run(&["org", "list"]).code, Some(0));
    assert_eq!(requests(&rig, "/token") - before, 2);
}

#[test]
fn a_session_that_was_ended_elsewhere_says_what_to_do() {
    let rig = Rig::new().with_token("");
    assert_eq!(sign_in(&rig, ADMINISTRATOR).code, Some(0));
    let stored = Stored::of(&rig);
    let copy = std::fs::read(&stored.0).unwrap();
    assert_eq!(rig.run(&["auth", "logout"]).code, Some(0));
    std::fs::write(&stored.0, copy).unwrap();
    // The access token looks good and is refused: one renewal is tried, then the 401 stands.
    transcript!(rig.run(&["org", "list"]), @"
    exit code: 1
    ----- stdout
    ----- stderr
    Pipefy did not accept the sign-in (Unauthorized: The access token is missing, unknown or expired). Nothing was applied, so it is safe to repeat the call after signing in again (`pipefy auth status` shows which credential is used)
    Pipefy said: Unauthorized: The access token is missing, unknown or expired
    ");
    stored.expire();
    transcript!(rig.run(&["org", "list"]), @"
    exit code: 2
    ----- stdout
    ----- stderr
    The stored session could not be refreshed: Refresh failed: invalid_grant: The refresh token is unknown, used, expired or revoked. Run `pipefy auth login`.
    ");
    transcript!(rig.run(&["auth", "status"]), @"
    exit code: 2
    ----- stdout
    Signed in to Pipefy ([SANDBOX]/realms/pipefy), but the session cannot be used
      Identity:      unknown
      Auth source:   stored session of [SANDBOX]/realms/pipefy
      Expires:       expired
      Refresh token: in [TIME]
      Keychain:      PlaintextKeyring
    ----- stderr
    The stored session could not be refreshed: Refresh failed: invalid_grant: The refresh token is unknown, used, expired or revoked. Run `pipefy auth login`.
    ");
    let run = rig.run(&["auth", "status", "--json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &report["state"], run.stderr.as_str()), (Some(2), &json!("refresh-expired"), ""), "{run}");
    assert_eq!(report["identity"], Value::Null);
    // Signing out of what is over is no failure.
    let run = rig.run(&["auth", "logout"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!stored.0.exists() || !std::fs::read_to_string(&stored.0).unwrap().contains(" = "));
}

#[test]
fn logout_says_when_the_issuer_was_not_told() {
    let rig = Rig::new().with_token("");
    assert_eq!(sign_in(&rig, ADMINISTRATOR).code, Some(0));
    post(
        &rig,
        "/_sandbox/faults",
        json!({ "rules": [{ "endpoint": "oidc", "status": 503, "body": "{\"canary\": 1}" }] }),
    );
    transcript!(rig.run(&["auth", "logout"]), @"
    exit code: 0
    ----- stdout
    Signed out of Pipefy ([SANDBOX]/realms/pipefy) on this machine only.
    ----- stderr
    The refresh token could not be revoked at the IdP (HTTP 503); it may remain valid at the server until its natural expiry.
    ");
    assert_eq!(rig.run(&["org", "list"]).code, Some(2), "it is gone from this machine all the same");
}

#[test]
fn no_secret_leaves_the_keychain() {
    let rig = Rig::new().with_token("").with("RUST_LOG", "trace").with("RUST_BACKTRACE", "full");
    let run = sign_in(&rig, ADMINISTRATOR);
    assert_eq!(run.code, Some(0), "{run}");
    let stored = Stored::of(&rig);
    let mut secrets = Vec::new();
    let mut heard = String::new();
    let mut hear = |run: Run, secrets: &mut Vec<String>| {
        let session = stored.read();
        for key in ["access_token", "refresh_token", "id_token"] {
            secrets.extend(session[key].as_str().map(str::to_owned));
        }
        heard.push_str(&run.stdout);
        heard.push_str(&run.stderr);
    };
    hear(run, &mut secrets);
    for line in [&["auth", "status"][..], &["auth", "status", "--json"], &["org", "list"]] {
        hear(rig.run(line), &mut secrets);
    }
    stored.expire();
    hear(rig.run(&["org", "list", "--json"]), &mut secrets);
    post(&rig, "/_sandbox/faults", json!({ "rules": [{ "endpoint": "graphql", "status": 401 }] }));
    hear(rig.run(&["org", "list"]), &mut secrets);
    post(&rig, "/_sandbox/faults", json!({ "rules": [{ "endpoint": "oidc", "status": 500 }] }));
    stored.expire();
    hear(rig.run(&["org", "list"]), &mut secrets);
    hear(rig.run(&["auth", "status"]), &mut secrets);
    let out = rig.run(&["auth", "logout"]);
    heard.push_str(&out.stdout);
    heard.push_str(&out.stderr);
    assert!(heard.contains("TRACE"), "the log is on: {heard}");
    secrets.sort();
    secrets.dedup();
    assert!(secrets.len() >= 6, "two sessions at least");
    for secret in secrets {
        // Also no part of it that could be used.
        let signature = secret.rsplit('.').next().unwrap();
        assert!(!heard.contains(secret.as_str()) && !heard.contains(signature), "a token was shown");
    }
}
