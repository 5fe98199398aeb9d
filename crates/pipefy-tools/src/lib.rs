//! What can be done with Pipefy: each capability once, as a static row and one function (a read) or two (a write).
//!
//! This crate knows neither MCP nor the terminal. An adapter looks a [`Tool`] up in the [`Catalogue`], gives it a [`Call`]
//! (session, policy, approval, budget) and renders the [`Outcome`] or the [`ToolError`].
//!
//! To add a capability: a document in the SDK's `graphql/`, an operation function in the SDK, a type here in
//! `tools/<noun>/<tool>.rs` that implements [`Read`] or [`Write`], its row in `tools/<noun>/mod.rs`.

mod arguments;
mod call;
mod capability;
mod catalogue;
mod confirm;
mod discovery;
mod error;
mod fit;
#[doc(hidden)]
pub mod fuzzing;
mod fuzzy;
mod gate;
mod ipaas;
pub mod journal;
mod listing;
mod op;
mod outcome;
mod output;
mod paging;
mod plan;
pub mod playbooks;
mod readback;
mod reply;
mod scope;
mod tools;
mod trust;

pub use arguments::{CheckedId, check as check_arguments};
pub use call::{
    Act, Answer, Approval, Ask, AskError, Call, Confirm, Local, Options, Out, Policy, SharedToolbox, Toolbox,
};
pub use capability::{Read, Row, Run, Verification, Write};
pub use catalogue::{Catalogue, Tool};
pub use confirm::{ConfirmationKey, Refusal, Spent, TTL, digest_of, digest_of_text, mint, verify};
pub use error::{Explain, Kind, NOT_FOUND_CODES, ToolError, debug_suffix};
pub use ipaas::Gateway as IpaasGateway;
pub use op::{Class, Domain, IdArg, IdKind, Op, Outsiders, Paging, Persona, Reach, Selects, Shape};
pub use outcome::{Body, Outcome, Page, dig};
pub use paging::page_size;
pub use plan::{Confirmation, Plan, Step, unknown};
pub use reply::{Payload, Reply, compact, render};
pub use scope::Scope;
pub use tools::bulk::rows::{FILE_LIMIT as ROWS_LIMIT, rows_of_text};
pub use tools::pipes::validate_plan::{DYNAMIC as DYNAMIC_TYPE, TYPES as FIELD_TYPES};
