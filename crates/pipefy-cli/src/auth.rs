//! `pipefy auth`: signing in, who is signed in, signing out.

use std::time::Duration;

use futures_util::future::BoxFuture;
use pipefy::settings::AuthSettings;
use pipefy::{Budget, PipefyEngine, Surface, organizations};
use pipefy_auth::{
    AuthError, AuthHttp, AuthStatus, BrowserLogin, CALLBACK_LIMIT, DeviceLogin, Identity, Logout, Platform, Revocation,
    SessionKeeper, StoredSession, keychain_hint, status,
};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::{Body, Shown};
use crate::run::{Loaded, Start, nothing};

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// The settings, where signing in means something.
fn settings(start: &Start) -> Result<Loaded, Failure> {
    if start.globals.sandbox {
        return Err(Failure::refused(
            "The sandbox needs no sign-in: leave out --sandbox, or ask `pipefy --sandbox doctor` who you are there.",
        ));
    }
    start.settings()
}

fn given(args: &Args, name: &str) -> bool {
    args.get(name) == Some(&Value::Bool(true))
}

/// `auth login`
pub(crate) fn login<'a>(start: &'a Start, args: Args) -> Work<'a> {
    Box::pin(async move {
        let loaded = settings(start)?;
        let keeper = SessionKeeper::open(&loaded.auth, AuthHttp::new())?;
        let backend = keeper.keychain().name();
        // The cause follows anyway.
        let backend = backend.split(" (").next().unwrap_or_default().to_owned();
        let unstorable = |error: AuthError| {
            let hint = keychain_hint(&backend, Platform::current(), loaded.auth.config_dir.as_deref());
            (error.exit_code(), format!("{error}\n{hint}"))
        };
        if let Err(cause) = keeper.keychain().check().await {
            let (code, text) = unstorable(AuthError::NoPlace { backend: backend.clone(), cause });
            return Err(Failure::Plain { code, text });
        }
        let limit =
            args.get("callback_timeout").and_then(Value::as_f64).map_or(CALLBACK_LIMIT, Duration::from_secs_f64);
        let signing_in = async {
            match given(&args, "device") {
                true => device(start, &loaded.auth).await,
                false => browser(start, &loaded.auth, given(&args, "no_browser"), limit).await,
            }
        };
        let session = tokio::select! {
            session = signing_in => session?,
            _ = tokio::signal::ctrl_c() => {
                start.terminal.err("Login cancelled.");
                return Err(Failure::Interrupted);
            }
        };
        if let Err(cause) = keeper.keep(&session).await {
            let (code, text) = unstorable(AuthError::NotStored { backend: backend.clone(), cause });
            let ended = keeper.discard(&session).await.warning();
            let ended = ended.unwrap_or_else(|| "The session was ended at the auth server again.".to_owned());
            return Err(Failure::Plain { code, text: format!("{text}\n{ended}") });
        }
        let mut shown =
            Shown::text(format!("Signed in to Pipefy ({}). The session is kept in {backend}.\n", session.issuer));
        if !loaded.auth.masking.is_empty() {
            shown = shown.note(format!(
                "note: {} is set, and other pipefy commands continue to use it instead of this session.",
                loaded.auth.masking.join(", ")
            ));
        }
        Ok(shown)
    })
}

async fn browser(
    start: &Start,
    settings: &AuthSettings,
    no_browser: bool,
    limit: Duration,
) -> Result<StoredSession, Failure> {
    let login = BrowserLogin::start(settings, AuthHttp::new()).await?;
    say(start, &format!("Signing in at {}\n", login.issuer()));
    let opened = !no_browser && webbrowser::open(login.authorization_url()).is_ok();
    if !opened {
        if !no_browser {
            start.terminal.err("No browser could be opened; open the URL yourself (--no-browser does not try).");
        }
        say(start, &format!("\nAuthorization URL: {}\n\n", login.authorization_url()));
    }
    Ok(login.finish(limit).await?)
}

async fn device(start: &Start, settings: &AuthSettings) -> Result<StoredSession, Failure> {
    let login = DeviceLogin::start(settings, AuthHttp::new()).await?;
    say(start, &format!("Signing in at {}\n\n", login.issuer()));
    say(
        start,
        &format!("On any device, open {}\nand enter the code {}\n", login.verification_uri(), login.user_code()),
    );
    if let Some(complete) = login.verification_uri_complete() {
        say(start, &format!("or open {complete}\n"));
    }
    let minutes = match login.expires_in().as_secs().div_ceil(60) {
        1 => "1 minute".to_owned(),
        more => format!("{more} minutes"),
    };
    say(start, &format!("The code is good for {minutes}.\n\n"));
    Ok(login.finish().await?)
}

/// Progress lines belong to stdout here: they are what the command is for.
fn say(start: &Start, text: &str) {
    start.terminal.out(text.as_bytes());
}

/// `auth status`
pub(crate) fn show<'a>(start: &'a Start, _: Args) -> Work<'a> {
    Box::pin(async move {
        let json = start.json;
        let loaded = settings(start)?;
        let status = status(&loaded.auth, start.globals.token.clone().map(Into::into)).await?;
        let mut code = status.exit_code();
        let mut identity = None;
        let mut rejected = false;
        if code == 0 {
            match who(&loaded, &status).await {
                Ok(found) => identity = found,
                Err(error) => {
                    code = 1;
                    rejected = matches!(error, pipefy::Error::Unauthorized { .. });
                    let prefix = match error {
                        pipefy::Error::Http { .. } | pipefy::Error::Unauthorized { .. } => "Identity fetch failed",
                        _ => "Pipefy transport error",
                    };
                    if !json {
                        start.terminal.err(&format!("{prefix}: {error}"));
                    }
                }
            }
        }
        if !json {
            if let Some(error) = status.session.as_ref().and_then(|session| session.error.as_ref()) {
                start.terminal.err(&AuthError::Refresh(error.clone()).to_string());
            }
            if let Some(note) = &status.note {
                start.terminal.err(note);
            }
        }
        let body = match json {
            true => Body::Value(status.json(identity.as_ref(), rejected)),
            false => Body::Text(report(&status, identity.as_ref(), rejected)),
        };
        Ok(Shown { body, code, ..Shown::default() })
    })
}

/// Who the API says it is; nothing for an account without a person.
pub(crate) async fn who(loaded: &Loaded, status: &AuthStatus) -> Result<Option<Identity>, pipefy::Error> {
    let Some(active) = &status.active else { return Ok(None) };
    let engine = PipefyEngine::build(&loaded.pipefy, Surface::Cli, None)
        .map_err(|error| pipefy::Error::Value(error.to_string()))?;
    let data = engine.session(active.credential()).query(&organizations::me(), &Budget::unlimited()).await?.value();
    Ok(data.get("me").filter(|me| me.is_object()).map(|me| {
        let text = |name: &str| me.get(name).and_then(Value::as_str).map(str::to_owned);
        Identity { email: text("email"), name: text("name") }
    }))
}

fn report(status: &AuthStatus, identity: Option<&Identity>, rejected: bool) -> String {
    let Some(active) = &status.active else {
        return "Not signed in. Run `pipefy auth login`, or set PIPEFY_TOKEN or PIPEFY_SERVICE_ACCOUNT_*; see docs/cli/auth.md.\n"
            .to_owned();
    };
    let session = status.session.as_ref();
    let issuer = session.map(|session| format!(" ({})", session.issuer)).unwrap_or_default();
    let who = match identity.map(|identity| (identity.email.as_deref().unwrap_or("unknown"), identity.name.as_deref()))
    {
        Some((email, Some(name))) if !name.is_empty() => format!("{email} ({name})"),
        Some((email, _)) => email.to_owned(),
        None if rejected => "unknown (the token was rejected)".to_owned(),
        None => "unknown".to_owned(),
    };
    let usable = match session.is_some_and(|session| session.error.is_some()) {
        true => ", but the session cannot be used",
        false => "",
    };
    let mut text =
        format!("Signed in to Pipefy{issuer}{usable}\n  Identity:      {who}\n  Auth source:   {}\n", active.label());
    if let Some(session) = session {
        let refresh = if session.refresh_never_expires {
            "does not expire".to_owned()
        } else {
            relative(session.refresh_expires_at)
        };
        text.push_str(&format!("  Expires:       {}\n", relative(session.access_expires_at)));
        text.push_str(&format!("  Refresh token: {refresh}\n"));
        text.push_str(&format!("  Keychain:      {}\n", session.keychain_backend));
    }
    if !status.masking.is_empty() {
        text.push_str("\nOther sources in the environment:\n");
        for name in &status.masking {
            text.push_str(&format!("  {name}\n"));
        }
    }
    text
}

/// `in <d>d <h>h` from a day up, else `in <h>h <m>m`.
fn relative(at: Option<i64>) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let left = match at {
        None => return "unknown".to_owned(),
        Some(at) => at.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX)),
    };
    match left {
        ..=0 => "expired".to_owned(),
        86_400.. => format!("in {}d {}h", left / 86_400, left % 86_400 / 3_600),
        _ => format!("in {}h {}m", left / 3_600, left % 3_600 / 60),
    }
}

/// `auth logout`
pub(crate) fn logout<'a>(start: &'a Start, _: Args) -> Work<'a> {
    Box::pin(async move {
        let loaded = settings(start)?;
        let keeper = SessionKeeper::open(&loaded.auth, AuthHttp::new())?;
        let outcome = keeper.log_out().await;
        let code = outcome.exit_code();
        Ok(match outcome {
            Logout::NothingStored => Shown::text("Not signed in. Nothing to do.\n"),
            Logout::SignedOut { issuer, revocation } => {
                let text = match (issuer, &revocation) {
                    (Some(issuer), Revocation::Revoked) => format!("Signed out of Pipefy ({issuer}).\n"),
                    (Some(issuer), _) => format!("Signed out of Pipefy ({issuer}) on this machine only.\n"),
                    (None, _) => "An unreadable entry was removed from the keychain.\n".to_owned(),
                };
                let shown = Shown::text(text);
                match revocation.warning() {
                    Some(warning) => shown.note(warning),
                    None => shown,
                }
            }
            Logout::DeleteRefused { revocation, cause } => {
                let shown = nothing();
                let shown = match revocation.warning() {
                    Some(warning) => shown.note(warning),
                    None => shown,
                };
                shown.note(format!(
                    "The local session could not be deleted from the keychain ({cause}); remove the entry of service \
                     `pipefy` by hand, see docs/cli/auth.md."
                ))
            }
            Logout::PresenceUnknown { cause } => nothing().note(format!(
                "The keychain could not be read ({cause}); a credential may still be there. Nothing was deleted. Set the keychain \
                 right and try again; see docs/cli/auth.md."
            )),
        }
        .code(code))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn times_are_said_relative_to_now() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        for (at, text) in [
            (None, "unknown"),
            (Some(now - 1), "expired"),
            (Some(now + 3_690), "in 1h 1m"),
            (Some(now + 86_400 * 2 + 3_690), "in 2d 1h"),
            (Some(i64::MAX), "in "),
        ] {
            assert!(relative(at).starts_with(text), "{at:?}: {}", relative(at));
        }
    }
}
