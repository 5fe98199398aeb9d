//! The server's process: arguments, settings, runtime, transport, in this order, and an exit code.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use pipefy::settings::{
    Environment, Overrides, Profile, RESOURCE_SERVER_URL, ServerSettings, SettingsError, Transport, load_server,
};
use pipefy_mcp::argv::{self, Command, Serve};
use pipefy_mcp::audit::Audit;
use pipefy_mcp::handler::Handler;
use pipefy_mcp::http::{self, HttpOptions, Serving};
use pipefy_mcp::reload::Hangups;
use pipefy_mcp::runtime::{McpRuntime, StartError};
use pipefy_mcp::traces::Traces;
use pipefy_mcp::{logging, sandbox, stderr, stdio};
use pipefy_sandbox::Attached;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let serve = match argv::parse(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())) {
        Ok(Command::Print(text)) => return print(&text),
        Ok(Command::Serve(serve)) => serve,
        Err(error) => return refuse(2, &error.to_string()),
    };
    let environment = Environment::capture();
    // Read before there are threads, since the profile says how many; what is wrong with them is told in its turn.
    let overrides = serve.overrides();
    let overrides = if serve.sandbox.is_some() { sandbox::overrides(overrides, None) } else { overrides };
    let settings = load_server(&environment, &overrides);
    let hosted = settings.as_ref().is_ok_and(|settings| settings.mcp.profile == Profile::Remote);
    let runtime = match threads(hosted).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(1, &format!("no threads could be started: {error}")),
    };
    let code = runtime.block_on(run(&serve, &environment, settings));
    // A read from standard input cannot be cancelled everywhere; it must not hold up the end.
    runtime.shutdown_background();
    stderr::flush();
    code
}

/// A thread for one person, and all processors for a company: threads that have little to do pass it among each other, which
/// costs a third of the CPU (docs/performance.md).
fn threads(hosted: bool) -> tokio::runtime::Builder {
    if hosted { tokio::runtime::Builder::new_multi_thread() } else { tokio::runtime::Builder::new_current_thread() }
}

async fn run(serve: &Serve, environment: &Environment, settings: Result<ServerSettings, SettingsError>) -> ExitCode {
    if let Some(warning) = serve.warning() {
        say(&format!("{}: warning: {warning}\n", argv::PROGRAM));
    }
    match start(serve, environment, settings).await {
        Ok((settings, runtime, sandbox, overrides)) => {
            let traces = runtime.traces().cloned();
            let code = serve_on(&settings, runtime, overrides).await;
            if let Some(traces) = traces {
                traces.end().await;
            }
            if let Some(sandbox) = sandbox {
                sandbox.shutdown().await;
            }
            code
        }
        Err(error) => refuse(error.exit_code(), &error.to_string()),
    }
}

async fn start(
    serve: &Serve,
    environment: &Environment,
    settings: Result<ServerSettings, SettingsError>,
) -> Result<(ServerSettings, McpRuntime, Option<Attached>, Overrides), StartError> {
    let mut settings = settings?;
    let mut overrides = serve.overrides();
    let mut attached = None;
    if let Some(data) = &serve.sandbox {
        // Whatever else is wrong is found before anything is started.
        if let Some(url) = sandbox::resource_url(&settings) {
            overrides.set(&RESOURCE_SERVER_URL, "--sandbox", url);
            settings = load_server(environment, &sandbox::overrides(overrides.clone(), None))?;
        }
        McpRuntime::for_profile(&settings, environment)?;
        let started = sandbox::start(data).await?;
        overrides = sandbox::overrides(overrides, Some(&started));
        settings = load_server(environment, &overrides)?;
        attached = Some(started);
    }
    for warning in &settings.report.warnings {
        say(&format!("{warning}\n"));
    }
    logging::start(settings.mcp.log_level);
    let runtime = McpRuntime::for_profile(&settings, environment)?
        .on_sandbox(attached.as_ref().map(Attached::name), &settings)
        .with_traces(Traces::start(&settings.operations)?);
    Ok((settings, runtime, attached, overrides))
}

async fn serve_on(settings: &ServerSettings, runtime: McpRuntime, overrides: Overrides) -> ExitCode {
    let exposure = runtime.whole_exposure();
    tracing::info!(
        transport = if settings.mcp.transport == Transport::Stdio { "stdio" } else { "http" },
        profile = if settings.mcp.profile == Profile::Local { "local" } else { "remote" },
        tools = exposure.listed().len(),
        withheld = exposure.withheld(),
        unified_envelope = settings.mcp.unified_envelope,
        read_only = settings.policy.read_only,
        mark_untrusted = settings.policy.mark_untrusted,
        confirm_after_untrusted = settings.policy.confirm_after_untrusted,
        scope = runtime.described_scope(),
        "starting"
    );
    let stop = stop_signal();
    match settings.mcp.transport {
        Transport::Stdio => {
            stdio::serve(Handler::new(Arc::new(runtime)), stop).await;
            ExitCode::SUCCESS
        }
        Transport::Http => {
            let options = match HttpOptions::new(settings) {
                Ok(options) => HttpOptions { traces: runtime.traces().cloned(), ..options },
                Err(error) => return refuse(1, &error.to_string()),
            };
            let audit = runtime.audit().cloned();
            let runtime = runtime.with_metrics(options.metrics.clone()).with_store(options.store.clone());
            let inbound = runtime.inbound().clone();
            match http::bind(Arc::new(runtime), inbound, &options).await {
                Ok(serving) => {
                    reload_on_hangup(&serving, audit, overrides);
                    serving.announce();
                    serving.run(async move { stop.cancelled().await }).await;
                    ExitCode::SUCCESS
                }
                Err(error) => refuse(error.exit_code(), &error.to_string()),
            }
        }
    }
}

/// Reads the settings again on SIGHUP, as they were read at start-up.
fn reload_on_hangup(serving: &Serving, audit: Option<Arc<Audit>>, overrides: Overrides) {
    let load = move || load_server(&Environment::capture(), &overrides);
    match Hangups::hear() {
        Ok(hangups) => drop(tokio::spawn(hangups.reload(serving.app().clone(), audit, load))),
        Err(error) => tracing::warn!(%error, "SIGHUP cannot be heard; limits are fixed until the next start"),
    }
}

/// Fires on SIGINT and SIGTERM.
fn stop_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let fired = stop.clone();
    tokio::spawn(async move {
        match signal().await {
            Ok(()) => fired.cancel(),
            Err(error) => tracing::warn!(%error, "signals cannot be heard; the process ends without draining"),
        }
    });
    stop
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

fn print(text: &str) -> ExitCode {
    // A closed pipe (`| head`) is no failure.
    let _closed = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn say(text: &str) {
    stderr::flush();
    let _closed = std::io::stderr().write_all(text.as_bytes());
}

/// Says why the server does not start. Usage comes along with what was written wrongly.
fn refuse(code: u8, message: &str) -> ExitCode {
    say(&if code == 2 { argv::usage_text(message) } else { format!("{}: error: {message}\n", argv::PROGRAM) });
    ExitCode::from(code)
}
