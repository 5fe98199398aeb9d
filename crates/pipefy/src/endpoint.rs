//! One GraphQL endpoint: where requests are sent, under the credential given with each call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};

use crate::budget::{Budget, REQUEST_LIMIT};
use crate::credential::{Bearer, Credential};
use crate::document::{EndpointKind, OperationKind};
use crate::error::Error;
use crate::operation::Operation;
use crate::response::{self, GraphqlResponse};
use crate::retry;
use crate::schema_cache::SchemaCache;
use crate::sender::{Lost, Sender};
use crate::watch::{RequestEnd, Watched};

/// Largest answer read, in bytes.
pub const ANSWER_LIMIT: usize = 256 * 1024 * 1024;

/// An endpoint without identity. Sending needs a [`Credential`] in the call:
///
/// ```compile_fail
/// # async fn f(endpoint: pipefy::GraphqlEndpoint, operation: pipefy::Operation, budget: pipefy::Budget) {
/// endpoint.execute(&operation, &budget).await; // no credential, no request
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GraphqlEndpoint(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: EndpointKind,
    sender: Sender,
    headers: HeaderMap,
    schema: Option<SchemaCache>,
}

enum Attempt {
    Done(GraphqlResponse),
    /// A read may be sent again after a pause.
    Passing {
        error: Error,
        asked: Option<Duration>,
    },
    Failed(Error),
}

impl GraphqlEndpoint {
    pub(crate) fn new(kind: EndpointKind, sender: Sender, mut headers: HeaderMap, reuse_schema: bool) -> Self {
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        Self(Arc::new(Inner { kind, sender, headers, schema: reuse_schema.then(SchemaCache::default) }))
    }

    /// Which endpoint this is.
    pub fn kind(&self) -> EndpointKind {
        self.0.kind
    }

    /// Sends one operation under `credential` and gives data and errors together.
    ///
    /// Reads are repeated on 429, 502, 503, 504 and connection failures, with jittered pauses within the budget; a
    /// mutation is sent at most once. A 401 renews the credential: a read is then repeated once, a mutation is not.
    ///
    /// # Errors
    /// No GraphQL answer, fully null data, no bearer, deadline or cancellation. Partial data with errors is no error here.
    pub async fn execute(
        &self,
        operation: &Operation,
        credential: &Credential,
        budget: &Budget,
    ) -> Result<GraphqlResponse, Error> {
        let kind = operation.document.kind();
        if let Some(schema) = &self.0.schema {
            schema.check(self, operation, credential, budget).await?;
        }
        let body = Bytes::from(operation.body());
        let mut bearer = within(budget, kind, credential.bearer()).await??;
        let mut renewed = false;
        let mut pauses = retry::pauses();
        loop {
            let (error, asked) = match self.attempt(kind, &body, &bearer, budget).await {
                Attempt::Done(response) if response.is_unauthorized() => {
                    let mut detail = response
                        .errors
                        .first()
                        .map_or_else(|| format!("HTTP {}", response.status), |e| e.message.clone());
                    let another = match renewed {
                        true => None,
                        false => match within(budget, kind, credential.renew(&bearer)).await {
                            Ok(Ok(another)) => another,
                            Ok(Err(error)) => {
                                detail = format!("{detail}; {error}");
                                None
                            }
                            Err(_) => None,
                        },
                    };
                    match another {
                        Some(another) if kind == OperationKind::Query => {
                            bearer = another;
                            renewed = true;
                            continue;
                        }
                        another => {
                            return Err(Error::Unauthorized {
                                endpoint: self.0.kind,
                                detail,
                                errors: response.errors,
                                renewed: another.is_some(),
                            });
                        }
                    }
                }
                Attempt::Done(response) => return self.judge(kind, response),
                Attempt::Failed(error) => return Err(error),
                Attempt::Passing { error, asked } => (error, asked),
            };
            // Only a read comes past here with anything left to try.
            let Some(own) = pauses.next().filter(|_| kind == OperationKind::Query) else {
                return Err(error);
            };
            let pause = retry::pause(own, asked);
            if pause > retry::LONGEST_PAUSE || budget.remaining().is_some_and(|left| left <= pause) {
                return Err(error);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = budget.cancel().cancelled() => return Err(Error::Cancelled { sent: false, kind }),
            }
        }
    }

    fn judge(&self, kind: OperationKind, response: GraphqlResponse) -> Result<GraphqlResponse, Error> {
        if response.data.is_some() {
            return Ok(response);
        }
        if response.errors.is_empty() {
            return Err(Error::Http {
                endpoint: self.0.kind,
                status: response.status,
                detail: "the answer holds neither data nor errors".to_owned(),
                kind,
            });
        }
        Err(Error::Graphql {
            // A server that broke says what stopped it, not what it had done before.
            applied_in_part: kind == OperationKind::Mutation && response.status >= 500 && !response.is_exhausted(),
            endpoint: self.0.kind,
            status: response.status,
            errors: response.errors,
        })
    }

    async fn attempt(&self, kind: OperationKind, body: &Bytes, bearer: &Bearer, budget: &Budget) -> Attempt {
        let endpoint = self.0.kind;
        let limit = budget.remaining().map_or(REQUEST_LIMIT, |left| left.min(REQUEST_LIMIT));
        if budget.is_over() {
            return Attempt::Failed(Error::Cancelled { sent: false, kind });
        }
        let mut watched = Watched::begin(budget.requests(), endpoint, kind);
        let traceparent = budget.requests().and_then(|requests| requests.traceparent());
        let headers = || {
            let mut headers = self.0.headers.clone();
            headers.insert(AUTHORIZATION, bearer.header().clone());
            if let Some(traceparent) = &traceparent {
                headers.insert("traceparent", traceparent.clone());
            }
            headers
        };
        // One limit and one watch for the whole exchange.
        let exchange = async {
            let answer = self.0.sender.post(headers, body).await.map_err(|lost| (lost, None))?;
            let (status, asked) = (answer.status(), retry::retry_after(answer.headers()));
            let bytes = answer.read(ANSWER_LIMIT).await.map_err(|lost| (lost, asked))?;
            Ok((status, asked, bytes))
        };
        let exchange = tokio::select! {
            biased;
            exchange = tokio::time::timeout(limit, exchange) => exchange,
            () = budget.cancel().cancelled() => return Attempt::Failed(Error::Cancelled { sent: true, kind }),
        };
        let (status, asked, bytes) = match exchange {
            Err(_) => {
                watched.set(RequestEnd::Timeout);
                return Attempt::Failed(Error::Timeout { endpoint, limit, kind });
            }
            Ok(Err((Lost::Connection { cause, sent }, asked))) => {
                watched.set(if sent { RequestEnd::Lost } else { RequestEnd::Unreached });
                return Attempt::Passing { error: Error::Transport { endpoint, cause, sent, kind }, asked };
            }
            Ok(Err((Lost::TooLarge, _))) => {
                watched.set(RequestEnd::Lost);
                return Attempt::Failed(Error::TooLarge { endpoint, limit: ANSWER_LIMIT, kind });
            }
            Ok(Ok(answer)) => answer,
        };
        watched.set(RequestEnd::Answered(status));
        drop(watched);
        let mut response = GraphqlResponse::parse(status, &bytes);
        let mut bytes = bytes;
        // What is said about a failure may repeat the request, and failures are shown and logged.
        let failed = response.as_ref().is_none_or(|response| !response.errors.is_empty());
        if failed && let Some(masked) = std::str::from_utf8(&bytes).ok().and_then(|text| bearer.masked(text)) {
            bytes = Bytes::from(masked);
            response = GraphqlResponse::parse(status, &bytes);
        }
        // A quota that is used up stays so, whatever the status says.
        let exhausted = response.as_ref().is_some_and(GraphqlResponse::is_exhausted);
        let throttled = response.as_ref().is_some_and(|r| r.is_throttled() && r.data.is_none());
        if !exhausted && (retry::is_passing(status) || throttled) {
            let error = if status == 429 || response.as_ref().is_some_and(GraphqlResponse::is_throttled) {
                Error::RateLimited { endpoint, status, retry_after_s: asked.map_or(1, |a| a.as_secs().max(1)), kind }
            } else {
                Error::Http { endpoint, status, detail: detail(status, response.as_ref(), &bytes), kind }
            };
            return Attempt::Passing { error, asked };
        }
        match response {
            Some(response) => Attempt::Done(response),
            None if status == 401 => Attempt::Done(GraphqlResponse { data: None, errors: Vec::new(), status }),
            None => Attempt::Failed(Error::Http { endpoint, status, detail: detail(status, None, &bytes), kind }),
        }
    }
}

/// Work that happens before anything is sent, ended by the caller's deadline or departure.
async fn within<T>(budget: &Budget, kind: OperationKind, work: impl Future<Output = T>) -> Result<T, Error> {
    let deadline = async {
        match budget.deadline() {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = budget.cancel().cancelled() => Err(Error::Cancelled { sent: false, kind }),
        () = deadline => Err(Error::Cancelled { sent: false, kind }),
    }
}

/// A short reason for an HTTP answer that is not GraphQL.
fn detail(status: u16, response: Option<&GraphqlResponse>, body: &Bytes) -> String {
    if let Some(error) = response.and_then(|r| r.errors.first()) {
        return error.message.clone();
    }
    if (300..400).contains(&status) {
        return "it redirects elsewhere, which is not followed; check the base URL".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return "the answer is empty".to_owned();
    }
    if response::looks_like_html(text) {
        return response::HTML.to_owned();
    }
    if std::str::from_utf8(body).is_err() {
        return "the answer is no UTF-8 text".to_owned();
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok_and(|_| text.contains("\"data\"")) {
        return "the answer holds a value that cannot be read: half a character, a number or a nesting beyond all limits".to_owned();
    }
    response::clip(text, 200)
}
