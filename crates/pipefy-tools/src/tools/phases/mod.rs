//! Phases and their fields.

mod get_phase_allowed_move_targets;
mod get_phase_fields;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_phase_fields::GetPhaseFields>(),
    Row::read::<get_phase_allowed_move_targets::GetPhaseAllowedMoveTargets>(),
];
