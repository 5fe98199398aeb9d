//! Writes that are done once, however often they are called: a caller gives a write an `idempotency_key` of its own, and the
//! same call with the same key gives what came of it the first time.
//!
//! An entry is made before anything is sent, so that a call whose end nobody saw is known to have begun. It holds digests and
//! how far the call came; the outcome in it is sealed with a key made from the caller's own, which is kept nowhere. No argument
//! is in it, and no outcome of tools that give secrets.

mod file;
#[cfg(test)]
pub(crate) mod tests;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use pipefy::settings::AuthSettings;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::confirm::{digest_of, digest_of_text};
use crate::error::{Kind, ToolError};
use crate::op::Op;
use crate::outcome::Outcome;

pub use file::FileJournal;

/// Seconds that an entry is kept.
pub const AGE: i64 = 86_400;
/// Longest key, in bytes.
const LONGEST_KEY: usize = 200;
/// Most bytes of an outcome that are kept.
const LARGEST: usize = 65_536;
/// Tools whose result is a secret, or gives access to something: their outcome is not kept.
const SECRET: [&str; 4] = [
    "create_attachment_presigned_url",
    "create_ipaas_connection",
    "create_service_account",
    "get_ipaas_connection_auth_url",
];

/// The journal cannot be used; the text says why and holds no path, address or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal of idempotency keys cannot be used: {}", self.0)
    }
}

impl std::error::Error for Unusable {}

/// Where entries are kept, each for [`AGE`] seconds. Ids are digests, entries short texts.
pub trait Entries: Send + Sync {
    /// The entry of this id.
    ///
    /// # Errors
    /// [`Unusable`]: whether there is one cannot be said.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<String>, Unusable>>;

    /// Makes an entry, lasting; `false` when there is one already.
    ///
    /// # Errors
    /// [`Unusable`]: it was not made.
    fn begin<'a>(&'a self, id: &'a str, entry: &'a str) -> BoxFuture<'a, Result<bool, Unusable>>;

    /// Replaces an entry, or with `None` takes it out.
    ///
    /// # Errors
    /// [`Unusable`]: the old one may still be there.
    fn end<'a>(&'a self, id: &'a str, entry: Option<&'a str>) -> BoxFuture<'a, Result<(), Unusable>>;
}

/// The journal of one identity.
#[derive(Clone, Copy)]
pub struct Journal<'a> {
    /// Where its entries are.
    pub entries: &'a dyn Entries,
    /// Whose keys they are, see [`owner`]: the same key of somebody else is another key.
    pub owner: &'a str,
}

/// A digest of the identity that a command or a local server acts as: the API's address with the token, the service account
/// or the stored login. `token` is one given on the command line.
pub fn owner(settings: &AuthSettings, token: Option<&str>) -> String {
    let token = token.or_else(|| settings.static_token.as_ref().map(|token| token.expose_secret()));
    let who = match (token, &settings.service_account_client_id) {
        (Some(token), _) => json!(["token", digest_of_text(token)]),
        (None, Some(client)) => json!(["service account", client]),
        (None, None) => json!(["login", settings.auth_url, settings.auth_client_id, settings.account]),
    };
    digest_of(&json!([settings.base_url, who]))
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It runs, or nobody saw its end.
    Begun,
    /// It did what it should.
    Done,
    /// It failed after a part of it was done.
    Failed,
    /// It failed, and what was sent may have been applied.
    Unknown,
}

impl State {
    const ALL: [Self; 4] = [Self::Begun, Self::Done, Self::Failed, Self::Unknown];

    const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A write with an idempotency key.
pub(crate) struct Keyed<'c> {
    entries: &'c dyn Entries,
    id: String,
    /// Digest of tool and arguments, salted with the key.
    call: String,
    seal: [u8; 32],
    op: &'static Op,
}

impl<'c> Keyed<'c> {
    /// The key of this call, if it has one; `arguments` are checked ones without shared options.
    ///
    /// # Errors
    /// The key cannot be one, or nothing is kept here.
    pub(crate) fn of(
        op: &'static Op,
        arguments: &Map<String, Value>,
        call: &'c Call<'_>,
    ) -> Result<Option<Self>, ToolError> {
        let Some(key) = call.options.idempotency_key.as_deref().filter(|_| !call.options.dry_run) else {
            return Ok(None);
        };
        if key.trim().is_empty() || key.len() > LONGEST_KEY {
            return Err(ToolError::invalid(format!(
                "idempotency_key must have 1 to {LONGEST_KEY} bytes and not be blank; a fresh UUID for each change is good."
            )));
        }
        let Some(Journal { entries, owner }) = call.journal else {
            return Err(ToolError::new(
                Kind::Refused,
                "This server keeps no journal, so it cannot promise what idempotency_key asks for. Nothing was sent. Leave it \
                 out and read back before repeating; the operator of a hosted server can set PIPEFY_MCP_SESSION_STORE_URL.",
            )
            .code("NO_JOURNAL"));
        };
        let mut seal = [0; 32];
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), owner.as_bytes());
        seal.copy_from_slice(tag.as_ref().get(..32).unwrap_or(&[0; 32]));
        Ok(Some(Self {
            entries,
            id: digest_of(&json!([owner, key])),
            call: digest_of(&json!([key, op.name, arguments])),
            seal,
            op,
        }))
    }

    /// What came of the first call with this key; `None` when this is the first.
    ///
    /// # Errors
    /// The first call's failure, another call's key, or the journal cannot be read.
    pub(crate) async fn recorded(&self) -> Result<Option<Outcome>, ToolError> {
        match self.entries.read(&self.id).await.map_err(unusable)? {
            Some(entry) => self.told(&entry).map(Some),
            None => Ok(None),
        }
    }

    /// Puts down that the call begins. `Some` when another was faster.
    ///
    /// # Errors
    /// As [`Self::recorded`]; nothing must be sent then.
    pub(crate) async fn begin(&self) -> Result<Option<Outcome>, ToolError> {
        if self.entries.begin(&self.id, &self.entry(State::Begun, None)).await.map_err(unusable)? {
            return Ok(None);
        }
        self.recorded().await
    }

    /// Puts down how the call ended. `applied`: something of it may have been done. Where this fails, the call stays begun, and
    /// is told as such.
    pub(crate) async fn end(&self, result: &Result<Outcome, ToolError>, applied: bool) {
        let perhaps = |error: &ToolError| {
            // What goes to another system is not counted.
            error.details.get("may_have_been_applied") == Some(&Value::Bool(true)) || self.op.open_world
        };
        let ended = match result {
            Ok(outcome) => self.entries.end(&self.id, Some(&self.entry(State::Done, self.kept(outcome)))).await,
            Err(error) => {
                let state = if perhaps(error) { State::Unknown } else { State::Failed };
                let entry = (applied || state == State::Unknown).then(|| self.entry(state, Some(kept_error(error))));
                // Nothing was done: the key may be used again.
                self.entries.end(&self.id, entry.as_deref()).await
            }
        };
        if let Err(error) = ended {
            tracing::error!(tool = self.op.name, %error, "the outcome of a write could not be put down");
        }
    }

    /// The outcome as it is kept; `None` when it is a secret or too large.
    fn kept(&self, outcome: &Outcome) -> Option<Value> {
        if SECRET.contains(&self.op.name) {
            return None;
        }
        let Outcome { body, message, extra, whole, parsed, .. } = outcome;
        let kept = json!({
            "body": body.value(), "message": message, "extra": extra, "whole": whole, "parsed": parsed,
        });
        (crate::fit::size(&kept) <= LARGEST).then_some(kept)
    }

    fn entry(&self, state: State, content: Option<Value>) -> String {
        let sealed = content.and_then(|content| self.sealed(&content));
        let at = jiff::Timestamp::now().as_second();
        json!({ "state": state.name(), "call": self.call, "at": at, "sealed": sealed }).to_string()
    }

    fn sealed(&self, content: &Value) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        // The system's own source, as for confirmation keys.
        getrandom::fill(&mut nonce).ok()?;
        let mut bytes = content.to_string().into_bytes();
        self.cipher()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(self.call.as_bytes()), &mut bytes)
            .ok()?;
        Some(STANDARD.encode([nonce.as_slice(), &bytes].concat()))
    }

    fn opened(&self, sealed: &str) -> Option<Value> {
        let bytes = STANDARD.decode(sealed).ok()?;
        let (nonce, content) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = content.to_vec();
        let plain = self.cipher()?.open_in_place(nonce, Aad::from(self.call.as_bytes()), &mut content).ok()?;
        serde_json::from_slice(plain).ok()
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.seal).ok()?))
    }

    /// What an entry tells the caller.
    fn told(&self, entry: &str) -> Result<Outcome, ToolError> {
        let entry: Value = serde_json::from_str(entry).unwrap_or_default();
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let at = entry.get("at").and_then(Value::as_i64).and_then(|at| jiff::Timestamp::from_second(at).ok());
        let at = at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string());
        if text("call") != Some(&self.call) {
            return Err(ToolError::new(
                Kind::Input,
                format!(
                    "This idempotency_key was used at {at} for another call (other tool or other arguments). Nothing was sent. \
                     Use a new key for another change."
                ),
            )
            .code("IDEMPOTENCY_KEY_REUSED"));
        }
        let content = text("sealed").and_then(|sealed| self.opened(sealed));
        let state = State::ALL.into_iter().find(|state| Some(state.name()) == text("state")).unwrap_or(State::Begun);
        match (state, content) {
            (State::Done, content) => Ok(self.again(content, &at)),
            (State::Failed, Some(error)) => {
                let error = recorded_error(&error);
                let message =
                    format!("{} This is what came of the first call, at {at}; nothing was sent now.", error.message);
                Err(error.message(message).detail("replayed", true))
            }
            (state, content) => {
                let why = match (state, content.as_ref().and_then(|error| error.get("message")).and_then(Value::as_str))
                {
                    (State::Begun, _) => "still runs, or ended without anybody seeing its end".to_owned(),
                    (_, Some(message)) => format!("ended unclear ({message})"),
                    _ => "ended unclear".to_owned(),
                };
                Err(ToolError::new(
                    Kind::Transport,
                    format!(
                        "The first call with this idempotency_key, at {at}, {why}: its change may have been applied. Nothing was \
                         sent now. Read the state back; to make the change after all, use a new key."
                    ),
                )
                .code("OUTCOME_UNKNOWN")
                .detail("may_have_been_applied", true))
            }
        }
    }

    /// The outcome of the first call, once more.
    fn again(&self, content: Option<Value>, at: &str) -> Outcome {
        let replayed = json!({ "replayed": true, "first_call": at });
        let Some(content) = content else {
            let mut payload = Map::new();
            payload.insert("success".to_owned(), true.into());
            payload.insert(
                "message".to_owned(),
                format!("The first call with this key, at {at}, made the change; its result was not kept. Nothing was sent now.")
                    .into(),
            );
            let mut outcome = Outcome::whole(payload).extra("idempotency", replayed);
            outcome.wrote = true;
            return outcome;
        };
        let get = |key: &str| content.get(key).cloned().unwrap_or_default();
        let mut outcome = Outcome::new(get("body")).extra("idempotency", replayed);
        outcome.message = get("message").as_str().map(str::to_owned);
        if let Value::Object(extra) = get("extra") {
            outcome.extra.extend(extra);
        }
        outcome.whole = get("whole") == true;
        outcome.parsed = get("parsed") == true;
        outcome.wrote = true;
        outcome
    }
}

fn unusable(error: Unusable) -> ToolError {
    ToolError::new(
        Kind::Refused,
        format!("Nothing was sent, because {error}. Try again later, or leave idempotency_key out and read back before repeating."),
    )
    .code("JOURNAL_UNAVAILABLE")
}

fn kept_error(error: &ToolError) -> Value {
    json!({ "message": error.message, "code": error.code, "details": error.details, "extra": error.extra })
}

fn recorded_error(kept: &Value) -> ToolError {
    let map = |key: &str| kept.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut error = ToolError::api(kept.get("message").and_then(Value::as_str).unwrap_or_default());
    error.code = kept.get("code").and_then(Value::as_str).map(str::to_owned);
    (error.details, error.extra) = (map("details"), map("extra"));
    error
}
