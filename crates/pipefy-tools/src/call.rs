//! One call: who acts, what may be done, how long it may take. Given by value; nothing of it is ambient.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use pipefy::settings::PolicySettings;
use pipefy::{Budget, Data, GraphqlResponse, Mutation, PipefyClient, Query, Selections, Surface};
use serde_json::{Map, Value};

use crate::confirm::ConfirmationKey;
use crate::error::{Kind, ToolError};
use crate::journal::Journal;
use crate::op::Op;
use crate::plan;
use crate::scope::Scope;
use crate::trust;

/// What every call of a process shares. It knows no identity.
#[derive(Debug)]
pub struct Toolbox {
    /// Which program this is.
    pub surface: Surface,
    /// `PIPEFY_MCP_UNIFIED_ENVELOPE`.
    pub unified_envelope: bool,
    /// Time for looking up why a permission was denied.
    pub enrichment_timeout: Duration,
    /// Pipefy's base URL without trailing slash, for links shown to people.
    pub base_url: String,
    /// The name given to webhooks without one.
    pub default_webhook_name: String,
    /// Whether configured and user-given URLs may be http or internal.
    pub allow_insecure_urls: bool,
    /// The iPaaS; `None` when its tools are turned off.
    pub ipaas: Option<crate::ipaas::Gateway>,
    /// What of this machine a call may use; `None` on a hosted server.
    pub local: Option<Local>,
    /// Narrowed documents, kept.
    pub selections: Selections,
    /// Approvals that were used.
    pub spent: crate::confirm::Spent,
}

/// What of this machine a call may use. Only on a server or command line that serves the person at this machine.
#[derive(Debug, Default)]
pub struct Local {
    /// The variables that `$env` references may name, as they were at start-up, and `HOME`, which `~` in a path stands for.
    pub env: Map<String, Value>,
    /// Standard output, for what is written as it comes; `None` where that is not the caller's.
    pub out: Option<Arc<dyn Out>>,
    /// What files beside this process call the Pipefy that it works with, where its address is another one each time (an
    /// embedded sandbox); `None`: they call it by its base URL.
    pub place: Option<String>,
}

/// Takes a part of a result as soon as it is known.
pub trait Out: Send + Sync + std::fmt::Debug {
    /// Writes it; false when nobody reads any more.
    ///
    /// # Errors
    /// It cannot be written.
    fn put(&self, bytes: &[u8]) -> std::io::Result<bool>;
}

/// What this server permits, whoever calls. A request can narrow it, never widen it.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// No mutation at all.
    pub read_only: bool,
    /// Text of outsiders is marked in results, and marks are taken off arguments.
    pub mark_untrusted: bool,
    /// What destroys needs a person's yes beside the token.
    pub person_confirms: bool,
    /// What may be touched; `None`: all that the credential may.
    pub scope: Option<Arc<Scope>>,
}

impl Policy {
    /// As configured.
    pub fn of(settings: &PolicySettings) -> Self {
        Self {
            read_only: settings.read_only,
            mark_untrusted: settings.mark_untrusted,
            person_confirms: false,
            scope: Scope::of(&settings.scope),
        }
    }
}

/// How a destructive plan gets its approval.
pub enum Approval<'a> {
    /// By a token that a preview gave (`confirm`, `confirmation_token`); `now` is Unix seconds.
    Token {
        /// Signs and checks tokens.
        key: &'a ConfirmationKey,
        /// Unix seconds.
        now: i64,
    },
    /// By asking the person at the terminal.
    Person(&'a dyn Confirm),
}

/// Asks the person at the terminal.
pub trait Confirm: Send + Sync {
    /// Whether to `verb` `resource`. An error says why nobody could be asked.
    ///
    /// # Errors
    /// Declined, or nobody to ask.
    fn confirm(&self, verb: &str, resource: &str) -> Result<(), ToolError>;
}

/// Asks the person behind the client to fill in a form (MCP elicitation).
pub trait Ask: Send + Sync {
    /// Shows a form with this JSON schema.
    fn form<'a>(&'a self, message: &'a str, schema: Value) -> BoxFuture<'a, Result<Answer, AskError>>;
}

/// What the person did with the form.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Filled in.
    Accept(Map<String, Value>),
    /// Refused.
    Decline,
    /// Closed.
    Cancel,
}

/// No answer could be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The client cannot be asked after all: go on as without a form.
    Closed,
    /// It was asked and what came back is no answer.
    Failed(String),
    /// The form was handed over; the answer comes with the same call, made again.
    Later,
}

/// Options that many tools share, taken out of the arguments.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Show codes and correlation id in failures.
    pub debug: bool,
    /// Second step of a confirmation.
    pub confirm: bool,
    /// Its token.
    pub confirmation_token: Option<String>,
    /// Only these fields of each item.
    pub fields: Option<Vec<String>>,
    /// All pages, within `max_items` and `max_seconds`.
    pub all: bool,
    /// Items at most with `all`.
    pub max_items: Option<u64>,
    /// Seconds at most with `all`.
    pub max_seconds: Option<u64>,
    /// Show what would be sent and send nothing.
    pub dry_run: bool,
    /// Read the change back.
    pub verify: bool,
    /// The caller's own name for this change, so that it is made once.
    pub idempotency_key: Option<String>,
    /// The part of the result that is wanted, in a call that repeats another.
    pub rest: bool,
}

/// One call of one capability.
pub struct Call<'a> {
    /// What the process shares.
    pub toolbox: &'a Toolbox,
    /// The session of the identity that acts.
    pub session: &'a PipefyClient,
    /// What is permitted.
    pub policy: &'a Policy,
    /// How a destructive plan is approved.
    pub approval: Approval<'a>,
    /// Who can be asked to fill in a form, if anybody.
    pub ask: Option<&'a dyn Ask>,
    /// How long it may take, and who wants to know.
    pub budget: Budget,
    /// Where writes with an idempotency key are put down; `None` when nothing is kept.
    pub journal: Option<Journal<'a>>,
    /// Bytes of JSON that the result may have; `None` when there is no limit. Listings end in time.
    pub room: Option<usize>,
    /// The options of this call; filled by [`crate::Tool::call`].
    pub options: Options,
    /// The operation that is called; filled by [`crate::Tool::call`].
    pub op: Option<&'static Op>,
    /// The first root field that Pipefy answered null for, without an error; empty at the start.
    pub unanswered: OnceLock<String>,
}

impl Call<'_> {
    /// A text of outsiders as it may stand in a sentence of ours.
    pub(crate) fn quoted(&self, text: &str) -> String {
        if self.policy.mark_untrusted { trust::marked_text(text) } else { text.to_owned() }
    }

    /// Whether failures show codes and correlation id.
    pub fn debug(&self) -> bool {
        self.options.debug
    }

    /// Who can be asked to fill in a form. Nobody, unless the operation says that it [`asks`](Op::asks): adapters go by that.
    pub fn person(&self) -> Option<&dyn Ask> {
        self.ask.filter(|_| self.op.is_some_and(|op| op.asks))
    }

    /// What of this machine may be used.
    ///
    /// # Errors
    /// On a hosted server; `instead` says what to do there.
    pub fn local(&self, instead: &str) -> Result<&Local, ToolError> {
        self.toolbox.local.as_ref().ok_or_else(|| {
            ToolError::new(
                Kind::Refused,
                format!("Files and variables of this machine cannot be used on a hosted server. {instead}"),
            )
        })
    }

    /// Reads. With `fields`, the operation's own document is narrowed first.
    ///
    /// # Errors
    /// See [`PipefyClient::query`]; unknown names in `fields` are a value error.
    pub async fn query(&self, query: Query) -> Result<Data, pipefy::Error> {
        let query = self.narrowed(query)?;
        let data = self.session.query(&query, &self.budget).await?;
        if let Some(field) = data.unanswered() {
            _ = self.unanswered.set(field);
        }
        Ok(data)
    }

    /// Reads where partial data is a result: data and errors together.
    ///
    /// # Errors
    /// See [`PipefyClient::execute`].
    pub async fn query_partial(&self, query: Query) -> Result<GraphqlResponse, pipefy::Error> {
        let query = self.narrowed(query)?;
        self.session.execute(query.operation(), &self.budget).await
    }

    fn narrowed(&self, query: Query) -> Result<Query, pipefy::Error> {
        let (Some(fields), Some(selects)) = (&self.options.fields, self.op.and_then(|op| op.selects)) else {
            return Ok(query);
        };
        let same = std::ptr::eq(&*query.operation().document, &**selects.document);
        if !same {
            return Ok(query);
        }
        let document = self
            .toolbox
            .selections
            .narrow(selects.document, selects.item, fields)
            .map_err(|error| pipefy::Error::Value(format!("fields: {error}")))?;
        Ok(query.with_document(document))
    }
}

/// A call that has passed the gate: the only way to send a mutation.
pub struct Act<'c, 'a> {
    call: &'c Call<'a>,
    applied: AtomicBool,
}

impl<'a> std::ops::Deref for Act<'_, 'a> {
    type Target = Call<'a>;
    fn deref(&self) -> &Call<'a> {
        self.call
    }
}

impl<'c, 'a> Act<'c, 'a> {
    pub(crate) fn after_the_gate(call: &'c Call<'a>) -> Self {
        Self { call, applied: AtomicBool::new(false) }
    }

    /// Whether a mutation of this call was applied, or may have been.
    pub(crate) fn applied(&self) -> bool {
        self.applied.load(Ordering::Relaxed)
    }

    fn seen<T>(&self, answer: Result<T, pipefy::Error>) -> Result<T, pipefy::Error> {
        if answer.as_ref().map_or_else(pipefy::Error::may_have_been_applied, |_| true) {
            self.applied.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Sends a mutation, once. The answer must prove the change.
    ///
    /// # Errors
    /// See [`PipefyClient::mutate`]. A variable that is still unknown is refused before anything is sent.
    pub async fn send(&self, mutation: &Mutation) -> Result<Data, pipefy::Error> {
        self.check(mutation)?;
        self.seen(self.call.session.mutate(mutation, &self.call.budget).await)
    }

    /// Sends a mutation, once; the caller judges the payload itself.
    ///
    /// # Errors
    /// See [`PipefyClient::execute_query`].
    pub async fn send_unproven(&self, mutation: &Mutation) -> Result<Data, pipefy::Error> {
        self.check(mutation)?;
        self.seen(self.call.session.execute_query(mutation.operation(), &self.call.budget).await)
    }

    fn check(&self, mutation: &Mutation) -> Result<(), pipefy::Error> {
        // Second lock on the same door: whatever a capability does, a read-only server sends no mutation.
        if self.call.policy.read_only {
            return Err(pipefy::Error::Value("only reads are allowed here (read_only); nothing was sent".to_owned()));
        }
        if mutation.operation().variables.values().any(plan::has_unknown) {
            return Err(pipefy::Error::Value(
                "a value that an earlier step should have given is missing; nothing was sent".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Shared handle to the process-wide part.
pub type SharedToolbox = Arc<Toolbox>;
