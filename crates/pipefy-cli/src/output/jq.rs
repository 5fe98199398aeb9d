//! `--jq`: a filter in jq's language over a result.

use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use serde_json::Value;

/// A filter that can be run.
pub(crate) struct Filter(jaq_core::Filter<data::JustLut<Val>>);

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong and where, in a sentence without its end.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let file = File { code: text, path: () };
        let modules = Loader::new(definitions).load(&arena, file).map_err(|errors| {
            let first = errors.into_iter().next().map(|(_, error)| error);
            first.map_or_else(|| "cannot be read".to_owned(), |error| unreadable(text, &error))
        })?;
        Compiler::default().with_funs(functions).compile(modules).map(Self).map_err(|errors| {
            let first = errors.into_iter().flat_map(|(_, undefined)| undefined).next();
            first.map_or_else(
                || "cannot be read".to_owned(),
                |(name, kind)| format!("knows no {} {name}", kind.as_str()),
            )
        })
    }

    /// Everything that the filter gives for `input`, in order.
    ///
    /// # Errors
    /// The filter's own error, which ends it.
    pub(crate) fn run(&self, input: &Value) -> Result<Vec<Value>, String> {
        let input = read::parse_single(input.to_string().as_bytes()).map_err(|error| error.to_string())?;
        let context = Ctx::<data::JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        let results = self.0.id.run((context, input)).map(unwrap_valr);
        results.map(|result| result.map(|value| json(&value)).map_err(|error| error.to_string())).collect()
    }
}

/// What has no form in JSON (not a number, infinity) is null.
fn json(value: &Val) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or(Value::Null)
}

fn unreadable(text: &str, error: &load::Error<&str>) -> String {
    let (expected, found) = match error {
        load::Error::Lex(errors) => match errors.first() {
            Some((load::lex::Expect::Delim(open), found)) => (format!("an end of the {open}"), *found),
            Some((expected, found)) => (expected.as_str().to_owned(), *found),
            None => return "cannot be read".to_owned(),
        },
        load::Error::Parse(errors) => match errors.first() {
            Some((expected, found)) => (expected.as_str().to_owned(), *found),
            None => return "cannot be read".to_owned(),
        },
        load::Error::Io(_) => return "cannot load modules".to_owned(),
    };
    match found {
        "" => format!("ends too early: {expected} is missing"),
        found => {
            let before = text.get(..load::span(text, found).start).unwrap_or_default();
            format!("cannot be read at character {}: expected {expected}", before.chars().count() + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_give_what_jq_gives() {
        let input =
            json!({"cards": {"edges": [{"node": {"id": "1", "title": "a b"}}, {"node": {"id": "2", "title": "c"}}]}});
        for (filter, wanted) in [
            (".cards.edges[].node.id", vec![json!("1"), json!("2")]),
            ("[.cards.edges[].node | select(.title | test(\"^a\")) | .id]", vec![json!(["1"])]),
            (".cards.edges | length", vec![json!(2)]),
            (".nothing", vec![json!(null)]),
            ("empty", vec![]),
            (".cards.edges[0].node | {id, n: (.title | length)}", vec![json!({"id": "1", "n": 3})]),
            ("nan", vec![json!(null)]),
        ] {
            assert_eq!(Filter::compile(filter).unwrap().run(&input).unwrap(), wanted, "{filter}");
        }
        assert!(Filter::compile("error(\"no\")").unwrap().run(&input).is_err());
    }

    #[test]
    fn a_wrong_filter_says_where() {
        for (filter, wanted) in [
            (".a[", "["),
            (".a | nosuch", "filter nosuch"),
            ("$x", "variable $x"),
            (".a b", "character 4"),
            ("\u{e9}", "character 1"),
        ] {
            let error = Filter::compile(filter).err().unwrap();
            assert!(error.contains(wanted), "{filter}: {error}");
        }
    }
}
