//! The loopback listener that a browser login returns to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What the browser brought.
#[derive(Debug)]
pub(crate) enum Callback {
    Code(SecretString),
    Refused { error: String, description: Option<String> },
    NoCode,
}

/// Listens on `127.0.0.1`, an ephemeral port, for one `GET /callback` with the right `state`.
///
/// Requests with another state are answered with the failure page and otherwise ignored, so a stray tab or another
/// program cannot end the login. The socket is released when this is dropped.
pub(crate) struct CallbackListener {
    port: u16,
    answer: oneshot::Receiver<Callback>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

struct Waiting {
    state: SecretString,
    waiter: Mutex<Option<oneshot::Sender<Callback>>>,
}

impl CallbackListener {
    pub(crate) async fn bind(state: SecretString) -> std::io::Result<CallbackListener> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (waiter, answer) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let waiting = Arc::new(Waiting { state, waiter: Mutex::new(Some(waiter)) });
        let app = Router::new().fallback(receive).with_state(waiting);
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, app)
                .with_graceful_shutdown(async {
                    let _ = stopped.await;
                })
                .await;
        });
        Ok(CallbackListener { port, answer, stop: Some(stop), server })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the callback; nothing when none came in time. Ends the listener.
    pub(crate) async fn wait(mut self, limit: Duration) -> Option<Callback> {
        let answer = tokio::time::timeout(limit, &mut self.answer).await.ok()?.ok();
        // The page must reach the browser before the socket goes.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut self.server).await;
        answer
    }
}

impl Drop for CallbackListener {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(waiting): State<Arc<Waiting>>, request: Request) -> Response {
    if request.method() != Method::GET {
        return empty(StatusCode::NOT_IMPLEMENTED);
    }
    if request.uri().path() != "/callback" {
        return empty(StatusCode::NOT_FOUND);
    }
    let mut fields: HashMap<String, String> = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(request.uri().query().unwrap_or("").as_bytes()) {
        if !value.is_empty() {
            fields.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
    }
    let right = fields.remove("state").is_some_and(|state| same(&state, waiting.state.expose_secret()));
    if !right {
        return page(false);
    }
    // One callback only: whoever comes later finds nobody waiting.
    let waiter = waiting.waiter.lock().ok().and_then(|mut waiter| waiter.take());
    let Some(waiter) = waiter else { return page(false) };
    let callback = match (fields.remove("error"), fields.remove("code")) {
        (Some(error), _) => Callback::Refused { error, description: fields.remove("error_description") },
        (None, Some(code)) => Callback::Code(code.into()),
        (None, None) => Callback::NoCode,
    };
    let good = matches!(callback, Callback::Code(_));
    let _ = waiter.send(callback);
    page(good)
}

/// Compares without telling by the time taken how much was right.
fn same(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn page(good: bool) -> Response {
    let (status, title, colour, text) = if good {
        (StatusCode::OK, "Signed in to the Pipefy CLI", "#005EFC", "You can close this tab and return to the terminal.")
    } else {
        (
            StatusCode::BAD_REQUEST,
            "Login failed",
            "#C22E00",
            "Return to the terminal for details, and try again from there.",
        )
    };
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title></head>\
         <body style=\"margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;\
         font-family:Inter,system-ui,sans-serif;color:#101820\"><main style=\"width:420px;max-width:90vw;text-align:center\">\
         <h1 style=\"color:{colour}\">{title}</h1><p>{text}</p></main></body></html>"
    );
    let mut response = empty(status);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    *response.body_mut() = Body::from(html);
    response
}
