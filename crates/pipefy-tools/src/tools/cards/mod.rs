//! Cards.

mod create_card;
mod delete_card;
mod get_card;
mod get_cards;
mod move_card_to_phase;
mod update_card;
mod values;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<create_card::CreateCard>(),
    Row::read::<get_card::GetCard>(),
    Row::read::<get_cards::GetCards>(),
    Row::write::<move_card_to_phase::MoveCardToPhase>(),
    Row::write::<update_card::UpdateCard>(),
    Row::write::<delete_card::DeleteCard>(),
];
