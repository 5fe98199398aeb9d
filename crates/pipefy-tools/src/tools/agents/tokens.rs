//! The tokens of instructions: `%{field:...}`, `%{action:...}` and template placeholders (`spec/tools-automation-ai.md`,
//! 4.3 to 4.5).

use serde_json::{Map, Value};

enum Piece<'t> {
    Text(&'t str),
    /// `{inner}` without braces inside; `percent` when `%` stands before it.
    Token {
        percent: bool,
        inner: &'t str,
    },
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('{')).map(|i| i + at) {
        let Some(next) = text.get(open + 1..).and_then(|rest| rest.find(['{', '}'])).map(|i| i + open + 1) else {
            break;
        };
        if text.as_bytes().get(next) == Some(&b'{') {
            at = next;
            continue;
        }
        let before = text.get(start..open).unwrap_or_default();
        let (before, percent) = match before.strip_suffix('%') {
            Some(before) => (before, true),
            None => (before, false),
        };
        if !before.is_empty() {
            out.push(Piece::Text(before));
        }
        out.push(Piece::Token { percent, inner: text.get(open + 1..next).unwrap_or_default() });
        start = next + 1;
        at = start;
    }
    if let Some(rest) = text.get(start..).filter(|r| !r.is_empty()) {
        out.push(Piece::Text(rest));
    }
    out
}

/// Writes the text anew; a token becomes what `change` says, or stays.
fn rewrite(text: &str, mut change: impl FnMut(bool, &str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Token { percent, inner } => match change(percent, inner) {
                Some(new) => out.push_str(&new),
                None => {
                    if percent {
                        out.push('%');
                    }
                    out.push('{');
                    out.push_str(inner);
                    out.push('}');
                }
            },
        }
    }
    out
}

pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is a UUID in its usual form.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// Tokens in full: `{field:x}`, `%{5}` and `{5}` become `%{field:...}`, `{action:<uuid>}` becomes `%{action:...}`.
pub(crate) fn normalise(text: &str) -> String {
    rewrite(text, |percent, inner| {
        if is_digits(inner) {
            return Some(format!("%{{field:{inner}}}"));
        }
        let namespaced = inner.strip_prefix("field:").is_some_and(|rest| !rest.is_empty())
            || inner.strip_prefix("action:").is_some_and(is_uuid);
        (namespaced && !percent).then(|| format!("%{{{inner}}}"))
    })
}

/// The references of `%{field:...}` tokens, in order.
pub(crate) fn field_references(text: &str) -> Vec<&str> {
    pieces(text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Token { percent: true, inner } => inner.strip_prefix("field:"),
            _ => None,
        })
        .collect()
}

/// Replaces the references of `%{field:...}` tokens that `known` knows.
pub(crate) fn replace_fields(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
    rewrite(text, |percent, inner| {
        let reference = inner.strip_prefix("field:").filter(|_| percent)?;
        known(reference).map(|id| format!("%{{field:{id}}}"))
    })
}

/// The ids of `%{digits}` tokens of a prompt, in order.
pub(crate) fn prompt_ids(text: &str) -> Vec<&str> {
    pieces(text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Token { percent: true, inner } if is_digits(inner) => Some(inner),
            _ => None,
        })
        .collect()
}

/// The insides of all `%{...}` tokens that are not empty.
pub(crate) fn prompt_tokens(text: &str) -> Vec<&str> {
    pieces(text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Token { percent: true, inner } if !inner.is_empty() => Some(inner),
            _ => None,
        })
        .collect()
}

/// The instruction without lines that hold nothing but action tokens, and with one such line per reference at its end.
pub(crate) fn with_action_lines(instruction: &str, references: &[String]) -> String {
    let mut lines: Vec<&str> = instruction.split('\n').filter(|line| !is_action_line(line)).collect();
    // A text that is now nothing leaves no empty first line.
    if lines == [""] {
        lines.clear();
    }
    let mut out = lines.join("\n");
    for reference in references {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("%{{action:{reference}}}"));
    }
    out
}

fn is_action_line(line: &str) -> bool {
    let mut tokens = 0;
    for piece in pieces(line) {
        match piece {
            Piece::Text(text) if text.trim().is_empty() => {}
            Piece::Token { percent: true, inner } if inner.starts_with("action:") => tokens += 1,
            _ => return false,
        }
    }
    tokens > 0
}

/// Fills `{{name}}` placeholders; `None` when there are none.
///
/// # Errors
/// A placeholder without any parameters, or without its own.
pub(crate) fn fill(text: &str, parameters: Option<&Map<String, Value>>) -> Result<Option<String>, String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some(open) = rest.find("{{") {
        let after = rest.get(open + 2..).unwrap_or_default();
        let name = after.find("}}").and_then(|end| after.get(..end)).filter(|name| is_name(name));
        let Some(name) = name else {
            let (head, tail) = rest.split_at(open + 1);
            out.push_str(head);
            rest = tail;
            continue;
        };
        found = true;
        let Some(parameters) = parameters else {
            return Err(format!("the placeholder '{{{{{name}}}}}' cannot be filled: no template_params were given"));
        };
        let value = parameters.get(name).ok_or_else(|| format!("Missing template parameter '{name}'"))?;
        out.push_str(rest.get(..open).unwrap_or_default());
        match value {
            Value::String(text) => out.push_str(text),
            other => out.push_str(&other.to_string()),
        }
        rest = after.get(name.len() + 2..).unwrap_or_default();
    }
    out.push_str(rest);
    Ok(found.then_some(out))
}

fn is_name(name: &str) -> bool {
    name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "99999999-2222-4333-8444-555555555555";

    #[test]
    fn tokens_are_written_in_full_once() {
        let text = format!("Use {{field:a}} %{{field:b}} {{5}} %{{6}} {{action:{UUID}}} {{action:x}} {{foo}} {{}} {{");
        let full = format!(
            "Use %{{field:a}} %{{field:b}} %{{field:5}} %{{field:6}} %{{action:{UUID}}} {{action:x}} {{foo}} {{}} {{"
        );
        assert_eq!(normalise(&text), full);
        assert_eq!(normalise(&full), full);
        assert_eq!(field_references(&full), ["a", "b", "5", "6"]);
        assert_eq!(
            replace_fields("%{field:a} {field:a}", |s| (s == "a").then(|| "1".to_owned())),
            "%{field:1} {field:a}"
        );
    }

    #[test]
    fn action_lines_are_rebuilt_and_the_result_is_stable() {
        let text = format!("one\n%{{action:{UUID}}} %{{action:x}}\n\nuse %{{action:{UUID}}} here");
        let refs = vec!["A".to_owned(), "B".to_owned()];
        let once = with_action_lines(&text, &refs);
        assert_eq!(once, format!("one\n\nuse %{{action:{UUID}}} here\n%{{action:A}}\n%{{action:B}}"));
        assert_eq!(with_action_lines(&once, &refs), once);
        assert_eq!(with_action_lines("", &refs), "%{action:A}\n%{action:B}");
        assert_eq!(with_action_lines("%{action:A}", &refs), "%{action:A}\n%{action:B}");
    }

    proptest! {
        #[test]
        fn whatever_text_comes_nothing_is_lost(text in "[{}%a-z0-9:\\n é]{0,60}") {
            prop_assert_eq!(rewrite(&text, |_, _| None), text.clone());
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once);
            let _ = fill(&text, None);
        }
    }
}
