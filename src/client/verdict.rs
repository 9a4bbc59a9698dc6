//! Classification of the outcome of a call, made only here (docs/rules.md 4, 11, 19).
//!
//! The first matching row applies:
//!
//! | outcome | read | write |
//! | --- | --- | --- |
//! | no byte left; 407 of a proxy | `NotSent` | `NotSent` |
//! | 2xx of the expected shape | `Accepted` | `Accepted` |
//! | 2xx of another shape, a read's status `Failure` or `Error` | `Transient` | `InDoubt` |
//! | 429 with `Retry-After`; without it | `Throttled(Rate)`; `Throttled(Concurrency)` | as for a read |
//! | 403 with `Retry-After` | `Throttled(BadRequests)` | as for a read |
//! | 401, 403 to a call without ids and SKUs | `Refused` | `Refused` |
//! | other 403; other 4xx except 408, 425 and 499, which leave open if the call took effect | `Rejected` | `Rejected` |
//! | all else: 1xx, 3xx, 5xx, 408, 425, 499, cut, too large, timeout | `Transient` | `InDoubt` |
//!
//! A 4xx whose body was cut is classified by its head, because the status alone proves that the call had no
//! effect.

use super::{FailureKind, PlatformResponse, TransportError, shape};
use crate::model::time::DAY;
use crate::model::{CallEffect, Operation, Timestamp};
use chrono::DateTime;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An answer with the expected outer shape. A write's answer may still
    /// refuse entries; its decoder reads them.
    Accepted,
    /// A refusal of the content, which would be repeated. The call had no effect. A 400 or a 403 may mean the key
    /// instead (docs/rules.md 11).
    Rejected { status: u16 },
    /// The quota is used up. The call had no effect and is not counted against the caller.
    Throttled(ThrottleKind),
    /// The key was not accepted. The call had no effect.
    Refused,
    /// A read without a usable answer. It may be sent again.
    Transient,
    /// No byte of the request left. The call had no effect.
    NotSent,
    /// A write with unknown outcome. It must be checked and never sent again blindly.
    InDoubt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThrottleKind {
    /// Calls per minute: the whole account waits.
    Rate { wait: Duration },
    /// Simultaneous calls of this operation: it waits until one of them completes.
    Concurrency,
    /// Too many bad requests within 24 h: all calls wait, also after a restart.
    BadRequests { wait: Duration },
}

/// Classifies the outcome of one call. `now` is the time of the answer, for a `Retry-After` that is a date.
pub(crate) fn classify_outcome(
    operation: Operation,
    outcome: &Result<PlatformResponse, TransportError>,
    now: Timestamp,
) -> Verdict {
    let (status, retry_after) = match outcome {
        Err(failure) if failure.kind == FailureKind::Unsent => return Verdict::NotSent,
        Err(failure) => (failure.status, &failure.retry_after),
        Ok(answer)
            if (200..300).contains(&answer.status) && shape::check_shape(operation, &answer.body).is_ok() =>
        {
            return Verdict::Accepted;
        }
        Ok(answer) => (Some(answer.status), &answer.retry_after),
    };
    let refusal = status.and_then(|status| classify_refusal(operation, status, retry_after.as_deref(), now));
    refusal.unwrap_or(match operation.effect() {
        CallEffect::Read => Verdict::Transient,
        CallEffect::Write => Verdict::InDoubt,
    })
}

/// Returns the verdict of a status that proves that the call had no effect; `None` for all others.
fn classify_refusal(
    operation: Operation,
    status: u16,
    wait: Option<&str>,
    now: Timestamp,
) -> Option<Verdict> {
    let wait = wait.map(|text| parse_retry_after(text, now));
    Some(match (status, wait) {
        (429, Some(wait)) => Verdict::Throttled(ThrottleKind::Rate { wait }),
        (429, None) => Verdict::Throttled(ThrottleKind::Concurrency),
        (403, Some(wait)) => Verdict::Throttled(ThrottleKind::BadRequests { wait }),
        (403, None) if carries_id(operation) => Verdict::Rejected { status },
        (401, _) | (403, None) => Verdict::Refused,
        (407, _) => Verdict::NotSent,
        (408 | 425 | 499, _) => return None,
        (400..500, _) => Verdict::Rejected { status },
        _ => return None,
    })
}

/// Returns true if the path or the body names ids or SKUs. docs/interface.md, *Errors*, states a 403 for ids in paths,
/// and a firewall may refuse any text.
fn carries_id(operation: Operation) -> bool {
    operation.method() != "GET" || operation.path().contains('{')
}

/// Returns the wait of a `Retry-After` header: whole seconds or an HTTP date, limited to 1 s to 24 h, because a date
/// just passed must not cause a tight loop. An unreadable one gives 60 s, the length of the rate window.
pub(crate) fn parse_retry_after(text: &str, now: Timestamp) -> Duration {
    let text = text.trim();
    let seconds = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = seconds.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let date = || DateTime::parse_from_rfc2822(text).ok();
    let until = || date().map(|date| Timestamp(date.timestamp_millis()).duration_since(now));
    let wait = seconds.or_else(until).unwrap_or(Duration::from_mins(1));
    wait.clamp(Duration::from_secs(1), DAY)
}

#[cfg(test)]
mod tests;
