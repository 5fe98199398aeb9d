//! The OAuth clients of the sandbox's issuer, and how they prove who they are.

use super::Failure;
use crate::json::{text, texts_at};
use crate::oauth::{fingerprint, new_secret};
use crate::store::{By, Links, Store};
use aws_lc_rs::constant_time;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// Client id of the command line: public, signs in through a browser on loopback or through a device code.
pub const CLI_CLIENT_ID: &str = "pipefy-cli";

/// Client id for MCP clients that have no registration of their own: public, any loopback redirect.
pub const MCP_CLIENT_ID: &str = "sandbox-mcp-client";

/// Client id of a hosted MCP server that exchanges its callers' tokens (RFC 8693).
pub const MCP_SERVER_CLIENT_ID: &str = "sandbox-mcp-server";

/// Secret of [`MCP_SERVER_CLIENT_ID`]. Not a secret: it only opens a sandbox on loopback.
pub const MCP_SERVER_CLIENT_SECRET: &str = "sandbox-mcp-server-secret";

const REGISTERED: &str = "oidc_client";

/// What a client may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Signs people in.
    Public,
    /// Exchanges tokens.
    Exchanger,
    /// A service account: acts as itself.
    Account,
}

/// A client that is known and, where it has a secret, has shown it.
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) role: Role,
    /// The user that a service account is.
    pub(crate) user: Option<String>,
    /// Seconds that a service account's token lives.
    pub(crate) life: Option<i64>,
}

/// Whether a public client may be sent back to `uri`; `None` when there is no such client.
pub(crate) fn may_return(store: &Store, client_id: &str, uri: &str) -> Result<Option<bool>, Failure> {
    let loopback_path = loopback_path(uri);
    Ok(match client_id {
        CLI_CLIENT_ID => Some(loopback_path == Some("/callback")),
        MCP_CLIENT_ID => Some(loopback_path.is_some()),
        _ => store.get(REGISTERED, client_id)?.map(|client| {
            texts_at(&client, "redirect_uris").iter().any(|registered| {
                // The port of a loopback address is the client's choice at each sign-in (RFC 8252, 7.3).
                registered == uri || (loopback_path.is_some() && self::loopback_path(registered) == loopback_path)
            })
        }),
    })
}

/// What follows the port of an `http` URL on this machine; `/` when nothing does.
fn loopback_path(uri: &str) -> Option<&str> {
    let rest = uri.strip_prefix("http://")?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.parse::<u16>().is_ok() => (host, true),
        _ => (authority, false),
    };
    let known = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let plain = !path.contains(['#', '\\']) && path.bytes().all(|byte| byte.is_ascii_graphic());
    (known && plain && (port || !authority.contains(':') || host == authority)).then_some(path)
}

/// Registers a public client (RFC 7591).
pub(crate) fn register(store: &Store, asked: &Value) -> Result<Value, Failure> {
    keep(store, format!("registered-{}", new_secret()), asked)
}

/// Keeps what a public client says of itself, in place of what it has said before.
pub(crate) fn keep(store: &Store, id: String, asked: &Value) -> Result<Value, Failure> {
    let uris = texts_at(asked, "redirect_uris");
    let usable = |uri: &String| {
        let https = uri.starts_with("https://") && uri.len() > 8;
        let private = uri
            .split_once("://")
            .is_some_and(|(scheme, _)| !matches!(scheme, "http" | "https" | "javascript" | "data"));
        (https || private || loopback_path(uri).is_some())
            && uri.bytes().all(|byte| byte.is_ascii_graphic())
            && !uri.contains('#')
    };
    if uris.is_empty() || uris.len() > 20 || !uris.iter().all(usable) {
        return Err(Failure::bad(
            "invalid_redirect_uri",
            "Give 1 to 20 redirect_uris: https, a private scheme, or http on loopback",
        ));
    }
    let method = text(asked, "token_endpoint_auth_method");
    if !matches!(method, "" | "none") {
        return Err(Failure::bad(
            "invalid_client_metadata",
            "Only public clients can be registered: token_endpoint_auth_method none",
        ));
    }
    let client = json!({
        "client_id": id, "client_name": text(asked, "client_name"), "redirect_uris": uris, "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token", super::grants::DEVICE_CODE], "response_types": ["code"],
    });
    store.put(REGISTERED, &id, &Links::default(), &client)?;
    Ok(client)
}

/// The client behind a request to the token, device or revocation endpoint.
pub(crate) fn authenticate(store: &Store, authorization: &str, form: &super::Form) -> Result<Client, Failure> {
    let unknown = || Failure::client("Unknown client, or its secret is missing or wrong");
    let basic = match authorization.split_once(' ') {
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            let pair = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let (id, secret) = pair.as_deref().and_then(|pair| pair.split_once(':')).ok_or_else(unknown)?;
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            Some((decoded(id), decoded(secret)))
        }
        _ => None,
    };
    let (id, secret) = match basic {
        Some((id, secret)) => (id, Some(secret)),
        None => (form.get("client_id").ok_or_else(unknown)?.to_owned(), form.get("client_secret").map(str::to_owned)),
    };
    let same = |given: &str, wanted: &str| {
        constant_time::verify_slices_are_equal(fingerprint(given).as_bytes(), wanted.as_bytes()).is_ok()
    };
    let public = matches!(id.as_str(), CLI_CLIENT_ID | MCP_CLIENT_ID) || store.get(REGISTERED, &id)?.is_some();
    if public {
        return Ok(Client { id, role: Role::Public, user: None, life: None });
    }
    let secret = secret.ok_or_else(unknown)?;
    if id == MCP_SERVER_CLIENT_ID {
        let known = same(&secret, &fingerprint(MCP_SERVER_CLIENT_SECRET));
        return if known { Ok(Client { id, role: Role::Exchanger, user: None, life: None }) } else { Err(unknown()) };
    }
    let account = store.list("service_account", By::Group, &id)?.into_iter().next().map(|(_, account)| account);
    match account {
        Some(account) if same(&secret, text(&account, "secret_fingerprint")) => Ok(Client {
            id,
            role: Role::Account,
            user: Some(text(&account, "user_id").to_owned()),
            life: account.get("token_life").and_then(Value::as_i64),
        }),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn loopback_addresses_are_recognised_by_their_form() {
        for (uri, path) in [
            ("http://127.0.0.1:40123/callback", Some("/callback")),
            ("http://127.0.0.1/callback", Some("/callback")),
            ("http://localhost:1", Some("/")),
            ("http://[::1]:8090/oauth/callback", Some("/oauth/callback")),
            ("http://[::1]/x", Some("/x")),
            ("http://localhost:8090/callback?a=b", Some("/callback?a=b")),
            ("https://127.0.0.1/callback", None),
            ("http://127.0.0.1.evil.example/callback", None),
            ("http://user@127.0.0.1/callback", None),
            ("http://127.0.0.1:80@evil.example/callback", None),
            ("http://127.0.0.1:99999/callback", None),
            ("http://127.0.0.1:/callback", None),
            ("http://evil.example:80/callback", None),
            ("http://127.0.0.1\\@evil.example/callback", None),
            ("http://127.0.0.1/call back", None),
            ("http://127.0.0.1/callback#x", None),
        ] {
            assert_eq!(loopback_path(uri), path, "{uri}");
        }
    }
}
