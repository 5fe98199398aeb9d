//! From the messages of one call to the HTTP response: one JSON body, or an event stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use rmcp::model::{ErrorData, JsonRpcError, JsonRpcMessage, ServerJsonRpcMessage};
use serde_json::json;
use tokio::time::{Instant, Sleep};

use super::channel::Stream;
use super::refusal::Refusal;

/// A comment goes out after this much silence, so that nothing between client and server closes the stream.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(15);

/// What the client may be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One JSON body.
    Json,
    /// An event stream.
    Events,
}

/// How errors and short answers look in the two eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Revisions with `initialize`: every answer is a 200, in the format asked for.
    Handshake,
    /// 2026-07-28: errors have a status, and an answer that comes soon and alone is plain JSON.
    Exchange,
}

impl Era {
    /// How long the first message is awaited before an event stream is opened without it.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Era::Handshake => Duration::from_secs(1),
            Era::Exchange => PING_AFTER,
        }
    }

    fn status(self, message: &ServerJsonRpcMessage) -> StatusCode {
        let JsonRpcMessage::Error(error) = message else { return StatusCode::OK };
        match (self, error.error.code.0) {
            (Era::Handshake, _) => StatusCode::OK,
            (Era::Exchange, -32700 | -32600 | -32602 | -32020 | -32021 | -32022) => StatusCode::BAD_REQUEST,
            (Era::Exchange, -32601) => StatusCode::NOT_FOUND,
            (Era::Exchange, _) => StatusCode::OK,
        }
    }
}

/// The messages of one call, and what must happen when nobody waits for them any more.
pub(crate) struct Exchange {
    pub(crate) stream: Stream,
    /// Dropped with the response: a stateless call ends with it, a session's call is looked after.
    pub(crate) guard: Option<Box<dyn Finish>>,
    /// Ends an event stream before the answer.
    pub(crate) until: Option<BoxFuture<'static, ()>>,
}

/// Told whether the answer was seen before the response was dropped.
pub(crate) trait Finish: Send + Sync {
    /// The answer has been handed over: nothing is left to look after.
    fn finished(&mut self);
}

impl Exchange {
    /// The next message, and whether it is the answer.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(ServerJsonRpcMessage, bool)>> {
        self.stream.poll_recv(cx).map(|message| {
            let message = message?;
            let last = is_answer(&message);
            if last && let Some(guard) = &mut self.guard {
                guard.finished();
            }
            Some((message, last))
        })
    }

    async fn next(&mut self) -> Option<(ServerJsonRpcMessage, bool)> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The response to the POST.
    pub(crate) async fn respond(mut self, format: Format, era: Era) -> Response<Body> {
        if format == Format::Json {
            // What comes before the answer has no place in a single body.
            while let Some((message, last)) = self.next().await {
                if last {
                    return json(era.status(&message), &message);
                }
            }
            return gone();
        }
        match tokio::time::timeout(era.patience(), self.next()).await {
            Ok(Some((message, true))) if era == Era::Exchange => json(era.status(&message), &message),
            Ok(Some((message, true))) => events(Body::from(frame(&message))),
            Ok(Some((message, false))) => events(Body::new(Events::new(self, Some(frame(&message))))),
            Ok(None) => events(Body::empty()),
            Err(_) => events(Body::new(Events::new(self, None))),
        }
    }
}

/// The standalone stream of a session; it ends when `until` does.
pub(crate) fn listen(stream: Stream, until: BoxFuture<'static, ()>) -> Response<Body> {
    events(Body::new(Events::new(Exchange { stream, guard: None, until: Some(until) }, None)))
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// The stream of a call ended without an answer: its session was terminated.
pub(crate) fn gone() -> Response<Body> {
    Refusal::new(StatusCode::OK, super::refusal::code::CANCELLED, "Request cancelled").into_response()
}

/// The error that ends a call the client has cancelled.
pub(crate) fn cancelled(id: rmcp::model::RequestId) -> ServerJsonRpcMessage {
    let code = rmcp::model::ErrorCode(-32800);
    JsonRpcMessage::Error(JsonRpcError::new(Some(id), ErrorData::new(code, "Request cancelled", None)))
}

pub(crate) fn encode(message: &ServerJsonRpcMessage) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_else(|_| {
        // Never seen: a message is a tree of plain values.
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "Internal error"}}).to_string().into()
    })
}

fn json(status: StatusCode, message: &ServerJsonRpcMessage) -> Response<Body> {
    json_bytes(status, encode(message))
}

/// A JSON response whose body is ready.
pub(crate) fn json_bytes(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    json_body(status, Body::from(body.into()))
}

pub(crate) fn json_body(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 202: a notification or an answer was taken.
pub(crate) fn accepted() -> Response<Body> {
    json_bytes(StatusCode::ACCEPTED, Bytes::new())
}

/// One event. JSON text has no line breaks, so one `data` line always does.
fn frame(message: &ServerJsonRpcMessage) -> Bytes {
    const BEFORE: &[u8] = b"event: message\r\ndata: ";
    const AFTER: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(BEFORE);
    if serde_json::to_writer(&mut bytes, message).is_err() {
        bytes.truncate(BEFORE.len());
        bytes.extend_from_slice(&encode(message));
    }
    bytes.extend_from_slice(AFTER);
    bytes.into()
}

pub(crate) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// An event stream that is still being written.
struct Events {
    exchange: Option<Exchange>,
    first: Option<Bytes>,
    silence: Pin<Box<Sleep>>,
}

impl Events {
    fn new(exchange: Exchange, first: Option<Bytes>) -> Self {
        Self { exchange: Some(exchange), first, silence: Box::pin(tokio::time::sleep(PING_AFTER)) }
    }
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
        match exchange.poll_next(cx) {
            Poll::Ready(Some((message, last))) => {
                if last {
                    self.exchange = None;
                }
                let next = Instant::now() + PING_AFTER;
                self.silence.as_mut().reset(next);
                return Poll::Ready(Some(Ok(Frame::data(frame(&message)))));
            }
            Poll::Ready(None) => {
                self.exchange = None;
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if let Some(until) = &mut exchange.until
            && until.as_mut().poll(cx).is_ready()
        {
            self.exchange = None;
            return Poll::Ready(None);
        }
        ping_in_silence(self.silence.as_mut(), cx).map(|ping| Some(Ok(Frame::data(ping))))
    }
}

/// A comment when `silence` has lasted long enough; it then begins anew.
pub(crate) fn ping_in_silence(mut silence: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<Bytes> {
    if silence.as_mut().poll(cx).is_pending() {
        return Poll::Pending;
    }
    silence.as_mut().reset(Instant::now() + PING_AFTER);
    // Polled once more so that the timer is armed again.
    let _armed = silence.poll(cx);
    Poll::Ready(Bytes::from_static(b": ping\r\n\r\n"))
}
