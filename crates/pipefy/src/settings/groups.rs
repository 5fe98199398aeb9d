//! The typed groups.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::error::Source;
use super::host_list::{HostList, is_loopback};
use super::loader::Loader;
use super::parse::{self, Case};
use super::registry as names;
use crate::url_policy::{StorageHost, UploadPolicy, UrlPolicy, UrlPolicyError, UrlShape, configured_url};

/// API host, defaults and limits.
#[derive(Clone, Debug)]
pub struct PipefySettings {
    base_url: String,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
    /// ASCII digits; what `pipefy org get` shows by default.
    pub org_id: Option<String>,
    /// Total time for the look-ups that explain a `PERMISSION_DENIED`; 0.1 to 120 seconds.
    pub permission_denied_enrichment_timeout: Duration,
    /// Whether fetched schemas are kept and used to check documents.
    pub gql_reuse_fetched_graphql_schema: bool,
    /// Name for webhooks created without one; 1 to 255 characters.
    pub default_webhook_name: String,
    /// Further hosts for presigned uploads.
    pub storage_hosts: Vec<StorageHost>,
}

impl Default for PipefySettings {
    /// Production.
    fn default() -> PipefySettings {
        PipefySettings {
            base_url: "https://app.pipefy.com".to_owned(),
            allow_insecure_urls: false,
            org_id: None,
            permission_denied_enrichment_timeout: Duration::from_secs(5),
            gql_reuse_fetched_graphql_schema: false,
            default_webhook_name: "Pipefy Webhook".to_owned(),
            storage_hosts: Vec::new(),
        }
    }
}

impl PipefySettings {
    /// Defaults for another host.
    ///
    /// # Errors
    /// [`UrlPolicyError`] when `base_url` is not a host root or breaks the policy.
    pub fn for_base_url(base_url: &str, policy: UrlPolicy) -> Result<PipefySettings, UrlPolicyError> {
        Ok(PipefySettings {
            base_url: configured_url("base_url", base_url, UrlShape::HostRoot, policy)?,
            allow_insecure_urls: policy.is_insecure(),
            ..PipefySettings::default()
        })
    }

    pub(super) fn load(from: &mut Loader<'_>, shared: &Shared) -> PipefySettings {
        PipefySettings {
            base_url: shared.base_url.clone(),
            allow_insecure_urls: shared.policy.is_insecure(),
            org_id: from.optional(&names::ORG_ID, |raw| {
                let id = parse::trimmed(raw)?;
                if !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) {
                    Ok(id)
                } else {
                    Err("must be ASCII digits only".to_owned())
                }
            }),
            permission_denied_enrichment_timeout: Duration::from_secs_f64(
                from.required(&names::PERMISSION_DENIED_ENRICHMENT_TIMEOUT_SECONDS, |raw| {
                    parse::number(raw, 0.1..=120.0)
                }),
            ),
            gql_reuse_fetched_graphql_schema: from.required(&names::GQL_REUSE_FETCHED_GRAPHQL_SCHEMA, parse::switch),
            default_webhook_name: from.required(&names::DEFAULT_WEBHOOK_NAME, |raw| {
                let name = parse::text(raw)?;
                match name.chars().count() {
                    1..=255 => Ok(name),
                    _ => Err("must have 1 to 255 characters".to_owned()),
                }
            }),
            storage_hosts: from.list(&names::STORAGE_HOSTS, |entries| {
                let parsed = entries.iter().map(|entry| StorageHost::parse(entry));
                parsed.collect::<Result<_, _>>().map_err(str::to_owned)
            }),
        }
    }

    /// The configured root, as written (a trailing slash is kept).
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The public GraphQL endpoint.
    pub fn graphql_url(&self) -> String {
        derived(&self.base_url, "/graphql")
    }

    /// The internal GraphQL endpoint (AI automations, sub-portals, card relation delete).
    pub fn internal_api_url(&self) -> String {
        derived(&self.base_url, "/internal_api")
    }

    /// The Interfaces GraphQL endpoint (portals, pages, elements).
    pub fn interfaces_graphql_url(&self) -> String {
        derived(&self.base_url, "/graphql/interfaces")
    }

    /// How strictly URLs are judged.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy::from_switch(self.allow_insecure_urls)
    }

    /// Where presigned uploads may go.
    pub fn upload_policy(&self) -> UploadPolicy {
        UploadPolicy::new(&self.base_url, self.storage_hosts.clone(), self.url_policy())
    }
}

fn derived(base_url: &str, path: &str) -> String {
    format!("{}{path}", base_url.trim_end_matches('/'))
}

/// Which store keeps the login session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeychainBackend {
    /// The operating system's.
    #[default]
    Auto,
    /// `keyring.cfg` in the configuration directory.
    File,
}

/// Outbound credentials.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// A bearer set by the user; not blank.
    pub static_token: Option<SecretString>,
    /// Where [`AuthSettings::static_token`] came from.
    pub static_token_source: Source,
    /// Client id of a service account.
    pub service_account_client_id: Option<String>,
    /// Client secret of a service account.
    pub service_account_client_secret: Option<SecretString>,
    /// OIDC issuer, as written.
    pub auth_url: String,
    /// OIDC client id.
    pub auth_client_id: String,
    /// Which of several stored logins; the unnamed one when none.
    pub account: Option<String>,
    /// The API root, as in [`PipefySettings`].
    pub base_url: String,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
    /// Never touch the keychain.
    pub disable_stored_session: bool,
    /// Which store keeps the login session.
    pub keychain_backend: KeychainBackend,
    /// Names of the settings that beat a stored session (`PIPEFY_TOKEN`, `PIPEFY_SERVICE_ACCOUNT_*`, `PIPEFY_OAUTH_*`),
    /// with their file where they did not come from the environment.
    pub masking: Vec<String>,
    /// Home of `keyring.cfg` and `refresh.lock`; none when the user has no home directory.
    pub config_dir: Option<PathBuf>,
    /// The user's data directory.
    pub data_dir: Option<PathBuf>,
}

impl Default for AuthSettings {
    /// Production, no credential, no directories.
    fn default() -> AuthSettings {
        AuthSettings {
            static_token: None,
            static_token_source: Source::Default,
            service_account_client_id: None,
            service_account_client_secret: None,
            auth_url: "https://signin.pipefy.com/realms/pipefy".to_owned(),
            auth_client_id: "pipefy-cli".to_owned(),
            account: None,
            base_url: "https://app.pipefy.com".to_owned(),
            allow_insecure_urls: false,
            disable_stored_session: false,
            keychain_backend: KeychainBackend::Auto,
            masking: Vec::new(),
            config_dir: None,
            data_dir: None,
        }
    }
}

impl AuthSettings {
    pub(super) fn load(from: &mut Loader<'_>, shared: &Shared) -> AuthSettings {
        let static_token = from.optional(&names::STATIC_TOKEN, parse::secret);
        let static_token_source = from.source(&names::STATIC_TOKEN);
        let client_id = from.optional(&names::SERVICE_ACCOUNT_CLIENT_ID, parse::opaque);
        let client_secret = from.optional(&names::SERVICE_ACCOUNT_CLIENT_SECRET, parse::secret);
        let mut masking = Vec::new();
        if static_token.is_some() && !matches!(static_token_source, Source::Explicit(_)) {
            masking.push(masking_name("PIPEFY_TOKEN", &static_token_source));
        }
        if client_id.is_some() && client_secret.is_some() {
            let source = from.source(&names::SERVICE_ACCOUNT_CLIENT_ID);
            let legacy = source.name().eq_ignore_ascii_case("PIPEFY_OAUTH_CLIENT");
            let name = if legacy { "PIPEFY_OAUTH_*" } else { "PIPEFY_SERVICE_ACCOUNT_*" };
            masking.push(masking_name(name, &source));
        }
        AuthSettings {
            static_token,
            static_token_source,
            service_account_client_id: client_id,
            service_account_client_secret: client_secret,
            auth_url: from.url(&names::AUTH_URL, shared.policy).unwrap_or_default(),
            auth_client_id: from.required(&names::AUTH_CLIENT_ID, parse::opaque),
            account: from.optional(&names::ACCOUNT, |raw| {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                let name = parse::opaque(raw)?;
                match name.len() <= 40 && name.chars().all(fits) {
                    true => Ok(name),
                    false => Err("must be letters, digits, `.`, `_` and `-`, at most 40".to_owned()),
                }
            }),
            base_url: shared.base_url.clone(),
            allow_insecure_urls: shared.policy.is_insecure(),
            disable_stored_session: from.required(&names::DISABLE_STORED_SESSION, parse::switch),
            keychain_backend: from.required(&names::KEYCHAIN_BACKEND, |raw| {
                let words = [("auto", KeychainBackend::Auto), ("file", KeychainBackend::File)];
                parse::choice(raw, Case::Lower, &words)
            }),
            masking,
            config_dir: from.config_dir(),
            data_dir: from.data_dir(),
        }
    }

    /// The client-credentials token endpoint.
    pub fn service_account_url(&self) -> String {
        derived(&self.base_url, "/oauth/token")
    }

    /// How strictly URLs are judged.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy::from_switch(self.allow_insecure_urls)
    }
}

/// The names of the environment are what scripts look for; other sources are told apart.
fn masking_name(name: &str, source: &Source) -> String {
    match source {
        Source::Dotenv(_) => format!("{name} (.env)"),
        Source::ConfigFile { .. } => format!("{name} (config.toml)"),
        _ => name.to_owned(),
    }
}

/// What calls may touch. A pin that is present is never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopePins {
    /// Pipe ids; none for all.
    pub pipes: Option<Vec<String>>,
    /// Database table ids; none for all.
    pub tables: Option<Vec<String>>,
    /// The organisation id; none for all.
    pub org: Option<String>,
}

impl ScopePins {
    /// True when nothing is pinned.
    pub fn is_open(&self) -> bool {
        *self == ScopePins::default()
    }
}

/// What calls may do, whatever the front end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// Refuse every write.
    pub read_only: bool,
    /// Mark text that outsiders may have written.
    pub mark_untrusted: bool,
    /// A person confirms what destroys after such text was read.
    pub confirm_after_untrusted: bool,
    /// What calls may touch.
    pub scope: ScopePins,
}

impl PolicySettings {
    pub(super) fn load(from: &mut Loader<'_>) -> PolicySettings {
        PolicySettings {
            read_only: from.required(&names::READ_ONLY, parse::switch),
            mark_untrusted: from.required(&names::MARK_UNTRUSTED, parse::switch),
            confirm_after_untrusted: from.required(&names::CONFIRM_AFTER_UNTRUSTED, parse::switch),
            scope: ScopePins {
                pipes: from.optional(&names::SCOPE_PIPES, parse::ids),
                tables: from.optional(&names::SCOPE_TABLES, parse::ids),
                org: from.optional(&names::SCOPE_ORG, parse::one_id),
            },
        }
    }
}

/// Who the server acts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// One person, with the credential of the process.
    #[default]
    Local,
    /// Many callers, each with their own bearer.
    Remote,
}

/// How clients connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Standard input and output.
    #[default]
    Stdio,
    /// Streamable HTTP.
    Http,
}

/// Severity of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Normal events.
    #[default]
    Info,
    /// Something to look at.
    Warning,
    /// Something failed.
    Error,
    /// Nothing works.
    Critical,
}

/// The MCP server. Consistent with itself: `Remote` implies `Http`, and a `Local` server on HTTP listens on loopback
/// unless `allow_insecure_http_bind` says otherwise.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// Whether successes are wrapped in the unified envelope.
    pub unified_envelope: bool,
    /// Who the server acts for.
    pub profile: Profile,
    /// Comma list of toolsets, unchecked; none for all tools.
    pub toolsets: Option<String>,
    /// How clients connect.
    pub transport: Transport,
    /// Address to listen on, as written (`[::1]` is possible; see [`McpSettings::bind_host`]).
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Least severe line that is logged.
    pub log_level: LogLevel,
    /// Let the local profile listen beyond this machine.
    pub allow_insecure_http_bind: bool,
    /// Further `Host` values. An empty list is the same as none.
    pub allowed_hosts: Option<Vec<String>>,
    /// `Origin` values; none derives them from the hosts, an empty list refuses every one.
    pub allowed_origins: Option<Vec<String>>,
    /// Serve HTTP without sessions.
    pub stateless: bool,
    /// Answer HTTP with plain JSON.
    pub json_response: bool,
    /// Most bytes of text per result; none for no limit.
    pub result_budget: Option<usize>,
    /// List each tool with the precise schema of its result.
    pub list_output_schemas: bool,
    /// A session silent for this long ends.
    pub session_idle: Duration,
    /// Most sessions at a time.
    pub session_cap: usize,
    /// Signs confirmation tokens; at least 32 characters.
    pub confirmation_secret: Option<SecretString>,
    /// Seals session ids; at least 32 characters. None: random per process.
    pub session_key: Option<SecretString>,
}

impl Default for McpSettings {
    /// A local stdio server.
    fn default() -> McpSettings {
        McpSettings {
            unified_envelope: true,
            profile: Profile::Local,
            toolsets: None,
            transport: Transport::Stdio,
            host: "127.0.0.1".to_owned(),
            port: 8000,
            log_level: LogLevel::Info,
            allow_insecure_http_bind: false,
            allowed_hosts: None,
            allowed_origins: None,
            stateless: false,
            json_response: false,
            result_budget: Some(100_000),
            list_output_schemas: false,
            session_idle: Duration::from_secs(30 * 60),
            session_cap: 10_000,
            confirmation_secret: None,
            session_key: None,
        }
    }
}

impl McpSettings {
    pub(super) fn load(from: &mut Loader<'_>) -> McpSettings {
        let unified_envelope = from.required(&names::UNIFIED_ENVELOPE, parse::switch);
        let profile = from.required(&names::PROFILE, |raw| {
            let words = [("local", Profile::Local), ("remote", Profile::Remote)];
            parse::choice(raw, Case::Exact, &words)
        });
        let toolsets = from.optional(&names::TOOLSETS, parse::names).flatten();
        let transport = from.optional(&names::TRANSPORT, |raw| {
            let words = [("stdio", Transport::Stdio), ("http", Transport::Http)];
            parse::choice(raw, Case::Exact, &words)
        });
        let host = from.required(&names::HOST, parse::text);
        let port = from.required(&names::PORT, |raw| {
            let port = parse::integer(raw, 0..=65535)?;
            u16::try_from(port).map_err(|_| "must be a whole number from 0 to 65535".to_owned())
        });
        let log_level = from.required(&names::LOG_LEVEL, |raw| {
            let words = [
                ("DEBUG", LogLevel::Debug),
                ("INFO", LogLevel::Info),
                ("WARNING", LogLevel::Warning),
                ("ERROR", LogLevel::Error),
                ("CRITICAL", LogLevel::Critical),
            ];
            parse::choice(raw, Case::Upper, &words)
        });
        let allow_insecure_http_bind = from.required(&names::ALLOW_INSECURE_HTTP_BIND, parse::switch);
        let settings = McpSettings {
            unified_envelope,
            profile,
            toolsets,
            transport: match (transport, profile) {
                (Some(transport), _) => transport,
                (None, Profile::Local) => Transport::Stdio,
                (None, Profile::Remote) => Transport::Http,
            },
            host,
            port,
            log_level,
            allow_insecure_http_bind,
            allowed_hosts: from.optional(&names::ALLOWED_HOSTS, parse::list).flatten(),
            allowed_origins: from.optional(&names::ALLOWED_ORIGINS, parse::list).flatten(),
            stateless: from.required(&names::STATELESS, parse::switch),
            json_response: from.required(&names::JSON_RESPONSE, parse::switch),
            result_budget: Some(from.size(&names::RESULT_BUDGET, 0..=1_000_000_000)).filter(|bytes| *bytes > 0),
            list_output_schemas: from.required(&names::LIST_OUTPUT_SCHEMAS, parse::switch),
            session_idle: Duration::from_secs(60 * from.size(&names::SESSION_IDLE_MINUTES, 1..=10_080) as u64),
            session_cap: from.size(&names::SESSION_CAP, 1..=1_000_000),
            confirmation_secret: from.optional(&names::CONFIRMATION_SECRET, parse::key),
            session_key: from.optional(&names::SESSION_KEY, parse::key),
        };
        settings.check_together(from);
        settings
    }

    /// Rules over several settings. Not looked at while one of them is unusable by itself.
    fn check_together(&self, from: &mut Loader<'_>) {
        let involved = [&names::PROFILE, &names::TRANSPORT, &names::HOST, &names::ALLOW_INSECURE_HTTP_BIND];
        if involved.iter().any(|variable| from.failed(variable)) {
            return;
        }
        let blank = self.host.trim().is_empty();
        if blank && matches!(from.source(&names::HOST), Source::Explicit(_)) {
            from.refuse(&names::HOST, "must not be blank");
        } else if self.profile == Profile::Remote && self.transport == Transport::Stdio {
            from.refuse(
                &names::TRANSPORT,
                "must be http with profile remote: a bearer per request has no stdio equivalent",
            );
        } else if self.transport == Transport::Http && blank {
            from.refuse(&names::HOST, "must not be blank with the http transport; 0.0.0.0 listens everywhere");
        } else if self.transport == Transport::Http
            && self.profile == Profile::Local
            && !self.allow_insecure_http_bind
            && !is_loopback(&self.host)
        {
            from.refuse(
                &names::HOST,
                &format!(
                    "asks for a non-loopback HTTP bind ({}), and the local profile asks nobody who they are; use a loopback host, \
                     profile remote, or set PIPEFY_MCP_ALLOW_INSECURE_HTTP_BIND=true",
                    self.host.trim()
                ),
            );
        }
    }

    /// The host to bind: trimmed, an IPv6 literal without brackets.
    pub fn bind_host(&self) -> &str {
        let host = self.host.trim();
        host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
    }

    /// The `Host` and `Origin` values that `/mcp` accepts.
    pub fn host_list(&self, resource_server: &ResourceServerSettings) -> HostList {
        HostList::derive(
            &self.host,
            resource_server.resource_server_url.as_deref(),
            self.allowed_hosts.as_deref().unwrap_or(&[]),
            self.allowed_origins.as_deref(),
        )
    }
}

/// Validation of inbound bearers.
#[derive(Clone, Debug, Default)]
pub struct JwtValidationSettings {
    /// Issuer, as written.
    pub issuer_url: Option<String>,
    /// Audience; not blank.
    pub audience: Option<String>,
    /// Whether the audience is checked; implies that there is one.
    pub verify_audience: bool,
    /// Where the issuer's keys are.
    pub jwks_uri: Option<String>,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
}

impl JwtValidationSettings {
    pub(super) fn load(from: &mut Loader<'_>) -> JwtValidationSettings {
        let allow_insecure_urls = from.required(&names::JWT_ALLOW_INSECURE_URLS, parse::switch);
        let policy = from.policy(&names::JWT_ALLOW_INSECURE_URLS, allow_insecure_urls);
        let audience = from.optional(&names::JWT_AUDIENCE, parse::trimmed).filter(|text| !text.is_empty());
        let verify_audience = from.required(&names::JWT_VERIFY_AUDIENCE, parse::switch);
        if verify_audience && audience.is_none() && !from.failed(&names::JWT_AUDIENCE) {
            from.refuse(&names::JWT_VERIFY_AUDIENCE, "needs an audience to compare with: set PIPEFY_JWT_AUDIENCE");
        }
        JwtValidationSettings {
            issuer_url: from.url(&names::JWT_ISSUER_URL, policy),
            audience,
            verify_audience,
            jwks_uri: from.url(&names::JWT_JWKS_URI, policy),
            allow_insecure_urls,
        }
    }

    /// The issuer that inbound bearers must come from: the configured one, else the login issuer, else none when stored
    /// sessions are disabled.
    pub fn effective_issuer<'a>(&'a self, auth: &'a AuthSettings) -> Option<&'a str> {
        let login = (!auth.disable_stored_session).then_some(auth.auth_url.as_str());
        self.issuer_url.as_deref().or(login)
    }

    /// How strictly URLs are judged.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy::from_switch(self.allow_insecure_urls)
    }
}

/// The server's own OAuth resource identity.
#[derive(Clone, Debug, Default)]
pub struct ResourceServerSettings {
    /// Public URL of the endpoint, byte for byte as written.
    pub resource_server_url: Option<String>,
    /// Scopes that every bearer must carry.
    pub required_scopes: Vec<String>,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
}

impl ResourceServerSettings {
    pub(super) fn load(from: &mut Loader<'_>, shared: &Shared) -> ResourceServerSettings {
        ResourceServerSettings {
            resource_server_url: from.url(&names::RESOURCE_SERVER_URL, shared.policy),
            required_scopes: from.list(&names::REQUIRED_SCOPES, parse::scopes),
            allow_insecure_urls: shared.policy.is_insecure(),
        }
    }
}

/// How a client shows its secret to a token endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// In the `Authorization` header.
    #[default]
    Basic,
    /// In the form.
    Post,
}

/// How the server acts on behalf of its callers: OAuth token exchange (RFC 8693).
#[derive(Clone, Debug)]
pub struct ExchangeSettings {
    /// The server's own OAuth client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: SecretString,
    /// How the secret is shown.
    pub client_auth: ClientAuth,
    /// The token endpoint; none for the inbound issuer's.
    pub token_url: Option<String>,
    /// Audience to ask for.
    pub audience: Option<String>,
    /// Resource to ask for (RFC 8707).
    pub resource: Option<String>,
    /// Scopes to ask for; empty for whatever the issuer gives.
    pub scopes: Vec<String>,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
}

impl ExchangeSettings {
    /// Half a configuration is an error: taken for none, it would pass bearers on that were meant to stay here.
    pub(super) fn load(from: &mut Loader<'_>, shared: &Shared) -> Option<ExchangeSettings> {
        let client_id = from.optional(&names::EXCHANGE_CLIENT_ID, parse::opaque);
        let client_secret = from.optional(&names::EXCHANGE_CLIENT_SECRET, parse::secret);
        let client_auth = from.required(&names::EXCHANGE_CLIENT_AUTH, |raw| {
            parse::choice(raw, Case::Lower, &[("basic", ClientAuth::Basic), ("post", ClientAuth::Post)])
        });
        let token_url = from.url(&names::EXCHANGE_TOKEN_URL, shared.policy);
        let audience = from.optional(&names::EXCHANGE_AUDIENCE, parse::opaque);
        let resource = from.optional(&names::EXCHANGE_RESOURCE, |raw| {
            let uri = parse::opaque(raw)?;
            let absolute = url::Url::parse(&uri).is_ok_and(|uri| uri.fragment().is_none());
            if absolute { Ok(uri) } else { Err("must be an absolute URI without fragment".to_owned()) }
        });
        let scopes = from.list(&names::EXCHANGE_SCOPES, parse::scopes);
        match (client_id, client_secret) {
            (Some(client_id), Some(client_secret)) => Some(ExchangeSettings {
                client_id,
                client_secret,
                client_auth,
                token_url,
                audience,
                resource,
                scopes,
                allow_insecure_urls: shared.policy.is_insecure(),
            }),
            (client_id, client_secret) => {
                let (id, secret) = (&names::EXCHANGE_CLIENT_ID, &names::EXCHANGE_CLIENT_SECRET);
                if client_id.is_some() && !from.failed(secret) {
                    from.refuse(id, "needs a secret: set PIPEFY_EXCHANGE_CLIENT_SECRET");
                } else if client_secret.is_some() && !from.failed(id) {
                    from.refuse(secret, "needs a client: set PIPEFY_EXCHANGE_CLIENT_ID");
                } else if client_id.is_none() && client_secret.is_none() && !from.failed(id) && !from.failed(secret) {
                    for variable in [
                        &names::EXCHANGE_CLIENT_AUTH,
                        &names::EXCHANGE_TOKEN_URL,
                        &names::EXCHANGE_AUDIENCE,
                        &names::EXCHANGE_RESOURCE,
                        &names::EXCHANGE_SCOPES,
                    ] {
                        // What a front end sets for its own sake (the sandbox its addresses) asks for nothing.
                        if !matches!(from.source(variable), Source::Default | Source::Explicit(_)) {
                            from.refuse(
                                variable,
                                "means nothing alone: set PIPEFY_EXCHANGE_CLIENT_ID and PIPEFY_EXCHANGE_CLIENT_SECRET too",
                            );
                        }
                    }
                }
                None
            }
        }
    }

    /// How strictly URLs are judged.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy::from_switch(self.allow_insecure_urls)
    }
}

/// The iPaaS (Advanced Automations) gateway.
#[derive(Clone, Debug)]
pub struct IpaasSettings {
    /// Address, without trailing slashes.
    pub url: String,
    /// OAuth client id; blank turns the tools off.
    pub oauth_client_id: String,
    /// OAuth client secret.
    pub oauth_client_secret: Option<SecretString>,
    /// Redirect URI, never followed.
    pub oauth_redirect_uri: String,
    /// Whether `http` and internal hosts are accepted in URLs.
    pub allow_insecure_urls: bool,
}

impl IpaasSettings {
    pub(super) fn load(from: &mut Loader<'_>, shared: &Shared) -> IpaasSettings {
        IpaasSettings {
            url: from.url(&names::IPAAS_URL, shared.policy).unwrap_or_default().trim_end_matches('/').to_owned(),
            oauth_client_id: from.required(&names::IPAAS_OAUTH_CLIENT_ID, parse::text),
            oauth_client_secret: from.optional(&names::IPAAS_OAUTH_CLIENT_SECRET, parse::text).map(SecretString::from),
            oauth_redirect_uri: from.required(&names::IPAAS_OAUTH_REDIRECT_URI, parse::text),
            allow_insecure_urls: shared.policy.is_insecure(),
        }
    }

    /// Whether the iPaaS tools are on.
    pub fn is_configured(&self) -> bool {
        !self.oauth_client_id.trim().is_empty()
    }
}

/// What several groups share.
pub(super) struct Shared {
    base_url: String,
    policy: UrlPolicy,
}

impl Shared {
    pub(super) fn load(from: &mut Loader<'_>) -> Shared {
        let insecure = from.required(&names::ALLOW_INSECURE_URLS, parse::switch);
        let policy = from.policy(&names::ALLOW_INSECURE_URLS, insecure);
        Shared {
            base_url: from.url_of(&names::BASE_URL, UrlShape::HostRoot, policy).unwrap_or_default(),
            policy: if insecure { UrlPolicy::Insecure } else { UrlPolicy::Strict },
        }
    }
}
