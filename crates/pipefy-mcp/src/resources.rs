//! What can be read by address: the GraphQL types as far as they are known, the tools, a pipe, a card.
//!
//! A pipe or a card is read by the tool that reads it, as one call like any other: with the session of the request that
//! asked, inside the same scope, limits and result budget, and with the same line in the logs.

use std::fmt::Write as _;

use pipefy::EndpointKind;
use pipefy_tools::{Class, Domain, NOT_FOUND_CODES, Tool};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};

use crate::catalogue::{Exposure, MetaTool, Way, catalogue};
use crate::dispatch::{CallReply, Invocation, dispatch};
use crate::runtime::McpRuntime;

const SCHEME: &str = "pipefy://";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
const GRAPHQL: &str = "application/graphql";

/// Further codes of failures that mean that a caller has nothing at an address, however often they ask.
const OTHERS_OR_NONE: [&str; 3] = ["INVALID_ARGUMENTS", "OUT_OF_SCOPE", "PERMISSION_DENIED"];

/// Longest last part of an address, in bytes; longer ones name nothing.
const NAME_LIMIT: usize = 200;

/// A kind of thing that has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `pipefy://schema/{type}`
    Schema,
    /// `pipefy://tools/{name}`
    Tools,
    /// `pipefy://pipes/{id}`
    Pipes,
    /// `pipefy://cards/{id}`
    Cards,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Schema, Self::Tools, Self::Pipes, Self::Cards];

    const fn folder(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Tools => "tools",
            Self::Pipes => "pipes",
            Self::Cards => "cards",
        }
    }

    /// The variable of its template.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::Schema => "type",
            Self::Tools => "name",
            Self::Pipes | Self::Cards => "id",
        }
    }

    /// Its template.
    pub(crate) fn template(self) -> String {
        format!("{SCHEME}{}/{{{}}}", self.folder(), self.variable())
    }

    /// The tool that reads it, and the tool's argument that takes the id.
    const fn reader(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Schema | Self::Tools => None,
            Self::Pipes => Some(("get_pipe", "pipe_id")),
            Self::Cards => Some(("get_card", "card_id")),
        }
    }

    /// Whether this server can read it.
    pub(crate) fn is_offered(self, exposure: &Exposure) -> bool {
        self.reader().is_none_or(|(tool, _)| exposure.way_to(tool).is_some())
    }

    fn listing(self) -> ResourceTemplate {
        let (name, title, description, mime) = match self {
            Self::Schema => (
                "schema-type",
                "GraphQL type",
                "A type of Pipefy's GraphQL schema in SDL, for execute_graphql and extra_input. Names can be trusted; check \
                 what may be null with introspect_type.",
                GRAPHQL,
            ),
            Self::Tools => ("tool", "Tool", "One tool of this server: description, class and arguments.", JSON),
            Self::Pipes => ("pipe", "Pipe", "A pipe with its phases, fields and labels, as get_pipe reads it.", JSON),
            Self::Cards => ("card", "Card", "A card with its field values, as get_card reads it.", JSON),
        };
        ResourceTemplate::new(self.template(), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(mime)
    }
}

/// What an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address<'a> {
    /// The list of all of a kind; only types and tools have one.
    All(Kind),
    /// One of them.
    One(Kind, &'a str),
}

impl<'a> Address<'a> {
    fn parse(uri: &'a str) -> Option<Self> {
        let path = uri.strip_prefix(SCHEME)?;
        let (folder, name) = path.split_once('/').map_or((path, None), |(folder, name)| (folder, Some(name)));
        let kind = Kind::ALL.into_iter().find(|kind| kind.folder() == folder)?;
        match name {
            None => kind.reader().is_none().then_some(Self::All(kind)),
            Some(name) => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                (!name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(plain))
                    .then_some(Self::One(kind, name))
            }
        }
    }
}

/// What can be read without knowing an id.
pub(crate) fn list() -> Vec<Resource> {
    let all = |kind: Kind, name: &str, title: &str, description: &str| {
        Resource::new(format!("{SCHEME}{}", kind.folder()), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(MARKDOWN)
    };
    vec![
        all(
            Kind::Schema,
            "schema",
            "GraphQL types",
            "The names of all known types of Pipefy's GraphQL schema, by endpoint and kind. One of them: \
             pipefy://schema/{type}.",
        ),
        all(
            Kind::Tools,
            "tools",
            "Tools",
            "The tools of this server by domain, one line each. One of them: pipefy://tools/{name}.",
        ),
    ]
}

/// The templates that this server serves.
pub(crate) fn templates(exposure: &Exposure) -> Vec<ResourceTemplate> {
    Kind::ALL.into_iter().filter(|kind| kind.is_offered(exposure)).map(Kind::listing).collect()
}

/// What was read.
pub(crate) struct Read {
    /// Its content.
    pub(crate) contents: ResourceContents,
    /// Whether it stays the same while the server runs.
    pub(crate) fixed: bool,
}

/// Reads an address. `call` is the message that asked: name and arguments are set here.
///
/// # Errors
/// -32602: there is nothing at this address for this caller. -32603: it could not be read; the text says why. `data` holds
/// the address, and the tool's error code where there is one.
pub(crate) async fn read(
    runtime: &McpRuntime,
    exposure: &Exposure,
    uri: &str,
    call: Invocation<'_>,
) -> Result<Read, ErrorData> {
    let fixed = |mime: &str, text: String| Read {
        contents: ResourceContents::text(text, uri).with_mime_type(mime),
        fixed: true,
    };
    match Address::parse(uri).ok_or_else(|| unknown(uri))? {
        Address::All(Kind::Schema) => Ok(fixed(MARKDOWN, all_types())),
        Address::All(_) => Ok(fixed(MARKDOWN, all_tools(exposure))),
        Address::One(Kind::Schema, name) => Ok(fixed(GRAPHQL, one_type(name).ok_or_else(|| unknown(uri))?)),
        Address::One(Kind::Tools, name) => Ok(fixed(JSON, one_tool(exposure, name).ok_or_else(|| unknown(uri))?)),
        Address::One(kind, id) => {
            let (tool, argument) = kind.reader().ok_or_else(|| unknown(uri))?;
            let mut arguments = Map::new();
            arguments.insert(argument.to_owned(), id.into());
            if kind == Kind::Cards {
                arguments.insert("include_fields".to_owned(), true.into());
            }
            let reply = run(runtime, exposure, tool, arguments, call).await.ok_or_else(|| unknown(uri))?;
            match failure(&reply, uri) {
                Some(error) => Err(error),
                None => {
                    Ok(Read { contents: ResourceContents::text(reply.text(), uri).with_mime_type(JSON), fixed: false })
                }
            }
        }
    }
}

/// Runs a tool the way this server offers it; `None` when it does not.
pub(crate) async fn run(
    runtime: &McpRuntime,
    exposure: &Exposure,
    tool: &str,
    arguments: Map<String, Value>,
    call: Invocation<'_>,
) -> Option<CallReply> {
    let (name, arguments) = match exposure.way_to(tool)? {
        Way::Itself(tool) => (tool.name(), arguments),
        Way::Through(tool) => {
            let mut outer = Map::new();
            outer.insert("name".to_owned(), tool.name().into());
            outer.insert("arguments".to_owned(), arguments.into());
            (MetaTool::ExecuteTool.name(), outer)
        }
    };
    Some(dispatch(runtime, exposure, Invocation { name, arguments, ..call }).await)
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::invalid_params("Unknown resource", Some(json!({ "uri": uri })))
}

/// A failed call as a failed read.
fn failure(reply: &CallReply, uri: &str) -> Option<ErrorData> {
    if reply.is_error {
        return Some(ErrorData::internal_error(reply.text(), Some(json!({ "uri": uri }))));
    }
    if reply.success() != Some(false) {
        return None;
    }
    let value = reply.structured().unwrap_or_default();
    let error = value.get("error");
    let message = error.and_then(|error| error.get("message")).and_then(Value::as_str).unwrap_or("It cannot be read");
    let code = error.and_then(|error| error.get("code")).and_then(Value::as_str);
    let mut data = json!({ "uri": uri });
    if let (Some(data), Some(error)) = (data.as_object_mut(), error) {
        data.extend(["code", "details"].iter().filter_map(|key| Some(((*key).to_owned(), error.get(*key)?.clone()))));
    }
    let names_nothing = code.is_some_and(|code| NOT_FOUND_CODES.contains(&code) || OTHERS_OR_NONE.contains(&code));
    let kind = if names_nothing { ErrorCode::INVALID_PARAMS } else { ErrorCode::INTERNAL_ERROR };
    Some(ErrorData::new(kind, message.to_owned(), Some(data)))
}

fn all_types() -> String {
    let mut text =
        "# GraphQL types\n\nPipefy publishes no schema: this is what is known. Names can be trusted, scalar types and \
                    what may be null less so.\n"
            .to_owned();
    for endpoint in [EndpointKind::Public, EndpointKind::Interfaces, EndpointKind::Internal] {
        for kind in ["type", "interface", "union", "input", "enum", "scalar"] {
            let names: Vec<&str> = pipefy::sdl::types()
                .iter()
                .filter(|(_, texts)| texts.iter().any(|text| text.endpoint == endpoint && text.kind == kind))
                .map(|(name, _)| name.as_str())
                .collect();
            if !names.is_empty() {
                // Writing to memory cannot fail.
                let _infallible = write!(text, "\n## {endpoint}: {kind}\n\n{}\n", names.join(", "));
            }
        }
    }
    text
}

fn one_type(name: &str) -> Option<String> {
    let texts = pipefy::sdl::types().get(name)?;
    Some(texts.iter().map(|text| format!("# {}\n{}\n", text.endpoint, text.text.trim_end())).collect())
}

fn all_tools(exposure: &Exposure) -> String {
    let mut text = "# Tools\n".to_owned();
    for domain in Domain::ALL {
        let tools: Vec<&Tool> = catalogue()
            .tools()
            .iter()
            .filter(|tool| tool.op().domain == domain && exposure.way_to(tool.name()).is_some())
            .collect();
        if tools.is_empty() {
            continue;
        }
        let _infallible = write!(text, "\n## {}\n\n", domain.name());
        for tool in tools {
            let first = tool.description().split_inclusive(". ").next().unwrap_or_default().trim();
            let _infallible = writeln!(text, "- {} ({}): {first}", tool.name(), class(tool));
        }
    }
    text
}

fn one_tool(exposure: &Exposure, name: &str) -> Option<String> {
    let way = exposure.way_to(name)?;
    let tool = way.tool();
    let mut about = json!({
        "name": tool.name(),
        "domain": tool.op().domain.name(),
        "class": class(tool),
        "description": tool.description(),
        "inputSchema": tool.input_schema(),
    });
    if let (Some(about), Way::Through(_)) = (about.as_object_mut(), way) {
        about.insert("runWith".to_owned(), MetaTool::ExecuteTool.name().into());
    }
    Some(about.to_string())
}

fn class(tool: &Tool) -> &'static str {
    match tool.op().class {
        Class::Read => "reads",
        Class::Write => "writes",
        Class::Destructive => "destroys, after confirmation",
        Class::ByInput => "depends on its input",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::catalogue::Selection;

    #[test]
    fn addresses() {
        for (uri, wanted) in [
            ("pipefy://schema", Some(Address::All(Kind::Schema))),
            ("pipefy://tools", Some(Address::All(Kind::Tools))),
            ("pipefy://schema/Card", Some(Address::One(Kind::Schema, "Card"))),
            ("pipefy://tools/get_card", Some(Address::One(Kind::Tools, "get_card"))),
            ("pipefy://pipes/301", Some(Address::One(Kind::Pipes, "301"))),
            ("pipefy://cards/7", Some(Address::One(Kind::Cards, "7"))),
            ("pipefy://pipes", None),
            ("pipefy://pipes/", None),
            ("pipefy://pipes/1/2", None),
            ("pipefy://pipes/1?x=1", None),
            ("pipefy://pipes/..", None),
            ("pipefy://pipes/%31", None),
            ("pipefy://other/1", None),
            ("PIPEFY://pipes/1", None),
            ("https://pipes/1", None),
            ("", None),
        ] {
            assert_eq!(Address::parse(uri), wanted, "{uri}");
        }
        assert_eq!(Address::parse(&format!("pipefy://pipes/{}", "1".repeat(201))), None);
    }

    #[test]
    fn what_is_fixed_is_whole_and_within_the_default_budget() {
        let everything = Exposure::new(&Selection::parse(Some("all,bulk")).unwrap(), false, false);
        assert!(all_types().contains("CreateCardInput") && all_types().is_ascii());
        for (name, texts) in pipefy::sdl::types() {
            let text = one_type(name).unwrap();
            assert!(text.len() < 100_000 && text.lines().filter(|line| line.starts_with('#')).count() == texts.len());
        }
        let listed = all_tools(&everything);
        for tool in catalogue().tools() {
            assert!(listed.contains(&format!("- {} (", tool.name())), "{}", tool.name());
            let about: Value = serde_json::from_str(&one_tool(&everything, tool.name()).unwrap()).unwrap();
            assert_eq!(about["inputSchema"]["type"], "object");
            assert!(about.get("runWith").is_none());
        }
        assert!(listed.len() < 40_000 && all_types().len() < 40_000, "{} {}", listed.len(), all_types().len());
    }

    /// A tool that is not shown is not described either, and nothing is read through it.
    #[test]
    fn what_is_hidden_has_no_address() {
        let database = Exposure::new(&Selection::parse(Some("database")).unwrap(), false, false);
        assert!(one_tool(&database, "get_card").is_none() && !all_tools(&database).contains("get_card"));
        let offered: Vec<String> = templates(&database).iter().map(|t| t.uri_template.clone()).collect();
        assert_eq!(offered, ["pipefy://schema/{type}", "pipefy://tools/{name}"]);
        let power = Exposure::new(&Selection::Power, false, false);
        let about: Value = serde_json::from_str(&one_tool(&power, "get_card").unwrap()).unwrap();
        assert_eq!(about["runWith"], "execute_tool");
        assert_eq!(templates(&power).len(), 4);
    }
}
