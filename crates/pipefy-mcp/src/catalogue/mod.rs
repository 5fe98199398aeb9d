//! The tools of this server: all capabilities, prepared once per process, and which of them are shown.

mod exposure;
pub(crate) mod meta;

use std::sync::LazyLock;

use pipefy_tools::Catalogue;

pub use exposure::{Entry, Exposure, Selection, UnknownToolset};
pub use meta::MetaTool;

/// Every capability, in registration order. Static data: it knows no identity and no setting.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
    &CATALOGUE
}
