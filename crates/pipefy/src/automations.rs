//! Automations. Root fields `automation`, `automations`, `automationActions`, `automationEvents`,
//! `automationEventAttributes`, `automationSimulation`, `createAutomation`, `updateAutomation`, `deleteAutomation`,
//! `createAutomationSimulation` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::automations as documents;
use crate::operation::{Mutation, Query};

/// One rule with trigger, action and condition; null when there is none of that id.
pub fn get_automation(automation_id: &str) -> Query {
    Query::new(&documents::GET_AUTOMATION).var("id", automation_id)
}

/// Rules of an organisation, one page, at most 50.
pub fn get_automations(organization_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_AUTOMATIONS)
        .var("organizationId", organization_id)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Rules of one pipe or table, one page, at most 50.
pub fn get_automations_of_repo(organization_id: &str, repo_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_AUTOMATIONS_OF_REPO)
        .var("organizationId", organization_id)
        .var("repoId", repo_id)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// The organisation of a pipe, which listings of rules need.
pub fn pipe_organization_id(pipe_id: &str) -> Query {
    Query::new(&documents::PIPE_ORGANIZATION_ID).var("id", pipe_id)
}

/// A pipe with its fields (also whether they can be edited) and its AI preference.
pub fn pipe_with_preferences(pipe_id: &str) -> Query {
    Query::new(&documents::PIPE_WITH_PREFERENCES).var("pipe_id", pipe_id)
}

/// The actions that rules of a pipe can take.
pub fn get_automation_actions(repo_id: &str) -> Query {
    Query::new(&documents::GET_AUTOMATION_ACTIONS).var("repoId", repo_id)
}

/// All triggers. Pipefy has one list for all pipes.
pub fn get_automation_events() -> Query {
    Query::new(&documents::GET_AUTOMATION_EVENTS)
}

/// The values that a trigger itself gives to field maps.
pub fn get_automation_event_attributes() -> Query {
    Query::new(&documents::GET_AUTOMATION_EVENT_ATTRIBUTES)
}

/// Creates a rule; `input` takes keys of `CreateAutomationInput`.
pub fn create_automation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_AUTOMATION).input(input)
}

/// Changes a rule; `input` takes keys of `UpdateAutomationInput`.
pub fn update_automation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_AUTOMATION).input(input)
}

/// Deletes a rule for good.
pub fn delete_automation(automation_id: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("id".to_owned(), automation_id.into());
    Mutation::new(&documents::DELETE_AUTOMATION).input(input)
}

/// Starts a trial run on a card; `input` takes keys of `CreateAutomationSimulationInput`.
pub fn create_automation_simulation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_AUTOMATION_SIMULATION).input(input)
}

/// How a trial run went.
pub fn automation_simulation(simulation_id: &str) -> Query {
    Query::new(&documents::AUTOMATION_SIMULATION).var("simulationId", simulation_id)
}

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
