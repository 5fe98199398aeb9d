//! Pipefy's GraphQL types as far as they are known: `graphql/schema/`, type by type. Pipefy publishes no schema; names can be
//! trusted, scalar types and what may be null less so.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apollo_compiler::ast::{Definition, Document};

use crate::document::EndpointKind;

const FILES: [(EndpointKind, &str); 3] = [
    (EndpointKind::Public, include_str!("../graphql/schema/public.graphql")),
    (EndpointKind::Interfaces, include_str!("../graphql/schema/interfaces.graphql")),
    (EndpointKind::Internal, include_str!("../graphql/schema/internal.graphql")),
];

/// A definition of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeText {
    /// Whose schema it is in.
    pub endpoint: EndpointKind,
    /// `type`, `input`, `enum`, `interface`, `union` or `scalar`.
    pub kind: &'static str,
    /// The definition in SDL.
    pub text: String,
}

/// Every known type by name, with one definition for each endpoint that has it. Read once, when first asked for.
pub fn types() -> &'static BTreeMap<String, Vec<TypeText>> {
    static TYPES: LazyLock<BTreeMap<String, Vec<TypeText>>> = LazyLock::new(read);
    &TYPES
}

fn read() -> BTreeMap<String, Vec<TypeText>> {
    let mut types: BTreeMap<String, Vec<TypeText>> = BTreeMap::new();
    for (endpoint, sdl) in FILES {
        // Whatever does not parse is left out; a test holds the files to being whole.
        let document = Document::parse(sdl, "schema.graphql").unwrap_or_else(|partly| partly.partial);
        for definition in &document.definitions {
            if let (Some(kind), Some(name)) = (kind(definition), definition.name()) {
                let text = definition.to_string();
                types.entry(name.to_string()).or_default().push(TypeText { endpoint, kind, text });
            }
        }
    }
    types
}

fn kind(definition: &Definition) -> Option<&'static str> {
    match definition {
        Definition::ObjectTypeDefinition(_) => Some("type"),
        Definition::InputObjectTypeDefinition(_) => Some("input"),
        Definition::EnumTypeDefinition(_) => Some("enum"),
        Definition::InterfaceTypeDefinition(_) => Some("interface"),
        Definition::UnionTypeDefinition(_) => Some("union"),
        Definition::ScalarTypeDefinition(_) => Some("scalar"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn every_type_is_there_as_it_is_written() {
        let types = types();
        for (endpoint, sdl) in FILES {
            assert!(Document::parse(sdl, "schema.graphql").is_ok(), "{endpoint}");
            for line in sdl.lines() {
                let mut words = line.split([' ', '{', '@']).filter(|word| !word.is_empty());
                let (Some(kind), Some(name)) = (words.next(), words.next()) else { continue };
                if ["type", "input", "enum", "interface", "union", "scalar"].contains(&kind) && line.starts_with(kind) {
                    let found = types[name].iter().find(|found| found.endpoint == endpoint).unwrap();
                    assert_eq!(found.kind, kind, "{name}");
                    assert!(found.text.starts_with(&format!("{kind} {name}")), "{}", found.text);
                }
            }
        }
        assert!(types["Card"][0].text.contains("title"), "{:?}", types["Card"]);
    }
}
