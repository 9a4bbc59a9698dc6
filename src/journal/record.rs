//! The records of the journal: how an exchange begins, how it ends, how a run ends.

use super::body::Named;
use crate::model::{Lane, Moment, Operation, RunId, Timestamp};

/// An exchange about to be sent. It is committed before the first byte leaves: what was never written cannot be
/// asked about after a crash.
#[derive(Clone, Debug)]
pub struct Begun<'a> {
    /// The run it belongs to.
    pub run_id: RunId,
    /// What is called.
    pub operation: Operation,
    /// Path and query, as sent.
    pub target: String,
    /// In whose lane the place was taken.
    pub lane: Lane,
    /// The body, if the operation has one.
    pub body: Option<&'a [u8]>,
    /// When, in the calendar.
    pub sent_at: Timestamp,
    /// When, since boot.
    pub sent_moment: Moment,
}

/// What came of an exchange.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    /// The judgement.
    pub outcome: Outcome,
    /// The HTTP status, if an answer came.
    pub status: Option<u16>,
    /// The answer's bytes; kept for accepted answers and for those that need explaining.
    pub body: Option<Named<'a>>,
    /// What went wrong, in words.
    pub message: Option<&'a str>,
    /// When, in the calendar.
    pub answered_at: Timestamp,
    /// When, since boot: the call's place in the quota is free 60 s later.
    pub answered_moment: Moment,
}

macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant),+ }

        impl $name {
            /// The word in the tables.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

words! {
    /// How an exchange ended; the journal's word for the client's verdict.
    Outcome {
        /// Done, and the answer makes sense.
        Accepted = "accepted",
        /// Refused for good, for this content.
        Rejected = "rejected",
        /// Told to wait.
        Throttled = "throttled",
        /// The key is refused.
        Refused = "refused",
        /// It may be tried again.
        Transient = "transient",
        /// No byte of it left the host.
        NotSent = "not_sent",
        /// Sent, outcome unknown.
        InDoubt = "in_doubt",
        /// The daemon ended before the answer came.
        Interrupted = "interrupted",
    }
}

words! {
    /// How a run ended.
    RunOutcome {
        /// Everything it set out to do.
        Ok = "ok",
        /// Some of it; the rest is still due.
        Partial = "partial",
        /// Nothing of it, or nothing that may be trusted.
        Failed = "failed",
        /// The daemon ended in the middle of it.
        Interrupted = "interrupted",
    }
}
