//! The service loop's transport: messages in from any POST, answers out to the POST (or GET) they belong to.
//!
//! rmcp's own HTTP session runs one more task per session, in which a client that does not read one stream holds up all
//! others, and keeps the answers for a resumption that this server does not offer. Here each answer goes straight to the
//! channel of its call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::service::OriginatingRequestId;
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::sessions::Ender;

/// Messages that wait per stream before the sender waits.
const STREAM_BUFFER: usize = 16;

/// Nobody can receive this message.
#[derive(Debug, thiserror::Error)]
#[error("no open stream can carry this message")]
pub(crate) struct Undeliverable;

/// Receives what belongs to one call or stream.
pub(crate) type Stream = mpsc::Receiver<ServerJsonRpcMessage>;

#[derive(Debug)]
struct Route {
    to: Way,
    progress: Option<ProgressToken>,
    /// Whether more than the answer can be sent: not with a plain JSON answer.
    streams: bool,
    /// Tells two calls with the same id apart.
    serial: u64,
    /// Ids of the questions that went out on this call's stream.
    asked: Vec<RequestId>,
}

/// How a call's answer comes about.
#[derive(Debug)]
enum Way {
    /// The service loop sends it.
    Loop(mpsc::Sender<ServerJsonRpcMessage>),
    /// The POST's own task makes it; this cancels it.
    Task(CancellationToken),
}

impl Way {
    fn stream(&self) -> Option<&mpsc::Sender<ServerJsonRpcMessage>> {
        match self {
            Self::Loop(to) => Some(to),
            Self::Task(_) => None,
        }
    }
}

/// A call that runs in its POST's own task, for as long as it runs.
#[derive(Debug)]
pub(crate) struct Entry {
    routes: Arc<Routes>,
    id: RequestId,
    serial: u64,
}

impl Entry {
    /// The call has ended. `Some(true)`: its answer is wanted. `Some(false)`: it was cancelled by its id. `None`: its session
    /// has ended.
    pub(crate) fn leave(self) -> Option<bool> {
        let mut table = self.routes.lock();
        if table.closed {
            return None;
        }
        Some(table.leave(&self.id, self.serial))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.routes.lock().leave(&self.id, self.serial);
    }
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<RequestId, Route>,
    listener: Option<mpsc::Sender<ServerJsonRpcMessage>>,
    next_serial: u64,
    closed: bool,
}

impl Table {
    /// Removes this very call; false when it is not there any more.
    fn leave(&mut self, id: &RequestId, serial: u64) -> bool {
        let there = self.calls.get(id).is_some_and(|route| route.serial == serial);
        if there {
            self.calls.remove(id);
        }
        there
    }
}

/// Who waits for what in one session.
#[derive(Debug, Default)]
pub(crate) struct Routes(Mutex<Table>);

impl Routes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For one call without a session: whatever is sent is for it.
    pub(crate) fn alone(id: RequestId, progress: Option<ProgressToken>) -> (Self, Stream) {
        let routes = Self::default();
        let (to, stream) = mpsc::channel(STREAM_BUFFER);
        let mut table = routes.lock();
        table.listener = Some(to.clone());
        table.calls.insert(id, Route { to: Way::Loop(to), progress, streams: true, serial: 0, asked: Vec::new() });
        drop(table);
        (routes, stream)
    }

    /// Registers a call; `None` when its id is in use. The number names this call.
    pub(crate) fn call(&self, id: RequestId, progress: Option<ProgressToken>, streams: bool) -> Option<(Stream, u64)> {
        let mut table = self.lock();
        let (to, stream) = mpsc::channel(STREAM_BUFFER);
        // After the end of the session the sender is gone at once, so the stream just ends.
        if table.closed {
            return Some((stream, 0));
        }
        if table.calls.contains_key(&id) {
            return None;
        }
        table.next_serial += 1;
        let serial = table.next_serial;
        table.calls.insert(id, Route { to: Way::Loop(to), progress, streams, serial, asked: Vec::new() });
        Some((stream, serial))
    }

    /// Registers a call that runs in its POST's own task; `None` when its id is in use. `cancel` is fired when the client
    /// cancels the id.
    pub(crate) fn enter(self: &Arc<Self>, id: RequestId, cancel: CancellationToken) -> Option<Entry> {
        let mut table = self.lock();
        if table.calls.contains_key(&id) {
            return None;
        }
        table.next_serial += 1;
        let serial = table.next_serial;
        if table.closed {
            cancel.cancel();
        } else {
            let to = Way::Task(cancel);
            table.calls.insert(id.clone(), Route { to, progress: None, streams: false, serial, asked: Vec::new() });
        }
        Some(Entry { routes: self.clone(), id, serial })
    }

    /// Opens the standalone stream; `None` when there is one.
    pub(crate) fn listen(&self) -> Option<Stream> {
        let mut table = self.lock();
        let (to, stream) = mpsc::channel(STREAM_BUFFER);
        if table.listener.as_ref().is_some_and(|listener| !listener.is_closed()) {
            return None;
        }
        if !table.closed {
            table.listener = Some(to);
        }
        Some(stream)
    }

    /// Gives up a call: its answer, if one still comes, goes nowhere. The channel is returned for a last word.
    pub(crate) fn forget(&self, id: &RequestId) -> Option<mpsc::Sender<ServerJsonRpcMessage>> {
        let route = self.lock().calls.remove(id)?;
        match route.to {
            Way::Loop(to) => Some(to),
            Way::Task(cancel) => {
                // Its task gives the last word.
                cancel.cancel();
                None
            }
        }
    }

    /// The questions that this very call has asked so far; `None` when it has ended.
    pub(crate) fn running(&self, id: &RequestId, serial: u64) -> Option<Vec<RequestId>> {
        self.lock().calls.get(id).filter(|route| route.serial == serial).map(|route| route.asked.clone())
    }

    /// Calls without answer.
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls.len()
    }

    /// Neither a call nor an open stream.
    pub(crate) fn unused(&self) -> bool {
        let table = self.lock();
        table.calls.is_empty() && table.listener.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Ends every stream, now and from now on.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        table.calls.clear();
        table.listener = None;
    }

    /// Where a message goes. An answer's route ends with it.
    fn route(&self, message: &ServerJsonRpcMessage) -> Target {
        let mut table = self.lock();
        let of_call = |table: &Table, id: &RequestId| match table.calls.get(id) {
            Some(Route { to: Way::Loop(to), streams: true, .. }) => Target::To(to.clone()),
            Some(_) => Target::Nobody,
            None => table.listener.clone().map_or(Target::Nobody, Target::To),
        };
        match message {
            JsonRpcMessage::Response(answer) => Target::last(table.calls.remove(&answer.id)),
            JsonRpcMessage::Error(error) => Target::last(error.id.as_ref().and_then(|id| table.calls.remove(id))),
            JsonRpcMessage::Request(request) => match request.request.extensions().get::<OriginatingRequestId>() {
                Some(origin) => {
                    if let Some(route) = table.calls.get_mut(&origin.0) {
                        route.asked.push(request.id.clone());
                    }
                    of_call(&table, &origin.0)
                }
                None => table.listener.clone().map_or(Target::Nobody, Target::To),
            },
            JsonRpcMessage::Notification(message) => match &message.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let token = &progress.params.progress_token;
                    let route = table.calls.values().find(|route| route.progress.as_ref() == Some(token));
                    // Progress of a finished or unknown call is of no use to anybody.
                    let to = route.filter(|route| route.streams).and_then(|route| route.to.stream());
                    to.cloned().map_or(Target::Drop, Target::To)
                }
                other => {
                    let target = match other.extensions().get::<OriginatingRequestId>() {
                        Some(origin) => of_call(&table, &origin.0),
                        None => table.listener.clone().map_or(Target::Nobody, Target::To),
                    };
                    // A notification that nobody can hear is no failure.
                    if matches!(target, Target::Nobody) { Target::Drop } else { target }
                }
            },
        }
    }
}

enum Target {
    To(mpsc::Sender<ServerJsonRpcMessage>),
    Drop,
    Nobody,
}

impl Target {
    fn last(route: Option<Route>) -> Self {
        match route.map(|route| route.to) {
            Some(Way::Loop(to)) => Target::To(to),
            Some(Way::Task(_)) | None => Target::Drop,
        }
    }
}

/// A message for a service loop. Boxed, because a channel keeps room for 32 of them, in each session.
pub(crate) type Boxed = Box<ClientJsonRpcMessage>;

/// The service loop's end of a session (or of one stateless request).
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: mpsc::Receiver<Boxed>,
    routes: Arc<Routes>,
    ender: Option<Ender>,
}

impl Inbox {
    /// `ender` is told when the loop has ended.
    pub(crate) fn new(messages: mpsc::Receiver<Boxed>, routes: Arc<Routes>, ender: Option<Ender>) -> Self {
        Self { messages, routes, ender }
    }
}

impl Transport<RoleServer> for Inbox {
    type Error = Undeliverable;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Undeliverable>> + Send + 'static {
        // The loop calls this in order but runs the futures side by side, so the order is settled here.
        let waiting = match self.routes.route(&message) {
            Target::Drop => Ok(None),
            Target::Nobody => Err(Undeliverable),
            Target::To(to) => match to.try_send(message) {
                Ok(()) => Ok(None),
                Err(mpsc::error::TrySendError::Full(message)) => Ok(Some((to, message))),
                // The client is gone; the call goes on.
                Err(mpsc::error::TrySendError::Closed(JsonRpcMessage::Request(_))) => Err(Undeliverable),
                Err(mpsc::error::TrySendError::Closed(_)) => Ok(None),
            },
        };
        async move {
            if let Some((to, message)) = waiting? {
                // Only this call waits for a slow reader.
                let _gone = to.send(message).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await.map(|message| *message)
    }

    async fn close(&mut self) -> Result<(), Undeliverable> {
        self.routes.close();
        if let Some(ender) = self.ender.take() {
            ender.end();
        }
        Ok(())
    }
}
