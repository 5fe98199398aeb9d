//! Optional local validation: one introspection per endpoint, kept in memory (`gql_reuse_fetched_graphql_schema`).

use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use tokio::sync::OnceCell;

use crate::budget::Budget;
use crate::credential::Credential;
use crate::document::{DocumentRef, OperationKind, documents};
use crate::endpoint::GraphqlEndpoint;
use crate::error::Error;
use crate::operation::Operation;
use crate::variables;

/// The schema of one endpoint once somebody needed it. A failed fetch is not kept.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache(OnceCell<Valid<Schema>>);

impl SchemaCache {
    /// Validates a caller's own document and its variables before they are sent. Fixed documents were validated when we were built, so they
    /// neither fetch nor wait.
    pub(crate) async fn check(
        &self,
        endpoint: &GraphqlEndpoint,
        operation: &Operation,
        credential: &Credential,
        budget: &Budget,
    ) -> Result<(), Error> {
        let DocumentRef::Shared(document) = &operation.document else {
            return Ok(());
        };
        // A narrowed document is a part of a fixed one.
        if document.name() == INTROSPECTION || document.declared_variables().is_some() {
            return Ok(());
        }
        let schema = self.schema(endpoint, credential, budget).await?;
        let problems = match ExecutableDocument::parse_and_validate(schema, document.text(), "document.graphql") {
            Ok(document) => variables::problems(schema, &document, &operation.variables),
            Err(invalid) => invalid.errors.iter().map(|e| e.error.to_string()).take(20).collect(),
        };
        if problems.is_empty() { Ok(()) } else { Err(Error::Document { endpoint: endpoint.kind(), problems }) }
    }

    async fn schema(
        &self,
        endpoint: &GraphqlEndpoint,
        credential: &Credential,
        budget: &Budget,
    ) -> Result<&Valid<Schema>, Error> {
        // Single flight: whoever comes meanwhile waits for the same fetch; one that fails or is cancelled leaves nothing.
        self.0
            .get_or_try_init(|| async {
                let document = crate::document::Document::owned(
                    INTROSPECTION,
                    endpoint.kind(),
                    OperationKind::Query,
                    documents::introspection::SCHEMA.text().to_owned(),
                );
                let operation = Operation::new(DocumentRef::Shared(document));
                let answer = Box::pin(endpoint.execute(&operation, credential, budget)).await?;
                let unusable = |why: &str| Error::Document {
                    endpoint: endpoint.kind(),
                    problems: vec![format!("its introspection cannot be used: {why}")],
                };
                let data = answer.data.ok_or_else(|| unusable("no data"))?;
                let sdl = crate::introspection::to_sdl(&data.value()).ok_or_else(|| unusable("unknown shape"))?;
                Schema::parse_and_validate(sdl, "introspection.graphql")
                    .map_err(|invalid| unusable(&invalid.errors.to_string().chars().take(300).collect::<String>()))
            })
            .await
    }
}

const INTROSPECTION: &str = "introspection/schema";
