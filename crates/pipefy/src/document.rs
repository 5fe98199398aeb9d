//! GraphQL documents: one operation each, fixed at build time or written by a caller.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Which of Pipefy's three GraphQL endpoints serves a document (`spec/config.md`, "Derived URLs").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// `/graphql`
    Public,
    /// `/graphql/interfaces`
    Interfaces,
    /// `/internal_api`
    Internal,
}

impl fmt::Display for EndpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public GraphQL",
            Self::Interfaces => "interfaces GraphQL",
            Self::Internal => "internal GraphQL",
        })
    }
}

/// What a document does; decides whether a failed request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Reads only; may be repeated.
    Query,
    /// Changes something; sent at most once per call.
    Mutation,
}

/// One GraphQL document with the endpoint that serves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    name: Cow<'static, str>,
    endpoint: EndpointKind,
    kind: OperationKind,
    text: Cow<'static, str>,
    json: Cow<'static, str>,
    /// Of a narrowed document: the variables it still declares.
    declared: Option<Vec<String>>,
}

impl Document {
    pub(crate) const fn fixed(
        name: &'static str,
        endpoint: EndpointKind,
        kind: OperationKind,
        text: &'static str,
        json: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            endpoint,
            kind,
            text: Cow::Borrowed(text),
            json: Cow::Borrowed(json),
            declared: None,
        }
    }

    /// A document whose text is only known at run time (a caller's own, or a narrowed one).
    ///
    /// `kind` decides about repetition, so say [`OperationKind::Mutation`] unless every operation in `text` is a query.
    pub fn owned(name: impl Into<String>, endpoint: EndpointKind, kind: OperationKind, text: String) -> Arc<Self> {
        let json = serde_json::Value::String(text.clone()).to_string();
        Arc::new(Self {
            name: Cow::Owned(name.into()),
            endpoint,
            kind,
            text: Cow::Owned(text),
            json: Cow::Owned(json),
            declared: None,
        })
    }

    /// A part of `whole`, see [`crate::narrow`]; `declared` are the variables of its header.
    pub(crate) fn narrowed(whole: &Self, text: String, declared: Vec<String>) -> Arc<Self> {
        let json = serde_json::Value::String(text.clone()).to_string();
        Arc::new(Self {
            name: whole.name.clone(),
            endpoint: whole.endpoint,
            kind: whole.kind,
            text: Cow::Owned(text),
            json: Cow::Owned(json),
            declared: Some(declared),
        })
    }

    /// The variables a narrowed document still declares; `None` for any other document.
    pub fn declared_variables(&self) -> Option<&[String]> {
        self.declared.as_deref()
    }

    /// `<domain>/<file name>` for documents of `graphql/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The endpoint that serves it.
    pub fn endpoint(&self) -> EndpointKind {
        self.endpoint
    }

    /// Query or mutation.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The GraphQL text as sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text as a JSON string literal, quotes included.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A document that only reads.
#[derive(Debug)]
pub struct QueryDocument(pub(crate) Document);

/// A document that writes.
#[derive(Debug)]
pub struct MutationDocument(pub(crate) Document);

impl Deref for QueryDocument {
    type Target = Document;
    fn deref(&self) -> &Document {
        &self.0
    }
}

impl Deref for MutationDocument {
    type Target = Document;
    fn deref(&self) -> &Document {
        &self.0
    }
}

/// A document fixed at build time or shared at run time.
#[derive(Clone, Debug)]
pub enum DocumentRef {
    /// From `graphql/`.
    Fixed(&'static Document),
    /// Made at run time.
    Shared(Arc<Document>),
}

impl Deref for DocumentRef {
    type Target = Document;
    fn deref(&self) -> &Document {
        match self {
            Self::Fixed(document) => document,
            Self::Shared(document) => document,
        }
    }
}

/// The documents of `graphql/`, one constant per file.
pub mod documents {
    use super::{Document, EndpointKind, MutationDocument, OperationKind, QueryDocument};
    include!(concat!(env!("OUT_DIR"), "/documents.rs"));
}
