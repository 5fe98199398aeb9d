//! How far the work has come: one line on stderr that is written over and over, and is gone at the end.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pipefy::Progress;

use super::plain;

/// Between two looks of the line.
const OFTEN: Duration = Duration::from_millis(100);

/// Columns of the bar itself.
const WIDTH: u64 = 24;

/// The line; silent where there is no terminal.
pub(crate) struct Bar {
    /// When it was written last; `None` when it never was.
    shown: Mutex<Option<Instant>>,
    on: bool,
}

impl Bar {
    pub(super) fn new(on: bool) -> Self {
        Self { shown: Mutex::new(None), on }
    }

    /// Shows that so many are done.
    pub(crate) fn show(&self, done: u64, total: Option<u64>) {
        self.line(&drawn(done, total));
    }

    fn line(&self, text: &str) {
        let Ok(mut shown) = self.shown.lock() else { return };
        if !self.on || shown.is_some_and(|at| at.elapsed() < OFTEN) {
            return;
        }
        *shown = Some(Instant::now());
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\u{1b}[K{text}");
        let _ = err.flush();
    }
}

fn drawn(done: u64, total: Option<u64>) -> String {
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let full = (done.min(total) * WIDTH / total) as usize;
            format!("[{}{}] {done} of {total}", "#".repeat(full), ".".repeat(WIDTH as usize - full))
        }
        None => format!("{done} read"),
    }
}

impl Progress for Bar {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        match total {
            Some(_) => self.show(done, total),
            None => self.line(&plain(message).replace(['\n', '\t'], " ")),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.lock().is_ok_and(|shown| shown.is_some()) {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\u{1b}[K");
            let _ = err.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(drawn(0, Some(10)), "[........................] 0 of 10");
        assert_eq!(drawn(5, Some(10)), "[############............] 5 of 10");
        assert_eq!(drawn(10, Some(10)), "[########################] 10 of 10");
        assert_eq!((drawn(3, None).as_str(), drawn(3, Some(0)).as_str()), ("3 read", "3 read"));
    }
}
