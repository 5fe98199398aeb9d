//! Failures of comment calls: Pipefy's texts say what its codes do not.

use pipefy::Error;

use crate::ToolError;

/// What was being done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Add,
    Update,
    Delete,
}

const MISSING: [&str; 4] = ["not found", "could not find", "does not exist", "doesn't exist"];
const DENIED: [&str; 6] = ["permission", "not authorized", "unauthorized", "forbidden", "access denied", "not allowed"];
const INVALID: [&str; 6] = ["invalid", "validation", "must be", "can't be", "cannot be", "required"];

/// The failure in words a caller can act on; a failure that is no answer of Pipefy keeps its own text.
pub(crate) fn failed(doing: Doing, error: Error) -> ToolError {
    let answered = matches!(error, Error::Graphql { .. } | Error::NoPayload { .. } | Error::Declined { .. });
    if !answered {
        return error.into();
    }
    let text = error.to_string();
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let (thing, argument, verb) = match doing {
        Doing::Add => ("Card", "card_id", "comment on this card"),
        Doing::Update => ("Comment", "comment_id", "update this comment"),
        Doing::Delete => ("Comment", "comment_id", "delete this comment"),
    };
    let graphql = matches!(error, Error::Graphql { .. });
    let message = if graphql && says(&MISSING) {
        format!("{thing} not found. Verify `{argument}`.")
    } else if graphql && says(&DENIED) {
        format!("No permission to {verb}.")
    } else if graphql && (says(&INVALID) || (doing != Doing::Delete && says(&["blank"]))) {
        format!("Invalid input: {text}")
    } else if matches!(error, Error::Declined { .. }) {
        format!("The request did not succeed: {text}")
    } else {
        format!("Unexpected error: {text}. Read the card back, then try again.")
    };
    ToolError::from(error).message(message)
}
