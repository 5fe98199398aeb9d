//! What a command works with: the session of one identity, and the capabilities.

use pipefy::{Budget, PipefyClient, Query};
use pipefy_tools::journal::{FileJournal, Journal};
use pipefy_tools::{Approval, Call, ConfirmationKey, IdKind, Outcome, Policy, Tool, ToolError, Toolbox};
use serde_json::{Map, Value};

use crate::commands;
use crate::failure::Failure;
use crate::output::{Lines, Terminal};
use crate::prompt::{Agreed, Unconfirmed};
use crate::run::Target;

/// Whether what needs an approval has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approved {
    /// The person said yes, at the question or with `--yes`.
    Yes,
    /// Nobody was asked: what needs an approval is refused.
    No,
    /// What needs an approval is shown instead.
    Preview,
}

/// An open session.
pub(crate) struct Flow<'a> {
    pub(crate) target: &'a Target,
    pub(crate) toolbox: Toolbox,
    pub(crate) session: PipefyClient,
    pub(crate) policy: Policy,
    pub(crate) budget: Budget,
    /// Where writes with an idempotency key are put down, and whose they are; `None` without a data directory.
    pub(crate) journal: Option<(FileJournal, String)>,
    pub(crate) approved: Approved,
    /// Where a question is asked in the middle of the work.
    pub(crate) terminal: Terminal,
    /// The form of rows, when each may be written as soon as it is known.
    pub(crate) lines: Option<Lines>,
    /// Whether the output is for programs.
    pub(crate) json: bool,
}

impl Flow<'_> {
    /// Calls a capability, for a command that goes on with what it gives.
    ///
    /// # Errors
    /// Whatever it says; a missing credential as such.
    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Outcome, Failure> {
        // Marks are for whoever reads the result in the end.
        let policy = Policy { mark_untrusted: false, ..self.policy.clone() };
        self.call_under(&policy, tool, arguments).await
    }

    /// Calls a capability whose result is shown as it is: with text of outsiders marked, where that is set.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(crate) async fn show(&self, tool: &str, arguments: Map<String, Value>) -> Result<Outcome, Failure> {
        self.call_under(&self.policy, tool, arguments).await
    }

    async fn call_under(&self, policy: &Policy, tool: &str, arguments: Map<String, Value>) -> Result<Outcome, Failure> {
        let tool = capability(tool)?;
        let key;
        let approval = match self.approved {
            Approved::Yes => Approval::Person(&Agreed),
            Approved::No => Approval::Person(&Unconfirmed),
            Approved::Preview => {
                key = ConfirmationKey::random().map_err(|_| Failure::failed("The system gives no random numbers."))?;
                Approval::Token { key: &key, now: 0 }
            }
        };
        tool.call(arguments, self.as_call(policy, approval)).await.map_err(|error| self.failure(error))
    }

    fn as_call<'c>(&'c self, policy: &'c Policy, approval: Approval<'c>) -> Call<'c> {
        Call {
            toolbox: &self.toolbox,
            session: &self.session,
            policy,
            approval,
            ask: None,
            budget: self.budget.clone(),
            journal: self.journal.as_ref().map(|(entries, owner)| Journal { entries, owner }),
            room: None,
            options: Default::default(),
            op: None,
            unanswered: Default::default(),
        }
    }

    /// Refuses what this capability would refuse by the scope, for a command that reads without it.
    ///
    /// # Errors
    /// It is outside of the scope, or cannot be traced to it.
    pub(crate) async fn admit(&self, tool: &str, arguments: Map<String, Value>) -> Result<(), Failure> {
        let call = self.as_call(&self.policy, Approval::Person(&Unconfirmed));
        capability(tool)?.admit(arguments, &call).await.map_err(|error| self.failure(error))
    }

    /// Whether the scope, if there is one, holds a thing: what it does not hold is not to be read or named.
    ///
    /// # Errors
    /// It cannot be told.
    pub(crate) async fn holds(&self, kind: IdKind, id: &str) -> Result<bool, Failure> {
        let Some(scope) = &self.policy.scope else { return Ok(true) };
        let call = self.as_call(&self.policy, Approval::Person(&Unconfirmed));
        scope.admits(kind, id, &call).await.map_err(|error| self.failure(error))
    }

    /// Reads, without a capability.
    ///
    /// # Errors
    /// The API's failure; a missing credential as such.
    pub(crate) async fn read(&self, query: &Query) -> Result<Value, Failure> {
        let data = self.session.query(query, &self.budget).await;
        data.map(|data| data.value()).map_err(|error| self.failure(error.into()))
    }

    fn failure(&self, error: ToolError) -> Failure {
        match (error.source.as_deref(), self.target.auth_failure()) {
            (Some(pipefy::Error::Credential(_)), Some(failure)) => failure.clone().into(),
            // A session that cannot be renewed is something to set right first, like a missing one.
            (Some(pipefy::Error::Credential(_)), None) if self.target.is_stored_session() => {
                Failure::refused(error.message.clone())
            }
            _ => error.into(),
        }
    }
}

fn capability(name: &str) -> Result<&'static Tool, Failure> {
    let tool = commands::catalogue().get(name);
    tool.ok_or_else(|| Failure::failed(format!("There is no capability {name} in this build.")))
}
