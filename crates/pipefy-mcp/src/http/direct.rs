//! Answers without a service loop, for requests that need nothing of one: a `tools/call` that reports no progress, sends no
//! log messages and asks nobody, alone or in a session, `tools/list` (prepared once) and `ping`.
//!
//! Through a loop, a call is two more tasks and as many channels. Here it runs in the request's own task and the response is
//! written once: the text escaped, the structured content as the same text unescaped. Whatever is not exactly such a request
//! goes the long way, so the two can only differ in cost; the table of raw requests is run with both.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
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
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::channel::Entry;
use super::endpoint::Endpoint;
use super::refusal::Refusal;
use super::reply::{self, Era, Format, PING_AFTER};
use super::sessions::Session;
use super::{Called, LoneCall, Served};

/// How long a call whose client has gone may take to wind up.
const WIND_UP: Duration = Duration::from_secs(2);

/// Keys of the later revision; whoever uses them outside it wants what the service loop says to that.
const RESERVED: &str = "io.modelcontextprotocol/";

/// What a `tools/call` names.
#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
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

impl CallParams<'_> {
    /// The tool.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(rename = "cursor", default)]
    _cursor: Option<String>,
    #[serde(rename = "_meta", default)]
    _meta: Option<Map<String, Value>>,
}

impl<S: Served> Endpoint<S> {
    /// `tools/list`, and `ping` of the handshake era; `None` for anything else.
    pub(super) fn ready(
        &self,
        id: &RequestId,
        method: &str,
        params: Option<&RawValue>,
        version: &ProtocolVersion,
        parts: &Parts,
        format: Format,
    ) -> Option<Response<Body>> {
        let alone = *version == ProtocolVersion::V_2026_07_28;
        let odd = !alone && params.is_some_and(|params| params.get().contains(RESERVED));
        if !self.rules.fast_path || odd {
            return None;
        }
        let result = match method {
            "ping" if !alone => Bytes::from_static(b"{}"),
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

    /// The parameters of a `tools/call` that can be answered here.
    pub(super) fn lone<'a>(&self, params: Option<&'a RawValue>, era: Era) -> Option<CallParams<'a>> {
        if !self.rules.fast_path || !S::CALLS {
            return None;
        }
        let params: CallParams<'_> = serde_json::from_str(params?.get()).ok()?;
        let usual = |meta: &RawValue| {
            let meta = meta.get();
            meta.starts_with('{')
                && !meta.contains("progressToken")
                && !meta.contains("logLevel")
                && (era == Era::Exchange || !meta.contains(RESERVED))
        };
        let lone = params.state.is_none() && params.responses.is_none() && params.meta.is_none_or(usual);
        lone.then_some(params)
    }

    /// A `tools/call` without a session.
    pub(super) async fn call(
        self: &Arc<Self>,
        id: &RequestId,
        params: CallParams<'_>,
        version: &ProtocolVersion,
        parts: Parts,
        format: Format,
        era: Era,
    ) -> Response<Body> {
        let cancel = self.stop.child_token();
        let call = OwnedCall::new(id, params, version, parts, cancel.clone());
        let running = call.run(self.clone(), None);
        Attended { running: Some(running), cancel, leave: Leave::Cancel }.respond(format, era).await
    }

    /// A `tools/call` in a session. It can be cancelled by its id like any other, and outlives a lost connection by the same
    /// rules.
    pub(super) async fn call_in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        id: &RequestId,
        params: CallParams<'_>,
        parts: Parts,
        format: Format,
    ) -> Result<Response<Body>, Refusal> {
        let cancel = session.stop.child_token();
        let entry = session.routes.enter(id.clone(), cancel.clone()).ok_or_else(|| Refusal::duplicate_id(id))?;
        let leave = Leave::Stay { read: self.served.is_read(&params.name), grace: self.rules.disconnect_grace };
        let call = OwnedCall::new(id, params, &session.version, parts, cancel.clone());
        let running = call.run(self.clone(), Some(entry));
        Ok(Attended { running: Some(running), cancel, leave }.respond(format, Era::Handshake).await)
    }
}

struct OwnedCall {
    id: RequestId,
    name: String,
    arguments: Map<String, Value>,
    version: ProtocolVersion,
    parts: Parts,
    cancel: CancellationToken,
}

/// The JSON-RPC response, or nothing when the call's session has ended.
type Running = BoxFuture<'static, Option<Vec<u8>>>;

impl OwnedCall {
    fn new(
        id: &RequestId,
        params: CallParams<'_>,
        version: &ProtocolVersion,
        parts: Parts,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            id: id.clone(),
            name: params.name.into_owned(),
            arguments: params.arguments.unwrap_or_default(),
            version: version.clone(),
            parts,
            cancel,
        }
    }

    fn run<S: Served>(self, endpoint: Arc<Endpoint<S>>, entry: Option<Entry>) -> Running {
        Box::pin(async move {
            let Self { id, name, arguments, version, parts, cancel } = self;
            let shown = id.to_string();
            let call = LoneCall { id: &shown, name: &name, arguments, request: &parts, cancel: cancel.clone() };
            let called = endpoint.served.call(call).await;
            match entry.map(Entry::leave) {
                None | Some(Some(true)) => Some(written(&id, &called, &version)),
                Some(Some(false)) => Some(reply::encode(&reply::cancelled(id))),
                Some(None) => None,
            }
        })
    }
}

/// What becomes of a call whose client has gone before the answer.
enum Leave {
    /// It is cancelled.
    Cancel,
    /// A read is cancelled after a while; a write runs to its end, because its outcome matters whether or not somebody waits
    /// for it.
    Stay { read: bool, grace: Duration },
}

/// A call somebody waits for. When they go, a call that is cancelled gets a moment to put down what became of it: a change
/// that was on its way must not vanish without a trace.
struct Attended {
    running: Option<Running>,
    cancel: CancellationToken,
    leave: Leave,
}

impl Attended {
    async fn respond(mut self, format: Format, era: Era) -> Response<Body> {
        if format == Format::Json {
            return self.await.map_or_else(reply::gone, |answer| reply::json_bytes(StatusCode::OK, answer));
        }
        match tokio::time::timeout(era.patience(), &mut self).await {
            Ok(None) => reply::events(Body::empty()),
            Ok(Some(answer)) if era == Era::Exchange => reply::json_bytes(StatusCode::OK, answer),
            Ok(Some(answer)) => reply::events(Body::from(framed(&answer))),
            Err(_) => {
                let silence = Box::pin(tokio::time::sleep(PING_AFTER));
                reply::events(Body::new(Late { attended: Some(self), silence }))
            }
        }
    }
}

impl Future for Attended {
    type Output = Option<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let Some(running) = &mut self.running else { return Poll::Pending };
        let answer = running.as_mut().poll(cx);
        if answer.is_ready() {
            self.running = None;
        }
        answer
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            self.cancel.cancel();
            return;
        };
        let cancel = self.cancel.clone();
        match self.leave {
            Leave::Cancel => {
                cancel.cancel();
                runtime.spawn(tokio::time::timeout(WIND_UP, running));
            }
            Leave::Stay { read, grace } => {
                runtime.spawn(async move {
                    if tokio::time::timeout(grace, &mut running).await.is_ok() {
                        return;
                    }
                    if read {
                        cancel.cancel();
                        let _answer = tokio::time::timeout(WIND_UP, running).await;
                    } else {
                        let _answer = running.await;
                    }
                });
            }
        }
    }
}

/// The event stream of a call that takes long: comments while it runs, then the answer.
struct Late {
    attended: Option<Attended>,
    silence: Pin<Box<Sleep>>,
}

impl hyper::body::Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(attended) = &mut self.attended else { return Poll::Ready(None) };
        if let Poll::Ready(answer) = Pin::new(attended).poll(cx) {
            self.attended = None;
            return Poll::Ready(answer.map(|answer| Ok(Frame::data(framed(&answer)))));
        }
        reply::ping_in_silence(self.silence.as_mut(), cx).map(|ping| Some(Ok(Frame::data(ping))))
    }
}

/// One event. JSON text has no line breaks, so one `data` line always does.
fn framed(answer: &[u8]) -> Bytes {
    [before(Format::Events), answer, AFTER].concat().into()
}

/// Ends an event.
const AFTER: &[u8] = b"\r\n\r\n";

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

/// The response, as [`crate::handler`] and rmcp's types would write it for this revision.
fn written(id: &RequestId, called: &Called, version: &ProtocolVersion) -> Vec<u8> {
    let since = |first: ProtocolVersion| version.as_str() >= first.as_str();
    let alone = since(ProtocolVersion::V_2026_07_28);
    let mut body = Vec::with_capacity(2 * called.text.len() + called.text.len() / 8 + 320);
    body.extend_from_slice(head(id).as_bytes());
    body.extend_from_slice(if alone { b"{\"resultType\":\"complete\",\"content\":" } else { b"{\"content\":" });
    body.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
    // Writing to memory cannot fail, and a text always has a JSON form.
    let _infallible = serde_json::to_writer(&mut body, &called.text);
    body.extend_from_slice(b"}]");
    if called.is_object && since(ProtocolVersion::V_2025_06_18) {
        body.extend_from_slice(b",\"structuredContent\":");
        body.extend_from_slice(called.text.as_bytes());
    }
    body.extend_from_slice(if called.is_error { b",\"isError\":true" } else { b",\"isError\":false" });
    if alone {
        body.extend_from_slice(b",\"_meta\":");
        body.extend_from_slice(STAMP.as_bytes());
    }
    body.extend_from_slice(b"}}");
    body
}

/// In the revision without handshake every result says which server gave it.
static STAMP: LazyLock<String> =
    LazyLock::new(|| serde_json::to_string(&crate::handler::server_info()).unwrap_or_default());

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
