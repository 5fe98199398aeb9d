//! Drives the real program: against a sandbox on loopback, and without one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cards;
mod completion;
mod failures;
mod guards;
mod lines;
mod rig;
mod serving;
mod shapes;
