//! Dates that callers give: whether they are dates at all, and which of two is the earlier.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

/// Whether a text is a day or a date-time of ISO 8601.
pub(crate) fn is_date(text: &str) -> bool {
    day(text).is_some() || instant(text).is_some() || local(text).is_some()
}

/// Whether two dates are in the wrong order. Without a time zone nothing is assumed: texts are compared as they are written.
pub(crate) fn is_reversed(from: &str, to: &str) -> bool {
    let later = |pair: Option<(Timestamp, Timestamp)>| pair.map(|(from, to)| from > to);
    let days = || day_of(from).zip(day_of(to)).is_some_and(|(from, to)| from > to);
    later(instant(from).zip(instant(to)))
        .or_else(|| local(from).zip(local(to)).map(|(from, to)| from > to))
        .unwrap_or_else(days)
}

fn day(text: &str) -> Option<Date> {
    (text.len() == 10).then(|| text.parse().ok()).flatten()
}

fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn local(text: &str) -> Option<DateTime> {
    if text.len() > 10 && instant(text).is_none() { text.parse().ok() } else { None }
}

/// The day that a date or date-time is written with.
fn day_of(text: &str) -> Option<Date> {
    if is_date(text) { day(text.get(..10)?) } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn days_and_date_times_are_dates_and_nothing_else_is() {
        for good in [
            "2026-01-31",
            "2026-01-31T10:00:00Z",
            "2026-01-31T10:00:00-03:00",
            "2026-01-31T10:00:00",
            "2026-01-31 10:00",
        ] {
            assert!(is_date(good), "{good}");
        }
        for bad in ["31/01/2026", "2026-13-01", "tomorrow", "", "2026", "20260131x"] {
            assert!(!is_date(bad), "{bad}");
        }
    }

    #[test]
    fn only_what_is_surely_reversed_is_so() {
        for (from, to, reversed) in [
            ("2026-01-02", "2026-01-01", true),
            ("2026-01-01", "2026-01-01", false),
            ("2026-01-01T10:00:00Z", "2026-01-01T09:00:00-03:00", false),
            ("2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z", true),
            ("2026-01-01T10:00:00", "2026-01-01T09:00:00", true),
            // A day and a time of it, and times with and without a zone, on one day: who knows.
            ("2026-01-01T10:00:00Z", "2026-01-01", false),
            ("2026-01-02T10:00:00Z", "2026-01-01", true),
            ("x", "y", false),
        ] {
            assert_eq!(is_reversed(from, to), reversed, "{from} {to}");
        }
    }
}
