//! Phases.

mod create_phase;
mod delete_phase;
mod get_phase_allowed_move_targets;
mod get_phase_cards;
mod get_phase_cards_count;
mod get_phase_fields;
pub(crate) mod transitions;
mod update_phase;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_phase_fields::GetPhaseFields>(),
    Row::read::<get_phase_allowed_move_targets::GetPhaseAllowedMoveTargets>(),
    Row::read::<get_phase_cards_count::GetPhaseCardsCount>(),
    Row::read::<get_phase_cards::GetPhaseCards>(),
    Row::write::<create_phase::CreatePhase>(),
    Row::write::<update_phase::UpdatePhase>(),
    Row::write::<delete_phase::DeletePhase>(),
];

#[cfg(test)]
mod tests;
