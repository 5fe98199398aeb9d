//! `pipefy`: one command per capability.
//!
//! A command is a row of a table ([`command`], [`commands`]); [`parse`] makes the parser from the rows, [`run`] gives a row
//! what it needs and shows what comes back. Nothing here knows Pipefy's API: that is behind the capabilities.

mod auth;
mod blueprint;
mod bulk;
mod client_file;
mod command;
mod commands;
mod completion;
mod config;
#[cfg(test)]
mod contract_tests;
mod credential;
mod doctor;
mod failure;
mod flow;
mod flows;
mod log;
mod man;
mod mcp;
mod names;
mod output;
mod parse;
mod prompt;
#[cfg(test)]
mod reference;
mod run;
mod sandbox;
mod shapes;
mod show;
mod skills;
mod tokens;
mod tools;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    ExitCode::from(run::run(&argv))
}
