//! Cards.

mod delete_card;
mod get_card;
mod get_cards;
mod move_card_to_phase;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_card::GetCard>(),
    Row::read::<get_cards::GetCards>(),
    Row::write::<move_card_to_phase::MoveCardToPhase>(),
    Row::write::<delete_card::DeleteCard>(),
];
