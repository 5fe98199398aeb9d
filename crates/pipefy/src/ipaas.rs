//! Advanced automations (iPaaS). Root field `advancedAutomationsToken` of the internal endpoint.

use crate::document::documents::ipaas as documents;
use crate::operation::Query;

/// A short-lived token for the workspace of a pipe. A secret: never shown.
pub fn advanced_automations_token(pipe_id: &str) -> Query {
    Query::new(&documents::ADVANCED_AUTOMATIONS_TOKEN).var("repoId", pipe_id)
}
