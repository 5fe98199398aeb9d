//! The tools of this server: all capabilities, prepared once per process, and which of them are shown.
//!
//! `exposure`: what the server was started with. `narrowing`: what a request leaves of it. `meta`: the power profile's own
//! tools.

mod exposure;
pub(crate) mod meta;
mod narrowing;

use std::sync::LazyLock;

use pipefy_tools::Catalogue;

pub(crate) use exposure::ListForm;
pub use exposure::{Entry, Exposure, Selection, UnknownToolset, Way};
pub use meta::MetaTool;
pub(crate) use narrowing::Narrowed;
pub use narrowing::{BadNarrowing, EXCLUDE_TOOLS_HEADER, Narrowing, READ_ONLY_HEADER, TOOLS_HEADER, TOOLSETS_HEADER};

/// Every capability, in registration order. Static data: it knows no identity and no setting.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
    &CATALOGUE
}
