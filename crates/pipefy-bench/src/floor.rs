//! The floor: the least that a server between a client and the API can do. A POST comes in, its body goes to the backend,
//! the backend's body goes out. Same libraries, pool settings, allocator and build profile as the server.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;

use crate::{Failure, backend};

#[derive(Clone)]
struct Floor {
    http: reqwest::Client,
    target: reqwest::Url,
}

/// Serves until killed; the address is the first line on standard output.
pub(crate) async fn serve(backend: String) -> Result<(), Failure> {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .pool_max_idle_per_host(256)
        .pool_idle_timeout(Duration::from_secs(90))
        .build()?;
    let target = reqwest::Url::parse(&backend)?.join("/graphql")?;
    backend::listen(Router::new().route("/", post(pass)).with_state(Floor { http, target })).await
}

async fn pass(State(floor): State<Floor>, body: Bytes) -> Response {
    let request = floor
        .http
        .post(floor.target)
        .header(CONTENT_TYPE, "application/json")
        .header("authorization", "Bearer bench")
        .body(body);
    let answer = async { request.send().await?.bytes().await };
    match answer.await {
        Ok(bytes) => ([(CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
