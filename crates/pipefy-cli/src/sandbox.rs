//! `--sandbox`, and `pipefy sandbox serve`.

use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use pipefy::Credential;
use pipefy::settings::{AuthSettings, PipefySettings, Source};
use pipefy::url_policy::UrlPolicy;
use pipefy_sandbox::{Attached, DEFAULT_TOKEN, Data, SandboxOptions, attach_or_start, default_data_path, people};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::Shown;
use crate::run::{Loaded, Start, Target, nothing};
use crate::values;

/// Serves the data, or attaches to the process that serves it; and where the data is.
///
/// # Errors
/// The data or the address cannot be used; exit code 1, or 2 when no place for the data is known.
pub(crate) async fn attach(
    data: Option<&str>,
    port: Option<u16>,
    seed: Option<u64>,
) -> Result<(Attached, String), Failure> {
    let data = match data {
        Some(":memory:") => Data::Memory,
        Some(path) => Data::File(values::expand(path)),
        None => Data::File(default_data_path().ok_or_else(|| {
            Failure::refused("There is no home folder to keep the sandbox in; name a file with --sandbox-data (or --data), or :memory:.")
        })?),
    };
    let place = match &data {
        Data::Memory => "in memory".to_owned(),
        Data::File(path) => format!("in {}", path.display()),
    };
    let default = SandboxOptions::default();
    let options = SandboxOptions {
        bind: SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(0))),
        data,
        seed: seed.unwrap_or(default.seed),
        ..default
    };
    let attached = attach_or_start(options).await.map_err(|error| Failure::failed(error.to_string()))?;
    Ok((attached, place))
}

/// The session's other side: the sandbox, as its administrator.
pub(crate) fn target(attached: &Attached) -> Result<Target, Failure> {
    let settings = PipefySettings::for_base_url(attached.url(), UrlPolicy::Insecure)
        .map_err(|error| Failure::failed(error.to_string()))?;
    let credential =
        Credential::static_token(&DEFAULT_TOKEN.into()).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Target::known(settings, credential))
}

/// Puts the sandbox and its administrator in the place of the address and the credentials that are configured.
///
/// # Errors
/// The sandbox's address cannot be used.
pub(crate) fn stand_in(loaded: &mut Loaded, attached: &Attached) -> Result<(), Failure> {
    loaded.pipefy = PipefySettings::for_base_url(attached.url(), UrlPolicy::Insecure)
        .map_err(|error| Failure::failed(error.to_string()))?;
    loaded.auth = AuthSettings {
        static_token: Some(DEFAULT_TOKEN.into()),
        static_token_source: Source::Explicit("--sandbox".to_owned()),
        base_url: attached.url().to_owned(),
        allow_insecure_urls: true,
        disable_stored_session: true,
        ..AuthSettings::default()
    };
    Ok(())
}

/// Serves until Ctrl-C or SIGTERM. stdout gets one line, the URL; stderr says how to use it.
pub(crate) fn serve<'a>(start: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let number = |name: &str| args.get(name).and_then(Value::as_u64);
        let port = number("port").and_then(|port| u16::try_from(port).ok());
        let (attached, place) = attach(args.get("data").and_then(Value::as_str), port, number("seed")).await?;
        let url = attached.url().to_owned();
        let terminal = &start.terminal;
        if terminal.out(format!("{url}\n").as_bytes()) != 0 {
            return Ok(nothing().code(1));
        }
        terminal.err(&format!("Sandbox with its data {place}. To use it from another terminal:"));
        terminal.err(&format!("  export PIPEFY_BASE_URL={url}"));
        terminal.err("  export PIPEFY_ALLOW_INSECURE_URLS=true");
        for (index, person) in people().into_iter().enumerate() {
            let comment = if index == 0 { "  " } else { "  # or " };
            terminal.err(&format!("{comment}export PIPEFY_TOKEN={}  # {}: {}", person.token, person.name, person.role));
        }
        if !attached.serves() {
            terminal.err("Another process serves this data already; this one ends.");
            return Ok(nothing());
        }
        terminated().await;
        attached.shutdown().await;
        Ok(nothing())
    })
}

/// Ctrl-C, or the system's request to end.
async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
