//! Signing in, refreshing and signing out against an issuer on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipefy::settings::AuthSettings;
use pipefy_auth::{
    AuthError, AuthHttp, BrowserLogin, DeviceLogin, Entry, Identity, Logout, ResolvedAuth, Revocation, SecretStore,
    SessionKeeper, StoreError, StoredSession, detect, resolve_credential, status,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use support::{Issuer, unix};

struct Home {
    dir: tempfile::TempDir,
    settings: AuthSettings,
}

fn home(issuer: &Issuer) -> Home {
    let dir = tempfile::tempdir().unwrap();
    let settings = issuer.settings(dir.path());
    Home { dir, settings }
}

impl Home {
    fn keeper(&self) -> SessionKeeper {
        SessionKeeper::open(&self.settings, AuthHttp::new()).unwrap()
    }

    async fn stored(&self) -> Option<StoredSession> {
        self.keeper().keychain().load().await.unwrap()
    }

    /// Stores a session that was granted `age` seconds ago for 300 seconds.
    async fn sign_in(&self, age: i64) {
        let value = json!({"issuer": self.settings.auth_url, "client_id": "pipefy-cli", "obtained_at": unix() - age,
            "access_token": "at-0", "refresh_token": "rt-0", "token_type": "Bearer", "expires_in": 300,
            "refresh_expires_in": 0, "scope": null, "id_token": null});
        self.keeper().keep(&StoredSession::from_json(&value.to_string()).unwrap()).await.unwrap();
    }
}

/// Plays the browser: follows the redirect, says what came back.
async fn browse(url: &str) -> (u16, String) {
    let answer = reqwest::get(url).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_browser_login_ends_in_a_verified_session() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    let login = BrowserLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    let url = login.authorization_url().to_owned();
    assert!(url.starts_with(&format!("{}/authorize?", issuer.url)));
    let port = login.port();
    let browser = tokio::spawn(async move { browse(&url).await });
    let session = login.finish(Duration::from_secs(60)).await.unwrap();
    let (status, page) = browser.await.unwrap();
    assert_eq!(status, 200);
    assert!(page.contains("#005EFC") && page.contains("close this tab"), "{page}");
    assert_eq!(session.tokens.access_token.expose_secret(), "at-1");
    assert_eq!((session.issuer.as_str(), session.client_id.as_str()), (issuer.url.as_str(), "pipefy-cli"));
    let grant = issuer.last_grant();
    assert_eq!((grant["grant_type"].as_str(), grant["code"].as_str()), ("authorization_code", "c1"));
    assert_eq!(grant["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    assert_eq!(grant["code_verifier"].len(), 64);
    assert!(!grant.contains_key("client_secret"));
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err(), "the port is released");

    assert!(home.stored().await.is_none(), "storing is the caller's step");
    home.keeper().keep(&session).await.unwrap();
    let resolved = resolve_credential(&home.settings, None).unwrap();
    assert_eq!(resolved.source().wire_name(), "stored-session");
    assert!(resolved.credential().bearer().await.unwrap().occurs_in("at-1"));
    assert_eq!(issuer.grants(), 1);
}

#[tokio::test]
async fn an_authorization_endpoint_may_have_a_query() {
    let issuer = Issuer::start().await;
    issuer
        .plan(|plan| plan.discovery = json!({"authorization_endpoint": format!("{}/authorize?tenant=1", issuer.url)}));
    let home = home(&issuer);
    let login = BrowserLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    assert!(login.authorization_url().contains("authorize?tenant=1&"));
}

#[tokio::test]
async fn the_listener_is_one_shot_and_deaf_to_strangers() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    let login = BrowserLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    let at = format!("http://127.0.0.1:{}", login.port());
    let url = url::Url::parse(login.authorization_url()).unwrap();
    let state = url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    for (path, wanted) in [
        ("/", 404),
        ("/callback/x", 404),
        ("/callback", 400),
        ("/callback?code=evil&state=wrong", 400),
        ("/callback?error=access_denied&state=wrong", 400),
        ("/callback?error=access_denied", 400),
    ] {
        let (status, page) = browse(&format!("{at}{path}")).await;
        assert_eq!(status, wanted, "{path}");
        assert!(!page.contains("#005EFC"));
    }
    let client = reqwest::Client::new();
    assert_eq!(client.post(format!("{at}/callback")).send().await.unwrap().status(), 501);
    assert_eq!(client.head(format!("{at}/callback?code=c&state={state}")).send().await.unwrap().status(), 501);
    let finish = tokio::spawn(login.finish(Duration::from_secs(60)));
    let denied = format!("{at}/callback?error=access_denied&error_description=no%0Athanks&state={state}&code=c");
    let (status, page) = browse(&denied).await;
    assert_eq!(status, 400);
    assert!(page.contains("#C22E00"), "{page}");
    let error = finish.await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("Login failed: access_denied: no?thanks. Run "), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert_eq!(issuer.grants(), 0);
}

#[tokio::test]
async fn a_login_that_nobody_finishes_times_out_and_leaves_nothing() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    let login = BrowserLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    let port = login.port();
    let error = login.finish(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.to_string().starts_with("Login timed out: "), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    let dropped = BrowserLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    let other = dropped.port();
    drop(dropped);
    for port in [port, other] {
        let end = Instant::now() + Duration::from_secs(60);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            assert!(Instant::now() < end, "somebody still listens");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(!home.settings.config_dir.as_ref().unwrap().exists());
}

async fn try_login(home: &Home) -> Result<StoredSession, AuthError> {
    let login = BrowserLogin::start(&home.settings, AuthHttp::new()).await?;
    let url = login.authorization_url().to_owned();
    tokio::spawn(async move { browse(&url).await });
    login.finish(Duration::from_secs(60)).await
}

#[tokio::test]
async fn a_doubtful_id_token_ends_the_login() {
    for (claims, wanted) in [
        (json!({"nonce": "other"}), "nonce"),
        (json!({"nonce": null}), "nonce"),
        (json!({"aud": "someone"}), "another client"),
        (json!({"aud": ["pipefy-cli", "x"]}), "which client"),
        (json!({"aud": ["pipefy-cli", "x"], "azp": "x"}), "another client"),
        (json!({"iss": "https://evil.test"}), "another issuer"),
        (json!({"exp": unix() - 120}), "clock"),
        (json!({"exp": null}), "lacks exp"),
        (json!({"nbf": unix() + 600}), "clock"),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| plan.claims = claims.clone());
        let error = try_login(&home(&issuer)).await.unwrap_err().to_string();
        assert!(
            error.starts_with("Login failed: the ID token was refused") && error.contains(wanted),
            "{claims}: {error}"
        );
    }
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.tamper = true);
    let error = try_login(&home(&issuer)).await.unwrap_err().to_string();
    assert!(error.contains("signature is wrong"), "{error}");
    // A small difference of clocks, several audiences with azp, and no ID token at all are fine.
    for (claims, tokens) in [
        (json!({"exp": unix() - 30}), json!({})),
        (json!({"aud": ["pipefy-cli", "x"], "azp": "pipefy-cli"}), json!({})),
        (json!({}), json!({"id_token": null})),
    ] {
        issuer.plan(|plan| {
            plan.tamper = false;
            plan.claims = claims;
            plan.tokens = tokens;
        });
        try_login(&home(&issuer)).await.unwrap();
    }
}

#[tokio::test]
async fn token_endpoint_failures_are_told_apart() {
    for (status, body, wanted) in [
        (
            400,
            json!({"error": "invalid_grant", "error_description": "used"}).to_string(),
            "Login failed: Token exchange failed: invalid_grant: used",
        ),
        (
            400,
            json!({"error": " invalid_grant ", "error_description": 5}).to_string(),
            "Login failed: Token exchange failed: invalid_grant",
        ),
        (400, json!({"error_description": "canary"}).to_string(), "Login failed: Token endpoint returned HTTP 400"),
        (500, "canary".to_owned(), "Login failed: Token endpoint returned HTTP 500"),
        (400, "[\"canary\"]".to_owned(), "Login failed: Token endpoint returned HTTP 400"),
        (200, "canary".to_owned(), "Login failed: the token endpoint's answer is not a JSON object"),
        (200, "[]".to_owned(), "Login failed: the token endpoint's answer is not a JSON object"),
        (200, json!({"access_token": 1}).to_string(), "answer is invalid (access_token: must be a non-empty string"),
        (200, json!({"access_token": "canary"}).to_string(), "(refresh_token: must be a non-empty string)"),
        (
            200,
            json!({"access_token": "canary", "refresh_token": "r", "expires_in": true}).to_string(),
            "expires_in: must be an integer",
        ),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| plan.refuse = Some((status, "application/json", body.clone())));
        let error = try_login(&home(&issuer)).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{body}: {error}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        assert_eq!(error.exit_code(), 1);
    }
}

#[tokio::test]
async fn discovery_failures_are_told_apart() {
    for (document, status, wanted) in [
        (json!("canary"), 200, "non-JSON"),
        (json!({"x": "canary"}), 503, "OIDC discovery failed with HTTP 503"),
        (json!({"x": "canary"}), 302, "OIDC discovery failed with HTTP 302"),
        (json!({"issuer": null, "token_endpoint": ""}), 200, "missing required fields: issuer, token_endpoint"),
        (json!({"issuer": "https://other.test"}), 200, "issuer mismatch"),
        (json!({"token_endpoint": "ftp://x"}), 200, "invalid token_endpoint: must use http or https"),
        (json!({"jwks_uri": "nonsense"}), 200, "invalid jwks_uri"),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| {
            plan.discovery = document.clone();
            plan.discovery_status = status;
        });
        let error = try_login(&home(&issuer)).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{document}: {error}");
        assert!(!error.contains("canary"));
    }
    let issuer = Issuer::start().await;
    let mut home = home(&issuer);
    home.settings.allow_insecure_urls = false;
    let error = try_login(&home).await.unwrap_err().to_string();
    assert!(error.contains("invalid authorization_endpoint: must use HTTPS"), "{error}");
    issuer.plan(|plan| {
        plan.discovery = json!({"end_session_endpoint": " ", "jwks_uri": 5, "issuer": format!("{}/", issuer.url)})
    });
    home.settings.allow_insecure_urls = true;
    home.settings.auth_url = format!("{}//", issuer.url);
    let error = try_login(&home).await.unwrap_err().to_string();
    assert!(error.contains("publishes no keys"), "blank and non-string fields count as absent: {error}");
    home.settings.auth_url = "http://127.0.0.1:9".to_owned();
    let error = try_login(&home).await.unwrap_err().to_string();
    assert!(error.contains("unreachable") && error.contains("PIPEFY_AUTH_URL"), "{error}");
    home.settings.disable_stored_session = true;
    let error = try_login(&home).await.unwrap_err();
    assert!(error.to_string().contains("PIPEFY_DISABLE_STORED_SESSION"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[tokio::test]
async fn a_device_login_waits_for_the_user() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    issuer.plan(|plan| plan.device = vec!["authorization_pending", "authorization_pending"]);
    let login = DeviceLogin::start(&home.settings, AuthHttp::new()).await.unwrap();
    assert_eq!(login.user_code(), "ABCD-EFGH");
    assert_eq!(login.verification_uri(), format!("{}/activate", issuer.url));
    assert!(login.verification_uri_complete().unwrap().ends_with("?user_code=ABCD-EFGH"));
    issuer.plan(|plan| plan.claims = json!({"nonce": null}));
    let session = login.finish().await.unwrap();
    assert_eq!(session.tokens.refresh_token.expose_secret(), "rt-1");
    assert_eq!(issuer.grants(), 3);
    assert_eq!(issuer.last_grant()["device_code"], "d1");
}

#[tokio::test]
async fn a_device_login_can_be_denied_slowed_down_and_expire() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    let finish =
        || async { DeviceLogin::start(&home.settings, AuthHttp::new()).await.unwrap().finish().await.unwrap_err() };
    issuer.plan(|plan| plan.device = vec!["access_denied"]);
    assert!(finish().await.to_string().contains("denied in the browser"));
    issuer.plan(|plan| plan.device = vec!["expired_token"]);
    assert!(matches!(finish().await, AuthError::CodeExpired { .. }));
    issuer.plan(|plan| plan.device = vec!["invalid_client"]);
    assert!(finish().await.to_string().starts_with("Login failed: Token exchange failed: invalid_client. Check "));
    // Slowed down by five seconds, which is more than the code's three.
    issuer.plan(|plan| plan.device = vec!["slow_down"]);
    let started = Instant::now();
    assert!(matches!(finish().await, AuthError::CodeExpired { .. }));
    assert!(started.elapsed() >= Duration::from_secs(3) && started.elapsed() < Duration::from_secs(30));
    assert_eq!(issuer.seen.lock().unwrap().polls.len(), 4, "no poll before the pause is over");
    issuer.plan(|plan| plan.discovery = json!({"device_authorization_endpoint": null}));
    let error = DeviceLogin::start(&home.settings, AuthHttp::new()).await.unwrap_err();
    assert!(error.to_string().contains("no device login"), "{error}");
}

#[tokio::test]
async fn a_stale_session_is_renewed_once_for_everybody() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.delay = Duration::from_millis(50));
    let home = home(&issuer);
    home.sign_in(250).await;
    let credential = resolve_credential(&home.settings, None).unwrap().credential();
    let calls: Vec<_> = (0..32)
        .map(|_| {
            tokio::spawn({
                let c = credential.clone();
                async move { c.bearer().await.unwrap() }
            })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().occurs_in("at-1"));
    }
    assert_eq!(issuer.grants(), 1);
    let grant = issuer.last_grant();
    assert_eq!((grant["refresh_token"].as_str(), grant["client_id"].as_str()), ("rt-0", "pipefy-cli"));
    let stored = home.stored().await.unwrap();
    assert_eq!(stored.tokens.refresh_token.expose_secret(), "rt-1", "the rotated token is kept");
    assert!(stored.obtained_at >= unix() - 5);
}

#[tokio::test]
async fn concurrent_401s_cause_one_refresh() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    home.sign_in(10).await;
    let one = resolve_credential(&home.settings, None).unwrap().credential();
    let two = resolve_credential(&home.settings, None).unwrap().credential();
    let old = one.bearer().await.unwrap();
    assert_eq!(two.bearer().await.unwrap(), old);
    assert_eq!(issuer.grants(), 0, "a fresh session is used as it is");
    for credential in [&one, &one, &two, &two] {
        let new = credential.renew(&old).await.unwrap().unwrap();
        assert!(new.occurs_in("at-1"), "the other holder of the session finds the renewed one");
    }
    assert_eq!(issuer.grants(), 1);
    // A refresh that fails leaves the 401.
    issuer.plan(|plan| plan.refuse = Some((500, "text/plain", "x".into())));
    let new = one.bearer().await.unwrap();
    assert_eq!(one.renew(&new).await.unwrap(), None);
    assert_eq!(home.stored().await.unwrap().tokens.access_token.expose_secret(), "at-1", "the session is kept");
}

#[tokio::test]
async fn odd_refresh_answers_keep_what_they_leave_out() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| {
        plan.rotate = false;
        plan.tokens = json!({"expires_in": null, "refresh_expires_in": null, "id_token": null});
    });
    let home = home(&issuer);
    home.sign_in(400).await;
    let session = home.keeper().fresh(None).await.unwrap().unwrap();
    assert_eq!(session.tokens.refresh_token.expose_secret(), "rt-0");
    assert_eq!((session.tokens.expires_in, session.tokens.refresh_expires_in), (Some(300), Some(0)));
    assert_eq!(home.keeper().fresh(None).await.unwrap().unwrap().tokens.access_token.expose_secret(), "at-1");
    assert_eq!(issuer.grants(), 1);
}

#[tokio::test]
async fn refresh_failures_carry_their_code_and_keep_the_session() {
    for (status, body, wanted, code) in [
        (
            400,
            json!({"error": "invalid_grant", "error_description": "Session not active"}).to_string(),
            "Refresh failed: invalid_grant: Session not active",
            Some("invalid_grant"),
        ),
        (400, "canary".to_owned(), "Refresh failed (HTTP 400)", None),
        (200, "canary".to_owned(), "not a JSON object", None),
        (200, json!({"access_token": ""}).to_string(), "access_token: must be a non-empty string", None),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| plan.refuse = Some((status, "application/json", body.clone())));
        let home = home(&issuer);
        home.sign_in(400).await;
        let error = home.keeper().fresh(None).await.unwrap_err();
        assert!(error.message.contains(wanted), "{error}");
        assert_eq!(error.error_code.as_deref(), code);
        assert!(!format!("{error:?}").contains("canary"));
        assert_eq!(home.stored().await.unwrap().tokens.access_token.expose_secret(), "at-0");
        let failure = resolve_credential(&home.settings, None).unwrap().credential().bearer().await.unwrap_err();
        assert!(
            failure.to_string().contains("could not be refreshed")
                && failure.to_string().contains("`pipefy auth login`"),
            "{failure}"
        );
    }
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    home.sign_in(400).await;
    issuer.plan(|plan| plan.discovery_status = 500);
    let error = home.keeper().fresh(None).await.unwrap_err();
    assert!(error.message.starts_with("OIDC discovery failed with HTTP 500"), "{error}");
    let lock = std::fs::File::open(home.settings.config_dir.as_ref().unwrap().join("refresh.lock")).unwrap();
    lock.lock().unwrap();
    let error = home.keeper().with_lock_limit(Duration::from_millis(150)).fresh(None).await.unwrap_err();
    assert!(error.message.contains("could not be acquired"), "{error}");
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_lose_a_rotated_token() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.delay = Duration::from_secs(2));
    let home = home(&issuer);
    home.sign_in(400).await;
    let keeper = home.keeper();
    assert!(tokio::time::timeout(Duration::from_millis(200), keeper.fresh(None)).await.is_err());
    let session = keeper.fresh(None).await.unwrap().unwrap();
    assert_eq!((session.tokens.refresh_token.expose_secret(), issuer.grants()), ("rt-1", 1));
}

#[tokio::test]
async fn a_session_that_went_away_says_so() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    home.sign_in(400).await;
    let credential = resolve_credential(&home.settings, None).unwrap().credential();
    home.keeper().keychain().delete().await.unwrap();
    let error = credential.bearer().await.unwrap_err().to_string();
    assert_eq!(error, "The stored session is gone. Run `pipefy auth login`.");
}

/// Runs in processes of its own; see below.
#[test]
#[ignore = "started by five_processes_make_one_grant"]
fn child_process() {
    let given = std::env::var("PIPEFY_AUTH_TEST_CHILD").expect("its parent's issuer and folder");
    let (url, home) = given.split_once(' ').unwrap();
    let dir = std::path::PathBuf::from(home);
    let settings = AuthSettings {
        auth_url: url.to_owned(),
        allow_insecure_urls: true,
        keychain_backend: pipefy::settings::KeychainBackend::File,
        config_dir: Some(dir.join("config/pipefy")),
        ..AuthSettings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bearer =
        runtime.block_on(async { resolve_credential(&settings, None).unwrap().credential().bearer().await.unwrap() });
    assert!(bearer.occurs_in("at-1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_processes_make_one_grant() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.delay = Duration::from_millis(300));
    let home = home(&issuer);
    home.sign_in(300).await;
    let children: Vec<_> = (0..5)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child_process", "--ignored"])
                .env("PIPEFY_AUTH_TEST_CHILD", format!("{} {}", issuer.url, home.dir.path().display()))
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let waited = tokio::task::spawn_blocking(move || {
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect::<Vec<_>>()
    });
    for child in waited.await.unwrap() {
        let said = String::from_utf8_lossy(&child.stdout);
        // A name that matches no test would succeed as well.
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
    assert_eq!(issuer.grants(), 1);
}

#[tokio::test]
async fn signing_out_tells_the_truth() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    assert!(matches!(home.keeper().log_out().await, Logout::NothingStored));

    home.sign_in(10).await;
    let Logout::SignedOut { issuer: named, revocation } = home.keeper().log_out().await else { panic!() };
    assert_eq!((named.as_deref(), &revocation), (Some(issuer.url.as_str()), &Revocation::Revoked));
    assert!(revocation.warning().is_none() && home.stored().await.is_none());
    let seen = issuer.seen.lock().unwrap().logouts.pop().unwrap();
    assert_eq!(
        (seen.0.as_str(), seen.1["refresh_token"].as_str(), seen.1["client_id"].as_str()),
        ("logout", "rt-0", "pipefy-cli")
    );

    home.sign_in(10).await;
    issuer.plan(|plan| plan.logout_status = 500);
    let Logout::SignedOut { revocation, .. } = home.keeper().log_out().await else { panic!() };
    let warning = revocation.warning().unwrap();
    assert!(
        warning.contains("could not be revoked") && warning.contains("HTTP 500") && !warning.contains("canary"),
        "{warning}"
    );
    assert!(home.stored().await.is_none());

    home.sign_in(10).await;
    issuer.plan(|plan| plan.discovery = json!({"end_session_endpoint": null}));
    let Logout::SignedOut { revocation, .. } = home.keeper().log_out().await else { panic!() };
    assert_eq!(revocation, Revocation::NotOffered);
    assert!(revocation.warning().unwrap().contains("does not advertise a logout endpoint"));

    // Where tokens can be revoked, that answer decides.
    home.sign_in(10).await;
    issuer.plan(|plan| {
        plan.discovery = json!({"revocation_endpoint": format!("{}/revoke", issuer.url)});
        plan.logout_status = 200;
    });
    issuer.seen.lock().unwrap().logouts.clear();
    let Logout::SignedOut { revocation: Revocation::Revoked, .. } = home.keeper().log_out().await else { panic!() };
    let paths: Vec<_> = issuer
        .seen
        .lock()
        .unwrap()
        .logouts
        .iter()
        .map(|(path, form)| (path.clone(), form.get("token").cloned()))
        .collect();
    assert_eq!(paths, [("logout".to_owned(), None), ("revoke".to_owned(), Some("rt-0".to_owned()))]);
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_removable() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    let file = home.settings.config_dir.as_ref().unwrap().join("keyring.cfg");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[pipefy]\n127_2e0_2e0_2e1_7cpipefy_2dcli = bm90IGpzb24=\n").unwrap();
    assert!(matches!(home.keeper().keychain().read().await.unwrap(), Entry::Unreadable));
    let error = resolve_credential(&home.settings, None).unwrap_err().to_string();
    assert!(error.contains("An unreadable session is stored; `pipefy auth logout` removes it."), "{error}");
    let Logout::SignedOut { issuer: None, revocation: Revocation::Unreadable } = home.keeper().log_out().await else {
        panic!()
    };
    assert!(matches!(home.keeper().log_out().await, Logout::NothingStored));

    std::fs::write(&file, "damaged").unwrap();
    let outcome = home.keeper().log_out().await;
    assert!(matches!(outcome, Logout::PresenceUnknown { .. }), "{outcome:?}");
    assert_eq!(outcome.exit_code(), 1);
    let error = resolve_credential(&home.settings, None).unwrap_err().to_string();
    assert!(error.contains("keyring.cfg is damaged"), "{error}");
    home.sign_in(0).await;
    assert!(home.stored().await.is_some());
    assert_eq!(std::fs::read_to_string(file.with_extension("cfg.damaged")).unwrap(), "damaged");
}

#[tokio::test]
async fn another_realms_session_is_not_used() {
    let issuer = Issuer::start().await;
    let mut home = home(&issuer);
    home.sign_in(0).await;
    home.settings.auth_url = issuer.url.replace("/realms/test", "/realms/other");
    let error = resolve_credential(&home.settings, None).unwrap_err().to_string();
    assert!(error.contains("not of the configured issuer"), "{error}");
    assert!(home.stored().await.is_none());
}

/// A store that fails where it is told to.
struct Broken {
    value: Option<String>,
    read: bool,
}

impl SecretStore for Broken {
    fn name(&self) -> String {
        "Broken".to_owned()
    }

    fn check(&self, _: &str) -> Result<(), StoreError> {
        Err(StoreError::Failed("refused (-25244)".to_owned()))
    }

    fn get(&self, _: &str) -> Result<Option<SecretString>, StoreError> {
        if self.read {
            Err(StoreError::Failed("locked".to_owned()))
        } else {
            Ok(self.value.clone().map(SecretString::from))
        }
    }

    fn set(&self, _: &str, _: &SecretString) -> Result<(), StoreError> {
        Err(StoreError::Failed("refused (-25244)".to_owned()))
    }

    fn delete(&self, _: &str) -> Result<bool, StoreError> {
        Err(StoreError::Failed("refused (-25244)".to_owned()))
    }
}

#[tokio::test]
async fn a_refused_delete_claims_nothing() {
    let issuer = Issuer::start().await;
    let home = home(&issuer);
    for (value, read) in [(Some("not json".to_owned()), false), (None, true)] {
        let store = Arc::new(Broken { value, read });
        let keychain = pipefy_auth::Keychain::with_store(&home.settings, store).unwrap();
        let outcome = SessionKeeper::over(&home.settings, keychain, AuthHttp::new()).log_out().await;
        assert_eq!(outcome.exit_code(), 1);
        assert!(
            matches!((&outcome, read), (Logout::DeleteRefused { .. }, false) | (Logout::PresenceUnknown { .. }, true)),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn status_reports_all_methods_and_the_session() {
    let issuer = Issuer::start().await;
    let mut home = home(&issuer);
    let none = status(&home.settings, None).await.unwrap();
    assert_eq!(none.exit_code(), 2);
    assert_eq!(
        none.json(None, false).to_string(),
        json!({"signed_in": false, "identity": null, "auth_source": "none", "detected_sources": [], "issuer": null, "state": "n/a",
            "access_expires_at": null, "refresh_expires_at": null, "token_rejected": false, "keychain_backend": null, "masking_env_vars": []})
        .to_string()
    );

    home.sign_in(400).await;
    let found = status(&home.settings, None).await.unwrap();
    assert_eq!((found.exit_code(), issuer.grants()), (0, 1));
    let identity = Identity { email: Some("ana@x.test".to_owned()), name: None };
    let report = found.json(Some(&identity), true);
    assert_eq!(report["identity"], json!({"email": "ana@x.test", "name": null}));
    assert_eq!(
        (&report["auth_source"], &report["state"], &report["keychain_backend"]),
        (&json!("stored-session"), &json!("active"), &json!("PlaintextKeyring"))
    );
    assert_eq!(report["token_rejected"], true);
    let expires = report["access_expires_at"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires.len() == 20, "{expires}");
    assert!(report["refresh_expires_at"].is_string());

    home.settings.static_token = Some("canary".to_owned().into());
    home.settings.masking = vec!["PIPEFY_TOKEN".to_owned()];
    let masked = status(&home.settings, None).await.unwrap();
    let report = masked.json(None, false);
    assert_eq!(report["detected_sources"], json!(["env-token", "stored-session"]));
    assert_eq!((&report["issuer"], &report["masking_env_vars"]), (&Value::Null, &json!(["PIPEFY_TOKEN"])));
    assert!(!format!("{masked:?}").contains("canary"));
    let detected = detect(&home.settings, None).await.unwrap();
    assert!(matches!(detected.methods[0], ResolvedAuth::StaticToken(_)));
    home.settings.disable_stored_session = true;
    assert_eq!(detect(&home.settings, None).await.unwrap().methods.len(), 1);
    home.settings.disable_stored_session = false;
    home.settings.static_token = None;

    home.keeper().keychain().delete().await.unwrap();
    home.sign_in(400).await;
    for (error, state) in [("invalid_grant", "refresh-expired"), ("server_error", "needs-login")] {
        issuer.plan(|plan| plan.refuse = Some((400, "application/json", json!({"error": error}).to_string())));
        let broken = status(&home.settings, None).await.unwrap();
        assert_eq!(broken.exit_code(), 2);
        let report = broken.json(None, false);
        assert_eq!(report["state"], state);
        assert_eq!(report["refresh_expires_at"], Value::Null, "0 means that it does not expire");
        assert!(broken.session.unwrap().refresh_never_expires);
        assert!(report["access_expires_at"].is_string());
    }
}

#[tokio::test]
async fn no_token_shows_in_any_debug_text() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.tokens = json!({"access_token": "canary-a", "refresh_token": "canary-r"}));
    let home = home(&issuer);
    let session = try_login(&home).await.unwrap();
    home.keeper().keep(&session).await.unwrap();
    let resolved = resolve_credential(&home.settings, None).unwrap();
    resolved.credential().bearer().await.unwrap();
    let shown = format!(
        "{session:?} {resolved:?} {:?} {:?} {:?}",
        resolved.credential(),
        home.keeper(),
        status(&home.settings, None).await
    );
    assert!(!shown.contains("canary"), "{shown}");
}
