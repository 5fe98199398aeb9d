//! The MCP server for Pipefy.
//!
//! ```text
//! stdio, http     transports: lines on standard streams; the HTTP edge
//!  handler        the protocol's methods, over rmcp's service loop
//!   dispatch      one tool call: lookup, identity, limits, the tool, the reply
//!    identity     the caller of this very message -> the credential Pipefy sees
//!    watch         what is told of every call: call_log, metrics, audit, traces
//!  prompts, resources, completion   playbooks, what can be read by address, what may be meant
//! hosted          whom a hosted server lets in, and as whom it acts for them
//! catalogue       which tools are shown
//! runtime         put together once per process; holds no identity
//! argv, logging, sandbox   starting up
//! stderr, log_line         what is told on standard error
//! ```
//!
//! To act as callers in another way than the profiles do, implement [`identity::Identity`] and build the runtime with
//! [`runtime::McpRuntime::with_identity`]; nothing else changes.

pub mod argv;
pub mod audit;
mod call_log;
pub mod catalogue;
mod completion;
pub mod conversation;
pub mod dispatch;
mod elicit;
#[doc(hidden)]
pub mod fuzzing;
pub mod handler;
mod hosted;
pub mod http;
pub mod identity;
pub mod instructions;
mod log_line;
pub mod logging;
mod lone;
pub mod metrics;
mod prompts;
pub mod reload;
mod resources;
pub mod runtime;
pub mod sandbox;
pub mod stderr;
pub mod stdio;
#[cfg(feature = "otel")]
pub mod traces;
#[cfg(not(feature = "otel"))]
#[path = "no_traces.rs"]
pub mod traces;
mod watch;

pub use call_log::CallLog;
