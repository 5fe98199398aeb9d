//! Clients whose id is the URL of a JSON document about themselves (draft-ietf-oauth-client-id-metadata-document). The document
//! is fetched at each sign-in. The sandbox calls nobody outside of this machine, so it must be on loopback, where `http` will do.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Failure;
use crate::json::text;
use crate::worker::target;

/// Longest wait for a document.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest answer, head and document.
const LONGEST: u64 = 16 * 1024;

/// Whether a client id is a URL, which no other kind of id is.
pub(crate) fn is_url(client_id: &str) -> bool {
    client_id.starts_with("https://") || client_id.starts_with("http://")
}

/// The document at a client id. Redirects are not followed.
pub(crate) async fn fetch(client_id: &str) -> Result<Value, Failure> {
    let refuse = |why: &str| Failure::bad("invalid_client", why);
    let address = address(client_id).map_err(|why| refuse(&why))?;
    let path = client_id.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)));
    let request =
        format!("GET {} HTTP/1.0\r\nhost: {address}\r\naccept: application/json\r\n\r\n", path.unwrap_or("/"));
    let answer = tokio::time::timeout(PATIENCE, ask(&address, request.as_bytes())).await;
    let answer =
        answer.ok().and_then(Result::ok).ok_or_else(|| refuse("The document at the client id cannot be had"))?;
    let whole = (answer.len() as u64) < LONGEST;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.split(' ').nth(1) != Some("200") || !whole {
        return Err(refuse("The client id must answer with status 200 and a document of less than 16 KiB"));
    }
    let document: Value =
        serde_json::from_str(body).map_err(|_| refuse("The document at the client id is not JSON"))?;
    if text(&document, "client_id") != client_id {
        return Err(refuse("The document at the client id must hold that very client_id"));
    }
    if document.get("client_secret").is_some() {
        return Err(refuse("A document that anybody can read must not hold a client_secret"));
    }
    Ok(document)
}

/// Host and port to ask; or what is wrong with the URL (section 3 of the draft, and loopback).
fn address(client_id: &str) -> Result<String, String> {
    let (address, uri) = target(client_id)?;
    let segments = |segment: &str| matches!(segment, "." | "..");
    let rest = client_id.split_once("://").map_or("", |(_, rest)| rest);
    if uri.path().len() < 2 || uri.path().split('/').any(segments) {
        return Err("a client id that is a URL must have a path without dot segments".to_owned());
    }
    if rest.contains(['#', '@']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a client id that is a URL must have no fragment and no user".to_owned());
    }
    Ok(address)
}

async fn ask(address: &str, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn only_documents_on_this_machine_have_an_address() {
        assert_eq!(address("http://127.0.0.1:81/client.json").unwrap(), "127.0.0.1:81");
        for url in [
            "https://client.example/client.json",
            "http://10.0.0.1/client.json",
            "http://127.0.0.1:81",
            "http://127.0.0.1:81/",
            "http://127.0.0.1:81/a/../b",
            "http://127.0.0.1:81/a#b",
            "http://user@127.0.0.1:81/a",
            "http://127.0.0.1:81@client.example/a",
        ] {
            assert!(address(url).is_err(), "{url}");
        }
    }
}
