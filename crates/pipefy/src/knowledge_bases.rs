//! Knowledge bases of a pipe: plain texts, documents, data look-ups. Root fields `aiKnowledgeBases` and
//! `aiKnowledgeBase...`, `createAiKnowledgeBase...`, `updateAiKnowledgeBase...`, `deleteAiKnowledgeBase...` of the public
//! endpoint.

use serde_json::{Map, Value};

use crate::document::documents::knowledge_bases as documents;
use crate::document::{MutationDocument, QueryDocument};
use crate::operation::{Mutation, Query};

/// The three kinds of knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Text kept in Pipefy.
    PlainText,
    /// An uploaded PDF.
    Document,
    /// A search in another pipe's cards.
    DataLookup,
}

/// All items of a pipe (one list, no pages).
pub fn get_ai_knowledge_bases(pipe_uuid: &str) -> Query {
    Query::new(&documents::GET_AI_KNOWLEDGE_BASES).var("pipeUuid", pipe_uuid)
}

/// The organisation of a pipe, which an upload needs; takes a pipe id or uuid.
pub fn pipe_organization(pipe: &str) -> Query {
    Query::new(&documents::PIPE_ORGANIZATION).var("id", pipe)
}

impl Knowledge {
    /// The key of the item in answers of the API.
    pub const fn node(self) -> &'static str {
        match self {
            Self::PlainText => "knowledgeBasePlainText",
            Self::Document => "knowledgeBaseDocument",
            Self::DataLookup => "knowledgeBaseDataLookup",
        }
    }

    /// The root field that reads one.
    pub const fn read_root(self) -> &'static str {
        match self {
            Self::PlainText => "aiKnowledgeBasePlainText",
            Self::Document => "aiKnowledgeBaseDocument",
            Self::DataLookup => "aiKnowledgeBaseDataLookup",
        }
    }

    /// The root field that changes one: `createAiKnowledgeBasePlainText` for `create`.
    pub fn write_root(self, verb: &str) -> String {
        format!("{verb}A{}", self.read_root().trim_start_matches('a'))
    }

    /// The key of its id in inputs.
    pub const fn id_key(self) -> &'static str {
        match self {
            Self::PlainText => "plainTextId",
            Self::Document => "documentId",
            Self::DataLookup => "dataLookupId",
        }
    }

    /// One item.
    pub fn get(self, id: &str, pipe_uuid: &str) -> Query {
        let document: &'static QueryDocument = match self {
            Self::PlainText => &documents::GET_AI_KNOWLEDGE_BASE_PLAIN_TEXT,
            Self::Document => &documents::GET_AI_KNOWLEDGE_BASE_DOCUMENT,
            Self::DataLookup => &documents::GET_AI_KNOWLEDGE_BASE_DATA_LOOKUP,
        };
        Query::new(document).var("id", id).var("pipeUuid", pipe_uuid)
    }

    /// Creates an item; `input` takes the keys of the schema's `CreateKnowledgeBase...Input`.
    pub fn create(self, input: Map<String, Value>) -> Mutation {
        let document: &'static MutationDocument = match self {
            Self::PlainText => &documents::CREATE_AI_KNOWLEDGE_BASE_PLAIN_TEXT,
            Self::Document => &documents::CREATE_AI_KNOWLEDGE_BASE_DOCUMENT,
            Self::DataLookup => &documents::CREATE_AI_KNOWLEDGE_BASE_DATA_LOOKUP,
        };
        Mutation::new(document).input(input)
    }

    /// Changes an item; `input` takes the keys of the schema's `UpdateKnowledgeBase...Input`.
    pub fn update(self, input: Map<String, Value>) -> Mutation {
        let document: &'static MutationDocument = match self {
            Self::PlainText => &documents::UPDATE_AI_KNOWLEDGE_BASE_PLAIN_TEXT,
            Self::Document => &documents::UPDATE_AI_KNOWLEDGE_BASE_DOCUMENT,
            Self::DataLookup => &documents::UPDATE_AI_KNOWLEDGE_BASE_DATA_LOOKUP,
        };
        Mutation::new(document).input(input)
    }

    /// Deletes an item for good.
    pub fn delete(self, id: &str, pipe_uuid: &str) -> Mutation {
        let document: &'static MutationDocument = match self {
            Self::PlainText => &documents::DELETE_AI_KNOWLEDGE_BASE_PLAIN_TEXT,
            Self::Document => &documents::DELETE_AI_KNOWLEDGE_BASE_DOCUMENT,
            Self::DataLookup => &documents::DELETE_AI_KNOWLEDGE_BASE_DATA_LOOKUP,
        };
        let mut input = Map::new();
        input.insert("pipeUuid".to_owned(), pipe_uuid.into());
        input.insert(self.id_key().to_owned(), id.into());
        Mutation::new(document).input(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_those_of_the_documents() {
        for kind in [Knowledge::PlainText, Knowledge::Document, Knowledge::DataLookup] {
            for (verb, mutation) in [
                ("create", kind.create(Map::new())),
                ("update", kind.update(Map::new())),
                ("delete", kind.delete("1", "u")),
            ] {
                let text = mutation.operation().document.text();
                assert!(text.contains(&format!("{}(", kind.write_root(verb))), "{verb} {kind:?} in {text}");
            }
        }
    }
}
