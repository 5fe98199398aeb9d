#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;

fn strict(text: &str) -> Result<Url, String> {
    validate_url("url", text, UrlPolicy::Strict).map_err(|e| e.to_string())
}

fn insecure(text: &str) -> Result<Url, String> {
    validate_url("url", text, UrlPolicy::Insecure).map_err(|e| e.to_string())
}

#[test]
fn strict_mode_refuses_with_the_rule_that_failed() {
    for (text, wanted) in [
        ("", "must include a scheme"),
        ("app.pipefy.com", "must include a scheme"),
        ("app.pipefy.com:443", "must include a scheme"),
        ("//app.pipefy.com", "must include a scheme"),
        ("http://app.pipefy.com", "must use HTTPS, not http"),
        ("ftp://app.pipefy.com", "must use HTTPS, not ftp"),
        ("file:///etc/passwd", "must use HTTPS, not file"),
        ("https://", "must include a hostname"),
        ("https:///x", "must include a hostname"),
        ("https://?x", "must include a hostname"),
        ("https://localhost", "localhost"),
        ("https://LOCALHOST:8443/x", "localhost"),
        ("https://localhost./x", "localhost"),
        ("https://api.localhost", "localhost"),
        ("https://127.0.0.1", "private, loopback"),
        ("https://127.1", "private, loopback"),
        ("https://2130706433", "private, loopback"),
        ("https://0x7f.0.0.1", "private, loopback"),
        ("https://0177.0.0.1", "private, loopback"),
        ("https://127.0.0.1.", "private, loopback"),
        ("https://\u{ff11}\u{ff12}\u{ff17}.0.0.1", "private, loopback"),
        ("https://0.0.0.0", "private, loopback"),
        ("https://10.1.2.3", "private, loopback"),
        ("https://169.254.169.254/latest", "private, loopback"),
        ("https://224.0.0.1", "private, loopback"),
        ("https://[::1]", "private, loopback"),
        ("https://[::ffff:127.0.0.1]", "private, loopback"),
        ("https://[::ffff:8.8.8.8]", "private, loopback"),
        ("https://[fd00::1]", "private, loopback"),
        ("https://[64:ff9b::7f00:1]", "private, loopback"),
        ("https://host:99999", "valid URL"),
    ] {
        let error = strict(text).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.starts_with("url "), "{error}");
    }
}

#[test]
fn strict_mode_accepts_public_names_and_addresses_unresolved() {
    for text in [
        "https://app.pipefy.com",
        " HTTPS://App.Pipefy.com/x ",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/",
        "https://does-not-exist.invalid",
        "https://user:pw@host.test/?q#f",
        "https://localhost.example.com",
    ] {
        strict(text).expect(text);
    }
}

#[test]
fn insecure_mode_allows_http_and_any_host_but_no_other_scheme() {
    for text in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]/x", "http://10.0.0.1"] {
        insecure(text).expect(text);
    }
    assert!(insecure("ftp://x.test").unwrap_err().contains("must use http or https, not ftp"));
    assert!(insecure("http://").unwrap_err().contains("hostname"));
}

#[test]
fn blocked_ranges_hold_at_both_edges() {
    let blocked = [
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.7",
        "192.0.0.170",
        "192.0.0.171",
        "192.0.2.0",
        "192.0.2.255",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:1.1.1.1",
        "::7f00:1",
        "64:ff9b::1",
        "100::1",
        "200::",
        "400::",
        "800::",
        "1000::",
        "1fff:ffff::",
        "2001::1",
        "2001:1ff:ffff::",
        "2001:db8::1",
        "2002::1",
        "3fff::1",
        "3fff:fff:ffff::",
        "4000::",
        "7fff::",
        "8000::",
        "fc00::1",
        "fdff::1",
        "fe7f::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for text in blocked {
        assert!(is_blocked(text.parse().unwrap()), "{text} must be blocked");
    }
    let open = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:200::1",
        "2001:db7::1",
        "2001:db9::1",
        "2003::1",
        "2606:4700::1111",
        "2a00:1450::1",
        "3ffe::1",
    ];
    for text in open {
        assert!(!is_blocked(text.parse().unwrap()), "{text} must be open");
    }
}

#[test]
fn configured_urls_keep_their_text_and_have_the_wanted_shape() {
    let root = |text: &str| configured_url("base_url", text, UrlShape::HostRoot, UrlPolicy::Strict);
    for text in ["https://app.pipefy.com", "HTTPS://App.Pipefy.com/", "https://x.test:8443"] {
        assert_eq!(root(text).unwrap(), text);
    }
    assert_eq!(root("  https://x.test/ ").unwrap(), "https://x.test/");
    for (text, wanted) in [
        ("", "should match pattern"),
        ("   ", "should match pattern"),
        ("app.pipefy.com", "should match pattern"),
        ("ftp://x.test", "should match pattern"),
        ("https://a b", "should match pattern"),
        ("https://x.test//", "host root"),
        ("https://x.test/path", "host root"),
        ("https://x.test/.", "host root"),
        ("https://x.test?", "query or fragment"),
        ("https://x.test#", "query or fragment"),
        ("https://x.test/?a=1", "query or fragment"),
        ("https://x.test/;x", "';'"),
        ("https://x.test\\x", "'\\'"),
        ("https://user@x.test", "user name"),
        ("https://@x.test", "user name"),
        ("https://user:pw@x.test", "user name"),
        ("https://x.test:0x1", "valid URL"),
        ("https://x.test:70000", "valid URL"),
        ("http://x.test", "HTTPS"),
        ("https://localhost", "localhost"),
    ] {
        let error = root(text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.starts_with("base_url "), "{error}");
    }
    let path = |text: &str| configured_url("auth_url", text, UrlShape::NoQuery, UrlPolicy::Strict);
    assert_eq!(path("https://signin.pipefy.com/realms/pipefy/").unwrap(), "https://signin.pipefy.com/realms/pipefy/");
    assert!(path("https://x.test/a?b").is_err());
    assert!(path("https://x.test/a#b").is_err());
}

#[test]
fn no_message_repeats_a_secret_in_the_url() {
    for text in [
        "https://canary:canary@x.test",
        "http://x.test/canary",
        "https://x.test/?canary",
        "https://10.0.0.1/canary",
        "https://x.test:99999/canary",
    ] {
        let error = configured_url("u", text, UrlShape::HostRoot, UrlPolicy::Strict).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn the_dns_gate_judges_every_address() {
    for host in ["127.0.0.1", "[::1]", "localhost", "::ffff:10.0.0.1"] {
        let error = dns_gate("file_url", host, 443).await.unwrap_err().to_string();
        assert!(error.contains("blocked address"), "{host}: {error}");
    }
    for host in ["", "name.invalid"] {
        let error = dns_gate("file_url", host, 443).await.unwrap_err().to_string();
        assert!(error.contains("could not resolve"), "{host}: {error}");
    }
    assert_eq!(dns_gate("x", "8.8.8.8", 443).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_guarded_client_does_not_connect_to_this_machine() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = reqwest::Client::builder().no_proxy().dns_resolver(GuardedResolver).build().unwrap();
    let error = client.get(format!("http://localhost:{port}/")).send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(format!("{error:?}").contains("blocked address"), "{error:?}");
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept()).await;
    assert!(waited.is_err(), "no connection may arrive");
}

fn uploads(base: &str, listed: &[&str], policy: UrlPolicy) -> UploadPolicy {
    let listed = listed.iter().map(|text| StorageHost::parse(text).unwrap()).collect();
    UploadPolicy::new(base, listed, policy)
}

#[test]
fn uploads_go_to_known_storage_only() {
    let policy = uploads("https://app.pipefy.com", &[], UrlPolicy::Strict);
    for text in [
        "https://bucket.s3.amazonaws.com/k?X-Amz-Signature=1",
        "https://BUCKET.s3.us-east-1.AMAZONAWS.com/k?x-amz-signature=1",
        "https://b.s3.amazonaws.com/k?AWSAccessKeyId=a&Signature=b",
        "https://files.pipefy.com/k",
        "https://b.s3.amazonaws.com:443/k?X-Amz-Signature=1",
        "https://app.pipefy.com/upload",
    ] {
        policy.check("upload URL", text).expect(text);
    }
    for (text, wanted) in [
        ("https://b.s3.amazonaws.com/k", "without an AWS signature"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Signature=", "without an AWS signature"),
        ("https://amazonaws.com/k?X-Amz-Signature=1", "PIPEFY_STORAGE_HOSTS"),
        ("https://amazonaws.com.evil.test/k?X-Amz-Signature=1", "PIPEFY_STORAGE_HOSTS"),
        ("https://evilamazonaws.com/k?X-Amz-Signature=1", "PIPEFY_STORAGE_HOSTS"),
        ("https://evilpipefy.com/k", "PIPEFY_STORAGE_HOSTS"),
        ("https://pipefy.com.evil.test/k", "PIPEFY_STORAGE_HOSTS"),
        ("http://b.s3.amazonaws.com/k?X-Amz-Signature=1", "must use HTTPS"),
        ("http://app.pipefy.com/upload", "must use HTTPS"),
        ("https://b.s3.amazonaws.com:8443/k?X-Amz-Signature=1", "port 8443"),
        ("https://u:p@b.s3.amazonaws.com/k?X-Amz-Signature=1", "user name"),
        ("https://127.0.0.1/k", "PIPEFY_STORAGE_HOSTS"),
        ("not a url", "valid URL"),
    ] {
        let error = policy.check("upload URL", text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(!error.contains("Signature=1"), "{error}");
    }
}

#[test]
fn upload_trust_follows_the_configured_api_host() {
    let local = uploads("http://127.0.0.1:4000", &[], UrlPolicy::Insecure);
    for text in ["http://127.0.0.1:4000/up", "http://127.0.0.1:4001/up?x=1"] {
        assert!(!local.check("upload URL", text).unwrap().guarded, "{text}");
    }
    assert!(local.check("upload URL", "http://127.0.0.2:4000/up").is_err());
    assert!(local.check("upload URL", "http://localhost:4000/up").is_err());

    let own = uploads("https://pipefy.corp.test", &[], UrlPolicy::Strict);
    assert!(own.check("upload URL", "https://pipefy.corp.test/up").is_ok());
    assert!(own.check("upload URL", "https://pipefy.corp.test:9000/up").is_err());
    assert!(own.check("upload URL", "https://x.pipefy.corp.test/up").is_err());
}

#[test]
fn the_operator_may_list_storage_hosts() {
    let policy =
        uploads("https://app.pipefy.com", &["minio.corp.test:9000", ".files.test", "plain.test"], UrlPolicy::Strict);
    for text in [
        "https://minio.corp.test:9000/b",
        "https://a.b.files.test/b",
        "https://PLAIN.test/b",
        "https://plain.test:8443/b",
    ] {
        assert!(!policy.check("upload URL", text).expect(text).guarded);
    }
    for text in [
        "https://minio.corp.test/b",
        "https://files.test/b",
        "https://evilfiles.test/b",
        "https://plain.test.evil.test/b",
        "http://plain.test/b",
    ] {
        assert!(policy.check("upload URL", text).is_err(), "{text}");
    }
    for text in ["", " ", "*.", ".com", "a/b", "http://x.test", "x y", "*"] {
        assert!(StorageHost::parse(text).is_err(), "{text}");
    }
}

mod properties {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// An IPv4 address as browsers understand it: four, three, two or one number, each in one of three bases.
    fn written(ip: Ipv4Addr, parts: usize, bases: [u8; 4], wide: bool, dot: bool) -> String {
        let bytes = ip.octets();
        let numbers: Vec<u32> = match parts {
            1 => vec![ip.to_bits()],
            2 => vec![bytes[0].into(), ip.to_bits() & 0x00ff_ffff],
            3 => vec![bytes[0].into(), bytes[1].into(), ip.to_bits() & 0xffff],
            _ => bytes.map(u32::from).to_vec(),
        };
        let text: Vec<String> = numbers
            .iter()
            .zip(bases)
            .map(|(number, base)| match base % 4 {
                0 => format!("{number}"),
                1 => format!("0x{number:x}"),
                2 => format!("0{number:o}"),
                _ => format!("0X000{number:X}"),
            })
            .collect();
        let mut text = text.join(".");
        if wide {
            let widen =
                |c: char| if c.is_ascii_digit() { char::from_u32(0xff10 + (c as u32 - 48)).unwrap() } else { c };
            text = text.chars().map(widen).collect();
        }
        text + if dot { "." } else { "" }
    }

    fn address() -> impl Strategy<Value = Ipv4Addr> {
        prop_oneof![
            any::<u32>(),
            any::<u32>().prop_map(|x| x & 0x00ff_ffff | 0x7f00_0000),
            any::<u32>().prop_map(|x| x & 0x00ff_ffff | 0x0a00_0000),
            any::<u32>().prop_map(|x| x & 0xffff | 0xc0a8_0000),
            any::<u32>().prop_map(|x| x & 0xffff | 0xa9fe_0000),
            any::<u32>().prop_map(|x| x & 0x000f_ffff | 0xac10_0000),
        ]
        .prop_map(Ipv4Addr::from_bits)
    }

    /// What the standard library, which has its own table, calls inner.
    fn is_inner(ip: Ipv4Addr) -> bool {
        ip.is_private()
            || ip.is_loopback()
            || ip.is_link_local()
            || ip.is_multicast()
            || ip.is_unspecified()
            || ip.is_broadcast()
            || ip.is_documentation()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_spelling_of_an_inner_address_passes(
            ip in address(), parts in 1usize..5, bases in any::<[u8; 4]>(), wide in any::<bool>(), dot in any::<bool>(),
            rest in "(:[0-9]{1,4})?(/[a-z@:]{0,5})?", user in "([a-z]{1,3}@)?",
        ) {
            let text = format!("https://{user}{}{rest}", written(ip, parts, bases, wide, dot));
            if is_inner(ip) {
                prop_assert!(strict(&text).is_err(), "{text} is {ip}");
            }
            prop_assert_eq!(strict(&text).is_ok(), !is_blocked(ip.into()), "{} is {}", text, ip);
        }

        #[test]
        fn no_form_of_ipv6_carries_an_inner_address(ip in address(), high in any::<u16>()) {
            let [a, b] = [(ip.to_bits() >> 16) as u16, ip.to_bits() as u16];
            for carried in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, a, b),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 1, high, 0, 0, a, b),
                Ipv6Addr::new(0x2002, a, b, high, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, high, high, 0, 0, !a, !b),
                Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0xfd00 | high & 0xff, 0, 0, 0, 0, 0, a, b),
            ] {
                prop_assert!(is_blocked(carried.into()), "{carried}");
                prop_assert!(strict(&format!("https://[{carried}]/")).is_err(), "{carried}");
            }
        }

        /// Whatever text is accepted: HTTPS, and a host that is neither this machine nor an inner address.
        #[test]
        fn what_passes_is_public(text in prop_oneof![
            "\\PC{0,40}",
            "[ \t]?(https?|HTTPS|ftp)?:?[/\\\\]{0,3}([a-z0-9]{1,3}@)?[0-9a-fx.%\\[\\]:]{0,20}([/?#]\\PC{0,6})?",
            "https://[lLoOcCaAhHsStT.%]{6,12}",
            "https://localhost[.:/@\\\\a-z]{0,6}",
        ]) {
            if let Ok(url) = strict(&text) {
                prop_assert_eq!(url.scheme(), "https");
                match url.host().unwrap() {
                    Host::Domain(name) => {
                        prop_assert!(name.trim_end_matches('.').rsplit('.').next() != Some("localhost"), "{text}");
                        prop_assert!(name.parse::<IpAddr>().is_err(), "{text}");
                    }
                    Host::Ipv4(ip) => prop_assert!(!is_blocked(ip.into()) && !is_inner(ip), "{text}"),
                    Host::Ipv6(ip) => prop_assert!(!is_blocked(ip.into()), "{text}"),
                }
            }
            for shape in [UrlShape::HostRoot, UrlShape::NoQuery] {
                if let Ok(kept) = configured_url("url", &text, shape, UrlPolicy::Strict) {
                    prop_assert_eq!(&kept, text.trim());
                    prop_assert!(!kept.contains(['@', '?', '#', ';', '\\']) || shape == UrlShape::NoQuery && kept.contains('@'), "{kept}");
                    prop_assert!(strict(&kept).is_ok());
                }
            }
        }
    }
}
