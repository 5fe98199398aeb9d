//! From a value as found to a typed one. Every error is a rule, never the value.

use secrecy::SecretString;

use super::layers::Raw;

/// What a value must be, as the part of a sentence after the setting's name.
pub(super) type Rule = String;

const TEXT_RULE: &str = "must be text (put a number in quotes)";
const SWITCH_RULE: &str = "must be true or false (also 1/0, yes/no, y/n, t/f, on/off)";

/// Reminds of the difference between empty and unset.
fn or_unset(text: &str, rule: impl Into<String>) -> Rule {
    let rule = rule.into();
    if text.trim().is_empty() { format!("{rule}; it is set but empty, unset it to use the default") } else { rule }
}

/// Text as it is.
pub(super) fn text(raw: &Raw) -> Result<String, Rule> {
    match raw {
        Raw::Text(text) | Raw::Toml(toml::Value::String(text)) => Ok(text.clone()),
        Raw::Toml(_) => Err(TEXT_RULE.to_owned()),
    }
}

/// Trimmed text.
pub(super) fn trimmed(raw: &Raw) -> Result<String, Rule> {
    Ok(text(raw)?.trim().to_owned())
}

/// An opaque credential: trimmed, not empty, one line.
pub(super) fn opaque(raw: &Raw) -> Result<String, Rule> {
    let value = trimmed(raw)?;
    if value.is_empty() {
        return Err(or_unset("", "must not be empty"));
    }
    if value.contains(['\n', '\r']) {
        return Err("must be one line".to_owned());
    }
    Ok(value)
}

/// An opaque credential that is never shown.
pub(super) fn secret(raw: &Raw) -> Result<SecretString, Rule> {
    opaque(raw).map(SecretString::from)
}

/// A key for signing: an opaque secret of at least 32 characters.
pub(super) fn key(raw: &Raw) -> Result<SecretString, Rule> {
    let value = opaque(raw)?;
    if value.chars().count() < 32 {
        return Err("must have at least 32 characters; `openssl rand -base64 32` makes a good one".to_owned());
    }
    Ok(value.into())
}

/// What a word means as a switch: `true`, `1`, `yes`, `y`, `t`, `on` or `false`, `0`, `no`, `n`, `f`, `off`, in any case and
/// with blanks around it. Nothing when it is none of them.
pub fn switch_word(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

/// `true`/`false` and their words; in TOML also booleans and the integers 0 and 1.
pub(super) fn switch(raw: &Raw) -> Result<bool, Rule> {
    let word = match raw {
        Raw::Text(text) | Raw::Toml(toml::Value::String(text)) => text,
        Raw::Toml(toml::Value::Boolean(on)) => return Ok(*on),
        Raw::Toml(toml::Value::Integer(0)) => return Ok(false),
        Raw::Toml(toml::Value::Integer(1)) => return Ok(true),
        Raw::Toml(_) => return Err(SWITCH_RULE.to_owned()),
    };
    switch_word(word).ok_or_else(|| or_unset(word, SWITCH_RULE))
}

/// A whole number within `range`; `8.0` and surrounding blanks are fine.
pub(super) fn integer(raw: &Raw, range: std::ops::RangeInclusive<i64>) -> Result<i64, Rule> {
    let rule = || format!("must be a whole number from {} to {}", range.start(), range.end());
    let value = match raw {
        Raw::Text(text) | Raw::Toml(toml::Value::String(text)) => {
            integral(text.trim()).ok_or_else(|| or_unset(text, rule()))?
        }
        Raw::Toml(toml::Value::Integer(value)) => *value,
        Raw::Toml(toml::Value::Float(value)) => integral(&value.to_string()).ok_or_else(rule)?,
        Raw::Toml(_) => return Err(rule()),
    };
    if range.contains(&value) { Ok(value) } else { Err(rule()) }
}

fn integral(text: &str) -> Option<i64> {
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.chars().all(|c| c == '0') => whole,
        Some(_) => return None,
        None => text,
    };
    whole.parse().ok()
}

/// A decimal number within `range`.
pub(super) fn number(raw: &Raw, range: std::ops::RangeInclusive<f64>) -> Result<f64, Rule> {
    let rule = || format!("must be a number from {} to {}", range.start(), range.end());
    let value = match raw {
        Raw::Text(text) | Raw::Toml(toml::Value::String(text)) => {
            text.trim().parse().map_err(|_| or_unset(text, rule()))?
        }
        #[allow(clippy::cast_precision_loss)]
        Raw::Toml(toml::Value::Integer(value)) => *value as f64,
        Raw::Toml(toml::Value::Float(value)) => *value,
        Raw::Toml(_) => return Err(rule()),
    };
    // NaN is in no range.
    if range.contains(&value) { Ok(value) } else { Err(rule()) }
}

/// A list of texts: a JSON array, or `a,b`. Entries are trimmed; a blank one is an error. `null` and blank text mean
/// unset, `[]` is an empty list. In TOML an array of strings (or integers), or text as above.
pub(super) fn list(raw: &Raw) -> Result<Option<Vec<String>>, Rule> {
    const RULE: &str = "must be a list: [\"a\", \"b\"] or a,b";
    let entries: Vec<String> = match raw {
        Raw::Text(text) | Raw::Toml(toml::Value::String(text)) => match text.trim() {
            "" | "null" => return Ok(None),
            json if json.starts_with(['[', '{', '"']) => match serde_json::from_str(json) {
                Ok(entries) => entries,
                Err(_) => return Err(RULE.to_owned()),
            },
            bare => bare.split(',').map(str::to_owned).collect(),
        },
        Raw::Toml(toml::Value::Array(items)) => items
            .iter()
            .map(|item| match item {
                toml::Value::String(text) => Ok(text.clone()),
                toml::Value::Integer(number) => Ok(number.to_string()),
                _ => Err(RULE.to_owned()),
            })
            .collect::<Result<_, _>>()?,
        Raw::Toml(_) => return Err(RULE.to_owned()),
    };
    let entries: Vec<String> = entries.iter().map(|entry| entry.trim().to_owned()).collect();
    if entries.iter().any(String::is_empty) {
        return Err("must not have a blank entry".to_owned());
    }
    Ok(Some(entries))
}

/// Scope names (RFC 6749 section 3.3): they travel in headers and space-separated lists, so nothing else fits.
pub(super) fn scopes(entries: Vec<String>) -> Result<Vec<String>, Rule> {
    let fits = |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    if entries.iter().all(fits) {
        return Ok(entries);
    }
    Err("must be scope names: printable ASCII without spaces, quotes and backslashes".to_owned())
}

/// Ids that pin a scope. Anything set must name at least one: an empty pin would read as "no limit". JSON arrays may
/// hold numbers.
pub(super) fn ids(raw: &Raw) -> Result<Vec<String>, Rule> {
    const RULE: &str = "must name at least one id; unset it for no limit";
    let raw = match raw {
        Raw::Text(text) if text.trim().starts_with('[') => {
            match serde_json::from_str::<Vec<serde_json::Value>>(text.trim()) {
                Ok(items) => {
                    let items = items.iter().map(|item| match item {
                        serde_json::Value::String(text) => toml::Value::String(text.clone()),
                        serde_json::Value::Number(number) => toml::Value::String(number.to_string()),
                        _ => toml::Value::Boolean(false),
                    });
                    &Raw::Toml(toml::Value::Array(items.collect()))
                }
                Err(_) => raw,
            }
        }
        Raw::Toml(toml::Value::Integer(number)) => &Raw::Text(number.to_string()),
        raw => raw,
    };
    match list(raw)? {
        Some(ids) if !ids.is_empty() => {
            if ids.iter().all(|id| is_id(id)) {
                Ok(ids)
            } else {
                Err("must hold ids: letters, digits, '-' and '_'".to_owned())
            }
        }
        _ => Err(RULE.to_owned()),
    }
}

/// One id that pins a scope.
pub(super) fn one_id(raw: &Raw) -> Result<String, Rule> {
    let mut ids = ids(raw)?;
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok(id),
        _ => Err("must be one id".to_owned()),
    }
}

fn is_id(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Text that holds a comma list of names, kept as text. Blank text means unset; a list without a name is none. In TOML also
/// an array of strings.
pub(super) fn names(raw: &Raw) -> Result<Option<String>, Rule> {
    let text = match raw {
        Raw::Toml(toml::Value::Array(_)) => list(raw)?.unwrap_or_default().join(",") + ",",
        raw => text(raw)?,
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    match names.is_empty() {
        true => Err("must name at least one; unset it for all".to_owned()),
        false => Ok(Some(names.join(","))),
    }
}

/// How a word is compared with the choices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Upper,
    Lower,
}

/// One of a few words.
pub(super) fn choice<T: Copy>(raw: &Raw, case: Case, choices: &[(&'static str, T)]) -> Result<T, Rule> {
    let value = text(raw)?;
    let value = match case {
        Case::Exact => value,
        Case::Upper => value.trim().to_ascii_uppercase(),
        Case::Lower => value.trim().to_ascii_lowercase(),
    };
    let found = choices.iter().find(|(word, _)| *word == value);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        or_unset(&value, format!("must be one of {}", words.join(", ")))
    })
}
