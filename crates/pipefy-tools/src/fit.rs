//! Results within a size: what does not fit is left out and can be asked for in parts, which put together give the whole.

use serde_json::{Map, Value, json};

use crate::trust;

/// Less room than this is not worth sharing out.
const LEAST: usize = 96;

/// Something that was left out of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// JSON pointer (RFC 6901) of the list, text or object in the whole value.
    pub path: String,
    /// How many of its items, characters or keys are there: the rest begins here.
    pub kept: usize,
    /// How many it has.
    pub total: usize,
}

impl Cut {
    /// As results show it.
    pub(crate) fn shown(&self) -> Value {
        json!({ "path": self.path, "kept": self.kept, "total": self.total })
    }
}

/// The part of a result that a call asks for with `rest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// As [`Cut::path`].
    pub path: String,
    /// The first item, character or key that is wanted.
    pub from: usize,
}

impl Rest {
    /// Reads the option; `None` when it has not the form `{path, from}`.
    pub(crate) fn read(option: &Value) -> Option<Self> {
        let path = option.get("path")?.as_str()?.to_owned();
        let from = usize::try_from(option.get("from").map_or(Some(0), Value::as_u64)?).ok()?;
        Some(Self { path, from })
    }

    /// That part of `value`, within `room` bytes where that is possible; `None` when there is nothing at its path.
    pub(crate) fn of(&self, value: &Value, room: usize) -> Option<(Value, Vec<Cut>)> {
        let mut cuts = Vec::new();
        let Self { path, from } = self;
        let inner = room.saturating_sub(path.len() + 80);
        let (kind, total, part) = match value.pointer(path)? {
            Value::Array(list) => {
                let items = list.get(*from..)?.to_vec();
                ("items", list.len(), items_within(items, inner, path, *from, list.len(), &mut cuts))
            }
            Value::String(text) => {
                let total = text.chars().count();
                let wanted: String = text.chars().skip(*from).collect();
                ("text", total, text_within(&wanted, inner, path, *from, total, &mut cuts))
            }
            Value::Object(map) => {
                let entries: Map<String, Value> = map.iter().skip(*from).map(|(k, v)| (k.clone(), v.clone())).collect();
                ("keys", map.len(), keys_within(entries, inner, path, *from, map.len(), &mut cuts))
            }
            _ => return None,
        };
        Some((json!({ "path": path, "from": from, "total": total, kind: part }), cuts))
    }
}

/// `value` within `room` bytes of compact JSON, where lists, texts and objects allow it, and what was left out. Small things
/// stay whole; the room that is left is shared among the large ones.
pub(crate) fn within(value: Value, room: usize) -> (Value, Vec<Cut>) {
    let mut cuts = Vec::new();
    (shrink(value, room, "", &mut cuts), cuts)
}

fn shrink(value: Value, room: usize, path: &str, cuts: &mut Vec<Cut>) -> Value {
    if size(&value) <= room {
        return value;
    }
    match value {
        Value::Array(list) => {
            let total = list.len();
            items_within(list, room, path, 0, total, cuts)
        }
        Value::String(text) => text_within(&text, room, path, 0, text.chars().count(), cuts),
        Value::Object(map) => {
            let total = map.len();
            keys_within(map, room, path, 0, total, cuts)
        }
        scalar => scalar,
    }
}

/// Whole items as long as they fit; a first one that does not is shrunk itself.
fn items_within(list: Vec<Value>, room: usize, path: &str, from: usize, total: usize, cuts: &mut Vec<Cut>) -> Value {
    let mut left = room.saturating_sub(2);
    let mut kept = Vec::new();
    for item in list {
        let needed = size(&item) + 1;
        if needed <= left {
            left -= needed;
            kept.push(item);
            continue;
        }
        if kept.is_empty() && left >= LEAST {
            kept.push(shrink(item, left - 1, &format!("{path}/{from}"), cuts));
        }
        break;
    }
    note(path, from + kept.len(), total, cuts);
    kept.into()
}

fn text_within(text: &str, room: usize, path: &str, from: usize, total: usize, cuts: &mut Vec<Cut>) -> Value {
    let mut left = room.saturating_sub(2);
    let mut kept = String::new();
    let mut count = from;
    for c in text.chars() {
        let needed = match c {
            '"' | '\\' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if needed > left {
            break;
        }
        left -= needed;
        kept.push(c);
        count += 1;
    }
    let torn = trust::torn(&kept, text.get(kept.len()..).unwrap_or_default());
    // A part that is nothing but the beginning of a mark stays: each part must bring the caller on.
    if torn < kept.len() {
        let whole = kept.len() - torn;
        count -= kept.get(whole..).unwrap_or_default().chars().count();
        kept.truncate(whole);
    }
    note(path, count, total, cuts);
    kept.into()
}

/// The first keys for which there is room; each gets what it needs or an equal share of what the smaller ones leave.
fn keys_within(
    map: Map<String, Value>,
    room: usize,
    path: &str,
    from: usize,
    total: usize,
    cuts: &mut Vec<Cut>,
) -> Value {
    let mut left = room.saturating_sub(2);
    let mut entries: Vec<(String, Value, usize)> = Vec::new();
    let mut least = 0;
    for (key, value) in map {
        let needed = size(&value);
        let name = Value::from(key.as_str()).to_string().len() + 2;
        if least + name + needed.min(LEAST) > left {
            break;
        }
        least += name + needed.min(LEAST);
        entries.push((key, value, needed));
    }
    let names: usize = entries.iter().map(|(key, ..)| Value::from(key.as_str()).to_string().len() + 2).sum();
    left = left.saturating_sub(names);
    let mut order: Vec<usize> = entries.iter().map(|(.., needed)| *needed).collect();
    order.sort_unstable();
    // What the large ones get: the room after the small ones, in equal shares.
    let mut share = usize::MAX;
    let mut remaining = left;
    for (index, needed) in order.iter().enumerate() {
        let equal = remaining / (order.len() - index).max(1);
        if *needed > equal {
            share = equal;
            break;
        }
        remaining -= needed;
    }
    note(path, from + entries.len(), total, cuts);
    entries
        .into_iter()
        .map(|(key, value, _)| {
            let below = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            let value = shrink(value, share, &below, cuts);
            (key, value)
        })
        .collect::<Map<_, _>>()
        .into()
}

fn note(path: &str, kept: usize, total: usize, cuts: &mut Vec<Cut>) {
    if kept < total {
        cuts.push(Cut { path: path.to_owned(), kept, total });
    }
}

/// Bytes of the compact JSON.
pub(crate) fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    /// Puts the parts of `whole` together, as a caller does that asks for each rest.
    pub(crate) fn put_together(first: Value, cuts: Vec<Cut>, ask: &mut dyn FnMut(&Rest) -> (Value, Vec<Cut>)) -> Value {
        let mut value = first;
        let mut open = cuts;
        for round in 0.. {
            assert!(round < 100_000, "the rest never ends");
            // Deeper ones first: what follows an item in its list comes after the item is whole.
            let Some(at) =
                open.iter().enumerate().max_by_key(|(_, cut)| cut.path.matches('/').count()).map(|(at, _)| at)
            else {
                break;
            };
            let cut = open.swap_remove(at);
            let (part, more) = ask(&Rest { path: cut.path.clone(), from: cut.kept });
            assert_eq!(
                (&part["path"], &part["from"], &part["total"]),
                (&json!(cut.path), &json!(cut.kept), &json!(cut.total))
            );
            match value.pointer_mut(&cut.path).unwrap() {
                Value::Array(list) => list.extend(part["items"].as_array().unwrap().clone()),
                Value::String(text) => text.push_str(part["text"].as_str().unwrap()),
                Value::Object(map) => map.extend(part["keys"].as_object().unwrap().clone()),
                other => panic!("{other}"),
            }
            open.extend(more);
        }
        value
    }

    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,300}".prop_map(Value::from),
            "[\"\\\\\n\u{1}a]{0,60}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 120, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::btree_map("[a-z/~.]{0,6}", inner, 0..12)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parts_put_together_are_the_whole(whole in any_value(), room in 400usize..3_000) {
            let (first, cuts) = within(whole.clone(), room);
            prop_assert!(size(&first) <= room, "{} > {room}", size(&first));
            let mut too_large = 0;
            let again = put_together(first, cuts, &mut |rest| {
                let (part, cuts) = rest.of(&whole, room).unwrap();
                too_large += usize::from(size(&part) > room);
                (part, cuts)
            });
            prop_assert_eq!(again, whole);
            prop_assert_eq!(too_large, 0);
        }
    }

    #[test]
    fn small_things_stay_and_large_ones_share() {
        let whole = json!({"id": "1", "a": "x".repeat(1_000), "b": vec!["y".repeat(90); 20], "last": true});
        let (first, cuts) = within(whole, 700);
        assert_eq!((&first["id"], &first["last"]), (&json!("1"), &json!(true)));
        let text = first["a"].as_str().unwrap().len();
        let list = first["b"].as_array().unwrap().len();
        assert!(text > 250 && list >= 3, "{text} {list}");
        assert_eq!(
            cuts,
            [Cut { path: "/a".into(), kept: text, total: 1_000 }, Cut { path: "/b".into(), kept: list, total: 20 },]
        );
    }

    #[test]
    fn nothing_at_a_path_is_no_part() {
        let value = json!({"a": [1]});
        for (path, from) in [("/b", 0), ("/a/0", 0), ("/a", 2), ("a", 0)] {
            assert_eq!(Rest { path: path.into(), from }.of(&value, 500), None, "{path}");
        }
    }
}
