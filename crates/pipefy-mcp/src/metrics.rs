//! Counters for Prometheus. Every label has a bounded set of values: names of tools come from the catalogue, never from a
//! caller, and nothing of a caller is a label.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pipefy::{EndpointKind, RequestEnd};
use pipefy_tools::{Class, Op};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// The tool label of a call whose tool does not exist here.
pub(crate) const NO_TOOL: &str = "unknown";

/// Seconds of a tool call or a request to Pipefy.
const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    tool: &'static str,
    class: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PipefyLabels {
    endpoint: &'static str,
    status: StatusLabel,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
enum StatusLabel {
    Code(u16),
    Word(&'static str),
}

impl prometheus_client::encoding::EncodeLabelValue for StatusLabel {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self {
            Self::Code(code) => write!(encoder, "{code}"),
            Self::Word(word) => encoder.write_str(word),
        }
    }
}

/// The counters of one process. Counting is a few atomic operations.
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    call_seconds: Family<ClassLabels, Histogram, fn() -> Histogram>,
    running: Gauge,
    requests: Family<RequestLabels, Counter>,
    in_flight: Gauge,
    refusals: Family<RefusalLabels, Counter>,
    pipefy: Family<PipefyLabels, Counter>,
    pipefy_seconds: Family<EndpointLabels, Histogram, fn() -> Histogram>,
    sessions: Gauge,
    audit_failures: Counter,
    store_failures: Counter,
    resident: Gauge<u64, AtomicU64>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            running: Gauge::default(),
            requests: Family::default(),
            in_flight: Gauge::default(),
            refusals: Family::default(),
            pipefy: Family::default(),
            pipefy_seconds: Family::new_with_constructor(seconds),
            sessions: Gauge::default(),
            audit_failures: Counter::default(),
            store_failures: Counter::default(),
            resident: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("pipefy_mcp_build", "The running release", Info::new([("version", pipefy::VERSION)]));
        registry.register_with_unit(
            "process_resident_memory",
            "Memory of the process that is in RAM (Linux)",
            Unit::Bytes,
            self.resident.clone(),
        );
        let registry = registry.sub_registry_with_prefix("pipefy_mcp");
        registry.register("tool_calls", "Tool calls by tool, class and outcome", self.calls.clone());
        registry.register_with_unit(
            "tool_call_duration",
            "Time of a tool call by class",
            Unit::Seconds,
            self.call_seconds.clone(),
        );
        registry.register("tool_calls_running", "Tool calls that run now", self.running.clone());
        registry.register("http_requests", "Finished HTTP requests by method and status", self.requests.clone());
        registry.register(
            "http_requests_in_flight",
            "HTTP requests whose response has not ended, open event streams included",
            self.in_flight.clone(),
        );
        registry.register("refusals", "HTTP requests that were refused, by reason", self.refusals.clone());
        registry.register(
            "pipefy_requests",
            "Requests to Pipefy by endpoint and HTTP status, or why there was none",
            self.pipefy.clone(),
        );
        registry.register_with_unit(
            "pipefy_request_duration",
            "Time of a request to Pipefy by endpoint",
            Unit::Seconds,
            self.pipefy_seconds.clone(),
        );
        registry.register("sessions", "Open sessions", self.sessions.clone());
        registry.register("audit_failures", "Audit lines that could not be written", self.audit_failures.clone());
        registry.register("store_failures", "Questions the session store did not answer", self.store_failures.clone());
    }

    /// A call begins; what is returned must be given to [`Metrics::call_ended`].
    pub(crate) fn call_begun(&self) {
        self.running.inc();
    }

    /// A call has ended. `op` is the tool's, none for one that does not exist here; `outcome` is one of a few words.
    pub(crate) fn call_ended(&self, op: Option<&'static Op>, outcome: &'static str, took: Duration) {
        self.running.dec();
        let class = op.map_or("none", |op| class(op.class));
        let tool = op.map_or(NO_TOOL, |op| op.name);
        self.calls.get_or_create(&CallLabels { tool, class, outcome }).inc();
        self.call_seconds.get_or_create(&ClassLabels { class }).observe(took.as_secs_f64());
    }

    pub(crate) fn request_begun(&self) {
        self.in_flight.inc();
    }

    /// A response has ended; `status` is none when there was none.
    pub(crate) fn request_ended(&self, method: &http::Method, status: Option<u16>, refused: Option<&'static str>) {
        self.in_flight.dec();
        let method = match *method {
            http::Method::GET => "GET",
            http::Method::POST => "POST",
            http::Method::DELETE => "DELETE",
            _ => "other",
        };
        self.requests.get_or_create(&RequestLabels { method, status: status.unwrap_or(0) }).inc();
        if let Some(reason) = refused {
            self.refusals.get_or_create(&RefusalLabels { reason }).inc();
        }
    }

    pub(crate) fn pipefy_answered(&self, endpoint: EndpointKind, end: RequestEnd, took: Duration) {
        let endpoint = self::endpoint(endpoint);
        let status = match end {
            RequestEnd::Answered(status @ 100..600) => StatusLabel::Code(status),
            end => StatusLabel::Word(word(end)),
        };
        self.pipefy.get_or_create(&PipefyLabels { endpoint, status }).inc();
        self.pipefy_seconds.get_or_create(&EndpointLabels { endpoint }).observe(took.as_secs_f64());
    }

    pub(crate) fn audit_failed(&self) {
        self.audit_failures.inc();
    }

    pub(crate) fn store_failed(&self) {
        self.store_failures.inc();
    }

    /// Everything as OpenMetrics text; `sessions` are open now.
    pub fn text(&self, sessions: usize) -> String {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        if let Some(bytes) = resident_bytes() {
            self.resident.set(bytes);
        }
        let mut page = String::new();
        // Writing to memory does not fail.
        let _infallible = text::encode(&mut page, &self.registry);
        page
    }
}

/// The word for a class in metrics and audit lines.
pub(crate) fn endpoint(endpoint: EndpointKind) -> &'static str {
    match endpoint {
        EndpointKind::Public => "public",
        EndpointKind::Interfaces => "interfaces",
        EndpointKind::Internal => "internal",
    }
}

/// How a request ended that got no usable status.
pub(crate) fn word(end: RequestEnd) -> &'static str {
    match end {
        RequestEnd::Answered(_) => "odd",
        RequestEnd::Unreached => "unreached",
        RequestEnd::Lost => "lost",
        RequestEnd::Timeout => "timeout",
        RequestEnd::Abandoned => "abandoned",
    }
}

pub(crate) fn class(class: Class) -> &'static str {
    match class {
        Class::Read => "read",
        Class::Write => "write",
        Class::Destructive => "destructive",
        Class::ByInput => "by_input",
    }
}

/// Resident memory of this process, where the system tells it in pages of 4 KiB.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn the_page_is_made_of_known_words() {
        let metrics = Metrics::default();
        metrics.call_begun();
        metrics.call_ended(None, "error", Duration::from_millis(3));
        metrics.request_begun();
        metrics.request_ended(&http::Method::from_bytes(b"BREW").unwrap(), None, Some("host"));
        metrics.pipefy_answered(EndpointKind::Public, RequestEnd::Answered(200), Duration::from_millis(3));
        metrics.pipefy_answered(EndpointKind::Public, RequestEnd::Answered(999), Duration::from_millis(3));
        let page = metrics.text(7);
        for line in [
            r#"pipefy_mcp_tool_calls_total{tool="unknown",class="none",outcome="error"} 1"#,
            r#"pipefy_mcp_tool_call_duration_seconds_bucket{le="0.005",class="none"} 1"#,
            "pipefy_mcp_tool_calls_running 0",
            r#"pipefy_mcp_http_requests_total{method="other",status="0"} 1"#,
            r#"pipefy_mcp_refusals_total{reason="host"} 1"#,
            r#"pipefy_mcp_pipefy_requests_total{endpoint="public",status="200"} 1"#,
            r#"pipefy_mcp_pipefy_requests_total{endpoint="public",status="odd"} 1"#,
            "pipefy_mcp_sessions 7",
            "pipefy_mcp_audit_failures_total 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }
}
