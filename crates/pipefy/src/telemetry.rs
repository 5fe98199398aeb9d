//! The headers that tell Pipefy which client is calling (`spec/config.md`, "Telemetry headers").
//!
//! Both labels are set by code when an engine is built; no variable, file or caller can change them.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Our version, as sent in `User-Agent` and `X-Client-Version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The release of the reference toolkit that this one can stand in for.
pub const COMPATIBLE_WITH: &str = "0.5.5b1";

/// Which program is calling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// A program that uses this library.
    Sdk,
    /// The command line.
    Cli,
    /// The MCP server.
    Mcp,
}

impl Surface {
    /// The label sent.
    pub fn label(self) -> &'static str {
        match self {
            Self::Sdk => "sdk",
            Self::Cli => "cli",
            Self::Mcp => "mcp",
        }
    }
}

/// Whether the MCP server runs for one person or for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// For the person at this machine.
    Local,
    /// For many people, over HTTP.
    Hosted,
}

impl Deployment {
    /// The label sent.
    pub fn label(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Hosted => "hosted",
        }
    }
}

/// The headers every GraphQL request of one engine carries.
pub(crate) fn headers(surface: Surface, deployment: Option<Deployment>) -> HeaderMap {
    let agent = match deployment {
        Some(deployment) => format!("pipefy-sdk/{VERSION} ({}; {})", surface.label(), deployment.label()),
        None => format!("pipefy-sdk/{VERSION} ({})", surface.label()),
    };
    let mut headers = HeaderMap::with_capacity(6);
    if let Ok(agent) = HeaderValue::try_from(agent) {
        headers.insert(http::header::USER_AGENT, agent);
    }
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(HeaderName::from_static("x-client-name"), HeaderValue::from_static(surface.label()));
    headers.insert(HeaderName::from_static("x-client-version"), HeaderValue::from_static(VERSION));
    if let Some(deployment) = deployment {
        headers.insert(HeaderName::from_static("x-client-deployment"), HeaderValue::from_static(deployment.label()));
    }
    headers
}
