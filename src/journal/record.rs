//! The records of the journal: begin and end of an exchange, end of a run.

use super::body::DigestedBody;
use crate::model::{Lane, Moment, Operation, RunId, Timestamp, code_enum};

/// An exchange about to be sent.
///
/// Committed before the first byte leaves, because after a crash only a recorded call can be checked.
#[derive(Clone, Debug)]
pub(crate) struct ExchangeBegin<'a> {
    pub run_id: RunId,
    pub operation: Operation,
    pub target: String,
    /// The lane (priority class) of its reservation.
    pub(crate) lane: Lane,
    /// The body, if the operation has one.
    pub body: Option<&'a [u8]>,
    pub sent_at: Timestamp,
    /// The time of sending since boot.
    pub sent_moment: Moment,
}

#[derive(Clone, Debug)]
pub(crate) struct ExchangeEnd<'a> {
    pub outcome: ExchangeOutcome,
    /// The HTTP status, if an answer came.
    pub status: Option<u16>,
    /// The answer's bytes, kept for accepted answers and for those that need an explanation.
    pub body: Option<DigestedBody<'a>>,
    pub message: Option<&'a str>,
    /// The calendar time of the answer.
    pub answered_at: Timestamp,
    /// The time of the answer since boot; the call's reservation is free 60 s later.
    pub answered_moment: Moment,
}

code_enum! {
    /// The end of an exchange; the journal's code for the client's verdict.
    pub(crate) enum ExchangeOutcome {
        /// The call succeeded and its answer is plausible.
        Accepted = "accepted",
        /// The platform refused the content for good.
        Rejected = "rejected",
        /// The platform told the client to wait.
        Throttled = "throttled",
        Refused = "refused",
        Transient = "transient",
        /// No byte of the request left the host.
        NotSent = "not_sent",
        InDoubt = "in_doubt",
        /// The daemon ended before the answer came.
        Interrupted = "interrupted",
    }
}

code_enum! {
    pub enum RunOutcome {
        /// The run did all its work.
        Ok = "ok",
        /// The run did part of its work; the rest is still due.
        Partial = "partial",
        /// The run did nothing, or nothing reliable.
        Failed = "failed",
        /// The daemon ended during the run.
        Interrupted = "interrupted",
    }
}
