//! The sessions that are open: found by id, counted per owner, ended when idle.
//!
//! A session exists from the answer to a valid `initialize` until DELETE, the idle limit, eviction or the end of the server.
//! Nothing else makes one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::StatusCode;
use pipefy::settings::{McpSettings, OperationsSettings};
use rmcp::model::ProtocolVersion;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bearer::Owner;
use super::channel::{Boxed, Routes};
use super::refusal::Refusal;
use super::store::Entry;
use crate::conversation::Conversation;

/// What may be changed while the server runs: how many sessions there may be, for how long, and what one authenticated
/// caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions in all.
    pub total: usize,
    /// Most sessions of one caller.
    pub per_owner: usize,
    /// Silence after which a session ends.
    pub idle: Duration,
    /// Most tool calls of one caller at a time.
    pub calls_per_owner: usize,
    /// Most messages of one caller a minute; none for no limit.
    pub messages_per_minute: Option<u32>,
}

impl Limits {
    /// As configured.
    pub fn new(mcp: &McpSettings, operations: &OperationsSettings) -> Self {
        Self {
            total: mcp.session_cap,
            per_owner: operations.sessions_per_caller,
            idle: mcp.session_idle,
            calls_per_owner: operations.calls_per_caller,
            messages_per_minute: operations.requests_per_minute,
        }
    }
}

impl Default for Limits {
    /// As with nothing configured.
    fn default() -> Self {
        Self::new(&McpSettings::default(), &OperationsSettings::default())
    }
}

/// One open session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    /// Messages for the service loop.
    pub(crate) inbox: mpsc::Sender<Boxed>,
    /// Where its answers go.
    pub(crate) routes: Arc<Routes>,
    /// The revision that was agreed on.
    pub(crate) version: ProtocolVersion,
    /// The client lets its person be asked.
    pub(crate) takes_questions: bool,
    /// The client wants to be told of calls as they start.
    pub(crate) told: AtomicBool,
    /// What was read in it.
    pub(crate) conversation: Conversation,
    /// Ends the service loop and the calls in it.
    pub(crate) stop: CancellationToken,
    /// What another replica can open it from; only with a shared store.
    pub(crate) entry: Option<Box<Entry>>,
    /// Milliseconds after [`Sessions::start`].
    last_seen: AtomicU64,
    /// Keeps the service loop alive; its type depends on the handler.
    _service: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Session {
    /// Cancels its calls and ends its streams at once.
    fn end(&self) {
        self.stop.cancel();
        self.routes.close();
    }
}

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    limits: Arc<ArcSwap<Limits>>,
    start: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<Arc<str>, (Arc<Session>, Owner)>,
    /// Sessions per owner, the ones being opened included.
    per_owner: HashMap<Owner, usize>,
    total: usize,
}

impl Open {
    fn release(&mut self, owner: &Owner) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.per_owner.get_mut(owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.per_owner.remove(owner);
            }
        }
    }

    fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        let (session, owner) = self.by_id.remove(id)?;
        self.release(&owner);
        Some(session)
    }
}

/// The right to open one session; given back when dropped unused.
#[derive(Debug)]
pub(crate) struct Slot {
    sessions: Arc<Sessions>,
    owner: Option<Owner>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.sessions.lock().release(&owner);
        }
    }
}

impl Sessions {
    pub(crate) fn new(limits: Arc<ArcSwap<Limits>>) -> Arc<Self> {
        Arc::new(Self { limits, start: Instant::now(), open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The session with this id; it counts as used now.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.lock().by_id.get(id).map(|(session, _)| session.clone())?;
        session.last_seen.store(self.now(), Ordering::Relaxed);
        Some(session)
    }

    /// Silence after which a session ends.
    pub(crate) fn idle(&self) -> Duration {
        self.limits.load().idle
    }

    /// Open sessions.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_id.len()
    }

    /// Calls that have not been answered yet.
    pub(crate) fn calls(&self) -> usize {
        self.lock().by_id.values().map(|(session, _)| session.routes.calls()).sum()
    }

    /// Makes room for one more session of `owner`. At the owner's limit its longest unused session ends; clients that never
    /// say goodbye would lock themselves out otherwise.
    ///
    /// # Errors
    /// 429 when all sessions of the owner are in use, 503 when the server is full.
    pub(crate) fn reserve(self: &Arc<Self>, owner: Owner) -> Result<Slot, Refusal> {
        let limits = self.limits.load();
        let mut open = self.lock();
        let limit = match owner {
            // Everybody on this machine is one owner: the only limit is the server's.
            Owner::Local => limits.total,
            Owner::Caller(_) => limits.per_owner.min(limits.total),
        };
        let mut evicted = None;
        if open.per_owner.get(&owner).copied().unwrap_or(0) >= limit {
            let oldest = open
                .by_id
                .values()
                .filter(|(session, whose)| *whose == owner && session.routes.unused())
                .min_by_key(|(session, _)| session.last_seen.load(Ordering::Relaxed))
                .map(|(session, _)| session.id.clone());
            evicted = oldest.and_then(|id| open.remove(&id));
            if evicted.is_none() {
                return Err(Refusal::too_many(
                    60,
                    "sessions",
                    "Too many sessions of this caller are in use; end one with DELETE",
                ));
            }
        }
        if open.total >= limits.total {
            return Err(Refusal::later(
                StatusCode::SERVICE_UNAVAILABLE,
                60,
                "The server has no room for another session",
            ));
        }
        *open.per_owner.entry(owner.clone()).or_default() += 1;
        open.total += 1;
        drop(open);
        if let Some(session) = evicted {
            session.end();
        }
        Ok(Slot { sessions: self.clone(), owner: Some(owner) })
    }

    /// Ends a session. True if there was one.
    pub(crate) fn end(&self, id: &str) -> bool {
        // The lock is not held while the session's own state is touched.
        let session = self.lock().remove(id);
        session.inspect(|session| session.end()).is_some()
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        let ids: Vec<_> = self.lock().by_id.keys().cloned().collect();
        for id in ids {
            self.end(&id);
        }
    }

    fn end_idle(&self) {
        let idle = u64::try_from(self.limits.load().idle.as_millis()).unwrap_or(u64::MAX);
        let now = self.now();
        let expired: Vec<_> = self
            .lock()
            .by_id
            .values()
            .filter(|(session, _)| session.routes.unused())
            .filter(|(session, _)| now.saturating_sub(session.last_seen.load(Ordering::Relaxed)) >= idle)
            .map(|(session, _)| session.id.clone())
            .collect();
        for id in expired {
            tracing::info!(session = %id, "session ended: idle");
            self.end(&id);
        }
    }

    /// Ends idle sessions from time to time, for as long as the sessions are needed.
    pub(crate) async fn watch(sessions: Weak<Self>) {
        loop {
            let Some(pause) = sessions.upgrade().map(|sessions| sessions.limits.load().idle / 8) else { return };
            tokio::time::sleep(pause.clamp(Duration::from_millis(50), Duration::from_secs(30))).await;
            if let Some(sessions) = sessions.upgrade() {
                sessions.end_idle();
            }
        }
    }
}

/// A service loop that has shaken hands, on its way to becoming a session.
pub(crate) struct Begun {
    pub(crate) inbox: mpsc::Sender<Boxed>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) stop: CancellationToken,
    pub(crate) version: ProtocolVersion,
    pub(crate) takes_questions: bool,
    pub(crate) service: Box<dyn Send + Sync>,
    pub(crate) entry: Option<Box<Entry>>,
}

impl Slot {
    /// Opens the session.
    pub(crate) fn open(mut self, id: Arc<str>, begun: Begun) -> Arc<Session> {
        let sessions = self.sessions.clone();
        let last_seen = AtomicU64::new(sessions.now());
        let Begun { inbox, routes, stop, version, takes_questions, service, entry } = begun;
        // With a store, other replicas may serve the session too, and do not say what was read there.
        let conversation = if entry.is_some() { Conversation::continued() } else { Conversation::default() };
        let session = Arc::new(Session {
            id: id.clone(),
            conversation,
            inbox,
            routes,
            version,
            takes_questions,
            told: AtomicBool::new(false),
            stop,
            entry,
            last_seen,
            _service: service,
        });
        if let Some(owner) = self.owner.take() {
            sessions.lock().by_id.insert(id, (session.clone(), owner));
        }
        session
    }
}

/// Ends one session from within, when its service loop has ended.
#[derive(Debug)]
pub(crate) struct Ender {
    sessions: Weak<Sessions>,
    id: Arc<str>,
}

impl Ender {
    pub(crate) fn new(sessions: &Arc<Sessions>, id: Arc<str>) -> Self {
        Self { sessions: Arc::downgrade(sessions), id }
    }

    pub(crate) fn end(&self) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.end(&self.id);
        }
    }
}
