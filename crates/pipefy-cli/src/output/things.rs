//! The things that a result is about: for `--format csv`, `table` and `ids`.

use serde_json::{Map, Value};

/// Wrappers around the things are at most this deep (`data`, `cards`, `edges`).
const DEPTH: usize = 4;

/// A list's elements, wherever in the result the list is; else the one thing in its wrappers.
pub(crate) fn things(value: &Value) -> Vec<&Value> {
    listed(value, DEPTH).unwrap_or_else(|| vec![single(value)])
}

/// The elements of the only list that is not inside a thing.
fn listed(value: &Value, depth: usize) -> Option<Vec<&Value>> {
    let map = match value {
        Value::Array(items) => return Some(items.iter().map(node).collect()),
        Value::Object(map) if depth > 0 && id_of(value).is_none() => map,
        _ => return None,
    };
    for connection in ["edges", "nodes"] {
        if let Some(Value::Array(items)) = map.get(connection) {
            return Some(items.iter().map(node).collect());
        }
    }
    let mut lists = map.values().filter_map(|value| listed(value, depth - 1));
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

/// Objects inside become columns of their own (`current_phase.name`); lists stay values.
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
            value => {
                into.insert(name, value.clone());
            }
        }
    }
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

    #[test]
    fn a_result_is_about_its_list_or_its_one_thing() {
        let ids = |value: &Value| things(value).into_iter().filter_map(id_of).collect::<Vec<_>>();
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
    fn inner_objects_become_columns() {
        let value = json!({"id": "1", "phase": {"name": "x", "pipe": {"id": "2"}}, "labels": [1], "empty": {}});
        assert_eq!(
            flat(&value),
            json!({"id": "1", "phase.name": "x", "phase.pipe.id": "2", "labels": [1], "empty": {}})
        );
        assert_eq!(flat(&json!(5)), json!({"value": 5}));
        assert!(has_more(&json!({"cards": {"pageInfo": {"hasNextPage": true}}})) && !has_more(&json!([])));
    }
}
