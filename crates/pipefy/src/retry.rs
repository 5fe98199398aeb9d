//! When a read may be sent again, and after how long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// Times a read is sent at most.
pub(crate) const ATTEMPTS: usize = 4;
/// Longest single pause; a longer `Retry-After` ends the call with the seconds to wait.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// Shortest pause, so that `Retry-After: 0` never becomes a tight loop (field report C19).
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// Seconds that a `Retry-After` counts for at most: a day.
const LONGEST_ASKED: u64 = 86_400;

/// Pauses between attempts: exponential with jitter.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(SHORTEST_PAUSE)
        .with_max_delay(Duration::from_secs(5))
        .with_jitter()
        .with_max_times(ATTEMPTS - 1)
        .build()
}

/// The pause to make: what the server asks for, at least our own.
pub(crate) fn pause(own: Duration, asked: Option<Duration>) -> Duration {
    asked.map_or(own, |asked| asked.max(own))
}

/// Statuses that say "try again" for a read.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// `Retry-After` as seconds or as a date (RFC 9110 section 10.2.3); anything else counts as absent.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean a long time all the same.
        return Some(Duration::from_secs(text.parse().unwrap_or(LONGEST_ASKED).min(LONGEST_ASKED)));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let seconds = date.as_second() - jiff::Timestamp::now().as_second();
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LONGEST_ASKED)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn asked(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        assert_eq!(asked("2"), Some(Duration::from_secs(2)));
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("99999999999"), Some(Duration::from_secs(86_400)));
        assert_eq!(asked(&"9".repeat(40)), Some(Duration::from_secs(86_400)));
        assert_eq!(asked("-1"), None);
        assert_eq!(asked("+1"), None);
        assert_eq!(asked(""), None);
        assert_eq!(asked("1.5"), None);
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        let pause = asked(&text).unwrap();
        assert!(pause > Duration::from_secs(90) && pause <= Duration::from_secs(100), "{pause:?}");
    }

    #[test]
    fn a_pause_is_never_below_our_own() {
        assert_eq!(pause(Duration::from_millis(300), Some(Duration::ZERO)), Duration::from_millis(300));
        assert!(pauses().all(|p| p >= SHORTEST_PAUSE));
        assert_eq!(pauses().count(), ATTEMPTS - 1);
    }
}
