//! Members of organizations, pipes and tables; users.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{link, set, text};
use crate::object::{Property, Root};
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("inviteMembers", invite),
    Root::public("removeMembersFromPipe", remove_from_pipe),
    Root::public("removeUserFromPipe", |ctx, args| remove_by_email(ctx, args, "pipe")),
    Root::public("removeUserFromTable", |ctx, args| remove_by_email(ctx, args, "table")),
    Root::public("removeUserFromOrg", |ctx, args| remove_by_email(ctx, args, "organization")),
    Root::public("setRole", set_role),
    Root::public("setRoles", set_roles),
];

pub(crate) const PROPERTIES: &[Property] =
    &[Property::of(&["Member"], "user", |_, member, _| Ok(link("user", text(member, "user_id"))))];

/// The roles that a pipe or table knows.
const ROLES: [&str; 8] =
    ["admin", "super_admin", "member", "normal", "creator", "read_and_comment", "my_cards_only", "guest"];

fn not_a_role(role: &str) -> String {
    format!("Role {role:?} is not included in the list: {}", ROLES.join(", "))
}

/// Members of a scope in the order in which they joined.
pub(super) fn members(ctx: &Ctx<'_>, scope: &str, args: &Args) -> Answer {
    let limit = args.int("limit").and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let rows = ctx.children("member", scope)?;
    Ok(json!(rows.iter().take(limit).map(|m| (**m).clone()).collect::<Vec<_>>()))
}

pub(super) fn users(ctx: &Ctx<'_>, scope: &str, args: &Args) -> Answer {
    let limit = args.int("limit").and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let rows = ctx.children("member", scope)?;
    Ok(json!(rows.iter().take(limit).map(|m| link("user", text(m, "user_id"))).collect::<Vec<_>>()))
}

/// Gives a user a role in a scope, replacing an earlier one.
pub(crate) fn join(ctx: &Ctx<'_>, scope: &str, user: &str, role: &str) -> Result<(), GqlError> {
    let id = format!("{scope}/{user}");
    let body = json!({ "user_id": user, "role_name": role, "scope": scope });
    if ctx.get("member", &id)?.is_some() {
        ctx.save("member", &id, body)?;
    } else {
        ctx.put("member", &id, &Links::parent(scope).group(user), body)?;
    }
    Ok(())
}

/// The scope that an input names, when the caller manages it, and its organization.
fn managed_scope(ctx: &Ctx<'_>, input: &Args) -> Result<(String, String), GqlError> {
    if let Some(id) = input.text("pipe_id") {
        let pipe = access::managed_pipe(ctx, &id)?;
        return Ok((format!("pipe:{}", text(&pipe, "id")), text(&pipe, "organization_id").to_owned()));
    }
    if let Some(id) = input.text("table_id") {
        let table = access::managed_table(ctx, &id)?;
        return Ok((format!("table:{}", text(&table, "id")), text(&table, "organization_id").to_owned()));
    }
    let org = access::managed_organization(ctx, &input.need("organization_id")?)?;
    Ok((super::organizations::scope(&org), text(&org, "id").to_owned()))
}

/// The user with an e-mail address.
pub(super) fn by_email(ctx: &Ctx<'_>, email: &str) -> Result<Option<String>, GqlError> {
    let found = ctx.grouped("user", &email.to_lowercase())?;
    Ok(found.first().map(|user| text(user, "id").to_owned()))
}

/// A user as the API describes one.
pub(crate) fn user_body(id: &str, uuid: &str, name: &str, email: &str, created_at: &str) -> Value {
    json!({
        "id": id, "uuid": uuid, "name": name, "displayName": name, "email": email,
        "username": email.split('@').next().unwrap_or_default(), "created_at": created_at,
        "confirmed": true, "confirmationTokenHasExpired": false, "invited": false,
        "locale": "en", "timezone": "America/Sao_Paulo", "time_zone": "America/Sao_Paulo", "hasUnreadNotifications": false,
    })
}

fn invite(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (scope, org) = managed_scope(ctx, &input)?;
    let (mut invited, mut errors) = (Vec::new(), Vec::new());
    for (index, row) in input.get("emails").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let (email, role) = (text(row, "email").trim().to_lowercase(), text(row, "role_name"));
        let local_and_domain =
            email.split_once('@').filter(|(local, domain)| !local.is_empty() && domain.contains('.'));
        let Some((local, _)) = local_and_domain else {
            errors.push(json!({ "index": index, "message": "E-mail is invalid" }));
            continue;
        };
        if !ROLES.contains(&role) {
            errors.push(json!({ "index": index, "message": not_a_role(role) }));
            continue;
        }
        let user = match by_email(ctx, &email)? {
            Some(user) => user,
            None => {
                let (id, uuid) = (ctx.new_id("user")?, ctx.new_uuid()?);
                let mut body = user_body(&id, &uuid, local, &email, &ctx.stamp());
                set(&mut body, "invited", true);
                set(&mut body, "confirmed", false);
                ctx.put("user", &id, &Links::default().uuid(&uuid).group(&email), body)?;
                id
            }
        };
        let org_scope = format!("organization:{org}");
        if access::role(ctx, &org_scope, &user)?.is_none() {
            join(ctx, &org_scope, &user, "company_guest")?;
        }
        join(ctx, &scope, &user, role)?;
        invited.push(link("user", &user));
    }
    Ok(json!({ "users": invited, "errors": errors }))
}

fn leave(ctx: &Ctx<'_>, scope: &str, user: &str) -> Result<bool, GqlError> {
    ctx.remove("member", &format!("{scope}/{user}"))
}

fn remove_from_pipe(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let key = input.need("pipeUuid")?;
    if ctx.get("pipe", &key)?.is_some() {
        return Err(GqlError::not_found("Pipe", &key)); // this mutation knows uuids only
    }
    let pipe = access::managed_pipe(ctx, &key)?;
    let scope = format!("pipe:{}", text(&pipe, "id"));
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    for uuid in input.texts("usersUuids").unwrap_or_default() {
        let user = ctx.store.id_of_uuid("user", &uuid)?;
        match user {
            Some(user) if leave(ctx, &scope, &user)? => removed.push(uuid),
            _ => errors.push(format!("User {uuid} is not a member of the pipe")),
        }
    }
    Ok(
        json!({ "success": errors.is_empty(), "removedUsersUuids": removed, "removedGroupsUuids": [], "errors": errors }),
    )
}

fn remove_by_email(ctx: &Ctx<'_>, args: &Args, kind: &str) -> Answer {
    let input = args.input();
    let (scope, _) = managed_scope(ctx, &input)?;
    if !scope.starts_with(kind) {
        return Err(GqlError::invalid(format!("{kind}_id is required")));
    }
    let email = input.need("email")?;
    let removed = match by_email(ctx, &email)? {
        Some(user) => leave(ctx, &scope, &user)?,
        None => false,
    };
    if !removed {
        return Err(GqlError::not_found("Member", &email));
    }
    Ok(json!({ "success": true }))
}

fn change_role(ctx: &Ctx<'_>, scope: &str, member: &Value) -> Answer {
    let (key, role) = (text(member, "user_id"), text(member, "role_name"));
    if !ROLES.contains(&role) {
        return Err(GqlError::invalid(not_a_role(role)));
    }
    let user = ctx.must("user", "User", key)?;
    let user = text(&user, "id").to_owned();
    let id = format!("{scope}/{user}");
    if ctx.get("member", &id)?.is_none() {
        return Err(GqlError::not_found("Member", key));
    }
    join(ctx, scope, &user, role)?;
    Ok(link("member", &id))
}

fn set_role(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (scope, _) = managed_scope(ctx, &input)?;
    let member = input.get("member").cloned().unwrap_or_default();
    Ok(json!({ "member": change_role(ctx, &scope, &member)? }))
}

fn set_roles(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (scope, _) = managed_scope(ctx, &input)?;
    let (mut members, mut errors) = (Vec::new(), Vec::new());
    for member in input.get("members").and_then(Value::as_array).into_iter().flatten() {
        match change_role(ctx, &scope, member) {
            Ok(changed) => members.push(changed),
            Err(error) => errors.push(error.message),
        }
    }
    Ok(json!({ "members": members, "errors": errors }))
}
