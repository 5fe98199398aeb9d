//! The Linux keychain for real: a gnome-keyring daemon under a D-Bus of its own.
//!
//! Needs `dbus-run-session`, `dbus-send`, `gnome-keyring-daemon` and `secret-tool` (Debian: dbus, gnome-keyring, libsecret-tools); says
//! so and ends where they are missing.
#![cfg(all(target_os = "linux", feature = "keychain"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout
)]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pipefy::settings::{AuthSettings, KeychainBackend};
use pipefy_auth::{AuthHttp, Entry, Logout, Presence, Revocation, SessionKeeper, StoredSession, resolve_credential};
use secrecy::ExposeSecret;
use serde_json::json;
use support::{Issuer, unix};

const ACCOUNT: &str = "127.0.0.1|pipefy-cli";

#[test]
fn the_secret_service_keeps_sessions() {
    for tool in ["dbus-run-session", "dbus-send", "gnome-keyring-daemon", "secret-tool"] {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status().unwrap();
        if !found.success() {
            println!("skipped: {tool} is not installed");
            return;
        }
    }
    let mut bus = Command::new("timeout");
    bus.args(["120", "dbus-run-session", "--"]).arg(std::env::current_exe().unwrap());
    run_inside(bus, "inside_a_bus");
}

#[test]
fn without_a_store_nothing_is_written_in_the_clear() {
    let mut nowhere = Command::new(std::env::current_exe().unwrap());
    nowhere.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    run_inside(nowhere, "without_a_bus");
}

/// Runs one of the ignored tests below in a process with an environment of its own.
fn run_inside(mut command: Command, test: &str) {
    let home = tempfile::tempdir().unwrap();
    let child = command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("PIPEFY_AUTH_TEST_BUS", home.path())
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env_remove("XDG_DATA_HOME")
        .env_remove("DISPLAY")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    // A name that matches no test would succeed as well.
    assert!(child.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
}

fn secret_tool(arguments: &[&str], input: Option<&str>) -> String {
    let mut child =
        Command::new("secret-tool").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.unwrap_or_default().as_bytes()).unwrap();
    drop(pipe);
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Whether somebody owns the service's name on the bus; asking does not start anybody.
fn is_served() -> bool {
    let question = ["--session", "--print-reply", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus"];
    let output = Command::new("dbus-send")
        .args(question)
        .args(["org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).contains("boolean true")
}

fn settings(home: &Path, issuer: &str) -> AuthSettings {
    AuthSettings {
        auth_url: issuer.to_owned(),
        allow_insecure_urls: true,
        keychain_backend: KeychainBackend::Auto,
        config_dir: Some(home.join("config/pipefy")),
        data_dir: Some(home.join(".local/share")),
        ..AuthSettings::default()
    }
}

fn session(issuer: &str, padding: usize) -> StoredSession {
    let value = json!({"issuer": issuer, "client_id": "pipefy-cli", "obtained_at": unix(), "access_token": "a".repeat(padding),
        "refresh_token": "rt-0", "token_type": "Bearer", "expires_in": 300, "refresh_expires_in": 0, "scope": null, "id_token": null});
    StoredSession::from_json(&value.to_string()).unwrap()
}

#[test]
#[ignore = "started by the_secret_service_keeps_sessions"]
fn inside_a_bus() {
    let home = std::env::var_os("PIPEFY_AUTH_TEST_BUS").expect("its parent's folder");
    let home = Path::new(&home).to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let issuer = Issuer::start().await;
        let settings = settings(&home, &issuer.url);
        let mut daemon = Command::new("gnome-keyring-daemon")
            .args(["--foreground", "--unlock", "--components=secrets"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        daemon.stdin.take().unwrap().write_all(b"login password").unwrap();
        let keeper = || SessionKeeper::open(&settings, AuthHttp::new()).unwrap();
        // Asking the service before our daemon has its name would make the bus start a second, locked one.
        for _ in 0..200 {
            if is_served() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(matches!(keeper().keychain().presence().await, Presence::Absent));
        assert_eq!(keeper().keychain().name(), "Keyring");

        // What we write, others read by the two attributes; 6 KiB fit.
        let ours = session(&issuer.url, 6000);
        keeper().keep(&ours).await.unwrap();
        let seen = secret_tool(&["lookup", "service", "pipefy", "username", ACCOUNT], None);
        assert_eq!(seen, ours.to_json().expose_secret());
        let about = secret_tool(&["search", "--all", "service", "pipefy"], None);
        assert!(about.contains(&format!("label = Password for '{ACCOUNT}' on 'pipefy'")), "{about}");

        // What the reference writes, we read, change in place, and use: also from a thread of an async runtime.
        secret_tool(&["clear", "service", "pipefy"], None);
        let label = format!("--label=Password for '{ACCOUNT}' on 'pipefy'");
        let theirs = session(&issuer.url, 10);
        let attributes = ["service", "pipefy", "username", ACCOUNT, "application", "Python keyring library"];
        let store = [&["store", &label], attributes.as_slice()].concat();
        secret_tool(&store, Some(theirs.to_json().expose_secret()));
        let credential = resolve_credential(&settings, None).unwrap().credential();
        let bearer = credential.bearer().await.unwrap();
        assert!(bearer.occurs_in(&"a".repeat(10)));
        assert!(credential.renew(&bearer).await.unwrap().unwrap().occurs_in("at-1"));
        let about = secret_tool(&["search", "--all", "service", "pipefy"], None);
        assert_eq!(about.matches("[/").count(), 1, "one item, changed in place: {about}");
        assert!(secret_tool(&["lookup", "service", "pipefy"], None).contains("\"rt-1\""));

        // Two matching items: the reference makes none such, but nothing may survive a logout.
        secret_tool(&[&["store", "--label=second", "extra", "1"], &attributes[..4]].concat(), Some("x"));
        let Logout::SignedOut { .. } = keeper().log_out().await else { panic!() };
        assert_eq!(secret_tool(&["search", "--all", "service", "pipefy"], None), "");

        // Damage.
        secret_tool(&store, Some("not json"));
        assert!(matches!(keeper().keychain().read().await.unwrap(), Entry::Unreadable));
        let Logout::SignedOut { revocation: Revocation::Unreadable, .. } = keeper().log_out().await else { panic!() };
        assert!(matches!(keeper().log_out().await, Logout::NothingStored));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    });
}

#[test]
#[ignore = "started by without_a_store_nothing_is_written_in_the_clear"]
fn without_a_bus() {
    let home = std::env::var_os("PIPEFY_AUTH_TEST_BUS").expect("its parent's folder");
    let settings = settings(Path::new(&home), "http://127.0.0.1:9/realms/test");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let keeper = || SessionKeeper::open(&settings, AuthHttp::new()).unwrap();
        assert!(keeper().keychain().name().starts_with("unavailable ("), "{}", keeper().keychain().name());
        let session = session(&settings.auth_url, 10);
        assert!(!keeper().keep(&session).await.unwrap_err().to_string().is_empty());
        assert!(!settings.data_dir.as_ref().unwrap().exists());
        let error = resolve_credential(&settings, None).unwrap_err().to_string();
        assert!(error.contains("The keychain could not be read"), "{error}");

        // What the reference has written there in the clear is found, used and removable.
        let older = settings.data_dir.as_ref().unwrap().join("python_keyring/keyring_pass.cfg");
        let file = pipefy_auth::FileStore::new(older);
        pipefy_auth::SecretStore::set(&file, ACCOUNT, &session.to_json()).unwrap();
        assert_eq!(keeper().keychain().name(), "PlaintextKeyring", "and named as what it is");
        let credential = resolve_credential(&settings, None).unwrap().credential();
        assert!(credential.bearer().await.is_ok());
        let Logout::SignedOut { revocation: Revocation::Failed { .. }, .. } = keeper().log_out().await else {
            panic!()
        };
        assert!(matches!(keeper().keychain().presence().await, Presence::Unknown(_)));
    });
}
