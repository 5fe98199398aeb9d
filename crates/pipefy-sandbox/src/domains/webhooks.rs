//! Webhooks of pipes, tables and organizations. Nothing is called: they are stored.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, link, set, text, texts};
use crate::object::Root;
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("createWebhook", create),
    Root::public("updateWebhook", update),
    Root::public("deleteWebhook", delete),
    Root::public("createOrganizationWebhook", create),
    Root::public("updateOrganizationWebhook", update),
    Root::public("deleteOrganizationWebhook", delete),
];

/// The events that a webhook may listen to.
const ACTIONS: [&str; 14] = [
    "card.create",
    "card.field_update",
    "card.move",
    "card.done",
    "card.late",
    "card.expired",
    "card.overdue",
    "card.delete",
    "card.comment_create",
    "card.email_received",
    "user.invitation_sent",
    "user.invitation_acceptance",
    "user.removal_from_org",
    "user.removal_from_pipe",
];

/// The scope that an input names (`pipe:ID`, ...) and its organization, when the caller manages it.
fn scope(ctx: &Ctx<'_>, input: &Args) -> Result<(String, String), GqlError> {
    if let Some(id) = input.text("pipe_id") {
        let pipe = access::managed_pipe(ctx, &id)?;
        return Ok((super::pipes::scope(&pipe), text(&pipe, "organization_id").to_owned()));
    }
    if let Some(id) = input.text("table_id") {
        let table = access::managed_table(ctx, &id)?;
        return Ok((super::tables::scope(&table), text(&table, "organization_id").to_owned()));
    }
    let org = access::managed_organization(ctx, &input.need("organization_id")?)?;
    Ok((super::organizations::scope(&org), text(&org, "id").to_owned()))
}

fn checked(input: &Args) -> Result<(), GqlError> {
    for action in input.get("actions").map(texts).unwrap_or_default() {
        if !ACTIONS.contains(&action.as_str()) {
            let known = ACTIONS.join(", ");
            return Err(GqlError::not_saved(format!("Action {action:?} is not included in the list: {known}")));
        }
    }
    if let Some(url) = input.text("url")
        && !is_receiver(&url)
    {
        return Err(GqlError::not_saved(
            "Url must be https; plain http is taken for this machine only (127.0.0.1, localhost)",
        ));
    }
    // The scalar of headers travels as JSON text; an object is refused.
    if let Some(headers) = input.get("headers") {
        let object =
            headers.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).is_some_and(|v| v.is_object());
        if !object {
            return Err(GqlError::invalid("Headers must be a JSON text of an object"));
        }
    }
    if let Some(actions) = input.get("filters").and_then(Value::as_object)
        && actions.len() > 1
    {
        return Err(GqlError::not_saved("Filters can be defined for one action only"));
    }
    Ok(())
}

/// Whether events may be sent there: over TLS, or to a program of this machine, which is how the sandbox is tried.
fn is_receiver(url: &str) -> bool {
    let Ok(url) = url.trim().parse::<http::Uri>() else { return false };
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => host == "localhost" || address.is_ok_and(|address| address.is_loopback()),
        _ => false,
    }
}

const KEYS: [&str; 6] = ["actions", "email", "headers", "name", "url", "filters"];

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (scope, org) = scope(ctx, &input)?;
    checked(&input)?;
    let id = ctx.new_id("webhook")?;
    let mut body = json!({ "id": id, "scope": scope, "headers": "{}", "email": null, "organization_id": org });
    copy(&mut body, &input.0, &KEYS);
    ctx.put("webhook", &id, &Links::parent(&org).group(&scope), body)?;
    Ok(json!({ "webhook": link("webhook", &id) }))
}

fn managed(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let webhook = ctx.get("webhook", id)?.ok_or_else(|| GqlError::not_found("Webhook", id))?;
    let (kind, owner) = text(&webhook, "scope").split_once(':').unwrap_or_default();
    let mut input = json!({});
    set(&mut input, &format!("{kind}_id"), owner);
    scope(ctx, &Args(input))?;
    Ok(webhook)
}

/// Stored headers and filters are replaced: an update that leaves them out removes them.
fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*managed(ctx, &id)?).clone();
    checked(&input)?;
    set(&mut body, "headers", "{}");
    set(&mut body, "filters", Value::Null);
    copy(&mut body, &input.0, &KEYS);
    ctx.save("webhook", &id, body)?;
    Ok(json!({ "webhook": link("webhook", &id) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let id = args.input().need("id")?;
    managed(ctx, &id)?;
    Ok(json!({ "success": ctx.remove("webhook", &id)? }))
}
