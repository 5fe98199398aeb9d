//! Organisations.

mod get_organization;
mod list_organizations;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] =
    &[Row::read::<get_organization::GetOrganization>(), Row::read::<list_organizations::ListOrganizations>()];
