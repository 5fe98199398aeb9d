//! What one caller may do at a time and in a minute, so that nobody's share is used up by somebody else.
//!
//! The rate is a generic cell rate: each message moves the caller's "next" time on by one interval; a caller may be ahead of
//! the clock by ten seconds' worth. Whoever reaches this machine's loopback without a bearer has no limit but the server's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::bearer::Owner;
use super::refusal::Refusal;
use super::sessions::Limits;

/// The burst is this part of a minute's messages.
const BURST_PART: u32 = 6;

/// Callers that are remembered before those without need of it are forgotten.
const SWEEP_AT: usize = 1024;

/// One caller.
#[derive(Debug, Default)]
struct Use {
    running: usize,
    /// Up to when its messages are paid for, after [`Callers::start`].
    paid: Duration,
}

/// Counts what callers do in this process.
#[derive(Debug)]
pub(crate) struct Callers {
    limits: Arc<ArcSwap<Limits>>,
    start: Instant,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    uses: HashMap<Owner, Use>,
    sweep_at: usize,
}

/// How often a caller may send: the time one message costs, and how far ahead of the clock it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) cost: Duration,
    pub(crate) ahead: Duration,
}

impl Rate {
    /// This many messages a minute, a sixth of them at once.
    pub(crate) fn per_minute(messages: u32) -> Self {
        let cost = Duration::from_secs(60) / messages.max(1);
        Self { cost, ahead: cost * (messages / BURST_PART).max(1).saturating_sub(1) }
    }
}

impl Callers {
    pub(crate) fn new(limits: Arc<ArcSwap<Limits>>) -> Arc<Self> {
        Arc::new(Self { limits, start: Instant::now(), table: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One message of `owner`.
    ///
    /// # Errors
    /// 429 with the seconds to wait.
    pub(crate) fn message(&self, owner: &Owner) -> Result<(), Refusal> {
        let Some(rate) = self.rate(owner) else { return Ok(()) };
        let now = self.start.elapsed();
        let mut table = self.lock();
        table.sweep(now);
        let caller = table.uses.entry(owner.clone()).or_default();
        let paid = caller.paid.max(now);
        let early = (paid - now).saturating_sub(rate.ahead);
        if !early.is_zero() {
            return Err(too_often(early));
        }
        caller.paid = paid + rate.cost;
        Ok(())
    }

    /// The rate that `owner` is held to.
    pub(crate) fn rate(&self, owner: &Owner) -> Option<Rate> {
        let messages = self.limits.load().messages_per_minute?;
        matches!(owner, Owner::Caller(_)).then(|| Rate::per_minute(messages))
    }

    /// One tool call of `owner`; it runs until every copy of what is returned is dropped.
    ///
    /// # Errors
    /// 429 when as many run as may.
    pub(crate) fn call(self: &Arc<Self>, owner: &Owner) -> Result<Option<Running>, Refusal> {
        if *owner == Owner::Local {
            return Ok(None);
        }
        let most = self.limits.load().calls_per_owner;
        let mut table = self.lock();
        table.sweep(self.start.elapsed());
        let caller = table.uses.entry(owner.clone()).or_default();
        if caller.running >= most {
            return Err(Refusal::too_many(
                1,
                "calls",
                "Too many tool calls of this caller run at a time; wait for one to end",
            ));
        }
        caller.running += 1;
        drop(table);
        Ok(Some(Running { _slot: Arc::new(Slot { callers: self.clone(), owner: owner.clone() }) }))
    }
}

/// 429 for a caller that is this much too early.
pub(crate) fn too_often(early: Duration) -> Refusal {
    let seconds = u32::try_from(early.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    Refusal::too_many(seconds, "rate", "Too many messages of this caller; slow down")
}

impl Table {
    /// Forgets callers that have nothing running and nothing paid ahead, when there are many.
    fn sweep(&mut self, now: Duration) {
        if self.uses.len() < self.sweep_at.max(SWEEP_AT) {
            return;
        }
        self.uses.retain(|_, caller| caller.running > 0 || caller.paid > now);
        self.sweep_at = 2 * self.uses.len();
    }
}

/// A tool call that runs. It travels with the message it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    _slot: Arc<Slot>,
}

#[derive(Debug)]
struct Slot {
    callers: Arc<Callers>,
    owner: Owner,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(caller) = self.callers.lock().uses.get_mut(&self.owner) {
            caller.running = caller.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn callers(calls: usize, messages: Option<u32>) -> Arc<Callers> {
        Callers::new(Arc::new(ArcSwap::from_pointee(Limits {
            calls_per_owner: calls,
            messages_per_minute: messages,
            ..Limits::default()
        })))
    }

    fn owner(subject: &str) -> Owner {
        Owner::caller("client", None, Some(subject))
    }

    #[test]
    fn a_caller_has_its_share_and_no_more() {
        let callers = callers(2, None);
        let (ana, bo) = (owner("ana"), owner("bo"));
        let first = callers.call(&ana).unwrap().unwrap();
        let copy = first.clone();
        let second = callers.call(&ana).unwrap();
        assert!(callers.call(&ana).is_err());
        drop(first);
        assert!(callers.call(&ana).is_err(), "a copy still runs");
        assert!(callers.call(&bo).is_ok());
        drop((copy, second));
        assert!(callers.call(&ana).is_ok());
        assert!(callers.call(&Owner::Local).unwrap().is_none());
    }

    #[test]
    fn a_burst_then_the_rate() {
        // One every ten seconds, and one at once.
        let callers = callers(1, Some(6));
        assert!(callers.message(&owner("ana")).is_ok());
        let response = callers.message(&owner("ana")).unwrap_err().into_response();
        assert_eq!(response.status(), 429);
        let wait: u32 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((9..=11).contains(&wait), "{wait}");
        assert!(callers.message(&owner("bo")).is_ok());
        assert!((0..100).all(|_| callers.message(&Owner::Local).is_ok()));
        let rate = Rate::per_minute(6000);
        assert_eq!((rate.cost, rate.ahead), (Duration::from_millis(10), Duration::from_millis(9990)));
    }

    #[test]
    fn callers_are_forgotten() {
        let callers = callers(1, Some(1_000_000));
        for number in 0..5000 {
            callers.message(&owner(&number.to_string())).unwrap();
        }
        assert!(callers.lock().uses.len() <= 2 * SWEEP_AT, "{}", callers.lock().uses.len());
    }
}
