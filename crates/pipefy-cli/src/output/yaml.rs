//! YAML 1.2, block style. Text is quoted as in JSON, which YAML reads the same way, unless it cannot be anything else.

use serde_json::Value;

use super::json::{Style, write as json_text};

/// The value as a document.
pub(crate) fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => put(value, 0, &mut text),
        Value::Array(items) if !items.is_empty() => put(value, 0, &mut text),
        scalar => {
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
    text
}

fn put(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                out.push_str(&indent);
                out.push_str(&text(key));
                out.push(':');
                below(item, depth + 1, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                let start = out.len();
                put_item(item, depth, out);
                // The first line of a nested block stands behind the dash.
                let dashed = out.get(start..).and_then(|block| block.strip_prefix(&format!("{indent}  ")));
                if let Some(rest) = dashed.map(str::to_owned) {
                    out.truncate(start);
                    out.push_str(&indent);
                    out.push_str("- ");
                    out.push_str(&rest);
                }
            }
        }
        _ => {}
    }
}

fn put_item(item: &Value, depth: usize, out: &mut String) {
    match item {
        Value::Object(map) if !map.is_empty() => put(item, depth + 1, out),
        Value::Array(items) if !items.is_empty() => put(item, depth + 1, out),
        scalar => {
            out.push_str(&"  ".repeat(depth));
            out.push_str("- ");
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

fn below(item: &Value, depth: usize, out: &mut String) {
    match item {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            put(item, depth, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            put(item, depth, out);
        }
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        other => other.to_string(),
    }
}

/// Words that some reader takes for something else than text.
const TAKEN: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];

fn text(string: &str) -> String {
    let starts = string.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let plain = string.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match starts && plain && !TAKEN.contains(&string.to_ascii_lowercase().as_str()) {
        true => string.to_owned(),
        false => json_text(&Value::String(string.to_owned()), Style::PLAIN).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_blocks() {
        let value = json!({"id": "1", "title": "a: b", "no": null, "list": [1, {"a": 1, "b": [2, [3]]}, [], "x"], "o": {}, "d": {"k": true}});
        let wanted = "id: \"1\"\ntitle: \"a: b\"\n\"no\": null\nlist:\n  - 1\n  - a: 1\n    b:\n      - 2\n      - - 3\n  - []\n  - x\no: {}\nd:\n  k: true\n";
        assert_eq!(write(&value), wanted);
        assert_eq!(write(&json!([])), "[]\n");
        assert_eq!(write(&json!("\u{e9}\n")), "\"\u{e9}\\n\"\n");
        assert_eq!(write(&json!([[1]])), "- - 1\n");
    }
}
