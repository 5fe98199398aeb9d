//! Ways in for the fuzz targets in `fuzz/`, which reach nothing private otherwise. No part of the API.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::paging::Cursors;
use crate::tools::agents::tokens;
use crate::tools::sheet;
use crate::{Catalogue, Tool, ToolError, Toolbox, arguments};

/// All tools.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
    &CATALOGUE
}

/// A toolbox that reaches nothing.
pub fn toolbox(unified_envelope: bool) -> Toolbox {
    Toolbox {
        surface: pipefy::Surface::Mcp,
        unified_envelope,
        enrichment_timeout: std::time::Duration::ZERO,
        base_url: "https://app.pipefy.com".to_owned(),
        default_webhook_name: "Pipefy Webhook".to_owned(),
        allow_insecure_urls: false,
        ipaas: None,
        local: None,
        selections: pipefy::Selections::default(),
        spent: Default::default(),
    }
}

/// Coerces the arguments of a tool.
///
/// # Errors
/// As for the tool's caller.
pub fn check(tool: &Tool, arguments: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
    arguments::check(tool.op(), tool.schema(), arguments).map(|(arguments, _)| arguments)
}

/// The cursors of the pages that are read when a service gives these, one after the other.
pub fn pages(ways: Vec<Option<String>>) -> Vec<Option<String>> {
    let mut cursors = Cursors::from(None);
    let mut read = vec![None];
    for next in ways {
        if !cursors.follow(next) {
            break;
        }
        read.push(cursors.now().map(str::to_owned));
    }
    read
}

/// A workbook or a CSV file as CSV, if it is one.
pub fn sheet(file: Bytes, limit: usize) -> Option<String> {
    sheet::read(file, limit).ok().map(|table| table.csv)
}

/// Everything that is done to the instructions of agents and automations.
pub fn instructions(text: &str) {
    let normal = tokens::normalise(text);
    let _references = (tokens::field_references(&normal), tokens::prompt_ids(text), tokens::prompt_tokens(text));
    let _replaced = tokens::replace_fields(text, |name| Some(name.to_owned()));
    let _filled = tokens::fill(text, None);
}
