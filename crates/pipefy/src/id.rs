//! Ids: opaque text on our side.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An id of Pipefy: opaque, trimmed, never blank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "String")]
pub struct Id(String);

#[derive(Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Number(i64),
}

/// The text is blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a non-blank id")]
pub struct BlankId;

impl TryFrom<Wire> for Id {
    type Error = BlankId;
    fn try_from(wire: Wire) -> Result<Self, BlankId> {
        match wire {
            Wire::Text(text) => Self::new(text),
            Wire::Number(number) => Ok(Self(number.to_string())),
        }
    }
}

impl Id {
    /// Trims `text`.
    ///
    /// # Errors
    /// [`BlankId`] when nothing is left.
    pub fn new(text: impl AsRef<str>) -> Result<Self, BlankId> {
        let text = text.as_ref().trim();
        if text.is_empty() { Err(BlankId) } else { Ok(Self(text.to_owned())) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a "checked id" (`spec/tools-pipes-cards.md`, "Ids"): not zero, and not a hyphen followed by digits.
    pub fn is_checked(&self) -> bool {
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        match self.0.strip_prefix('-') {
            Some(rest) => !digits(rest),
            None => !(digits(&self.0) && self.0.bytes().all(|b| b == b'0')),
        }
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl AsRef<str> for Id {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Id {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }
    /// Text with the format `id`: a whole number is accepted as well and becomes its text.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "id" })
    }
}
