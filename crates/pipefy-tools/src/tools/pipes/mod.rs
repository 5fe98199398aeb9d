//! Pipes.

mod get_pipe;
mod get_start_form_fields;
mod search_pipes;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_pipe::GetPipe>(),
    Row::read::<get_start_form_fields::GetStartFormFields>(),
    Row::read::<search_pipes::SearchPipes>(),
];
