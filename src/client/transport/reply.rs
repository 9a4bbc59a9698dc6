//! Classified outcome of one call: the verdict, and the data for the journal and the decoders.
//!
//! Classification is pure, so that a simulation and a replay classify as the daemon does.

use super::{FailureKind, PlatformResponse, TransportError};
use crate::client::{Verdict, classify_outcome, message};
use crate::model::{CallEffect, Operation, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallReply {
    pub operation: Operation,
    /// Class of the outcome. Callers decide on this field alone.
    pub(crate) verdict: Verdict,
    pub status: Option<u16>,
    /// The body as UTF-8 text, usually JSON; empty unless it came whole.
    pub body: Vec<u8>,
    /// Message for an operator, unless the call was accepted; at most 300 characters.
    pub message: Option<String>,
    pub failure: Option<FailureKind>,
}

impl CallReply {
    pub(crate) fn from_outcome(
        operation: Operation,
        outcome: Result<PlatformResponse, TransportError>,
        now: Timestamp,
    ) -> Self {
        let outcome = outcome.map(|answer| PlatformResponse { body: utf8_text(answer.body), ..answer });
        let verdict = classify_outcome(operation, &outcome, now);
        let message = (verdict != Verdict::Accepted).then(|| message::describe_failure(operation, &outcome));
        let (status, body, failure) = match outcome {
            Ok(answer) => (Some(answer.status), answer.body, None),
            Err(failure) => (failure.status, Vec::new(), Some(failure.kind)),
        };
        Self { operation, verdict, status, body, message, failure }
    }

    /// Returns true if a smaller page may succeed: a read that ended with 413,
    /// 5xx, timeout, too large or cut.
    pub(crate) fn may_shrink_page(&self) -> bool {
        let too_much = matches!(self.verdict, Verdict::Rejected { status: 413 });
        let broke_down = self.status.is_some_and(|status| status >= 500);
        let too_long =
            matches!(self.failure, Some(FailureKind::Timeout | FailureKind::TooLarge | FailureKind::Cut));
        self.operation.effect() == CallEffect::Read && (too_much || broke_down || too_long)
    }
}

/// Returns the body without a byte order mark and with invalid UTF-8 replaced, so that one character does not
/// make a page unreadable.
fn utf8_text(body: Vec<u8>) -> Vec<u8> {
    const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    let body = match body.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => rest.to_vec(),
        None => body,
    };
    let text = String::from_utf8(body)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(operation: Operation, status: u16, body: &[u8]) -> CallReply {
        let answer = PlatformResponse { status, body: body.to_vec(), ..PlatformResponse::default() };
        CallReply::from_outcome(operation, Ok(answer), Timestamp(0))
    }

    #[test]
    fn a_byte_order_mark_and_odd_bytes_do_not_cost_a_page() {
        let balances = reply(Operation::GetProductBalances, 200, b"\xef\xbb\xbf[{\"Sku\":\"\xc4\"}]");
        assert_eq!(balances.verdict, Verdict::Accepted);
        assert_eq!(balances.body, "[{\"Sku\":\"\u{fffd}\"}]".as_bytes());
        assert_eq!(balances.message, None);
    }

    #[test]
    fn a_smaller_page_is_wanted_where_size_may_be_the_reason() {
        let read = Operation::GetProductBalances;
        let cases = [(413, true), (500, true), (504, true), (400, false), (429, false), (302, false)];
        for (status, expected) in cases {
            assert_eq!(reply(read, status, b"").may_shrink_page(), expected, "{status}");
        }
        assert!(!reply(Operation::UpdateQuantityOnHand, 500, b"").may_shrink_page());
        let late = TransportError::without_answer(FailureKind::Timeout, "too late".into());
        assert!(CallReply::from_outcome(read, Err(late), Timestamp(0)).may_shrink_page());
    }
}
