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
