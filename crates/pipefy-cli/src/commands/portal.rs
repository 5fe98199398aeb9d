//! Portals, their pages and elements, sub-portals, HTML interfaces.

use serde_json::{Map, Value};

use crate::command::{
    Command, Param, Preset, Show, array, choice, commas, flag, id, int, named, object, pair, text, text_file,
};
use crate::failure::Failure;
use crate::shapes;

const PORTAL: Param = id("portal_uuid", "Portal uuid");
const ELEMENT: Param = id("element_id", "Element id");
const ORG_UUID: Param = text("--organization-uuid", "organization_uuid", "Organization uuid").required();
const SEARCH: Param = text("--search-term", "search_term", "Text to look for");
const PAGE: Param = text("--page-id", "page_id", "Page id").required();
const ELEMENT_OPTION: Param = text("--element-id", "element_id", "Element id").required();
const LAYOUT: Param = array("--layout", "layout", "Rows of the page: a list of objects");
const EDITABLE: Param =
    pair("--editable / --no-editable", "editable", "Whether what it shows can be edited; needed with field keys");
const INTERFACE: Param = text("--interface-uuid", "interface_uuid", "Interface uuid");
const INDEX: Param = int("--index", "index", "Position, from 0").range(0, i64::MAX);

pub(super) static COMMANDS: &[Command] = &[
    Command::new("portal list", "list_portals", "List the portals of an organization")
        .takes(&[ORG_UUID, SEARCH])
        .shows(Show::With(shapes::bare_list)),
    Command::new("portal get", "get_portal", "Show a portal").takes(&[PORTAL]),
    Command::new("portal create", "create_portal", "Create a portal").takes(&[ORG_UUID]),
    Command::new("portal update", "update_portal", "Change a portal").takes(&[
        PORTAL,
        text("--name", "name", "New name"),
        text("--visibility", "visibility", "New visibility"),
        text("--color", "color", "New color"),
        text("--icon", "icon", "New icon"),
        pair("--display-pipefy-header / --no-display-pipefy-header", "display_pipefy_header", "Show Pipefy's header"),
    ]),
    Command::new("portal delete", "delete_portal", "Delete a portal for good")
        .takes(&[PORTAL])
        .deletes(|given| named("portal", "portal_uuid", given)),
    Command::new("portal page create", "create_portal_page", "Create a page").takes(&[
        text("--portal-uuid", "portal_uuid", "Portal uuid").required(),
        text("--title", "title", "Title").required(),
        text("--description", "description", "Description"),
        INDEX,
    ]),
    Command::new("portal page update", "update_portal_page", "Change a page").takes(&[
        PORTAL,
        id("page_id", "Page uuid"),
        text("--title", "title", "New title"),
        text("--description", "description", "New description"),
        INDEX,
    ]),
    Command::new("portal page delete", "delete_portal_page", "Delete a page for good")
        .takes(&[PORTAL, id("page_id", "Page uuid")])
        .deletes(|given| format!("{} of {}", named("page", "page_id", given), named("portal", "portal_uuid", given))),
    Command::new("portal page sort", "sort_portal_pages", "Put the pages of a portal in order").prepare(pages).takes(
        &[
            text("--portal-uuid", "portal_uuid", "Portal uuid").required(),
            commas("--page-ids", "page_ids", "Page ids in order"),
            array("--ids-json", "ids_json", "Page ids in order, as JSON"),
        ],
    ),
    Command::new("portal page layout update", "update_portal_page_layout", "Replace the layout of a page")
        .takes(&[PAGE, LAYOUT.required()]),
    Command::new("portal element create", "create_portal_element", "Create an element on a page")
        .prepare(metadata)
        .takes(&[
            PAGE,
            text("--type", "type", "Element type").required(),
            object("--metadata", "metadata", "What the element shows"),
            array("--data-sources", "data_sources", "Data sources"),
            text("--element-id", "element_id", "Id of the new element"),
            EDITABLE,
            LAYOUT,
        ]),
    Command::new("portal element update", "update_portal_element", "Change an element").prepare(element_update).takes(
        &[
            ELEMENT,
            id("page_id", "Page id"),
            text("--type", "type", "Element type").required(),
            object("--metadata", "metadata", "What the element shows"),
            array("--data-sources", "data_sources", "Data sources"),
            text("--portal-uuid", "portal_uuid", "Portal uuid, to keep its data sources"),
            EDITABLE,
        ],
    ),
    Command::new("portal element delete", "delete_portal_element", "Delete an element for good")
        .takes(&[ELEMENT, id("page_id", "Page id"), LAYOUT])
        .deletes(|given| {
            let layout = if given.contains_key("layout") { " and replace the page's layout" } else { "" };
            format!("{} of {}{layout}", named("element", "element_id", given), named("page", "page_id", given))
        }),
    Command::new("portal element duplicate", "duplicate_portal_element", "Copy an element").takes(&[
        ELEMENT_OPTION,
        text("--portal-uuid", "portal_uuid", "Portal uuid").required(),
        PAGE,
    ]),
    Command::new("portal sub-portal create", "create_sub_portal", "Create a sub-portal").takes(&[
        text("--main-portal-uuid", "main_portal_uuid", "Uuid of the main portal").required(),
        text("--name", "name", "Name"),
    ]),
    Command::new("portal sub-portal attach", "update_sub_portal_element", "Put a sub-portal into an element").takes(&[
        PORTAL,
        ELEMENT,
        id("sub_portal_uuid", "Sub-portal uuid"),
    ]),
    Command::new("portal sub-portal detach", "delete_sub_portal_element", "Take a sub-portal out of an element")
        .takes(&[PORTAL, ELEMENT])
        .deletes(|given| {
            format!("{} of {}", named("sub-portal element", "element_id", given), named("portal", "portal_uuid", given))
        }),
    Command::new("portal sub-portal publish", "publish_sub_portal", "Publish a sub-portal").takes(&[
        PORTAL,
        ELEMENT,
        id("sub_portal_uuid", "Sub-portal uuid"),
    ]),
    Command::new("portal sub-portal unpublish", "unpublish_sub_portal", "Take a sub-portal back")
        .takes(&[PORTAL, ELEMENT]),
    Command::new("portal sub-portal delete", "delete_sub_portal", "Delete a sub-portal for good")
        .takes(&[id("sub_portal_uuid", "Sub-portal uuid")])
        .deletes(|given| named("sub-portal", "sub_portal_uuid", given)),
    Command::new("portal html-interface list", "list_interfaces", "List the interfaces of an organization")
        .takes(&[ORG_UUID, SEARCH])
        .shows(Show::With(shapes::bare_list)),
    Command::new(
        "portal html-interface guidelines",
        "get_interface_html_guidelines",
        "Show the rules for HTML interfaces",
    )
    .takes(&[flag("--include-design-system", "include_design_system", "Also show the design system")]),
    Command::new("portal html-interface get", "get_interface_html", "Show the HTML of an interface")
        .takes(&[id("interface_uuid", "Interface uuid")]),
    Command::new("portal html-interface write", "write_interface_html", "Replace the HTML of an element")
        .prepare(one_content)
        .takes(&[
            PAGE,
            ELEMENT_OPTION,
            text("--content", "content", "HTML"),
            text_file("--content-file", "content_file", "File with the HTML"),
        ]),
    Command::new("portal html-interface create", "create_html_interface", "Create an HTML interface")
        .prepare(one_html)
        .takes(&[
            ORG_UUID,
            text("--name", "name", "Name").required(),
            text("--html", "html", "HTML"),
            text_file("--html-file", "html_file", "File with the HTML"),
            choice("--color", "color", COLORS, "Color").or(Preset::Text("blue")),
            array("--data-sources", "data_sources", "Data sources"),
        ]),
    Command::new(
        "portal html-interface repos",
        "list_interface_repos",
        "List the pipes and tables an interface can use",
    )
    .takes(&[
        text("--organization-id", "organization_id", "Organization id").required(),
        INTERFACE,
        text("--repo-name", "repo_name", "Text the name contains"),
    ]),
    Command::new(
        "portal html-interface repo-fields",
        "get_interface_repo_fields",
        "List the fields an interface can use",
    )
    .takes(&[text("--repo-uuid", "repo_uuid", "Pipe or table uuid").required(), INTERFACE]),
    Command::new("portal html-interface set-sources", "set_interface_sources", "Set the data sources of an element")
        .takes(&[
            INTERFACE.required(),
            PAGE,
            ELEMENT_OPTION,
            array("--data-sources", "data_sources", "Data sources").required(),
        ]),
];

const COLORS: &[&str] =
    &["blue", "cyan", "gray", "green", "indigo", "lime", "pink", "purple", "orange", "red", "sky", "yellow"];

/// `--page-ids`, or `--ids-json` when that is blank.
fn pages(args: &mut Map<String, Value>) -> Result<(), Failure> {
    let json = args.shift_remove("ids_json");
    if !args.contains_key("page_ids") {
        let ids = json.ok_or_else(|| Failure::usage("Provide --page-ids or --ids-json"))?;
        args.insert("page_ids".to_owned(), ids);
    }
    Ok(())
}

fn metadata(args: &mut Map<String, Value>) -> Result<(), Failure> {
    if !args.contains_key("metadata") {
        return Err(Failure::usage("--metadata is required"));
    }
    if args.get("element_id").and_then(Value::as_str).is_some_and(|id| id.trim().is_empty()) {
        args.shift_remove("element_id");
    }
    Ok(())
}

fn element_update(args: &mut Map<String, Value>) -> Result<(), Failure> {
    if !args.contains_key("metadata") {
        return Err(Failure::usage("--metadata is required"));
    }
    match args.contains_key("data_sources") || args.contains_key("portal_uuid") {
        true => Ok(()),
        false => Err(Failure::usage("Provide at least one of: --data-sources, --portal-uuid")),
    }
}

fn one_content(args: &mut Map<String, Value>) -> Result<(), Failure> {
    one_of(args, "content", "content_file", "--content and --content-file")
}

fn one_html(args: &mut Map<String, Value>) -> Result<(), Failure> {
    one_of(args, "html", "html_file", "--html and --html-file")
}

/// Exactly one of text and file; the text of the file takes the name of the text.
fn one_of(args: &mut Map<String, Value>, text: &str, file: &str, names: &str) -> Result<(), Failure> {
    match (args.contains_key(text), args.shift_remove(file)) {
        (true, None) => {}
        (false, Some(content)) => {
            args.insert(text.to_owned(), content);
        }
        _ => return Err(Failure::usage(format!("Provide exactly one of {names}"))),
    }
    match args.get(text).and_then(Value::as_str).is_some_and(|content| content.trim().is_empty()) {
        true => Err(Failure::usage("the HTML must not be blank")),
        false => Ok(()),
    }
}
