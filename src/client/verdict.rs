//! The verdict on one call: what its outcome means for the caller, decided once, here (rules.md 17, 31, 34).
//!
//! The table, read from the top:
//!
//! | outcome | read | write |
//! | --- | --- | --- |
//! | no byte left; 407 of a proxy | `NotSent` | `NotSent` |
//! | 2xx of the expected shape | `Accepted` | `Accepted` |
//! | 2xx of another shape, a read's status `Failure` or `Error` | `Transient` | `InDoubt` |
//! | 429 with `Retry-After`; without it | `Throttled(Rate)`; `Throttled(Concurrency)` | the same |
//! | 403 with `Retry-After` | `Throttled(BadRequests)` | the same |
//! | 401, other 403 | `Refused` | `Refused` |
//! | other 4xx, but 408, 425 and 499, which say nothing about what was done | `Rejected` | `Rejected` |
//! | all else: 1xx, 3xx, 5xx, 408, 425, 499, cut, too large, too late | `Transient` | `InDoubt` |
//!
//! A 4xx whose body was cut still says by its head that nothing was done, so the head decides.

use super::{Response, Sent, TransportError, shape};
use crate::model::{Effect, Operation, Timestamp};
use chrono::DateTime;
use std::time::Duration;

/// The shortest wait a `Retry-After` is taken for: a date just passed must not become a tight loop.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest: no window of the service is longer than a day.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The wait for a `Retry-After` nobody can read: the length of the rate's window.
const WAIT_UNREADABLE: Duration = Duration::from_secs(60);
/// More seconds than anybody means: a year.
const SECONDS_MEANT: u64 = 366 * 24 * 60 * 60;

/// What the outcome of one call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service answered and the answer has the expected outer shape. A write's answer may still refuse
    /// entries: its decoder tells.
    Accepted,
    /// The service will answer this content so again; nothing was done.
    Rejected {
        /// The HTTP status, kept for the ledger of 400s and for messages.
        status: u16,
    },
    /// The quota is used up; nothing was done, nothing is counted against the caller.
    Throttled(Throttle),
    /// The key was not accepted; nothing was done.
    Refused {
        /// Whether the id in the path may be meant instead of the key (rules.md 34).
        may_be_id: bool,
    },
    /// A read that gave nothing usable; it may be sent again.
    Transient,
    /// No byte of the request left: nothing was done.
    NotSent,
    /// A write whose outcome is unknown: it must be looked at, never sent again blindly.
    InDoubt,
}

/// Which of the account's limits was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// Calls per minute: the whole account waits.
    Rate {
        /// From the answer on; 1 s to 24 h.
        wait: Duration,
    },
    /// Simultaneous calls of this operation: it waits until one of them completes.
    Concurrency,
    /// Too many bad requests within 24 h: everything waits, also across a restart.
    BadRequests {
        /// From the answer on; 1 s to 24 h.
        wait: Duration,
    },
}

impl Verdict {
    /// The word used in the journal and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Rejected { .. } => "rejected",
            Verdict::Throttled(_) => "throttled",
            Verdict::Refused { .. } => "refused",
            Verdict::Transient => "transient",
            Verdict::NotSent => "not_sent",
            Verdict::InDoubt => "in_doubt",
        }
    }
}

/// Judges the outcome of one call. `now` is the time of the answer, for a `Retry-After` that is a date.
pub fn classify(operation: Operation, outcome: &Result<Response, TransportError>, now: Timestamp) -> Verdict {
    match outcome {
        Err(failure) if failure.sent == Sent::No => Verdict::NotSent,
        Err(failure) => failure
            .status
            .and_then(|status| refusal(operation, status, failure.retry_after.as_deref(), now))
            .unwrap_or_else(|| unknown(operation)),
        Ok(answer) if (200..300).contains(&answer.status) => match shape::check(operation, &answer.body) {
            Ok(()) => Verdict::Accepted,
            Err(_) => unknown(operation),
        },
        Ok(answer) => refusal(operation, answer.status, answer.retry_after.as_deref(), now)
            .unwrap_or_else(|| unknown(operation)),
    }
}

/// What a status means that proves that nothing was done; `None` for all others.
fn refusal(operation: Operation, status: u16, wait: Option<&str>, now: Timestamp) -> Option<Verdict> {
    let wait = wait.map(|text| retry_after(text, now));
    Some(match (status, wait) {
        (429, Some(wait)) => Verdict::Throttled(Throttle::Rate { wait }),
        (429, None) => Verdict::Throttled(Throttle::Concurrency),
        (403, Some(wait)) => Verdict::Throttled(Throttle::BadRequests { wait }),
        (403, None) => Verdict::Refused { may_be_id: operation.carries_id() },
        (401, _) => Verdict::Refused { may_be_id: false },
        (407, _) => Verdict::NotSent,
        (408 | 425 | 499, _) => return None,
        (400..500, _) => Verdict::Rejected { status },
        _ => return None,
    })
}

/// The verdict when nobody can say what the service did.
fn unknown(operation: Operation) -> Verdict {
    match operation.effect() {
        Effect::Read => Verdict::Transient,
        Effect::Write => Verdict::InDoubt,
    }
}

/// The wait a `Retry-After` asks for: whole seconds or an HTTP date; 1 s to 24 h, and 60 s if it is unreadable or means
/// more than a year: a number that nobody can mean must not stop the account for a day.
pub fn retry_after(text: &str, now: Timestamp) -> Duration {
    let text = text.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse()
            .ok()
            .filter(|seconds| *seconds <= SECONDS_MEANT)
            .map_or(WAIT_UNREADABLE, Duration::from_secs)
    } else if let Ok(date) = DateTime::parse_from_rfc2822(text) {
        Timestamp(date.timestamp_millis()).since(now)
    } else {
        WAIT_UNREADABLE
    };
    wait.clamp(WAIT_MIN, WAIT_MAX)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
