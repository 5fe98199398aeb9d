//! The backend: one fixed card for every GraphQL request, after an optional delay, with an optional long text in it.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt as _;

use crate::{Failure, report};

/// The title of the card; an answer without it did not come through.
pub(crate) const TITLE: &str = "Contract renewal 2026-118";

const CARD: &str = r#"{"data":{"card":{"id":"5","title":"Contract renewal 2026-118","uuid":"2b3179f3-91eb-5da2-9655-5071ec4a074e","current_phase":{"id":"326935463","name":"Legal review"},"pipe":{"id":"564768698","name":"Contracts"}}}}"#;

/// Serves until killed; the address is the first line on standard output.
pub(crate) async fn serve(delay_ms: u64, answer_bytes: usize) -> Result<(), Failure> {
    let delay = Duration::from_millis(delay_ms);
    let mut card = CARD.to_owned();
    if answer_bytes > 0 {
        // Comments in number, as a real large card has them: many values, not one.
        let comment = r#"{"id":"71","text":"Asked the customer for the signed copy; they will send it on Monday."}"#;
        let comments = vec![comment; answer_bytes.div_ceil(comment.len() + 1)].join(",");
        card = card.replace(r#""current_phase""#, &format!(r#""comments":[{comments}],"current_phase""#));
    }
    let card = Bytes::from(card);
    let card = move |_body: Bytes| async move {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        ([(CONTENT_TYPE, "application/json")], card).into_response()
    };
    listen(Router::new().route("/graphql", post(card))).await
}

/// Binds a free loopback port, prints the address, serves.
pub(crate) async fn listen(router: Router) -> Result<(), Failure> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    report::line(&format!("http://{}", listener.local_addr()?))?;
    let listener = listener.tap_io(|stream| {
        // Nagle's algorithm would add its delay to every figure.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
