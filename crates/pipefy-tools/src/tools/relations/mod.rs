//! Relations between pipes, tables and cards.

mod create_card_relation;
mod create_pipe_relation;
mod delete_card_relation;
mod delete_pipe_relation;
mod get_card_relations;
mod get_pipe_relations;
mod get_table_relations;
mod update_pipe_relation;

use pipefy::relations;
use serde_json::{Map, Value};

use crate::Call;
use crate::capability::Row;
use crate::readback::{self, Found};

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_card_relations::GetCardRelations>(),
    Row::read::<get_pipe_relations::GetPipeRelations>(),
    Row::read::<get_table_relations::GetTableRelations>(),
    Row::write::<create_pipe_relation::CreatePipeRelation>(),
    Row::write::<update_pipe_relation::UpdatePipeRelation>(),
    Row::write::<delete_pipe_relation::DeletePipeRelation>(),
    Row::write::<create_card_relation::CreateCardRelation>(),
    Row::write::<delete_card_relation::DeleteCardRelation>(),
];

/// The rules of a pipe relation, all of which Pipefy requires, and what they are when nobody says otherwise.
const FLAGS: [(&str, bool); 8] = [
    ("allChildrenMustBeDoneToFinishParent", false),
    ("allChildrenMustBeDoneToMoveParent", false),
    ("autoFillFieldEnabled", false),
    ("canConnectExistingItems", true),
    ("canConnectMultipleItems", true),
    ("canCreateNewItems", true),
    ("childMustExistToFinishParent", false),
    ("childMustExistToMoveParent", false),
];

/// A relation of pipes as it is now.
async fn relation(call: &Call<'_>, relation_id: &str) -> Found {
    readback::item(call.query(relations::get_pipe_relation(relation_id)).await, "pipe_relations", &["id"], relation_id)
}

/// The flags, with `given` written over the defaults.
fn flags(given: Map<String, Value>) -> Map<String, Value> {
    let mut flags: Map<String, Value> =
        FLAGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    flags.extend(given);
    flags
}

#[cfg(test)]
mod tests;
