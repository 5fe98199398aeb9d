//! Automations. Root field `automations` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::automations as documents;
use crate::operation::Query;

/// How often automations ran and failed, one page. `filters` are variables of the document (`repoId`, `automationIds`,
/// `actionIds`, `eventId`, `active`, `search`, `sort`, `period`, `first`, `after`); absent ones are not sent.
///
/// The answer may be partial: automations the caller may not see come as null nodes beside errors.
pub fn get_automation_execution_metrics(organization_id: &str, filters: Map<String, Value>) -> Query {
    let mut query = Query::new(&documents::GET_AUTOMATION_EXECUTION_METRICS).var("organizationId", organization_id);
    for (name, value) in filters {
        query = query.var(&name, value);
    }
    query
}
