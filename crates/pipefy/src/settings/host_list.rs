//! Which `Host` and `Origin` headers an HTTP server answers (protection against DNS rebinding).

use std::net::IpAddr;

use url::{Host, Url};

/// Whether `host` is this machine by its look, without resolving: `localhost`, `127.0.0.0/8` or `::1` (brackets
/// tolerated).
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim().to_ascii_lowercase();
    if host == "localhost" {
        return true;
    }
    match bare(&host).parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback(),
        Err(_) => false,
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// The accepted `Host` and `Origin` values.
///
/// A page on a foreign site can make a browser talk to a server on this machine by pointing its own name at 127.0.0.1;
/// its name then stands in `Host` (and `Origin`). So only expected names are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList {
    hosts: Vec<String>,
    /// Explicit origins; none derives them from the hosts.
    origins: Option<Vec<String>>,
    /// A server that listens on every address and was told no names answers any literal address: a rebinding attack
    /// needs a name.
    any_literal: bool,
}

impl HostList {
    /// Derives the list.
    ///
    /// Loopback names, the bound address, the host (and `host:port`) of `resource_url`, and `allowed_hosts`, each with
    /// any port. Origins: `allowed_origins` if given (an empty list refuses every origin), else `http://` and
    /// `https://` of the hosts. When nothing at all is configured and `bind_host` is a wildcard address, literal
    /// addresses are answered too.
    pub fn derive(
        bind_host: &str,
        resource_url: Option<&str>,
        allowed_hosts: &[String],
        allowed_origins: Option<&[String]>,
    ) -> HostList {
        let bind = bare(bind_host.trim()).to_ascii_lowercase();
        let wildcard = bind.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        let mut hosts: Vec<String> = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).into();
        let mut add = |host: String| {
            if !host.is_empty() && !hosts.contains(&host) {
                hosts.push(host);
            }
        };
        if !wildcard {
            add(bracketed(&bind));
        }
        let authorities = resource_url.map(authorities).unwrap_or_default();
        let configured = !authorities.is_empty() || !allowed_hosts.is_empty() || allowed_origins.is_some();
        for host in authorities {
            add(host);
        }
        for host in allowed_hosts {
            add(host.trim().to_ascii_lowercase());
        }
        HostList { hosts, origins: allowed_origins.map(<[String]>::to_vec), any_literal: wildcard && !configured }
    }

    /// Whether a request with this `Host` is answered. A request without one is not. Case does not matter, and an entry
    /// without a port stands for every port.
    pub fn allows_host(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return false };
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        let listed = |entry: &String| match entry.strip_suffix(":*") {
            Some(entry) => entry == name,
            None => *entry == host || *entry == name,
        };
        if self.hosts.iter().any(listed) {
            return true;
        }
        self.any_literal && bare(name).parse::<IpAddr>().is_ok()
    }

    /// Whether a request with this `Origin` is answered. A request without one is: it does not come from a page.
    pub fn allows_origin(&self, origin: Option<&str>) -> bool {
        let Some(origin) = origin else { return true };
        let origin = origin.to_ascii_lowercase();
        match &self.origins {
            Some(listed) => listed.iter().any(|entry| {
                let entry = entry.to_ascii_lowercase();
                match entry.strip_suffix(":*") {
                    Some(entry) => entry == origin || without_port_after_scheme(&origin) == entry,
                    None => entry == origin,
                }
            }),
            None => {
                let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
                host.is_some_and(|host| self.allows_host(Some(host)))
            }
        }
    }

    /// The accepted hosts, for a start-up log line.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

/// The `Host` values that a request to `url` carries: the host, and `host:port` when the URL names a port.
fn authorities(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let Some(host) = url.host() else { return Vec::new() };
    let host = match host {
        Host::Ipv6(ip) => format!("[{ip}]"),
        other => other.to_string(),
    };
    match url.port() {
        Some(port) => vec![host.clone(), format!("{host}:{port}")],
        None => vec![host],
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Strips a port of digits.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            // `::1` is not a name with port 1.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn without_port_after_scheme(origin: &str) -> String {
    match origin.split_once("://") {
        Some((scheme, host)) => format!("{scheme}://{}", without_port(host)),
        None => origin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn list(bind: &str, resource: Option<&str>, hosts: &[&str], origins: Option<&[&str]>) -> HostList {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        HostList::derive(bind, resource, &own(hosts), origins.map(own).as_deref())
    }

    #[test]
    fn loopback_by_its_look() {
        for host in ["localhost", " LOCALHOST ", "127.0.0.1", "127.9.9.9", "::1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["0.0.0.0", "::", "localhost.", "127.1", "::ffff:127.0.0.1", "example.com", "", "10.0.0.1"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_loopback_server_answers_loopback_names_on_any_port() {
        for bind in ["127.0.0.1", "127.0.0.2", "LOCALHOST", "[::1]"] {
            let list = list(bind, None, &[], None);
            for host in ["localhost", "localhost:8000", "LocalHost:1", "127.0.0.1:8000", "[::1]:8000", "[::1]"] {
                assert!(list.allows_host(Some(host)), "{bind} {host}");
            }
            for host in ["evil.test", "evil.test:8000", "localhost.evil.test", "localhost:x:y", "localhost:", "::1", ""]
            {
                assert!(!list.allows_host(Some(host)), "{bind} {host}");
            }
            assert!(!list.allows_host(None));
            assert!(list.allows_origin(None));
            assert!(list.allows_origin(Some("http://localhost:3000")));
            assert!(list.allows_origin(Some("https://127.0.0.1")));
            assert!(!list.allows_origin(Some("http://evil.test")));
            assert!(!list.allows_origin(Some("null")));
        }
        assert!(list("127.0.0.2", None, &[], None).allows_host(Some("127.0.0.2:8000")));
    }

    #[test]
    fn the_resource_url_and_the_lists_widen_it() {
        let list = list("0.0.0.0", Some("https://mcp.example.com:8443/mcp"), &["proxy.test", "b.test:9"], None);
        for host in
            ["mcp.example.com", "MCP.Example.com:8443", "mcp.example.com:1", "proxy.test:80", "b.test:9", "localhost"]
        {
            assert!(list.allows_host(Some(host)), "{host}");
        }
        for host in ["b.test", "b.test:8", "10.0.0.1", "evil.test"] {
            assert!(!list.allows_host(Some(host)), "{host}");
        }
        assert!(list.allows_origin(Some("https://mcp.example.com")));
        assert!(!list.allows_origin(Some("https://evil.test")));
    }

    #[test]
    fn origins_are_exactly_the_list_when_there_is_one() {
        let none = list("127.0.0.1", None, &[], Some(&[]));
        assert!(!none.allows_origin(Some("http://localhost")));
        assert!(none.allows_origin(None));
        let some = list("127.0.0.1", None, &[], Some(&["https://app.test", "http://dev.test:*", "null"]));
        for origin in ["https://app.test", "HTTPS://app.test", "http://dev.test:3000", "http://dev.test", "null"] {
            assert!(some.allows_origin(Some(origin)), "{origin}");
        }
        for origin in ["http://app.test", "https://app.test:1", "http://localhost", "http://dev.test.evil.test"] {
            assert!(!some.allows_origin(Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_wildcard_bind_without_lists_answers_addresses_but_no_names() {
        for bind in ["0.0.0.0", "::", "[::]"] {
            let open = list(bind, None, &[], None);
            for host in ["192.168.1.5:8000", "[fe80::1]:8000", "localhost:8000"] {
                assert!(open.allows_host(Some(host)), "{bind} {host}");
            }
            assert!(!open.allows_host(Some("evil.test:8000")));
        }
        assert!(!list("0.0.0.0", None, &["a.test"], None).allows_host(Some("192.168.1.5")));
        assert!(list("192.168.1.5", None, &[], None).allows_host(Some("192.168.1.5:8000")));
    }
}
