//! The capabilities by noun, one file per tool.

mod agents;
mod attachments;
mod automations;
mod cards;
mod definitions;
mod form;
mod introspection;
pub(crate) mod order;
mod organizations;
mod permission;
mod phases;
mod pipes;
mod records;
mod shared;
#[cfg(test)]
mod testing;

use crate::capability::Row;

/// Every row, by noun; [`order::ORDER`] says in which order they are listed.
pub(crate) static DOMAINS: &[&[Row]] = &[
    agents::ROWS,
    attachments::ROWS,
    automations::ROWS,
    cards::ROWS,
    introspection::ROWS,
    organizations::ROWS,
    phases::ROWS,
    pipes::ROWS,
    records::ROWS,
];
