//! Outcome of a call, and the changes that the limiter derives from it.

use super::hold::Hold;
use crate::model::Timestamp;
use std::time::Duration;

/// Outcome of a call as far as the quota is concerned.
///
/// The call's reservation lasts another 60 s after every outcome (docs/rules.md 30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaOutcome {
    /// Any other answer: a success, a 404, a 500, an unreadable body.
    Answered,
    /// 400: counted in the bad-request budget.
    BadRequest,
    /// 429 with `Retry-After`: the whole account waits for that time.
    ///
    /// The wait is at least a second and at most a day. For an unreadable header the client passes 60 s
    /// (docs/rules.md 31).
    RateThrottled(Duration),
    /// 429 without `Retry-After`: the operation waits.
    ConcurrencyThrottled,
    /// 403 with `Retry-After`: the account waits for that time, and the bad-request budget is exhausted for a
    /// day.
    BadRequestThrottled(Duration),
    /// 403 without `Retry-After`: the key is refused at once, unless the path carries an id.
    ///
    /// The id may be at fault instead (docs/rules.md 34). The caller then makes a work-queue call and reports
    /// with [`refuse_key`](super::Limiter::refuse_key).
    RefusedKey,
    /// Proved not sent.
    ///
    /// The reservation lasts nevertheless. During an outage the quota then bounds even a loop without
    /// backoff, at the cost of a slower first minute afterwards.
    NotSent,
    /// Given up without an answer: the slot lingers for a grace time.
    TimedOut,
}

/// A change that the caller logs and stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimiterEvent {
    /// A hold was set (`quota.hold`). [`LimiterState`](super::LimiterState) has changed.
    HoldStarted(Hold),
    /// Other software uses the account, and the adaptive limit fell (`quota.share`). [`LimiterState`](super::LimiterState)
    /// has changed.
    LimitReduced {
        /// The adaptive limit, in thousandths of the configured part.
        permille: u32,
        /// Reservations allowed from now on.
        limit: u32,
        /// Own reservations at the refusal.
        reservations: u32,
    },
    /// The adaptive limit is back at the configured part (`quota.share`).
    LimitRecovered,
    /// The answers of 400 in 24 h reached the soft threshold: bulk pushes stop.
    SoftThreshold {
        /// Answers counted.
        count: u32,
    },
    /// The answers of 400 reached the hard threshold: every operation that was answered 400 stops.
    HardThreshold {
        /// Answers counted.
        count: u32,
    },
    /// The platform throttles us for bad requests: only reads are sent. [`LimiterState`](super::LimiterState) has changed.
    BudgetExhausted {
        /// Time at which writes may be sent again.
        until: Timestamp,
    },
}
