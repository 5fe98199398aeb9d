//! `/metrics`, `/healthz` and `/readyz` on an address of their own, which stays open while the server drains.

use axum::Router;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use super::reply::json_bytes;
use super::{App, HttpOptions};
use axum::body::Body;
use std::sync::Arc;

use crate::metrics::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Alive: the process answers.
pub(super) fn health() -> Response<Body> {
    json_bytes(StatusCode::OK, "{\"status\":\"ok\"}")
}

/// Ready until the server is asked to stop.
pub(super) fn readiness(drain: &CancellationToken) -> Response<Body> {
    if drain.is_cancelled() {
        json_bytes(StatusCode::SERVICE_UNAVAILABLE, "{\"status\":\"stopping\"}")
    } else {
        json_bytes(StatusCode::OK, "{\"status\":\"ready\"}")
    }
}

/// Serves the three until `cut`.
pub(super) async fn serve(
    listener: TcpListener,
    app: App,
    metrics: Arc<Metrics>,
    options: &HttpOptions,
    cut: CancellationToken,
) {
    let ready = app.drain.clone();
    let page = move || {
        let mut response = Response::new(Body::from(metrics.text(app.sessions())));
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(OPEN_METRICS));
        std::future::ready(response)
    };
    let router = Router::new()
        .route("/metrics", get(page))
        .route("/healthz", get(|| std::future::ready(health())))
        .route("/readyz", get(move || std::future::ready(readiness(&ready))));
    let connections = Connections {
        header_timeout: options.header_timeout,
        stall_timeout: options.body_timeout,
        drain: cut.clone(),
        cut,
    };
    connections.serve(listener, router).await;
}
