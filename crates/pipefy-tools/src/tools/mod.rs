//! The capabilities by noun, one file per tool.

mod agents;
mod attachments;
mod automations;
mod ipaas;
mod knowledge_bases;
mod providers;
mod observability;
mod ai_automations;
mod cards;
mod local_file;
mod classified;
mod comments;
mod conditions;
mod definitions;
mod fields;
mod form;
mod introspection;
mod labels;
mod members;
pub(crate) mod order;
mod organizations;
mod permission;
mod phases;
mod pipes;
mod records;
mod relations;
mod service_accounts;
mod shared;
mod turns;
#[cfg(test)]
mod testing;

use crate::capability::Row;

/// Every row, by noun; [`order::ORDER`] says in which order they are listed.
pub(crate) static DOMAINS: &[&[Row]] = &[
    agents::ROWS,
    attachments::ROWS,
    automations::ROWS,
    ipaas::ROWS,
    knowledge_bases::ROWS,
    providers::ROWS,
    observability::ROWS,
    ai_automations::ROWS,
    cards::ROWS,
    comments::ROWS,
    conditions::ROWS,
    fields::ROWS,
    introspection::ROWS,
    labels::ROWS,
    members::ROWS,
    organizations::ROWS,
    phases::ROWS,
    pipes::ROWS,
    records::ROWS,
    relations::ROWS,
    service_accounts::ROWS,
];
