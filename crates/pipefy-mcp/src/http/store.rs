//! What replicas share, in a Redis or Valkey: how a session was opened, that it was ended, what each caller has sent, which
//! forms were answered, and what came of writes with an idempotency key.
//!
//! A session itself cannot move. What it was opened with can: a replica that is shown a sealed id it does not know opens the
//! session again from that, under the same id and for the same caller. The seal proves whose it is, before the store is
//! asked; the entry names the caller once more.
//!
//! One script does the work of one message: it counts the message and says what is known of the session, in one round trip
//! and by the store's own clock. While the store does not answer, each replica goes on with the sessions it has and counts
//! by itself, and a session that it does not have is "try again", never "not found".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use pipefy_tools::journal::{AGE, Entries, Unusable};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{RedisError, Script};
use rmcp::model::InitializeRequestParams;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::callers::Rate;
use crate::metrics::Metrics;

/// Longest wait for an answer of the store.
const ANSWER_LIMIT: Duration = Duration::from_millis(750);

/// After a failure the store is left alone for this long, so that not every message waits for it.
const PAUSE: Duration = Duration::from_secs(1);

/// What stands in the place of a session that was ended.
const ENDED: &str = "ended";

/// Counts a message and looks at its session. KEYS: rate, session (may be absent). ARGV: cost and room ahead in
/// microseconds (0: no rate), idle seconds. Gives the microseconds to wait, and the session's entry or false.
const MESSAGE: &str = r"
local entry = false
if KEYS[2] then
  entry = redis.call('GET', KEYS[2])
  if entry and entry ~= 'ended' then redis.call('EXPIRE', KEYS[2], ARGV[3]) end
end
local wait = 0
if tonumber(ARGV[1]) > 0 then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local paid = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
  wait = paid - now - tonumber(ARGV[2])
  if wait <= 0 then
    wait = 0
    paid = paid + tonumber(ARGV[1])
    redis.call('SET', KEYS[1], string.format('%.0f', paid), 'PX', math.ceil((paid - now) / 1000) + 1000)
  end
end
return {wait, entry}
";

/// The store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the session store's URL cannot be used: {0}; correct PIPEFY_MCP_SESSION_STORE_URL")]
pub struct StoreError(&'static str);

/// The store did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable;

/// What the store knows of a session.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It can be opened again from this.
    Opened(Box<Entry>),
    /// It was ended with DELETE, here or elsewhere.
    Ended,
    /// Nothing: never stored, or silent for too long.
    Nothing,
}

/// How a session was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Tag of the caller.
    pub(crate) owner: String,
    /// What its client said in `initialize`.
    pub(crate) initialize: InitializeRequestParams,
}

/// A store that replicas share.
#[derive(Clone)]
pub struct SessionStore(Arc<Inner>);

struct Inner {
    connection: ConnectionManager,
    message: Script,
    start: Instant,
    /// Milliseconds after `start` until which the store is left alone; 0 while it answers.
    paused_until: AtomicU64,
    metrics: Option<Arc<Metrics>>,
}

impl std::fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionStore")
    }
}

impl SessionStore {
    /// A store at this `redis://` or `rediss://` URL. Connects when it is first used; needs a runtime.
    ///
    /// # Errors
    /// The URL is none.
    pub fn new(url: &SecretString, metrics: Option<Arc<Metrics>>) -> Result<Self, StoreError> {
        // The library's own errors may repeat the URL.
        let client = redis::Client::open(url.expose_secret()).map_err(|_| StoreError("it is no Redis URL"))?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(ANSWER_LIMIT))
            .set_response_timeout(Some(ANSWER_LIMIT));
        let connection = ConnectionManager::new_lazy_with_config(client, config)
            .map_err(|_| StoreError("no connection can be made of it"))?;
        Ok(Self(Arc::new(Inner {
            connection,
            message: Script::new(MESSAGE),
            start: Instant::now(),
            paused_until: AtomicU64::new(0),
            metrics,
        })))
    }

    /// One message of a caller: how much too early it is, and what is known of its session.
    pub(crate) async fn message(
        &self,
        owner: &str,
        rate: Option<Rate>,
        session: Option<&str>,
        idle: Duration,
    ) -> Result<(Duration, Known), Unreachable> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (cost, ahead) = rate.map_or((0, 0), |rate| (micros(rate.cost), micros(rate.ahead)));
        let mut connection = self.0.connection.clone();
        let asked = async {
            let mut call = self.0.message.key(rate_key(owner));
            if let Some(session) = session {
                call.key(session_key(session));
            }
            call.arg(cost).arg(ahead).arg(seconds(idle));
            call.invoke_async(&mut connection).await
        };
        let (wait, entry): (u64, Option<String>) = self.answer(asked).await?;
        let known = match entry.as_deref() {
            None => Known::Nothing,
            Some(ENDED) => Known::Ended,
            // An entry of another release that cannot be read is as good as none.
            Some(entry) => serde_json::from_str(entry).map_or(Known::Nothing, Known::Opened),
        };
        Ok((Duration::from_micros(wait), known))
    }

    /// Keeps how a session was opened, until it has been silent for `idle`. Never in the place of its end.
    pub(crate) async fn opened(&self, session: &str, entry: &Entry, idle: Duration) -> Result<(), Unreachable> {
        let Ok(entry) = serde_json::to_string(entry) else { return Ok(()) };
        self.set(session, &entry, seconds(idle), &["NX"]).await
    }

    /// Marks a session as ended. The mark stays longer than any replica keeps the session without asking.
    pub(crate) async fn ended(&self, session: &str, idle: Duration) -> Result<(), Unreachable> {
        self.set(session, ENDED, 2 * seconds(idle) + 60, &[]).await
    }

    /// Whether this is the first time that any replica notes this mark; it is forgotten after so many seconds.
    pub(crate) async fn first(&self, mark: &str, seconds: i64) -> Result<bool, Unreachable> {
        self.note(&format!("pipefy-mcp:answered:{mark}"), "1", seconds).await
    }

    /// Sets a key that is not there; `false` when it is.
    async fn note(&self, key: &str, value: &str, seconds: i64) -> Result<bool, Unreachable> {
        let mut connection = self.0.connection.clone();
        let mut command = redis::cmd("SET");
        command.arg(key).arg(value).arg("EX").arg(seconds.max(1)).arg("NX");
        let set: Option<String> = self.answer(async { command.query_async(&mut connection).await }).await?;
        Ok(set.is_some())
    }

    async fn set(&self, session: &str, value: &str, seconds: u64, when: &[&str]) -> Result<(), Unreachable> {
        let mut connection = self.0.connection.clone();
        let mut command = redis::cmd("SET");
        command.arg(session_key(session)).arg(value).arg("EX").arg(seconds).arg(when);
        self.answer(async { command.query_async(&mut connection).await }).await
    }

    /// Asks, unless the store is left alone just now.
    async fn answer<T>(&self, asked: impl Future<Output = Result<T, RedisError>>) -> Result<T, Unreachable> {
        let now = || u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let paused_until = self.0.paused_until.load(Ordering::Relaxed);
        if now() < paused_until {
            return Err(Unreachable);
        }
        let answer = tokio::time::timeout(2 * ANSWER_LIMIT, asked).await;
        if let Ok(Ok(answer)) = answer {
            if paused_until > 0 && self.0.paused_until.swap(0, Ordering::Relaxed) > 0 {
                tracing::info!("the session store answers again");
            }
            return Ok(answer);
        }
        let pause = u64::try_from(PAUSE.as_millis()).unwrap_or(u64::MAX);
        if self.0.paused_until.swap(now().saturating_add(pause), Ordering::Relaxed) == 0 {
            // The kind says what is wrong; the text may hold the address.
            let kind = answer.ok().and_then(Result::err).map(|error| error.kind());
            tracing::error!(?kind, "the session store does not answer; this replica goes on by itself");
        }
        if let Some(metrics) = &self.0.metrics {
            metrics.store_failed();
        }
        Err(Unreachable)
    }
}

impl Entries for SessionStore {
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<String>, Unusable>> {
        Box::pin(async move {
            let mut connection = self.0.connection.clone();
            let mut command = redis::cmd("GET");
            command.arg(write_key(id));
            self.answer(async { command.query_async(&mut connection).await }).await.map_err(silent)
        })
    }

    fn begin<'a>(&'a self, id: &'a str, entry: &'a str) -> BoxFuture<'a, Result<bool, Unusable>> {
        Box::pin(async move { self.note(&write_key(id), entry, AGE).await.map_err(silent) })
    }

    fn end<'a>(&'a self, id: &'a str, entry: Option<&'a str>) -> BoxFuture<'a, Result<(), Unusable>> {
        Box::pin(async move {
            let mut connection = self.0.connection.clone();
            let command = match entry {
                Some(entry) => {
                    let mut command = redis::cmd("SET");
                    command.arg(write_key(id)).arg(entry).arg("EX").arg(AGE).arg("XX");
                    command
                }
                None => {
                    let mut command = redis::cmd("DEL");
                    command.arg(write_key(id));
                    command
                }
            };
            let answered: redis::Value =
                self.answer(async { command.query_async(&mut connection).await }).await.map_err(silent)?;
            drop(answered);
            Ok(())
        })
    }
}

fn silent(_: Unreachable) -> Unusable {
    Unusable("the shared store does not answer".to_owned())
}

fn write_key(id: &str) -> String {
    format!("pipefy-mcp:write:{id}")
}

fn session_key(session: &str) -> String {
    format!("pipefy-mcp:session:{session}")
}

fn rate_key(owner: &str) -> String {
    format!("pipefy-mcp:rate:{owner}")
}

fn seconds(time: Duration) -> u64 {
    time.as_secs().max(1)
}
