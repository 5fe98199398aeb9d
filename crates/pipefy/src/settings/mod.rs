//! Settings: found, checked and typed once, at start-up.
//!
//! ```text
//! Environment (a snapshot)  --+
//! Overrides (flags)         --+-->  load_cli / load_server  -->  typed groups + Report, or every problem at once
//! registry (names, rules)   --+
//! ```
//!
//! Per setting, the highest source that has a value wins: explicit, process environment, `.env` of the working
//! directory, `config.toml`, default. Within one source the first of a setting's names wins. Names are found in any
//! case. Flags replace before anything is checked, so a bad variable that a flag overrides does not matter.
//!
//! The [registry](REGISTRY) is the one place that knows names, defaults and rules; the page `docs/settings.md` is
//! printed from it. Values that break a rule are reported by name, place and rule, never by content. A name that is
//! almost a safety setting stops start-up.

mod dotenv;
mod environment;
mod error;
mod groups;
mod host_list;
mod layers;
mod loader;
mod near_miss;
mod operations;
mod page;
mod parse;
mod registry;
mod scope_flag;

pub use environment::Environment;
pub use error::{Problem, SettingsError, Source};
pub use groups::{
    AuthSettings, ClientAuth, ExchangeSettings, IpaasSettings, JwtValidationSettings, KeychainBackend, LogLevel,
    McpSettings, PipefySettings, PolicySettings, Profile, ResourceServerSettings, ScopePins, Transport,
};
pub use host_list::{HostList, is_loopback};
pub use layers::Overrides;
pub use loader::{Found, Report};
pub use operations::{AuditSink, OperationsSettings, TrustedProxies};
pub use page::settings_page;
pub use parse::switch_word;
pub use registry::*;
pub use scope_flag::{SCOPE_FLAG_USAGE, scope_flags};

use groups::Shared;
use loader::Loader;

/// What the CLI runs with.
#[derive(Clone, Debug)]
pub struct CliSettings {
    /// API host, defaults, limits.
    pub pipefy: PipefySettings,
    /// Outbound credentials.
    pub auth: AuthSettings,
    /// What calls may do.
    pub policy: PolicySettings,
    /// The iPaaS gateway.
    pub ipaas: IpaasSettings,
    /// Where the values came from, and warnings.
    pub report: Report,
}

/// What the MCP server runs with.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// API host, defaults, limits.
    pub pipefy: PipefySettings,
    /// Outbound credentials.
    pub auth: AuthSettings,
    /// What calls may do.
    pub policy: PolicySettings,
    /// The server itself.
    pub mcp: McpSettings,
    /// Limits, logs and the store of a server that many people use.
    pub operations: OperationsSettings,
    /// Validation of inbound bearers.
    pub jwt: JwtValidationSettings,
    /// The server's OAuth resource identity.
    pub resource_server: ResourceServerSettings,
    /// How to act on behalf of callers; none passes their bearers on.
    pub exchange: Option<ExchangeSettings>,
    /// The iPaaS gateway.
    pub ipaas: IpaasSettings,
    /// Where the values came from, and warnings.
    pub report: Report,
}

const CLI_GROUPS: &[Group] = &[Group::Pipefy, Group::Auth, Group::Policy, Group::Ipaas];

const SERVER_GROUPS: &[Group] = &[
    Group::Pipefy,
    Group::Auth,
    Group::Policy,
    Group::Mcp,
    Group::Jwt,
    Group::ResourceServer,
    Group::Exchange,
    Group::Ipaas,
];

/// Loads the groups of the CLI. No I/O.
///
/// # Errors
/// [`SettingsError`] with every problem; exit code 2.
pub fn load_cli(environment: &Environment, overrides: &Overrides) -> Result<CliSettings, SettingsError> {
    let mut from = Loader::new(environment, overrides);
    let shared = Shared::load(&mut from);
    let pipefy = PipefySettings::load(&mut from, &shared);
    let auth = AuthSettings::load(&mut from, &shared);
    let policy = PolicySettings::load(&mut from);
    let ipaas = IpaasSettings::load(&mut from, &shared);
    Ok(CliSettings { pipefy, auth, policy, ipaas, report: from.finish(CLI_GROUPS)? })
}

/// Loads every group. No I/O.
///
/// # Errors
/// [`SettingsError`] with every problem; exit code 2.
pub fn load_server(environment: &Environment, overrides: &Overrides) -> Result<ServerSettings, SettingsError> {
    let mut from = Loader::new(environment, overrides);
    let shared = Shared::load(&mut from);
    let pipefy = PipefySettings::load(&mut from, &shared);
    let auth = AuthSettings::load(&mut from, &shared);
    let policy = PolicySettings::load(&mut from);
    let mcp = McpSettings::load(&mut from);
    let operations = OperationsSettings::load(&mut from, &mcp);
    let jwt = JwtValidationSettings::load(&mut from);
    let resource_server = ResourceServerSettings::load(&mut from, &shared);
    let exchange = ExchangeSettings::load(&mut from, &shared);
    let ipaas = IpaasSettings::load(&mut from, &shared);
    let mut report = from.finish(SERVER_GROUPS)?;
    if mcp.profile == Profile::Remote && !jwt.verify_audience {
        report.warnings.push(
            "warning: bearers minted for any client of the issuer are accepted; set PIPEFY_JWT_VERIFY_AUDIENCE=true and \
             PIPEFY_JWT_AUDIENCE to accept only those meant for this server"
                .to_owned(),
        );
    }
    Ok(ServerSettings { pipefy, auth, policy, mcp, operations, jwt, resource_server, exchange, ipaas, report })
}

#[cfg(test)]
mod tests;
