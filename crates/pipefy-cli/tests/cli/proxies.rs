//! The proxies of the environment, before every endpoint.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::rig::{Rig, Run};

/// A proxy, or a Pipefy: answers each connection's first request and tells its head. `CONNECT` is refused.
struct Peer {
    address: SocketAddr,
    heads: mpsc::Receiver<String>,
}

impl Peer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, heads) = mpsc::channel();
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(head) = answer(stream) else { continue };
                if tell.send(head).is_err() {
                    return;
                }
            }
        });
        Self { address, heads }
    }

    /// What came so far.
    fn heads(&self) -> Vec<String> {
        self.heads.try_iter().collect()
    }
}

fn answer(mut stream: TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    reader.read_exact(&mut vec![0; length.unwrap_or(0)]).ok()?;
    let (status, body) = match head.starts_with("CONNECT ") {
        true => ("403 Forbidden", ""),
        false => ("200 OK", r#"{"data":{"organizations":[{"id":"1","name":"From afar"}]}}"#),
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).ok()?;
    Some(head)
}

fn organizations(base: &str, variables: &[(&'static str, String)]) -> Run {
    let rig = Rig::bare().with_token("canary-token").with("PIPEFY_BASE_URL", base);
    let rig = variables.iter().fold(rig, |rig, (name, value)| rig.with(name, value.clone()));
    rig.run(&["--allow-insecure-urls", "org", "list", "--json"])
}

#[test]
fn a_proxy_gets_what_goes_to_a_plain_endpoint() {
    let proxy = Peer::start();
    let at = format!("http://user:words@{}", proxy.address);
    // Nobody but the proxy knows this host.
    let run = organizations("http://pipefy.invalid", &[("http_proxy", at)]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("From afar"), "{run}");
    let heads = proxy.heads();
    assert!(!heads.is_empty());
    for head in heads {
        let lower = head.to_lowercase();
        assert!(head.starts_with("POST http://pipefy.invalid/graphql HTTP/1.1\r\n"), "{head}");
        assert!(lower.contains("\r\nproxy-authorization: basic dxnlcjp3b3jkcw==\r\n"), "{head}");
        assert!(lower.contains("\r\nauthorization: bearer canary-token\r\n"), "{head}");
    }
}

#[test]
fn through_a_tunnel_the_proxy_sees_no_bearer() {
    let proxy = Peer::start();
    let run = organizations("https://pipefy.invalid", &[("HTTPS_PROXY", format!("http://{}", proxy.address))]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.starts_with("Pipefy transport error: "), "{run}");
    assert!(!run.stderr.contains("canary-token"), "{run}");
    let heads = proxy.heads();
    assert!(!heads.is_empty());
    for head in heads {
        assert!(head.starts_with("CONNECT pipefy.invalid:443 "), "{head}");
        assert!(!head.contains("canary-token"), "{head}");
    }
}

#[test]
fn what_stays_on_this_machine_asks_no_proxy() {
    let (proxy, pipefy) = (Peer::start(), Peer::start());
    let at = format!("http://{}", proxy.address);
    for name in ["http_proxy", "all_proxy", "HTTPS_PROXY"] {
        let run = organizations(&format!("http://{}", pipefy.address), &[(name, at.clone())]);
        assert_eq!(run.code, Some(0), "{run}");
        assert!(pipefy.heads().iter().any(|head| head.starts_with("POST /graphql HTTP/1.1\r\n")), "{run}");
    }
    // A sandbox as well.
    let rig = Rig::new().with("HTTP_PROXY", at.clone()).with("http_proxy", at);
    assert!(!rig.pipe("Purchase Requests").is_empty());
    assert!(proxy.heads().is_empty());
}
