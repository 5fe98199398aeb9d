//! JSON text with an indent of 2.

use serde_json::Value;

/// How JSON is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// `\uXXXX` for everything beyond ASCII.
    ascii: bool,
    colours: bool,
}

impl Style {
    /// For programs: ASCII, the bytes that scripts see today.
    pub(crate) const MACHINE: Self = Self { ascii: true, colours: false };
    /// For people.
    pub(crate) const PLAIN: Self = Self { ascii: false, colours: false };
    /// For people at a terminal.
    pub(crate) const COLOURED: Self = Self { ascii: false, colours: true };
}

const KEY: &str = "\u{1b}[34m";
const TEXT: &str = "\u{1b}[32m";
const OTHER: &str = "\u{1b}[36m";
const RESET: &str = "\u{1b}[0m";

/// The value as text, ending with one new line.
pub(crate) fn write(value: &Value, style: Style) -> String {
    let mut text = String::new();
    put(value, style, 0, &mut text);
    text.push('\n');
    text
}

fn put(value: &Value, style: Style, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Object(map) if map.is_empty() => out.push_str("{}"),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                next(index, depth + 1, out);
                put(item, style, depth + 1, out);
            }
            end(']', depth, out);
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                next(index, depth + 1, out);
                coloured(KEY, style, out, |out| quoted(key, style, out));
                out.push_str(": ");
                put(item, style, depth + 1, out);
            }
            end('}', depth, out);
        }
        Value::String(text) => coloured(TEXT, style, out, |out| quoted(text, style, out)),
        scalar => coloured(OTHER, style, out, |out| out.push_str(&scalar.to_string())),
    }
}

fn next(index: usize, depth: usize, out: &mut String) {
    out.push_str(if index == 0 { "\n" } else { ",\n" });
    indent(depth, out);
}

fn end(bracket: char, depth: usize, out: &mut String) {
    out.push('\n');
    indent(depth, out);
    out.push(bracket);
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn coloured(colour: &str, style: Style, out: &mut String, put: impl FnOnce(&mut String)) {
    if style.colours {
        out.push_str(colour);
        put(out);
        out.push_str(RESET);
    } else {
        put(out);
    }
}

fn quoted(text: &str, style: Style, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            // Also in text for people: control characters of a card's title must not reach the terminal.
            c if c.is_control() || (style.ascii && !c.is_ascii()) => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn programs_get_indented_ascii() {
        let value = json!({"a": [], "b": {}, "c": ["\u{e7}\u{1f600}", 1, 1.5, null, true], "d\"": "x\ny\u{7f}/"});
        assert_eq!(
            write(&value, Style::MACHINE),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    \"\\u00e7\\ud83d\\ude00\",\n    1,\n    1.5,\n    null,\n    true\n  ],\n  \
             \"d\\\"\": \"x\\ny\\u007f/\"\n}\n"
        );
    }

    #[test]
    fn people_get_their_letters_but_no_control_characters() {
        assert_eq!(write(&json!("\u{e7}\u{1b}[31m"), Style::PLAIN), "\"\u{e7}\\u001b[31m\"\n");
        assert_eq!(
            write(&json!({"a": 1}), Style::COLOURED),
            "{\n  \u{1b}[34m\"a\"\u{1b}[0m: \u{1b}[36m1\u{1b}[0m\n}\n"
        );
    }

    proptest! {
        #[test]
        fn every_text_reads_back(text in any::<String>()) {
            let value = Value::String(text);
            for style in [Style::MACHINE, Style::PLAIN] {
                prop_assert_eq!(serde_json::from_str::<Value>(&write(&value, style)).unwrap(), value.clone());
            }
            prop_assert!(write(&value, Style::MACHINE).is_ascii());
        }
    }
}
