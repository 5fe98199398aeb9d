//! The one list of settings: names, aliases, types, defaults, rules and their documentation.
//!
//! A new setting is one entry here and one line in its group's loader. Everything else follows from the entry: where it
//! is looked up, what an error says, whether a misspelling of it stops start-up, and its row in `docs/settings.md`.

/// The settings groups. A front end loads the groups it needs, so that a bad server variable does not stop the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// API host, defaults, limits.
    Pipefy,
    /// Outbound credentials.
    Auth,
    /// What calls may do, whatever the front end.
    Policy,
    /// The MCP server.
    Mcp,
    /// Validation of inbound bearers.
    Jwt,
    /// The server's own OAuth resource identity.
    ResourceServer,
    /// Acting on behalf of callers by token exchange.
    Exchange,
    /// The iPaaS (Advanced Automations) gateway.
    Ipaas,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A URL; its text is kept as written.
    Url,
    /// `true`/`false` and the usual words for them.
    Switch,
    /// A whole number.
    Integer,
    /// A decimal number.
    Number,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    List,
}

/// One setting.
#[derive(Debug)]
pub struct Variable {
    /// The setting's name: its TOML key, and what errors and overrides call it.
    pub key: &'static str,
    /// The group it belongs to.
    pub group: Group,
    /// Environment names, in order of precedence.
    pub env: &'static [&'static str],
    /// Older environment names that still work, with a warning. Looked at after `env`.
    pub deprecated: &'static [&'static str],
    /// Value type.
    pub kind: Kind,
    /// The default as it would be written in the environment; none when unset is a state of its own.
    pub default: Option<&'static str>,
    /// What a value must be, in a few words.
    pub rule: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// The value is never shown.
    pub secret: bool,
    /// A misspelling of this name stops start-up: taken for "not set", it would silently open something.
    pub guarded: bool,
    /// Wrong names (without prefix, squashed) that are further from the right one than a typing slip.
    pub mistaken_for: &'static [&'static str],
}

/// A setting with everything optional left out; entries fill in the rest.
const BLANK: Variable = Variable {
    key: "",
    group: Group::Pipefy,
    env: &[],
    deprecated: &[],
    kind: Kind::Text,
    default: None,
    rule: "",
    doc: "",
    secret: false,
    guarded: false,
    mistaken_for: &[],
};

macro_rules! variables {
    ($($name:ident { $($field:ident : $value:expr),* $(,)? })*) => {
        $(
            #[doc = concat!("The setting `", stringify!($name), "`; its text is in the entry.")]
            pub static $name: Variable = Variable { $($field: $value,)* ..BLANK };
        )*
        /// Every setting, in the order of the documentation page.
        pub static REGISTRY: &[&Variable] = &[$(&$name),*];
    };
}

variables! {
    BASE_URL {
        key: "base_url",
        env: &["PIPEFY_BASE_URL"],
        kind: Kind::Url,
        default: Some("https://app.pipefy.com"),
        rule: "host root: scheme, host, optional port",
        doc: "Pipefy's address. The GraphQL endpoints and the token endpoint are derived from it.",
    }
    ALLOW_INSECURE_URLS {
        key: "allow_insecure_urls",
        env: &["PIPEFY_ALLOW_INSECURE_URLS"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Accept `http` and internal hosts in configured URLs, discovery, webhooks and `file_url`. For development.",
        guarded: true,
    }
    ORG_ID {
        key: "org_id",
        env: &["PIPEFY_ORG_ID"],
        rule: "ASCII digits",
        doc: "Organisation that `pipefy org get` shows when none is named.",
    }
    PERMISSION_DENIED_ENRICHMENT_TIMEOUT_SECONDS {
        key: "permission_denied_enrichment_timeout_seconds",
        env: &["PIPEFY_PERMISSION_DENIED_ENRICHMENT_TIMEOUT_SECONDS"],
        kind: Kind::Number,
        default: Some("5.0"),
        rule: "0.1 to 120 (seconds)",
        doc: "Total time for the membership look-ups that explain a `PERMISSION_DENIED` in MCP tools.",
    }
    GQL_REUSE_FETCHED_GRAPHQL_SCHEMA {
        key: "gql_reuse_fetched_graphql_schema",
        env: &["PIPEFY_GQL_REUSE_FETCHED_GRAPHQL_SCHEMA"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Fetch each endpoint's schema once, keep it in memory and check later documents against it.",
    }
    DEFAULT_WEBHOOK_NAME {
        key: "default_webhook_name",
        env: &["PIPEFY_DEFAULT_WEBHOOK_NAME"],
        default: Some("Pipefy Webhook"),
        rule: "1 to 255 characters",
        doc: "Name of a new webhook when the caller gives none.",
    }
    STORAGE_HOSTS {
        key: "storage_hosts",
        env: &["PIPEFY_STORAGE_HOSTS"],
        kind: Kind::List,
        rule: "host, host:port or .suffix",
        doc: "Further hosts that presigned uploads may go to, besides the API's own host, `*.amazonaws.com` and `*.pipefy.com`.",
    }

    STATIC_TOKEN {
        key: "static_token",
        group: Group::Auth,
        env: &["PIPEFY_TOKEN", "PIPEFY_STATIC_TOKEN"],
        rule: "non-empty, one line",
        doc: "Personal access token or other bearer. First in precedence.",
        secret: true,
    }
    SERVICE_ACCOUNT_CLIENT_ID {
        key: "service_account_client_id",
        group: Group::Auth,
        env: &["PIPEFY_SERVICE_ACCOUNT_CLIENT_ID"],
        deprecated: &["PIPEFY_OAUTH_CLIENT"],
        rule: "non-empty, one line",
        doc: "Client id of a service account. Used with its secret, second in precedence.",
    }
    SERVICE_ACCOUNT_CLIENT_SECRET {
        key: "service_account_client_secret",
        group: Group::Auth,
        env: &["PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET"],
        deprecated: &["PIPEFY_OAUTH_SECRET"],
        rule: "non-empty, one line",
        doc: "Client secret of a service account.",
        secret: true,
    }
    AUTH_URL {
        key: "auth_url",
        group: Group::Auth,
        env: &["PIPEFY_AUTH_URL"],
        kind: Kind::Url,
        default: Some("https://signin.pipefy.com/realms/pipefy"),
        rule: "URL without query or fragment",
        doc: "OIDC issuer that `pipefy auth login` signs in at.",
    }
    AUTH_CLIENT_ID {
        key: "auth_client_id",
        group: Group::Auth,
        env: &["PIPEFY_AUTH_CLIENT_ID"],
        default: Some("pipefy-cli"),
        rule: "non-empty, one line",
        doc: "OIDC client id of the interactive login (a public client).",
    }
    ACCOUNT {
        key: "account",
        group: Group::Auth,
        env: &["PIPEFY_ACCOUNT"],
        rule: "letters, digits, `.`, `_` and `-`, at most 40",
        doc: "Name of the stored login to use, where there are several; the unnamed one when not set. Settings of its own are in \
              `[accounts.NAME]` of `config.toml`.",
    }
    DISABLE_STORED_SESSION {
        key: "disable_stored_session",
        group: Group::Auth,
        env: &["PIPEFY_DISABLE_STORED_SESSION"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Never touch the keychain; `auth login` and `auth logout` refuse.",
        guarded: true,
    }
    KEYCHAIN_BACKEND {
        key: "keychain_backend",
        group: Group::Auth,
        env: &["PIPEFY_KEYCHAIN_BACKEND"],
        kind: Kind::Choice(&["auto", "file"]),
        default: Some("auto"),
        rule: "any case",
        doc: "`auto`: the operating system's store. `file`: `keyring.cfg` in the configuration directory.",
    }

    READ_ONLY {
        key: "read_only",
        group: Group::Policy,
        env: &["PIPEFY_MCP_READ_ONLY"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Refuse every call that could change something, however it is made.",
        guarded: true,
        mistaken_for: &["READ", "READONLYMODE", "NOWRITE", "NOWRITES"],
    }
    MARK_UNTRUSTED {
        key: "mark_untrusted",
        group: Group::Policy,
        env: &["PIPEFY_MCP_MARK_UNTRUSTED"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Put text that outsiders may have written (cards, records, e-mails, raw GraphQL) between marks in results, hidden \
              characters made visible.",
        guarded: true,
    }
    CONFIRM_AFTER_UNTRUSTED {
        key: "confirm_after_untrusted",
        group: Group::Policy,
        env: &["PIPEFY_MCP_CONFIRM_AFTER_UNTRUSTED"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Once a conversation has read such text, a person confirms what destroys in a form of the client (MCP server).",
        guarded: true,
    }
    SCOPE_PIPES {
        key: "scope_pipes",
        group: Group::Policy,
        env: &["PIPEFY_MCP_SCOPE_PIPES"],
        kind: Kind::List,
        rule: "ids; set but empty is an error",
        doc: "Pipes that calls may touch. Unset: all that the credential may.",
        guarded: true,
        mistaken_for: &["SCOPE", "SCOPES", "PIPESCOPE", "PIPES"],
    }
    SCOPE_TABLES {
        key: "scope_tables",
        group: Group::Policy,
        env: &["PIPEFY_MCP_SCOPE_TABLES"],
        kind: Kind::List,
        rule: "ids; set but empty is an error",
        doc: "Database tables that calls may touch. Unset: all that the credential may.",
        guarded: true,
        mistaken_for: &["TABLESCOPE", "TABLES"],
    }
    SCOPE_ORG {
        key: "scope_org",
        group: Group::Policy,
        env: &["PIPEFY_MCP_SCOPE_ORG"],
        rule: "one id; set but empty is an error",
        doc: "The organisation that calls may touch. Unset: all that the credential may.",
        guarded: true,
        mistaken_for: &["ORGSCOPE", "SCOPEORGANIZATION", "SCOPEORGANISATION"],
    }

    UNIFIED_ENVELOPE {
        key: "unified_envelope",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_UNIFIED_ENVELOPE"],
        kind: Kind::Switch,
        default: Some("true"),
        rule: "switch",
        doc: "Answer successes as `{success, data, message, pagination}`; off: each tool's older shape.",
    }
    PROFILE {
        key: "profile",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_PROFILE"],
        kind: Kind::Choice(&["local", "remote"]),
        default: Some("local"),
        rule: "exact",
        doc: "`local`: one person, their credential. `remote`: hosted, each caller's own bearer.",
    }
    TOOLSETS {
        key: "toolsets",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_TOOLSETS"],
        rule: "comma list; names are checked at start-up",
        doc: "Which tools are served. Unset: all.",
        guarded: true,
        mistaken_for: &["TOOLS", "TOOL"],
    }
    TRANSPORT {
        key: "transport",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_TRANSPORT"],
        kind: Kind::Choice(&["stdio", "http"]),
        rule: "exact; `remote` needs `http`",
        doc: "How clients connect. Unset: `stdio` for `local`, `http` for `remote`.",
    }
    HOST {
        key: "host",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_HOST"],
        default: Some("127.0.0.1"),
        rule: "`local` binds loopback only",
        doc: "Address to listen on (http).",
    }
    PORT {
        key: "port",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_PORT"],
        kind: Kind::Integer,
        default: Some("8000"),
        rule: "0 to 65535",
        doc: "Port to listen on (http); 0 takes a free one.",
    }
    LOG_LEVEL {
        key: "log_level",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_LOG_LEVEL"],
        kind: Kind::Choice(&["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
        default: Some("INFO"),
        rule: "any case",
        doc: "Least severe log line that is written.",
    }
    ALLOW_INSECURE_HTTP_BIND {
        key: "allow_insecure_http_bind",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_ALLOW_INSECURE_HTTP_BIND"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Let the `local` profile, which asks nobody who they are, listen beyond this machine.",
        guarded: true,
    }
    ALLOWED_HOSTS {
        key: "allowed_hosts",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_ALLOWED_HOSTS"],
        kind: Kind::List,
        rule: "no blank entry",
        doc: "Further `Host` values that `/mcp` accepts.",
        guarded: true,
        mistaken_for: &["HOSTS"],
    }
    ALLOWED_ORIGINS {
        key: "allowed_origins",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_ALLOWED_ORIGINS"],
        kind: Kind::List,
        rule: "no blank entry",
        doc: "The `Origin` values that `/mcp` accepts. Unset: the allowed hosts. `[]`: refuse every request that has one.",
        guarded: true,
        mistaken_for: &["ORIGINS"],
    }
    STATELESS {
        key: "stateless",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_STATELESS"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Serve HTTP without sessions: any replica answers any request; no elicitation.",
    }
    JSON_RESPONSE {
        key: "json_response",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_JSON_RESPONSE"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Answer HTTP requests with plain JSON instead of an event stream.",
    }
    RESULT_BUDGET {
        key: "result_budget",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_RESULT_BUDGET"],
        kind: Kind::Integer,
        default: Some("100000"),
        rule: "bytes; 0 turns it off",
        doc: "Most text one tool result may hold (100,000 bytes are about 25,000 tokens).",
    }
    SESSION_IDLE_MINUTES {
        key: "session_idle_minutes",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_SESSION_IDLE_MINUTES"],
        kind: Kind::Integer,
        default: Some("30"),
        rule: "1 to 10080",
        doc: "A session that is silent for this long ends (http).",
    }
    SESSION_CAP {
        key: "session_cap",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_SESSION_CAP"],
        kind: Kind::Integer,
        default: Some("10000"),
        rule: "1 to 1000000",
        doc: "Most sessions open at a time in one process (http).",
    }
    CONFIRMATION_SECRET {
        key: "confirmation_secret",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_CONFIRMATION_SECRET"],
        rule: "at least 32 characters",
        doc: "Signs confirmation tokens; the same on every replica. Unset: signed with the caller's bearer.",
        secret: true,
    }
    SESSION_KEY {
        key: "session_key",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_SESSION_KEY"],
        rule: "at least 32 characters",
        doc: "Seals session ids; the same on every replica. Unset: random per process.",
        secret: true,
    }
    SESSIONS_PER_CALLER {
        key: "sessions_per_caller",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_SESSIONS_PER_CALLER"],
        kind: Kind::Integer,
        default: Some("500"),
        rule: "1 to 1000000",
        doc: "Most sessions one caller has open in one process; a further one ends the longest unused.",
    }
    CALLS_PER_CALLER {
        key: "calls_per_caller",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_CALLS_PER_CALLER"],
        kind: Kind::Integer,
        default: Some("64"),
        rule: "1 to 256",
        doc: "Most tool calls of one caller that run at a time in one process (`remote`); more get 429.",
    }
    REQUESTS_PER_MINUTE {
        key: "requests_per_minute",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_REQUESTS_PER_MINUTE"],
        kind: Kind::Integer,
        default: Some("6000"),
        rule: "0 to 1000000; 0 turns it off",
        doc: "Messages one caller may send a minute (`remote`); a sixth of them at once. More get 429.",
    }
    METRICS_ADDRESS {
        key: "metrics_address",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_METRICS_ADDRESS"],
        rule: "IP address and port, as 127.0.0.1:9090",
        doc: "Serve `/metrics` (Prometheus), `/healthz` and `/readyz` here (http). Unset: no metrics.",
    }
    OTLP_ENDPOINT {
        key: "otlp_endpoint",
        group: Group::Mcp,
        env: &["OTEL_EXPORTER_OTLP_ENDPOINT"],
        kind: Kind::Url,
        rule: "http or https URL",
        doc: "Send OpenTelemetry traces to this collector (OTLP over HTTP, at `/v1/traces`); for builds with the feature `otel`. \
              Unset: no traces.",
    }
    AUDIT_LOG {
        key: "audit_log",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_AUDIT_LOG"],
        rule: "a file path, or `stderr`",
        doc: "Append one JSON line per tool call: who, what, which ids, how it ended; no values. Unset: none.",
    }
    AUDIT_REQUIRED {
        key: "audit_required",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_AUDIT_REQUIRED"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch; needs `audit_log`",
        doc: "Refuse every write that cannot be put down in the audit log first.",
        guarded: true,
    }
    DRAIN_SECONDS {
        key: "drain_seconds",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_DRAIN_SECONDS"],
        kind: Kind::Integer,
        default: Some("10"),
        rule: "0 to 3600",
        doc: "How long a stop waits for running calls before it cancels them (http).",
    }
    HEADER_TIMEOUT_SECONDS {
        key: "header_timeout_seconds",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_HEADER_TIMEOUT_SECONDS"],
        kind: Kind::Integer,
        default: Some("75"),
        rule: "1 to 3600",
        doc: "A connection that sends no complete request head for this long is closed (http). Keep it above the idle time of a proxy in front.",
    }
    BODY_TIMEOUT_SECONDS {
        key: "body_timeout_seconds",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_BODY_TIMEOUT_SECONDS"],
        kind: Kind::Integer,
        default: Some("30"),
        rule: "1 to 3600",
        doc: "A request whose body takes longer gets 408; a client that takes nothing of its answer for this long is cut off (http).",
    }
    FORWARDED_ALLOW_IPS {
        key: "forwarded_allow_ips",
        group: Group::Mcp,
        env: &["FORWARDED_ALLOW_IPS"],
        kind: Kind::List,
        default: Some("127.0.0.1"),
        rule: "addresses, networks as 10.0.0.0/8, or `*`",
        doc: "Peers whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed (http). `*`: anybody's, for a server that only a proxy can reach.",
    }
    SESSION_STORE_URL {
        key: "session_store_url",
        group: Group::Mcp,
        env: &["PIPEFY_MCP_SESSION_STORE_URL"],
        rule: "redis://[user:password@]host[:port][/db]; needs `session_key`",
        doc: "Redis or Valkey that replicas share: sessions go on when a replica ends, and `requests_per_minute` counts over all of them.",
        secret: true,
    }

    JWT_ISSUER_URL {
        key: "issuer_url",
        group: Group::Jwt,
        env: &["PIPEFY_JWT_ISSUER_URL"],
        kind: Kind::Url,
        rule: "URL without query or fragment",
        doc: "Issuer of inbound bearers. Unset: `auth_url`, unless stored sessions are disabled.",
    }
    JWT_AUDIENCE {
        key: "audience",
        group: Group::Jwt,
        env: &["PIPEFY_JWT_AUDIENCE"],
        rule: "needed by `verify_audience`",
        doc: "Audience that inbound bearers must name.",
    }
    JWT_VERIFY_AUDIENCE {
        key: "verify_audience",
        group: Group::Jwt,
        env: &["PIPEFY_JWT_VERIFY_AUDIENCE"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "Refuse bearers minted for somebody else. Recommended for hosted servers.",
        guarded: true,
    }
    JWT_JWKS_URI {
        key: "jwks_uri",
        group: Group::Jwt,
        env: &["PIPEFY_JWT_JWKS_URI"],
        kind: Kind::Url,
        rule: "URL without query or fragment",
        doc: "Where the issuer's keys are. Unset: found by discovery.",
    }
    JWT_ALLOW_INSECURE_URLS {
        key: "allow_insecure_urls",
        group: Group::Jwt,
        env: &["PIPEFY_ALLOW_INSECURE_URLS", "PIPEFY_JWT_ALLOW_INSECURE_URLS"],
        kind: Kind::Switch,
        default: Some("false"),
        rule: "switch",
        doc: "The shared switch; for this group the second name works too.",
        guarded: true,
    }

    RESOURCE_SERVER_URL {
        key: "resource_server_url",
        group: Group::ResourceServer,
        env: &["PIPEFY_MCP_RS_RESOURCE_SERVER_URL"],
        kind: Kind::Url,
        rule: "URL without query or fragment",
        doc: "This server's public URL including the endpoint path, as in `https://mcp.example.com/mcp`. `remote` needs it.",
    }
    REQUIRED_SCOPES {
        key: "required_scopes",
        group: Group::ResourceServer,
        env: &["PIPEFY_MCP_RS_REQUIRED_SCOPES"],
        kind: Kind::List,
        rule: "scope names as in RFC 6749",
        doc: "Scopes that every inbound bearer must carry.",
        guarded: true,
    }

    EXCHANGE_CLIENT_ID {
        key: "exchange_client_id",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_CLIENT_ID"],
        rule: "non-empty, one line; needs the secret",
        doc: "The server's own OAuth client. Set: callers' bearers are exchanged (RFC 8693) and never reach Pipefy. Unset: they are passed on.",
        guarded: true,
    }
    EXCHANGE_CLIENT_SECRET {
        key: "exchange_client_secret",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_CLIENT_SECRET"],
        rule: "non-empty, one line",
        doc: "Secret of that client.",
        secret: true,
        guarded: true,
    }
    EXCHANGE_CLIENT_AUTH {
        key: "exchange_client_auth",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_CLIENT_AUTH"],
        kind: Kind::Choice(&["basic", "post"]),
        default: Some("basic"),
        rule: "any case",
        doc: "How the secret is shown: in the `Authorization` header (`client_secret_basic`) or in the form (`client_secret_post`).",
        guarded: true,
    }
    EXCHANGE_TOKEN_URL {
        key: "exchange_token_url",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_TOKEN_URL"],
        kind: Kind::Url,
        rule: "URL without query or fragment",
        doc: "Token endpoint that exchanges. Unset: the one of the inbound issuer, found by discovery.",
        guarded: true,
    }
    EXCHANGE_AUDIENCE {
        key: "exchange_audience",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_AUDIENCE"],
        rule: "non-empty, one line",
        doc: "Audience to ask for: Pipefy's API as the issuer calls it.",
        guarded: true,
    }
    EXCHANGE_RESOURCE {
        key: "exchange_resource",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_RESOURCE"],
        rule: "absolute URI without fragment",
        doc: "Resource to ask for (RFC 8707), where the issuer wants one instead of an audience.",
        guarded: true,
    }
    EXCHANGE_SCOPES {
        key: "exchange_scopes",
        group: Group::Exchange,
        env: &["PIPEFY_EXCHANGE_SCOPES"],
        kind: Kind::List,
        rule: "scope names as in RFC 6749",
        doc: "Scopes to ask for. Unset: whatever the issuer gives.",
        guarded: true,
    }

    IPAAS_URL {
        key: "url",
        group: Group::Ipaas,
        env: &["PIPEFY_IPAAS_URL"],
        kind: Kind::Url,
        default: Some("https://ipaas.pipefy.com"),
        rule: "URL without query or fragment",
        doc: "Address of the iPaaS.",
    }
    IPAAS_OAUTH_CLIENT_ID {
        key: "oauth_client_id",
        group: Group::Ipaas,
        env: &["PIPEFY_IPAAS_OAUTH_CLIENT_ID"],
        default: Some("1RLshr5qYWxeFda1H-2wI_HuaaQfWxwn"),
        rule: "blank turns the iPaaS tools off",
        doc: "OAuth client of the iPaaS tools (a public client).",
    }
    IPAAS_OAUTH_CLIENT_SECRET {
        key: "oauth_client_secret",
        group: Group::Ipaas,
        env: &["PIPEFY_IPAAS_OAUTH_CLIENT_SECRET"],
        rule: "text",
        doc: "Secret of that client, where it has one.",
        secret: true,
    }
    IPAAS_OAUTH_REDIRECT_URI {
        key: "oauth_redirect_uri",
        group: Group::Ipaas,
        env: &["PIPEFY_IPAAS_OAUTH_REDIRECT_URI"],
        default: Some("https://localhost/pipefy-mcp-callback"),
        rule: "not checked",
        doc: "Redirect URI registered for that client. Never followed.",
    }
}

/// Names that no longer mean anything, and are ignored with a warning.
pub const REMOVED_WITH_WARNING: &[&str] = &["PIPEFY_OAUTH_URL"];

/// Names that are ours but no settings: never taken for a misspelling.
pub(super) const OTHER_NAMES: &[&str] = &[
    "PIPEFY_CONFIG_FILE",
    "PIPEFY_OAUTH_URL",
    "PIPEFY_OAUTH_CLIENT",
    "PIPEFY_OAUTH_SECRET",
    "PIPEFY_GRAPHQL_URL",
    "PIPEFY_INTERNAL_API_URL",
    "PIPEFY_INTERFACES_GRAPHQL_URL",
    "PIPEFY_SERVICE_ACCOUNT_URL",
    "PIPEFY_TENANT",
    "PIPEFY_AUTH_REALM",
];

/// Prefix of the variables that iPaaS connections may refer to.
pub const IPAAS_CONNECTION_PREFIX: &str = "PIPEFY_IPAAS_CONNECTION_";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn every_entry_is_complete_and_no_name_means_two_things() {
        let mut names = std::collections::HashMap::new();
        for variable in REGISTRY {
            assert!(!variable.key.is_empty() && !variable.doc.is_empty() && !variable.rule.is_empty());
            assert!(variable.doc.ends_with('.'), "{}", variable.key);
            assert!(!variable.env.is_empty(), "{}", variable.key);
            for name in variable.env.iter().chain(variable.deprecated) {
                // One name is shared with other servers of its kind, as in the reference; one is OpenTelemetry's.
                let shared = matches!(*name, "FORWARDED_ALLOW_IPS" | "OTEL_EXPORTER_OTLP_ENDPOINT");
                assert!(name.starts_with("PIPEFY_") || shared, "{name}: only prefixed names are read");
                let key = names.entry(*name).or_insert(variable.key);
                assert_eq!(*key, variable.key, "{name}");
            }
            assert!(variable.is_ascii());
        }
    }

    impl Variable {
        fn is_ascii(&self) -> bool {
            self.doc.is_ascii() && self.rule.is_ascii()
        }
    }
}
