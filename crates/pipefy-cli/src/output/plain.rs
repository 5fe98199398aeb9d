//! Text from outside on its way to a terminal: nothing in it moves the cursor, changes colours or renames the window.

/// The text with its control characters shown as JSON shows them (`\u001b`), new lines and tabs as they are. What is not
/// ASCII stays, but for the control characters U+0080 to U+009F, which terminals obey too.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => shown.push(c),
            '\r' => shown.push_str("\\r"),
            c if c.is_control() => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// The same for text that is coloured: what only chooses colours (`ESC [ 1;31 m`) stays.
pub(crate) fn coloured(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        shown.push_str(&plain(before));
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        match after.split_at_checked(end) {
            Some((numbers, tail)) if tail.starts_with('m') => {
                shown.push_str(&format!("\u{1b}[{numbers}m"));
                rest = tail.get(1..).unwrap_or_default();
            }
            _ => {
                shown.push_str(&plain("\u{1b}["));
                rest = after;
            }
        }
    }
    shown.push_str(&plain(rest));
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_shown() {
        for (text, wanted) in [
            ("S\u{e3}o Paulo\n\tline\r\nend", "S\u{e3}o Paulo\n\tline\nend"),
            ("\u{1b}[31mred", "\\u001b[31mred"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("fine\rbad", "fine\\rbad"),
            ("\u{9b}2J\u{7f}\u{0}", "\\u009b2J\\u007f\\u0000"),
        ] {
            assert_eq!(plain(text), wanted);
        }
        assert_eq!(
            coloured("\u{1b}[1;31mError\u{1b}[0m: \u{1b}[2J\u{1b}"),
            "\u{1b}[1;31mError\u{1b}[0m: \\u001b[2J\\u001b"
        );
    }

    proptest! {
        #[test]
        fn none_is_left(text in any::<String>(), more in "[\u{1b}\u{9b}\\[0-9;mHJ\r\n\t]{0,20}") {
            let text = text + &more;
            let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
            prop_assert!(!plain(&text).contains(bad));
            let rest = coloured(&text).replace("\u{1b}[", "");
            prop_assert!(!rest.contains(bad), "{}", rest.escape_debug());
        }
    }
}
