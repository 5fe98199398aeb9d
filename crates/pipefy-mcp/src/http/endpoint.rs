//! The MCP endpoint: every check in its order, then the service loop of the session or of the single request.
//!
//! Order: bearer and scopes, body cap, `Host` and `Origin`, narrowing headers, session seal, method, `Accept`, content type, JSON, message,
//! session presence. Each step either passes or is a [`Refusal`].

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use pipefy::settings::HostList;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientJsonRpcMessage, ClientNotification,
    ClientRequest, ClientResult, CustomResult, GetMeta as _, Implementation, InitializeRequest,
    InitializeRequestParams, JsonRpcMessage, ProtocolVersion, RequestId,
};
use rmcp::service::{serve_directly_with_ct, serve_server_with_ct};
use rmcp::transport::TransportAdapterIdentity;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::bearer::{Inbound, Owner};
use super::callers::{self, Callers};
use super::channel::{Boxed, Inbox, Routes};
use super::checks::{accepts, accepts_events, check_host, content_type, read_body};
use super::exchange_era;
use super::log::{Answering, Caller};
use super::message::{self, Message, Unreadable};
use super::refusal::{Refusal, code};
use super::reply::{self, Era, Exchange, Finish, Format};
use super::seal::Seal;
use super::sessions::{Begun, Ender, Session, Sessions};
use super::store::{Entry, Known, SessionStore, Unreachable};
use super::{PROTOCOL_VERSION, SESSION_ID, Served};
use crate::identity::Principal;

/// Messages that may wait for a session's loop.
const INBOX: usize = 64;

/// Grace for a read whose client has gone: a reconnecting client may ask for the same again, and gets it from Pipefy's cache.
pub(super) const DISCONNECT_GRACE: Duration = Duration::from_secs(10);

/// How the endpoint behaves.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) inbound: Inbound,
    pub(super) hosts: HostList,
    pub(super) stateless: bool,
    pub(super) json_response: bool,
    pub(super) max_body: usize,
    pub(super) body_timeout: Duration,
    pub(super) fast_path: bool,
    pub(super) disconnect_grace: Duration,
}

/// The endpoint's state.
pub(super) struct Endpoint<S> {
    pub(super) served: S,
    pub(super) rules: Rules,
    pub(super) seal: Seal,
    pub(super) sessions: Arc<Sessions>,
    pub(super) callers: Arc<Callers>,
    /// What replicas share, where they share anything.
    pub(super) store: Option<SessionStore>,
    pub(super) opening_again: tokio::sync::Mutex<()>,
    /// Ends standalone streams: the server is going away.
    pub(super) drain: CancellationToken,
    /// Ends everything.
    pub(super) stop: CancellationToken,
}

/// What is known beyond this process of a message's session.
pub(super) enum Elsewhere {
    /// There is nobody to ask.
    Nowhere,
    /// Nobody answers.
    Unreachable,
    /// This.
    Known(Known),
}

/// The endpoint as a service.
pub(super) struct Mount<S>(pub(super) Arc<Endpoint<S>>);

impl<S> Clone for Mount<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Served> tower::Service<Request<Body>> for Mount<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let endpoint = self.0.clone();
        let answer = async move { Ok(endpoint.answer(request).await.unwrap_or_else(Refusal::into_response)) };
        Box::pin(answer)
    }
}

/// The level that a client of a session asks for.
#[derive(serde::Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    level: std::borrow::Cow<'a, str>,
}

/// One request that has passed the checks which look at headers alone.
pub(super) struct Checked {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

impl<S: Served> Endpoint<S> {
    async fn answer(self: &Arc<Self>, request: Request<Body>) -> Result<Response<Body>, Refusal> {
        let (mut parts, body) = request.into_parts();
        self.rules.inbound.admit(&mut parts).await?;
        if let Some(principal) = parts.extensions.get::<Principal>()
            && let Some(caller) = parts.extensions.get::<Caller>()
        {
            caller.set(principal.subject.clone(), principal.client_id.clone());
        }
        let body = match parts.method {
            Method::POST => read_body(&parts.headers, body, self.rules.max_body, self.rules.body_timeout).await?,
            _ => Bytes::new(),
        };
        check_host(&parts, &self.rules.hosts)?;
        if parts.method == Method::POST {
            self.served
                .admits(&parts.headers)
                .map_err(|text| Refusal::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, text))?;
        }
        let request = Checked { parts, body };
        if exchange_era::chosen(&request.parts.headers) {
            return self.exchange(request).await;
        }
        if self.rules.stateless { self.stateless(request).await } else { self.stateful(request).await }
    }

    /// One message of this caller: it may have sent too many. Gives what is known elsewhere of `session`.
    pub(super) async fn admit_message(&self, parts: &Parts, session: Option<&str>) -> Result<Elsewhere, Refusal> {
        let owner = Owner::of(parts);
        let counts = parts.method == Method::POST;
        let Some(store) = &self.store else {
            if counts {
                self.callers.message(&owner)?;
            }
            return Ok(Elsewhere::Nowhere);
        };
        let rate = self.callers.rate(&owner).filter(|_| counts);
        if rate.is_none() && session.is_none() {
            return Ok(Elsewhere::Nowhere);
        }
        match store.message(&self.seal.tag(&owner), rate, session, self.sessions.idle()).await {
            Ok((early, known)) if early.is_zero() => Ok(Elsewhere::Known(known)),
            Ok((early, _)) => Err(callers::too_often(early)),
            Err(Unreachable) => {
                if counts {
                    self.callers.message(&owner)?;
                }
                Ok(Elsewhere::Unreachable)
            }
        }
    }

    /// One request of this caller. A tool call counts until the message's parts, which travel with it, are dropped.
    pub(super) fn admit_request(&self, parts: &mut Parts, method: &str, id: &RequestId) -> Result<(), Refusal> {
        if method == "tools/call" {
            let running = self.callers.call(&Owner::of(parts)).map_err(|refusal| refusal.for_request(id))?;
            parts.extensions.insert(running);
        }
        Ok(())
    }

    /// The handshake era without sessions: every POST stands alone.
    async fn stateless(self: &Arc<Self>, request: Checked) -> Result<Response<Body>, Refusal> {
        if request.parts.method != Method::POST {
            return Err(Refusal::method_not_allowed("POST"));
        }
        self.admit_message(&request.parts, None).await?;
        let format = self.post_format(&request.parts.headers)?;
        let message = read(&request.body, code::INVALID_PARAMS)?;
        let Message::Request { id, method, params } = &message else { return Ok(reply::accepted()) };
        let mut parts = request.parts;
        self.admit_request(&mut parts, method, id)?;
        let mut version = parts
            .headers
            .get(PROTOCOL_VERSION)
            .and_then(|value| handshake_version(value.to_str().ok()?))
            .unwrap_or(ProtocolVersion::V_2025_03_26);
        if let Some(response) = self.ready(id, method, *params, &version, &parts, format) {
            return Ok(response);
        }
        if method == "tools/call"
            && let Some(params) = self.lone(*params, Era::Handshake)
        {
            return Ok(self.call(id, params, &version, parts, format, Era::Handshake).await);
        }
        let typed = message::build(&request.body, &message).map_err(|error| unreadable(error, code::INVALID_PARAMS))?;
        if method == "initialize" {
            let Some(asked) = asked_version(&typed) else { return Ok(invalid_initialize(id)) };
            version = handshake_version(asked.as_str()).unwrap_or(ProtocolVersion::V_2025_11_25);
        }
        let exchange = self.serve_alone(typed, id, version, parts);
        Ok(exchange.respond(format, Era::Handshake).await)
    }

    /// Hands one request to a service loop of its own. The loop ends with the response, answered or not.
    pub(super) fn serve_alone(
        &self,
        mut typed: ClientJsonRpcMessage,
        id: &RequestId,
        version: ProtocolVersion,
        parts: Parts,
    ) -> Exchange {
        let progress = progress_token(&typed);
        // A subscription ends with the standalone streams: it would hold up a stop, and nothing of it is lost.
        let (stop, until) = match is_subscription(&typed) {
            true => (&self.drain, time_left(&parts).map(|left| -> BoxFuture<'static, ()> { Box::pin(sleep(left)) })),
            false => (&self.stop, None),
        };
        let stop = stop.child_token();
        message::attach(&mut typed, parts);
        // Nothing can be asked back without a session, but notifications travel with the answer.
        let (routes, stream) = Routes::alone(id.clone(), progress);
        let (inbox, messages) = mpsc::channel(1);
        // The channel is new and has room for one.
        let _sent = inbox.try_send(Box::new(typed));
        let mut info = InitializeRequestParams::new(ClientCapabilities::default(), Implementation::default());
        info.protocol_version = version;
        let transport = Inbox::new(messages, Arc::new(routes), None);
        let service = serve_directly_with_ct::<_, _, _, _, TransportAdapterIdentity>(
            self.served.handler(),
            transport,
            Some(info),
            stop,
        );
        let guard = Box::new(Alone { _inbox: inbox, _service: service });
        Exchange { stream, guard: Some(guard), until }
    }

    /// The handshake era with sessions.
    async fn stateful(self: &Arc<Self>, request: Checked) -> Result<Response<Body>, Refusal> {
        let Some(sealed) = request.parts.headers.get(SESSION_ID).cloned() else {
            return self.without_session(request).await;
        };
        let owner = Owner::of(&request.parts);
        let id = sealed.to_str().ok().and_then(|sealed| self.seal.open(sealed, &owner));
        let Some(id) = id else {
            tracing::warn!("refused a session id that is not this caller's");
            return Err(Refusal::unknown_session());
        };
        let elsewhere = self.admit_message(&request.parts, Some(id)).await?;
        let session = self.session(id, elsewhere, &request.parts).await?;
        let mut response = self.in_session(&session, request).await.unwrap_or_else(Refusal::into_response);
        response.headers_mut().insert(SESSION_ID, sealed);
        Ok(response)
    }

    /// The session with this id, whose seal was checked: here, or opened again from what the store knows.
    async fn session(self: &Arc<Self>, id: &str, elsewhere: Elsewhere, parts: &Parts) -> Result<Arc<Session>, Refusal> {
        match (self.sessions.find(id), elsewhere) {
            (Some(_), Elsewhere::Known(Known::Ended)) => {
                self.sessions.end(id);
                Err(Refusal::ended_session())
            }
            (Some(session), Elsewhere::Known(Known::Nothing)) => {
                // The store was away, or lost it.
                if let (Some(store), Some(entry)) = (&self.store, &session.entry) {
                    let _later = store.opened(id, entry, self.sessions.idle()).await;
                }
                Ok(session)
            }
            (Some(session), _) => Ok(session),
            (None, Elsewhere::Known(Known::Opened(entry))) if entry.owner == self.seal.tag(&Owner::of(parts)) => {
                Box::pin(self.open_again(id, entry, parts)).await
            }
            (None, Elsewhere::Unreachable) => Err(Refusal::store_down()),
            // The seal proves that this caller had the session; so it may know that it is over.
            (None, _) => Err(Refusal::ended_session()),
        }
    }

    /// Opens a session that another replica has opened. Nobody gets the answer to this handshake.
    async fn open_again(self: &Arc<Self>, id: &str, entry: Box<Entry>, parts: &Parts) -> Result<Arc<Session>, Refusal> {
        // One at a time: messages of one session come side by side, and must find one session.
        let _alone = self.opening_again.lock().await;
        if let Some(session) = self.sessions.find(id) {
            return Ok(session);
        }
        let slot = self.sessions.reserve(Owner::of(parts))?;
        let request_id = RequestId::Number(0);
        let initialize = InitializeRequest::new(entry.initialize.clone());
        let mut typed = JsonRpcMessage::request(ClientRequest::InitializeRequest(initialize), request_id.clone());
        message::attach(&mut typed, parts.clone());
        let (begun, _unheard) = self.begin(id.into(), typed, &request_id, Some(entry)).await?;
        let session = slot.open(id.into(), begun.ok_or_else(Refusal::ended_session)?);
        tracing::info!(session = %id, open = self.sessions.count(), "session opened again");
        Ok(session)
    }

    async fn without_session(self: &Arc<Self>, request: Checked) -> Result<Response<Body>, Refusal> {
        match request.parts.method {
            Method::POST => {}
            Method::GET => {
                accepts_events(&request.parts.headers)?;
                return Err(Refusal::missing_session());
            }
            Method::DELETE => return Err(Refusal::missing_session()),
            _ => return Err(Refusal::method_not_allowed("GET, POST, DELETE")),
        }
        self.admit_message(&request.parts, None).await?;
        let format = self.post_format(&request.parts.headers)?;
        let message = read(&request.body, code::INVALID_PARAMS)?;
        match &message {
            Message::Request { id, method, .. } if method == "initialize" => {
                let typed =
                    message::build(&request.body, &message).map_err(|error| unreadable(error, code::INVALID_PARAMS))?;
                // The handshake's future is large, and every request would carry room for it.
                Box::pin(self.open_session(typed, id, format, request.parts)).await
            }
            _ => Err(Refusal::missing_session()),
        }
    }

    async fn open_session(
        self: &Arc<Self>,
        mut typed: ClientJsonRpcMessage,
        request_id: &RequestId,
        format: Format,
        parts: Parts,
    ) -> Result<Response<Body>, Refusal> {
        if asked_version(&typed).is_none() {
            return Ok(invalid_initialize(request_id));
        }
        if self.rules.json_response
            && let JsonRpcMessage::Request(request) = &mut typed
            && let ClientRequest::InitializeRequest(initialize) = &mut request.request
        {
            // Plain JSON answers cannot carry questions, so the handler shall not know that the client takes some.
            initialize.params.capabilities.elicitation = None;
        }
        let owner = Owner::of(&parts);
        let slot = self.sessions.reserve(owner.clone())?;
        let id: Arc<str> = uuid::Uuid::new_v4().simple().to_string().into();
        let sealed = HeaderValue::from_str(&self.seal.seal(&id, &owner)).map_err(|_| Refusal::internal())?;

        let entry = match (&self.store, &typed) {
            (Some(_), JsonRpcMessage::Request(request)) => match &request.request {
                ClientRequest::InitializeRequest(initialize) => {
                    Some(Box::new(Entry { owner: self.seal.tag(&owner), initialize: initialize.params.clone() }))
                }
                _ => None,
            },
            _ => None,
        };
        message::attach(&mut typed, parts);
        let (begun, exchange) = self.begin(id.clone(), typed, request_id, entry).await?;
        // The handler's error is the answer, and there is no session.
        let Some(begun) = begun else { return Ok(exchange.respond(format, Era::Handshake).await) };
        let session = slot.open(id.clone(), begun);
        tracing::info!(session = %id, open = self.sessions.count(), "session created");
        if let (Some(store), Some(entry)) = (&self.store, &session.entry) {
            // Where this fails, the session is this replica's alone until the store is back.
            let _alone = store.opened(&id, entry, self.sessions.idle()).await;
        }
        let mut response = exchange.respond(format, Era::Handshake).await;
        response.headers_mut().insert(SESSION_ID, sealed);
        Ok(response)
    }

    /// Starts a service loop with this `initialize`; no loop when the handler refuses. The answer is in the exchange.
    async fn begin(
        self: &Arc<Self>,
        id: Arc<str>,
        typed: ClientJsonRpcMessage,
        request_id: &RequestId,
        entry: Option<Box<Entry>>,
    ) -> Result<(Option<Begun>, Exchange), Refusal> {
        let routes = Arc::new(Routes::default());
        let (stream, _) = routes.call(request_id.clone(), None, true).ok_or_else(Refusal::internal)?;
        let (inbox, messages) = mpsc::channel(INBOX);
        let _sent = inbox.try_send(Box::new(typed));
        let stop = self.stop.child_token();
        let transport = Inbox::new(messages, routes.clone(), Some(Ender::new(&self.sessions, id)));
        let service = Box::pin(serve_server_with_ct::<_, _, _, TransportAdapterIdentity>(
            self.served.handler(),
            transport,
            stop.clone(),
        ));
        let exchange = Exchange { stream, guard: None, until: None };
        match service.await {
            Ok(service) => {
                let info = service.peer().peer_info();
                let version = info.as_ref().map_or(ProtocolVersion::V_2025_03_26, |info| info.protocol_version.clone());
                let takes_questions = info.is_some_and(|info| info.capabilities.elicitation.is_some());
                let service = Box::new(service);
                Ok((Some(Begun { inbox, routes, stop, version, takes_questions, service, entry }), exchange))
            }
            Err(rmcp::service::ServerInitializeError::InitializeFailed(_)) => Ok((None, exchange)),
            Err(_) => Err(Refusal::internal()),
        }
    }

    async fn in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        mut request: Checked,
    ) -> Result<Response<Body>, Refusal> {
        request.parts.extensions.insert(session.conversation.clone());
        match request.parts.method {
            Method::POST => self.post(session, request).await,
            Method::GET => self.get(session, &request.parts),
            Method::DELETE => {
                self.sessions.end(&session.id);
                if let Some(store) = &self.store {
                    // Elsewhere it would go on.
                    let ended = store.ended(&session.id, self.sessions.idle()).await;
                    ended.map_err(|Unreachable| Refusal::store_down())?;
                }
                Ok(Response::new(Body::empty()))
            }
            _ => Err(Refusal::method_not_allowed("GET, POST, DELETE")),
        }
    }

    /// The standalone stream. `Last-Event-ID` means nothing here: nothing is kept.
    fn get(&self, session: &Session, parts: &Parts) -> Result<Response<Body>, Refusal> {
        accepts_events(&parts.headers)?;
        let stream = session.routes.listen().ok_or_else(Refusal::second_stream)?;
        let drain = self.drain.clone();
        let left = time_left(parts);
        let until: BoxFuture<'static, ()> = Box::pin(async move {
            match left {
                Some(left) => {
                    let _drained = tokio::time::timeout(left, drain.cancelled()).await;
                }
                None => drain.cancelled().await,
            }
        });
        Ok(reply::listen(stream, until))
    }

    async fn post(self: &Arc<Self>, session: &Arc<Session>, mut request: Checked) -> Result<Response<Body>, Refusal> {
        let format = self.post_format(&request.parts.headers)?;
        let message = read(&request.body, code::INVALID_PARAMS)?;
        if let Message::Request { id, method, params } = &message
            && let Some(response) = self.ready(id, method, *params, &session.version, &request.parts, format)
        {
            return Ok(response);
        }
        if let Message::Request { id, method, .. } = &message {
            self.admit_request(&mut request.parts, method, id)?;
        }
        if let Message::Request { method, params, .. } = &message
            && method == "logging/setLevel"
        {
            let level = params.and_then(|params| serde_json::from_str::<Level<'_>>(params.get()).ok());
            session.told.store(level.is_some_and(|asked| asked.level == "debug"), Ordering::Relaxed);
        }
        if let Message::Request { id, method, params } = &message
            && method == "tools/call"
            && !session.told.load(Ordering::Relaxed)
            && let Some(params) = self.lone(*params, Era::Handshake)
            && !(session.takes_questions && self.served.asks(params.name()))
        {
            return self.call_in_session(session, id, params, request.parts, format).await;
        }
        let mut typed = match message::build(&request.body, &message) {
            Ok(typed) => typed,
            // An id that is none made it one; nobody waits for an answer.
            Err(_) if matches!(message, Message::Notification) => return Ok(reply::accepted()),
            Err(error) => return Err(unreadable(error, code::INVALID_PARAMS)),
        };
        let Message::Request { id, method, .. } = message else {
            let cancelled = cancelled_request(&typed);
            message::attach(&mut typed, request.parts);
            self.hand_over(session, typed).await?;
            // The loop stops the call and says nothing; the waiting POST is told here.
            if let Some(id) = cancelled
                && let Some(stream) = session.routes.forget(&id)
            {
                let _gone = stream.try_send(reply::cancelled(id));
            }
            return Ok(reply::accepted());
        };
        if method == "initialize" && asked_version(&typed).is_none() {
            return Ok(invalid_initialize(&id));
        }
        let read = match &typed {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => self.served.is_read(&call.params.name),
                _ => true,
            },
            _ => true,
        };
        let progress = progress_token(&typed);
        let call = session.routes.call(id.clone(), progress, format == Format::Events);
        let (stream, serial) = call.ok_or_else(|| Refusal::duplicate_id(&id))?;
        let watch =
            Watch { session: session.clone(), id, serial, read, grace: self.rules.disconnect_grace, done: false };
        message::attach(&mut typed, request.parts);
        let exchange = Exchange { stream, guard: Some(Box::new(watch)), until: None };
        self.hand_over(session, typed).await?;
        Ok(exchange.respond(format, Era::Handshake).await)
    }

    async fn hand_over(&self, session: &Session, message: ClientJsonRpcMessage) -> Result<(), Refusal> {
        session.inbox.send(Box::new(message)).await.map_err(|_| {
            self.sessions.end(&session.id);
            Refusal::ended_session()
        })
    }

    /// What a POST may be answered with, and whether its body is JSON.
    ///
    /// Lenient: a client that takes only one of the two gets that one.
    pub(super) fn post_format(&self, headers: &HeaderMap) -> Result<Format, Refusal> {
        content_type(headers)?;
        let json = accepts(headers, "application", "json");
        let events = accepts(headers, "text", "event-stream");
        match (self.rules.json_response, json, events) {
            (true, true, _) => Ok(Format::Json),
            (true, false, _) => Err(Refusal::not_acceptable("application/json")),
            (false, _, true) => Ok(Format::Events),
            (false, true, false) => Ok(Format::Json),
            (false, false, false) => Err(Refusal::not_acceptable("application/json and text/event-stream")),
        }
    }
}

/// Keeps a service loop alive for one response.
struct Alone<T> {
    _inbox: mpsc::Sender<Boxed>,
    _service: T,
}

impl<T: Send + Sync> Finish for Alone<T> {
    fn finished(&mut self) {}
}

/// Looks after a session's call whose client has gone before the answer. After a while a read is cancelled; a write runs to
/// its end, because its outcome matters whether or not somebody waits for it, but what it has asked is taken for cancelled:
/// it must not wait for a person who may never have seen the question.
struct Watch {
    session: Arc<Session>,
    id: RequestId,
    serial: u64,
    read: bool,
    grace: Duration,
    done: bool,
}

impl Finish for Watch {
    fn finished(&mut self) {
        self.done = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (session, id, serial, read, grace) =
            (self.session.clone(), self.id.clone(), self.serial, self.read, self.grace);
        runtime.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = session.stop.cancelled() => return,
            }
            let Some(asked) = session.routes.running(&id, serial) else { return };
            if read {
                session.routes.forget(&id);
                let reason = Some("the client has gone".to_owned());
                let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason));
                let message = JsonRpcMessage::notification(ClientNotification::CancelledNotification(cancelled));
                let _ended = session.inbox.send(Box::new(message)).await;
                return;
            }
            for question in asked {
                // To one that was answered in the meantime this is nothing.
                let answer = ClientResult::CustomResult(CustomResult::new(json!({"action": "cancel"})));
                let _ended = session.inbox.send(Box::new(JsonRpcMessage::response(answer, question))).await;
            }
        });
    }
}

pub(super) fn read(body: &[u8], shape: i64) -> Result<Message<'_>, Refusal> {
    message::read(body).map_err(|error| unreadable(error, shape))
}

pub(super) fn unreadable(error: Unreadable, shape: i64) -> Refusal {
    match error {
        Unreadable::NotJson => Refusal::not_json(),
        Unreadable::NotOneMessage => Refusal::not_one_message(shape),
    }
}

/// The revision named by an `initialize` whose parameters are complete.
fn asked_version(message: &ClientJsonRpcMessage) -> Option<ProtocolVersion> {
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(initialize) => Some(initialize.params.protocol_version.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The handshake era delivers errors of the method with 200.
fn invalid_initialize(id: &RequestId) -> Response<Body> {
    Refusal::new(StatusCode::OK, code::INVALID_PARAMS, "Invalid request parameters")
        .for_request(id)
        .data("".into())
        .into_response()
}

/// One of the revisions that have a handshake.
pub(super) fn handshake_version(text: &str) -> Option<ProtocolVersion> {
    [
        ProtocolVersion::V_2024_11_05,
        ProtocolVersion::V_2025_03_26,
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
    ]
    .into_iter()
    .find(|version| version.as_str() == text)
}

fn progress_token(message: &ClientJsonRpcMessage) -> Option<rmcp::model::ProgressToken> {
    match message {
        JsonRpcMessage::Request(request) => request.request.get_meta().get_progress_token(),
        _ => None,
    }
}

fn is_subscription(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(&request.request, ClientRequest::SubscriptionsListenRequest(_))
}

fn cancelled_request(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Notification(notification) => match &notification.notification {
            ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.clone(),
            _ => None,
        },
        _ => None,
    }
}

/// How long the bearer of a request is good: who may no longer ask may no longer listen.
fn time_left(parts: &Parts) -> Option<Duration> {
    let principal = parts.extensions.get::<Principal>()?;
    let end = Duration::from_secs(u64::try_from(principal.expires_at).unwrap_or(0));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(end.saturating_sub(now))
}
