//! `--jq`: a filter in jq's language over a result.

use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data};
use jaq_json::{Num, Val, read};
use serde_json::{Map, Number, Value};

/// A filter at most, in bytes.
const LONGEST: usize = 64 * 1024;

/// Brackets inside of brackets in a filter at most. The parser calls itself for each.
const DEEPEST_FILTER: usize = 64;

/// Words and signs of a filter at most: the parser calls itself for operators as well.
const MOST_WORDS: usize = 2_000;

/// What begins a term that the parser calls itself for with the largest frames, and how many of them there may be.
const MOST_OPENERS: usize = 256;
const OPENERS: [&str; 7] = ["-", "try", "if", "def", "reduce", "foreach", "label"];

/// Arrays and objects inside of each other in a result at most.
const DEEPEST_RESULT: usize = 512;

/// What stands in the place of jq's own: the same text, as a failure like any other.
const OWN: &str = "def halt_error: error; def halt_error($code): error;";

/// A filter that can be run.
pub(crate) struct Filter(jaq_core::Filter<data::JustLut<Val>>);

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong and where, in a sentence without its end.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        fits(text)?;
        let own = load::parse(OWN, |parser| parser.defs()).unwrap_or_default();
        let std = jaq_std::defs().filter(|def| def.name != "halt_error");
        let definitions = jaq_core::defs().chain(std).chain(jaq_json::defs()).chain(own);
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

    /// Everything that the filter gives for `input`, in order, up to a `halt`.
    ///
    /// # Errors
    /// The filter's own error, which ends it, or a result that JSON cannot hold.
    pub(crate) fn run(&self, input: &Value) -> Result<Vec<Value>, String> {
        let input = read::parse_single(input.to_string().as_bytes()).map_err(|error| error.to_string())?;
        let context = Ctx::<data::JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        let mut results = Vec::new();
        for result in self.0.id.run((context, input)) {
            match result.map_err(|exception| exception.get_halt()) {
                Ok(value) => results.push(json(&value, 0)?),
                Err(Ok(0)) => break,
                Err(Ok(code)) => return Err(format!("it ended with halt({code})")),
                Err(Err(exception)) => {
                    let error = exception.get_err().map(|error| error.to_string());
                    return Err(error.unwrap_or_else(|_| "it left a label that is not there".to_owned()));
                }
            }
        }
        Ok(results)
    }
}

/// Refuses what would exhaust the parser.
fn fits(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let (mut depth, mut words, mut in_word) = (0_usize, 0_usize, false);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_word = c.is_alphanumeric() || c == '_';
        let goes_on = is_word && in_word;
        words += usize::from(!goes_on && !c.is_whitespace());
        in_word = is_word;
        if depth > DEEPEST_FILTER {
            return Err(format!("has more than {DEEPEST_FILTER} brackets inside of each other"));
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let names = text.split(|c| !is_word(c)).chain(text.matches('-'));
    if names.filter(|name| OPENERS.contains(name)).count() > MOST_OPENERS {
        return Err(format!("has more than {MOST_OPENERS} of {}", OPENERS.join(", ")));
    }
    match words > MOST_WORDS {
        true => Err(format!("has more than {MOST_WORDS} words and signs")),
        false => Ok(()),
    }
}

/// The value as JSON, as jq prints it: what is not a number is null, infinity is the largest number.
fn json(value: &Val, depth: usize) -> Result<Value, String> {
    if depth > DEEPEST_RESULT {
        return Err(format!("its result is nested more than {DEEPEST_RESULT} levels deep"));
    }
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(on) => (*on).into(),
        Val::Num(number) => finite(number),
        Val::BStr(bytes) | Val::TStr(bytes) => String::from_utf8_lossy(bytes).into(),
        // Plain loops keep the frames small that stand on each other.
        Val::Arr(items) => {
            let mut list = Vec::with_capacity(items.len());
            for item in items.iter() {
                list.push(json(item, depth + 1)?);
            }
            Value::Array(list)
        }
        Val::Obj(map) => {
            let mut object = Map::new();
            for (key, value) in map.iter() {
                let Val::TStr(key) = key else {
                    return Err("its result has an object with a key that is no text".to_owned());
                };
                object.insert(String::from_utf8_lossy(key).into_owned(), json(value, depth + 1)?);
            }
            Value::Object(object)
        }
    })
}

fn finite(number: &Num) -> Value {
    let float = |float: f64| Number::from_f64(float.clamp(f64::MIN, f64::MAX)).map_or(Value::Null, Value::Number);
    match number {
        Num::Float(value) => float(*value),
        other => {
            let text = other.to_string();
            // What does not fit is beyond the largest number.
            serde_json::from_str(&text)
                .unwrap_or_else(|_| float(if text.starts_with('-') { f64::MIN } else { f64::MAX }))
        }
    }
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
            ("[nan,1]", vec![json!([null, 1])]),
            ("{a: nan, b: [[nan]]}", vec![json!({"a": null, "b": [[null]]})]),
            ("[infinite, -infinite, 1e1000]", vec![json!([f64::MAX, f64::MIN, f64::MAX])]),
            ("[1.5, 12345678901234567890, -3]", vec![json!([1.5, 12_345_678_901_234_567_890_u64, -3])]),
            ("\"S\u{e3}o\", {\"a b\": true}", vec![json!("S\u{e3}o"), json!({"a b": true})]),
            ("1, halt, 2", vec![json!(1)]),
        ] {
            assert_eq!(Filter::compile(filter).unwrap().run(&input).unwrap(), wanted, "{filter}");
        }
    }

    /// Whatever ends a filter, and whatever it gives that cannot be shown, is a failure of the program's own.
    #[test]
    fn a_filter_that_fails_says_so() {
        for (filter, wanted) in [
            ("error(\"no\")", "no"),
            ("1, error(\"late\")", "late"),
            ("\"why\" | halt_error", "why"),
            ("\"why\" | halt_error(3)", "why"),
            ("halt(4)", "halt(4)"),
            ("{(1, 2 | {a: .}): 3}", "no text"),
            ("reduce range(513) as $i (0; [.])", "512 levels"),
        ] {
            let error = Filter::compile(filter).and_then(|filter| filter.run(&json!({})));
            let error = error.err().unwrap_or_else(|| panic!("{filter}"));
            assert!(error.contains(wanted), "{filter}: {error}");
        }
    }

    #[test]
    fn deep_results_are_whole() {
        for depth in [100, 300, 512] {
            let filter = format!("reduce range({depth}) as $i (7; [.])");
            let result = Filter::compile(&filter).unwrap().run(&json!(null)).unwrap();
            assert_eq!(result[0].to_string(), "[".repeat(depth) + "7" + &"]".repeat(depth));
        }
    }

    /// No filter exhausts the stack that a program starts with, whatever its parser calls itself for.
    #[test]
    fn what_is_too_long_or_too_deep_is_refused_before_it_is_read() {
        let judged = || {
            for n in [250, 500, 900, 2_000, 20_000] {
                for text in [
                    "(".repeat(n),
                    "[".repeat(n),
                    "{a:".repeat(n),
                    "(".repeat(n) + "1" + &")".repeat(n),
                    "\"\\(".repeat(n) + "1" + &")\"".repeat(n),
                    "-".repeat(n) + "1",
                    "1|".repeat(n) + "1",
                    "1,".repeat(n) + "1",
                    "1+".repeat(n) + "1",
                    "1//".repeat(n) + "1",
                    "try ".repeat(n) + "1",
                    "if 1 then ".repeat(n) + "1" + &" end".repeat(n),
                    "def f:".repeat(n) + "1;" + &"1;".repeat(n),
                    "reduce ".repeat(n),
                    ". as $x|".repeat(n) + "1",
                ] {
                    let refused = Filter::compile(&text).is_err();
                    assert!(refused || n < 2_000, "{n} {}", text.get(..10).unwrap());
                }
            }
            let brackets = |n: usize| "(".repeat(n) + "1" + &")".repeat(n);
            assert!(Filter::compile(&brackets(DEEPEST_FILTER)).is_ok());
            assert!(Filter::compile(&brackets(DEEPEST_FILTER + 1)).err().unwrap().contains("64 brackets"));
            assert!(Filter::compile(&"x".repeat(LONGEST + 1)).err().unwrap().contains("longer"));
        };
        std::thread::Builder::new().stack_size(8 * 1024 * 1024).spawn(judged).unwrap().join().unwrap();
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
