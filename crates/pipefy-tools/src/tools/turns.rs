//! Taking turns: Pipefy refuses some creations that overlap in one pipe or phase (field report B02), so within a process
//! they go one after the other. Knows ids of pipes and phases, and nobody's identity.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

type Lock = tokio::sync::Mutex<()>;

static LOCKS: LazyLock<Mutex<HashMap<String, Weak<Lock>>>> = LazyLock::new(Mutex::default);

/// The turn; dropping it lets the next one go.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] tokio::sync::OwnedMutexGuard<()>);

/// Waits for the turn at `place`, such as `pipe 12`.
pub(crate) async fn at(place: &str) -> Turn {
    let lock = {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody waits for any more goes; a map of living locks stays as small as the number of calls in flight.
        locks.retain(|_, lock| lock.strong_count() > 0);
        match locks.get(place).and_then(Weak::upgrade) {
            Some(lock) => lock,
            None => {
                let lock = Arc::new(Lock::new(()));
                locks.insert(place.to_owned(), Arc::downgrade(&lock));
                lock
            }
        }
    };
    Turn(lock.lock_owned().await)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn one_place_serves_one_after_the_other_and_places_do_not_wait_for_each_other() {
        let first = at("pipe turns-1").await;
        let _other = tokio::time::timeout(Duration::from_secs(5), at("pipe turns-2")).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), at("pipe turns-1")).await.is_err());
        drop(first);
        tokio::time::timeout(Duration::from_secs(5), at("pipe turns-1")).await.unwrap();
        drop(at("pipe turns-3").await);
        assert!(!LOCKS.lock().unwrap().contains_key("pipe turns-1"));
    }
}
