//! The capabilities by noun, one file per tool.

mod automations;
mod cards;
mod introspection;
mod organizations;
mod pipes;
mod shared;

use crate::capability::Row;

/// Every row, in registration order.
pub(crate) static DOMAINS: &[&[Row]] = &[cards::ROWS, pipes::ROWS, organizations::ROWS, introspection::ROWS, automations::ROWS];
