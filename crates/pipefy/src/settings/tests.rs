#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

/// Process variables from `A=b` lines.
fn env(lines: &[&str]) -> Environment {
    lines.iter().fold(Environment::empty().with_home("/home/ana"), |environment, line| {
        let (name, value) = line.split_once('=').unwrap();
        environment.with_variable(name, value)
    })
}

fn server(lines: &[&str]) -> ServerSettings {
    load_server(&env(lines), &Overrides::new()).unwrap()
}

fn refused(lines: &[&str]) -> String {
    refused_in(&env(lines))
}

fn refused_in(environment: &Environment) -> String {
    load_server(environment, &Overrides::new()).unwrap_err().to_string()
}

#[test]
fn nothing_set_is_production() {
    let all = server(&[]);
    assert_eq!(all.pipefy.graphql_url(), "https://app.pipefy.com/graphql");
    assert_eq!(all.pipefy.internal_api_url(), "https://app.pipefy.com/internal_api");
    assert_eq!(all.pipefy.interfaces_graphql_url(), "https://app.pipefy.com/graphql/interfaces");
    assert_eq!(all.auth.service_account_url(), "https://app.pipefy.com/oauth/token");
    assert_eq!(all.auth.auth_url, "https://signin.pipefy.com/realms/pipefy");
    assert_eq!(all.auth.auth_client_id, "pipefy-cli");
    assert_eq!(all.pipefy.permission_denied_enrichment_timeout, Duration::from_secs(5));
    assert_eq!(all.pipefy.default_webhook_name, "Pipefy Webhook");
    assert!(all.auth.static_token.is_none() && all.auth.masking.is_empty());
    assert_eq!(all.policy, PolicySettings::default());
    assert!(all.mcp.unified_envelope && !all.mcp.stateless && !all.mcp.json_response);
    assert_eq!((all.mcp.profile, all.mcp.transport), (Profile::Local, Transport::Stdio));
    assert_eq!((all.mcp.host.as_str(), all.mcp.port), ("127.0.0.1", 8000));
    assert_eq!((all.mcp.result_budget, all.mcp.list_output_schemas), (Some(100_000), false));
    assert_eq!(all.mcp.session_idle, Duration::from_secs(1800));
    assert_eq!(all.jwt.effective_issuer(&all.auth), Some("https://signin.pipefy.com/realms/pipefy"));
    assert_eq!(all.ipaas.url, "https://ipaas.pipefy.com");
    assert!(all.ipaas.is_configured());
    assert!(all.report.warnings.is_empty());
    assert!(all.report.found.iter().all(|found| found.source == Source::Default));
}

#[test]
fn the_typed_defaults_are_the_registrys() {
    let all = server(&[]);
    assert_eq!(format!("{:?}", all.pipefy), format!("{:?}", PipefySettings::default()));
    assert_eq!(format!("{:?}", all.mcp), format!("{:?}", McpSettings::default()));
    let auth = AuthSettings {
        config_dir: all.auth.config_dir.clone(),
        data_dir: all.auth.data_dir.clone(),
        ..AuthSettings::default()
    };
    assert_eq!(format!("{:?}", all.auth), format!("{auth:?}"));
}

#[test]
fn precedence_is_per_setting_and_across_aliases() {
    let full = env(&["PIPEFY_TOKEN=env", "PIPEFY_STATIC_TOKEN=env2"])
        .with_dotenv("PIPEFY_TOKEN=dot\nPIPEFY_ORG_ID=2\nPIPEFY_AUTH_CLIENT_ID=dot")
        .with_config(
            "static_token = \"toml\"\norg_id = \"3\"\nauth_client_id = \"toml\"\ndefault_webhook_name = \"toml\"",
        );
    let all = load_server(&full, &Overrides::new()).unwrap();
    assert_eq!(all.auth.static_token.unwrap().expose_secret(), "env");
    assert_eq!(all.auth.static_token_source, Source::Environment("PIPEFY_TOKEN".into()));
    assert_eq!(all.pipefy.org_id.unwrap(), "2");
    assert_eq!(all.auth.auth_client_id, "dot");
    assert_eq!(all.pipefy.default_webhook_name, "toml");
    assert_eq!(all.report.source(&ORG_ID).to_string(), "PIPEFY_ORG_ID (.env)");
    assert_eq!(
        all.report.source(&DEFAULT_WEBHOOK_NAME).to_string(),
        "default_webhook_name (/home/ana/.config/pipefy/config.toml)"
    );

    // A legacy name in the environment beats the new name in .env.
    let mixed = env(&["PIPEFY_OAUTH_CLIENT=old"]).with_dotenv("PIPEFY_SERVICE_ACCOUNT_CLIENT_ID=new");
    let all = load_cli(&mixed, &Overrides::new()).unwrap();
    assert_eq!(all.auth.service_account_client_id.unwrap(), "old");
    // In one source the new name wins.
    let both = env(&["PIPEFY_OAUTH_CLIENT=old", "PIPEFY_SERVICE_ACCOUNT_CLIENT_ID=new"]);
    let all = load_cli(&both, &Overrides::new()).unwrap();
    assert_eq!(all.auth.service_account_client_id.unwrap(), "new");
    // Flags beat all, and replace a bad value before it is looked at.
    let overrides = Overrides::new().with(&BASE_URL, "--base-url", " https://b.test ").with(&PORT, "--port", "0");
    let bad = env(&["PIPEFY_BASE_URL=nonsense", "PIPEFY_MCP_PORT=x"]);
    let all = load_server(&bad, &overrides).unwrap();
    assert_eq!((all.pipefy.base_url(), all.auth.base_url.as_str()), ("https://b.test", "https://b.test"));
    assert_eq!(all.mcp.port, 0);
}

#[test]
fn names_are_found_in_any_case_and_only_with_their_prefix() {
    assert_eq!(server(&["pipefy_mcp_port=1"]).mcp.port, 1);
    assert_eq!(server(&["pipefy_mcp_port=1", "PIPEFY_MCP_PORT=2"]).mcp.port, 2);
    assert_eq!(server(&["PIPEFY_MCP_PORT=2", "Pipefy_Mcp_Port=1"]).mcp.port, 2);
    let stray = [
        "BASE_URL=x",
        "STATIC_TOKEN=x",
        "OAUTH_CLIENT=x",
        "ALLOW_INSECURE_URLS=true",
        "AUTH_BASE_URL=x",
        "AUTH_STATIC_TOKEN=x",
        "PIPEFY_AUTH_BASE_URL=x",
        "PIPEFY_AUTH_STATIC_TOKEN=x",
        "AUTH=basic",
        "PIPEFY=x",
        "MCP=x",
        "JWT={}",
        "RS=x",
        "IPAAS=x",
        "PIPEFY_GRAPHQL_URL=x",
        "PIPEFY_MCP_DEPLOYMENT=x",
        "PORT=x",
        "HOST=x",
        "PIPEFY_IPAAS_CONNECTION_READ_ONLY=x",
    ];
    let all = server(&stray);
    assert_eq!(all.pipefy.base_url(), "https://app.pipefy.com");
    assert!(all.auth.static_token.is_none() && !all.pipefy.allow_insecure_urls);
}

#[test]
fn base_url_drives_the_derived_urls() {
    let all = server(&["PIPEFY_BASE_URL= HTTPS://Eu.Pipefy.com/ "]);
    assert_eq!(all.pipefy.base_url(), "HTTPS://Eu.Pipefy.com/");
    assert_eq!(all.pipefy.graphql_url(), "HTTPS://Eu.Pipefy.com/graphql");
    assert_eq!(all.auth.service_account_url(), "HTTPS://Eu.Pipefy.com/oauth/token");
    let local = ["PIPEFY_BASE_URL=http://localhost:3000", "PIPEFY_ALLOW_INSECURE_URLS=on"];
    assert_eq!(server(&local).pipefy.graphql_url(), "http://localhost:3000/graphql");

    let insecure = env(&["PIPEFY_ALLOW_INSECURE_URLS=true"]);
    let off = Overrides::new().with(&ALLOW_INSECURE_URLS, "--no-allow-insecure-urls", "false");
    let all = load_server(&insecure, &off).unwrap();
    assert!(!all.pipefy.allow_insecure_urls && !all.auth.allow_insecure_urls && !all.jwt.allow_insecure_urls);
    let localhost = Overrides::new().with(&BASE_URL, "--base-url", "http://localhost");
    let error = load_cli(&env(&[]), &localhost).unwrap_err().to_string();
    assert!(error.contains("--base-url: base_url must use HTTPS"), "{error}");
    let allowed = localhost.with(&ALLOW_INSECURE_URLS, "--allow-insecure-urls", "true");
    assert!(load_cli(&env(&[]), &allowed).is_ok());
    let empty = Overrides::new().with(&BASE_URL, "--base-url", "");
    assert!(load_cli(&env(&[]), &empty).unwrap_err().to_string().contains("should match pattern"));
}

#[test]
fn bad_values_name_variable_and_rule() {
    for (line, wanted) in [
        ("PIPEFY_BASE_URL=", "PIPEFY_BASE_URL (environment): base_url"),
        ("PIPEFY_BASE_URL=ftp://x", "should match pattern"),
        ("PIPEFY_BASE_URL=https://localhost", "localhost"),
        ("PIPEFY_BASE_URL=https://10.0.0.1", "private, loopback"),
        ("PIPEFY_BASE_URL=http://x.test", "HTTPS"),
        ("PIPEFY_AUTH_URL=https://x.test/?q", "auth_url must not have a query"),
        ("PIPEFY_ALLOW_INSECURE_URLS=maybe", "allow_insecure_urls must be true or false"),
        ("PIPEFY_ALLOW_INSECURE_URLS=", "set but empty, unset it"),
        ("PIPEFY_ORG_ID=12a", "org_id must be ASCII digits"),
        ("PIPEFY_ORG_ID=", "org_id must be ASCII digits"),
        ("PIPEFY_ORG_ID=\u{0661}", "org_id must be ASCII digits"),
        ("PIPEFY_PERMISSION_DENIED_ENRICHMENT_TIMEOUT_SECONDS=0", "from 0.1 to 120"),
        ("PIPEFY_PERMISSION_DENIED_ENRICHMENT_TIMEOUT_SECONDS=nan", "from 0.1 to 120"),
        ("PIPEFY_DEFAULT_WEBHOOK_NAME=", "1 to 255"),
        ("PIPEFY_TOKEN=", "static_token must not be empty"),
        ("PIPEFY_TOKEN=a\nb", "static_token must be one line"),
        ("PIPEFY_KEYCHAIN_BACKEND=gnome", "must be one of auto, file"),
        ("PIPEFY_KEYCHAIN_BACKEND=", "must be one of auto, file"),
        ("PIPEFY_MCP_PROFILE=Local", "must be one of local, remote"),
        ("PIPEFY_MCP_TRANSPORT=sse", "must be one of stdio, http"),
        ("PIPEFY_MCP_PORT=65536", "from 0 to 65535"),
        ("PIPEFY_MCP_PORT=-1", "from 0 to 65535"),
        ("PIPEFY_MCP_PORT=", "from 0 to 65535"),
        ("PIPEFY_MCP_LOG_LEVEL=loud", "must be one of DEBUG"),
        ("PIPEFY_MCP_ALLOWED_HOSTS=[\"a\",\" \"]", "allowed_hosts must not have a blank entry"),
        ("PIPEFY_MCP_ALLOWED_HOSTS=[1]", "allowed_hosts must be a list"),
        ("PIPEFY_MCP_ALLOWED_HOSTS={\"a\":1}", "allowed_hosts must be a list"),
        ("PIPEFY_MCP_ALLOWED_ORIGINS=[\"\"]", "allowed_origins must not have a blank entry"),
        ("PIPEFY_MCP_READ_ONLY=", "read_only must be true or false"),
        ("PIPEFY_MCP_SCOPE_PIPES=", "scope_pipes must name at least one id"),
        ("PIPEFY_MCP_SCOPE_PIPES=[]", "scope_pipes must name at least one id"),
        ("PIPEFY_MCP_SCOPE_PIPES=null", "scope_pipes must name at least one id"),
        ("PIPEFY_MCP_SCOPE_PIPES=1,,2", "blank entry"),
        ("PIPEFY_MCP_SCOPE_TABLES=1;2", "must hold ids"),
        ("PIPEFY_MCP_TOOLSETS=,", "toolsets must name at least one"),
        ("PIPEFY_MCP_TOOLSETS= , ,", "toolsets must name at least one"),
        ("PIPEFY_MCP_SCOPE_ORG=1,2", "scope_org must be one id"),
        ("PIPEFY_MCP_RESULT_BUDGET=-1", "result_budget must be a whole number"),
        ("PIPEFY_MCP_SESSION_IDLE_MINUTES=0", "from 1 to 10080"),
        ("PIPEFY_MCP_SESSION_KEY=short", "at least 32 characters"),
        ("PIPEFY_MCP_CONFIRMATION_SECRET=short", "at least 32 characters"),
        ("PIPEFY_JWT_ISSUER_URL=", "issuer_url must include a scheme"),
        ("PIPEFY_JWT_JWKS_URI=", "jwks_uri must include a scheme"),
        ("PIPEFY_JWT_VERIFY_AUDIENCE=true", "PIPEFY_JWT_AUDIENCE"),
        ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL=", "resource_server_url must include a scheme"),
        ("PIPEFY_IPAAS_URL=http://x.test", "url must use HTTPS"),
        ("PIPEFY_STORAGE_HOSTS=https://x", "storage_hosts must hold host names"),
    ] {
        let error = refused(&[line]);
        assert!(error.contains(wanted), "{line}: {error}");
        let name = line.split('=').next().unwrap();
        assert!(error.contains(name), "{line}: {error}");
        assert!(error.is_ascii());
    }
}

#[test]
fn every_problem_is_listed_once() {
    let error = load_server(
        &env(&[
            "PIPEFY_BASE_URL=http://localhost",
            "PIPEFY_ALLOW_INSECURE_URLS=yess",
            "PIPEFY_MCP_PORT=x",
            "PIPEFY_MCP_READONLY=1",
        ]),
        &Overrides::new(),
    )
    .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.problems.len(), 3, "{text}");
    assert!(text.starts_with("invalid settings:\n"), "{text}");
    for name in ["PIPEFY_ALLOW_INSECURE_URLS", "PIPEFY_MCP_PORT", "PIPEFY_MCP_READONLY"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn the_cli_does_not_care_about_server_variables() {
    let bad = env(&["PIPEFY_MCP_PORT=x", "PIPEFY_JWT_ISSUER_URL=", "PIPEFY_MCP_TOOLS=x"]);
    assert!(load_cli(&bad, &Overrides::new()).is_ok());
    assert!(load_cli(&env(&["PIPEFY_MCP_READ_ONLY=1"]), &Overrides::new()).unwrap().policy.read_only);
}

#[test]
fn values_are_read_the_way_people_write_them() {
    for word in ["1", "true", "T", "YES", "y", "On", " true "] {
        assert!(server(&[&format!("PIPEFY_MCP_READ_ONLY={word}")]).policy.read_only, "{word}");
    }
    for word in ["0", "false", "F", "NO", "n", "oFF"] {
        assert!(!server(&[&format!("PIPEFY_MCP_UNIFIED_ENVELOPE={word}")]).mcp.unified_envelope, "{word}");
    }
    assert_eq!(server(&["PIPEFY_MCP_PORT= 7 "]).mcp.port, 7);
    assert_eq!(server(&["PIPEFY_MCP_PORT=8.0"]).mcp.port, 8);
    assert_eq!(server(&["PIPEFY_MCP_LOG_LEVEL= warning "]).mcp.log_level, LogLevel::Warning);
    assert_eq!(server(&["PIPEFY_KEYCHAIN_BACKEND= FILE "]).auth.keychain_backend, KeychainBackend::File);
    assert_eq!(server(&["PIPEFY_TOKEN=  t  "]).auth.static_token.unwrap().expose_secret(), "t");
    assert_eq!(server(&["PIPEFY_MCP_RESULT_BUDGET=0"]).mcp.result_budget, None);
    assert_eq!(server(&["PIPEFY_MCP_TOOLSETS="]).mcp.toolsets, None);
    assert_eq!(server(&["PIPEFY_MCP_TOOLSETS=a, b,"]).mcp.toolsets.unwrap(), "a,b");
    for (text, wanted) in [
        ("[\"a\", \" b \"]", Some(vec!["a", "b"])),
        ("a, b", Some(vec!["a", "b"])),
        ("[]", Some(vec![])),
        ("", None),
        (" ", None),
        ("null", None),
    ] {
        let origins = server(&[&format!("PIPEFY_MCP_ALLOWED_ORIGINS={text}")]).mcp.allowed_origins;
        assert_eq!(origins.as_ref().map(|o| o.iter().map(String::as_str).collect()), wanted, "{text}");
    }
    assert_eq!(server(&["PIPEFY_MCP_SCOPE_PIPES=[1, \"2\"]"]).policy.scope.pipes.unwrap(), ["1", "2"]);
    assert_eq!(server(&["PIPEFY_MCP_SCOPE_ORG= 7 "]).policy.scope.org.unwrap(), "7");
    let ipaas = server(&["PIPEFY_IPAAS_URL=https://ipaas.test/ ", "PIPEFY_IPAAS_OAUTH_CLIENT_ID= "]).ipaas;
    assert_eq!(ipaas.url, "https://ipaas.test");
    assert!(!ipaas.is_configured());
    let rs = server(&["PIPEFY_MCP_RS_RESOURCE_SERVER_URL= https://h.test/mcp/ "]).resource_server;
    assert_eq!(rs.resource_server_url.unwrap(), "https://h.test/mcp/");
}

#[test]
fn toml_keeps_its_types() {
    let toml = |text: &str| load_server(&env(&[]).with_config(text), &Overrides::new());
    let all = toml(
        "\u{feff}port = 9\nread_only = 1\nstateless = \"yes\"\nallowed_hosts = [\"a\"]\nscope_pipes = [1, \"2\"]\n\
         toolsets = [\"workflow\", \"power\"]\nunknown = 1\nPIPEFY_TOKEN = \"x\"\n[section]\nport = 1\n",
    )
    .unwrap();
    assert_eq!(all.mcp.port, 9);
    assert!(all.policy.read_only && all.mcp.stateless);
    assert_eq!(all.mcp.allowed_hosts.unwrap(), ["a"]);
    assert_eq!(all.policy.scope.pipes.unwrap(), ["1", "2"]);
    assert_eq!(all.mcp.toolsets.unwrap(), "workflow,power");
    assert!(all.auth.static_token.is_none());
    for (text, wanted) in [
        ("org_id = 12", "put a number in quotes"),
        ("read_only = 2", "must be true or false"),
        ("port = 1.5", "from 0 to 65535"),
        ("toolsets = []", "toolsets must name at least one"),
        ("allowed_hosts = [[1]]", "must be a list"),
        ("a = ", "invalid TOML in /home/ana/.config/pipefy/config.toml, line 1"),
        ("a = 1\nstatic_token = canary", "line 2"),
    ] {
        let error = toml(text).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}

#[test]
fn an_account_has_settings_of_its_own() {
    let file = "org_id = \"1\"\naccount = \"home\"\n[accounts.home]\norg_id = \"2\"\n\
                [accounts.work]\norg_id = \"3\"\nread_only = true\nscope_pipes = [7]\naccount = \"other\"\n[work]\norg_id = \"9\"\n";
    let load = |set: &[&str], overrides: &Overrides| load_server(&env(set).with_config(file), overrides).unwrap();
    let org = |all: &ServerSettings| all.pipefy.org_id.clone().unwrap();
    let home = load(&[], &Overrides::new());
    assert_eq!((org(&home).as_str(), home.policy.read_only), ("2", false));
    let work = load(&[], &Overrides::new().with(&ACCOUNT, "--account", " work "));
    assert_eq!((org(&work).as_str(), work.policy.read_only), ("3", true));
    assert_eq!(
        (work.policy.scope.pipes.unwrap(), work.auth.account.unwrap()),
        (vec!["7".to_owned()], "work".to_owned())
    );
    let place = work.report.source(&ORG_ID).to_string();
    assert!(place.starts_with("accounts.work.org_id ("), "{place}");
    // The environment beats every part of the file; an account without settings has those of the top level.
    assert_eq!(org(&load(&["PIPEFY_ACCOUNT=work", "PIPEFY_ORG_ID=5"], &Overrides::new())), "5");
    assert_eq!(org(&load(&["PIPEFY_ACCOUNT=third"], &Overrides::new())), "1");
    // Whoever names an account means its credential; one that is only chosen leaves those of the environment in force.
    let file = "[accounts.a]\nstatic_token = \"own\"\n";
    let token = |set: &[&str], overrides: Overrides| {
        let all = load_server(&env(set).with_config(file), &overrides).unwrap();
        all.auth.static_token.map(|token| token.expose_secret().to_owned())
    };
    let named = |name: &str| Overrides::new().with(&ACCOUNT, "--account", name);
    assert_eq!(token(&["PIPEFY_TOKEN=x"], named("a")).as_deref(), Some("own"));
    assert_eq!(token(&["PIPEFY_TOKEN=x"], named("b")), None);
    assert_eq!(token(&["PIPEFY_TOKEN=x", "PIPEFY_ACCOUNT=a"], Overrides::new()).as_deref(), Some("x"));
    assert_eq!(token(&["PIPEFY_ACCOUNT=a"], Overrides::new()).as_deref(), Some("own"));
    // Rules and slips are looked for in there too.
    for (text, wanted) in [
        ("account = \"a\"\n[accounts.a]\norg_id = 12\n", "accounts.a.org_id"),
        ("[accounts.a]\nraed_only = true\n", "accounts.a.raed_only"),
    ] {
        let error = load_server(&env(&[]).with_config(text), &Overrides::new()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn files_are_found_read_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let config = home.join(".config/pipefy");
    std::fs::create_dir_all(&config).unwrap();
    let at = |environment: Environment| environment.with_home(&home).with_cwd(dir.path()).read_files();
    let base = || Environment::empty();

    assert!(load_server(&at(base()), &Overrides::new()).is_ok(), "missing files are fine");
    std::fs::create_dir(dir.path().join(".env")).unwrap();
    assert!(load_server(&at(base()), &Overrides::new()).is_ok(), "a directory is no file");
    std::fs::remove_dir(dir.path().join(".env")).unwrap();

    std::fs::write(config.join("config.toml"), "port = 1").unwrap();
    std::fs::write(dir.path().join(".env"), "PIPEFY_MCP_HOST=127.0.0.9\nbad line\n").unwrap();
    let all = load_server(&at(base()), &Overrides::new()).unwrap();
    assert_eq!((all.mcp.port, all.mcp.host.as_str()), (1, "127.0.0.9"));
    assert_eq!(all.report.warnings, ["warning: .env line 2 could not be read and is skipped"]);

    std::fs::create_dir_all(dir.path().join("xdg/pipefy")).unwrap();
    std::fs::write(dir.path().join("xdg/pipefy/config.toml"), "port = 2").unwrap();
    std::fs::write(dir.path().join("other.toml"), "port = 3").unwrap();
    let xdg = base().with_variable("XDG_CONFIG_HOME", "xdg");
    assert_eq!(load_server(&at(xdg.clone()), &Overrides::new()).unwrap().mcp.port, 2);
    let named = xdg.with_variable("PIPEFY_CONFIG_FILE", "other.toml");
    let named = at(named);
    assert_eq!(load_server(&named, &Overrides::new()).unwrap().mcp.port, 3);
    assert_eq!(named.config_dir().unwrap(), dir.path().join("xdg/pipefy"), "the file name does not move the directory");

    std::fs::write(dir.path().join(".env"), b"A=\xff").unwrap();
    let error = refused_in(&at(base()));
    assert!(error.contains(".env: is not UTF-8"), "{error}");
    std::fs::remove_file(dir.path().join(".env")).unwrap();
    std::fs::write(config.join("config.toml"), b"a = \"\xff\"").unwrap();
    let error = refused_in(&at(base()));
    assert!(error.contains("config.toml: is not UTF-8"), "{error}");
}

/// A file that somebody counts on is there, or they hear of it.
#[test]
fn a_named_configuration_file_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let named = Environment::empty().with_variable("PIPEFY_CONFIG_FILE", name);
        load_server(&named.with_home(dir.path()).with_cwd(dir.path()).read_files(), &Overrides::new())
    };
    std::fs::create_dir_all(dir.path().join(".config/pipefy/config.toml")).unwrap();
    std::fs::write(dir.path().join("large.toml"), "#".repeat(1024 * 1024 + 1)).unwrap();
    std::fs::write(dir.path().join("full.toml"), "#".repeat(1024 * 1024)).unwrap();
    for name in ["absent.toml", "full.toml/below", "absent/absent.toml"] {
        let warnings = at(name).unwrap().report.warnings;
        let missing = |line: &String| line.contains(name) && line.contains("does not exist");
        assert!(warnings.iter().any(missing), "{name}: {warnings:?}");
    }
    for (name, rule) in [(".", "is no regular file"), ("large.toml", "is larger than 1 MiB")] {
        let error = at(name).unwrap_err().to_string();
        assert!(error.contains(rule), "{name}: {error}");
    }
    if cfg!(unix) {
        let error = at("/dev/zero").unwrap_err().to_string();
        assert!(error.contains("/dev/zero: is no regular file"), "{error}");
    }
    for name in ["", "full.toml", "/dev/null"] {
        let warnings = at(name).unwrap().report.warnings;
        assert!(!warnings.iter().any(|line| line.contains("PIPEFY_CONFIG_FILE")), "{name}: {warnings:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_configuration_file_whose_name_is_no_text_is_not_passed_over() {
    let mut environment = env(&[]);
    environment.set_undecodable("PIPEFY_CONFIG_FILE");
    assert!(refused_in(&environment).contains("PIPEFY_CONFIG_FILE: must be UTF-8"));
}

/// Every safety setting in every form that `.env` does not understand stops start-up, and its value is not shown.
#[test]
fn a_setting_in_dotenv_that_cannot_be_read_stops_start_up() {
    let guarded = REGISTRY.iter().filter(|variable| variable.guarded);
    let mut tried = 0;
    for name in guarded.flat_map(|variable| variable.env) {
        for line in [
            format!("{name}=\"canary"),
            format!("{name}='canary"),
            format!("{name}: canary"),
            format!("{name} canary"),
            format!("export {name}"),
            format!("A=\"x\n{name}=\"canary\""),
        ] {
            let error = load_cli(&env(&[]).with_dotenv(format!("# ours\n{line}\n")), &Overrides::new()).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(".env: line 2 names a PIPEFY_ variable"), "{line}: {shown}");
            assert!(!shown.contains("canary"), "{shown}");
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    let other = load_cli(&env(&[]).with_dotenv("A: 1\nB\nC='x"), &Overrides::new()).unwrap();
    assert_eq!(other.report.warnings.len(), 2, "{:?}", other.report.warnings);
}

#[test]
fn dotenv_is_expanded_and_any_case() {
    let environment =
        env(&["OUTER=https://x.test"]).with_dotenv("pipefy_base_url='${OUTER}'\nexport PIPEFY_MCP_PORT = 5 # five");
    let all = load_server(&environment, &Overrides::new()).unwrap();
    assert_eq!((all.pipefy.base_url(), all.mcp.port), ("https://x.test", 5));
}

#[test]
fn old_names_warn() {
    let old = env(&["PIPEFY_OAUTH_CLIENT=id", "PIPEFY_OAUTH_URL="]).with_dotenv("PIPEFY_OAUTH_SECRET=s");
    let all = load_cli(&old, &Overrides::new()).unwrap();
    let text = all.report.warnings.join("\n");
    for wanted in [
        "PIPEFY_OAUTH_CLIENT is deprecated; rename to PIPEFY_SERVICE_ACCOUNT_CLIENT_ID",
        "PIPEFY_OAUTH_SECRET is deprecated; rename to PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET in .env",
        "PIPEFY_OAUTH_URL is no longer recognised",
        "PIPEFY_BASE_URL",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(all.report.warnings.iter().all(|line| line.starts_with("warning: ")));
    assert_eq!(all.auth.masking, ["PIPEFY_OAUTH_*"]);
}

#[test]
fn masking_names_what_beats_a_stored_session() {
    let masking = |environment: &Environment| load_cli(environment, &Overrides::new()).unwrap().auth.masking;
    assert_eq!(masking(&env(&["PIPEFY_TOKEN=t"])), ["PIPEFY_TOKEN"]);
    assert_eq!(
        masking(&env(&[
            "PIPEFY_SERVICE_ACCOUNT_CLIENT_ID=i",
            "PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET=s",
            "PIPEFY_TOKEN=t"
        ])),
        ["PIPEFY_TOKEN", "PIPEFY_SERVICE_ACCOUNT_*"]
    );
    assert!(masking(&env(&["PIPEFY_SERVICE_ACCOUNT_CLIENT_ID=i"])).is_empty());
    assert_eq!(masking(&env(&[]).with_dotenv("PIPEFY_TOKEN=t")), ["PIPEFY_TOKEN (.env)"]);
    assert_eq!(masking(&env(&[]).with_config("static_token = \"t\"")), ["PIPEFY_TOKEN (config.toml)"]);
}

#[test]
fn server_settings_agree_with_each_other() {
    let remote = server(&["PIPEFY_MCP_PROFILE=remote", "PIPEFY_MCP_HOST=0.0.0.0"]);
    assert_eq!(remote.mcp.transport, Transport::Http);
    assert!(remote.report.warnings.iter().any(|line| line.contains("PIPEFY_JWT_VERIFY_AUDIENCE")));
    let error = refused(&["PIPEFY_MCP_PROFILE=remote", "PIPEFY_MCP_TRANSPORT=stdio"]);
    assert!(error.contains("must be http with profile remote"), "{error}");
    for host in ["0.0.0.0", "::", "example.com", "localhost.", "127.1"] {
        let error = refused(&["PIPEFY_MCP_TRANSPORT=http", &format!("PIPEFY_MCP_HOST={host}")]);
        for wanted in ["non-loopback HTTP bind", host, "PIPEFY_MCP_ALLOW_INSECURE_HTTP_BIND", "profile remote"] {
            assert!(error.contains(wanted), "{error}");
        }
    }
    for host in ["127.0.0.1", "LOCALHOST", "[::1]", "127.0.0.2"] {
        server(&["PIPEFY_MCP_TRANSPORT=http", &format!("PIPEFY_MCP_HOST={host}")]);
    }
    assert_eq!(server(&["PIPEFY_MCP_HOST=[::1]"]).mcp.bind_host(), "::1");
    server(&["PIPEFY_MCP_TRANSPORT=http", "PIPEFY_MCP_HOST=0.0.0.0", "PIPEFY_MCP_ALLOW_INSECURE_HTTP_BIND=1"]);
    server(&["PIPEFY_MCP_HOST=0.0.0.0"]);
    server(&["PIPEFY_MCP_HOST="]);
    let blank = Overrides::new().with(&HOST, "--host", "  ");
    assert!(load_server(&env(&[]), &blank).unwrap_err().to_string().contains("--host: host must not be blank"));
    // A conflict in the environment that a flag resolves is none.
    let conflict = env(&["PIPEFY_MCP_HOST=0.0.0.0", "PIPEFY_MCP_TRANSPORT=http"]);
    assert!(load_server(&conflict, &Overrides::new()).is_err());
    assert!(load_server(&conflict, &Overrides::new().with(&PROFILE, "--profile", "remote")).is_ok());

    let jwt = server(&["PIPEFY_JWT_VERIFY_AUDIENCE=1", "PIPEFY_JWT_AUDIENCE= a "]).jwt;
    assert_eq!(jwt.audience.as_deref(), Some("a"));
    assert!(refused(&["PIPEFY_JWT_VERIFY_AUDIENCE=1", "PIPEFY_JWT_AUDIENCE= "]).contains("PIPEFY_JWT_AUDIENCE"));
    let disabled = server(&["PIPEFY_DISABLE_STORED_SESSION=1"]);
    assert_eq!(disabled.jwt.effective_issuer(&disabled.auth), None);
    let own = server(&["PIPEFY_JWT_ISSUER_URL=https://i.test/r/", "PIPEFY_DISABLE_STORED_SESSION=1"]);
    assert_eq!(own.jwt.effective_issuer(&own.auth), Some("https://i.test/r/"));
    let insecure = ["PIPEFY_JWT_ALLOW_INSECURE_URLS=1", "PIPEFY_JWT_ISSUER_URL=http://127.0.0.1:1/i"];
    assert!(server(&insecure).jwt.allow_insecure_urls);
    assert!(refused(&["PIPEFY_ALLOW_INSECURE_URLS=0", insecure[0], insecure[1]]).contains("issuer_url"));
}

#[test]
fn acting_on_behalf_of_callers_is_configured_whole_or_not_at_all() {
    assert!(server(&[]).exchange.is_none());
    let client = ["PIPEFY_EXCHANGE_CLIENT_ID=mcp", "PIPEFY_EXCHANGE_CLIENT_SECRET=canary-secret"];
    let exchange = server(&client).exchange.unwrap();
    assert_eq!((exchange.client_id.as_str(), exchange.client_auth), ("mcp", ClientAuth::Basic));
    assert_eq!((exchange.token_url, exchange.audience, exchange.resource), (None, None, None));
    assert!(exchange.scopes.is_empty() && !exchange.allow_insecure_urls);
    let more = [
        "PIPEFY_EXCHANGE_CLIENT_AUTH=POST",
        "PIPEFY_EXCHANGE_TOKEN_URL= https://idp.example.com/token ",
        "PIPEFY_EXCHANGE_AUDIENCE=pipefy",
        "PIPEFY_EXCHANGE_RESOURCE=urn:pipefy:api",
        "PIPEFY_EXCHANGE_SCOPES=a,b",
    ];
    let exchange = server(&[&client[..], &more[..]].concat()).exchange.unwrap();
    assert_eq!(exchange.client_auth, ClientAuth::Post);
    assert_eq!(exchange.token_url.as_deref(), Some("https://idp.example.com/token"));
    assert_eq!((exchange.audience.as_deref(), exchange.resource.as_deref()), (Some("pipefy"), Some("urn:pipefy:api")));
    assert_eq!(exchange.scopes, ["a", "b"]);

    for half in more.iter().chain(&client) {
        let error = refused(&[half]);
        assert!(error.contains("PIPEFY_EXCHANGE_CLIENT_"), "{half}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
    for (bad, rule) in [
        ("PIPEFY_EXCHANGE_RESOURCE=pipefy", "absolute URI"),
        ("PIPEFY_EXCHANGE_RESOURCE=https://a/b#c", "absolute URI"),
        ("PIPEFY_EXCHANGE_TOKEN_URL=http://idp.example.com/token", "HTTPS"),
        ("PIPEFY_EXCHANGE_SCOPES=[\"a b\"]", "scope names"),
        ("PIPEFY_EXCHANGE_CLIENT_AUTH=jwt", "exchange_client_auth"),
        ("PIPEFY_MCP_EXCHANGE_AUDIENCE=pipefy", "PIPEFY_EXCHANGE_AUDIENCE"),
        ("PIPEFY_MCP_RS_REQUIRED_SCOPES=[\"a\\\"b\"]", "scope names"),
    ] {
        let error = refused(&[client[0], client[1], bad]);
        assert!(error.contains(rule), "{bad}: {error}");
    }
    // What a front end sets for its own sake asks for nothing.
    let overrides = Overrides::new().with(&EXCHANGE_TOKEN_URL, "--sandbox", "https://sandbox.example.com/token");
    assert!(load_server(&env(&[]), &overrides).unwrap().exchange.is_none());
}

#[test]
fn a_misspelt_safety_setting_stops_start_up() {
    for (name, meant) in [
        ("PIPEFY_MCP_READONLY", "PIPEFY_MCP_READ_ONLY"),
        ("PIPEFY_READ_ONLY", "PIPEFY_MCP_READ_ONLY"),
        ("PIPEFY_MCP_READ-ONLY", "PIPEFY_MCP_READ_ONLY"),
        ("pipefy_mcp_raed_only", "PIPEFY_MCP_READ_ONLY"),
        ("PIPFY_MCP_READ_ONLY", "PIPEFY_MCP_READ_ONLY"),
        ("PIPEFY_MCP_TOOLS", "PIPEFY_MCP_TOOLSETS"),
        ("PIPEFY_MCP_TOOLSET", "PIPEFY_MCP_TOOLSETS"),
        ("PIPEFY_MCP_SCOPE", "PIPEFY_MCP_SCOPE_PIPES"),
        ("PIPEFY_MCP_SCOPE_PIPE", "PIPEFY_MCP_SCOPE_PIPES"),
        ("PIPEFY_SCOPE_TABLES", "PIPEFY_MCP_SCOPE_TABLES"),
        ("PIPEFY_MCP_SCOPE_ORGS", "PIPEFY_MCP_SCOPE_ORG"),
        ("PIPEFY_MCP_ALLOWED_HOST", "PIPEFY_MCP_ALLOWED_HOSTS"),
        ("PIPEFY_MCP_ALLOW_ORIGINS", "PIPEFY_MCP_ALLOWED_ORIGINS"),
        ("PIPEFY_ALLOW_INSECURE_URL", "PIPEFY_ALLOW_INSECURE_URLS"),
        ("PIPEFY_MCP_ALLOW_INSECURE_BIND_HTTP", ""),
        ("PIPEFY_JWT_VERIFY_AUDIANCE", "PIPEFY_JWT_VERIFY_AUDIENCE"),
        ("PIPEFY_DISABLE_STORED_SESSIONS", "PIPEFY_DISABLE_STORED_SESSION"),
        ("PIPEFY_MCP_RS_REQUIRED_SCOPE", "PIPEFY_MCP_RS_REQUIRED_SCOPES"),
    ] {
        if meant.is_empty() {
            server(&[&format!("{name}=1")]);
            continue;
        }
        let error = refused(&[&format!("{name}=canary")]);
        assert!(error.contains(name) && error.contains(&format!("did you mean {meant}?")), "{name}: {error}");
        assert!(!error.contains("canary"));
        assert!(refused_in(&env(&[]).with_dotenv(format!("{name}=1"))).contains(meant), "{name}");
    }
    for (text, meant) in [
        ("readonly = true", "read_only"),
        ("read-only = true", "read_only"),
        ("READ_ONLY = true", "read_only"),
        ("PIPEFY_MCP_READ_ONLY = true", "read_only"),
        ("toolset = \"x\"", "toolsets"),
        ("scope_pipe = [1]", "scope_pipes"),
        ("[mcp]\nread_only = true", "read_only"),
        ("[policy]\nscope_pipes = [1]", "scope_pipes"),
    ] {
        let error = refused_in(&env(&[]).with_config(text));
        assert!(error.contains(&format!("did you mean {meant}?")), "{text}: {error}");
    }
    server(&["PIPEFY_MCP_REMOTE_MODE=1", "PIPEFY_HOST_NAME=x", "PIPEFY_SANDBOX=1", "TOOLSETS=x", "READ_ONLY=x"]);
    load_server(&env(&[]).with_config("remote_mode = true\n[tool]\ntoolset = 1\nport = 3"), &Overrides::new()).unwrap();
}

#[test]
fn no_secret_is_shown_anywhere() {
    let canary = "canary-0123456789-0123456789-0123456789";
    let names = [
        "PIPEFY_TOKEN",
        "PIPEFY_SERVICE_ACCOUNT_CLIENT_SECRET",
        "PIPEFY_MCP_CONFIRMATION_SECRET",
        "PIPEFY_MCP_SESSION_KEY",
        "PIPEFY_IPAAS_OAUTH_CLIENT_SECRET",
        "PIPEFY_EXCHANGE_CLIENT_SECRET",
    ];
    let mut lines: Vec<String> = names.iter().map(|name| format!("{name}={canary}")).collect();
    lines.push(format!("PIPEFY_MCP_SESSION_STORE_URL=redis://user:{canary}@store"));
    let lines: Vec<&str> = lines.iter().map(String::as_str).chain(["PIPEFY_EXCHANGE_CLIENT_ID=mcp"]).collect();
    let environment = env(&lines).with_dotenv(format!("PIPEFY_TOKEN={canary}"));
    let overrides = Overrides::new().with(&STATIC_TOKEN, "--token", canary);
    let all = load_server(&environment, &overrides).unwrap();
    let shown = format!("{all:?} {environment:?} {overrides:?}");
    assert!(!shown.contains("canary"), "{shown}");
    let shown = all.report.found.iter().filter(|found| found.variable.secret);
    assert!(shown.clone().count() > names.len(), "each of them, and the store's URL");
    assert!(shown.into_iter().all(|found| found.shown.as_deref() == Some("***")));

    // Also not when it is refused, whatever the type of the setting it was put into.
    for variable in REGISTRY {
        for name in variable.env {
            let result = load_server(&env(&[&format!("{name}=ca\nnary {canary}")]), &Overrides::new());
            if let Err(error) = result {
                assert!(!format!("{error} {error:?}").contains("nary"), "{name}: {error}");
            }
        }
    }
}

#[test]
fn an_environment_can_be_captured() {
    let environment = Environment::capture();
    assert!(environment.variable("PATH").is_some());
    assert!(!environment.cwd().as_os_str().is_empty());
}

#[test]
fn the_page_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = settings_page();
    assert!(page.is_ascii());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/settings.md is out of date: UPDATE_DOCS=1 cargo test -p pipefy settings");
}

proptest::proptest! {
    #[test]
    fn no_input_panics(value in ".{0,40}", file in ".{0,60}") {
        for variable in REGISTRY {
            for name in variable.env {
                let _ = load_server(&env(&[&format!("{name}={value}")]), &Overrides::new());
            }
        }
        let _ = load_server(&env(&[]).with_config(file.clone()).with_dotenv(file), &Overrides::new());
    }
}
