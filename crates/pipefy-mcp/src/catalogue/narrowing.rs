//! What one request asks to be left out: the headers `X-MCP-Toolsets`, `X-MCP-Tools`, `X-MCP-Exclude-Tools` and
//! `X-MCP-Readonly`. They narrow what the server was started with and never widen it. One that is not understood refuses
//! the request: a misspelt restriction must not be taken for none.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName};
use pipefy::settings::switch_word;
use pipefy_tools::{Class, Op};

use super::exposure::{Exposure, Selection, known_names};
use super::meta::MetaTool;

/// Toolsets, as in `--toolsets`.
pub const TOOLSETS_HEADER: &str = "x-mcp-toolsets";
/// Single tools by name.
pub const TOOLS_HEADER: &str = "x-mcp-tools";
/// Tools to leave out, by name; wins over the other two.
pub const EXCLUDE_TOOLS_HEADER: &str = "x-mcp-exclude-tools";
/// `true`: no write at all.
pub const READ_ONLY_HEADER: &str = "x-mcp-readonly";

/// What their names have in common: nearly every request has none of them.
const PREFIX: &str = "x-mcp-";

/// Selections that are kept ready; the longest unused one goes first.
const KEPT: usize = 32;

/// A narrowing header that is not understood. Its text names what is known and never repeats what was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNarrowing {
    /// Names a toolset that does not exist.
    #[error("Invalid X-MCP-Toolsets header: it names an unknown toolset; known toolsets: {}", known_names().join(", "))]
    Toolsets,
    /// Names a tool that does not exist.
    #[error("Invalid {header} header: entry {entry} is an unknown tool; known tools: {}", known_tools().join(", "))]
    Tools {
        /// Which header.
        header: &'static str,
        /// Which of its names, from 1.
        entry: usize,
    },
    /// There, but without a name.
    #[error("Invalid {0} header: it names nothing; leave it out or name at least one")]
    Empty(&'static str),
    /// Neither on nor off.
    #[error("Invalid X-MCP-Readonly header: must be true or false (also 1/0, yes/no, y/n, t/f, on/off)")]
    ReadOnly,
}

/// What one request asks to be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Only these toolsets; with `tools`, both together.
    toolsets: Option<Selection>,
    /// Only these tools.
    tools: Option<BTreeSet<String>>,
    /// None of these.
    excluded: BTreeSet<String>,
    /// No write at all.
    read_only: bool,
}

impl Narrowing {
    /// Reads the headers of a request; without any of them nothing is narrowed.
    ///
    /// # Errors
    /// [`BadNarrowing`] for the first header that is not understood.
    pub fn of(headers: &HeaderMap) -> Result<Self, BadNarrowing> {
        if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(Self::default());
        }
        let toolsets = match text(headers, TOOLSETS_HEADER) {
            None => None,
            Some(text) if names(&text).is_empty() => return Err(BadNarrowing::Empty("X-MCP-Toolsets")),
            Some(text) => Some(Selection::parse(Some(&text)).map_err(|_| BadNarrowing::Toolsets)?),
        };
        Ok(Self {
            toolsets,
            tools: tools(headers, TOOLS_HEADER, "X-MCP-Tools")?,
            excluded: tools(headers, EXCLUDE_TOOLS_HEADER, "X-MCP-Exclude-Tools")?.unwrap_or_default(),
            read_only: read_only(headers)?,
        })
    }

    /// Whether nothing is narrowed.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no write at all is wanted.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the tools shall be found and run by the power profile's own.
    pub(super) fn power(&self) -> bool {
        self.toolsets == Some(Selection::Power)
    }

    /// Whether a capability stays.
    pub(super) fn keeps(&self, op: &Op) -> bool {
        let selected = match (&self.toolsets, &self.tools) {
            (None, None) => true,
            (toolsets, tools) => {
                toolsets.as_ref().is_some_and(|toolsets| toolsets.leaves(op))
                    || tools.as_ref().is_some_and(|tools| tools.contains(op.name))
            }
        };
        selected && !self.excluded.contains(op.name) && (!self.read_only || may_read(op))
    }

    /// Whether one of the power profile's own tools stays: they are the way to the others, so only naming them drops them.
    pub(super) fn keeps_meta(&self, meta: MetaTool) -> bool {
        !self.excluded.contains(meta.name())
    }
}

/// Whether a call of this operation can be free of writes.
pub(super) fn may_read(op: &Op) -> bool {
    matches!(op.class, Class::Read | Class::ByInput)
}

/// All values of a header, as one list; a value that is no text is a name that nothing has.
fn text(headers: &HeaderMap, name: &'static str) -> Option<String> {
    let values: Vec<&str> = headers
        .get_all(HeaderName::from_static(name))
        .iter()
        .map(|value| value.to_str().unwrap_or("(not ASCII)"))
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect()
}

fn tools(
    headers: &HeaderMap,
    name: &'static str,
    shown: &'static str,
) -> Result<Option<BTreeSet<String>>, BadNarrowing> {
    let Some(text) = text(headers, name) else { return Ok(None) };
    let names = names(&text);
    if names.is_empty() {
        return Err(BadNarrowing::Empty(shown));
    }
    let known = |name: &String| {
        super::catalogue().get(name).is_some() || MetaTool::ALL.iter().any(|meta| meta.name() == name.as_str())
    };
    match names.iter().position(|name| !known(name)) {
        None => Ok(Some(names.into_iter().collect())),
        Some(index) => Err(BadNarrowing::Tools { header: shown, entry: index + 1 }),
    }
}

fn read_only(headers: &HeaderMap) -> Result<bool, BadNarrowing> {
    let mut on = false;
    for value in headers.get_all(HeaderName::from_static(READ_ONLY_HEADER)) {
        let word = value.to_str().ok().and_then(switch_word);
        on |= word.ok_or(BadNarrowing::ReadOnly)?;
    }
    Ok(on)
}

/// Names that may stand in a header, sorted.
fn known_tools() -> Vec<&'static str> {
    let mut names: Vec<&str> = super::catalogue().tools().iter().map(|tool| tool.name()).collect();
    names.extend(MetaTool::ALL.iter().map(|meta| meta.name()));
    names.sort_unstable();
    names
}

/// The selections that requests have asked for lately, ready to be listed. Bounded, so that no caller can fill it up.
#[derive(Debug, Default)]
pub(crate) struct Narrowed(Mutex<VecDeque<(Narrowing, Arc<Exposure>)>>);

impl Narrowed {
    /// What is left of `whole`.
    pub(crate) fn of(&self, whole: &Exposure, narrowing: Narrowing) -> Arc<Exposure> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = kept.iter().position(|(known, _)| *known == narrowing)
            && let Some(found) = kept.remove(place)
        {
            let exposure = found.1.clone();
            kept.push_front(found);
            return exposure;
        }
        let exposure = Arc::new(whole.narrowed(&narrowing));
        kept.truncate(KEPT - 1);
        kept.push_front((narrowing, exposure.clone()));
        exposure
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::catalogue::Entry;
    use pipefy_tools::Domain;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn tools_of(domain: Domain) -> usize {
        super::super::catalogue().tools().iter().filter(|tool| tool.op().domain == domain).count()
    }

    fn reachable(exposure: &Exposure) -> BTreeSet<String> {
        let shown = exposure.listed().iter().map(|tool| tool.name.to_string());
        shown.chain(exposure.hidden().iter().map(|tool| tool.name().to_owned())).collect()
    }

    fn narrowed(whole: &Exposure, pairs: &[(&'static str, &str)]) -> Exposure {
        whole.narrowed(&Narrowing::of(&headers(pairs)).unwrap())
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is_known() {
        for value in ["maybe", "", "2", "truee", "read-only", "\u{e9}"] {
            let mut headers = HeaderMap::new();
            headers.append(READ_ONLY_HEADER, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert_eq!(Narrowing::of(&headers), Err(BadNarrowing::ReadOnly), "{value}");
        }
        for (header, value, part) in [
            (TOOLSETS_HEADER, "workflow,typo", "an unknown toolset; known toolsets: admin,"),
            (
                TOOLS_HEADER,
                "get_card, gett_card",
                "X-MCP-Tools header: entry 2 is an unknown tool; known tools: add_card_comment,",
            ),
            (EXCLUDE_TOOLS_HEADER, "delet_card", "X-MCP-Exclude-Tools header: entry 1 is an unknown tool"),
            (TOOLSETS_HEADER, " , ", "names nothing"),
            (TOOLS_HEADER, "", "names nothing"),
            (EXCLUDE_TOOLS_HEADER, "", "names nothing"),
        ] {
            let error = Narrowing::of(&headers(&[(header, value)])).unwrap_err().to_string();
            assert!(error.contains(part), "{header}: {value}: {error}");
        }
        let both = headers(&[(READ_ONLY_HEADER, "false"), (READ_ONLY_HEADER, "TRUE")]);
        assert!(Narrowing::of(&both).unwrap().read_only());
    }

    #[test]
    fn nothing_ever_widens() {
        let requests: [&[(&'static str, &str)]; 9] = [
            &[(TOOLSETS_HEADER, "all")],
            &[(TOOLSETS_HEADER, "power")],
            &[(TOOLSETS_HEADER, "workflow,admin")],
            &[(TOOLS_HEADER, "delete_card,get_card,create_llm_provider,execute_tool")],
            &[(TOOLSETS_HEADER, "database"), (TOOLS_HEADER, "get_card")],
            &[(EXCLUDE_TOOLS_HEADER, "get_card,execute_graphql,execute_tool")],
            &[(READ_ONLY_HEADER, "false")],
            &[(READ_ONLY_HEADER, "true"), (TOOLS_HEADER, "delete_card")],
            &[(TOOLSETS_HEADER, "power"), (EXCLUDE_TOOLS_HEADER, "get_pipe")],
        ];
        let meta: BTreeSet<String> = MetaTool::ALL.iter().map(|meta| meta.name().to_owned()).collect();
        for started in ["all", "workflow", "power", "auditor"] {
            for (hosted, read_only) in [(false, false), (true, false), (true, true)] {
                let whole = Exposure::new(&Selection::parse(Some(started)).unwrap(), hosted, read_only);
                let allowed: BTreeSet<String> = reachable(&whole).union(&meta).cloned().collect();
                for request in requests {
                    let left = narrowed(&whole, request);
                    assert!(reachable(&left).is_subset(&allowed), "{started} {request:?}");
                    for (name, entry) in left.entries() {
                        let Entry::Tool(tool) = entry else { continue };
                        assert_eq!(tool.name(), name);
                        assert!(whole.get(name).is_some() || whole.hidden().iter().any(|t| t.name() == name));
                    }
                }
            }
        }
    }

    #[test]
    fn toolsets_and_tools_add_up_and_exclusion_wins() {
        let whole = Exposure::new(&Selection::Everything, false, false);
        let left = narrowed(
            &whole,
            &[(TOOLSETS_HEADER, "database"), (TOOLS_HEADER, "Get_Card"), (EXCLUDE_TOOLS_HEADER, "get_table")],
        );
        assert!(left.get("get_card").is_some() && left.get("find_records").is_some());
        assert!(left.get("get_table").is_none() && left.get("get_pipe").is_none());
        // One more, and one less.
        assert_eq!(left.listed().len(), tools_of(Domain::Database));
        let reads = narrowed(&whole, &[(READ_ONLY_HEADER, "on"), (TOOLS_HEADER, "get_card,delete_card")]);
        assert_eq!(reachable(&reads), BTreeSet::from(["get_card".to_owned()]));
    }

    #[test]
    fn the_power_profile_is_narrowed_behind_its_own_tools() {
        let power = Exposure::new(&Selection::Power, false, false);
        let left = narrowed(&power, &[(TOOLSETS_HEADER, "workflow")]);
        let shown: Vec<&str> = left.listed().iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(shown, ["get_tool_categories", "search_tools", "describe_tool", "execute_tool"]);
        assert_eq!(left.hidden().len(), tools_of(Domain::Workflow));
        // A server that shows everything is looked at through them when a request asks for it.
        let whole = Exposure::new(&Selection::parse(Some("workflow")).unwrap(), false, false);
        let looked_at = narrowed(&whole, &[(TOOLSETS_HEADER, "power"), (EXCLUDE_TOOLS_HEADER, "describe_tool")]);
        assert_eq!(looked_at.listed().len(), 3);
        assert_eq!(looked_at.hidden().len(), tools_of(Domain::Workflow));
        assert!(looked_at.get("get_card").is_none());
    }

    #[test]
    fn selections_are_kept_and_bounded() {
        let whole = Exposure::new(&Selection::Everything, false, false);
        let kept = Narrowed::default();
        let only = |name: &str| Narrowing::of(&headers(&[(TOOLS_HEADER, name)])).unwrap();
        let first = kept.of(&whole, only("get_card"));
        assert!(Arc::ptr_eq(&first, &kept.of(&whole, only("GET_CARD"))));
        for tool in super::super::catalogue().tools().iter().filter(|t| t.name() != "get_card").take(2 * KEPT) {
            kept.of(&whole, only(tool.name()));
        }
        assert_eq!(kept.0.lock().unwrap().len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &kept.of(&whole, only("get_card"))));
    }
}
