//! Labels. Root fields `createLabel`, `updateLabel`, `deleteLabel` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::labels as documents;
use crate::operation::Mutation;

/// Adds a label to a pipe. `color` is `#RRGGBB`.
pub fn create_label(pipe_id: &str, name: &str, color: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("pipe_id".to_owned(), pipe_id.into());
    input.insert("name".to_owned(), name.into());
    input.insert("color".to_owned(), color.into());
    Mutation::new(&documents::CREATE_LABEL).input(input)
}

/// Changes a label; `input` takes the keys of `UpdateLabelInput`, of which `id`, `name` and `color` are required.
pub fn update_label(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_LABEL).input(input)
}

/// Deletes a label for good; cards lose it.
pub fn delete_label(label_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_LABEL).id(label_id)
}
