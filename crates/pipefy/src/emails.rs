//! E-mails of cards and e-mail templates. Root fields `emailTemplates`, `parsedEmailTemplate`, `card.inbox_emails`,
//! `createAndSendInboxEmail` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::emails as documents;
use crate::operation::{Mutation, Query};

/// Templates of a pipe or table, at most `first`.
pub fn get_email_templates(repo_id: &str, filter_by_name: Option<&str>, first: i64) -> Query {
    Query::new(&documents::GET_EMAIL_TEMPLATES)
        .var("repoId", repo_id)
        .var_opt("filterByName", filter_by_name)
        .var("first", first)
}

/// A template with its placeholders filled in from a card.
pub fn get_parsed_email_template(email_template_id: &str, card_uuid: Option<&str>) -> Query {
    Query::new(&documents::GET_PARSED_EMAIL_TEMPLATE)
        .var("emailTemplateId", email_template_id)
        .var_opt("cardUuid", card_uuid)
}

/// The e-mails of a card, sent and received.
pub fn get_card_inbox_emails(card_id: &str) -> Query {
    Query::new(&documents::GET_CARD_INBOX_EMAILS).var("card_id", card_id)
}

/// Sends an e-mail from a card; `input` takes the keys of `CreateAndSendInboxEmailInput`. It cannot be recalled.
pub fn send_inbox_email(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::SEND_INBOX_EMAIL).input(input)
}
