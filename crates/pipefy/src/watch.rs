//! Who hears of the requests that a call sends: metrics, and an audit log that must know what was on the wire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::document::{EndpointKind, OperationKind};

/// How a request to Pipefy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// Pipefy, or something before it, answered with this HTTP status.
    Answered(u16),
    /// No connection: nothing was sent.
    Unreached,
    /// The connection failed after the request was sent.
    Lost,
    /// No answer in time.
    Timeout,
    /// The caller went while the request was on its way.
    Abandoned,
}

/// Hears of every request of a call. Called in the call's own task; must not block.
pub trait Requests: Send + Sync {
    /// What the next request says in `traceparent` (W3C Trace Context), for whoever follows it further.
    fn traceparent(&self) -> Option<http::HeaderValue> {
        None
    }

    /// A request is about to be sent.
    fn sending(&self, endpoint: EndpointKind, kind: OperationKind);

    /// It ended, `took` after it began. Follows every [`Requests::sending`], also when the call is dropped.
    fn ended(&self, endpoint: EndpointKind, kind: OperationKind, end: RequestEnd, took: Duration);
}

/// One request on its way; its end is reported when it is dropped.
pub(crate) struct Watched<'a> {
    by: Option<&'a Arc<dyn Requests>>,
    endpoint: EndpointKind,
    kind: OperationKind,
    begun: Instant,
    end: RequestEnd,
}

impl<'a> Watched<'a> {
    pub(crate) fn begin(by: Option<&'a Arc<dyn Requests>>, endpoint: EndpointKind, kind: OperationKind) -> Self {
        if let Some(by) = by {
            by.sending(endpoint, kind);
        }
        Self { by, endpoint, kind, begun: Instant::now(), end: RequestEnd::Abandoned }
    }

    /// What would be reported now.
    pub(crate) fn set(&mut self, end: RequestEnd) {
        self.end = end;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(by) = self.by {
            by.ended(self.endpoint, self.kind, self.end, self.begun.elapsed());
        }
    }
}
