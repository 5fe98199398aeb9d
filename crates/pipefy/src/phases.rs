//! Phases. Root fields `phase`, `createPhase`, `updatePhase`, `deletePhase` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::phases as documents;
use crate::operation::{Mutation, Query};

/// Name and card count of one phase. The start form's phase may say 0 while it has cards.
pub fn get_phase_cards_count(phase_id: &str) -> Query {
    Query::new(&documents::GET_PHASE_CARDS_COUNT).var("phase_id", phase_id)
}

/// The cards of one phase, one page: `cards{edges pageInfo totalCount}`. Pipefy gives at most 30 a page.
pub fn get_phase_cards(phase_id: &str, include_fields: bool, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_PHASE_CARDS)
        .var("phase_id", phase_id)
        .var("includeFields", include_fields)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Adds a phase to a pipe; `input` takes the keys of `CreatePhaseInput`. `index` is a sort key, not a position.
pub fn create_phase(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_PHASE).input(input)
}

/// Changes a phase; `input` takes the keys of `UpdatePhaseInput`, of which `id` and `name` are required.
pub fn update_phase(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PHASE).input(input)
}

/// Deletes a phase with its cards and fields for good.
pub fn delete_phase(phase_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_PHASE).id(phase_id)
}
