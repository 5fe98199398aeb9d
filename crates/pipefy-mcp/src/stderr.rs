//! Standard error of a serving process: lines are queued, and written by a thread of their own, many at a time.
//!
//! So a call costs no system call for its lines, and whoever reads them slowly, or not at all, holds up nobody: when
//! a mebibyte waits, further lines are counted instead of kept, and the count is written as soon as something can be.

use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Takes finished lines (without line end). Standard error, or a test's list.
pub type Lines = Arc<dyn Fn(&str) + Send + Sync>;

/// Bytes that wait at most.
const ROOM: usize = 1 << 20;
/// How long lines are gathered. Not so long that a person would notice.
const GATHER: Duration = Duration::from_millis(2);
/// How long the end of the process waits for a reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// Queues each line for standard error.
pub fn stderr_lines() -> Lines {
    Arc::new(|line| QUEUE.push(&[line.as_bytes(), b"\n"]))
}

/// Waits until what was queued is written, or for a second where nobody reads it. Call it before the process ends.
pub fn flush() {
    QUEUE.flush(PATIENCE);
}

/// Queues text for standard error; each write must be whole lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        QUEUE.push(&[bytes]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static QUEUE: LazyLock<Arc<Queue>> = LazyLock::new(|| Queue::start(|bytes| io::stderr().write_all(bytes)));

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Something waits.
    some: Condvar,
    /// Nothing waits.
    none: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    lost: u64,
    /// The thread has something in hand.
    busy: bool,
    /// There is no thread.
    alone: bool,
}

impl Queue {
    fn start(write: impl Fn(&[u8]) -> io::Result<()> + Send + 'static) -> Arc<Self> {
        let queue = Arc::new(Self::default());
        let theirs = queue.clone();
        let thread = std::thread::Builder::new().name("stderr".to_owned()).spawn(move || theirs.run(write));
        queue.lock().alone = thread.is_err();
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, parts: &[&[u8]]) {
        let mut waiting = self.lock();
        if waiting.alone {
            drop(waiting);
            // Nowhere left to report to.
            let _closed = io::stderr().write_all(&parts.concat());
            return;
        }
        if waiting.text.len() + parts.iter().map(|part| part.len()).sum::<usize>() > ROOM {
            waiting.lost += 1;
            return;
        }
        let first = waiting.text.is_empty() && !waiting.busy;
        parts.iter().for_each(|part| waiting.text.extend_from_slice(part));
        drop(waiting);
        if first {
            self.some.notify_one();
        }
    }

    fn run(&self, write: impl Fn(&[u8]) -> io::Result<()>) {
        let mut text = Vec::new();
        loop {
            let mut waiting = self.lock();
            waiting.busy = false;
            while waiting.text.is_empty() {
                self.none.notify_all();
                waiting = self.some.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            waiting.busy = true;
            drop(waiting);
            std::thread::sleep(GATHER);
            let mut waiting = self.lock();
            std::mem::swap(&mut text, &mut waiting.text);
            let lost = std::mem::take(&mut waiting.lost);
            drop(waiting);
            if lost > 0 {
                text.extend_from_slice(format!("{{\"event\":\"lines_lost\",\"count\":{lost}}}\n").as_bytes());
            }
            // Nowhere left to report to.
            let _closed = write(&text);
            text.clear();
            text.shrink_to(ROOM / 16);
        }
    }

    fn flush(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut waiting = self.lock();
        while waiting.busy || !waiting.text.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = self.none.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn lines_come_whole_in_order_and_all_of_them() {
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let sink = written.clone();
        let queue = Queue::start(move |bytes| {
            sink.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let queue = &queue;
                scope.spawn(move || (0..500).for_each(|n| queue.push(&[format!("{thread} {n}").as_bytes(), b"\n"])));
            }
        });
        queue.flush(Duration::from_secs(60));
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        for thread in 0..4 {
            let own = text.lines().filter_map(|line| line.strip_prefix(&format!("{thread} ")));
            assert!(own.eq((0..500).map(|n| n.to_string())), "{thread}");
        }
        assert_eq!(text.lines().count(), 2000);
    }

    /// Nobody reads: nobody waits, what is too much is counted, and all is told when somebody reads again.
    #[test]
    fn a_reader_that_stands_still_holds_up_nobody() {
        let (release, held) = channel::<()>();
        let (send, parts) = channel::<String>();
        let queue = Queue::start(move |bytes| {
            held.recv().unwrap();
            send.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            Ok(())
        });
        let line = "x".repeat(1023);
        queue.push(&[b"first\n"]);
        // The first is in hand, or will be with some of the others; either way more is pushed than there is room for.
        let pushed = 3 * ROOM / 1024;
        (0..pushed).for_each(|_| queue.push(&[line.as_bytes(), b"\n"]));
        queue.flush(Duration::from_millis(10));
        let mut text = String::new();
        let (mut kept, mut lost) = (0, 0);
        while kept + lost < pushed {
            release.send(()).unwrap();
            text.push_str(&parts.recv_timeout(Duration::from_secs(60)).unwrap());
            kept = text.lines().filter(|kept| **kept == line).count();
            let counts = text.lines().filter_map(|line| line.strip_prefix("{\"event\":\"lines_lost\",\"count\":"));
            lost = counts.map(|count| count.trim_end_matches('}').parse::<usize>().unwrap()).sum();
        }
        assert_eq!(kept + lost, pushed);
        assert!(text.starts_with("first\n"));
        assert!(lost > 0 && kept <= 2 * ROOM / 1024, "{kept} kept");
    }
}
