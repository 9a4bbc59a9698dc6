//! The checks of a request before its page sees it, and the headers of every answer.
//!
//! The order is: size of the head, host, token or cookie, then for a form: read-only mode, origin, size of the body,
//! CSRF token. A request without a cookie gets the same 401 for every address.

use super::WebState;
use super::access::TokenExchange;
use super::layout::PageFailure;
use super::request::{FormFields, wants_json};
use super::server::{HEAD_MAX_BYTES, HEADERS_MAX};
use crate::telemetry::event;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Largest body of a form, in bytes.
const BODY_MAX_BYTES: usize = 1024 * 1024;
/// Largest rest of a refused body that is read, so that its sender reads the answer.
const DRAIN_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Time for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Passes an admitted request to its page.
pub(super) async fn guard(State(web): State<Arc<WebState>>, request: Request, next: Next) -> Response {
    let wants_json = wants_json(request.headers());
    let mut response = match admit(&web, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => *refusal,
    };
    if let Some(failure) = response.extensions().get::<PageFailure>().filter(|_| wants_json) {
        response = failure.to_json();
    }
    let headers = response.headers_mut();
    for (name, value) in &SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// An answer instead of a page.
type GuardRefusal = Box<Response>;

fn refuse(status: StatusCode, text: &'static str) -> GuardRefusal {
    Box::new((status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

async fn admit(web: &WebState, request: Request) -> Result<Request, GuardRefusal> {
    let (mut parts, body) = request.into_parts();
    if is_head_too_large(&parts) {
        return Err(refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large\n"));
    }
    if !web.hosts.admit(&parts.uri, &parts.headers) {
        let text =
            "this page is not served under that host name; see `web.allow_hosts` in the configuration\n";
        return Err(refuse(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if let Some(answer) = exchange_token(web, &parts) {
        return Err(answer);
    }
    let cookies: Vec<&str> =
        parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()).collect();
    let Some(session) = web.access.session(&cookies.join(";"), web.clock.moment()) else {
        return Err(refuse(StatusCode::UNAUTHORIZED, "open the address with the token\n"));
    };
    if parts.method == Method::POST {
        if web.is_read_only {
            return Err(refuse(StatusCode::FORBIDDEN, "this page is read-only\n"));
        }
        if !web.hosts.admit_origin(&parts.headers) {
            return Err(refuse(StatusCode::FORBIDDEN, "this form comes from another page\n"));
        }
        let form = read_form(&parts.headers, body).await?;
        if !form.get("csrf").is_some_and(|given| session.is_csrf(given)) {
            let text = "this form is not of your visit; load the page again, then repeat the action\n";
            return Err(refuse(StatusCode::FORBIDDEN, text));
        }
        parts.extensions.insert(form);
    }
    parts.extensions.insert(session);
    Ok(Request::from_parts(parts, Body::empty()))
}

fn is_head_too_large(parts: &Parts) -> bool {
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    parts.headers.len() > HEADERS_MAX || fields.sum::<usize>() > HEAD_MAX_BYTES
}

/// Answers a request with a token; `None` if it has none.
fn exchange_token(web: &WebState, parts: &Parts) -> Option<GuardRefusal> {
    let is_get = parts.method == Method::GET;
    let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let token = query.get("token").filter(|_| is_get)?;
    let is_encrypted = parts.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let exchanged = web.access.exchange(token, web.clock.moment(), is_encrypted);
    Some(match exchanged {
        Ok(TokenExchange::Cookie(cookie)) => {
            let to = super::layout::address_without(parts.uri.path(), &query, "token");
            Box::new(
                (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, to)])
                    .into_response(),
            )
        }
        Ok(TokenExchange::Wrong) => {
            tracing::warn!(event = event::WEB_DENIED, "someone opened the page with a wrong token");
            refuse(StatusCode::UNAUTHORIZED, "this token is wrong\n")
        }
        Ok(TokenExchange::TooMany) => {
            let mut answer = refuse(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens; wait a minute\n");
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            answer
        }
        Err(error) => {
            tracing::error!(event = event::WEB_FAILED, "cannot make a cookie: {error}");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot make a cookie; see its log\n")
        }
    })
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<FormFields, GuardRefusal> {
    let bytes = match timeout(BODY_TIMEOUT, read_body(body)).await {
        Err(_) => return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the form came too slowly\n")),
        Ok(None) => return Err(refuse(StatusCode::BAD_REQUEST, "the form is cut off\n")),
        Ok(Some(bytes)) => bytes,
    };
    if bytes.len() > BODY_MAX_BYTES {
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is larger than 1 MiB\n"));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form\n"));
    }
    Ok(FormFields::parse(&bytes))
}

/// Reads a body; `None` if it breaks off. Bytes beyond [`BODY_MAX_BYTES`] + 1 are read and forgotten, because a
/// connection that closes with unread bytes may lose the answer.
async fn read_body(body: Body) -> Option<Vec<u8>> {
    let (mut body, mut kept, mut read) = (pin!(body), Vec::new(), 0usize);
    while read <= DRAIN_MAX_BYTES {
        let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await else { break };
        let Ok(data) = frame.ok()?.into_data() else { continue };
        read = read.saturating_add(data.len());
        let room = (BODY_MAX_BYTES + 1).saturating_sub(kept.len());
        kept.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
    }
    Some(kept)
}
