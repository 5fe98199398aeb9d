//! The things that a result is about: for `--format csv`, `table` and `ids`.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Wrappers around the things are at most this deep (`data`, `cards`, `edges`).
const DEPTH: usize = 4;

/// A list's elements, wherever in the result the list is; else the one thing in its wrappers. Where they only group what the
/// command is about (`nouns`: organizations and their `pipes`), that is meant, and the group is a column; the same with the one
/// thing that has it (a phase and its `cards`).
pub(crate) fn things<'v>(value: &'v Value, nouns: &[String]) -> Vec<Cow<'v, Value>> {
    let Some((list, key)) = listed(value, DEPTH, "") else {
        let one = single(value);
        let inner = inside(one, nouns).unwrap_or_else(|| vec![one]);
        return inner.into_iter().map(Cow::Borrowed).collect();
    };
    let is_meant = nouns.iter().any(|noun| noun == key);
    if is_meant || list.is_empty() || !list.iter().all(|item| inside(item, nouns).is_some()) {
        return list.into_iter().map(Cow::Borrowed).collect();
    }
    let group = key.strip_suffix('s').unwrap_or(key);
    let inner = |outer: &'v Value| {
        let name = outer.get("name").or_else(|| outer.get("id")).cloned();
        inside(outer, nouns).unwrap_or_default().into_iter().map(move |item| match (item, &name) {
            (Value::Object(map), Some(name)) if !map.contains_key(group) => {
                let mut map = map.clone();
                map.insert(group.to_owned(), name.clone());
                Cow::Owned(Value::Object(map))
            }
            _ => Cow::Borrowed(item),
        })
    };
    list.into_iter().flat_map(inner).collect()
}

/// The elements of the first list of this thing that has one of the names.
fn inside<'v>(thing: &'v Value, nouns: &[String]) -> Option<Vec<&'v Value>> {
    let list = |value: &'v Value| match value {
        Value::Array(items) => Some(items),
        value => ["edges", "nodes"].iter().find_map(|key| value.get(*key)?.as_array()),
    };
    let found = nouns.iter().find_map(|noun| list(thing.get(noun)?));
    found.map(|items| items.iter().map(node).collect())
}

/// Whether a result is about one thing and not about a list.
pub(crate) fn is_single(value: &Value, nouns: &[String]) -> bool {
    listed(value, DEPTH, "").is_none() && inside(single(value), nouns).is_none()
}

/// The elements of the only list that is not inside a thing, and the key that it is under.
fn listed<'v>(value: &'v Value, depth: usize, key: &'v str) -> Option<(Vec<&'v Value>, &'v str)> {
    let map = match value {
        Value::Array(items) => return Some((items.iter().map(node).collect(), key)),
        Value::Object(map) if depth > 0 && id_of(value).is_none() => map,
        _ => return None,
    };
    for connection in ["edges", "nodes"] {
        if let Some(Value::Array(items)) = map.get(connection) {
            return Some((items.iter().map(node).collect(), key));
        }
    }
    let mut lists = map.iter().filter_map(|(key, value)| listed(value, depth - 1, key));
    lists.next().filter(|_| lists.next().is_none())
}

/// An edge's node; anything else is itself.
fn node(item: &Value) -> &Value {
    item.get("node").filter(|node| node.is_object()).unwrap_or(item)
}

fn single(value: &Value) -> &Value {
    let mut value = value;
    for _ in 0..DEPTH {
        let Value::Object(map) = value else { break };
        let mut inner = map.values().filter(|value| value.is_object());
        match (inner.next(), inner.next()) {
            (Some(only), None) if id_of(value).is_none() => value = only,
            _ => break,
        }
    }
    value
}

/// How commands take the thing: its `id`, else its `uuid`.
pub(crate) fn id_of(thing: &Value) -> Option<String> {
    ["id", "uuid"].iter().find_map(|key| match thing.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Objects inside become columns of their own (`current_phase.name`), and so do the values of fields by their names; other
/// lists stay values.
pub(crate) fn flat(thing: &Value) -> Value {
    let mut flat = Map::new();
    match thing {
        Value::Object(map) => flatten("", map, &mut flat),
        scalar => {
            flat.insert("value".to_owned(), scalar.clone());
        }
    }
    Value::Object(flat)
}

fn flatten(prefix: &str, map: &Map<String, Value>, into: &mut Map<String, Value>) {
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(&name, inner, into),
            Value::Array(items) if !items.is_empty() && items.iter().all(|item| named(item).is_some()) => {
                for (field, value) in items.iter().filter_map(named) {
                    // A field may be called as a column of the thing itself is.
                    let column = if into.contains_key(field) { format!("{name}.{field}") } else { field.to_owned() };
                    into.entry(column).or_insert_with(|| value.clone());
                }
            }
            value => {
                into.insert(name, value.clone());
            }
        }
    }
}

/// The name and value of a field as Pipefy shows it on a card or record.
fn named(item: &Value) -> Option<(&str, &Value)> {
    let map = item.as_object().filter(|map| map.len() == 2)?;
    Some((map.get("name")?.as_str()?, map.get("value")?))
}

/// Whether the API said that there are more.
pub(crate) fn has_more(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            let said = ["hasNextPage", "has_more"].iter().any(|key| map.get(*key) == Some(&Value::Bool(true)));
            said || map.values().filter(|value| value.is_object()).any(has_more)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn nouns(noun: &str) -> Vec<String> {
        vec![noun.to_owned()]
    }

    #[test]
    fn a_result_is_about_its_list_or_its_one_thing() {
        let ids = |value: &Value| things(value, &[]).iter().filter_map(|thing| id_of(thing)).collect::<Vec<_>>();
        for (value, wanted) in [
            (json!([{"id": 1}, {"uuid": "u"}]), vec!["1", "u"]),
            (
                json!({"cards": {"edges": [{"node": {"id": "1"}}, {"node": {"id": "2"}}], "pageInfo": {}}}),
                vec!["1", "2"],
            ),
            (json!({"success": true, "agents": [{"id": "a", "behaviors": [{"id": "b"}]}]}), vec!["a"]),
            (json!({"pipe": {"id": "5", "phases": [{"id": "6"}], "labels": []}}), vec!["5"]),
            (json!({"createCard": {"card": {"id": "7"}}}), vec!["7"]),
            (json!({"cards": {"edges": []}}), vec![]),
            (json!({"data": [{"id": "9"}], "pagination": {"has_more": false}}), vec!["9"]),
            // Two lists: nobody knows which.
            (json!({"a": [{"id": "1"}], "b": [{"id": "2"}]}), vec![]),
            (json!("text"), vec![]),
        ] {
            assert_eq!(ids(&value), wanted, "{value}");
        }
    }

    #[test]
    fn groups_of_what_is_meant_are_looked_into() {
        let value = json!({"organizations": [
            {"id": "1", "name": "A", "pipes": [{"id": "11", "name": "x"}, {"id": "12", "name": "y"}]},
            {"id": "2", "name": "B", "pipes": []},
            {"id": "3", "name": "C", "pipes": [{"id": "31", "name": "z", "organization": "own"}]},
        ], "search_limits": {"page": 1}});
        let pipes: Vec<Value> = things(&value, &nouns("pipes")).into_iter().map(Cow::into_owned).collect();
        assert_eq!(
            Value::from(pipes),
            json!([
                {"id": "11", "name": "x", "organization": "A"},
                {"id": "12", "name": "y", "organization": "A"},
                {"id": "31", "name": "z", "organization": "own"},
            ])
        );
        assert_eq!(things(&value, &nouns("orgs")).len(), 3);
        let pipe = json!({"pipe": {"id": "1", "labels": [{"id": "5"}, {"id": "6"}]}});
        assert_eq!((things(&pipe, &nouns("labels")).len(), things(&pipe, &nouns("pipes")).len()), (2, 1));
        assert!(is_single(&pipe, &nouns("pipes")) && !is_single(&pipe, &nouns("labels")) && !is_single(&value, &[]));
        let phase = json!({"phase": {"id": "1", "cards": {"edges": [{"node": {"id": "5"}}], "totalCount": 1}}});
        assert_eq!(things(&phase, &nouns("cards")), [Cow::Owned::<Value>(json!({"id": "5"}))]);
    }

    #[test]
    fn inner_objects_become_columns() {
        let value = json!({"id": "1", "phase": {"name": "x", "pipe": {"id": "2"}}, "labels": [1], "empty": {}});
        assert_eq!(
            flat(&value),
            json!({"id": "1", "phase.name": "x", "phase.pipe.id": "2", "labels": [1], "empty": {}})
        );
        let card = json!({"id": "1", "fields": [{"name": "Amount", "value": "3"}, {"name": "id", "value": "x"}]});
        assert_eq!(flat(&card), json!({"id": "1", "Amount": "3", "fields.id": "x"}));
        assert_eq!(flat(&json!(5)), json!({"value": 5}));
        assert!(has_more(&json!({"cards": {"pageInfo": {"hasNextPage": true}}})) && !has_more(&json!([])));
    }
}
