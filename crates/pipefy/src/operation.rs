//! Operations: a document with its variables, ready to be sent under one identity.
//!
//! Domain modules ([`crate::cards`], ...) build them; a [`crate::PipefyClient`] sends them. Because an operation is a value,
//! a caller can show it, count it or keep it before anything is sent.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::document::{Document, DocumentRef, MutationDocument, QueryDocument};

/// GraphQL variables by name.
pub type Variables = Map<String, Value>;

/// A document with its variables.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What to run.
    pub document: DocumentRef,
    /// Its variables; a variable left out is not sent, an explicit null is.
    pub variables: Variables,
}

impl Operation {
    /// An operation without variables yet.
    pub fn new(document: DocumentRef) -> Self {
        Self { document, variables: Variables::new() }
    }

    /// The request body `{"query": ..., "variables": ...}`.
    pub(crate) fn body(&self) -> Vec<u8> {
        let query = self.document.json();
        let mut body = Vec::with_capacity(query.len() + 128);
        body.extend_from_slice(b"{\"query\":");
        body.extend_from_slice(query.as_bytes());
        body.extend_from_slice(b",\"variables\":");
        if serde_json::to_writer(&mut body, &self.variables).is_err() {
            // A map of JSON values always serialises; keep the body well-formed all the same.
            body.extend_from_slice(b"{}");
        }
        body.push(b'}');
        body
    }
}

fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// An operation that only reads.
#[derive(Clone, Debug)]
pub struct Query(pub(crate) Operation);

impl Query {
    /// A query without variables yet.
    pub fn new(document: &'static QueryDocument) -> Self {
        Self(Operation::new(DocumentRef::Fixed(&document.0)))
    }

    /// A query whose document was made at run time; `None` when that document is not a query.
    pub fn shared(document: std::sync::Arc<Document>, variables: Variables) -> Option<Self> {
        (document.kind() == crate::OperationKind::Query)
            .then(|| Self(Operation { document: DocumentRef::Shared(document), variables }))
    }

    /// Sets a variable.
    #[must_use]
    pub fn var(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.variables.insert(name.to_owned(), to_value(value));
        self
    }

    /// Sets a variable, or leaves it out when there is no value.
    #[must_use]
    pub fn var_opt(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.var(name, value),
            None => self,
        }
    }

    /// Document and variables.
    pub fn operation(&self) -> &Operation {
        &self.0
    }

    /// The same variables for another (narrowed) query document; those that it no longer declares are dropped.
    #[must_use]
    pub fn with_document(mut self, document: std::sync::Arc<Document>) -> Self {
        if document.kind() != crate::OperationKind::Query {
            return self;
        }
        if let Some(declared) = document.declared_variables() {
            self.0.variables.retain(|name, _| declared.contains(name));
        }
        Self(Operation { document: DocumentRef::Shared(document), variables: self.0.variables })
    }
}

/// An operation that changes something. It is sent at most once per call.
#[derive(Clone, Debug)]
pub struct Mutation(pub(crate) Operation);

impl Mutation {
    /// A mutation without variables yet.
    pub fn new(document: &'static MutationDocument) -> Self {
        Self(Operation::new(DocumentRef::Fixed(&document.0)))
    }

    /// A mutation whose document was written by a caller.
    pub fn shared(document: std::sync::Arc<Document>, variables: Variables) -> Self {
        Self(Operation { document: DocumentRef::Shared(document), variables })
    }

    /// Sets a variable.
    #[must_use]
    pub fn var(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.variables.insert(name.to_owned(), to_value(value));
        self
    }

    /// Sets a variable, or leaves it out when there is no value.
    #[must_use]
    pub fn var_opt(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.var(name, value),
            None => self,
        }
    }

    /// Sets the variable `input`, which most of Pipefy's mutations take.
    #[must_use]
    pub fn input(mut self, input: Map<String, Value>) -> Self {
        // Moved as it is: an input can hold a document of a megabyte.
        self.0.variables.insert("input".to_owned(), Value::Object(input));
        self
    }

    /// Sets the variable `input` to `{id}`, which is all that most deletions take.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.var("input", serde_json::json!({ "id": id }))
    }

    /// Document and variables.
    pub fn operation(&self) -> &Operation {
        &self.0
    }

    /// Mutable access to the variables, to fill in what only an earlier answer could give.
    pub fn variables_mut(&mut self) -> &mut Variables {
        &mut self.0.variables
    }
}
