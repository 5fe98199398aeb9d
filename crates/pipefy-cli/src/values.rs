//! From text on the command line to values.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::command::Shape;
use crate::failure::Failure;

/// Most bytes of a text file or of JSON read from a file or standard input.
const TEXT_LIMIT: u64 = 2 * 1024 * 1024;

/// A whole number: spaces around it, a sign, `_` between digits and a fraction of zeros are accepted
/// (` +1_000 `, `5.0`).
///
/// # Errors
/// What is wrong, without the value.
pub(crate) fn int(text: &str) -> Result<i64, String> {
    let wrong = || "must be a whole number".to_owned();
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = match rest.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        Some(_) => return Err(wrong()),
        None => rest,
    };
    let groups: Vec<&str> = digits.split('_').collect();
    if groups.iter().any(|group| group.is_empty() || !group.bytes().all(|b| b.is_ascii_digit())) {
        return Err(wrong());
    }
    format!("{sign}{}", groups.concat()).parse().map_err(|_| "is out of range".to_owned())
}

/// A finite decimal number; spaces around it are accepted.
///
/// # Errors
/// What is wrong, without the value.
pub(crate) fn float(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        Ok(number) if plain && number.is_finite() => Ok(number),
        _ => Err("must be a number".to_owned()),
    }
}

/// JSON text, `@<file>` or `-` for standard input; blank text is `None`.
///
/// # Errors
/// What is wrong and where, without the value.
pub(crate) fn json(text: &str, shape: Shape) -> Result<Option<Value>, String> {
    let read;
    let text = match text.trim() {
        "" => return Ok(None),
        "-" => {
            let mut input = String::new();
            std::io::stdin()
                .take(TEXT_LIMIT)
                .read_to_string(&mut input)
                .map_err(|error| format!("standard input cannot be read: {error}"))?;
            read = input;
            read.as_str()
        }
        text => match text.strip_prefix('@') {
            Some(path) => {
                read = text_file(path)?;
                read.as_str()
            }
            None => text,
        },
    };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        // serde_json's texts name what was expected, never the value.
        format!("is not valid JSON: {error}")
    })?;
    let fits = match shape {
        Shape::Object => value.is_object(),
        Shape::Array => value.is_array(),
        Shape::ObjectOrArray => value.is_object() || value.is_array(),
        Shape::Any => true,
    };
    match (fits, shape) {
        (true, _) => Ok(Some(value)),
        (false, Shape::Object) => Err("must be a JSON object".to_owned()),
        (false, Shape::Array) => Err("must be a JSON array".to_owned()),
        (false, _) => Err("must be a JSON object or array".to_owned()),
    }
}

/// The items between commas (and, with `spaces`, white space), trimmed, without empty ones.
pub(crate) fn items(text: &str, spaces: bool) -> Vec<String> {
    text.split(|c: char| c == ',' || (spaces && c.is_whitespace()))
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text of a UTF-8 file of at most 2 MiB; `~` at the start is the home directory.
///
/// # Errors
/// Unreadable, too big, not UTF-8, blank.
pub(crate) fn text_file(path: &str) -> Result<String, String> {
    let path = expand(path);
    let shown = path.display();
    let file = std::fs::File::open(&path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    file.take(TEXT_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if bytes.len() as u64 > TEXT_LIMIT {
        return Err(format!("{shown} is larger than 2 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    if text.trim().is_empty() {
        return Err(format!("{shown} is blank"));
    }
    Ok(text)
}

/// The text of a file that an argument names; `-` is standard input.
///
/// # Errors
/// It cannot be read, is larger than `limit` bytes, or is no UTF-8 text (exit code 2).
pub(crate) fn whole_file(path: &str, limit: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    match path {
        "-" => std::io::stdin().take(limit + 1).read_to_end(&mut bytes),
        path => std::fs::File::open(expand(path)).and_then(|opened| opened.take(limit + 1).read_to_end(&mut bytes)),
    }
    .map_err(|error| Failure::usage(format!("{path} cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::usage(format!("{path} is larger than {} MiB", limit >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{path} is not UTF-8 text")))
}

/// Looks whether the file that an argument names can be read, before anything is sent for it.
///
/// # Errors
/// It cannot, and why.
pub(crate) fn readable(args: &Map<String, Value>, name: &str, flag: &str) -> Result<(), Failure> {
    let path = args.get(name).and_then(Value::as_str).unwrap_or_default();
    match std::fs::File::open(expand(path)).and_then(|file| file.metadata()) {
        Ok(about) if about.is_dir() => Err(Failure::usage(format!("{flag} {path} is a folder"))),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("{flag} {path} cannot be read: {error}"))),
    }
}

/// A path with a leading `~` replaced by the home directory.
pub(crate) fn expand(path: &str) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => std::env::home_dir().unwrap_or_else(|| path.into()),
        Some(rest) if rest.starts_with('/') || (cfg!(windows) && rest.starts_with('\\')) => {
            match std::env::home_dir() {
                Some(home) => home.join(rest.trim_start_matches(['/', '\\'])),
                None => path.into(),
            }
        }
        _ => Path::new(path).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_are_read_as_people_write_them() {
        for (text, value) in [
            ("5", Some(5)),
            (" 7 ", Some(7)),
            ("+3", Some(3)),
            ("-4", Some(-4)),
            ("1_000", Some(1000)),
            ("5.0", Some(5)),
            ("5.000", Some(5)),
            ("5.5", None),
            ("5.", None),
            (".0", None),
            ("_5", None),
            ("5_", None),
            ("1__0", None),
            ("", None),
            ("-", None),
            ("--5", None),
            ("5e3", None),
            ("0x5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(int(text).ok(), value, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_finite_decimals() {
        for (text, value) in
            [("1.5", Some(1.5)), (" 2 ", Some(2.0)), ("1e3", Some(1000.0)), ("inf", None), ("nan", None), ("", None)]
        {
            assert_eq!(float(text).ok(), value, "{text:?}");
        }
    }

    #[test]
    fn json_has_the_shape_that_the_option_names() {
        assert_eq!(json("  ", Shape::Object), Ok(None));
        assert_eq!(json("{\"a\": 1}", Shape::Object), Ok(Some(json!({"a": 1}))));
        assert_eq!(json("[]", Shape::Object), Err("must be a JSON object".to_owned()));
        assert_eq!(json("{}", Shape::Array), Err("must be a JSON array".to_owned()));
        assert_eq!(json("1", Shape::ObjectOrArray), Err("must be a JSON object or array".to_owned()));
        assert_eq!(json("null", Shape::Any), Ok(Some(Value::Null)));
        let error = json("{\"a\": secret}", Shape::Object).unwrap_err();
        assert!(error.contains("line 1 column 7") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn lists_lose_their_empty_items() {
        assert_eq!(items(" 1, ,2,", false), ["1", "2"]);
        assert_eq!(items("1 2,3", false), ["1 2", "3"]);
        assert_eq!(items("1 2,3", true), ["1", "2", "3"]);
        assert!(items(" , ", true).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_an_error(text in ".{0,24}") {
            let _ = int(&text);
            let _ = float(&text);
        }

        #[test]
        fn every_number_survives_its_forms(number in any::<i64>(), zeros in 0usize..4) {
            let plain = number.to_string();
            prop_assert_eq!(int(&plain), Ok(number));
            let padded = format!("  {plain}{}", if zeros == 0 { String::new() } else { format!(".{}", "0".repeat(zeros)) });
            prop_assert_eq!(int(&padded), Ok(number));
        }

        #[test]
        fn digit_groups_do_not_change_the_number(groups in prop::collection::vec("[0-9]{1,3}", 1..5)) {
            prop_assert_eq!(int(&groups.join("_")), int(&groups.concat()));
        }
    }
}
