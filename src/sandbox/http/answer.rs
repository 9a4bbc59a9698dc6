//! Answers: refusals with their `Message`, the list envelope, and cut or dropped responses.
//!
//! Implements docs/interface.md, *Response envelopes* and *Errors*. Records come from the database as JSON
//! text (wire.sql) and are inserted into the envelope without parsing, because parsing would only cost time.

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;
use serde_json::json;

/// Message of a 500; the cause is in the sandbox's log only.
const INTERNAL_ERROR_MESSAGE: &str =
    "Something went wrong while processing the request. Please try again later.";

/// The outcome of a request.
#[derive(Debug)]
pub enum SandboxAnswer {
    /// Sent unchanged.
    Full(Response<Bytes>),
    /// Cut: the head and the first `keep` bytes of the body are sent, then the connection is closed.
    ///
    /// `Content-Length` states the complete body (fault `Truncate`).
    Cut {
        /// Complete response.
        response: Response<Bytes>,
        /// Bytes of the body to send.
        keep: usize,
    },
    /// Dropped: the connection is closed without a byte (fault `Drop`).
    Dropped,
}

/// The refusal of an operation: the status and the text of `{Message}`.
#[derive(Debug)]
pub(crate) struct SandboxRefusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Value of the `Retry-After` header.
    pub(crate) retry_after: Option<String>,
    /// Value of the `Allow` header: the methods of the path.
    allow: Option<String>,
}

impl SandboxRefusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None, allow: None }
    }

    /// Returns a 400: the request cannot be attempted.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns a 403: a key, or an id in the path, is not the company's.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Returns a 405: the path is known, and the method is not one of `methods`.
    pub(crate) fn method_not_allowed(method: &Method, methods: &[&str]) -> Self {
        let allow = methods.join(", ");
        let message = format!("This path does not take {method}; it takes {allow}.");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// Returns a 500: the sandbox failed. The caller has logged the cause.
    pub(crate) fn internal_error() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR_MESSAGE)
    }

    /// Adds `Retry-After`, in whole seconds.
    pub(crate) fn with_retry_after(mut self, seconds: i64) -> Self {
        self.retry_after = Some(seconds.to_string());
        self
    }

    /// Returns the error body `{Message}`.
    pub(crate) fn to_response(&self) -> Response<Bytes> {
        self.response_with_body(json!({ "Message": self.message }).to_string())
    }

    /// Returns the error body of the quantity update's 400.
    ///
    /// Its fields are `Message`, `ExceptionMessage`, `ExceptionType` and `StackTrace`.
    pub(crate) fn to_exception_response(&self) -> Response<Bytes> {
        let body = json!({
            "Message": "An error has occurred.",
            "ExceptionMessage": self.message,
            "ExceptionType": "System.ArgumentException",
            "StackTrace": null,
        });
        self.response_with_body(body.to_string())
    }

    fn response_with_body(&self, body: String) -> Response<Bytes> {
        let mut response = json_response(self.status, body);
        for (name, value) in [(header::RETRY_AFTER, &self.retry_after), (header::ALLOW, &self.allow)] {
            if let Some(value) = value.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl From<sqlx::Error> for SandboxRefusal {
    fn from(cause: sqlx::Error) -> Self {
        tracing::error!(%cause, "the sandbox's database failed an operation; the caller is answered 500");
        Self::internal_error()
    }
}

/// The failure of an entry.
///
/// `Entry` is a message of its own inside the 200, `Call` a refusal of the whole call.
#[derive(Debug)]
pub(crate) enum EntryError {
    Entry(String),
    Call(SandboxRefusal),
}

impl From<String> for EntryError {
    fn from(message: String) -> Self {
        Self::Entry(message)
    }
}

impl From<&str> for EntryError {
    fn from(message: &str) -> Self {
        Self::Entry(message.to_owned())
    }
}

impl From<sqlx::Error> for EntryError {
    fn from(cause: sqlx::Error) -> Self {
        Self::Call(cause.into())
    }
}

/// Separates the failure of an entry from the refusal of the call.
pub(crate) fn split_entry_error<T>(
    outcome: Result<T, EntryError>,
) -> Result<Result<T, String>, SandboxRefusal> {
    match outcome {
        Ok(done) => Ok(Ok(done)),
        Err(EntryError::Entry(message)) => Ok(Err(message)),
        Err(EntryError::Call(refusal)) => Err(refusal),
    }
}

/// Returns a JSON response; `body` must be JSON text.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response<Bytes> {
    const JSON: (HeaderName, HeaderValue) =
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(JSON.0, JSON.1);
    response
}

/// The `pagination` object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Pagination {
    pub(crate) current_page: i64,
    pub(crate) total_number_of_entries: i64,
    pub(crate) total_number_of_pages: i64,
}

impl Pagination {
    /// Returns a single page, for operations with pagination and without page parameters.
    pub(crate) fn single_page(entries: i64) -> Self {
        Self { current_page: 1, total_number_of_entries: entries, total_number_of_pages: entries.min(1) }
    }
}

/// Returns the list envelope with status `Success`.
pub(crate) fn list_envelope(data: &str, pagination: Option<&Pagination>) -> String {
    list_envelope_with("Success", &[], data, pagination)
}

/// Returns the list envelope; `data` must be JSON text.
pub(crate) fn list_envelope_with(
    status: &str,
    messages: &[String],
    data: &str,
    pagination: Option<&Pagination>,
) -> String {
    let messages = json!(messages);
    let pagination = json!(pagination);
    format!(r#"{{"status":"{status}","messages":{messages},"pagination":{pagination},"data":{data}}}"#)
}
