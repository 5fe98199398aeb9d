//! Pipes.

mod clone_pipe;
mod create_pipe;
mod delete_pipe;
mod get_labels;
mod get_pipe;
mod get_pipe_members;
mod get_start_form_fields;
mod search_pipes;
mod update_pipe;
pub(crate) mod validate_plan;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_pipe::GetPipe>(),
    Row::read::<get_labels::GetLabels>(),
    Row::read::<get_pipe_members::GetPipeMembers>(),
    Row::read::<get_start_form_fields::GetStartFormFields>(),
    Row::read::<search_pipes::SearchPipes>(),
    Row::read::<validate_plan::ValidatePlan>(),
    Row::write::<create_pipe::CreatePipe>(),
    Row::write::<update_pipe::UpdatePipe>(),
    Row::write::<delete_pipe::DeletePipe>(),
    Row::write::<clone_pipe::ClonePipe>(),
];

#[cfg(test)]
mod tests;
