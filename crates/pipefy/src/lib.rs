//! Pipefy's GraphQL API for programs: one engine per process, one session per identity.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use pipefy::{Budget, Credential, Deployment, PipefyEngine, Surface, cards, settings::PipefySettings};
//!
//! let engine = PipefyEngine::build(&PipefySettings::default(), Surface::Sdk, None)?;
//! let session = engine.session(Credential::static_token(&"token".into())?);
//! let data = session.query(&cards::get_card("123", true), &Budget::unlimited()).await?;
//! println!("{}", data.text());
//! # Ok(()) }
//! ```
//!
//! The engine knows no identity and cannot send anything. A session is bound to one credential for its whole life. What
//! can be sent is a value: the domain modules ([`cards`], [`pipes`], ...) build a [`Query`] or a [`Mutation`] from a
//! document of `graphql/` and its variables.

mod budget;
mod client;
mod credential;
mod document;
mod endpoint;
mod engine;
mod error;
mod executor;
mod id;
mod operation;
mod response;
mod retry;
mod schema_cache;
mod selection;
mod sender;
mod telemetry;
pub mod tls;
mod transfer;
mod variables;
mod watch;

pub mod agents;
pub mod attachments;
pub mod automations;
pub mod cards;
pub mod comments;
pub mod conditions;
pub mod emails;
pub mod fields;
pub mod graphql;
pub mod interfaces;
pub mod introspection;
pub mod ipaas;
pub mod knowledge_bases;
pub mod labels;
pub mod members;
pub mod observability;
pub mod organizations;
pub mod phases;
pub mod pipes;
pub mod portals;
pub mod providers;
pub mod relations;
pub mod reports;
pub mod scope;
pub mod sdl;
pub mod service_accounts;
pub mod settings;
pub mod tables;
pub mod url_policy;
pub mod webhooks;

pub use budget::{Budget, Progress, REQUEST_LIMIT};
pub use client::{PipefyClient, prove};
pub use credential::{Bearer, BearerSource, Credential, CredentialError};
pub use document::{Document, DocumentRef, EndpointKind, MutationDocument, OperationKind, QueryDocument, documents};
pub use endpoint::{ANSWER_LIMIT, GraphqlEndpoint};
pub use engine::{EngineError, PipefyEndpoints, PipefyEngine};
pub use error::Error;
pub use executor::{AuthenticatedExecutor, GraphqlExecutor};
pub use id::{BlankId, Id};
pub use operation::{Mutation, Operation, Query, Variables};
pub use response::{Data, GraphqlError, GraphqlResponse};
pub use selection::{SelectionError, Selections, narrow};
pub use telemetry::{COMPATIBLE_WITH, Deployment, Surface, VERSION};
pub use transfer::{Download, EXPORT_LIMIT, REDIRECT_LIMIT, TRANSFER_LIMIT, Transfer, TransferError};
pub use watch::{RequestEnd, Requests};
