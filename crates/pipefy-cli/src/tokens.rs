//! Ids that start with a hyphen, sorted out before the parser sees them.
//!
//! Pipefy has ids such as `-ZocGcM0`. Read as a bundle of short options, `-Zy1` would mean `--yes` and confirm a deletion
//! that nobody confirmed. So in commands that take ids a token with one hyphen is the id, unless it is exactly a short
//! option of the command, or one with its attached value while no id is missing. Nothing is ever read out of the middle
//! of a longer token.

use crate::command::Param;

/// What an option of the command expects.
#[derive(Clone, Copy)]
pub(crate) struct Flags<'a>(pub(crate) &'a [Param]);

impl Flags<'_> {
    fn find(&self, flag: &str) -> Option<bool> {
        self.0.iter().find_map(|param| match param.flags().any(|own| own == flag) {
            true => Some(param.takes_value()),
            false => (param.negative() == Some(flag)).then_some(false),
        })
    }

    /// `-tfoo`: a short option with its value.
    fn has_attached_value(&self, token: &str) -> bool {
        let short: String = token.chars().take(2).collect();
        self.find(&short) == Some(true)
    }

    /// `-tfoo` without `t` taking a value, but every letter a short option without value, and none of them `y`.
    fn is_bundle(&self, token: &str) -> bool {
        token.chars().skip(1).all(|letter| letter != 'y' && self.find(&format!("-{letter}")) == Some(false))
    }
}

enum Token {
    /// An option, with its value when that is a token of its own.
    Option(Vec<String>),
    Positional(String),
    /// One hyphen and more than one letter: an id, or options, depending on what else is there.
    Open(String),
}

/// Puts options first and what is no option behind `--`, so that a hyphen at its start means nothing any more.
/// `wanted` is the number of positional arguments that must be there.
pub(crate) fn sort(tokens: &[String], options: Flags<'_>, wanted: usize) -> Vec<String> {
    let read = read(tokens, options);
    let certain = read.iter().filter(|token| matches!(token, Token::Positional(_))).count();
    let mut missing = wanted.saturating_sub(certain);
    let mut sorted = Vec::with_capacity(tokens.len() + 1);
    let mut positional = Vec::new();
    for token in read {
        match token {
            Token::Option(tokens) => sorted.extend(tokens),
            Token::Positional(token) => positional.push(token),
            Token::Open(token) if missing == 0 && (options.has_attached_value(&token) || options.is_bundle(&token)) => {
                sorted.push(token);
            }
            Token::Open(token) => {
                missing = missing.saturating_sub(1);
                positional.push(token);
            }
        }
    }
    if !positional.is_empty() {
        sorted.push("--".to_owned());
        sorted.append(&mut positional);
    }
    sorted
}

fn read(tokens: &[String], options: Flags<'_>) -> Vec<Token> {
    let mut read = Vec::with_capacity(tokens.len());
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        if token == "--" {
            read.extend(rest.by_ref().cloned().map(Token::Positional));
        } else if token == "-" || !token.starts_with('-') {
            read.push(Token::Positional(token.clone()));
        } else if token.starts_with("--") || token.chars().count() == 2 {
            match options.find(token) {
                Some(true) => {
                    let with_value = std::iter::once(token).chain(rest.next()).cloned().collect();
                    read.push(Token::Option(with_value));
                }
                Some(false) => read.push(Token::Option(vec![token.clone()])),
                // `--opt=value`, and what the parser will refuse.
                None if token.starts_with("--") => read.push(Token::Option(vec![token.clone()])),
                None => read.push(Token::Positional(token.clone())),
            }
        } else {
            read.push(Token::Open(token.clone()));
        }
    }
    read
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::command::{flag, text};
    use proptest::prelude::*;

    const OPTIONS: &[Param] =
        &[text("--title -t", "title", ""), flag("--json -j", "$json", ""), flag("--yes -y", "$yes", "")];

    fn sorted(line: &str, wanted: usize) -> String {
        let tokens: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        sort(&tokens, Flags(OPTIONS), wanted).join(" ")
    }

    #[test]
    fn a_token_with_one_hyphen_is_the_id_when_in_doubt() {
        for (line, wanted, meant) in [
            ("5", 1, "-- 5"),
            ("-ZocGcM0", 1, "-- -ZocGcM0"),
            ("-Zy1", 1, "-- -Zy1"),
            ("-y", 1, "-y"),
            ("-yy", 1, "-- -yy"),
            ("-jy", 1, "-- -jy"),
            ("5 -jy", 1, "-- 5 -jy"),
            ("5 -jj", 1, "-jj -- 5"),
            ("-tod", 1, "-- -tod"),
            ("-tod 5", 1, "-tod -- 5"),
            ("5 -tod", 1, "-tod -- 5"),
            ("-tod -tid", 1, "-tid -- -tod"),
            ("-t foo 5", 1, "-t foo -- 5"),
            ("-t -x 5", 1, "-t -x -- 5"),
            ("5 --title -Zy1 -y", 1, "--title -Zy1 -y -- 5"),
            ("--title=-y -Z -j", 1, "--title=-y -j -- -Z"),
            ("-- -y", 1, "-- -y"),
            ("-Zo -- --yes", 2, "-- -Zo --yes"),
            ("--bogus -Zo", 1, "--bogus -- -Zo"),
            ("- -j", 1, "-j -- -"),
            ("5 -t", 1, "-t -- 5"),
        ] {
            assert_eq!(sorted(line, wanted), meant, "{line}");
        }
    }

    proptest! {
        /// Whatever comes before `--` and is not exactly `-y` or `--yes` never confirms anything.
        #[test]
        fn yes_is_never_inferred(tokens in prop::collection::vec("-{0,1}[a-zA-Z0-9-]{0,6}", 0..6), wanted in 0usize..3) {
            let given = tokens.iter().any(|t| t == "-y" || t == "--yes");
            let sorted = sort(&tokens, Flags(OPTIONS), wanted);
            let options = sorted.iter().take_while(|t| *t != "--");
            let inferred = options.filter(|t| t.starts_with('-') && !t.starts_with("--") && !t.starts_with("-t"))
                .any(|t| t.contains('y'));
            prop_assert!(given || !inferred, "{:?}", sorted);
        }

        /// Nothing is lost and nothing is invented.
        #[test]
        fn every_token_stays(tokens in prop::collection::vec("-{0,2}[a-z=]{0,5}", 0..8), wanted in 0usize..3) {
            let mut sorted = sort(&tokens, Flags(OPTIONS), wanted);
            let mut tokens = tokens;
            tokens.retain(|t| t != "--");
            sorted.retain(|t| t != "--");
            tokens.sort();
            sorted.sort();
            prop_assert_eq!(tokens, sorted);
        }
    }
}
