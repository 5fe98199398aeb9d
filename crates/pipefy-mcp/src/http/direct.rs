//! Answers without a service loop, for requests that need nothing of one: a lone `tools/call` that is answered with one JSON
//! body, `tools/list` (prepared once) and `ping`.
//!
//! A loop for a single request is three tasks and as many channels. Here the call runs in the request's own task and the
//! response is written once: the text escaped, the structured content as the same text unescaped. Whatever is not exactly
//! such a request goes the long way, so the two can only differ in cost; the table of raw requests is run with both.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use rmcp::model::{ProtocolVersion, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::reply::{self, Format};
use super::{Called, LoneCall, Served};

/// How long a call whose client has gone may take to wind up.
const WIND_UP: Duration = Duration::from_secs(2);

/// Keys of the later revision; whoever uses them outside it wants what the service loop says to that.
const RESERVED: &str = "io.modelcontextprotocol/";

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
    #[serde(rename = "requestState", borrow, default)]
    state: Option<&'a RawValue>,
    #[serde(rename = "inputResponses", borrow, default)]
    responses: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(rename = "cursor", default)]
    _cursor: Option<String>,
    #[serde(rename = "_meta", default)]
    _meta: Option<Map<String, Value>>,
}

impl<S: Served> Endpoint<S> {
    /// `tools/list` and `ping` of the handshake era; `None` for anything else.
    pub(super) fn ready(
        &self,
        id: &RequestId,
        method: &str,
        params: Option<&RawValue>,
        version: &ProtocolVersion,
        parts: &Parts,
        format: Format,
    ) -> Option<Response<Body>> {
        if !self.rules.fast_path || params.is_some_and(|params| params.get().contains(RESERVED)) {
            return None;
        }
        let result = match method {
            "ping" => Bytes::from_static(b"{}"),
            "tools/list" => {
                if let Some(params) = params {
                    serde_json::from_str::<ListParams>(params.get()).ok()?;
                }
                self.served.tools(parts, version)?
            }
            _ => return None,
        };
        let head = [before(format), head(id).as_bytes()].concat();
        let tail: &[u8] = match format {
            Format::Json => b"}",
            Format::Events => b"}\r\n\r\n",
        };
        let body = Body::new(Pieces([head.into(), result, Bytes::from_static(tail)].into()));
        Some(match format {
            Format::Json => reply::json_body(StatusCode::OK, body),
            Format::Events => reply::events(body),
        })
    }

    /// A `tools/call` without a session; the parts come back when it must go the long way.
    pub(super) async fn call(
        self: &Arc<Self>,
        id: &RequestId,
        params: Option<&RawValue>,
        version: &ProtocolVersion,
        parts: Parts,
    ) -> Result<Response<Body>, Parts> {
        let plain = |params: &CallParams<'_>| {
            params.state.is_none()
                && params.responses.is_none()
                && params.meta.is_none_or(|meta| meta.get().starts_with('{') && !meta.get().contains(RESERVED))
        };
        let params = params.and_then(|params| serde_json::from_str::<CallParams<'_>>(params.get()).ok()).filter(plain);
        let (Some(params), true) = (params, self.rules.fast_path && S::CALLS) else { return Err(parts) };
        let structured = version.as_str() >= ProtocolVersion::V_2025_06_18.as_str();

        let cancel = self.stop.child_token();
        let call = OwnedCall {
            id: id.to_string(),
            name: params.name.into_owned(),
            arguments: params.arguments.unwrap_or_default(),
            parts,
            cancel: cancel.clone(),
        };
        let called = Attended { running: Some(call.run(self.clone())), cancel }.await;
        Ok(reply::json_bytes(StatusCode::OK, written(id, &called, structured)))
    }
}

struct OwnedCall {
    id: String,
    name: String,
    arguments: Map<String, Value>,
    parts: Parts,
    cancel: CancellationToken,
}

impl OwnedCall {
    fn run<S: Served>(self, endpoint: Arc<Endpoint<S>>) -> BoxFuture<'static, Called> {
        Box::pin(async move {
            let Self { id, name, arguments, parts, cancel } = self;
            endpoint.served.call(LoneCall { id: &id, name: &name, arguments, request: &parts, cancel }).await
        })
    }
}

/// A call somebody waits for. When they go, the call is told, and gets a moment to put down what became of it: a change that
/// was on its way must not vanish without a trace.
struct Attended {
    running: Option<BoxFuture<'static, Called>>,
    cancel: CancellationToken,
}

impl Future for Attended {
    type Output = Called;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Called> {
        let Some(running) = &mut self.running else { return Poll::Pending };
        let called = running.as_mut().poll(cx);
        if called.is_ready() {
            self.running = None;
        }
        called
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.cancel.cancel();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(WIND_UP, running));
        }
    }
}

fn before(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"",
        Format::Events => b"event: message\r\ndata: ",
    }
}

/// Everything of a response up to its result.
fn head(id: &RequestId) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.clone().into_json_value())
}

fn written(id: &RequestId, called: &Called, structured: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(2 * called.text.len() + called.text.len() / 8 + 160);
    body.extend_from_slice(head(id).as_bytes());
    body.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":");
    // Writing to memory cannot fail, and a text always has a JSON form.
    let _infallible = serde_json::to_writer(&mut body, &called.text);
    body.extend_from_slice(b"}]");
    if structured && called.is_object {
        body.extend_from_slice(b",\"structuredContent\":");
        body.extend_from_slice(called.text.as_bytes());
    }
    body.extend_from_slice(if called.is_error { b",\"isError\":true}}" } else { b",\"isError\":false}}" });
    body
}

/// A body of several pieces, so that a large prepared one is not copied.
struct Pieces(std::collections::VecDeque<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
