//! Service accounts of an organisation.

mod create_service_account;
mod delete_service_account;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_service_account::CreateServiceAccount>(),
    Row::write::<delete_service_account::DeleteServiceAccount>(),
];

#[cfg(test)]
mod tests;
