//! SIGHUP: the settings are read again. Limits take effect at once, and the audit log is opened anew (so that it can be
//! rotated); everything else is fixed at start-up. Settings that are not valid change nothing.

use std::sync::Arc;

use pipefy::settings::{ServerSettings, SettingsError};

use crate::audit::Audit;
use crate::http::{App, Limits};

/// Hears SIGHUP. Made before the server says that it listens, since an unheard one would end the process.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Starts to hear.
    ///
    /// # Errors
    /// The system does not let this process hear signals.
    pub fn hear() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        self.signal.recv().await;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        std::future::pending().await
    }

    /// Reloads at every signal, for ever. `load` reads the settings as at start-up.
    pub async fn reload(
        mut self,
        app: App,
        audit: Option<Arc<Audit>>,
        load: impl Fn() -> Result<ServerSettings, SettingsError>,
    ) {
        loop {
            self.next().await;
            if let Some(audit) = &audit {
                audit.reopen();
            }
            match load() {
                Ok(settings) => {
                    let limits = Limits::new(&settings.mcp, &settings.operations);
                    app.set_limits(limits);
                    tracing::info!(?limits, "reloaded: these limits are in force");
                }
                Err(error) => tracing::error!("reload refused, the limits stay as they were: {error}"),
            }
        }
    }
}
