//! Fields of phases and start forms. Root fields `createPhaseField`, `updatePhaseField`, `deletePhaseField` of the public
//! endpoint.

use serde_json::{Map, Value};

use crate::document::documents::fields as documents;
use crate::operation::Mutation;

/// Adds a field to a phase; `input` takes the keys of `CreatePhaseFieldInput`.
pub fn create_phase_field(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_PHASE_FIELD).input(input)
}

/// Changes a field; `input` takes the keys of `UpdatePhaseFieldInput`. `id` is the slug, which is not unique: `uuid` says
/// which field is meant.
pub fn update_phase_field(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PHASE_FIELD).input(input)
}

/// Deletes a field with its values for good.
pub fn delete_phase_field(field_id: &str, pipe_uuid: Option<&str>) -> Mutation {
    let mut input = Map::new();
    input.insert("id".to_owned(), field_id.into());
    if let Some(uuid) = pipe_uuid {
        input.insert("pipeUuid".to_owned(), uuid.into());
    }
    Mutation::new(&documents::DELETE_PHASE_FIELD).input(input)
}
