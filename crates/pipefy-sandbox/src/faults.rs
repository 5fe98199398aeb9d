//! Faults on demand: what a test wants the sandbox to do wrong, and when.

use crate::error::SandboxError;
use serde::{Deserialize, Serialize};

/// A fault plan. Empty by default: nothing goes wrong.
///
/// Written as JSON or TOML, for a start ([`Faults::parse`]) or while the sandbox runs
/// (`POST /_sandbox/faults` replaces the plan and starts its counters anew, `GET` shows it):
///
/// ```toml
/// latency_ms = 20
///
/// [[rules]]
/// root_field = "createCard"
/// nth = 1
/// status = 503
/// retry_after = "2"
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Milliseconds added to every request.
    pub latency_ms: u64,
    /// Checked in order; the first that matches a request strikes.
    pub rules: Vec<FaultRule>,
}

/// One fault: which requests it strikes, and how. All conditions that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultRule {
    /// `graphql`, `interfaces`, `internal`, `token`, `storage`, `ipaas`, or of the issuer `discovery`, `jwks`, `oidc` (the rest); any
    /// when absent.
    pub endpoint: Option<String>,
    /// A root field of the GraphQL operation; any when absent.
    pub root_field: Option<String>,
    /// Strikes only the n-th matching request, counted from 1.
    pub nth: Option<u64>,
    /// Strikes at most this many matching requests.
    pub times: Option<u64>,
    /// Strikes with this chance (0 to 1); the sequence is the same on every run.
    pub probability: Option<f64>,
    /// Milliseconds to wait first.
    pub latency_ms: Option<u64>,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// `Retry-After` header of the answer, as given (seconds, a date, or nonsense).
    pub retry_after: Option<String>,
    /// Body of the answer; an HTML page when it starts with `<`, else JSON. A short JSON error when absent.
    pub body: Option<String>,
    /// Closes the connection without an answer.
    pub drop: bool,
    /// Message of a GraphQL error answered with status 200 (or `status`) and null data.
    pub graphql_error: Option<String>,
    /// `extensions.code` of that error.
    pub code: Option<String>,
    /// Executes the request before it strikes: the write happens, the answer is lost.
    pub after: bool,
}

impl Faults {
    /// Reads a plan from JSON or TOML text; blank text is the empty plan. Unknown keys are an error.
    pub fn parse(text: &str) -> Result<Self, SandboxError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let plan: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| SandboxError::Faults(e.to_string()))?
        } else {
            toml::from_str(text).map_err(|e| SandboxError::Faults(e.to_string()))?
        };
        const ENDPOINTS: [&str; 9] =
            ["graphql", "interfaces", "internal", "token", "storage", "discovery", "jwks", "oidc", "ipaas"];
        for rule in &plan.rules {
            if let Some(name) = rule.endpoint.as_deref().filter(|name| !ENDPOINTS.contains(name)) {
                return Err(SandboxError::Faults(format!("endpoint {name:?} is none of {ENDPOINTS:?}")));
            }
            if rule.status.is_some_and(|status| !(100..600).contains(&status)) {
                return Err(SandboxError::Faults("status must be between 100 and 599".to_owned()));
            }
        }
        Ok(plan)
    }
}

/// The plan in force with its counters.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: Faults,
    seen: Vec<u64>,
    struck: Vec<u64>,
}

impl FaultState {
    pub(crate) fn new(plan: Faults) -> Self {
        let rules = plan.rules.len();
        Self { plan, seen: vec![0; rules], struck: vec![0; rules] }
    }

    pub(crate) fn plan(&self) -> &Faults {
        &self.plan
    }

    /// What happens to a request: the general latency and the rule that strikes it.
    pub(crate) fn strike(&mut self, endpoint: &str, root_fields: &[String]) -> (u64, Option<FaultRule>) {
        let counters = self.seen.iter_mut().zip(self.struck.iter_mut());
        for (index, (rule, (seen, struck))) in self.plan.rules.iter().zip(counters).enumerate() {
            let wrong_place = rule.endpoint.as_deref().is_some_and(|e| e != endpoint);
            let wrong_field = rule.root_field.as_ref().is_some_and(|f| !root_fields.contains(f));
            if wrong_place || wrong_field {
                continue;
            }
            *seen += 1;
            let chance = crate::store::mix(*seen ^ ((index as u64) << 32)) as f64 / u64::MAX as f64;
            let too_often = rule.times.is_some_and(|times| *struck >= times);
            let other_turn = rule.nth.is_some_and(|nth| nth != *seen);
            if too_often || other_turn || rule.probability.is_some_and(|p| chance >= p) {
                continue;
            }
            *struck += 1;
            return (self.plan.latency_ms, Some(rule.clone()));
        }
        (self.plan.latency_ms, None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn json_and_toml_say_the_same() {
        let json = Faults::parse(r#"{"latency_ms":5,"rules":[{"root_field":"card","nth":2,"status":503}]}"#).unwrap();
        let toml = Faults::parse("latency_ms = 5\n[[rules]]\nroot_field = \"card\"\nnth = 2\nstatus = 503\n").unwrap();
        assert_eq!(json, toml);
        assert_eq!(Faults::parse("  ").unwrap(), Faults::default());
    }

    #[test]
    fn a_misspelt_key_or_endpoint_is_refused() {
        assert!(Faults::parse(r#"{"rules":[{"root_feild":"card"}]}"#).is_err());
        assert!(Faults::parse(r#"{"rules":[{"endpoint":"graphq"}]}"#).is_err());
    }

    #[test]
    fn nth_and_times_count_matching_requests_only() {
        let plan = Faults::parse(
            r#"{"rules":[{"root_field":"card","nth":2,"status":500},{"endpoint":"token","times":1,"drop":true}]}"#,
        );
        let mut state = FaultState::new(plan.unwrap());
        let card = ["card".to_owned()];
        assert!(state.strike("graphql", &card).1.is_none());
        assert!(state.strike("graphql", &["pipe".to_owned()]).1.is_none());
        assert_eq!(state.strike("graphql", &card).1.unwrap().status, Some(500));
        assert!(state.strike("graphql", &card).1.is_none());
        assert!(state.strike("token", &[]).1.unwrap().drop);
        assert!(state.strike("token", &[]).1.is_none());
    }
}
