//! Portals and HTML interfaces: pages, elements, data sources, sub-portals. Served on the interfaces endpoint; the wiring
//! of sub-portals on the internal one.

use super::html;
use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, flag, link, links, set, text, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::interfaces("interfaces", list),
    Root::interfaces("portalInterface", |ctx, args| read(ctx, &args.need("uuid")?, "Portal")),
    Root::interfaces("interface", |ctx, args| read(ctx, &args.need("uuid")?, "Interface")),
    Root::interfaces("interfaceRepos", repos),
    Root::interfaces("interfacesRepoStructure", structure),
    Root::interfaces("interfaceHtmlGuidelines", |_, _| Ok(html::guidelines())),
    Root::interfaces("findOrCreateInterfaceByTemplate", find_or_create),
    Root::interfaces("createInterface", create_interface),
    Root::interfaces("updateInterface", update_interface),
    Root::interfaces("deleteInterface", |ctx, args| {
        let found = managed(ctx, &args.input().need("interface_uuid")?)?;
        bury(ctx, text(&found, "id"))?;
        Ok(json!({ "success": true }))
    }),
    Root::interfaces("createPage", create_page),
    Root::interfaces("updatePage", update_page),
    Root::interfaces("deletePage", |ctx, args| {
        let (page, _) = page_of(ctx, &args.input())?;
        bury_page(ctx, text(&page, "id"))?;
        Ok(json!({ "success": true }))
    }),
    Root::interfaces("sortPages", sort_pages),
    Root::interfaces("updatePageLayout", |ctx, args| {
        let input = args.input();
        let (page, _) = managed_page(ctx, &input.need("page_id")?)?;
        lay_out(ctx, &page, &input)?;
        Ok(json!({ "success": true }))
    }),
    Root::interfaces("createElement", create_element),
    Root::interfaces("updateElement", update_element),
    Root::interfaces("deleteElement", |ctx, args| {
        let input = args.input();
        let (element, page, _) = element_of(ctx, &input)?;
        if input.get("layout").is_some() {
            lay_out(ctx, &page, &input)?;
        }
        Ok(json!({ "success": ctx.remove(ELEMENT, text(&element, "id"))? }))
    }),
    Root::interfaces("duplicateElement", duplicate),
    Root::interfaces("writeHtmlDocument", write_html),
    Root::interfaces("createSubPortal", create_sub_portal),
    Root::internal("updateSubPortalElement", |ctx, args| {
        let input = args.input();
        let (element, portal) = slot(ctx, &input)?;
        let sub = input.text("subPortalUuid");
        if let Some(uuid) = &sub {
            let found = managed(ctx, uuid)?;
            if text(&found, "main_portal") != text(&portal, "id") {
                return Err(GqlError::not_found("Sub-portal", uuid));
            }
        }
        wire(ctx, &element, sub.as_deref())?;
        Ok(json!({ "success": true }))
    }),
    Root::internal("deleteSubPortalElement", |ctx, args| {
        let (element, _) = slot(ctx, &args.input())?;
        wire(ctx, &element, None)?;
        Ok(json!({ "success": true }))
    }),
    Root::internal("deleteSubPortalInterface", |ctx, args| {
        let uuid = args.input().need("uuid")?;
        let sub = managed(ctx, &uuid)?;
        if text(&sub, "subType") != "sub_portal" {
            return Err(GqlError::not_found("Sub-portal", &uuid));
        }
        bury(ctx, &uuid)?;
        Ok(json!({ "success": true }))
    }),
];

const INTERFACE: &str = "interface";
const PAGE: &str = "interface_page";
const ELEMENT: &str = "interface_element";

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["Interface", "PortalInterface"], "pages", |ctx, interface, _| {
        Ok(links(PAGE, ctx.children(PAGE, text(interface, "id"))?.iter().map(|p| text(p, "id"))))
    }),
    Property::of(&["PortalInterface"], "subPortals", |ctx, portal, _| {
        Ok(links(INTERFACE, ctx.grouped(INTERFACE, text(portal, "id"))?.iter().map(|s| text(s, "id"))))
    }),
    Property::of(&["SubPortal", "PortalInterface"], "published", |ctx, interface, _| published(ctx, interface)),
    Property::of(&["InterfacePage"], "elements", |ctx, page, _| {
        Ok(links(ELEMENT, ctx.children(ELEMENT, text(page, "id"))?.iter().map(|e| text(e, "id"))))
    }),
    Property::of(&["InterfacePage"], "index", |ctx, page, _| {
        let pages = ctx.children(PAGE, text(page, "interface_id"))?;
        Ok(json!(pages.iter().position(|p| text(p, "id") == text(page, "id"))))
    }),
    Property::of(&["DataSource"], "repoName", |ctx, source, _| {
        Ok(json!(repo(ctx, text(source, "repoId"))?.map(|(_, repo)| text(&repo, "name").to_owned())))
    }),
    Property::of(&["DataSource"], "repoType", |ctx, source, _| {
        Ok(json!(repo(ctx, text(source, "repoId"))?.map(|(kind, _)| kind)))
    }),
];

/// A pipe or table by id or uuid, whoever asks.
fn repo(ctx: &Ctx<'_>, key: &str) -> Result<Option<(&'static str, Body)>, GqlError> {
    if let Some(pipe) = ctx.find("pipe", key)? {
        return Ok(Some(("Pipe", pipe)));
    }
    Ok(access::any_table(ctx, key).ok().map(|table| ("Table", table)))
}

/// A main portal is always published; a sub-portal is while an element of its main portal leads to it.
fn published(ctx: &Ctx<'_>, interface: &Value) -> Answer {
    let main = text(interface, "main_portal");
    if main.is_empty() {
        return Ok(json!(true));
    }
    for page in ctx.children(PAGE, main)? {
        for element in ctx.children(ELEMENT, text(&page, "id"))? {
            if text(&element, "sub_portal") == text(interface, "id") {
                return Ok(json!(true));
            }
        }
    }
    Ok(json!(false))
}

/// An interface that the caller may see: insiders of the organization, and guests when it is public.
fn seen(ctx: &Ctx<'_>, uuid: &str, what: &str) -> Result<Body, GqlError> {
    let found = ctx.get(INTERFACE, uuid)?.ok_or_else(|| GqlError::not_found(what, uuid))?;
    let org = text(&found, "organization_id");
    if text(&found, "visibility") == "public" {
        access::organization(ctx, org)?;
    } else {
        super::reports::insider(ctx, org)?;
    }
    Ok(found)
}

/// An interface of an organization that the caller administers.
fn managed(ctx: &Ctx<'_>, uuid: &str) -> Result<Body, GqlError> {
    let found = ctx.get(INTERFACE, uuid)?.ok_or_else(|| GqlError::not_found("Interface", uuid))?;
    access::managed_organization(ctx, text(&found, "organization_id"))?;
    Ok(found)
}

/// A page that the caller may change, and its interface.
fn managed_page(ctx: &Ctx<'_>, id: &str) -> Result<(Body, Body), GqlError> {
    let page = ctx.get(PAGE, id)?.ok_or_else(|| GqlError::not_found("Page", id))?;
    let interface = managed(ctx, text(&page, "interface_id"))?;
    Ok((page, interface))
}

/// The page that an input names, in the interface that it names.
fn page_of(ctx: &Ctx<'_>, input: &Args) -> Result<(Body, Body), GqlError> {
    let interface = managed(ctx, &input.need("interface_uuid")?)?;
    let id = input.need("page_id")?;
    let (page, owner) = managed_page(ctx, &id)?;
    if text(&owner, "id") != text(&interface, "id") {
        return Err(GqlError::not_found("Page", &id));
    }
    Ok((page, interface))
}

/// The element that an input names, on the page that it names.
fn element_of(ctx: &Ctx<'_>, input: &Args) -> Result<(Body, Body, Body), GqlError> {
    let (page, interface) = managed_page(ctx, &input.need("page_id")?)?;
    let id = input.need("element_id")?;
    let element = ctx.get(ELEMENT, &id)?.filter(|e| text(e, "page_id") == text(&page, "id"));
    Ok((element.ok_or_else(|| GqlError::not_found("Element", &id))?, page, interface))
}

fn read(ctx: &Ctx<'_>, uuid: &str, what: &str) -> Answer {
    Ok(link(INTERFACE, text(&*seen(ctx, uuid, what)?, "id")))
}

fn list(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = access::organization(ctx, &args.need("org_uuid")?)?;
    let kind = args.need("filterBySubType")?;
    let term = args.text("searchTerm").unwrap_or_default().to_lowercase();
    let mut rows = Vec::new();
    for found in ctx.children(INTERFACE, text(&org, "id"))? {
        let fits = text(&found, "subType") == kind && text(&found, "name").to_lowercase().contains(&term);
        if fits && seen(ctx, text(&found, "id"), "Interface").is_ok() {
            rows.push((text(&found, "id").to_owned(), link(INTERFACE, text(&found, "id"))));
        }
    }
    page::connection(rows, args, page::PIPE_PAGE)
}

/// The pipes and tables that the caller may bind.
fn repos(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let org = access::organization(ctx, &args.need("orgId")?)?;
    let name = args.text("repoName").unwrap_or_default().to_lowercase();
    let mut found = Vec::new();
    for pipe in ctx.children("pipe", text(&org, "id"))? {
        if access::pipe_level(ctx, &pipe)?.reads_all() {
            found.push(("Pipe", pipe));
        }
    }
    for table in ctx.children("table", text(&org, "id"))? {
        if access::table_level(ctx, &table)?.reads_all() {
            found.push(("Table", table));
        }
    }
    found.retain(|(_, repo)| text(repo, "name").to_lowercase().contains(&name));
    found.sort_by_key(|(_, repo)| text(repo, "name").to_lowercase());
    let rows = found.iter().map(|(kind, repo)| {
        let body = json!({
            "id": text(repo, "id"), "uuid": text(repo, "uuid"), "suid": repo.get("suid"), "name": text(repo, "name"), "type": kind,
            "icon": repo.get("icon"), "color": repo.get("color").filter(|c| html::COLORS.contains(&c.as_str().unwrap_or_default())),
            "noun": repo.get("noun"),
        });
        (text(repo, "id").to_owned(), body)
    });
    page::connection(rows.collect(), args, page::PIPE_PAGE)
}

/// Binding a repository that the caller may not read is refused without a code, as the real API does.
fn bindable(ctx: &Ctx<'_>, key: &str) -> Result<(&'static str, Body), GqlError> {
    let (kind, body) = repo(ctx, key)?.ok_or_else(|| GqlError::not_found("Repo", key))?;
    let level = if kind == "Pipe" { access::pipe_level(ctx, &body)? } else { access::table_level(ctx, &body)? };
    if level.reads_all() { Ok((kind, body)) } else { Err(GqlError::codeless("Permission denied")) }
}

fn structure(ctx: &Ctx<'_>, args: &Args) -> Answer {
    if let Some(uuid) = args.text("interfaceId") {
        seen(ctx, &uuid, "Interface")?;
    }
    let (_, found) = bindable(ctx, &args.need("repoId")?)?;
    let fields = ctx.grouped("field", text(&found, "id"))?;
    let rows = fields.iter().map(|field| {
        json!({
            "id": text(field, "id"), "uuid": text(field, "uuid"), "label": text(field, "label"), "type": text(field, "type"),
            "phaseId": field.get("phase_id"), "archived": false, "required": flag(field, "required"),
            "options": texts_at(field, "options"), "description": field.get("description"), "helpText": field.get("help"),
            "connectedRepoId": field.get("connected_repo_id"),
        })
    });
    Ok(json!({ "fields": rows.collect::<Vec<_>>() }))
}

fn new_interface(ctx: &Ctx<'_>, org: &Value, name: &str, kind: &str, main: Option<&str>) -> Result<String, GqlError> {
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let id = ctx.new_uuid()?;
    let body = json!({
        "id": id, "name": name, "subType": kind, "visibility": "internal", "contentModeHtml": false, "color": "blue",
        "icon": "pipefy", "displayPipefyHeader": true, "organization_id": text(org, "id"), "main_portal": main,
        "created_at": ctx.stamp(),
    });
    let links = Links::parent(text(org, "id")).uuid(&id);
    ctx.put(INTERFACE, &id, &main.map_or(links.clone(), |main| links.group(main)), body)?;
    Ok(id)
}

/// An organization has one main portal; asking again gives the same one.
fn find_or_create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("orgUuid")?)?;
    let kind = input.need("subType")?;
    if kind != "portal" {
        return Err(GqlError::invalid(format!("There is no template for {kind}")));
    }
    let known = ctx.children(INTERFACE, text(&org, "id"))?.into_iter().find(|i| text(i, "subType") == "portal");
    let id = match known {
        Some(portal) => text(&portal, "id").to_owned(),
        None => new_interface(ctx, &org, &format!("{} portal", text(&org, "name")), "portal", None)?,
    };
    Ok(json!({ "interface": link(INTERFACE, &id) }))
}

fn create_interface(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("org_uuid")?)?;
    let id = new_interface(ctx, &org, &input.need("name")?, "interface", None)?;
    let mut body = (*ctx.must(INTERFACE, "Interface", &id)?).clone();
    copy(&mut body, &input.0, &["color", "contentModeHtml"]);
    ctx.save(INTERFACE, &id, body)?;
    for page in input.get("pages").and_then(Value::as_array).into_iter().flatten() {
        let page = Args(page.clone());
        let page_id = new_page(ctx, &id, &page.text("title").unwrap_or_default(), &page, None)?;
        for element in page.get("elements").and_then(Value::as_array).into_iter().flatten() {
            new_element(ctx, &page_id, &Args(element.clone()), "dataSources")?;
        }
        if page.get("layout").is_some() {
            let stored = ctx.must(PAGE, "Page", &page_id)?;
            lay_out(ctx, &stored, &page)?;
        }
    }
    Ok(json!({ "interface": link(INTERFACE, &id), "success": true }))
}

fn update_interface(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let found = managed(ctx, &input.need("interface_uuid")?)?;
    if input.text("name").is_some_and(|name| name.trim().is_empty()) {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let mut body = (*found).clone();
    copy(&mut body, &input.0, &["name", "visibility", "color", "icon", "displayPipefyHeader"]);
    ctx.save(INTERFACE, text(&found, "id"), body)?;
    Ok(json!({ "interface": link(INTERFACE, text(&found, "id")) }))
}

fn bury(ctx: &Ctx<'_>, interface: &str) -> Result<(), GqlError> {
    for sub in ctx.grouped(INTERFACE, interface)? {
        bury(ctx, text(&sub, "id"))?;
    }
    let main = ctx.get(INTERFACE, interface)?.map(|i| text(&i, "main_portal").to_owned()).unwrap_or_default();
    for page in ctx.children(PAGE, &main)? {
        for element in ctx.children(ELEMENT, text(&page, "id"))? {
            if text(&element, "sub_portal") == interface {
                wire(ctx, &element, None)?;
            }
        }
    }
    for page in ctx.children(PAGE, interface)? {
        bury_page(ctx, text(&page, "id"))?;
    }
    ctx.remove(INTERFACE, interface)?;
    Ok(())
}

fn bury_page(ctx: &Ctx<'_>, page: &str) -> Result<(), GqlError> {
    for element in ctx.children(ELEMENT, page)? {
        ctx.remove(ELEMENT, text(&element, "id"))?;
    }
    ctx.remove(PAGE, page)?;
    Ok(())
}

fn new_page(
    ctx: &Ctx<'_>,
    interface: &str,
    title: &str,
    input: &Args,
    index: Option<usize>,
) -> Result<String, GqlError> {
    if title.trim().is_empty() {
        return Err(GqlError::not_saved("Title can't be blank"));
    }
    let id = ctx.new_uuid()?;
    let body = json!({
        "id": id, "interface_id": interface, "title": title, "description": input.text("description"), "layout": [],
    });
    ctx.put(PAGE, &id, &Links::parent(interface).uuid(&id), body)?;
    if let Some(index) = index {
        let mut order: Vec<String> = ctx.children(PAGE, interface)?.iter().map(|p| text(p, "id").to_owned()).collect();
        order.retain(|page| *page != id);
        order.insert(index.min(order.len()), id.clone());
        arrange(ctx, interface, &order)?;
    }
    Ok(id)
}

/// Puts pages into an order.
fn arrange(ctx: &Ctx<'_>, interface: &str, order: &[String]) -> Result<(), GqlError> {
    for (place, id) in order.iter().enumerate() {
        let body = (*ctx.must(PAGE, "Page", id)?).clone();
        ctx.put(PAGE, id, &Links::parent(interface).uuid(id).pos(place as f64), body)?;
    }
    Ok(())
}

fn index(input: &Args) -> Result<Option<usize>, GqlError> {
    match input.int("index") {
        None => Ok(None),
        Some(index) => usize::try_from(index).map(Some).map_err(|_| GqlError::invalid("index must not be negative")),
    }
}

/// The first page of an empty main portal comes with the template's elements.
fn create_page(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let interface = managed(ctx, &input.need("interface_uuid")?)?;
    let id = text(&interface, "id");
    let template = text(&interface, "subType") == "portal" && ctx.children(PAGE, id)?.is_empty();
    let page = new_page(ctx, id, &input.need("title")?, &input, index(&input)?)?;
    let mut rows = Vec::new();
    if template {
        let welcome = json!({ "text": format!("Welcome to {}", text(&interface, "name")) });
        for (kind, metadata) in [("text", welcome), ("forms", json!({ "name": "Requests" }))] {
            let input = json!({ "type": kind, "metadata": metadata.to_string(), "data_sources": [] });
            let element = new_element(ctx, &page, &Args(input), "data_sources")?;
            rows.push(json!({ "id": format!("row-{}", rows.len() + 1), "type": "row", "children": [element] }));
        }
        let mut body = (*ctx.must(PAGE, "Page", &page)?).clone();
        set(&mut body, "layout", rows);
        ctx.save(PAGE, &page, body)?;
    }
    for element in input.get("elements").and_then(Value::as_array).into_iter().flatten() {
        new_element(ctx, &page, &Args(element.clone()), "dataSources")?;
    }
    Ok(json!({ "page": link(PAGE, &page) }))
}

fn update_page(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (page, interface) = page_of(ctx, &input)?;
    let id = text(&page, "id").to_owned();
    if input.text("title").is_some_and(|title| title.trim().is_empty()) {
        return Err(GqlError::not_saved("Title can't be blank"));
    }
    let mut body = (*page).clone();
    copy(&mut body, &input.0, &["title", "description"]);
    ctx.save(PAGE, &id, body)?;
    if let Some(index) = index(&input)? {
        let interface = text(&interface, "id");
        let mut order: Vec<String> = ctx.children(PAGE, interface)?.iter().map(|p| text(p, "id").to_owned()).collect();
        order.retain(|page| *page != id);
        order.insert(index.min(order.len()), id.clone());
        arrange(ctx, interface, &order)?;
    }
    Ok(json!({ "page": link(PAGE, &id) }))
}

/// The order must name every page of the interface once.
fn sort_pages(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let interface = managed(ctx, &input.need("interface_uuid")?)?;
    let order = input.texts("page_ids").unwrap_or_default();
    let mut have: Vec<String> =
        ctx.children(PAGE, text(&interface, "id"))?.iter().map(|p| text(p, "id").to_owned()).collect();
    let mut given = order.clone();
    have.sort();
    given.sort();
    if have != given {
        return Err(GqlError::invalid("page_ids must name every page of the interface once"));
    }
    arrange(ctx, text(&interface, "id"), &order)?;
    Ok(json!({ "success": true }))
}

/// The scalar `Json` travels as text; an object is refused.
fn parsed(input: &Args, key: &str) -> Answer {
    let wrong = || GqlError::invalid(format!("{key} must be a JSON text"));
    let given = input.get(key).ok_or_else(wrong)?;
    serde_json::from_str(given.as_str().ok_or_else(wrong)?).map_err(|_| wrong())
}

fn lay_out(ctx: &Ctx<'_>, page: &Value, input: &Args) -> Result<(), GqlError> {
    let layout = parsed(input, "layout")?;
    let rows = layout.as_array().ok_or_else(|| GqlError::invalid("layout must be a list of rows"))?;
    for row in rows {
        let children = row.get("children").and_then(Value::as_array);
        let whole = children.is_some_and(|list| list.iter().all(Value::is_string));
        if text(row, "id").is_empty() || text(row, "type") != "row" || !whole {
            return Err(GqlError::invalid("A row of a layout has an id, the type \"row\" and children"));
        }
    }
    let mut body = page.clone();
    set(&mut body, "layout", layout);
    ctx.save(PAGE, text(page, "id"), body)?;
    Ok(())
}

/// Most data sources of an element, and most fields of one source.
const MOST_SOURCES: usize = 10;
const MOST_KEYS: usize = 30;

/// Checked data sources: repositories that the caller may bind, and fields that they have.
fn sources(ctx: &Ctx<'_>, input: &Args, key: &str) -> Answer {
    let given = input.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    if given.len() > MOST_SOURCES {
        return Err(GqlError::invalid(format!("An element has at most {MOST_SOURCES} data sources")));
    }
    let mut kept = Vec::new();
    for source in given {
        let source = Args(source);
        let (_, found) = bindable(ctx, &source.need("repoId")?)?;
        let keys = source.texts("fieldKeys").unwrap_or_default();
        if keys.len() > MOST_KEYS {
            return Err(GqlError::invalid(format!("A data source has at most {MOST_KEYS} field keys")));
        }
        let fields = ctx.grouped("field", text(&found, "id"))?;
        let known = |key: &String| {
            html::FIXED_COLUMNS.contains(&key.as_str())
                || fields.iter().any(|f| ["id", "uuid", "internal_id", "index_name"].iter().any(|k| text(f, k) == *key))
        };
        if let Some(unknown) = keys.iter().find(|key| !known(key)) {
            return Err(GqlError::invalid(format!("The repo has no field {unknown:?}")));
        }
        let filters = if source.get("filters").is_some() { parsed(&source, "filters")? } else { Value::Null };
        let id = match source.text("id") {
            Some(id) => id,
            None => ctx.new_uuid()?,
        };
        kept.push(json!({
            "id": id, "name": source.text("name").unwrap_or_else(|| text(&found, "name").to_owned()),
            "repoId": text(&found, "uuid"), "fieldKeys": keys, "filters": filters,
        }));
    }
    Ok(json!(kept))
}

fn new_element(ctx: &Ctx<'_>, page: &str, input: &Args, sources_key: &str) -> Result<String, GqlError> {
    let id = match input.text("id") {
        Some(id) => id,
        None => ctx.new_uuid()?,
    };
    if ctx.get(ELEMENT, &id)?.is_some() {
        return Err(GqlError::not_saved("Id has already been taken"));
    }
    let metadata = if input.get("metadata").is_some() { parsed(input, "metadata")? } else { json!({}) };
    let sources = sources(ctx, input, sources_key)?;
    let body = json!({
        "id": id, "page_id": page, "type": input.need("type")?, "metadata": metadata, "editable": input.flag("editable"),
        "sub_portal": metadata.get("subPortalUuid"), "dataSources": sources, "created_at": ctx.stamp(),
    });
    editable_given(&body)?;
    ctx.put(ELEMENT, &id, &Links::parent(page), body)?;
    Ok(id)
}

/// With field keys it has to be said whether people may edit them. HTML elements never let them.
fn editable_given(element: &Value) -> Result<(), GqlError> {
    let sources = element.get("dataSources").and_then(Value::as_array);
    let keyed = sources.is_some_and(|list| list.iter().any(|source| !texts_at(source, "fieldKeys").is_empty()));
    if keyed && text(element, "type") != "customCode" && element.get("editable").is_none_or(Value::is_null) {
        return Err(GqlError::invalid("editable is required when a data source has field keys"));
    }
    Ok(())
}

fn create_element(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (page, _) = managed_page(ctx, &input.need("page_id")?)?;
    let id = new_element(ctx, text(&page, "id"), &input, "data_sources")?;
    if input.get("layout").is_some() {
        lay_out(ctx, &page, &input)?;
    }
    Ok(json!({ "element": link(ELEMENT, &id) }))
}

fn update_element(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (element, _, _) = element_of(ctx, &input)?;
    let metadata = parsed(&input, "metadata")?;
    let mut body = (*element).clone();
    set(&mut body, "dataSources", sources(ctx, &input, "data_sources")?);
    if let Some(sub) = metadata.get("subPortalUuid") {
        set(&mut body, "sub_portal", sub.clone());
    }
    set(&mut body, "metadata", metadata);
    copy(&mut body, &input.0, &["editable"]);
    editable_given(&body)?;
    ctx.save(ELEMENT, text(&element, "id"), body)?;
    Ok(json!({ "success": true }))
}

fn duplicate(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let names = json!({ "page_id": input.need("pageUuid")?, "element_id": input.need("elementUuid")? });
    let (element, page, interface) = element_of(ctx, &Args(names))?;
    if text(&interface, "id") != input.need("interfaceUuid")? {
        return Err(GqlError::not_found("Element", text(&element, "id")));
    }
    let id = ctx.new_uuid()?;
    let mut body = (*element).clone();
    set(&mut body, "id", id.as_str());
    // A sub-portal hangs on one element.
    set(&mut body, "sub_portal", Value::Null);
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("subPortalUuid");
    }
    ctx.put(ELEMENT, &id, &Links::parent(text(&page, "id")), body)?;
    Ok(json!({ "element": link(ELEMENT, &id) }))
}

fn write_html(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (element, _, interface) = element_of(ctx, &input)?;
    if !flag(&interface, "contentModeHtml") || text(&element, "type") != "customCode" {
        return Err(GqlError::invalid("Only a customCode element of an HTML interface has a document"));
    }
    let content = input.need("content")?;
    html::check(&content)?;
    let mut body = (*element).clone();
    let hash = crate::oauth::fingerprint(&content);
    set(&mut body, "htmlDocument", json!({ "content": content, "contentHash": hash, "createdAt": ctx.stamp() }));
    ctx.save(ELEMENT, text(&element, "id"), body)?;
    Ok(json!({ "success": true }))
}

fn create_sub_portal(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let main = managed(ctx, &input.need("mainPortalUuid")?)?;
    if text(&main, "subType") != "portal" {
        return Err(GqlError::not_found("Portal", text(&main, "id")));
    }
    let org = ctx.must("organization", "Organization", text(&main, "organization_id"))?;
    let name = input.text("name").unwrap_or_else(|| "Sub-portal".to_owned());
    let id = new_interface(ctx, &org, &name, "sub_portal", Some(text(&main, "id")))?;
    Ok(json!({ "subPortal": link(INTERFACE, &id) }))
}

/// The element of a main portal that an internal input names.
fn slot(ctx: &Ctx<'_>, input: &Args) -> Result<(Body, Body), GqlError> {
    let portal = managed(ctx, &input.need("portalUuid")?)?;
    let id = input.need("elementId")?;
    let element = ctx.get(ELEMENT, &id)?.ok_or_else(|| GqlError::not_found("Element", &id))?;
    let (_, owner) = managed_page(ctx, text(&element, "page_id"))?;
    if text(&owner, "id") != text(&portal, "id") {
        return Err(GqlError::not_found("Element", &id));
    }
    if !matches!(text(&element, "type"), "forms" | "subPortal" | "link" | "button") {
        return Err(GqlError::invalid("This element cannot lead to a sub-portal"));
    }
    Ok((element, portal))
}

/// Makes an element lead to a sub-portal, or to none.
fn wire(ctx: &Ctx<'_>, element: &Value, sub: Option<&str>) -> Result<(), GqlError> {
    let mut body = element.clone();
    set(&mut body, "sub_portal", sub.map_or(Value::Null, Value::from));
    if let Some(metadata) = body.get_mut("metadata") {
        match sub {
            Some(uuid) => set(metadata, "subPortalUuid", uuid),
            None => {
                if let Some(map) = metadata.as_object_mut() {
                    map.remove("subPortalUuid");
                }
            }
        }
    }
    ctx.save(ELEMENT, text(element, "id"), body)?;
    Ok(())
}
