//! The book of calls: every call of an operation in the order of arrival, for tests that judge what a client
//! did.
//!
//! Calls that name no operation (404, 405) and the control plane's own are not in it. It keeps the last
//! [`CALLS_MAX`] calls; a demonstration that runs for weeks must not grow.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls that are kept; a day and a half at the default rate.
const CALLS_MAX: usize = 262_144;

/// One call of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// As the document writes it: `GET /api/Shipments/{shipmentid}/LineItems`.
    pub operation: &'static str,
    /// The answer's status; `None` while there is none, and for good where the connection was dropped.
    pub status: Option<u16>,
    /// The sandbox's time of arrival, ms since 1970.
    pub started_at_ms: i64,
    /// From arrival to the answer, ms; `None` while it is being handled.
    pub duration_ms: Option<i64>,
}

/// Number of a call within its book.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallNumber(usize);

#[derive(Debug, Default)]
struct Book {
    calls: VecDeque<Call>,
    forgotten: usize,
}

/// The book itself.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Book>);

impl Calls {
    /// Enters a call that has just arrived.
    pub(crate) fn arrived(&self, operation: &'static str, now_ms: i64) -> CallNumber {
        let mut book = self.lock();
        if book.calls.len() == CALLS_MAX {
            book.calls.pop_front();
            book.forgotten += 1;
        }
        book.calls.push_back(Call { operation, status: None, started_at_ms: now_ms, duration_ms: None });
        CallNumber(book.forgotten + book.calls.len() - 1)
    }

    /// Enters what became of it.
    pub(crate) fn answered(&self, number: CallNumber, status: Option<u16>, now_ms: i64) {
        let mut book = self.lock();
        let Some(index) = number.0.checked_sub(book.forgotten) else { return };
        if let Some(call) = book.calls.get_mut(index) {
            call.status = status;
            call.duration_ms = Some(now_ms - call.started_at_ms);
        }
    }

    /// All calls that are kept, in the order of arrival.
    pub(crate) fn list(&self) -> Vec<Call> {
        self.lock().calls.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_calls_are_forgotten_and_the_rest_keep_their_numbers() {
        let calls = Calls::default();
        let first = calls.arrived("first", 0);
        let second = calls.arrived("second", 1);
        for _ in 0..CALLS_MAX - 1 {
            calls.arrived("more", 2);
        }
        calls.answered(first, Some(500), 5);
        calls.answered(second, Some(200), 5);
        let list = calls.list();
        assert_eq!(list.len(), CALLS_MAX);
        let oldest = Call { operation: "second", status: Some(200), started_at_ms: 1, duration_ms: Some(4) };
        assert_eq!(list.first(), Some(&oldest));
        assert!(list.iter().skip(1).all(|call| call.status.is_none()));
    }
}
