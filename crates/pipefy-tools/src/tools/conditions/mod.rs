//! Field conditions: rules that show or hide fields.

mod create_field_condition;
mod delete_field_condition;
mod get_field_condition;
mod get_field_conditions;
mod lint;
mod update_field_condition;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_field_conditions::GetFieldConditions>(),
    Row::read::<get_field_condition::GetFieldCondition>(),
    Row::write::<create_field_condition::CreateFieldCondition>(),
    Row::write::<update_field_condition::UpdateFieldCondition>(),
    Row::write::<delete_field_condition::DeleteFieldCondition>(),
];

/// What to check when Pipefy refuses a condition.
const HINT: &str = "`get_phase_fields` gives the `internal_id` that `field_address` and `phaseFieldId` take.";

#[cfg(test)]
mod tests;
