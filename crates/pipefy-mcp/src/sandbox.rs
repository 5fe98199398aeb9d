//! `--sandbox`: an embedded Pipefy instead of a real one, for this process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pipefy::settings::{self, Overrides, Profile, ServerSettings};
use pipefy_sandbox::{Attached, DEFAULT_TOKEN, Data, SandboxError, SandboxOptions, attach_or_start, default_data_path};

use crate::argv::SandboxData;

/// Any loopback address, to check settings with before the sandbox runs.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Serves the sandbox, or attaches to the process that already serves the same data.
///
/// # Errors
/// The data file is unusable, or no port can be had.
pub async fn start(data: &SandboxData) -> Result<Attached, SandboxError> {
    let data = match data {
        SandboxData::Memory => Data::Memory,
        SandboxData::File(path) => Data::File(path.clone()),
        SandboxData::Default => default_data_path().map_or(Data::Memory, Data::File),
    };
    attach_or_start(SandboxOptions { data, ..SandboxOptions::default() }).await
}

/// Points every setting that could reach a real service at the sandbox: it wins over every address and credential, and no
/// keychain is read. `None`: to check the other settings before the sandbox runs.
#[must_use]
pub fn overrides(overrides: Overrides, sandbox: Option<&Attached>) -> Overrides {
    let url = sandbox.map_or(NOWHERE, Attached::url);
    let issuer = sandbox.map_or_else(|| format!("{NOWHERE}/issuer"), Attached::issuer_url);
    let flag = "--sandbox";
    overrides
        .with(&settings::BASE_URL, flag, url)
        .with(&settings::AUTH_URL, flag, issuer.as_str())
        .with(&settings::JWT_ISSUER_URL, flag, issuer.as_str())
        .with(&settings::JWT_JWKS_URI, flag, format!("{issuer}/protocol/openid-connect/certs"))
        .with(&settings::EXCHANGE_TOKEN_URL, flag, format!("{issuer}/protocol/openid-connect/token"))
        .with(&settings::IPAAS_URL, flag, url)
        .with(&settings::ALLOW_INSECURE_URLS, flag, "true")
        .with(&settings::STATIC_TOKEN, flag, DEFAULT_TOKEN)
        .with(&settings::DISABLE_STORED_SESSION, flag, "true")
}

/// The public URL of a hosted server on this machine, when nobody has set one: where it will listen. Port 0 stands for the
/// port it will get.
#[must_use]
pub fn resource_url(settings: &ServerSettings) -> Option<String> {
    if settings.mcp.profile != Profile::Remote || settings.resource_server.resource_server_url.is_some() {
        return None;
    }
    let host = match settings.mcp.bind_host().parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => format!("[{}]", Ipv6Addr::LOCALHOST),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => settings.mcp.bind_host().to_owned(),
    };
    Some(format!("http://{host}:{}/mcp", settings.mcp.port))
}
