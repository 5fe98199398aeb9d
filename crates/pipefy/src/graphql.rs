//! GraphQL written by a caller: what it does is read from its text before anything is sent.
//!
//! What is sent is the parsed document printed anew. The service then sees exactly what was judged here, and no trick of
//! layout that another parser reads differently can carry a mutation past the check.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use apollo_compiler::ast::{self, Definition, OperationType, Selection};
use apollo_compiler::parser::Parser;
use apollo_compiler::{Name, Node};

use crate::document::{Document, EndpointKind, OperationKind};
use crate::response::clip;

/// Longest text read, in bytes. A page of HTML fits as a literal; the reference has no limit.
pub const SIZE_LIMIT: usize = 1024 * 1024;

/// Deepest nesting of selection sets, list and object values and list types (`spec/tools-data-portals.md`, 1.18).
pub const NESTING_LIMIT: usize = 200;

/// Most tokens read, comments and blanks included, so that a short text cannot take much memory.
pub const TOKEN_LIMIT: usize = 250_000;

/// A caller's document, understood.
#[derive(Clone, Debug)]
pub struct Written {
    /// The document as it will be sent; [`OperationKind::Mutation`] if any operation in it is a mutation.
    pub document: Arc<Document>,
    /// Its operations in order; at least one.
    pub operations: Vec<WrittenOperation>,
    /// The fields selected at the root of all operations, by field name, fragments followed, each once.
    pub root_fields: Vec<(OperationKind, String)>,
}

/// One operation of a caller's document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenOperation {
    /// Query or mutation.
    pub kind: OperationKind,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The first field it selects outside fragments (the name of the field, not its alias).
    pub first_field: Option<String>,
}

impl Written {
    /// Whether any operation is a mutation.
    pub fn is_mutation(&self) -> bool {
        self.document.kind() == OperationKind::Mutation
    }

    /// How a person recognises the first mutation: `GraphQL mutation` and its name, else its first field, else
    /// `operation`. `None` for a document that only reads.
    pub fn descriptor(&self) -> Option<String> {
        let mutation = self.operations.iter().find(|o| o.kind == OperationKind::Mutation)?;
        let what = mutation.name.as_deref().or(mutation.first_field.as_deref()).unwrap_or("operation");
        Some(format!("GraphQL mutation {what}"))
    }
}

/// Why a caller's document is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrittenError {
    /// Nothing but blanks and comments.
    #[error("the GraphQL document is empty; write a query or a mutation")]
    Blank,
    /// Longer than allowed.
    #[error("the GraphQL document is larger than {limit} {unit}; pass long values as variables. Nothing was sent")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// `bytes` or `tokens`.
        unit: &'static str,
    },
    /// Nested deeper than allowed.
    #[error("the GraphQL document is nested deeper than {limit} levels; nothing was sent")]
    TooNested {
        /// Levels.
        limit: usize,
    },
    /// It cannot be read.
    #[error("{message} (line {line}, column {column}); nothing was sent")]
    Syntax {
        /// What was wrong.
        message: String,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
    },
    /// Only fragments or type definitions.
    #[error("the GraphQL document holds no operation; add a query or a mutation. Nothing was sent")]
    NoOperation,
    /// A subscription, which has no answer to wait for.
    #[error("subscriptions cannot be run here; use a query and repeat it. Nothing was sent")]
    Subscription,
}

/// Reads a caller's document for `endpoint`.
///
/// # Errors
/// [`WrittenError`]; nothing should be sent then. Messages repeat at most a short piece of the text.
pub fn read(endpoint: EndpointKind, text: &str) -> Result<Written, WrittenError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > SIZE_LIMIT {
        return Err(WrittenError::TooLarge { limit: SIZE_LIMIT, unit: "bytes" });
    }
    // The parser is recursive, so depth is measured first, by a scan that is not.
    let outline = Outline::scan(text);
    if outline.depth > NESTING_LIMIT {
        return Err(WrittenError::TooNested { limit: NESTING_LIMIT });
    }
    if outline.is_blank {
        return Err(WrittenError::Blank);
    }
    let mut parser = Parser::new().recursion_limit(4 * NESTING_LIMIT).token_limit(TOKEN_LIMIT);
    let parsed = parser.parse_ast(text, "document.graphql").map_err(|failure| {
        if parser_reached(&failure.errors) {
            return WrittenError::TooLarge { limit: TOKEN_LIMIT, unit: "tokens" };
        }
        syntax(&failure.errors)
    })?;
    understand(endpoint, &parsed, outline.may_mutate)
}

fn parser_reached(errors: &apollo_compiler::validation::DiagnosticList) -> bool {
    errors.iter().any(|e| e.error.to_string().contains("limit reached"))
}

fn syntax(errors: &apollo_compiler::validation::DiagnosticList) -> WrittenError {
    let Some(first) = errors.iter().next() else {
        return WrittenError::Syntax { message: "the document cannot be read".to_owned(), line: 1, column: 1 };
    };
    let start = first.line_column_range().map(|range| range.start);
    WrittenError::Syntax {
        message: clip(&first.error.to_string(), 200),
        line: start.map_or(1, |at| at.line),
        column: start.map_or(1, |at| at.column),
    }
}

fn understand(endpoint: EndpointKind, parsed: &ast::Document, may_mutate: bool) -> Result<Written, WrittenError> {
    let mut fragments: HashMap<&Name, &Node<ast::FragmentDefinition>> = HashMap::new();
    for definition in &parsed.definitions {
        if let Definition::FragmentDefinition(fragment) = definition {
            fragments.entry(&fragment.name).or_insert(fragment);
        }
    }
    let mut operations = Vec::new();
    let mut root_fields = Vec::new();
    let mut seen = (HashSet::new(), HashSet::new());
    for definition in &parsed.definitions {
        let Definition::OperationDefinition(operation) = definition else { continue };
        let kind = match operation.operation_type {
            OperationType::Query => OperationKind::Query,
            OperationType::Mutation => OperationKind::Mutation,
            OperationType::Subscription => return Err(WrittenError::Subscription),
        };
        let first_field = operation.selection_set.iter().find_map(|selection| match selection {
            Selection::Field(field) => Some(field.name.to_string()),
            _ => None,
        });
        operations.push(WrittenOperation { kind, name: operation.name.as_ref().map(Name::to_string), first_field });
        let seen = if kind == OperationKind::Mutation { &mut seen.1 } else { &mut seen.0 };
        let fields = roots(&operation.selection_set, &fragments, seen);
        root_fields.extend(fields.into_iter().map(|field| (kind, field.to_string())));
    }
    if operations.is_empty() {
        return Err(WrittenError::NoOperation);
    }
    // The outline errs on the side of caution; should it ever disagree with the parser, the stricter one counts.
    let kind = if may_mutate || operations.iter().any(|o| o.kind == OperationKind::Mutation) {
        OperationKind::Mutation
    } else {
        OperationKind::Query
    };
    Ok(Written {
        document: Document::owned("execute_graphql", endpoint, kind, parsed.serialize().to_string()),
        operations,
        root_fields,
    })
}

/// Root fields in order that were not `seen`, fragments followed once each, without recursion. `seen` is shared by all
/// operations of a kind, so many operations that spread one large fragment cost no more than one.
fn roots<'a>(
    selections: &'a [Selection],
    fragments: &HashMap<&'a Name, &'a Node<ast::FragmentDefinition>>,
    seen: &mut HashSet<(&'a Name, bool)>,
) -> Vec<&'a Name> {
    let mut found = Vec::new();
    let mut open = vec![selections.iter()];
    while let Some(top) = open.last_mut() {
        match top.next() {
            None => {
                open.pop();
            }
            Some(Selection::Field(field)) => {
                if seen.insert((&field.name, true)) {
                    found.push(&field.name);
                }
            }
            Some(Selection::InlineFragment(inline)) => open.push(inline.selection_set.iter()),
            Some(Selection::FragmentSpread(spread)) => {
                if seen.insert((&spread.fragment_name, false))
                    && let Some(fragment) = fragments.get(&spread.fragment_name)
                {
                    open.push(fragment.selection_set.iter());
                }
            }
        }
    }
    found
}

/// What a single pass over the characters tells: strings, block strings and comments are skipped, nothing recurses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outline {
    /// Deepest nesting of `{` and `[`, or of `(`, whichever is more.
    depth: usize,
    /// The word `mutation` stands outside all brackets where a definition may begin.
    may_mutate: bool,
    is_blank: bool,
}

impl Outline {
    fn scan(text: &str) -> Self {
        let mut outline = Self { is_blank: true, ..Self::default() };
        let (mut nested, mut parens) = (0_usize, 0_usize);
        // Whether the next word outside brackets begins a definition.
        let mut fresh = true;
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let after = rest.get(c.len_utf8()..).unwrap_or_default();
            rest = match c {
                '#' => after.find(['\n', '\r']).and_then(|at| after.get(at..)).unwrap_or_default(),
                '"' => {
                    outline.is_blank = false;
                    skip_string(rest)
                }
                c if c.is_whitespace() || c == ',' || c == '\u{feff}' => after,
                c if c.is_alphanumeric() || c == '_' => {
                    outline.is_blank = false;
                    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                    let word = rest.get(..end).unwrap_or_default();
                    if nested == 0 && parens == 0 {
                        outline.may_mutate |= fresh && word == "mutation";
                        fresh = false;
                    }
                    rest.get(end..).unwrap_or_default()
                }
                other => {
                    outline.is_blank = false;
                    match other {
                        '{' | '[' => nested += 1,
                        '}' | ']' => nested = nested.saturating_sub(1),
                        '(' => parens += 1,
                        ')' => parens = parens.saturating_sub(1),
                        _ => {}
                    }
                    if other == '}' && nested == 0 {
                        (fresh, parens) = (true, 0);
                    }
                    outline.depth = outline.depth.max(nested).max(parens);
                    after
                }
            };
        }
        outline
    }
}

/// What follows the string or block string at the start of `text`.
fn skip_string(text: &str) -> &str {
    let block = text.starts_with("\"\"\"");
    let mut rest = text.get(if block { 3 } else { 1 }..).unwrap_or_default();
    loop {
        let Some(c) = rest.chars().next() else { return "" };
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if block {
            if let Some(after) = rest.strip_prefix("\\\"\"\"") {
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("\"\"\"") {
                return after;
            }
        } else {
            match c {
                '"' => return after,
                '\n' | '\r' => return rest,
                '\\' => {
                    let skipped = after.chars().next().filter(|c| !matches!(c, '\n' | '\r'));
                    rest = after.get(skipped.map_or(0, char::len_utf8)..).unwrap_or_default();
                    continue;
                }
                _ => {}
            }
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> Written {
        read(EndpointKind::Public, text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn refused(text: &str) -> WrittenError {
        read(EndpointKind::Public, text).unwrap_err()
    }

    #[test]
    fn a_document_is_a_mutation_wherever_the_mutation_stands() {
        for (text, descriptor) in [
            ("{me {id}}", None),
            ("query Mutation {mutation {id}}", None),
            ("query mutation {mutation}", None),
            ("fragment mutation on Query {a} {...mutation}", None),
            ("query A {a} query B($mutation: Int) {b(x: $mutation)}", None),
            ("{a(x: \"} mutation {b}\")}", None),
            ("# mutation {x}\n{a}", None),
            ("{a(x: \"\"\" \\\"\"\" } mutation M {b} \"\"\")}", None),
            ("mutation {deleteCard(input: {id: 1}) {success}}", Some("GraphQL mutation deleteCard")),
            ("\u{feff}mutation Go {a}", Some("GraphQL mutation Go")),
            ("  \t,,\r\n# hello\r mutation{x: realName}", Some("GraphQL mutation realName")),
            ("mutation {...F} fragment F on Mutation {a}", Some("GraphQL mutation operation")),
            ("query A {a} fragment F on T {b} mutation B {c}", Some("GraphQL mutation B")),
            ("mutation {... on Mutation {a} b}", Some("GraphQL mutation b")),
            ("query A {a}mutation{b}", Some("GraphQL mutation b")),
            ("mutation,M{b}", Some("GraphQL mutation M")),
            ("mutation# x\n{b}", Some("GraphQL mutation b")),
            ("type T {a: Int} mutation {b}", Some("GraphQL mutation b")),
        ] {
            let written = written(text);
            assert_eq!(written.descriptor().as_deref(), descriptor, "{text}");
            assert_eq!(written.is_mutation(), descriptor.is_some(), "{text}");
            assert_eq!(Outline::scan(text).may_mutate, descriptor.is_some(), "{text}");
        }
    }

    #[test]
    fn root_fields_follow_fragments_and_ignore_aliases() {
        let written = written(
            "query A {x: me {id} ...F ... {three}} mutation B {createCard(input: {}) {card {id}}} \
             fragment F on Query {two ...G} fragment G on Query {four ...F me}",
        );
        use OperationKind::{Mutation, Query};
        let expected = [(Query, "me"), (Query, "two"), (Query, "four"), (Query, "three"), (Mutation, "createCard")];
        assert_eq!(written.root_fields, expected.map(|(kind, name)| (kind, name.to_owned())));
        assert_eq!(written.operations.len(), 2);
        assert_eq!(written.operations[1].name.as_deref(), Some("B"));
    }

    #[test]
    fn what_cannot_be_sent_says_why() {
        assert_eq!(refused(""), WrittenError::Blank);
        assert_eq!(refused("\u{feff} ,\n# only a comment"), WrittenError::Blank);
        assert_eq!(refused("fragment F on T {a}"), WrittenError::NoOperation);
        assert_eq!(refused("type T {a: Int}"), WrittenError::NoOperation);
        assert_eq!(refused("query {a} subscription {b}"), WrittenError::Subscription);
        assert!(matches!(refused(&" ".repeat(SIZE_LIMIT + 1)), WrittenError::TooLarge { unit: "bytes", .. }));
        assert!(matches!(
            refused(&format!("{{{}}}", "a ".repeat(TOKEN_LIMIT))),
            WrittenError::TooLarge { unit: "tokens", .. }
        ));
    }

    #[test]
    fn a_large_document_costs_no_more_than_its_size() {
        let start = std::time::Instant::now();
        let fields: String = (0..60_000).map(|n| format!("f{n} ")).collect();
        let found = written(&format!("{{{fields}}}")).root_fields;
        assert_eq!(found.len(), 60_000);
        let fields: String = (0..20_000).map(|n| format!("f{n} ")).collect();
        let operations: String = (0..10_000).map(|n| format!("query q{n}{{...F}} ")).collect();
        let found = written(&format!("{operations} fragment F on Query {{{fields} ...F}}"));
        assert_eq!((found.root_fields.len(), found.operations.len()), (20_000, 10_000));
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
    }

    #[test]
    fn syntax_errors_name_the_place_and_do_not_repeat_the_text() {
        for (text, line, column) in [("{a", 1, 3), ("query {\n  a(\n}", 3, 1), ("mutation {a", 1, 12), ("{a} }", 1, 5)]
        {
            let error = refused(text);
            let WrittenError::Syntax { message, line: l, column: c } = &error else { panic!("{text}: {error}") };
            assert_eq!((*l, *c), (line, column), "{text}: {message}");
            assert!(!message.trim().is_empty());
        }
        let secret = "s3cr3t".repeat(200);
        for text in [format!("{{a(x: \"{secret}"), format!("{{a ! {secret}}}"), format!("{secret} {{a}}")] {
            let shown = refused(&text).to_string();
            assert!(shown.chars().count() < 400, "{shown}");
        }
    }

    #[test]
    fn nesting_is_limited_before_anything_recurses() {
        let nest = |n: usize, open: &str, close: &str| (open.repeat(n), close.repeat(n));
        for depth in [1, 2, 50, NESTING_LIMIT] {
            let (open, close) = nest(depth - 1, "{a", "}");
            written(&format!("{open}{{a}}{close}"));
            written(&format!("mutation {open}{{a}}{close}"));
        }
        // One level is the selection set around the argument.
        let (open, close) = nest(NESTING_LIMIT - 1, "[", "]");
        written(&format!("{{a(x: {open}{close})}}"));
        let (open, close) = nest(NESTING_LIMIT - 1, "{y: ", "}");
        written(&format!("{{a(x: {open}1{close})}}"));
        let (open, close) = nest(NESTING_LIMIT, "[", "]");
        written(&format!("query($x: {open}Int{close}) {{a(x: $x)}}"));
        for (open, close) in [("{a", "}"), ("[", "]"), ("{", ""), ("[", ""), ("{a(x: {b: [", ""), ("(", "")] {
            for n in [NESTING_LIMIT + 1, 400, 50_000] {
                for head in ["", "mutation "] {
                    let text = format!("{head}{}{}", open.repeat(n), close.repeat(n));
                    let error = refused(&text);
                    assert_eq!(error, WrittenError::TooNested { limit: NESTING_LIMIT }, "{open} {n}");
                    assert!(error.to_string().contains("nested") && error.to_string().contains("nothing was sent"));
                }
            }
        }
        // Brackets in strings and comments do not count.
        let brackets = "{[(".repeat(1000);
        written(&format!("# {brackets}\n{{a(x: \"{brackets}\", y: \"\"\"{brackets}\"\"\")}}"));
    }

    #[test]
    fn what_is_sent_is_what_was_read() {
        let text = "query Q($a: [Int!]! = [1]) @d(x: 1) {n: a(s: \"q\\\"\\u00e9\\n\", b: \"\"\"block \"x\" \\\"\"\" \"\"\", e: RED, o: {k: null}) @include(if: true) {...F ... on T {c}}} fragment F on T @e {d}";
        let first = written(text);
        let again = written(first.document.text());
        assert_eq!(first.document.text(), again.document.text());
        assert_eq!(first.operations, again.operations);
        let tree = |t: &str| ast::Document::parse(t, "x.graphql").unwrap();
        assert_eq!(tree(text).definitions, tree(first.document.text()).definitions);
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("mutation".to_owned()),
            Just("mutation M {a}".to_owned()),
            Just("mutation {a {b}}".to_owned()),
            Just("query".to_owned()),
            Just("{a}".to_owned()),
            Just("query Q {a}".to_owned()),
            Just("fragment F on T {a}".to_owned()),
            Just("fragment mutation on T {a}".to_owned()),
            Just("subscription {s}".to_owned()),
            Just("\"\"\"".to_owned()),
            Just("\\\"\"\"".to_owned()),
            Just("\"".to_owned()),
            Just("\\".to_owned()),
            Just("#".to_owned()),
            Just("\n".to_owned()),
            Just("\r".to_owned()),
            Just("\u{feff}".to_owned()),
            Just("{".to_owned()),
            Just("}".to_owned()),
            Just("(x: ".to_owned()),
            Just(")".to_owned()),
            Just("[".to_owned()),
            Just("]".to_owned()),
            Just("@d".to_owned()),
            Just("$v: Int".to_owned()),
            Just("...".to_owned()),
            Just(" ".to_owned()),
            Just(",".to_owned()),
            Just("type T {a: Int}".to_owned()),
            Just("extend".to_owned()),
            "\\PC{0,8}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn nothing_panics_and_no_mutation_passes_as_a_read(pieces in proptest::collection::vec(piece(), 0..24), glue in prop_oneof![Just(""), Just(" "), Just("\n")]) {
            let text = pieces.join(glue);
            if let Ok(written) = read(EndpointKind::Public, &text) {
                let sent = written.document.text();
                let holds = |t: &str| ast::Document::parse(t, "x.graphql").is_ok_and(|d| d.definitions.iter().any(|d| {
                    matches!(d, Definition::OperationDefinition(o) if o.operation_type == OperationType::Mutation)
                }));
                prop_assert!(!(holds(&text) || holds(sent)) || written.is_mutation());
                // What is sent reads the same again.
                let again = read(EndpointKind::Public, sent);
                prop_assert!(again.is_ok_and(|again| again.operations == written.operations && again.root_fields == written.root_fields), "{sent}");
            }
        }

        #[test]
        fn a_planted_mutation_is_always_seen(before in proptest::collection::vec(prop_oneof![Just("{a}"), Just("query Q {a(x: \"}\")}"), Just("fragment F on T {b(y: \"\"\"{\"\"\")}"), Just("# {\n"), Just(",")], 0..6), after in prop_oneof![Just(""), Just("{b}"), Just("# x")]) {
            let text = format!("{} mutation Z {{go}} {after}", before.join("\n"));
            let written = read(EndpointKind::Public, &text).unwrap();
            prop_assert!(written.is_mutation());
            prop_assert_eq!(written.document.kind(), OperationKind::Mutation);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = read(EndpointKind::Public, &text);
        }
    }
}
