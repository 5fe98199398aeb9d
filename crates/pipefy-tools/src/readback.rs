//! Comparing what a call asked of Pipefy with what Pipefy shows afterwards (`verify`).

use jiff::Timestamp;
use pipefy::{Data, Error};
use serde_json::{Map, Value};

use crate::Verification;
use crate::error::NOT_FOUND_CODES;
use crate::outcome::dig;
use crate::plan::Plan;
use crate::tools::shared::{list_at, text_of};

/// What a read gave.
pub(crate) enum Found {
    /// The thing itself.
    Thing(Value),
    /// Pipefy answered that there is none.
    Nothing,
    /// It cannot be said: why the read failed.
    Unread(String),
}

/// The thing at a dotted path of an answer.
pub(crate) fn thing(answer: Result<Data, Error>, path: &str) -> Found {
    match answer {
        Ok(data) => match dig(&data.value(), path) {
            Some(found) if !found.is_null() => Found::Thing(found.clone()),
            _ => Found::Nothing,
        },
        Err(error) if NOT_FOUND_CODES.iter().any(|code| error.has_code(code)) => Found::Nothing,
        Err(error) => Found::Unread(error.to_string()),
    }
}

/// The item of a list, at a dotted path of an answer, that has this id under one of `keys`.
pub(crate) fn item(answer: Result<Data, Error>, path: &str, keys: &[&str], id: &str) -> Found {
    let data = match answer {
        Ok(data) => data.value(),
        Err(error) => return Found::Unread(error.to_string()),
    };
    // A parent that is not shown says nothing of what is in it.
    if !dig(&data, path).is_some_and(Value::is_array) {
        return Found::Unread("the place where it would be listed could not be read".to_owned());
    }
    let has = |item: &&Value| keys.iter().any(|key| text_of(item.get(*key)).as_deref() == Some(id));
    list_at(&data, path).iter().find(has).map_or(Found::Nothing, |found| Found::Thing(found.clone()))
}

impl Found {
    /// Whether what was created is there.
    pub(crate) fn there(self, what: &str) -> Verification {
        match self {
            Self::Thing(_) => Verification::of(true, format!("read the {what}")),
            Self::Nothing => Verification::of(false, format!("the {what} cannot be read")),
            Self::Unread(why) => Verification::unknown(why),
        }
    }

    /// Whether what was deleted is gone.
    pub(crate) fn gone(self, what: &str) -> Verification {
        match self {
            Self::Thing(_) => Verification::of(false, format!("the {what} can still be read")),
            Self::Nothing => Verification::of(true, format!("the {what} can no longer be read")),
            Self::Unread(why) => Verification::unknown(why),
        }
    }

    /// Whether it shows what the first mutation of the plan asked for. `renamed` gives the dotted path of an attribute that is
    /// shown under another name; an empty path leaves it out, as ids that only say where to write.
    pub(crate) fn matches<K>(self, plan: &Plan<K>, renamed: &[(&str, &str)]) -> Verification {
        self.shows(&asked(plan), renamed)
    }

    /// As [`Self::matches`], for attributes given.
    pub(crate) fn shows(self, asked: &Map<String, Value>, renamed: &[(&str, &str)]) -> Verification {
        match self {
            Self::Thing(shown) => compare(asked, &shown, renamed),
            Self::Nothing => Verification::of(false, "it cannot be read"),
            Self::Unread(why) => Verification::unknown(why),
        }
    }
}

/// The input of a plan's first mutation.
pub(crate) fn asked<K>(plan: &Plan<K>) -> Map<String, Value> {
    let input = plan.mutations().next().and_then(|mutation| mutation.operation().variables.get("input"));
    input.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Compares attribute by attribute and says which are as asked, which are not, and which no read shows.
pub(crate) fn compare(asked: &Map<String, Value>, shown: &Value, renamed: &[(&str, &str)]) -> Verification {
    let mut seen = Seen::default();
    for (name, wanted) in asked.iter().filter(|(name, _)| !matches!(name.as_str(), "id" | "uuid")) {
        let path = renamed.iter().find(|(from, _)| from == name).map_or(name.as_str(), |(_, to)| to);
        if path.is_empty() {
            continue;
        }
        seen.add(name, dig(shown, path).map_or(Agreement::Partly, |shown| agreement(wanted, shown)));
    }
    seen.verification()
}

/// Names by how what is shown agrees.
#[derive(Default)]
struct Seen<'n> {
    same: Vec<&'n str>,
    unseen: Vec<&'n str>,
    other: Vec<&'n str>,
}

impl<'n> Seen<'n> {
    fn add(&mut self, name: &'n str, agreement: Agreement) {
        match agreement {
            Agreement::Same => self.same.push(name),
            Agreement::Partly => self.unseen.push(name),
            Agreement::Different => self.other.push(name),
        }
    }

    fn verification(self) -> Verification {
        let listed = |names: &[&str]| names.join(", ");
        match (self.same.as_slice(), self.unseen.as_slice(), self.other.as_slice()) {
            ([], [], []) => Verification::unknown("there was nothing to compare"),
            (same, [], []) => Verification::of(true, format!("compared {}", listed(same))),
            ([], unseen, []) => Verification::unknown(format!("no read shows {}", listed(unseen))),
            (same, unseen, []) => {
                Verification::unknown(format!("{} as asked; no read shows {}", listed(same), listed(unseen)))
            }
            (_, _, other) => Verification::of(false, format!("shown otherwise than asked: {}", listed(other))),
        }
    }
}

/// A field value as it was sent.
pub(crate) struct Sent<'a> {
    /// Slug, uuid or internal id of the field.
    pub(crate) field: &'a str,
    pub(crate) value: &'a Value,
    /// `ADD`, `REMOVE` or `REPLACE`.
    pub(crate) operation: &'a str,
}

/// Whether the fields of a card or record, a list at a dotted path of an answer, show what was sent. Empty fields are not listed.
pub(crate) fn values<'a>(
    answer: Result<Data, Error>,
    path: &str,
    sent: impl Iterator<Item = Sent<'a>>,
) -> Verification {
    let data = match answer {
        Ok(data) => data.value(),
        Err(error) => return Verification::unknown(error.to_string()),
    };
    if !dig(&data, path).is_some_and(Value::is_array) {
        return Verification::unknown("the fields could not be read");
    }
    let fields = list_at(&data, path);
    let mut seen = Seen::default();
    for one in sent {
        let shown = fields.iter().find(|entry| is_of(entry, one.field)).map_or(Value::Null, shown_value);
        seen.add(one.field, value_agreement(&one, &shown));
    }
    seen.verification()
}

/// Whether a field shows a file of this name: files are shown as signed addresses.
pub(crate) fn holds_file(answer: Result<Data, Error>, path: &str, field: &str, name: &str) -> Verification {
    let holds = |value: &Value| {
        let urls = match value {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            value => Vec::from_iter(value.as_str()),
        };
        urls.iter().any(|url| percent_encoding::percent_decode_str(url).decode_utf8_lossy().contains(name))
    };
    match answer {
        Ok(data) => {
            let data = data.value();
            let shown = list_at(&data, path).iter().find(|entry| is_of(entry, field)).map(shown_value);
            match shown {
                Some(shown) if holds(&shown) => Verification::of(true, "the field holds a file of this name"),
                _ => Verification::of(false, "the field holds no file of this name"),
            }
        }
        Err(error) => Verification::unknown(error.to_string()),
    }
}

/// Whether an entry of a card or record is that of the field.
fn is_of(entry: &Value, field: &str) -> bool {
    let keys = ["id", "uuid", "internal_id"];
    keys.iter().any(|key| text_of(entry.get("field").and_then(|field| field.get(key))).as_deref() == Some(field))
}

/// Lists are best told by `array_value`, everything else by `value`.
fn shown_value(entry: &Value) -> Value {
    match entry.get("array_value") {
        Some(list @ Value::Array(_)) => list.clone(),
        _ => entry.get("value").cloned().unwrap_or_default(),
    }
}

fn value_agreement(sent: &Sent<'_>, shown: &Value) -> Agreement {
    let items = |value: &Value| match value {
        Value::Array(list) => list.clone(),
        value if is_empty(value) => Vec::new(),
        value => vec![value.clone()],
    };
    let (asked, shown) = (items(sent.value), items(shown));
    let holds = |wanted: &Value| shown.iter().any(|shown| is_item(wanted, shown));
    let same = match sent.operation {
        "ADD" => asked.iter().all(holds),
        "REMOVE" => !asked.iter().any(holds),
        _ => asked.len() == shown.len() && asked.iter().all(holds),
    };
    match same {
        true => Agreement::Same,
        // Pipefy shows some ids as names and some dates as people write them: then nothing can be said.
        false if asked.iter().any(|wanted| shown.iter().any(|shown| is_dressed(wanted, shown))) => Agreement::Partly,
        false => Agreement::Different,
    }
}

fn is_item(wanted: &Value, shown: &Value) -> bool {
    let path = wanted.as_str().filter(|path| path.starts_with("orgs/"));
    agreement(wanted, shown) == Agreement::Same
        // Attachments are shown as signed addresses of what was stored.
        || path.zip(shown.as_str()).is_some_and(|(path, url)| {
            percent_encoding::percent_decode_str(url).decode_utf8_lossy().contains(path)
        })
}

fn is_dressed(wanted: &Value, shown: &Value) -> bool {
    let Some((wanted, shown)) = text_of(Some(wanted)).zip(text_of(Some(shown))) else { return true };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let dated = |text: &str| is_day(text) || text.parse::<Timestamp>().is_ok();
    (digits(&wanted) && !digits(&shown) && shown.parse::<f64>().is_err()) || (dated(&wanted) && !dated(&shown))
}

/// How an asked value and a shown one agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    Same,
    /// What is shown is the same, but not all that was asked for is shown.
    Partly,
    Different,
}

/// Whether a value is shown as it was asked for. Pipefy shows numbers as text, ids as things with an id, objects as their JSON
/// text, times in another zone, and what is empty as null.
pub(crate) fn agreement(asked: &Value, shown: &Value) -> Agreement {
    let of = |same: bool| if same { Agreement::Same } else { Agreement::Different };
    if is_empty(asked) || is_empty(shown) {
        // A switch that is off may be shown as nothing.
        return of(is_empty(shown) && (is_empty(asked) || *asked == Value::Bool(false)));
    }
    match (asked, shown) {
        (Value::Object(asked), Value::Object(shown)) => {
            let each = asked.iter().map(|(key, wanted)| match shown.get(key) {
                Some(shown) => agreement(wanted, shown),
                None if wanted.is_null() => Agreement::Same,
                None => Agreement::Partly,
            });
            worst(each)
        }
        (Value::Array(asked), Value::Array(shown)) => {
            if asked.len() != shown.len() {
                return Agreement::Different;
            }
            // Lists of ids come back in an order of Pipefy's own.
            let best = |wanted: &Value| {
                let found = shown.iter().map(|shown| agreement(wanted, shown));
                found.min_by_key(|found| rank(*found)).unwrap_or(Agreement::Different)
            };
            worst(asked.iter().map(best))
        }
        (Value::Object(_) | Value::Array(_), Value::String(text)) => {
            serde_json::from_str(text).map_or(Agreement::Different, |shown: Value| agreement(asked, &shown))
        }
        (Value::String(text), Value::Object(shown)) if !shown.contains_key("id") => serde_json::from_str(text)
            .map_or(Agreement::Different, |asked: Value| agreement(&asked, &Value::Object(shown.clone()))),
        (Value::String(_) | Value::Number(_), Value::Object(shown)) => {
            of(text_of(Some(asked)) == text_of(shown.get("id")))
        }
        (Value::Bool(asked), Value::Bool(shown)) => of(asked == shown),
        _ => match (text_of(Some(asked)), text_of(Some(shown))) {
            (Some(asked), Some(shown)) => of(same_text(asked.trim(), shown.trim())),
            _ => Agreement::Different,
        },
    }
}

fn rank(agreement: Agreement) -> u8 {
    match agreement {
        Agreement::Same => 0,
        Agreement::Partly => 1,
        Agreement::Different => 2,
    }
}

fn worst(each: impl Iterator<Item = Agreement>) -> Agreement {
    each.max_by_key(|one| rank(*one)).unwrap_or(Agreement::Same)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn same_text(asked: &str, shown: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let instant = |text: &str| text.parse::<Timestamp>().ok();
    asked == shown
        || number(asked).zip(number(shown)).is_some_and(|(asked, shown)| asked == shown)
        || instant(asked).zip(instant(shown)).is_some_and(|(asked, shown)| asked == shown)
        || (asked.starts_with('#') && asked.eq_ignore_ascii_case(shown))
        // A day that was asked for is shown with a time of day.
        || (is_day(asked) && shown.strip_prefix(asked).is_some_and(|rest| rest.starts_with('T')))
}

fn is_day(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn values_agree_in_the_forms_pipefy_shows_them() {
        for (asked, shown) in [
            (json!("a "), json!("a")),
            (json!(5), json!("5.0")),
            (json!("2026-12-01"), json!("2026-12-01T00:00:00Z")),
            (json!("2026-12-01T09:00:00-03:00"), json!("2026-12-01T12:00:00Z")),
            (json!(["2", "1"]), json!([{"id": 1, "name": "a"}, {"id": "2", "name": "b"}])),
            (json!([]), Value::Null),
            (json!(""), Value::Null),
            (json!("{\"a\": 1}"), json!({"a": 1})),
            (json!({"a": "1"}), json!({"a": 1, "b": 2})),
            (json!({"a": [1]}), json!("{\"a\":[1]}")),
            (json!(true), json!(true)),
        ] {
            assert_eq!(agreement(&asked, &shown), Agreement::Same, "{asked} {shown}");
        }
        for (asked, shown) in [
            (json!("a"), json!("b")),
            (json!("a"), Value::Null),
            (Value::Null, json!("a")),
            (json!(["1"]), json!([{"id": "1"}, {"id": "2"}])),
            (json!(["1"]), json!([{"id": "2"}])),
            (json!(true), json!(false)),
            (json!({"a": 1}), json!({"a": 2})),
            (json!("2026-12-01"), json!("2026-12-02T00:00:00Z")),
            (json!({"a": 1}), json!("not json")),
        ] {
            assert_eq!(agreement(&asked, &shown), Agreement::Different, "{asked} {shown}");
        }
        assert_eq!(agreement(&json!({"a": 1, "b": 2}), &json!({"a": 1})), Agreement::Partly);
    }

    #[test]
    fn field_values_are_compared_by_what_was_done_with_them() {
        let sent = |value: Value, operation: &'static str, shown: Value| {
            value_agreement(&Sent { field: "f", value: &value, operation }, &shown)
        };
        for (value, operation, shown) in [
            (json!("x"), "REPLACE", json!("x")),
            (json!("x"), "REPLACE", json!(["x"])),
            (json!(["1", 2]), "REPLACE", json!(["2", "1"])),
            (Value::Null, "REPLACE", Value::Null),
            (json!([]), "REPLACE", Value::Null),
            (json!(["1"]), "ADD", json!(["3", "1"])),
            (json!("1"), "REMOVE", json!(["3"])),
            (json!(["orgs/1/a b.pdf"]), "REPLACE", json!(["https://s.example/orgs/1/a%20b.pdf?sig=1"])),
        ] {
            assert_eq!(sent(value.clone(), operation, shown), Agreement::Same, "{value} {operation}");
        }
        for (value, operation, shown) in [
            (json!("x"), "REPLACE", json!("y")),
            (json!(["1"]), "REPLACE", json!(["1", "2"])),
            (json!(["1"]), "ADD", json!(["2"])),
            (json!(["1"]), "REMOVE", json!(["1", "2"])),
            (Value::Null, "REPLACE", json!("still here")),
        ] {
            assert_eq!(sent(value.clone(), operation, shown), Agreement::Different, "{value} {operation}");
        }
        // Names for ids, and dates in another dress, say nothing.
        assert_eq!(sent(json!(["7"]), "REPLACE", json!(["Bruno Lima"])), Agreement::Partly);
        assert_eq!(sent(json!("2026-12-01"), "REPLACE", json!("01/12/2026")), Agreement::Partly);
    }

    #[test]
    fn only_what_was_read_is_called_verified() {
        let asked = |value: Value| value.as_object().unwrap().clone();
        let shown = json!({"name": "N", "color": "red", "field": {"id": 7}});
        let all = compare(&asked(json!({"id": 1, "name": "N", "fieldId": "7"})), &shown, &[("fieldId", "field.id")]);
        assert_eq!((all.verified, all.note.as_str()), (Some(true), "compared name, fieldId"));
        let some = compare(&asked(json!({"name": "N", "secret": 1})), &shown, &[]);
        assert_eq!(some.verified, None);
        assert!(some.note.contains("name as asked") && some.note.contains("secret"), "{}", some.note);
        let none = compare(&asked(json!({"secret": 1, "pipe_id": 2})), &shown, &[("pipe_id", "")]);
        assert_eq!((none.verified, none.note.as_str()), (None, "no read shows secret"));
        let wrong = compare(&asked(json!({"name": "M", "secret": 1})), &shown, &[]);
        assert_eq!((wrong.verified, wrong.note.contains("name")), (Some(false), true));
    }
}
