//! Text logs: one line per event on standard error.

use pipefy::settings::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::stderr::Stderr;

/// Starts logging. Called once, before the first line; a second call changes nothing.
pub fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Error | LogLevel::Critical => LevelFilter::ERROR,
    };
    // Below warning, the protocol library prints whole requests and results: data of customers.
    let quiet = level.min(LevelFilter::WARN);
    let targets = Targets::new()
        .with_default(level)
        .with_target("rmcp", quiet)
        .with_target("hyper", quiet)
        .with_target("reqwest", quiet);
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Stderr).with_ansi(false).with_target(false);
    // Fails only when an embedder has set up logging of its own, which then stays.
    let _theirs = tracing_subscriber::registry().with(lines).with(targets).try_init();
}
