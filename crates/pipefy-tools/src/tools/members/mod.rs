//! Members of pipes.

mod add_service_account_to_pipe;
mod email;
mod invite_members;
pub(crate) mod membership;
mod remove_member_from_pipe;
mod set_role;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<invite_members::InviteMembers>(),
    Row::write::<add_service_account_to_pipe::AddServiceAccountToPipe>(),
    Row::write::<remove_member_from_pipe::RemoveMemberFromPipe>(),
    Row::write::<set_role::SetRole>(),
];

#[cfg(test)]
mod tests;
