//! The issuer's signing keys: fetched once for all who wait, kept, refreshed, and never waited for when they are known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use jsonwebtoken::DecodingKey;
use pipefy::url_policy::UrlPolicy;
use serde::Deserialize;
use serde_json::Value;

use super::Rejection;
use super::clock::Clock;
use crate::discovery::Issuer;
use crate::http::{AuthHttp, clean};

/// How long a fetch of the keys may take.
const FETCH_LIMIT: Duration = Duration::from_secs(30);

/// From this age on, a set in use is refreshed in the background.
const REFRESH_AFTER: Duration = Duration::from_secs(240);

/// A set is good for this long. Beyond, it serves only while the issuer does not answer.
const GOOD_FOR: Duration = Duration::from_secs(300);

/// How long a set beyond its time serves while the issuer does not answer.
const STALE_LIMIT: Duration = Duration::from_secs(3600);

/// How long a caller with a known key waits for the refresh of a set beyond its time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pause after a failed refresh while there are keys to serve with.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Least time between two fetches that only unknown key names have caused.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(30);

/// What a client is told to wait when there are no keys at all.
const UNAVAILABLE_S: u32 = 5;

/// Shortest RSA modulus that is trusted, in bits.
const LEAST_BITS: usize = 2048;

/// Where the keys are.
pub(super) enum Source {
    /// At a configured URL.
    Given(String),
    /// Where the issuer's discovery document says.
    Discovered {
        /// The issuer, as configured.
        issuer: String,
        /// How the document's URLs are judged.
        policy: UrlPolicy,
    },
}

/// A key that a token may be verified with now.
pub(super) struct Found {
    pub(super) key: Arc<DecodingKey>,
    /// Grows when the keys change.
    pub(super) generation: u64,
    /// Whether this caller is the first to see these keys.
    pub(super) changed: bool,
}

pub(super) struct KeyRing(Arc<Ring>);

struct Ring {
    http: AuthHttp,
    source: Source,
    clock: Arc<Clock>,
    /// Held for a look or a change, never while waiting for anything.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    set: Option<Arc<KeySet>>,
    /// From discovery; forgotten when a fetch from there fails.
    jwks_uri: Option<String>,
    flight: Option<Flight>,
    /// When an unknown key name last caused a fetch.
    forced: Option<Instant>,
    /// When the last fetch failed; none when it succeeded.
    failed: Option<Instant>,
    /// The newest generation that was handed out.
    seen: u64,
}

/// A fetch under way, or over.
#[derive(Clone)]
struct Flight {
    started: Instant,
    task: tokio::task::AbortHandle,
    outcome: Shared<BoxFuture<'static, Result<Arc<KeySet>, ()>>>,
}

struct KeySet {
    keys: BTreeMap<String, Key>,
    generation: u64,
    fetched: Instant,
}

struct Key {
    decoding: Arc<DecodingKey>,
    /// Modulus and exponent as published, to see changes.
    published: (String, String),
}

/// What a caller does next.
enum Step {
    Serve(Arc<KeySet>),
    /// Waits for the fetch, for a limited time if known keys can serve instead.
    Wait {
        flight: Flight,
        own: bool,
        instead: Option<(Arc<KeySet>, Duration)>,
    },
    Refuse(Rejection),
}

impl KeyRing {
    pub(super) fn new(http: AuthHttp, source: Source, clock: Arc<Clock>) -> KeyRing {
        KeyRing(Arc::new(Ring { http, source, clock, state: Mutex::default() }))
    }

    /// The key of this name.
    pub(super) async fn find(&self, kid: &str) -> Result<Found, Rejection> {
        // A few times at most: a caller that joined somebody else's fetch may have to ask for one of its own.
        for _ in 0..3 {
            let (flight, own, instead) = match self.0.step(kid) {
                Step::Serve(set) => return self.0.hand_out(&set, kid),
                Step::Refuse(rejection) => return Err(rejection),
                Step::Wait { flight, own, instead } => (flight, own, instead),
            };
            let outcome = match &instead {
                None => flight.outcome.await,
                Some((_, patience)) => tokio::time::timeout(*patience, flight.outcome).await.unwrap_or(Err(())),
            };
            match (outcome, instead) {
                (Ok(set), _) if own || set.keys.contains_key(kid) => return self.0.hand_out(&set, kid),
                (Ok(_), _) => {}
                (Err(()), Some((known, _))) => return self.0.hand_out(&known, kid),
                (Err(()), None) => return Err(Rejection::Unavailable { retry_after_s: UNAVAILABLE_S }),
            }
        }
        Err(UNKNOWN_KEY)
    }
}

const UNKNOWN_KEY: Rejection = Rejection::Invalid("its key (kid) is not among the issuer's keys");

impl Ring {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, set: &KeySet, kid: &str) -> Result<Found, Rejection> {
        let key = set.keys.get(kid).ok_or(UNKNOWN_KEY)?.decoding.clone();
        let mut state = self.lock();
        let changed = set.generation > state.seen;
        state.seen = state.seen.max(set.generation);
        Ok(Found { key, generation: set.generation, changed })
    }

    fn step(self: &Arc<Self>, kid: &str) -> Step {
        let now = self.clock.now();
        let since = |at: Instant| now.saturating_duration_since(at);
        let mut state = self.lock();
        let state = &mut *state;
        let running = state.flight.clone().filter(|flight| !flight.task.is_finished());
        let set = state.set.clone().filter(|set| since(set.fetched) < STALE_LIMIT);
        let Some(set) = set else {
            let own = running.is_none();
            return Step::Wait { flight: running.unwrap_or_else(|| self.launch(state, now)), own, instead: None };
        };
        let age = since(set.fetched);
        let due = age >= REFRESH_AFTER && state.failed.is_none_or(|at| since(at) >= RETRY_AFTER);
        if set.keys.contains_key(kid) {
            let flight = if due { running.or_else(|| Some(self.launch(state, now))) } else { running };
            return match flight {
                Some(flight) if age >= GOOD_FOR && since(flight.started) < PATIENCE => {
                    let patience = PATIENCE.saturating_sub(since(flight.started));
                    Step::Wait { flight, own: true, instead: Some((set, patience)) }
                }
                _ => Step::Serve(set),
            };
        }
        if let Some(flight) = running {
            return Step::Wait { flight, own: false, instead: None };
        }
        let blocked = state.forced.map(|at| UNKNOWN_INTERVAL.saturating_sub(since(at))).filter(|left| !left.is_zero());
        match blocked {
            _ if due => Step::Wait { flight: self.launch(state, now), own: true, instead: None },
            None => {
                state.forced = Some(now);
                Step::Wait { flight: self.launch(state, now), own: true, instead: None }
            }
            // Whether the key exists is not known while the issuer does not answer.
            Some(left) if state.failed.is_some() => {
                let seconds = u32::try_from(left.as_secs()).unwrap_or(UNAVAILABLE_S).saturating_add(1);
                Step::Refuse(Rejection::Unavailable { retry_after_s: seconds })
            }
            Some(_) => Step::Refuse(UNKNOWN_KEY),
        }
    }

    /// Starts a fetch in a task of its own: a caller that goes away does not take it from the others.
    fn launch(self: &Arc<Self>, state: &mut State, now: Instant) -> Flight {
        let ring = self.clone();
        let task = tokio::spawn(async move { ring.fetch(now).await });
        let abort = task.abort_handle();
        let outcome = task.map(|joined| joined.unwrap_or(Err(()))).boxed().shared();
        let flight = Flight { started: now, task: abort, outcome };
        state.flight = Some(flight.clone());
        flight
    }

    async fn fetch(&self, started: Instant) -> Result<Arc<KeySet>, ()> {
        let fetched = self.download().await;
        let mut state = self.lock();
        match fetched {
            Ok(keys) => {
                let last = state.set.as_ref();
                let same = last.is_some_and(|set| {
                    set.keys.len() == keys.len()
                        && set
                            .keys
                            .iter()
                            .zip(&keys)
                            .all(|(old, new)| old.0 == new.0 && old.1.published == new.1.published)
                });
                let generation = last.map_or(1, |set| if same { set.generation } else { set.generation + 1 });
                if !same {
                    tracing::info!(keys = keys.len(), "the issuer's signing keys were loaded");
                }
                let set = Arc::new(KeySet { keys, generation, fetched: started });
                state.set = Some(set.clone());
                state.failed = None;
                Ok(set)
            }
            Err(cause) => {
                let known = state.set.is_some();
                state.failed = Some(self.clock.now());
                state.jwks_uri = None;
                tracing::error!(known_keys_serve = known, "the issuer's signing keys could not be fetched: {cause}");
                Err(())
            }
        }
    }

    async fn download(&self) -> Result<BTreeMap<String, Key>, String> {
        let uri = self.locate().await?;
        let shown = clean(&uri);
        let client = self.http.client().map_err(|error| error.to_string())?;
        let answer =
            self.http.send(client.get(&uri), FETCH_LIMIT).await.map_err(|error| format!("{error} at {shown}"))?;
        if answer.status != 200 {
            return Err(format!("HTTP {} at {shown}", answer.status));
        }
        let document = answer.json().ok_or_else(|| format!("not a JSON object at {shown}"))?;
        // An empty list is an answer: the issuer has withdrawn its keys.
        let listed =
            document.get("keys").and_then(Value::as_array).ok_or_else(|| format!("no list of keys at {shown}"))?;
        Ok(listed.iter().filter_map(usable).collect())
    }

    async fn locate(&self) -> Result<String, String> {
        let (issuer, policy) = match &self.source {
            Source::Given(uri) => return Ok(uri.clone()),
            Source::Discovered { issuer, policy } => (issuer, *policy),
        };
        if let Some(uri) = self.lock().jwks_uri.clone() {
            return Ok(uri);
        }
        let found = Issuer::discover(&self.http, issuer, policy).await.map_err(|error| error.to_string())?;
        if found.issuer != *issuer {
            tracing::warn!(
                "the issuer names itself with another trailing slash than the configured issuer; tokens must carry the \
                 configured text, so set PIPEFY_JWT_ISSUER_URL to the issuer's own name"
            );
        }
        let uri = found.jwks_uri.ok_or_else(|| "the issuer's discovery document has no jwks_uri".to_owned())?;
        self.lock().jwks_uri = Some(uri.clone());
        Ok(uri)
    }
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    n: String,
    e: String,
}

/// A published key that may have signed an RS256 token. Keys of other kinds do not spoil the others.
fn usable(jwk: &Value) -> Option<(String, Key)> {
    let jwk = Jwk::deserialize(jwk).ok()?;
    let fits = jwk.kty == "RSA"
        && !jwk.kid.is_empty()
        && jwk.purpose.is_none_or(|purpose| purpose == "sig")
        && jwk.key_ops.is_none_or(|operations| operations.iter().any(|operation| operation == "verify"))
        && jwk.alg.is_none_or(|alg| alg == "RS256");
    let modulus = URL_SAFE_NO_PAD.decode(&jwk.n).ok()?;
    let zeros: usize = modulus.iter().position(|byte| *byte != 0)?;
    let bits = (modulus.len() - zeros) * 8 - modulus.get(zeros)?.leading_zeros() as usize;
    if !fits || bits < LEAST_BITS {
        return None;
    }
    let decoding = Arc::new(DecodingKey::from_rsa_components(&jwk.n, &jwk.e).ok()?);
    Some((jwk.kid, Key { decoding, published: (jwk.n, jwk.e) }))
}
