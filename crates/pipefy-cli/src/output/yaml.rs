//! YAML, block style.

use serde_json::{Map, Value};
use yaml_rust2::scanner::{Scanner, Token, TokenType};
use yaml_rust2::yaml::Hash;
use yaml_rust2::{Yaml, YamlEmitter, YamlLoader};

/// Levels of lists and maps in a document at most. A pipe as code has about ten.
const DEEPEST: usize = 64;

/// The value as a document, without the line that begins one.
pub(crate) fn write(value: &Value) -> String {
    let mut text = String::new();
    let mut emitter = YamlEmitter::new(&mut text);
    emitter.compact(true);
    // Writing to a string does not fail.
    let _ = emitter.dump(&yaml(value));
    let mut text = text.strip_prefix("---\n").map(str::to_owned).unwrap_or(text);
    text.push('\n');
    text
}

/// The one document of a text.
///
/// # Errors
/// What is wrong with it and where, or that JSON has no such value.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    is_shallow(text)?;
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [one] => json(one),
        _ => Err("it holds more than one document".to_owned()),
    }
}

/// Refuses what is nested too deeply: the parser goes down into it by calling itself, the scanner does not.
fn is_shallow(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    // What the scanner does not understand ends it; the parser then says why.
    for Token(mark, token) in Scanner::new(text.chars()) {
        match token {
            TokenType::BlockSequenceStart
            | TokenType::BlockMappingStart
            | TokenType::FlowSequenceStart
            | TokenType::FlowMappingStart => depth += 1,
            TokenType::BlockEnd | TokenType::FlowSequenceEnd | TokenType::FlowMappingEnd => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("it is nested in more than {DEEPEST} levels at line {}", mark.line()));
        }
    }
    Ok(())
}

fn yaml(value: &Value) -> Yaml {
    match value {
        Value::Null => Yaml::Null,
        Value::Bool(on) => Yaml::Boolean(*on),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Yaml::Integer(number),
            None => Yaml::Real(number.to_string()),
        },
        Value::String(text) => Yaml::String(text.clone()),
        Value::Array(items) => Yaml::Array(items.iter().map(yaml).collect()),
        Value::Object(map) => {
            let mut hash = Hash::new();
            for (key, item) in map {
                hash.insert(Yaml::String(key.clone()), yaml(item));
            }
            Yaml::Hash(hash)
        }
    }
}

fn json(value: &Yaml) -> Result<Value, String> {
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Boolean(on) => (*on).into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::Real(text) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => number.into(),
            None => text.clone().into(),
        },
        Yaml::String(text) => text.clone().into(),
        Yaml::Array(items) => items.iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        Yaml::Hash(hash) => {
            let mut map = Map::new();
            for (key, item) in hash {
                let key = match json(key)? {
                    Value::String(text) => text,
                    Value::Array(_) | Value::Object(_) => return Err("a list or map cannot be a key".to_owned()),
                    scalar => scalar.to_string(),
                };
                map.insert(key, json(item)?);
            }
            map.into()
        }
        Yaml::Alias(_) | Yaml::BadValue => return Err("it holds something that is no value".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn values_become_blocks() {
        let value = json!({"id": "1", "title": "a: b", "no": null, "list": [1, {"a": 1, "b": [2, [3]]}, [], "x"], "o": {}, "d": {"k": true}});
        let wanted = "id: \"1\"\ntitle: \"a: b\"\n\"no\": ~\nlist:\n  - 1\n  - a: 1\n    b:\n      - 2\n      - - 3\n  - []\n  - x\no: {}\nd:\n  k: true\n";
        assert_eq!(write(&value), wanted);
        assert_eq!(write(&json!([])), "[]\n");
        assert_eq!(write(&json!("\u{e9}\n")), "\"\u{e9}\\n\"\n");
        assert_eq!(write(&json!([[1]])), "- - 1\n");
    }

    #[test]
    fn what_is_no_value_is_said() {
        for (text, wanted) in
            [("a: [", ""), ("a: 1\na: 2\n", "duplicated"), ("? [1]\n: 2\n", "key"), ("1\n---\n2\n", "more")]
        {
            assert!(read(text).unwrap_err().contains(wanted), "{text}");
        }
        assert_eq!(read("").unwrap(), Value::Null);
    }

    /// However it is nested, in whatever form: it is refused, and the stack stays as it is.
    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let many = 50_000;
        for text in [
            "- ".repeat(many),
            "? ".repeat(many),
            "[".repeat(many),
            "{a: ".repeat(many),
            "[{a: ".repeat(many),
            "- ? ".repeat(many),
            "? - ".repeat(many),
            (0..500).map(|level| format!("{}a:\n", " ".repeat(level))).collect(),
            (0..500).map(|level| format!("{}- a:\n", "  ".repeat(level))).collect(),
        ] {
            let error = read(&text).unwrap_err();
            // Brackets are counted by the scanner itself.
            let told = error.contains("more than 64 levels") || error.contains("recursion limit exceeded");
            assert!(told, "{}: {error}", &text[..20]);
        }
        // Long is not deep, and what is closed again does not count.
        for text in ["- [a, {b: c}]\n".repeat(1_000), format!("{}x", "- ".repeat(DEEPEST - 1))] {
            assert!(read(&text).is_ok(), "{}", &text[..20]);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ -~]{1,8}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_reads_the_same(value in value()) {
            prop_assert_eq!(read(&write(&value)).unwrap(), value);
        }
    }
}
