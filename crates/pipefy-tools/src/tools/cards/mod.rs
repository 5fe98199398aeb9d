//! Cards.

mod create_card;
mod delete_card;
mod fill_card_phase_fields;
mod filter;
mod find_cards;
mod get_card;
mod get_cards;
mod get_records;
mod move_card_to_phase;
mod update_card;
mod update_card_field;
mod values;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_card::CreateCard>(),
    Row::read::<get_card::GetCard>(),
    Row::read::<get_cards::GetCards>(),
    Row::read::<get_records::GetRecords>(),
    Row::read::<find_cards::FindCards>(),
    Row::write::<move_card_to_phase::MoveCardToPhase>(),
    Row::write::<update_card_field::UpdateCardField>(),
    Row::write::<update_card::UpdateCard>(),
    Row::write::<fill_card_phase_fields::FillCardPhaseFields>(),
    Row::write::<delete_card::DeleteCard>(),
];

#[cfg(test)]
mod tests;
