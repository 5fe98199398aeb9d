//! What a connection on HTTP/2 owes its peer. The library's limits of time are for HTTP/1, and a peer that grants no room for an
//! answer holds up nothing that the stream below would notice. So the answers themselves are watched.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// The answers of one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Owed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    /// When the last answer ended, in milliseconds after `begun`; 0 while there was none.
    last: AtomicU64,
    open: AtomicUsize,
    answers: Mutex<Vec<Weak<Answer>>>,
}

/// One request and its answer, until all of it was handed over or it was given up.
#[derive(Debug)]
pub(super) struct Answer {
    /// Since when a part of it waits for the peer, in milliseconds after `begun`; 0 while the peer waits for it.
    waits: AtomicU64,
    owed: Arc<Inner>,
}

impl Inner {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

impl Default for Owed {
    fn default() -> Self {
        let (last, open) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self(Arc::new(Inner { begun: Instant::now(), last, open, answers: Mutex::default() }))
    }
}

impl Owed {
    /// A request has come.
    pub(super) fn begin(&self) -> Arc<Answer> {
        self.0.open.fetch_add(1, Ordering::AcqRel);
        let answer = Arc::new(Answer { waits: AtomicU64::new(0), owed: self.0.clone() });
        let mut answers = self.0.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // As long as the number of answers at a time, give or take: grown only by what lives.
        if answers.len() == answers.capacity() {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&answer));
        answer
    }

    /// Whether the peer takes nothing of one of its answers for this long.
    pub(super) fn is_stalled(&self, limit: Duration) -> bool {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let now = self.0.now();
        let answers = self.0.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().filter_map(Weak::upgrade).any(|answer| {
            let since = answer.waits.load(Ordering::Relaxed);
            since > 0 && now.saturating_sub(since) >= limit
        })
    }

    /// Whether any request has come.
    pub(super) fn is_used(&self) -> bool {
        self.0.last.load(Ordering::Relaxed) > 0 || self.0.open.load(Ordering::Relaxed) > 0
    }

    /// For how long nothing has been owed; `None` while something is, and before the first request.
    pub(super) fn idle(&self) -> Option<Duration> {
        let open = self.0.open.load(Ordering::Acquire);
        let last = self.0.last.load(Ordering::Relaxed);
        (open == 0 && last > 0).then(|| Duration::from_millis(self.0.now().saturating_sub(last)))
    }
}

impl Answer {
    /// The body of this answer, watched while it is handed over.
    pub(super) fn watch(self: Arc<Self>, body: Body) -> Body {
        self.waits.store(self.owed.now(), Ordering::Relaxed);
        Body::new(Watched { body, answer: self })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.owed.last.store(self.owed.now(), Ordering::Relaxed);
        self.owed.open.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Watched {
    body: Body,
    answer: Arc<Answer>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // Who asks has room for it.
        self.answer.waits.store(0, Ordering::Relaxed);
        let part = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(_)) = part {
            self.answer.waits.store(self.answer.owed.now(), Ordering::Relaxed);
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn what_is_owed_is_known_until_it_is_taken() {
        let owed = Owed::default();
        let (always, never) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!((owed.idle(), owed.is_stalled(always)), (None, false));
        let answer = owed.begin();
        // The peer waits for us.
        assert_eq!((owed.idle(), owed.is_stalled(always)), (None, false));
        let mut body = answer.watch(Body::from("some"));
        assert!(owed.is_stalled(always) && !owed.is_stalled(never));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "some");
        assert!(owed.is_stalled(always), "the part was given, and nobody has asked for more");
        assert!(body.frame().await.is_none());
        assert_eq!((owed.idle(), owed.is_stalled(always)), (None, false));
        drop(body);
        assert!(owed.idle().is_some());
        // A thousand answers leave no list behind them.
        (0..1_000).for_each(|_| drop(owed.begin()));
        assert!(owed.0.answers.lock().unwrap().len() < 10);
        let open = owed.begin();
        assert_eq!(owed.idle(), None);
        drop(open);
        assert!(owed.idle().is_some_and(|idle| idle < never));
    }
}
