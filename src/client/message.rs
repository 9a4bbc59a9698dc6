//! Message about a call that was not accepted: the platform's text, or a generated one.
//!
//! The message is one line of at most [`MESSAGE_MAX_CHARS`] characters, for the journal, logs and `detail`
//! columns. No decision depends on it.

use super::wire::codec::lenient;
use super::{PlatformResponse, TransportError, shape};
use crate::model::Operation;
use serde::Deserialize;

/// Length limit in characters: enough for a sentence of the platform or the head of an unexpected page.
pub(super) const MESSAGE_MAX_CHARS: usize = 300;

/// Error bodies of the interface (*Errors*); all fields are optional.
#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(rename = "Message", default, deserialize_with = "lenient::opt")]
    message: Option<String>,
    #[serde(rename = "ExceptionMessage", default, deserialize_with = "lenient::opt")]
    exception: Option<String>,
    #[serde(default, deserialize_with = "lenient::texts")]
    messages: Vec<String>,
}

pub(super) fn describe_failure(
    operation: Operation,
    outcome: &Result<PlatformResponse, TransportError>,
) -> String {
    match outcome {
        Err(failure) => one_line(&failure.what),
        Ok(answer) => one_line(&describe_answer(operation, answer)),
    }
}

fn describe_answer(operation: Operation, answer: &PlatformResponse) -> String {
    let status = answer.status;
    if (200..300).contains(&status) {
        return shape::check_shape(operation, &answer.body).err().unwrap_or_default();
    }
    if (300..400).contains(&status) {
        return format!("the platform answered {status}; redirects are not followed: check service.base_url");
    }
    if let Some(message) = platform_message(&answer.body) {
        return message;
    }
    let body = String::from_utf8_lossy(&answer.body);
    match body.trim() {
        "" => format!("the platform answered {status} without a message"),
        text => format!("the platform answered {status}: {text}"),
    }
}

fn platform_message(body: &[u8]) -> Option<String> {
    let error: ErrorBody = serde_json::from_slice(body).ok()?;
    let mut parts: Vec<String> = error.message.into_iter().collect();
    parts.extend(error.exception.filter(|exception| !parts.contains(exception)));
    parts.extend(error.messages);
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Replaces runs of whitespace and control characters by one space, and truncates to the limit.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(MESSAGE_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(status: u16, body: &str) -> String {
        let answer = PlatformResponse { status, body: body.into(), ..PlatformResponse::default() };
        describe_failure(Operation::ListWarehouses, &Ok(answer))
    }

    #[test]
    fn the_platforms_message_is_shown_if_there_is_one() {
        let cases = [
            (403, r#"{"Message":"The key is not valid"}"#, "The key is not valid"),
            (400, r#"{"Message":"Bad","ExceptionMessage":"Twice","StackTrace":null}"#, "Bad; Twice"),
            (400, r#"{"Message":"Bad","ExceptionMessage":"Bad"}"#, "Bad"),
            (500, "", "the platform answered 500 without a message"),
            (502, "<h1>Bad\r\n  gateway</h1>", "the platform answered 502: <h1>Bad gateway</h1>"),
            (200, r#"{"status":"Failure","messages":["no"]}"#, "the answer's status is `Failure`: no"),
            (200, "<html>", "the body is HTML or XML where an envelope in JSON was expected"),
            (302, "", "the platform answered 302; redirects are not followed: check service.base_url"),
        ];
        for (status, body, expected) in cases {
            assert_eq!(described(status, body), expected);
        }
    }

    #[test]
    fn a_message_is_one_short_line() {
        let line = described(500, &format!("{{\"Message\":\"{}\"}}", "a\\n".repeat(400)));
        assert_eq!(line.chars().count(), MESSAGE_MAX_CHARS);
        assert!(!line.contains('\n'));
    }
}
