//! Comments on cards. Their text is never logged.

mod add_card_comment;
mod delete_comment;
mod failure;
mod update_comment;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<add_card_comment::AddCardComment>(),
    Row::write::<update_comment::UpdateComment>(),
    Row::write::<delete_comment::DeleteComment>(),
];

/// Characters a comment may have.
const LONGEST: usize = 1_000;

/// Trimmed text of 1..1000 characters; `None` when it is not.
fn comment_text(text: &str) -> Option<&str> {
    let text = text.trim();
    (1..=LONGEST).contains(&text.chars().count()).then_some(text)
}

#[cfg(test)]
mod tests;
