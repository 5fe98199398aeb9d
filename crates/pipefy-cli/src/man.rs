//! `man`: manual pages, one per command, from the same tree that reads the command line.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::Shown;
use crate::run::Start;
use crate::{parse, values};

/// `man`
pub(crate) fn write<'a>(_: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let folder = args.get("folder").and_then(Value::as_str).unwrap_or_default();
        pages(&values::expand(folder))
            .map_err(|error| Failure::refused(format!("{folder} cannot be written: {error}")))?;
        Ok(Shown::default())
    })
}

fn pages(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(parse::tree(), folder)
}
