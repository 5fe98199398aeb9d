use pipefy::{documents, interfaces};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::no_interface;
use crate::tools::observability::organization;
use crate::tools::portals::{failure, listing, optional_text, things, with_uuid};
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

const PERSONAS: &[Persona] = &[Persona::Auditor];

/// Reads the rules for the HTML of customCode elements: tags, attributes, data binding, limits, error codes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetInterfaceHtmlGuidelines {
    /// Also return the design system, which is long.
    #[serde(default)]
    include_design_system: bool,
}

impl Read for GetInterfaceHtmlGuidelines {
    const OP: Op = Op::read("get_interface_html_guidelines", Domain::Interfaces, Shape::Text)
        .personas(PERSONAS)
        .reaches(Reach::Nothing)
        .selects(&documents::interfaces::GET_INTERFACE_HTML_GUIDELINES, "interfaceHtmlGuidelines");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let query = interfaces::html_guidelines(self.include_design_system);
        let data = call.query(query).await.map_err(|e| failure::of_read(e, None))?;
        match data.value().get_mut("interfaceHtmlGuidelines").map(Value::take).filter(|rules| !rules.is_null()) {
            Some(rules) => Ok(Outcome::new(rules).parsed(true)),
            None => Err(ToolError::api("Pipefy gave no guidelines; try again, and ask its support if it persists.")),
        }
    }
}

/// Lists the HTML interfaces of an organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListInterfaces {
    /// Uuid or number.
    organization_uuid: CheckedId,
    #[serde(default)]
    search_term: Option<String>,
}

impl Read for ListInterfaces {
    const OP: Op = Op::read("list_interfaces", Domain::Interfaces, Shape::Text)
        .personas(PERSONAS)
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = organization::uuid_of(call, &self.organization_uuid).await?;
        let query = |after: Option<&str>| interfaces::list_interfaces(&uuid, self.search_term.as_deref(), after);
        let mut found = listing::nodes(call, "interfaces", query).await.map_err(|e| failure::of_read(e, None))?;
        found.list.retain(is_html);
        found.list.iter_mut().for_each(with_uuid);
        Ok(found.outcome("interfaces"))
    }
}

fn is_html(interface: &Value) -> bool {
    interface.get("contentModeHtml") == Some(&Value::Bool(true))
}

/// Reads an HTML interface with the HTML of its elements.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetInterfaceHtml {
    interface_uuid: CheckedId,
}

impl Read for GetInterfaceHtml {
    const OP: Op = Op::read("get_interface_html", Domain::Interfaces, Shape::Text)
        .personas(PERSONAS)
        .touches(&[IdArg::new("interface_uuid", IdKind::Interface)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let uuid = self.interface_uuid.as_str();
        let missing = no_interface(uuid);
        let data =
            call.query(interfaces::get_html_interface(uuid)).await.map_err(|e| failure::of_read(e, Some(&missing)))?;
        let mut interface = data.value().get_mut("interface").map(Value::take).unwrap_or_default();
        if interface.is_null() {
            return Err(ToolError::not_found(missing));
        }
        if !is_html(&interface) {
            return Err(ToolError::invalid(format!("{uuid} is not an HTML interface; read it with get_portal.")));
        }
        with_uuid(&mut interface);
        for page in things(&mut interface, "pages") {
            for element in things(page, "elements") {
                let Some(Value::Array(sources)) = element.get_mut("dataSources") else { continue };
                sources.iter_mut().filter_map(|source| source.get_mut("filters")).for_each(decode);
            }
        }
        Ok(Outcome::new(interface).parsed(true))
    }
}

/// Filters come as JSON text; text that is no JSON stays.
fn decode(filters: &mut Value) {
    if let Some(parsed) = filters.as_str().and_then(|text| serde_json::from_str(text).ok()) {
        *filters = parsed;
    }
}

/// Lists the pipes and tables that interfaces can bind.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListInterfaceRepos {
    /// The number, not the uuid.
    organization_id: CheckedId,
    #[serde(default)]
    interface_uuid: Option<CheckedId>,
    #[serde(default)]
    repo_name: Option<String>,
}

impl Read for ListInterfaceRepos {
    const OP: Op = Op::read("list_interface_repos", Domain::Interfaces, Shape::Text)
        .personas(PERSONAS)
        .touches(&[
            IdArg::new("organization_id", IdKind::Organization),
            IdArg::within("interface_uuid", IdKind::Interface),
        ])
        .reaches(Reach::Listing(&[("repos", IdKind::Repo)]))
        .narrows(&documents::interfaces::LIST_INTERFACE_REPOS, "interfaceRepos.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = self.organization_id.as_str();
        if !id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ToolError::invalid(format!(
                "`organization_id` must be the numeric id of the organization, not its uuid or name; it is '{id}'."
            )));
        }
        let name = optional_text("repo_name", self.repo_name.as_deref())?;
        let interface = self.interface_uuid.as_deref();
        let query = |after: Option<&str>| interfaces::list_repos(id, interface, name.as_deref(), after);
        let missing = format!("No organization has the id {id}. `list_organizations` shows those of this account.");
        let found =
            listing::nodes(call, "interfaceRepos", query).await.map_err(|e| failure::of_sources(e, None, &missing))?;
        Ok(found.outcome("repos"))
    }
}

/// Lists the fields of a pipe or table that a data source can show: the keys for fieldKeys.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetInterfaceRepoFields {
    /// See list_interface_repos.
    repo_uuid: CheckedId,
    #[serde(default)]
    interface_uuid: Option<CheckedId>,
}

impl Read for GetInterfaceRepoFields {
    const OP: Op = Op::read("get_interface_repo_fields", Domain::Interfaces, Shape::Text)
        .personas(PERSONAS)
        .touches(&[IdArg::new("repo_uuid", IdKind::Repo), IdArg::within("interface_uuid", IdKind::Interface)])
        .selects(&documents::interfaces::GET_INTERFACE_REPO_FIELDS, "interfacesRepoStructure.fields");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let repo = self.repo_uuid.as_str();
        let interface = self.interface_uuid.as_deref();
        let or = interface.map(|uuid| format!(", or no interface the UUID {uuid}")).unwrap_or_default();
        let missing = format!("No repo has the UUID {repo}{or}. `list_interface_repos` lists the repos.");
        let data = call
            .query(interfaces::get_repo_fields(repo, interface))
            .await
            .map_err(|e| failure::of_sources(e, None, &missing))?;
        let mut structure = data.value().get_mut("interfacesRepoStructure").map(Value::take).unwrap_or_default();
        if structure.is_null() {
            return Err(ToolError::not_found(missing));
        }
        let fields = structure.get_mut("fields").map(Value::take).filter(Value::is_array);
        Ok(Outcome::new(json!({ "fields": fields.unwrap_or_else(|| json!([])) })).parsed(true))
    }
}
