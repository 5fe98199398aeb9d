//! Portals, their pages and elements (endpoint `/graphql/interfaces`), and the wiring of sub-portals (`/internal_api`).
//!
//! Inputs of the interfaces endpoint are in snake case with exceptions, those of the internal one in camel case.

use serde_json::{Map, Value};

use crate::document::documents::portals as documents;
use crate::operation::{Mutation, Query};

/// Portals of an organisation, one page.
pub fn list_portals(organization_uuid: &str, search_term: Option<&str>, after: Option<&str>) -> Query {
    Query::new(&documents::LIST_PORTALS)
        .var("org_uuid", organization_uuid)
        .var("filterBySubType", "portal")
        .var_opt("searchTerm", search_term)
        .var_opt("after", after)
}

/// A portal with pages, elements and sub-portals.
pub fn get_portal(portal_uuid: &str) -> Query {
    Query::new(&documents::GET_PORTAL).var("uuid", portal_uuid)
}

/// Creates the main portal of an organisation, or gives the one there is.
pub fn create_portal(organization_uuid: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("orgUuid".to_owned(), organization_uuid.into());
    input.insert("subType".to_owned(), "portal".into());
    Mutation::new(&documents::FIND_OR_CREATE_PORTAL).input(input)
}

/// Changes name, visibility or theme; needs `interface_uuid`.
pub fn update_portal(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_INTERFACE).input(input)
}

/// Deletes a portal for good; needs `interface_uuid`.
pub fn delete_portal(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DELETE_INTERFACE).input(input)
}

/// Adds a page; needs `interface_uuid` and `title`.
pub fn create_page(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_PAGE).input(input)
}

/// Changes a page; needs `interface_uuid` and `page_id`.
pub fn update_page(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PAGE).input(input)
}

/// Deletes a page for good; needs `interface_uuid` and `page_id`.
pub fn delete_page(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DELETE_PAGE).input(input)
}

/// Orders the pages; needs `interface_uuid` and `page_ids`.
pub fn sort_pages(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::SORT_PAGES).input(input)
}

/// Replaces the grid of a page; needs `page_id` and `layout` as JSON text.
pub fn update_page_layout(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_PAGE_LAYOUT).input(input)
}

/// Adds an element; needs `page_id`, `type`, `metadata` as JSON text and `data_sources`, be it empty.
pub fn create_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_ELEMENT).input(input)
}

/// Replaces metadata and data sources of an element; needs `element_id`, `page_id`, `metadata` and `data_sources`.
pub fn update_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_ELEMENT).input(input)
}

/// Deletes an element for good; needs `element_id` and `page_id`. Without `layout` the grid keeps naming it.
pub fn delete_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DELETE_ELEMENT).input(input)
}

/// Copies an element on its page; needs `elementUuid`, `interfaceUuid` and `pageUuid`.
pub fn duplicate_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DUPLICATE_ELEMENT).input(input)
}

/// Creates a sub-portal; needs `mainPortalUuid`.
pub fn create_sub_portal(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_SUB_PORTAL).input(input)
}

/// Links an element to a sub-portal, or with `subPortalUuid: null` to none; needs `portalUuid` and `elementId`.
pub fn update_sub_portal_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_SUB_PORTAL_ELEMENT).input(input)
}

/// Removes the link of an element for good; needs `portalUuid` and `elementId`.
pub fn delete_sub_portal_element(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DELETE_SUB_PORTAL_ELEMENT).input(input)
}

/// Deletes a sub-portal for good; needs `uuid`.
pub fn delete_sub_portal(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::DELETE_SUB_PORTAL_INTERFACE).input(input)
}
