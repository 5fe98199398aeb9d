//! In builds without the feature `otel` there are no traces: none can be made.

use std::time::Duration;

use http::request::Parts;
use http::{Extensions, HeaderValue, Request};
use pipefy::settings::OperationsSettings;
use pipefy::{EndpointKind, RequestEnd};
use pipefy_tools::Op;

/// Traces cannot be sent with these settings; never here.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {}

/// Where spans go: there is no such value.
#[derive(Clone, Debug)]
pub enum Traces {}

impl Traces {
    /// None; says so when a collector is configured.
    ///
    /// # Errors
    /// Never.
    pub fn start(settings: &OperationsSettings) -> Result<Option<Self>, TracesError> {
        if settings.otlp_endpoint.is_some() {
            tracing::warn!("OTEL_EXPORTER_OTLP_ENDPOINT is set, but this server was built without the feature otel");
        }
        Ok(None)
    }

    /// Sends what is left.
    pub async fn end(self) {
        match self {}
    }

    pub(crate) fn request<B>(&self, _request: &Request<B>) -> Option<RequestSpan> {
        match *self {}
    }

    pub(crate) fn call(&self, _request: Option<&Parts>) -> CallSpan {
        match *self {}
    }
}

pub(crate) enum RequestSpan {}

impl RequestSpan {
    pub(crate) fn travel_with(&self, _extensions: &mut Extensions) {
        match *self {}
    }

    pub(crate) fn ended(&mut self, _status: Option<u16>, _refused: Option<&'static str>) {
        match *self {}
    }
}

#[derive(Clone)]
pub(crate) enum CallSpan {}

impl CallSpan {
    pub(crate) fn traceparent(&self) -> Option<HeaderValue> {
        match *self {}
    }

    pub(crate) fn asked(&self, _endpoint: EndpointKind, _end: RequestEnd, _took: Duration) {
        match *self {}
    }

    pub(crate) fn ended(&self, _op: Option<&'static Op>, _outcome: &'static str) {
        match *self {}
    }
}
