//! Everything that watches a tool call: the `tool_call` line, the metrics, the audit log, the traces. One guard per call, told of the
//! end; a call that is dropped before was cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::request::Parts;
use pipefy::{EndpointKind, OperationKind, RequestEnd, Requests};
use pipefy_tools::{Class, Kind, Op, Payload, ToolError};
use serde_json::{Map, Value};

use crate::audit::{Audit, Record};
use crate::call_log::{CallLine, CallLog};
use crate::catalogue::Entry;
use crate::dispatch::CallReply;
use crate::metrics::Metrics;
use crate::traces::{CallSpan, Traces};

/// What is told of every call of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers {
    pub(crate) call_log: Option<CallLog>,
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) traces: Option<Traces>,
}

impl Watchers {
    /// Begins to watch a call. `entry` is what `name` reaches, `message` the JSON-RPC id.
    pub(crate) fn begin(
        &self,
        name: &str,
        entry: Option<Entry>,
        arguments: &Map<String, Value>,
        request: Option<&Parts>,
        message: &str,
    ) -> Watched {
        let op = entry.map(op_of);
        let mut record = self.audit.as_ref().map(|log| Record::begin(log, request, message));
        if let (Some(record), Some(op)) = (&mut record, op) {
            record.tool(op, arguments);
        }
        if let Some(metrics) = &self.metrics {
            metrics.call_begun();
        }
        let watches = self.metrics.is_some() || self.audit.is_some() || self.traces.is_some();
        let span = self.traces.as_ref().map(|traces| traces.call(request));
        Watched {
            line: self.call_log.as_ref().map(|log| log.begin(Some(name), Some(arguments), request, message)),
            requests: watches.then(|| Arc::new(Sent::of(self.metrics.clone(), span.clone()))),
            metrics: self.metrics.clone(),
            span,
            record,
            op,
            begun: Instant::now(),
            end: None,
        }
    }
}

fn op_of(entry: Entry) -> &'static Op {
    match entry {
        Entry::Tool(tool) => tool.op(),
        Entry::Meta(meta) => meta.op(),
    }
}

/// One call that is watched.
pub(crate) struct Watched {
    line: Option<CallLine>,
    metrics: Option<Arc<Metrics>>,
    span: Option<CallSpan>,
    record: Option<Record>,
    requests: Option<Arc<Sent>>,
    op: Option<&'static Op>,
    begun: Instant,
    /// How it ended, and whether its caller was still there.
    end: Option<(&'static str, bool)>,
}

impl Watched {
    /// The generic runner runs this tool.
    pub(crate) fn dispatched(&mut self, op: &'static Op, arguments: &Map<String, Value>) {
        self.op = Some(op);
        if let Some(line) = &mut self.line {
            line.dispatched(op.name);
        }
        if let Some(record) = &mut self.record {
            record.tool(op, arguments);
        }
    }

    /// Who hears of what the call sends.
    pub(crate) fn requests(&self) -> Option<Arc<dyn Requests>> {
        self.requests.clone().map(|requests| requests as Arc<dyn Requests>)
    }

    /// Whether the tool may run: a write that must be put down first has been.
    ///
    /// # Errors
    /// It could not be put down; nothing was sent.
    pub(crate) fn admit(&self) -> Result<(), ToolError> {
        let Some(Err(error)) = self.record.as_ref().map(Record::admit) else { return Ok(()) };
        self.failed(&error);
        Err(ToolError::new(
            Kind::Refused,
            "This server must record every change and cannot write its audit log now. Nothing was sent; tell its operator.",
        )
        .code("AUDIT_UNAVAILABLE"))
    }

    /// The call has ended. `heard`: its caller was still there.
    pub(crate) fn ended(mut self, reply: &CallReply, heard: bool) {
        if let Some(line) = self.line.take()
            && heard
        {
            line.ended(reply.is_error, reply.success());
        }
        self.end = Some((outcome(reply), heard));
    }

    fn failed(&self, error: &std::io::Error) {
        tracing::error!(%error, "the audit log cannot be written");
        if let Some(metrics) = &self.metrics {
            metrics.audit_failed();
        }
    }

    /// How it ended, in one of a few words.
    fn outcome(&self) -> &'static str {
        let (sent, unclear) = self.requests.as_ref().map_or((0, 0), |sent| sent.mutations());
        match self.end {
            Some(("ok", _)) => "ok",
            Some((outcome, true)) if unclear == 0 => outcome,
            Some((_, true)) => "unknown",
            // What came back while nobody waited is as good as cancelled, unless something is on its way or done.
            Some(("unknown", false)) => "unknown",
            _ if sent > 0 || self.is_opaque() => "unknown",
            _ => "cancelled",
        }
    }

    /// Whether it may change something by other requests than those that are counted.
    fn is_opaque(&self) -> bool {
        self.op.is_some_and(|op| op.class == Class::ByInput && op.open_world)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let outcome = self.outcome();
        if let Some(metrics) = &self.metrics {
            metrics.call_ended(self.op, outcome, self.begun.elapsed());
        }
        if let Some(span) = &self.span {
            span.ended(self.op, outcome);
        }
        if let Some(record) = &self.record {
            let mutations = self.requests.as_ref().map_or(0, |sent| sent.mutations().0);
            if let Err(error) = record.end(outcome, mutations) {
                self.failed(&error);
            }
        }
    }
}

/// What a reply says of the call, in one of a few words.
fn outcome(reply: &CallReply) -> &'static str {
    if reply.is_error {
        return "error";
    }
    let Payload::Value(payload) = &reply.payload else { return "ok" };
    let is = |path: &str| payload.pointer(path).and_then(Value::as_bool) == Some(true);
    if is("/requires_confirmation") {
        "preview"
    } else if is("/dry_run") {
        "dry_run"
    } else if payload.get("success").and_then(Value::as_bool) != Some(false) {
        "ok"
    } else if is("/error/details/may_have_been_applied") {
        "unknown"
    } else {
        match payload.pointer("/error/code").and_then(Value::as_str) {
            Some("READ_ONLY" | "OUT_OF_SCOPE" | "AUDIT_UNAVAILABLE") => "refused",
            Some("CANCELLED") => "cancelled",
            _ => "failed",
        }
    }
}

/// What one call has sent to Pipefy.
struct Sent {
    metrics: Option<Arc<Metrics>>,
    span: Option<CallSpan>,
    mutations: AtomicUsize,
    answered: AtomicUsize,
}

impl Sent {
    fn of(metrics: Option<Arc<Metrics>>, span: Option<CallSpan>) -> Self {
        Self { metrics, span, mutations: AtomicUsize::new(0), answered: AtomicUsize::new(0) }
    }

    /// Mutations that were sent, and those of them whose outcome is not known.
    fn mutations(&self) -> (usize, usize) {
        let sent = self.mutations.load(Ordering::Relaxed);
        (sent, sent.saturating_sub(self.answered.load(Ordering::Relaxed)))
    }
}

impl Requests for Sent {
    fn traceparent(&self) -> Option<http::HeaderValue> {
        self.span.as_ref().and_then(CallSpan::traceparent)
    }

    fn sending(&self, _endpoint: EndpointKind, kind: OperationKind) {
        if kind == OperationKind::Mutation {
            self.mutations.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ended(&self, endpoint: EndpointKind, kind: OperationKind, end: RequestEnd, took: Duration) {
        match (kind, end) {
            (OperationKind::Mutation, RequestEnd::Answered(_)) => {
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            // It never left.
            (OperationKind::Mutation, RequestEnd::Unreached) => {
                self.mutations.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
        if let Some(metrics) = &self.metrics {
            metrics.pipefy_answered(endpoint, end, took);
        }
        if let Some(span) = &self.span {
            span.asked(endpoint, end, took);
        }
    }
}
