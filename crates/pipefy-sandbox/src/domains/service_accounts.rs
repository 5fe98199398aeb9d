//! Service accounts of an organization.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{set, text};
use crate::oauth;
use crate::object::{Property, Root};
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] =
    &[Root::public("createServiceAccount", create), Root::public("deleteServiceAccount", delete)];

pub(crate) const PROPERTIES: &[Property] = &[Property::of(&["ServiceAccount"], "token", |ctx, _, _| {
    Ok(json!({ "endpoint": format!("{}/oauth/token", ctx.base_url) }))
})];

/// A service account is a user of its own, with a client id and a secret of which only the fingerprint is kept.
pub(crate) fn new_account(
    ctx: &Ctx<'_>,
    org: &str,
    name: &str,
    email: &str,
    client: (&str, &str),
    role: &str,
    life: i64,
) -> Answer {
    let (id, uuid) = (ctx.new_id("user")?, ctx.new_uuid()?);
    let user = super::members::user_body(&id, &uuid, name, email, &ctx.stamp());
    ctx.put("user", &id, &Links::default().uuid(&uuid).group(email), user)?;
    super::members::join(ctx, &format!("organization:{org}"), &id, role)?;
    let body = json!({
        "id": id, "uuid": uuid, "user_id": id, "name": name, "email": email, "role": { "name": role }, "organization_id": org,
        "client": { "id": client.0, "secret": Value::Null }, "secret_fingerprint": oauth::fingerprint(client.1), "token_life": life,
    });
    let links = Links::parent(org).group(client.0).uuid(&uuid);
    Ok((*ctx.put("service_account", &id, &links, body)?).clone())
}

const ROLES: [&str; 5] = ["normal", "admin", "super_admin", "company_guest", "member"];

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organizationUuid")?)?;
    let name = input.need("name")?;
    let length = name.trim().chars().count();
    if length == 0 || length > 20 {
        return Err(GqlError::invalid("Name must be 1 to 20 characters long"));
    }
    let role = input.need("role")?;
    if !ROLES.contains(&role.as_str()) {
        let known = ROLES.join(", ");
        return Err(GqlError::invalid(format!("Role {role:?} is not included in the list: {known}")));
    }
    let life = match input.get("expirationTime") {
        None => 30 * 24 * 3600,
        Some(time) => {
            let value = time.get("value").and_then(Value::as_i64).unwrap_or_default();
            let unit = match text(time, "unit") {
                "minutes" => 60,
                "hours" => 3600,
                "days" => 24 * 3600,
                _ => 1,
            };
            value.saturating_mul(unit)
        }
    };
    if !(300..=30 * 24 * 3600).contains(&life) {
        return Err(GqlError::invalid("Tokens live between 5 minutes and 30 days"));
    }
    let (client, secret) = (oauth::new_secret(), oauth::new_secret());
    let tail = ctx.new_uuid()?;
    let tail = tail.split('-').next().unwrap_or_default();
    let email = format!("{}.{tail}@service-accounts.pipefy.example", crate::values::slug_of(&name));
    let mut account = new_account(ctx, text(&org, "id"), name.trim(), &email, (&client, &secret), &role, life)?;
    if let Some(description) = input.text("description") {
        set(&mut account, "description", description);
        ctx.save("service_account", text(&account, "id").to_owned().as_str(), account.clone())?;
    }
    // The secret is in this answer and nowhere else.
    set(&mut account, "client", json!({ "id": client, "secret": secret }));
    Ok(json!({ "success": true, "serviceAccount": account }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organizationUuid")?)?;
    let uuid = input.need("serviceAccountUuid")?;
    let account = ctx.find("service_account", &uuid)?.filter(|a| text(a, "organization_id") == text(&org, "id"));
    let account = account.ok_or_else(|| GqlError::not_found("Service account", &uuid))?;
    let user = text(&account, "user_id").to_owned();
    for membership in ctx.grouped("member", &user)? {
        ctx.remove("member", &format!("{}/{user}", text(&membership, "scope")))?;
    }
    // A user that is gone no longer passes the bearer check, so its tokens end here too.
    ctx.remove("user", &user)?;
    Ok(json!({ "success": ctx.remove("service_account", text(&account, "id"))? }))
}
