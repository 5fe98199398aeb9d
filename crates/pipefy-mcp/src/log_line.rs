//! One JSON object as a line of a log, in ASCII, written without a tree of values: a call writes several.

use std::fmt::Write as _;
use std::time::Duration;

/// A line that is being written.
pub(crate) struct LogLine(String);

impl LogLine {
    /// Begins with the event's name and the time.
    pub(crate) fn new(event: &str) -> Self {
        let mut line = String::with_capacity(384);
        line.push_str("{\"event\":");
        quoted(&mut line, event);
        line.push_str(",\"timestamp\":\"");
        timestamp(&mut line);
        line.push('"');
        Self(line)
    }

    /// Keys are ours: plain ASCII.
    fn key(&mut self, key: &str) -> &mut String {
        self.0.push_str(",\"");
        self.0.push_str(key);
        self.0.push_str("\":");
        &mut self.0
    }

    /// A text, or `null`.
    pub(crate) fn text(mut self, key: &str, text: Option<&str>) -> Self {
        let line = self.key(key);
        match text {
            Some(text) => quoted(line, text),
            None => line.push_str("null"),
        }
        self
    }

    /// A number, or `null`.
    pub(crate) fn number(mut self, key: &str, number: Option<u64>) -> Self {
        let line = self.key(key);
        match number {
            Some(number) => padded(line, number, 0),
            None => line.push_str("null"),
        }
        self
    }

    /// A duration in milliseconds, with three decimals.
    pub(crate) fn millis(mut self, key: &str, took: Duration) -> Self {
        let took = u64::try_from(took.as_nanos().saturating_add(500) / 1000).unwrap_or(u64::MAX);
        let line = self.key(key);
        padded(line, took / 1000, 0);
        line.push('.');
        padded(line, took % 1000, 3);
        self
    }

    /// A list of texts.
    pub(crate) fn texts(mut self, key: &str, texts: &[String]) -> Self {
        let line = self.key(key);
        line.push('[');
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                line.push(',');
            }
            quoted(line, text);
        }
        line.push(']');
        self
    }

    /// True or false.
    pub(crate) fn flag(mut self, key: &str, flag: bool) -> Self {
        self.key(key).push_str(if flag { "true" } else { "false" });
        self
    }

    /// The line, without line end.
    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Now, as `2026-07-07T22:15:30.123456+00:00`; without a fraction on the full second.
fn timestamp(line: &mut String) {
    let at = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now());
    padded(line, at.year().unsigned_abs().into(), 4);
    for (before, part) in [('-', at.month()), ('-', at.day()), ('T', at.hour()), (':', at.minute()), (':', at.second())]
    {
        line.push(before);
        padded(line, part.unsigned_abs().into(), 2);
    }
    let micros = at.subsec_nanosecond() / 1000;
    if micros != 0 {
        line.push('.');
        padded(line, micros.unsigned_abs().into(), 6);
    }
    line.push_str("+00:00");
}

/// Decimal digits with leading zeros: the formatting machinery costs as much as the rest of a line.
fn padded(line: &mut String, number: u64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    for _ in digits.len()..width {
        line.push('0');
    }
    line.push_str(digits);
}

/// A JSON string in ASCII.
fn quoted(line: &mut String, text: &str) {
    line.push('"');
    let as_it_is = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    let mut plain = 0;
    // Most texts have nothing to escape, and are looked through faster by the byte.
    let begin = text.bytes().position(|byte| !as_it_is(byte)).unwrap_or(text.len());
    for (at, character) in text.get(begin..).unwrap_or_default().char_indices().map(|(at, c)| (begin + at, c)) {
        if u8::try_from(character).is_ok_and(as_it_is) {
            continue;
        }
        line.push_str(text.get(plain..at).unwrap_or_default());
        plain = at + character.len_utf8();
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _infallible = write!(line, "\\u{unit:04x}");
                }
            }
        }
    }
    line.push_str(text.get(plain..).unwrap_or_default());
    line.push('"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn text_is_ascii_json() {
        let mut line = String::new();
        quoted(&mut line, "a\"\\\n\u{e9}\u{1f600}");
        assert_eq!(line, r#""a\"\\\u000a\u00e9\ud83d\ude00""#);
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), "a\"\\\n\u{e9}\u{1f600}");
    }

    #[test]
    fn a_line_is_one_json_object() {
        let line = LogLine::new("e")
            .text("a", None)
            .text("b", Some("\u{e9}\""))
            .number("c", Some(7))
            .number("d", None)
            .millis("e", Duration::from_micros(12_034))
            .texts("f", &["x".to_owned(), "y".to_owned()])
            .texts("g", &[])
            .flag("h", true)
            .end();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let time = value["timestamp"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        let expected = serde_json::json!({"event": "e", "timestamp": time, "a": null, "b": "\u{e9}\"", "c": 7, "d": null,
            "e": 12.034, "f": ["x", "y"], "g": [], "h": true});
        assert_eq!(value, expected);
        assert!(line.is_ascii());
    }
}
