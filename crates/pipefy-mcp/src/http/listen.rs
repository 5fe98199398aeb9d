//! The socket: bind, say where, serve, and end in order.
//!
//! A stop has two phases. First nothing new is accepted, readiness is off and standalone streams end, while calls run on to
//! their answers, for a limited time. Then everything ends at once.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use super::{App, HttpOptions, Inbound, Served, probes};
use crate::stderr::stderr_lines;

/// After the second phase of a stop, connections get this long before they are cut.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// Serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; choose another {setting} (port 0 takes a free one)")]
    Bind {
        /// `host:port` as configured.
        address: String,
        /// Which settings name it.
        setting: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ServeError {
    /// The process's exit status: 3 when the address cannot be had, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Bind { .. } => 3,
        }
    }
}

/// A bound server that does not accept yet.
#[derive(Debug)]
pub struct Serving {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    probes: Option<(TcpListener, SocketAddr)>,
    options: HttpOptions,
}

/// Binds the configured address.
///
/// # Errors
/// [`ServeError::Bind`].
pub async fn bind(served: impl Served, inbound: Inbound, options: &HttpOptions) -> Result<Serving, ServeError> {
    let failed = |source| ServeError::Bind {
        address: format!("{}:{}", options.host, options.port),
        setting: "PIPEFY_MCP_HOST or PIPEFY_MCP_PORT",
        source,
    };
    let listener = TcpListener::bind((options.host.as_str(), options.port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let inbound = inbound.listening_on(address.port());
    let probes = match options.metrics_address {
        None => None,
        Some(wanted) => {
            let failed = |source| ServeError::Bind {
                address: wanted.to_string(),
                setting: "PIPEFY_MCP_METRICS_ADDRESS",
                source,
            };
            let listener = TcpListener::bind(wanted).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            Some((listener, address))
        }
    };
    Ok(Serving { app: App::new(served, inbound, options), listener, address, probes, options: options.clone() })
}

impl Serving {
    /// The endpoint's URL, with the port that was taken.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where the metrics are, if anywhere.
    pub fn metrics_url(&self) -> Option<String> {
        self.probes.as_ref().map(|(_, address)| format!("http://{address}/metrics"))
    }

    /// The application, to look at from tests.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Says on standard error where it listens: whoever asked for any free port learns here which it is.
    pub fn announce(&self) {
        stderr_lines()(&format!("Listening on {}", self.url()));
        if let Some(url) = self.metrics_url() {
            stderr_lines()(&format!("Metrics on {url}"));
        }
    }

    /// Serves until `stop` is ready, then ends in order, within the drain time and a moment.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let Serving { app, listener, probes, options, .. } = self;
        let cut = CancellationToken::new();
        let _cut_at_last = cut.clone().drop_guard();
        if let (Some((listener, _)), Some(metrics)) = (probes, options.metrics.clone()) {
            let (app, options, cut) = (app.clone(), options.clone(), cut.clone());
            tokio::spawn(async move { probes::serve(listener, app, metrics, &options, cut).await });
        }
        let connections = Connections {
            header_timeout: options.header_timeout,
            stall_timeout: options.body_timeout,
            drain: app.drain.clone(),
            cut: cut.clone(),
        };
        let mut server = std::pin::pin!(connections.serve(listener, app.service.clone()));
        tokio::select! {
            () = &mut server => return,
            () = stop => {}
        }

        tracing::info!(sessions = app.sessions(), "stopping: waiting for running calls");
        app.drain.cancel();
        let mut ended = false;
        let finished = tokio::time::timeout(options.drain, async {
            server.as_mut().await;
            ended = true;
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
        if !ended {
            let _cut = tokio::time::timeout(LAST_GRACE, server).await;
        }
    }
}
