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
        operations.push(WrittenOperation {
            kind,
            name: operation.name.as_ref().map(Name::to_string),
            first_field,
        });
        for field in roots(&operation.selection_set, &fragments) {
            let root = (kind, field.to_string());
            if !root_fields.contains(&root) {
                root_fields.push(root);
            }
        }
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

/// Root fields in order, fragments followed once each, without recursion.
fn roots<'a>(
    selections: &'a [Selection],
    fragments: &HashMap<&'a Name, &'a Node<ast::FragmentDefinition>>,
) -> Vec<&'a Name> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
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
