//! The engine: everything a process shares, and nothing that knows an identity.

use std::sync::Arc;

use crate::client::PipefyClient;
use crate::credential::Credential;
use crate::document::EndpointKind;
use crate::endpoint::GraphqlEndpoint;
use crate::executor::AuthenticatedExecutor;
use crate::sender::Senders;
use crate::settings::PipefySettings;
use crate::telemetry::{self, Deployment, Surface};
use crate::transfer::Transfer;

/// The three endpoints of one Pipefy.
#[derive(Clone, Debug)]
pub struct PipefyEndpoints {
    /// `/graphql`
    pub public: GraphqlEndpoint,
    /// `/graphql/interfaces`
    pub interfaces: GraphqlEndpoint,
    /// `/internal_api`
    pub internal: GraphqlEndpoint,
}

/// One per process: endpoints, connection pool, client headers, schema cache. It has no method that sends a request:
///
/// ```compile_fail
/// # async fn f(engine: pipefy::PipefyEngine, query: pipefy::Query, budget: pipefy::Budget) {
/// engine.query(&query, &budget).await; // only a session can
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PipefyEngine {
    endpoints: PipefyEndpoints,
    transfer: Transfer,
}

/// The engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A derived URL is no URL.
    #[error("base_url does not give a usable {0} URL; check PIPEFY_BASE_URL")]
    Url(EndpointKind),
    /// The HTTP client could not be made (usually the system's certificates or a proxy variable).
    #[error("the HTTP client could not be set up: {0}; check the proxy and certificate variables")]
    Http(String),
}

impl PipefyEngine {
    /// Builds the engine. No network.
    ///
    /// # Errors
    /// An unusable base URL, proxy or certificate store.
    pub fn build(
        settings: &PipefySettings,
        surface: Surface,
        deployment: Option<Deployment>,
    ) -> Result<Self, EngineError> {
        let senders = Senders::new();
        let headers = telemetry::headers(surface, deployment);
        let endpoint = |kind: EndpointKind, url: String| {
            // Parsed as a URL first: that is where a host gets the form it has on the wire.
            let url = url::Url::parse(&url).map_err(|_| EngineError::Url(kind))?;
            let uri = url.as_str().parse().map_err(|_| EngineError::Url(kind))?;
            let reuse_schema = settings.gql_reuse_fetched_graphql_schema;
            Ok(GraphqlEndpoint::new(kind, senders.to(uri)?, headers.clone(), reuse_schema))
        };
        Ok(Self {
            endpoints: PipefyEndpoints {
                public: endpoint(EndpointKind::Public, settings.graphql_url())?,
                interfaces: endpoint(EndpointKind::Interfaces, settings.interfaces_graphql_url())?,
                internal: endpoint(EndpointKind::Internal, settings.internal_api_url())?,
            },
            transfer: Transfer::new(settings)?,
        })
    }

    /// A session bound to `credential`: a few reference counts, no I/O, no locks.
    pub fn session(&self, credential: Credential) -> PipefyClient {
        let bind = |endpoint: &GraphqlEndpoint| -> Arc<AuthenticatedExecutor> {
            Arc::new(AuthenticatedExecutor::new(endpoint.clone(), credential.clone()))
        };
        PipefyClient::from_executors(
            bind(&self.endpoints.public),
            bind(&self.endpoints.interfaces),
            bind(&self.endpoints.internal),
            self.transfer.clone(),
        )
    }

    /// The shared endpoints, for callers that bring a credential with each call.
    pub fn endpoints(&self) -> &PipefyEndpoints {
        &self.endpoints
    }
}
