//! Flags, exit codes and start-up messages of the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/child.rs"]
mod child;

use child::run;

/// Exit code, standard output, standard error.
fn outcome(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let (output, _) = run(arguments, variables, b"");
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// D1: whatever the environment holds, help and version work; and a flag repairs a bad variable.
#[test]
fn arguments_come_before_settings() {
    let broken = [("PIPEFY_MCP_PROFILE", "nonsense"), ("PIPEFY_MCP_PORT", "x"), ("PIPEFY_BASE_URL", "::")];
    let (code, out, err) = outcome(&["--version"], &broken);
    assert_eq!((code, out, err), (Some(0), format!("{}\n", pipefy::VERSION), String::new()));
    for help in ["--help", "-h"] {
        let (code, out, err) = outcome(&[help], &broken);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.starts_with("usage: pipefy-mcp-server") && out.contains(pipefy::COMPATIBLE_WITH));
    }
    let conflict = [("PIPEFY_MCP_PROFILE", "remote"), ("PIPEFY_MCP_TRANSPORT", "stdio"), ("PIPEFY_TOKEN", "t")];
    assert_eq!(outcome(&[], &conflict).0, Some(2));
    assert_eq!(outcome(&["--profile", "local"], &conflict).0, Some(0));
}

#[test]
fn what_is_written_wrongly_exits_2_with_usage_and_never_echoes_the_value() {
    let token = ("PIPEFY_TOKEN", "t");
    for (arguments, variables, wanted) in [
        (vec!["--profile", "canary"], vec![token], "--profile"),
        (vec!["--transport=canary"], vec![token], "--transport"),
        (vec!["--port", "canary"], vec![token], "--port"),
        (vec!["--port="], vec![token], "--port"),
        (vec!["--host", "   "], vec![token], "--host"),
        (vec!["--readonly"], vec![token], "--read-only"),
        (vec!["--profile", "remote", "--transport", "stdio"], vec![token], "no stdio equivalent"),
        (vec!["--transport", "http", "--host", "0.0.0.0"], vec![token], "non-loopback HTTP bind"),
        (vec!["--toolsets", "power,oops"], vec![token], "unknown toolset: oops"),
        (vec![], vec![token, ("PIPEFY_MCP_TOOLSETS", "oops")], "unknown toolset: oops"),
        (vec![], vec![token, ("PIPEFY_MCP_LOG_LEVEL", "canary")], "PIPEFY_MCP_LOG_LEVEL"),
        (vec![], vec![token, ("PIPEFY_MCP_REDONLY", "true")], "PIPEFY_MCP_READ_ONLY"),
    ] {
        let (code, out, err) = outcome(&arguments, &variables);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?} {variables:?}: {err}");
        assert!(err.starts_with("usage: ") && err.contains("\npipefy-mcp-server: error: "), "{err}");
        assert!(err.contains(wanted) && !err.contains("canary") && err.is_ascii(), "{arguments:?}: {err}");
    }
    let (_, _, err) = outcome(&["--toolsets=oops"], &[token]);
    assert!(err.contains("admin, all, analytics, architect"), "{err}");
}

#[test]
fn what_is_missing_exits_1_with_the_way_out() {
    for (arguments, variables, wanted) in [
        (vec![], vec![], "Missing Pipefy authentication"),
        (vec!["--profile", "remote"], vec![], "requires a resource server"),
        (
            vec!["--profile", "remote"],
            vec![("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", "https://mcp.example.com/mcp")],
            "requires an inbound issuer",
        ),
    ] {
        let (code, out, err) = outcome(&arguments, &variables);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {err}");
        let lines: Vec<&str> = err.lines().filter(|line| !line.starts_with("warning: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(wanted), "{err}");
    }
}

#[test]
fn unknown_arguments_are_one_warning() {
    let (code, _, err) = outcome(&["run", "--injected=canary", "-x", "extra"], &[("PIPEFY_TOKEN", "t")]);
    assert_eq!(code, Some(0), "{err}");
    let warnings: Vec<&str> = err.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings, ["pipefy-mcp-server: warning: ignored on the command line: --injected, -x, 2 other words"]);
    assert!(err.lines().any(|line| line.contains("starting") && line.contains("stdio")), "{err}");
}
