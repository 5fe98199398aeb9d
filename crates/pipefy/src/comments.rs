//! Comments on cards. Root fields `card.comments`, `createComment`, `updateComment`, `deleteComment` of the public endpoint.

use serde_json::Map;

use crate::document::documents::comments as documents;
use crate::operation::{Mutation, Query};

/// The comments of a card: `card.comments{id text}`.
pub fn get_card_comments(card_id: &str) -> Query {
    Query::new(&documents::CARD_COMMENTS).var("id", card_id)
}

/// Adds a comment to a card.
pub fn create_comment(card_id: &str, text: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("card_id".to_owned(), card_id.into());
    input.insert("text".to_owned(), text.into());
    Mutation::new(&documents::CREATE_COMMENT).input(input)
}

/// Replaces the text of a comment.
pub fn update_comment(comment_id: &str, text: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("id".to_owned(), comment_id.into());
    input.insert("text".to_owned(), text.into());
    Mutation::new(&documents::UPDATE_COMMENT).input(input)
}

/// Deletes a comment for good.
pub fn delete_comment(comment_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_COMMENT).id(comment_id)
}
