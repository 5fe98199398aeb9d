//! Organisations.

mod list_organizations;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[Row::read::<list_organizations::ListOrganizations>()];
