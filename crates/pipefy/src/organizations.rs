//! Organisations. Root field `organizations` of the public endpoint.

use crate::document::documents::organizations as documents;
use crate::operation::Query;

/// Every organisation the caller belongs to.
pub fn list_organizations() -> Query {
    Query::new(&documents::LIST_ORGANIZATIONS)
}
