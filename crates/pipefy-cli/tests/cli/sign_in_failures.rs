//! Whatever goes wrong around a sign-in: what is said, the exit code, and that nothing is left behind.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Runtime;

use crate::issuer::{Issuer, Plan};
use crate::rig::{Rig, Run};
use crate::sign_in::{Stored, Waiting, browser};

/// Who sits at the browser.
enum Person {
    /// Nobody; or nobody is asked.
    Nobody,
    Agrees,
    Denies,
    /// Agrees, but meanwhile the place of the session is taken by a folder.
    AgreesTooLate,
    /// Ends the program with Ctrl-C.
    Interrupts,
}
use Person::{Agrees, AgreesTooLate, Denies, Interrupts, Nobody};

const LOGIN: &[&str] = &["auth", "login", "--no-browser"];
const DEVICE: &[&str] = &["auth", "login", "--device"];

struct Stage {
    runtime: Runtime,
    issuer: Arc<Issuer>,
}

impl Stage {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let issuer = runtime.block_on(Issuer::start());
        Self { runtime, issuer }
    }

    /// A home of its own that signs in here; the API is nowhere.
    fn rig(&self) -> Rig {
        let origin = self.issuer.url.trim_end_matches("/realms/test").to_owned();
        Rig::bare()
            .with("PIPEFY_AUTH_URL", self.issuer.url.clone())
            .with("PIPEFY_BASE_URL", origin)
            .with("PIPEFY_ALLOW_INSECURE_URLS", "true")
    }

    fn get(&self, url: &str) -> u16 {
        self.runtime.block_on(async { browser().get(url).send().await.unwrap().status().as_u16() })
    }

    fn login(&self, rig: &Rig, args: &[&str], person: &Person) -> Run {
        let mut login = Waiting::start(rig, args);
        if matches!(person, Nobody) {
            return login.end(rig);
        }
        let url = login.line("Authorization URL: ");
        match person {
            Nobody => {}
            Agrees => {
                self.get(&url);
            }
            AgreesTooLate => {
                std::fs::create_dir(rig.home.path().join(".config/pipefy/keyring.cfg")).unwrap();
                self.get(&url);
            }
            Denies => {
                let back = format!("{}&error=access_denied&error_description=No%20%C3%A9", back(&url));
                assert_eq!(self.get(&back), 400);
            }
            Interrupts => {
                let id = login.id().to_string();
                assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            }
        }
        login.end(rig)
    }
}

/// Where the login at `url` returns to, with its state.
fn back(url: &str) -> String {
    let asked: HashMap<String, String> = url::Url::parse(url).unwrap().query_pairs().into_owned().collect();
    format!("{}?state={}", asked["redirect_uri"], asked["state"])
}

/// Nothing is stored, nothing half-written lies about, and the lock is free.
fn assert_tidy(rig: &Rig, name: &str) {
    let config = rig.home.path().join(".config/pipefy");
    let Ok(entries) = std::fs::read_dir(&config) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(file == "refresh.lock" || (file == "keyring.cfg" && path.is_dir()), "{name} left {file}");
        if file == "refresh.lock" {
            File::open(&path).unwrap().try_lock().unwrap_or_else(|_| panic!("{name} left the lock taken"));
        }
    }
}

fn refuse(plan: &mut Plan, status: u16, body: impl ToString) {
    plan.refuse = Some((status, "application/json", body.to_string()));
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ filters => vec![
        (r"127\.0\.0\.1:\d+", "[ADDRESS]"),
        (r"Authorization URL: \S+", "Authorization URL: [URL]"),
    ], prepend_module_to_snapshot => false, omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn a_login_that_fails_says_why_and_leaves_nothing() {
    type Case = (&'static str, &'static [&'static str], Person, fn(&mut Plan), fn(Rig) -> Rig);
    let as_is: fn(Rig) -> Rig = |rig| rig;
    let fine: fn(&mut Plan) = |_| {};
    let cases: Vec<Case> = vec![
        ("the issuer is down", LOGIN, Nobody, fine, |rig| rig.with("PIPEFY_AUTH_URL", "http://127.0.0.1:9/realms/x")),
        ("the issuer fails", LOGIN, Nobody, |plan| plan.discovery_status = 503, as_is),
        ("no issuer there", LOGIN, Nobody, |plan| plan.discovery = json!("<html>canary</html>"), as_is),
        ("an incomplete issuer", LOGIN, Nobody, |plan| plan.discovery = json!({ "token_endpoint": null }), as_is),
        (
            "another issuer's document",
            LOGIN,
            Nobody,
            |plan| plan.discovery = json!({ "issuer": "https://x.test/" }),
            as_is,
        ),
        (
            "an endpoint nobody may use",
            LOGIN,
            Nobody,
            |plan| plan.discovery = json!({ "token_endpoint": "ftp://x/y" }),
            as_is,
        ),
        ("plain http without leave", LOGIN, Nobody, fine, |rig| rig.with("PIPEFY_ALLOW_INSECURE_URLS", "false")),
        ("sessions are disabled", LOGIN, Nobody, fine, |rig| rig.with("PIPEFY_DISABLE_STORED_SESSION", "true")),
        ("the browser stays away", &["auth", "login", "--no-browser", "--callback-timeout", "5"], Nobody, fine, as_is),
        ("the person says no", LOGIN, Denies, fine, as_is),
        ("Ctrl-C", LOGIN, Interrupts, fine, as_is),
        (
            "the code was used before",
            LOGIN,
            Agrees,
            |plan| refuse(plan, 400, json!({ "error": "invalid_grant", "error_description": "Code not valid" })),
            as_is,
        ),
        ("the client is unknown", LOGIN, Agrees, |plan| refuse(plan, 401, json!({ "error": "invalid_client" })), as_is),
        ("the token endpoint fails", LOGIN, Agrees, |plan| refuse(plan, 502, "<html>canary</html>"), as_is),
        ("the token endpoint is something else", LOGIN, Agrees, |plan| refuse(plan, 200, "<html>canary</html>"), as_is),
        ("no refresh token", LOGIN, Agrees, |plan| plan.tokens = json!({ "refresh_token": null }), as_is),
        ("a replayed ID token", LOGIN, Agrees, |plan| plan.claims = json!({ "nonce": "other" }), as_is),
        ("a forged ID token", LOGIN, Agrees, |plan| plan.tamper = true, as_is),
        ("somebody else's ID token", LOGIN, Agrees, |plan| plan.claims = json!({ "aud": "other" }), as_is),
        ("a clock that is wrong", LOGIN, Agrees, |plan| plan.claims = json!({ "exp": 1_000_000_000 }), as_is),
        ("no keychain", LOGIN, Nobody, fine, |rig| {
            rig.with("PIPEFY_KEYCHAIN_BACKEND", "auto").with("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus")
        }),
        ("no folder for the session", LOGIN, Nobody, fine, |rig| {
            std::fs::write(rig.home.path().join("taken"), "").unwrap();
            let taken = rig.home.path().join("taken/config").display().to_string();
            rig.with("XDG_CONFIG_HOME", taken)
        }),
        ("the folder goes away meanwhile", LOGIN, AgreesTooLate, fine, as_is),
        (
            "no device login",
            DEVICE,
            Nobody,
            |plan| plan.discovery = json!({ "device_authorization_endpoint": null }),
            as_is,
        ),
        ("the person says no on the device", DEVICE, Nobody, |plan| plan.device = vec!["access_denied"], as_is),
        ("the device code expires", DEVICE, Nobody, |plan| plan.device = vec!["authorization_pending"; 50], as_is),
        ("the issuer says that it has expired", DEVICE, Nobody, |plan| plan.device = vec!["expired_token"], as_is),
        ("device code of an unknown client", DEVICE, Nobody, |plan| plan.device = vec!["invalid_client"], as_is),
    ];
    let mut text = String::new();
    for (name, args, person, plan, change) in cases {
        let stage = Stage::new();
        stage.issuer.plan(plan);
        let rig = change(stage.rig());
        let run = stage.login(&rig, args, &person);
        assert!(run.code.is_some_and(|code| code != 0), "{name}\n{run}");
        assert!(!run.to_string().contains("canary"), "{name}\n{run}");
        assert_tidy(&rig, name);
        if matches!(person, AgreesTooLate) {
            let ended = &stage.issuer.seen.lock().unwrap().logouts;
            assert_eq!(ended.last().unwrap().1["refresh_token"], "rt-1", "what could not be stored is ended");
        }
        text.push_str(&format!("## {name}\n{run}\n"));
    }
    snapshot("sign_in_failures", &text);
    transcript_of_sandbox();
}

fn transcript_of_sandbox() {
    let run = Rig::bare().run(&["--sandbox", "auth", "login"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("needs no sign-in"), "{run}");
}

#[test]
fn strangers_at_the_callback_change_nothing() {
    let stage = Stage::new();
    let rig = stage.rig();
    let mut login = Waiting::start(&rig, LOGIN);
    let url = login.line("Authorization URL: ");
    let back = back(&url);
    let place = back.split_once('?').unwrap().0;
    for forged in
        [format!("{place}?code=evil&state=evil"), format!("{place}?code=evil"), format!("{place}?error=x&state=")]
    {
        assert_eq!(stage.get(&forged), 400);
    }
    assert_eq!(stage.get(&place.replace("/callback", "/favicon.ico")), 404);
    assert_eq!(stage.get(&url), 200);
    let run = login.end(&rig);
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(stage.issuer.last_grant()["code"], "c1");
    assert_eq!(Stored::of(&rig).read()["refresh_token"], "rt-1");
}

#[test]
fn a_stored_session_that_does_not_work_says_why() {
    type Case = (&'static str, fn(&mut Plan), fn(Rig) -> Rig, fn(&Stored));
    let as_is: fn(Rig) -> Rig = |rig| rig;
    let fine: fn(&mut Plan) = |_| {};
    let cases: Vec<Case> = vec![
        ("the session is over", |plan| refuse(plan, 400, json!({ "error": "invalid_grant" })), as_is, Stored::expire),
        (
            "the client was removed",
            |plan| refuse(plan, 401, json!({ "error": "invalid_client" })),
            as_is,
            Stored::expire,
        ),
        ("the issuer is ill", |plan| refuse(plan, 503, "<html>canary</html>"), as_is, Stored::expire),
        ("the issuer cannot be discovered", |plan| plan.discovery_status = 404, as_is, Stored::expire),
        (
            "a session of another realm",
            fine,
            |rig| rig.with("PIPEFY_AUTH_URL", "http://127.0.0.1:9/realms/other"),
            |_| {},
        ),
        ("an entry that is no session", fine, as_is, |stored| stored.change(|session| *session = json!("canary"))),
        ("a file that is no keyring", fine, as_is, |stored| std::fs::write(&stored.0, "canary\n").unwrap()),
        ("a keyring that nobody may read", fine, as_is, |stored| {
            std::fs::remove_file(&stored.0).unwrap();
            std::fs::create_dir(&stored.0).unwrap();
        }),
        (
            "no place for the renewed session",
            fine,
            |rig| rig,
            |stored| {
                stored.expire();
                // The lock can be taken, the file beside the session cannot be made.
                let blocked = stored.0.with_file_name("refresh.lock");
                let _ = std::fs::remove_file(&blocked);
                std::fs::create_dir(&blocked).unwrap();
            },
        ),
    ];
    let mut text = String::new();
    for (name, plan, change, spoil) in cases {
        let stage = Stage::new();
        let rig = stage.rig();
        assert_eq!(stage.login(&rig, LOGIN, &Agrees).code, Some(0));
        let stored = Stored::of(&rig);
        spoil(&stored);
        stage.issuer.plan(plan);
        let rig = change(rig);
        let before = std::fs::read(&stored.0).ok();
        text.push_str(&format!("## {name}\n"));
        for line in [&["org", "list"][..], &["auth", "status"], &["auth", "logout"]] {
            if line[1] == "logout" {
                assert_eq!(std::fs::read(&stored.0).ok(), before, "{name}: a failed refresh keeps what is stored");
            }
            let run = rig.run(line);
            assert!(!run.to_string().contains("canary"), "{name}\n{run}");
            text.push_str(&format!("$ pipefy {}\n{run}\n", line.join(" ")));
        }
    }
    snapshot("stored_session_failures", &text);
}
