//! The mail room: what the sandbox would have sent by e-mail outside of cards, and e-mails that come in.

use crate::ctx::Ctx;
use crate::error::GqlError;
use crate::events::{self, Cause, What};
use crate::json::{scalar, set, text, texts_at};
use crate::storage;
use crate::store::Links;
use serde_json::{Value, json};

/// Stored mail, newest first, with download links for the files.
pub(crate) fn sent(ctx: &Ctx<'_>) -> Result<Vec<Value>, GqlError> {
    let mut out = Vec::new();
    for mail in ctx.all("outbox")?.iter().rev() {
        let mut mail = (**mail).clone();
        let key = text(&mail, "file").to_owned();
        if !key.is_empty() {
            let url = storage::signed_url(ctx.store, ctx.base_url, "GET", &key, None, storage::DOWNLOAD_LIFE, ctx.now)?;
            set(&mut mail, "file", url);
        }
        out.push(mail);
    }
    Ok(out)
}

/// Puts an e-mail into a card's inbox: `card_id` or the card's address in `to`, `from`, `subject`, `text`.
pub(crate) fn receive(ctx: &Ctx<'_>, mail: &Value) -> Result<Value, GqlError> {
    let address = texts_at(mail, "to").into_iter().next().unwrap_or_default();
    let of_address = address.split_once("card+").and_then(|(_, rest)| rest.split('@').next()).unwrap_or_default();
    let id = mail.get("card_id").and_then(scalar).unwrap_or_else(|| of_address.to_owned());
    let card = ctx.must("card", "Card", &id)?;
    let email = ctx.new_id("inbox_email")?;
    let plain = text(mail, "text");
    let body = json!({
        "id": email, "card_id": text(&card, "id"), "pipe_id": text(&card, "pipe_id"), "type": "received", "from": text(mail, "from"),
        "fromName": text(mail, "from_name"), "to": [text(&card, "emailMessagingAddress")],
        "main_to": text(&card, "emailMessagingAddress"), "cc": [], "bcc": [], "subject": text(mail, "subject"),
        "body": plain, "clean_text": plain, "clean_html": plain, "state": "processed", "sent_via_automation": false,
        "created_at": ctx.stamp(), "updated_at": ctx.stamp(), "attachments": [],
    });
    ctx.put("inbox_email", &email, &Links::parent(text(&card, "id")), body)?;
    let mut card = (*card).clone();
    set(&mut card, "inbox_emails_read", false);
    let id = text(&card, "id").to_owned();
    ctx.save("card", &id, card)?;
    events::tell(ctx, &Cause::outside(text(mail, "from")), &What::EmailReceived, &id)?;
    Ok(json!({ "id": email, "card_id": id }))
}
