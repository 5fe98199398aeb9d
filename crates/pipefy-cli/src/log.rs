//! What the libraries log, on stderr: warnings of our own by default, anything that `RUST_LOG` asks for.

use std::fmt;

use pipefy::settings::Environment;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::plain;

/// Starts it. `RUST_LOG` takes `<level>` or `<target>=<level>` between commas; what cannot be read counts as unset.
pub(crate) fn start(environment: &Environment) {
    let asked = environment.variable("RUST_LOG").filter(|text| !text.trim().is_empty());
    let asked = asked.and_then(|text| text.parse::<Targets>().ok());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    // A second start in one process changes nothing.
    let _ = match asked {
        Some(targets) => tracing_subscriber::registry().with(targets).with(lines.without_time()).try_init(),
        None => {
            let ours = ["pipefy", "pipefy_auth", "pipefy_tools"].map(|name| (name, LevelFilter::WARN));
            let targets = Targets::new().with_targets(ours);
            tracing_subscriber::registry().with(targets).with(lines.event_format(Line)).try_init()
        }
    };
}

/// A warning as other warnings look.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        writeln!(writer, "warning: {}", plain(&text))
    }
}
