//! Service accounts against an issuer on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use pipefy::{Bearer, Credential, CredentialError};
use pipefy_auth::{AuthSource, ResolvedAuth, resolve_credential};
use serde_json::json;
use support::Issuer;

async fn account(issuer: &Issuer) -> Credential {
    let home = tempfile::tempdir().unwrap();
    let mut settings = issuer.settings(home.path());
    settings.service_account_client_id = Some("cl:ient/\u{e9}".to_owned());
    settings.service_account_client_secret = Some("canary secret+/%".to_owned().into());
    let resolved = resolve_credential(&settings, None).unwrap();
    assert_eq!(resolved.source(), AuthSource::ServiceAccount);
    assert!(!format!("{resolved:?}").contains("canary"));
    resolved.credential()
}

fn bearer(token: &str) -> Bearer {
    Bearer::new(&token.to_owned().into()).unwrap()
}

#[tokio::test]
async fn the_request_is_exactly_this() {
    let issuer = Issuer::start().await;
    let credential = account(&issuer).await;
    assert_eq!(credential.bearer().await.unwrap(), bearer("at-1"));
    let seen = issuer.seen.lock().unwrap();
    assert_eq!(seen.bodies, ["grant_type=client_credentials"]);
    let headers = &seen.headers[0];
    // base64 of the two parts as they are, in UTF-8.
    assert_eq!(headers["authorization"], "Basic Y2w6aWVudC/DqTpjYW5hcnkgc2VjcmV0Ky8l");
    assert_eq!(headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(headers["user-agent"], format!("pipefy-auth/{}", pipefy::VERSION));
    assert_eq!(headers["x-client-name"], "auth");
}

#[tokio::test]
async fn any_number_of_callers_cause_one_request() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.delay = Duration::from_millis(50));
    let credential = account(&issuer).await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            tokio::spawn({
                let c = credential.clone();
                async move { c.bearer().await.unwrap() }
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), bearer("at-1"));
    }
    // Ten callers that were all refused: one renewal.
    let old = bearer("at-1");
    let calls: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn({
                let (c, old) = (credential.clone(), old.clone());
                async move { c.renew(&old).await.unwrap() }
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Some(bearer("at-2")));
    }
    assert_eq!(issuer.grants(), 2);
}

#[tokio::test]
async fn waiting_callers_share_a_failure_and_later_ones_try_again() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| {
        plan.delay = Duration::from_millis(100);
        plan.refuse = Some((
            401,
            "application/json",
            json!({"error": "invalid_client", "error_description": "no\nsuch"}).to_string(),
        ));
    });
    let credential = account(&issuer).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            tokio::spawn({
                let c = credential.clone();
                async move { c.bearer().await }
            })
        })
        .collect();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, CredentialError::Refused { .. }));
        assert!(
            error.to_string().contains("invalid_client: no?such. Check PIPEFY_SERVICE_ACCOUNT_CLIENT_ID"),
            "{error}"
        );
    }
    assert_eq!(issuer.grants(), 1);
    issuer.plan(|plan| plan.refuse = None);
    assert_eq!(credential.bearer().await.unwrap(), bearer("at-1"));
}

#[tokio::test]
async fn a_cancelled_caller_does_not_stop_the_others() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.delay = Duration::from_secs(2));
    let credential = account(&issuer).await;
    let cancelled = tokio::time::timeout(Duration::from_millis(50), credential.bearer()).await;
    assert!(cancelled.is_err());
    assert!(credential.bearer().await.is_ok());
}

#[tokio::test]
async fn lifetimes_of_every_kind_survive() {
    // Fields, and whether the next call still uses the first token.
    for (fields, kept) in [
        (json!({"expires_in": 300}), true),
        (json!({"expires_in": "300"}), true),
        (json!({"expires_in": 300.7}), true),
        (json!({"expires_in": 2}), true),
        (json!({"expires_in": null}), true),
        (json!({"expires_in": "soon"}), true),
        (json!({"expires_in": true}), true),
        (json!({"expires_in": 1e300}), true),
        (json!({"expires_in": 0}), false),
        (json!({"expires_in": -5}), false),
        (json!({"expires_in": null, "access_token": "a.eyJleHAiOjIwLCJpYXQiOjEwfQ.c"}), true),
        (json!({"expires_in": null, "access_token": "a.eyJleHAiOjF9.c"}), true),
        (json!({"expires_in": null, "access_token": "a.!!.c"}), true),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| plan.tokens = fields.clone());
        let credential = account(&issuer).await;
        credential.bearer().await.unwrap();
        credential.bearer().await.unwrap();
        assert_eq!(issuer.grants(), if kept { 1 } else { 2 }, "{fields}");
    }
}

#[tokio::test]
async fn a_short_token_is_renewed_ahead_of_its_expiry() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.tokens = json!({"expires_in": 1}));
    let credential = account(&issuer).await;
    assert_eq!(credential.bearer().await.unwrap(), bearer("at-1"));
    tokio::time::sleep(Duration::from_millis(850)).await;
    assert_eq!(credential.bearer().await.unwrap(), bearer("at-2"));
}

#[tokio::test]
async fn failures_say_what_to_do_and_never_echo_a_body() {
    for (status, kind, body, wanted) in [
        (400, "application/json", "{\"error\":\"invalid_scope\"}", "invalid_scope"),
        (403, "text/html", "<canary>", "HTTP 403"),
        (500, "text/html", "<canary>", "Try again later"),
        (429, "application/json", "{\"error\":\"slow_down\"}", "Try again later"),
        (302, "text/plain", "canary", "HTTP 302"),
        (200, "text/plain", "canary", "not JSON"),
        (200, "application/json", "{\"token\":\"canary\"}", "no access token"),
        (200, "application/json", "{\"access_token\":\"\"}", "no access token"),
        (200, "application/json", "{\"access_token\":\"a\\nb\"}", "cannot be sent"),
        (200, "application/json", "[]", "not JSON"),
        (401, "application/json", "{\"error\":\"x\",\"error_description\":\"got canary secret+/%\"}", "failed: x."),
    ] {
        let issuer = Issuer::start().await;
        issuer.plan(|plan| plan.refuse = Some((status, kind, body.to_owned())));
        let error = account(&issuer).await.bearer().await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{body}: {error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.refuse = Some((200, "text/html; charset=utf-8", "access_token=form&expires_in=60".into())));
    assert_eq!(account(&issuer).await.bearer().await.unwrap(), bearer("form"));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut settings = issuer.settings(tempfile::tempdir().unwrap().path());
    settings.base_url = format!("http://{address}");
    settings.service_account_client_id = Some("i".to_owned());
    settings.service_account_client_secret = Some("s".to_owned().into());
    let error = resolve_credential(&settings, None).unwrap().credential().bearer().await.unwrap_err();
    assert!(matches!(error, CredentialError::Unavailable { .. }));
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test]
async fn the_same_token_again_is_no_renewal() {
    let issuer = Issuer::start().await;
    issuer.plan(|plan| plan.tokens = json!({"access_token": "fixed"}));
    let credential = account(&issuer).await;
    let first = credential.bearer().await.unwrap();
    assert_eq!(credential.renew(&first).await.unwrap(), None);
}

#[tokio::test]
async fn precedence_is_fixed_and_says_where_from() {
    let issuer = Issuer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut settings = issuer.settings(home.path());
    let error = resolve_credential(&settings, None).unwrap_err();
    for wanted in ["Missing Pipefy authentication", "PIPEFY_TOKEN", "PIPEFY_SERVICE_ACCOUNT_*", "`pipefy auth login`"] {
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert_eq!(error.exit_code(), 2);
    // Half an account is none.
    settings.service_account_client_id = Some("i".to_owned());
    assert!(resolve_credential(&settings, None).is_err());
    settings.service_account_client_secret = Some("s".to_owned().into());
    assert_eq!(resolve_credential(&settings, None).unwrap().source().wire_name(), "service-account");
    settings.static_token = Some("t".to_owned().into());
    settings.static_token_source = pipefy::settings::Source::Dotenv("PIPEFY_TOKEN".to_owned());
    let resolved = resolve_credential(&settings, Some("  ".to_owned().into())).unwrap();
    assert_eq!(resolved.source().wire_name(), "env-token");
    assert_eq!(resolved.label(), "static token from PIPEFY_TOKEN (.env)");
    let resolved = resolve_credential(&settings, Some(" flag ".to_owned().into())).unwrap();
    assert_eq!(resolved.source().wire_name(), "flag-token");
    let ResolvedAuth::StaticToken(_) = &resolved else { panic!() };
    assert_eq!(resolved.credential().bearer().await.unwrap(), bearer("flag"));
    assert_eq!(resolved.credential().renew(&bearer("flag")).await.unwrap(), None);
    let error = resolve_credential(&settings, Some("can\u{7}ary".to_owned().into())).unwrap_err();
    assert!(error.to_string().contains("--token") && !format!("{error:?}").contains("ary"), "{error:?}");
    assert_eq!(issuer.grants(), 0, "resolving sends nothing");
    let _ = Arc::new(home);
}
