//! The power profile's own tools: find a tool, read its schema, run it (`spec/mcp-server.md` section 20).

use pipefy_tools::{Domain, Kind, Op, Outcome, Shape, Tool, ToolError, check_arguments};
use serde_json::{Map, Value, json};

use super::Exposure;

/// Tools that `search_tools` gives at most.
const FOUND_AT_MOST: usize = 25;

/// One of the power profile's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Lists domains and the names in them.
    GetToolCategories,
    /// Finds tools by words.
    SearchTools,
    /// Gives one tool's description and schema.
    DescribeTool,
    /// Runs a tool.
    ExecuteTool,
}

const fn op(name: &'static str) -> Op {
    Op::read(name, Domain::Integration, Shape::Envelope)
}

static GET_TOOL_CATEGORIES: Op = op("get_tool_categories");
static SEARCH_TOOLS: Op = op("search_tools");
static DESCRIBE_TOOL: Op = op("describe_tool");
static EXECUTE_TOOL: Op = op("execute_tool");

/// What a meta-tool does, for models.
pub(super) fn description(meta: MetaTool) -> &'static str {
    match meta {
        MetaTool::GetToolCategories => "Lists the domains of the catalogue with the names of their tools.",
        MetaTool::SearchTools => {
            "Finds tools by words of their names or by what you want done (English, Portuguese, Spanish), best first, at most 25."
        }
        MetaTool::DescribeTool => "Gives one tool's full description and the schemas of its arguments and result.",
        MetaTool::ExecuteTool => {
            "Runs a tool of the catalogue; the result is that tool's own. See describe_tool for its arguments."
        }
    }
}

impl MetaTool {
    /// All of them, in listing order.
    pub const ALL: [Self; 4] = [Self::GetToolCategories, Self::SearchTools, Self::DescribeTool, Self::ExecuteTool];

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.op().name
    }

    /// Its operation row.
    pub const fn op(self) -> &'static Op {
        match self {
            Self::GetToolCategories => &GET_TOOL_CATEGORIES,
            Self::SearchTools => &SEARCH_TOOLS,
            Self::DescribeTool => &DESCRIBE_TOOL,
            Self::ExecuteTool => &EXECUTE_TOOL,
        }
    }

    /// The JSON schema of its arguments.
    pub fn input_schema(self) -> Value {
        match self {
            Self::GetToolCategories => json!({ "type": "object", "properties": {} }),
            Self::SearchTools => json!({
                "type": "object",
                "properties": { "keyword": { "type": "string" } },
                "required": ["keyword"],
            }),
            Self::DescribeTool => json!({
                "type": "object",
                "properties": { "name": { "type": "string" } },
                "required": ["name"],
            }),
            Self::ExecuteTool => json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "arguments": { "type": ["object", "null"], "additionalProperties": true, "default": null },
                },
                "required": ["name"],
            }),
        }
    }

    /// Checks the arguments as every tool's are checked.
    pub(crate) fn check(self, arguments: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        check_arguments(self.op(), &self.input_schema(), arguments).map(|(arguments, _)| arguments)
    }
}

/// The domains with their tools.
pub(crate) fn categories(exposure: &Exposure) -> Outcome {
    let categories: Vec<Value> = Domain::ALL
        .iter()
        .filter_map(|domain| {
            let tools: Vec<&str> =
                exposure.hidden().iter().filter(|tool| tool.op().domain == *domain).map(|tool| tool.name()).collect();
            (!tools.is_empty()).then(|| {
                json!({
                    "category": domain.name(),
                    "description": domain_description(*domain),
                    "tool_count": tools.len(),
                    "tools": tools,
                })
            })
        })
        .collect();
    Outcome::new(json!({ "categories": categories }))
}

/// The tools that have to do with `keyword`, best first.
pub(crate) fn search(exposure: &Exposure, keyword: &str) -> Outcome {
    let tools: Vec<Value> = super::catalogue()
        .search(exposure.hidden(), keyword)
        .into_iter()
        .take(FOUND_AT_MOST)
        .map(|tool| {
            json!({
                "name": tool.name(),
                "summary": tool.description().lines().next().unwrap_or_default(),
                "category": tool.op().domain.name(),
            })
        })
        .collect();
    Outcome::new(json!({ "count": tools.len(), "tools": tools }))
}

/// One tool in full.
pub(crate) fn describe(exposure: &Exposure, name: &str, unified: bool) -> Result<Outcome, ToolError> {
    let tool = find(exposure, name)?;
    Ok(Outcome::new(json!({
        "name": tool.name(),
        "category": tool.op().domain.name(),
        "description": tool.description(),
        "input_schema": tool.input_schema(),
        "output_schema": tool.result_schema(unified),
    })))
}

/// A tool of the power profile's catalogue.
pub(crate) fn find(exposure: &Exposure, name: &str) -> Result<&'static Tool, ToolError> {
    let position = exposure.hidden().binary_search_by_key(&name, |tool| tool.name()).ok();
    position.and_then(|index| exposure.hidden().get(index)).copied().ok_or_else(|| {
        ToolError::new(Kind::Input, format!("There is no tool '{name}' here. Find its name with search_tools."))
            .code("TOOL_NOT_FOUND")
    })
}

const fn domain_description(domain: Domain) -> &'static str {
    match domain {
        Domain::Workflow => {
            "Processes: pipes, phases, fields, labels, field conditions, cards, comments, card files, card email and relations."
        }
        Domain::Bulk => "Many cards or records at once: import from and export to files or rows.",
        Domain::Database => "Database tables with their fields, records, record files and table relations.",
        Domain::Interfaces => "Portals, pages, elements, sub-portals and HTML interfaces.",
        Domain::Automation => {
            "If/then rules and AI automations, with their logs, metrics, usage figures and job exports."
        }
        Domain::Intelligence => {
            "AI agents, LLM providers, knowledge bases, available models, and AI usage and credits."
        }
        Domain::Analytics => "Pipe reports and organization reports, and exporting them.",
        Domain::Governance => "Organization data, members, roles, service accounts and audit-log export.",
        Domain::Integration => "Webhooks, the iPaaS bridge, and raw GraphQL with schema introspection.",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::catalogue::Selection;

    fn power() -> Exposure {
        Exposure::new(&Selection::Power, false, false)
    }

    #[test]
    fn words_in_names_count_more_and_equals_are_sorted_by_name() {
        let exposure = power();
        let value = search(&exposure, " CARD get card ").body.into_value();
        let names: Vec<&str> = value["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(value["count"], names.len());
        assert!(names.len() <= FOUND_AT_MOST);
        assert!(names.starts_with(&["get_card"]), "{names:?}");
        for nothing in ["", "   ", "zzzzqqq"] {
            assert_eq!(search(&exposure, nothing).body.into_value(), json!({"count": 0, "tools": []}));
        }
    }

    #[test]
    fn categories_count_the_catalogue_and_are_sorted() {
        let exposure = power();
        let value = categories(&exposure).body.into_value();
        let list = value["categories"].as_array().unwrap();
        let total: u64 = list.iter().map(|c| c["tool_count"].as_u64().unwrap()).sum();
        assert_eq!(total as usize, exposure.hidden().len());
        let names: Vec<&str> = list.iter().map(|c| c["category"].as_str().unwrap()).collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn every_tool_is_described_with_both_schemas() {
        let exposure = power();
        for tool in exposure.hidden() {
            for unified in [true, false] {
                let told = describe(&exposure, tool.name(), unified).unwrap().body.into_value();
                assert_eq!(told["input_schema"], tool.input_schema(), "{}", tool.name());
                assert_eq!(told["output_schema"], tool.result_schema(unified), "{}", tool.name());
                let success = &told["output_schema"]["anyOf"][0];
                assert!(success["properties"].is_object(), "{}: {success}", tool.name());
            }
        }
    }

    #[test]
    fn unknown_names_point_to_the_search() {
        let error = find(&power(), "nope").unwrap_err();
        let envelope = error.envelope();
        assert_eq!(envelope["error"]["code"], "TOOL_NOT_FOUND");
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains("nope") && message.contains("search_tools"));
    }
}
