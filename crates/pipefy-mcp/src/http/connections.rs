//! Accepts connections and serves them, within limits of time: a connection that sends nothing, or its request head slowly,
//! or takes nothing of its answer, is closed. The library's own server has no such limits.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::owed::Owed;

/// A peer on HTTP/2 that has gone without a word is noticed within twice this time.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// After an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How connections are served.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    /// Longest wait for a request head.
    pub(super) header_timeout: Duration,
    /// Longest time in which a peer takes nothing of what is sent to it.
    pub(super) stall_timeout: Duration,
    /// Stops accepting; each connection ends with the answers it owes.
    pub(super) drain: CancellationToken,
    /// Cuts every connection.
    pub(super) cut: CancellationToken,
}

/// What answers requests.
pub(super) trait Serves:
    Clone + Send + 'static + Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
{
}

impl<S> Serves for S where
    S: Clone + Send + 'static + Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
{
}

impl Connections {
    /// Serves until drained and every connection has ended.
    pub(super) async fn serve(&self, listener: TcpListener, service: impl Serves) {
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.drain.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    tasks.spawn(self.clone().connection(stream, peer, service.clone()));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted now");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    }

    async fn connection(self, stream: TcpStream, peer: SocketAddr, service: impl Serves) {
        // An answer of several small writes must not wait for the client's acknowledgements.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let asked = Arc::new(AtomicBool::new(false));
        let (seen, owed) = (asked.clone(), Owed::default());
        let owes = owed.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            seen.store(true, Ordering::Relaxed);
            let owing = (request.version() == Version::HTTP_2).then(|| owes.begin());
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            let answer = service.clone().call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, Infallible>(match owing {
                    Some(owing) => answer.map(|body| owing.watch(body)),
                    None => answer,
                })
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.header_timeout);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
        let stream = Taken { stream, limit: self.stall_timeout, stalled: None };
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        // Which protocol it speaks is found out without a limit of time, so the first request has this one.
        let mut first = std::pin::pin!(tokio::time::sleep(self.header_timeout));
        let (mut waiting, mut draining, mut closing) = (true, false, false);
        let look = self.header_timeout.min(self.stall_timeout);
        loop {
            tokio::select! {
                // Broken connections are the peers' business; what was asked on them has its own line.
                _ended = connection.as_mut() => return,
                () = self.cut.cancelled() => return,
                () = self.drain.cancelled(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first.as_mut(), if waiting => {
                    waiting = false;
                    if !asked.load(Ordering::Relaxed) {
                        return;
                    }
                }
                // HTTP/1 has limits of its own, and owes nothing here.
                () = tokio::time::sleep(look), if !waiting && owed.is_used() => {
                    let idle = owed.idle().unwrap_or_default();
                    if owed.is_stalled(self.stall_timeout) || idle >= self.header_timeout + self.stall_timeout {
                        return;
                    }
                    if idle >= self.header_timeout && !closing {
                        closing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }
    }
}

/// A stream whose peer must take what is written to it: when it takes nothing for `limit`, writing fails. Without this, a peer
/// that never reads would keep its connection, and what is queued for it, for as long as it likes.
struct Taken {
    stream: TcpStream,
    limit: Duration,
    /// Set while the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Taken {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Taken {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write_vectored(cx, parts) {
            self.stalled = None;
            return Poll::Ready(written);
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // Neither waits for the peer.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The peer was gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
