//! Organisations. Root fields `organizations` and `organization` of the public endpoint.

use crate::document::documents::organizations as documents;
use crate::operation::Query;

/// Every organisation the caller belongs to.
pub fn list_organizations() -> Query {
    Query::new(&documents::LIST_ORGANIZATIONS)
}

/// The uuid of an organisation given by its number.
pub fn resolve_organization_uuid(organization_id: &str) -> Query {
    Query::new(&documents::RESOLVE_ORGANIZATION_UUID).var("id", organization_id)
}

/// Who is calling: `me { email name }`.
pub fn me() -> Query {
    Query::new(&documents::ME)
}

/// One organisation with plan, role and sizes; null when there is none of that id.
pub fn get_organization(organization_id: &str) -> Query {
    Query::new(&documents::GET_ORGANIZATION).var("id", organization_id)
}
