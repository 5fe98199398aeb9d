//! The socket: bind, say where, serve, and end in order.
//!
//! A stop has two phases. First nothing new is accepted, readiness is off and standalone streams end, while calls run on to
//! their answers, for a limited time. Then everything ends at once.

use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{App, HttpOptions, Inbound, Served, stderr_lines};

/// After the second phase of a stop, connections get this long before they are cut.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// Serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error(
        "cannot listen on {address}: {source}; choose another PIPEFY_MCP_HOST or PIPEFY_MCP_PORT (0 takes a free port)"
    )]
    Bind {
        /// `host:port` as configured.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The socket failed while serving, or signals cannot be received.
    #[error("the HTTP server failed: {0}")]
    Io(#[from] std::io::Error),
}

impl ServeError {
    /// The process's exit status: 3 when the address cannot be had, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Bind { .. } => 3,
            ServeError::Io(_) => 1,
        }
    }
}

/// A bound server that does not accept yet.
#[derive(Debug)]
pub struct Serving {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    drain: Duration,
}

/// Binds the configured address.
///
/// # Errors
/// [`ServeError::Bind`].
pub async fn bind(served: impl Served, inbound: Inbound, options: &HttpOptions) -> Result<Serving, ServeError> {
    let failed = |source| ServeError::Bind { address: format!("{}:{}", options.host, options.port), source };
    let listener = TcpListener::bind((options.host.as_str(), options.port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let inbound = inbound.listening_on(address.port());
    Ok(Serving { app: App::new(served, inbound, options), listener, address, drain: options.drain })
}

impl Serving {
    /// The endpoint's URL, with the port that was taken.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The application, to look at from tests.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Serves until `stop` is ready, then ends in order.
    ///
    /// # Errors
    /// [`ServeError::Io`].
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let Serving { app, listener, drain, .. } = self;
        let listener = listener.tap_io(|stream| {
            // An answer of several small writes must not wait for the client's acknowledgements.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::warn!(%error, "TCP_NODELAY could not be set");
            }
        });
        let service = app.router().into_make_service_with_connect_info::<SocketAddr>();
        let draining = app.drain.clone();
        let begin = draining.clone();
        let server = axum::serve(listener, service).with_graceful_shutdown(async move { begin.cancelled().await });
        let mut server = std::pin::pin!(server.into_future());
        tokio::select! {
            ended = &mut server => return Ok(ended?),
            () = stop => {}
        }

        tracing::info!(sessions = app.sessions(), "stopping: waiting for running calls");
        draining.cancel();
        let mut ended = None;
        let finished = tokio::time::timeout(drain, async {
            ended = Some((&mut server).await);
            // Writes go on without their client; their outcome is worth waiting for.
            while app.sessions.calls() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if finished.await.is_err() {
            tracing::warn!("stopping: calls still running are cancelled");
        }
        app.stop.cancel();
        app.sessions.end_all();
        if ended.is_none() {
            ended = tokio::time::timeout(LAST_GRACE, &mut server).await.ok();
        }
        Ok(ended.unwrap_or(Ok(()))?)
    }
}

/// Listens as configured, prints the endpoint's URL on standard error, and serves until `stop` fires.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(
    served: impl Served,
    inbound: Inbound,
    options: &HttpOptions,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let serving = bind(served, inbound, options).await?;
    // Whoever asked for any free port learns here which it is.
    stderr_lines()(&format!("Listening on {}", serving.url()));
    serving.run(async move { stop.cancelled().await }).await
}
