//! `pipefy auth` with a real keychain: a gnome-keyring daemon under a D-Bus of its own.
//!
//! Needs `dbus-run-session`, `dbus-send` and `gnome-keyring-daemon` (Debian: dbus, gnome-keyring); says so and ends where they
//! are missing.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a test process looks at its own environment")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::rig::Rig;
use crate::sign_in::{ADMINISTRATOR, sign_in};

const BUS: &str = "PIPEFY_CLI_TEST_BUS";

#[test]
fn the_keychain_keeps_a_session() {
    for tool in ["dbus-run-session", "dbus-send", "gnome-keyring-daemon"] {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status().unwrap();
        if !found.success() {
            println!("skipped: {tool} is not installed");
            return;
        }
    }
    let home = tempfile::tempdir().unwrap();
    let child = Command::new("timeout")
        .args(["120", "dbus-run-session", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "keychain::inside_a_bus", "--ignored", "--nocapture"])
        .env(BUS, home.path())
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

fn dbus(arguments: &[&str]) -> String {
    let output = Command::new("dbus-send").args(["--session", "--print-reply"]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "started by the_keychain_keeps_a_session"]
fn inside_a_bus() {
    if std::env::var_os(BUS).is_none() {
        return;
    }
    let mut daemon = Command::new("gnome-keyring-daemon")
        .args(["--foreground", "--unlock", "--components=secrets"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    daemon.stdin.take().unwrap().write_all(b"login password").unwrap();
    // Asking the service before our daemon has its name would make the bus start a second, locked one.
    let owner = [
        "--dest=org.freedesktop.DBus",
        "/org/freedesktop/DBus",
        "org.freedesktop.DBus.NameHasOwner",
        "string:org.freedesktop.secrets",
    ];
    for _ in 0..200 {
        if dbus(&owner).contains("boolean true") {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let rig = Rig::new()
        .with_token("")
        .with("PIPEFY_KEYCHAIN_BACKEND", "auto")
        .with("DBUS_SESSION_BUS_ADDRESS", std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap());
    let run = sign_in(&rig, ADMINISTRATOR);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("kept in Keyring"), "{run}");
    let status = rig.json(&["auth", "status", "--json"]);
    assert_eq!([&status["identity"]["email"], &status["keychain_backend"]], [ADMINISTRATOR, "Keyring"]);
    assert_eq!(rig.run(&["org", "list"]).code, Some(0));
    assert!(!rig.home.path().join(".config/pipefy/keyring.cfg").exists(), "nothing in the clear");

    let run = rig.run(&["auth", "logout"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    assert_eq!(rig.run(&["org", "list"]).code, Some(2));
    assert!(rig.run(&["auth", "logout"]).stdout.contains("Nothing to do"));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
