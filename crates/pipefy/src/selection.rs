//! Narrowing a fixed document to the fields a caller asked for.
//!
//! The document in `graphql/` stays what it is; a narrowed copy selects a subset of it, so it fits every schema the
//! original fits. Wrappers and page information around the narrowed item are kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use apollo_compiler::ast::{self, Definition, Selection};
use apollo_compiler::{Name, Node};

use crate::document::{Document, QueryDocument};
use crate::response::clip;

/// Narrowed documents kept by one [`Selections`].
const KEPT: usize = 1024;

/// Names listed in a message at most.
const LISTED: usize = 60;

/// Why a document cannot be narrowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A name that the document does not select there.
    #[error("unknown field `{field}`{}; available: {}", meant(suggestions), listed(available))]
    Unknown {
        /// The name as given, at most 80 characters of it.
        field: String,
        /// Up to three dotted names that look alike, nearest first.
        suggestions: Vec<String>,
        /// Dotted names selectable at that place, in document order.
        available: Vec<String>,
    },
    /// The document has no such item; a mistake of the program, not of its user.
    #[error("the document {document} selects nothing at `{item}`")]
    NoItem {
        /// Name of the document.
        document: String,
        /// The path that was looked for.
        item: String,
    },
}

fn meant(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        some => format!(", did you mean {}", some.iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(" or ")),
    }
}

fn listed(available: &[String]) -> String {
    let mut text = available.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if available.len() > LISTED {
        text.push_str(", ...");
    }
    text
}

/// Narrowed documents, kept for the next call with the same fields. Bounded; holds no identity and no data.
#[derive(Debug, Default)]
pub struct Selections(Mutex<HashMap<Key, Arc<Document>>>);

type Key = (String, String, Vec<String>);

impl Selections {
    /// As the free function [`narrow`], remembered. Failures are not kept.
    ///
    /// # Errors
    /// See [`SelectionError`].
    pub fn narrow(
        &self,
        document: &'static QueryDocument,
        item: &str,
        fields: &[String],
    ) -> Result<Arc<Document>, SelectionError> {
        let wanted: BTreeSet<&str> = fields.iter().map(|f| f.trim()).collect();
        let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        let key = (document.name().to_owned(), item.to_owned(), wanted);
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(narrowed) = kept().get(&key) {
            return Ok(narrowed.clone());
        }
        let narrowed = narrow(document, item, fields)?;
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, narrowed.clone());
        Ok(narrowed)
    }
}

/// The part of `document` that `fields` name.
///
/// `item` is the dotted path of response keys from the root to what the caller thinks of as one item (`card`,
/// `cards.edges.node`; empty for the root). `fields` are dotted response keys below the item (`title`,
/// `current_phase.name`); naming an object keeps its whole selection, an empty list keeps everything. The item's `id` is
/// kept whenever the document selects it. A condition (`@include`) stays on its field. Variables that are no longer used
/// leave the header; [`crate::Query::with_document`] then leaves them out of the request.
///
/// # Errors
/// [`SelectionError::Unknown`] for the first name that the document does not select, [`SelectionError::NoItem`].
pub fn narrow(
    document: &'static QueryDocument,
    item: &str,
    fields: &[String],
) -> Result<Arc<Document>, SelectionError> {
    let no_item = || SelectionError::NoItem { document: document.name().to_owned(), item: item.to_owned() };
    let mut parsed = ast::Document::parse(document.text(), "document.graphql").map_err(|_| no_item())?;
    let fragments: Fragments = parsed
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::FragmentDefinition(fragment) => Some((fragment.name.clone(), fragment.clone())),
            _ => None,
        })
        .collect();
    let operation = parsed
        .definitions
        .iter_mut()
        .find_map(|definition| match definition {
            Definition::OperationDefinition(operation) => Some(operation.make_mut()),
            _ => None,
        })
        .ok_or_else(no_item)?;

    if !fields.is_empty() {
        let path: Vec<&str> = item.split('.').filter(|segment| !segment.is_empty()).collect();
        let shape = shape_at(&operation.selection_set, &path, &fragments).ok_or_else(no_item)?;
        let wanted = Wanted::read(fields, &shape)?;
        operation.selection_set = at_item(&operation.selection_set, &path, &fragments, &wanted);
    }

    let mut used = Used::default();
    used.directives(&operation.directives);
    used.selections(&operation.selection_set, &fragments);
    operation.variables.retain(|variable| used.variables.contains(&variable.name));
    let variables = operation.variables.iter().map(|variable| variable.name.to_string()).collect();
    parsed.definitions.retain(|definition| match definition {
        Definition::FragmentDefinition(fragment) => used.fragments.contains(&fragment.name),
        _ => true,
    });
    Ok(Document::narrowed(document, parsed.serialize().no_indent().to_string(), variables))
}

type Fragments = HashMap<Name, Node<ast::FragmentDefinition>>;

/// What a selection set selects, by response key in document order; inline fragments and spreads dissolved.
#[derive(Default)]
struct Shape(Vec<(String, Shape)>);

impl Shape {
    fn add(&mut self, selections: &[Selection], fragments: &Fragments) {
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    let key = response_key(field);
                    let at = match self.0.iter().position(|(name, _)| name == key) {
                        Some(at) => at,
                        None => {
                            self.0.push((key.to_owned(), Self::default()));
                            self.0.len() - 1
                        }
                    };
                    if let Some((_, child)) = self.0.get_mut(at) {
                        child.add(&field.selection_set, fragments);
                    }
                }
                Selection::InlineFragment(inline) => self.add(&inline.selection_set, fragments),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = fragments.get(&spread.fragment_name) {
                        self.add(&fragment.selection_set, fragments);
                    }
                }
            }
        }
    }

    fn child(&self, key: &str) -> Option<&Shape> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, shape)| shape)
    }

    /// Every dotted name, parents before children.
    fn names(&self, prefix: &str, into: &mut Vec<String>) {
        for (name, child) in &self.0 {
            let name = format!("{prefix}{name}");
            into.push(name.clone());
            child.names(&format!("{name}."), into);
        }
    }
}

fn shape_at(selections: &[Selection], path: &[&str], fragments: &Fragments) -> Option<Shape> {
    let mut root = Shape::default();
    root.add(selections, fragments);
    for segment in path {
        let at = root.0.iter().position(|(name, _)| name == segment)?;
        root = root.0.swap_remove(at).1;
    }
    (!root.0.is_empty()).then_some(root)
}

/// What the caller wants below one selection set; an empty map stands for all of it.
#[derive(Default)]
struct Wanted(BTreeMap<String, Wanted>);

impl Wanted {
    fn read(fields: &[String], shape: &Shape) -> Result<Self, SelectionError> {
        let mut root = Self::default();
        let mut whole: Vec<Vec<&str>> = Vec::new();
        for field in fields {
            let field = field.trim();
            let path: Vec<&str> = field.split('.').collect();
            let mut here = shape;
            let mut above = String::new();
            for segment in &path {
                let Some(next) = here.child(segment) else {
                    return Err(unknown(field, &above, here, shape));
                };
                above.push_str(segment);
                above.push('.');
                here = next;
            }
            whole.push(path);
        }
        // Shorter paths first: what is wanted whole swallows what is wanted in part.
        whole.sort_by_key(Vec::len);
        for path in whole {
            root.add(&path);
        }
        Ok(root)
    }

    fn add(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        match self.0.get_mut(*first) {
            Some(known) if known.0.is_empty() => {}
            Some(known) => known.add(rest),
            None => {
                let mut child = Self::default();
                child.add(rest);
                self.0.insert((*first).to_owned(), child);
            }
        }
    }
}

fn unknown(field: &str, above: &str, here: &Shape, item: &Shape) -> SelectionError {
    // Below a scalar there is nothing to list: list its siblings instead.
    let (above, here) = if here.0.is_empty() { ("", item) } else { (above, here) };
    let mut all = Vec::new();
    item.names("", &mut all);
    SelectionError::Unknown {
        field: clip(field, 80),
        suggestions: near(field, &all),
        available: here.0.iter().map(|(name, _)| format!("{above}{name}")).collect(),
    }
}

/// Names that differ from `field` by little, by case, by underscores or by what stands before the last dot.
fn near(field: &str, all: &[String]) -> Vec<String> {
    let plain =
        |text: &str| -> String { text.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).take(80).collect() };
    let last = |text: &str| -> String { plain(text.rsplit('.').next().unwrap_or(text)) };
    let (whole, end) = (plain(field), last(field));
    let allowed = 1 + end.chars().count() / 4;
    let mut scored: Vec<(usize, usize, &String)> = all
        .iter()
        .enumerate()
        .filter_map(|(order, name)| {
            let by_whole = strsim::damerau_levenshtein(&whole, &plain(name));
            // The right name at another place counts as one step.
            let by_end = 1 + strsim::damerau_levenshtein(&end, &last(name));
            let distance = by_whole.min(by_end);
            (distance <= allowed).then_some((distance, order, name))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, _, name)| name.clone()).collect()
}

/// Copies `selections`, narrowing what lies at `path`. Spreads on the way become inline fragments, because the fragment
/// they name may also be used elsewhere, unnarrowed.
fn at_item(selections: &[Selection], path: &[&str], fragments: &Fragments, wanted: &Wanted) -> Vec<Selection> {
    let Some((key, below)) = path.split_first() else {
        return keep(selections, fragments, wanted, true);
    };
    selections
        .iter()
        .filter_map(|selection| match selection {
            Selection::Field(field) if response_key(field) == *key && !field.selection_set.is_empty() => {
                let narrowed = at_item(&field.selection_set, below, fragments, wanted);
                let mut field = field.clone();
                field.make_mut().selection_set = narrowed;
                (!field.selection_set.is_empty()).then_some(Selection::Field(field))
            }
            Selection::Field(_) => Some(selection.clone()),
            Selection::InlineFragment(_) | Selection::FragmentSpread(_) => {
                let mut inline = dissolve(selection, fragments)?;
                let narrowed = at_item(&inline.selection_set, path, fragments, wanted);
                inline.make_mut().selection_set = narrowed;
                (!inline.selection_set.is_empty()).then_some(Selection::InlineFragment(inline))
            }
        })
        .collect()
}

/// The wanted part of one selection set; may be empty.
fn keep(selections: &[Selection], fragments: &Fragments, wanted: &Wanted, is_item: bool) -> Vec<Selection> {
    let several_types = selections.iter().any(|s| !matches!(s, Selection::Field(_)));
    selections
        .iter()
        .filter_map(|selection| {
            let Selection::Field(field) = selection else {
                let mut inline = dissolve(selection, fragments)?;
                let kept = keep(&inline.selection_set, fragments, wanted, is_item);
                inline.make_mut().selection_set = kept;
                return (!inline.selection_set.is_empty()).then_some(Selection::InlineFragment(inline));
            };
            let key = response_key(field);
            match wanted.0.get(key) {
                Some(part) if part.0.is_empty() => Some(selection.clone()),
                Some(part) => {
                    let kept = keep(&field.selection_set, fragments, part, false);
                    let mut field = field.clone();
                    field.make_mut().selection_set = kept;
                    (!field.selection_set.is_empty()).then_some(Selection::Field(field))
                }
                // The id names the item, and the type name tells the members of a union apart.
                None if is_item && key == "id" => Some(selection.clone()),
                None if is_item && several_types && field.name == "__typename" => Some(selection.clone()),
                None => None,
            }
        })
        .collect()
}

fn response_key(field: &ast::Field) -> &str {
    field.alias.as_ref().unwrap_or(&field.name).as_str()
}

/// An inline fragment as it is, a spread as the inline fragment it stands for.
fn dissolve(selection: &Selection, fragments: &Fragments) -> Option<Node<ast::InlineFragment>> {
    match selection {
        Selection::Field(_) => None,
        Selection::InlineFragment(inline) => Some(inline.clone()),
        Selection::FragmentSpread(spread) => {
            let fragment = fragments.get(&spread.fragment_name)?;
            Some(Node::new(ast::InlineFragment {
                type_condition: Some(fragment.type_condition.clone()),
                directives: spread.directives.clone(),
                selection_set: fragment.selection_set.clone(),
            }))
        }
    }
}

/// Variables and fragments that a selection needs.
#[derive(Default)]
struct Used {
    variables: HashSet<Name>,
    fragments: HashSet<Name>,
}

impl Used {
    fn selections(&mut self, selections: &[Selection], fragments: &Fragments) {
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    self.directives(&field.directives);
                    for argument in &field.arguments {
                        self.value(&argument.value);
                    }
                    self.selections(&field.selection_set, fragments);
                }
                Selection::InlineFragment(inline) => {
                    self.directives(&inline.directives);
                    self.selections(&inline.selection_set, fragments);
                }
                Selection::FragmentSpread(spread) => {
                    self.directives(&spread.directives);
                    if self.fragments.insert(spread.fragment_name.clone())
                        && let Some(fragment) = fragments.get(&spread.fragment_name)
                    {
                        self.directives(&fragment.directives);
                        self.selections(&fragment.selection_set, fragments);
                    }
                }
            }
        }
    }

    fn directives(&mut self, directives: &ast::DirectiveList) {
        for directive in &directives.0 {
            for argument in &directive.arguments {
                self.value(&argument.value);
            }
        }
    }

    fn value(&mut self, value: &ast::Value) {
        match value {
            ast::Value::Variable(name) => {
                self.variables.insert(name.clone());
            }
            ast::Value::List(items) => items.iter().for_each(|item| self.value(item)),
            ast::Value::Object(fields) => fields.iter().for_each(|(_, value)| self.value(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::document::{EndpointKind, OperationKind, documents};
    use crate::operation::Query;

    fn fixed(text: &'static str) -> &'static QueryDocument {
        let json = Box::leak(serde_json::Value::String(text.to_owned()).to_string().into_boxed_str());
        Box::leak(Box::new(QueryDocument(Document::fixed(
            "test/query",
            EndpointKind::Public,
            OperationKind::Query,
            text,
            json,
        ))))
    }

    fn narrowed(text: &'static str, item: &str, fields: &[&str]) -> Result<String, SelectionError> {
        let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
        narrow(fixed(text), item, &fields).map(|d| d.text().replace([',', ' '], " ").replace("  ", " "))
    }

    const CARDS: &str = "query Q($pipe: ID!,$after: String,$full: Boolean!,$n: Int) {cards(pipe: $pipe,after: $after) \
        {edges {node {id title current_phase {id name} fields(first: $n) @include(if: $full) {name value} \
        pipe {id labels {id color}} nick: title}} pageInfo {hasNextPage endCursor}}}";

    #[test]
    fn only_the_named_fields_are_left_and_the_wrappers_stay() {
        for (fields, expected) in [
            (
                &["title"][..],
                "query Q($pipe: ID! $after: String) { cards(pipe: $pipe after: $after) { edges { node { id title } } \
                 pageInfo { hasNextPage endCursor } } }",
            ),
            (
                &["current_phase.name", " current_phase.name"],
                "query Q($pipe: ID! $after: String) { cards(pipe: $pipe after: $after) { edges { node { id \
                 current_phase { name } } } pageInfo { hasNextPage endCursor } } }",
            ),
            (
                &["fields.value"],
                "query Q($pipe: ID! $after: String $full: Boolean! $n: Int) { cards(pipe: $pipe after: $after) { edges { \
                 node { id fields(first: $n) @include(if: $full) { value } } } pageInfo { hasNextPage endCursor } } }",
            ),
            (
                &["pipe.labels.color", "pipe", "nick"],
                "query Q($pipe: ID! $after: String) { cards(pipe: $pipe after: $after) { edges { node { id pipe { id \
                 labels { id color } } nick: title } } pageInfo { hasNextPage endCursor } } }",
            ),
        ] {
            assert_eq!(narrowed(CARDS, "cards.edges.node", fields).unwrap(), expected, "{fields:?}");
        }
    }

    #[test]
    fn an_empty_list_keeps_everything() {
        let whole = narrow(fixed(CARDS), "cards.edges.node", &[]).unwrap();
        assert_eq!(whole.declared_variables().unwrap(), ["pipe", "after", "full", "n"]);
        assert!(whole.text().contains("labels"));
    }

    #[test]
    fn variables_that_are_no_longer_declared_are_not_sent() {
        let document = narrow(fixed(CARDS), "cards.edges.node", &["title".to_owned()]).unwrap();
        let query = Query::new(fixed(CARDS)).var("pipe", "1").var("full", true).var("n", 3).with_document(document);
        assert_eq!(serde_json::to_string(&query.operation().variables).unwrap(), r#"{"pipe":"1"}"#);
    }

    #[test]
    fn unknown_names_are_refused_with_near_ones() {
        for (field, suggestions, available) in [
            ("tilte", &["title"][..], &["id", "title", "current_phase", "fields", "pipe", "nick"][..]),
            ("currentPhase", &["current_phase"], &["id", "title", "current_phase", "fields", "pipe", "nick"]),
            ("current_phase.nam", &["current_phase.name"], &["current_phase.id", "current_phase.name"]),
            ("color", &["pipe.labels.color"], &["id", "title", "current_phase", "fields", "pipe", "nick"]),
            ("title.x", &[], &["id", "title", "current_phase", "fields", "pipe", "nick"]),
            ("", &[], &["id", "title", "current_phase", "fields", "pipe", "nick"]),
            ("zzzzzzzz", &[], &["id", "title", "current_phase", "fields", "pipe", "nick"]),
            ("pipe..id", &[], &["pipe.id", "pipe.labels"]),
        ] {
            let error = narrowed(CARDS, "cards.edges.node", &["title", field]).unwrap_err();
            let SelectionError::Unknown { field: named, suggestions: s, available: a } = &error else {
                panic!("{error}")
            };
            assert_eq!(named, field);
            assert_eq!(a, available, "{field}");
            if suggestions.is_empty() {
                assert!(!s.contains(&"title".to_owned()) || field.contains('.'), "{field}: {s:?}");
            } else {
                assert_eq!(s.first().map(String::as_str), suggestions.first().copied(), "{field}: {s:?}");
            }
            assert!(error.to_string().contains("available: "), "{error}");
        }
    }

    #[test]
    fn an_item_that_is_not_there_is_a_program_error() {
        for item in ["card", "cards.edges.node.title", "cards.node"] {
            let error = narrowed(CARDS, item, &["id"]).unwrap_err();
            assert!(matches!(error, SelectionError::NoItem { .. }), "{item}: {error}");
        }
    }

    #[test]
    fn members_of_a_union_are_narrowed_each() {
        let text = "query Q($x: Boolean!) {all {nodes {__typename ... on A {id name deep {x y}} ... on B @skip(if: $x) {id size} \
                    ... on C {other}} total}}";
        assert_eq!(
            narrowed(text, "all.nodes", &["name", "deep.y"]).unwrap(),
            "query Q($x: Boolean!) { all { nodes { __typename ... on A { id name deep { y } } ... on B @skip(if: $x) { id } } total } }"
        );
        let deep = "{a {... on A {node {x}} ... on B {node {y}} ... on C {z}} b}";
        assert_eq!(narrowed(deep, "a.node", &["x"]).unwrap(), "{ a { ... on A { node { x } } ... on C { z } } b }");
    }

    #[test]
    fn fragments_are_dissolved_where_narrowed_and_dropped_when_unused() {
        let text =
            "query Q($n: Int) {a {...F} b {...F} c {...G}} fragment F on T {id x(n: $n) y {...G}} fragment G on U {z}";
        assert_eq!(
            narrowed(text, "a", &["y"]).unwrap(),
            "query Q($n: Int) { a { ... on T { id y { ...G } } } b { ...F } c { ...G } } fragment F on T { id x(n: $n) y { ...G } } \
             fragment G on U { z }"
        );
        let alone = "query Q($n: Int) {a {...F}} fragment F on T {id x(n: $n) y {...G}} fragment G on U {z}";
        assert_eq!(narrowed(alone, "a", &["id"]).unwrap(), "query Q { a { ... on T { id } } }");
        assert_eq!(narrowed(alone, "", &["a.y.z"]).unwrap(), "query Q { a { ... on T { y { ... on U { z } } } } }");
    }

    #[test]
    fn every_fixed_query_can_be_narrowed_to_each_of_its_fields_and_stays_valid() {
        let schemas = [
            (EndpointKind::Public, include_str!("../graphql/schema/public.graphql")),
            (EndpointKind::Interfaces, include_str!("../graphql/schema/interfaces.graphql")),
            (EndpointKind::Internal, include_str!("../graphql/schema/internal.graphql")),
        ]
        .map(|(kind, sdl)| (kind, apollo_compiler::Schema::parse_and_validate(sdl, "s.graphql").unwrap()));
        let mut checked = 0;
        for document in documents::ALL.iter().filter(|d| d.kind() == OperationKind::Query) {
            let schema = &schemas.iter().find(|(kind, _)| *kind == document.endpoint()).unwrap().1;
            let document: &'static QueryDocument = fixed_from(document);
            let parsed = ast::Document::parse(document.text(), "d.graphql").unwrap();
            let fragments: Fragments = parsed
                .definitions
                .iter()
                .filter_map(|d| match d {
                    Definition::FragmentDefinition(f) => Some((f.name.clone(), f.clone())),
                    _ => None,
                })
                .collect();
            let Some(Definition::OperationDefinition(operation)) = parsed.definitions.first() else { panic!() };
            let shape = shape_at(&operation.selection_set, &[], &fragments).unwrap();
            let mut names = Vec::new();
            shape.names("", &mut names);
            for name in names.iter().take(150) {
                let narrowed = narrow(document, "", std::slice::from_ref(name)).unwrap();
                if let Err(invalid) =
                    apollo_compiler::ExecutableDocument::parse_and_validate(schema, narrowed.text(), "n.graphql")
                {
                    panic!("{} {name}: {}\n{}", document.name(), invalid.errors, narrowed.text());
                }
                checked += 1;
            }
        }
        assert!(checked > 50, "{checked}");
    }

    fn fixed_from(document: &'static Document) -> &'static QueryDocument {
        Box::leak(Box::new(QueryDocument(document.clone())))
    }

    #[test]
    fn the_cache_gives_the_same_document_for_the_same_fields_and_stays_bounded() {
        let document = fixed(CARDS);
        let selections = Selections::default();
        let ask = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
            selections.narrow(document, "cards.edges.node", &fields)
        };
        let first = ask(&["title", "id"]).unwrap();
        assert!(Arc::ptr_eq(&first, &ask(&["id", " title", "title"]).unwrap()));
        assert!(!Arc::ptr_eq(&first, &ask(&["title", "nick"]).unwrap()));
        assert!(ask(&["nothing"]).is_err());
        assert_eq!(selections.0.lock().unwrap().len(), 2);
        for n in 0..KEPT {
            let key = (String::new(), n.to_string(), Vec::new());
            selections.0.lock().unwrap().insert(key, first.clone());
        }
        ask(&["pipe"]).unwrap();
        assert!(selections.0.lock().unwrap().len() <= KEPT);
    }
}
