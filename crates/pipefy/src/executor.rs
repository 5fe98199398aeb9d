//! The seam that services and tests use: something that runs an operation under one identity.

use futures_util::future::BoxFuture;

use crate::budget::Budget;
use crate::credential::Credential;
use crate::endpoint::GraphqlEndpoint;
use crate::error::Error;
use crate::operation::Operation;
use crate::response::GraphqlResponse;

/// Runs operations; the identity is fixed inside.
pub trait GraphqlExecutor: Send + Sync {
    /// Data and errors together, see [`GraphqlEndpoint::execute`].
    fn execute<'a>(
        &'a self,
        operation: &'a Operation,
        budget: &'a Budget,
    ) -> BoxFuture<'a, Result<GraphqlResponse, Error>>;

    /// Whether `text` contains the credential that requests go out with; an executor without one says no.
    ///
    /// # Errors
    /// The credential cannot be had.
    fn credential_occurs_in<'a>(&'a self, _text: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { Ok(false) })
    }
}

/// An endpoint bound to one credential.
#[derive(Clone, Debug)]
pub struct AuthenticatedExecutor {
    endpoint: GraphqlEndpoint,
    credential: Credential,
}

impl AuthenticatedExecutor {
    /// Binds `endpoint` to `credential`.
    pub fn new(endpoint: GraphqlEndpoint, credential: Credential) -> Self {
        Self { endpoint, credential }
    }
}

impl GraphqlExecutor for AuthenticatedExecutor {
    fn execute<'a>(
        &'a self,
        operation: &'a Operation,
        budget: &'a Budget,
    ) -> BoxFuture<'a, Result<GraphqlResponse, Error>> {
        Box::pin(self.endpoint.execute(operation, &self.credential, budget))
    }

    fn credential_occurs_in<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move { Ok(self.credential.bearer().await?.occurs_in(text)) })
    }
}
