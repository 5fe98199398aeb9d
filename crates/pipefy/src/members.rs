//! Members of pipes. Root fields `pipe.members`, `inviteMembers`, `removeMembersFromPipe`, `setRole` of the public endpoint.

use serde_json::{Map, Value, json};

use crate::document::documents::members as documents;
use crate::operation::{Mutation, Query};

/// The members of a pipe: `members{user{id uuid name email} role_name}`.
pub fn get_pipe_members(pipe_id: &str) -> Query {
    Query::new(&documents::GET_PIPE_MEMBERS).var("pipeId", pipe_id)
}

/// Name of a pipe, user ids of its members, and the id of who asks.
pub fn get_pipe_membership(pipe_id: &str) -> Query {
    Query::new(&documents::PIPE_MEMBERSHIP).var("pipeId", pipe_id)
}

/// Invites people to a pipe. `emails` holds `{email, role_name}` objects; the answer has `users` and, by row, `errors`.
pub fn invite_members(pipe_id: &str, emails: Vec<Value>) -> Mutation {
    let mut input = Map::new();
    input.insert("pipe_id".to_owned(), pipe_id.into());
    input.insert("emails".to_owned(), emails.into());
    Mutation::new(&documents::INVITE_MEMBERS).input(input)
}

/// Removes users from a pipe. Pipefy wants uuids.
pub fn remove_members_from_pipe(pipe_uuid: Value, users_uuids: Vec<Value>) -> Mutation {
    let mut input = Map::new();
    input.insert("pipeUuid".to_owned(), pipe_uuid);
    input.insert("usersUuids".to_owned(), users_uuids.into());
    Mutation::new(&documents::REMOVE_MEMBERS_FROM_PIPE).input(input)
}

/// Sets the role of a member of a pipe. `user_id` is the user's id, not that of a membership.
pub fn set_role(pipe_id: &str, user_id: &str, role_name: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("pipe_id".to_owned(), pipe_id.into());
    input.insert("member".to_owned(), json!({ "user_id": user_id, "role_name": role_name }));
    Mutation::new(&documents::SET_ROLE).input(input)
}
