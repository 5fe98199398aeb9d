//! Ways in for the fuzz targets in `fuzz/`, which reach nothing private otherwise. No part of the API.

use crate::http::bearer::Owner;
use crate::http::message::{build, read};
use crate::http::seal::Seal;

/// A caller: client, issuer and subject.
pub type Caller<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Seals session ids with a key of its own.
#[derive(Debug)]
pub struct Ids(Seal);

impl Default for Ids {
    fn default() -> Self {
        Self::new()
    }
}

impl Ids {
    /// With a random key.
    pub fn new() -> Self {
        Self(Seal::new(None))
    }

    /// What the caller gets for an id.
    pub fn seal(&self, id: &str, (client, issuer, subject): Caller<'_>) -> String {
        self.0.seal(id, &Owner::caller(client, issuer, subject))
    }

    /// The id inside, if it was sealed for this caller.
    pub fn open(&self, sealed: &str, (client, issuer, subject): Caller<'_>) -> Option<String> {
        self.0.open(sealed, &Owner::caller(client, issuer, subject)).map(str::to_owned)
    }
}

/// Reads one message, over HTTP and from a line.
pub fn message(bytes: &[u8]) {
    if let Ok(message) = read(bytes) {
        let _built = build(bytes, &message);
    }
    let _line = crate::stdio::read(bytes);
}
