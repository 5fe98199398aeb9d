//! `pipefy doctor`: what stands between this machine and Pipefy.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pipefy::{Budget, EndpointKind, OperationKind, PipefyEngine, Query, Surface, documents};
use pipefy_auth::{AuthError, AuthHttp, AuthSource, AuthStatus, status};
use serde_json::{Map, Value, json};

use crate::auth;
use crate::failure::Failure;
use crate::mcp;
use crate::output::{Body, Shown};
use crate::run::{Loaded, Start};
use crate::sandbox;

/// Tokens are judged with about this much patience for clocks, in seconds.
const CLOCK: i64 = 60;

/// How long one look at the network may take.
const LOOK: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fine,
    Warning,
    Wrong,
}

struct Finding {
    check: &'static str,
    verdict: Verdict,
    what: String,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, what: impl Into<String>) -> Self {
        Self { check, verdict, what: what.into() }
    }
}

/// `doctor`: exit code 1 when something is wrong, 0 otherwise.
pub(crate) fn examine<'a>(start: &'a Start, _: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let mut loaded = start.settings()?;
        let attached = match start.globals.sandbox {
            true => Some(sandbox::attach(start.globals.sandbox_data.as_deref(), None, None).await?.0),
            false => None,
        };
        if let Some(attached) = &attached {
            sandbox::stand_in(&mut loaded, attached)?;
        }
        let findings = look(start, &loaded).await;
        if let Some(attached) = attached {
            attached.shutdown().await;
        }
        let word = |verdict| match verdict {
            Verdict::Fine => "ok",
            Verdict::Warning => "warning",
            Verdict::Wrong => "wrong",
        };
        let rows: Vec<Value> = findings
            .iter()
            .map(|finding| json!({ "check": finding.check, "result": word(finding.verdict), "finding": finding.what }))
            .collect();
        let wrong = findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
        Ok(Shown { body: Body::Value(rows.into()), ..Shown::default() }.code(u8::from(wrong)))
    })
}

async fn look(start: &Start, loaded: &Loaded) -> Vec<Finding> {
    let status = status(&loaded.auth, start.globals.token.clone().map(Into::into)).await;
    // A token or a service account does without the issuer.
    let active = status.as_ref().ok().and_then(|status| status.active.as_ref());
    let needs_issuer = active.is_none_or(|active| active.source() == AuthSource::StoredSession);
    let mut findings = vec![settings(start, loaded)];
    findings.extend(network(loaded, needs_issuer).await);
    let (signed_in, active) = sign_in(loaded, status).await;
    findings.push(signed_in);
    if let Some(active) = active {
        findings.push(schema(loaded, &active).await);
    }
    findings.extend(clients(start));
    findings
}

fn settings(start: &Start, loaded: &Loaded) -> Finding {
    let set = loaded.report.found.iter().filter(|found| found.source != pipefy::settings::Source::Default).count();
    let file = match start.environment.config_file() {
        Some(path) if path.is_file() => format!("config file {}", path.display()),
        Some(path) => format!("no config file at {}", path.display()),
        None => "no home folder".to_owned(),
    };
    Finding::new("settings", Verdict::Fine, format!("{set} set, {file}; `pipefy config show` lists them"))
}

/// Whether Pipefy and the issuer answer, and whether their clocks agree with ours.
async fn network(loaded: &Loaded, needs_issuer: bool) -> Vec<Finding> {
    let http = AuthHttp::new();
    let base = loaded.pipefy.base_url().trim_end_matches('/').to_owned();
    let issuer = loaded.auth.auth_url.trim().trim_end_matches('/');
    let issuer = format!("{issuer}/.well-known/openid-configuration");
    let mut findings = Vec::new();
    let mut clock = None;
    for (check, url, wanted) in [("api", format!("{base}/graphql"), false), ("issuer", issuer, true)] {
        if check == "issuer" && loaded.auth.disable_stored_session {
            continue;
        }
        let spare = check == "issuer" && !needs_issuer;
        findings.push(match http.probe(&url, LOOK).await {
            Err(cause) if spare => Finding::new(
                check,
                Verdict::Warning,
                format!("{url} cannot be reached ({cause}); only `pipefy auth login` needs it"),
            ),
            Err(cause) => Finding::new(
                check,
                Verdict::Wrong,
                format!("{url} cannot be reached ({cause}); check the network and proxies"),
            ),
            Ok(probe) => {
                clock = clock.or(probe.ahead);
                match probe.status {
                    status if wanted && status != 200 => Finding::new(
                        check,
                        Verdict::Warning,
                        format!("{url} answers HTTP {status}; check PIPEFY_AUTH_URL"),
                    ),
                    500.. => Finding::new(check, Verdict::Warning, format!("{url} answers HTTP {}", probe.status)),
                    _ => Finding::new(check, Verdict::Fine, format!("{url} answers in {} ms", probe.took.as_millis())),
                }
            }
        });
    }
    if let Some(ahead) = clock {
        findings.push(match ahead {
            ahead if ahead.abs() <= CLOCK => Finding::new("clock", Verdict::Fine, "agrees with the server's"),
            ahead => {
                let direction = if ahead > 0 { "ahead of" } else { "behind" };
                let text =
                    format!("is {} s {direction} the server's; tokens are refused for that, set it right", ahead.abs());
                Finding::new("clock", Verdict::Wrong, text)
            }
        });
    }
    findings
}

async fn sign_in(loaded: &Loaded, status: Result<AuthStatus, AuthError>) -> (Finding, Option<AuthStatus>) {
    let found = match status {
        Ok(found) => found,
        Err(error) => return (Finding::new("sign-in", Verdict::Wrong, error.to_string()), None),
    };
    let Some(active) = &found.active else {
        let note = found.note.as_deref().map(|note| format!("; {note}")).unwrap_or_default();
        let text = format!("nobody is signed in: run `pipefy auth login` or set PIPEFY_TOKEN{note}");
        return (Finding::new("sign-in", Verdict::Wrong, text), None);
    };
    if let Some(error) = found.session.as_ref().and_then(|session| session.error.as_ref()) {
        return (Finding::new("sign-in", Verdict::Wrong, format!("{error}. {}", error.advice())), None);
    }
    let label = active.label();
    match auth::who(loaded, &found).await {
        Ok(who) => {
            let email = who.and_then(|who| who.email).unwrap_or_else(|| "an account without a person".to_owned());
            let masked = match found.masking.is_empty() {
                true => String::new(),
                false => format!("; it hides the stored session ({})", found.masking.join(", ")),
            };
            let verdict = if masked.is_empty() { Verdict::Fine } else { Verdict::Warning };
            (Finding::new("sign-in", verdict, format!("{email} by {label}{masked}")), Some(found))
        }
        Err(error) => (Finding::new("sign-in", Verdict::Wrong, format!("{label}: {error}")), None),
    }
}

/// Whether the public schema still has every root field that the commands use.
async fn schema(loaded: &Loaded, active: &AuthStatus) -> Finding {
    let check = "schema";
    let Some(auth) = &active.active else { return Finding::new(check, Verdict::Warning, "not looked at") };
    let engine = match PipefyEngine::build(&loaded.pipefy, Surface::Cli, None) {
        Ok(engine) => engine,
        Err(error) => return Finding::new(check, Verdict::Wrong, error.to_string()),
    };
    let session = engine.session(auth.credential());
    // Deprecated fields work too; the shorter look-ups leave them out.
    let answer = session.query(&Query::new(&documents::introspection::SCHEMA), &Budget::unlimited()).await;
    let answer = match answer {
        Ok(answer) => answer.value(),
        Err(error) => return Finding::new(check, Verdict::Warning, format!("it cannot be read: {error}")),
    };
    let mut missing = Vec::new();
    for (root, kind) in [("queryType", OperationKind::Query), ("mutationType", OperationKind::Mutation)] {
        let known = fields(&answer, root);
        let used = documents::ALL.iter().filter(|d| d.endpoint() == EndpointKind::Public && d.kind() == kind);
        for field in used.flat_map(|document| roots(document.text())) {
            if !known.contains(field) && !field.starts_with("__") && !missing.contains(&field) {
                missing.push(field);
            }
        }
    }
    match missing.is_empty() {
        true => Finding::new(check, Verdict::Fine, "Pipefy knows every operation of this version"),
        false => {
            let text = format!("Pipefy no longer knows {}; look for a newer version", missing.join(", "));
            Finding::new(check, Verdict::Warning, text)
        }
    }
}

/// The names of a root's fields in an answer to the introspection query.
fn fields<'a>(answer: &'a Value, root: &str) -> HashSet<&'a str> {
    let name = answer.pointer(&format!("/__schema/{root}/name"));
    let types = answer.pointer("/__schema/types").and_then(Value::as_array).into_iter().flatten();
    let fields = types.filter(|found| found.get("name") == name).filter_map(|found| found.get("fields")?.as_array());
    fields.flatten().filter_map(|field| field.get("name")?.as_str()).collect()
}

/// The root fields of a document of ours: the names one level in, outside parentheses, behind their aliases.
fn roots(document: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut braces, mut parentheses, mut start) = (0, 0, None);
    for (at, c) in document.char_indices() {
        let name = c.is_ascii_alphanumeric() || c == '_';
        if name && start.is_none() {
            start = Some(at);
        }
        if let Some(begun) = start.filter(|_| !name) {
            start = None;
            if braces == 1 && parentheses == 0 && c != ':' {
                names.extend(
                    document
                        .get(begun..at)
                        .filter(|_| !document.get(..begun).unwrap_or_default().ends_with(['@', '.', '$'])),
                );
            }
        }
        match c {
            '{' => braces += 1,
            '}' => braces -= 1,
            '(' => parentheses += 1,
            ')' => parentheses -= 1,
            _ => {}
        }
        // Fragments follow the operation.
        if c == '}' && braces == 0 {
            break;
        }
    }
    names
}

fn clients(start: &Start) -> Vec<Finding> {
    let (found, notes) = mcp::registrations(&start.environment);
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let places: Vec<String> =
        found.iter().map(|entry| format!("{} ({})", text(entry, "client"), text(entry, "scope"))).collect();
    let mut findings = vec![Finding::new(
        "mcp clients",
        Verdict::Fine,
        match places.is_empty() {
            true => "none knows the server; `pipefy mcp install` tells one".to_owned(),
            false => places.join(", "),
        },
    )];
    findings.extend(notes.into_iter().map(|note| {
        let note = note.trim_start_matches("error: ").trim_start_matches("warning: ").to_owned();
        Finding::new("mcp clients", Verdict::Warning, note)
    }));
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn roots_of_documents() {
        for (document, names) in [
            ("query A($id: ID!) {card(id: $id) {id title} other}", vec!["card", "other"]),
            ("mutation B($i: X!) {done: createCard(input: {a: $i}) {card {id}}}", vec!["createCard"]),
            ("query C {me {id ...F}} fragment F on User {name}", vec!["me"]),
            ("query D {a @include(if: $x) {id} b}", vec!["a", "b"]),
        ] {
            assert_eq!(roots(document), names, "{document}");
        }
        for document in documents::ALL {
            let names = roots(document.text());
            assert!(!names.is_empty() && names.iter().all(|name| !name.is_empty()), "{}: {names:?}", document.name());
        }
    }
}
