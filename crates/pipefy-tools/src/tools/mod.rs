//! The capabilities by noun, one file per tool.

pub(crate) mod agents;
mod ai_automations;
mod attachments;
mod automations;
pub(crate) mod bulk;
mod cards;
mod classified;
mod comments;
mod condition_operations;
mod conditions;
mod container;
mod dates;
mod definitions;
mod emails;
mod export;
mod fields;
mod form;
mod interfaces;
mod introspection;
mod ipaas;
mod knowledge_bases;
mod labels;
mod local_file;
mod members;
pub(crate) mod observability;
pub(crate) mod order;
mod organizations;
mod permission;
mod phases;
pub(crate) mod pipes;
mod portals;
mod providers;
mod records;
mod relations;
mod reports;
mod service_accounts;
pub(crate) mod shared;
pub(crate) mod sheet;
mod tables;
#[cfg(test)]
pub(crate) mod testing;
mod turns;
mod webhooks;

use crate::capability::Row;

/// Every row, by noun; [`order::ORDER`] says in which order they are listed.
pub(crate) static DOMAINS: &[&[Row]] = &[
    agents::ROWS,
    attachments::ROWS,
    automations::ROWS,
    bulk::ROWS,
    ipaas::ROWS,
    knowledge_bases::ROWS,
    providers::ROWS,
    observability::ROWS,
    ai_automations::ROWS,
    cards::ROWS,
    comments::ROWS,
    conditions::ROWS,
    emails::ROWS,
    fields::ROWS,
    interfaces::ROWS,
    introspection::ROWS,
    labels::ROWS,
    members::ROWS,
    organizations::ROWS,
    phases::ROWS,
    pipes::ROWS,
    portals::ROWS,
    records::ROWS,
    relations::ROWS,
    reports::ROWS,
    service_accounts::ROWS,
    tables::ROWS,
    webhooks::ROWS,
];
