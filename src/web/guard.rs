//! The checks of a request before its page sees it, and the headers of every answer.
//!
//! The order is: size of the head, host, token or cookie, then for a form: read-only mode, origin, size of the body,
//! CSRF token, the form's own key. A request without a cookie gets the same 401 for every address.

use super::WebState;
use super::access::WebSession;
use super::decisions::{SentForm, act_once};
use super::layout::PageFailure;
use super::request::{FormFields, wants_json};
use super::server::{HEAD_MAX_BYTES, HEADERS_MAX, REQUEST_TIMEOUT};
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
use tokio::time::timeout;

const BODY_MAX_BYTES: usize = 1024 * 1024;
/// Longest name or value of a field, in bytes: an answer quotes it.
const FIELD_MAX_BYTES: usize = 2000;

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

pub(super) async fn guard(State(web): State<Arc<WebState>>, request: Request, next: Next) -> Response {
    let wants_json = wants_json(request.headers());
    let mut response = match admit(&web, request).await {
        Ok(request) => run(request, next).await,
        Err(mut refusal) => {
            refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            *refusal
        }
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

/// Makes the page, or does what a form asks for, to its end even if the sender goes away.
async fn run(request: Request, next: Next) -> Response {
    let sent = request.extensions().get::<SentForm>().cloned();
    let session = request.extensions().get::<Arc<WebSession>>().cloned();
    let (Some(sent), Some(session)) = (sent, session) else { return next.run(request).await };
    let acted = tokio::spawn(act_once(sent, session, request, next)).await;
    acted.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

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
        let Some(once) = form.given("once") else {
            let text = "this form has no key: load the page again. A program sends in the field `once` a text that it \
                        uses for no other action\n";
            return Err(refuse(StatusCode::BAD_REQUEST, text));
        };
        parts.extensions.insert(session.sent_form(once));
        parts.extensions.insert(form);
    }
    parts.extensions.insert(session);
    Ok(Request::from_parts(parts, Body::empty()))
}

fn is_head_too_large(parts: &Parts) -> bool {
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    parts.headers.len() > HEADERS_MAX || fields.sum::<usize>() > HEAD_MAX_BYTES
}

fn exchange_token(web: &WebState, parts: &Parts) -> Option<GuardRefusal> {
    let is_get = parts.method == Method::GET;
    let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let token = query.get("token").filter(|_| is_get)?;
    let is_encrypted = parts.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let exchanged = web.access.exchange(token, web.clock.moment(), is_encrypted);
    Some(match exchanged {
        Ok(Some(cookie)) => {
            let to = super::layout::address_without(parts.uri.path(), &query, "token");
            Box::new(
                (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, to)])
                    .into_response(),
            )
        }
        Ok(None) => {
            tracing::warn!(event = event::WEB_DENIED, "someone opened the page with a wrong token");
            refuse(StatusCode::UNAUTHORIZED, "this token is wrong\n")
        }
        Err(error) => {
            tracing::error!(event = event::WEB_FAILED, "cannot make a cookie: {error}");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot make a cookie; see its log\n")
        }
    })
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<FormFields, GuardRefusal> {
    let too_large = || refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is larger than 1 MiB\n");
    if body.size_hint().lower() > BODY_MAX_BYTES as u64 {
        return Err(too_large());
    }
    let bytes = match timeout(REQUEST_TIMEOUT, read_body(body)).await {
        Err(_) => return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the form came too slowly\n")),
        Ok(None) => return Err(refuse(StatusCode::BAD_REQUEST, "the form is cut off\n")),
        Ok(Some(bytes)) if bytes.len() > BODY_MAX_BYTES => return Err(too_large()),
        Ok(Some(bytes)) => bytes,
    };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form\n"));
    }
    let form = FormFields::parse(&bytes);
    if form.pairs().any(|(name, value)| name.len().max(value.len()) > FIELD_MAX_BYTES) {
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "a field of the form is longer than 2000 bytes\n"));
    }
    Ok(form)
}

/// Reads a body, a little beyond [`BODY_MAX_BYTES`] at most; `None` if it breaks off.
async fn read_body(body: Body) -> Option<Vec<u8>> {
    let (mut body, mut read) = (pin!(body), Vec::new());
    while read.len() <= BODY_MAX_BYTES {
        let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await else { break };
        read.extend(frame.ok()?.into_data().into_iter().flatten());
    }
    Some(read)
}
