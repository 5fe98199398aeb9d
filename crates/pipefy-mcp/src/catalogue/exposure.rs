//! Which tools this server shows: hosted floor, read-only mode, toolsets, and the power profile
//! (`spec/mcp-server.md` section 9). Filters only ever narrow.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use pipefy_tools::{Class, Domain, Op, Persona, Tool};
use rmcp::model::{JsonObject, MetaObject, ProtocolVersion, ToolAnnotations};
use serde_json::Value;

use super::meta::{MetaTool, description};
use super::narrowing::{Narrowing, may_read};

/// Names that stand for every tool.
const EVERYTHING: [&str; 2] = ["all", "default"];
/// Names that stand for the power profile: a few tools to find and run all others.
const POWER: [&str; 2] = ["architect", "power"];
/// The tools that stay visible in the power profile, and are not in its catalogue.
const RAW_GRAPHQL: [&str; 5] =
    ["execute_graphql", "introspect_mutation", "introspect_query", "introspect_type", "search_schema"];

/// A toolset specification names something that does not exist. The text names every unknown entry and lists all known
/// names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown toolset: {}; known toolsets: {}", .0.join(", "), known_names().join(", "))]
pub struct UnknownToolset(pub Vec<String>);

/// What a toolset specification asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Every tool but those of the extra domains ([`Domain::is_extra`]).
    #[default]
    Everything,
    /// The union of these domains and personas.
    Only {
        /// Whole domains.
        domains: BTreeSet<Domain>,
        /// Whole personas.
        personas: BTreeSet<Persona>,
    },
    /// Tools to find and run all others.
    Power,
}

impl Selection {
    /// Reads a comma list of toolset names; blanks and case do not matter, and no name at all is every tool.
    ///
    /// # Errors
    /// [`UnknownToolset`] with every unknown name, also beside a keyword.
    pub fn parse(specification: Option<&str>) -> Result<Self, UnknownToolset> {
        let names: Vec<String> = specification
            .unwrap_or_default()
            .split(',')
            .map(|name| name.trim().to_lowercase())
            .filter(|name| !name.is_empty())
            .collect();
        let known = known_names();
        let unknown: Vec<String> = names.iter().filter(|name| !known.contains(&name.as_str())).cloned().collect();
        if !unknown.is_empty() {
            return Err(UnknownToolset(unknown));
        }
        let any = |keywords: [&str; 2]| names.iter().any(|name| keywords.contains(&name.as_str()));
        if any(POWER) {
            return Ok(Self::Power);
        }
        let named = |name: &str| names.iter().any(|n| n == name);
        if names.is_empty() || any(EVERYTHING) {
            let more = Domain::ALL.into_iter().any(|domain| domain.is_extra() && named(domain.name()));
            return Ok(match more {
                true => Self::Only { domains: Domain::ALL.into(), personas: BTreeSet::new() },
                false => Self::Everything,
            });
        }
        Ok(Self::Only {
            domains: Domain::ALL.into_iter().filter(|d| named(d.name())).collect(),
            personas: Persona::ALL.into_iter().filter(|p| named(p.name())).collect(),
        })
    }

    /// Whether a server that was started with it has this operation.
    fn takes(&self, op: &Op) -> bool {
        *self == Self::Power || self.leaves(op) && (*self != Self::Everything || !op.domain.is_extra())
    }

    /// Whether a request that names it leaves this operation, where the server has it.
    pub(super) fn leaves(&self, op: &Op) -> bool {
        match self {
            Self::Everything | Self::Power => true,
            Self::Only { domains, personas } => {
                domains.contains(&op.domain) || op.personas.iter().any(|persona| personas.contains(persona))
            }
        }
    }
}

/// All toolset names, sorted.
pub(super) fn known_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = Domain::ALL.iter().map(|d| d.name()).collect();
    names.extend(Persona::ALL.iter().map(|p| p.name()));
    names.extend(EVERYTHING);
    names.extend(POWER);
    names.sort_unstable();
    names
}

/// Something that can be called.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A capability.
    Tool(&'static Tool),
    /// One of the power profile's own tools.
    Meta(MetaTool),
}

impl Entry {
    fn name(&self) -> &'static str {
        match self {
            Self::Tool(tool) => tool.name(),
            Self::Meta(meta) => meta.name(),
        }
    }
}

/// How a capability is run.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// By its own name.
    Itself(&'static Tool),
    /// By its name in a call of `execute_tool`.
    Through(&'static Tool),
}

impl Way {
    /// The capability.
    pub fn tool(self) -> &'static Tool {
        match self {
            Self::Itself(tool) | Self::Through(tool) => tool,
        }
    }
}

/// The tools one server shows, fixed at start-up; or what one request leaves of them.
#[derive(Debug)]
pub struct Exposure {
    listed: Arc<[rmcp::model::Tool]>,
    by_name: HashMap<&'static str, (usize, Entry)>,
    /// Whether the power profile's own tools find and run the others.
    power: bool,
    /// The power profile's catalogue, sorted by name; empty without it.
    hidden: Vec<&'static Tool>,
    withheld: usize,
    /// Tools are listed with the precise schemas of their results; whether these are of the unified envelope.
    schemas: Option<bool>,
    /// The list as JSON in each of its forms; written when first asked for.
    prepared: [OnceLock<Bytes>; 3],
}

/// How the list of tools looks in the revisions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// Before 2025-06-18: without output schemas and a tool's `_meta`.
    Older,
    /// With both.
    Newer,
    /// 2026-07-28: says also how long it is good for, and which server gave it.
    Alone,
}

impl ListForm {
    /// That of a revision.
    pub(crate) fn of(version: &ProtocolVersion) -> Self {
        match version.as_str() {
            version if version >= ProtocolVersion::NO_INITIALIZE.as_str() => Self::Alone,
            version if version >= ProtocolVersion::V_2025_06_18.as_str() => Self::Newer,
            _ => Self::Older,
        }
    }
}

impl Exposure {
    /// Applies the filters to the whole catalogue. `hosted` withholds what reads this machine; `read_only` withholds
    /// whatever always changes something.
    pub fn new(selection: &Selection, hosted: bool, read_only: bool) -> Self {
        let everything = super::catalogue().tools();
        let floor = |tool: &&Tool| {
            let op = tool.op();
            (op.remote || !hosted) && (!read_only || may_read(op))
        };
        let allowed: Vec<&'static Tool> = everything.iter().filter(floor).collect();
        let withheld = everything.len() - allowed.len();
        let power = *selection == Selection::Power;
        let selected = allowed.into_iter().filter(|tool| selection.takes(tool.op()));
        let meta = power.then_some(MetaTool::ALL.as_slice());
        Self::of(selected.collect(), meta, withheld, None, |tool| listing(tool, None))
    }

    /// Lists each tool with the precise schema of its result. `unified`: in the unified envelope.
    #[must_use]
    pub fn with_output_schemas(self, unified: bool) -> Self {
        let precise = |listed: &rmcp::model::Tool| match self.by_name.get(&*listed.name) {
            Some((_, Entry::Tool(tool))) => listing(tool, Some(unified)),
            _ => listed.clone(),
        };
        Self { listed: self.listed.iter().map(precise).collect(), schemas: Some(unified), ..self }
    }

    /// What one request leaves. Never more than there was: the power profile's own tools only reach what was there.
    pub(crate) fn narrowed(&self, narrowing: &Narrowing) -> Self {
        let shown = super::catalogue().tools().iter().filter(|tool| {
            self.by_name.contains_key(tool.name())
                || self.hidden.binary_search_by_key(&tool.name(), |hidden| hidden.name()).is_ok()
        });
        let kept = shown.filter(|tool| narrowing.keeps(tool.op())).collect();
        let meta: Vec<MetaTool> = MetaTool::ALL.into_iter().filter(|meta| narrowing.keeps_meta(*meta)).collect();
        let meta = (self.power || narrowing.power()).then_some(meta.as_slice());
        // What was listed already is shared, not made again.
        let known =
            |tool: &'static Tool| self.listing(tool.name()).cloned().unwrap_or_else(|| listing(tool, self.schemas));
        Self::of(kept, meta, self.withheld, self.schemas, known)
    }

    /// With `meta`, even when that is none, everything but raw GraphQL is behind it.
    fn of(
        tools: Vec<&'static Tool>,
        meta: Option<&[MetaTool]>,
        withheld: usize,
        schemas: Option<bool>,
        listing: impl Fn(&'static Tool) -> rmcp::model::Tool,
    ) -> Self {
        let power = meta.is_some();
        let (visible, mut hidden): (Vec<&'static Tool>, Vec<&'static Tool>) =
            tools.into_iter().partition(|tool| !power || RAW_GRAPHQL.contains(&tool.name()));
        hidden.sort_by_key(|tool| tool.name());
        let mut entries: Vec<(Entry, rmcp::model::Tool)> =
            visible.into_iter().map(|tool| (Entry::Tool(tool), listing(tool))).collect();
        entries.extend(meta.unwrap_or_default().iter().map(|meta| (Entry::Meta(*meta), meta_listing(*meta))));
        let by_name = entries.iter().enumerate().map(|(index, (entry, _))| (entry.name(), (index, *entry))).collect();
        Self {
            listed: entries.into_iter().map(|(_, listed)| listed).collect(),
            by_name,
            power,
            hidden,
            withheld,
            schemas,
            prepared: Default::default(),
        }
    }

    /// What `tools/list` gives, in registration order.
    pub fn listed(&self) -> &Arc<[rmcp::model::Tool]> {
        &self.listed
    }

    /// What a call of `name` reaches; `None` for a tool that this server does not have or does not show.
    pub fn get(&self, name: &str) -> Option<Entry> {
        self.by_name.get(name).map(|(_, entry)| *entry)
    }

    /// Everything that can be called by name.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Entry)> + '_ {
        self.by_name.iter().map(|(name, (_, entry))| (*name, *entry))
    }

    /// The listing of one tool.
    pub fn listing(&self, name: &str) -> Option<&rmcp::model::Tool> {
        self.by_name.get(name).and_then(|(index, _)| self.listed.get(*index))
    }

    /// How a capability can be run here; `None` when it cannot.
    pub fn way_to(&self, name: &str) -> Option<Way> {
        if let Some(Entry::Tool(tool)) = self.get(name) {
            return Some(Way::Itself(tool));
        }
        self.get(MetaTool::ExecuteTool.name())?;
        let place = self.hidden.binary_search_by_key(&name, |tool| tool.name()).ok()?;
        self.hidden.get(place).copied().map(Way::Through)
    }

    /// The tools that the power profile finds and runs, sorted by name.
    pub fn hidden(&self) -> &[&'static Tool] {
        &self.hidden
    }

    /// Keeps the list as JSON in this form.
    pub(crate) fn prepared(&self, form: ListForm) -> &OnceLock<Bytes> {
        let [older, newer, alone] = &self.prepared;
        match form {
            ListForm::Older => older,
            ListForm::Newer => newer,
            ListForm::Alone => alone,
        }
    }

    /// How many tools the hosted floor and read-only mode withhold.
    pub fn withheld(&self) -> usize {
        self.withheld
    }
}

/// How a tool is listed; with `precise`, with the schema of its result in the unified envelope or without it.
fn listing(tool: &'static Tool, precise: Option<bool>) -> rmcp::model::Tool {
    let op = tool.op();
    let mut listed =
        rmcp::model::Tool::new(op.name, tool.description(), object(tool.input_schema())).annotate(annotations(op));
    let schema = match precise {
        Some(unified) => Some(tool.result_schema(unified)),
        None => tool.output_schema(),
    };
    if let Some(schema) = schema {
        listed = listed.with_raw_output_schema(object(schema).into());
    }
    if op.remote {
        let mut meta = MetaObject::default();
        meta.0.insert("remote".to_owned(), true.into());
        listed = listed.with_meta(meta);
    }
    listed
}

fn meta_listing(meta: MetaTool) -> rmcp::model::Tool {
    rmcp::model::Tool::new(meta.name(), description(meta), object(meta.input_schema()))
        .annotate(ToolAnnotations::new().read_only(meta != MetaTool::ExecuteTool))
}

/// The hints that follow from an operation.
fn annotations(op: &Op) -> ToolAnnotations {
    let mut hints = ToolAnnotations::new().read_only(op.class == Class::Read && !op.saves);
    match op.class {
        Class::Read | Class::Write => hints = hints.destructive(false),
        Class::Destructive => hints = hints.destructive(true),
        // Raw GraphQL and e-mail carry no hint: their input decides. What runs tools of other systems may destroy there.
        Class::ByInput if op.open_world => hints = hints.destructive(true),
        Class::ByInput => {}
    }
    if op.idempotent {
        hints = hints.idempotent(true);
    }
    if op.open_world {
        hints = hints.open_world(true);
    }
    hints
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(map) => map,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn contract(file: &str) -> Value {
        let path = format!("{}/../../contract/{file}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn names(exposure: &Exposure) -> Vec<String> {
        exposure.listed().iter().map(|tool| tool.name.to_string()).collect()
    }

    #[test]
    fn names_are_trimmed_lower_cased_and_all_checked() {
        for everything in [None, Some(""), Some(" , ,"), Some("all"), Some("DEFAULT"), Some("all,workflow")] {
            assert_eq!(Selection::parse(everything), Ok(Selection::Everything), "{everything:?}");
        }
        for power in ["power", "architect", "workflow,power", "default, Power "] {
            assert_eq!(Selection::parse(Some(power)), Ok(Selection::Power), "{power}");
        }
        let both = Selection::parse(Some(" Workflow ,operator")).unwrap();
        assert_eq!(both, Selection::Only { domains: [Domain::Workflow].into(), personas: [Persona::Operator].into() });
        let error = Selection::parse(Some("power,typo,workflow,Oops")).unwrap_err();
        assert_eq!(error, UnknownToolset(vec!["typo".to_owned(), "oops".to_owned()]));
        let text = error.to_string();
        assert!(text.contains("unknown toolset: typo, oops"), "{text}");
        let known: Vec<String> =
            serde_json::from_value(contract("toolsets.json")["known_names_sorted"].clone()).unwrap();
        let ours: Vec<&str> = text.rsplit_once(": ").unwrap().1.split(", ").collect();
        let more: Vec<&str> = ours.iter().copied().filter(|name| !known.iter().any(|known| known == name)).collect();
        assert!(ours.is_sorted() && ours.len() == known.len() + more.len(), "{text}");
        assert_eq!(more, ["bulk"]);
    }

    /// Tools of our own come on top of what the contract counts; meta-tools are counted by it.
    fn in_contract(tool: &str) -> bool {
        let listed = |file: &str| contract(file).as_array().unwrap().iter().any(|known| known["name"] == tool);
        listed("tools.json") || listed("meta_tools.json")
    }

    /// For every tool that exists, each selection shows it exactly where the contract does; counts follow.
    #[test]
    fn selections_match_the_contract() {
        let toolsets = contract("toolsets.json");
        let tools = contract("tools.json");
        let built: BTreeSet<&str> = super::super::catalogue().tools().iter().map(|tool| tool.name()).collect();
        let withheld: Vec<&str> =
            toolsets["remote_withheld"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
        for hosted in [false, true] {
            for name in known_names() {
                if POWER.contains(&name) {
                    continue;
                }
                let wanted: BTreeSet<String> = tools
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|tool| {
                        EVERYTHING.contains(&name)
                            || tool["domain"] == name
                            || tool["personas"].as_array().unwrap().iter().any(|p| p == name)
                    })
                    .map(|tool| tool["name"].as_str().unwrap())
                    .filter(|tool| built.contains(tool) && !(hosted && withheld.contains(tool)))
                    .map(str::to_owned)
                    .collect();
                let shown = Exposure::new(&Selection::parse(Some(name)).unwrap(), hosted, false);
                let shown: BTreeSet<String> = names(&shown).into_iter().filter(|tool| in_contract(tool)).collect();
                assert_eq!(shown, wanted, "{name}, hosted: {hosted}");
            }
        }
    }

    /// Section 21, once the whole catalogue is there.
    #[test]
    fn the_counts_are_those_of_the_contract() {
        let toolsets = contract("toolsets.json");
        let all = contract("tools.json").as_array().unwrap().len();
        if super::super::catalogue().tools().len() < all {
            return;
        }
        for (profile, hosted) in [("local", false), ("remote", true)] {
            for (name, count) in toolsets["counts"][profile].as_object().unwrap() {
                let name = if name == "(unset)" { "" } else { name };
                let shown = Exposure::new(&Selection::parse(Some(name)).unwrap(), hosted, false);
                let shown = names(&shown).iter().filter(|tool| in_contract(tool)).count() as u64;
                assert_eq!(shown, count.as_u64().unwrap(), "{profile} {name}");
            }
        }
    }

    #[test]
    fn the_hints_of_the_contract_are_among_ours() {
        let everything = Exposure::new(&Selection::Everything, false, false);
        for wanted in contract("tools.json").as_array().unwrap() {
            let Some(ours) = everything.listing(wanted["name"].as_str().unwrap()) else { continue };
            let shown = serde_json::to_value(ours).unwrap();
            for (hint, value) in wanted["annotations"].as_object().unwrap() {
                assert_eq!(shown["annotations"].get(hint), Some(value), "{} {hint}", ours.name);
            }
            assert_eq!(shown.get("_meta").is_some(), wanted["remote"].as_bool().unwrap(), "{}", ours.name);
            assert_eq!(
                shown.get("outputSchema").is_some(),
                wanted["output_schema"].is_object(),
                "{}: output schema",
                ours.name
            );
            for absent in ["title", "icons"] {
                assert!(shown.get(absent).is_none(), "{} {absent}", ours.name);
            }
        }
    }

    /// With the setting, every tool is listed with what `describe_tool` gives as the schema of its result, after narrowing too.
    #[test]
    fn precise_output_schemas_are_listed_on_request() {
        use http::{HeaderMap, HeaderValue};
        for unified in [true, false] {
            let selection = Selection::parse(Some("all,bulk")).unwrap();
            let precise = Exposure::new(&selection, false, false).with_output_schemas(unified);
            for tool in super::super::catalogue().tools() {
                let listed = serde_json::to_value(precise.listing(tool.name()).unwrap()).unwrap();
                assert_eq!(listed["outputSchema"], tool.result_schema(unified), "{}", tool.name());
                assert_eq!(listed["outputSchema"]["type"], "object");
            }
        }
        let power = Exposure::new(&Selection::Power, false, false).with_output_schemas(true);
        let mut headers = HeaderMap::new();
        headers.insert("x-mcp-toolsets", HeaderValue::from_static("power"));
        let narrowed = power.narrowed(&Narrowing::of(&headers).unwrap());
        let graphql = narrowed.listing("execute_graphql").unwrap();
        assert!(graphql.output_schema.as_ref().is_some_and(|schema| schema.contains_key("anyOf")));
        assert!(narrowed.listing("search_tools").unwrap().output_schema.is_none());
    }

    /// Every client pays for what is listed by default.
    #[test]
    fn an_extra_toolset_is_there_when_it_is_named() {
        let has = |specification: &str| {
            let exposure = Exposure::new(&Selection::parse(Some(specification)).unwrap(), false, false);
            (exposure.get("bulk_import_cards").is_some(), exposure.get("get_card").is_some(), exposure.listed().len())
        };
        let all = super::super::catalogue().tools().len();
        assert_eq!(has(""), (false, true, all - 4));
        assert_eq!(has("all"), (false, true, all - 4));
        assert_eq!(has("default, bulk"), (true, true, all));
        assert_eq!(has("bulk"), (true, false, 4));
        let power = Exposure::new(&Selection::Power, false, false);
        assert!(power.way_to("bulk_import_cards").is_some());
        // What writes files is not called read-only, though Pipefy's data stay.
        let bulk = Exposure::new(&Selection::parse(Some("bulk")).unwrap(), false, true);
        let hints = bulk.listing("bulk_export_cards").unwrap().annotations.clone().unwrap();
        assert_eq!(hints.read_only_hint, Some(false));
        assert!(bulk.get("bulk_import_cards").is_none());
    }

    #[test]
    fn read_only_hides_what_always_changes_something() {
        let exposure = Exposure::new(&Selection::parse(Some("all,bulk")).unwrap(), false, true);
        for tool in super::super::catalogue().tools() {
            let shown = exposure.get(tool.name()).is_some();
            assert_eq!(shown, matches!(tool.op().class, Class::Read | Class::ByInput), "{}", tool.name());
        }
        let power = Exposure::new(&Selection::Power, false, true);
        assert!(power.hidden().iter().all(|tool| matches!(tool.op().class, Class::Read | Class::ByInput)));
    }

    #[test]
    fn the_power_profile_shows_meta_tools_after_raw_graphql_and_hides_the_rest() {
        let exposure = Exposure::new(&Selection::Power, false, false);
        let shown = names(&exposure);
        let meta: Vec<String> = MetaTool::ALL.iter().map(|m| m.name().to_owned()).collect();
        assert!(shown.ends_with(&meta));
        assert!(shown[..shown.len() - 4].iter().all(|name| RAW_GRAPHQL.contains(&name.as_str())));
        assert!(exposure.get("get_card").is_none());
        let all = super::super::catalogue().tools().len();
        assert_eq!(exposure.hidden().len() + shown.len() - 4, all);
        for wanted in contract("meta_tools.json").as_array().unwrap() {
            let ours = exposure.listing(wanted["name"].as_str().unwrap()).unwrap();
            let shown = serde_json::to_value(ours).unwrap();
            assert_eq!(shown["annotations"], wanted["annotations"], "{}", ours.name);
            assert_eq!(shown["inputSchema"]["required"], wanted["input_schema"]["required"], "{}", ours.name);
            assert!(shown.get("_meta").is_none() && shown.get("outputSchema").is_none());
        }
    }
}
