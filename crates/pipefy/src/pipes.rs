//! Pipes with their phases, forms and members. Root fields `pipe`, `phase` and `organizations.pipes` of the public endpoint.

use crate::document::documents::{members, phases, pipes};
use crate::operation::Query;

/// One pipe: phases with field ids and card counts, labels, start form, start form phase.
pub fn get_pipe(pipe_id: &str) -> Query {
    Query::new(&pipes::GET_PIPE).var("pipe_id", pipe_id)
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

/// The members of a pipe with their roles.
pub fn get_pipe_members(pipe_id: &str) -> Query {
    Query::new(&members::GET_PIPE_MEMBERS).var("pipeId", pipe_id)
}
