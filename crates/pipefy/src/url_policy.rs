//! Which URLs the toolkit may talk to.
//!
//! Two gates. The synchronous one looks at the text of a URL: scheme, host, and whether a literal address lies in a
//! [blocked range](is_blocked). The asynchronous one resolves the name and looks at every address. Configured URLs,
//! discovery endpoints and webhook URLs pass the first; URLs that somebody else supplied for fetching pass both, and
//! once more at the moment of connecting ([`GuardedResolver`]), so that a name cannot change its mind in between.
//!
//! Hosts are parsed the way browsers do (WHATWG), which turns `127.1`, `2130706433`, `0x7f.0.0.1` and full-width
//! digits into the address they mean. No message repeats more of a URL than its scheme or host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The names of the refused categories, as messages list them.
pub const BLOCKED_CATEGORIES: &str = "a private, loopback, link-local, multicast, reserved or unspecified address";

/// How strictly a URL is looked at. Follows the setting `allow_insecure_urls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlPolicy {
    /// Only `https`, and no host that names this machine or an internal network.
    #[default]
    Strict,
    /// `http` as well, any host. For development.
    Insecure,
}

impl UrlPolicy {
    /// The policy that the switch `allow_insecure_urls` asks for.
    pub fn from_switch(allow_insecure_urls: bool) -> UrlPolicy {
        if allow_insecure_urls { UrlPolicy::Insecure } else { UrlPolicy::Strict }
    }

    /// True for [`UrlPolicy::Insecure`].
    pub fn is_insecure(self) -> bool {
        self == UrlPolicy::Insecure
    }
}

/// Why a URL was refused. `Display` starts with the label of the field and carries no more of the URL than its scheme
/// or host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label} {reason}")]
pub struct UrlPolicyError {
    label: String,
    reason: String,
}

impl UrlPolicyError {
    pub(crate) fn new(label: &str, reason: impl Into<String>) -> UrlPolicyError {
        UrlPolicyError { label: label.to_owned(), reason: reason.into() }
    }

    /// The reason alone, without the label.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// One refused network.
struct Blocked<A> {
    network: A,
    prefix: u32,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u32) -> Blocked<Ipv4Addr> {
    Blocked { network: Ipv4Addr::new(a, b, c, d), prefix }
}

const fn v6(a: u16, b: u16, prefix: u32) -> Blocked<Ipv6Addr> {
    Blocked { network: Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix }
}

/// IANA's special-purpose IPv4 networks that no public service answers from.
const BLOCKED_V4: [Blocked<Ipv4Addr>; 16] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    v4(255, 255, 255, 255, 32),
];

/// Everything outside the global unicast block `2000::/3` (this covers `::`, `::1`, IPv4-mapped and -compatible
/// addresses, NAT64, unique-local, link-local, site-local and multicast), and the special networks inside it.
const BLOCKED_V6: [Blocked<Ipv6Addr>; 7] = [
    v6(0x0000, 0, 3),
    v6(0x4000, 0, 2),
    v6(0x8000, 0, 1),
    v6(0x2001, 0, 23),
    v6(0x2001, 0x0db8, 32),
    v6(0x2002, 0, 16),
    v6(0x3fff, 0, 20),
];

/// Whether `address` lies in a range that a user-supplied URL must not reach.
///
/// Private, loopback, link-local, multicast, reserved, shared (CGNAT), documentation, benchmark and unspecified
/// networks; every IPv6 form that carries an IPv4 address inside (mapped, NAT64, 6to4, Teredo).
pub fn is_blocked(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => BLOCKED_V4.iter().any(|range| {
            let mask = u32::MAX.checked_shl(32 - range.prefix).unwrap_or(0);
            ip.to_bits() & mask == range.network.to_bits()
        }),
        IpAddr::V6(ip) => BLOCKED_V6.iter().any(|range| {
            let mask = u128::MAX.checked_shl(128 - range.prefix).unwrap_or(0);
            ip.to_bits() & mask == range.network.to_bits()
        }),
    }
}

/// Checks the text of a URL, without resolving its host.
///
/// `label` names the field in messages. The text is trimmed first. In order: a scheme, `https` (or `http` under
/// [`UrlPolicy::Insecure`]), a host, and in strict mode the [host check](check_host). User-info, port, path and query
/// are not looked at; see [`configured_url`] for URLs from settings.
///
/// # Errors
/// [`UrlPolicyError`] naming the first rule that failed.
pub fn validate_url(label: &str, text: &str, policy: UrlPolicy) -> Result<Url, UrlPolicyError> {
    let refuse = |reason: String| Err(UrlPolicyError::new(label, reason));
    let text = text.trim();
    let Some((scheme, rest)) = split_scheme(text) else {
        return refuse("must include a scheme, as in https://host".into());
    };
    let scheme = scheme.to_ascii_lowercase();
    match (policy, scheme.as_str()) {
        (_, "https") | (UrlPolicy::Insecure, "http") => {}
        (UrlPolicy::Strict, _) => return refuse(format!("must use HTTPS, not {scheme}")),
        (UrlPolicy::Insecure, _) => {
            return refuse(format!("must use http or https, not {scheme}"));
        }
    }
    // A browser would skip extra slashes and take the first path segment as the host; a person who wrote
    // `https:///x` forgot the host.
    let authority = rest.strip_prefix("//").unwrap_or("");
    if authority.is_empty() || authority.starts_with(['/', '\\', '?', '#']) {
        return refuse("must include a hostname".into());
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::EmptyHost) => return refuse("must include a hostname".into()),
        Err(error) => return refuse(format!("is not a valid URL ({error})")),
    };
    match url.host() {
        None => refuse("must include a hostname".into()),
        Some(_) if policy.is_insecure() => Ok(url),
        Some(host) => {
            check_host(label, &host)?;
            Ok(url)
        }
    }
}

/// Refuses hosts that name this machine or an internal network: `localhost` and its subdomains (with or without a
/// trailing dot) and literal addresses in a [blocked range](is_blocked). Other names are accepted unresolved.
///
/// # Errors
/// [`UrlPolicyError`] naming `localhost` or the refused categories.
pub fn check_host<S: AsRef<str>>(label: &str, host: &Host<S>) -> Result<(), UrlPolicyError> {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref().trim_end_matches('.').to_ascii_lowercase();
            if name.is_empty() {
                return Err(UrlPolicyError::new(label, "must include a hostname"));
            }
            if name == "localhost" || name.ends_with(".localhost") {
                return Err(UrlPolicyError::new(
                    label,
                    "must not name localhost (allow_insecure_urls permits it for development)",
                ));
            }
            Ok(())
        }
        Host::Ipv4(ip) => check_literal(label, IpAddr::V4(*ip)),
        Host::Ipv6(ip) => check_literal(label, IpAddr::V6(*ip)),
    }
}

fn check_literal(label: &str, ip: IpAddr) -> Result<(), UrlPolicyError> {
    if is_blocked(ip) {
        return Err(UrlPolicyError::new(
            label,
            format!("must not name {BLOCKED_CATEGORIES} (allow_insecure_urls permits it for development)"),
        ));
    }
    Ok(())
}

/// Splits `scheme:rest`, when the text starts with a syntactically valid scheme.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut chars = scheme.chars();
    let valid = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    // `host:8080` has no scheme, although it is shaped like one.
    (valid && rest.starts_with('/')).then_some((scheme, rest))
}

/// What a configured URL may consist of beyond scheme and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlShape {
    /// Scheme, host and port only; the path is empty or `/`.
    HostRoot,
    /// A path is welcome; a query or fragment is not.
    NoQuery,
}

/// Checks a URL that comes from settings and returns its text, trimmed and otherwise byte for byte as written.
///
/// The text is kept because issuers and resource identifiers are compared as text, and a round trip through a URL
/// parser would add a slash. On top of [`validate_url`]: it matches `^https?://\S+$`, carries no user-info, no `?`,
/// `#` or `;`, and has the wanted [shape](UrlShape).
///
/// # Errors
/// [`UrlPolicyError`] naming the first rule that failed.
pub fn configured_url(label: &str, text: &str, shape: UrlShape, policy: UrlPolicy) -> Result<String, UrlPolicyError> {
    let refuse = |reason: &str| Err(UrlPolicyError::new(label, reason));
    let text = text.trim();
    if text.is_empty() {
        return refuse(
            "must include a scheme and should match pattern ^https?://\\S+$; unset the variable to use the default",
        );
    }
    let lower = text.to_ascii_lowercase();
    let http = lower.starts_with("http://") || lower.starts_with("https://");
    if http && text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("should match pattern ^https?://\\S+$: it holds white space");
    }
    let url = match validate_url(label, text, policy) {
        Ok(url) => url,
        Err(error) if http => return Err(error),
        Err(error) => {
            return refuse(&format!("{}; it should match pattern ^https?://\\S+$", error.reason()));
        }
    };
    if has_user_info(&url) || authority_of(text).contains('@') {
        return refuse("must not carry a user name or password");
    }
    if text.contains(['?', '#']) {
        return refuse("must not have a query or fragment");
    }
    if text.contains([';', '\\']) {
        return refuse("must not contain ';' or '\\'");
    }
    if shape == UrlShape::HostRoot && !is_host_root(&url, text) {
        return refuse("must be a host root, as in https://host, without a path");
    }
    Ok(text.to_owned())
}

fn has_user_info(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn authority_of(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#', '\\']).next().unwrap_or("")
}

/// True when the written path is exactly empty or `/`, and there is no query or fragment.
fn is_host_root(url: &Url, text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| rest.get(at..).unwrap_or(""));
    matches!(path, "" | "/") && url.query().is_none() && url.fragment().is_none()
}

/// Resolves `host` and refuses it when any of its addresses lies in a [blocked range](is_blocked). Returns the
/// addresses. Not relaxed by `allow_insecure_urls`.
///
/// `host` may be a name or a literal (IPv6 with or without brackets).
///
/// # Errors
/// "could not resolve" for an empty host, a failed look-up or an empty answer; "blocked address" naming host and
/// address otherwise.
pub async fn dns_gate(label: &str, host: &str, port: u16) -> Result<Vec<SocketAddr>, UrlPolicyError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let unresolved = || UrlPolicyError::new(label, format!("could not resolve host '{bare}'"));
    if bare.is_empty() {
        return Err(unresolved());
    }
    let found: Vec<SocketAddr> = match bare.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => tokio::net::lookup_host((bare, port)).await.map_err(|_| unresolved())?.collect(),
    };
    if found.is_empty() {
        return Err(unresolved());
    }
    match found.iter().find(|address| is_blocked(address.ip())) {
        Some(address) => {
            Err(UrlPolicyError::new(label, format!("host '{bare}' resolves to the blocked address {}", address.ip())))
        }
        None => Ok(found),
    }
}

/// A resolver for HTTP clients that fetch URLs somebody else supplied: a name with any blocked address does not
/// resolve. This makes check and connection one look-up, so a name cannot answer differently the second time.
///
/// Literal addresses never reach a resolver: check the URL with [`validate_url`] or [`dns_gate`] before every hop.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuardedResolver;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = dns_gate("URL", name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Storage suffixes that Pipefy's own deployments hand out.
const STORAGE_SUFFIXES: [&str; 2] = [".amazonaws.com", ".pipefy.com"];

/// Decides where a presigned upload may go.
///
/// Trust comes from three places, in this order: the configured API host (a deployment may keep its storage where its
/// API is; on loopback this needs `allow_insecure_urls`), the operator's own list (`storage_hosts`), and the two
/// suffixes `.amazonaws.com` and `.pipefy.com`. Look-alikes (`amazonaws.com.evil.test`) match none of them.
#[derive(Clone, Debug)]
pub struct UploadPolicy {
    api: Option<Url>,
    listed: Vec<StorageHost>,
    policy: UrlPolicy,
}

/// One entry of the setting `storage_hosts`: `host`, `host:port`, or `.suffix` / `*.suffix` for every subdomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageHost {
    name: String,
    subdomains: bool,
    port: Option<u16>,
}

impl StorageHost {
    /// Parses one entry.
    ///
    /// # Errors
    /// The rule, as a sentence part, when the entry is not a host.
    pub fn parse(text: &str) -> Result<StorageHost, &'static str> {
        const RULE: &str = "must hold host names, as in files.example.com, files.example.com:9000 or .example.com";
        let text = text.trim().to_ascii_lowercase();
        let (text, subdomains) = match text.strip_prefix("*.").or_else(|| text.strip_prefix('.')) {
            Some(rest) => (rest.to_owned(), true),
            None => (text, false),
        };
        if text.is_empty() || text.contains(['/', '@', '?', '#', '*', ' ']) {
            return Err(RULE);
        }
        let url = Url::parse(&format!("https://{text}/")).map_err(|_| RULE)?;
        let name = url.host_str().ok_or(RULE)?.trim_end_matches('.').to_owned();
        if subdomains && (!name.contains('.') || matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_)))) {
            return Err("must not open a whole top-level domain; name at least .example.com");
        }
        let port = text
            .rsplit_once(':')
            .filter(|(_, digits)| !digits.ends_with(']'))
            .and_then(|(_, digits)| digits.parse().ok());
        Ok(StorageHost { name, subdomains, port })
    }

    fn matches(&self, host: &str, port: u16) -> bool {
        let named = if self.subdomains {
            host.strip_suffix(self.name.as_str()).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
        } else {
            host == self.name
        };
        named && self.port.is_none_or(|wanted| wanted == port)
    }
}

/// An accepted upload URL.
#[derive(Clone, Debug)]
pub struct UploadTarget {
    /// Where to send the bytes.
    pub url: Url,
    /// Whether the name must still pass the DNS gate (use a client with [`GuardedResolver`]). False where the operator
    /// named the host, which may well be internal.
    pub guarded: bool,
}

impl UploadPolicy {
    /// `base_url` is the configured API root, `listed` the operator's own hosts.
    pub fn new(base_url: &str, listed: Vec<StorageHost>, policy: UrlPolicy) -> UploadPolicy {
        UploadPolicy { api: Url::parse(base_url).ok(), listed, policy }
    }

    /// Checks an upload URL that the API handed out.
    ///
    /// `https` on its default port (a listed `host:port` may differ; `http` only under `allow_insecure_urls` and only
    /// to a host that the operator named), and for `.amazonaws.com`, which any tenant of it could serve, an AWS
    /// signature in the query.
    ///
    /// # Errors
    /// [`UrlPolicyError`]; names the host and the setting that would allow it, never the signed URL.
    pub fn check(&self, label: &str, text: &str) -> Result<UploadTarget, UrlPolicyError> {
        let refuse = |reason: String| Err(UrlPolicyError::new(label, reason));
        let Ok(url) = Url::parse(text.trim()) else {
            return refuse("is not a valid URL".into());
        };
        let Some(host) = url.host_str().map(|host| host.trim_end_matches('.').to_owned()) else {
            return refuse("must include a hostname".into());
        };
        if has_user_info(&url) {
            return refuse("must not carry a user name or password".into());
        }
        let port = url.port_or_known_default().unwrap_or(0);
        let operator = self.is_api_host(&url) || self.listed.iter().any(|entry| entry.matches(&host, port));
        match url.scheme() {
            "https" => {}
            "http" if operator && self.policy.is_insecure() => {}
            scheme => return refuse(format!("must use HTTPS, not {scheme}")),
        }
        if operator {
            return Ok(UploadTarget { url, guarded: false });
        }
        if !has_storage_suffix(&host) {
            return refuse(format!(
                "points to '{host}', which is not a known storage host; add it to storage_hosts (PIPEFY_STORAGE_HOSTS) if this \
                 deployment keeps its files there"
            ));
        }
        if url.port().is_some() {
            return refuse(format!(
                "points to port {port} of '{host}'; add '{host}:{port}' to storage_hosts (PIPEFY_STORAGE_HOSTS) to allow it"
            ));
        }
        if host.ends_with(".amazonaws.com") && !has_aws_signature(&url) {
            return refuse(format!("points to '{host}' without an AWS signature"));
        }
        Ok(UploadTarget { url, guarded: true })
    }

    /// The very host of the API, over the same scheme and port, or over `https` on its default port. On this machine
    /// or an internal network only when insecure URLs are allowed; but then the API base would not have been accepted
    /// otherwise either.
    fn is_api_host(&self, url: &Url) -> bool {
        let Some(api) = &self.api else { return false };
        if api.host() != url.host() {
            return false;
        }
        let same_port = api.port_or_known_default() == url.port_or_known_default();
        let internal = url.host().is_some_and(|host| check_host("", &host).is_err());
        if internal {
            // Several local services share one loopback address; the file store of a local sandbox may be on a port
            // of its own.
            return self.policy.is_insecure();
        }
        same_port || (url.scheme() == "https" && url.port().is_none())
    }
}

fn has_storage_suffix(host: &str) -> bool {
    STORAGE_SUFFIXES.iter().any(|suffix| {
        host.strip_suffix(suffix).is_some_and(|front| {
            !front.is_empty() && front.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        })
    })
}

fn has_aws_signature(url: &Url) -> bool {
    url.query_pairs()
        .any(|(name, value)| !value.is_empty() && (name.eq_ignore_ascii_case("x-amz-signature") || name == "Signature"))
}

#[cfg(test)]
#[path = "url_policy_tests.rs"]
mod tests;
