//! The call log: every call of an operation in the order of arrival, for tests of clients.
//!
//! Requests without an operation (404, 405) and the control plane's requests are not logged. The log keeps
//! the last [`CALLS_MAX`] calls, so that a demonstration of weeks does not grow.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::sandbox::lock_mutex;

/// Maximum number of logged calls: a day and a half at the default rate.
const CALLS_MAX: usize = 262_144;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCall {
    /// Operation, as docs/interface.md writes it: `GET /api/Shipments/{shipmentid}/LineItems`.
    pub operation: &'static str,
    /// Status of the answer; `None` before the answer, and permanently for a dropped connection.
    pub status: Option<u16>,
    /// Sandbox time of arrival, ms since 1970.
    pub started_at_ms: i64,
    /// Time from arrival to the answer, ms; `None` while the call runs.
    pub duration_ms: Option<i64>,
}

#[derive(Debug, Default)]
struct CallLogState {
    calls: VecDeque<LoggedCall>,
    dropped_calls: usize,
}

#[derive(Debug, Default)]
pub(crate) struct CallLog(Mutex<CallLogState>);

impl CallLog {
    /// Returns the number of the call, for [`CallLog::log_answer`].
    pub(crate) fn log_arrival(&self, operation: &'static str, now_ms: i64) -> usize {
        let mut log = lock_mutex(&self.0);
        if log.calls.len() == CALLS_MAX {
            log.calls.pop_front();
            log.dropped_calls += 1;
        }
        log.calls.push_back(LoggedCall { operation, status: None, started_at_ms: now_ms, duration_ms: None });
        log.dropped_calls + log.calls.len() - 1
    }

    pub(crate) fn log_answer(&self, number: usize, status: Option<u16>, now_ms: i64) {
        let mut log = lock_mutex(&self.0);
        let Some(index) = number.checked_sub(log.dropped_calls) else { return };
        if let Some(call) = log.calls.get_mut(index) {
            call.status = status;
            call.duration_ms = Some(now_ms - call.started_at_ms);
        }
    }

    pub(crate) fn logged_calls(&self) -> Vec<LoggedCall> {
        lock_mutex(&self.0).calls.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_calls_are_forgotten_and_the_rest_keep_their_numbers() {
        let calls = CallLog::default();
        let first = calls.log_arrival("first", 0);
        let second = calls.log_arrival("second", 1);
        for _ in 0..CALLS_MAX - 1 {
            calls.log_arrival("more", 2);
        }
        calls.log_answer(first, Some(500), 5);
        calls.log_answer(second, Some(200), 5);
        let list = calls.logged_calls();
        assert_eq!(list.len(), CALLS_MAX);
        let oldest =
            LoggedCall { operation: "second", status: Some(200), started_at_ms: 1, duration_ms: Some(4) };
        assert_eq!(list.first(), Some(&oldest));
        assert!(list.iter().skip(1).all(|call| call.status.is_none()));
    }
}
