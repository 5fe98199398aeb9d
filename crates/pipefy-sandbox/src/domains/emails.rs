//! E-mail templates and the inbox of a card. Nothing leaves the machine: a sent e-mail is a stored one.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{link, links, set, text, texts};
use crate::object::{Property, Root};
use crate::page;
use crate::store::Links;
use crate::values;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("emailTemplates", templates),
    Root::public("parsedEmailTemplate", parsed),
    Root::public("inbox_emails", |ctx, args| {
        let (card, _, _) = access::card(ctx, &args.need("card_id")?)?;
        inbox(ctx, &card)
    }),
    Root::public("createAndSendInboxEmail", create_and_send),
    Root::public("createInboxEmail", |ctx, args| {
        let input = args.input();
        let (card, _) = access::editable_card(ctx, &input.need("card_id")?)?;
        Ok(json!({ "inbox_email": store(ctx, &card, &input, "draft")? }))
    }),
    Root::public("sendInboxEmail", |ctx, args| {
        let id = args.input().need("id")?;
        let mut body = (*editable(ctx, &id)?).clone();
        set(&mut body, "state", "processed");
        ctx.save("inbox_email", &id, body)?;
        Ok(json!({ "success": true }))
    }),
    Root::public("deleteInboxEmail", |ctx, args| {
        let id = args.input().need("id")?;
        editable(ctx, &id)?;
        Ok(json!({ "success": ctx.remove("inbox_email", &id)? }))
    }),
];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["Card"], "inbox_emails", |ctx, card, _| inbox(ctx, card)),
    Property::of(&["InboxEmail"], "card", |_, email, _| Ok(link("card", text(email, "card_id")))),
    Property::of(&["InboxEmail"], "pipe", |_, email, _| Ok(link("pipe", text(email, "pipe_id")))),
    Property::of(&["InboxEmail"], "user", |_, email, _| Ok(link("user", text(email, "user_id")))),
];

fn templates(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (pipe, level) = access::pipe(ctx, &args.need("repoId")?)?;
    if !level.reads_all() {
        return Err(GqlError::denied());
    }
    let name = args.text("filterByName").unwrap_or_default().to_lowercase();
    let rows = ctx.children("email_template", text(&pipe, "id"))?;
    let rows = rows.iter().filter(|t| text(t, "name").to_lowercase().contains(&name));
    let rows = rows.map(|t| (text(t, "id").to_owned(), link("email_template", text(t, "id"))));
    page::connection(rows.collect(), args, page::PIPE_PAGE)
}

/// Fills `{{title}}`, `{{pipe}}`, `{{phase}}` and `{{field slug}}` with the card's values.
fn parsed(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let id = args.need("emailTemplateId")?;
    let template = ctx.get("email_template", &id)?.ok_or_else(|| GqlError::not_found("Email template", &id))?;
    let (pipe, level) = access::pipe(ctx, text(&template, "repoId"))?;
    if !level.reads_all() {
        return Err(GqlError::denied());
    }
    let Some(key) = args.text("cardUuid") else { return Ok((*template).clone()) };
    let (card, _, _) = access::card(ctx, &key)?;
    filled(ctx, &template, &pipe, &card)
}

/// A template with the card's values in it.
fn filled(ctx: &Ctx<'_>, template: &Value, pipe: &Value, card: &Value) -> Answer {
    let mut body = template.clone();
    let phase = ctx.get("phase", text(card, "phase_id"))?;
    let mut words = vec![
        ("title".to_owned(), text(card, "title").to_owned()),
        ("pipe".to_owned(), text(pipe, "name").to_owned()),
        ("phase".to_owned(), phase.map(|p| text(&p, "name").to_owned()).unwrap_or_default()),
    ];
    for field in ctx.grouped("field", text(pipe, "id"))? {
        let shown = values::display(ctx, &field, &values::stored(card, &field))?;
        words.push((text(&field, "id").to_owned(), shown.join(", ")));
    }
    for key in ["subject", "body", "toEmail"] {
        let mut filled = text(&body, key).to_owned();
        for (word, value) in &words {
            filled = filled.replace(&format!("{{{{{word}}}}}"), value);
        }
        set(&mut body, key, filled);
    }
    Ok(body)
}

fn inbox(ctx: &Ctx<'_>, card: &Value) -> Answer {
    let rows = ctx.children("inbox_email", text(card, "id"))?;
    Ok(links("inbox_email", rows.iter().map(|e| text(e, "id"))))
}

fn editable(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let email = ctx.get("inbox_email", id)?.ok_or_else(|| GqlError::not_found("Email", id))?;
    access::editable_card(ctx, text(&email, "card_id"))?;
    Ok(email)
}

fn store(ctx: &Ctx<'_>, card: &Value, input: &Args, state: &str) -> Answer {
    let id = ctx.new_id("inbox_email")?;
    let list = |key: &str| input.get(key).map(texts).unwrap_or_default();
    let (to, plain) = (list("to"), input.text("text").unwrap_or_default());
    let html = input.text("html").unwrap_or_else(|| plain.clone());
    let body = json!({
        "id": id, "card_id": text(card, "id"), "pipe_id": text(card, "pipe_id"), "user_id": ctx.viewer, "type": "sent",
        "from": input.text("from"), "fromName": input.text("fromName"), "to": to, "main_to": to.first(), "cc": list("cc"),
        "bcc": list("bcc"), "subject": input.text("subject"), "body": html, "clean_text": plain, "clean_html": html,
        "state": state, "sent_via_automation": false, "created_at": ctx.stamp(), "updated_at": ctx.stamp(), "attachments": [],
    });
    ctx.put("inbox_email", &id, &Links::parent(text(card, "id")), body)?;
    Ok(link("inbox_email", &id))
}

/// A recipient that is no address is an error of the payload; nothing is sent then.
fn create_and_send(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, _) = access::editable_card(ctx, &input.need("cardId")?)?;
    let wrong = |address: &String| !address.split_once('@').is_some_and(|(l, d)| !l.is_empty() && d.contains('.'));
    let bad: Vec<String> = input.texts("to").unwrap_or_default().into_iter().filter(wrong).collect();
    if !bad.is_empty() {
        let errors: Vec<String> = bad.iter().map(|a| format!("{a} is not an e-mail address")).collect();
        return Ok(json!({ "emailSent": false, "errors": errors, "inboxEmail": null }));
    }
    Ok(json!({ "emailSent": true, "errors": [], "inboxEmail": store(ctx, &card, &input, "processed")? }))
}

/// Stores the e-mail that a rule sends from a template. Without an address of its own it goes to the card's creator.
pub(super) fn send_template(ctx: &Ctx<'_>, card: &Value, template: &str) -> Result<(), GqlError> {
    let template =
        ctx.get("email_template", template)?.ok_or_else(|| GqlError::not_found("Email template", template))?;
    let pipe = ctx.must("pipe", "Pipe", text(card, "pipe_id"))?;
    let mut mail = filled(ctx, &template, &pipe, card)?;
    if text(&mail, "toEmail").trim().is_empty() {
        let creator = ctx.get("user", text(card, "created_by"))?.map(|user| text(&user, "email").to_owned());
        set(&mut mail, "toEmail", creator.unwrap_or_default());
    }
    let list = |key: &str| -> Vec<String> {
        text(&mail, key).split([',', ';']).map(str::trim).filter(|a| !a.is_empty()).map(str::to_owned).collect()
    };
    let input = json!({
        "from": text(&mail, "fromEmail"), "fromName": text(&mail, "fromName"), "to": list("toEmail"), "cc": list("ccEmail"),
        "bcc": list("bccEmail"), "subject": text(&mail, "subject"), "html": text(&mail, "body"),
    });
    let stored = store(ctx, card, &Args(input), "processed")?;
    let id = text(&stored, "$id").to_owned();
    let mut body = (*ctx.must("inbox_email", "Email", &id)?).clone();
    set(&mut body, "sent_via_automation", true);
    ctx.save("inbox_email", &id, body)?;
    Ok(())
}

/// Stores an e-mail that belongs to no card's inbox.
pub(super) fn to_outbox(ctx: &Ctx<'_>, to: &Value, subject: &str, message: &str) -> Result<(), GqlError> {
    let id = ctx.new_id("outbox")?;
    let body = json!({ "id": id, "to": to, "subject": subject, "at": ctx.stamp(), "text": message });
    ctx.put("outbox", &id, &Links::default(), body)?;
    Ok(())
}
