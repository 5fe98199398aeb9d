//! Drives the real program: against a sandbox on loopback, and without one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod blueprint;
mod bulk;
mod cards;
mod clients;
mod completion;
mod exports;
mod failures;
mod forms;
mod guards;
/// The issuer with every fault a test may ask for.
#[path = "../../../pipefy-auth/tests/support/mod.rs"]
mod issuer;
#[cfg(target_os = "linux")]
mod keychain;
mod lines;
mod names;
mod packages;
mod pages;
mod proxies;
mod results;
mod rig;
mod serving;
mod shapes;
mod sign_in;
mod sign_in_failures;
mod skills;
#[cfg(target_os = "linux")]
mod terminal;
