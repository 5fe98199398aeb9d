//! OpenTelemetry traces: a span of each HTTP request, of each tool call within it, and of each request to Pipefy within that.
//!
//! Spans are tied together by values that travel with the message, never by what runs on a thread. Names and attributes come
//! from fixed sets: nothing of a caller, an argument or an answer is in them. Of what comes in, only `traceparent` is believed
//! (W3C Trace Context), which is two numbers; `tracestate` and baggage, which hold text, are not read.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{Extensions, HeaderValue, Method, Request, Response};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, TraceState, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use pipefy::settings::OperationsSettings;
use pipefy::{EndpointKind, RequestEnd};
use pipefy_tools::Op;

use crate::metrics;

/// Longest wait for the collector, for one batch and at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Traces cannot be sent with these settings.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to OTEL_EXPORTER_OTLP_ENDPOINT: {0}")]
pub struct TracesError(String);

/// Where spans go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    /// Sends spans to the configured collector, in batches, from a thread of its own; none without one. Needs a runtime.
    /// Sampling and batches follow the standard `OTEL_*` variables, which the library reads.
    ///
    /// # Errors
    /// No client can be had for the endpoint.
    pub fn start(settings: &OperationsSettings) -> Result<Option<Self>, TracesError> {
        let Some(endpoint) = &settings.otlp_endpoint else { return Ok(None) };
        let http = reqwest::Client::builder().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none()).build();
        let http = http.map_err(|error| TracesError(error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector { http, runtime: tokio::runtime::Handle::current() })
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| TracesError(error.to_string()))?;
        let resource = Resource::builder()
            .with_attributes([
                KeyValue::new("service.name", crate::argv::PROGRAM),
                KeyValue::new("service.version", pipefy::VERSION),
            ])
            .build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let tracer = provider.tracer_with_scope(InstrumentationScope::builder("pipefy-mcp").build());
        Ok(Some(Self { provider, tracer }))
    }

    /// Sends what is left, for a few seconds at most.
    pub async fn end(self) {
        let sent = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(PATIENCE)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("the last traces could not be sent");
        }
    }

    /// Begins the span of a request, as part of the client's trace if it names one. Probes have none.
    pub(crate) fn request<B>(&self, request: &Request<B>) -> Option<RequestSpan> {
        let route = match request.uri().path() {
            "/healthz" | "/readyz" => return None,
            "/mcp" | "/mcp/" => "/mcp",
            path if path.starts_with("/.well-known/") => "/.well-known",
            _ => "other",
        };
        let method = match *request.method() {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            Method::HEAD => "HEAD",
            _ => "_OTHER",
        };
        let sent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(request.headers()))
            .span()
            .span_context()
            .clone();
        let parent = SpanContext::new(sent.trace_id(), sent.span_id(), sent.trace_flags(), true, TraceState::NONE);
        let builder = SpanBuilder::from_name(format!("{method} {route}"))
            .with_kind(SpanKind::Server)
            .with_attributes([KeyValue::new("http.request.method", method), KeyValue::new("http.route", route)]);
        Some(RequestSpan(self.tracer.build_with_context(builder, &within(Some(&parent)))))
    }

    /// Begins the span of a tool call, within that of the request that carried it.
    pub(crate) fn call(&self, request: Option<&Parts>) -> CallSpan {
        let parent = request.and_then(|parts| parts.extensions.get::<Around>());
        let builder = SpanBuilder::from_name("tools/call").with_kind(SpanKind::Internal);
        let span = self.tracer.build_with_context(builder, &within(parent.map(|around| &around.0)));
        CallSpan {
            tracer: self.tracer.clone(),
            context: span.span_context().clone(),
            span: Arc::new(std::sync::Mutex::new(span)),
        }
    }
}

/// The span around a message, in its request's extensions.
#[derive(Clone)]
struct Around(SpanContext);

/// A context with this parent and nothing else.
fn within(parent: Option<&SpanContext>) -> Context {
    let none = Context::new();
    parent.map_or_else(|| none.clone(), |parent| none.with_remote_span_context(parent.clone()))
}

/// The span of one HTTP request.
pub(crate) struct RequestSpan(Span);

impl RequestSpan {
    /// Lets what the request carries find its span.
    pub(crate) fn travel_with(&self, extensions: &mut Extensions) {
        extensions.insert(Around(self.0.span_context().clone()));
    }

    /// The response is out, or the client gone before it.
    pub(crate) fn ended(&mut self, status: Option<u16>, refused: Option<&'static str>) {
        if let Some(status) = status {
            self.0.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        if let Some(reason) = refused {
            self.0.set_attribute(KeyValue::new("error.type", reason));
        }
        if status.is_none_or(|status| status >= 500) {
            self.0.set_status(Status::error(""));
        }
        self.0.end();
    }
}

/// The span of one tool call.
#[derive(Clone)]
pub(crate) struct CallSpan {
    tracer: SdkTracer,
    context: SpanContext,
    span: Arc<std::sync::Mutex<Span>>,
}

impl CallSpan {
    /// What Pipefy is told of the trace.
    pub(crate) fn traceparent(&self) -> Option<HeaderValue> {
        let (trace, span, flags) = (self.context.trace_id(), self.context.span_id(), self.context.trace_flags());
        HeaderValue::from_str(&format!("00-{trace}-{span}-{:02x}", flags.to_u8())).ok()
    }

    /// A request to Pipefy has ended: a span of its own.
    pub(crate) fn asked(&self, endpoint: EndpointKind, end: RequestEnd, took: Duration) {
        let endpoint = metrics::endpoint(endpoint);
        let now = SystemTime::now();
        let builder = SpanBuilder::from_name(format!("Pipefy {endpoint}"))
            .with_kind(SpanKind::Client)
            .with_start_time(now.checked_sub(took).unwrap_or(now))
            .with_attributes([KeyValue::new("pipefy.endpoint", endpoint)]);
        let mut span = self.tracer.build_with_context(builder, &within(Some(&self.context)));
        match end {
            RequestEnd::Answered(status) => {
                span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            }
            RequestEnd::Unreached | RequestEnd::Lost | RequestEnd::Timeout | RequestEnd::Abandoned => {
                span.set_attribute(KeyValue::new("error.type", metrics::word(end)));
                span.set_status(Status::error(""));
            }
        }
        span.end_with_timestamp(now);
    }

    /// The call has ended. Tools are named by the catalogue, whatever the caller said.
    pub(crate) fn ended(&self, op: Option<&'static Op>, outcome: &'static str) {
        // Poisoned by nothing: what is done with it cannot panic half-way.
        let mut span = self.span.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let tool = op.map_or(metrics::NO_TOOL, |op| op.name);
        span.update_name(format!("tools/call {tool}"));
        span.set_attribute(KeyValue::new("mcp.tool.name", tool));
        span.set_attribute(KeyValue::new("mcp.tool.class", op.map_or("none", |op| metrics::class(op.class))));
        span.set_attribute(KeyValue::new("mcp.tool.outcome", outcome));
        if matches!(outcome, "error" | "failed" | "unknown") {
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// The way to the collector. The exporter asks from a thread without a runtime, so the work is given to the server's.
#[derive(Debug)]
struct Collector {
    http: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

impl HttpClient for Collector {
    fn send_bytes<'a: 'f, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> futures_util::future::BoxFuture<'f, Result<Response<Bytes>, HttpError>>
    where
        Self: 'f,
    {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let answer = http.execute(request.try_into()?).await?;
            let status = answer.status();
            let mut response = Response::new(answer.bytes().await?);
            *response.status_mut() = status;
            Ok::<_, reqwest::Error>(response)
        });
        Box::pin(async move { Ok(sent.await??) })
    }
}
