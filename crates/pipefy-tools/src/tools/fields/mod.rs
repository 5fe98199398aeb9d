//! Fields of phases and start forms.

mod create_phase_field;
mod delete_phase_field;
mod resolve;
mod update_phase_field;

use crate::capability::Row;
pub(crate) use create_phase_field::with_types;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_phase_field::CreatePhaseField>(),
    Row::write::<update_phase_field::UpdatePhaseField>(),
    Row::write::<delete_phase_field::DeletePhaseField>(),
];

#[cfg(test)]
mod tests;
