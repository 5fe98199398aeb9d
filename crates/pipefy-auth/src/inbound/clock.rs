//! What time it is. Tests move it.

use std::time::Instant;
#[cfg(test)]
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Seconds by which a test is ahead.
    #[cfg(test)]
    ahead: AtomicU64,
}

impl Clock {
    pub(super) fn now(&self) -> Instant {
        let now = Instant::now();
        #[cfg(test)]
        let now = now + Duration::from_secs(self.ahead.load(Ordering::SeqCst));
        now
    }

    /// Seconds since 1970.
    pub(super) fn unix(&self) -> i64 {
        let now = crate::session::now();
        #[cfg(test)]
        let now = now + self.ahead.load(Ordering::SeqCst) as i64;
        now
    }

    #[cfg(test)]
    pub(super) fn advance(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }
}
