//! E-mails of cards and e-mail templates. Pipefy's API cannot create, change or delete templates.

mod draft;
mod get_card_inbox_emails;
mod get_email_templates;
mod send_email_with_template;
mod send_inbox_email;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_email_templates::GetEmailTemplates>(),
    Row::read::<get_card_inbox_emails::GetCardInboxEmails>(),
    Row::write::<send_inbox_email::SendInboxEmail>(),
    Row::write::<send_email_with_template::SendEmailWithTemplate>(),
];

#[cfg(test)]
mod tests;
