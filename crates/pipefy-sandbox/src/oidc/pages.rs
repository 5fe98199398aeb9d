//! The pages that people see when they sign in.

use crate::people::people;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, StatusCode, header};

const STYLE: &str = "body{font-family:Inter,system-ui,sans-serif;color:#101820;max-width:420px;margin:12vh auto;padding:0 16px}\
h1{font-size:1.4rem;color:#005EFC}button{display:block;width:100%;text-align:left;margin:8px 0;padding:12px;border:1px solid #c8d0dc;\
border-radius:8px;background:#fff;font:inherit;cursor:pointer}button:hover{border-color:#005EFC}small{display:block;color:#516170}\
input{font:inherit;padding:8px;width:100%;box-sizing:border-box;text-transform:uppercase}";

/// A whole page; `body` is HTML.
pub(crate) fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>{body}</html>"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("content-security-policy"),
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    ];
    (status, headers, html).into_response()
}

/// Text as HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

fn choices() -> String {
    let button = |person: crate::Person| {
        format!(
            "<button name=\"person\" value=\"{0}\">{1}<small>{0}</small><small>{2}</small></button>",
            escape(person.email),
            escape(person.name),
            escape(person.role)
        )
    };
    let people: String = people().map(button).concat();
    format!("{people}<button name=\"deny\" value=\"yes\">Cancel<small>Refuse this sign-in.</small></button>")
}

/// Who signs in?
pub(crate) fn login(action: &str, ticket: &str, client_id: &str) -> Response {
    let body = format!(
        "<p><strong>{}</strong> wants to act as one of the sandbox's people. Who are you?</p>\
         <form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"ticket\" value=\"{}\">{}</form>",
        escape(client_id),
        escape(action),
        escape(ticket),
        choices()
    );
    page(StatusCode::OK, "Sign in to the Pipefy sandbox", &body)
}

/// Which device, and who signs in?
pub(crate) fn device(action: &str, user_code: &str, problem: Option<&str>) -> Response {
    let problem = problem.map(|text| format!("<p><strong>{}</strong></p>", escape(text))).unwrap_or_default();
    let status = if problem.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let body = format!(
        "{problem}<form method=\"post\" action=\"{}\"><p><label>Code shown on the device \
         <input name=\"user_code\" value=\"{}\" autocomplete=\"off\" required></label></p><p>Who are you?</p>{}</form>",
        escape(action),
        escape(user_code),
        choices()
    );
    page(status, "Connect a device to the Pipefy sandbox", &body)
}

/// Something to tell, nothing to do.
pub(crate) fn notice(status: StatusCode, title: &str, text: &str) -> Response {
    page(status, title, &format!("<p>{}</p>", escape(text)))
}
