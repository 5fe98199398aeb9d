//! Organizations and the caller.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{link, links, set, text};
use crate::object::{Property, Root};
use crate::page;
use crate::store::{By, Links};
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("me", |ctx, _| Ok(link("user", &ctx.viewer))),
    Root::public("organization", |ctx, args| {
        let org = access::organization(ctx, &args.need("id")?)?;
        Ok(link("organization", text(&org, "id")))
    }),
    Root::public("organizations", organizations),
    Root::public("createOrganization", create),
    Root::public("updateOrganization", update),
];

const ORG: &[&str] = &["Organization"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(ORG, "pipes", pipes),
    Property::of(ORG, "pipesCount", |ctx, org, _| Ok(json!(ctx.store.count("pipe", By::Parent, text(org, "id"))?))),
    Property::of(ORG, "tables", tables),
    Property::of(ORG, "role", |ctx, org, _| Ok(json!(access::role(ctx, &scope(org), &ctx.viewer)?))),
    Property::of(ORG, "members", |ctx, org, args| super::members::members(ctx, &scope(org), args)),
    Property::of(ORG, "membersCount", |ctx, org, _| Ok(json!(ctx.store.count("member", By::Parent, &scope(org))?))),
    Property::of(ORG, "users_count", |ctx, org, _| Ok(json!(ctx.store.count("member", By::Parent, &scope(org))?))),
    Property::of(ORG, "users", |ctx, org, args| super::members::users(ctx, &scope(org), args)),
    Property::of(ORG, "createdBy", |_, org, _| Ok(link("user", text(org, "created_by")))),
    Property::of(ORG, "userMetadata", |ctx, org, _| {
        let admin = access::is_org_admin(ctx, text(org, "id"))?;
        Ok(json!({ "canCreatePipe": admin, "canInviteUser": admin }))
    }),
    Property::of(ORG, "webhooks", |ctx, org, _| {
        if !access::is_org_admin(ctx, text(org, "id"))? {
            return Err(GqlError::denied());
        }
        Ok(json!(ctx.grouped("webhook", &scope(org))?.iter().map(|w| (**w).clone()).collect::<Vec<_>>()))
    }),
];

pub(super) fn scope(org: &Value) -> String {
    format!("organization:{}", text(org, "id"))
}

fn organizations(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let wanted = args.texts("ids");
    let mut mine = Vec::new();
    for org in ctx.all("organization")? {
        let id = text(&org, "id");
        let asked = wanted.as_ref().is_none_or(|ids| ids.iter().any(|w| w == id || w == text(&org, "uuid")));
        if asked && access::is_org_member(ctx, id)? {
            mine.push((text(&org, "name").to_owned(), id.to_owned()));
        }
    }
    if args.flag("order") == Some(true) {
        mine.sort();
    }
    Ok(links("organization", mine.into_iter().map(|(_, id)| id)))
}

/// The pipes that the caller is a member of; `pipesCount` counts all of them.
fn pipes(ctx: &Ctx<'_>, org: &Value, args: &Args) -> Answer {
    let wanted = args.texts("ids");
    let name = args.text("name_search").unwrap_or_default().to_lowercase();
    let with_permission = args.text("with_permission");
    let mut seen = Vec::new();
    for pipe in ctx.children("pipe", text(org, "id"))? {
        let level = access::pipe_level(ctx, &pipe)?;
        let id = text(&pipe, "id");
        let asked = wanted.as_ref().is_none_or(|ids| ids.iter().any(|w| w == id || w == text(&pipe, "uuid")));
        let fully = args.flag("onlyFullyVisible") != Some(true) || level.reads_all();
        let permitted = with_permission.is_none() || level == access::Level::Admin;
        let named = similar(&text(&pipe, "name").to_lowercase(), &name);
        if level != access::Level::None && asked && fully && permitted && named {
            seen.push(id.to_owned());
        }
    }
    Ok(links("pipe", seen))
}

/// The search by name is broad, as the real one is: it offers names that share a word's beginning, and callers rank.
fn similar(name: &str, query: &str) -> bool {
    if query.trim().is_empty() || name.contains(query) {
        return true;
    }
    let start = |word: &str| crate::values::slug_of(word).chars().take(3).collect::<String>();
    let starts: Vec<String> = name.split_whitespace().map(start).collect();
    query.split_whitespace().any(|word| starts.contains(&start(word)))
}

fn tables(ctx: &Ctx<'_>, org: &Value, args: &Args) -> Answer {
    let name = args.text("name_search").unwrap_or_default().to_lowercase();
    let mut rows = Vec::new();
    for table in ctx.children("table", text(org, "id"))? {
        let seen = access::table_level(ctx, &table)? != access::Level::None;
        if seen && text(&table, "name").to_lowercase().contains(&name) {
            rows.push((text(&table, "id").to_owned(), link("table", text(&table, "id"))));
        }
    }
    page::connection(rows, args, 500)
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = ctx.new_id("organization")?;
    let uuid = ctx.new_uuid()?;
    let body = json!({
        "id": id, "uuid": uuid, "name": input.need("name")?, "industry": input.text("industry"), "planName": "Free",
        "created_at": ctx.stamp(), "created_by": ctx.viewer, "freemium": true,
        "only_admin_can_create_pipes": false, "only_admin_can_invite_users": false,
    });
    ctx.put("organization", &id, &Links::default().uuid(&uuid), body)?;
    super::members::join(ctx, &format!("organization:{id}"), &ctx.viewer, "admin")?;
    Ok(json!({ "organization": link("organization", &id) }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("id")?)?;
    let mut body = (*org).clone();
    for key in ["name", "only_admin_can_create_pipes", "only_admin_can_invite_users"] {
        if let Some(value) = input.get(key) {
            set(&mut body, key, value.clone());
        }
    }
    let id = text(&org, "id").to_owned();
    ctx.save("organization", &id, body)?;
    Ok(json!({ "organization": link("organization", &id) }))
}
