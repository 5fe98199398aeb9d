//! Any text as a URL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipefy::url_policy::{UrlPolicy, UrlShape, configured_url, validate_url};

fuzz_target!(|text: &str| {
    if let Ok(url) = validate_url("url", text, UrlPolicy::Strict) {
        assert_eq!(url.scheme(), "https");
        let host = url.host_str().expect("a host").trim_end_matches('.').to_ascii_lowercase();
        assert!(host != "localhost" && !host.ends_with(".localhost"), "{text}");
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<std::net::IpAddr>() {
            let inner = match address {
                std::net::IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified(),
                std::net::IpAddr::V6(ip) => ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || ip.to_ipv4().is_some(),
            };
            assert!(!inner, "{text}");
        }
    }
    let _may_be_refused = validate_url("url", text, UrlPolicy::Insecure);
    for shape in [UrlShape::HostRoot, UrlShape::NoQuery] {
        if let Ok(kept) = configured_url("url", text, shape, UrlPolicy::Strict) {
            assert_eq!(kept, text.trim());
            assert!(validate_url("url", &kept, UrlPolicy::Strict).is_ok());
        }
    }
});
