//! What came of a call, and what the limiter made of it.

use super::hold::Hold;
use crate::model::Timestamp;
use std::time::Duration;

/// What came of a call, as far as the quota is concerned. Whatever it is, the call's place stays held for another
/// 60 s (rules.md 30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Any answer that is none of the following: a success, a 404, a 500, a body that makes no sense.
    Answered,
    /// 400: counted in the ledger.
    BadRequest,
    /// 429 with `Retry-After`: the whole account waits so long. Less than a second counts as one, more than a day as
    /// a day; for a header that cannot be read the client says 60 s (rules.md 31).
    RateThrottled(Duration),
    /// 429 without it: the operation waits.
    ConcurrencyThrottled,
    /// 403 with `Retry-After`: the whole account waits so long, and the ledger is full for a day.
    BadRequestThrottled(Duration),
    /// 403 without it. The key is refused at once, unless the path carries an id, which may be at fault: then the
    /// caller lets a work-queue call decide (rules.md 34) and reports with [`refuse_key`](super::Limiter::refuse_key).
    RefusedKey,
    /// Proved never to have left. The place is spent all the same: during an outage it keeps even a loop that has
    /// forgotten to wait within the limit, and costs nothing but a slower first minute afterwards.
    NotSent,
    /// Given up without an answer: the slot lingers for a grace time.
    TimedOut,
}

/// What changed, for the caller to log and to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A hold was set (`quota.hold`). [`Kept`](super::Kept) has changed.
    HoldStarted(Hold),
    /// Other software uses the account: our part shrank (`quota.share`). [`Kept`](super::Kept) has changed.
    ShareShrunk {
        /// What is left of our part, in thousandths.
        permille: u32,
        /// Places that may be held from now on.
        limit: u32,
        /// Places that were held when the service refused: our own count.
        held: u32,
    },
    /// Our part is whole again (`quota.share`).
    ShareRecovered,
    /// So many answers of 400 in 24 h that bulk pushes stop.
    SoftLine {
        /// Answers counted.
        count: u32,
    },
    /// So many that every operation that has answered 400 stops.
    HardLine {
        /// Answers counted.
        count: u32,
    },
    /// The service throttles us for bad requests: only reads until then. [`Kept`](super::Kept) has changed.
    LedgerFull {
        /// When writes may go again.
        until: Timestamp,
    },
}
