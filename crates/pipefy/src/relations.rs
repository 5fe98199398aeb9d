//! Relations between pipes, tables and cards. Root fields `pipe`, `pipe_relations`, `table_relations`, `createPipeRelation`,
//! `updatePipeRelation`, `deletePipeRelation`, `createCardRelation` of the public endpoint, `deleteCardRelation` of the
//! internal one.

use serde_json::{Map, Value};

use crate::document::documents::relations as documents;
use crate::operation::{Mutation, Query};

/// The relations of a pipe to its parents and children.
pub fn get_pipe_relations(pipe_id: &str) -> Query {
    Query::new(&documents::GET_PIPE_RELATIONS).var("pipeId", pipe_id)
}

/// One relation of pipes by its own id: `pipe_relations`, a list of one.
pub fn get_pipe_relation(relation_id: &str) -> Query {
    Query::new(&documents::PIPE_RELATION).var("id", relation_id)
}

/// Table relations by their own ids (not by table id).
pub fn get_table_relations(relation_ids: &[String]) -> Query {
    Query::new(&documents::GET_TABLE_RELATIONS).var("ids", relation_ids)
}

/// Links two pipes; `input` takes the keys of `CreatePipeRelationInput`, all of which Pipefy requires.
pub fn create_pipe_relation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_PIPE_RELATION).input(input)
}

/// Changes a pipe relation; `input` takes the keys of `UpdatePipeRelationInput`. Flags left out are reset.
pub fn update_pipe_relation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PIPE_RELATION).input(input)
}

/// Deletes a pipe relation for good.
pub fn delete_pipe_relation(relation_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_PIPE_RELATION).id(relation_id)
}

/// Links two cards; `input` takes the keys of `CreateCardRelationInput`.
pub fn create_card_relation(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_CARD_RELATION).input(input)
}

/// Unlinks two cards.
pub fn delete_card_relation(child_id: &str, parent_id: &str, source_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_CARD_RELATION)
        .var("childId", child_id)
        .var("parentId", parent_id)
        .var("sourceId", source_id)
}
