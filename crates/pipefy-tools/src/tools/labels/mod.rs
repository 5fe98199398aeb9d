//! Labels of pipes.

mod color;
mod create_label;
mod delete_label;
mod update_label;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_label::CreateLabel>(),
    Row::write::<update_label::UpdateLabel>(),
    Row::write::<delete_label::DeleteLabel>(),
];

#[cfg(test)]
mod tests;
