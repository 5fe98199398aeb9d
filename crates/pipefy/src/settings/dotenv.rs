//! The `.env` file format.
//!
//! `KEY=value`, one per line; `export ` in front and blanks around `=` are fine, the key may be in single quotes.
//! Later duplicates win. `#` starts a comment on a line of its own or after white space. Unquoted values are trimmed.
//! In single quotes only `\\` and `\'` are escapes, in double quotes the usual backslash letters; quoted values may
//! span lines. `${NAME}` and `${NAME:-default}` are expanded in every value: keys of the file first, then the process
//! environment, else nothing; `$NAME` is literal. A key without `=` has no value, whatever was said before.
//!
//! Lines that speak of our variables without setting them as written are told apart: they may be a safety setting.

use std::collections::HashMap;

/// What a `.env` file says.
#[derive(Default)]
pub(super) struct Dotenv {
    /// Names and values in file order, duplicates kept.
    pub(super) entries: Vec<(String, String)>,
    /// Numbers (from 1) of the lines that could not be read.
    pub(super) bad_lines: Vec<usize>,
    /// Numbers of the lines that name one of our variables and do not set it: they cannot be read, have no `=`, put
    /// something else around the name, or are swallowed by a quote that was opened before (then that quote's line).
    pub(super) ours: Vec<usize>,
}

/// Reads the text of a `.env` file. `process` answers exact names from the process environment for `${NAME}`.
pub(super) fn parse(text: &str, process: impl Fn(&str) -> Option<String>) -> Dotenv {
    let mut found = Dotenv::default();
    // A key without `=` sets nothing, takes back what the key was set to, and hides the name from expansion.
    let mut known: HashMap<String, Option<String>> = HashMap::new();
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    loop {
        reader.take_while(is_space);
        if reader.rest.is_empty() {
            return found;
        }
        let (before, line) = (reader.rest, reader.line);
        let statement = statement(&mut reader);
        if statement.is_none() {
            reader.take_while(|c| c != '\n' && c != '\r');
        }
        let read = before.get(..before.len() - reader.rest.len()).unwrap_or(before);
        if hides_ours(statement.as_ref(), read) {
            found.ours.push(line);
        }
        match statement {
            Some(Statement::Comment) => {}
            Some(Statement::Key(key)) => {
                found.entries.retain(|(name, _)| *name != key);
                known.insert(key, None);
            }
            Some(Statement::Pair(key, raw)) => {
                let value = expand(&raw, |name| match known.get(name) {
                    Some(value) => value.clone(),
                    None => process(name),
                });
                known.insert(key.clone(), Some(value.clone()));
                found.entries.push((key, value));
            }
            None => found.bad_lines.push(line),
        }
    }
}

/// Whether `read`, the text of a statement, names a variable of ours that it does not set.
fn hides_ours(statement: Option<&Statement>, read: &str) -> bool {
    match statement {
        Some(Statement::Comment) => false,
        None => names_ours(read),
        Some(Statement::Key(key)) => names_ours(key),
        Some(Statement::Pair(key, _)) => {
            let odd = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-';
            let mut swallowed = read.lines().skip(1);
            (names_ours(key) && key.contains(odd)) || swallowed.any(|line| line.contains('=') && starts_ours(line))
        }
    }
}

fn names_ours(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.contains("PIPEFY_") || upper.contains("PIPEFY-")
}

fn starts_ours(line: &str) -> bool {
    let mut reader = Reader { rest: line.trim_start(), line: 0 };
    reader.skip_export();
    reader.rest.get(.."PIPEFY_".len()).is_some_and(names_ours)
}

enum Statement {
    Comment,
    Key(String),
    Pair(String, String),
}

/// One statement up to and including its line end; nothing when the line is malformed.
fn statement(reader: &mut Reader<'_>) -> Option<Statement> {
    reader.skip_export();
    let statement = match reader.peek() {
        Some('#') => Statement::Comment,
        _ => {
            let key = reader.key()?;
            reader.take_while(is_blank);
            if reader.peek() == Some('=') {
                reader.bump();
                let blanks = reader.take_while(is_blank);
                if reader.peek() == Some('#') && !blanks.is_empty() {
                    Statement::Pair(key, String::new())
                } else {
                    Statement::Pair(key, reader.value()?)
                }
            } else {
                Statement::Key(key)
            }
        }
    };
    reader.take_while(is_blank);
    if reader.peek() == Some('#') {
        reader.take_while(|c| c != '\n' && c != '\r');
    }
    match reader.peek() {
        None | Some('\n' | '\r') => Some(statement),
        Some(_) => None,
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// White space inside a line.
fn is_blank(c: char) -> bool {
    is_space(c) && c != '\n' && c != '\r'
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or("");
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn skip_export(&mut self) {
        if let Some(rest) = self.rest.strip_prefix("export")
            && rest.starts_with(is_blank)
        {
            self.rest = rest.trim_start_matches(is_blank);
        }
    }

    fn key(&mut self) -> Option<String> {
        if self.peek() == Some('\'') {
            let start = (self.rest, self.line);
            self.bump();
            let key = self.take_while(|c| c != '\'').to_owned();
            if self.bump().is_some() && !key.is_empty() {
                return Some(key);
            }
            // Not closed: only this line is lost.
            (self.rest, self.line) = start;
            return None;
        }
        let key = self.take_while(|c| c != '=' && c != '#' && !is_space(c));
        (!key.is_empty()).then(|| key.to_owned())
    }

    fn value(&mut self) -> Option<String> {
        match self.peek() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote),
            _ => {
                let line = self.take_while(|c| c != '\n' && c != '\r');
                Some(strip_comment(line).trim_end_matches(is_space).to_owned())
            }
        }
    }

    /// A quoted value. On a missing closing quote the reader stays on its line, so that only this line is lost.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let (start, start_line) = (self.rest, self.line);
        self.bump();
        let mut value = String::new();
        while let Some(c) = self.bump() {
            if c == quote {
                return Some(value);
            }
            if c != '\\' {
                value.push(c);
                continue;
            }
            match self.peek().and_then(|next| unescape(quote, next)) {
                Some(meant) => {
                    self.bump();
                    value.push(meant);
                }
                None => value.push('\\'),
            }
        }
        (self.rest, self.line) = (start, start_line);
        None
    }
}

fn unescape(quote: char, c: char) -> Option<char> {
    Some(match (quote, c) {
        (_, '\\' | '\'') => c,
        ('\'', _) => return None,
        (_, '"') => '"',
        (_, 'a') => '\x07',
        (_, 'b') => '\x08',
        (_, 'f') => '\x0c',
        (_, 'n') => '\n',
        (_, 'r') => '\r',
        (_, 't') => '\t',
        (_, 'v') => '\x0b',
        _ => return None,
    })
}

/// Cuts an unquoted value at the first run of white space that is followed by `#`.
fn strip_comment(value: &str) -> &str {
    value
        .match_indices('#')
        .map(|(at, _)| value.get(..at).unwrap_or(""))
        .find(|before| before.ends_with(is_space))
        .unwrap_or(value)
}

/// Replaces `${NAME}` and `${NAME:-default}`.
fn expand(value: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match reference(after) {
            Some((name, default, tail)) => {
                out.push_str(&lookup(name).unwrap_or_else(|| default.to_owned()));
                rest = tail;
            }
            None => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// `NAME}` or `NAME:-default}` at the start of `text`: name, default and what follows.
fn reference(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find([':', '}'])?;
    let (name, rest) = text.split_at_checked(end)?;
    if let Some(tail) = rest.strip_prefix('}') {
        return Some((name, "", tail));
    }
    let (default, tail) = rest.strip_prefix(":-")?.split_once('}')?;
    Some((name, default, tail))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text, |name| (name == "OUTER").then(|| "outer".to_owned())).entries
    }

    fn one(text: &str) -> String {
        let found = pairs(text);
        assert_eq!(found.len(), 1, "{text:?} gave {found:?}");
        found[0].1.clone()
    }

    #[test]
    fn values() {
        for (text, wanted) in [
            ("A=b", "b"),
            ("A = b ", "b"),
            ("  A\t=\tb", "b"),
            ("export A=b", "b"),
            ("'A'=b", "b"),
            ("\u{feff}A=b", "b"),
            ("A=", ""),
            ("A=\r\n", ""),
            ("A=a#b", "a#b"),
            ("A=a #b", "a"),
            ("A=a  # b # c", "a"),
            ("A=a#b #c", "a#b"),
            ("A= #c", ""),
            ("A=#c", "#c"),
            ("A='a #b' # c", "a #b"),
            ("A='a\\'b\\\\c\\n'", "a'b\\c\\n"),
            ("A=\"a\\n\\t\\\"\\'\\\\\\q\"", "a\n\t\"'\\\\q"),
            ("A=\"two\nlines\"", "two\nlines"),
            ("A=it's", "it's"),
            ("A=a=b", "a=b"),
            ("A=x y z", "x y z"),
            ("A=${OUTER}", "outer"),
            ("A='${OUTER}'", "outer"),
            ("A=${NOPE}", ""),
            ("A=${NOPE:-d}x", "dx"),
            ("A=${NOPE:-}", ""),
            ("A=$OUTER", "$OUTER"),
            ("A=${OUTER", "${OUTER"),
            ("A=${OUTER:x}", "${OUTER:x}"),
            ("A=a${OUTER}b${OUTER}", "aouterbouter"),
        ] {
            assert_eq!(one(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn earlier_keys_win_over_the_process_in_references() {
        let found = pairs("OUTER=inner\nA=${OUTER}\nOUTER\nB=[${OUTER}]");
        assert_eq!(found[0], ("A".into(), "inner".into()));
        assert_eq!(found[1], ("B".into(), "[]".into()), "a bare key takes the name back");
    }

    /// Random texts and what Python's dotenv 1.2 makes of them.
    #[test]
    fn it_reads_what_the_reference_reads() {
        for line in include_str!("../../tests/fixtures/dotenv.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = case["text"].as_str().unwrap();
            let found = parse(text, |name| (name == "OUTER").then(|| "outer".to_owned()));
            let ours: HashMap<&str, &str> = found.entries.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let theirs = case["values"].as_object().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{text:?}: {ours:?} {theirs:?}");
            assert!(ours.iter().all(|(name, value)| theirs[*name] == *value), "{text:?}: {ours:?} {theirs:?}");
            assert_eq!(found.bad_lines.len() as u64, case["errors"].as_u64().unwrap(), "{text:?}");
        }
    }

    #[test]
    fn comments_bare_keys_and_order() {
        let found = pairs("# one\n\nA=1\n  # two\nB # bare\nexport C\nA=2\r\nD=4\rE=5");
        let names: Vec<_> = found.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(names, ["A=1", "A=2", "D=4", "E=5"]);
    }

    #[test]
    fn bad_lines_are_named_and_skipped() {
        let found = parse("A=1\nnot a pair\n=x\nB='open\nC=3\nD=\"x\" y\n", |_| None);
        assert_eq!(found.bad_lines, [2, 3, 4, 6]);
        let names: Vec<_> = found.entries.iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["A", "C"]);
    }

    /// However a setting of ours is mangled, its line is told apart; what sets it, or only speaks of it, is not.
    #[test]
    fn a_line_of_ours_that_sets_nothing_is_told_apart() {
        for (text, lines) in [
            ("PIPEFY_MCP_READ_ONLY=\"true", vec![1]),
            ("A=1\nPIPEFY_MCP_READ_ONLY='true\nB=2", vec![2]),
            ("PIPEFY_MCP_READ_ONLY=\"true\"x", vec![1]),
            ("PIPEFY_MCP_READ_ONLY: true", vec![1]),
            ("PIPEFY_MCP_READ_ONLY:true", vec![1]),
            ("PIPEFY_MCP_READ_ONLY true", vec![1]),
            ("PIPEFY_MCP_READ_ONLY", vec![1]),
            ("pipefy_mcp_read_only # on", vec![1]),
            ("export PIPEFY_MCP_READ_ONLY", vec![1]),
            ("\n\nexport PIPEFY_MCP_READ_ONLY true", vec![3]),
            ("set PIPEFY_MCP_READ_ONLY=true", vec![1]),
            ("- PIPEFY_MCP_READ_ONLY=true", vec![1]),
            ("=PIPEFY_MCP_READ_ONLY", vec![1]),
            ("\"PIPEFY_MCP_READ_ONLY\"=true", vec![1]),
            ("$env:PIPEFY_MCP_READ_ONLY=\"true\"", vec![1]),
            ("PIPEFY-MCP-READ-ONLY: true", vec![1]),
            // The quote of another variable takes ours in.
            ("A=\"x\nPIPEFY_MCP_READ_ONLY=\"true\"", vec![1]),
            ("A=\"x\nPIPEFY_MCP_READ_ONLY=true\nB=\"", vec![1]),
            ("A='x\n  export PIPEFY_MCP_SCOPE_PIPES=1\n'", vec![1]),
            ("PIPEFY_MCP_READ_ONLY=true", vec![]),
            ("'PIPEFY_MCP_READ_ONLY' = \"true\" # yes", vec![]),
            ("export PIPEFY_MCP_READ-ONLY=true", vec![]),
            ("# PIPEFY_MCP_READ_ONLY", vec![]),
            ("A=1 # PIPEFY_MCP_READ_ONLY", vec![]),
            ("A # PIPEFY_MCP_READ_ONLY", vec![]),
            ("A=\"see\nthe PIPEFY_ settings\"", vec![]),
            ("A=PIPEFY_MCP_READ_ONLY", vec![]),
            ("A='open\nB", vec![]),
        ] {
            assert_eq!(parse(text, |_| None).ours, lines, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_or_hangs(text in ".{0,200}") {
            parse(&text, |_| None);
        }

        #[test]
        fn nor_does_any_mix_of_the_special_characters(text in "[A='\"\\\\#${}:\\- \n\r\texport]{0,60}") {
            parse(&text, |_| None);
        }

        #[test]
        fn single_quoted_text_comes_back(text in "[^'\\\\$]{0,80}") {
            let found = parse(&format!("A='{text}'"), |_| None);
            prop_assert_eq!(&found.entries[0].1, &text);
        }
    }
}
