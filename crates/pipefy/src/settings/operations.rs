//! How a server that many people use is limited, watched and stopped.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::groups::McpSettings;
use super::loader::Loader;
use super::parse::{self, Rule};
use super::registry as names;

/// Where audit lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditSink {
    /// Appended to a file, which is made when it is not there.
    File(PathBuf),
    /// Standard error, among the other lines.
    Stderr,
}

/// Limits, logs and the shared store of the server. The limits may change while it runs (SIGHUP); the rest is fixed at
/// start-up.
#[derive(Clone, Debug)]
pub struct OperationsSettings {
    /// Most sessions of one authenticated caller in one process.
    pub sessions_per_caller: usize,
    /// Most tool calls of one authenticated caller at a time in one process.
    pub calls_per_caller: usize,
    /// Messages one authenticated caller may send a minute; none for no limit.
    pub requests_per_minute: Option<u32>,
    /// Where metrics and probes are served; none for nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// The OpenTelemetry collector that takes traces, without the path; none for none.
    pub otlp_endpoint: Option<String>,
    /// Where audit lines go; none for nowhere.
    pub audit_log: Option<AuditSink>,
    /// Whether a write needs its audit line first.
    pub audit_required: bool,
    /// How long a stop waits for running calls.
    pub drain: Duration,
    /// Longest wait for a complete request head, and so for the next request on an idle connection.
    pub header_timeout: Duration,
    /// Longest time a request's body may take, and longest time in which a client takes nothing of its answer.
    pub body_timeout: Duration,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: TrustedProxies,
    /// The Redis or Valkey that replicas share; may hold a password.
    pub session_store: Option<SecretString>,
}

impl Default for OperationsSettings {
    /// As with nothing configured.
    fn default() -> Self {
        Self {
            sessions_per_caller: 500,
            calls_per_caller: 64,
            requests_per_minute: Some(6000),
            metrics_address: None,
            otlp_endpoint: None,
            audit_log: None,
            audit_required: false,
            drain: Duration::from_secs(10),
            header_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            trusted_proxies: TrustedProxies::default(),
            session_store: None,
        }
    }
}

impl OperationsSettings {
    pub(super) fn load(from: &mut Loader<'_>, mcp: &McpSettings) -> Self {
        let seconds = |from: &mut Loader<'_>, variable, least| {
            Duration::from_secs(from.size(variable, least..=3600).try_into().unwrap_or(0))
        };
        let settings = Self {
            sessions_per_caller: from.size(&names::SESSIONS_PER_CALLER, 1..=1_000_000),
            calls_per_caller: from.size(&names::CALLS_PER_CALLER, 1..=256),
            requests_per_minute: u32::try_from(from.size(&names::REQUESTS_PER_MINUTE, 0..=1_000_000))
                .ok()
                .filter(|requests| *requests > 0),
            metrics_address: from.optional(&names::METRICS_ADDRESS, |raw| {
                let address = parse::trimmed(raw)?;
                address.parse().map_err(|_| "must be an IP address and a port, as 127.0.0.1:9090".to_owned())
            }),
            otlp_endpoint: from.optional(&names::OTLP_ENDPOINT, |raw| {
                // Spans hold nothing that needs the policy of the other URLs; collectors are often reached without TLS.
                let endpoint = parse::trimmed(raw)?;
                match url::Url::parse(&endpoint) {
                    Ok(url) if matches!(url.scheme(), "http" | "https") => {
                        Ok(endpoint.trim_end_matches('/').to_owned())
                    }
                    _ => Err("must be an http or https URL, as http://127.0.0.1:4318".to_owned()),
                }
            }),
            audit_log: from.optional(&names::AUDIT_LOG, |raw| match parse::opaque(raw)?.as_str() {
                "stderr" => Ok(AuditSink::Stderr),
                path => Ok(AuditSink::File(path.into())),
            }),
            audit_required: from.required(&names::AUDIT_REQUIRED, parse::switch),
            drain: seconds(from, &names::DRAIN_SECONDS, 0),
            header_timeout: seconds(from, &names::HEADER_TIMEOUT_SECONDS, 1),
            body_timeout: seconds(from, &names::BODY_TIMEOUT_SECONDS, 1),
            trusted_proxies: from.required(&names::FORWARDED_ALLOW_IPS, |raw| {
                TrustedProxies::parse(&parse::list(raw)?.unwrap_or_default())
            }),
            session_store: from.optional(&names::SESSION_STORE_URL, |raw| {
                let url = parse::opaque(raw)?;
                let rest = ["redis://", "rediss://"].iter().find_map(|scheme| url.strip_prefix(scheme));
                match rest {
                    Some("") | None => Err("must be a redis:// URL with a host".to_owned()),
                    Some(_) => Ok(url.into()),
                }
            }),
        };
        if settings.audit_required && settings.audit_log.is_none() && !from.failed(&names::AUDIT_LOG) {
            from.refuse(&names::AUDIT_REQUIRED, "needs audit_log: set PIPEFY_MCP_AUDIT_LOG to a path or stderr");
        }
        if settings.session_store.is_some() && mcp.session_key.is_none() && !from.failed(&names::SESSION_KEY) {
            from.refuse(
                &names::SESSION_STORE_URL,
                "needs session_key, the same on every replica: set PIPEFY_MCP_SESSION_KEY",
            );
        }
        settings
    }
}

/// Peers whose forwarding headers are believed: addresses and networks. By default this machine's `127.0.0.1` only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies {
    everybody: bool,
    /// Address and length of the prefix that counts.
    networks: Vec<(IpAddr, u8)>,
}

impl Default for TrustedProxies {
    fn default() -> Self {
        Self::from_iter([IpAddr::from([127, 0, 0, 1])])
    }
}

impl FromIterator<IpAddr> for TrustedProxies {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Self {
        let networks = addresses.into_iter().map(|address| (address.to_canonical(), bits(address.to_canonical())));
        Self { everybody: false, networks: networks.collect() }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl TrustedProxies {
    /// From `10.0.0.1`, `10.0.0.0/8` and `*`; an empty list trusts nobody.
    ///
    /// # Errors
    /// The rule that an entry breaks.
    pub fn parse(entries: &[String]) -> Result<Self, Rule> {
        let mut trusted = Self { everybody: false, networks: Vec::new() };
        for entry in entries {
            if entry == "*" {
                trusted.everybody = true;
                continue;
            }
            let rule = || "must hold IP addresses, networks as 10.0.0.0/8, or *".to_owned();
            let (address, length) = match entry.split_once('/') {
                Some((address, length)) => (address, Some(length)),
                None => (entry.as_str(), None),
            };
            let address: IpAddr = address.parse().map_err(|_| rule())?;
            let length = match length {
                Some(length) => length.parse().ok().filter(|length| *length <= bits(address)).ok_or_else(rule)?,
                None => bits(address),
            };
            // What a dual-stack socket calls ::ffff:10.0.0.1 is 10.0.0.1.
            let canonical = address.to_canonical();
            let length = if canonical == address { length } else { length.saturating_sub(96) };
            trusted.networks.push((canonical, length));
        }
        Ok(trusted)
    }

    /// Whether this peer is one of them.
    pub fn contains(&self, peer: IpAddr) -> bool {
        self.everybody || self.networks.iter().any(|network| within(peer.to_canonical(), *network))
    }
}

fn within(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let ignored = width.saturating_sub(u32::from(length));
        a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::settings::{Environment, Overrides, load_server};

    fn load(variables: &[(&str, &str)]) -> Result<OperationsSettings, String> {
        let mut environment = Environment::empty();
        for (name, value) in variables {
            environment = environment.with_variable(*name, *value);
        }
        load_server(&environment, &Overrides::new())
            .map(|settings| settings.operations)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_configured_gives_the_defaults() {
        assert_eq!(format!("{:?}", load(&[]).unwrap()), format!("{:?}", OperationsSettings::default()));
    }

    #[test]
    fn what_needs_another_setting_says_so() {
        let error = load(&[("PIPEFY_MCP_AUDIT_REQUIRED", "true")]).unwrap_err();
        assert!(error.contains("PIPEFY_MCP_AUDIT_LOG"), "{error}");
        let error = load(&[("PIPEFY_MCP_SESSION_STORE_URL", "redis://u:canary@h")]).unwrap_err();
        assert!(error.contains("PIPEFY_MCP_SESSION_KEY") && !error.contains("canary"), "{error}");
        let key = ("PIPEFY_MCP_SESSION_KEY", "k".repeat(32));
        let both = [("PIPEFY_MCP_SESSION_STORE_URL", "redis://u:canary@h"), (key.0, &key.1)];
        assert!(!format!("{:?}", load(&both).unwrap()).contains("canary"));
        for wrong in ["http://h", "redis://", "h:6379"] {
            assert!(load(&[("PIPEFY_MCP_SESSION_STORE_URL", wrong), (key.0, &key.1)]).is_err(), "{wrong}");
        }
        for wrong in ["9090", "localhost:9090", "127.0.0.1"] {
            assert!(load(&[("PIPEFY_MCP_METRICS_ADDRESS", wrong)]).is_err(), "{wrong}");
        }
        assert_eq!(load(&[("PIPEFY_MCP_REQUESTS_PER_MINUTE", "0")]).unwrap().requests_per_minute, None);
        assert_eq!(load(&[("PIPEFY_MCP_AUDIT_LOG", "stderr")]).unwrap().audit_log, Some(AuditSink::Stderr));
    }

    #[test]
    fn proxies_are_addresses_networks_or_everybody() {
        let trusts = |list: &str, peer: &str| {
            load(&[("FORWARDED_ALLOW_IPS", list)]).unwrap().trusted_proxies.contains(peer.parse().unwrap())
        };
        assert!(TrustedProxies::default().contains("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!TrustedProxies::default().contains("127.0.0.2".parse().unwrap()));
        assert!(trusts("10.0.0.0/8, ::1", "10.200.0.1") && trusts("10.0.0.0/8,::1", "::1"));
        assert!(!trusts("10.0.0.0/8", "11.0.0.1") && !trusts("10.0.0.0/8", "::1") && !trusts("10.0.0.1", "10.0.0.2"));
        assert!(trusts("fd00::/8", "fd12::1") && !trusts("fd00::/8", "fe00::1"));
        assert!(trusts("::ffff:10.0.0.0/104", "10.1.2.3") && trusts("0.0.0.0/0", "8.8.8.8"));
        assert!(trusts("*", "8.8.8.8") && !trusts("", "127.0.0.1"));
        for wrong in ["10.0.0.0/33", "proxy", "10.0.0.0/x", "1.2.3.4,,"] {
            assert!(load(&[("FORWARDED_ALLOW_IPS", wrong)]).is_err(), "{wrong}");
        }
    }
}
