//! Injected faults, by operation, with their number and probability.
//!
//! A fault changes the delivery of an answer, never the platform's rules. It is drawn after the call was
//! admitted and counted, so a fault costs quota like a real failure. Only the first fault that fires takes
//! effect.
//!
//! `control.rs` accepts a fault (`POST /_sandbox/faults`), `core.rs` draws it for a call, and `http/server.rs` cuts
//! connections.

use std::sync::Mutex;

use axum::http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http::answer::SandboxRefusal;
use super::lock_mutex;
use super::operations::OPERATIONS;
use super::random::SandboxRandom;

/// A fault as it is posted, and as `GET /_sandbox/faults` shows its remainder.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct InjectedFault {
    /// Operation, as docs/interface.md writes it: `POST /api/product/getProductBalances`.
    operation: String,
    /// Answers with this status and a `{Message}`.
    pub(crate) status: Option<u16>,
    /// Closes the connection without an answer, before or after the handler. With a status: answers
    /// it before or after the handler.
    pub(crate) drop: Option<FaultTiming>,
    /// Sends only this many bytes of the body (`true`: half), then closes.
    pub(crate) truncate: Option<BodyTruncation>,
    /// Delays the answer inside the operation's slot.
    pub(crate) latency_ms: Option<u64>,
    /// `Retry-After` of the injected status: seconds, or any text.
    retry_after: Option<Value>,
    /// Number of times that it fires; `None` means until the faults are cleared.
    times: Option<u32>,
    /// Probability that it fires, 0 to 1; `None` means always.
    probability: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FaultTiming {
    Before,
    After,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum BodyTruncation {
    Half(bool),
    Bytes(usize),
}

impl BodyTruncation {
    /// Returns the bytes to send of a body; always fewer than all.
    pub(crate) fn kept_bytes(self, length: usize) -> Option<usize> {
        match self {
            Self::Half(false) => None,
            Self::Half(true) => Some(length / 2),
            Self::Bytes(bytes) => Some(bytes.min(length.saturating_sub(1))),
        }
    }
}

impl InjectedFault {
    pub(crate) fn injected_refusal(&self) -> Option<SandboxRefusal> {
        let status = StatusCode::from_u16(self.status?).ok()?;
        let refusal = match status {
            // An injected failure has the text of the real failure (docs/interface.md, *Errors*).
            StatusCode::INTERNAL_SERVER_ERROR => SandboxRefusal::internal_error(),
            _ => SandboxRefusal::new(status, format!("Injected by the sandbox: {status}.")),
        };
        Some(match self.retry_after_text() {
            Some(text) => refusal.with_header(header::RETRY_AFTER, &text),
            None => refusal,
        })
    }

    fn retry_after_text(&self) -> Option<String> {
        match self.retry_after.as_ref()? {
            Value::String(text) => Some(text.clone()),
            Value::Number(seconds) => Some(seconds.to_string()),
            _ => None,
        }
    }

    fn check_fault(&self) -> Result<(), SandboxRefusal> {
        if !OPERATIONS.iter().any(|operation| operation.name == self.operation) {
            let name = &self.operation;
            return Err(format!("'{name}' is no operation of the service, as the document writes it.").into());
        }
        let is_header = |text: String| HeaderValue::from_str(&text).is_ok();
        let is_cut = self.drop.is_some() || self.truncate.is_some();
        let message = if self.status.is_some_and(|status| !(200..=599).contains(&status)) {
            "Status must be between 200 and 599."
        } else if self.retry_after.is_some() && !self.retry_after_text().is_some_and(is_header) {
            "RetryAfter must be seconds or the text of a header."
        } else if self.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            "Probability must be between 0 and 1."
        } else if self.times == Some(0) {
            "Times must be at least 1."
        } else if self.status.is_none() && self.latency_ms.is_none() && !is_cut {
            "A fault needs Status, Drop, Truncate or LatencyMs."
        } else {
            return Ok(());
        };
        Err(SandboxRefusal::bad_request(message))
    }
}

#[derive(Debug)]
pub(crate) struct FaultQueue(Mutex<(Vec<InjectedFault>, SandboxRandom)>);

impl FaultQueue {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new((Vec::new(), SandboxRandom::new(seed, "faults"))))
    }

    /// Appends faults; an invalid fault refuses all.
    pub(crate) fn add_faults(&self, faults: Vec<InjectedFault>) -> Result<(), SandboxRefusal> {
        faults.iter().try_for_each(InjectedFault::check_fault)?;
        lock_mutex(&self.0).0.extend(faults);
        Ok(())
    }

    pub(crate) fn clear_faults(&self) {
        lock_mutex(&self.0).0.clear();
    }

    pub(crate) fn active_faults(&self) -> Vec<InjectedFault> {
        lock_mutex(&self.0).0.clone()
    }

    pub(crate) fn draw_fault(&self, operation: &str) -> Option<InjectedFault> {
        let (faults, random) = &mut *lock_mutex(&self.0);
        let index = faults.iter().position(|fault| {
            fault.operation == operation && fault.probability.is_none_or(|p| random.happens_with(p))
        })?;
        let fired = faults[index].clone();
        match faults[index].times.as_mut() {
            Some(left) if *left > 1 => *left -= 1,
            Some(_) => drop(faults.remove(index)),
            None => {}
        }
        Some(fired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "GET /api/Company/WorkQueue";

    fn faults(json: &str) -> Result<FaultQueue, SandboxRefusal> {
        let faults = FaultQueue::new(1);
        faults.add_faults(serde_json::from_str(json).map_err(|cause| cause.to_string())?)?;
        Ok(faults)
    }

    #[test]
    fn a_fault_fires_its_times_and_in_order() {
        let twice = format!(r#"{{"Operation":"{QUEUE}","Status":500,"Times":2}}"#);
        let once = format!(r#"{{"Operation":"{QUEUE}","Status":503,"Times":1}}"#);
        let faults = faults(&format!("[{twice},{once}]")).expect("valid");
        let drawn: Vec<_> = (0..4).map(|_| faults.draw_fault(QUEUE).and_then(|fault| fault.status)).collect();
        assert_eq!(drawn, [Some(500), Some(500), Some(503), None]);
        assert!(faults.active_faults().is_empty());
    }

    #[test]
    fn a_fault_is_for_its_operation_alone() {
        let faults = faults(&format!(r#"[{{"Operation":"{QUEUE}","Drop":"after"}}]"#)).expect("valid");
        assert!(faults.draw_fault("GET /api/Warehouses").is_none());
        assert_eq!(faults.draw_fault(QUEUE).and_then(|fault| fault.drop), Some(FaultTiming::After));
    }

    #[test]
    fn an_invalid_fault_is_refused() {
        for fields in [
            r#""Status":99"#,
            r#""Status":600"#,
            r#""Drop":"never""#,
            r#""Status":429,"RetryAfter":"a\nb""#,
            r#""Status":429,"RetryAfter":[]"#,
            r#""Status":500,"Probability":1.5"#,
            r#""Times":1"#,
            r#""Status":500,"Times":0"#,
            r#""Stauts":500"#,
        ] {
            let posted = format!(r#"[{{"Operation":"{QUEUE}",{fields}}}]"#);
            assert!(faults(&posted).is_err(), "{posted}");
        }
        assert!(faults(r#"[{"Operation":"get /api/company/workqueue","Status":500}]"#).is_err());
    }

    #[test]
    fn a_cut_body_is_never_whole() {
        for (truncate, length, keep) in [
            (BodyTruncation::Half(true), 100, Some(50)),
            (BodyTruncation::Half(false), 100, None),
            (BodyTruncation::Bytes(0), 100, Some(0)),
            (BodyTruncation::Bytes(500), 100, Some(99)),
            (BodyTruncation::Bytes(1), 0, Some(0)),
        ] {
            assert_eq!(truncate.kept_bytes(length), keep, "{truncate:?} of {length}");
        }
    }
}
