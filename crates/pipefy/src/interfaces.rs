//! HTML interfaces and what they can bind (endpoint `/graphql/interfaces`). Documents may be 1 MiB long and are moved, not copied.

use serde_json::{Map, Value};

use crate::document::documents::interfaces as documents;
use crate::operation::{Mutation, Query};

/// Items on a page of [`list_interfaces`] and [`list_repos`].
pub const PAGE_SIZE: i64 = 50;

/// Interfaces of an organisation, one page; those with `contentModeHtml` are HTML interfaces.
pub fn list_interfaces(organization_uuid: &str, search_term: Option<&str>, after: Option<&str>) -> Query {
    Query::new(&documents::LIST_INTERFACES)
        .var("org_uuid", organization_uuid)
        .var("filterBySubType", "interface")
        .var_opt("searchTerm", search_term)
        .var("first", PAGE_SIZE)
        .var_opt("after", after)
}

/// An HTML interface with its documents.
pub fn get_html_interface(interface_uuid: &str) -> Query {
    Query::new(&documents::GET_HTML_INTERFACE).var("uuid", interface_uuid)
}

/// The elements of an HTML interface without their documents.
pub fn html_interface_elements(interface_uuid: &str) -> Query {
    Query::new(&documents::HTML_INTERFACE_ELEMENTS).var("uuid", interface_uuid)
}

/// What HTML of custom code may hold.
pub fn html_guidelines(include_design_system: bool) -> Query {
    Query::new(&documents::GET_INTERFACE_HTML_GUIDELINES).var("includeDesignSystem", include_design_system)
}

/// Pipes and tables that an interface can bind, one page. The organisation is given by its number.
pub fn list_repos(
    organization_id: &str,
    interface_uuid: Option<&str>,
    repo_name: Option<&str>,
    after: Option<&str>,
) -> Query {
    Query::new(&documents::LIST_INTERFACE_REPOS)
        .var("orgId", organization_id)
        .var_opt("interfaceUuid", interface_uuid)
        .var_opt("repoName", repo_name)
        .var("first", PAGE_SIZE)
        .var_opt("after", after)
}

/// Fields of a pipe or table, for data sources.
pub fn get_repo_fields(repo_uuid: &str, interface_uuid: Option<&str>) -> Query {
    Query::new(&documents::GET_INTERFACE_REPO_FIELDS).var("repoId", repo_uuid).var_opt("interfaceId", interface_uuid)
}

/// Creates an interface with its pages; `input` takes the keys of `InterfaceCreateMutationInput`.
pub fn create_interface(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_INTERFACE).input(input)
}

/// Writes and publishes the document of an element; needs `page_id`, `element_id` and `content`.
pub fn write_html_document(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::WRITE_HTML_DOCUMENT).input(input)
}
