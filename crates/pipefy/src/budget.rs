//! What one call may cost: how long it may take, whether it was cancelled, and who wants to hear of its progress and its
//! requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::watch::Requests;

/// Limit of one request to Pipefy (`spec/config.md`, "Derived URLs").
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Hears how far a call has come.
pub trait Progress: Send + Sync {
    /// `done` rises with every report; `total` is given when known.
    fn report(&self, done: u64, total: Option<u64>, message: &str);
}

/// Deadline, cancellation and listeners of one call; given by value, never ambient. Cheap to clone.
#[derive(Clone, Default)]
pub struct Budget {
    deadline: Option<Instant>,
    cancel: CancellationToken,
    progress: Option<Arc<dyn Progress>>,
    requests: Option<Arc<dyn Requests>>,
    done: Arc<AtomicU64>,
}

impl Budget {
    /// No deadline, never cancelled, no progress.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Ends at `deadline` at the latest.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(deadline, |d| d.min(deadline)));
        self
    }

    /// Ends when `cancel` fires.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Reports to `progress`.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Tells `requests` of everything that is sent.
    #[must_use]
    pub fn with_requests(mut self, requests: Arc<dyn Requests>) -> Self {
        self.requests = Some(requests);
        self
    }

    pub(crate) fn requests(&self) -> Option<&Arc<dyn Requests>> {
        self.requests.as_ref()
    }

    /// Fires when the caller has gone.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// When the call must have ended.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What is left of the deadline; `None` without one.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|d| d.saturating_duration_since(Instant::now()))
    }

    /// Whether the deadline has passed or the caller has gone.
    pub fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.remaining().is_some_and(|r| r.is_zero())
    }

    /// Reports that `step` more units are done.
    pub fn advance(&self, step: u64, total: Option<u64>, message: &str) {
        if let Some(progress) = &self.progress {
            let done = self.done.fetch_add(step, Ordering::Relaxed) + step;
            progress.report(done, total, message);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("remaining", &self.remaining())
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}
