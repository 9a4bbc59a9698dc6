//! Reads with several attempts, for a run and in a lane. A read that is useless to repeat fails at once.

use super::call::{AnsweredExchange, reply_message};
use super::quarantine::FailureCause;
use super::{JobContext, JobError};
use crate::client::wire::MalformedBody;
use crate::client::{CallReply, PlatformRequest, Verdict};
use crate::model::{ExchangeId, Lane, Moment, Operation, RetryDelays, RunId, Timestamp};

/// Attempts at a read within a run. If three of four answers fail, one read in thirty is given up; the next
/// run reads it first.
pub(crate) const READ_ATTEMPTS: usize = 12;
/// Attempts at a preflight, a check, or a quarantined entry. They are few, so that a failing order or shipment does
/// not delay the others.
pub(crate) const PREFLIGHT_ATTEMPTS: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct TimedRead<T> {
    /// Exchange of the read; of several pages the first.
    pub(crate) exchange: ExchangeId,
    /// Time at which the first request was sent.
    pub(crate) sent_at: Timestamp,
    /// The time since boot of that request.
    pub(crate) sent_moment: Moment,
    pub(crate) records: T,
}

impl<T> TimedRead<T> {
    pub(crate) fn from_answer(answer: &AnsweredExchange, records: T) -> Self {
        Self { exchange: answer.id, sent_at: answer.sent_at, sent_moment: answer.sent_moment, records }
    }

    /// Returns stored records, without an exchange or a time.
    pub(crate) fn of_stored(records: T) -> Self {
        Self { exchange: ExchangeId(0), sent_at: Timestamp(0), sent_moment: Moment(0), records }
    }

    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> TimedRead<U> {
        let Self { exchange, sent_at, sent_moment, records } = self;
        TimedRead { exchange, sent_at, sent_moment, records: convert(records) }
    }

    pub(crate) fn with_records<U>(self, records: U) -> TimedRead<U> {
        self.map(|_| records)
    }
}

/// Origin of a read: run and priority class.
#[derive(Clone, Copy)]
pub(crate) struct ReadOrigin<'a> {
    pub(crate) context: &'a JobContext,
    pub(crate) run: RunId,
    pub(crate) lane: Lane,
}

impl ReadOrigin<'_> {
    /// Reads with at most so many attempts, and decodes the answer. The caller records it.
    pub(crate) async fn read_decoded<T>(
        self,
        attempts: usize,
        what: &str,
        request: &PlatformRequest,
        decode: impl Fn(&[u8]) -> Result<T, MalformedBody>,
    ) -> Result<(AnsweredExchange, T), JobError> {
        let answer = self.read_within(attempts, what, request).await?;
        let decoded = self.context.decode_or_ignore(&answer, decode(&answer.reply.body)).await?;
        Ok((answer, decoded))
    }

    /// Reads with at most so many attempts. The caller records only the end of the returned answer, which is
    /// accepted, or a 404 that the operation documents as its answer.
    pub(crate) async fn read_within(
        self,
        attempts: usize,
        what: &str,
        request: &PlatformRequest,
    ) -> Result<AnsweredExchange, JobError> {
        let context = self.context;
        let mut delays = RetryDelays::page_retry().take(attempts.saturating_sub(1));
        loop {
            let answer = context.read_once(self.run, self.lane, request.clone()).await?;
            match answer.reply.verdict {
                Verdict::Accepted => return Ok(answer),
                Verdict::Rejected { status: 404 } if request.operation == Operation::WarehouseAllocation => {
                    return Ok(answer);
                }
                _ => {}
            }
            context.exchange_end_ignored(&answer).await?;
            context.check_permanent(self.run, what, &answer.reply).await?;
            if matches!(answer.reply.verdict, Verdict::Throttled(_)) {
                continue;
            }
            match delays.next() {
                Some(delay) => context.pause_or_stop(delay).await?,
                None => {
                    return Err(JobError::GivenUp { what: what.into(), why: reply_message(&answer.reply) });
                }
            }
        }
    }
}

impl JobContext {
    /// Fails if a repetition of the request is useless.
    pub(crate) async fn check_permanent(
        &self,
        run: RunId,
        what: &str,
        reply: &CallReply,
    ) -> Result<(), JobError> {
        let cause = self.classify_failure(run, reply).await?;
        let (what, why) = (what.to_owned(), reply_message(reply));
        match (reply.verdict, cause) {
            (Verdict::Rejected { .. }, FailureCause::Entry) => Err(JobError::Rejected { what, why }),
            (Verdict::Rejected { .. }, _) => Err(JobError::GivenUp { what, why }),
            _ => Ok(()),
        }
    }
}
