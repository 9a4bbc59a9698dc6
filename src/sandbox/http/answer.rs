//! Answers: refusals with their `Message`, the list envelope, and cut or dropped responses.
//!
//! Implements docs/interface.md, *Response envelopes* and *Errors*. Records come from the database as JSON
//! text (wire.sql) and are inserted into the envelope without parsing, because parsing would only cost time.

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// Message of a 500; the cause is in the sandbox's log only.
const INTERNAL_ERROR_MESSAGE: &str =
    "Something went wrong while processing the request. Please try again later.";

pub(crate) type HandlerResult = Result<String, SandboxRefusal>;

#[derive(Debug)]
pub enum SandboxAnswer {
    Full(Response<Bytes>),
    /// Cut: the head and the first `keep` bytes of the body are sent, then the connection is closed.
    /// `Content-Length` states the complete body (fault `Truncate`).
    Cut {
        response: Response<Bytes>,
        /// Bytes of the body to send.
        keep: usize,
    },
    /// Dropped: the connection is closed without a byte (fault `Drop`).
    Dropped,
}

impl SandboxAnswer {
    /// Returns the status; `None` for a dropped connection.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Full(response) | Self::Cut { response, .. } => Some(response.status()),
            Self::Dropped => None,
        }
    }
}

/// The refusal of an operation: the status and the text of `{Message}`.
#[derive(Debug)]
pub(crate) struct SandboxRefusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// `Retry-After`, or `Allow` with the methods of the path.
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

impl SandboxRefusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), header: None }
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

    /// Returns a 500: the sandbox failed. The caller has logged the cause.
    pub(crate) fn internal_error() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR_MESSAGE)
    }

    /// Adds a header; a value that no header can have is omitted.
    pub(crate) fn with_header(self, name: HeaderName, value: &str) -> Self {
        Self { header: HeaderValue::from_str(value).ok().map(|value| (name, value)), ..self }
    }

    /// Returns the response. A 429 has the fields of the gateway too, which answers it at the platform.
    pub(crate) fn to_response(&self) -> Response<Bytes> {
        let mut body = json!({ "Message": self.message });
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            body["statusCode"] = json!(self.status.as_u16());
            body["message"] = json!(self.message);
        }
        self.response_with_body(&body)
    }

    pub(crate) fn to_exception_response(&self) -> Response<Bytes> {
        self.response_with_body(&json!({
            "Message": "An error has occurred.",
            "ExceptionMessage": self.message,
            "ExceptionType": "System.ArgumentException",
            "StackTrace": null,
        }))
    }

    fn response_with_body(&self, body: &Value) -> Response<Bytes> {
        let mut response = json_response(self.status, body.to_string());
        response.headers_mut().extend(self.header.clone());
        response
    }
}

/// A 400 with the message; [`split_refused_entry`] makes it a message inside the 200.
impl From<String> for SandboxRefusal {
    fn from(message: String) -> Self {
        Self::bad_request(message)
    }
}

impl From<sqlx::Error> for SandboxRefusal {
    fn from(cause: sqlx::Error) -> Self {
        tracing::error!(%cause, "the sandbox's database failed an operation; the caller is answered 500");
        Self::internal_error()
    }
}

/// Separates the refusal of an entry, a message inside the 200, from a failure of the sandbox.
pub(crate) fn split_refused_entry<T>(
    outcome: Result<T, SandboxRefusal>,
) -> Result<Result<T, String>, SandboxRefusal> {
    match outcome {
        Err(refusal) if refusal.status == StatusCode::BAD_REQUEST => Ok(Err(refusal.message)),
        outcome => outcome.map(Ok),
    }
}

/// Returns a JSON response; `body` must be JSON text.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

pub(crate) fn list_envelope(data: &str) -> String {
    list_envelope_with("Success", &[], &Value::Null, data)
}

/// Returns the list envelope; `data` must be JSON text.
pub(crate) fn list_envelope_with(
    status: &str,
    messages: &[String],
    pagination: &Value,
    data: &str,
) -> String {
    let messages = json!(messages);
    format!(r#"{{"status":"{status}","messages":{messages},"pagination":{pagination},"data":{data}}}"#)
}
