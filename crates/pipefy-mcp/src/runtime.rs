//! What a server process is made of, put together once at start-up. It knows how to find a caller's identity and holds
//! none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use pipefy::settings::{AuthSettings, Environment, IPAAS_CONNECTION_PREFIX, Profile, ServerSettings, SettingsError};
use pipefy::{Deployment, EngineError, PipefyClient, PipefyEngine, Selections, Surface};
use pipefy_auth::inbound::InboundError;
use pipefy_auth::{AuthError, ExchangeError};
use pipefy_sandbox::SandboxError;
use pipefy_tools::journal::{Entries, FileJournal, owner};
use pipefy_tools::{Class, ConfirmationKey, Local, Policy, Toolbox, digest_of, digest_of_text};
use rmcp::model::ProtocolVersion;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::audit::{Audit, AuditError};
use crate::call_log::CallLog;
use crate::catalogue::{BadNarrowing, Entry, Exposure, Narrowed, Narrowing, Selection, UnknownToolset};
use crate::elicit::Answered;
use crate::handler::Handler;
use crate::hosted;
use crate::http::{Called, Inbound, LoneCall, Served, SessionStore};
use crate::identity::{Identity, IdentityError, Principal, StartupIdentity};
use crate::metrics::Metrics;
use crate::stderr::stderr_lines;
use crate::traces::{Traces, TracesError};
use crate::watch::Watchers;

/// Tool calls that run at a time, over all callers; further ones wait.
pub const CALLS_AT_A_TIME: usize = 256;

/// How long one tool call may take. Longer than the slowest tool (an iPaaS run: five hops of 30 s and one of 120 s).
pub const CALL_LIMIT: Duration = Duration::from_secs(300);

/// Why the server does not start. Says what to do; never holds a value of a setting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Flags, environment, `.env` or `config.toml` hold something unusable.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A toolset that does not exist.
    #[error("{0}; set with --toolsets or PIPEFY_MCP_TOOLSETS")]
    Toolset(#[from] UnknownToolset),
    /// No credential for the local profile.
    #[error(transparent)]
    Credential(#[from] AuthError),
    /// The remote profile lacks its own URL.
    #[error(
        "the remote profile requires a resource server: set PIPEFY_MCP_RS_RESOURCE_SERVER_URL to this server's public URL, \
         such as https://host/mcp"
    )]
    NoResourceServer,
    /// The remote profile does not know whose bearers to accept.
    #[error(
        "the remote profile requires an inbound issuer: set PIPEFY_JWT_ISSUER_URL, or allow the issuer of the stored session \
         (PIPEFY_DISABLE_STORED_SESSION=false)"
    )]
    NoIssuer,
    /// Inbound bearers cannot be judged with these settings.
    #[error(transparent)]
    Inbound(#[from] InboundError),
    /// Bearers cannot be exchanged with these settings.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The engine could not be built.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Traces cannot be sent with these settings.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The sandbox does not start.
    #[error("the sandbox does not start: {0}")]
    Sandbox(#[from] SandboxError),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes; a key for confirmations cannot be made")]
    NoRandom,
}

impl From<getrandom::Error> for StartError {
    fn from(_: getrandom::Error) -> Self {
        Self::NoRandom
    }
}

impl StartError {
    /// The exit code: 2 for something written wrongly, 1 for something missing or failing.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Toolset(_) | Self::Inbound(_) | Self::Exchange(_) => 2,
            _ => 1,
        }
    }
}

/// Where the keys of confirmation tokens come from.
#[derive(Debug)]
struct ConfirmationKeys {
    /// For callers without a bearer: dies with the process.
    process: ConfirmationKey,
    /// Set by the operator: tokens are bound to the person and survive a refreshed bearer and another replica.
    secret: Option<SecretString>,
}

impl ConfirmationKeys {
    fn of(&self, request: Option<&Parts>) -> ConfirmationKey {
        let principal = request.and_then(Principal::of);
        match (&self.secret, principal) {
            (Some(secret), principal) => {
                let part = |text: Option<&String>| text.cloned().unwrap_or_default();
                ConfirmationKey::from_secret(
                    secret.expose_secret().as_bytes(),
                    principal.map_or("", |p| &p.client_id),
                    &part(principal.and_then(|p| p.issuer.as_ref())),
                    &part(principal.and_then(|p| p.subject.as_ref())),
                )
            }
            (None, Some(principal)) => ConfirmationKey::from_bearer(principal.bearer.expose_secret()),
            (None, None) => self.process.clone(),
        }
    }
}

/// Where a journal is kept.
enum Kept {
    /// In a file of this machine, for the identity of the process.
    Here(FileJournal, String),
    /// In what replicas share, for the caller of each request.
    Shared(SessionStore),
}

/// One server process.
pub struct McpRuntime {
    engine: PipefyEngine,
    identity: Arc<dyn Identity>,
    inbound: Inbound,
    toolbox: Toolbox,
    policy: Policy,
    exposure: Arc<Exposure>,
    /// What requests see that narrow themselves.
    narrowed: Narrowed,
    keys: ConfirmationKeys,
    /// Forms that were answered in a round of their own.
    answered: Answered,
    /// A person confirms what destroys once text of outsiders was read.
    confirm_after_untrusted: bool,
    /// Where writes with an idempotency key are put down.
    journal: Option<Kept>,
    running: Semaphore,
    result_budget: usize,
    watchers: Watchers,
}

impl std::fmt::Debug for McpRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpRuntime").field("tools", &self.exposure.listed().len()).finish_non_exhaustive()
    }
}

impl McpRuntime {
    /// Puts a server together for the configured profile. No network; the local profile may read the keychain.
    ///
    /// # Errors
    /// [`StartError`]. Toolset names are checked first, then what the profile needs.
    pub fn for_profile(settings: &ServerSettings, environment: &Environment) -> Result<Self, StartError> {
        let selection = Selection::parse(settings.mcp.toolsets.as_deref())?;
        let (inbound, identity): (Inbound, Arc<dyn Identity>) = match settings.mcp.profile {
            Profile::Local => {
                let credential = pipefy_auth::resolve_credential(&settings.auth, None)?.credential();
                (Inbound::Open, Arc::new(StartupIdentity::new(credential)))
            }
            Profile::Remote => hosted::halves(settings)?,
        };
        let journal = match (settings.mcp.profile, &settings.auth.data_dir) {
            (Profile::Local, Some(data)) => {
                Some(Kept::Here(FileJournal::in_directory(data), owner(&settings.auth, None)))
            }
            _ => None,
        };
        Ok(Self { inbound, journal, ..Self::with_identity(settings, environment, identity, &selection)? })
    }

    /// Puts a server together around an identity of the embedder's own. Whom the HTTP edge lets in is the embedder's choice as
    /// well, see [`crate::http::bind`].
    ///
    /// # Errors
    /// The engine cannot be built, or the audit log cannot be opened.
    pub fn with_identity(
        settings: &ServerSettings,
        environment: &Environment,
        identity: Arc<dyn Identity>,
        selection: &Selection,
    ) -> Result<Self, StartError> {
        let hosted = settings.mcp.profile == Profile::Remote;
        let deployment = if hosted { Deployment::Hosted } else { Deployment::Local };
        let read_only = settings.policy.read_only;
        Ok(Self {
            engine: PipefyEngine::build(&settings.pipefy, Surface::Mcp, Some(deployment))?,
            identity,
            inbound: Inbound::Open,
            toolbox: Toolbox {
                surface: Surface::Mcp,
                unified_envelope: settings.mcp.unified_envelope,
                enrichment_timeout: settings.pipefy.permission_denied_enrichment_timeout,
                base_url: settings.pipefy.base_url().trim_end_matches('/').to_owned(),
                default_webhook_name: settings.pipefy.default_webhook_name.clone(),
                allow_insecure_urls: settings.pipefy.allow_insecure_urls,
                ipaas: pipefy_tools::IpaasGateway::new(&settings.ipaas),
                local: (!hosted).then(|| Local {
                    env: environment
                        .variables_with_prefix(IPAAS_CONNECTION_PREFIX)
                        .chain(environment.home().and_then(|home| home.to_str()).map(|home| ("HOME", home)))
                        .map(|(name, value)| (name.to_owned(), value.into()))
                        .collect(),
                    out: None,
                    place: None,
                }),
                selections: Selections::default(),
                spent: Default::default(),
            },
            policy: Policy::of(&settings.policy),
            exposure: Arc::new({
                let exposure = Exposure::new(selection, hosted, read_only);
                match settings.mcp.list_output_schemas {
                    true => exposure.with_output_schemas(settings.mcp.unified_envelope),
                    false => exposure,
                }
            }),
            narrowed: Narrowed::default(),
            keys: ConfirmationKeys {
                process: ConfirmationKey::random()?,
                secret: settings.mcp.confirmation_secret.clone(),
            },
            answered: Answered::default(),
            confirm_after_untrusted: settings.policy.confirm_after_untrusted,
            journal: None,
            running: Semaphore::new(CALLS_AT_A_TIME),
            result_budget: settings.mcp.result_budget.unwrap_or(0),
            watchers: Watchers {
                call_log: hosted.then(|| CallLog::new(stderr_lines())),
                audit: Audit::open(&settings.operations)?.map(Arc::new),
                ..Watchers::default()
            },
        })
    }

    /// Logs each tool call here instead: a hosted server logs to standard error, a local one not at all.
    #[must_use]
    pub fn with_call_log(mut self, log: Option<CallLog>) -> Self {
        self.watchers.call_log = log;
        self
    }

    /// Whom the HTTP edge lets in: as the profile says, or everybody when the identity is the embedder's own.
    pub fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// Counts each tool call, and each request to Pipefy, here.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Option<Arc<Metrics>>) -> Self {
        self.watchers.metrics = metrics;
        self
    }

    /// Shares with other replicas which forms were answered and, when hosted, what came of writes with an idempotency key.
    #[must_use]
    pub fn with_store(mut self, store: Option<SessionStore>) -> Self {
        self.journal = self.journal.or_else(|| store.clone().map(Kept::Shared));
        self.answered.shared(store);
        self
    }

    /// Makes a span of each tool call, and of each request to Pipefy.
    #[must_use]
    pub fn with_traces(mut self, traces: Option<Traces>) -> Self {
        self.watchers.traces = traces;
        self
    }

    /// What is called is an embedded sandbox: journals know it by this name ([`pipefy_sandbox::Attached::name`]), since its address
    /// is another one each time.
    #[must_use]
    pub fn on_sandbox(mut self, name: Option<String>, settings: &ServerSettings) -> Self {
        let Some(name) = name else { return self };
        if let Some(Kept::Here(_, known)) = &mut self.journal {
            *known = owner(&AuthSettings { base_url: name.clone(), ..settings.auth.clone() }, None);
        }
        if let Some(local) = &mut self.toolbox.local {
            local.place = Some(name);
        }
        self
    }

    /// Where spans go, when that is configured.
    pub fn traces(&self) -> Option<&Traces> {
        self.watchers.traces.as_ref()
    }

    /// Where each tool call is put down, when that is configured.
    pub fn audit(&self) -> Option<&Arc<Audit>> {
        self.watchers.audit.as_ref()
    }

    /// A session for one message, bound to the identity of the request that carried it. Never kept.
    ///
    /// # Errors
    /// [`IdentityError`]; a call without an identity is impossible.
    pub async fn session_for_request(&self, request: Option<&Parts>) -> Result<PipefyClient, IdentityError> {
        Ok(self.engine.session(self.identity.resolve(request).await?))
    }

    /// The tools this request sees: the server's, or what its headers leave of them.
    ///
    /// # Errors
    /// A header that narrows is not understood. The HTTP edge has refused such a request already.
    pub fn exposure(&self, request: Option<&Parts>) -> Result<Arc<Exposure>, BadNarrowing> {
        let narrowing = match request {
            Some(parts) => Narrowing::of(&parts.headers)?,
            None => Narrowing::default(),
        };
        Ok(if narrowing.is_none() { self.exposure.clone() } else { self.narrowed.of(&self.exposure, narrowing) })
    }

    /// The tools the server was started with.
    pub fn whole_exposure(&self) -> &Arc<Exposure> {
        &self.exposure
    }

    /// The scope pins, for people; `none` without any.
    pub fn described_scope(&self) -> String {
        self.policy.scope.as_ref().map_or_else(|| "none".to_owned(), |scope| scope.described())
    }

    /// Whether this tool never changes anything; `false` for tools that do not exist.
    pub fn only_reads(&self, tool: &str) -> bool {
        match self.exposure.get(tool) {
            Some(Entry::Tool(tool)) => tool.op().class == Class::Read,
            Some(Entry::Meta(meta)) => meta != crate::catalogue::MetaTool::ExecuteTool,
            None => false,
        }
    }

    /// Whether this tool may ask the caller to fill in a form.
    pub fn may_ask(&self, tool: &str) -> bool {
        match self.exposure.get(tool) {
            Some(Entry::Tool(tool)) => tool.op().asks || (tool.op().confirms && self.confirm_after_untrusted),
            Some(Entry::Meta(meta)) => meta == crate::catalogue::MetaTool::ExecuteTool,
            None => false,
        }
    }

    pub(crate) fn policy(&self, request: Option<&Parts>) -> Policy {
        let mut policy = self.policy.clone();
        // What is not understood restricts: a safety switch is never taken for off.
        policy.read_only |=
            request.is_some_and(|parts| !Narrowing::of(&parts.headers).is_ok_and(|narrowing| !narrowing.read_only()));
        policy
    }

    /// The key of callers without a bearer.
    pub(crate) fn process_key(&self) -> &ConfirmationKey {
        &self.keys.process
    }

    pub(crate) fn confirmation_key(&self, request: Option<&Parts>) -> ConfirmationKey {
        self.keys.of(request)
    }

    pub(crate) fn confirms_after_untrusted(&self) -> bool {
        self.confirm_after_untrusted
    }

    /// The journal of this message's caller: where it is, and a digest of who they are.
    pub(crate) fn journal(&self, request: Option<&Parts>) -> Option<(&dyn Entries, String)> {
        let caller = request.and_then(Principal::of).map(|principal| {
            // Without a subject, a bearer is all there is to tell people apart by.
            let who = match &principal.subject {
                Some(subject) => json!({ "subject": subject }),
                None => json!({ "bearer": digest_of_text(principal.bearer.expose_secret()) }),
            };
            digest_of(&json!([self.toolbox.base_url, principal.issuer, principal.client_id, who]))
        });
        let (entries, owner): (&dyn Entries, Option<String>) = match self.journal.as_ref()? {
            Kept::Here(file, owner) => (file, caller.or_else(|| Some(owner.clone()))),
            Kept::Shared(store) => (store, caller),
        };
        Some((entries, owner?))
    }

    pub(crate) fn answered(&self) -> &Answered {
        &self.answered
    }

    pub(crate) fn call_log(&self) -> Option<&CallLog> {
        self.watchers.call_log.as_ref()
    }

    pub(crate) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    pub(crate) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    pub(crate) fn running(&self) -> &Semaphore {
        &self.running
    }

    pub(crate) fn result_budget(&self) -> usize {
        self.result_budget
    }
}

impl Served for Arc<McpRuntime> {
    type Handler = Handler;

    fn handler(&self) -> Handler {
        Handler::new(self.clone())
    }

    fn is_read(&self, tool: &str) -> bool {
        self.only_reads(tool)
    }

    fn asks(&self, tool: &str) -> bool {
        self.may_ask(tool)
    }

    const CALLS: bool = true;

    fn call(&self, call: LoneCall<'_>) -> impl Future<Output = Called> + Send {
        self.lone_call(call)
    }

    fn tools(&self, request: &Parts, version: &ProtocolVersion) -> Option<Bytes> {
        self.prepared_list(request, version)
    }

    fn admits(&self, headers: &HeaderMap) -> Result<(), String> {
        Narrowing::of(headers).map(drop).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::catalogue::READ_ONLY_HEADER;
    use pipefy::settings::{Overrides, load_server};
    use pipefy_tools::{mint, verify};
    use serde_json::Map;

    fn settings(variables: &[(&str, &str)]) -> ServerSettings {
        let mut environment = Environment::empty().with_variable("PIPEFY_DISABLE_STORED_SESSION", "true");
        for (name, value) in variables {
            environment = environment.with_variable(*name, *value);
        }
        load_server(&environment, &Overrides::new()).unwrap()
    }

    fn start(variables: &[(&str, &str)]) -> Result<McpRuntime, StartError> {
        McpRuntime::for_profile(&settings(variables), &Environment::empty())
    }

    fn with_header(value: &str) -> Parts {
        http::Request::builder().header(READ_ONLY_HEADER, value).body(()).unwrap().into_parts().0
    }

    #[test]
    fn what_is_missing_is_said_with_the_way_out() {
        let error = start(&[]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Missing Pipefy authentication") && text.contains("PIPEFY_TOKEN"), "{text}");
        assert!(text.contains("PIPEFY_SERVICE_ACCOUNT_") && text.contains("pipefy auth login"), "{text}");
        assert_eq!(error.exit_code(), 1);
        let remote = ("PIPEFY_MCP_PROFILE", "remote");
        let error = start(&[remote]).unwrap_err();
        assert!(error.to_string().contains("requires a resource server"), "{error}");
        assert!(error.to_string().contains("PIPEFY_MCP_RS_RESOURCE_SERVER_URL"), "{error}");
        assert_eq!(error.exit_code(), 1);
        let url = ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "https://mcp.example.com/mcp");
        let error = start(&[remote, url]).unwrap_err();
        assert!(error.to_string().contains("requires an inbound issuer"), "{error}");
        assert!(error.to_string().contains("PIPEFY_JWT_ISSUER_URL"), "{error}");
        let error = start(&[("PIPEFY_TOKEN", "t"), ("PIPEFY_MCP_TOOLSETS", "power,typo")]).unwrap_err();
        assert!(error.to_string().contains("unknown toolset: typo"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_request_can_only_narrow() {
        let runtime = Arc::new(start(&[("PIPEFY_TOKEN", "t")]).unwrap());
        for (value, reads) in [("true", true), ("1", true), ("On", true), ("false", false), ("0", false)] {
            let parts = with_header(value);
            assert_eq!(runtime.policy(Some(&parts)).read_only, reads, "{value}");
            assert_eq!(runtime.exposure(Some(&parts)).unwrap().get("delete_card").is_none(), reads, "{value}");
        }
        for garbage in ["maybe", "", "2"] {
            let parts = with_header(garbage);
            assert!(runtime.exposure(Some(&parts)).is_err(), "{garbage}");
            assert!(runtime.policy(Some(&parts)).read_only, "{garbage}");
            assert!(runtime.admits(&parts.headers).is_err(), "{garbage}");
        }
        assert!(runtime.whole_exposure().get("delete_card").is_some());
        let runtime = start(&[("PIPEFY_TOKEN", "t"), ("PIPEFY_MCP_READ_ONLY", "true")]).unwrap();
        let parts = with_header("false");
        assert!(runtime.policy(Some(&parts)).read_only);
        assert!(runtime.exposure(Some(&parts)).unwrap().get("delete_card").is_none());
    }

    /// `tools/list` is written once for each selection and each form that revisions know; a selection that comes again is not
    /// written again.
    #[test]
    fn lists_are_prepared_once_per_selection_and_revision() {
        use crate::catalogue::TOOLSETS_HEADER;
        let runtime = start(&[("PIPEFY_TOKEN", "t")]).unwrap();
        let narrowed =
            |toolset: &str| http::Request::builder().header(TOOLSETS_HEADER, toolset).body(()).unwrap().into_parts().0;
        let requests = [http::Request::new(()).into_parts().0, narrowed("workflow"), narrowed("power")];
        let versions = [ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2026_07_28];
        let mut seen: Vec<Bytes> = Vec::new();
        for request in &requests {
            for version in &versions {
                let first = runtime.prepared_list(request, version).unwrap();
                let again = runtime.prepared_list(request, version).unwrap();
                assert_eq!(first.as_ptr(), again.as_ptr(), "{version}");
                assert!(seen.iter().all(|other| *other != first), "{version}");
                let list: serde_json::Value = serde_json::from_slice(&first).unwrap();
                assert!(list.get("nextCursor").is_none());
                let alone = *version == ProtocolVersion::V_2026_07_28;
                assert_eq!(list.get("ttlMs").is_some_and(|ttl| ttl.as_u64() > Some(0)), alone, "{version}");
                seen.push(first);
            }
        }
        let newest = ProtocolVersion::V_2025_11_25;
        assert_eq!(runtime.prepared_list(&requests[0], &newest).unwrap().as_ptr(), seen[1].as_ptr());
    }

    #[test]
    fn confirmations_belong_to_the_bearer_or_with_a_secret_to_the_person() {
        let request = |bearer: &str, subject: &str| {
            let (mut parts, ()) = http::Request::new(()).into_parts();
            parts.extensions.insert(Principal {
                client_id: "c".to_owned(),
                issuer: Some("i".to_owned()),
                subject: Some(subject.to_owned()),
                scopes: Vec::new(),
                expires_at: 0,
                bearer: bearer.into(),
            });
            parts
        };
        let confirms = |runtime: &McpRuntime, first: Option<&Parts>, second: Option<&Parts>| {
            let token = mint(&runtime.confirmation_key(first), "t", &Map::new(), 0);
            verify(&runtime.confirmation_key(second), "t", &Map::new(), Some(&token), 0).is_ok()
        };
        let (old, new, other) = (request("old", "ana"), request("new", "ana"), request("old", "ben"));
        let plain = start(&[("PIPEFY_TOKEN", "t")]).unwrap();
        assert!(confirms(&plain, Some(&old), Some(&old)));
        assert!(!confirms(&plain, Some(&old), Some(&new)));
        assert!(confirms(&plain, None, None));
        assert!(!confirms(&plain, None, Some(&old)));
        let again = start(&[("PIPEFY_TOKEN", "t")]).unwrap();
        let token = mint(&plain.confirmation_key(None), "t", &Map::new(), 0);
        assert!(verify(&again.confirmation_key(None), "t", &Map::new(), Some(&token), 0).is_err());
        let secret = "0123456789abcdef0123456789abcdef";
        let signed = start(&[("PIPEFY_TOKEN", "t"), ("PIPEFY_MCP_CONFIRMATION_SECRET", secret)]).unwrap();
        assert!(confirms(&signed, Some(&old), Some(&new)));
        assert!(!confirms(&signed, Some(&old), Some(&other)));
        assert!(!confirms(&signed, Some(&old), None));
    }
}
