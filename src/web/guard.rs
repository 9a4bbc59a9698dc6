//! The checks of a request before its page sees it, and the headers of every answer.
//!
//! The order is: size of the head, host, token or cookie, then for a form: read-only mode, origin, size of the body,
//! CSRF token, the form's own key. A request without a cookie gets the same 401 for every address.

use super::WebState;
use super::access::WebSession;
use super::hosts::{has_allowed_host, has_own_origin};
use super::layout::{PageFailure, address_without};
use super::live::change_mark;
use super::request::{FormFields, PageRequest, wants_json};
use super::server::{HEAD_MAX_BYTES, REQUEST_TIMEOUT};
use crate::present::status::load_health;
use crate::telemetry::event;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::time::timeout;

/// Header of a request by which the script reads a page again.
const REFRESH_HEADER: &str = "tallyd-refresh";
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
        // To the end of the action, even if the sender goes away.
        Ok(request) => tokio::spawn(next.run(request))
            .await
            .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response()),
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

type GuardRefusal = Box<Response>;

fn refuse(status: StatusCode, text: &'static str) -> GuardRefusal {
    Box::new((status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

async fn admit(web: &WebState, request: Request) -> Result<Request, GuardRefusal> {
    let (mut parts, body) = request.into_parts();
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if fields.sum::<usize>() > HEAD_MAX_BYTES {
        return Err(refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large\n"));
    }
    if !has_allowed_host(&web.config.web.allow_hosts, &parts.uri, &parts.headers) {
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
        if !has_own_origin(&web.config.web.allow_hosts, &parts.headers) {
            return Err(refuse(StatusCode::FORBIDDEN, "this form comes from another page\n"));
        }
        let form = read_form(&parts.headers, body).await?;
        if !form.get("csrf").is_some_and(|given| session.is_csrf(given)) {
            let text = "this form is not of your visit; load the page again, then repeat the action\n";
            return Err(refuse(StatusCode::FORBIDDEN, text));
        }
        if form.given("once").is_none() {
            let text = "this form has no key: load the page again. A program sends in the field `once` a text that it \
                        uses for no other action\n";
            return Err(refuse(StatusCode::BAD_REQUEST, text));
        }
        parts.extensions.insert(form);
    }
    parts.extensions.insert(session);
    Ok(Request::from_parts(parts, Body::empty()))
}

fn exchange_token(web: &WebState, parts: &Parts) -> Option<GuardRefusal> {
    let is_get = parts.method == Method::GET;
    let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let token = query.get("token").filter(|_| is_get)?;
    let is_encrypted = parts.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let exchanged = web.access.exchange(token, web.clock.moment(), is_encrypted);
    Some(match exchanged {
        Some(cookie) => {
            let to = address_without(parts.uri.path(), &query, "token");
            Box::new(
                (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, to)])
                    .into_response(),
            )
        }
        None => {
            tracing::warn!(event = event::WEB_DENIED, "someone opened the page with a wrong token");
            refuse(StatusCode::UNAUTHORIZED, "this token is wrong\n")
        }
    })
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<FormFields, GuardRefusal> {
    let too_large =
        || refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is larger than 1 MiB, or is cut off\n");
    if body.size_hint().lower() > BODY_MAX_BYTES as u64 {
        return Err(too_large());
    }
    let Ok(read) = timeout(REQUEST_TIMEOUT, to_bytes(body, BODY_MAX_BYTES)).await else {
        return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the form came too slowly\n"));
    };
    let bytes = read.map_err(|_| too_large())?;
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

impl FromRequestParts<Arc<WebState>> for PageRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<WebState>) -> Result<Self, Response> {
        // The guard puts a session into each request that it passes on.
        let session = parts.extensions.get::<Arc<WebSession>>();
        let session = Arc::clone(session.ok_or_else(|| StatusCode::UNAUTHORIZED.into_response())?);
        if let Err(error) = web.store.check_in_place() {
            // The connections lead to the former file. A new start opens the one that is there now.
            web.stop.cancel();
            return Err(PageFailure::from(error).into_response());
        }
        let health = load_health(&web.config, &*web.clock, &web.store).await;
        let health = health.map_err(|error| PageFailure::from(error).into_response())?;
        // Without a mark, the first event makes the browser read the page again.
        let mark = change_mark(&web.store).await.unwrap_or_default();
        let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let in_path = Path::<String>::from_request_parts(parts, web).await.map(|Path(name)| name);
        Ok(Self {
            name: in_path.unwrap_or_else(|_| query.get("name").unwrap_or_default().to_owned()),
            mark,
            health,
            is_refresh: parts.headers.contains_key(REFRESH_HEADER),
            session,
            path: parts.uri.path().to_owned(),
            query,
            form: parts.extensions.get().cloned().unwrap_or_default(),
            wants_json: wants_json(&parts.headers),
            may_act: !web.is_read_only,
        })
    }
}
