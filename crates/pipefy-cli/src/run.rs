//! The order of things: command line, settings, arguments, question, credential, work, output.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use pipefy::settings::{
    self, AuthSettings, Environment, IPAAS_CONNECTION_PREFIX, IpaasSettings, Overrides, PipefySettings, PolicySettings,
    Report,
};
use pipefy::{Budget, Credential, PipefyEngine, Surface};
use pipefy_auth::AuthError;
use pipefy_sandbox::Attached;
use pipefy_tools::journal::{self, FileJournal};
use pipefy_tools::{IpaasGateway, Local, Policy, Toolbox};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Consent, Route};
use crate::credential::Lazy;
use crate::failure::Failure;
use crate::flow::{Approved, Flow};
use crate::output::{Body, Lines, Shown, Terminal};
use crate::parse::{self, Early, Given, Globals, Line};
use crate::{completion, log, names, prompt, sandbox, show};

/// How long a call may take to notice Ctrl-C.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs a command line and gives the exit code.
pub(crate) fn run(argv: &[OsString]) -> u8 {
    let environment = Environment::capture();
    let terminal = Terminal::new(&environment);
    if let Some(code) = completion::answer(&environment, &terminal) {
        return code;
    }
    if let Some((install, shell)) = parse::completion(argv, environment.variable(completion::NO_DETECTION).is_some()) {
        return completion::set_up(&environment, &terminal, install, shell.as_deref());
    }
    let line = match parse::parse(argv) {
        Ok(line) => line,
        Err(Early::Version) => return terminal.out(format!("{}\n", pipefy::VERSION).as_bytes()),
        Err(Early::Help(text, code)) => return terminal.help(&text).max(code),
        Err(Early::Misuse(error)) => {
            terminal.misuse(&error);
            return 2;
        }
    };
    log::start(&environment);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal.err(&format!("The runtime could not be started: {error}"));
            return 1;
        }
    };
    let Line { globals, command, given } = line;
    let Given { args, rendering, yes } = given;
    let start = Start {
        environment,
        terminal,
        globals,
        command,
        yes,
        json: rendering.is_for_programs(),
        lines: rendering.lines(),
    };
    let code = match runtime.block_on(act(&start, args)) {
        Ok(shown) => terminal.show(shown, &rendering),
        Err(failure) => {
            match (parse::as_misuse(command, &failure), failure.text()) {
                (Some(error), _) => terminal.misuse(&error),
                (None, Some(text)) => terminal.err(&text),
                (None, None) => {}
            }
            if let Some(hint) = failure.hint(start.globals.account.as_deref()) {
                terminal.err(&format!("hint: {hint}"));
            }
            failure.code_of(command)
        }
    };
    // A question nobody answered must not keep the program alive.
    runtime.shutdown_background();
    code
}

/// What a command starts from.
pub(crate) struct Start {
    pub(crate) environment: Environment,
    pub(crate) terminal: Terminal,
    pub(crate) globals: Globals,
    pub(crate) command: &'static Command,
    /// Whether `--yes` was given.
    pub(crate) yes: bool,
    /// Whether the output is for programs.
    pub(crate) json: bool,
    /// The form of rows, when each may be written as soon as it is known.
    pub(crate) lines: Option<Lines>,
}

async fn act(start: &Start, mut args: Map<String, Value>) -> Result<Shown, Failure> {
    let command = start.command;
    if let Route::Local(run) = &command.route {
        return run(start, args).await;
    }
    let loaded = start.settings()?;
    if let Route::Prepared(prepare) = &command.route {
        prepare(&mut args)?;
    }
    let tool = match &command.route {
        Route::OneOf(pick) => pick(&mut args)?,
        _ => command.tool,
    };
    let ids = names::ids_of(command, tool);
    names::refuse_blank(command, &ids, &args)?;
    if names::any(&ids, &args) {
        args = start.session(&loaded, Approved::No, async |flow| names::resolve(flow, &ids, args).await).await?;
    }
    let approved = ask(start, &args).await?;
    start
        .session(&loaded, approved, async |flow| {
            let given = args.clone();
            let shown = match &command.route {
                Route::Flow(run) => run(flow, args).await,
                _ => flow.show(tool, args).await.map(|outcome| show::row(command, outcome, approved)),
            };
            match shown {
                Err(failure) if failure.leads_nowhere() => Err(names::explained(flow, failure, &ids, &given).await),
                shown => shown,
            }
        })
        .await
}

/// Gets the approval that the row asks for.
async fn ask(start: &Start, args: &Map<String, Value>) -> Result<Approved, Failure> {
    let dry = args.get("dry_run") == Some(&Value::Bool(true));
    let (verb, what) = match &start.command.consent {
        Consent::Ask(verb, what) => (verb, what),
        Consent::AskWhen(verb, what, when) if when(args) => (verb, what),
        Consent::Flag if !start.yes => return Ok(Approved::No),
        Consent::Draft if !start.yes => return Ok(Approved::Preview),
        _ => return Ok(Approved::Yes),
    };
    if !dry {
        prompt::confirm(&start.terminal, &format!("permanently {verb} {}", what(args)), start.yes).await?;
    }
    Ok(Approved::Yes)
}

/// Settings, and what the command line puts in their place.
pub(crate) struct Loaded {
    pub(crate) pipefy: PipefySettings,
    pub(crate) auth: AuthSettings,
    pub(crate) policy: PolicySettings,
    pub(crate) ipaas: IpaasSettings,
    /// Where the values came from.
    pub(crate) report: Report,
}

/// Who and what a session is for.
pub(crate) struct Target {
    pub(crate) settings: PipefySettings,
    credential: Credential,
    lazy: Option<Arc<Lazy>>,
}

impl Target {
    /// Why there is no credential, once a request has asked for one.
    pub(crate) fn auth_failure(&self) -> Option<&AuthError> {
        self.lazy.as_ref().and_then(|lazy| lazy.failure())
    }

    /// Whether the session stored by `auth login` is what is used.
    pub(crate) fn is_stored_session(&self) -> bool {
        self.lazy.as_ref().is_some_and(|lazy| lazy.is_stored_session())
    }
}

impl Start {
    /// Loads the settings and says what they warn of.
    ///
    /// # Errors
    /// Every problem at once; exit code 2.
    pub(crate) fn settings(&self) -> Result<Loaded, Failure> {
        let mut overrides = Overrides::new();
        if let Some(url) = &self.globals.base_url {
            overrides.set(&settings::BASE_URL, "--base-url", url.trim());
        }
        if let Some(name) = &self.globals.account {
            overrides.set(&settings::ACCOUNT, "--account", name.trim());
        }
        if self.globals.read_only {
            overrides.set(&settings::READ_ONLY, "--read-only", "true");
        }
        settings::scope_flags(self.globals.scope.iter().map(String::as_str), &mut overrides)
            .map_err(Failure::refused)?;
        if self.globals.sandbox {
            // The address is known once it runs; until then nothing that is configured may stand in the way.
            overrides.set(&settings::BASE_URL, "--sandbox", "http://127.0.0.1");
            overrides.set(&settings::ALLOW_INSECURE_URLS, "--sandbox", "true");
        } else if let Some(on) = self.globals.allow_insecure_urls {
            let name = if on { "--allow-insecure-urls" } else { "--no-allow-insecure-urls" };
            overrides.set(&settings::ALLOW_INSECURE_URLS, name, on.to_string());
        }
        let loaded =
            settings::load_cli(&self.environment, &overrides).map_err(|error| Failure::refused(error.to_string()))?;
        for warning in &loaded.report.warnings {
            self.terminal.err(warning);
        }
        let mut auth = loaded.auth;
        if self.globals.account.is_some() {
            // Whoever names an account knows which credential is used.
            auth.masking.clear();
        }
        Ok(Loaded { pipefy: loaded.pipefy, auth, policy: loaded.policy, ipaas: loaded.ipaas, report: loaded.report })
    }

    /// Opens a session and works with it until done or Ctrl-C.
    ///
    /// # Errors
    /// No engine, no sandbox, or whatever the work says.
    pub(crate) async fn session<T, F>(&self, loaded: &Loaded, approved: Approved, work: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Flow<'_>) -> Result<T, Failure>,
    {
        let attached = match self.globals.sandbox {
            true => Some(sandbox::attach(self.globals.sandbox_data.as_deref(), None, None).await?.0),
            false => None,
        };
        let result = self.work(loaded, attached.as_ref(), approved, work).await;
        if let Some(attached) = attached {
            attached.shutdown().await;
        }
        result
    }

    async fn work<T, F>(
        &self,
        loaded: &Loaded,
        attached: Option<&Attached>,
        approved: Approved,
        work: F,
    ) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Flow<'_>) -> Result<T, Failure>,
    {
        let target = match attached {
            Some(attached) => sandbox::target(attached)?,
            None => {
                let token = self.globals.token.clone().map(Into::into);
                let lazy = Lazy::new(loaded.auth.clone(), token);
                let credential = Credential::from_source(lazy.clone());
                Target { settings: loaded.pipefy.clone(), credential, lazy: Some(lazy) }
            }
        };
        let engine = PipefyEngine::build(&target.settings, Surface::Cli, None)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let mut ipaas = loaded.ipaas.clone();
        if let Some(attached) = attached {
            // Nothing of the sandbox's goes to the real one.
            attached.url().clone_into(&mut ipaas.url);
        }
        let cancel = CancellationToken::new();
        let flow = Flow {
            toolbox: self.toolbox(&target.settings, &ipaas, attached),
            session: engine.session(target.credential.clone()),
            policy: Policy::of(&loaded.policy),
            journal: self.journal(loaded, attached),
            budget: Budget::unlimited().with_cancel(cancel.clone()).with_progress(Arc::new(self.terminal.bar())),
            target: &target,
            terminal: self.terminal,
            lines: self.lines,
            json: self.json,
            approved,
        };
        let mut work = std::pin::pin!(work(&flow));
        tokio::select! {
            result = &mut work => result,
            _ = tokio::signal::ctrl_c() => {
                cancel.cancel();
                // A change that was on its way is worth a last word; everything else ends silently.
                if let Ok(Err(Failure::Tool(error))) = tokio::time::timeout(LAST_WORDS, work).await
                    && error.source.as_ref().is_some_and(|source| source.may_have_been_applied())
                {
                    self.terminal.err(&error.message);
                }
                Err(Failure::Interrupted)
            }
        }
    }

    /// The journal of whoever acts. A sandbox is known by its data, since its address is another one each time.
    fn journal(&self, loaded: &Loaded, attached: Option<&Attached>) -> Option<(FileJournal, String)> {
        let file = FileJournal::in_directory(loaded.auth.data_dir.as_deref()?);
        let owner = match attached {
            Some(attached) => {
                let auth = AuthSettings { base_url: attached.name(), ..AuthSettings::default() };
                journal::owner(&auth, Some("sandbox"))
            }
            None => journal::owner(&loaded.auth, self.globals.token.as_deref()),
        };
        Some((file, owner))
    }

    fn toolbox(&self, settings: &PipefySettings, ipaas: &IpaasSettings, attached: Option<&Attached>) -> Toolbox {
        let home = self.environment.home().and_then(|home| home.to_str()).map(|home| ("HOME", home));
        let env = self
            .environment
            .variables_with_prefix(IPAAS_CONNECTION_PREFIX)
            .chain(home)
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        Toolbox {
            surface: Surface::Cli,
            unified_envelope: true,
            enrichment_timeout: settings.permission_denied_enrichment_timeout,
            base_url: settings.base_url().trim_end_matches('/').to_owned(),
            default_webhook_name: settings.default_webhook_name.clone(),
            allow_insecure_urls: settings.allow_insecure_urls,
            ipaas: IpaasGateway::new(ipaas),
            local: Some(Local { env, out: Some(Arc::new(self.terminal)), place: attached.map(Attached::name) }),
            selections: Default::default(),
            spent: Default::default(),
        }
    }
}

impl Target {
    /// With a credential that is known already.
    pub(crate) fn known(settings: PipefySettings, credential: Credential) -> Self {
        Self { settings, credential, lazy: None }
    }
}

/// An empty result.
pub(crate) fn nothing() -> Shown {
    Shown { body: Body::Nothing, ..Shown::default() }
}
