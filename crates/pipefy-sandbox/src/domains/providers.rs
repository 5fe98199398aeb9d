//! LLM providers of an organization: custom ones with a secret configuration, system ones that come with the product,
//! and which one is the default. None is ever called.

use super::reports;
use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{flag, link, set, text};
use crate::object::{Property, Root};
use crate::page;
use crate::store::Links;
use serde_json::{Map, Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("allLlmProvidersByOrganization", list),
    Root::public("availableAiModels", |_, args| {
        let vendor = args.need("providerName")?;
        let models = VENDORS.iter().find(|(name, _)| *name == vendor).map(|(_, models)| *models);
        Ok(json!(models.unwrap_or_default()))
    }),
    Root::public("defaultLlmProvider", default),
    Root::public("providerDependencies", dependencies),
    Root::public("createLlmProvider", create),
    Root::public("updateLlmProvider", update),
    Root::public("deleteLlmProvider", delete),
    Root::public("setLlmProviderActiveStatus", |ctx, args| {
        let input = args.input();
        let provider = managed(ctx, &input.need("providerId")?)?;
        let active = input.flag("active").unwrap_or_default();
        if !active && is_default(ctx, text(&provider, "organization_id"), text(&provider, "id"))? {
            return Err(GqlError::not_saved("The default provider of the organization cannot be deactivated"));
        }
        let mut body = (*provider).clone();
        set(&mut body, "active", active);
        ctx.save(KIND, text(&provider, "id"), body)?;
        Ok(json!({ "success": true }))
    }),
    Root::public("setActiveLlmProvider", set_default),
    Root::public("resetLlmProviderOwner", |ctx, args| {
        let (owner, _) = owner(ctx, &args.input())?;
        ctx.remove("active_llm_provider", &owner)?;
        Ok(json!({ "success": true }))
    }),
];

const KIND: &str = "llm_provider";

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["LlmProvider"], "configuration", |_, provider, _| {
        Ok(redacted(provider.get("configuration").unwrap_or(&Value::Null)))
    }),
    Property::of(&["LlmProvider", "SystemLlmProvider"], "organizationDefault", |ctx, provider, _| {
        Ok(json!(is_default(ctx, text(provider, "organization_id"), text(provider, "id"))?))
    }),
];

/// Vendor and the models that it offers.
const VENDORS: [(&str, &[&str]); 7] = [
    ("openai", &["gpt-5", "gpt-5-mini", "gpt-4o", "gpt-4o-mini"]),
    ("azure_openai", &["gpt-5", "gpt-4o", "gpt-4o-mini"]),
    ("amazon_bedrock", &["anthropic.claude-sonnet-4-5", "amazon.nova-pro", "amazon.nova-lite"]),
    ("custom", &[]),
    ("google_vertex_ai", &["gemini-2.5-pro", "gemini-2.5-flash"]),
    ("oracle_oci", &["cohere.command-r-plus", "meta.llama-3.3-70b"]),
    ("anthropic", &["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"]),
];

/// Id, name, description, credits per run, whether it is the product's default, and when it ends.
type System = (&'static str, &'static str, &'static str, i64, bool, Option<&'static str>);

const SYSTEM: [System; 3] = [
    ("901", "Pipefy AI Standard", "Balanced, for most behaviors", 1, true, None),
    ("902", "Pipefy AI Fast", "Short answers at a lower price", 1, false, None),
    ("903", "Pipefy AI Classic", "An older model", 2, false, Some("2027-12-31")),
];

fn system(org: &str, id: &str) -> Option<Value> {
    SYSTEM.iter().find(|row| row.0 == id).map(|(id, name, description, credits, default, ends)| {
        json!({
            "__typename": "SystemLlmProvider", "id": id, "name": name, "type": "system", "systemDefault": default,
            "state": if ends.is_some() { "deprecated" } else { "active" }, "description": description, "aiCredits": credits,
            "deprecationDate": ends, "configuration": {}, "active": true, "organization_id": org,
        })
    })
}

/// Credits per run of a system provider.
pub(super) fn credits(id: &str) -> Option<f64> {
    SYSTEM.iter().find(|row| row.0 == id).map(|row| row.3 as f64)
}

/// Keys of a configuration that hold secrets.
fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace(['-', '_'], "");
    ["apikey", "secret", "token", "password", "credential", "privatekey", "accesskey"].iter().any(|s| key.contains(s))
}

const REDACTED: &str = "__REDACTED__";

fn redacted(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), if is_secret(key) { json!(REDACTED) } else { redacted(value) }))
            .collect::<Map<_, _>>()
            .into(),
        Value::Null => json!({}),
        other => other.clone(),
    }
}

/// A new configuration, in which placeholders keep the stored secrets.
fn merged(new: &Value, old: &Value) -> Value {
    match new {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let before = old.get(key).unwrap_or(&Value::Null);
                (key.clone(), if value == REDACTED { before.clone() } else { merged(value, before) })
            })
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// A custom provider of an organization that the caller administers.
fn managed(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let provider = ctx.get(KIND, id)?.ok_or_else(|| GqlError::not_found("LLM provider", id))?;
    access::managed_organization(ctx, text(&provider, "organization_id"))?;
    Ok(provider)
}

/// The same, in the organization that an input names.
fn managed_in(ctx: &Ctx<'_>, input: &Args) -> Result<Body, GqlError> {
    let org = access::managed_organization(ctx, &input.need("organizationUuid")?)?;
    let id = input.need("id")?;
    let provider = managed(ctx, &id)?;
    if text(&provider, "organization_id") != text(&org, "id") {
        return Err(GqlError::not_found("LLM provider", &id));
    }
    Ok(provider)
}

fn list(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = reports::insider(ctx, &args.need("organizationUuid")?)?;
    let only_active = args.flag("onlyActiveProviders") == Some(true);
    let mut rows = Vec::new();
    for provider in ctx.children(KIND, text(&org, "id"))? {
        if flag(&provider, "active") || !only_active {
            rows.push((text(&provider, "id").to_owned(), link(KIND, text(&provider, "id"))));
        }
    }
    rows.extend(SYSTEM.iter().filter_map(|row| Some((row.0.to_owned(), system(text(&org, "id"), row.0)?))));
    page::connection(rows, args, page::PIPE_PAGE)
}

/// The key under which an owner's choice is kept, and the organization it belongs to. Owners are organizations (by
/// numeric id or uuid) and behaviors of agents; an assistant is the organization's.
fn owner(ctx: &Ctx<'_>, input: &Args) -> Result<(String, Body), GqlError> {
    let (kind, id) = (input.need("ownerType")?, input.need("ownerId")?);
    if kind == "behavior" {
        for agent in ctx.all("agent")? {
            let behaviors = agent.get("behaviors").and_then(Value::as_array);
            if behaviors.is_some_and(|list| list.iter().any(|b| text(b, "id") == id)) {
                let pipe = access::managed_pipe(ctx, text(&agent, "repoUuid"))?;
                let org = ctx.must("organization", "Organization", text(&pipe, "organization_id"))?;
                return Ok((format!("behavior:{id}"), org));
            }
        }
        return Err(GqlError::not_found("Behavior", &id));
    }
    let org = access::managed_organization(ctx, &id)?;
    Ok((format!("{kind}:{}", text(&org, "id")), org))
}

fn choice(ctx: &Ctx<'_>, owner: &str) -> Result<Option<String>, GqlError> {
    let row = ctx.get("active_llm_provider", owner)?;
    Ok(row.map(|row| format!("{}{}", text(&row, "llmProviderId"), text(&row, "systemLlmProviderId"))))
}

fn is_default(ctx: &Ctx<'_>, org: &str, id: &str) -> Result<bool, GqlError> {
    Ok(choice(ctx, &format!("organization:{org}"))?.as_deref() == Some(id))
}

fn default(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (owner, org) = owner(ctx, args)?;
    let Some(id) = choice(ctx, &owner)? else { return Ok(Value::Null) };
    if let Some(system) = system(text(&org, "id"), &id) {
        return Ok(system);
    }
    Ok(link(KIND, &id))
}

fn set_default(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (owner, org) = owner(ctx, &input)?;
    let (custom, given_system) = (input.text("providerId"), input.text("systemProviderId"));
    match (&custom, &given_system) {
        (Some(id), None) => {
            let provider = managed(ctx, id)?;
            if text(&provider, "organization_id") != text(&org, "id") {
                return Err(GqlError::not_found("LLM provider", id));
            }
            if !flag(&provider, "active") {
                return Err(GqlError::not_saved("The provider is not active"));
            }
        }
        (None, Some(id)) => {
            system(text(&org, "id"), id).ok_or_else(|| GqlError::not_found("System LLM provider", id))?;
        }
        _ => return Err(GqlError::invalid("Exactly one of providerId and systemProviderId is required")),
    }
    let body = json!({
        "id": ctx.new_id("active_llm_provider")?, "ownerId": input.need("ownerId")?, "ownerType": input.need("ownerType")?,
        "llmProviderId": custom, "systemLlmProviderId": given_system,
    });
    ctx.put("active_llm_provider", &owner, &Links::parent(text(&org, "id")), body.clone())?;
    Ok(json!({ "activeLlmProvider": body }))
}

/// Who uses a provider: owners that chose it, and behaviors that name it.
fn users(ctx: &Ctx<'_>, org: &Value, id: &str) -> Result<Vec<Value>, GqlError> {
    let mut found = Vec::new();
    for row in ctx.children("active_llm_provider", text(org, "id"))? {
        if text(&row, "llmProviderId") == id || text(&row, "systemLlmProviderId") == id {
            found.push(json!({ "ownerId": text(&row, "ownerId"), "ownerType": text(&row, "ownerType") }));
        }
    }
    for pipe in ctx.children("pipe", text(org, "id"))? {
        for agent in ctx.children("agent", text(&pipe, "uuid"))? {
            for behavior in agent.get("behaviors").and_then(Value::as_array).into_iter().flatten() {
                let ai = behavior.pointer("/action_params/aiBehaviorParams").cloned().unwrap_or_default();
                if ["providerId", "systemProviderId"].iter().any(|key| text(&ai, key) == id) {
                    found.push(json!({ "ownerId": text(behavior, "id"), "ownerType": "behavior" }));
                }
            }
        }
    }
    Ok(found)
}

fn dependencies(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = access::managed_organization(ctx, &args.need("organizationUuid")?)?;
    let id = args.need("providerId")?;
    let custom = ctx.get(KIND, &id)?.is_some_and(|p| text(&p, "organization_id") == text(&org, "id"));
    if !custom && system("", &id).is_none() {
        return Err(GqlError::not_found("LLM provider", &id));
    }
    let rows = users(ctx, &org, &id)?.into_iter().map(|row| (text(&row, "ownerId").to_owned(), row)).collect();
    page::connection(rows, args, page::PIPE_PAGE)
}

/// The vendor of a configuration, whose name has hyphens there and underscores in the API's enum.
fn checked(configuration: &Value) -> Result<(), GqlError> {
    if configuration.as_object().is_none_or(Map::is_empty) {
        return Err(GqlError::not_saved("Configuration must be a non-empty object"));
    }
    let vendor = ["provider", "provider_name", "providerName"].iter().find_map(|key| configuration.get(*key)?.as_str());
    let vendor = vendor.unwrap_or_default().replace('-', "_");
    if VENDORS.iter().any(|(name, _)| *name == vendor) {
        return Ok(());
    }
    Err(GqlError::not_saved("Configuration needs a known provider, such as openai or amazon-bedrock"))
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organizationUuid")?)?;
    let name = input.need("name")?;
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let configuration = input.get("configuration").cloned().unwrap_or_default();
    checked(&configuration)?;
    let id = ctx.new_id(KIND)?;
    let body = json!({
        "__typename": "LlmProvider", "id": id, "name": name, "type": "byom", "active": true, "configuration": configuration,
        "organization_id": text(&org, "id"),
    });
    ctx.put(KIND, &id, &Links::parent(text(&org, "id")), body)?;
    Ok(json!({ "llmProvider": link(KIND, &id) }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let provider = managed_in(ctx, &input)?;
    let mut body = (*provider).clone();
    match input.text("name") {
        Some(name) if name.trim().is_empty() => return Err(GqlError::not_saved("Name can't be blank")),
        Some(name) => set(&mut body, "name", name),
        None => {}
    }
    let given = input.get("configuration").cloned().unwrap_or_default();
    checked(&given)?;
    set(&mut body, "configuration", merged(&given, provider.get("configuration").unwrap_or(&Value::Null)));
    ctx.save(KIND, text(&provider, "id"), body)?;
    Ok(json!({ "llmProvider": link(KIND, text(&provider, "id")) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let provider = managed_in(ctx, &args.input())?;
    let org = ctx.must("organization", "Organization", text(&provider, "organization_id"))?;
    if !users(ctx, &org, text(&provider, "id"))?.is_empty() {
        return Err(GqlError::new("RECORD_NOT_DESTROYED", "The provider is in use: see its dependencies"));
    }
    Ok(json!({ "success": ctx.remove(KIND, text(&provider, "id"))? }))
}
