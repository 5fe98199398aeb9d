//! An embedded, stateful Pipefy on loopback.
//!
//! It speaks HTTP on the real paths (`/graphql`, `/graphql/interfaces`, `/internal_api`, `/oauth/token`, signed storage
//! URLs, an OpenID issuer at `/realms/pipefy`), validates documents against the schema of each endpoint, knows several people with different permissions and
//! keeps what is written: in memory, or in a SQLite file that survives restarts. It depends on no other crate of the
//! product, so that it cannot share a client's mistakes.
//!
//! ```no_run
//! # async fn demo() -> Result<(), pipefy_sandbox::SandboxError> {
//! let sandbox = pipefy_sandbox::Sandbox::start(pipefy_sandbox::SandboxOptions::default()).await?;
//! println!("{} with bearer {}", sandbox.url(), pipefy_sandbox::DEFAULT_TOKEN);
//! sandbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Control routes
//!
//! Not part of Pipefy, for tests: `GET /_sandbox/requests[?since=N]` (what was received; `DELETE` forgets it),
//! `GET`, `POST`, `DELETE /_sandbox/faults` (see [`Faults`]), `GET /_sandbox/deliveries` (calls of webhooks),
//! `GET /_sandbox/mail` (stored mail), `POST /_sandbox/mail` (mail that comes in), `POST /_sandbox/automations/{id}/run`
//! (`{"card_id"}`, triggers a rule by hand), `POST /_sandbox/clock` (`{"now"}`, looks at the clock as it will be then),
//! `POST /_sandbox/credits` (`{"limit"}`, AI credits per month), `GET /_sandbox/health`. Of the issuer:
//! `POST /_sandbox/oidc/keys[?drop_old=true]` makes a new signing key (and withdraws the older ones), `GET` names them;
//! `POST /_sandbox/oidc/tokens` signs an access token from `{"person", "client_id", "scope", "aud", "expires_in", "claims",
//! "without"}`, all optional.
//!
//! # How to add a root field
//!
//! 1. Find the domain's file in `src/domains/` (or add one and list its two tables in `src/domains/mod.rs`).
//! 2. Add a row to its `ROOTS`: endpoint, name, and a function from `(&Ctx, &Args)` to JSON. The function asks
//!    `access` for the entity it works on (which also answers not found and denied), reads and writes through
//!    `Ctx`, and returns the payload. `json::link(kind, id)` stands for an entity; it is loaded when the
//!    selection asks for it. A list that is paged goes through `page::connection`. Each mutation is one transaction:
//!    an error rolls it back.
//! 3. Stored properties answer by their name, in either case style. A property that is computed or has arguments gets a
//!    row in `PROPERTIES` with the GraphQL types it belongs to.
//! 4. A part of an answer that fails while the rest stands is `GqlError::as_value()` in its place.
//!
//! # What follows from a change
//!
//! A change of a card ends with `events::tell`: it writes the audit trail, queues webhooks, and runs automations and AI
//! agents (`domains::actions`; a fixed rule stands in for a language model). The worker beside the server makes the
//! queued calls, on loopback only, and looks for cards that became late. `/` and `/open-cards/ID` are pages for people.
//!
//! A root field of the schema without a row answers the error `NOT_IMPLEMENTED`; a property without a row or stored
//! value is null.

mod access;
mod answer;
mod attach;
mod board;
mod columns;
mod ctx;
mod domains;
mod engine;
mod error;
mod events;
mod faults;
mod ipaas;
mod journal;
mod json;
mod mail;
mod oauth;
mod object;
mod oidc;
mod page;
mod people;
mod schedule;
mod seed;
mod server;
mod sheet;
mod standin;
mod storage;
mod store;
mod values;
mod worker;

pub use attach::{Announcement, Attached, attach_or_start, default_data_path};
pub use error::SandboxError;
pub use faults::{FaultRule, Faults};
pub use oidc::clients::{CLI_CLIENT_ID, MCP_CLIENT_ID, MCP_SERVER_CLIENT_ID, MCP_SERVER_CLIENT_SECRET};
pub use oidc::grants::API_AUDIENCE;
pub use people::{DEFAULT_TOKEN, Person, SERVICE_ACCOUNT_EMAIL, SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET, people};
pub use server::{Sandbox, SandboxOptions};
pub use store::Data;
