//! Behaviour by domain: each file has a table of root fields and a table of computed properties.

pub(crate) mod actions;
pub(crate) mod agents;
pub(crate) mod attachments;
pub(crate) mod automations;
pub(crate) mod cards;
pub(crate) mod comments;
pub(crate) mod conditions;
pub(crate) mod emails;
pub(crate) mod exports;
pub(crate) mod fields;
pub(crate) mod html;
pub(crate) mod knowledge;
pub(crate) mod labels;
pub(crate) mod logs;
pub(crate) mod members;
pub(crate) mod organizations;
pub(crate) mod phases;
pub(crate) mod pipes;
pub(crate) mod portals;
pub(crate) mod providers;
pub(crate) mod records;
pub(crate) mod relations;
pub(crate) mod reports;
pub(crate) mod service_accounts;
pub(crate) mod simulations;
pub(crate) mod table_records;
pub(crate) mod tables;
pub(crate) mod usage;
pub(crate) mod webhooks;

use crate::object::{Property, Root};

/// Every root field that has behaviour.
pub(crate) const ROOTS: &[&[Root]] = &[
    organizations::ROOTS,
    pipes::ROOTS,
    phases::ROOTS,
    fields::ROOTS,
    labels::ROOTS,
    cards::ROOTS,
    comments::ROOTS,
    conditions::ROOTS,
    records::ROOTS,
    members::ROOTS,
    relations::ROOTS,
    service_accounts::ROOTS,
    tables::ROOTS,
    table_records::ROOTS,
    attachments::ROOTS,
    automations::ROOTS,
    logs::ROOTS,
    agents::ROOTS,
    knowledge::ROOTS,
    webhooks::ROOTS,
    emails::ROOTS,
    reports::ROOTS,
    exports::ROOTS,
    usage::ROOTS,
    simulations::ROOTS,
    portals::ROOTS,
    providers::ROOTS,
    crate::ipaas::ROOTS,
];

/// Every property that is computed instead of stored.
pub(crate) const PROPERTIES: &[&[Property]] = &[
    organizations::PROPERTIES,
    pipes::PROPERTIES,
    phases::PROPERTIES,
    fields::PROPERTIES,
    cards::PROPERTIES,
    comments::PROPERTIES,
    conditions::PROPERTIES,
    members::PROPERTIES,
    relations::PROPERTIES,
    service_accounts::PROPERTIES,
    tables::PROPERTIES,
    table_records::PROPERTIES,
    automations::PROPERTIES,
    emails::PROPERTIES,
    reports::PROPERTIES,
    exports::PROPERTIES,
    usage::PROPERTIES,
    portals::PROPERTIES,
    providers::PROPERTIES,
];
