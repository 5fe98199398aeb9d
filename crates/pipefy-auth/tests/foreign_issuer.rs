//! Signing in at an issuer that somebody else wrote: `oidc-provider` from npm, a certified OpenID provider.
//!
//! Needs Node; says so and ends where there is none. The package is installed once into the build's temporary folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use pipefy::settings::{AuthSettings, KeychainBackend};
use pipefy_auth::{AuthHttp, BrowserLogin, DeviceLogin, Logout, Revocation, SessionKeeper, resolve_credential};
use secrecy::ExposeSecret;

struct Foreign {
    child: Child,
    _output: BufReader<ChildStdout>,
    url: String,
    home: tempfile::TempDir,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The provider, or nothing where it cannot be had.
fn start() -> Option<Foreign> {
    if !Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: Node is not installed");
        return None;
    }
    let modules = installed();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/issuer.mjs");
    let mut child = Command::new("node")
        .arg(script)
        .arg(modules)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut url).unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "the provider did not start");
    Some(Foreign { child, _output: output, url: url.trim().to_owned(), home: tempfile::tempdir().unwrap() })
}

/// Installs the package once; tests of several processes may come at a time.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-issuer");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !folder.join("node_modules/oidc-provider/package.json").exists() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/package.json");
        std::fs::copy(manifest, folder.join("package.json")).unwrap();
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        let arguments = ["install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"];
        let done = Command::new(npm).args(arguments).current_dir(&folder).status().unwrap();
        assert!(done.success(), "npm install of oidc-provider failed");
    }
    folder
}

impl Foreign {
    fn settings(&self) -> AuthSettings {
        AuthSettings {
            auth_url: self.url.clone(),
            allow_insecure_urls: true,
            keychain_backend: KeychainBackend::File,
            config_dir: Some(self.home.path().join("pipefy")),
            ..AuthSettings::default()
        }
    }

    fn keeper(&self) -> SessionKeeper {
        SessionKeeper::open(&self.settings(), AuthHttp::new()).unwrap()
    }
}

/// A browser: cookies and redirects, nothing else.
struct Browser {
    client: reqwest::Client,
    cookies: HashMap<String, String>,
}

impl Browser {
    fn new() -> Browser {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Browser { client, cookies: HashMap::new() }
    }

    async fn open(&mut self, url: &str) -> (u16, String) {
        self.go(self.client.get(url), url.to_owned()).await
    }

    async fn submit(&mut self, url: &str, form: &[(&str, &str)]) -> (u16, String) {
        self.go(self.client.post(url).form(form), url.to_owned()).await
    }

    async fn go(&mut self, mut request: reqwest::RequestBuilder, mut url: String) -> (u16, String) {
        for _ in 0..12 {
            let jar: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let answer = request.header("cookie", jar.join("; ")).send().await.unwrap();
            for cookie in answer.headers().get_all("set-cookie") {
                let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
                self.cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned());
            }
            let Some(next) = answer.headers().get("location").cloned() else {
                return (answer.status().as_u16(), answer.text().await.unwrap());
            };
            url = url::Url::parse(&url).unwrap().join(next.to_str().unwrap()).unwrap().into();
            request = self.client.get(&url);
        }
        panic!("the provider redirects for ever");
    }
}

#[tokio::test]
async fn browser_login_refresh_and_revocation() {
    let Some(foreign) = start() else { return };
    let login = BrowserLogin::start(&foreign.settings(), AuthHttp::new()).await.unwrap();
    let url = login.authorization_url().to_owned();
    let browser = tokio::spawn(async move { Browser::new().open(&url).await });
    let session = login.finish(Duration::from_secs(20)).await.unwrap();
    let (status, page) = browser.await.unwrap();
    assert!(status == 200 && page.contains("Signed in"), "{status} {page}");
    assert!(session.tokens.id_token.is_some(), "and it was verified");
    foreign.keeper().keep(&session).await.unwrap();

    // A 401 before the expiry: renewed, rotated, stored.
    let credential = resolve_credential(&foreign.settings(), None).unwrap().credential();
    let old = credential.bearer().await.unwrap();
    let new = credential.renew(&old).await.unwrap().expect("another token");
    assert_ne!(new, old);
    let stored = foreign.keeper().keychain().load().await.unwrap().unwrap();
    assert_ne!(stored.tokens.refresh_token.expose_secret(), session.tokens.refresh_token.expose_secret());

    let Logout::SignedOut { revocation, .. } = foreign.keeper().log_out().await else { panic!() };
    assert_eq!(revocation, Revocation::Revoked);
    // It really is: whoever kept a copy cannot use it.
    foreign.keeper().keep(&stored).await.unwrap();
    let rejected = pipefy::Bearer::new(&stored.tokens.access_token).unwrap();
    let error = foreign.keeper().fresh(Some(&rejected)).await.unwrap_err();
    assert_eq!(error.error_code.as_deref(), Some("invalid_grant"), "{error}");
}

#[tokio::test]
async fn a_user_who_denies_is_told() {
    let Some(foreign) = start() else { return };
    reqwest::get(format!("{}/deny-next", foreign.url)).await.unwrap();
    let login = BrowserLogin::start(&foreign.settings(), AuthHttp::new()).await.unwrap();
    let url = login.authorization_url().to_owned();
    let browser = tokio::spawn(async move { Browser::new().open(&url).await });
    let error = login.finish(Duration::from_secs(20)).await.unwrap_err();
    assert!(error.to_string().starts_with("Login failed: access_denied: the user said no. Run "), "{error}");
    assert_eq!(browser.await.unwrap().0, 400);
}

#[tokio::test]
async fn device_login() {
    let Some(foreign) = start() else { return };
    for deny in [false, true] {
        let login = DeviceLogin::start(&foreign.settings(), AuthHttp::new()).await.unwrap();
        let (uri, code) = (login.verification_uri().to_owned(), login.user_code().to_owned());
        assert!(login.verification_uri_complete().is_some_and(|uri| uri.contains(&code)));
        let browser = tokio::spawn(async move {
            // Polling has begun before the user arrives.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut browser = Browser::new();
            let (_, page) = browser.open(&uri).await;
            let (_, rest) = page.split_once("name=\"xsrf\" value=\"").expect("a form");
            let xsrf = rest.split('"').next().unwrap();
            let answer = if deny { ("abort", "yes") } else { ("confirm", "yes") };
            browser.submit(&uri, &[("xsrf", xsrf), ("user_code", &code), answer]).await
        });
        let finished = login.finish().await;
        let (status, page) = browser.await.unwrap();
        if deny {
            assert!(finished.unwrap_err().to_string().contains("denied in the browser"));
        } else {
            let session = finished.unwrap_or_else(|error| panic!("{error}; the browser saw {status} {page}"));
            foreign.keeper().keep(&session).await.unwrap();
            assert!(resolve_credential(&foreign.settings(), None).unwrap().credential().bearer().await.is_ok());
        }
    }
}
