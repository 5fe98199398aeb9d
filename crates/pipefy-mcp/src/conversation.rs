//! What a conversation has read, for `confirm_after_untrusted`.
//!
//! A conversation is a connection over standard streams, or an HTTP session of this process alone. It holds no identity, only
//! whether text of outsiders went through it. Where there is no conversation (without sessions) or others may carry it on
//! (sessions that replicas share), such text counts as read from the beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether text of outsiders was read in one conversation. Clones are the same conversation.
#[derive(Clone, Debug, Default)]
pub struct Conversation(Arc<AtomicBool>);

impl Conversation {
    /// One that may have read anything before.
    pub(crate) fn continued() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Such text is about to be read.
    pub(crate) fn reads(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether such text was read.
    pub(crate) fn has_read(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
