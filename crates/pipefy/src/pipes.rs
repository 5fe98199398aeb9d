//! Pipes with their phases and forms. Root fields `pipe`, `phase`, `organizations.pipes`, `createPipe`, `updatePipe`,
//! `deletePipe`, `clonePipes` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::{phases, pipes};
use crate::operation::{Mutation, Query};

/// One pipe: phases with field ids and card counts, labels, start form, start form phase.
pub fn get_pipe(pipe_id: &str) -> Query {
    Query::new(&pipes::GET_PIPE).var("pipe_id", pipe_id)
}

/// All that makes a pipe, as far as the API tells: phases and start form with their fields and field conditions, labels,
/// relations. Automations are read apart.
pub fn get_pipe_configuration(pipe_id: &str) -> Query {
    Query::new(&pipes::GET_PIPE_CONFIGURATION).var("pipe_id", pipe_id)
}

/// Every organisation with its pipes; `name` narrows on the server (null is sent without a name).
pub fn search_pipes(name: Option<&str>) -> Query {
    Query::new(&pipes::SEARCH_PIPES).var("nameSearch", name)
}

/// The fields of a pipe's start form.
pub fn get_start_form_fields(pipe_id: &str) -> Query {
    Query::new(&pipes::GET_START_FORM_FIELDS).var("pipe_id", pipe_id)
}

/// One phase with its fields.
pub fn get_phase_fields(phase_id: &str) -> Query {
    Query::new(&phases::GET_PHASE_FIELDS).var("phase_id", phase_id)
}

/// One phase with the phases its cards may move to.
pub fn get_phase_allowed_move_targets(phase_id: &str) -> Query {
    Query::new(&phases::GET_PHASE_ALLOWED_MOVE_TARGETS).var("phase_id", phase_id)
}

/// The field conditions of one phase.
pub fn get_phase_conditions(phase_id: &str) -> Query {
    Query::new(&phases::GET_PHASE_CONDITIONS).var("phaseId", phase_id)
}

/// Creates an empty pipe in an organisation.
pub fn create_pipe(name: &str, organization_id: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("name".to_owned(), name.into());
    input.insert("organization_id".to_owned(), organization_id.into());
    Mutation::new(&pipes::CREATE_PIPE).input(input)
}

/// Changes a pipe; `input` takes the keys of `UpdatePipeInput`.
pub fn update_pipe(input: Map<String, Value>) -> Mutation {
    Mutation::new(&pipes::UPDATE_PIPE).input(input)
}

/// Deletes a pipe for good.
pub fn delete_pipe(pipe_id: &str) -> Mutation {
    Mutation::new(&pipes::DELETE_PIPE).id(pipe_id)
}

/// Copies a pipe. The answer comes before the copy is complete: its phases may be missing at first.
pub fn clone_pipe(template_id: &str, organization_id: Option<&str>) -> Mutation {
    let mut input = Map::new();
    input.insert("pipe_template_ids".to_owned(), Value::Array(vec![template_id.into()]));
    if let Some(id) = organization_id {
        input.insert("organization_id".to_owned(), id.into());
    }
    Mutation::new(&pipes::CLONE_PIPE).input(input)
}
